"""Private logistic regression as scikit-learn's users meet it."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from _support.internals import release_balance
from _support.sklearn_checks import failed_checks
from skdpbo.exceptions import BudgetExceededError, DefaultBoundsWarning, SeededNoiseWarning
from skdpbo.gaussian_process import DPSparseGPClassifier
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.privacy import PrivacyLedger

BOX = (-3.0, 3.0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5)).clip(-3, 3)
    y = (X @ [2.0, -1.0, 0.0, 0.5, 0.0] + rng.logistic(size=4000) > 0.5).astype(int)
    return X, y


def seeded(**parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return DPLogisticRegression(**({"X_bounds": BOX, "random_state": 0} | parameters))


def fitted(X, y, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return seeded(**parameters).fit(X, y)


def test_check_estimator_has_no_failure_that_logistic_regression_has_not():
    failed = failed_checks(DPLogisticRegression())
    assert not failed or failed.keys() <= failed_checks(LogisticRegression()).keys(), failed


def test_much_budget_gives_the_unprotected_decisions(table):
    X, y = table
    exact = LogisticRegression().fit(X, y)
    private = fitted(X, y, epsilon=50.0)
    assert np.mean(private.predict(X) == exact.predict(X)) > 0.97
    assert private.score(X, y) > exact.score(X, y) - 0.01


def test_default_budget_is_near(table):
    X, y = table
    assert fitted(X, y).score(X, y) > LogisticRegression().fit(X, y).score(X, y) - 0.02


def test_box_ten_times_too_wide_costs_little(table):
    X, y = table
    assert fitted(X, y, X_bounds=(-30, 30)).score(X, y) > fitted(X, y).score(X, y) - 0.02


def test_rows_and_box_that_are_moved_together_give_the_same_model(table):
    X, y = np.round(table[0] * 64) / 64, table[1]
    around, moved = fitted(X, y), fitted(X + 4, y, X_bounds=(1.0, 7.0))
    np.testing.assert_allclose(moved.coef_, around.coef_, rtol=1e-9)
    np.testing.assert_allclose(moved.predict_proba(X + 4), around.predict_proba(X), rtol=1e-9)


def test_three_classes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 2)).clip(-3, 3)
    y = np.array(["a", "b", "c"])[np.argmax(X @ rng.normal(size=(2, 3)) * 3, axis=1)]
    model = fitted(X, y)
    assert model.coef_.shape == (3, 2)
    assert model.score(X, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_sparse_memory_map_and_blocks_give_the_same(table, tmp_path):
    X, y = table
    X = np.where(X > 1, X, 0.0)
    expected = fitted(X, y).coef_
    np.testing.assert_array_equal(fitted(csr_matrix(X), y).coef_, expected)
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    np.testing.assert_array_equal(fitted(mapped, y).coef_, expected)


def test_dask_array_gives_the_same(table):
    dask_array = pytest.importorskip("dask.array")
    X, y = table
    distributed = fitted(dask_array.from_array(X, chunks=(700, 5)), y)
    np.testing.assert_array_equal(distributed.coef_, fitted(X, y).coef_)


def test_order_of_the_rows_does_not_matter(table):
    X, y = table
    order = np.random.default_rng(3).permutation(len(X))
    np.testing.assert_array_equal(fitted(X[order], y[order]).coef_, fitted(X, y).coef_)


def test_correlated_columns_converge_where_the_noise_is_small():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(4000, 6)) @ (rng.normal(size=(6, 6)) * 2.0 ** -np.arange(6)[:, None])
    X /= np.abs(X).max(axis=0)
    y = (X @ rng.normal(size=6) * 8 + rng.logistic(size=4000) > 0).astype(int)
    near = fitted(X, y, epsilon=300.0, X_bounds=(-1, 1))
    assert near.n_iter_ == 8
    exact = LogisticRegression(C=1e3).fit(X, y)
    assert np.mean(near.predict(X) == exact.predict(X)) > 0.97


@pytest.mark.parametrize("n_classes", [2, 3])
def test_heavy_tails_do_not_diverge_where_the_noise_is_small(n_classes):
    rng = np.random.default_rng(5)
    X = np.exp(2 * rng.normal(size=(4000, 4))).clip(0, 300)
    y = np.digitize(np.log(X[:, 0]) + rng.normal(size=4000), [0.0, 1.5][: n_classes - 1])
    model = fitted(X, y, epsilon=300.0, X_bounds=(0, 300))
    assert model.n_iter_ == 8
    assert model.score(X, y) > LogisticRegression(max_iter=2000).fit(X, y).score(X, y) - 0.05


def test_label_that_is_not_a_class_adds_no_gradient(table):
    X, y = table
    strange = y.copy()
    strange[:50] = 7
    with_zero = fitted(X, strange, classes=[0, 1])
    other = y.copy()
    other[:50] = -3
    np.testing.assert_array_equal(fitted(X, other, classes=[0, 1]).coef_, with_zero.coef_)


def test_label_that_is_no_whole_number_is_no_error_where_the_classes_are_given(table):
    # An error would show that some record has such a label.
    X, y = table
    strange, other = y.astype(float), y.astype(float)
    strange[0], other[0] = 0.5, 7.0
    models = [fitted(X, labels, classes=[0, 1]) for labels in (strange, other)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    with pytest.raises(ValueError, match="Unknown label type"):
        fitted(X, strange)


@pytest.mark.filterwarnings("ignore:y is of the type of objects")
def test_label_that_cannot_be_hashed_is_no_error_where_the_classes_are_given(table):
    X, y = table
    strange, other = y.astype(object), y.astype(object)
    strange[0], other[0] = [1], "else"
    models = [fitted(X, labels, classes=[0, 1]) for labels in (strange, other)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPSparseGPClassifier])
@pytest.mark.parametrize("classes", [[0, 1], ["no", "yes"]])
def test_texts_are_no_labels_of_numbers(table, estimator, classes):
    X, y = table
    labels = np.where(y == 1, "yes", "no") if classes == [0, 1] else y
    with PrivacyLedger(epsilon=9.0, delta=1e-3) as ledger:
        with pytest.raises(ValueError, match="both be texts or both be numbers"):
            estimator(X_bounds=(-3, 3), classes=classes).fit(X, labels)
        assert not ledger.entries


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_one_class_is_refused_unless_classes_are_public(table, classes):
    X, _ = table
    ones = np.ones(len(X), dtype=int)
    if classes is None:
        with pytest.raises(ValueError, match="at least two classes"):
            fitted(X, ones)
    else:
        assert fitted(X, ones, classes=classes).score(X, ones) > 0.9


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(table, value):
    X, y = table
    bad = X.copy()
    bad[5, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fitted(bad, y)


def test_constant_column_is_harmless(table):
    X, y = table
    wide = np.hstack([X, np.full((len(X), 1), 1.5)])
    assert fitted(wide, y).score(wide, y) > fitted(X, y).score(X, y) - 0.02


def test_rows_outside_of_the_box_are_clipped_in_predictions(table):
    model = fitted(*table)
    far, at_the_edge = [[90.0, 0, 0, -7.0, 0]], [[3.0, 0, 0, -3.0, 0]]
    np.testing.assert_array_equal(model.predict_proba(far), model.predict_proba(at_the_edge))
    sparse = model.decision_function(csr_matrix(far))
    np.testing.assert_array_equal(sparse, model.decision_function(at_the_edge))


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.DefaultBoundsWarning")
def test_raw_units_without_bounds_are_no_worse_than_the_commoner_class():
    rng = np.random.default_rng(0)
    X = rng.uniform(18, 90, (4000, 3))
    y = (X[:, 0] > 70).astype(int)
    accuracies = [fitted(X, y, X_bounds=None, random_state=seed).score(X, y) for seed in range(8)]
    assert min(accuracies) > max(y.mean(), 1 - y.mean()) - 0.01


def test_missing_bounds_warn(table):
    X, y = table
    with pytest.warns(DefaultBoundsWarning, match="X_bounds of DPLogisticRegression"):
        DPLogisticRegression().fit(X, y)


def test_seed_voids(table):
    X, y = table
    with pytest.warns(SeededNoiseWarning):
        assert seeded().fit(X, y).privacy_.status == "void"
    assert DPLogisticRegression().privacy_guarantee().status == "proved"


def test_with_groups_alone_their_order_is_an_assumption():
    order = "the order in which the groups first appear in X is public"
    model = DPLogisticRegression()
    assert order in model.privacy_guarantee(groups=True).assumptions
    assert order not in model.privacy_guarantee().assumptions


def test_guarantee_states_records_and_budget(table):
    X, y = table
    privacy = DPLogisticRegression(X_bounds=BOX, epsilon=0.7).fit(X, y).privacy_
    assert (privacy.epsilon, privacy.delta, privacy.n_protected) == (0.7, 1e-5, 4000)
    assert privacy.status == "proved"
    assert any("from its own record" in text for text in privacy.assumptions)


def test_ledger_is_charged_and_refuses(table):
    X, y = table
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        model = DPLogisticRegression(X_bounds=BOX, epsilon=0.6).fit(X, y)
        assert len(ledger.entries) == 1
        with pytest.raises(BudgetExceededError):
            clone(model).set_params(epsilon=0.9).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"epsilon": 0.0}, ValueError),
        ({"delta": 0.0}, ValueError),
        ({"C": -1.0}, ValueError),
        ({"classes": [1]}, ValueError),
        ({"classes": [[0, 1]]}, ValueError),
        ({"classes": [0, np.nan]}, ValueError),
        ({"class_weight": "even"}, ValueError),
        ({"class_weight": {0: -1.0}}, ValueError),
        ({"class_weight": np.ones(2)}, TypeError),
        ({"class_weight": {"1": 2.0}, "classes": [0, 1]}, ValueError),
        ({"X_bounds": (1, 0)}, ValueError),
        ({"fit_intercept": 3}, TypeError),
    ],
    ids=lambda value: None if isinstance(value, type) else next(iter(value)),
)
def test_bad_parameters_cost_nothing(table, parameters, error):
    X, y = table
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        with pytest.raises(error, match=next(iter(parameters))):
            DPLogisticRegression(**({"X_bounds": BOX} | parameters)).fit(X, y)
        assert not ledger.entries


def rare(n=20000):
    """One record in twenty has the label 1."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 5)).clip(-3, 3)
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 1.84).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 300.0])
def test_balanced_weights_are_those_of_scikit_learn(epsilon):
    """At epsilon 300 also with the release of the curvature."""
    X, y = rare()
    ours = fitted(X, y, class_weight="balanced", epsilon=epsilon, classes=[0, 1])
    theirs = LogisticRegression(class_weight="balanced").fit(X, y)
    assert (ours.n_iter_ == 8) == (epsilon > 1)
    assert balanced_accuracy_score(y, theirs.predict(X)) > 0.9
    agree = np.mean(ours.predict(X) == theirs.predict(X))
    assert agree > (0.93 if epsilon == 1 else 0.975)
    assert balanced_accuracy_score(y, fitted(X, y).predict(X)) < 0.75


