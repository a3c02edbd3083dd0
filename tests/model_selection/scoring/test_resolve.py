"""Per-record scores: bounded, isolated, on scikit-learn's scale, or refused with a reason."""

import inspect
import math
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn import metrics
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils.metadata_routing import get_routing_for_object

from _support.internals import (
    DEFAULT_LOG_LOSS_BOUND,
    PerRecordScorer,
    codes_among,
    isolated_outcomes,
    make_per_record_scorer,
    resolve_scorer,
    resolve_trial_scorer,
)
from skdpbo.exceptions import DefaultBoundsWarning, UnboundedSensitivityError
from skdpbo.linear_model import DPRidge

B = 2**20
SUPPORTED = {
    "accuracy",
    "neg_log_loss",
    "neg_brier_score",
    "neg_mean_squared_error",
    "neg_mean_absolute_error",
    "neg_mean_absolute_percentage_error",
    "neg_mean_squared_log_error",
    "neg_mean_poisson_deviance",
    "neg_mean_gamma_deviance",
}
# Supported without public rows, too; the others of their family are in test_metric_scorers.
SUPPORTED_ANYWHERE = SUPPORTED | {
    "f1_micro",
    "jaccard_micro",
    "neg_root_mean_squared_error",
    "neg_root_mean_squared_log_error",
    "precision_micro",
    "recall_micro",
    "recall_weighted",
    "top_k_accuracy",
}
REGRESSION = sorted(name for name in SUPPORTED if "_error" in name or "_deviance" in name)


class Hostile:
    """A record whose every use raises, with a text that quotes it."""

    def __eq__(self, other):
        raise RuntimeError("SECRET")

    __hash__ = __float__ = __array__ = __bool__ = __eq__

    def __repr__(self):
        return "SECRET"


ZOO = [
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    None,
    "x",
    "",
    "1",
    b"1",
    [],
    [1],
    [1, [2, 3]],
    (0, 1, 2),
    {},
    {"a": 1},
    set(),
    1j,
    10**400,
    -(10**400),
    Decimal("sNaN"),
    Fraction(1, 3),
    pd.NA,
    pd.NaT,
    np.datetime64("NaT", "s"),
    np.str_("x"),
    np.array(1),
    np.array([]),
    np.eye(2),
    Hostile(),
    Hostile,
    object(),
]


class Fixed(BaseEstimator):
    """Answers what it is given, row by row: X holds row numbers."""

    def __init__(self, answers, classes=None):
        self.answers = answers
        if classes is not None:
            self.classes_ = np.asarray(classes)
        self.classes = classes

    def predict(self, X):
        if isinstance(self.answers, list):
            return [self.answers[int(i)] for i in X]
        return self.answers[np.asarray(X, dtype=int)]

    predict_proba = score_samples = predict


def _object_array(records):
    array = np.empty(len(records), dtype=object)
    for i, record in enumerate(records):  # one by one: NumPy would look inside them
        array[i] = record
    return array


CONTAINERS = {
    "list": list,
    "ndarray": _object_array,
    "Series": lambda records: pd.Series(_object_array(records), dtype=object),
}
PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3], [0.05, 0.9, 0.05]])


def _user_absolute(y_true, y_pred):
    return np.abs(y_true - y_pred)


def _user_leaky(y_true, y_pred):
    return np.abs(y_true - np.mean(y_true)) + 0 * y_pred  # looks at the other records


def _cases():
    """Yield (id, scorer, estimator, clean targets)."""
    labels = [0, 2, 1, 1]
    yield "accuracy", resolve_scorer("accuracy", None), Fixed(np.array([0, 1, 1, 2])), labels
    names = np.array(["a", "c", "b", "b"])
    yield "accuracy-str", resolve_scorer("accuracy", None), Fixed(names), names.tolist()
    for name in ("neg_log_loss", "neg_brier_score"):
        yield name, resolve_scorer(name, None), Fixed(PROBABILITIES, [0, 1, 2]), labels
    numbers = [0.5, 2.0, 1.25, 3.0]
    for name in REGRESSION:
        scorer = resolve_scorer(name, None, 2.0)
        yield name, scorer, Fixed(np.array([1.0, 1.9, 1.0, 0.5])), numbers
    for loss in (_user_absolute, _user_leaky):
        scorer = make_per_record_scorer(loss, bound=2.0)
        yield loss.__name__, scorer, Fixed(np.array([1.0, 1.9, 1.0, 0.5])), numbers


