"""Mistakes of a user: refused by name and before anything is spent, or the worst loss."""

import pickle
import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import skdpbo.model_selection
from _support.internals import BasePrivateSearchCV, PrivateChoice, ReleasedScore, SearchSpace
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import DefaultBoundsWarning, UnboundedSensitivityError
from skdpbo.privacy import PrivacyLedger

NAN, INF = float("nan"), float("inf")
REFUSALS = (ValueError, TypeError)
# scikit-learn's own error for an estimator without the method that a scorer asks for.
PUBLIC_ERRORS = (*REFUSALS, AttributeError)

rng = np.random.RandomState(0)
X, X_VAL = rng.randn(30, 3), rng.randn(20, 3)
y, y_val = (X[:, 0] > 0).astype(int), (X_VAL[:, 0] > 0).astype(int)
FRAME, FRAME_VAL = (pd.DataFrame(table, columns=list("abc")) for table in (X, X_VAL))

TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
SEARCHERS = {
    "grid": (DPGridSearchCV, {"max_depth": [1, 2]}, {}),
    "randomized": (DPRandomizedSearchCV, {"max_depth": (1, 4)}, {"n_iter": 2}),
    "bayes": (DPBayesSearchCV, {"max_depth": (1, 4)}, {"n_iter": 2, "n_initial_points": 2}),
}


def make(kind="grid", *, estimator=TREE, space=None, **params):
    searcher, default_space, defaults = SEARCHERS[kind]
    space = default_space if space is None else space
    return searcher(estimator, space, **({"cv": 2} | defaults | params))


def fitted_attributes(search):
    return [name for name in vars(search) if name.endswith("_") and not name.startswith("_")]


def refuse(search, match, *, n_charges=0, error=REFUSALS, **data):
    """Assert that fit raises what `match` describes, charges `n_charges` and stores nothing."""
    data = {"X": X, "y": y, "X_val": X_VAL, "y_val": y_val} | data
    with PrivacyLedger(5.0) as ledger, pytest.raises(error, match=match):
        search.fit(data.pop("X"), data.pop("y"), **data)
    assert len(ledger.entries) == n_charges
    assert fitted_attributes(search) == []


class Thing:
    """An object of no use, with the same name in every process."""

    def __repr__(self):
        return "thing"


def named(table):
    """One pytest case for each bad value of each parameter."""
    return [
        pytest.param(name, value, id=f"{name}={str(value)[:30]}-{type(value).__name__}")
        for name, values in table.items()
        for value in values
    ]


PRIVACY = {
    "epsilon": [0, -1, NAN, INF, -INF, "a", True, np.True_, None, [1.0], 1j],
    "delta": [-0.1, 1, 1.5, NAN, INF, "a", True, None],
    "score_fraction": [-0.1, 1, 2, NAN, "a", True, None, 5e-324, Fraction(1, 2)],
    "validation_fraction": [0, -0.1, 1, NAN, "a", True, None],
    "mechanism": ["laplace", "Gaussian", 1, True, None, Thing()],
    # The loss of accuracy is 0 or 1, and it is the only metric.
    "loss_bound": [0, -1, NAN, INF, "a", True, [1.0], 2.0, {"f1": 1.0}],
}
OTHERS = {
    "guide": ["no", 1, None],
    "refit": [max, None, 1],
    "random_state": ["a", -1, 1.5],
    "cv": ["a", 0, 1, -2, 1.5, [1, 2], [("a", "b")], [([0.0, 1.0], [2.0])], [([0, 1], [40])]],
    "n_jobs": ["a", 1.5],
    "error_score": ["a", None],
    "return_train_score": ["a"],
    "verbose": [-1, "a"],
    "pre_dispatch": [[1]],
    "estimator": [Thing(), 5, "tree", None],
}
BAYES = {
    "n_iter": [0, -1, 1.5, "a", None, 10**30],
    "n_candidates": [0, -1, 1.5, "a", None, 10**30],
    "batch_size": [0, -1, 1.5, "a", None],
    "n_initial_points": [0, -1, 1.5, "a", None],
    "sqrt_beta": [-1, NAN, INF, "a", None],
    "prior_weight": [-1, NAN, INF, "a", None, 1e308],
    "guide": [False],
}


