"""Gaussian noise on adaptively chosen scores; the search and its winner are post-processing.

Sensitivity: one record moves each total integer loss by at most B, so q of them, adaptively chosen,
by at most B sqrt(q) in l2 norm.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from skdpbo.mechanisms import GaussianMechanism
from skdpbo.model_selection._frozen_parameters import FrozenParameters
from skdpbo.model_selection._private_choice import CHOICE_ASSUMPTIONS
from skdpbo.model_selection._search_mechanism import VisitingSearch
from skdpbo.model_selection.bayes._two_task_ucb import (
    PrivateTrajectoryProposer,
    automatic_n_private,
)
from skdpbo.model_selection.scoring._score_release import ReleasedScore
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_delta, check_positive, check_within
from skdpbo.privacy._rounding import round_up_root

# Binary digits of a sensitivity, as many as those of the losses of one record.
_DIGITS = 21


@dataclass(frozen=True, kw_only=True)
class GaussianTrajectory(FrozenParameters):
    """Gaussian noise on every private evaluation; everything else is post-processing.

    ``mechanism="gaussian"`` of `DPBayesSearchCV` is this with its defaults.

    Parameters
    ----------
    n_private : int or "auto", default="auto"
        Number q >= 1 of private evaluations, among `n_iter` candidates. The noise of each score has
        standard deviation (bound / m) sqrt(q) / mu for m records. "auto": 5 to 20, from public
        numbers alone. Without public scores (``guide=False``) every candidate is scored privately.
    disagreement : float or "auto", default="auto"
        Standard deviation tau of (protected score - public score) across candidates, in (0, 1e100],
        a modelling assumption in the units of the score. "auto" estimates it from the public folds.

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
            check_count(self.n_private, "n_private")
        if self.disagreement != "auto":
            check_within(self.disagreement, "disagreement", "(0, 1e100]")


def trajectory_sensitivity(sensitivity, n_private):
    """L2 sensitivity D sqrt(q), rounded up, of q totals that one record moves by D each."""
    # q totals, each moved by at most D: |(D, ..., D)|_2 = D sqrt(q).
    return round_up_root(int(sensitivity) ** 2 * int(n_private))


def coarse_step(sensitivity):
    """Return a lattice for totals in which one record moves very many losses.

    Returns
    -------
    step : int
        Totals are divided by it and rounded down; 1 if one record moves one loss.
    coarse_sensitivity : int
        Sensitivity of a total in steps: |floor(a / s) - floor(b / s)| <= floor(|a - b| / s) + 1.
    """
    step = 2 ** max(int(sensitivity).bit_length() - _DIGITS, 0)
    return step, int(sensitivity) if step == 1 else int(sensitivity) // step + 1