CASES = list(_cases())
case = pytest.mark.parametrize(
    ("scorer", "estimator", "targets"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
ROWS = list(range(4))


# ---------------------------------------------------------------- isolation of protected records


@pytest.mark.quick_cases(9)
@case
@pytest.mark.parametrize("container", CONTAINERS)
def test_one_bad_target_changes_its_own_loss_only(scorer, estimator, targets, container):
    """Brute force over neighbours: every record replaced by every value of the zoo."""
    clean = scorer.record_losses(estimator, ROWS, CONTAINERS[container](targets))
    assert clean.dtype == np.int64
    assert clean.shape == (4,)
    for i in ROWS:
        for bad in ZOO:
            records = list(targets)
            records[i] = bad
            losses = scorer.record_losses(estimator, ROWS, CONTAINERS[container](records))
            others = np.arange(4) != i
            np.testing.assert_array_equal(losses[others], clean[others])
            assert 0 <= losses[i] <= scorer.units
            assert abs(losses.sum() - clean.sum()) <= scorer.units


@case
def test_one_bad_prediction_changes_its_own_loss_only(scorer, estimator, targets):
    clean = scorer.record_losses(estimator, ROWS, targets)
    answers = estimator.answers
    for i in ROWS:
        for bad in (math.nan, math.inf, -math.inf, 1e308, -1e308):
            if answers.dtype.kind != "f":
                continue
            changed = answers.copy()
            changed[i] = bad
            model = Fixed(changed, getattr(estimator, "classes_", None))
            losses = scorer.record_losses(model, ROWS, targets)
            others = np.arange(4) != i
            np.testing.assert_array_equal(losses[others], clean[others])
            if not np.isfinite(bad):
                assert losses[i] == scorer.units


def test_predictions_of_mixed_types_are_compared_one_by_one():
    scorer = resolve_scorer("accuracy", None)
    for bad in ZOO:
        model = Fixed([0, bad, "b", True])
        assert scorer.record_losses(model, ROWS, [0, 1, "b", 1]).tolist()[::2] == [0, 0]


def test_converting_the_container_as_a_whole_is_caught():
    """The planted bug: np.asarray of mixed targets reads every label as a string."""
    assert (np.asarray([0, 1, "x"]) != np.array([0, 1, 2]).astype(object)).all()
    scorer = resolve_scorer("accuracy", None)
    losses = scorer.record_losses(Fixed(np.array([0, 1, 2])), [0, 1, 2], [0, 1, "x"])
    assert losses.tolist() == [0, 0, 1]


@case
@pytest.mark.parametrize("bad", [math.nan, None, pd.NA, pd.NaT, Hostile(), [], {}, object()])
def test_a_target_that_cannot_be_scored_gets_the_worst_loss(scorer, estimator, targets, bad):
    losses = scorer.record_losses(estimator, ROWS, [bad, *targets[1:]])
    if "leaky" not in scorer.name:
        assert losses[0] == scorer.units


@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss", "neg_brier_score"])
def test_an_unseen_label_gets_the_worst_loss(name):
    scorer = resolve_scorer(name, None)
    estimator = Fixed(PROBABILITIES, [0, 1, 2])
    if name == "accuracy":
        estimator = Fixed(np.array([0, 1, 1, 2]))
    losses = scorer.record_losses(estimator, ROWS, [7, "0", -1, 1.5])
    assert losses.tolist() == [scorer.units] * 4


@case
def test_no_warning_and_no_text_tells_of_a_record(scorer, estimator, targets):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for bad in ZOO:
            scorer.record_losses(estimator, ROWS, [*targets[:3], bad])
    assert not caught
    assert "SECRET" not in repr(vars(scorer))


@pytest.mark.parametrize("kind", ["int64", "int8", "float64", "bool", "str", "object", "list"])
@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss"])
def test_label_types(name, kind):
    """Equal labels are equal whatever the type of the container."""
    labels = np.array([0, 1, 1, 0])
    classes = np.array([0, 1])
    if kind == "str":
        labels, classes = np.array(["no", "yes"])[labels], np.array(["no", "yes"])
    answers = labels if name == "accuracy" else PROBABILITIES[:, :2]
    estimator = Fixed(answers, None if name == "accuracy" else classes)
    expected = resolve_scorer(name, None).record_losses(estimator, ROWS, labels)
    y = {"list": labels.tolist(), "str": labels.astype(object)}.get(kind)
    y = labels.astype(kind) if y is None else y
    np.testing.assert_array_equal(
        resolve_scorer(name, None).record_losses(estimator, ROWS, y), expected
    )


def test_pandas_targets():
    scorer = resolve_scorer("accuracy", None)
    estimator = Fixed(np.array(["a", "b", "a", "b"]))
    series = pd.Series(["a", "a", None, "b"], index=[9, 8, 7, 6])
    for y in (series, series.astype("category"), series.astype("string")):
        assert scorer.record_losses(estimator, ROWS, y).tolist() == [0, 1, 1, 0]
    y = pd.Series([1, 2, None, 4], dtype="Int64")
    squared = resolve_scorer("neg_mean_squared_error", None, 1.0)
    assert squared.record_losses(Fixed(np.arange(4.0) + 1), ROWS, y).tolist() == [0, 0, B, 0]


def test_fast_and_slow_reading_agree():
    rng = np.random.RandomState(0)
    y, predicted = rng.randint(0, 3, 50), rng.randint(0, 3, 50)
    accuracy = resolve_scorer("accuracy", None)
    squared = resolve_scorer("neg_mean_squared_error", None, 2.0)
    noise = rng.standard_normal(50).astype(np.float32)
    for scorer, target, answer in ((accuracy, y, predicted), (squared, noise, noise[::-1])):
        fast = scorer.record_losses(Fixed(answer), range(50), target)
        slow = scorer.record_losses(Fixed(answer), range(50), target.tolist())
        np.testing.assert_array_equal(fast, slow)


# ---------------------------------------------------------------- values


def test_accuracy_is_that_of_sklearn_and_exact_from_units():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X, y)
    scorer = resolve_scorer("accuracy", model)
    expected = metrics.get_scorer("accuracy")(model, X, y)
    assert scorer(model, X, y) == expected
    assert scorer.score_from_units(scorer.record_losses(model, X, y).sum(), len(y)) == expected
    assert (scorer.bound, scorer.units) == (1.0, 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss", *REGRESSION])
def test_public_scores_are_those_of_sklearn_where_nothing_is_clipped(name, weighted):
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500, C=0.1).fit(X, y)
    if name in REGRESSION:
        model = Fixed(np.linspace(0.5, 2.0, 150))
        X, y = np.arange(150), np.linspace(1.0, 4.0, 150)
    weight = np.linspace(1, 3, 150) if weighted else None
    scorer = resolve_scorer(name, model, None if name == "accuracy" else 50.0)
    sign_and_loss = metrics.get_scorer(name)
    expected = sign_and_loss(model, X, y, sample_weight=weight)
    assert scorer(model, X, y, sample_weight=weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("scorer", "estimator", "targets"), [c[1:] for c in CASES if "leaky" not in c[0]]
)
def test_private_and_public_scores_are_on_one_scale(scorer, estimator, targets):
    private = scorer.score_from_units(scorer.record_losses(estimator, ROWS, targets).sum(), 4)
    public = scorer(estimator, ROWS, targets)
    assert private == pytest.approx(public, abs=scorer.bound / (2 * scorer.units) + 1e-12)
    assert isinstance(public, float)


def test_brier_conventions():
    """In [0, 1] for two classes and in [0, 2] for more, as in scikit-learn."""
    model = Fixed(PROBABILITIES[:, :2] / PROBABILITIES[:, :2].sum(1, keepdims=True), [0, 1])
    y = [0, 1, 1, 0]
    expected = -metrics.brier_score_loss(y, model.predict_proba(ROWS)[:, 1])
    assert resolve_scorer("neg_brier_score", None)(model, ROWS, y) == pytest.approx(expected)
    exact = resolve_scorer("neg_brier_score", None, n_classes=2)
    assert exact.bound == 1.0
    assert exact(model, ROWS, y) == pytest.approx(expected)
    many = resolve_scorer("neg_brier_score", None, n_classes=3)
    assert many.bound == 2.0
    model = Fixed(PROBABILITIES, [0, 1, 2])
    y = [0, 2, 1, 0]
    by_hand = -np.mean(np.sum((PROBABILITIES - np.eye(3)[y]) ** 2, axis=1))
    assert many(model, ROWS, y) == pytest.approx(by_hand)
    if "scale_by_half" in inspect.signature(metrics.brier_score_loss).parameters:
        assert -metrics.brier_score_loss(y, PROBABILITIES) == pytest.approx(by_hand)


def test_worst_brier_loss_reaches_but_does_not_pass_its_bound():
    model = Fixed(np.array([[1.0, 0.0, 0.0], [5.0, -3.0, 9.0]]), [0, 1, 2])
    scorer = resolve_scorer("neg_brier_score", None)
    assert scorer.record_losses(model, [0, 1], [1, 1]).tolist() == [B, B]


@pytest.mark.parametrize("method", ["record_losses", "record_outcomes"])
@pytest.mark.parametrize(
    ("losses", "kept"),
    [([B + 5, -1], [B, 0]), ([0.5, np.nan], [B, B]), ([[1], [2]], [B, B]), ([1, 1, 1], [B, B])],
)
def test_losses_of_a_scorer_of_ones_own_are_clipped_to_its_units(method, losses, kept):
    scorer_class = type("Own", (PerRecordScorer,), {method: lambda *args: np.array(losses)})
    scorer = scorer_class(None, name="own", bound=1.0, units=B)
    rows = np.zeros((2, 1)), np.zeros(2)
    for how in ({}, {"batches": np.array([[0, 1]])}):
        assert isolated_outcomes(None, scorer, *rows, **how).tolist() == kept


def test_log_loss_bound():
    scorer = resolve_scorer("neg_log_loss", None)
    assert scorer.bound == DEFAULT_LOG_LOSS_BOUND == -math.log(1e-3)
    model = Fixed(np.array([[1.0, 0.0], [0.999, 0.001], [0.5, 0.5], [2.0, -1.0]]), ["a", "b"])
    losses = scorer.record_losses(model, ROWS, ["b", "b", "b", "a"])
    assert losses.tolist() == [B, B, round(B * math.log(2) / scorer.bound), 0]
    assert resolve_scorer("neg_log_loss", None, 3.0).bound == 3.0


def test_errors_are_clipped_at_the_bound():
    scorer = resolve_scorer("neg_mean_squared_error", None, 4.0)
    model = Fixed(np.array([0.0, 0.0, 0.0, 0.0]))
    assert scorer.record_losses(model, ROWS, [0, 1, 2, 1e200]).tolist() == [0, B // 4, B, B]
    assert scorer(model, ROWS, [0, 1, 2, 1e200]) == -(0 + 1 + 4 + 4) / 4


def test_multioutput_regression_is_the_mean_over_outputs():
    scorer = resolve_scorer("neg_mean_squared_error", None, 10.0)
    model = Fixed(np.array([[1.0, 2.0], [3.0, 4.0]]))
    y = np.array([[1.0, 0.0], [3.0, math.nan]])
    assert scorer.record_losses(model, [0, 1], y).tolist() == [round(B * 0.2), B]
    assert scorer.record_losses(model, [0, 1], [[1, 0], [3]]).tolist() == [round(B * 0.2), B]
    assert scorer.record_losses(model, [0, 1], pd.DataFrame(y)).tolist() == [round(B * 0.2), B]
    column = Fixed(np.array([[1.0], [2.0]]))
    assert scorer.record_losses(column, [0, 1], [1, 2]).tolist() == [0, 0]


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix, list, pd.DataFrame])
def test_multilabel_accuracy_is_exact_match(convert):
    answers = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]])
    y = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0]])
    scorer = resolve_scorer("accuracy", None)
    assert scorer.record_losses(Fixed(answers), [0, 1, 2], convert(y)).tolist() == [0, 1, 0]
    assert scorer(Fixed(answers), [0, 1, 2], y) == metrics.accuracy_score(y, answers)


