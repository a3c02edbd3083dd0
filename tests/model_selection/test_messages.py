"""Messages of a first search: failed public fits, a score that is absent, the HTML form."""

import html
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import make_classification, make_regression
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from _support.scorings import installed, scoring_of
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, make_per_record_scorer
from skdpbo.exceptions import DefaultBoundsWarning, LowBoundWarning, NoisyScoreWarning
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.privacy import PrivacyLedger

X, Y = make_classification(240, n_features=4, random_state=0)
ROWS = {"X": X[:120], "y": Y[:120], "X_val": X[120:], "y_val": Y[120:]}
DEPTHS = {"max_depth": [1, 2, -1]}

ZERO = DummyRegressor(strategy="constant", constant=0.0)


class FailsBelow(DummyRegressor):
    """Fails at some of the points of a descent."""

    def __init__(self, a=0.5):
        super().__init__(strategy="constant", constant=a)
        self.a = a

    def fit(self, X, y, sample_weight=None):
        if self.a < 0.4:
            raise ValueError("a is below 0.4")
        self.constant = self.a
        return super().fit(X, y)


def warnings_of(search, **rows):
    """Return (category, text) of all warnings of a fit, which are in the name of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(**(rows or ROWS))
    assert {warning.filename for warning in caught} <= {__file__}
    return [(warning.category, str(warning.message)) for warning in caught]


@pytest.mark.parametrize("search_class", [DPGridSearchCV, DPBayesSearchCV])
def test_failed_fits_are_reported_in_one_line(search_class):
    search = search_class(DecisionTreeClassifier(), DEPTHS, cv=2, epsilon=5.0)
    ((category, text),) = warnings_of(search)
    assert category is FitFailedWarning
    assert text.startswith("2 fits failed out of a total of 6 on public rows. The score")
    assert (
        "2 fits failed with the following error: InvalidParameterError: The 'max_depth' parameter"
        in text
    )
    assert "\n" not in text
    assert "Traceback" not in text


def test_when_all_fits_fail_the_error_is_one_line_and_nothing_is_charged():
    search = DPGridSearchCV(DecisionTreeClassifier(), {"max_depth": [-1, -2]}, cv=2, epsilon=5.0)
    with PrivacyLedger(epsilon=5.0) as ledger, pytest.raises(ValueError) as refused:
        search.fit(**ROWS)
    text = str(refused.value)
    assert text.startswith("All the 4 fits failed on public rows")
    assert "Got -1 instead; 2 fits failed with the following error: " in text
    assert "\n" not in text
    assert not ledger.entries


def test_an_unguided_search_raises_what_one_fit_raised_if_told_to():
    search = DPGridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, -1]}, guide=False)
    search.fit(X, Y, X_val=X.copy(), y_val=Y)
    with pytest.raises(ValueError, match="max_depth"):
        search.set_params(error_score="raise").fit(X, Y, X_val=X.copy(), y_val=Y)


def test_an_error_of_several_lines_is_reported_by_its_first():
    rows = ROWS | {"X": np.where(np.arange(4) == 0, np.nan, ROWS["X"])}
    search = DPGridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2, epsilon=5.0)
    with pytest.raises(ValueError, match=r"2 fits failed .*: ValueError: Input X contains NaN"):
        search.fit(**rows)


class Speechless(GaussianNB):
    def predict(self, X):
        if self.var_smoothing == 2:
            raise ValueError("no words")
        return super().predict(X)


def test_scores_that_fail_are_reported_without_a_traceback():
    search = DPGridSearchCV(Speechless(), {"var_smoothing": [1, 2]}, cv=2, epsilon=5.0)
    ((category, text),) = warnings_of(search)
    assert category is UserWarning
    assert text.startswith("1 of 2 candidates have no finite score on public rows")


def test_an_absent_score_gives_the_reason():
    grid = {"max_depth": [1, 2]}
    search = DPGridSearchCV(DecisionTreeClassifier(), grid, epsilon=5.0, score_fraction=0)
    with pytest.raises(AttributeError, match="is not fitted yet"):
        search.best_score_  # noqa: B018
    with pytest.raises(AttributeError, match="no best_score_: score_fraction is 0"):
        search.fit(**ROWS).best_score_  # noqa: B018
    assert not hasattr(search, "best_score_")
    search = DPGridSearchCV(DecisionTreeClassifier(), grid, epsilon=5.0, protect="all").fit(X, Y)
    with pytest.raises(AttributeError, match="no best_score_: a score would have been mostly noi"):
        search.best_score_  # noqa: B018
    assert hasattr(search.set_params(protect="validation").fit(**ROWS), "best_score_")


def test_an_absent_score_of_a_descent_gives_the_reason():
    search = DPGIBOSearchCV(GaussianNB(), {"var_smoothing": (1e-9, 1.0)}, score_fraction=0)
    with pytest.raises(AttributeError, match="DPGIBOSearchCV is not fitted yet"):
        search.best_score_  # noqa: B018


@pytest.mark.parametrize("kind", [DPGridSearchCV, DPBayesSearchCV, DPGIBOSearchCV])
def test_a_search_without_a_refit_gives_the_reason_for_each_attribute_of_its_model(kind):
    search = kind(GaussianNB(), {"var_smoothing": [1e-9]}, refit=False)
    if kind is DPGIBOSearchCV:
        search.set_params(search_spaces={"var_smoothing": (1e-9, 1.0)}, n_iter=1, guide=False)
    frames = {name: pd.DataFrame(ROWS[name]).add_prefix("x") for name in ("X", "X_val")}
    warnings_of(search, **ROWS | frames)
    for name in ("best_estimator_", "classes_", "n_features_in_", "feature_names_in_", "predict"):
        assert not hasattr(search, name)
        with pytest.raises(AttributeError) as error:
            getattr(search, name)
        text = str(error.value.__cause__ or error.value).replace("`", "")
        assert f"This {kind.__name__} " in text
        assert "initialized with refit=False" in text


@pytest.mark.parametrize(
    "fitted",
    [
        DPLogisticRegression(X_bounds=(-5, 5), classes=[0, 1]),
        DPGridSearchCV(DecisionTreeClassifier(), {"max_depth": [1]}, epsilon=5.0, protect="all"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_html_form_states_the_guarantee(fitted):
    before = fitted._repr_html_()
    assert "differentially private" not in before
    statement = html.escape(str(fitted.fit(X, Y).privacy_))
    assert statement in fitted._repr_html_()
    assert statement in fitted._repr_mimebundle_()["text/html"]
    with config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert "text/html" not in fitted._repr_mimebundle_()


@pytest.mark.parametrize(
    ("target", "advice"),
    [(15.0, r"take a scorer with bound=15\.$"), (0.1, " a smaller bound if few lose more")],
)
def test_a_bound_that_a_scorer_has_is_changed_there(target, advice):
    X, y = np.zeros((40, 1)), np.full(40, target)
    scorer = make_per_record_scorer(lambda y, p: np.abs(y - p), bound=1.0)
    search = DPGridSearchCV(ZERO, {}, scoring=scorer, epsilon=10.0)
    with pytest.warns((LowBoundWarning, NoisyScoreWarning), match=advice) as warned:
        search.fit(X, y, X_val=X[:20].copy(), y_val=y[:20])
    assert not any("loss_bound" in str(warning.message) for warning in warned)


@pytest.mark.parametrize(
    "search", [DPGridSearchCV(ZERO, {}), DPBayesSearchCV(ZERO, {}, mechanism="gaussian")]
)
@pytest.mark.parametrize(("target", "enough"), [(15.0, 220), (1e200, 2)])  # its square is infinite
def test_a_low_bound_is_followed_by_one_in_plain_digits_before_the_charge(search, target, enough):
    X, y = np.zeros((40, 1)), np.full(40, target)
    as_error = warnings.catch_warnings(action="error", category=LowBoundWarning)
    with PrivacyLedger(epsilon=5.0, delta=0.1) as ledger:
        with as_error, pytest.raises(LowBoundWarning, match=rf"take loss_bound={enough}\.$"):
            search.set_params(loss_bound=1.0).fit(X, y, X_val=X[:20].copy(), y_val=y[:20])
        assert not ledger.entries


def test_a_low_bound_of_a_loss_without_targets_is_reported():
    scorer = make_per_record_scorer(
        lambda y, p: 5.0 - p, bound=1.0, response_method="score_samples"
    )
    search = DPGridSearchCV(KernelDensity(), {}, scoring=scorer, epsilon=10.0)
    assert LowBoundWarning in dict(warnings_of(search, X=X[:120], X_val=X[120:]))


RATIOS_AND_ROOTS = [
    ("r2", "squared error", 220),
    ("neg_root_mean_squared_error", "squared error", 220),
    ("d2_absolute_error_score", "absolute error", 15),
    ("neg_root_mean_squared_log_error", "squared log error", 7.7),
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("scoring", "kind", "enough"), RATIOS_AND_ROOTS)
def test_a_low_bound_of_a_ratio_or_a_root_is_reported_by_public_losses(scoring, kind, enough):
    X, y = np.zeros((60, 1)), np.resize([0.0, 15.0], 60)
    search = DPGridSearchCV(ZERO, {}, scoring=scoring, cv=3)
    same = []
    for y_val in (y[:20], np.full(20, np.nan)):
        reported = dict(warnings_of(search, X=X, y=y, X_val=X[:20].copy(), y_val=y_val))
        same.append(reported)
        assert f"each loss ({kind}) of {scoring!r} is clipped" in reported[DefaultBoundsWarning]
        assert re.search(rf"by 'neg_mean_.*loss_bound={enough}\.$", reported[LowBoundWarning])
    assert same[0] == same[1]  # whatever the protected rows are
    of_enough = warnings_of(
        search.set_params(loss_bound=enough * 1.1), X=X, y=y, X_val=X[:20].copy(), y_val=y[:20]
    )
    assert not {DefaultBoundsWarning, LowBoundWarning} & {kind for kind, _ in of_enough}


def test_a_low_bound_of_a_log_loss_against_frequencies_is_reported():
    search = DPGridSearchCV(GaussianNB(), {}, scoring=scoring_of("d2_log_loss_score"), epsilon=5.0)
    assert LowBoundWarning in dict(warnings_of(search.set_params(loss_bound=0.1)))
    assert LowBoundWarning not in dict(warnings_of(search.set_params(loss_bound=None)))


@pytest.mark.parametrize("noise", [20.0, 100.0])
def test_r2_at_the_bound_that_is_reported_is_that_of_sklearn(noise):
    """Mean losses alone would shorten the spread, so that a good model's R2 of .96 became .76."""
    X, y = make_regression(4000, 5, noise=noise, random_state=0)
    rows = {"X": X[:400], "y": y[:400], "X_val": X[400:], "y_val": y[400:]}
    search = DPGridSearchCV(Ridge(), {}, scoring="r2", epsilon=200.0)
    text = dict(warnings_of(search, **rows))[LowBoundWarning]
    bound = float(text.rpartition("=")[2].rstrip("."))
    warnings_of(search.set_params(loss_bound=bound), **rows)
    exact = search.score(rows["X_val"], rows["y_val"])
    # The noise of the score is a thousandth; the clipping of both sums is left.
    assert search.best_score_ == pytest.approx(exact, abs=0.05)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("scoring", "noise"), [("r2", 0.5), ("d2_absolute_error_score", 0.25)])
