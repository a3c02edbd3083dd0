"""Kernels on noisy rows, as scikit-learn kernels with parameters that can be fitted."""

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Product, Sum

from skdpbo.gaussian_process.outsourced._noisy_kernels import shrinkage


class NoisyInputRBF(RBF):
    r"""Mean of the squared exponential kernel over independent normal noise of its arguments.

    With m of two different rows noisy, noise of standard deviation s per coordinate,

    .. math:: k_m(z, z') = a \exp\Big(-\sum_j \frac{(z_j - z'_j)^2}{2 (\ell_j^2 + m s^2)}\Big),
        \qquad a = \prod_j \sqrt{\frac{\ell_j^2}{\ell_j^2 + m s^2}} .

    For other noise of the same standard deviation it is an approximation, for l2-Laplace noise
    without a measurable difference.

    A row equals itself whatever its noise: k(z, z) = 1. So ``kernel(Z)`` is a K + (1 - a) I, and
    ``kernel(X, Z)``, whose rows are taken as different, has no such diagonal.

    Parameters
    ----------
    length_scale : float or ndarray of shape (d,), default=1.0
        l of the kernel on exact rows, > 0, in the units of the rows.
    length_scale_bounds : pair of floats >= 0 or "fixed", default=(1e-5, 1e5)
    noise_std : float or ndarray of shape (d,), default=0.0
        s, >= 0, in the same units; it may differ between coordinates.
    n_noisy : {1, 2}, default=2
        m: 2 between released rows, 1 between an exact and a released row.
    """

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-5, 1e5), noise_std=0.0, n_noisy=2):
        super().__init__(length_scale, length_scale_bounds)
        self.noise_std = noise_std
        self.n_noisy = n_noisy

    def __call__(self, X, Y=None, eval_gradient=False):
        """Return the covariance, and its gradient with respect to the log of the length-scale.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        Y : ndarray of shape (m, d), default=None
            None: the rows of X with themselves.
        eval_gradient : bool, default=False
            Needs ``Y=None``.

        Returns
        -------
        K : ndarray of shape (n, m)
        dK : ndarray of shape (n, n, n_dims)
            If `eval_gradient`.
        """
        X = np.atleast_2d(X)
        # l^2 + m s^2 of docs/theory/outsourced.md, The model.
        squared = np.broadcast_to(np.square(self.length_scale, dtype=np.float64), X.shape[1])
        widened = np.sqrt(squared + self.n_noisy * np.square(self.noise_std, dtype=np.float64))
        K = cdist(X / widened, (X if Y is None else np.atleast_2d(Y)) / widened, "sqeuclidean")
        K *= -0.5
        np.exp(K, out=K)
        K *= shrinkage(self.length_scale, self.noise_std, X.shape[1], n_noisy=self.n_noisy)
        if Y is not None:
            if eval_gradient:
                raise ValueError("Gradient can only be evaluated when Y is None.")
            return K
        gradient = self._gradient(X, K) if eval_gradient else None
        np.fill_diagonal(K, 1.0)  # a row equals itself, whatever its noise
        return (K, gradient) if eval_gradient else K

    def _gradient(self, X, K):
        """K_ij times the derivatives, by log l, of log a and of the exponent; 0 where i = j."""
        squared = np.broadcast_to(np.square(self.length_scale, dtype=np.float64), X.shape[1])
        widened = squared + self.n_noisy * np.square(self.noise_std)
        # d log a / d log l_j = 1 - l_j^2 / (l_j^2 + m s^2), and of the exponent, with the distance
        # D_j, l_j^2 D_j / (l_j^2 + m s^2)^2; summed over j where there is one l.
        share = squared / widened
        if self.hyperparameter_length_scale.fixed:
            return np.empty((*K.shape, 0))
        if self.anisotropic:
            distances = (X[:, None, :] - X[None, :, :]) ** 2
            slopes = (1 - share) + distances * (share / widened)
        else:
            scaled = X * np.sqrt(share / widened)
            slopes = (np.sum(1 - share) + cdist(scaled, scaled, "sqeuclidean"))[:, :, None]
        gradient = K[:, :, None] * slopes
        # k(z, z) = 1 for every length-scale.
        gradient[np.diag_indices(len(K))] = 0.0
        return gradient


def noisy_inputs(kernel, noise_std, n_noisy):
    """Return the mean of a kernel over the noise of one or both rows, as a kernel.

    Parameters
    ----------
    kernel : sklearn kernel
        Made of constants, RBF, sums of such kernels and their products with constants.
    noise_std : float or ndarray of shape (d,)
    n_noisy : {1, 2}

    Returns
    -------
    sklearn kernel
        Its ``theta`` is that of `kernel`.

    Raises
    ------
    TypeError
        For another kernel, whose mean is not implemented.
    """
    kind = type(kernel)
    if kind is RBF:
        return NoisyInputRBF(kernel.length_scale, kernel.length_scale_bounds, noise_std, n_noisy)
    if kind is ConstantKernel:
        return kernel
    # The mean of a product is the product of means if one factor is constant.
    if kind is Sum or (kind is Product and ConstantKernel in (type(kernel.k1), type(kernel.k2))):
        return kind(*(noisy_inputs(part, noise_std, n_noisy) for part in (kernel.k1, kernel.k2)))
    raise TypeError(
        "kernel must consist of ConstantKernel and RBF, of sums of these and of products with a "
        f"ConstantKernel; got {kernel!r}."
    )