def test_score_from_units_is_exact_where_floats_are_not():
    scorer = resolve_scorer("accuracy", None)
    n = 2**60 + 1
    assert scorer.score_from_units(1, 3) == 2 / 3
    assert scorer.score_from_units(n, n) == 0.0
    assert scorer.score_from_units(-2, 4) == 1.5  # noisy totals may leave the range
    np.testing.assert_array_equal(scorer.score_from_units(np.array([0, 1]), 4), [1.0, 0.75])
    squared = resolve_scorer("neg_mean_squared_error", None, 3.0)
    assert squared.score_from_units(4 * B, 4) == -3.0
    assert squared.score_from_units(0, 4) == 0.0


# ---------------------------------------------------------------- public errors


def test_public_rows_raise_ordinary_errors():
    squared = resolve_scorer("neg_mean_squared_error", None, 1.0)
    with pytest.raises(ValueError, match="not finite"):
        squared(Fixed(np.zeros(4)), ROWS, [0.0, 1.0, math.nan, 2.0])
    with pytest.raises(ValueError, match="not finite"):
        squared(Fixed(np.full(4, np.inf)), ROWS, np.zeros(4))
    with pytest.raises(ValueError, match="same number of records"):
        squared(Fixed(np.zeros(4)), ROWS, [0.0])
    with pytest.raises(ValueError, match="sample_weight"):
        squared(Fixed(np.zeros(4)), ROWS, np.zeros(4), sample_weight=[1.0])
    with pytest.raises(ValueError, match="classes_"):
        resolve_scorer("neg_log_loss", None)(Fixed(PROBABILITIES), ROWS, ROWS)
    with pytest.raises(ValueError, match="one column for each class"):
        resolve_scorer("neg_log_loss", None)(Fixed(PROBABILITIES, [0, 1]), ROWS, ROWS)
    with pytest.raises(AttributeError, match="predict_proba"):
        resolve_scorer("neg_log_loss", None)(LinearRegression(), ROWS, ROWS)


