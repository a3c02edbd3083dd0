"""Ratios and pairs as the score of a private trial: values, noise, sensitivities, refusals."""

import math
import warnings
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import balanced_accuracy_score, fbeta_score, get_scorer, make_scorer

from _support.batched_noise import batched  # noqa: F401  (a fixture)
from _support.internals import (
    ReleasedScore,
    SumGroup,
    SumNoise,
    confusion_cells,
    laplace_std,
    one_vs_rest_counts,
    resolve_trial_scorer,
    trial_score,
    warn_if_trial_is_noisy,
)
from skdpbo import DPGridSearchCV
from skdpbo.exceptions import (
    DryRunWarning,
    NoisyScoreWarning,
    SkdpboWarning,
    UnboundedSensitivityError,
)
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import PrivateSelection
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, epsilon_from_mu

DELTA = 1e-5
RNG = np.random.RandomState(0)
OFFERED = ["roc_auc", "f1", "precision", "recall", "jaccard", "balanced_accuracy"]
OFFERED += ["matthews_corrcoef", "f1_macro", "f1_weighted", "precision_macro"]


class Line(ClassifierMixin, BaseEstimator):
    """Scores a row by its value; released without noise, for tests."""

    classes_ = np.array([0, 1])

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X):
        return np.asarray(X, dtype=float)[:, 0]

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


def budget(mu=None, epsilon=1.0):
    if mu is None:
        return PrivacyGuarantee(epsilon=epsilon)
    return PrivacyGuarantee(epsilon=epsilon_from_mu(mu, DELTA), delta=DELTA, mu=mu)


def rows(n=600):
    rng = np.random.RandomState(1)
    y = (rng.random_sample(n) < 0.3).astype(int)
    X = (y - 0.5 + rng.normal(size=n))[:, None]
    return X, y, None


class TestValues:
    @pytest.mark.quick_cases(5)
    @pytest.mark.parametrize("noise", [{"mu": 1e5}, {"epsilon": 1e6}], ids=["gaussian", "laplace"])
    @pytest.mark.parametrize("name", OFFERED)
    def test_with_a_large_budget_it_is_scikit_learns(self, name, noise):
        data, scorer = rows(), resolve_trial_scorer(name, Line())
        score = trial_score(Line(), data, scorer, budget=budget(**noise), source=None)
        expected = get_scorer(name)(Line(), *data[:2])
        assert score.value == pytest.approx(expected, abs=2e-3)
        assert 0 <= score.std < 2e-3
        assert scorer(Line(), *data[:2]) == expected

    @pytest.mark.parametrize(
        "scoring",
        [make_scorer(fbeta_score, beta=2), make_scorer(balanced_accuracy_score, adjusted=True)],
        ids=["f2", "adjusted"],
    )
    def test_made_scorers(self, scoring):
        data, scorer = rows(), resolve_trial_scorer(scoring, Line())
        score = trial_score(Line(), data, scorer, budget=budget(1e5), source=None)
        assert score.value == pytest.approx(scoring(Line(), *data[:2]), abs=2e-3)

    @pytest.mark.slow
    @pytest.mark.usefixtures("batched")
    @pytest.mark.parametrize("noise", [{"mu": 0.3}, {"epsilon": 0.4}], ids=["gaussian", "laplace"])
    @pytest.mark.parametrize("name", ["f1", "roc_auc", "balanced_accuracy"])
    def test_stated_deviation_is_that_of_the_releases(self, name, noise):
        """800 releases: within 20 %, five standard errors of a Laplace law's deviation."""
        data, scorer, source = rows(), resolve_trial_scorer(name, Line()), noise_source(1)
        how = {"budget": budget(**noise), "source": source}
        scores = [trial_score(Line(), data, scorer, **how) for _ in range(800)]
        deviation = np.std([score.value for score in scores])
        assert np.median([score.std for score in scores]) == pytest.approx(deviation, rel=0.2)

    @pytest.mark.parametrize("name", OFFERED)
    def test_bad_records_have_the_worst_outcome(self, name):
        data, scorer = rows(100), resolve_trial_scorer(name, Line())
        X, y = data[0].astype(object), data[1].astype(object)
        X[4, 0], y[5], y[6] = "text", None, (1, 2)
        bad = X, y, None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            score = trial_score(Line(), bad, scorer, budget=budget(1e5), source=None)
        own = scorer.of(Line())
        outcomes = own.record_outcomes(Line(), *data[:2])
        outcomes[[4, 5, 6]] = own.worst_outcome
        expected = own.value_of(np.array(own.exact_sums(outcomes)[1:], dtype=float), 100)
        assert score.value == pytest.approx(expected, abs=2e-3)

    def test_a_model_without_classes_has_the_worst_score(self):
        for classes in (None, [0], [[0, 1]]):
            model = Line()
            model.classes_ = np.array(classes)
            how = {"budget": budget(1.0), "source": None}
            scorer = resolve_trial_scorer("matthews_corrcoef", model)
            score = trial_score(model, rows(50), scorer, **how)
            assert (score.value, score.std) == (-1.0, 0.0)


