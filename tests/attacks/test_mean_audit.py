"""Likelihood-ratio audit of private means: the privacy loss that repeated releases can prove.

One record is moved from one end of every clipping ball to the other. The auditor sees the centre
after every step and knows the plan; the optimal statistic is then normal, of mean difference mu
standard deviations. A lower confidence bound on it (false alarms 1e-6) must not exceed the claim,
must come close to it, and must exceed it for each planted bug.
"""

import math

import numpy as np
import pytest

from _support.batched_noise import batched  # noqa: F401  (a fixture)
from _support.internals import as_records, centred_blocks
from _support.planted import plant
from skdpbo.audit import normal_mu_bound
from skdpbo.mechanisms import BoundedMean, ClippedMean, CoinPressMean

pytestmark = pytest.mark.usefixtures("batched")

FAR = 1e4
N = 40
OTHERS = np.linspace(-3.0, 3.0, N - 1)


def log_ratio(mechanism, path, steps, others):
    """Optimal statistic: what each centre is beyond what the other records give, weighted."""
    statistic, center = 0.0, np.asarray(mechanism.center)
    for released, step in zip(path, steps, strict=True):
        without = np.clip(others - center, -step.clip, step.clip).sum() / (len(others) + 1)
        shift = 2 * step.clip / (len(others) + 1)
        statistic += shift * float((released - center - without)[0]) / step.sigma**2
        center = released
    return statistic


def proved_mu(mechanism, n_fits, others=OTHERS):
    """Lower bound on mu from `n_fits` releases on each of the two neighbours."""
    steps = mechanism._steps(len(others) + 1, 1)
    samples = [
        [
            log_ratio(mechanism, [*mechanism._path(as_records(data), None)], steps, others)
            for _ in range(n_fits)
        ]
        for data in (np.append(others, FAR), np.append(others, -FAR))
    ]
    return normal_mu_bound(*samples)


def coinpress(n_steps=3, mu=2.0, make=CoinPressMean):
    return make(mu=mu, center=0.0, radius=20.0, n_steps=n_steps)


def test_the_plan_under_audit_has_all_its_steps():
    assert len(coinpress()._steps(N, 1)) == 3


@pytest.mark.slow
def test_all_centres_together_prove_the_claim_and_no_more():
    # the bound lies 4.75 standard errors of .055 below 2 on average, and as much again once in 1e6
    assert 1.45 < proved_mu(coinpress(), 1000) <= 2.0


@pytest.mark.slow
def test_twelve_steps():
    mechanism = CoinPressMean(mu=2.0, center=0.0, radius=1e6)
    others = np.linspace(-3.0, 3.0, 199)
    assert len(mechanism._steps(200, 1)) > 5
    assert 1.0 < proved_mu(mechanism, 300, others) <= 2.0


@pytest.mark.slow
def test_the_last_centre_alone_proves_its_share():
    """With the other records never clipped only the last step of the release depends on the one."""
    mechanism = coinpress()
    last = mechanism._steps(N, 1)[-1]
    first, second = (
        [mechanism.release(np.append(OTHERS, x)) for _ in range(800)] for x in (FAR, -FAR)
    )
    assert np.abs(OTHERS).max() + 6 * last.sigma < last.clip
    assert 2 * math.sqrt(0.75) - 0.57 < normal_mu_bound(first, second) <= 2 * math.sqrt(0.75) + 0.1


@pytest.mark.slow
def test_an_interval_proves_the_claim_and_no_more():
    mean = BoundedMean(mu=2.0, low=-1.0, high=3.0)
    first, second = ([mean.release(np.append(OTHERS, x)) for _ in range(1000)] for x in (FAR, -FAR))
    assert 1.45 < normal_mu_bound(first, second) <= 2.0


@pytest.mark.slow
def test_planted_shares_that_do_not_add_up(monkeypatch):
    # Each of the three steps is given the whole budget: mu is 2 sqrt(3) in truth.
    plant(monkeypatch, "every step of CoinPress spends the whole budget")
    assert proved_mu(coinpress(), 230) > 2.0


@pytest.mark.slow
def test_planted_clip_forgotten(monkeypatch):
    plant(monkeypatch, "gradients are not clipped")
    assert proved_mu(coinpress(), 60) > 20.0


@pytest.mark.slow
def test_planted_sensitivity_of_one_side(monkeypatch):
    # th / n instead of 2 th / n: adding a record instead of replacing one.
    plant(monkeypatch, "the sensitivity of a clipped sum is that of one side")
    assert proved_mu(coinpress(), 150) > 2.0


class CentreWithoutNoise(CoinPressMean):
    """Planted bug: the records are clipped around the exact mean of the step before."""

    def _path(self, records, source):
        center = np.asarray(self.center) / self.scale
        for step in self._steps(*records.shape):
            offsets = np.concatenate([*centred_blocks(records, center, self.scale)])
            yield center + step.release(offsets, source)
            exact = ClippedMean(clip=step.clip, n_records=len(records), mu=1e12)
            center = center + exact.release(offsets, source)


@pytest.mark.slow
def test_planted_centre_without_noise():
    # The other records sit beyond the balls: they all move with the centre.
    others = np.where(np.arange(N - 1) % 2 == 0, FAR, -FAR) / 2
    mechanism = coinpress(2, make=CentreWithoutNoise)
    first, second = (
        [mechanism.release(np.append(others, x)) for _ in range(100)] for x in (FAR, -FAR)
    )
    assert normal_mu_bound(first, second) > 2.0
    mechanism = coinpress(2)
    first, second = (
        [mechanism.release(np.append(others, x)) for _ in range(100)] for x in (FAR, -FAR)
    )
    assert normal_mu_bound(first, second) <= 2.0


class Overwritten(CoinPressMean):
    """The reference code clips what is already clipped: a matter of utility, not of privacy."""

    def _path(self, records, source):
        center = np.asarray(self.center) / self.scale
        records = records / self.scale
        for step in self._steps(*records.shape):
            records = center + np.clip(records - center, -step.clip, step.clip)
            center = center + step.release(records - center, source)
            yield center


@pytest.mark.slow
def test_overwriting_the_records_is_a_matter_of_utility():
    assert proved_mu(coinpress(make=Overwritten), 600) <= 2.0
