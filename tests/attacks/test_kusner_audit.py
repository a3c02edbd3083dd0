"""Releases of Kusner et al. (2015) on two data sets: a lower bound on epsilon is below the claim.

The statement is about scores drawn from a prior, and an audit needs two fixed score vectors. So the
scores are scaled until the worst pair in [0, 1] differs by exactly the sensitivity that the
formulas promise: given that sensitivity, each release is epsilon-DP for that pair. Bounds hold with
probability 1 - 1e-6 (false alarms), one stream of noise makes every run reproducible, and the same
test catches each planted bug.
"""

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge

from _support.batched_noise import batched  # noqa: F401  (a fixture)
from _support.bounds import epsilon_at_least
from _support.internals import (
    Gains,
    choice_sensitivity,
    exact_score_sensitivity,
    run_gp_ucb,
    score_sensitivity,
)
from _support.internals import beta as beta_of_step
from _support.planted import original, put
from skdpbo.mechanisms import DiscreteLaplace, ExponentialMechanism, noise_source
from skdpbo.model_selection import Kusner2015, Kusner2015Lipschitz
from skdpbo.surrogate import maximum_information_gain_bound

FALSE_ALARM = 1e-6
DELTA = 1e-5
INFORMATION_GAIN = 100.0
# Candidates that say nothing of each other.
SEPARATE = {"kernel": RBF(1e-3), "information_gain": INFORMATION_GAIN}


def distinguished(release, event, pair, n):
    """Lower bound on the epsilon of `release(gains, source)`."""
    stream = noise_source(np.random.RandomState(0))
    hits, misses = (sum(event(*release(gains, stream)) for _ in range(n)) for gains in pair)
    return epsilon_at_least(hits, misses, n)


def audit_choice(n, *, epsilon, n_candidates=5, n_iter=None):
    """The worst pair for a choice: candidate 0 alone is good, or all others are."""
    n_iter = n_candidates if n_iter is None else n_iter
    sensitivity = choice_sensitivity(
        n_candidates=n_candidates, n_iter=n_iter, delta=DELTA, correlation=0.99
    )
    # Centred at the best gain: what was not visited yet looks better than what was, so all are.
    mechanism = Kusner2015(
        **SEPARATE, noise_variance=1e-4, score_center=1.0, score_scale=1 / sensitivity
    )
    first, others = np.zeros(n_candidates), np.ones(n_candidates)
    first[0], others[0] = 1.0, math.nan  # NaN is the worst gain, too
    X = np.linspace(0, 1, n_candidates)[:, None]
    budget = {"epsilon": epsilon, "delta": DELTA, "score_fraction": 0.0}

    def release(gains, source):
        return mechanism.search(X, gains.__getitem__, n_iter=n_iter, source=source, **budget)

    return distinguished(release, lambda index, _: index == 0, (first, others), n)


def audit_score(n, *, epsilon, noise_variance, score_fraction=0.99):
    """One candidate, whose score moves by the sensitivity of the score."""
    delta = DELTA * score_fraction
    public = {"n_candidates": 1, "n_iter": 2, "delta": delta, "correlation": 0.99}
    if noise_variance:
        sensitivity = score_sensitivity(
            **public,
            noise_variance=noise_variance,
            information_gain=INFORMATION_GAIN,
            constants="corrected",
        )
    else:
        sensitivity = exact_score_sensitivity(**public, n_features=1, A=1.0, tau=0.1)
    mechanism = Kusner2015(**SEPARATE, noise_variance=noise_variance, score_scale=1 / sensitivity)
    budget = {"epsilon": epsilon, "delta": DELTA, "score_fraction": score_fraction}

    def release(gain, source):
        return mechanism.search([[0.5]], lambda k: gain, n_iter=2, source=source, **budget)

    return distinguished(release, lambda _, gain: gain > 0.5, (1.0, 0.0), n)