@pytest.mark.parametrize("kind", SEARCHERS)
@pytest.mark.parametrize(("name", "value"), named(PRIVACY))
def test_bad_privacy_parameters(kind, name, value):
    refuse(make(kind, **{name: value}), name)


@pytest.mark.parametrize(("name", "value"), named(OTHERS))
def test_bad_parameters(name, value):
    refuse(make(**{name: value}), name)


CLASSES = {
    "estimator": DecisionTreeClassifier,
    "step": make_pipeline(PCA, TREE),
    "inner-step": make_pipeline(make_column_transformer((PCA, [0])), TREE),
}


@pytest.mark.parametrize("protect", ["validation", "all"])
@pytest.mark.parametrize("estimator", CLASSES.values(), ids=CLASSES)
def test_a_class_is_no_estimator(estimator, protect):
    refuse(make(estimator=estimator, protect=protect), "^estimator and each .*no class")


@pytest.mark.parametrize("several", [False, True])
def test_known_names_of_metrics_are_listed_in_order(several):
    scoring = {"scoring": ["accuracy", "acuracy"], "refit": "accuracy"}
    with pytest.raises(ValueError, match="scoring") as caught:
        make(**(scoring if several else {"scoring": "acuracy"})).fit(X, y, X_val=X_VAL, y_val=y_val)
    names = re.search("among {(.*?)}", str(caught.value))[1].split(", ")
    assert "'accuracy'" in names
    assert names == sorted(names)


@pytest.mark.parametrize(("name", "value"), named(BAYES))
def test_bad_parameters_of_bayesian_search(name, value):
    refuse(make("bayes", **{name: value}), name)


@pytest.mark.parametrize("value", [0, -1, 1.5, "a", None])
def test_bad_number_of_random_candidates(value):
    refuse(make("randomized", n_iter=value), "n_iter")


@pytest.mark.parametrize(("name", "value"), named(PRIVACY))
def test_privacy_parameters_are_checked_where_scikit_learn_checks_none(name, value):
    with sklearn.config_context(skip_parameter_validation=True):
        refuse(make(**{name: value}), name)


UNSKIPPABLE = {
    name: [v for v in PRIVACY[name] if isinstance(v, float | int) and not isinstance(v, bool)]
    for name in ("epsilon", "score_fraction", "loss_bound")
}


@pytest.mark.parametrize(("name", "value"), named(UNSKIPPABLE))
def test_privacy_parameters_do_not_rest_on_scikit_learn(monkeypatch, name, value):
    monkeypatch.setattr(BasePrivateSearchCV, "_validate_params", lambda self: None)
    refuse(make(**{name: value}), name)


@pytest.mark.parametrize("kind", SEARCHERS)
def test_guarantee_before_fit_checks_epsilon_too(kind):
    with pytest.raises(REFUSALS, match="epsilon"):
        make(kind, epsilon=-1.0).privacy_guarantee()


@pytest.mark.parametrize(
    ("scoring", "match"),
    [
        ("nope", "scoring"),
        (3, "scoring"),
        ([], "scoring is empty"),
        ({}, "scoring is empty"),
        ("average_precision", "average_precision.*Use 'roc_auc'.*Chunks"),
        ("neg_max_error", "neg_max_error.*loss_bound"),
        ("rand_score", "make_per_record_scorer"),
        (make_scorer(f1_score, labels=[0]), "labels of 'f1_score' is not supported"),
        (lambda estimator, X, y: 0.0, "make_per_record_scorer"),
    ],
    ids=lambda value: str(value)[:30].partition(" at ")[0],
)
def test_refused_scoring(scoring, match):
    refuse(make(scoring=scoring), match)
    if match.startswith("Use"):
        refuse(make(scoring=scoring), match, error=UnboundedSensitivityError)


