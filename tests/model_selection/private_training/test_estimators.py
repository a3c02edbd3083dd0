"""Estimators that may be trained on protected rows, and their budgets."""

import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
    make_column_transformer,
)
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

from _support.internals import (
    StatedCosts,
    gaussian_budget,
    is_shape_only,
    largest_trial_epsilon,
    mark_total,
    noise_seeds,
    plan_trials,
    private_steps,
    refuse_revealing_parts,
)
from _support.protections import private_selection
from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.model_selection import PrivateSelection
from skdpbo.preprocessing import DPStandardScaler
from skdpbo.privacy import PrivacyGuarantee, compose, mu_from_epsilon, selection_guarantee


class Private(RegressorMixin, TransformerMixin, BaseEstimator):
    """Any private step; `kind` says what it states."""

    def __init__(self, kind="gaussian", slack=1.0, epsilon=1.0, delta=1e-5, random_state=None):
        self.kind = kind
        self.slack = slack
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state

    def privacy_guarantee(self, n_samples=None):
        epsilon = self.epsilon * self.slack
        if self.kind == "pure":
            return PrivacyGuarantee(epsilon=epsilon)
        mu = mu_from_epsilon(epsilon, self.delta) if self.kind == "gaussian" else None
        return PrivacyGuarantee(epsilon=epsilon, delta=self.delta, mu=mu, assumptions=("tested",))

    def fit(self, X, y=None):
        return self

    transform = predict = lambda self, X: X


class Validating(Private):
    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon, protects="validation records")


class Local(Private):
    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon, neighbours="rows one unit apart")


class WithoutBudget(BaseEstimator):
    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=1.0)


def plan(estimator, candidates=({},), n_samples=None, **params):
    names = {"selection", "estimator_guarantee"} & set(params)
    own = {name: params.pop(name) for name in names}
    budget = {"epsilon": 1.0, "delta": 1e-5} | params
    candidates = list(candidates)
    refuse_revealing_parts(estimator, candidates)
    return plan_trials(
        estimator, candidates, private_selection(**own), n_samples=n_samples, **budget
    )


def plan_costs(estimator):
    return StatedCosts([clone(estimator)], [{}], 1e-5, None)


SHAPE_ONLY = [
    Normalizer(),
    Binarizer(),
    FunctionTransformer(np.log1p),
    FeatureHasher(8),
    HashingVectorizer(n_features=8),
    PolynomialFeatures(3),
    GaussianRandomProjection(1),
    SparseRandomProjection(1),
    PolynomialCountSketch(),
    RBFSampler(gamma=0.5),
    SplineTransformer(knots=np.array([[0.0], [1.0]])),
    OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore"),
    OrdinalEncoder(categories=[["a", "b"]], handle_unknown="use_encoded_value", unknown_value=-1),
    SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True),
    FrozenEstimator(StandardScaler().fit([[0.0], [1.0]])),
    CountVectorizer(vocabulary=["good", "bad"], min_df=2, max_df=0.5, binary=True),
    TfidfVectorizer(vocabulary={"good": 0, "bad": 1}, use_idf=False, sublinear_tf=True),
    TfidfTransformer(use_idf=False),
]
LEARNING = [
    StandardScaler(),
    MinMaxScaler(),
    PCA(1),
    Nystroem(),
    RBFSampler(gamma="scale"),
    SplineTransformer(),
    SplineTransformer(knots=np.array([[0.0], [1.0]]), extrapolation="error"),
    OneHotEncoder(),
    OneHotEncoder(categories=[["a", "b"]]),
    OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore", min_frequency=3),
    OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore", drop="first"),
    OrdinalEncoder(categories=[["a", "b"]]),
    SimpleImputer(),
    SimpleImputer(strategy="constant", fill_value=0.0),
    SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True),
    CountVectorizer(),
    TfidfVectorizer(),
    TfidfVectorizer(use_idf=False),
    TfidfVectorizer(vocabulary=["good"]),
    TfidfTransformer(),
]


