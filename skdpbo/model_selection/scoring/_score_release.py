"""Release of a score: noisy integer sums of the winner, and the standard deviation of its noise.

If the number of records is secret, a noisy centred total is divided by a noisy count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism
from skdpbo.mechanisms._laplace import laplace_std
from skdpbo.privacy._rounding import round_up_root

# Noise over the score's range above which a warning is given.
MOSTLY_NOISE = 0.25
# For normal noise the relative error of the standard deviation is 1 / sqrt(2 * 2000), 1.6 %.
_DRAWS = 2000
_MOST = 1e40  # bound on noise and noisy sums, whose sixth powers must not overflow


@dataclass(frozen=True)
class SumGroup:
    """Integer sums that are released together.

    Attributes
    ----------
    size : int
        Number of sums.
    sensitivity : int
        Largest l1 change of the group when one protected record is replaced.
    share : Fraction
        Share of the score's budget.
    largest : int or None, default=None
        Largest change of a single sum; None: `sensitivity`.
    typical : sequence of float, default=()
        Sums of a typical candidate, from public numbers.
    ends : tuple of float, default=(-inf, inf)
        Smallest and largest possible sum.
    """

    size: int
    sensitivity: int
    share: Fraction
    largest: int | None = None
    typical: Sequence[float] = ()
    ends: tuple[float, float] = (-math.inf, math.inf)

    @property
    def l2_sensitivity(self):
        """Largest l2 change: ``sum d^2 <= max |d| sum |d|``."""
        largest = self.sensitivity if self.largest is None else self.largest
        return round_up_root(self.sensitivity * largest)


@dataclass(frozen=True)
class NoisySums:
    """Released sums and the standard deviation of the noise of each; post-processing is free."""

    values: np.ndarray
    std: np.ndarray
    normal: bool = False

    def __post_init__(self):
        """Clip values that are too large to be squared, as with a tiny epsilon."""
        object.__setattr__(self, "values", np.clip(self.values, -_MOST, _MOST))
        object.__setattr__(self, "std", np.minimum(self.std, _MOST))


@dataclass(frozen=True)
class ReleasedScore:
    """A released score and the standard deviation of its noise.

    Attributes
    ----------
    value, std : float
    n_records : int or None, default=None
        Released number of records, if the number is secret.
    """

    value: float
    std: float
    n_records: int | None = None


@dataclass(frozen=True)
class SumNoise:
    """Budget of the noise of all groups together: discrete Laplace, or Gaussian if mu is given.

    Attributes
    ----------
    epsilon : Fraction
        Budget of Laplace noise; the release is epsilon-differentially private.
    mu : float, default=None
        Budget of Gaussian noise; the release is mu-Gaussian differentially private.
    """

    epsilon: Fraction
    mu: float | None = None

    def mechanism(self, group):
        """Return the mechanism of a group and the standard deviation of its noise."""
        if self.mu is None:  # the budgets of the groups add up to epsilon, exactly
            budget = Fraction(self.epsilon) * group.share
            mechanism = DiscreteLaplace(budget, group.sensitivity)
            return mechanism, laplace_std(budget, group.sensitivity)
        # The squares of the groups' mu add up; the factor covers the rounding of the root.
        part = 1.0 if group.share == 1 else math.sqrt(group.share) * (1 - 2.0**-40)
        mechanism = GaussianMechanism(
            mu=self.mu * part,
            sensitivity=group.l2_sensitivity,
            lattice=1.0,
            n_draws=group.size,
        )
        return mechanism, mechanism.sigma


def release_sums(sums, groups, noise, source):
    """Release sums with noise, group by group.

    Parameters
    ----------
    sums : sequence of int
        Protected; in the order of the groups.
    groups : sequence of SumGroup
        With shares that add up to at most 1 (sequential composition).
    noise : SumNoise
        Budget of all groups together.
    source : RandomSource

    Returns
    -------
    NoisySums
    """
    values, std, start = [], [], 0
    for group in groups:
        mechanism, deviation = noise.mechanism(group)
        part = [int(value) for value in sums[start : start + group.size]]
        values += [float(v) for v in np.atleast_1d(mechanism.release(part, source=source))]
        std += [deviation] * group.size
        start += group.size
    return NoisySums(np.array(values), np.array(std), noise.mu is not None)


def score_std(score_of, noisy):
    """Standard deviation of a score's noise, computed from released values alone.

    Root mean square change of the score under simulated noise around the released sums. The delta
    method would fail for small counts.

    Parameters
    ----------
    score_of : callable
        Maps sums of shape (..., n_sums) to scores of shape (...), clipped to their range.
    noisy : NoisySums

    Returns
    -------
    float
    """
    # Fixed public draws, so that the result is a function of released values.
    public, size = np.random.RandomState(0), (_DRAWS, len(noisy.values))
    # Of variance 1: a Laplace law of scale 1 has variance 2.
    unit = public.normal(size=size) if noisy.normal else public.laplace(size=size) / math.sqrt(2)
    scores = score_of(noisy.values + unit * noisy.std)
    # Around the released score, not around the mean of the draws, to include bias.
    return float(np.sqrt(np.mean(np.square(scores - score_of(noisy.values)))))


def ratio_ends(numerator, denominator):
    """Smallest and largest ratio within two standard deviations of the noise (Fieller's theorem).

    The ratios q >= 0 with ``|N - q D| <= 2 sqrt(s_N^2 + q^2 s_D^2)``. The noise of N - q D is known
    for every q, while that of N / D depends on the exact D.

    Parameters
    ----------
    numerator, denominator : tuple (value, std)
        Released, at least 0 and above 0, with independent noise.

    Returns
    -------
    tuple of float
        The second is infinite if the denominator may be 0.
    """
    (n, n_std), (d, d_std) = numerator, denominator
    # a q^2 - 2 b q + c <= 0
    a, b, c = d**2 - 4 * d_std**2, n * d, n**2 - 4 * n_std**2
    root = math.sqrt(max((2 * d * n_std) ** 2 + (2 * n * d_std) ** 2 - (4 * n_std * d_std) ** 2, 0))
    least = c / (b + root) if c > 0 else 0.0
    return least, (b + root) / a if a > 0 else math.inf


def centred_total(total, n_records, units):
    """Twice a total loss minus n B. Protected: pass only to a mechanism.

    Adding a record with a loss in {0, ..., B} changes it by at most B, so that the noise of the
    mean loss is half of that with a plain total.
    """
    return 2 * int(total) - n_records * units


def score_of_secret_count(scorer, total, n_records, *, epsilon, count, source):
    """Release the mean score of a secret number of records.

    Parameters
    ----------
    scorer : PerRecordScorer
        Scorer of a mean of losses of records.
    total, n_records : int
        Total loss of the winner, and number of records. Protected.
    epsilon : Fraction
        Budget of the score and of `count`, in equal parts.
    count : int
        Noisy number of records, at least 1; released.
    source : RandomSource

    Returns
    -------
    ReleasedScore
        Clipped to the range of the score, with a standard deviation from released values: to
        first order in the noise of the total and of the count.
    """
    units, half = scorer.units, epsilon / 2
    noisy = int(
        DiscreteLaplace(half, units).release(centred_total(total, n_records, units), source)
    )
    # Mean loss / B = (1 + centred total / (n B)) / 2; the range of the ratio is public.
    ratio = min(max(noisy / (count * units), -1.0), 1.0)
    score = scorer.offset - scorer.bound * (1 + ratio) / 2
    # d(N / C) = (dN - (N / C) dC) / C to first order, N the noisy total in units of B.
    error = math.hypot(laplace_std(half, units) / units, ratio * laplace_std(half, 1)) / count
    # The error is at most the range.
    return ReleasedScore(float(score), scorer.bound * min(error / 2, 1.0), count)
