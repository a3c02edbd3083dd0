"""Settings of scikit-learn and numpy that take checks away, or make errors of rounding."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.utils import get_tags

from _support.planted import put
from _support.private_estimators import classifiers, every_private_estimator
from skdpbo.mechanisms import GaussianMechanism

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-2, 2, (60, 2)), RNG.uniform(-1, 1, 60)
KINDS = every_private_estimator()
del KINDS["encoder"]  # infinity is a category
TAKES_MISSING = [name for name in KINDS if get_tags(KINDS[name]).input_tags.allow_nan]
NEEDS_FINITE = [name for name in KINDS if name not in TAKES_MISSING]


def fit(name, X, y):
    return KINDS[name].fit(X, y > 0 if name in classifiers() else y)


def with_record(value, dtype=float):
    rows = X.astype(dtype)
    rows[5] = value
    return rows


@pytest.mark.parametrize("name", NEEDS_FINITE)
def test_a_missing_value_is_refused_whatever_scikit_learn_assumes(name):
    refused = pytest.raises(ValueError, match="contains NaN")
    with sklearn.config_context(assume_finite=True), refused:
        fit(name, with_record(np.nan), Y)


@pytest.mark.parametrize("name", TAKES_MISSING)
def test_an_infinite_value_is_refused_whatever_scikit_learn_assumes(name):
    refused = pytest.raises(ValueError, match="contains infinity")
    with sklearn.config_context(assume_finite=True), refused:
        fit(name, with_record(np.inf), Y)


def moved_by_a_missing_value(monkeypatch):
    """Largest change of a sum, in sensitivities, where the first fit answers for the second."""
    sums, answers = [], []
    release = GaussianMechanism.release

    def listened(mechanism, values, source=None):
        sums.append((mechanism, np.asarray(values, dtype=object)))
        if len(sums) > len(answers):
            answers.append(release(mechanism, values, source))
        return answers[len(sums) - 1]

    monkeypatch.setattr(GaussianMechanism, "release", listened)
    with sklearn.config_context(assume_finite=True), np.errstate(all="ignore"):
        fit("logistic", X, Y)
        first, sums[:] = sums.copy(), []
        try:
            fit("logistic", with_record(np.nan), Y)
        except ValueError:
            return 0.0
    return max(
        float(np.sqrt(float(((a - b) ** 2).sum()))) * mechanism.lattice / mechanism.sensitivity
        for (mechanism, a), (_, b) in zip(first, sums, strict=True)
    )


def test_no_missing_value_reaches_a_sum(monkeypatch):
    assert moved_by_a_missing_value(monkeypatch) <= 1


def test_a_check_that_can_be_switched_off_is_found(monkeypatch):
    put(monkeypatch, "row blocks: refuse_not_finite", lambda *args, **how: None)
    assert moved_by_a_missing_value(monkeypatch) > 2


def what_is_reported(name, rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit(name, rows, Y)
            error = None
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    return error, {str(warning.message) for warning in caught}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("mode", ["warn", "raise"])
@pytest.mark.parametrize("name", KINDS)
def test_long_doubles_beyond_doubles_are_infinite_and_no_warning(name, mode):
    huge = np.longdouble("1e4000")
    if not np.isfinite(huge):
        pytest.skip("long doubles are doubles here")
    how = dict.fromkeys(("over", "invalid", "divide"), mode)
    with np.errstate(**how):
        _, before = what_is_reported(name, with_record(0.5, np.longdouble))
        error, after = what_is_reported(name, with_record([huge, -huge], np.longdouble))
    assert after <= before
    assert error is None or error.startswith("ValueError: Input X contains infinity")


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e155, 1.7e308])
@pytest.mark.parametrize("name", KINDS)
def test_floating_point_errors_are_not_those_of_a_record(name, value):
    with np.errstate(all="raise"):
        ordinary = what_is_reported(name, with_record(0.5))
        assert what_is_reported(name, with_record([value, -value])) == ordinary