@pytest.mark.parametrize(
    ("refit", "match"),
    [
        (False, "refit"),
        (True, "refit"),
        ("r2", "refit"),
        (max, "refit.*callable"),
        ("rand_score", "rand_score"),
    ],
    ids=str,
)
def test_several_metrics_need_a_bounded_one_that_decides(refit, match):
    refuse(make(scoring=["accuracy", "rand_score"], refit=refit), match)


def test_no_public_row_in_the_default_folds():
    refuse(make(cv=None), "0 sample", X=X[:0], y=y[:0])


COMMON_SPACES = {
    "none": (None, "{name}"),
    "number": (5, "{name}"),
    "string": ("max_depth", "{name}"),
    "no-dict": ([], "{name} is empty"),
    "unknown-name": ({"depth": [1, 2]}, "depth"),
    "unknown-step": ({"tree__max_depth": [1, 2]}, "tree"),
    "unknown-in-second-dict": ([{"max_depth": [1]}, {"depth": [1]}], "depth"),
    "empty-list": ({"max_depth": []}, "max_depth"),
    "scalar": ({"max_depth": 3}, "max_depth"),
    "text": ({"max_depth": "abc"}, "max_depth"),
    "set": ({"max_depth": {1, 2}}, "max_depth"),
    "null": ({"max_depth": None}, "max_depth"),
    "table": ({"max_depth": np.ones((2, 2))}, "max_depth"),
    "not-a-dict": ([1], "dict"),
    "key-is-no-name": ({1: [1]}, "keys of {name} must be str"),
}
RANGES = {
    "reversed": ((4, 1), "reversed"),
    "empty": ((1, 1), "ends are equal"),
    "log-from-zero": ((0, 4, "log-uniform"), "0 < low"),
    "log-negative": ((-1.0, 4.0, "log-uniform"), "0 < low"),
    "unknown-scale": ((1, 4, "log"), "scale"),
    "four-entries": ((1, 2, 3, 4), "tuple"),
    "infinite": ((1.0, INF), "finite"),
    "nan": ((1.0, NAN), "finite"),
    "labels": (("gini", "entropy"), "numbers"),
    "bools": ((True, False), "numbers"),
    "unfrozen": (stats.randint, "parameters first"),
    "invalid-distribution": (stats.uniform(0, -1), "empty distribution"),
}


@pytest.mark.parametrize("kind", SEARCHERS)
@pytest.mark.parametrize(("space", "match"), COMMON_SPACES.values(), ids=COMMON_SPACES)
def test_bad_space(kind, space, match):
    name = {"grid": "param_grid", "randomized": "param_distributions", "bayes": "search_spaces"}
    searcher, _, defaults = SEARCHERS[kind]
    refuse(searcher(TREE, space, cv=2, **defaults), match.format(name=name[kind]))


@pytest.mark.parametrize("kind", ["randomized", "bayes"])
@pytest.mark.parametrize(("values", "match"), RANGES.values(), ids=RANGES)
def test_bad_range(kind, values, match):
    refuse(make(kind, space={"max_depth": values}), f"max_depth.*{match}|{match}.*max_depth")


@pytest.mark.parametrize("guide", [True, False])
def test_a_grid_takes_no_range(guide):
    space = {"max_depth": (1, 4, "log-uniform")}
    refuse(make(space=space, guide=guide), "max_depth.*DPRandomizedSearchCV")


def test_tuples_of_a_grid_are_lists_as_in_scikit_learn():
    search = make(space={"criterion": ("gini", "entropy"), "max_depth": (1, 2)})
    assert len(search.fit(X, y, X_val=X_VAL, y_val=y_val).cv_results_["params"]) == 4


def test_infinite_support_is_refused_where_the_unit_cube_is_walked():
    with pytest.raises(ValueError, match="infinite support"):
        SearchSpace({"C": stats.norm(0, 1)}, bounded=True)


