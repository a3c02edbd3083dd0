"""Searches on protected scores, and the two releases of Kusner et al. (2015) from the posterior.

The values that these functions exchange are protected: candidates visited, values observed, and
posterior means. The results of `choose` and `add_laplace` are released.
"""

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skdpbo._attempt import attempt
from skdpbo.mechanisms import (
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    from_lattice,
    to_lattice,
)
from skdpbo.model_selection._private_choice import PrivateChoice
from skdpbo.privacy._checks import check_delta, check_within
from skdpbo.surrogate import log_expected_improvement, upper_confidence_bound

# Bound of the rounding error of a posterior mean, in prior standard deviations.
_ROUNDING = 2.0**-10
# Bound, in lattice steps, of the effect of rounding on the difference of two best observed scores.
# The step of the score is at least twice that of the observations, as 8 log(3) > 4: one for the
# score itself, half of one for each rounded observation, a quarter for the noise of each.
_SCORE_ROUNDINGS = 3
# Smallest sensitivity for which values of the order of 1 are precise enough in floating point.
_LEAST_SENSITIVITY = 2.0**-20


@dataclass(frozen=True)
class Shares:
    """Budget of the choice and of the score; the epsilons add up exactly."""

    epsilon_choice: Fraction
    epsilon_score: Fraction
    delta_choice: float
    delta_score: float

    @classmethod
    def of(cls, epsilon, delta, score_fraction):
        """Split epsilon and delta in the same proportion; errors name the parameter."""
        check_within(score_fraction, "score_fraction", "[0, inf)")
        if check_delta(delta) == 0:
            raise ValueError("delta must be positive: the sensitivities hold up to a probability.")
        # PrivateChoice computes two shares that add up to epsilon exactly, as fractions.
        choice = PrivateChoice("exponential", epsilon, score_fraction)
        delta_score = float(delta) * float(score_fraction)
        delta_choice = float(delta) - delta_score
        return cls(choice.epsilon_choice, choice.epsilon_score, delta_choice, delta_score)


class Gains:
    """Exact gains on the protected records, each computed once, and the trainable candidates.

    Parameters
    ----------
    observe : callable
        From an index to a gain in [0, 1], or None for a candidate that cannot be trained.
    n_candidates : int

    Attributes
    ----------
    is_usable : ndarray of bool, shape (n_candidates,)
        False for those known to be untrainable.
    """

    def __init__(self, observe, n_candidates):
        self._observe = observe
        self._known = {}
        self.is_usable = np.ones(n_candidates, dtype=bool)

    def __call__(self, k):
        """Return the gain of candidate k in [0, 1], or None if it cannot be trained."""
        k = int(k)
        if k not in self._known:
            # Nothing may reveal that k was visited: no warning, no error.
            with warnings.catch_warnings(record=True):
                warnings.simplefilter("ignore")
                gain, error = attempt(self._observe, k)
                if gain is not None:
                    gain, error = attempt(float, gain)
            is_gain = error is None and (gain is None or 0.0 <= gain <= 1.0)
            # An error gives the worst gain: raising it would reveal the visited candidate.
            self._known[k] = gain if is_gain else 0.0
            self.is_usable[k] = self._known[k] is not None
        return self._known[k]

    def best_usable(self, utilities):
        """Return the trainable candidate of largest utility, the first of equals."""
        while self.is_usable.any():
            k = int(np.where(self.is_usable, utilities, -np.inf).argmax())
            if self(k) is not None:
                return k
        raise ValueError("no candidate can be trained on the public rows.")


class BranchAndBound:
    """Search of de Freitas, Smola & Zoghi (2012), on a finite set in place of their lattice.

    Repeat: observe relevant candidates until each of them is within a radius of an observed one;
    keep those whose upper confidence bound reaches the largest lower one; halve the radius. Once
    all relevant candidates have been observed, the best is observed again.

    Parameters
    ----------
    X : ndarray of shape (n_candidates, n_features)
    """

    def __init__(self, X):
        self._X = X
        self._relevant = np.ones(len(X), dtype=bool)
        self._distances = np.linalg.norm(X - X.mean(axis=0), axis=1)  # to the nearest observed
        self._radius = self._distances.max()

    def __call__(self, posterior, sqrt_beta):
        """Return utilities of the candidates; the one with the largest is observed next."""
        if not len(posterior):
            return -self._distances  # the candidate in the middle first
        gaps = np.linalg.norm(self._X - self._X[posterior.observed[-1]], axis=1)
        self._distances = gaps if len(posterior) == 1 else np.minimum(self._distances, gaps)
        while 0 < self._distances[self._relevant].max() <= self._radius:
            # The bounds mu - sqrt(beta) sigma and mu + sqrt(beta) sigma.
            lower, upper = (
                upper_confidence_bound(posterior.mean, sign * posterior.std, sqrt_beta)
                for sign in (-1, 1)
            )
            self._relevant &= upper >= lower[self._relevant].max()
            self._radius /= 2
        # Distance 0: every relevant candidate has been observed.
        if not self._distances[self._relevant].max():
            return posterior.mean
        return np.where(self._relevant, self._distances, -1.0)