class TestNoise:
    def test_squares_of_the_groups_budgets_add_up(self):
        groups = [SumGroup(1, 38, Fraction(4, 5)), SumGroup(3, 2, Fraction(1, 5), 1)]
        noise, spent = SumNoise(Fraction(1), 0.7), 0.0
        for group, sensitivity in zip(groups, (38.0, math.sqrt(2)), strict=True):
            mechanism, std = noise.mechanism(group)
            assert group.l2_sensitivity == pytest.approx(sensitivity, rel=1e-12)
            assert std == mechanism.sigma
            spent += (sensitivity / std) ** 2
        assert spent <= 0.7**2
        assert spent == pytest.approx(0.7**2, rel=1e-6)

    def test_l2_sensitivity_is_rounded_up(self):
        for l1 in range(1, 60):
            group = SumGroup(3, l1, Fraction(1), 1)
            assert Fraction(group.l2_sensitivity) ** 2 >= l1

    def test_shares_of_epsilon_add_up(self):
        group = SumGroup(3, 2, Fraction(1, 5), 1)
        mechanism, std = SumNoise(Fraction(1)).mechanism(group)
        assert (mechanism.epsilon, mechanism.sensitivity) == (Fraction(1, 5), 2)
        assert std == laplace_std(Fraction(1, 5), 2)

    @pytest.mark.parametrize(("parts", "square"), [([0, 2], 2), ([0, 1, 2], 4)])
    def test_l2_sensitivity_of_counts_is_attained(self, parts, square):
        cells = list(product(range(3), range(4)))
        others = [(0, 0), (1, 2)]

        def counts(record):
            truth, predicted = np.array([*others, record]).T
            return one_vs_rest_counts(confusion_cells(4 * truth + predicted, 3))[parts]

        changes = [np.square(counts(a) - counts(b)).sum() for a in cells for b in cells]
        assert max(changes) == square
        assert max(np.abs(counts(a) - counts(b)).max() for a in cells for b in cells) == 1
        group = SumGroup(len(parts) * 3, square, Fraction(1), 1)
        assert group.l2_sensitivity == math.sqrt(square)


