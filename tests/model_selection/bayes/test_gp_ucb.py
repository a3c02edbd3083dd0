import numpy as np
import pytest

from _support.internals import UpperConfidenceProposer


def run(score, n=200, **options):
    X = np.random.RandomState(0).uniform(size=(n, 2))
    settings = {"n_iter": 30, "n_initial_points": 5, "batch_size": 1, "sqrt_beta": 2.0} | options
    proposer = UpperConfidenceProposer(X, **settings)
    while chosen := proposer.ask():
        assert len(chosen) <= max(settings["batch_size"], settings["n_initial_points"])
        proposer.tell([score(X[k]) for k in proposer.visited])
    return X, proposer


def smooth(x):
    return 0.9 - np.sum((x - 0.3) ** 2)


@pytest.mark.parametrize("acquisition", ["ucb", "ei"])
def test_finds_the_optimum_of_a_smooth_score_and_never_repeats(acquisition):
    X, proposer = run(smooth, acquisition=acquisition)
    assert len(set(proposer.visited)) == 30
    best = max(smooth(x) for x in X)
    assert best - max(smooth(X[k]) for k in proposer.visited) < 1e-3


@pytest.mark.parametrize("acquisition", ["ucb", "ei"])
def test_batches_and_small_sets(acquisition):
    _, proposer = run(smooth, n=12, n_iter=30, batch_size=4, acquisition=acquisition)
    assert sorted(proposer.visited) == list(range(12))


def test_failed_candidates_count_as_the_worst_seen():
    X, proposer = run(lambda x: np.nan if x[0] > 0.5 else smooth(x))
    failed = np.mean(X[proposer.visited, 0] > 0.5)
    assert failed < 0.4
    assert len(run(lambda x: np.nan)[1].visited) == 30
