"""Random settings of searches with ``protect="all"``: documented errors, one charge, no leak.

Every record is protected and may hold an unmistakable number or text. The private estimator talks,
warns and fails, quoting what it is shown; of the rows its model keeps a noisy mean alone. Whatever
the settings are, a search makes one charge of what it states or raises a documented error, and
shows nothing else; a budget that is too small is refused before a protected value is read.
"""

import logging
import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

from _support.hostile import NUMBER, TEXT, WHOLE, one, settled
from _support.hostile import mostly as mostly_of
from _support.planted import plant
from _support.protections import private_selection
from skdpbo import DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.audit import Secrets, Traces, leak_scan
from skdpbo.exceptions import BudgetExceededError
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.model_selection import Chunks, PrivateSelection
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, mu_from_epsilon

SECRETS = Secrets([NUMBER, 1e6 * NUMBER, WHOLE, TEXT], digits=9)
DOCUMENTED = (ValueError, TypeError)
LOGGER = logging.getLogger("tests.attacks.fuzz_selection")
SEEN = []  # whether a training was shown protected rows


mostly = partial(mostly_of, weight=12)


class TalkingMean(RegressorMixin, BaseEstimator):
    """Mean of the targets, clipped to [-1, 1], with Gaussian noise; quotes what it is shown."""

    def __init__(self, factor=1.0, epsilon=1.0, delta=1e-5, random_state=None):
        self.factor = factor
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state

    def privacy_guarantee(self, n_samples=None):
        mu = mu_from_epsilon(self.epsilon, self.delta)
        common = {"epsilon": self.epsilon, "delta": self.delta, "mu": mu}
        stated = PrivacyGuarantee(protects="training records", **common)
        return stated if self.random_state is None else stated.voided("seeded")

    def fit(self, X, y, extra=None):
        SEEN.append(is_protected(X))
        print("fitting", X[:3])
        LOGGER.warning("fitting %s", y[:3])
        warnings.warn(f"fitting {X[:3]}", UserWarning, stacklevel=2)
        if self.factor < 0:
            raise ValueError(f"cannot fit {X[:3]} to {y[:3]}")
        values = np.nan_to_num(np.asarray(y, dtype=float))
        mean = float(np.clip(values, -1, 1).mean())
        mechanism = GaussianMechanism(
            epsilon=self.epsilon, delta=self.delta, sensitivity=2 / len(values)
        )
        self.mean_ = self.factor * float(mechanism.release(mean))
        self.privacy_ = self.privacy_guarantee()
        return self

    def predict(self, X):
        self.shown_ = X
        print("predicting", X[:3])
        if (np.asarray(X, dtype=float) > 1e5).any():
            raise ValueError(f"cannot predict {X[:3]}")
        return np.full(np.shape(X)[0], self.mean_)


def is_protected(X):
    return len(leak_scan(sparse.csr_array(X).data if sparse.issparse(X) else X, SECRETS)) > 0


class Unstated(TalkingMean):
    """As private, and does not say so."""

    privacy_guarantee = None

    def fit(self, X, y, extra=None):
        try:
            return super().fit(X, y)
        except TypeError:  # of the statement that it does not have
            return self


# Records
CELLS = [NUMBER, NUMBER, 1e6 * NUMBER, -NUMBER, WHOLE, 0.5, 1, 0.0]
BAD_CELLS = [
    TEXT,
    None,
    math.nan,
    math.inf,
    10**400,
    [NUMBER],
    {TEXT: 1},
    1j,
    pd.NA,
    Fraction(1, 3),
]


@st.composite
def protected(draw):
    """(X, y, X_val, y_val), the last two maybe None."""
    bad = draw(st.integers(0, 3)) == 0
    cell = one(CELLS * 3 + BAD_CELLS * bad)
    n, m = draw(one([12] * 8 + [1, 2])), draw(one([None, None, 6, 1]))
    kind = draw(one(["array", "array", "list", "objects", "frame", "sparse"]))
    make = make_rows(kind, bad)
    rows = st.lists(cell, min_size=2, max_size=2)
    X = make(draw(st.lists(rows, min_size=n, max_size=n)))
    y = draw(st.lists(cell, min_size=n, max_size=n))
    if m is None:
        return X, y if bad else np.array(y, dtype=float), None, None
    X_val = make(draw(st.lists(rows, min_size=m, max_size=m)))
    y_val = draw(st.lists(cell, min_size=m, max_size=m))
    return (X, y, X_val, y_val) if bad else (X, np.array(y, float), X_val, np.array(y_val, float))