def test_an_estimator_that_drops_rows_is_an_error_for_the_caller_to_isolate():
    class Dropping(BaseEstimator):
        def predict(self, X):
            return np.asarray(X)[:-1]

    scorer = make_per_record_scorer(lambda y, p: p, bound=1.0)
    with pytest.raises(ValueError, match="same number of records"):
        scorer.record_losses(Dropping(), [0, 1, 2])


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", metrics.get_scorer_names())
def test_every_name_of_sklearn_is_supported_or_refused_with_a_reason(name):
    if name in SUPPORTED_ANYWHERE:
        bounded = "neg_" in name
        scorer = resolve_scorer(name, None, 1.0 if bounded else None)
        assert isinstance(scorer, PerRecordScorer)
        assert scorer.name == name
        return
    with pytest.raises(UnboundedSensitivityError, match=f"scoring='{name}'") as error:
        resolve_scorer(name, None)
    assert "Use " in str(error.value)
    assert "no bound on what one record can change is known" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "alternative"),
    [
        ("r2", "neg_mean_squared_error"),
        ("roc_auc_ovr", "neg_log_loss"),
        ("f1_macro", "accuracy"),
        ("neg_max_error", "neg_mean_absolute_error"),
        ("f1_samples", "make_per_record_scorer"),
        ("rand_score", "make_per_record_scorer"),
    ],
)
def test_refusals_name_a_supported_alternative(name, alternative):
    with pytest.raises(UnboundedSensitivityError, match=alternative):
        resolve_scorer(name, None, 1.0 if name == "r2" else None)


