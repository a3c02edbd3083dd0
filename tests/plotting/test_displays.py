"""The displays draw what was released, and nothing else; matplotlib is needed only to draw."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPBayesSearchCV, DPGridSearchCV, DPSparseGPRegressor
from skdpbo.plotting import (
    BudgetDisplay,
    GPPosteriorDisplay,
    PrivacyUtilityDisplay,
    SearchTraceDisplay,
)
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")

X, y = load_breast_cancer(return_X_y=True)
TREE = DecisionTreeClassifier(random_state=0)
DEPTHS = {"max_depth": [1, 2, 4, 8]}
ROWS = {"X_val": X[300:], "y_val": y[300:]}


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def drawn(artists):
    """All heights of the points that lines show."""
    return [height for artist in artists for height in np.ravel(artist.get_ydata())]


def test_trace_shows_public_scores_and_the_released_choice():
    search = DPGridSearchCV(TREE, DEPTHS, epsilon=2.0).fit(X[:300], y[:300], **ROWS)
    display = SearchTraceDisplay.from_estimator(search)
    _, line = display.public_
    assert np.array_equal(line.get_ydata(), search.cv_results_["mean_test_score"])
    _, star = display.released_  # after its error bar
    assert list(star.get_xdata()) == [search.best_index_]
    assert list(star.get_ydata()) == [search.best_score_]
    assert display.ax_.get_title() == "ε = 2 for the validation records"
    assert display.ax_.get_ylabel() == "score"


def test_trace_without_a_released_score_marks_the_choice_only():
    search = DPGridSearchCV(TREE, DEPTHS, score_fraction=0, scoring="accuracy")
    display = SearchTraceDisplay.from_estimator(search.fit(X[:300], y[:300], **ROWS))
    assert list(display.released_[0].get_xdata()) == [search.best_index_] * 2
    assert display.best_score is None
    assert display.ax_.get_ylabel() == "accuracy"


def test_trace_shows_released_scores_of_candidates():
    search = DPBayesSearchCV(
        TREE, {"max_depth": list(range(1, 9))}, n_iter=6, mechanism="gaussian", guide=False
    )
    search.fit(X[:300], y[:300], **ROWS)
    display = SearchTraceDisplay.from_estimator(search)
    assert display.public_ == []
    released = search.cv_results_["private_validation_score"]
    np.testing.assert_array_equal(display.released_[0].get_ydata(), released)


def test_trace_of_scikit_learns_search_says_that_nothing_is_promised():
    search = GridSearchCV(TREE, DEPTHS).fit(X, y)
    assert SearchTraceDisplay.from_estimator(search).ax_.get_title() == "no privacy statement"


def test_trace_of_another_metric_does_not_show_the_score_of_the_deciding_one():
    search = DPGridSearchCV(TREE, DEPTHS, scoring=["accuracy", "roc_auc"], refit="accuracy")
    search.fit(X[:300], y[:300], **ROWS)
    display = SearchTraceDisplay.from_estimator(search, metric="roc_auc")
    assert display.best_score is None
    assert display.ax_.get_ylabel() == "roc_auc"
    assert SearchTraceDisplay.from_estimator(search).best_score == search.best_score_


def test_trace_draws_the_deviation_of_the_released_score():
    search = DPGridSearchCV(TREE, DEPTHS).fit(X[:300], y[:300], **ROWS)
    display = SearchTraceDisplay.from_estimator(search)
    (bar,) = display.released_[0].lines[2][0].get_segments()
    expected = [
        search.best_score_ - search.best_score_std_,
        search.best_score_ + search.best_score_std_,
    ]
    np.testing.assert_allclose(bar[:, 1], expected)


def test_trace_needs_scores():
    search = DPGridSearchCV(TREE, DEPTHS, guide=False).fit(X[:300], y[:300], **ROWS)
    with pytest.raises(ValueError, match="no scores named 'score'"):
        SearchTraceDisplay.from_estimator(search)


def test_a_void_run_says_so():
    search = DPGridSearchCV(TREE, DEPTHS, random_state=0)
    with pytest.warns(UserWarning, match="random_state"):
        search.fit(X[:300], y[:300], **ROWS)
    assert "void" in SearchTraceDisplay.from_estimator(search).ax_.get_title()


def test_posterior_is_drawn_in_the_order_of_the_input():
    x = np.random.default_rng(0).uniform(-3, 3, (400, 1))
    gp = DPSparseGPRegressor(RBF(1.0), X_bounds=(-3, 3), y_bounds=(-1, 1), inducing_points=5)
    gp.fit(x, np.sin(x[:, 0]))
    points = np.array([[2.0], [-1.0], [0.5]])
    display = GPPosteriorDisplay.from_estimator(gp, points, target_name="y (m)")
    mean, std = gp.predict(np.sort(points, axis=0), return_std=True)
    np.testing.assert_array_equal(display.line_.get_ydata(), mean)
    np.testing.assert_array_equal(display.line_.get_xdata(), [-1.0, 0.5, 2.0])
    edges = display.band_.get_paths()[0].vertices[:, 1]
    assert np.isclose(edges.max(), (mean + 1.96 * std).max())
    assert display.ax_.get_ylabel() == "y (m)"
    with pytest.raises(ValueError, match="n_std"):
        display.plot(n_std=0)


def test_posterior_of_a_model_of_a_frame():
    pd = pytest.importorskip("pandas")
    ages = pd.DataFrame({"age": np.linspace(0, 1, 30)})
    model = GaussianProcessRegressor(optimizer=None).fit(ages, ages["age"])
    display = GPPosteriorDisplay.from_estimator(model, np.linspace(0, 1, 5)[:, np.newaxis])
    assert display.ax_.get_xlabel() == "age"


def test_posterior_of_several_targets_is_refused():
    x = np.random.default_rng(0).uniform(-3, 3, (100, 1))
    gp = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-1, 1), inducing_points=5)
    gp.fit(x, np.column_stack([x[:, 0], x[:, 0]]))
    with pytest.raises(ValueError, match="several targets"):
        GPPosteriorDisplay.from_estimator(gp, x[:3])


def test_budget_is_composed_after_each_charge():
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5)
    for k in range(3):
        ledger.charge(PrivacyGuarantee(epsilon=0.25), label=f"release {k}")
    display = BudgetDisplay.from_ledger(ledger)
    np.testing.assert_allclose(display.spent, [0.25, 0.5, 0.75], rtol=1e-3)
    assert list(display.budget_.get_ydata()) == [2.0, 2.0]
    spent = display.steps_[1]
    assert (spent.get_label(), display.budget_.get_label()) == ("spent", "budget")
    np.testing.assert_array_equal(spent.get_xdata(), [0, 1, 2, 3])
    np.testing.assert_array_equal(spent.get_ydata(), [0.0, *display.spent])
    low, high = display.ax_.get_ylim()
    assert low <= 0
    assert high >= 2.0  # the budget is within the axes
    assert display.ax_.get_ylabel().startswith("ε, composed")
    assert [text.get_text() for text in display.ax_.get_xticklabels()][1:] == display.labels


def test_budget_of_an_empty_ledger():
    assert len(BudgetDisplay.from_ledger(PrivacyLedger(epsilon=1.0)).spent) == 0


@pytest.mark.slow
def test_names_of_the_user_are_no_formulas():
    """As a formula the second name ends in an error when the figure is drawn."""
    for name in ("cost in $ and price in $", r"$\frac$"):
        ledger = PrivacyLedger(epsilon=2.0, dataset=name)
        ledger.charge(PrivacyGuarantee(epsilon=0.25), label=name)
        budget = BudgetDisplay.from_ledger(ledger)
        frame = pd.DataFrame({name: np.linspace(0, 1, 50)})
        gp = DPSparseGPRegressor(X_bounds=(0, 1), y_bounds=(0, 1)).fit(frame, frame[name])
        posterior = GPPosteriorDisplay.from_estimator(gp, frame)
        for display in (budget, posterior):
            display.figure_.canvas.draw()
        assert posterior.ax_.get_xlabel() == name.replace("$", r"\$")


def test_utility_shows_means_and_errors():
    runs = np.array([[0.5, 0.7], [0.8, 0.9]])
    display = PrivacyUtilityDisplay(
        epsilon=[0.1, 1], utility={"ours": runs}, reference={"no privacy": 0.95}
    ).plot()
    line, _, (bars,) = display.curves_["ours"]
    np.testing.assert_allclose(line.get_ydata(), [0.6, 0.85])
    low, high = bars.get_segments()[0][:, 1]
    assert np.isclose(high - low, 4 * runs[0].std(ddof=1) / np.sqrt(2))
    assert set(display.references_) == {"no privacy"}


def test_utility_joins_neighbours_and_shows_labels_as_they_are():
    display = PrivacyUtilityDisplay(
        epsilon=[1, 10, 0.1],
        utility={"$C$": [[0.8, 0.9], [0.9, 1.0], [0.6, 0.6]]},
        reference={"no $ limit": 0.95},
        utility_name="gain in $, or a $\\frac$",
    ).plot()
    # Not drawn: ticks in powers of ten are formulas, too, and warn in some versions.
    assert display.ax_.get_ylabel() == r"gain in \$, or a \$\frac\$"
    line, _, (bars,) = display.curves_["$C$"]
    np.testing.assert_allclose(line.get_xydata(), [[0.1, 0.6], [1, 0.85], [10, 0.95]])
    lengths = [np.ptp(bar[:, 1]) for bar in bars.get_segments()]
    np.testing.assert_allclose(lengths, [0.0, 0.2, 0.2], atol=1e-12)
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert sorted(labels) == [r"\$C\$", r"no \$ limit"]
    assert PrivacyUtilityDisplay(epsilon=[1], utility={3: [0.5]}).plot().curves_.keys() == {3}


def test_utility_of_public_rows_is_that_of_the_searches_on_average():
    search = DPGridSearchCV(TREE, {"max_depth": [1, 2, 8]}, cv=2, scoring="accuracy")
    display = PrivacyUtilityDisplay.from_public_rows(
        search, X, y, n_records=(30, 3000), epsilon=(1e-9, 1e9), n_draws=3
    )
    few, many = (np.mean(display.utility[f"{n} protected rows"], axis=1) for n in (30, 3000))
    random, best = (display.reference[name] for name in ("a candidate at random", "best candidate"))
    assert few[0] == pytest.approx(random, abs=1e-6)
    assert many[0] == pytest.approx(random, abs=1e-6)
    assert random < few[1] <= many[1] <= best
    assert display.ax_.get_ylabel() == "expected accuracy"
    assert not hasattr(search, "privacy_")


def test_utility_of_public_rows_warns_of_the_split():
    search = DPGridSearchCV(TREE, {"max_depth": [1]}, cv=3)
    with pytest.warns(UserWarning, match="least populated class"):
        PrivacyUtilityDisplay.from_public_rows(search, X[:50], np.arange(50) < 2, n_draws=2)


def test_utility_of_public_rows_needs_a_law_and_a_mean():
    of = PrivacyUtilityDisplay.from_public_rows
    with pytest.raises(TypeError, match="got DPBayesSearchCV"):
        of(DPBayesSearchCV(TREE, {"max_depth": (1, 8)}), X, y)
    with pytest.raises(ValueError, match="roc_auc"):
        of(DPGridSearchCV(TREE, DEPTHS, scoring="roc_auc"), X, y)
    with pytest.raises(ValueError, match="halving is not supported"):
        of(DPGridSearchCV(TREE, DEPTHS, halving=2), X, y)


def test_no_label_is_cut():
    label = "a release with a label as long as the names of people who are careful"
    dataset = "wards 1 to 12 of the university hospital, admitted in November 2026"
    ledger = PrivacyLedger(epsilon=9.0, dataset=dataset)
    for _ in range(3):
        ledger.charge(PrivacyGuarantee(epsilon=0.25), label=label)
    display = BudgetDisplay.from_ledger(ledger)
    assert display.ax_.get_title().replace("\n", " ") == f"data set {dataset!r}"
    guarantee = PrivacyGuarantee(
        epsilon=1.0, delta=1e-5, protects="groups of training and validation records"
    )
    x = np.arange(3.0)
    posterior = GPPosteriorDisplay(x=x, mean=x, std=x, guarantee=guarantee).plot()
    for figure, texts in (
        (display.figure_, [*display.ax_.get_xticklabels(), display.ax_.title]),
        (posterior.figure_, [posterior.ax_.title]),
    ):
        figure.canvas.draw()
        for text in texts:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= figure.bbox.x1
            assert box.y1 <= figure.bbox.y1


@pytest.mark.parametrize(
    ("epsilon", "utility", "name"),
    [([0.0, 1.0], [1, 2], "epsilon"), ([], [], "epsilon"), ([1.0], [1, 2], "utility")],
)
def test_utility_refuses_nonsense(epsilon, utility, name):
    with pytest.raises(ValueError, match=name):
        PrivacyUtilityDisplay(epsilon=epsilon, utility={"ours": utility}).plot()


def test_displays_draw_on_given_axes():
    _, (left, right) = plt.subplots(1, 2)
    ledger = PrivacyLedger(epsilon=1.0)
    assert BudgetDisplay.from_ledger(ledger, ax=right).ax_ is right
    assert not left.has_data()