SCHEMAS = {
    "y_val-without-X_val": ({"X_val": None}, "X_val"),
    "X_val-without-y_val": ({"y_val": None}, "y_val"),
    "y-missing": ({"y": None}, "y is missing"),
    "lengths-of-X-y": ({"y": y[:5]}, "X and y must.*inconsistent.*30, 5"),
    "lengths-of-X_val-y_val": ({"y_val": y_val[:5]}, "X_val and y_val.*20 and 5"),
    "X_val-empty": ({"X_val": X_VAL[:0], "y_val": y_val[:0]}, "X_val"),
    "X-scalar": ({"X": np.array(5)}, "at least 1 dimension"),
    "X_val-scalar": ({"X_val": np.array(5)}, "at least 1 dimension"),
    "X-1d": ({"X": X[:, 0]}, "X_val.*dimensions as X"),
    "X_val-1d": ({"X_val": X_VAL[:, 0]}, "X_val.*dimensions as X"),
    "X-3d": ({"X": X[:, :, None]}, "X_val.*dimensions as X"),
    "X_val-3d": ({"X_val": X_VAL[:, :, None]}, "X_val.*dimensions as X"),
    "y_val-3d": ({"y_val": y_val[:, None, None]}, "y_val.*dimensions"),
    "y_val-two-outputs": ({"y_val": np.c_[y_val, y_val]}, "y_val.*outputs"),
    "y-two-outputs": ({"y": np.c_[y, y]}, "y_val.*outputs"),
    "column-missing": ({"X_val": X_VAL[:, :2]}, "X_val.*columns"),
    "column-added": ({"X_val": np.c_[X_VAL, X_VAL]}, "X_val.*columns"),
    "frame-renamed": ({"X": FRAME, "X_val": FRAME_VAL.rename(columns={"a": "z"})}, "names"),
    "frame-reordered": ({"X": FRAME, "X_val": FRAME_VAL[list("bac")]}, "order"),
    "frame-column-missing": ({"X": FRAME, "X_val": FRAME_VAL[list("ab")]}, "columns"),
    "frame-column-twice": ({"X": FRAME, "X_val": FRAME_VAL[list("abcc")]}, "columns"),
    "frame-and-narrow-array": ({"X": FRAME, "X_val": X_VAL[:, :2]}, "X_val.*columns"),
    "one-row-to-split": ({"X": X[:1], "y": y[:1], "X_val": None, "y_val": None}, "2 rows"),
    "no-row-to-split": ({"X": X[:0], "y": y[:0], "X_val": None, "y_val": None}, "2 rows"),
}


@pytest.mark.parametrize("guide", [True, False], ids=["guided", "unguided"])
@pytest.mark.parametrize(("data", "match"), SCHEMAS.values(), ids=SCHEMAS)
def test_bad_schema(guide, data, match):
    refuse(make(guide=guide), match, **data)


def spoilt(table, value):
    kind = object if isinstance(value, str) else float
    table = table.astype(kind)
    table[(7, *[0] * (table.ndim - 1))] = value
    return table


LOGISTIC = LogisticRegression()
C = {"C": [0.1, 1.0]}
# What goes wrong on public rows goes wrong before the charge.
PUBLIC = {
    "nan": (LOGISTIC, C, {"X": spoilt(X, NAN)}, "NaN"),
    "inf": (LOGISTIC, C, {"X": spoilt(X, INF)}, "infinity"),
    "text": (LOGISTIC, C, {"X": spoilt(X, "abc")}, "could not convert string to float: 'abc'"),
    "y-nan": (LOGISTIC, C, {"y": spoilt(y, NAN)}, "y contains NaN"),
    "y-mixed": (LOGISTIC, C, {"y": spoilt(y, "abc")}, "unknown|'<' not supported"),
    "one-class": (LOGISTIC, C, {"y": np.zeros(30)}, "two classes .* found 1"),
    "one-class-column": (
        LOGISTIC,
        C,
        {"y": np.zeros((30, 1)), "y_val": y_val[:, None]},
        "y must hold",
    ),
    "one-class-tree": (TREE, {"max_depth": [1, 2]}, {"y": np.zeros(30)}, "two classes .* found 1"),
    "no-rows": (TREE, {"max_depth": [1]}, {"X": X[:0], "y": y[:0]}, "0 sample"),
    "one-row": (TREE, {"max_depth": [1]}, {"X": X[:1], "y": y[:1]}, "samples|cannot be"),
    "no-columns": (TREE, {"max_depth": [1]}, {"X": X[:, :0], "X_val": X_VAL[:, :0]}, "0 feature"),
    "bad-values": (TREE, {"max_depth": ["a"]}, {}, "max_depth"),
    "no-predict_proba": (LinearSVC(), C, {}, "predict_proba"),
    "unknown-fit-parameter": (TREE, {"max_depth": [1]}, {"shoe_size": 43}, "shoe_size"),
}