def test_a_rare_class_is_learned_in_few_steps_too():
    """The bound on the curvature is five times too large; steps of rate 1 score .952."""
    X, y = rare()
    model = fitted(X, y, epsilon=300.0, classes=[0, 1])
    assert model.n_iter_ == 8
    assert model.score(X, y) > 0.96 > np.mean(y == 0) + 0.005


def test_balance_of_classes_that_the_noise_hides_is_bounded():
    weights, mean = release_balance(np.zeros(1000, dtype=int), 3, 0.1, None)
    assert weights.max() == 1.0
    assert 3 * np.sqrt(2) * 10 / 1400 < weights.min()  # 1400: 28 standard deviations
    assert 0 < mean <= 1


def test_class_weight_shifts_the_intercept(table):
    X, y = table
    heavy = fitted(X, y, class_weight={1: 5.0})
    assert heavy.predict(X).mean() > fitted(X, y).predict(X).mean() + 0.05


def test_class_weights_multiply_c_as_in_scikit_learn(table):
    """Equal weights too: divided by the largest alone, they changed nothing."""
    X, y = table
    for weights in ({0: 20.0, 1: 20.0}, {1: 9.0}, {0: 0.1, 1: 0.2}):
        how = {"class_weight": weights, "C": 1e-3}
        ours, theirs = fitted(X, y, epsilon=300.0, **how), LogisticRegression(**how).fit(X, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=0.12)


