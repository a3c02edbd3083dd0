"""The curator: what it releases, what it answers, what it charges and what it says."""

import contextlib
import copy
import os
import pickle
import re
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from _support.forks import forking
from _support.hostile import Unseen
from _support.internals import random_projection
from _support.planted import original, put
from skdpbo.exceptions import (
    BudgetExceededError,
    DefaultBoundsWarning,
    SeededNoiseWarning,
    VoidGuaranteeWarning,
)
from skdpbo.gaussian_process import PrivateProjection
from skdpbo.gaussian_process.outsourced import Ball, Box
from skdpbo.mechanisms import GaussianMechanism, L2Laplace
from skdpbo.privacy import PrivacyLedger, compose, epsilon_from_mu

RNG = np.random.default_rng(0)  # public randomness
X, Y = RNG.uniform(-3, 3, (40, 2)), RNG.uniform(-1, 1, 40)
MECHANISMS = ("l2_laplace", "gaussian")


def curator(**parameters):
    return PrivateProjection(**{"data_norm": 5.0, **parameters})


def void(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VoidGuaranteeWarning)
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return call()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"mechanism": "gaussian"},
        {"n_components": 1},
        {"answer_epsilon": 1.0, "y_bounds": (-1, 1)},
        {"mechanism": "kharkovskii2020"},
    ],
    ids=str,
)
def test_check_estimator(parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(PrivateProjection(**parameters), on_skip=None, on_fail=None)
    assert len(results) > 35  # not those of transformers: there is no transform
    assert not {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}


def test_l2_laplace_rows_have_the_stated_law():
    X = np.tile([1.0, -2.0, 0.5], (4000, 1))
    release = curator(epsilon=2.0, displacement=0.5).fit(X).release_
    noise = np.linalg.norm(release.Z - X, axis=1)
    scale = 0.5 / 2.0
    assert stats.kstest(noise, stats.gamma(3, scale=scale).cdf).pvalue > 1e-6
    assert release.noise_std == pytest.approx(scale * 2.0, rel=1e-6)
    assert (release.Z - X).std() == pytest.approx(release.noise_std, rel=0.05)


def test_gaussian_rows_have_the_stated_law():
    X = np.tile([1.0, -2.0, 0.5], (4000, 1))
    release = curator(mechanism="gaussian", delta=1e-5).fit(X).release_
    noise = (release.Z - X).ravel()
    sigma = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0).sigma
    assert release.noise_std == pytest.approx(sigma, rel=1e-6)
    assert stats.kstest(noise / sigma, "norm").pvalue > 1e-6


def test_few_components_for_many_features():
    X = RNG.normal(size=(300, 60))
    made = curator(n_components=4, data_norm=10.0, epsilon=3.0).fit(X)
    release = made.release_
    assert release.Z.shape == (300, 4)
    norm = np.linalg.norm(release.projection, 2)
    assert release.noise_std == pytest.approx(norm / 3.0 * 5**0.5, rel=1e-6)
    np.testing.assert_allclose(made.exact_rows(X), X @ release.projection)
    assert release.domain.radius == pytest.approx(10.0 * norm)
    names = made.get_feature_names_out()
    assert names.tolist() == [f"privateprojection{i}" for i in range(4)]


def test_rows_are_put_into_their_domain():
    far = np.array([[30.0, 40.0], [0.3, 0.4]])
    np.testing.assert_allclose(curator().fit(far).exact_rows(far), [[3.0, 4.0], [0.3, 0.4]])
    boxed = PrivateProjection(X_bounds=([-1, 0], [1, 2])).fit(far)
    np.testing.assert_allclose(boxed.exact_rows(far), [[1.0, 2.0], [0.3, 0.4]])
    assert boxed.release_.domain == Box((-1.0, 0.0), (1.0, 2.0))
    assert boxed.release_.data_norm == pytest.approx(5**0.5)
    assert curator().fit(far).release_.domain == Ball(5.0)


def test_exact_rows_have_no_noise_and_the_release_has():
    made = curator()
    Z = made.fit_transform(X, Y)
    np.testing.assert_array_equal(Z, made.release_.Z)
    np.testing.assert_array_equal(made.exact_rows(X), X)
    assert np.abs(Z - X).mean() > 0.5
    assert np.abs(made.fit(X).release_.Z - Z).mean() > 0.5  # a second release has other noise