def test_positions_of_folds_beyond_the_public_rows_are_refused():
    folds = [(np.arange(20), np.arange(20, 30)), (np.arange(10, 30), np.arange(10))]
    make(cv=folds).fit(X, y, X_val=X_VAL, y_val=y_val, groups_val=np.arange(20) // 2)
    for beyond in (np.arange(30, 50), np.array([-31]), np.ones(50, bool)):
        refuse(make(cv=[*folds, (np.arange(30), beyond)]), "cv .* the 30 public rows")


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.PublicTrainingWarning")
def test_positions_of_folds_beyond_all_rows_are_refused():
    """Those of protected rows are left out; masks and positions from the end are read."""
    data = {"X_val": None, "y_val": None}
    for beyond in (np.arange(20, 31), np.array([-31, 3]), np.ones(31, bool)):
        refuse(make(cv=[(np.arange(20), beyond)]), "cv .* the 30 rows of X", **data)
    scores = []
    for test in (np.arange(20, 30), np.arange(-10, 0), np.arange(30) >= 20):
        search = make(cv=[(np.arange(20), test), ([], [29])]).fit(X, y)
        assert search.n_splits_ == 1
        scores.append(search.cv_results_["split0_test_score"].tolist())
    assert scores[0] == scores[1] == scores[2]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "space", "data", "match"), PUBLIC.values(), ids=PUBLIC)
def test_public_rows_fail_loudly(estimator, space, data, match):
    scoring = "neg_log_loss" if isinstance(estimator, LinearSVC) else None
    search = make(estimator=estimator, space=space, scoring=scoring)
    refuse(search, match, error=PUBLIC_ERRORS, **data)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"cv": 100}, "n_splits=100"),
        ({"cv": []}, "CV iterator empty"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"guide": False, "space": {"max_depth": ["a"]}}, "max_depth"),
        (
            {"guide": False, "scoring": "neg_log_loss", "estimator": LinearSVC(), "space": C},
            "proba",
        ),
    ],
    ids=["too-many-folds", "no-split", "no-job", "unguided-bad-value", "unguided-no-proba"],
)
def test_failures_while_running(params, match):
    refuse(make(**params), match, error=PUBLIC_ERRORS)


def test_failed_fit_forgets_the_previous_one():
    search = make().fit(X, y, X_val=X_VAL, y_val=y_val)
    assert "privacy_" in fitted_attributes(search)
    refuse(search.set_params(cv=[]), "CV iterator")
    with pytest.raises(NotFittedError):
        search.predict(X)


@pytest.fixture
def totals(monkeypatch):
    """Total losses that the private choice is given; it then takes the first candidate."""
    seen = []

    def release(self, totals, offsets, **kwargs):
        seen[:] = totals
        return 0, ReleasedScore(float(totals[0]), 0.0) if self.epsilon_score else None

    monkeypatch.setattr(PrivateChoice, "release", release)
    return seen