def test_a_function_has_the_reason_of_its_scorer():
    scorer = metrics.make_scorer(metrics.median_absolute_error, multioutput=[1.0])
    with pytest.raises(UnboundedSensitivityError, match="neg_mean_absolute_error"):
        resolve_scorer(scorer, None)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (metrics.d2_pinball_score, {"alpha": 0.9}),
        (metrics.cohen_kappa_score, {}),
        (metrics.explained_variance_score, {"multioutput": "variance_weighted"}),
    ],
)
def test_a_metric_without_a_name_is_refused_by_that_of_its_function(function, options):
    with pytest.raises(UnboundedSensitivityError, match=rf"{function.__name__}.*Chunks\(\)"):
        resolve_scorer(metrics.make_scorer(function, **options), None)


def test_refused_metrics_have_the_sensitivity_that_is_claimed():
    """One replaced record moves them by order one, which is why they are refused."""
    y, before = np.zeros(100), np.zeros(100)
    y[0] = before[0] = 1.0
    after = before.copy()
    after[0] = -0.5  # the only positive record is replaced by one that is predicted badly
    assert metrics.f1_score(y, before > 0) - metrics.f1_score(y, after > 0) == 1.0
    assert metrics.roc_auc_score(y, before) - metrics.roc_auc_score(y, after) == 1.0
    assert metrics.r2_score(y, before) - metrics.r2_score(y, after) > 1.0


