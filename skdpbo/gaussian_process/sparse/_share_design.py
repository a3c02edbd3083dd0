r"""Shares of a default family by a Bayesian design (docs: private choice of a kernel).

The shares are to keep the expected error under each kernel, over that of the kernel alone with the
whole release, small on average. Everything here is public: kernels, inducing points, the number of
records and the noise; the records count as uniform in the box.
"""

import math

import numpy as np

from skdpbo.gaussian_process.sparse._inducing import SUPPORT_DESIGNS, support_design
from skdpbo.gaussian_process.sparse._kernel_family import design_weights

_FIXED_SHARE = 0.25  # the functions may be none of those of the design
_NOISE_SHARE = 0.1  # of an observation, of the kernel's variance; hardly matters within 3 times
_N_STEPS = 15
_LEAST = 0.002  # a kernel that the design leaves out could not return
_FLAT = 3e-4  # of the relative error: a slope or a gain that ends the search
_SHORTEST, _LONGEST, _GROWTH = 0.02, 3.0, 1.7  # steps, in units of the logarithm of a share
_RIDGE = 1e-9  # of the mean of a diagonal; keeps the linear algebra finite


def designed_shares(parts, fixed, statistics, many=False):
    """Return the shares of a default family: by design, with a part of the `fixed` ones.

    Parameters
    ----------
    parts : list of WhitenedFeatures
        Those of each kernel, with the same inducing points.
    fixed : ndarray of shape (n_kernels,)
        Of sum 1. The search starts there; kernels without a share have none afterwards.
    statistics : WhitenedRelease
    many : bool, default=False
        As for :class:`KernelFamily`.

    Returns
    -------
    ndarray of shape (n_kernels,)
        Of sum 1.
    """
    if statistics.n_records == 1:  # a check of the parameters before a fit
        return fixed
    taken = np.flatnonzero(fixed)
    design = _Design([parts[k] for k in taken], statistics, many)
    shares = _least(design, _normalised(fixed[taken]))
    mixed = _FIXED_SHARE * fixed
    mixed[taken] += (1 - _FIXED_SHARE) * shares
    return mixed


def shown_parts(parts, shares, statistics):
    """Return the part of each kernel's variance that the release is expected to show; public.

    One less the expected squared error in units of the variance, and positive. The arguments are
    those of `designed_shares`, with its result; every kernel has a share.
    """
    _, errors, _, _ = _Design(parts, statistics).of_shares(shares)
    return np.maximum(1 - errors**2, _RIDGE)


def _least(design, shares):
    """Return shares of a smaller mean error, by multiplicative steps along its gradient."""
    (value, slope), step = design.mean_error(shares), 1.0
    for _ in range(_N_STEPS):
        slope = slope - shares @ slope  # along the simplex, in relative changes of the shares
        steepest = np.abs(slope).max()
        if not steepest > _FLAT:
            break
        while True:
            tried = _normalised(shares * np.exp(-step * slope / steepest))
            found = design.mean_error(tried)
            if found[0] < value or step <= _SHORTEST:
                break
            step /= 2
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

    def __init__(self, parts, statistics, many=False):
        # Those inside the box: the records count as uniform there (docs/theory/default_kernels.md).
        points = support_design(parts[0].Z)[SUPPORT_DESIGNS[0]]
        variances = np.array([part.signal_variance for part in parts])
        self.weight = statistics.n_records / len(points)
        kernels = np.stack([part.kernel(parts[0].Z, points) for part in parts])
        self.cross = kernels / variances[:, None, None]
        self.grams = np.stack([part.root @ part.root.T for part in parts])
        features = np.stack([part.whitener for part in parts]).transpose(0, 2, 1) @ kernels
        self.moments = features @ features.transpose(0, 2, 1) / len(points)
        diagonals = np.array([part.kernel.diag(points).mean() for part in parts]) / variances
        self.left = np.maximum(diagonals - np.trace(self.moments, axis1=1, axis2=2), 0.0)
        pairs = self.cross.reshape(-1, len(points)) @ features.transpose(0, 2, 1)
        self.maps = pairs.reshape(len(parts), *self.grams.shape) * self.weight
        # what the features of a kernel leave out is noise to it
        self.noise_variances = _NOISE_SHARE + self.left
        noise = statistics.noise / math.sqrt(2) / statistics.beta
        self.squares = np.mean(noise**2) / variances
        # Each kernel with the whole release: the diagonal of the pairs of kernels.
        alone, _, _ = self._errors(np.einsum("kkab->kab", self.maps), self.cross, self.grams)
        weights = design_weights([part.kernel for part in parts], many)
        self.scales = np.maximum(alone, _RIDGE) / weights

    def mean_error(self, shares):
        """Return the mean of the relative errors, and its gradient."""
        n, (u, errors, X, W) = len(shares), self.of_shares(shares)
        # d tr(P G) = -tr(W d(C'S^-1 C)), W = P G P, S the covariance of the sums.
        XW = X @ W
        V = (XW @ X.transpose(0, 2, 1)).reshape(n, -1)
        seconds = (self.cross @ u.T * self.weight).reshape(n, -1)  # halves of the derivatives
        slopes = 2 * self.noise_variances[:, None] * (V @ seconds.T)
        slopes += self.squares[:, None] * (V @ self.grams.reshape(n, -1).T)
        slopes -= 2 * (self.maps.reshape(n, n, -1) @ XW.reshape(n, -1, 1))[..., 0]
        slopes /= 2 * np.maximum(errors, _RIDGE)[:, None]
        return np.sum(errors / self.scales), slopes.T @ (1 / self.scales)

    def of_shares(self, shares):
        """Return u and what `_errors` returns for shares."""
        u, gram = np.tensordot(shares, self.cross, 1), np.tensordot(shares, self.grams, 1)
        C = np.tensordot(shares, self.maps, (0, 1))
        return u, *self._errors(C, u, gram)

    def _errors(self, C, u, gram):
        """Return the expected error under each kernel, S^-1 C, and P G P, P the posterior's."""
        second = u @ u.swapaxes(-1, -2) * self.weight
        traces = np.trace(second, axis1=-2, axis2=-1)[..., None, None]
        second += _RIDGE * traces / second.shape[-1] * np.eye(second.shape[-1])
        # e_k, S_k and P_k of docs/theory/default_kernels.md, Shares by design.
        s2, sa2 = self.noise_variances[:, None, None], self.squares[:, None, None]
        X = np.linalg.solve(s2 * second + sa2 * gram, C)
        P = np.linalg.inv(np.eye(C.shape[-1]) + C.transpose(0, 2, 1) @ X)
        PG = P @ self.moments
        squared = np.maximum(np.trace(PG, axis1=1, axis2=2), 0.0) + self.left
        return np.sqrt(squared), X, PG @ P