def learned(fitted):
    """Return the attributes of a fitted transformer, as text."""

    def text(value):
        if isinstance(value, TfidfTransformer):
            return learned(value)
        if isinstance(value, np.ndarray):
            return value.tolist()
        if hasattr(value, "toarray"):
            return value.toarray().tolist()
        return [v.c.tolist() + v.t.tolist() for v in value] if "BSpline" in repr(value) else value

    own = {name: v for name, v in vars(fitted).items() if name.endswith("_") or name == "_tfidf"}
    return repr({name: text(v) for name, v in own.items()})


class TestShapeOnly:
    @pytest.mark.parametrize("step", SHAPE_ONLY, ids=lambda step: type(step).__name__)
    def test_fit_is_blind(self, step):
        # The claim itself: other rows of the same shape and type leave the same object.
        assert is_shape_only(step)
        texts = type(step) in (OneHotEncoder, OrdinalEncoder)
        if isinstance(step, (FeatureHasher, HashingVectorizer)):
            return  # nothing is learned by definition: fit only checks parameters
        tables = (
            [np.array([["a"], ["c"], ["b"]], dtype=object), np.full((3, 1), "z", dtype=object)]
            if texts
            else [np.array([[1.0], [2.0], [3.0]]), np.array([[-7.0], [9.0], [0.0]])]
        )
        if isinstance(step, CountVectorizer):  # and its sub-class
            tables = [["good good", "bad", "good"], ["Fine", "", "x y bad"]]
        if isinstance(step, SimpleImputer):
            tables[1][:] = np.nan
        seeded = clone(step)
        if "random_state" in seeded.get_params():
            seeded.set_params(random_state=0)
        first, second = (learned(clone(seeded).fit(table, None)) for table in tables)
        assert first == second

    @pytest.mark.parametrize("step", LEARNING, ids=repr)
    def test_learning_steps_are_refused_by_name(self, step):
        assert not is_shape_only(step)
        name = type(step).__name__
        with pytest.raises(ValueError, match=rf"{name} \(step '{name.lower()}'\) learns"):
            private_steps(make_pipeline(step, Private()))

    def test_models_that_need_no_fit_are_not_shape_only(self):
        # scikit-learn tags it as needing no fit: it has a prior. It learns when it gets one.
        assert not is_shape_only(GaussianProcessRegressor())
        with pytest.raises(ValueError, match="GaussianProcessRegressor"):
            private_steps(make_pipeline(Normalizer(), GaussianProcessRegressor()))

    def test_subclasses_are_not_trusted(self):
        class Learning(PolynomialFeatures):
            pass

        class Resampling(Pipeline):
            pass

        assert not is_shape_only(Learning())
        with pytest.raises(ValueError, match="Resampling states no privacy"):
            private_steps(Resampling([("model", Private())]))


class TestTexts:
    @pytest.mark.parametrize(
        "vectorizer",
        [
            CountVectorizer(vocabulary=["bad", "good"]),
            TfidfVectorizer(vocabulary=["bad", "good"], use_idf=False),
        ],
        ids=lambda step: type(step).__name__,
    )
    def test_a_public_vocabulary_serves_a_private_model(self, vectorizer):
        y = np.random.default_rng(0).integers(0, 2, 300)
        texts = np.array(["bad film", "good film"], dtype=object)[y]
        model = make_pipeline(vectorizer, DPLogisticRegression(X_bounds=(0, 2), classes=[0, 1]))
        every_score = PrivateSelection(accounting="composition")
        search = DPGridSearchCV(model, {}, protect=every_score, epsilon=10.0).fit(texts, y)
        assert search.score(texts, y) > 0.9
        name = type(vectorizer).__name__
        assert f"raises no error or warning, in {name}" in str(search.privacy_.assumptions)

    def test_words_of_the_rows_are_no_vocabulary(self):
        with pytest.raises(ValueError, match="give a public vocabulary and use_idf=False"):
            private_steps(make_pipeline(TfidfVectorizer(), Private()))


