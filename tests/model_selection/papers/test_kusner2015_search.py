"""Kusner2015 and Kusner2015Lipschitz: parameters, statements, what a search asks and returns."""

import copy
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from _support.internals import (
    BranchAndBound,
    Gains,
    Shares,
    _step,
    add_laplace,
    choice_sensitivity,
    choose,
    lattice_units,
    run_gp_ucb,
    score_sensitivity,
)
from _support.planted import put
from skdpbo.mechanisms import DiscreteLaplace, ExponentialMechanism, noise_source, to_lattice
from skdpbo.model_selection import Kusner2015, Kusner2015Lipschitz
from skdpbo.surrogate import CandidatePosterior

rng = np.random.default_rng(0)
X = rng.random((30, 2))
GAINS = 0.6 + 0.3 * rng.random(30)
BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def search(mechanism, observe=lambda k: GAINS[k], *, X=X, n_iter=8, seed=0, **budget):
    budget = {**BUDGET, "score_fraction": 0.5, **budget}
    return mechanism.search(X, observe, n_iter=n_iter, source=noise_source(seed), **budget)


def inverse_of_100_C(C):
    return 1 / (100 * C)


MECHANISMS = [
    Kusner2015(),
    Kusner2015(noise_variance=0, kernel=Matern(0.5, nu=2.5), A=2.0, tau=0.2),
    Kusner2015Lipschitz(lipschitz=0.25, lambda_name="C", transform=inverse_of_100_C),
]


class TestParameters:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_copies_are_equal(self, mechanism):
        for other in (
            pickle.loads(pickle.dumps(mechanism)),
            copy.deepcopy(mechanism),
            clone(mechanism, safe=False),
        ):
            assert other == mechanism
            assert repr(other) == repr(mechanism)

    def test_repr_is_plain(self):
        text = repr(Kusner2015())
        assert text.startswith("Kusner2015(noise_variance=0.01, dataset_correlation=0.99, kernel=")

    @pytest.mark.parametrize(
        ("name", "value", "error"),
        [
            ("noise_variance", -1.0, ValueError),
            ("noise_variance", math.inf, ValueError),
            ("noise_variance", "big", TypeError),
            ("dataset_correlation", 1.01, ValueError),
            ("dataset_correlation", math.nan, ValueError),
            ("kernel", "rbf", TypeError),
            ("kernel", ConstantKernel(4.0) * RBF(), ValueError),
            ("kernel", RBF() + WhiteKernel(1.0), ValueError),
            ("information_gain", "exact", ValueError),
            ("information_gain", -1.0, ValueError),
            ("information_gain", 1e308, ValueError),
            ("noise_variance", 1e308, ValueError),
            ("constants", "published", ValueError),
            ("A", 0.0, ValueError),
            ("tau", -0.1, ValueError),
            ("tau", True, TypeError),
            ("score_center", math.nan, ValueError),
            ("score_scale", 0.0, ValueError),
            ("score_scale", 1e-9, ValueError),
            ("score_center", 1e200, ValueError),
        ],
    )
    def test_errors_name_the_parameter(self, name, value, error):
        with pytest.raises(error, match=name):
            Kusner2015(**{name: value})

    @pytest.mark.parametrize("noise_variance", [0.01, 0.0])
    def test_fractions_are_stated_as_numbers(self, noise_variance):
        names = ("dataset_correlation", "information_gain", "A", "tau", "score_center")
        third = dict.fromkeys((*names, "score_scale"), Fraction(1, 3))
        mechanism = Kusner2015(noise_variance=noise_variance, **third)
        stated = mechanism.guarantee(**BUDGET, score_fraction=0.5)
        assert "score - 0.333333" in str(stated.assumptions)
        lipschitz = Kusner2015Lipschitz(lipschitz=Fraction(1, 3), lambda_name="alpha")
        stated = lipschitz.guarantee(epsilon=1.0, score_fraction=0.5)
        assert "0.333333-Lipschitz" in str(stated.assumptions)

    @pytest.mark.parametrize(
        ("name", "value", "error"),
        [
            ("lipschitz", 0.0, ValueError),
            ("lipschitz", None, TypeError),
            ("lambda_name", "", TypeError),
            ("lambda_name", 3, TypeError),
            ("constants", "other", ValueError),
            ("transform", 2.0, TypeError),
            ("trajectory", "hidden", ValueError),
        ],
    )
    def test_errors_of_lipschitz_name_the_parameter(self, name, value, error):
        with pytest.raises(error, match=name):
            Kusner2015Lipschitz(**{"lipschitz": 1.0, "lambda_name": "alpha", name: value})

    @pytest.mark.parametrize(
        ("name", "value", "error"),
        [
            ("epsilon", 0.0, ValueError),
            ("epsilon", math.inf, ValueError),
            ("delta", 0.0, ValueError),
            ("delta", 1.0, ValueError),
            ("delta", math.nan, ValueError),
            ("score_fraction", 1.0, ValueError),
            ("score_fraction", -0.1, ValueError),
            ("score_fraction", math.nan, ValueError),
            ("score_fraction", None, TypeError),
        ],
    )
    def test_budgets_are_checked_without_scikit_learn(self, name, value, error):
        budget = {**BUDGET, "score_fraction": 0.1, name: value}
        with pytest.raises(error, match=name):
            Kusner2015().guarantee(**budget)
        requested = []
        with pytest.raises(error, match=name):
            search(Kusner2015(), requested.append, **budget)
        assert requested == []


