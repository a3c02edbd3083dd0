"""Attacks on sample and aggregate: what one record, of those that train, can move in a release.

The worst pair of data sets: one record turns the model of its chunk from always right to always
wrong, and is itself wrong under the other models. Bounds hold with probability 1 - 1e-6 (false
alarms); each planted bug is caught by the same test.
"""

import io
import math
import pickle
import sys
import time
import warnings
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import Ridge

from _support.bounds import epsilon_at_least
from _support.evaluators import chunk_training
from _support.internals import ChunkedRows, chunk_positions, resolve_scorer
from _support.noted import note_written_arrays
from _support.planted import original, plant, put
from _support.repeated import RepeatedRelease
from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.audit import normal_mu_bound
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import Chunks

pytestmark = pytest.mark.filterwarnings("ignore:n_chunks=")  # few rows make the worst pairs

FALSE_ALARM = 1e-6
N, K = 6, 3
ALL = {"protect": Chunks(K, excess_bound=None)}
slow = partial(pytest.param, marks=pytest.mark.slow)
RECORD = chunk_positions(N, K)[0][0]
CLEAN = np.zeros((N, 1)), np.zeros(N, dtype=int)
DIRTY = np.zeros((N, 1)), np.zeros(N, dtype=int)
DIRTY[0][RECORD] = 1.0
VALIDATION = {"X_val": np.zeros((2, 1)), "y_val": np.zeros(2, dtype=int)}


class Switch(ClassifierMixin, BaseEstimator):
    """Right on even records, unless it is trained on an odd one; ``honest=0``: only then."""

    def __init__(self, honest=1):
        self.honest = honest

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.right_ = (np.asarray(X).sum() % 2 == 0) == bool(self.honest)
        return self

    def predict(self, X):
        # The odd record itself is an error of the honest, and of them alone.
        odd = np.asarray(X)[:, 0] % 2 == 1
        return np.where(odd, self.honest, np.where(self.right_, 0, 1))


class Fast(RepeatedRelease):
    """Losses are computed once a data set: neither they nor the rest of a fit take coins.

    `test_whole_fits_release_what_the_audited_ones_do` shows it.
    """

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, "chunk training: ChunkTraining.release")
        place = "chunk training: ChunkTraining.losses"
        self.honest, self.known = original(place), {}
        put(monkeypatch, place, lambda *args: self.losses(*args))
        put(monkeypatch, "chunks: dry_run", lambda *args: [])

    def losses(self, training, candidates):
        rows = training.rows
        key = rows.X.tobytes(), rows.X_val is None, str(candidates)
        if key not in self.known:
            self.known[key] = self.honest(training, candidates)
        return self.known[key]


@pytest.fixture
def fast(monkeypatch):
    return Fast(monkeypatch)


def audit(n, fast, *, held_out=False, **params):
    """Lower bound on the epsilon of a fit, and what it claims."""
    search = DPGridSearchCV(Switch(), {"honest": [1, 0]}, **{**ALL, **params})
    validation = VALIDATION if held_out else {}
    counts = []
    for X, y in (DIRTY, CLEAN):
        search.fit(X, y, **validation)
        released = (fast.again() for _ in range(n))
        hits = (index == 1 and (not score or score.value > 0.25) for index, score in released)
        counts.append(sum(hits))
    return epsilon_at_least(*counts, n), search.privacy_.epsilon


def one_loss(monkeypatch):
    plant(monkeypatch, "chunks: a record moves its own loss alone")


def one_clip(monkeypatch):
    plant(monkeypatch, "chunks: the excess moves as one loss does")


def one_chunk_of_losses(monkeypatch):
    plant(monkeypatch, "chunks: a record moves as many losses as its chunk has rows")


def one_stream(monkeypatch):
    """One reproducible stream for all fits: a planted bug is caught always or never."""
    stream = noise_source(np.random.RandomState(0))
    put(monkeypatch, "chunks: noise_source", lambda random_state: stream)


def release_without_noise(monkeypatch):
    plant(monkeypatch, "integers are released without noise")


