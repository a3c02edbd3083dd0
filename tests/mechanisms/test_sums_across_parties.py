"""Noise of a total from shares of many parties: laws, ten processes, planted mistakes."""

import ast
import inspect
import math
import multiprocessing
import random
import secrets
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from _support.replayed_noise import replayed
from skdpbo.mechanisms import DiscreteLaplace

EPSILON, PARTIES = 0.5, 10
ALPHA = math.exp(-EPSILON)
ALARM = 1e-6  # probability of a false alarm of each statistical test


def polya(mechanism, n_parties):
    """As in the example "Ten parties, one noise", which is compared below."""
    while True:
        k = int(mechanism.release(0))
        fractions = (((j - 1) * n_parties + 1, j * n_parties) for j in range(1, k + 1))
        if k >= 0 and all(secrets.randbelow(below) < top for top, below in fractions):
            return k


def without_the_later_factors(mechanism, n_parties):
    """Planted: accepted with the first factor alone."""
    while True:
        k = int(mechanism.release(0))
        if k >= 0 and (k == 0 or secrets.randbelow(n_parties) == 0):
            return k


def polya_law(shape, size):
    k = np.arange(size)
    factors = np.append(1.0, (k[1:] - 1 + shape) / k[1:])
    return (1 - ALPHA) ** shape * np.cumprod(factors) * ALPHA**k


def distance(observed, law):
    """P-value of a chi-square test; the last cell holds the rest of the law."""
    law = np.append(law, 1 - law.sum())
    counts = np.bincount(np.minimum(observed, len(law) - 1), minlength=len(law))
    expected = len(observed) * law
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), len(law) - 1)


def test_shares_add_up_to_discrete_laplace_exactly():
    one = polya_law(1 / PARTIES, 200)
    total = np.array([1.0])
    for _ in range(PARTIES):
        total = np.convolve(total, one)[:200]
    assert total == pytest.approx((1 - ALPHA) * ALPHA ** np.arange(200), rel=1e-12)
    difference = np.correlate(total, total, "full")[150:250]
    z = np.abs(np.arange(-49, 51))
    assert difference == pytest.approx((1 - ALPHA) / (1 + ALPHA) * ALPHA**z, rel=1e-9)
    # Planted: shape 1 / 9 among ten parties is another law.
    assert pytest.approx(1 - ALPHA, rel=1e-2) != (1 - ALPHA) ** (10 / 9)


@pytest.fixture(autouse=True)
def repeatable(monkeypatch):
    # replayed() seeds the global generator.
    monkeypatch.setattr(secrets, "randbelow", random.randrange)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [polya, without_the_later_factors])
def test_law_of_a_share(draw):
    mechanism = DiscreteLaplace(EPSILON, 1)
    drawn = [draw(mechanism, PARTIES) for _ in range(4000)]
    p = distance(drawn, polya_law(1 / PARTIES, 5))
    assert (p > ALARM) == (draw is polya)


def test_example_has_the_same_sampler():
    path = Path(__file__).resolve().parents[2] / "examples/2_how_to/plot_add_across_parties.py"
    (theirs,) = (
        f for f in ast.parse(path.read_text("utf-8")).body if getattr(f, "name", "") == "polya"
    )
    (mine,) = ast.parse(inspect.getsource(polya)).body
    assert ast.get_docstring(mine)
    assert ast.unparse(mine.body[1:]) == ast.unparse(theirs.body)
    assert ast.unparse(mine.args) == ast.unparse(theirs.args)


def answers(pipe, count, n_releases, whole_noise):
    """One party, in a process of its own, with noise of its own."""
    mechanism = DiscreteLaplace(EPSILON, 1)
    with replayed(f"party {count}"):
        if whole_noise:
            noisy = [int(mechanism.release(count)) for _ in range(n_releases)]
        else:
            pairs = (
                (polya(mechanism, PARTIES), polya(mechanism, PARTIES)) for _ in range(n_releases)
            )
            noisy = [count + x - y for x, y in pairs]
    pipe.send(noisy)
    pipe.close()


@pytest.mark.slow
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs processes that fork"
)
# Of other threads, which the pools of earlier tests have; no party takes a lock of theirs.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("whole_noise", [False, True], ids=["shares", "planted: noise of each"])
def test_ten_processes_have_the_noise_of_one(whole_noise):
    context, counts, n_releases = multiprocessing.get_context("fork"), range(100, 110), 200
    ends, parties = [], []
    for count in counts:
        ours, theirs = context.Pipe(duplex=False)
        task = (theirs, count, n_releases, whole_noise)
        parties.append(context.Process(target=answers, args=task))
        parties[-1].start()
        ends.append(ours)
    received = np.array([end.recv() for end in ends])
    for party in parties:
        party.join()
    assert len({party.pid for party in parties}) == PARTIES
    noise = np.abs(received.sum(axis=0) - sum(counts))
    law = (1 - ALPHA) / (1 + ALPHA) * ALPHA ** np.arange(6) * np.array([1, 2, 2, 2, 2, 2])
    assert (distance(noise, law) > ALARM) == (not whole_noise)


@pytest.mark.parametrize("sigma", [math.sqrt(0.5), 1.0])
@pytest.mark.parametrize("n_parties", [2, 10])
def test_bound_on_sums_of_discrete_gaussians(sigma, n_parties):
    def law(variance, width):
        z = np.arange(-width, width + 1)
        weights = np.exp(-(z**2) / (2 * variance))
        return weights / weights.sum()

    one = law(sigma**2, 40)
    total = np.array([1.0])
    for _ in range(n_parties):
        total = np.convolve(total, one)
    middle = len(total) // 2
    width = round(5 * sigma * math.sqrt(n_parties))
    seen = total[middle - width : middle + width + 1]
    exact = law(n_parties * sigma**2, middle)[middle - width : middle + width + 1]
    k = np.arange(1, n_parties)
    tau = 10 * np.exp(-2 * np.pi**2 * sigma**2 * k / (k + 1)).sum()
    largest = np.abs(np.log(seen / exact)).max()
    assert largest <= tau
    assert largest > 1e-4 * tau  # not equal: the sum is no discrete Gaussian
