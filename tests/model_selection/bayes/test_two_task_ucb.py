import numpy as np
import pytest

from _support.internals import PrivateTrajectoryProposer, automatic_n_private

SETTINGS = {"n_iter": 24, "n_private": 6, "n_initial_points": 5, "batch_size": 1}
SETTINGS |= {"sqrt_beta": 2.0, "bound": 1.0}


def public_score(x):
    return 0.9 - np.sum((x - 0.3) ** 2)


def private_score(x):
    return 0.9 - np.sum((x - 0.35) ** 2)


def run(n=120, noise=1e-3, public=public_score, split=False, **options):
    """Play the searcher; return the candidates, the proposer and the rounds' answers."""
    X = np.random.RandomState(0).uniform(size=(n, 2))
    rng = np.random.RandomState(1)
    proposer = PrivateTrajectoryProposer(X, **SETTINGS | options)
    rounds = []
    while not rounds or rounds[-1] != ([], []):
        new = proposer.ask_public()
        if new and proposer.guided:
            scores = np.array([public(X[k]) for k in proposer.visited])
            noises = rng.normal(size=(3, 1)), rng.normal(size=(3, len(scores)))
            folds = scores + 0.02 * noises[0] + 0.01 * noises[1]
            proposer.tell_public(scores, folds if split else None)
        scored = proposer.ask_private()
        if scored:
            values = [private_score(X[k]) + noise * rng.normal() for k in scored]
            proposer.tell_private(scored, values, noise**2)
        rounds.append((new, scored))
    return X, proposer, rounds


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize(("n", "n_iter", "n_private"), [(120, 24, 6), (10, 24, 6), (120, 6, 6)])
def test_visits_and_spends_exactly_what_was_agreed(batch_size, n, n_iter, n_private):
    _, proposer, rounds = run(n=n, n_iter=n_iter, n_private=n_private, batch_size=batch_size)
    assert len(proposer.visited) == len(set(proposer.visited)) == min(n, n_iter)
    assert sum(len(scored) for _, scored in rounds) == proposer.n_spent == n_private
    for new, scored in rounds[1:]:
        assert len(new) <= batch_size
        assert len(scored) == len(set(scored)) <= batch_size
    assert proposer.best() in proposer.visited


def test_public_scores_lead_and_private_ones_follow():
    _, proposer, rounds = run()
    first = next(i for i, (_, scored) in enumerate(rounds) if scored)
    assert sum(len(new) for new, _ in rounds[:first]) == 24 - 6
    for i, (_, scored) in enumerate(rounds):
        visited = proposer.visited[: sum(len(new) for new, _ in rounds[: i + 1])]
        assert set(scored) <= set(visited)


def test_no_candidate_is_scored_twice_before_all_have_been():
    _, _, rounds = run(n_private=20)
    scored = [k for _, chosen in rounds for k in chosen]
    assert len(set(scored)) == 20
    _, proposer, rounds = run(n=8, n_private=20)
    scored = [k for _, chosen in rounds for k in chosen]
    assert set(scored[:8]) == set(proposer.visited)
    assert len(scored) == 20


@pytest.mark.parametrize("disagreement", [0.02, None])
def test_exact_private_scores_find_the_private_optimum(disagreement):
    X, proposer, _ = run(disagreement=disagreement, split=True)
    scores = [private_score(x) for x in X]
    assert max(scores) - scores[proposer.best()] < 1e-3


def test_useless_private_scores_leave_the_public_best():
    X, proposer, _ = run(noise=1e4, disagreement=0.02)
    scores = [public_score(X[k]) for k in proposer.visited]
    assert max(scores) - public_score(X[proposer.best()]) < 1e-3


@pytest.mark.parametrize("batch_size", [1, 3])
def test_without_public_scores(batch_size):
    X, proposer, rounds = run(guided=False, n_private=None, batch_size=batch_size)
    assert [new for new, _ in rounds] == [scored for _, scored in rounds]
    assert len(set(proposer.visited)) == proposer.n_spent == 24
    scores = [private_score(x) for x in X]
    assert max(scores) - scores[proposer.best()] < 5e-3


def test_known_noise_is_respected_without_public_scores():
    """Released values that are nearly all noise are smoothed, not believed."""
    _, proposer, _ = run(guided=False, n_private=None, noise=0.3)
    values = proposer._posterior().values
    assert np.ptp(proposer._posterior().mean[proposer.visited]) < np.ptp(values) / 2


def test_failed_candidates_are_neither_scored_nor_returned():
    def public(x):
        return np.nan if x[0] > 0.5 else public_score(x)

    X, proposer, rounds = run(public=public)
    failed = {k for k in proposer.visited if X[k, 0] > 0.5}
    assert failed
    assert not failed & {k for _, scored in rounds for k in scored}
    assert proposer.best() not in failed
    assert run(public=lambda x: np.nan)[1].best() in range(120)


def test_the_same_input_gives_the_same_trajectory():
    assert run()[2] == run()[2]


def test_automatic_number_of_private_scores():
    settings = {"mu": 0.268, "bound": 1.0, "n_iter": 50}
    numbers = [automatic_n_private(n_records=m, **settings) for m in (1, 100, 700, 10_000, 10**9)]
    assert numbers == sorted(numbers)
    assert numbers[:2] == [5, 5]
    assert 5 < numbers[2] < 20
    assert numbers[3:] == [20, 20]
    assert automatic_n_private(n_records=100, mu=0.268, bound=1.0, n_iter=3) == 3
    # units do not matter
    assert automatic_n_private(n_records=700, mu=0.268, bound=9.0, n_iter=50) == numbers[2]