def test_answers_are_given_as_often_as_agreed():
    made = curator(answers_per_row=2, n_answers=3).fit(X, Y)
    assert [made.answer(3), made.answer(np.int64(3))] == [Y[3], Y[3]]
    with pytest.raises(RuntimeError, match="Row 3 was answered 2 times"):
        made.answer(3)
    assert made.answer(4) == Y[4]
    with pytest.raises(RuntimeError, match="All answers"):
        made.answer(5)
    assert made.answers_ == [(3, Y[3]), (3, Y[3]), (4, Y[4])]


@pytest.mark.parametrize(
    ("index", "error"),
    [(-1, IndexError), (40, IndexError), (1.0, TypeError), ("1", TypeError), (True, TypeError)],
)
def test_unknown_rows_are_refused(index, error):
    made = curator().fit(X, Y)
    with pytest.raises(error):
        made.answer(index)
    assert made.answers_ == []


def test_values_measured_on_demand():
    made = curator().fit(X)
    assert made.answer(7, value=0.25) == 0.25
    for value, error in ((None, TypeError), (np.nan, ValueError), ("a", TypeError)):
        with pytest.raises(error):
            made.answer(8, value=value)
    with pytest.raises(ValueError, match="exactly when"):
        made.answer(8)
    assert made.answers_ == [(7, 0.25)]
    with pytest.raises(ValueError, match="exactly when"):
        curator().fit(X, Y).answer(0, value=1.0)


@pytest.mark.slow
def test_noisy_answers():
    X, y = np.zeros((1000, 1)), np.full(1000, 0.3)
    settings = {"answer_epsilon": 1.0, "answer_delta": 1e-5, "y_bounds": (0, 2)}
    made = curator(**settings, answers_per_row=4).fit(X, y)
    sigma = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=4.0).sigma
    assert made.release_.answer_noise_std == pytest.approx(sigma, rel=1e-6)
    answers = np.array([made.answer(i) for i in range(1000)])
    assert stats.kstest((answers - 0.3) / sigma, "norm").pvalue > 1e-6
    assert made.release_.answer_guarantee == made.answer_privacy_
    assert (made.answer_privacy_.epsilon, made.answer_privacy_.delta) == (1.0, 1e-5)


def test_the_noise_of_answers_depends_on_how_often_one_row_can_be_answered():
    settings = {"answer_epsilon": 1.0, "y_bounds": (0, 2)}
    limits = [(1, None), (4, None), (4, 100), (4, 1), (1, 40)]
    stds = [
        curator(**settings, answers_per_row=k, n_answers=n).fit(X).release_.answer_noise_std
        for k, n in limits
    ]
    np.testing.assert_allclose(np.divide(stds, stds[0]), [1, 2, 2, 1, 1])


def test_noisy_answers_are_clipped_and_unreadable_ones_are_the_centre():
    settings = {"answer_epsilon": 1e6, "answer_delta": 0.5, "y_bounds": (0.0, 2.0)}
    made = curator(**settings).fit(X)
    measured = [-9.0, 9.0, np.nan, np.inf, 1.5, 10**400, None, "a", [], 1j, np.ones(2), Unseen()]
    values = [made.answer(i, value=v) for i, v in enumerate(measured)]
    np.testing.assert_allclose(values, [0.0, 2.0, 1.0, 1.0, 1.5, *[1.0] * 7], atol=0.02)
    with pytest.raises(ValueError, match="exactly when"):  # that none is given is public
        made.answer(30)


def test_unreadable_answers_between_huge_bounds_are_the_centre():
    low, width = 1e308, 1e303  # the sum of the bounds is beyond the floats
    made = curator(answer_epsilon=1e6, answer_delta=0.5, y_bounds=(low, low + width)).fit(X)
    values = np.array([made.answer(i, value=v) for i, v in enumerate([np.nan, np.inf, low])])
    np.testing.assert_allclose((values - low) / width, [0.5, 0.5, 0.0], atol=0.02)


@pytest.mark.parametrize("displacement", [1.0, 0.5, 0.9999995001, 1 / 3, 1e-9])
def test_the_stated_move_is_not_rounded_up(displacement):
    for guarantee in (
        L2Laplace(1.0, displacement, 2).guarantee,
        curator(displacement=displacement).privacy_guarantee(2),
        curator(displacement=displacement, mechanism="gaussian").privacy_guarantee(2),
    ):
        stated = float(re.search(r"at most (\S+) \(l2 norm\)", guarantee.neighbours)[1])
        assert stated == displacement


