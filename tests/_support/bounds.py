"""Lower bounds on a privacy loss from counts and from normal samples."""

import math

from scipy.stats import beta, norm

__all__ = ["epsilon_at_least", "mu_at_least"]


def epsilon_at_least(hits, misses, n, false_alarm=1e-6):
    """Bound epsilon below by an event's counts under two neighbours (Clopper-Pearson)."""
    least = beta.ppf(false_alarm / 2, hits, n - hits + 1) if hits else 0.0
    most = beta.ppf(1 - false_alarm / 2, misses + 1, n - misses) if misses < n else 1.0
    return math.log(least / most) if least > 0 else -math.inf


def mu_at_least(first, second, false_alarm=1e-6):
    """Bound (difference of means) / sd of two normal samples of one sd below."""
    n = len(first)
    mu = abs(first.mean() - second.mean()) / math.sqrt((first.var() + second.var()) / 2)
    return mu - norm.isf(false_alarm) * math.sqrt(2 / n + mu**2 / (4 * n))