class TestWorstPair:
    def test_the_pair_is_the_worst(self, fast):
        search = DPGridSearchCV(Switch(), {"honest": [1, 0]}, **ALL)
        for data in (CLEAN, DIRTY):
            search.fit(*data)
        (clean, dirty) = (np.sum(losses, axis=1) for losses in fast.known.values())
        # B (n - n/k + k - 1) = 6 of 12 losses
        assert dirty[0] - clean[0] == clean[1] - dirty[1] == 6

    @pytest.mark.parametrize(
        ("held_out", "mechanism"),
        [
            (False, "permute_and_flip"),
            (True, "exponential"),
            slow(False, "exponential"),
            slow(True, "permute_and_flip"),
        ],
    )
    def test_choice(self, mechanism, held_out, fast):
        bound, claim = audit(
            400, fast, mechanism=mechanism, held_out=held_out, epsilon=3.0, score_fraction=0.0
        )
        # With a validation part of its own this pair is not the worst, and hardly distinguished.
        assert bound <= claim
        assert held_out or bound > 0.1 * claim

    @pytest.mark.parametrize(("excess_bound", "least"), [(1.0, 0.1), slow(0.05, -1.0)])
    def test_choice_by_clipped_excess(self, excess_bound, least, fast):
        chunks = Chunks(K, excess_bound=excess_bound)
        bound, claim = audit(400, fast, protect=chunks, epsilon=4.0, score_fraction=0.0)
        assert least * claim < bound <= claim

    @pytest.mark.parametrize("bug", [one_clip, slow(one_loss)])
    def test_bugs_of_the_excess_are_caught(self, bug, fast, monkeypatch):
        one_stream(monkeypatch)
        bug(monkeypatch)
        chunks = Chunks(K, excess_bound=1.0)
        bound, claim = audit(400, fast, protect=chunks, epsilon=1.5, score_fraction=0.0)
        assert bound > claim

    def test_choice_and_score(self, fast):
        bound, claim = audit(500, fast, epsilon=3.0, score_fraction=0.5)
        assert 0.1 * claim < bound <= claim

    @pytest.mark.parametrize(
        ("bug", "n", "params"),
        [
            (one_loss, 300, {"epsilon": 1.0, "score_fraction": 0.5}),
            slow(one_loss, 300, {"epsilon": 1.0, "score_fraction": 0.0}),
            (one_chunk_of_losses, 400, {"epsilon": 1.0, "score_fraction": 0.0}),
            slow(release_without_noise, 400, {"epsilon": 1.0, "score_fraction": 0.9}),
        ],
    )
    def test_bugs_are_caught(self, bug, n, params, fast, monkeypatch):
        one_stream(monkeypatch)
        bug(monkeypatch)
        bound, claim = audit(n, fast, **params)
        assert bound > claim


class TestMetricOfChunks:
    """Two chunks, of two rows that train and one that scores: one record turns one number."""

    METRIC = {"scoring": "balanced_accuracy", "score_fraction": 0.0, "epsilon": 3.0}

    @pytest.mark.parametrize("excess_bound", [None, slow(1.0)])
    def test_choice(self, excess_bound, fast):
        bound, claim = audit(300, fast, protect=Chunks(2, excess_bound=excess_bound), **self.METRIC)
        assert 0.1 * claim < bound <= claim

    @pytest.mark.parametrize("excess_bound", [None, slow(1.0)])
    def test_bug_is_caught(self, excess_bound, fast, monkeypatch):
        one_stream(monkeypatch)
        plant(monkeypatch, "chunk training: a third of the sensitivity")
        chunks = Chunks(2, excess_bound=excess_bound)
        bound, claim = audit(300, fast, protect=chunks, **{**self.METRIC, "epsilon": 1.0})
        assert bound > claim


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("data", "validation", "params", "least"),
    [
        (CLEAN, {}, {"score_fraction": 0.5}, 6),
        (DIRTY, {}, {"score_fraction": 0.5}, 6),
        (DIRTY, {}, {"score_fraction": 0.5, "protect": Chunks(K, excess_bound=1.0)}, 6),
        (DIRTY, VALIDATION, {"score_fraction": 0.5, "mechanism": "exponential"}, 6),
        (DIRTY, {}, {**TestMetricOfChunks.METRIC, "protect": Chunks(2), "epsilon": 1.0}, 1),
    ],
)
def test_whole_fits_release_what_the_audited_ones_do(data, validation, params, least, monkeypatch):
    """The audits repeat releases: with the same coins, nothing differs if whole fits are made."""
    search = DPGridSearchCV(Switch(), {"honest": [1, 0]}, **{**ALL, "epsilon": 3.0, **params})
    whole, seeds = [], range(12)
    for seed in seeds:
        stream = noise_source(np.random.RandomState(seed))
        put(monkeypatch, "chunks: noise_source", lambda random_state, stream=stream: stream)
        search.fit(*data, **validation)
        whole.append((search.best_index_, getattr(search, "best_score_", None)))
    assert len(set(whole)) > least  # the coins matter
    fast = Fast(monkeypatch)
    search.fit(*data, **validation)
    again = (fast.again(noise_source(np.random.RandomState(seed))) for seed in seeds)
    assert [(index, score.value if score else None) for index, score in again] == whole


