"""Lower bounds on a privacy loss from counts and from normal samples, and the normal law's own."""

import math

from scipy.stats import beta, norm

__all__ = ["epsilon_at_least", "gaussian_delta", "mu_at_least"]


def epsilon_at_least(hits, misses, n, false_alarm=1e-6):
    """Bound epsilon below by an event's counts under two neighbours (Clopper-Pearson)."""
    least = beta.ppf(false_alarm / 2, hits, n - hits + 1) if hits else 0.0
    most = beta.ppf(1 - false_alarm / 2, misses + 1, n - misses) if misses < n else 1.0
    return math.log(least / most) if least > 0 else -math.inf


def gaussian_delta(mu, epsilon):
    """Smallest delta of normal samples of sd 1, mu apart, at epsilon (Balle & Wang 2018)."""
    other = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
    return max(norm.cdf(mu / 2 - epsilon / mu) - other, 0.0)


def mu_at_least(first, second, false_alarm=1e-6):
    """Bound (difference of means) / sd of two normal samples of one sd below."""
    n = len(first)
    mu = abs(first.mean() - second.mean()) / math.sqrt((first.var() + second.var()) / 2)
    return mu - norm.isf(false_alarm) * math.sqrt(2 / n + mu**2 / (4 * n))
