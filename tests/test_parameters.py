"""Errors of parameters: plain numbers, the first of many; before the charge, also of lists."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from _support.internals import check_bounds
from _support.private_estimators import every_private_estimator
from skdpbo import DPGridSearchCV
from skdpbo.gaussian_process import DPSparseGPRegressor, ProjectedGP
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.preprocessing import DPMinMaxScaler, DPSimpleImputer, DPStandardScaler
from skdpbo.privacy import PrivacyLedger

LOWS, HIGHS = np.zeros(30), np.arange(1.0, 31.0)


@pytest.mark.parametrize(
    ("bounds", "shown"),
    [
        (list(zip(LOWS, HIGHS, strict=True)), "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, ...]"),
        ((HIGHS, LOWS), "([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, ...], [0.0, "),
        ((LOWS, HIGHS[:4]), "vectors with 30 values; got ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ...], [1"),
        ((np.float64(2), np.float32(1)), "got (2.0, 1.0)."),
        ((np.nan, 1), "got (nan, 1)."),
        ((0, 5e-324), "by 1e-250 or more; got (0, 5e-324)."),
        ((-1e-251, 0), "by 1e-250 or more; got (-1e-251, 0)."),
        ((0, [1.0] * 9 + [0.0, np.inf] + [1.0] * 19), "...]), not so in column 9, 10."),
    ],
    ids=["pairs", "order", "length", "numbers", "not finite", "no width", "narrow", "two of them"],
)
def test_bounds_are_shown_as_few_plain_numbers(bounds, shown):
    with pytest.raises(ValueError) as error:
        check_bounds(bounds, 30, "X_bounds")
    assert shown in str(error.value)
    assert "float64" not in str(error.value)
    assert len(str(error.value)) < 500


def test_pairs_are_answered_by_the_bounds_to_write():
    pairs = [(0, np.float64(1)), (2, 3)]
    with pytest.raises(ValueError) as error:
        check_bounds(pairs, 2, "X_bounds")
    assert "write ([0, 2], [1.0, 3]), which is tuple(zip(*pairs))" in str(error.value)
    np.testing.assert_array_equal(
        check_bounds(tuple(zip(*pairs, strict=True)), 2, "X_bounds"), [[0, 2], [1, 3]]
    )


@pytest.mark.parametrize(
    "estimator",
    [
        DPLogisticRegression(X_bounds="private", classes=[0, 1]),
        DPRidge(X_bounds="private", y_bounds=(0, 1)),
        DPRidge(X_bounds=(0, 1), y_bounds="private"),
        DPStandardScaler(X_bounds="private"),
        DPSimpleImputer(X_bounds="private"),
        DPMinMaxScaler(X_bounds="private"),
    ],
    ids=["logistic", "ridge X", "ridge y", "scaler", "imputer", "min-max"],
)
def test_private_bounds_are_refused_by_name_before_the_charge(estimator):
    X, y = np.ones((20, 2)), np.arange(20) % 2
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        with pytest.raises(ValueError, match=r"public pair .* got 'private'.*DPMinMaxScaler"):
            estimator.fit(X, y)
        assert not ledger.entries


BOX = {"X_bounds": (0, 1), "y_bounds": (0, 1)}
GP = DPSparseGPRegressor(**BOX)


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [
        (DPRidge(**BOX), "X_bounds", (1, 0)),
        (DPRidge(**BOX), "y_bounds", (0, np.nan)),
        (DPRidge(**BOX), "y_bounds", ("0", "1")),  # texts of numbers are none
        (DPStandardScaler(), "X_bounds", (["0"] * 20, [1] * 20)),
        (GP, "X_bounds", (False, True)),
        (DPStandardScaler(X_bounds=(0, 1)), "X_bounds", "private"),
        (GP, "noise_variance", 0.0),
        (GP, "kernel", "rbf"),
        (GP, "inducing_points", 0),
        (ProjectedGP(data_norm=2.0, displacement=0.1), "n_restarts_optimizer", -1),
    ],
)
def test_bad_parameters_cost_nothing_where_rows_are_lists(estimator, name, value):
    X, y = np.eye(20).tolist(), [0.0, 1.0] * 10
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        with pytest.raises((TypeError, ValueError), match=name):
            clone(estimator).set_params(**{name: value}).fit(X, y)
        assert not ledger.entries


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_parameters_of_any_size_fit_lists(d):
    box = {"X_bounds": ([0] * d, [1] * d), "y_bounds": ([0] * 3, [1] * 3)}
    X, Y = np.ones((9, d)).tolist(), np.ones((9, 3)).tolist()
    own = {"kernel": RBF([1.0] * d), "inducing_points": np.eye(d), "noise_variance": [0.1] * 3}
    assert DPSparseGPRegressor(**box, **own).fit(X, Y).n_features_in_ == d


PRIVATE = [
    *every_private_estimator().values(),
    DPGridSearchCV(DPRidge(), {"alpha": [1.0]}, loss_bound=1.0),
    DPGridSearchCV(DPRidge(), {"alpha": [1.0]}, loss_bound=1.0, protect="all"),
]


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize("model", PRIVATE, ids=lambda model: type(model).__name__)
def test_the_guarantee_of_a_class_of_ones_own_is_conditional(model):
    # Its fit may keep what no noise covers, as the largest value.
    kind = type(model)
    own = type("Own", (kind,), {"__init__": kind.__init__})(**model.get_params(deep=False))
    known, stated = model.privacy_guarantee(), own.privacy_guarantee()
    assert (known.status, stated.status) == ("proved", "conditional")
    text = f"Own releases nothing of the records beyond what {kind.__name__} does"
    assert text in stated.assumptions


@pytest.mark.parametrize("model", PRIVATE, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("n_samples", [0, -1, 1.5, "7", True])
def test_a_bad_number_of_records_is_refused(model, n_samples):
    with pytest.raises((TypeError, ValueError), match="n_samples must be"):
        model.privacy_guarantee(n_samples=n_samples)
