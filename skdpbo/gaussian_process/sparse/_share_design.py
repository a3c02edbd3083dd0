r"""Shares of a default family by a Bayesian design (docs: private choice of a kernel).

The shares minimise the mean over kernels of a relative error: the expected error under a kernel,
divided by that of the kernel alone with the whole release. All inputs are public: kernels, inducing
points, the number of records and the noise; records are assumed uniform in the box.
"""

import math
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from skdpbo.gaussian_process.sparse._inducing import SUPPORT_DESIGNS, support_design
from skdpbo.gaussian_process.sparse._kernel_family import design_weights

_FIXED_SHARE = 0.25  # weight of the fixed shares, as the design's assumptions may be wrong
_NOISE_SHARE = 0.1  # assumed noise variance over the kernel's; a factor of 3 hardly matters
_N_STEPS = 15
_LEAST = 0.002  # least share during the search, as a share of 0 would stay 0
_FLAT = 3e-4  # slope or gain of the relative error that ends the search
_SHORTEST, _LONGEST, _GROWTH = 0.02, 3.0, 1.7  # of steps, in logarithms of shares
_LEAST_ERROR = 1e-9  # also the least recoverable part of a variance
_NEGLIGIBLE = 1e-13  # of the largest square, which rounding may leave in a direction


def designed_shares(parts, fixed, statistics, many=False):
    """Return the shares of a default family: a mixture of designed and `fixed` ones.

    Parameters
    ----------
    parts : list of WhitenedFeatures
        Features of each kernel, with the same inducing points.
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


def recoverable_parts(parts, shares, statistics):
    """Return the share of each kernel's variance that the release is expected to recover; public.

    That is one minus the expected squared error over the variance, and positive. `shares` is the
    result of `designed_shares`; every kernel has a share.
    """
    if statistics.n_records == 1:  # a check of the parameters before a fit
        return np.ones(len(parts))
    return np.maximum(1 - _Design(parts, statistics).errors(shares) ** 2, _LEAST_ERROR)


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
    r"""Expected errors as functions of the shares alpha, in units of the kernels' variances.

    With :math:`u = \sum_k \alpha_k k_k(Z, x)` the sums :math:`\sum u y` have the noise covariance
    :math:`\sigma_a^2 \bar K`. These are the sums of the whitened features in other coordinates, in
    which u and :math:`\bar K` are linear in alpha. The number of directions is at most that of
    support points.
    """

    def __init__(self, parts, statistics, many=False):
        # In the box, where records are assumed uniform (docs/theory/default_kernels.md).
        points = support_design(parts[0].Z)[SUPPORT_DESIGNS[0]]
        variances = np.array([part.signal_variance for part in parts])
        self.weight = statistics.n_records / len(points)
        kernels = [part.kernel(part.Z, points) for part in parts]
        self.cross = np.stack([k / s for k, s in zip(kernels, variances, strict=True)])
        self.grams = np.stack([part.root @ part.root.T for part in parts])
        self.features, self.moments = [], []
        for part, k in zip(parts, kernels, strict=True):
            # In the principal axes of the second moment, without those of vanishing features.
            _, R = _reduced_qr(part.whitener.T @ k)
            squares, U = np.linalg.eigh(R @ R.T)
            seen = squares > _NEGLIGIBLE * squares[-1]
            self.features.append(U[:, seen].T @ R)  # (r, n_support)
            self.moments.append(squares[seen] / len(points))  # their mean squares
        diagonals = np.array([part.kernel.diag(points).mean() for part in parts]) / variances
        shown = np.array([moments.sum() for moments in self.moments])
        self.left = np.maximum(diagonals - shown, 0.0)
        # The part of a kernel that its features leave out acts as noise.
        self.noise_variances = _NOISE_SHARE + self.left
        noise = statistics.noise / math.sqrt(2) / statistics.beta
        self.squares = np.mean(noise**2) / variances
        self.kernels, self.many = [part.kernel for part in parts], many

    @cached_property
    def scales(self):
        """Expected error under each kernel with the whole release, divided by its weight."""
        signals = [_Signal(*one, self.weight) for one in zip(self.cross, self.grams, strict=True)]
        alone = [self._posterior(k, signal)[0] for k, signal in enumerate(signals)]
        return np.maximum(alone, _LEAST_ERROR) / design_weights(self.kernels, self.many)

    def mean_error(self, shares):
        """Return the mean of the relative errors, and its gradient."""
        signal, mean, along_cross, V_sum, along_grams = self._signal(shares), 0.0, 0.0, 0.0, 0.0
        for k, (features, moments) in enumerate(zip(self.features, self.moments, strict=True)):
            error, X, P = self._posterior(k, signal)
            mean += error / self.scales[k]
            # d tr(P M) = -tr(W d(C'S^-1 C)), W = P M P, S the covariance of the sums.
            XW = X @ (P * moments) @ P / (2 * max(error, _LEAST_ERROR) * self.scales[k])
            V = XW @ X.T
            V_sum += self.noise_variances[k] * V
            along_grams += self.squares[k] * V
            along_cross -= XW @ features
        back, along_cross = signal.back, along_cross + V_sum @ signal.u
        slopes = np.tensordot(self.cross, 2 * self.weight * back @ along_cross)
        return mean, slopes + np.tensordot(self.grams, back @ along_grams @ back.T)

    def errors(self, shares):
        """Return the expected error under each kernel for shares."""
        signal = self._signal(shares)
        return np.array([self._posterior(k, signal)[0] for k in range(len(self.features))])

    def _signal(self, shares):
        u, gram = np.tensordot(shares, self.cross, 1), np.tensordot(shares, self.grams, 1)
        return _Signal(u, gram, self.weight)

    def _posterior(self, k, signal):
        """Return the expected error under kernel k, S^-1 C, and the posterior covariance P."""
        # e_k, S_k and P_k of docs/theory/default_kernels.md, Shares by design.
        C = self.weight * signal.u @ self.features[k].T
        S = self.noise_variances[k] * signal.squares + self.squares[k]
        X = C / S[:, None]
        P = np.linalg.inv(np.eye(C.shape[1]) + C.T @ X)
        squared = max(P.diagonal() @ self.moments[k], 0.0) + self.left[k]
        return math.sqrt(squared), X, P


def _reduced_qr(A):
    """Return Q, with orthonormal columns, and R with no more rows than columns, of A = QR."""
    return np.linalg.qr(A) if len(A) > A.shape[1] else (np.eye(len(A)), A)


class _Signal:
    r"""Sums u at the support points in coordinates with white noise.

    With :math:`\bar K = LL'`, :math:`L^{-1}u = QR` and the eigenvectors U of :math:`RR'` the
    coordinates are :math:`U'Q'L^{-1}`: the covariance of the sums is diagonal for every kernel.

    Attributes
    ----------
    u : ndarray of shape (r, n_support)
        r is the smaller of the numbers of inducing and support points.
    squares : ndarray of shape (r,)
        Diagonal of the sum of u u' over the records.
    back : ndarray of shape (d, r)
        The transposed map, :math:`L^{-T} Q U`.
    """

    def __init__(self, u, gram, weight):
        L = np.linalg.cholesky(gram)
        Q, R = _reduced_qr(solve_triangular(L, u, lower=True))
        squares, U = np.linalg.eigh(R @ R.T)
        self.u, self.squares = U.T @ R, weight * np.maximum(squares, 0.0)  # rounding
        self.back = solve_triangular(L, Q @ U, lower=True, trans="T")