class TestGuarantee:
    def test_totals_are_what_was_given(self):
        guarantee = Kusner2015().guarantee(epsilon=0.3, delta=1e-4, score_fraction=0.1)
        assert (guarantee.epsilon, guarantee.delta, guarantee.mu) == (0.3, 1e-4, None)
        assert guarantee.status == "conditional"
        assert "Gaussian-process prior" in str(guarantee)
        assert "k(V, V') at least 0.99" in str(guarantee)
        assert "the kernel RBF(length_scale=0.2)" in str(guarantee)
        mapped = Kusner2015(score_center=0.75, score_scale=0.1)
        assert "(score - 0.75) / 0.1" in str(mapped.guarantee(**BUDGET, score_fraction=0))

    @pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.999])
    def test_shares_add_up(self, fraction):
        shares = Shares.of(0.1, 1e-5, fraction)
        assert shares.epsilon_choice + shares.epsilon_score == Fraction(0.1)
        assert shares.delta_choice + shares.delta_score <= 1e-5 * (1 + 1e-15)
        assert shares.delta_choice > 0

    def test_the_papers_statement_for_both_releases(self):
        """(2 epsilon, 2 delta) in total: (epsilon, delta) for each."""
        shares = Shares.of(2 * 0.7, 2e-5, 0.5)
        assert shares == Shares(Fraction(0.7), Fraction(0.7), 1e-5, 1e-5)
        guarantee = Kusner2015().guarantee(epsilon=2 * 0.7, delta=2e-5, score_fraction=0.5)
        assert "choice (epsilon 0.7) + Laplace score (epsilon 0.7)" in guarantee.mechanism

    @pytest.mark.parametrize(
        ("noise_variance", "score_fraction", "status"),
        [(0.01, 0.5, "void"), (0.01, 0.0, "conditional"), (0.0, 0.5, "conditional")],
    )
    def test_printed_constants(self, noise_variance, score_fraction, status):
        mechanism = Kusner2015(noise_variance=noise_variance, constants="printed")
        guarantee = mechanism.guarantee(**BUDGET, score_fraction=score_fraction)
        assert guarantee.status == status
        assert ("does not hold even under the prior" in str(guarantee)) == (status == "void")

    def test_algorithms_are_named_with_what_they_assume(self):
        exact = Kusner2015(noise_variance=0, A=3.0).guarantee(**BUDGET, score_fraction=0.1)
        assert "Algorithm 2" in exact.mechanism
        assert "at most 3 exp(-0.1 T / (log T)^(d/4))" in str(exact)
        given = Kusner2015(information_gain=40.0).guarantee(**BUDGET, score_fraction=0.1)
        assert "Algorithm 1" in given.mechanism
        assert "information gain is at most 40 nats" in str(given)

    def test_lipschitz(self):
        mechanism = Kusner2015Lipschitz(lipschitz=0.25, lambda_name="alpha")
        both = mechanism.guarantee(epsilon=1.0, score_fraction=0.1)
        assert (both.epsilon, both.delta, both.status) == (1.0, 0.0, "conditional")
        assert "lambda is set by alpha" in str(both)
        assert "0.25-Lipschitz" in str(both)
        assert "every protected record can be read and scored" in str(both)
        assert mechanism.guarantee(epsilon=1.0, score_fraction=0).status == "proved"
        printed = Kusner2015Lipschitz(lipschitz=1, lambda_name="alpha", constants="printed")
        assert printed.guarantee(epsilon=1.0, score_fraction=0.1).status == "void"
        assert printed.guarantee(epsilon=1.0, score_fraction=0).status == "proved"


