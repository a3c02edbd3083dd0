"""Gradient descent on released gradients; if the noise is small, with a released curvature."""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo._exact_gram import lattice_radius, products, rows_on_lattice
from skdpbo._gram_release import SLACK, lifted, release_gram
from skdpbo.privacy._checks import set_fields

_MIN_STEPS, _MAX_STEPS = 20, 40
_TIME, _EXPONENT = 26.0, 0.7  # sum of the rates: 26 / noise^0.7
_LONG_RATE, _MAX_RATE = 100.0, 300.0
_SAFE_RATE = 8.0  # 2 / (largest curvature of rows of norm 1, 1/4)
_LITTLE_NOISE = 2e-4  # below it the curvature is released
_CURVED_STEPS = 8  # with a released curvature
_TURN = -0.3  # cosine of successive gradients below which the rate is too large
_AHEAD, _MAX_CURVED_RATE = 0.5, 8.0  # cosine above which the rate is too small; largest rate


@dataclass(frozen=True)
class DescentPlan:
    """Number of steps and largest rate, from the noise of a gradient.

    More noise gives fewer and shorter steps, which regularises.

    Parameters
    ----------
    noise : float
        Expected norm of the noise if the whole budget were spent on one gradient, in units of a
        row of norm 1. Public or released.

    Attributes
    ----------
    by_curvature : bool
        Whether the curvature is released: fewer steps, and convergence in all directions.
    n_steps : int
        Number of released gradients.
    rate : float
        Largest rate of a step.
    """

    noise: float

    def __post_init__(self):
        # docs/theory/private_classifiers.md, Post-processing.
        time, by_curvature = _TIME * self.noise**-_EXPONENT, self.noise <= _LITTLE_NOISE
        # The fewest steps of rate at most 100, within limits, since the steps share the budget.
        n_steps = int(min(max(math.ceil(time / _LONG_RATE), _MIN_STEPS), _MAX_STEPS))
        n_steps = _CURVED_STEPS if by_curvature else n_steps
        rate = min(time / n_steps, _MAX_RATE)
        derived = {"by_curvature": by_curvature, "n_steps": n_steps, "rate": rate}
        set_fields(self, **derived)


def descend(gradient, shape, plan, penalties):
    """Return the last iterate.

    The rate starts at a value for which descent cannot diverge, doubles up to that of the plan, and
    halves when two successive released gradients point in opposite directions.

    Parameters
    ----------
    gradient : callable
        ``gradient(w)`` is a released gradient at w.
    shape : tuple of int
        Shape of w.
    plan : DescentPlan
    penalties : ndarray of shape (shape[0],)
        Coefficients of the quadratic penalty, whose step is implicit.
    """
    w, last, rate = np.zeros(shape), None, min(_SAFE_RATE, plan.rate)
    for _ in range(plan.n_steps):
        step = gradient(w)
        # Gradient of the penalised loss: that of the loss alone is dominated by the penalty.
        slope = step + penalties[:, None] * w
        if last is not None:
            cosine = np.vdot(slope, last) / math.sqrt(np.vdot(slope, slope) * np.vdot(last, last))
            rate = rate / 2 if cosine < _TURN else min(2 * rate, plan.rate)
        # Backward Euler step for the penalty, which is stable at any rate.
        w = (w - rate * step) / (1 + rate * penalties)[:, None]
        last = slope
    return w


def descend_by_curvature(gradient, curvature, shape, penalties):
    """Return the last iterate of 8 accelerated steps in the metric of the curvature.

    Steps of rate 1 do not increase the loss if the curvature is an upper bound. The bound is loose
    for rare classes: the rate doubles while successive moves agree, and halves when they reverse.

    Parameters
    ----------
    gradient, shape, penalties
        As in `descend`.
    curvature : ndarray of shape (shape[0], shape[0])
        Positive definite; released.
    """
    w = ahead = np.zeros(shape)
    last, rate, penalty = None, 1.0, np.diag(penalties)
    for t in range(_CURVED_STEPS):
        step = gradient(ahead) + penalties[:, None] * ahead
        move = np.linalg.solve(curvature + penalty, step)
        # Norm of the gradient in the metric of the inverse curvature; cosines are taken in it.
        length = math.sqrt(np.vdot(step, move))
        if last is not None:
            cosine = np.vdot(step, last[0]) / (length * last[1])
            faster = min(2 * rate, _MAX_CURVED_RATE) if cosine > _AHEAD else rate
            rate = rate / 2 if cosine < _TURN else faster
        # Implicit in the penalty, whose curvature is exact: stable at any rate.
        new = ahead - np.linalg.solve(curvature / rate + penalty, step)
        ahead = new + t / (t + 3) * (new - w)  # Nesterov's sequence
        w, last = new, (move, length)
    return w


_GRADIENT_SHARE, _MOMENT_SHARE = 5.0, 0.25  # factors of both noises in the ridge


def exact_second_moments(rows, scales, weights, step, radius):
    """Protected: pass only to a mechanism. Sum w z z' of rows clipped to norm 1, in integers.

    Parameters
    ----------
    rows : BoxedRows
    scales : ColumnScales
    weights : ndarray of shape (n,)
        Weights of the records, at most 1. Protected.
    step : float
        Lattice step.
    radius : int
        Largest norm of a row in steps.
    """
    d = rows.shape[1] + 1
    total = np.zeros((d, d), dtype=np.int64)
    # w z z' is the outer product of sqrt(w) z with itself.
    roots = np.sqrt(weights)
    for chosen, inner in rows.affine(*scales.affine()):
        z = np.hstack([inner, np.full((len(inner), 1), scales.constant)])
        norms = np.sqrt(np.einsum("ij,ij->i", z, z))
        z *= (roots[chosen] / np.maximum(norms, 1.0))[:, None]  # norm at most 1: sensitivity
        units = rows_on_lattice(z, step, radius)
        total += products(units, rows.sizes, chosen)  # exact: at most 2^13 rows
    return total


def released_curvature(rows, scales, weights, effective, mu, source, *, n_outputs, gradient_noise):
    """Release the weighted second moments of the standardised rows; return a curvature.

    The result is an upper bound on the curvature of the mean loss, plus a ridge that grows with the
    noise. The logistic loss has a second derivative of at most 1/4 in its score, the softmax loss
    of at most 1/2 in any direction (Boehning 1992). `effective` is the sum of the weights, public
    or released.
    """
    n = rows.shape[0]
    # docs/theory/sparse_gp.md, Theorem: sqrt 2 W^2 / mu, here with W = 1.
    radius = lattice_radius(n, math.sqrt(2.0) / mu)
    step = 1 / (radius * SLACK)
    noisy, sigma = release_gram(
        exact_second_moments(rows, scales, weights, step, radius), mu, radius, source
    )
    unit = step**2
    moments, noise = lifted(noisy * unit, sigma * unit, n) / effective, sigma * unit / effective
    d = len(moments)
    # The noise of the moments has eigenvalues of the order of its entries times sqrt(d).
    ridge = _GRADIENT_SHARE * gradient_noise + _MOMENT_SHARE * noise * math.sqrt(d)
    bound = 0.25 if n_outputs == 1 else 0.5
    # The ridge covers the noise, since too small a curvature makes steps too long.
    return bound * moments + ridge * np.eye(d)