def gaussian_mu(n):
    """Lower bound on mu from the released scores of neighbours, and the claim."""
    search = DPBayesSearchCV(
        Switch(), {"honest": [1, 0]}, mechanism="gaussian", n_iter=2, epsilon=1.0, **ALL
    )
    sums = []
    for X, y in (CLEAN, DIRTY):
        scores = []
        for _ in range(n):
            search.fit(X, y)
            values = dict(
                zip(
                    (params["honest"] for params in search.cv_results_["params"]),
                    search.cv_results_["private_validation_score"],
                    strict=True,
                )
            )
            scores.append(values[1] - values[0])
        sums.append(scores)
    # Normal: with one loss mu is 1.6 in truth, and 150 fits miss it once in a million.
    return normal_mu_bound(*sums, false_alarm=FALSE_ALARM), search.privacy_.mu


@pytest.mark.slow
@pytest.mark.usefixtures("fast")
class TestGaussian:
    def test_scores(self):
        bound, claim = gaussian_mu(150)
        assert bound <= claim

    def test_one_loss_is_caught(self, monkeypatch):
        one_stream(monkeypatch)
        one_loss(monkeypatch)
        bound, claim = gaussian_mu(150)
        assert bound > claim


FLOATS = [0.7316520948315577, -3.1938847291045533, 8.417720663901247]
TEXT = "S3cr3tPatientName"
RNG = np.random.RandomState(0)
ROWS = RNG.normal(size=(24, 2)).tolist()
ROWS[2][1], ROWS[5] = FLOATS[0], [TEXT, FLOATS[1]]
TARGETS = RNG.normal(size=24).tolist()
TARGETS[3], TARGETS[7] = FLOATS[2], TEXT


class Talker(RegressorMixin, BaseEstimator):
    """Ridge that tells everybody what it sees and fails on what is not a number, quoting it."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        rows = f"{np.asarray(X, dtype=object).tolist()} {y}"
        print(rows)
        print(rows, file=sys.stderr)
        warnings.warn(f"trained on {rows}", stacklevel=2)
        self.seen_ = rows
        self.model_ = Ridge(alpha=self.alpha).fit(np.asarray(X, float), np.asarray(y, float))
        return self

    def predict(self, X):
        warnings.warn(f"predicting {np.asarray(X, dtype=object).tolist()}", stacklevel=2)
        if not np.isfinite(np.asarray(X, dtype=float)).all():
            # A list: numpy's layout of a table of objects would take a third of the test.
            raise ValueError(f"cannot predict {np.asarray(X, dtype=object).tolist()}")
        return self.model_.predict(np.asarray(X, float))


SEARCHES = {
    "grid": lambda **k: DPGridSearchCV(Talker(), {"alpha": [0.1, 10.0]}, **k),
    "randomized": lambda **k: DPRandomizedSearchCV(Talker(), {"alpha": (0.1, 9.0)}, n_iter=3, **k),
    "bayes": lambda **k: DPBayesSearchCV(Talker(), {"alpha": (0.1, 9.0)}, n_iter=3, **k),
    "gaussian": lambda **k: DPBayesSearchCV(
        Talker(), {"alpha": (0.1, 9.0)}, n_iter=3, mechanism="gaussian", **k
    ),
}


def traces(search, capfd, **fit):
    """Everything that a fit leaves: pictures of the object, output, warnings, log records."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(ROWS, TARGETS, **fit)
    stream = io.BytesIO()
    pickle.dump(search, stream)
    out = "".join(capfd.readouterr())
    messages = "".join(str(w.message) for w in caught)
    return repr(vars(search)) + search._repr_html_() + out + messages, stream.getvalue()


def found(text, data, exact=()):
    """Planted values, or exact results, in what a fit leaves."""
    numbers = [*FLOATS, *exact]
    in_text = [n for n in numbers if f"{n}" in text or f"{n:.8g}" in text or f"{n:.3f}" in text]
    in_data = [n for n in numbers if np.float64(n).tobytes() in data]
    return in_text + in_data + [TEXT] * (TEXT in text or TEXT.encode() in data)


