"""Gaussian processes at noisy rows: the mean of the kernel over the noise of both rows.

A released row is z_i = x_i + e_i, x_i unknown and e_i independent noise. A priori f(x_i) and f(x_j)
then have the covariance E k(z_i - e_i, z_j - e_j) for different rows, and k(x, x) for i = j, since
a row equals itself whatever its noise. Using k(z_i, z_j) instead would ignore the noise.

Everything here is post-processing of a release.
"""

import math

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
)

from skdpbo.privacy._checks import check_within

# Step of the sum over logarithms, and its left end, beyond which the mass is below 1e-5.
_STEP, _TAIL = 0.5, 12.0
_LENGTHS = "[1e-50, 1e50]"  # so that p times a squared distance does not overflow
_FARTHEST = 1e200  # squared distance
_CONSTANT = "constant_value of kernel"
_ACCEPTED = "ConstantKernel, RBF, Matern and RationalQuadratic, their sums and products"


def shrinkage(length_scale, noise_std, n_features, *, n_noisy=2):
    r"""Factor a by which noise reduces the covariance of different rows.

    .. math:: a = \prod_{c=1}^d \sqrt{\ell_c^2 / (\ell_c^2 + m s^2)}

    The rest of the signal variance, 1 - a, does not help to predict other rows: it acts like noise
    of the row, the same in each of its answers.

    Parameters
    ----------
    length_scale : float or array-like of shape (d,)
        l, > 0, in the units of the rows.
    noise_std : float or array-like of shape (d,)
        s, standard deviation of the noise of a row per coordinate, >= 0, in the same units.
    n_features : int
        d.
    n_noisy : {1, 2}, default=2
        m, how many of the two rows are noisy.

    Returns
    -------
    float
        In (0, 1].

    Examples
    --------
    >>> round(shrinkage(4.42, 3**0.5, 2), 3)
    0.765
    """
    squared = np.broadcast_to(np.square(length_scale, dtype=np.float64), n_features)
    noise = n_noisy * np.square(noise_std, dtype=np.float64)
    # A sum of logarithms, since the product of many factors may underflow.
    return math.exp(-0.5 * float(np.log1p(noise / squared).sum()))


def gaussian_mixture(kernel):
    r"""Squared exponential kernels of which an isotropic kernel is the weighted sum.

    .. math:: k(x, x') = \sum_i w_i \exp(-p_i \lVert x - x' \rVert^2 / 2), \qquad w_i, p_i \ge 0

    A constant has p = 0, a product the sums of the p. A Matern kernel has the mean of 1 / p over a
    gamma distribution of mean 1 and shape nu, times the squared length-scale (its spectrum is
    Student's t); a rational quadratic kernel has that of p, of shape alpha. Both means are sums
    over equal steps of the logarithm, within 1e-5 of the kernel.

    Parameters
    ----------
    kernel : sklearn kernel
        ConstantKernel, RBF, Matern, RationalQuadratic, their sums and products, with one
        length-scale each.

    Returns
    -------
    precisions : ndarray of shape (m,)
        p, in inverse squared units of the rows.
    weights : ndarray of shape (m,)
        w, in the units of the kernel.

    Raises
    ------
    TypeError, ValueError
        For another kernel, and for parameters that are no number or out of range.
    """
    kind = type(kernel)
    if kind is ConstantKernel:
        return np.zeros(1), np.array([check_within(kernel.constant_value, _CONSTANT, "[0, inf)")])
    if kind is Sum or kind is Product:
        (p, w), (q, v) = gaussian_mixture(kernel.k1), gaussian_mixture(kernel.k2)
        if kind is Sum:
            return np.concatenate([p, q]), np.concatenate([w, v])
        # exp(-p r^2 / 2) exp(-q r^2 / 2): precisions add, weights multiply.
        return np.add.outer(p, q).ravel(), np.multiply.outer(w, v).ravel()
    if kind not in (RBF, Matern, RationalQuadratic):
        raise TypeError(f"kernel must be made of {_ACCEPTED}; got {kind.__name__}.")
    scales = np.ravel(np.asarray(kernel.length_scale, dtype=object))
    if len(scales) != 1:
        raise ValueError(f"kernel must be isotropic: length_scale of {kind.__name__} is no number.")
    precision = check_within(scales[0], "length_scale of kernel", _LENGTHS) ** -2
    if kind is RationalQuadratic:
        logs, weights = _log_gamma(kernel.alpha, "alpha of kernel")
    else:
        logs, weights = _log_gamma(kernel.nu if kind is Matern else math.inf, "nu of kernel")
    return precision * np.exp(logs if kind is RationalQuadratic else -logs), weights


