"""Kusner et al. (2015): Theorems 2, 4, 5, 6 and 8 and Corollary 3 beside exact values and runs.

Scores are in prior standard deviations. All draws are seeded.
"""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge

from _support.internals import BranchAndBound, Gains, add_laplace, run_gp_ucb
from _support.planted import module_of
from skdpbo.mechanisms import ExponentialMechanism, noise_source
from skdpbo.model_selection import Kusner2015
from skdpbo.surrogate import maximum_information_gain_bound

formulas = module_of("kusner constants")
CORRELATION = 0.99


def shifted_tail(centre, bound, scale):
    """P(|centre + Laplace| > bound)."""
    centre = abs(centre)
    if centre <= bound:
        return (math.exp((centre - bound) / scale) + math.exp((-centre - bound) / scale)) / 2
    return 1 - (math.exp((bound - centre) / scale) - math.exp((-centre - bound) / scale)) / 2


def prior_draw(X, generator, length_scale=0.2):
    L = np.linalg.cholesky(RBF(length_scale)(X) + 1e-9 * np.eye(len(X)))
    return L @ generator.normal(size=len(X))


def ucb_run(mechanism, X, scores, n_iter, delta, constants, seed, **how):
    """Posterior and observed values of GP-UCB on given scores."""
    posterior, gains = mechanism._posterior(X), Gains(None, len(X))
    gains._known = dict(enumerate(scores.tolist()))  # not bounded to [0, 1]
    public = {"n_candidates": len(X), "delta": delta, "constants": constants}
    sqrt_betas = [math.sqrt(formulas.beta(t, **public)) for t in range(1, n_iter + 1)]
    return posterior, run_gp_ucb(posterior, gains, float, sqrt_betas, noise_source(seed), **how)


class TestTheorem2:
    """max mu - mu(choice) <= (2 Delta / epsilon) (log |Lambda| + a), but for probability e^-a."""

    @pytest.mark.parametrize("n", [2, 100, 1000])
    @pytest.mark.parametrize("a", [0.5, 3.0])
    def test_worst_case_is_within_and_near(self, n, a):
        """All other candidates lose just the bound: the failure is e^-a but for e^-a and 1/n."""
        units = 10**6  # of Delta
        bound = math.ceil(2 * units * (math.log(n) + a))
        losses = np.full(n, bound)
        losses[0] = 0
        failure = 1 - ExponentialMechanism(1, units).probabilities(losses)[0]
        odds = (n - 1) / n * math.exp(-a)
        assert failure == pytest.approx(odds / (1 + odds), rel=1e-4)
        assert failure <= math.exp(-a)
        # the delta of the statement is not needed
        generator = np.random.default_rng(0)
        for _ in range(20):
            losses = generator.integers(0, 2 * bound, n)
            p = ExponentialMechanism(1, units).probabilities(losses)
            assert p[losses - losses.min() > bound].sum() <= math.exp(-a)

    def test_bound_beside_the_loss_of_a_uniform_draw(self):
        """|Lambda| = 100, T = 50, (1, .05), a = 3: the bound is above any range of scores."""
        sensitivity = formulas.choice_sensitivity(
            n_candidates=100, n_iter=50, delta=0.05, correlation=CORRELATION
        )
        assert 2 * sensitivity * (math.log(100) + 3) == pytest.approx(184.5, abs=0.1)
        X, generator = np.linspace(0, 1, 100)[:, None], np.random.default_rng(0)
        losses, uniform = [], []
        for seed in range(3):
            scores = prior_draw(X, generator)
            mean = ucb_run(Kusner2015(), X, scores, 50, 0.05, "printed", seed)[0].mean
            weights = np.exp((mean - mean.max()) / (2 * sensitivity))
            losses.append((weights / weights.sum()) @ (mean.max() - mean))
            uniform.append(np.mean(mean.max() - mean))
        assert max(uniform) < 4
        assert all(0.9 < loss / flat < 1 for loss, flat in zip(losses, uniform, strict=True))