class TestLeaks:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("name", SEARCHES)
    @pytest.mark.parametrize("layout", ["cross", "held out"])
    def test_nothing_protected(self, name, layout, capfd, monkeypatch):
        totals, honest = [], original("chunk training: ChunkTraining.losses")

        def listen(*args, **how):
            losses = honest(*args, **how)
            totals.extend(sum(of_models) for of_models in losses)
            totals.extend(loss for of_models in losses for loss in of_models)
            return losses

        put(monkeypatch, "chunk training: ChunkTraining.losses", listen)
        search = SEARCHES[name](**ALL, loss_bound=9.0, verbose=3)
        validation = {"X_val": ROWS[:6], "y_val": TARGETS[:6]} if layout == "held out" else {}
        text, data = traces(search, capfd, **validation)
        n_losses = (K - 1) * 24 if layout == "cross" else K * 6
        exact = [-9.0 * total / (n_losses * 2**20) for total in totals if total % 2**20]
        assert totals
        assert not found(text, data, exact)

    def test_planted_bugs_are_found(self, capfd, monkeypatch):
        search = SEARCHES["grid"](**ALL, loss_bound=9.0)
        train = original("chunk training: train")

        def keep(model, X, y, *args, **how):
            search.seen = X.tolist(), y
            return train(model, X, y, *args, **how)

        put(monkeypatch, "chunk training: train", keep)
        assert set(found(*traces(search, capfd))) >= {FLOATS[0], FLOATS[2]}

    def test_a_print_would_be_found(self, capfd, monkeypatch):

        plant(monkeypatch, "models' output comes through")
        assert TEXT in found(*traces(SEARCHES["grid"](**ALL, loss_bound=9.0), capfd))

    @pytest.mark.slow
    def test_workers(self, capfd):
        search = SEARCHES["grid"](**ALL, loss_bound=9.0, n_jobs=2)
        assert not found(*traces(search, capfd))


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
class TestVanishingBudget:
    """Same coins, hardly any budget: neighbours cannot be distinguished by anything at all."""

    def released(self, name, rows, targets):
        search = SEARCHES[name](**ALL, loss_bound=9.0, epsilon=1e-6, delta=1e-9, random_state=7)
        search.fit(rows, targets)
        columns = {
            key: np.asarray(value).tolist()
            for key, value in search.cv_results_.items()
            if key != "private_validation_score"
        }
        return search.best_index_, repr(columns), sorted(vars(search))

    def check(self, name, *records):
        expected = self.released(name, ROWS, TARGETS)
        for record in records:
            neighbour = [list(row) for row in ROWS]
            neighbour[0] = record
            assert self.released(name, neighbour, TARGETS) == expected

    @pytest.mark.slow
    @pytest.mark.parametrize("name", SEARCHES)
    def test_neighbours(self, name):
        self.check(name, [TEXT, None])

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "name", ["grid", *(pytest.param(n, marks=pytest.mark.slow) for n in [*SEARCHES][1:])]
    )
    def test_more_neighbours(self, name):
        self.check(name, [1e9, -1e9], [math.nan, 0.0])

    def test_a_choice_without_noise_is_found(self, monkeypatch):
        plant(monkeypatch, "chunks: the choice has no noise to speak of")
        search = DPGridSearchCV(Switch(), {"honest": [1, 0]}, epsilon=30.0, random_state=7, **ALL)
        X = np.zeros((N, 1))
        X[[chunk[0] for chunk in chunk_positions(N, K)]] = 1.0
        assert search.fit(*CLEAN).best_index_ != search.fit(X, CLEAN[1]).best_index_


class Drawing(ClassifierMixin, BaseEstimator):
    """Draws from numpy's global generator, as often as the first column of its rows says."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        for _ in range(1 + int(X[:, 0].sum())):
            time.sleep(0.001)  # other threads get their turn
            self.drawn_ = np.random.random()
        return self

    def predict(self, X):
        return (np.arange(len(X)) / len(X) < self.drawn_).astype(int)


class TestThreads:
    """The global generators are shared by threads, and must not join the chunks."""

    def losses(self, first):
        X, y = np.ones((16, 1)), np.zeros(16, dtype=int)
        X_val, y_val = np.zeros((64, 1)), np.zeros(64, dtype=int)
        rows = ChunkedRows(X, y, X_val, y_val, chunks=chunk_positions(16, 4))
        X[rows.chunks[0][0]] = first
        with parallel_config(backend="threading"):
            scorer = resolve_scorer("accuracy", Drawing())
            losses = chunk_training(Drawing(), rows, scorer, n_jobs=4).losses([{}] * 4)
        return np.array(losses)

    def test_a_record_moves_the_models_of_its_own_chunk_alone(self):
        differ = self.losses(first=0) != self.losses(first=9)
        assert differ[:, 0].all()
        assert not differ[:, 1:].any()

    def test_chunks_that_are_joined_are_found(self, monkeypatch):
        plant(monkeypatch, "candidates run at the same time")
        assert any((self.losses(first=0) != self.losses(first=9))[:, 1:].any() for _ in range(20))


@pytest.mark.slow
class TestTemporaryFiles:
    """joblib writes large arrays to disk for its workers: no protected ones."""

    def arrays_on_disk(self, monkeypatch, estimator):
        written = note_written_arrays(monkeypatch)
        X = np.random.RandomState(0).normal(size=(200_000, 2))
        search = DPGridSearchCV(estimator, {}, loss_bound=9.0, n_jobs=2, **ALL)
        search.fit(X, X[:, 0])
        return written

    def test_no_protected_row(self, monkeypatch):
        assert not self.arrays_on_disk(monkeypatch, Ridge())

    def test_they_are_found(self, monkeypatch):
        plant(monkeypatch, "joblib writes arrays to disk")
        assert self.arrays_on_disk(monkeypatch, Ridge())
