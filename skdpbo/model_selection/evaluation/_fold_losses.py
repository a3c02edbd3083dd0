"""Losses of public rows by models that were not trained on them. No protected row is read."""

from functools import cached_property

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import run_isolated
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import LowBoundWarning
from skdpbo.model_selection._sklearn import take_rows, without_callbacks
from skdpbo.model_selection.evaluation._evaluator import isolated_losses, train

__all__ = ["FoldLosses"]

_COMMON = 0.03  # share of records above the largest loss that counts from which it misleads


class FoldLosses:
    """Integer losses of each public row, by the model of the fold that leaves it out.

    Parameters
    ----------
    training : PublicTraining
        Its public rows, estimator and scorer are read.
    cv : int, cross-validation generator or iterable
    groups : sequence or None
        Of the public rows, for the splitter.

    Attributes
    ----------
    units : int
        Largest loss.
    """

    def __init__(self, training, cv, groups=None):
        self._training = training
        self._cv = cv
        self._groups = groups
        self.units = int(training.scorer.units)

    @cached_property
    def _splits(self):
        of = self._training
        cv = check_cv(self._cv, of.y, classifier=is_classifier(of.estimator))
        return list(cv.split(of.X, of.y, self._groups))

    @cached_property
    def folds(self):
        """Number of the fold of each loss, ndarray of shape (n_losses,)."""
        return np.repeat(np.arange(len(self._splits)), [len(test) for _, test in self._splits])

    def losses(self, candidates, kind=isolated_losses):
        """Return the losses of the rows with each candidate.

        Parameters
        ----------
        candidates : list of dict
        kind : callable, default=isolated_losses
            ``kind(model, scorer, X, y)`` returns the losses of some rows.

        Returns
        -------
        losses : list of (ndarray of shape (n_losses,), dtype int64, or None)
            In {0, ..., units}, in the order of `folds`; None where a fold fails.
        """
        of = self._training
        estimator = without_callbacks(clone(of.estimator))
        common = (of.X, of.y, of.fit_params), of.scorer, kind
        tasks = [
            (estimator, params, *common, split) for params in candidates for split in self._splits
        ]
        parts = run_isolated(_scored, tasks, n_jobs=of.n_jobs, pre_dispatch=of.pre_dispatch)
        k = len(self._splits)
        of_candidates = [parts[i : i + k] for i in range(0, len(parts), k)]
        return [
            None if any(part is None for part in parts) else np.concatenate(parts)
            for parts in of_candidates
        ]

    def warn_of_low_bound(self, params):
        """Warn where a few per cent of the public records have the largest loss.

        Parameters
        ----------
        params : dict
            The best candidate on the public rows.
        """
        scorer = self._training.scorer
        if not (scorer.is_mean and getattr(scorer, "may_clip", False)):
            return
        (losses,) = self.losses([params], _unclipped_losses)
        if losses is None:
            return
        share = float(np.mean(losses > scorer.bound * (1 + 1e-9)))  # above, not by rounding alone
        if share > _COMMON:
            # A bound that few enough records exceed, and at least twice the one that was too low.
            enough = max(float(np.quantile(losses, 1 - _COMMON / 2)), 2 * scorer.bound)
            enough = enough if np.isfinite(enough) else 2 * scorer.bound
            warn_caller(
                f"{share:.0%} of the public records lose more than {scorer.bound:.4g} at the best "
                "public candidate, and no loss above that counts: worse predictions of these cost "
                "nothing, so that candidates may win that are badly wrong on some records. By the "
                f"public rows, take loss_bound={float(f'{enough:.2g}'):g}.",
                LowBoundWarning,
            )


def _scored(estimator, params, public, scorer, kind, split):
    return attempt(_fitted, estimator, params, public, scorer, kind, split)[0]


def _fitted(estimator, params, public, scorer, kind, split):
    (X, y, fit_params), (rows, left_out) = public, split
    model = clone(estimator).set_params(**clone(params, safe=False))
    model, _ = train(model, X, y, fit_params, rows=rows)
    targets = None if y is None else take_rows(y, left_out)
    return kind(model, scorer, take_rows(X, left_out), targets)


def _unclipped_losses(model, scorer, X, y):
    return np.asarray(scorer._loss(model, y, scorer._predict(model, X, y)), dtype=np.float64)
