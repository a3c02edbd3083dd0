"""Audit of a Gaussian release by its normal log-likelihood ratio."""

import math

import numpy as np
from scipy.stats import norm

__all__ = ["normal_mu_bound"]


def normal_mu_bound(first, second, *, false_alarm=1e-6):
    r"""Bound mu below from a statistic that is normal, with one variance, on both data sets.

    The log-likelihood ratio of a release with Gaussian noise is such a statistic; its means differ
    by mu standard deviations. The bound needs fewer samples than `audit_samples`, which makes no
    assumption on their law.

    Parameters
    ----------
    first, second : array-like of shape (n,)
        The statistic on each of two neighbouring data sets; independent runs.
    false_alarm : float in (0, 1), default=1e-6
        Probability that the bound exceeds mu, for large n.

    Returns
    -------
    mu : float
        :math:`\hat\mu - z\sqrt{2/n + \hat\mu^2/(4n)}`, with :math:`\hat\mu` the standardised
        difference of means and z the upper quantile; negative where nothing is proved.

    See Also
    --------
    audit_samples : Without an assumption on the law.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.audit import normal_mu_bound
    >>> # public randomness: synthetic samples
    >>> rng = np.random.default_rng(0)
    >>> 1.5 < normal_mu_bound(rng.normal(size=1000), rng.normal(2, size=1000)) < 2
    True
    """
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise ValueError("first and second must be two vectors of one length, at least 2.")
    n = len(first)
    spread = math.sqrt((first.var() + second.var()) / 2)
    # Two constants that differ: an infinite loss, shown as a huge one.
    mu = abs(first.mean() - second.mean()) / max(spread, 1e-100)
    return float(mu) - float(norm.isf(false_alarm)) * math.sqrt(2 / n + mu**2 / (4 * n))