class TestBranchAndBound:
    MECHANISM = Kusner2015(noise_variance=0, acquisition="branch_and_bound")

    def test_releases(self):
        index, gain = search(self.MECHANISM, n_iter=40, epsilon=1e7)
        assert 0 <= index < len(X)
        assert abs(gain - GAINS.max()) < 0.05
        assert self.MECHANISM.guarantee(**BUDGET, score_fraction=0.5).status == "conditional"

    def test_is_for_exact_observations(self):
        for acquisition, noise_variance in (("branch_and_bound", 0.01), ("ei", 0.01), ("ei", 0)):
            with pytest.raises(ValueError, match="acquisition"):
                Kusner2015(acquisition=acquisition, noise_variance=noise_variance)

    def test_keeps_the_maximum_and_covers_what_is_relevant(self):
        """Draws of the prior: covered to the radius before it is halved, and never discarded."""
        generator, grid = np.random.default_rng(0), np.linspace(0, 1, 60)[:, None]
        root = np.linalg.cholesky(RBF(0.2)(grid) + 1e-9 * np.eye(60))
        for _ in range(5):
            f = root @ generator.normal(size=60)
            posterior, utilities = self.MECHANISM._posterior(grid), BranchAndBound(grid)
            for _ in range(20):
                radius, relevant = utilities._radius, utilities._relevant.copy()
                k = int(utilities(posterior, 6.0).argmax())
                if utilities._radius < radius:
                    gaps = np.abs(grid[relevant] - grid[posterior.observed].T).min(axis=1)
                    assert gaps.max() <= radius
                posterior.append(k, f[k])
                assert utilities._relevant[f.argmax()]
            assert utilities._relevant.sum() < 20
            assert f[posterior.observed].max() == f.max()