def _log_gamma(shape, name):
    """Points and weights, of sum 1, for the log of a gamma variable of mean 1."""
    if shape == math.inf:
        return np.zeros(1), np.ones(1)
    # The sum in equal steps of the logarithm converges fast: the density decreases faster than
    # exponentially on the right, and as exp(shape u) on the left, where the tail is cut.
    shape = check_within(shape, name, "[0.2, inf)")
    spread = 1.0 / math.sqrt(shape)  # where shape is large
    right = max(3.5, math.log(25.0 / shape))
    step = min(_STEP, spread / 2)
    u = np.arange(-max(_TAIL / shape, 8 * spread), min(right, 8 * spread), step)
    logs = shape * (u - np.expm1(u))  # log density of u, up to a constant
    weights = np.exp(logs - logs.max())
    return u, weights / weights.sum()


class NoisyRowsKernel(Kernel):
    """Prior covariance of f at the rows of a release, by columns, for `CandidatePosterior`.

    The mean of an isotropic kernel over normal noise of the rows; k(x, x) on the diagonal.

    Its inputs are numbers of rows, shape (n, 1), since two rows of equal values may be different.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Released rows.
    kernel : sklearn kernel
        On exact rows, as `gaussian_mixture` accepts.
    noise_std : float
        Standard deviation of the noise of a released row per coordinate, >= 0.
    """

    def __init__(self, Z, *, kernel, noise_std):
        self.Z = Z
        self.kernel = kernel
        self.noise_std = noise_std
        p, w = gaussian_mixture(kernel)
        # As in `NoisyInputRBF` with n_noisy=2 and l^2 = 1 / p.
        widening = 1.0 + 2.0 * np.square(noise_std * np.sqrt(p))
        self._precisions = p / widening
        # a = prod_c (1 + m s^2 p)^(-1/2), with equal factors in the d coordinates.
        self._weights = w * np.exp(-0.5 * Z.shape[1] * np.log(widening))
        self.variance = float(w.sum())

    def __call__(self, X, Y=None, eval_gradient=False):
        """Return the covariance of the rows numbered X with those numbered Y."""
        if eval_gradient:
            raise NotImplementedError("the hyper-parameters of NoisyRowsKernel are fixed")
        # Numbers of rows are floats in a matrix of candidates, exact below 2^53.
        rows, columns = (
            np.asarray(numbers, dtype=np.float64)[:, 0].astype(np.intp)
            for numbers in (X, X if Y is None else Y)
        )
        distances = cdist(self.Z[rows], self.Z[columns], "sqeuclidean")
        # Finite, as inf times a precision of 0, that of a constant, is NaN.
        halves = -0.5 * np.minimum(distances, _FARTHEST)
        K = sum(
            w * np.exp(p * halves) for p, w in zip(self._precisions, self._weights, strict=True)
        )
        # The same row is the same point, whatever its noise.
        K[rows[:, None] == columns] = self.variance
        return K

    def diag(self, X):
        """Return the prior variance of each row, shape (n,)."""
        return np.full(len(X), self.variance)

    def is_stationary(self):
        """Whether the covariance depends on differences of its inputs alone: it does not."""
        return False
