"""Choice of the candidates to score privately, and of the winner.

The inputs are public scores and released (noisy) scores, so that everything in this module is
post-processing of releases.
"""

import numpy as np

from skdpbo.model_selection.bayes._gp_ucb import UpperConfidenceProposer
from skdpbo.model_selection.bayes._public_prior import public_disagreement, public_noise_variance
from skdpbo.surrogate import (
    CandidatePosterior,
    fit_hyperparameters,
    refit_due,
    two_task_posterior,
    upper_confidence_bound,
)

_FEWEST, _MOST = 5, 20
# Disagreement assumed for the number of scores, in units of the loss bound.
_TYPICAL_DISAGREEMENT = 0.02


def automatic_n_private(*, n_records, mu, bound, n_iter, disagreement=None):
    """Return the number of private scores, 5 to 20 and at most `n_iter`, from public numbers alone.

    With q scores the noise of each has standard deviation (bound / m) sqrt(q) / mu. It should not
    exceed the disagreement tau of public and protected scores, as a private score would then be
    less informative than a public one: q = (tau m mu / bound)^2, within the limits.

    Parameters
    ----------
    n_records : int
        Number m of protected records (public).
    mu : float
        Gaussian privacy budget of all scores together.
    bound : float
        Largest loss of a record, in the units of the scores.
    n_iter : int
        Number of candidates that are visited.
    disagreement : float or None, default=None
        tau, in the units of the scores; None: 2 % of `bound`.

    Returns
    -------
    int
    """
    tau = _TYPICAL_DISAGREEMENT * bound if disagreement is None else disagreement
    wanted = min((tau * n_records * mu / bound) ** 2, _MOST)
    return min(max(_FEWEST, round(wanted)), n_iter)