CANARY = 8.7654321e37
UNREADABLE = {
    "nan": ("X_val", NAN),
    "inf": ("X_val", INF),
    "minus-inf": ("X_val", -INF),
    "text": ("X_val", "Jane Doe"),
    "huge-text": ("X_val", "9" * 400),
    "y-nan": ("y_val", NAN),
    "y-inf": ("y_val", INF),
    "y-text": ("y_val", "Jane Doe"),
    "y-unseen": ("y_val", CANARY),
}


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("guide", [True, False], ids=["guided", "unguided"])
@pytest.mark.parametrize(("where", "value"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_bad_protected_record_costs_the_worst_loss_and_nothing_else(
    totals, capfd, guide, where, value
):
    data = {"X_val": X_VAL, "y_val": y_val}
    data[where] = spoilt(data[where], value)
    search = make(estimator=LOGISTIC, space=C, guide=guide, verbose=3, score_fraction=0.0)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        search.fit(X, y, **data)
    models = [LogisticRegression(C=c).fit(X, y) for c in C["C"]]
    others = np.delete(np.arange(20), 7)
    expected = [1 + int(np.sum(m.predict(X_VAL[others]) != y_val[others])) for m in models]
    assert totals == expected
    assert not [w for w in warned if "joblib" not in str(w.filename)]
    shown = "".join(capfd.readouterr()) + repr(search) + str(search.privacy_)
    assert not re.search(r"Jane Doe|999999|8\.765", shown)
    assert b"Jane Doe" not in pickle.dumps(search)


@pytest.mark.parametrize("value", [NAN, "Jane Doe"], ids=str)
def test_every_protected_record_bad(totals, value):
    rows = np.full((20, 3), value, dtype=object)
    make(estimator=LOGISTIC, space=C).fit(X, y, X_val=rows, y_val=y_val)
    assert totals == [20, 20]


@pytest.mark.parametrize("template", [TREE, FrozenEstimator(TREE)])
def test_one_public_class_is_no_fault_of_fitted_classifiers(template):
    models = [FrozenEstimator(DecisionTreeClassifier().fit(X, labels)) for labels in (y, 1 - y)]
    model, space = Pipeline([("model", template)]), {"model": models}
    search = make(estimator=model, space=space, guide=False, epsilon=50.0)
    search.fit(X, np.zeros(30), X_val=X_VAL, y_val=y_val)
    assert search.best_index_ == 0


@pytest.mark.parametrize("how", [{}, {"protect": "all"}])
def test_a_frozen_model_is_a_step(how):
    with pytest.raises(TypeError, match=r"estimator cannot be a FrozenEstimator .* pipeline"):
        make(estimator=FrozenEstimator(TREE), space={}, **how).fit(X, y)


def test_ragged_protected_rows(totals):
    rows = [*X_VAL[:-1].tolist(), [1.0]]
    make(estimator=DummyClassifier(), space={"strategy": ["prior"]}).fit(
        X, np.repeat([0, 1], [5, 25]), X_val=rows, y_val=np.ones(20)
    )
    assert totals == [1]


def test_one_protected_row_and_one_protected_class(totals):
    search = make().fit(X, y, X_val=X_VAL[:1], y_val=y_val[:1])
    assert search.best_score_ in (0.0, 1.0)
    make().fit(X, y, X_val=X_VAL, y_val=np.zeros(20, dtype=int))
    assert all(0 <= total <= 20 for total in totals)
    assert min(totals[-1:]) < 20  # not all of them are lost


def test_errors_of_regressors_say_that_their_bound_is_a_default():
    tree = sklearn.tree.DecisionTreeRegressor(random_state=0)
    with pytest.warns(DefaultBoundsWarning, match="loss_bound"):
        make(estimator=tree).fit(X, X[:, 0], X_val=X_VAL, y_val=X_VAL[:, 0])


LABELS = np.array([0, 1] * 10)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("name", ["X", "y", "X_val", "y_val"])
@pytest.mark.parametrize("protect", ["validation", "all"])
def test_a_matrix_is_refused_by_name(name, protect):
    rows = {"X": np.eye(20), "y": LABELS, "X_val": np.eye(20), "y_val": LABELS}
    rows[name] = np.asmatrix(rows[name])
    search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, protect=protect)
    with pytest.raises(TypeError, match=rf"^{name} is a np\.matrix.*np\.asarray"):
        search.fit(**rows)


@pytest.mark.parametrize("name", ["X", "X_val"])
@pytest.mark.parametrize("protect", ["validation", "all"])
def test_a_structured_array_is_refused_by_name(name, protect):
    """The text of one record makes a field one of objects, also for the public rows of a table."""
    rows = {"X": np.eye(20), "y": LABELS, "X_val": np.eye(20), "y_val": LABELS}
    rows[name] = np.rec.fromarrays(np.eye(20, 2).T)
    search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, protect=protect)
    with (
        PrivacyLedger(9, 0.1) as ledger,
        pytest.raises(TypeError, match=rf"^{name} is a structured array.*DataFrame\({name}\)"),
    ):
        search.fit(**rows)
    assert ledger.spent().epsilon == 0


