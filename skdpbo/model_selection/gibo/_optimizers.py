"""Descent steps from noisy gradients: post-processing of releases, without privacy cost."""

import numpy as np

from skdpbo.privacy._checks import check_positive


class _Optimizer:
    def __init__(self, learning_rate):
        self.learning_rate = float(check_positive(learning_rate, "learning_rate"))


class StochasticGradient(_Optimizer):
    """theta - eta g.

    Parameters
    ----------
    learning_rate : float
        eta, > 0, in the units of theta squared per unit of the loss.
    """

    def step(self, theta, gradient):
        """Return the next theta, shape (d,)."""
        return theta - self.learning_rate * gradient


class AdaGrad(_Optimizer):
    """theta_j - eta g_j / (sqrt(sum over the steps of g_j^2) + 1e-8).

    Parameters
    ----------
    learning_rate : float
        eta, > 0, in the units of theta: the length of the first step in every coordinate.

    References
    ----------
    J. Duchi, E. Hazan, Y. Singer, Adaptive subgradient methods, JMLR 12, 2011.
    """

    _squares = 0.0

    def step(self, theta, gradient):
        """Return the next theta, shape (d,)."""
        self._squares = self._squares + np.square(gradient)
        # 1e-8 avoids a division by zero.
        return theta - self.learning_rate * gradient / (np.sqrt(self._squares) + 1e-8)


class Adam(_Optimizer):
    """theta - eta m / (sqrt(v) + 1e-8), m and v running means of g and g^2 (0.9 and 0.999).

    Parameters
    ----------
    learning_rate : float
        eta, > 0, in the units of theta: about the length of every step in every coordinate.

    References
    ----------
    D. P. Kingma, J. Ba, Adam: a method for stochastic optimization, ICLR 2015, Algorithm 1.
    """

    _first = _second = 0.0
    _n_steps = 0

    def step(self, theta, gradient):
        """Return the next theta, shape (d,)."""
        self._n_steps += 1
        self._first = 0.9 * self._first + 0.1 * gradient
        self._second = 0.999 * self._second + 0.001 * np.square(gradient)
        # Bias correction, as both means start at 0.
        mean = self._first / (1 - 0.9**self._n_steps)
        square = self._second / (1 - 0.999**self._n_steps)
        return theta - self.learning_rate * mean / (np.sqrt(square) + 1e-8)


OPTIMIZERS = {"adagrad": AdaGrad, "sgd": StochasticGradient, "adam": Adam}
