"""Coverage of the score of ``mechanism="gaussian"``: true score within two standard deviations."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from _support.internals import PrivateScores, SearchProblem
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import GaussianTrajectory

UNITS, N_RECORDS, N_CANDIDATES, N_SEARCHES = 2**20, 1000, 40, 300
DESIGN = {"n_iter": 8, "n_initial_points": 3, "batch_size": 1, "sqrt_beta": 2.0}


class Scorer:
    units, bound = UNITS, 1.0

    def score_from_units(self, total, n):
        return 1 - total / (n * self.units)


def landscape(kind, rng):
    """Scores of the candidates: smooth, in steps, or without any relation to each other."""
    x = np.linspace(0, 1, N_CANDIDATES)
    smooth = 0.8 + 0.1 * np.sin(6 * x + rng.uniform(0, 6))
    return {
        "smooth": smooth,
        "steps": 0.7 + 0.2 * (x > rng.uniform()) + 0.01 * rng.uniform(size=N_CANDIDATES),
        "rough": rng.uniform(0.6, 0.9, size=N_CANDIDATES),
    }[kind]


def misses(kind, epsilon):
    """Count the searches whose true score is beyond two standard deviations."""
    missed, rng = 0, np.random.default_rng(7)
    for _ in range(N_SEARCHES):
        scores = landscape(kind, rng)
        evaluator = SimpleNamespace(
            scorer=Scorer(),
            n_losses=N_RECORDS,
            sensitivity=UNITS,
            totals=lambda candidates, s=scores, **how: [
                round((1 - s[params["k"]]) * N_RECORDS * UNITS) for params in candidates
            ],
        )
        space = SimpleNamespace(encode=lambda _: np.linspace(0, 1, N_CANDIDATES)[:, None])
        candidates = [{"k": k} for k in range(N_CANDIDATES)]
        problem = SearchProblem(candidates, evaluator, noise_source(), space)
        search = PrivateScores(GaussianTrajectory(), epsilon, 1e-5, DESIGN)
        search.start(problem, guided=False)
        chosen = search.search_unguided()
        truth = scores[chosen.candidates[chosen.index]["k"]]
        missed += abs(chosen.score.value - truth) > 2 * chosen.score.std
    return missed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "epsilon", "coverage"),
    [("smooth", 0.3, 0.95), ("steps", 10.0, 0.9), ("rough", 1.0, 0.9)],
)
def test_true_score_is_within_two_deviations(kind, epsilon, coverage):
    """Whatever the surrogate makes of the landscape; false alarm 1e-6 at that coverage.

    Measured: none, 5 and 4 of 100 are missed; with the surrogate's deviation alone 18 of the first.
    """
    assert misses(kind, epsilon) <= binom.isf(1e-6, N_SEARCHES, 1 - coverage)


@pytest.mark.parametrize(
    ("own", "mean", "score", "std"),
    [
        ([0.5], 0.52, 0.52, np.hypot(0.1, 0.02)),
        ([0.5], 0.9, 0.6, np.hypot(0.1, 0.1)),
        ([0.4, 0.6], 0.0, 0.5 - 0.1 / 2**0.5, 0.1),
        ([], 0.7, 0.7, 0.1),
    ],
)
def test_score_is_kept_near_the_winners_own(own, mean, score, std):
    search = PrivateScores(GaussianTrajectory(), 1.0, 1e-5, DESIGN)
    search._noise_variance, search._released = 0.01, {3: own} if own else {}
    search._proposer = SimpleNamespace(posterior_at=lambda k: (mean, 0.03))
    assert search._winning_score(3) == pytest.approx((score, std))