class TestSearch:
    @pytest.mark.parametrize("noise_variance", [0.01, 0.0])
    def test_released_values(self, noise_variance):
        index, gain = search(Kusner2015(noise_variance=noise_variance))
        assert type(index) is int
        assert 0 <= index < len(X)
        assert type(gain) is float
        assert search(Kusner2015(noise_variance=noise_variance), score_fraction=0)[1] is None

    def test_asks_for_a_candidate_once_and_for_n_iter_at_most(self):
        requested = []

        def observe(k):
            requested.append(k)
            return GAINS[k]

        search(Kusner2015(), observe, n_iter=12)
        assert len(requested) == len(set(requested)) <= 12 + 1  # and the released one

    def test_an_accurate_search_finds_the_best(self):
        """Epsilon beyond use, a kernel that separates the candidates, hardly any noise."""
        mechanism = Kusner2015(kernel=RBF(1e-3), noise_variance=1e-6)
        index, gain = search(mechanism, n_iter=60, epsilon=1e7)
        assert index == GAINS.argmax()
        assert gain == pytest.approx(GAINS.max(), abs=0.01)

    def test_exact_search_releases_the_last_score(self):
        mechanism = Kusner2015(noise_variance=0)
        requested = {}

        def observe(k):
            requested[k] = GAINS[k]
            return GAINS[k]

        _, gain = search(mechanism, observe, n_iter=7, epsilon=1e7)
        assert min(abs(gain - value) for value in requested.values()) < 1e-4

    def test_scores_are_mapped_to_the_prior_and_back(self):
        mapped = {"score_center": 0.75, "score_scale": 0.1}
        mechanism = Kusner2015(kernel=RBF(1e-3), noise_variance=1e-6, **mapped)
        _, gain = search(mechanism, n_iter=40, epsilon=1e8)
        assert gain == pytest.approx(GAINS.max(), abs=0.01)

    def test_trajectory_is_gp_ucb(self, monkeypatch):
        """Against a plain loop with a new posterior at every step."""
        kernel, seen = RBF(0.3), []
        spied = recording(CandidatePosterior.append, seen)
        monkeypatch.setattr(CandidatePosterior, "append", spied)
        search(Kusner2015(kernel=kernel), n_iter=6, score_fraction=0)
        monkeypatch.undo()
        K = kernel(X)
        for t, (k, _) in enumerate(seen):
            visited, values = [j for j, _ in seen[:t]], np.array([v for _, v in seen[:t]])
            weights = np.linalg.solve(K[np.ix_(visited, visited)] + 0.01 * np.eye(t), K[visited])
            mean = values @ weights if t else np.zeros(len(X))
            variance = 1 - np.sum(K[visited] * weights, axis=0)
            log = math.log(2 * len(X) * (t + 1) ** 2 * math.pi**2 / (3 * BUDGET["delta"]))
            assert k == np.argmax(mean + math.sqrt(2 * log) * np.sqrt(variance))
        residuals = np.array([v - GAINS[k] for k, v in seen])
        assert 0 < np.abs(residuals).max() < 0.1 * 6

    def test_information_gain_below_the_greedy_one_is_refused_first(self):
        requested = []
        with pytest.raises(ValueError, match="information_gain"):
            search(Kusner2015(information_gain=0.1), requested.append)
        assert requested == []
        assert search(Kusner2015(information_gain=1e3))[0] in range(30)

    def test_public_errors_come_first(self):
        requested = []
        with pytest.raises(ValueError, match="kernel must have variance 1"):
            search(Kusner2015(kernel=DotProduct(1.0)), requested.append)
        with pytest.raises(ValueError, match="kernel must have finite values"):
            search(Kusner2015(kernel=Matern(nu=30)), requested.append)
        for n_iter, error in ((0, ValueError), (2.5, TypeError), (True, TypeError)):
            with pytest.raises(error, match="n_iter"):
                search(Kusner2015(), requested.append, n_iter=n_iter)
        with pytest.raises(ValueError, match="n_iter"):
            search(Kusner2015(noise_variance=0), requested.append, n_iter=1)
        assert requested == []


def recording(append, seen):
    def recorded(self, index, value, *args):
        if value != 0.0:  # not the greedy design of the information gain
            seen.append((int(index), value))
        return append(self, index, value, *args)

    return recorded