class TestSteps:
    def test_found_in_every_composition(self):
        model = make_pipeline(
            make_union(Private(), "passthrough"),
            ColumnTransformer([("a", Private(), [0]), ("b", "drop", [1])], remainder=Binarizer()),
            TransformedTargetRegressor(Private(), func=np.log, inverse_func=np.exp),
        )
        steps = private_steps(model)
        prefixes = ["featureunion__private__", "columntransformer__a__"]
        assert list(steps) == [*prefixes, "transformedtargetregressor__regressor__"]
        model.set_params(**{prefix + "epsilon": 7.0 for prefix in steps})
        assert all(step.epsilon == 7.0 for step in steps.values())

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (Ridge(), "Ridge states no privacy guarantee.*estimator_guarantee.*Chunks"),
            (make_pipeline(Normalizer(), Ridge()), r"Ridge \(step 'ridge'\)"),
            (make_pipeline(StandardScaler(), Private()), r"scaler.* of skdpbo\.preprocessing"),
            (TransformedTargetRegressor(), "LinearRegression"),  # its default
            (TransformedTargetRegressor(Private(), transformer=StandardScaler()), "transformer"),
            (make_pipeline(Normalizer(), "passthrough"), "no step that is"),
            (make_column_transformer((Private(), lambda X: [0])), "function"),
        ],
    )
    def test_refusals(self, model, message):
        with pytest.raises(ValueError, match=message):
            private_steps(model)

    def test_a_frozen_transformer_of_targets_is_refused(self):
        # scikit-learn fits it without y.
        frozen = FrozenEstimator(StandardScaler().fit([[0.0], [1.0]]))
        with pytest.raises(ValueError, match="func and inverse_func"):
            private_steps(TransformedTargetRegressor(Private(), transformer=frozen))
        with pytest.raises(TypeError, match="'y'"):
            TransformedTargetRegressor(Private(), transformer=frozen).fit([[0.0]], [0.0])

    def test_columns_by_type_are_the_schema(self):
        selector = make_column_selector(dtype_include=float)
        assert private_steps(make_column_transformer((Private(), selector)))

    @pytest.mark.parametrize("estimator", [Validating(), Local()])
    def test_guarantees_for_something_else(self, estimator):
        with pytest.raises(ValueError, match=r"protects|neighbours"):
            plan(estimator)

    def test_a_step_without_a_budget(self):
        with pytest.raises(ValueError, match=r"no parameter epsilon.*estimator_guarantee"):
            plan(WithoutBudget())

    def test_caches_are_refused(self, tmp_path):
        model = make_pipeline(Normalizer(), Private(), memory=str(tmp_path))
        for declared in (None, PrivacyGuarantee(epsilon=0.1)):
            with pytest.raises(ValueError, match=r"memory must be None.*noise"):
                plan(model, estimator_guarantee=declared)

    def test_talk_is_refused(self):
        with pytest.raises(ValueError, match="verbose must be 0"):
            plan(make_pipeline(Normalizer(), Private(), verbose=True))
        with pytest.raises(ValueError, match="verbose must be 0"):
            plan(make_pipeline(Normalizer(), Private(), verbose="all"))
        with pytest.raises(ValueError, match="verbose must be 0"):
            plan(make_pipeline(Normalizer(), Private(), verbose=-2))
        plan(make_pipeline(Normalizer(), Private(), verbose=-1))  # silence of LightGBM

    def test_precomputed_kernels_are_refused(self):
        class Pairwise(Private):
            def __sklearn_tags__(self):
                tags = super().__sklearn_tags__()
                tags.input_tags.pairwise = True
                return tags

        with pytest.raises(ValueError, match="precomputed"):
            plan(Pairwise())

    @pytest.mark.skipif(not hasattr(DPGridSearchCV, "set_callbacks"), reason="scikit-learn 1.9")
    def test_callbacks_of_the_estimator_are_refused(self):
        search = DPGridSearchCV(Private(), {})
        search._skl_callbacks = [object()]
        with pytest.raises(ValueError, match="Callbacks"):
            plan(make_pipeline(Normalizer(), search))

    def test_zeros_do_not_decide_on_the_type_of_the_output(self):
        columns = make_column_transformer((Normalizer(), [0]), sparse_threshold=0.3)
        (model,) = plan(make_pipeline(columns, Private())).models
        assert model[0].sparse_threshold == 0

    def test_seeds_of_projections_are_public(self):
        model = make_pipeline(GaussianRandomProjection(2, random_state=0), Private())
        assert list(noise_seeds(model)) == ["private__random_state"]
        assert list(noise_seeds(Private())) == ["random_state"]

    def test_what_was_fitted_before_keeps_its_own_statement(self):
        earlier = Private()
        earlier.privacy_ = stated = PrivacyGuarantee(epsilon=3.0)
        model = make_pipeline(FrozenEstimator(earlier), Private())
        model[1].privacy_ = PrivacyGuarantee(epsilon=0.1)
        total = PrivacyGuarantee(epsilon=1.0)
        mark_total(model, total)
        assert model[1].privacy_ is total
        assert earlier.privacy_ is stated

    def test_what_was_fitted_before_takes_no_share(self):
        earlier = FrozenEstimator(DPStandardScaler(X_bounds=(-3, 3)))
        assert list(private_steps(make_pipeline(earlier, Private()))) == ["private__"]
        with pytest.raises(ValueError, match="no step that is differentially private"):
            private_steps(make_pipeline(earlier, Normalizer()))