def test_the_guarantee_says_what_is_promised():
    made = curator(epsilon=2.0, displacement=0.5, data_norm=5.0).fit(X)
    text = str(made.privacy_)
    assert made.privacy_.status == "proved"
    assert "one row of X moved by at most 0.5 (l2 norm)" in text
    assert "positions of the rows of X" in text
    assert "replacing a row by any other of its domain costs epsilon 40" in text
    assert made.privacy_.epsilon == 2.0
    assert made.privacy_.delta < 1e-30
    assert made.privacy_ == made.privacy_guarantee(n_features=2) == made.release_.guarantee


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_replacing_a_row_costs_its_distance_in_displacements(mechanism):
    made = curator(mechanism=mechanism, epsilon=0.5, data_norm=5.0)
    moved, replaced = made.privacy_guarantee(), made.replacement_guarantee()
    assert replaced.neighbours == "replace-one"
    if mechanism == "l2_laplace":
        assert replaced.epsilon == pytest.approx(5.0)
    else:
        assert replaced.mu == pytest.approx(10 * moved.mu)
        assert replaced.epsilon == pytest.approx(epsilon_from_mu(10 * moved.mu, 1e-5))


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyRowsWarning")  # as it should
def test_a_domain_smaller_than_the_displacement_needs_less_noise():
    made = curator(displacement=100.0, data_norm=2.0).fit(X)
    assert made.release_.noise_std == pytest.approx(4.0 * 3**0.5, rel=1e-6)
    assert made.replacement_guarantee().epsilon == pytest.approx(made.privacy_.epsilon)


def test_guarantees_before_the_data():
    assert PrivateProjection().privacy_guarantee().epsilon == 1.0
    with pytest.raises(ValueError, match="n_features"):
        PrivateProjection().replacement_guarantee()
    with pytest.raises(ValueError, match="n_features"):
        PrivateProjection(X_bounds=(-1, 1)).replacement_guarantee()
    boxed = PrivateProjection(X_bounds=([-1, -1], [1, 1])).replacement_guarantee()
    assert boxed.epsilon == pytest.approx(8**0.5)
    assert PrivateProjection().replacement_guarantee(n_features=4).epsilon == pytest.approx(12.0)
    assert "epsilon times their distance" in str(PrivateProjection().privacy_guarantee())


def test_huge_replacement_costs_are_stated_and_promise_nothing():
    replaced = curator(epsilon=10.0, data_norm=1e3).replacement_guarantee()
    assert replaced.epsilon == pytest.approx(2e4)
    assert 0.99 < replaced.delta < 1


@pytest.mark.parametrize("parameters", [{}, {"answer_epsilon": 0.5, "y_bounds": (-1, 1)}])
def test_the_ledger_is_charged_once_for_rows_and_answers(parameters):
    made = curator(mechanism="gaussian", delta=1e-6, **parameters)
    with PrivacyLedger(epsilon=3.0, delta=1e-4) as ledger:
        made.fit(X, Y)
        for i in range(5):
            made.answer(i)
    assert len(ledger.entries) == 1
    parts = [part for part in (made.privacy_, made.answer_privacy_) if part is not None]
    assert ledger.entries[0].guarantee.epsilon == pytest.approx(compose(*parts).epsilon)
    assert ledger.entries[0].label == "PrivateProjection"


@pytest.mark.parametrize("rows", [X, X.tolist(), X.astype(object)], ids=["array", "list", "object"])
def test_nothing_is_touched_when_the_ledger_cannot_pay(rows, monkeypatch):
    def touched(values, *args, **kwargs):
        assert values is not rows
        return checked(values, *args, **kwargs)

    put(monkeypatch, "curator: refuse_not_finite", touched)
    checked = original("private estimator: checked_table")
    if rows is not X:
        put(monkeypatch, "private estimator: checked_table", touched)
    made = curator()
    with PrivacyLedger(epsilon=0.5, delta=1e-3) as ledger, pytest.raises(BudgetExceededError):
        made.fit(rows)
    assert not ledger.entries
    assert not hasattr(made, "release_")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("huge", [{"data_norm": 8e307}, {"X_bounds": (-8e306, 8e306)}])
