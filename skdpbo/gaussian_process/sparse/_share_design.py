r"""Shares of a default family by a Bayesian design (docs: private choice of a kernel).

The shares are to keep the expected error under each kernel, over that of the kernel alone with the
whole release, small on average. Everything here is public: kernels, inducing points, the number of
records and the noise; the records count as uniform in the box.
"""

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from skdpbo.gaussian_process.sparse._inducing import SUPPORT_DESIGNS, support_design
from skdpbo.gaussian_process.sparse._kernel_family import design_weights

__all__ = ["designed_shares"]

_FIXED_SHARE = 0.25  # the functions may be none of those of the design
_NOISE_SHARE = 0.1  # of an observation, of the kernel's variance; hardly matters within 3 times
_N_STEPS = 15
_LEAST = 0.002  # a kernel that the design leaves out could not return
_FLAT = 3e-4  # of the relative error: a slope or a gain that ends the search
_SHORTEST, _LONGEST, _GROWTH = 0.02, 3.0, 1.7  # steps, in units of the logarithm of a share
_RIDGE = 1e-9  # of the mean of a diagonal; keeps the linear algebra finite


def designed_shares(parts, fixed, statistics):
    """Return the shares of a default family: by design, with a part of the `fixed` ones.

    Parameters
    ----------
    parts : list of WhitenedFeatures
        Those of each kernel, with the same inducing points.
    fixed : ndarray of shape (n_kernels,)
        Of sum 1. The search starts there; kernels without a share have none afterwards.
    statistics : WhitenedRelease

    Returns
    -------
    ndarray of shape (n_kernels,)
        Of sum 1.
    """
    if statistics.n_records == 1:  # a check of the parameters before a fit
        return fixed
    taken = np.flatnonzero(fixed)
    shares = _least(_Design([parts[k] for k in taken], statistics), _normalised(fixed[taken]))
    mixed = _FIXED_SHARE * fixed
    mixed[taken] += (1 - _FIXED_SHARE) * shares
    return mixed


def _least(design, shares):
    """Return shares of a smaller mean error, by multiplicative steps along its gradient."""
    (value, slope), step = design.mean_error(shares), 1.0
    for _ in range(_N_STEPS):
        slope = slope - shares @ slope  # along the simplex, in relative changes of the shares
        steepest = np.abs(slope).max()
        if not steepest > _FLAT:
            break
        tried = _normalised(shares * np.exp(-step * slope / steepest))
        found = design.mean_error(tried)
        while not found[0] < value and step > _SHORTEST:
            step /= 2
            tried = _normalised(shares * np.exp(-step * slope / steepest))
            found = design.mean_error(tried)
        if not found[0] < value - _FLAT:
            break
        shares, (value, slope), step = tried, found, min(step * _GROWTH, _LONGEST)
    return shares


def _normalised(shares):
    shares = np.maximum(shares / shares.sum(), _LEAST)
    return shares / shares.sum()


class _Design:
    r"""Expected errors as functions of the shares p, in units of the kernels' variances.

    With :math:`u = \sum_k p_k k_k(Z, x)` the sums :math:`\sum u y` have the noise
    :math:`\sigma_a^2 \bar K`: those of the whitened features in other coordinates, in which both
    are linear in p.
    """

    def __init__(self, parts, statistics):
        points = support_design(parts[0].Z)[SUPPORT_DESIGNS[0]]
        variances = np.array([part.signal_variance for part in parts])
        self.weight = statistics.n_records / len(points)
        kernels = [part.kernel(parts[0].Z, points) for part in parts]
        self.cross = np.stack(kernels) / variances[:, None, None]
        self.grams = np.stack([part.root @ part.root.T for part in parts])
        features = np.stack([part(points).T for part in parts])
        self.moments = features @ features.transpose(0, 2, 1) / len(points)
        diagonals = np.array([part.kernel.diag(points).mean() for part in parts]) / variances
        self.left = np.maximum(diagonals - np.trace(self.moments, axis1=1, axis2=2), 0.0)
        self.maps = np.einsum("jam,kbm->kjab", self.cross, features, optimize=True) * self.weight
        # what the features of a kernel leave out is noise to it
        self.noise_variances = _NOISE_SHARE + self.left
        noise = statistics.noise / math.sqrt(2) / statistics.beta
        self.squares = np.mean(noise**2) / variances
        alone = [self._error(k, *self._sums(one))[0] for k, one in enumerate(np.eye(len(parts)))]
        weights = design_weights([part.kernel for part in parts], parts[0].Z)
        self.scales = np.maximum(alone, _RIDGE) / weights

    def mean_error(self, shares):
        """Return the mean of the relative errors, and its gradient."""
        sums = self._sums(shares)
        pairs = [self._error(k, *sums) for k in range(len(shares))]
        return (
            sum(error / scale for (error, _), scale in zip(pairs, self.scales, strict=True)),
            sum(slope / scale for (_, slope), scale in zip(pairs, self.scales, strict=True)),
        )

    def _sums(self, shares):
        """Return the shares, the noise's covariance, the second moment of u and its gradient."""
        u = np.tensordot(shares, self.cross, 1)
        second = u @ u.T * self.weight
        second += _RIDGE * np.trace(second) / len(second) * np.eye(len(second))
        return shares, np.tensordot(shares, self.grams, 1), second, self.cross @ u.T * self.weight

    def _error(self, k, shares, gram, second, slopes):
        """Return the expected error under kernel k, and its gradient."""
        C, s2, sa2 = np.tensordot(shares, self.maps[k], 1), self.noise_variances[k], self.squares[k]
        X = cho_solve(cho_factor(s2 * second + sa2 * gram, lower=True), C)
        P = np.linalg.inv(np.eye(len(C)) + C.T @ X)  # the posterior's covariance of the weights
        PG = P @ self.moments[k]
        error = np.sqrt(max(np.trace(PG), 0.0) + self.left[k])
        XW = X @ (PG @ P)
        V = XW @ X.T
        slope = np.tensordot(2 * s2 * slopes + sa2 * self.grams, V, 2)
        slope -= 2 * np.tensordot(self.maps[k], XW, 2)
        return error, slope / (2 * max(error, _RIDGE))
