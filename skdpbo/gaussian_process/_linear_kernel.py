"""Kernel of random linear functions in a public box."""

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

_REACH = 4.0  # in half-widths from the centre; functions are constant beyond


class LinearKernel(Kernel):
    r"""Kernel of linear functions with an intercept, in the units of a box.

    With :math:`s_j = (x_j - \mathrm{centre}_j) / \mathrm{half\_width}_j`, clipped to [-4, 4], it is
    :math:`k(x, x') = \frac12 (1 + 3 \sum_j w_j s_j s_j')`, of mean variance 1 for x uniform in the
    box. Unlike a DotProduct it does not depend on the units of the columns, and one far value does
    not multiply a slope that is mostly noise.

    Parameters
    ----------
    centre, half_width : ndarray of shape (p,)
        Public.
    parts : ndarray of shape (p,), default=None
        :math:`w`, shares of the columns in the variance of the slopes, of sum 1; public. None:
        equal shares.
    """

    def __init__(self, centre, half_width, parts=None):
        self.centre = centre
        self.half_width = half_width
        self.parts = parts

    def __call__(self, X, Y=None, eval_gradient=False):
        """Kernel matrix of two sets of rows; there is no hyper-parameter to differentiate by."""
        X = self._scaled(X)
        # s_j has the mean square 1/3 in the box: half of the variance is that of the slopes.
        K = (1 + 3 * X @ (X if Y is None else self._scaled(Y)).T) / 2
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X):
        """Variances at the rows of X."""
        return (1 + 3 * np.sum(self._scaled(X) ** 2, axis=1)) / 2

    def is_stationary(self):
        """The variance grows with the distance from the centre."""
        return False

    def _scaled(self, X):
        s = np.clip((np.asarray(X) - self.centre) / self.half_width, -_REACH, _REACH)
        return s * np.sqrt(1 / s.shape[1] if self.parts is None else self.parts)