def test_a_row_whose_product_overflows_makes_no_error_of_its_own(mechanism, huge):
    """Rows within the norm, whose products with the public matrix are beyond the floats."""
    P = random_projection(100, 1)[:, 0]
    rows = np.zeros((3, 100))
    moved = np.vstack([rows[1:], P / np.linalg.norm(P) * 3e307])
    errors = []
    for X in (rows, moved):
        made = PrivateProjection(1, mechanism=mechanism, displacement=1e300, **huge)
        with pytest.raises(ValueError) as caught:
            made.fit(X)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert "a row may exceed the floats" in errors[0]


def test_a_failed_fit_stays_charged():
    bad = X.copy()
    bad[3, 1] = np.nan
    with PrivacyLedger(3.0, 1e-3) as ledger, pytest.raises(ValueError, match="NaN"):
        curator().fit(bad)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"mechanism": "laplace"}, "mechanism"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"mechanism": "gaussian", "delta": 0.0}, "delta"),
        ({"data_norm": -1.0}, "data_norm"),
        ({"data_norm": np.inf}, "data_norm"),
        ({"displacement": 0.0}, "displacement"),
        ({"displacement": 1e-300, "data_norm": 1e-299}, "too small"),
        ({"mechanism": "gaussian", "displacement": 1e-290}, "displacement is too small"),
        ({"mechanism": "gaussian", "epsilon": 1e-12, "delta": 1e-30}, "too fine"),  # of 40 rows
        ({"random_state": "seed"}, "random_state"),
        ({"data_norm": None, "X_bounds": (-1.7e308, 1.7e308)}, "may exceed the floats"),
        ({"X_bounds": (-1, 1)}, "not both"),
        ({"data_norm": None, "X_bounds": (1, -1)}, "X_bounds"),
        ({"data_norm": None, "X_bounds": ([1, 2, 3], [4, 5, 6])}, "X_bounds"),
        ({"n_components": 3}, "only adds noise"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 1.0}, "n_components"),
        ({"answers_per_row": 0}, "answers_per_row"),
        ({"answers_per_row": 1.5}, "answers_per_row"),
        (
            {"answers_per_row": 10**30, "answer_epsilon": 1.0, "y_bounds": (-1, 1)},
            "answers_per_row",
        ),
        ({"n_answers": True}, "n_answers"),
        ({"y_bounds": (-1, 1)}, "answer_epsilon"),
        ({"answer_epsilon": -1.0, "y_bounds": (-1, 1)}, "answer_epsilon"),
        ({"answer_epsilon": 1.0, "answer_delta": 0.0, "y_bounds": (-1, 1)}, "answer_delta"),
        ({"answer_delta": 1.0}, "answer_delta"),
        ({"delta": 1.0}, "delta"),
        ({"data_norm": None, "X_bounds": 3.0}, "X_bounds"),
        ({"data_norm": None, "X_bounds": ()}, "X_bounds"),
        ({"answer_epsilon": 1.0, "y_bounds": (1, 1)}, "y_bounds"),
        ({"mechanism": "kharkovskii2020", "displacement": 2.0}, "displacement of 1"),
        ({"mechanism": "kharkovskii2020", "delta": 0.0}, "delta"),
    ],
)
def test_bad_parameters_are_refused_before_the_charge(parameters, match):
    refused = pytest.raises((TypeError, ValueError), match=match)
    with PrivacyLedger(epsilon=3.0, delta=1e-3) as ledger, refused:
        void(lambda: curator(**parameters).fit(X, Y))
    assert not ledger.entries


@pytest.mark.parametrize("n_features", [0, 2.0, True, "2", np.nan])
def test_a_number_of_features_is_an_integer(n_features):
    for stated in (curator().privacy_guarantee, curator().replacement_guarantee):
        with pytest.raises((TypeError, ValueError), match="n_features"):
            stated(n_features=n_features)


@pytest.mark.parametrize("y", [Y[:-1], np.ones((40, 2)), ["a"] * 40, np.full(40, np.nan)])
def test_bad_values_are_refused(y):
    with pytest.raises((TypeError, ValueError)):
        curator().fit(X, y)


