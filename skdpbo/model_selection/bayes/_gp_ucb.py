"""Search by public cross-validation scores. This module handles no protected values."""

import numpy as np

from skdpbo.model_selection._search_mechanism import VisitingSearch
from skdpbo.surrogate import (
    CandidatePosterior,
    default_kernel,
    fit_hyperparameters,
    refit_due,
    select_batch,
)

# Bounds of the fitted noise, relative to the variance of the scores; the lower bound keeps the
# posterior well conditioned.
_NOISE_BOUNDS = (1e-6, 1.0)


class UpperConfidenceProposer:
    """Ask-and-tell GP-UCB, or expected improvement, over a finite candidate set.

    Parameters
    ----------
    X : ndarray of shape (n_candidates, n_features)
        Encoded candidates.
    n_iter : int
        Number of evaluations.
    n_initial_points : int
        Evaluations of the first candidates, in order, before the surrogate decides.
    batch_size : int
        Candidates proposed at once.
    sqrt_beta : float
        Multiplier of the posterior standard deviation.
    acquisition : {"ucb", "ei"}
        Upper confidence bound, or expected improvement on the best posterior mean of a visited
        candidate (the scores themselves are noisy).

    Attributes
    ----------
    kernel : Kernel
        Template for standardised scores: Matern 5/2 with one length-scale per feature.
    visited : list of int
        Candidates proposed so far, in order.
    scores : ndarray
        Their scores, with NaN replaced by the worst.
    fitted : FittedHyperparameters or None
        Of the last fit.
    posterior : CandidatePosterior or None
        Given the scores so far; None before the first.
    """

    def __init__(
        self,
        X,
        *,
        n_iter,
        n_initial_points,
        batch_size,
        sqrt_beta,
        acquisition="ucb",
    ):
        self.X = X
        self.n_iter = min(n_iter, len(X))
        self.n_initial_points = min(n_initial_points, self.n_iter)
        self.batch_size = batch_size
        self.sqrt_beta = sqrt_beta
        self.acquisition = acquisition
        self.visited = []  # in the order of the scores
        self.kernel = default_kernel(X.shape[1])
        self.scores = np.empty(0)
        self.fitted = None
        self.posterior = None

    def ask(self, at_most=None):
        """Return the next candidates' indices; empty when `n_iter` candidates have been visited.

        Parameters
        ----------
        at_most : int or None, default=None
            Further limit of this batch; the initial points are returned together in any case.
        """
        size = min(self.batch_size, self.n_iter - len(self.visited))
        size = size if at_most is None else min(size, at_most)
        if not self.visited:
            # Candidates are in the order of a space-filling design, or random.
            chosen = list(range(self.n_initial_points))
        elif size > 0:
            best = self.posterior.mean[self.visited].max() if self.acquisition == "ei" else None
            chosen = select_batch(self.posterior, size, self.sqrt_beta, self.visited, best)
        else:
            chosen = []
        self.visited += chosen
        return chosen

    def tell(self, scores):
        """Take the scores of all visited candidates, in order; NaN counts as the worst score."""
        scores = np.asarray(scores, dtype=float)
        finite = scores[np.isfinite(scores)]
        # No larger penalty: a number far below would distort the surrogate everywhere.
        scores = np.where(np.isfinite(scores), scores, finite.min() if len(finite) else 0.0)
        known, now = len(self.scores), len(scores)
        self.scores = scores
        # A fit is due at certain numbers of scores, which a batch may skip.
        if self.posterior is None or any(refit_due(t) for t in range(known + 1, now + 1)):
            fitted = fit_hyperparameters(
                self.kernel,
                self.X[self.visited],
                scores,
                noise_variance_bounds=_NOISE_BOUNDS,
                previous=self.fitted,
                # Refits start from the previous optimum and the template.
                n_starts=3 if self.fitted is None else 2,
            )
            self.fitted = fitted
            self.posterior = CandidatePosterior(
                fitted.kernel,
                self.X,
                noise_variance=fitted.noise_variance,
                prior_mean=fitted.prior_mean,
            )
            self.posterior.extend(self.visited, scores)
        else:
            self.posterior.extend(self.visited[known:now], scores[known:])


class PublicBest(VisitingSearch):
    """Search by public scores alone.

    Parameters
    ----------
    design : dict
        Parameters of the `UpperConfidenceProposer`.
    """

    guided = (True,)

    def __init__(self, design):
        self._design = design

    def start(self, problem, guided):
        """Prepare the search."""
        super().start(problem, guided)
        X = problem.space.encode(problem.candidates)
        self._proposer = UpperConfidenceProposer(X, **self._design)
        self.n_proposals = self._proposer.n_iter

    def ask(self, scores):
        """Return the next indices; none when all are visited."""
        if scores is not None:  # None before the first batch, which is a design
            self._proposer.tell(scores.mean)
        return self._proposer.ask()

    def promising(self, n):
        """Return the best `n` unvisited candidates, their expected public scores and variances."""
        posterior, candidates = self._proposer.posterior, self._problem.candidates
        unvisited = np.setdiff1d(np.arange(len(candidates)), self._proposer.visited)
        # Stable sort: the first of equal means, on every platform.
        best = unvisited[np.argsort(-posterior.mean[unvisited], kind="stable")[:n]]
        variances = np.square(posterior.std[best])
        return [candidates[k] for k in best], posterior.mean[best], variances

    def release_choice(self, scores):
        """Return (index of the best public score, None)."""
        # Without any score the first that `cv_results_` lists.
        means = np.where(scores.listed & np.isfinite(scores.mean), scores.mean, -np.inf)
        best = means.argmax() if scores.listed[means.argmax()] else scores.listed.argmax()
        return self._proposer.visited[best], None
