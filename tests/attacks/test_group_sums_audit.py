"""Groups in private estimators: the privacy loss of whole fits, computed from their exact sums.

A fit is a sequence of Gaussian releases of exact sums. It runs on one data set, then on its
neighbour with the first one's outputs put in the place of its own, so that both ask for the same
releases. The loss of the fit is then Gaussian with mu^2 = sum of |difference|^2 / sigma^2. The
first outputs have seeded noise, so that nothing is left to chance.
"""

import math
import threading

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.far_from_zero import FarFromZero
from _support.internals import (
    PlacedRows,
    divide_by_group_size,
    divide_by_root_of_group_size,
    placed,
    streamed_sums,
)
from _support.planted import plant
from _support.private_estimators import BOXES, CLASSES, ROWS, of_all_records
from skdpbo.exceptions import BudgetExceededError
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.mechanisms import GaussianMechanism, noise_source
from skdpbo.preprocessing import DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpbo.privacy import PrivacyLedger

# So few groups show no category.
pytestmark = pytest.mark.filterwarnings("ignore::skdpbo.exceptions.HiddenColumnsWarning")
N_GROUPS, WIDTH = 60, 256
RNG = np.random.default_rng(5)
SIZES = RNG.integers(1, 6, N_GROUPS)
SIZES[0] = 300  # alone, it is longer than a batch
GROUPS = np.repeat(np.arange(N_GROUPS), SIZES)
X = RNG.uniform(-1, 1, (len(GROUPS), 2))
Y = np.sign(X[:, 0] + 0.3 * RNG.normal(size=len(X)))

GP = {"inducing_points": 5, **BOXES}
ESTIMATORS = of_all_records() | {
    "logistic by curvature": DPLogisticRegression(epsilon=1e4, **CLASSES),
    "balanced logistic": DPLogisticRegression(class_weight="balanced", **CLASSES),
    "process with a mean": DPSparseGPRegressor(prior_mean="private", **GP),
    "process with COINPRESS": DPSparseGPRegressor(prior_mean="private", y_scale=0.5, **GP),
    "published process": DPSparseGPRegressor(RBF(1.0), noise_variance=0.1, release="kernel", **GP),
    "range far from zero": FarFromZero(epsilon=20.0),
    "medians": DPSimpleImputer(strategy="median", **ROWS),
}


def with_group(size, side):
    """Another group in the place of group 0: `size` records at one side, or records of all kinds.

    Some of the values are beyond the bounds, where they are clipped.
    """
    kept = GROUPS > 0
    if side == 0:
        rows, targets = RNG.uniform(-2, 2, (size, 2)), RNG.choice([-1.0, 1.0], size)
    else:
        rows, targets = np.tile([[side, -5.0 * side]], (size, 1)), np.full(size, float(side))
    table = np.vstack([rows, X[kept]]), np.append(targets, Y[kept])
    return *table, np.append(np.zeros(size), GROUPS[kept])


NEIGHBOURS = [with_group(300, 1), with_group(300, -1), with_group(1, -1), with_group(40, 0)]


def fit(estimator, rows, targets, groups):
    if isinstance(estimator, DPOneHotEncoder):  # every category occurs in all data sets
        rows = np.array(["ab", "cd"])[(rows > 0).astype(int)]
    elif "classes" in estimator.get_params():
        targets = (targets > 0).astype(int)
    return estimator.fit(rows, targets, groups=groups)


RELEASE = GaussianMechanism.release