def test_missing_bounds_have_a_default_that_does_not_look_at_the_data():
    with pytest.warns(DefaultBoundsWarning, match=r"norm 4\.24264") as caught:
        made = PrivateProjection().fit(X)
    assert caught[0].filename == __file__
    assert made.release_.data_norm == pytest.approx(18**0.5)
    with pytest.warns(DefaultBoundsWarning, match="y_bounds") as caught:
        curator(answer_epsilon=1.0).fit_transform(X, Y)
    assert caught[0].filename == __file__


class LatestSeed(PrivateProjection):
    """Planted bug: answers read the parameter."""

    _seed = property(lambda self: self.random_state, lambda self, seed: None)


def answers_with_a_seed_set_later(kind):
    """Two answers of each of two curators that were fitted with secret noise."""
    parameters = {"answer_epsilon": 1.0, "y_bounds": (-1, 1), "answers_per_row": 2}
    both = [kind(data_norm=5.0, **parameters).fit(X, Y) for _ in range(2)]
    assert {made.set_params(random_state=0).answer_privacy_.status for made in both} == {"proved"}
    return [[made.answer(0), made.answer(0)] for made in both]


def test_a_seed_that_is_set_after_the_fit_makes_no_noise():
    first, second = answers_with_a_seed_set_later(PrivateProjection)
    assert len({*first, *second}) == 4


def test_planted_bug_answers_with_the_latest_seed_are_caught():
    first, second = answers_with_a_seed_set_later(LatestSeed)
    assert first == second