class PrivateScores(VisitingSearch):
    """Search guided by noisy scores of some visited candidates; the surrogate picks the winner.

    Parameters
    ----------
    mechanism : GaussianTrajectory
    epsilon, delta : float
    design : dict
        Parameters of the `PrivateTrajectoryProposer`.
    """

    reads_early = True

    def __init__(self, mechanism, epsilon, delta, design):
        mechanism.check()
        self._mechanism = mechanism
        self._design = design
        self._budget = {"epsilon": check_positive(epsilon, "epsilon"), "delta": check_delta(delta)}
        if not self._budget["delta"] > 0:
            raise ValueError('delta must be positive with mechanism="gaussian".')
        # For the statement of mu alone, which does not depend on the sensitivity B sqrt(q).
        mu = GaussianMechanism(**self._budget, sensitivity=1.0, lattice=1.0).guarantee.mu
        self.guarantee = PrivacyGuarantee(
            **self._budget,
            mu=mu,
            protects="validation records",
            mechanism="Gaussian noise on the scores of adaptively chosen candidates",
            assumptions=CHOICE_ASSUMPTIONS,
            reference="Dong, Roth & Su 2022, Theorem 2.7; Kusner et al. 2015 for the search",
        )

    def start(self, problem, guided):
        """Prepare the search; no protected value is read."""
        super().start(problem, guided)
        tau = self._mechanism.disagreement
        tau = None if tau == "auto" else float(tau)
        # No more than there are candidates: the noise grows with the number of scores.
        n_iter = min(self._design["n_iter"], len(problem.candidates))
        self.n_proposals = n_iter
        n_private = n_iter  # without public scores every candidate is scored privately
        if guided and self._mechanism.n_private != "auto":
            n_private = min(int(self._mechanism.n_private), n_iter)
        elif guided:
            n_private = automatic_n_private(
                n_records=problem.n_losses,
                mu=self.guarantee.mu,
                bound=problem.scorer.bound,
                n_iter=n_iter,
                disagreement=tau,
            )
        self._step, sensitivity = coarse_step(problem.evaluator.sensitivity)
        # Totals and noise are integers, so that floating-point digits reveal nothing.
        self._gaussian = GaussianMechanism(
            **self._budget,
            sensitivity=trajectory_sensitivity(sensitivity, n_private),
            lattice=1.0,
            n_draws=n_private,
        )
        self._n_left = n_private
        # From steps of the lattice to units of the loss, and from units to the score.
        sigma = self._gaussian.sigma * self._step
        self._noise_variance = (sigma * problem.scorer.bound / problem.largest) ** 2
        self._released = {}
        self._proposer = PrivateTrajectoryProposer(
            problem.space.encode(problem.candidates),
            n_private=n_private,
            bound=problem.scorer.bound,
            disagreement=tau,
            guided=guided,
            **self._design,
        )

    def ask(self, scores):
        """Return the next indices to cross-validate; private evaluations are made in between."""
        if scores is not None:
            self._proposer.tell_public(scores.mean, scores.splits)
        # Private evaluations need no folds: they go on until candidates are to be cross-validated,
        # or until nothing is left.
        while True:
            indices = self._proposer.ask_private()
            folds, unread = self._problem.folds, self._n_left == self._gaussian.n_draws
            if indices and unread and folds is not None:  # warn before the charge
                best = self._proposer.visited[int(np.nan_to_num(scores.mean, nan=-np.inf).argmax())]
                # The winner's score has about the noise of one measurement, or more.
                noise = math.sqrt(self._noise_variance) / self._problem.scorer.bound
                folds.warn(self._problem.candidates[best], noise)
            if indices:
                self._use(*self._measure(indices))
            proposed = self._proposer.ask_public()
            if proposed or not indices:
                return proposed

    def _measure(self, indices):
        """Release noisy totals; return (candidates that could be trained, noisy totals)."""
        # The noise is calibrated for this number of scores; the proposer is not trusted with it.
        if len(indices) > self._n_left:
            raise RuntimeError("more private scores were requested than the budget was divided by.")
        self._n_left -= len(indices)
        totals = self._problem.totals(indices, none_may_be_left=True)
        trained = [k for k, total in zip(indices, totals, strict=True) if total is not None]
        # Public, as they fail on the public rows.
        self._proposer.discarded |= {k for k in indices if k not in trained}
        if not trained:
            return [], []
        exact = np.array([total for total in totals if total is not None], dtype=np.int64)
        # Rounding down adds up to one step to the sensitivity: see coarse_step.
        return trained, self._gaussian.release(exact // self._step, source=self._problem.source)

    def _use(self, trained, noisy):
        """Pass released totals on to the surrogate."""
        scores = [self._problem.score(int(total) * self._step) for total in noisy]
        for k, score in zip(trained, scores, strict=True):
            self._released.setdefault(k, []).append(score)  # a candidate may be measured again
        if trained:
            self._proposer.tell_private(trained, scores, self._noise_variance)

    def release_choice(self, scores):
        """Return (index of the winner, its score), both post-processing."""
        if not self._released:
            self._problem.totals(self._proposer.visited)  # raises the error on public rows
        best = self._proposer.best()
        # The range of the score is public: clipping to it is post-processing.
        worst, perfect = (self._problem.score(total) for total in (self._problem.largest, 0))
        score, std = self._winning_score(best)
        return best, ReleasedScore(min(max(score, worst), perfect), std)

    def _winning_score(self, index):
        """Return (score, its standard deviation), robust to a wrong surrogate.

        The posterior mean, clipped to within one standard deviation of the mean of the candidate's
        own noisy scores, whose noise does not depend on the surrogate.
        """
        mean, std = self._proposer.posterior_at(index)
        own = self._released.get(index, [])
        noise = math.sqrt(self._noise_variance / max(len(own), 1))
        if not own:  # never measured: only the surrogate is available
            return mean, max(std, noise)
        measured = float(np.mean(own))
        clipped = min(max(mean, measured - noise), measured + noise)
        return clipped, max(std, math.hypot(noise, clipped - measured))

    def _chosen(self, indices, index, score):
        # Mean noisy score of each candidate; NaN if it was not measured.
        scores = np.array([np.mean(self._released.get(k, np.nan)) for k in indices])
        chosen = super()._chosen(indices, index, score)
        return replace(chosen, columns={"private_validation_score": scores})

    def search_unguided(self):
        """Visit and measure candidates, then release the winner."""
        while self._proposer.ask_public():
            indices = self._proposer.ask_private()
            if indices:
                self._use(*self._measure(indices))
        return self._chosen(list(self._proposer.visited), *self.release_choice(None))