def test_none_means_the_default_of_the_kind_of_estimator():
    assert resolve_scorer(None, DummyClassifier()).name == "accuracy"
    with pytest.warns(DefaultBoundsWarning, match=r"clipped at 1\.0"):
        scorer = resolve_scorer(None, LinearRegression())
    assert (scorer.name, scorer.bound) == ("neg_mean_squared_error", 1.0)
    for estimator in (KMeans(), PCA()):
        with pytest.raises(UnboundedSensitivityError, match="make_per_record_scorer"):
            resolve_scorer(None, estimator)


@pytest.mark.parametrize(
    ("scoring", "y_bounds", "bound"),
    [
        (None, (0, 400), 40000.0),
        ("neg_mean_squared_error", [-0.5, 1.0], 0.5625),
        ("neg_root_mean_squared_error", (np.int64(0), np.float64(400.0)), 40000.0),
        ("neg_mean_absolute_error", (0, 400), 200.0),
    ],
)
@pytest.mark.parametrize("of", [lambda model: model, lambda model: make_pipeline(PCA(), model)])
def test_public_bounds_of_the_targets_bound_the_loss(scoring, y_bounds, bound, of):
    model = of(DPRidge(y_bounds=y_bounds))
    assert resolve_trial_scorer(scoring, model).bound == bound  # warnings are errors
    assert resolve_trial_scorer(scoring, model, 7.0).bound == 7.0


@pytest.mark.parametrize(
    ("scoring", "y_bounds"),
    [
        ("neg_mean_poisson_deviance", (0, 400)),
        *(
            (None, bounds)
            for bounds in (None, "private", "ab", ([0, 0], [1, 2]), (1, 0), (0, 1e200))
        ),
        *((None, bounds) for bounds in ((0, math.nan), (0, math.inf), (0, 1, 2), (10**400, 0))),
    ],
)
def test_the_default_bound_is_used_without_one_interval_of_targets(scoring, y_bounds):
    with pytest.warns(DefaultBoundsWarning, match="largest loss that should count\\.$"):
        resolve_trial_scorer(scoring, DPRidge(y_bounds=y_bounds))


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (metrics.accuracy_score, {}, "accuracy"),
        (
            metrics.log_loss,
            {"greater_is_better": False, "response_method": "predict_proba"},
            "neg_log_loss",
        ),
        (metrics.mean_squared_error, {"greater_is_better": False}, "neg_mean_squared_error"),
    ],
)
def test_scorers_of_sklearn_that_a_name_stands_for_are_recognised(function, arguments, name):
    made = metrics.make_scorer(function, **arguments)
    for scoring in (made, metrics.get_scorer(name)):
        bound = None if name == "accuracy" else 1.0
        assert resolve_scorer(scoring, None, bound).name == name


@pytest.mark.parametrize(
    "scoring",
    [
        metrics.make_scorer(metrics.f1_score),
        metrics.make_scorer(metrics.accuracy_score, normalize=False),
        metrics.make_scorer(metrics.mean_squared_error),
        metrics.make_scorer(lambda y, p: 1.0, weights=np.ones(2)),
        metrics.accuracy_score,
        lambda estimator, X, y: 1.0,
        ["accuracy", "neg_log_loss"],
        {"a": "accuracy"},
    ],
)
def test_other_scorers_are_refused(scoring):
    with pytest.raises(UnboundedSensitivityError, match=r"per.record|scoring='f1'"):
        resolve_scorer(scoring, None)