def test_a_seed_that_is_taken_back_after_the_fit_stays():
    made = void(lambda: curator(answer_epsilon=1.0, y_bounds=(-1, 1), random_state=0).fit(X, Y))
    other = void(lambda: curator(answer_epsilon=1.0, y_bounds=(-1, 1), random_state=0).fit(X, Y))
    assert made.set_params(random_state=None).answer(0) == other.answer(0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_seeded_runs_are_void_and_say_so(mechanism):
    parameters = {"answer_epsilon": 1.0, "y_bounds": (-1, 1), "random_state": 7}
    first, second = (curator(mechanism=mechanism, **parameters) for _ in range(2))
    with pytest.warns(SeededNoiseWarning) as caught:
        first.fit(X, Y)
    assert caught[0].filename == __file__
    void(lambda: second.fit(X, Y))
    np.testing.assert_array_equal(first.release_.Z, second.release_.Z)
    answers = [[made.answer(i) for i in range(3)] for made in (first, second)]
    assert answers[0] == answers[1]
    noise = np.array(answers[0]) - Y[:3]
    assert len(np.unique(noise.round(6))) == 3  # not one deviate for all
    statements = (first.privacy_, first.answer_privacy_, first.replacement_guarantee())
    assert {statement.status for statement in statements} == {"void"}


def test_the_published_transform_is_void_and_says_why():
    made = curator(mechanism="kharkovskii2020", n_components=10)
    with pytest.warns(
        VoidGuaranteeWarning, match=r"d \+ 1 known rows recover all others"
    ) as caught:
        made.fit(X, Y)
    assert caught[0].filename == __file__
    assert made.privacy_.status == made.replacement_guarantee().status == "void"
    assert "recover all others" in str(made.privacy_)
    assert made.release_.Z.shape == (40, 10)
    assert made.release_.noise_std == 0.0
    assert made.release_.projection is None
    np.testing.assert_allclose(made.exact_rows(X), made.release_.Z, atol=1e-9)


def test_copies_do_not_answer():
    made = curator().fit(X, Y)
    made.answer(2)
    for twin in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert twin.answers_ == [(2, Y[2])]
        np.testing.assert_array_equal(twin.release_.Z, made.release_.Z)
        np.testing.assert_array_equal(twin.exact_rows(X), made.exact_rows(X))
        with pytest.raises(RuntimeError, match="copied"):
            twin.answer(3)
    assert made.answer(3) == Y[3]
    assert not hasattr(clone(made), "release_")
    with pytest.raises(TypeError):
        pickle.dumps(made._book)


def test_forked_copies_do_not_answer(monkeypatch):
    made = curator().fit(X, Y)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked"):
        made.answer(3)
    monkeypatch.undo()
    assert made.answer(3) == Y[3]


def test_an_exact_value_of_which_nothing_is_read():
    made = curator().fit(X)
    with pytest.raises(TypeError, match="value must be a number"):
        made.answer(3, Unseen())


def test_a_noisy_answer_is_silent_about_what_it_reads(capsys):
    class Speaking:
        def __float__(self):
            print("of patient 4711")
            warnings.warn("of patient 4711", stacklevel=1)
            raise RuntimeError("of patient 4711")

    made = curator(answer_epsilon=1.0, y_bounds=(-1, 1)).fit(X)
    for row, value in enumerate([Speaking(), np.ones(1), True]):  # a warning would be an error
        assert isinstance(made.answer(row, value), float)
    assert capsys.readouterr() == ("", "")


@forking
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of threads beside a fork
def test_a_fork_with_the_number_of_its_parent_does_not_answer(monkeypatch):
    """As in another PID namespace, where a fork of process 1 is process 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    made = curator().fit(X, Y)
    child = os.fork()
    if child == 0:
        try:
            made.answer(3)
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert made.answer(3) == Y[3]


def test_threads_do_not_get_more_answers_than_agreed():
    made = curator(answers_per_row=2, n_answers=25).fit(X, Y)

    def ask(row):
        try:
            return made.answer(row)
        except RuntimeError:
            return None

    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(ask, [*range(10)] * 20))
    assert sum(value is not None for value in given) == len(made.answers_) == 20
    assert sorted(row for row, _ in made.answers_) == sorted([*range(10)] * 2)


class SlowCounts:
    """Counts that give the processor away between the check and the count.

    Without a lock, all 8 threads meet there.
    """

    def __init__(self, n, unlocked):
        self.counts = [0] * n
        self.checks = iter(range(8 if unlocked else 0))
        self.together = threading.Barrier(8)

    def __len__(self):
        return len(self.counts)

    def __getitem__(self, row):
        count = self.counts[row]
        if next(self.checks, None) is None:
            time.sleep(0.002)
        else:
            self.together.wait(120)
        return count

    def __setitem__(self, row, count):
        self.counts[row] = count


def answered_in_threads(rows, unlocked=False, **limits):
    """Return the number of answers that 8 threads were given about `rows`."""
    made = curator(**limits).fit(X, Y)
    made._book._counts = SlowCounts(len(X), unlocked)
    if unlocked:
        made._book._lock = contextlib.nullcontext()

    together = threading.Barrier(len(rows))

    def ask(row):
        together.wait(120)
        with contextlib.suppress(RuntimeError):
            return made.answer(row)

    with ThreadPoolExecutor(8) as pool:
        return sum(value is not None for value in pool.map(ask, rows))


@pytest.mark.parametrize(
    ("rows", "limits"),
    [([3] * 8, {}), (range(8), {"n_answers": 1}), ([3] * 8, {"answers_per_row": 2})],
    ids=["a row", "all rows", "twice"],
)
def test_threads_get_no_more_answers_than_agreed(rows, limits):
    assert answered_in_threads(rows, **limits) == limits.get("answers_per_row", 1)
    # Planted: the lock is gone.
    assert answered_in_threads(rows, unlocked=True, **limits) == 8


def test_a_second_fit_starts_anew():
    made = curator(n_answers=1).fit(X, Y)
    made.answer(0)
    made.fit(X, -Y)
    assert made.answers_ == []
    assert made.answer(0) == -Y[0]


def test_frames_and_column_vectors():
    frame = pd.DataFrame(X, columns=["a", "b"])
    made = curator().fit(frame, pd.Series(Y))
    assert made.feature_names_in_.tolist() == ["a", "b"]
    assert made.answer(5) == Y[5]
    assert curator().fit(X, Y[:, None]).answer(5) == Y[5]
    assert curator().fit(X.astype(np.float32), np.arange(40)).answer(5) == 5.0
    released = curator(epsilon=50.0).set_output(transform="pandas").fit_transform(frame)
    assert released.columns.tolist() == ["privateprojection0", "privateprojection1"]


def test_the_mechanism_of_the_rows_is_the_library_s_own(monkeypatch):
    """Planted: noise of no size passes through release, so nothing else is added or forgotten."""
    monkeypatch.setattr(L2Laplace, "_noise", lambda self, n, source: np.zeros((n, 2), np.int64))
    made = curator().fit(X)
    np.testing.assert_allclose(made.release_.Z, made.exact_rows(X), atol=1e-8)