class PrivateTrajectoryProposer:
    """Ask-and-tell design of a trajectory of noisy private scores over a finite candidate set.

    A round, repeated until both answers are empty::

        new = proposer.ask_public()
        ...  # cross-validate `new` on public rows (guided only; skip both lines if it is empty)
        proposer.tell_public(mean_scores, split_scores)  # of all visited candidates
        scored = proposer.ask_private()
        ...  # release noisy scores of `scored` on protected rows (skip both lines if it is empty)
        proposer.tell_private(scored, noisy_scores, noise_variance)

    Guided: first GP-UCB on the public scores visits n_iter - n_private candidates, and
    `ask_private` is empty; then every round visits a batch more, proposed by the two-task
    posterior, and a batch of visited candidates is scored privately. Otherwise there are no
    public scores: every round visits new candidates and asks for their private scores.

    Parameters
    ----------
    X : ndarray of shape (n_candidates, n_features)
        Encoded candidates.
    n_private : int or None
        Total number of private scores, between which the budget is divided; None: n_iter.
    bound : float
        Largest loss of a record, in the units of the scores.
    disagreement : float or None, default=None
        tau: standard deviation of (protected score - public score) across candidates, in the units
        of the scores. None: from the public folds, see `public_disagreement`.
    guided : bool, default=True
        Whether public scores are given.
    **design
        Parameters of `UpperConfidenceProposer`: numbers of candidates visited in total, first, and
        in a round, and the width of the upper confidence bound.

    Attributes
    ----------
    visited : list of int
        Candidates in the order in which they were proposed; none twice.
    n_spent : int
        Number of private scores requested so far.
    discarded : set of int
        Candidates that cannot be trained on all public rows, even if they can on every fold.
    """

    def __init__(self, X, *, n_private, bound, disagreement=None, guided=True, **design):
        self.X, self._public = X, UpperConfidenceProposer(X, **design)
        self.n_iter = self._public.n_iter
        self.n_private = self.n_iter if n_private is None else n_private
        self.bound = bound
        self.disagreement = disagreement
        self.guided = guided
        # Index of the first candidate of the private task in the posterior.
        self._own = len(X) if guided else 0
        self.n_spent = 0
        self.visited = self._public.visited  # the same list
        # Number of visits chosen by public scores alone; later ones also use private scores.
        first = self._public.n_initial_points
        self._n_led = max(self.n_iter - self.n_private, first) if guided else first
        self._released = []  # triples (candidate, noisy score, noise variance)
        self._failed = set()  # no public score
        self.discarded = set()
        self._split_scores = None
        self._fitted = self._fitted_with = None
        self._model = None

    def ask_public(self):
        """Return the next new candidates' indices; empty when `n_iter` have been visited."""
        n_visited = len(self.visited)
        if n_visited < self._n_led:
            return self._public.ask(at_most=max(self._n_led - n_visited, 1))
        size = min(self._public.batch_size, self.n_iter - n_visited)
        if not self.guided:
            size = min(size, self.n_private - self.n_spent)
        unvisited = np.setdiff1d(np.arange(len(self.X)), self.visited)
        if not self.guided and not self._released:  # all visited candidates have failed
            chosen = unvisited[: max(size, 0)].tolist()
        else:
            chosen = self._most_promising(size, unvisited)
        self.visited.extend(chosen)
        return chosen

    def tell_public(self, scores, split_scores=None):
        """Take the public scores of all visited candidates, in order.

        Parameters
        ----------
        scores : array-like of shape (n_visited,)
            Mean scores, greater is better; NaN where a candidate failed: it counts as the worst
            score, and is not scored privately.
        split_scores : array-like of shape (n_splits, n_visited) or None, default=None
            Scores of the folds, from which the disagreement is estimated if it is not given.
        """
        scores = np.asarray(scores, dtype=float)
        n_known = len(self._public.scores)
        self._public.tell(scores)
        finite = np.isfinite(scores)
        self._failed = {k for k, good in zip(self.visited, finite, strict=True) if not good}
        self._split_scores = None if split_scores is None else np.asarray(split_scores, dtype=float)
        if self._fitted_with is not self._public.fitted:
            self._model = None  # new hyper-parameters: the posterior is recomputed on request
        elif self._model is not None:
            self._model.extend(self.visited[n_known:], self._public.scores[n_known:])

    def ask_private(self):
        """Return the candidates to score in this round; empty while public scores alone are used.

        Distinct visited candidates, at most `batch_size` (without guide: those of this round's
        `ask_public`). No candidate is repeated before all have been scored.

        Returns
        -------
        list of int
            Empty once `n_private` scores have been requested.
        """
        left = self.n_private - self.n_spent
        if not self.guided:
            chosen = self.visited[self.n_spent :][:left]
        elif len(self.visited) < min(self._n_led + 1, self.n_iter):
            chosen = []
        else:
            usable = self._usable()
            fresh = np.setdiff1d(usable, [k for k, *_ in self._released])
            # A second score of one candidate is less informative than the first of another.
            chosen = self._most_promising(
                min(self._public.batch_size, left), fresh if len(fresh) else usable
            )
        # Counted when proposed, even if they cannot be trained, so as not to exceed the budget.
        self.n_spent += len(chosen)
        return chosen

    def tell_private(self, indices, noisy_scores, noise_variance):
        """Take released scores.

        Parameters
        ----------
        indices : list of int
            As returned by `ask_private`.
        noisy_scores : array-like of shape (len(indices),)
            Released, in the units of the public scores; greater is better.
        noise_variance : float
            Variance of their noise (public).
        """
        known = len(self._released)
        values = np.asarray(noisy_scores, dtype=float).tolist()
        new = [(k, v, noise_variance) for k, v in zip(indices, values, strict=True)]
        self._released += new
        if self._model is not None:
            self._model.extend(self._own + np.array(indices), values, noise_variance)
        # With public scores the hyper-parameters are fitted to them, see `_two_tasks`.
        if not self.guided and any(refit_due(t) for t in range(known + 1, known + len(new) + 1)):
            self._model = None

    def best(self):
        """Return the visited candidate with the largest posterior mean of the protected score."""
        usable = self._usable()
        return int(usable[self._posterior().mean[self._own + usable].argmax()])

    def posterior_at(self, index):
        """Return posterior mean and standard deviation of the protected score of a candidate."""
        posterior, own = self._posterior(), self._own + index
        return float(posterior.mean[own]), float(posterior.std[own])

    def _usable(self):
        """Return the visited candidates that have not failed, or all if all have failed."""
        failed = self._failed | self.discarded
        return np.array([k for k in self.visited if k not in failed] or self.visited)

    def _most_promising(self, size, allowed):
        """Return a batch by upper confidence bounds, with GP-BUCB's hallucinated observations."""
        chosen = []
        model = self._posterior() if size < 2 else self._posterior().copy()
        while len(chosen) < min(size, len(allowed)):
            own = self._own + np.asarray(allowed)
            bound = upper_confidence_bound(model.mean[own], model.std[own], self._public.sqrt_beta)
            bound[np.isin(allowed, chosen)] = -np.inf
            chosen.append(int(allowed[bound.argmax()]))
            if len(chosen) < size:
                # Observing the mean leaves the mean unchanged and reduces the variance around it.
                last = [self._own + chosen[-1]]
                model.extend(last, model.mean[last], 0.0)
        return chosen

    def _posterior(self):
        """Return the posterior of the protected scores given all scores so far."""
        if self._model is None:
            self._model = self._two_tasks() if self.guided else self._one_task()
            if self._released:
                indices, values, variances = map(np.array, zip(*self._released, strict=True))
                self._model.extend(self._own + indices, values, variances)
        return self._model

    def _two_tasks(self):
        scores = self._public.scores
        visited = self.visited[: len(scores)]
        tau = self.disagreement
        if tau is None:
            tau = public_disagreement(self._split_scores, bound=self.bound)
        noise_variance = public_noise_variance(self._split_scores)
        # Refitted whenever the public surrogate is, whose noise is fitted instead of known.
        self._fitted_with = self._public.fitted
        self._fitted = fit_hyperparameters(
            self._public.kernel,
            self.X[visited],
            scores,
            noise_variance=noise_variance,
            noise_variance_bounds="fixed",
            previous=self._fitted_with,
            n_starts=2,
        )
        model = two_task_posterior(
            self._fitted.kernel,
            self.X,
            disagreement=tau,
            noise_variance=noise_variance,
            prior_mean=self._fitted.prior_mean,
        )
        model.extend(visited, scores)
        return model

    def _one_task(self):
        """Return the prior, its hyper-parameters fitted to released scores of known noise."""
        candidates, values, variances = (
            np.array(column) for column in zip(*self._released, strict=True)
        )
        self._fitted = fit_hyperparameters(
            self._public.kernel,
            self.X[candidates],
            values,
            noise_variance=variances,
            noise_variance_bounds="fixed",
            previous=self._fitted,
        )
        # 0: the noise variance of each observation is given with it.
        return CandidatePosterior(
            self._fitted.kernel, self.X, noise_variance=0.0, prior_mean=self._fitted.prior_mean
        )