def test_invalid_scoring_and_bounds():
    with pytest.raises(ValueError, match="scoring must be a name of scikit-learn"):
        resolve_scorer("acuracy", None)
    with pytest.raises(TypeError, match="scoring must be a name"):
        resolve_scorer(3, None)
    for bound in (0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="loss_bound must be positive"):
            resolve_scorer("neg_mean_squared_error", None, bound)
        with pytest.raises(ValueError, match="bound must be positive"):
            make_per_record_scorer(_user_absolute, bound=bound)
    for bound in (1e-300, 1e300):
        with pytest.raises(ValueError, match="loss_bound must lie in"):
            resolve_scorer("neg_mean_squared_error", None, bound)
        with pytest.raises(ValueError, match=r"^bound must lie in"):
            make_per_record_scorer(_user_absolute, bound=bound)
    for bound in (True, "1", [1.0]):
        with pytest.raises(TypeError, match="loss_bound must be a real number"):
            resolve_scorer("neg_mean_squared_error", None, bound)
    with pytest.raises(ValueError, match="0 or 1"):
        resolve_scorer("accuracy", None, 0.5)
    assert resolve_scorer("accuracy", None, 1).bound == 1.0
    assert resolve_scorer("neg_brier_score", None, 7).bound == 2.0
    own = make_per_record_scorer(_user_absolute, bound=2.0)
    assert resolve_scorer(own, None) is own
    with pytest.raises(ValueError, match="loss_bound must be None, or the bound"):
        resolve_scorer(own, None, 1.0)


# ---------------------------------------------------------------- make_per_record_scorer


def test_the_planted_leak_is_real_in_a_batch_and_gone_on_protected_rows():
    scorer = make_per_record_scorer(_user_leaky, bound=5.0)
    model, y = Fixed(np.zeros(4)), [0.0, 1.0, 2.0, 3.0]
    assert scorer(model, ROWS, y) != scorer(model, ROWS, [0.0, 1.0, 2.0, 30.0])
    assert scorer.record_losses(model, ROWS, y).tolist() == [0, 0, 0, 0]


def _raising(y_true, y_pred):
    if np.any(y_true > 2):
        raise ValueError(f"SECRET {y_true}")
    return np.zeros(len(y_pred))


@pytest.mark.parametrize(
    "loss",
    [lambda y, p: 0.0, lambda y, p: np.zeros((len(p), 2)), lambda y, p: None, lambda y, p: "a"],
)
def test_a_loss_of_the_wrong_shape(loss):
    scorer = make_per_record_scorer(loss, bound=1.0)
    with pytest.raises((ValueError, TypeError)):
        scorer(Fixed(np.zeros(4)), ROWS, np.zeros(4))
    assert scorer.record_losses(Fixed(np.zeros(4)), ROWS, np.zeros(4)).tolist() == [B] * 4


def test_a_loss_that_raises_costs_the_bound_for_that_record_only():
    scorer = make_per_record_scorer(_raising, bound=1.0)
    model = Fixed(np.zeros(4))
    assert scorer.record_losses(model, ROWS, np.arange(4)).tolist() == [0, 0, 0, B]
    with pytest.raises(ValueError, match="SECRET"):
        scorer(model, ROWS, np.arange(4))


def test_a_loss_may_not_write_into_the_records():
    def writes(y_true, y_pred):
        y_true[:] = y_pred[:] = 7
        return np.zeros(len(y_pred))

    model, y = Fixed(np.zeros(4)), np.arange(4)
    make_per_record_scorer(writes, bound=1.0).record_losses(model, ROWS, y)
    assert y.tolist() == ROWS