@pytest.mark.parametrize("name", ["X", "y", "X_val", "y_val"])
def test_a_masked_array_is_refused_by_name(name):
    rows = {"X": np.eye(20), "y": LABELS, "X_val": np.eye(20), "y_val": LABELS}
    rows[name] = np.ma.masked_array(rows[name])
    with pytest.raises(TypeError, match=rf"^{name} is a masked array.*filled"):
        DPGridSearchCV(LogisticRegression(), {"C": [1.0]}).fit(**rows)


@pytest.mark.parametrize("name", ["X", "X_val"])
@pytest.mark.parametrize("protect", ["validation", "all"])
def test_columns_of_equal_names_are_refused_by_name(protect, name):
    rows = {"X": FRAME, "X_val": FRAME_VAL, "y": y, "y_val": y_val}
    rows[name] = rows[name].set_axis(["a", "b", "a"], axis=1)
    match = rf"^{name} must have columns of different names, got several of: 'a'\.$"
    refuse(make(protect=protect, cv=None), match, **rows)


class Columns:
    """Stands for a table of Arrow, whose columns, not their names, are listed."""

    def __init__(self, values):
        self.shape, self.columns, self._values = np.shape(values), [*np.transpose(values)], values

    def __arrow_c_stream__(self, requested_schema=None):
        raise NotImplementedError

    def __getitem__(self, rows):
        return Columns(self._values[rows])

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._values, dtype=dtype)


@pytest.mark.parametrize("protect", ["validation", "all"])
@pytest.mark.parametrize("name", ["X", "y", "X_val", "y_val"])
def test_a_table_of_arrow_is_refused_by_name(name, protect):
    rows = {"X": np.eye(20), "y": LABELS, "X_val": 0.12345 * np.eye(20), "y_val": LABELS}
    rows[name] = Columns(rows[name])
    search = DPGridSearchCV(LogisticRegression(), {"C": [1.0]}, protect=protect)
    with pytest.raises(TypeError, match=rf"^{name} is neither a numpy array") as error:
        search.fit(**rows)
    assert "0.12345" not in str(error.value)


@pytest.mark.parametrize("X_val", [pd.DataFrame({"text": ["red"] * 20}), np.full((20, 1), "red")])
def test_texts_are_not_scored_on_a_table(X_val):
    model = make_pipeline(CountVectorizer(), LogisticRegression())
    search = DPGridSearchCV(model, {}, cv=2)
    with pytest.raises(ValueError, match="as many dimensions as X, got 2 and 1"):
        search.fit(["red", "blue"] * 10, LABELS, X_val=X_val, y_val=LABELS)


@pytest.mark.parametrize(
    ("search", "names"),
    [
        (DPGridSearchCV(TREE, {}, protect="some"), ["Chunks", "PrivateSelection"]),
        (DPGIBOSearchCV(TREE, {}, descent="fast"), ["Descent"]),
    ],
)
def test_bad_parameters_name_classes_by_their_public_path(search, names):
    with pytest.raises(ValueError, match="instance of") as caught:
        search.fit([[0.0]])
    assert "._" not in str(caught.value)
    for name in names:
        assert f"'skdpbo.model_selection.{name}'" in str(caught.value)
        assert hasattr(skdpbo.model_selection, name)


@pytest.mark.parametrize(("name", "value"), [("n_samples", 0), ("n_samples", 1.5), ("groups", 1)])
@pytest.mark.parametrize("protect", ["validation", "all"])
def test_sizes_of_a_guarantee_are_checked_by_name(protect, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        make(protect=protect).privacy_guarantee(**{name: value})