def test_inverse_public_shares_are_balanced_weights():
    X, y = rare(5000)
    shares = np.bincount(y) / len(y)
    weights = {label: 0.5 / share for label, share in enumerate(shares)}
    one, other = (
        fitted(X, y, C=1e-3, epsilon=300.0, classes=[0, 1], class_weight=w).coef_
        for w in (weights, "balanced")
    )
    np.testing.assert_allclose(one, other, atol=0.02)


def test_extreme_weights_and_penalties_stay_finite(table):
    X, y = table
    for weight in (1e-300, 1e300):
        for C in (5e-324, 1e300):
            model = fitted(X[:500], y[:500], C=C, class_weight={0: weight, 1: weight})
            assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("epsilon", [3.0, 300.0])
def test_strong_penalties_do_not_make_it_diverge(table, epsilon):
    """Neither by descent, whose intercept turned unseen, nor by curvature."""
    X, y = table
    for C in (1e-3, 1e-4):
        ours = fitted(X, y, C=C, epsilon=epsilon)
        theirs = LogisticRegression(C=C).fit(X, y)
        assert ours.score(X, y) > theirs.score(X, y) - 0.05
        assert abs(ours.coef_[0, 0] - theirs.coef_[0, 0]) < 0.3 * theirs.coef_[0, 0]
    assert np.isfinite(fitted(X, y, C=5e-324, epsilon=epsilon).coef_).all()


def test_log_odds_are_those_of_the_data_where_the_noise_is_small(table):
    """Clipped gradients of misclassified records made them a third too large at any budget."""
    X, y = table
    scores = fitted(X, y, epsilon=30.0).decision_function(X)
    slope = LogisticRegression(C=1e9).fit(scores[:, None], y).coef_[0, 0]
    assert slope == pytest.approx(1, abs=0.1)