class TestBudgets:
    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("kind", ["gaussian", "pure", "approximate"])
    @pytest.mark.parametrize("n_steps", [1, 2, 5])
    @pytest.mark.parametrize("selection", ["profile", "composition"])
    def test_the_whole_is_within_the_total(self, kind, n_steps, selection):
        model = Pipeline([(str(i), Private(kind)) for i in range(n_steps)])
        made = plan(model, [{}] * 7, epsilon=1.0, delta=1e-5, selection=selection)
        stated = [step.privacy_guarantee() for _, step in made.models[0].steps]
        if kind == "gaussian":
            mu = math.hypot(*(g.mu for g in stated))
            assert made.budget.mu * (1 - 1e-6) < mu <= made.budget.mu
        else:
            assert sum(g.epsilon for g in stated) <= made.budget.epsilon
            assert sum(g.epsilon for g in stated) > made.budget.epsilon * (1 - 1e-6)
            assert sum(g.delta for g in stated) <= made.budget.delta
        whole = made.rule.total(made.budget, 1e-5)
        assert 1 - 1e-4 < whole.epsilon <= 1
        assert made.guarantee.epsilon == 1.0
        assert made.guarantee.delta == 1e-5

    def test_a_step_that_states_more_than_it_is_given_is_reined_in(self):
        # Ten per cent above the request: the search requests less.
        made = plan(Private("pure", slack=1.1), epsilon=1.0, delta=0.0)
        (model,) = made.models
        stated = model.privacy_guarantee()
        assert stated.epsilon <= largest_trial_epsilon(made.rule, 1.0, 0.0)
        assert model.epsilon < stated.epsilon

    def test_a_step_that_ignores_its_budget_is_refused(self):
        with pytest.raises(ValueError, match=r"states epsilon=.*estimator_guarantee"):
            plan(Private("pure", slack=100.0), epsilon=1.0)

    def test_candidates_of_different_kinds(self):
        candidates = [{"m": Private("pure")}, {"m": Private("gaussian")}]
        made = plan(Pipeline([("m", Private())]), candidates, epsilon=1.0)
        pure, gaussian = (model[0].privacy_guarantee() for model in made.models)
        assert pure.delta == 0
        assert gaussian.mu <= made.budget.mu
        p = math.exp(pure.epsilon) / (1 + math.exp(pure.epsilon))
        from scipy.stats import norm

        assert 2 * norm.ppf(p) == pytest.approx(made.budget.mu, rel=1e-9)

    def test_the_statement_rests_on_what_the_steps_rest_on(self):
        guarantee = plan(Private()).guarantee
        assert "tested" in guarantee.assumptions
        assert guarantee.status == "proved"

    def test_a_seed_voids(self):
        class Seeded(Private):
            def privacy_guarantee(self, n_samples=None):
                stated = super().privacy_guarantee()
                return stated if self.random_state is None else stated.voided("seeded")

        assert plan(Seeded(random_state=0)).guarantee.status == "void"
        assert plan(Seeded()).guarantee.status == "proved"

    @pytest.mark.parametrize("name", ["seed", "random_seed", "rng", "generator", "noise_seed"])
    @pytest.mark.parametrize("declared", [False, True])
    def test_seeds_of_other_names_void(self, name, declared):
        class Named(Private):
            def get_params(self, deep=True):
                return super().get_params(deep) | {name: self.__dict__.get(name)}

            def set_params(self, **params):
                self.__dict__[name] = params.pop(name, self.__dict__.get(name))
                return super().set_params(**params)

            def __init__(self, epsilon=1.0, delta=1e-5, **seeds):
                super().__init__(epsilon=epsilon, delta=delta)
                self.__dict__.update(seeds)

            @classmethod
            def _get_param_names(cls):
                return ["epsilon", "delta"]

        cost = PrivacyGuarantee(epsilon=0.1) if declared else None
        usual = "conditional" if declared else "proved"
        for seed, status in ((None, usual), (0, "void")):
            model = make_pipeline(Normalizer(), Named(**{name: seed}))
            made = plan(model, estimator_guarantee=cost)
            assert made.guarantee.status == status
            assert any(name in text for text in made.own_assumptions) == (status == "void")

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("declared", [PrivacyGuarantee(epsilon=0.1), lambda epsilon: 1e-6])
    def test_seeds_of_parts_in_lists_void(self, declared):
        class Committee(RegressorMixin, BaseEstimator):
            def __init__(self, parts):
                self.parts = parts

        def status(*parts):
            return plan(Committee([*parts]), estimator_guarantee=declared).guarantee.status

        assert status(Private(), RBFSampler(gamma=0.5, random_state=0)) == "conditional"
        assert status(Private(random_state=0)) == "void"
        assert status({"inner": make_pipeline(Normalizer(), Private(random_state=0))}) == "void"

    def test_the_number_of_rows_is_handed_on(self):
        class Counting(Private):
            def privacy_guarantee(self, n_samples=None):
                return PrivacyGuarantee(epsilon=self.epsilon * 100 / n_samples)

        (few,) = plan(Counting("pure"), n_samples=100, delta=0.0).models
        (many,) = plan(Counting("pure"), n_samples=100, delta=0.0).models
        assert few.epsilon == many.epsilon
        with pytest.raises(ValueError, match="states epsilon"):
            plan(Counting("pure"), n_samples=10, delta=0.0)

    @pytest.mark.slow
    def test_a_statistical_distance_is_paid_for(self):
        class Approximate(Private):
            def privacy_guarantee(self, n_samples=None):
                exact = super().privacy_guarantee()
                loss = (1 + math.exp(exact.epsilon)) * 1e-8
                return PrivacyGuarantee(
                    epsilon=exact.epsilon,
                    delta=exact.delta + 1.1 * loss,
                    mu=exact.mu,
                    statistical_distance=1e-8,
                )

        two = Pipeline([("first", Approximate()), ("second", Approximate())])
        trial = plan_costs(two).trial(gaussian_budget(0.1, 1e-5))
        assert trial.statistical_distance == 2e-8
        exact, close = (plan(step, [{}] * 5, delta=1e-5) for step in (Private(), Approximate()))
        assert close.budget.mu < exact.budget.mu
        trial = close.models[0].privacy_guarantee()
        law = PrivateSelection().law(5)
        assert selection_guarantee(trial, law, delta=1e-5).epsilon <= 1

    def test_composition_of_declared_costs(self):
        cost = PrivacyGuarantee(epsilon=0.1)
        made = plan(Private(), [{}] * 4, estimator_guarantee=cost, selection="composition")
        assert compose(*[made.budget] * 4, delta=1e-5).epsilon <= 1
        assert made.budget.epsilon > 0.25

    def test_the_sparse_process_ends_on_the_private_side(self):
        for epsilon in (0.05, 0.3, 2.0, 30.0):
            made = plan(DPSparseGPRegressor(), [{}] * 3, epsilon=epsilon)
            assert made.models[0].privacy_guarantee().mu <= made.budget.mu
            assert made.models[0].privacy_guarantee().mu > made.budget.mu * (1 - 1e-6)


def test_two_calls_plan_the_same():
    first, second = (plan(Private(), delta=1e-6, n_samples=n) for n in (None, 10))
    assert first.guarantee == second.guarantee