class TestWhatCannotBeScored:
    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300, -0.1, 1.1, "no", [1, 2]])
    def test_counts_as_the_worst_without_a_message(self, bad):
        def observe_bad(k):
            return bad if k % 3 == 0 else GAINS[k]

        def observe_zero(k):
            return 0.0 if k % 3 == 0 else GAINS[k]

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert search(Kusner2015(), observe_bad) == search(Kusner2015(), observe_zero)

    def test_errors_and_warnings_do_not_come_out(self):
        def observe(k):
            warnings.warn(f"record of {k}", stacklevel=1)
            raise RuntimeError(f"record of {k}")

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert search(Kusner2015(), observe) == search(Kusner2015(), lambda k: 0.0)
        assert caught == []

    def test_untrainable_candidates_never_win(self):
        def observe(k):
            return GAINS[k] if k % 2 else None

        assert {search(Kusner2015(), observe, n_iter=3, seed=s)[0] % 2 for s in range(60)} == {1}

    @pytest.mark.slow
    def test_the_law_does_not_tell_which_untrainable_ones_were_visited(self):
        """Candidate 2 of 3 is untrainable: 1 / 2 each, visited or not (false alarm 1e-6)."""

        n = 2000
        mean = np.zeros(3)
        for visited in (False, True):
            hits = 0
            for seed in range(n):
                gains = Gains(lambda k: None if k == 2 else 0.5, 3)
                if visited:
                    assert gains(2) is None
                hits += choose(mean, gains, 1.0, 1.0, noise_source(seed)) == 0
            assert abs(hits - n / 2) < 4.9 * math.sqrt(n / 4)

    def test_nothing_trainable_is_a_public_error(self):
        with pytest.raises(ValueError, match="no candidate can be trained"):
            search(Kusner2015(), lambda k: None)


class TestLattices:
    @pytest.mark.parametrize("sensitivity", [3e-7, 0.1, 1.0, 12.133, 1e4])
    def test_integer_sensitivity_covers_the_rounding(self, sensitivity):
        step = _step(sensitivity)
        units = lattice_units(sensitivity, step)
        values = np.random.default_rng(1).uniform(-3, 3, 1000) * sensitivity
        for shift in (sensitivity, -sensitivity):
            rounded = [to_lattice(v, step) for v in (values, values + shift)]
            assert np.abs(rounded[0] - rounded[1]).max() <= units
        assert units * step <= sensitivity * (1 + 2**-28)

    def test_the_score_covers_the_rounding_of_observations_and_of_their_noise(self, monkeypatch):
        made = {}
        put(monkeypatch, "kusner release: DiscreteLaplace", spy(DiscreteLaplace, made))
        sd = 0.13
        sensitivity = sd * math.sqrt(8 * math.log(3))  # the smallest, printed, of this noise alone
        step, own = _step(sensitivity), _step(sd)
        assert own == step / 2  # the coarsest beside it
        sensitivity -= sensitivity % step  # exact on the lattice
        add_laplace(0.0, sensitivity, 1, noise_source(0))
        _, units = made["DiscreteLaplace"]
        # Two observations, half a step for the noise of each, and the score itself.
        assert units * step >= sensitivity + 2 * own + own + step

    def test_scales_of_both_releases(self, monkeypatch):
        """The mechanisms are given what the formulas say, for each share."""
        made = {}
        for kind in (ExponentialMechanism, DiscreteLaplace):
            put(monkeypatch, f"kusner release: {kind.__name__}", spy(kind, made))
        search(Kusner2015(information_gain=100.0), n_iter=8, epsilon=2.0, score_fraction=0.25)
        public = {"n_candidates": 30, "n_iter": 8, "correlation": 0.99}
        expected = choice_sensitivity(**public, delta=0.75e-5)
        epsilon, units = made["ExponentialMechanism"]
        assert float(epsilon) == 1.5
        step = _step(expected + 2**-9)
        assert units * step == pytest.approx(expected + 2**-9, rel=1e-8)
        expected = score_sensitivity(
            **public,
            delta=0.25e-5,
            noise_variance=0.01,
            information_gain=100.0,
            constants="corrected",
        )
        epsilon, units = made["DiscreteLaplace"]
        assert float(epsilon) == 0.5
        assert units * _step(expected) == pytest.approx(expected, rel=1e-8)

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("noise_variance", [0.01, 0.0])
    def test_rounding_of_the_posterior_mean_is_allowed_for(self, noise_variance):
        """The posterior mean of GP-UCB against 50-digit arithmetic, for a draw of the prior."""
        mpmath = pytest.importorskip("mpmath")
        kernel, generator = RBF(0.2), np.random.default_rng(2)
        points = generator.random((60, 2))
        K = kernel(points)
        scores = np.linalg.cholesky(K + 1e-9 * np.eye(60)) @ generator.normal(size=60)
        mechanism = Kusner2015(noise_variance=noise_variance)
        posterior = mechanism._posterior(points)
        gains = Gains(lambda k: 0.5, 60)
        gains._known = dict(enumerate(scores))
        run_gp_ucb(posterior, gains, float, [4.0] * 30, noise_source(3))
        T = posterior.observed
        with mpmath.workdps(50):
            A = mpmath.matrix(K[np.ix_(T, T)].tolist())
            for i in range(len(T)):
                A[i, i] += mpmath.mpf(posterior.noise_variance)
            weights = mpmath.lu_solve(A, mpmath.matrix(posterior.values.tolist()))
            mean = mpmath.matrix(K[:, T].tolist()) * weights
            exact = np.array([float(value) for value in mean])
        assert np.abs(posterior.mean - exact).max() < 2**-10 / 20