def _gp_ucb(posterior, sqrt_beta):
    """Return the upper confidence bounds of Eq. (3)."""
    return upper_confidence_bound(posterior.mean, posterior.std, sqrt_beta)


def run_gp_ucb(posterior, gains, modelled, sqrt_betas, source, utilities=_gp_ucb):
    """Observe T candidates by GP-UCB (Alg. 1, lines 3 to 8) and add them to the posterior.

    Parameters
    ----------
    posterior : CandidatePosterior
        The prior, with the variance of the observation noise; filled here.
    gains : Gains
    modelled : callable
        From a gain to the modelled score.
    sqrt_betas : sequence of float of length T
    source : RandomSource
        Of the observation noise.
    utilities : callable
        ``utilities(posterior, sqrt_beta)``; the candidate with the largest is observed next. Those
        of GP-UCB, or a `BranchAndBound`.

    Returns
    -------
    values : list of float of length T
        Observed values v_t, on a lattice.
    """
    sd = math.sqrt(posterior.noise_variance)
    step = _step(sd)
    noise = GaussianMechanism(mu=1.0, sensitivity=sd, lattice=step, n_draws=len(sqrt_betas))
    # mu = 1 and sensitivity sd give noise of variance sd^2, from the sampler of the releases. All
    # is drawn before a gain is read, so that the draws do not depend on the visits.
    alphas = noise.release(np.zeros(len(sqrt_betas), dtype=np.int64), source).tolist()
    values = []
    for sqrt_beta, alpha in zip(sqrt_betas, alphas, strict=True):
        k = gains.best_usable(utilities(posterior, sqrt_beta))
        value = from_lattice(to_lattice(modelled(gains(k)), step) + alpha, step)
        posterior.append(k, value)
        values.append(value)
    return values


def expected_improvement(posterior, _):
    """Return the logarithms of the expected improvements on the best value so far."""
    best = posterior.values.max() if len(posterior) else 0.0
    return log_expected_improvement(posterior.mean, posterior.std, best)


def choose(mean, gains, sensitivity, epsilon, source):
    """Draw a candidate by the exponential mechanism on the posterior mean (Alg. 1, line 12).

    Parameters
    ----------
    mean : ndarray of shape (n_candidates,)
        mu_T, protected.
    gains : Gains
        Know whether the drawn candidate can be trained.
    sensitivity : float
        Largest change of an entry of `mean`.
    epsilon : Fraction
    source : RandomSource

    Returns
    -------
    int
        Released.
    """
    with_rounding = sensitivity + 2 * _ROUNDING  # of the means of either neighbour
    step = _step(with_rounding)
    losses = -to_lattice(mean, step)  # the mechanism prefers small ones
    mechanism = ExponentialMechanism(epsilon, lattice_units(with_rounding, step))
    while True:
        # The visits are secret. Drawing again if the drawn candidate cannot be trained, which is
        # public, makes the distribution independent of the visits.
        usable = np.flatnonzero(gains.is_usable)
        index = int(usable[mechanism.select(losses[usable], source=source)])
        if gains(index) is not None:
            return index


def add_laplace(value, sensitivity, epsilon, source):
    """Release value + Laplace noise of scale sensitivity / epsilon (Alg. 1, lines 14 and 15)."""
    sensitivity = max(sensitivity, _LEAST_SENSITIVITY)
    step = _step(sensitivity)
    # Value and noise are multiples of a public step, so that floating-point bits reveal nothing.
    mechanism = DiscreteLaplace(epsilon, lattice_units(sensitivity, step, _SCORE_ROUNDINGS))
    return from_lattice(mechanism.release(to_lattice(value, step), source), step)


def laplace_noise_std(sensitivity, epsilon):
    """Return the standard deviation of the noise of `add_laplace`."""
    return math.sqrt(2) * max(sensitivity, _LEAST_SENSITIVITY) / float(epsilon)


def _step(scale):
    """Return a public lattice step: a power of two, between 2^-31 and 2^-30 of `scale`."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 31)


def lattice_units(sensitivity, step, roundings=1):
    """Return the integer sensitivity: rounded up, plus one for each rounding to the step."""
    return math.ceil(Fraction(sensitivity) / Fraction(step)) + roundings


def check_kernel(kernel, X):
    """Raise unless the kernel has variance 1 at every row of X."""
    if not isinstance(kernel, Kernel):
        raise TypeError("kernel must be a kernel of sklearn.gaussian_process.kernels, or None.")
    if not np.abs(kernel.diag(X) - 1.0).max() <= 1e-9:  # also NaN
        raise ValueError("kernel must have variance 1 at every candidate.")
    with np.errstate(all="ignore"):
        # With two arguments, as in the posterior: there Matern with nu above 19 is not finite for
        # equal points.
        if not np.isfinite(kernel(X[:100], X)).all():
            raise ValueError(f"kernel must have finite values, got {kernel}.")