def make_rows(kind, bad):
    def objects(rows):
        table = np.empty((len(rows), 2), dtype=object)
        for i, row in enumerate(rows):
            for j, cell in enumerate(row):
                table[i, j] = cell
        return table

    def frame(rows):
        try:
            return pd.DataFrame(objects(rows), columns=["a", "b"]).infer_objects()
        except OverflowError:  # pandas, of an integer beyond the floats
            return rows

    makers = {"list": lambda rows: rows, "objects": objects, "frame": frame}
    if not bad:
        makers["array"] = lambda rows: np.array(rows, dtype=float)
        makers["sparse"] = lambda rows: sparse.csr_array(np.array(rows, dtype=float))
    return makers.get(kind, objects)


# Settings
ODD = (0, -1.0, math.nan, math.inf, "1", None, True, [1])
NAMES = ("profile", "papernot_steinke", "liu_talwar", "composition")
own_selections = st.builds(
    PrivateSelection,
    accounting=mostly("profile", "profile", "papernot_steinke", "liu_talwar", bad=("x", None)),
    expected_trials=mostly(None, 1, 2.5, 4, bad=ODD),
    eta=mostly(1.0, 0.0, -0.5, 2.0, bad=(-1.0, -2, math.nan, None, "1")),
    pad_trials=mostly(False, False, True, bad=(None, 1)),
    max_trials=mostly(None, 60, 80, bad=(1, 0, -3, 2.5, True, "9")),
)


def cost(epsilon, delta=0.0, **how):
    how.setdefault("protects", "training records")
    return PrivacyGuarantee(epsilon=epsilon, delta=delta, **how)


def failing_cost(estimator, n_samples):
    raise ValueError("no cost is known")


declarations = mostly(
    cost(1e-3),
    cost(0.01, 1e-9),
    lambda estimator, n_samples: cost(1e-3 * getattr(estimator, "factor", 1.0)),
    cost(0.1, 1e-6, mu=mu_from_epsilon(0.1, 1e-6)),
    bad=(
        cost(1e3),
        cost(0.1, neighbours="add or remove one"),
        cost(0.1, protects="validation records"),
        failing_cost,
        lambda estimator, n_samples: 0.1,
        0.1,
        "cost",
        PrivacyGuarantee,
    ),
)
common = {
    "epsilon": mostly(1.0, 3.0, 0.1, Fraction(1, 3), 1e-6, 1e3, bad=ODD),
    "delta": mostly(1e-5, 1e-2, bad=(0.0, 1.0, -1e-5, math.nan, "0", None)),
    "loss_bound": mostly(1.0, 4.0, 1e-9, bad=(0, -1, math.nan, "1")),
    "refit": mostly(True, False, bad=("score", max, 3)),
    "score_fraction": mostly(0.0, 0.1, bad=(1.0, math.nan, None)),
    "validation_fraction": mostly(0.2, 0.5, bad=(0, 1, math.nan)),
    "scoring": mostly(
        "neg_mean_squared_error", "neg_mean_absolute_error", bad=("r2", "f1", 3, ["accuracy"], max)
    ),
    "mechanism": mostly("permute_and_flip", "exponential", bad=("gaussian", None)),
    "cv": mostly(None, bad=(2,)),
    "verbose": st.sampled_from([0, 3]),
    "error_score": mostly(np.nan, bad=("raise", "x")),
    "random_state": mostly(None, 3, bad=(-1, "seed")),
    "return_train_score": mostly(False, bad=(True,)),
}
ESTIMATORS = [
    lambda: TalkingMean(),
    lambda: TalkingMean(),
    lambda: TalkingMean(random_state=0),
    lambda: make_pipeline(Normalizer(), TalkingMean()),
    lambda: make_pipeline(FrozenEstimator(StandardScaler().fit([[0.0, 1.0]] * 3)), TalkingMean()),
    lambda: make_pipeline(FunctionTransformer(np.negative), TalkingMean()),
    lambda: make_pipeline(StandardScaler(), TalkingMean()),
    lambda: make_pipeline(Normalizer(), TalkingMean(), memory="/nowhere"),
    lambda: make_pipeline(Normalizer(), TalkingMean(), verbose=True),
    lambda: Unstated(),
]
FACTORS = [[1.0], [1.0, 2.0, 0.5], [1.0, -1.0], [-1.0], [0.1 * i for i in range(12)], [], ["text"]]
EXTRAS = [{}] * 12 + [{"extra": 3}, {"extra": [1.0] * 12}, {"extra": {"w": np.ones(12)}}]