class TestSearch:
    X = RNG.normal(size=(1500, 2))
    Y = (X[:, 0] + 0.5 * RNG.normal(size=1500) > 1.0).astype(int)

    def search(self, scoring, **how):
        how = {"epsilon": 20.0, "delta": DELTA, "scoring": scoring, **how}
        grid = {"C": [0.01, 1.0]} if "C" in DPLogisticRegression().get_params() else {}
        return DPGridSearchCV(DPLogisticRegression(), grid, protect=PrivateSelection(), **how)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("scoring", ["roc_auc", "f1", "balanced_accuracy"])
    def test_offered(self, scoring):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkdpboWarning)
            # Seeded: the worse candidate, whose F1 may be 0, wins one time in seven.
            search = self.search(scoring, random_state=0).fit(self.X, self.Y)
        assert 0.2 < search.best_score_ <= 1.0
        assert 0 < search.best_score_std_ < 0.2

    @pytest.mark.parametrize(
        ("scoring", "instead"),
        [
            ("r2", "neg_mean_squared_error"),
            ("d2_absolute_error_score", "neg_mean_absolute_error"),
            ("average_precision", "roc_auc"),
            ("explained_variance", "r2"),
            ("neg_max_error", "neg_mean_squared_error"),
            ("f1_samples", "f1_macro"),
        ],
    )
    def test_refused_before_any_charge(self, scoring, instead):
        with PrivacyLedger(epsilon=99.0, delta=0.1) as ledger, warnings.catch_warnings():
            warnings.simplefilter("ignore", SkdpboWarning)
            with pytest.raises(UnboundedSensitivityError, match=instead):
                self.search(scoring).fit(self.X, self.Y)
        assert ledger.entries == ()

    @pytest.mark.filterwarnings("error::skdpbo.exceptions.DryRunWarning")
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SelectionCostWarning")
    def test_scores_that_fit_no_class_are_reported_before_the_charge(self):
        """On protected rows the worst score, in silence."""

        class ThreeScores(DPLogisticRegression):
            def decision_function(self, X):
                return np.zeros((len(X), 3))

        search = DPGridSearchCV(ThreeScores(X_bounds=(-5, 5)), {}, protect="all", scoring="roc_auc")
        with (
            PrivacyLedger(epsilon=99.0, delta=0.1) as ledger,
            pytest.raises(DryRunWarning, match="must return one score for each class"),
        ):
            search.fit(self.X, self.Y)
        assert ledger.entries == ()

    @pytest.mark.slow
    def test_a_rehearsal_knows_the_classes_that_are_given(self):
        y = np.array(["<=50K", ">50K"])[self.Y]
        model = DPLogisticRegression(X_bounds=(-5, 5), classes=["<=50K", ">50K"])
        grid = {"C": [0.01, 0.1, 1.0, 10.0, 100.0]}

        def fit(label):
            scoring = make_scorer(fbeta_score, beta=1, pos_label=label)
            DPGridSearchCV(model, grid, protect=PrivateSelection(), scoring=scoring).fit(self.X, y)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(">50K")
        assert DryRunWarning not in [w.category for w in caught]
        refused = pytest.raises(ValueError, match=r"pos_label='50K' is not a class of")
        with PrivacyLedger(epsilon=99.0, delta=0.1) as ledger, refused:
            fit("50K")
        assert ledger.entries == ()

    @pytest.mark.slow
    @pytest.mark.parametrize(("epsilon", "warned"), [(0.3, True), (20.0, False)])
    def test_a_noisy_score_is_reported_after_the_release(self, epsilon, warned):
        model = DPLogisticRegression(X_bounds=(-5, 5), classes=[0, 1])
        grid = {"C": [0.01, 0.1, 1.0, 10.0, 100.0]}
        search = DPGridSearchCV(model, grid, protect="all", scoring="roc_auc", epsilon=epsilon)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(self.X, self.Y)
        texts = [str(w.message) for w in caught if w.category is NoisyScoreWarning]
        assert len(texts) == warned
        assert all(f"it is {search.best_score_:.3g}, " in text for text in texts)

    @pytest.mark.parametrize("scale", [1.0, 0.001])
    def test_the_root_of_a_mean_loss(self, scale):
        y = scale * self.X[:, 0] * self.X[:, 1]  # no line
        bounds = {"X_bounds": (-5, 5), "y_bounds": (-5 * scale, 5 * scale)}
        how = {"scoring": "neg_root_mean_squared_error", "loss_bound": 1.0, "protect": "all"}
        search = DPGridSearchCV(DPRidge(**bounds), {"alpha": [0.1, 1.0]}, epsilon=20, **how)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search.fit(self.X, y)
        squares = np.minimum((search.predict(self.X) - y) ** 2, 1.0)
        # Of a part of the rows, with noise of .002.
        if scale == 1:
            assert search.best_score_ == pytest.approx(-np.sqrt(squares.mean()), abs=0.06)
        # Noise on a mean loss of up to 1 hides errors of a thousandth.
        texts = [str(w.message) for w in caught if w.category is NoisyScoreWarning]
        assert sum("a perfect one is 0" in text for text in texts) == (scale < 1)

    @pytest.mark.parametrize("name", ["balanced_accuracy", "recall_macro", "roc_auc", "f1"])
    @pytest.mark.parametrize("value", [0.65, 0.9])
    def test_noise_is_reported_beside_the_gain_over_chance(self, name, value):
        scorer = resolve_trial_scorer(name, Line())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_if_trial_is_noisy(scorer, ReleasedScore(value, 0.1), Line())
        assert len(caught) == (value == 0.65 and name != "f1")
        assert all("chance has 0.5" in str(w.message) for w in caught)


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
@pytest.mark.parametrize(
    ("classes", "space", "bound"),
    [
        ([1, 0], {}, 1.0),
        ([0, 1, 2], {}, 2.0),
        (None, {}, 2.0),
        ([1, 0], {"classes": [[0, 1, 2]]}, 2.0),
        ([1, 0], {"classes": [[0, 1], [0, 1, 2]]}, 2.0),
        ([1, 0], {"classes": [[0, 1], 7]}, 2.0),
    ],
)
def test_the_bound_of_brier_losses_is_that_of_stated_classes(classes, space, bound):
    X, y, _ = rows(60)
    model = DPLogisticRegression(X_bounds=(-4, 4), classes=classes)
    how = {"scoring": "neg_brier_score", "epsilon": 9.0, "protect": PrivateSelection()}
    search = DPGridSearchCV(model, space, **how).fit(X, y)
    assert search.scorer_.bound == bound