def test_losses_are_clipped_and_nan_is_the_worst():
    scorer = make_per_record_scorer(lambda y, p: np.asarray(p), bound=2.0)
    model = Fixed(np.array([-5.0, 1.0, math.inf, math.nan]))
    assert scorer.record_losses(model, ROWS).tolist() == [0, B // 2, B, B]


def test_unsupervised_use():
    X, _ = load_iris(return_X_y=True)
    kmeans = KMeans(3, n_init=1, random_state=0).fit(X)
    inertia = make_per_record_scorer(
        lambda y, distances: np.min(distances, axis=1) ** 2,
        bound=10.0,
        response_method="transform",
        name="inertia",
    )
    assert inertia(kmeans, X) == pytest.approx(-kmeans.inertia_ / len(X))
    losses = inertia.record_losses(kmeans, X)
    assert inertia.score_from_units(losses.sum(), len(X)) == pytest.approx(
        -kmeans.inertia_ / len(X), abs=1e-5
    )

    def reconstruction(estimator, X):
        return estimator.inverse_transform(estimator.transform(X)) - X

    pca = PCA(2).fit(X)
    scorer = make_per_record_scorer(
        lambda y, rest: np.sum(rest**2, axis=1), bound=3.0, response_method=reconstruction
    )
    assert scorer(pca, X) == pytest.approx(-np.sum((reconstruction(pca, X)) ** 2) / len(X))


@pytest.mark.parametrize(
    "method", ["predict", "score_samples", ["decision_function", "predict"], ("predict",)]
)
def test_response_methods(method):
    scorer = make_per_record_scorer(_user_absolute, bound=1.0, response_method=method)
    assert scorer(Fixed(np.zeros(4)), ROWS, np.full(4, 0.25)) == -0.25


def test_probabilities_of_several_outputs_reach_the_loss_row_by_row():
    class Two(BaseEstimator):
        def predict_proba(self, X):
            return [np.full((len(X), 2), 0.5), np.tile([0.25, 0.75], (len(X), 1))]

    scorer = make_per_record_scorer(
        lambda y, p: p[0][:, 0] + p[1][:, 0], bound=1.0, response_method="predict_proba"
    )
    assert scorer(Two(), ROWS, ROWS) == -0.75
    assert scorer.record_losses(Two(), ROWS, ROWS).tolist() == [B * 3 // 4] * 4


def test_invalid_arguments_of_make_per_record_scorer():
    with pytest.raises(TypeError, match="callable"):
        make_per_record_scorer("accuracy", bound=1.0)
    for method in (3, [], [3]):
        with pytest.raises(TypeError, match="response_method"):
            make_per_record_scorer(_user_absolute, bound=1.0, response_method=method)


# ---------------------------------------------------------------- the object


def test_scorers_pickle_and_clone():
    for scorer in (
        resolve_scorer("neg_brier_score", None, n_classes=2),
        resolve_scorer("neg_mean_squared_error", None, 2.0),
        make_per_record_scorer(_user_absolute, bound=2.0),
    ):
        for copy in (pickle.loads(pickle.dumps(scorer)), clone(scorer, safe=False)):
            assert repr(copy) == repr(scorer)
            assert vars(copy) == vars(scorer)


def test_scoring_of_cross_validate_and_metadata_routing():
    X, y = load_iris(return_X_y=True)
    scorer = resolve_scorer("accuracy", None)
    # What scikit-learn's own scorer of the name says, which differs from version to version.
    own = get_routing_for_object(metrics.get_scorer("accuracy")).score.requests
    request = get_routing_for_object(scorer).score.requests["sample_weight"]
    assert request == own.get("sample_weight", False)
    weights = np.linspace(1, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        requested = resolve_scorer("accuracy", None).set_score_request(sample_weight=True)
        assert get_routing_for_object(requested).score.requests == {"sample_weight": True}
        model = LogisticRegression(max_iter=500).set_fit_request(sample_weight=False)
        ours, theirs = (
            cross_validate(model, X, y, scoring=scoring, params={"sample_weight": weights})
            for scoring in (
                requested,
                metrics.get_scorer("accuracy").set_score_request(sample_weight=True),
            )
        )
    np.testing.assert_allclose(ours["test_score"], theirs["test_score"], rtol=1e-12)


class TestCodesOfArrays:
    """Arrays of labels are looked up at once, with the codes of labels looked up one by one."""

    @pytest.mark.parametrize(
        ("classes", "labels"),
        [
            ([2, 5, 9], [9, 2, 3, 5, -1, 100]),
            ([5, 2, 9], [9, 2, 3, 5, -1, 100]),
            (["a", "bc", "z"], ["z", "b", "bc", "", "zz", "a"]),
            ([False, True], [True, False, True]),
        ],
    )
    def test_same_codes(self, classes, labels):
        estimator = SimpleNamespace(classes_=np.array(classes))
        expected = [classes.index(label) if label in classes else -1 for label in labels]
        arrays = [np.array(labels), np.array(labels, dtype=object), labels]
        if classes[0] in (2, 5):
            arrays.append(np.array(labels, dtype=np.int8))
        for y in arrays:
            assert codes_among(estimator.classes_, y).tolist() == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bound", 0.0),
        ("bound", math.nan),
        ("units", 0),
        ("units", 1.5),
        ("name", 3),
        ("offset", "1"),
    ],
)
def test_numbers_of_a_scorer_are_checked_by_name(name, value):
    given = {"name": "loss", "bound": 1.0, "units": 1, name: value}
    with pytest.raises((TypeError, ValueError), match=name):
        PerRecordScorer(None, **given)