def test_a_bound_that_cuts_the_spread_alone_is_reported(scoring, noise, skewed):
    """Good models lose little: of targets far from the mean no warning came, R2 .80 became .48."""
    X = np.random.RandomState(0).randn(6000, 1)
    signal = np.exp(X) if skewed else X
    y = (signal + noise * signal.std() * np.random.RandomState(1).randn(6000, 1)).ravel()
    spread = y.var() if scoring == "r2" else np.abs(y - np.median(y)).mean()
    rows = {"X": signal[:1000], "y": y[:1000], "X_val": signal[1000:], "y_val": y[1000:]}
    search = DPGridSearchCV(Ridge(), {}, scoring=scoring, epsilon=50.0, loss_bound=spread)
    text = dict(warnings_of(search, **rows))[LowBoundWarning]
    exact = search.scorer_(search, rows["X_val"], rows["y_val"])
    assert "which best_score_std_ leaves out" in text
    bias = float(re.search(r"too low by about (\S+),", text)[1])
    assert exact - search.best_score_ == pytest.approx(bias, abs=0.05)
    bound = float(text.rpartition("=")[2].rstrip("."))
    assert LowBoundWarning not in dict(warnings_of(search.set_params(loss_bound=bound), **rows))
    assert search.best_score_ == pytest.approx(exact, abs=0.05)
    without = search.set_params(loss_bound=spread, score_fraction=0)
    assert LowBoundWarning not in dict(warnings_of(without, **rows))


