"""Gaussian noise on adaptively chosen scores; the search and its winner are post-processing.

Sensitivity: one record moves each total integer loss by at most B, so q of them, adaptively chosen,
by at most B sqrt(q) in l2 norm.
"""

import math
import numbers
from dataclasses import dataclass

import numpy as np

from skdpbo.mechanisms import GaussianMechanism
from skdpbo.model_selection._choice import CHOICE_ASSUMPTIONS
from skdpbo.model_selection._private_proposals import (
    PrivateTrajectoryProposer,
    automatic_n_private,
)
from skdpbo.privacy import PrivacyGuarantee, check_delta, check_epsilon

__all__ = ["GaussianTrajectory", "PrivateScores", "coarse_step", "trajectory_sensitivity"]

# Binary places of the square root in the sensitivity.
_BITS = 64
# Binary digits of a sensitivity, as many as those of the losses of one record.
_DIGITS = 21


@dataclass(frozen=True, kw_only=True)
class GaussianTrajectory:
    """Gaussian noise on every private evaluation; the rest is post-processing.

    ``mechanism="gaussian"`` of `DPBayesSearchCV` is this with its defaults.

    Parameters
    ----------
    n_private : int or "auto", default="auto"
        Number q >= 1 of the `n_iter` candidates that are also scored on the protected records. The
        noise of each score has standard deviation (bound / m) sqrt(q) / mu. "auto" takes 5 to 20,
        from public numbers alone. Without public scores (``guide=False``) every candidate is scored
        privately.
    disagreement : float or "auto", default="auto"
        Standard deviation tau > 0 of (protected score - public score) across candidates, a
        modelling assumption in the units of the score. "auto" estimates it from the public folds.

    See Also
    --------
    DPBayesSearchCV : The searcher.

    Notes
    -----
    One record moves each total loss by at most B, so q totals, adaptively chosen, by at most
    B sqrt(q) in l2 norm. The Gaussian mechanism makes them mu-GDP together (Dong, Roth & Su 2022,
    Theorem 2.7 and Corollary 3.3), with mu the largest that implies (epsilon, delta). The
    proposals, the surrogate, the winner and its score are functions of the noisy scores.

    Examples
    --------
    >>> from skdpbo.model_selection import GaussianTrajectory
    >>> GaussianTrajectory(n_private=10)
    GaussianTrajectory(n_private=10, disagreement='auto')
    """

    n_private: int | str = "auto"
    disagreement: float | str = "auto"

    def check(self):
        """Raise ValueError or TypeError, by the parameter's name."""
        if self.n_private != "auto":
            if isinstance(self.n_private, bool) or not isinstance(self.n_private, numbers.Integral):
                raise TypeError('n_private must be an integer or "auto".')
            if self.n_private < 1:
                raise ValueError("n_private must be at least 1.")
        if self.disagreement != "auto":
            if isinstance(self.disagreement, bool) or not isinstance(
                self.disagreement, numbers.Real
            ):
                raise TypeError('disagreement must be a number or "auto".')
            if not 0 < self.disagreement < math.inf:
                raise ValueError("disagreement must be positive and finite.")


def trajectory_sensitivity(sensitivity, n_private):
    """L2 sensitivity D sqrt(q), rounded up, of q totals that one record moves by D each."""
    square = int(sensitivity) ** 2 * int(n_private)
    above = math.isqrt(square << 2 * _BITS) + 1  # integers: no rounding can fall below
    return math.nextafter(above / 2**_BITS, math.inf)


def coarse_step(sensitivity):
    """Lattice for totals of which one record moves very many losses.

    Returns
    -------
    step : int
        Totals are divided by it and rounded down; 1 where one record moves one loss.
    coarse : int
        Largest change of a total in steps: |floor(a / s) - floor(b / s)| <= floor(|a - b| / s) + 1.
    """
    step = 2 ** max(int(sensitivity).bit_length() - _DIGITS, 0)
    return step, int(sensitivity) if step == 1 else int(sensitivity) // step + 1