def audit_lipschitz(n, *, epsilon, constants):
    """The pair of the erratum: one record, ramp loss clip(.5 - y w, 0, 1) and w = 1 / lambda."""
    mechanism = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha", constants=constants)
    units = 10_000
    known = {"lambdas": [4.0], "units": units, "bound": 1.0, "n_records": 1, "epsilon": epsilon}

    def release(total, source):
        return (mechanism.release_score(total, source=source, **known),)

    pair = (3 * units // 4, units // 4)  # y = -1 and y = 1
    return distinguished(release, lambda total: total > units // 2, pair, n)


def plant(monkeypatch, factor, kind, stage="kusner release"):
    """Planted bug: a mechanism is given `factor` times its epsilon."""
    changed = lambda epsilon, units: kind(factor * epsilon, units)  # noqa: E731
    put(monkeypatch, f"{stage}: {kind.__name__}", changed)


@pytest.mark.usefixtures("batched")
class TestChoice:
    @pytest.mark.slow
    def test_honest(self):
        bound = audit_choice(500, epsilon=3.0)
        assert 0.3 * 3.0 < bound <= 3.0

    @pytest.mark.slow
    def test_exponent_ten_times_too_large_is_caught(self, monkeypatch):
        plant(monkeypatch, 10, ExponentialMechanism)
        assert audit_choice(500, epsilon=3.0) > 3.0

    @pytest.mark.slow
    def test_more_candidates_and_half_the_sensitivity(self, monkeypatch):
        bound = audit_choice(1500, epsilon=2.0, n_candidates=10)
        assert 0.3 * 2.0 < bound <= 2.0
        plant(monkeypatch, 2, ExponentialMechanism)
        assert audit_choice(1500, epsilon=2.0, n_candidates=10) > 2.0

    def test_exact_law_of_the_audited_event(self):
        """The audit is worth its name: the event's likelihood ratio is close to the claim."""
        mechanism = ExponentialMechanism(3.0, 1)
        first, others = (mechanism.probabilities(u)[0] for u in ([0, 1, 1, 1, 1], [1, 0, 0, 0, 0]))
        assert 0.75 * 3.0 < math.log(first / others) <= 3.0


@pytest.mark.slow
@pytest.mark.usefixtures("batched")
class TestScore:
    @pytest.mark.parametrize("noise_variance", [0.01, 0.0])
    def test_honest(self, noise_variance):
        bound = audit_score(700, epsilon=1.0, noise_variance=noise_variance)
        assert 0.3 < bound <= 1.0

    @pytest.mark.parametrize("noise_variance", [0.01, 0.0])
    def test_a_tenth_of_the_noise_is_caught(self, noise_variance, monkeypatch):
        plant(monkeypatch, 10, DiscreteLaplace)
        assert audit_score(300, epsilon=1.0, noise_variance=noise_variance) > 1.0

    @pytest.mark.slow
    @pytest.mark.parametrize("noise_variance", [0.01, 0.0])
    def test_half_the_noise_is_caught(self, noise_variance, monkeypatch):
        plant(monkeypatch, 2, DiscreteLaplace)
        assert audit_score(2000, epsilon=1.0, noise_variance=noise_variance) > 1.0

    def test_a_forgotten_term_is_caught(self, monkeypatch):
        """The regret alone, without c and q, as the sensitivity of the score."""
        honest = original("kusner constants: score_sensitivity")

        def forgetful(**known):
            return honest(**{**known, "correlation": 1.0, "information_gain": 0.0})

        put(monkeypatch, "kusner constants: score_sensitivity", forgetful)
        assert audit_score(500, epsilon=1.0, noise_variance=0.01) > 1.0


class TestLipschitzScore:
    def test_corrected_constant_is_honest(self):
        bound = audit_lipschitz(2000, epsilon=1.0, constants="corrected")
        assert 0.5 < bound <= 1.0

    @pytest.mark.slow
    def test_printed_constant_is_caught(self):
        """The published scale, on the pair that the erratum gives: the guarantee is void."""
        assert audit_lipschitz(2000, epsilon=1.0, constants="printed") > 1.0
        printed = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha", constants="printed")
        assert printed.guarantee(epsilon=1.0, score_fraction=0.5).status == "void"

    def test_half_the_noise_is_caught(self, monkeypatch):
        plant(monkeypatch, 2, DiscreteLaplace, "kusner lipschitz")
        assert audit_lipschitz(2000, epsilon=1.0, constants="corrected") > 1.0


@pytest.mark.usefixtures("batched")
class TestSecretTrajectory:
    """Algorithm 3 as published: one record decides which candidate is visited second."""

    # of GP-UCB with kernel RBF(.2): a neighbour of correlation 1/2, and a point far away
    X = np.array([[0.0], [0.2 * math.sqrt(2 * math.log(2))], [1.0]])

    # gains .6 or .5 at first: then the neighbour, of gain 0, or the far one, of gain 1
    PAIR = ([400, 1000, 0], [500, 1000, 0])
    SIZES: ClassVar = {"lambdas": [0.1, 9.0], "units": 100, "bound": 1.0, "n_records": 10}
    MECHANISM = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="a", trajectory="secret")

    def smallest(self):
        """Smallest total of each trajectory; its noise of 1e-5 decides nothing here."""
        follow = {"n_iter": 2, "acquisition": "ucb", "sqrt_beta": 2.0, "source": noise_source(0)}
        return [self.MECHANISM.smallest_visited(self.X, t, 1000, **follow) for t in self.PAIR]

    def bound(self, n):
        def release(total, source):
            return (self.MECHANISM.release_score(total, epsilon=1.0, source=source, **self.SIZES),)

        return distinguished(release, lambda total: total > 200, self.smallest(), n)

    def test_one_loss_moves_the_best_score_by_four(self):
        assert self.smallest() == [400, 0]
        assert self.MECHANISM.integer_sensitivity(**self.SIZES) >= 400

    @pytest.mark.slow
    def test_honest(self):
        assert 0.1 < self.bound(3000) <= 1.0

    def test_another_parameter_is_refused_as_it_breaks_the_bound(self, monkeypatch):
        """Candidates of one lambda that another parameter sets apart: the bound is one loss."""
        candidates = [{"a": 1.0, "slope": slope} for slope in (-1.0, 0.0, 1.0)]
        with pytest.raises(ValueError, match="only parameter of the search, got slope"):
            self.MECHANISM.lambdas(candidates)
        monkeypatch.setitem(self.SIZES, "lambdas", [params["a"] for params in candidates])
        assert self.bound(200) > 1.0

    def test_the_sensitivity_of_a_public_trajectory_is_caught(self, monkeypatch):
        one_loss = lambda self, lambdas, *, units, bound, n_records: units  # noqa: E731
        put(monkeypatch, "kusner lipschitz: Kusner2015Lipschitz.integer_sensitivity", one_loss)
        assert self.bound(200) > 1.0


class TestConditional:
    """Meaning of the status: without the prior the statement fails; with it, it has room."""

    N_ITER, EPSILON, DELTA = 50, 1.0, 1e-3

    def law(self, scores, X, mechanism, draws):
        """Probabilities of the choice, averaged over the observation noise."""
        n = len(X)
        public = {"n_candidates": n, "delta": self.DELTA}
        sqrt_betas = [math.sqrt(beta_of_step(t, **public)) for t in range(1, self.N_ITER + 1)]
        sensitivity = choice_sensitivity(n_iter=self.N_ITER, correlation=0.99, **public)
        total = np.zeros(n)
        for seed in range(draws):
            posterior = mechanism._posterior(X)
            gains = Gains(None, n)
            gains._known = dict(enumerate(scores.tolist()))  # not bounded to [0, 1]
            run_gp_ucb(posterior, gains, float, sqrt_betas, noise_source(seed))
            exponents = self.EPSILON * posterior.mean / (2 * sensitivity)
            weights = np.exp(exponents - exponents.max())
            total += weights / weights.sum()
        return total / draws

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("target", "log_ratio", "delta"), [(300.0, (1.0, 1.8), 0.003), (1000.0, (14, 16), 0.40)]
    )
    def test_one_outlier_breaks_the_choice_of_unbounded_scores(self, target, log_ratio, delta):
        """Minus the squared error of ridge, 100 records, 200 candidates: one target is changed."""
        generator = np.random.default_rng(0)
        weights = generator.normal(size=5)
        (X, y), (X_val, y_val) = (
            (A, A @ weights + generator.normal(size=len(A)))
            for A in (generator.normal(size=(50, 5)), generator.normal(size=(100, 5)))
        )
        places = np.linspace(0, 1, 200)
        models = [Ridge(alpha=alpha).fit(X, y) for alpha in 10 ** (6 * places - 3)]
        predictions = np.array([model.predict(X_val) for model in models])
        laws = []
        for y_0 in (y_val[0], target):
            y_val[0] = y_0
            scores = -np.mean((predictions - y_val) ** 2, axis=1)
            laws.append(self.law(scores, places[:, None], Kusner2015(), draws=3))
        measured = np.abs(np.log(laws[0] / laws[1])).max()
        assert log_ratio[0] < measured < log_ratio[1]
        assert measured > self.EPSILON
        excess = [
            np.maximum(p - math.exp(self.EPSILON) * q, 0).sum() for p, q in (laws, laws[::-1])
        ]
        assert max(excess) > delta > self.DELTA

    def test_scores_in_the_unit_interval_stay_far_below(self):
        """Worst vectors in [0, 1] at score_scale 1: private by being nearly uniform."""
        X = np.linspace(0, 1, 200)[:, None]
        rising = np.linspace(0, 1, 200)
        laws = [self.law(scores, X, Kusner2015(), draws=2) for scores in (rising, 1 - rising)]
        assert np.abs(np.log(laws[0] / laws[1])).max() < 0.1

    def test_a_smaller_scale_is_outside_the_prior(self):
        """`score_scale` is part of the assumption: misstated, one pair exceeds epsilon."""
        honest = Kusner2015(noise_variance=1e-4)
        assert "conditional" in str(honest.guarantee(epsilon=1, delta=1e-3, score_fraction=0))
        X = np.array([[0.0], [1.0]])
        misstated = replace(honest, score_scale=1e-3)
        laws = [
            self.law(misstated._modelled(np.array(gains)), X, misstated, draws=1)
            for gains in ((0.0, 1.0), (1.0, 0.0))
        ]
        assert np.abs(np.log(laws[0] / laws[1])).max() > 10 * self.EPSILON

    @pytest.mark.slow
    @pytest.mark.parametrize("n_features", [1, 2])
    def test_sensitivities_hold_for_draws_of_the_prior(self, n_features):
        """Pairs of scores with correlation k: changes far below the bounds (delta = 1e-3)."""
        generator, n, k = np.random.default_rng(0), 100, 0.99
        mechanism = Kusner2015()
        public = {"n_candidates": n, "delta": self.DELTA}
        sqrt_betas = [
            math.sqrt(beta_of_step(t, **public, constants="corrected"))
            for t in range(1, self.N_ITER + 1)
        ]
        changes = []
        for _ in range(40):
            X = generator.random((n, n_features))
            L = np.linalg.cholesky(RBF(0.2)(X) + 1e-9 * np.eye(n))
            f, other = L @ generator.normal(size=n), L @ generator.normal(size=n)
            runs = []
            for scores in (f, k * f + math.sqrt(1 - k**2) * other):
                posterior, gains = mechanism._posterior(X), Gains(None, n)
                gains._known = dict(enumerate(scores.tolist()))
                values = run_gp_ucb(posterior, gains, float, sqrt_betas, noise_source())
                runs.append((posterior.mean, max(values)))
            (mean, best), (mean_2, best_2) = runs
            changes.append((np.abs(mean - mean_2).max(), abs(best - best_2)))
        search = {**public, "n_iter": self.N_ITER, "correlation": k}
        choice = choice_sensitivity(**search)
        gain = maximum_information_gain_bound(
            mechanism._kernel, X, self.N_ITER, mechanism._variance
        )
        score = score_sensitivity(
            **search, noise_variance=0.01, information_gain=gain, constants="corrected"
        )
        # Measured: at most .1 of the first and .05 of the second.
        assert np.max(changes, axis=0)[0] < 0.5 * choice
        assert np.max(changes, axis=0)[1] < 0.5 * score
