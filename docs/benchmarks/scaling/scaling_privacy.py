"""Growth in mechanisms, accounting and ledger: the sweeps of `scaling.py`."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from scaling.scaling_sweep import Sweep

from skdpbo.mechanisms import (
    BoundedMean,
    ClippedMean,
    CoinPressMean,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    L2Laplace,
    PermuteAndFlip,
)
from skdpbo.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    TrialLaw,
    candidate_mu,
    compose,
    epsilon_from_mu,
    selection_guarantee,
)

DRAWS = (500, 2_000, 8_000, 32_000)
RECORDS = (1_000, 10_000, 100_000, 1_000_000)
DELTA = 1e-6
BLOCKS = "n d; blocks of 65 536 numbers, memory constant from there"


def draws(mechanism, *shape):
    zeros = np.zeros(shape, dtype=np.int64)
    return lambda: mechanism.release(zeros)


def rows(n, d):
    X = np.random.default_rng(0).uniform(-1, 1, (n, d))
    mechanism = L2Laplace(epsilon=2.0, displacement=1.0, dimension=d)
    return lambda: mechanism.release(X)


def choice(kind, n):
    losses = np.random.default_rng(0).integers(0, 1_000, n)
    return lambda: kind(epsilon=1.0, sensitivity=1).select(losses)


def mean(mechanism, n, d=1):
    values = np.random.default_rng(0).uniform(0, 1, (n, d))
    return lambda: mechanism.release(values)


def pure(n):
    """As many different budgets as there are releases, so that nothing can be counted together."""
    return [PrivacyGuarantee(epsilon=1e-3 * (1 + k / n), mechanism="pure") for k in range(n)]


@cache
def gaussian(n, kinds=None):
    kinds = kinds or n
    different = [
        PrivacyGuarantee(
            epsilon=epsilon_from_mu(mu, DELTA / n), delta=DELTA / n, mu=mu, mechanism="Gaussian"
        )
        for mu in (1e-2 * (1 + k / kinds) for k in range(kinds))
    ]
    return [different[k % kinds] for k in range(n)]


def composition(guarantees):
    return lambda: compose(*guarantees, delta=1e-5)


def charges(guarantees, path=None):
    """All the charges; a ledger file is made anew for every call."""

    def run():
        with tempfile.TemporaryDirectory() as folder:
            where = None if path is None else Path(folder) / path
            ledger = PrivacyLedger(1_000.0, 1e-5, path=where)
            for guarantee in guarantees:
                ledger.charge(guarantee)

    return run


@cache
def charged(n):
    """Ledger with n - 1 charges, whose epsilons add up to more than the budget."""
    ledger, (*earlier, last) = PrivacyLedger(0.1 * n**0.5, 1e-5), gaussian(n, kinds=4)
    for guarantee in earlier:
        ledger.charge(guarantee)
    return ledger, last


def one_more(n):
    ledger, last = charged(n)
    return lambda: ledger.affords(last)


def selection(mean_trials):
    trial = PrivacyGuarantee(epsilon=epsilon_from_mu(0.1, 1e-10), delta=1e-10, mu=0.1)
    return lambda: selection_guarantee(trial, TrialLaw(mean_trials), delta=1e-5)


def calibration(mean_trials):
    def run():
        candidate_mu.cache_clear()
        candidate_mu(1.0, 1e-5, TrialLaw(mean_trials))

    return run


def _draws(name, mechanism):
    return Sweep(
        name,
        "draws",
        DRAWS,
        lambda n: draws(mechanism, n),
        time=1,
        memory=1,
        law="n: one exact draw each",
        fixed="scalar noise",
    )


def _means(name, mechanism_for, memory, law):
    return Sweep(
        name,
        "records",
        RECORDS,
        lambda n: mean(mechanism_for(n), n),
        time=1,
        memory=memory,
        law=law,
        fixed="one column",
    )


def _choices(kind):
    return Sweep(
        kind.__name__,
        "candidates",
        (1_000, 4_000, 16_000, 64_000),
        lambda n: choice(kind, n),
        time=1,
        memory=1,
        law="m",
        fixed="losses 0 to 999, epsilon 1",
    )


PRIVACY = [
    _draws("DiscreteLaplace", DiscreteLaplace(0.01, 1)),
    _draws("DiscreteGaussian", DiscreteGaussian(0.5, 1e-6, 1.0)),
    _draws("GaussianMechanism", GaussianMechanism(epsilon=1.0, delta=1e-6, sensitivity=1.0)),
    Sweep(
        "L2Laplace",
        "rows",
        DRAWS,
        lambda n: rows(n, 2),
        time=1,
        memory=1,
        law="n d",
        fixed="d = 2",
    ),
    Sweep(
        "L2Laplace",
        "dimension",
        (2, 8, 32, 128),
        lambda d: rows(200, d),
        time=1,
        memory=1,
        law="n d",
        fixed="200 rows",
    ),
    _choices(PermuteAndFlip),
    _choices(ExponentialMechanism),
    _means("BoundedMean", lambda n: BoundedMean(mu=1.0, low=0.0, high=1.0), 1, "n d; one column"),
    _means("ClippedMean", lambda n: ClippedMean(clip=1.0, n_records=n, mu=1.0), 0, BLOCKS),
    _means("CoinPressMean", lambda n: CoinPressMean(mu=1.0, center=0.0, radius=10.0), 0, BLOCKS),
    Sweep(
        "compose",
        "Gaussian releases",
        (16, 64, 256, 1_024, 4_096),
        lambda n: composition(gaussian(n)),
        time=1,
        memory=1,
        law="N",
        fixed="all different",
    ),
    Sweep(
        "compose",
        "equal pure releases",
        (16, 64, 256, 1_024, 4_096),
        lambda n: composition(pure(1) * n),
        time=2,
        memory=1,
        law="N^2: exact binomial coefficients of N bits",
        fixed="",
    ),
    Sweep(
        "compose",
        "different pure releases",
        (16, 64, 256, 1_024),
        lambda n: composition(pure(n)),
        time=1,
        memory=0,
        law="N g: each put on a grid of g = 8192 points",
        fixed="all different",
    ),
    Sweep(
        "PrivacyLedger.charge",
        "charges, in memory",
        (32, 64, 128, 256, 512, 1_024),
        lambda n: charges(gaussian(n, kinds=4)),
        time=2,
        memory=1,
        law="N^2: each charge adds up all of them",
        fixed="4 kinds of Gaussian releases, budget 1000",
    ),
    Sweep(
        "PrivacyLedger.charge",
        "charges, in a file",
        (32, 64, 128, 256),
        lambda n: charges(gaussian(n, kinds=4), "ledger"),
        time=2,
        memory=1,
        law="N^2: each charge reads all rows",
        fixed="4 kinds of Gaussian releases, budget 1000",
    ),
    Sweep(
        "PrivacyLedger.affords",
        "earlier charges",
        (64, 128, 256, 512, 1_024),
        one_more,
        time=1,
        memory=1,
        law="N: one composition of all",
        fixed="4 kinds of Gaussian releases, more than fit by adding",
    ),
    Sweep(
        "selection_guarantee",
        "expected trials",
        (10, 100, 1_000, 10_000),
        selection,
        time=0,
        memory=0,
        law="closed form of the law of K",
        fixed="mu = 0.1, eta = 1",
    ),
    Sweep(
        "candidate_mu",
        "expected trials",
        (10, 100, 1_000, 10_000),
        calibration,
        time=0,
        memory=0,
        law="a root of selection_guarantee",
        fixed="epsilon = 1, eta = 1",
    ),
]