class Opposite(LogisticRegression):
    """Is sure of the other class."""

    def predict_proba(self, X):
        return super().predict_proba(100 * X)[:, ::-1]


@pytest.mark.parametrize("scoring", installed(["d2_log_loss_score", "d2_brier_score"]))
@pytest.mark.parametrize("bound", [None, 5.0])
def test_of_a_model_that_is_worse_than_any_constant_no_bias_is_reported(scoring, bound):
    rng = np.random.RandomState(0)
    X = rng.randn(600, 1)
    search = DPGridSearchCV(Opposite(), {}, scoring=scoring_of(scoring), epsilon=50.0)
    search.set_params(loss_bound=bound if "log" in scoring else None)
    messages = warnings_of(search, X=X, y=(X[:, 0] > 0).astype(int))
    assert not [text for _, text in messages if "best_score_ will be too" in text]
    assert search.best_score_ == -1.0


@pytest.mark.parametrize("scoring", ["d2_log_loss_score", "r2"])
def test_a_bound_that_hides_a_few_large_errors_is_reported(scoring):
    """Probabilities of 0, or wild targets: D2 of .64 was released as .78, R2 of .07 as .74."""
    rng = np.random.RandomState(0)
    X = rng.randn(6000, 1)
    if scoring == "r2":
        model, bound, y = Ridge(), 10.0, X[:, 0] + 30.0 * (rng.rand(6000) < 0.01)
    else:
        model, bound = DecisionTreeClassifier(min_samples_leaf=20), None
        y = (X[:, 0] + 0.2 * rng.randn(6000) > 0).astype(int)
    rows = {"X": X[:3000], "y": y[:3000], "X_val": X[3000:], "y_val": y[3000:]}
    search = DPGridSearchCV(model, {}, scoring=scoring_of(scoring), epsilon=50.0, loss_bound=bound)
    text = dict(warnings_of(search, **rows))[LowBoundWarning]
    exact = search.score(rows["X_val"], rows["y_val"])
    bias = float(re.search(r"too high by about (\S+),", text)[1])
    assert search.best_score_ - exact == pytest.approx(bias, abs=0.1)
    bound = float(text.rpartition("=")[2].rstrip("."))
    assert LowBoundWarning not in dict(warnings_of(search.set_params(loss_bound=bound), **rows))
    assert search.best_score_ == pytest.approx(exact, abs=0.1)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "search",
    [
        DPBayesSearchCV(DecisionTreeRegressor(), DEPTHS, mechanism="gaussian", n_iter=3),
        DPGIBOSearchCV(FailsBelow(), {"a": (0.0, 1.0)}, n_iter=3),
    ],
    ids=["bayes", "gibo"],
)
def test_failed_fits_that_are_an_error_after_the_charge_leave_a_fitted_search(search):
    with PrivacyLedger(epsilon=5.0, delta=0.1) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", FitFailedWarning)
        with pytest.raises(FitFailedWarning, match="fits failed"):
            search.set_params(cv=2, loss_bound=1.0, refit=False).fit(**ROWS)
        assert len(ledger.entries) == 1
    assert search.privacy_.n_protected == 120
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"refit": lambda results: 0}, "can choose on public rows, by GridSearchCV"),
        ({"scoring": ["roc_auc", "accuracy"]}, r"one of \['accuracy', 'roc_auc'\]; got True"),
        ({"scoring": ["roc_auc", "accuracy"], "refit": False}, "one of .*; got False"),
    ],
)
def test_a_refit_without_a_private_meaning_is_refused_with_advice(changes, advice):
    with pytest.raises(ValueError, match=advice):
        DPGridSearchCV(DecisionTreeClassifier(), DEPTHS, **changes).fit(**ROWS)


def test_a_noisy_accuracy_of_groups_is_reported_without_a_bound_that_it_refuses():
    search = DPGridSearchCV(DecisionTreeClassifier(), {"max_depth": [2]}, cv=2)
    texts = [text for _, text in warnings_of(search, **ROWS, groups_val=range(120))]
    (text,) = [text for text in texts if "mostly noise" in text]
    assert "the public score of the best candidate" in text
    assert "loss_bound" not in text