class TestTheorem4:
    """|noisy score - max f| <= noise term + Omega/T + a (Omega/T + c + q) / epsilon."""

    @staticmethod
    def terms(n_iter, sigma, delta, epsilon, *, n_candidates=1, gain=None, correlation=1.0):
        """Omega / T and the Laplace scale, printed."""
        if gain is None:  # one candidate: the exact information gain
            gain = math.log1p(n_iter / sigma**2) / 2
        public = {"n_candidates": n_candidates, "n_iter": n_iter, "delta": delta}
        public |= {"noise_variance": sigma**2, "information_gain": gain, "constants": "printed"}
        sensitivity = formulas.score_sensitivity(**public, correlation=correlation)
        q = formulas.noise_change(
            n_iter=n_iter, noise_variance=sigma**2, delta=delta, constants="printed"
        )
        c = formulas.data_set_change(
            n_candidates=n_candidates, delta=delta, correlation=correlation, parts=3
        )
        return sensitivity - q - c, sensitivity / epsilon

    @staticmethod
    def printed_noise(sigma, delta, n_iter):
        return sigma * math.sqrt(8 * math.log(1 / delta))

    @staticmethod
    def corrected_noise(sigma, delta, n_iter):
        """All T noises, up to delta / 2; one of them enters, not two."""
        return sigma * math.sqrt(2 * math.log(4 * n_iter / delta))

    @staticmethod
    def failure(bound, n_iter, sigma, scale):
        """P(|max of T noises + Laplace| > bound) for one candidate, whose score f* is observed."""

        def density(z):
            return n_iter * norm.cdf(z) ** (n_iter - 1) * norm.pdf(z)

        return quad(lambda z: density(z) * shifted_tail(sigma * z, bound, scale), -3, 9, limit=200)[
            0
        ]

    @pytest.mark.parametrize(
        ("n_iter", "sigma", "delta", "epsilon", "a", "measured"),
        [(10_000, 100.0, 0.3, 100.0, 4.0, 0.964), (1000, 100.0, 0.5, 100.0, 4.0, 0.985)],
    )
    def test_printed_bound_fails_too_often(self, n_iter, sigma, delta, epsilon, a, measured):
        regret, scale = self.terms(n_iter, sigma, delta, epsilon)
        rest = regret + a * scale
        allowed = delta + math.exp(-a)
        exact = self.failure(self.printed_noise(sigma, delta, n_iter) + rest, n_iter, sigma, scale)
        assert exact == pytest.approx(measured, abs=1e-3)
        assert exact > 1.7 * allowed
        # by simulation: the largest of T normal noises is the quantile at U^(1/T)
        generator, n = np.random.default_rng(0), 4000
        largest = sigma * norm.ppf(generator.random(n) ** (1 / n_iter))
        wrong = np.abs(largest + generator.laplace(scale=scale, size=n)) > (
            self.printed_noise(sigma, delta, n_iter) + rest
        )
        assert abs(wrong.mean() - exact) < 5 * math.sqrt(exact * (1 - exact) / n)
        corrected = self.corrected_noise(sigma, delta, n_iter) + rest
        assert self.failure(corrected, n_iter, sigma, scale) <= allowed

    def test_runs_of_the_prior_are_far_within(self):
        """100 candidates, T = 50, sigma .1, (1, .05), a = 1: the bound is 13.9."""
        X, generator, n_iter = np.linspace(0, 1, 100)[:, None], np.random.default_rng(0), 50
        gain = maximum_information_gain_bound(RBF(0.2), X, n_iter, 0.01)
        regret, scale = self.terms(
            n_iter, 0.1, 0.05, 1.0, n_candidates=100, gain=gain, correlation=CORRELATION
        )
        bound = self.printed_noise(0.1, 0.05, n_iter) + regret + scale
        assert bound == pytest.approx(13.9, abs=0.05)
        found = []
        for seed in range(3):
            scores = prior_draw(X, generator)
            _, values = ucb_run(Kusner2015(), X, scores, n_iter, 0.05, "printed", seed)
            found.append(abs(max(values) - scores.max()))
        assert max(found) < 0.3
        # so the Laplace noise alone decides, with a probability below e^-1
        assert shifted_tail(max(found), bound, scale) < math.exp(-1)