@st.composite
def searches(draw):
    """(searcher, rows, what `fit` is given besides)."""
    randomized = draw(st.booleans())
    estimator = draw(one(ESTIMATORS * 2 + ESTIMATORS[:1] * 8 + ESTIMATORS[-1:] * 4))()
    name = "factor" if isinstance(estimator, TalkingMean) else "talkingmean__factor"
    factors = draw(one(FACTORS[:1] * 4 + FACTORS[1:2] * 8 + FACTORS))
    chosen = draw(st.sets(st.sampled_from(sorted(common)), max_size=3))
    params = {"protect": "all", "loss_bound": 4.0, "epsilon": 2.0}
    params |= {key: draw(common[key]) for key in sorted(chosen)}
    if draw(st.integers(0, 3)) == 0:
        chunks = mostly(
            Chunks(2), Chunks(3), Chunks(2, excess_bound=None), bad=(Chunks(99), 2.5, "2", True)
        )
        params |= {"protect": draw(chunks), "refit": draw(mostly(False, bad=(True,)))}
    else:
        selection = draw(own_selections | mostly(*NAMES, bad=("best", None, 3)))
        declared = None
        if isinstance(estimator, Unstated) or draw(st.integers(0, 9)) == 0:
            declared = draw(declarations)
        params["protect"] = private_selection(selection, declared)
    if randomized:
        params["n_iter"] = draw(mostly(2, 4, bad=(0, None)))
        space = {name: draw(one([(0.5, 2.0), factors]))}
        search = DPRandomizedSearchCV(estimator, space, **params)
    else:
        search = DPGridSearchCV(estimator, {name: factors}, **params)
    return search, draw(protected()), draw(one(EXTRAS))


def attempt(example, budget):
    """Fit inside a ledger; return the failure, the output, and the charges."""
    search, (X, y, X_val, y_val), extra = example
    SEEN.clear()
    # Parameters that are no numbers make no sense to seeds: the run is void, and says so.
    with Traces() as traces, PrivacyLedger(epsilon=budget, delta=0.5) as ledger:
        try:
            search.fit(X, y, X_val=X_val, y_val=y_val, **extra)
        except (*DOCUMENTED, BudgetExceededError) as error:
            failure = error
        else:
            failure = None
    return failure, traces, [entry.guarantee for entry in ledger.entries]


def assert_one_charge_and_no_leak(example):
    search = example[0]
    failure, traces, charges = attempt(example, 1e9)
    assert not leak_scan(traces, SECRETS), traces.text()
    assert not leak_scan(search, SECRETS)
    if failure is not None:
        assert not isinstance(failure, BudgetExceededError)
        assert not leak_scan(failure, SECRETS), failure
        assert len(charges) <= 1
        assert charges or not any(SEEN), "protected rows were read before the charge"
        assert not [name for name in vars(search) if name.endswith("_") and name[0] != "_"]
        return
    assert charges == [search.privacy_]
    assert search.privacy_.epsilon <= float(search.epsilon) * (1 + 1e-12)
    assert search.privacy_.delta <= float(search.delta) * (1 + 1e-9)
    assert (search.privacy_.status == "void") >= (search.random_state is not None)
    assert 0 <= search.best_index_ < len(search.cv_results_["params"])
    assert math.isfinite(getattr(search, "best_score_", 0.0))
    if isinstance(search.protect, PrivateSelection):
        assert search.expected_trials_ >= 1
        assert 0 < search.hit_probability_ <= 1
    assert_a_small_budget_is_refused(example)


def assert_a_small_budget_is_refused(example):
    cost = example[0].privacy_
    failure, _, charges = attempt(example, float(cost.epsilon) / 2)
    # Twice the budget may fit at the ledger's delta, which is larger.
    if failure is None:
        assert charges == [cost]
        return
    assert isinstance(failure, BudgetExceededError)
    assert not charges
    assert not any(SEEN)
    assert not leak_scan(failure, SECRETS)


@settled(6)
@given(searches())
def test_some(example):
    assert_one_charge_and_no_leak(example)


@pytest.mark.slow
@settled(80)
@given(searches())
def test_many(example):
    assert_one_charge_and_no_leak(example)


def assert_found():
    @settings(settled(60), phases=[Phase.generate], report_multiple_bugs=False)
    @given(searches())
    def run(example):
        assert_one_charge_and_no_leak(example)

    with pytest.raises(AssertionError):
        run()


def test_output_of_the_trials_is_caught(monkeypatch):
    plant(monkeypatch, "trials: output comes through")
    assert_found()


def test_a_missing_charge_is_caught(monkeypatch):
    plant(monkeypatch, "trials: the search does not pay")
    assert_found()


@pytest.mark.slow
def test_a_model_that_was_scored_itself_is_caught(monkeypatch):
    plant(monkeypatch, "trials: the released model has scored")
    assert_found()


@pytest.mark.slow
def test_a_failure_that_is_shown_is_caught(monkeypatch):
    plant(monkeypatch, "trials: a failure is shown")
    assert_found()
