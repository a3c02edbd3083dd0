"""Gaussian processes at rows that carry noise: the mean of the kernel over the noise of both rows.

A released row is z_i = x_i + e_i, x_i unknown and e_i independent noise. A priori f(x_i) and f(x_j)
then have the covariance E k(z_i - e_i, z_j - e_j) where i and j differ, and signal_variance where
they are the same row: noise makes two rows look nearer or farther than they are, but a row is the
same as itself whatever its noise. Using k(z_i, z_j) instead trusts the rows too much.

Everything here is a function of a release: post-processing, which costs no privacy.
"""

import math

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import Kernel

from skdpbo.privacy._checks import check_positive, check_within

__all__ = [
    "NoisyRowsKernel",
    "check_rbf_parameters",
    "noisy_input_covariance",
    "noisy_input_rbf",
    "shrinkage",
]


def shrinkage(length_scale, noise_std, n_features, *, n_noisy=2):
    r"""Share a of the signal variance that noise leaves to the covariance of different rows.

    .. math:: a = \prod_{c=1}^d \sqrt{\ell_c^2 / (\ell_c^2 + m s^2)}

    The other share, 1 - a, is of no use to predict one row from another: it acts like noise of
    variance (1 - a) signal_variance that belongs to the row, the same at each of its answers.

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
    squared = np.broadcast_to(_squared(length_scale), n_features)
    # a sum of logarithms: the product of many factors underflows earlier
    return math.exp(-0.5 * float(np.log1p(n_noisy * _squared(noise_std) / squared).sum()))


def noisy_input_rbf(A, B, *, length_scale, signal_variance, noise_std, n_noisy=2):
    r"""Prior covariance of f at different rows of which one or both are noisy.

    The mean of the squared exponential kernel over Gaussian noise of both rows: again squared
    exponential, with length-scale :math:`\sqrt{\ell^2 + m s^2}`, times `shrinkage`.

    Parameters
    ----------
    A : array-like of shape (n_a, d)
    B : array-like of shape (n_b, d)
        Released rows. With ``n_noisy=1`` one of the two holds exact rows.
    length_scale : float or array-like of shape (d,)
        l of the kernel on exact rows, > 0.
    signal_variance : float
        k(x, x), > 0, in squared units of y.
    noise_std : float or array-like of shape (d,)
        s, standard deviation of the noise of a released row per coordinate, >= 0.
    n_noisy : {1, 2}, default=2
        m, how many of the two rows are noisy.

    Returns
    -------
    ndarray of shape (n_a, n_b)
        Where a row of A is the same released row as one of B, the entry is that of two rows with
        noises of their own: see `noisy_input_covariance`.

    Notes
    -----
    For noise of another law with the same standard deviation it is an approximation; with
    l2-Laplace noise it is so close that the choice makes no measurable difference.
    """
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    d = A.shape[1]
    widened = np.sqrt(np.broadcast_to(_squared(length_scale), d) + n_noisy * _squared(noise_std))
    K = cdist(A / widened, B / widened, "sqeuclidean")
    K *= -0.5
    np.exp(K, out=K)
    K *= signal_variance * shrinkage(length_scale, noise_std, d, n_noisy=n_noisy)
    return K


def noisy_input_covariance(Z, *, length_scale, signal_variance, noise_std):
    r"""Prior covariance matrix of f at the rows of a release: :math:`\sigma^2 (a K + (1 - a) I)`.

    Parameters
    ----------
    Z : array-like of shape (n, d)
        Released rows, each with noise of its own.
    length_scale, signal_variance, noise_std
        As in `noisy_input_rbf`.

    Returns
    -------
    ndarray of shape (n, n)
        Positive semi-definite, as a K and (1 - a) I are; signal_variance on the diagonal.
    """
    K = noisy_input_rbf(
        Z, Z, length_scale=length_scale, signal_variance=signal_variance, noise_std=noise_std
    )
    np.fill_diagonal(K, signal_variance)
    return K


class NoisyRowsKernel(Kernel):
    """The covariance of `noisy_input_covariance` by columns, for `CandidatePosterior`.

    Its inputs are the numbers of rows, shape (n, 1), and not the rows: two rows may have the same
    values and yet different noise, so only the number says whether they are the same.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Released rows.
    length_scale, signal_variance, noise_std
        As in `noisy_input_rbf`.
    """

    def __init__(self, Z, *, length_scale, signal_variance, noise_std):
        self.Z = Z
        self.length_scale = length_scale
        self.signal_variance = signal_variance
        self.noise_std = noise_std

    def __call__(self, X, Y=None, eval_gradient=False):
        """Return the covariance of the rows numbered X with those numbered Y."""
        if eval_gradient:
            raise NotImplementedError("the hyper-parameters of NoisyRowsKernel are fixed")
        rows, columns = _numbers(X), _numbers(X if Y is None else Y)
        K = noisy_input_rbf(
            self.Z[rows],
            self.Z[columns],
            length_scale=self.length_scale,
            signal_variance=self.signal_variance,
            noise_std=self.noise_std,
        )
        K[rows[:, None] == columns] = self.signal_variance
        return K

    def diag(self, X):
        """Return the prior variance of each row, shape (n,)."""
        return np.full(len(X), float(self.signal_variance))

    def is_stationary(self):
        """Whether the covariance depends on differences of its inputs alone: it does not."""
        return False


def check_rbf_parameters(length_scale, signal_variance, noise_std, n_features):
    """Refuse hyper-parameters that are no kernel; return l as floats, shape () or (d,)."""
    try:
        scales = np.asarray(length_scale, dtype=np.float64)
    except OverflowError:  # an integer beyond the floats
        scales = np.asarray(np.inf)
    if scales.shape not in ((), (n_features,)):
        raise ValueError("length_scale must be a number, or one for each column of the rows.")
    if not (np.isfinite(scales).all() and (scales > 0.0).all()):
        raise ValueError("length_scale must be positive and finite.")
    check_positive(signal_variance, "signal_variance")
    check_within(noise_std, "noise_std", "[0, inf)")
    return scales


def _squared(values):
    return np.square(np.asarray(values, dtype=np.float64))


def _numbers(X):
    return np.asarray(X, dtype=np.float64)[:, 0].astype(np.intp)