class TestTheorem5:
    """|f'(last point) - f(last point)| <= Omega + c, but for probability delta."""

    N_ITER, CORRELATION, DELTA = 30, 0.99, 0.5

    def last_point(self, X, scores):
        """Exact score of the last point of the published search, and its regret."""
        mechanism, how = Kusner2015(noise_variance=0), {"utilities": BranchAndBound(X)}
        posterior, _ = ucb_run(mechanism, X, scores, self.N_ITER, 0.05, "printed", 0, **how)
        score = scores[posterior.observed[-1]]
        return score, scores.max() - score

    def neighbours(self, X, generator):
        f, other = prior_draw(X, generator), prior_draw(X, generator)
        return f, self.CORRELATION * f + math.sqrt(1 - self.CORRELATION**2) * other

    @pytest.mark.slow
    @pytest.mark.parametrize(("d", "A_range"), [(1, (0, 1e-3)), (2, (13, 14)), (4, (9, 11))])
    def test_holds_with_constants_from_the_prior(self, d, A_range):
        """tau = .1 and A from 52 draws, whose largest regret is the .875 quantile but for 1e-3."""
        generator = np.random.default_rng(d)
        assert (1 - self.DELTA / 4) ** 52 < 1e-3  # each of two data sets has delta / 4
        X, rate = generator.random((200, d)), {"n_iter": self.N_ITER, "n_features": d, "tau": 0.1}
        draws = [prior_draw(X, generator) for _ in range(52)]
        largest = max(self.last_point(X, scores)[1] for scores in draws)
        A = largest / formulas.exact_score_regret(**rate, A=1.0)
        assert A_range[0] < A < A_range[1]
        public = {"n_candidates": len(X), "delta": self.DELTA, "correlation": self.CORRELATION}
        bound = formulas.exact_score_sensitivity(**rate, **public, A=A)
        c = formulas.data_set_change(**public, parts=2)
        assert bound == pytest.approx(largest + c)
        moves, changes = [], []
        for _ in range(15):
            f, g = self.neighbours(X, generator)
            (score, regret), (other_score, other_regret) = (self.last_point(X, s) for s in (f, g))
            moves.append(abs(other_score - score))
            changes.append(np.abs(g - f).max())
            # the proof, for any two functions and any two last points
            assert moves[-1] <= max(regret, other_regret) + changes[-1]
        assert np.mean(np.array(changes) > c) <= self.DELTA / 2
        assert np.mean(np.array(moves) > bound) <= self.DELTA
        if d == 1:  # c cannot be left out
            assert max(moves) > largest


class TestCorollary3:
    """The exact score is claimed to be (epsilon, delta)-private."""

    EPSILON, DELTA, N_ITER = 1.0, 1e-3, 50

    @pytest.mark.parametrize(("target", "needed"), [(10.0, 0.36), (30.0, 0.999)])
    def test_one_outlier(self, target, needed):
        """Five ridge penalties, 100 records, one target changed.

        The search visits all five and ends at the best: the rate holds for every A and tau.
        """
        generator, places = np.random.default_rng(0), np.linspace(0, 1, 5)[:, None]
        weights = generator.normal(size=5)
        (X, y), (X_val, y_val) = (
            (A, A @ weights + generator.normal(size=len(A)))
            for A in (generator.normal(size=(50, 5)), generator.normal(size=(100, 5)))
        )
        models = [Ridge(alpha=alpha).fit(X, y) for alpha in (0.001, 0.1, 1.0, 10.0, 1000.0)]
        predictions = np.array([model.predict(X_val) for model in models])
        released = []
        for y_0 in (y_val[0], target):
            y_val[0] = y_0
            scores = -np.mean((predictions - y_val) ** 2, axis=1)
            mechanism = Kusner2015(noise_variance=0)
            posterior, _ = ucb_run(
                mechanism, places, scores, self.N_ITER, self.DELTA, "printed", 0,
                utilities=BranchAndBound(places),
            )  # fmt: skip
            assert set(posterior.observed) == set(range(5))
            assert scores[posterior.observed[-1]] == scores.max()
            released.append(scores.max())
        scale = formulas.exact_score_sensitivity(
            n_candidates=5, n_iter=self.N_ITER, n_features=1, delta=self.DELTA, A=1.0, tau=0.1,
            correlation=CORRELATION,
        ) / self.EPSILON  # fmt: skip
        shift = abs(released[0] - released[1]) / scale
        # the event of the most excess: releases beyond the point where densities differ by epsilon
        beyond = (shift - self.EPSILON) / 2  # of the first data set's score, towards the second
        p = 1 - math.exp(-beyond) / 2
        q = math.exp(-(shift - beyond)) / 2
        excess = p - math.exp(self.EPSILON) * q
        assert excess == pytest.approx(1 - math.exp((self.EPSILON - shift) / 2))
        assert excess > needed > self.DELTA


