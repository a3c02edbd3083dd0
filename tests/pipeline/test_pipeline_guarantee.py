"""Guarantees of whole pipelines, and the attack that an exact step before a private one allows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.preprocessing import (
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
)
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, compose, mu_from_epsilon

# Beside texts alone None becomes NaN, since pandas 3.
TYPES_TEXTS = pd.DataFrame(np.array([["a"]], dtype=object)).dtypes.iloc[0] != np.dtype(object)


def test_exact_scaler_before_a_private_model_is_void():
    """The scaler's mean shows a record, and the model's inputs depend on it."""
    X = np.random.default_rng(0).normal(50, 10, (300, 1))
    y = np.sin(X[:, 0] / 10)
    model = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-1, 1), inducing_points=4)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    guarantee = pipeline_guarantee(pipeline)
    assert guarantee.status == "void"
    assert "StandardScaler (step 'standardscaler')" in guarantee.assumptions[0]
    # The model alone cannot see what came before it: it says what it assumes.
    assert any("from its own record" in text for text in pipeline[-1].privacy_.assumptions)


def test_what_is_public_of_all_steps_is_stated_once():
    steps = DPSimpleImputer(), DPStandardScaler(), DPOneHotEncoder(), DPLogisticRegression()
    sentence = str(pipeline_guarantee(make_pipeline(*steps)))
    for text in (
        "number of records, the columns and the types",
        "chosen without looking",
        "is infinite",
        "the labels that occur",  # no classes are given
    ):
        assert sentence.count(text) == 1
    steps[-1].set_params(classes=[0, 1])
    assert "labels" not in str(pipeline_guarantee(make_pipeline(*steps)))


def test_targets_that_scikit_learn_sums_are_assumed_to_raise_no_warning():
    X, y = np.zeros((32, 1)), np.full(32, 1e308)
    y[::8] = -1e308
    model = TransformedTargetRegressor(
        DPRidge(X_bounds=(0, 1), y_bounds=(0, 1)),
        transformer=DPMinMaxScaler(X_bounds=(0, 1)),
        check_inverse=False,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert any("invalid value" in str(warning.message) for warning in caught)
    stated = [text for text in pipeline_guarantee(model).assumptions if "or warning" in text]
    assert [text.endswith("TransformedTargetRegressor") for text in stated] == [True]


class TestGroups:
    """A record that is in another group changes two groups: for it nothing is stated."""

    def fitted(self, *, scaler, model):
        X = np.linspace(0, 1, 60).reshape(30, 2)
        first = DPMinMaxScaler(X_bounds=(0, 1)).set_fit_request(groups=False)
        second = DPStandardScaler(X_bounds=(0, 1)).set_fit_request(groups=scaler)
        last = DPRidge(X_bounds=(-1, 1), y_bounds=(0, 1)).set_fit_request(groups=model)
        return make_pipeline(first, second, last).fit(X, X[:, 0], groups=[*range(15)] * 2)

    def test_steps_that_were_fitted_with_groups_protect_them(self):
        with config_context(enable_metadata_routing=True):
            pipeline = self.fitted(scaler=True, model=True)
            with pytest.raises(ValueError, match="different neighbours"):
                pipeline_guarantee(self.fitted(scaler=True, model=False))
        steps = [pipeline[1].privacy_, pipeline[2].privacy_]
        total, known = pipeline_guarantee(pipeline), compose(*steps)
        assert total.neighbours == "one group replaced"
        assert (total.epsilon, total.mu) == (known.epsilon, known.mu)
        assert {*known.assumptions} <= {*total.assumptions}


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(DPStandardScaler(), LogisticRegression()),
        FeatureUnion([("exact", StandardScaler()), ("private", DPStandardScaler())]),
        ColumnTransformer([("a", DPStandardScaler(), [0]), ("b", StandardScaler(), [1])]),
        make_pipeline(
            ColumnTransformer([("a", DPStandardScaler(), lambda X: [0])]), DPLogisticRegression()
        ),
        make_pipeline(DPStandardScaler(), DPLogisticRegression(), memory="cache"),
        make_pipeline(OneHotEncoder(), DPLogisticRegression()),
        make_pipeline(DPStandardScaler(), DPLogisticRegression(random_state=0)),
        make_pipeline(type("Sub", (StandardScaler,), {})(), DPLogisticRegression()),
    ],
    ids=["model", "union", "columns", "callable", "memory", "encoder", "seed", "subclass"],
)
def test_void(estimator):
    assert pipeline_guarantee(estimator).status == "void"


def test_private_steps_compose():
    steps = DPStandardScaler(epsilon=0.3), DPLogisticRegression(epsilon=0.7)
    whole = pipeline_guarantee(
        make_pipeline(
            ColumnTransformer([("scaled", steps[0], [0])], remainder="passthrough"),
            Normalizer(),
            FunctionTransformer(),
            steps[1],
        )
    )
    expected = compose(*(step.privacy_guarantee() for step in steps))
    assert (whole.epsilon, whole.delta, whole.mu) == (
        expected.epsilon,
        expected.delta,
        expected.mu,
    )
    assert whole.mu == pytest.approx(np.hypot(*(mu_from_epsilon(e, 1e-5) for e in (0.3, 0.7))))
    assert whole.status == "proved"


def in_own_units(X):
    """Planted: standard scores by the rows of a call, in a step that is fitted to nothing."""
    return (X - X.mean(axis=0)) / X.std(axis=0)


def moved_by_one_record(step):
    """Largest distance by which one outlier moves the rows of others, before a private model."""
    X = np.random.default_rng(0).normal(size=(50, 2))
    other = X.copy()
    other[0] = 1e4
    one, two = (step.fit_transform(rows)[1:] for rows in (X, other))
    return np.abs(one - two).max()


def test_a_step_that_is_not_verified_is_conditional_by_name():
    planted = FunctionTransformer(in_own_units)
    assert moved_by_one_record(planted) > 1
    stated = pipeline_guarantee(make_pipeline(planted, DPLogisticRegression()))
    assert stated.status == "conditional"
    assert "func of FunctionTransformer (step 'functiontransformer')" in stated.assumptions[-2]
    verified = make_pipeline(FunctionTransformer(np.log1p), DPLogisticRegression())
    assert moved_by_one_record(Normalizer()) == 0
    # No row enters another, but a record at which it is infinite ends the fit.
    stated = pipeline_guarantee(verified)
    assert stated.status == "conditional"
    assert "stays finite, and raises no error or warning" in stated.assumptions[-1]
    assert "FunctionTransformer" not in " ".join(stated.assumptions[:-1])
    functions = {"func": in_own_units, "inverse_func": np.array, "check_inverse": False}
    targets = TransformedTargetRegressor(DPRidge(), **functions)
    assert pipeline_guarantee(targets).status == "conditional"


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(feature_names_out="one-to-one"),
        ColumnTransformer([("c", "passthrough", [0])], sparse_threshold=0),
        FeatureUnion([("c", "passthrough")]),
        FrozenEstimator(SimpleImputer(strategy="most_frequent").fit(np.array([["a"]], object))),
    ],
    ids=lambda step: type(step).__name__,
)
def test_frames_of_python_objects_that_are_handed_on_are_conditional(step):
    """A number among texts has made None of NaN in all other rows, since pandas 3."""
    categories = {"categories": [["a", np.nan]], "handle_unknown": "ignore"}
    encoder = OneHotEncoder(**categories, sparse_output=False)
    cells = np.array(["a", "a", None, None], dtype=object)[:, None]
    for how in ("pandas", "default"):
        getattr(step, "estimator", step).set_output(transform=how)
        model = make_pipeline(step, encoder, DPRidge())
        guarantee, name = pipeline_guarantee(model), type(step).__name__
        # The frozen step is not verified to keep all rows finite.
        proved = how == "default" and not isinstance(step, FrozenEstimator)
        assert guarantee.status == ("proved" if proved else "conditional")
        assert (f"set_output, of {name} (step '{name.lower()}')" in str(guarantee)) == (
            how == "pandas"
        )
        usual = model[:-1].fit_transform(cells)
        other = model[:-1].fit_transform(np.concatenate([[[5]], cells[1:]]))
        assert (np.abs(usual - other)[1:].max() > 0) == (how == "pandas" and TYPES_TEXTS)


def test_frames_of_numbers_are_proved():
    scaled = ColumnTransformer([("c", DPStandardScaler(), [0])])  # what is left is dropped
    for step in (Normalizer(), scaled, DPOneHotEncoder()):
        model = make_pipeline(step, DPRidge()).set_output(transform="pandas")
        assert pipeline_guarantee(model).status == "proved"


@pytest.mark.parametrize("how", [{"handle_unknown": "warn"}, {"drop": "first"}], ids=str)
def test_an_encoder_that_warns_of_one_record_is_void(how):
    encoder = OneHotEncoder(categories=[["a", "b"]], **({"handle_unknown": "ignore"} | how))
    with pytest.warns(UserWarning, match="unknown categories"):
        encoder.fit_transform(np.array([["a"], ["Ann's own"]], dtype=object))
    stated = pipeline_guarantee(make_pipeline(encoder, DPLogisticRegression()))
    assert stated.status == "void"


def test_zeros_of_the_records_decide_on_no_type_of_the_output():
    encoder = OneHotEncoder(categories=[[0, 1, 2]], handle_unknown="ignore")
    parts = [("a", encoder, [0]), ("b", DPStandardScaler(X_bounds=(0, 1)), [1])]
    leaky = ColumnTransformer(parts)
    X = np.zeros((50, 2))
    X[:, 0] = [0] * 9 + [3] * 41
    assert leaky.fit(X).sparse_output_
    X[9, 0] = 0
    assert not leaky.fit(X).sparse_output_  # at a density of 0.3
    stated = pipeline_guarantee(make_pipeline(leaky, DPLogisticRegression()))
    assert (stated.status, "sparse_threshold=0" in stated.assumptions[0]) == ("void", True)
    dense = make_pipeline(ColumnTransformer(parts, sparse_threshold=0), DPLogisticRegression())
    assert pipeline_guarantee(dense).status == "proved"


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ((DPStandardScaler(),), "proved"),
        ((Normalizer(), FunctionTransformer(), DPStandardScaler()), "proved"),
        ((DPStandardScaler(), FunctionTransformer(), Normalizer()), "void"),
        ((DPOneHotEncoder(sparse_output=True),), "void"),
        ((), "void"),
    ],
    ids=["scaler", "ends dense", "ends as given", "sparse categories", "columns as they are"],
)
def test_a_table_that_no_private_step_makes_dense_counts_its_zeros(last, status):
    parts = [("kept", "passthrough", [0])] + [("a", make_pipeline(*last), [1])] * bool(last)
    model = make_pipeline(ColumnTransformer(parts), DPLogisticRegression())
    assert pipeline_guarantee(model).status == status
    model[0].set_params(sparse_threshold=0)
    assert pipeline_guarantee(model).status == "proved"


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.arctan, np.tan),
        TransformedTargetRegressor(DPRidge(), func=np.arctan, inverse_func=np.tan),
        TransformedTargetRegressor(DPRidge(), transformer=DPMinMaxScaler(X_bounds=(0, 1))),
    ],
    ids=["rows", "targets", "scaled"],
)
def test_an_inverse_that_is_compared_on_the_records_is_void(step):
    model = step if hasattr(step, "regressor") else make_pipeline(step, DPRidge())
    model.set_params(**{key: (0, 1) for key in model.get_params() if key.endswith("_bounds")})
    ordinary, far = np.zeros((50, 1)), np.eye(50, 1) * 1e20
    model.fit(ordinary, ordinary[:, 0])  # without a warning, which would be an error
    with pytest.warns(UserWarning, match="not strictly inverse"):
        model.fit(far, far[:, 0])
    stated = pipeline_guarantee(model)
    assert (stated.status, "check_inverse=False" in stated.assumptions[0]) == ("void", True)
    step.set_params(check_inverse=False)
    # Functions are not verified to keep all rows finite, as the scaler is.
    scaled = getattr(step, "transformer", None) is not None
    assert pipeline_guarantee(model).status == ("proved" if scaled else "conditional")


class OwnModel(LogisticRegression):
    """A private model of another library, whose own statement covers what it does."""

    def __init__(self, inner=None):
        self.inner = inner

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=1.0)


def test_the_statement_of_a_model_covers_what_it_does_inside():
    model = OwnModel(FunctionTransformer(in_own_units))
    assert pipeline_guarantee(make_pipeline(Normalizer(), model)).status == "proved"


def test_targets_that_are_transformed():
    regressor = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-1, 1))
    functions = {"func": np.log1p, "inverse_func": np.expm1, "check_inverse": False}
    whole = TransformedTargetRegressor(regressor, **functions)
    stated = pipeline_guarantee(whole)
    assert stated.status == "conditional"
    assert "every record stays finite" in stated.assumptions[-1]
    assert "func of TransformedTargetRegressor" in stated.assumptions[-1]


def test_no_private_step():
    with pytest.raises(ValueError, match="no step with a privacy guarantee"):
        pipeline_guarantee(make_pipeline(StandardScaler(), LogisticRegression()))


def test_ledger_pays_for_every_step():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] > 0).astype(int)
    model = make_pipeline(
        DPStandardScaler(epsilon=0.3, X_bounds=(-9, 9)),
        DPLogisticRegression(epsilon=0.7, X_bounds=(-3, 3)),
    )
    with PrivacyLedger(epsilon=2.0, delta=1e-4) as ledger:
        model.fit(X, y)
        assert len(ledger.entries) == 2


def test_scaled_pipeline_in_a_wide_box_is_near_the_one_with_public_constants():
    """5000 rows, epsilon 1, a box ten times as wide as the data."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25000, 5)) * [1, 2, 3, 1, 1] + [0, 5, -5, 0, 1]
    margin = (X - [0, 5, -5, 0, 1]) / [1, 2, 3, 1, 1] @ [2.0, -1.0, 0.5, 0.5, 0.0]
    y = (margin + rng.logistic(size=len(X)) > 0).astype(int)
    train, test = slice(0, 5000), slice(5000, None)
    span = 30 * np.array([1, 2, 3, 1, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private = make_pipeline(
            DPStandardScaler(epsilon=0.4, X_bounds=(-span, span), random_state=0),
            DPLogisticRegression(epsilon=0.9, X_bounds=(-3, 3), random_state=0),
        ).fit(X[train], y[train])
        constants = make_pipeline(
            FunctionTransformer(lambda X: (X - [0, 5, -5, 0, 1]) / [1, 2, 3, 1, 1]),
            DPLogisticRegression(epsilon=1.0, X_bounds=(-3, 3), random_state=0),
        ).fit(X[train], y[train])
    assert pipeline_guarantee(private).epsilon < 1.1
    assert private.score(X[test], y[test]) > 0.95 * constants.score(X[test], y[test])


PUBLIC = [
    lambda: DPMinMaxScaler(X_bounds=(0, 1)),
    lambda: DPOneHotEncoder(categories=[[0.25], [0.5]]),
]


@pytest.mark.parametrize("step", PUBLIC, ids=["bounds", "categories"])
def test_public_parameters_cost_nothing_and_read_no_value(step):
    """An attack: tables that share no value leave the same fitted object and the same ledger."""
    left = []
    for table in (np.zeros((5, 2)), np.full((5, 2), np.nan), np.full((5, 2), 1e300)):
        with PrivacyLedger(epsilon=1.0) as ledger:  # with delta 0 it pays for no Gaussian release
            fit = step().fit(table)
        assert ledger.entries == ()
        assert (fit.privacy_.epsilon, fit.privacy_.delta, fit.privacy_.status) == (0, 0, "proved")
        left.append(repr(vars(fit)))
    assert len(set(left)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("step", PUBLIC, ids=["bounds", "categories"])
def test_public_step_takes_no_share_of_a_search(step):
    X = np.random.default_rng(0).choice([0.25, 0.5], (200, 2))
    model = DPLogisticRegression(X_bounds=(0, 1), classes=[0, 1])
    budgets = []
    for estimator in (make_pipeline(step(), model), make_pipeline(Normalizer(), model)):
        search = DPGridSearchCV(
            estimator, {"dplogisticregression__C": [0.1, 1.0, 9.0]}, protect="all", epsilon=3.0
        )
        budgets.append(search.fit(X, X[:, 0] > 0.3).best_estimator_[-1].epsilon)
    assert budgets[0] == budgets[1]


def test_private_steps_do_not_warn_of_huge_values():
    """A sum of such values, by which scikit-learn looks for infinity, is no number."""
    box = {"X_bounds": (-1, 1)}
    steps = DPSimpleImputer(**box), DPStandardScaler(**box), DPMinMaxScaler(epsilon=50.0)
    X = np.zeros((20, 32))
    X[3] = np.tile(np.repeat([1e308, -1e308], 4), 4)
    pipeline = make_pipeline(*steps, DPRidge(**box, y_bounds=(-1, 1)))
    with np.errstate(all="warn"):
        with pytest.warns(RuntimeWarning):
            Normalizer().fit(X)
        pipeline.fit(X, X[:, 0])
    assert pipeline_guarantee(pipeline).status == "proved"