def spy(kind, made):
    def make(epsilon, units):
        made[kind.__name__] = (epsilon, units)
        return kind(epsilon, units)

    return make


class TestLipschitz:
    CANDIDATES = [{"C": c} for c in (0.01, 0.1, 1.0)]

    def test_lambdas(self):
        mechanism = MECHANISMS[-1]
        assert mechanism.lambdas(self.CANDIDATES) == pytest.approx([1.0, 0.1, 0.01])
        with pytest.raises(ValueError, match="lambda_name"):
            mechanism.lambdas([{"C": 1.0}, {"alpha": 1.0}])
        plain = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="C")
        assert plain.lambdas(self.CANDIDATES) == [0.01, 0.1, 1.0]
        with pytest.raises(ValueError, match="lambda must"):
            plain.lambdas([{"C": 0.0}])
        with pytest.raises(TypeError, match="lambda must"):
            plain.lambdas([{"C": "auto"}])

    @pytest.mark.parametrize("constants", ["corrected", "printed"])
    def test_integer_sensitivity(self, constants):
        mechanism = Kusner2015Lipschitz(lipschitz=0.25, lambda_name="C", constants=constants)
        m, units = 1000, 2**20
        mean = {"corrected": 0.22550, "printed": 0.22525}[constants]
        integer = mechanism.integer_sensitivity([1.0, 10.0], units=units, bound=1.0, n_records=m)
        assert integer == math.ceil(mean * m * units) + m
        # never more than the whole range
        assert (
            mechanism.integer_sensitivity([1e-3, 9], units=units, bound=1, n_records=m) == m * units
        )

    def test_scale_of_the_loss(self):
        """A loss in [0, 5] that is 5 times as steep has the same sensitivity in units."""
        one, five = (Kusner2015Lipschitz(lipschitz=L, lambda_name="C") for L in (0.1, 0.5))
        known = {"units": 64, "n_records": 50}
        assert one.integer_sensitivity([2.0, 3.0], bound=1.0, **known) == five.integer_sensitivity(
            [2.0, 3.0], bound=5.0, **known
        )

    def test_release(self):
        mechanism = Kusner2015Lipschitz(lipschitz=0.25, lambda_name="C")
        known = {"lambdas": [50.0, 50.1], "units": 100, "bound": 1.0, "n_records": 200}
        released = [
            mechanism.release_score(4000, epsilon=e, source=noise_source(s), **known)
            for e in (1e6, 1e-3)
            for s in range(40)
        ]
        assert set(released[:40]) == {4000}
        assert len(set(released[40:])) > 1
        assert min(released) >= 0
        assert max(released) <= 200 * 100
        with pytest.raises(ValueError, match="epsilon"):
            mechanism.release_score(4000, epsilon=0, source=noise_source(0), **known)
        with pytest.raises(ValueError, match="lambda"):
            mechanism.release_score(
                4000, epsilon=1, source=noise_source(0), **{**known, "lambdas": []}
            )