def losses_of_fit(monkeypatch, estimator, data, *neighbours):
    """Return mu of the fit on a data set and each neighbour, along the outputs of the first.

    In units of the mu that is stated.
    """
    transcript = []

    def kept(mechanism, values, source=None):
        output = RELEASE(mechanism, values, noise_source(len(transcript)))
        transcript.append((mechanism, np.asarray(values), output))
        return output

    monkeypatch.setattr(GaussianMechanism, "release", kept)
    fit(estimator, *data)
    stated = estimator.privacy_guarantee(groups=True).mu
    losses = []
    for neighbour in neighbours:
        replay, squares = iter(transcript), []

        def replayed(mechanism, values, source=None, replay=replay, squares=squares):
            same, other, output = next(replay)
            # The noise does not depend on the sizes.
            assert (mechanism.sigma, mechanism.step) == (same.sigma, same.step)
            change = np.linalg.norm((np.asarray(values) - other).astype(float)) * mechanism.step
            squares.append((change / mechanism.sigma) ** 2)
            return output

        monkeypatch.setattr(GaussianMechanism, "release", replayed)
        fit(estimator, *neighbour)
        assert next(replay, None) is None
        losses.append(math.sqrt(sum(squares)) / stated)
    return losses


@pytest.mark.parametrize("name", ESTIMATORS)
class TestLoss:
    @pytest.mark.quick_cases(3)
    def test_a_replaced_group_loses_what_is_stated(self, monkeypatch, name):
        assert 0.05 < max(losses_of_fit(monkeypatch, ESTIMATORS[name], *NEIGHBOURS)) <= 1

    @pytest.mark.slow
    def test_planted_groups_that_count_by_their_rows_lose_more(self, monkeypatch, name):
        plant(monkeypatch, "private estimators: a group counts by its rows")
        assert max(losses_of_fit(monkeypatch, ESTIMATORS[name], *NEIGHBOURS)) > 1.5

    @pytest.mark.slow
    def test_records_of_a_group_that_are_alike_count_as_one_record(self, monkeypatch, name):
        """Sums over groups of equal records are those over single ones, but for truncation."""
        first = np.unique(GROUPS, return_index=True)[1]
        single = X[first], Y[first], GROUPS[first]
        many = X[first][GROUPS], Y[first][GROUPS], GROUPS
        (loss,) = losses_of_fit(monkeypatch, ESTIMATORS[name], single, many)
        assert loss < 1e-2


class TestPlaces:
    """Rounding depends on the place of a record in its batch; see `place_batches`."""

    @pytest.mark.parametrize("data", NEIGHBOURS)
    def test_the_place_of_a_record_depends_on_its_number_and_rank(self, data):
        rows, _, groups = data
        codes = groups.astype(np.intp)
        ranks = np.array([np.count_nonzero(codes[:i] == code) for i, code in enumerate(codes)])
        table = PlacedRows(np.column_stack([rows, codes, ranks]), codes)
        filled = np.flatnonzero(table.sizes < 2**59)
        found, rank = table[filled][:, 2:].astype(int).T
        assert table.width == WIDTH
        assert len(table) % table.width == 0
        assert np.array_equal(filled % WIDTH, (found * 161 + rank) % WIDTH)
        assert np.array_equal(table.sizes[filled], np.bincount(codes)[found])
        assert sorted(zip(found, rank, strict=True)) == sorted(zip(codes, ranks, strict=True))
        assert np.array_equal(
            table[filled][:, :2], rows[placed(table, np.arange(len(rows)))[filled]]
        )

    def test_all_blocks_are_as_wide(self, monkeypatch):
        lengths = set()
        getitem = PlacedRows.__getitem__

        def noted(table, rows):
            block = getitem(table, rows)
            lengths.add(len(block))
            return block

        monkeypatch.setattr(PlacedRows, "__getitem__", noted)
        for name in ("logistic", "ridge", "regressor", "ranges"):
            fit(ESTIMATORS[name], *NEIGHBOURS[3])
        assert lengths == {WIDTH}


