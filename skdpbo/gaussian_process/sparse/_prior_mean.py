"""The prior mean: the public centre of the targets' range, or a private average."""

import numpy as np

from skdpbo.mechanisms import BoundedMean, CoinPressMean, split_budget

__all__ = ["budget_of_mean", "private_prior_mean"]

# Share of mu^2: 2.5 % more noise on the moments, and a mean that n > 1000 records give to about
# a tenth of the half-width at epsilon 1.
_SHARE = 0.05


def budget_of_mean(mu):
    """Split mu between the moments and the mean; composed they are mu-GDP."""
    return split_budget(mu, _SHARE)


def private_prior_mean(y, low, high, *, mu, scale, source, groups=None):
    """Protected y: release the mean of the targets.

    Without `scale` the clipped mean, whose noise has standard deviation about
    sqrt(q) (high - low) / (n mu). With it COINPRESS, which clips to a few `scale` around the mean
    that it finds: less noise where the range is far wider than the spread of the targets.

    Parameters
    ----------
    y : ndarray of shape (n, q)
        Protected. A value that is not finite counts as the middle of the range.
    low, high : ndarray of shape (q,)
        Public range; y is clipped to it.
    mu : float
    scale : ndarray of shape (q,) or None
        Public standard deviation of each target.
    source : RandomSource
    groups : ndarray of shape (n,), default=None
        Number of the group of each record; protected.

    Returns
    -------
    ndarray of shape (q,)
        In the range.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    unit = half if scale is None else scale
    with np.errstate(all="ignore"):
        z = (np.clip(np.asarray(y, dtype=np.float64), low, high) - middle) / unit
    if scale is None:
        released = BoundedMean(mu=mu, low=-1.0, high=1.0).release(z, source, groups)
    else:
        radius = float(np.sqrt(np.sum((half / unit) ** 2)))
        released = CoinPressMean(mu=mu, center=0.0, radius=radius).release(z, source, groups)
    return np.clip(middle + np.asarray(released) * unit, low, high)
