"""Likelihood-ratio audit of ``mechanism="gaussian"``: all that a fit releases is worth mu at most.

The worst pair of data sets: one record on which every model errs, or none. Then all q totals move
by the whole sensitivity, and the sum of the released scores is the best test there is. The lower
bound on mu (false alarm 1e-6) must stay below the claim, come close to it, and exceed it for every
planted bug.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from _support.batched_noise import batched  # noqa: F401  (a fixture)
from _support.internals import PrivateScores, PublicScores, SearchProblem
from _support.planted import plant, put
from skdpbo.audit import normal_mu_bound
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import GaussianTrajectory
from skdpbo.privacy import epsilon_from_mu

ALARM = 1e-6
CLAIM, DELTA, UNITS, Q, N_RECORDS = 1.0, 1e-5, 4, 8, 50


class Scorer:
    units, bound = UNITS, 1.0

    def score_from_units(self, total, n):
        return -total / (n * self.units)


class InOrder:
    """A proposer that asks for the candidates one by one: proposals are post-processing."""

    def __init__(self, X, *, n_private, **design):
        self.visited, self._left, self.discarded = [], n_private, set()

    def ask_public(self):
        if len(self.visited) == self._left:
            return []
        self.visited.append(len(self.visited))
        return self.visited[-1:]

    def ask_private(self):
        return self.visited[-1:]

    def tell_private(self, indices, scores, variance):
        pass

    def best(self):
        return 0

    def posterior_at(self, index):
        assert not self.discarded
        return -0.5, 0.5


def released(total, source=None):
    """All private scores of one fit in which every candidate has the same protected total."""
    design = {"n_iter": Q, "n_initial_points": 1, "batch_size": 1, "sqrt_beta": 2.0}
    epsilon = epsilon_from_mu(CLAIM, DELTA)
    mechanism = PrivateScores(GaussianTrajectory(), epsilon, DELTA, design)
    problem = problem_of(np.zeros((Q, 1)), lambda k: total, source or noise_source())
    mechanism.start(problem, guided=False)
    return mechanism.search_unguided().columns["private_validation_score"]


def problem_of(X, total, source):
    """A search on given totals of the candidates."""
    evaluator = SimpleNamespace(
        scorer=Scorer(),
        n_losses=N_RECORDS,
        sensitivity=Scorer().units,
        totals=lambda candidates, **how: [total(params["k"]) for params in candidates],
    )
    space = SimpleNamespace(encode=lambda candidates: X)
    return SearchProblem([{"k": k} for k in range(len(X))], evaluator, source, space)


def mu_at_least(n, moved=UNITS):
    """Lower confidence bound on the mu of a fit, from n fits on each of two neighbours."""
    first = np.array([released(100).sum() for _ in range(n)])
    second = np.array([released(100 + moved).sum() for _ in range(n)])
    return normal_mu_bound(first, second, false_alarm=ALARM)


@pytest.fixture
def in_order(monkeypatch):
    put(monkeypatch, "gaussian trajectory: PrivateTrajectoryProposer", InOrder)


@pytest.mark.slow
@pytest.mark.usefixtures("in_order")
class TestLikelihoodRatio:
    @pytest.mark.usefixtures("batched")
    def test_bound_stays_below_the_claim_and_comes_close(self):
        # Standard error at n = 1500: .039; the lower limit is another 4.75 of them away.
        assert 0.62 < mu_at_least(1500) <= CLAIM

    def test_forgotten_root_of_the_number_of_scores_is_caught(self, monkeypatch):
        plant(monkeypatch, "trajectory: one score pays for all")
        assert mu_at_least(300) > 1.5

    @pytest.mark.usefixtures("batched")
    def test_noise_short_by_the_root_of_two_is_caught(self, monkeypatch):
        plant(monkeypatch, "trajectory: the noise is short by the root of two")
        assert mu_at_least(2000) > 1.0

    def test_losses_beyond_the_bound_are_caught(self):
        assert mu_at_least(300, moved=3 * UNITS) > 1.5

    def test_noise_that_repeats_itself_is_caught(self):
        fixed = [released(100, noise_source(0)) for _ in range(2)]
        assert np.array_equal(*fixed)
        assert not np.array_equal(released(100), released(100))


@pytest.mark.parametrize("batch", [1, 3])
def test_more_scores_than_the_noise_was_made_for_are_refused(batch, monkeypatch):
    class Greedy(InOrder):
        def ask_public(self):
            if len(self.visited) > 4 * Q:
                return []  # nobody refuses: the fit ends, and the test fails
            self.visited += range(len(self.visited), len(self.visited) + batch)
            return self.visited[-batch:]

        def ask_private(self):
            return self.visited[-batch:]

    put(monkeypatch, "gaussian trajectory: PrivateTrajectoryProposer", Greedy)
    with pytest.raises(RuntimeError, match="budget"):
        released(100)


def fit(total, candidates=30, guided=True, seed=0, n_private=3):
    """A whole search with the real proposer on given totals; the public scores are fixed."""
    X = np.random.RandomState(0).uniform(size=(candidates, 2))
    public = -((X - 0.4) ** 2).sum(axis=1)
    design = {"n_iter": 8, "n_initial_points": 3, "batch_size": 1, "sqrt_beta": 2.0}
    mechanism = PrivateScores(GaussianTrajectory(n_private=n_private), 1e-10, 1e-10, design)
    mechanism.start(problem_of(X, total, noise_source(seed)), guided=guided)
    if not guided:
        chosen = mechanism.search_unguided()
        visited = [params["k"] for params in chosen.candidates]
        return visited, visited[chosen.index], chosen.columns["private_validation_score"]
    visited, scores = [], None
    while batch := mechanism.ask(scores):
        visited += batch
        splits = np.tile(public[visited], (2, 1))
        scores = PublicScores(public[visited], splits, np.ones(len(visited), dtype=bool))
    best, _ = mechanism.release_choice(scores)
    chosen = mechanism._chosen(visited, best, None)
    return visited, best, chosen.columns["private_validation_score"]


@pytest.mark.parametrize("guided", [True, False])
def test_proposals_and_winner_are_functions_of_the_released_scores(guided):
    """The same noise and next to no budget: the search goes the same way on any data.

    The noise is some 1e8 times larger than any total, so the released scores agree to 1e-7 and the
    surrogate cannot tell the data sets apart; a path from an exact total to a proposal would.
    """
    data = [lambda k: 0, lambda k: UNITS * N_RECORDS, lambda k: (37 * k) % (UNITS * N_RECORDS)]
    searches = [fit(total, guided=guided) for total in data]
    for visited, best, scores in searches[1:]:
        assert visited == searches[0][0]
        assert best == searches[0][1]
        assert np.allclose(scores, searches[0][2], rtol=1e-6, equal_nan=True)


def test_a_proposal_that_sees_an_exact_total_is_caught(monkeypatch):
    honest = PrivateScores._measure

    def peeking(self, indices):
        measured = honest(self, indices)
        totals = self._problem.totals(self._proposer.visited)
        worse = [k for k, t in zip(self._proposer.visited, totals, strict=True) if t > 100]
        self._proposer.discarded |= set(worse)
        return measured

    monkeypatch.setattr(PrivateScores, "_measure", peeking)
    winner = fit(lambda k: 0)[1]
    assert fit(lambda k: UNITS * N_RECORDS * (k == winner))[1] != winner