class TestSharing:
    @pytest.mark.parametrize("divide", [divide_by_group_size, divide_by_root_of_group_size])
    def test_shares_of_a_group_add_to_at_most_one_record(self, divide):
        power = 2 if divide is divide_by_root_of_group_size else 1
        units = np.concatenate([RNG.integers(-(2**20), 2**20, (500, 3)), np.full((12, 3), 2**20)])
        for size in (1, 2, 3, 7, 49, 1000, 2**60):
            sizes = np.full(len(units), size)
            parts = divide(units.astype(float), sizes, slice(None)).astype(np.int64)
            for part, whole in zip(parts.ravel().tolist(), units.ravel().tolist(), strict=True):
                bound, size_of = abs(whole) ** power, abs(part) ** power
                assert size * size_of <= bound < size * (abs(part) + 1) ** power
                assert part * whole >= 0

    def test_no_groups_change_nothing(self):
        units = RNG.integers(-9, 9, (5, 2))
        assert divide_by_group_size(units, None, slice(None)) is units
        assert divide_by_root_of_group_size(units, None, slice(None)) is units


class TestInput:
    """Labels are checked before the charge and read after it; sizes are in no message."""

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_sizes_are_not_shown(self, name):
        model = fit(ESTIMATORS[name], *NEIGHBOURS[0])
        assert model.privacy_.neighbours == "one group replaced"
        assert model.privacy_.n_protected == model.n_records_ == N_GROUPS
        n = len(NEIGHBOURS[0][0])
        assert str(n) not in str(model.privacy_)
        assert n not in [v for v in vars(model).values() if isinstance(v, int)]

    @pytest.mark.parametrize("labels", [GROUPS[:-1], GROUPS[:, None], [1, 2, 3]])
    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_a_wrong_shape_costs_nothing(self, name, labels):
        refused = pytest.raises(ValueError, match="groups must have one")
        with PrivacyLedger(epsilon=2e4, delta=1e-4) as ledger, refused as caught:
            fit(ESTIMATORS[name], X, Y, labels)
        assert not ledger.entries
        assert not any(character.isdigit() for character in str(caught.value))

    def test_another_length_of_y_is_not_stated(self):
        for name in ("logistic", "ridge", "regressor", "classifier"):
            with pytest.raises(ValueError, match="y must have one entry for each row of X"):
                fit(ESTIMATORS[name], X, Y[:-1], GROUPS)

    def test_labels_are_read_after_the_charge(self):
        class ReadError(Exception):
            pass

        class Labels(list):
            def __iter__(self):
                raise ReadError

        with PrivacyLedger(epsilon=1.0, delta=1e-4) as ledger:
            with pytest.raises(ReadError):
                DPStandardScaler(**ROWS).fit(X, groups=Labels(GROUPS))
            with pytest.raises(BudgetExceededError):
                DPStandardScaler(**ROWS).fit(X, groups=Labels(GROUPS))
        assert len(ledger.entries) == 1

    def test_missing_labels_are_groups_of_their_own(self):
        labels = [None, float("nan"), [], *"aab"]
        scaler = DPStandardScaler(**ROWS).fit(X[:6], groups=labels)
        assert scaler.n_records_ == 5


class NotedThreads:
    """Lattice rows that note which threads compute them."""

    radius, width = 1, 1

    def __init__(self):
        self.threads = set()

    def workspace(self, n_rows):
        return None

    def __call__(self, rows, targets, workspace):
        self.threads.add(threading.current_thread())
        return np.zeros((len(rows), self.width))


def in_own_threads(n_groups, *further):
    """Whether two jobs have threads of their own, where BLAS has one; of groups of one record."""
    codes, rows = np.append(np.arange(n_groups), further).astype(np.intp), NotedThreads()
    table = PlacedRows(np.zeros((len(codes), 1)), codes)
    streamed_sums(rows, table, table, rows.radius, chunk_size=10, n_jobs=2)
    return threading.current_thread() not in rows.threads


@pytest.mark.parametrize("n_groups", [2, 256, 257, 5000])
def test_the_size_of_a_group_does_not_decide_how_many_threads_round(n_groups):
    assert in_own_threads(n_groups)
    assert in_own_threads(n_groups, *[0] * 500)