class PrivateScores:
    """Noisy scores of some visited candidates steer the search; the surrogate names the winner."""

    guided = (True, False)

    def __init__(self, mechanism, epsilon, delta):
        mechanism.check()
        self._mechanism = mechanism
        self._budget = {"epsilon": check_epsilon(epsilon, "epsilon"), "delta": check_delta(delta)}
        if not self._budget["delta"] > 0:
            raise ValueError('delta must be positive with mechanism="gaussian".')
        # For the statement alone: the sensitivity, B sqrt(q), moves the noise and not the promise.
        mu = GaussianMechanism(**self._budget, sensitivity=1.0, lattice=1.0).guarantee.mu
        self._mu = mu
        self.guarantee = PrivacyGuarantee(
            **self._budget,
            mu=mu,
            protects="validation records",
            mechanism="Gaussian noise on the scores of adaptively chosen candidates",
            assumptions=CHOICE_ASSUMPTIONS,
            reference="Dong, Roth & Su 2022, Theorem 2.7; Kusner et al. 2015 for the search",
        )
        self._released = {}

    def start(self, search, guided=True):
        """Make ready; no protected value is read."""
        n_iter = min(search.design["n_iter"], len(search.candidates))
        n_private = self._n_private(search, n_iter) if guided else n_iter
        self._search = search
        self._step, sensitivity = coarse_step(search.sensitivity)
        self._gaussian = GaussianMechanism(
            **self._budget,
            sensitivity=trajectory_sensitivity(sensitivity, n_private),
            lattice=1.0,
            n_draws=n_private,
        )
        self._n_left = n_private
        self._all_units = search.n_records * search.scorer.units
        sigma = self._gaussian.sigma * self._step
        self._noise_variance = (sigma * search.scorer.bound / self._all_units) ** 2
        tau = self._mechanism.disagreement
        self._proposer = PrivateTrajectoryProposer(
            search.X,
            n_private=n_private,
            bound=search.scorer.bound,
            disagreement=None if tau == "auto" else float(tau),
            guided=guided,
            **search.design,
        )

    def _n_private(self, search, n_iter):
        if self._mechanism.n_private != "auto":
            return min(int(self._mechanism.n_private), n_iter)
        tau = self._mechanism.disagreement
        return automatic_n_private(
            n_records=search.n_records,
            mu=self._mu,
            bound=search.scorer.bound,
            n_iter=n_iter,
            disagreement=None if tau == "auto" else float(tau),
        )

    def propose(self, public):
        """Next candidates for public cross-validation; private rounds are made in between."""
        if public is not None:
            self._proposer.tell_public(public.mean, public.splits)
        while True:
            measured = self._measure()
            proposed = self._proposer.ask_public()
            if proposed or not measured:
                return proposed

    def _measure(self):
        """One private round: (candidates measured, noisy scores told); False if none is due."""
        indices = self._proposer.ask_private()
        if not indices:
            return False
        # The noise was made for so many scores: the promise may not rest on who proposes.
        if len(indices) > self._n_left:
            raise RuntimeError("more private scores were asked for than the budget was divided by.")
        self._n_left -= len(indices)
        totals = self._search.totals(indices, none_may_be_left=True)
        trained = [k for k, total in zip(indices, totals, strict=True) if total is not None]
        self._proposer.discard([k for k in indices if k not in trained])
        if trained:
            exact = np.array([total for total in totals if total is not None], dtype=np.int64)
            noisy = self._gaussian.release(exact // self._step, source=self._search.source)
            scores = [self._search.score(int(total) * self._step) for total in noisy]
            for k, score in zip(trained, scores, strict=True):
                self._released.setdefault(k, []).append(score)
            self._proposer.tell_private(trained, scores, self._noise_variance)
        return True

    def choose(self, public):
        """Index of the winner, and its score, both post-processing."""
        if not self._released:
            self._search.totals(self._proposer.visited)  # raises what is wrong on public rows
        best = self._proposer.best()
        worst, perfect = (self._search.score(total) for total in (self._all_units, 0))
        score = min(max(self._proposer.posterior_mean(best), worst), perfect)
        return best, score

    def released_scores(self, indices):
        """Mean noisy score of each candidate; NaN where none was taken."""
        return np.array([np.mean(self._released.get(k, np.nan)) for k in indices])

    def search_unguided(self):
        """Visit and measure; return (visited indices, index of the winner, its score)."""
        while self._proposer.ask_public():
            self._measure()
        return [*self._proposer.visited], *self.choose(None)
