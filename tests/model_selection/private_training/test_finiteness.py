"""Steps that keep finite rows finite, and what is stated of the others."""

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler, PolynomialCountSketch, RBFSampler
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from _support.internals import _KEEP_FINITE, is_shape_only, risky_steps
from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.linear_model import DPRidge
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.preprocessing import DPMinMaxScaler, DPStandardScaler

GP = DPSparseGPRegressor(RBF(1.0), X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=3)
UNKNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
SAFE = [
    *(Normalizer(norm) for norm in ("l1", "l2", "max")),
    Binarizer(threshold=0.5),
    FunctionTransformer(validate=True),
    OneHotEncoder(categories=[[0, 1]] * 2, handle_unknown="ignore", sparse_output=False),
    OrdinalEncoder(categories=[[0, 1]] * 2, **UNKNOWN),
    OrdinalEncoder(categories=[[0, np.nan]] * 2, **UNKNOWN, encoded_missing_value=-2),
]
OBJECTS = [
    OneHotEncoder(categories=[["a", None]] * 2, handle_unknown="ignore", sparse_output=False),
    OneHotEncoder(categories=[[0, 1]] * 2, handle_unknown="ignore", sparse_output=False),
    OrdinalEncoder(categories=[["a", "b"]] * 2, **UNKNOWN),
    OrdinalEncoder(categories=[[0, 1]] * 2, **UNKNOWN),
    OrdinalEncoder(categories=[["a", None]] * 2, **UNKNOWN, encoded_missing_value=9),
]
RISKY = [
    FunctionTransformer(np.log1p),
    PolynomialFeatures(2),
    RBFSampler(gamma=1.0),
    GaussianRandomProjection(2),
    SparseRandomProjection(2),
    PolynomialCountSketch(),
    AdditiveChi2Sampler(),
    SplineTransformer(knots=np.array([[0.0, 0.0], [1.0, 1.0]]), extrapolation="continue"),
    SimpleImputer(strategy="constant", keep_empty_features=True),
    FrozenEstimator(StandardScaler().fit([[0.0], [1.0]])),
    HashingVectorizer(),
    OrdinalEncoder(categories=[["a"]], handle_unknown="use_encoded_value", unknown_value=np.nan),
    OrdinalEncoder(categories=[["a", None]], **UNKNOWN),
]
LARGEST = np.finfo(float).max
EXTREME = [LARGEST, -LARGEST, 1e200, 1e-200, 5e-324, -0.0, 0.0, 1.0, -5.0, 2.0**63, 1.5e-162]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("step", SAFE, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_finite_row_stays_finite(step, dtype):
    assert is_shape_only(step)
    assert risky_steps(make_pipeline(step, GP)) == []
    largest = float(np.finfo(dtype).max)
    values = [largest, *(value for value in EXTREME if abs(value) <= largest)]
    rows = np.array([[a, b] for a in values for b in values], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow within a norm
        for row in rows:
            assert np.isfinite(step.fit(row[None, :]).transform(row[None, :])).all()
        assert np.isfinite(step.fit(rows).transform(rows)).all()


@pytest.mark.parametrize("width", [1.0, 1e-240, LARGEST])
def test_private_scalers_keep_every_finite_row_finite(width):
    rows = np.array([[value] for value in EXTREME])
    for step in (DPStandardScaler(with_mean=False), DPMinMaxScaler(clip=False)):
        scaler = step.set_params(X_bounds=(-width, width)).fit(rows)
        assert np.isfinite(scaler.transform(rows)).all()
        pipeline = make_pipeline(step, DPRidge(X_bounds=(-1, 1), y_bounds=(-1, 1)))
        assert "stays finite" not in str(pipeline_guarantee(pipeline))
        with np.errstate(under="raise"):
            pipeline.fit(rows, np.zeros(len(rows)))


@pytest.mark.parametrize("step", OBJECTS, ids=repr)
def test_every_object_is_read(step):
    assert risky_steps(make_pipeline(step, GP)) == []
    cells = ["a", "", b"a", None, np.nan, 1.5, 10**400, 1j, (1, 2), True, frozenset(), np.inf]
    rows = np.empty((len(cells) ** 2, 2), dtype=object)
    for i, (a, b) in enumerate((a, b) for a in cells for b in cells):
        rows[i, 0], rows[i, 1] = a, b
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(step.fit(rows).transform(rows)).all()


@pytest.mark.parametrize("step", RISKY, ids=repr)
def test_others_are_named(step):
    assert is_shape_only(step)
    name = type(step).__name__
    assert risky_steps(make_pipeline(step, GP)) == [f"{name} (step '{name.lower()}')"]


def test_every_place_is_looked_at():
    model = make_pipeline(
        make_union("passthrough", Binarizer(), PolynomialFeatures()),
        ColumnTransformer([("a", "drop", [0]), ("b", RISKY[0], [1])], remainder="passthrough"),
        TransformedTargetRegressor(GP, func=np.log1p, inverse_func=np.expm1),
    )
    first, second, *of_target = risky_steps(model)
    assert "polynomialfeatures" in first
    assert "columntransformer__b" in second
    assert [text.split(" of ")[0] for text in of_target] == ["func", "inverse_func"]
    plain = make_pipeline(make_column_transformer((Normalizer(), [0]), remainder="drop"), GP)
    assert risky_steps(plain) == []
    assert risky_steps(TransformedTargetRegressor(GP)) == []


# Whether a finite record decides that there is no model, by the record alone.
X = np.linspace(-0.9, 0.9, 60)[:, None] * [1.0, 0.5]
Y = X[:, 0]
BREAKING = [
    (make_pipeline(FunctionTransformer(np.log1p), GP), -5.0, 0.0),
    (TransformedTargetRegressor(GP, func=np.log1p, inverse_func=np.expm1), 0.0, -5.0),
    (make_pipeline(PolynomialFeatures(2, include_bias=False), GP), 1e200, 0.0),
    (make_pipeline(GaussianRandomProjection(2, random_state=0), GP), 1.7e308, 0.0),
]


def fit(model, x, y):
    name = next(key for key in model.get_params() if key.endswith("noise_variance"))
    search = DPGridSearchCV(
        model, {name: [0.1, 0.2, 0.3]}, protect="all", epsilon=3.0, loss_bound=1.0
    )
    promise = search.privacy_guarantee()
    rows, targets = X.copy(), Y.copy()
    rows[0, 0], targets[0] = x, y
    try:
        search.fit(rows, targets)
    except ValueError as error:
        return "winning trial" not in str(error), promise
    return True, promise


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("model", "x", "y"), BREAKING)
def test_what_a_record_decides_is_assumed_away(model, x, y):
    has_model, promise = fit(model, x, y)
    assert not has_model
    assert promise.status == "conditional"
    assert any("every record stays finite" in text for text in promise.assumptions)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("step", [Normalizer(), Binarizer(), SAFE[5]], ids=repr)
def test_what_is_called_proved_holds(step):
    has_model, promise = fit(make_pipeline(step, GP), LARGEST, -LARGEST)
    assert has_model
    assert promise.status == "proved"


@pytest.mark.slow
def test_a_step_that_is_taken_for_harmless_is_found(monkeypatch):
    # Planted bug: as if a polynomial never overflowed.
    monkeypatch.setitem(_KEEP_FINITE, PolynomialFeatures, lambda step: True)
    model, x, y = BREAKING[2]
    has_model, promise = fit(model, x, y)
    assert not has_model
    assert promise.status == "proved"