class TestTheorem6:
    """|exact noisy score - max f| <= Omega + a (Omega + c) / epsilon, given the assumed rate."""

    @staticmethod
    def failures(d, *, a, epsilon, correlation, n_draws=4, n_iter=50, delta=0.05, n=100):
        """Regret of the last point and P(the bound fails), for draws of the prior."""
        generator, mechanism = np.random.default_rng(d), Kusner2015(noise_variance=0)
        search = {"n_iter": n_iter, "n_features": d, "A": 1.0, "tau": 0.1}
        omega = formulas.exact_score_regret(**search)
        sensitivity = formulas.exact_score_sensitivity(
            **search, n_candidates=n, delta=delta, correlation=correlation
        )
        for seed in range(n_draws):
            X = generator.random((n, d))
            scores = prior_draw(X, generator)
            posterior, _ = ucb_run(mechanism, X, scores, n_iter, delta, "printed", seed)
            regret = scores.max() - scores[posterior.observed[-1]]
            scale = sensitivity / epsilon
            yield regret, omega, shifted_tail(regret, omega + a * scale, scale)

    @pytest.mark.parametrize("d", [1, 2])
    def test_holds_where_the_rate_holds(self, d):
        for regret, omega, failure in self.failures(d, a=1.0, epsilon=1.0, correlation=CORRELATION):
            assert regret <= omega
            assert failure <= math.exp(-1)

    def test_fails_with_the_rate(self):
        """d = 4: 50 points are too few for A = 1 and tau = .1, and the bound fails with them."""
        results = list(self.failures(4, a=3.0, epsilon=100.0, correlation=1.0))
        assert all(regret > omega for regret, omega, _ in results)
        assert min(failure for *_, failure in results) > 0.05 + math.exp(-3)

    @pytest.mark.slow
    def test_rate_of_the_published_search(self):
        """20 draws, 200 candidates, T = 50: branch and bound fails the rate in 0 / 3 / 19."""
        failures = []
        for d in (1, 2, 4):
            generator, mechanism = np.random.default_rng(d), Kusner2015(noise_variance=0)
            omega = formulas.exact_score_regret(n_iter=50, n_features=d, A=1.0, tau=0.1)
            regrets = []
            for seed in range(20):
                X = generator.random((200, d))
                scores = prior_draw(X, generator)
                how = {"utilities": BranchAndBound(X)}
                posterior, _ = ucb_run(mechanism, X, scores, 50, 0.05, "printed", seed, **how)
                regrets.append(scores.max() - scores[posterior.observed[-1]])
            failures.append(sum(regret > omega for regret in regrets))
        assert failures[0] == 0
        assert failures[1] <= 6
        assert failures[2] >= 15


class TestTheorem8:
    """|noisy score - best score| <= a times the Laplace scale, but for probability e^-a."""

    def test_tail_of_the_released_noise(self):
        """Equality: the statement is about the scale drawn, also with the printed constants."""
        scale = formulas.lipschitz_score_sensitivity(
            smallest=1.0, largest=10.0, lipschitz=0.25, bound=1.0, n_records=1000,
            constants="printed",
        )  # fmt: skip
        n, source = 1000, noise_source(0)
        errors = np.abs([add_laplace(0.0, scale, 1, source) for _ in range(n)])
        for a in (0.5, 1.0, 3.0):
            expected = math.exp(-a)
            rate = np.mean(errors > a * scale)
            assert abs(rate - expected) < 5 * math.sqrt(expected * (1 - expected) / n)
