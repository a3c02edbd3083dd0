"""Evaluator of ``protect="validation"``: public rows train, protected rows score."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from skdpbo._attempt import attempt_publicly
from skdpbo._isolation._estimator_parts import own_params, parts_inside
from skdpbo._isolation._isolated_calls import in_isolation, run_isolated
from skdpbo._isolation._parallel import Progress
from skdpbo._record_groups import random_batches
from skdpbo.mechanisms import RandomSource
from skdpbo.model_selection._sklearn import (
    n_rows,
    take_rows,
    with_params,
    without_callbacks,
)
from skdpbo.model_selection.evaluation._row_independence import (
    MixedRowsError,
    one_of_each_structure,
    refuse_row_mixing,
    watched_steps,
)
from skdpbo.model_selection.evaluation._row_wise import unverified_parts
from skdpbo.model_selection.evaluation._train_and_score import isolated_outcomes, train, try_scorer
from skdpbo.model_selection.rows._protected import NotPickled, ProtectedRows
from skdpbo.model_selection.scoring._score_release import score_of_secret_count
from skdpbo.model_selection.scoring._scorer import PerRecordScorer

_N_MIXED = 100  # public rows on which a model is trained to test whether it mixes rows
_N_TRIED = 10  # public rows on which a scorer is tried


@dataclass(repr=False, kw_only=True)
class PublicTraining(NotPickled):
    """Losses on the protected records of candidates that are trained on the public rows.

    Attributes
    ----------
    estimator : estimator
        Not fitted; it is cloned.
    X, y, fit_params
        Public rows, their targets, and further arguments of ``fit``.
    scorer : PerRecordScorer
    n_losses : int or None
        Number of losses in a total: of protected records, or of their groups. None if secret.
    open_records : callable
        Charges for the protected records, reads them and returns them as `ProtectedRows`.
    source : RandomSource
        Draws the positions of records in batches if their number is secret.
    candidates : list of dict
        All of them: one of each structure is tested for steps that mix rows.
    trials : list of dict
        Candidates, the first usable of which is trained and scored on public rows before the
        charge, so that public errors cost nothing. Empty: the folds have been trained before.
    raise_errors : bool
        Raise when a candidate cannot be trained on, or cannot score, the public rows, instead of
        leaving it out.
    n_jobs, pre_dispatch
        As in joblib.
    verbose : int
        Of the `Progress` of a release.
    """

    estimator: Any
    X: Any
    y: Any
    fit_params: dict
    scorer: PerRecordScorer
    n_losses: int | None
    open_records: Callable[[], ProtectedRows]
    source: RandomSource
    candidates: list
    trials: list
    raise_errors: bool
    n_jobs: int | None
    pre_dispatch: int | str
    verbose: int = 0
    _released_count: int | None = None

    @property
    def sensitivity(self):
        """Largest change of a total when one record or group is replaced: its own loss."""
        return self.scorer.units

    @cached_property
    def records(self):
        """Protected rows: charged for and read here, at the last moment."""
        # Public errors are raised before the charge: afterwards they would cost the budget.
        self._refuse_row_mixing(*self._try_public_rows())
        return self.open_records()

    @cached_property
    def _batches(self):
        """Protected: random batches of the records, whose number is secret."""
        return random_batches(n_rows(self.records.X), self.source)

    def release(
        self, choice, candidates, *, offsets=None, source, public_score=np.nan, public_counts=()
    ):
        """Release a choice among candidates, and its score.

        Parameters
        ----------
        choice : PrivateChoice
        candidates : list of dict
        offsets : list of int, default=None
            Public integers that are added in the choice.
        source : RandomSource
        public_score : float, default=NaN
            Best public score of the candidates, for the cost weights of a ratio.
        public_counts : sequence, default=()
            Confusion matrices of the candidates on public rows, for the same weights.

        Returns
        -------
        index : int
        score : ReleasedScore or None
        """
        # The cost weights of a ratio are set before any loss is read, from public numbers alone.
        noise = None
        if self.n_losses is not None:
            noise = choice.epsilon_choice, len(candidates), self.n_losses
        scorer = self.scorer.informed_by(public_score, noise, public_counts)
        sums = self.losses(candidates, scorer.exact_sums, progress=self._progress(candidates))

        def score(k, epsilon):
            if self.n_losses is not None:
                return scorer.release_score(sums[k], epsilon, self.n_losses, source)
            count, n_records = self.count(choice, source), self.records.n_losses
            options = {"epsilon": epsilon, "count": count, "source": source}
            return score_of_secret_count(scorer, sums[k][0], n_records, **options)

        return choice.release(
            _totals(sums),
            [0] * len(candidates) if offsets is None else offsets,
            sensitivity=scorer.choice_sensitivity(self.n_losses),
            score=score,
            source=source,
        )

    def count(self, choice, source):
        """Return the number of losses: public, or released with noise, once a fit.

        Parameters
        ----------
        choice : PrivateChoice
        source : RandomSource

        Returns
        -------
        count : int or None
            None if it is secret and the choice has no budget for it.
        """
        if self.n_losses is not None:
            return self.n_losses
        # Cached: a second noisy count would be a second release.
        if self._released_count is None:
            self._released_count = choice.release_count(self.records.n_losses, source)
        return self._released_count

    def totals(self, candidates, **options):
        """Total the losses of each candidate. Protected: pass only to a mechanism.

        Parameters
        ----------
        candidates : list of dict
        **options
            As for `losses`.

        Returns
        -------
        totals : list of (int or None)
            In {0, ..., n_losses * ``scorer.units``}; None for a candidate that fails on the
            *public* rows.
        """
        if not options.get("order_is_secret"):  # else their number may be secret, too
            options["progress"] = self._progress(candidates)
        return _totals(self.losses(candidates, self.scorer.exact_sums, **options))

    def _progress(self, candidates):
        n = len(candidates)
        if not self.verbose or n < 2:  # no progress to report for a single candidate
            return None
        heading = f"Training on all public rows, scoring the protected ones: candidates 1 to {n}"
        return Progress(self.verbose, heading, n, "candidates")

    def losses(
        self,
        candidates,
        reduce=None,
        *,
        none_may_be_left=False,
        order_is_secret=False,
        progress=None,
    ):
        """Return the losses of records or groups under each candidate.

        Protected: pass only to a mechanism.

        Parameters
        ----------
        candidates : list of dict
        reduce : callable, default=None
            Applied to the losses, or outcomes of a metric, of each candidate; its value is returned
            in their place.
        none_may_be_left : bool, default=False
            False: if all candidates fail on the public rows, the first error is raised.
        order_is_secret : bool, default=False
            Whether the list of candidates depends on protected rows. If so, public errors are not
            raised and caches of pipelines are not used, as their files would reveal the order.
        progress : Progress, default=None

        Returns
        -------
        losses : list of (ndarray of shape (n_losses,), dtype int64, or None)
            In {0, ..., ``scorer.units``}; None for a candidate that fails on the *public* rows.
        """
        # Rounding may depend on the size of the batch and on the position of the row in it.
        batches = self._batches if self.n_losses is None else None
        rows = self.records.X, self.records.y, self.records.unreadable, batches
        public = self.X, self.y, self.fit_params
        common = public, order_is_secret, rows, self.records.groups, self.scorer, reduce
        # No callbacks: these models predict protected rows.
        estimator = without_callbacks(clone(self.estimator))
        results = run_isolated(
            _reduced_outcomes,
            [(estimator, params, *common) for params in candidates],
            n_jobs=self.n_jobs,
            pre_dispatch=self.pre_dispatch,
            progress=progress,
        )
        losses, errors = zip(*results, strict=True)
        failed = [error for error in errors if error is not None]
        none_left = len(failed) == len(losses) and not none_may_be_left
        # An error on public rows, of candidates in a public order, is public.
        if failed and not order_is_secret and (self.raise_errors or none_left):
            raise failed[0]
        return list(losses)

    def _refuse_row_mixing(self, tried, model):
        """Raise if a step mixes rows, tested on models that are trained on some public rows.

        `model`, trained with the params `tried`, is used if no training needs to be watched.
        """
        if model is not None and unverified_parts(model):
            tried = None
        n = n_rows(self.X)
        # Evenly spaced: tables are often sorted, and the first rows may be of one class.
        some = np.unique(np.linspace(0, n - 1, min(n, _N_MIXED)).astype(int))
        response = self.scorer.response_method
        for params in one_of_each_structure(self.candidates):
            trial = _fit_and_refuse_mixing, self.estimator, params, self, some
            # Compared by identity: equal dicts may hold different objects.
            if params is tried:
                trial = refuse_row_mixing, model, take_rows(self.X, some), response
            _, error = in_isolation(attempt_publicly, *trial)
            if isinstance(error, MixedRowsError):
                raise ValueError(str(error))

    def _try_public_rows(self):
        """Return a candidate that can be trained, and its model; else raise the first error."""
        first = None
        for params in self.trials:
            public = self.X, self.y, self.fit_params
            trial = _trained_on_public_rows, self.estimator, params, public, True, self.scorer
            model, error = in_isolation(attempt_publicly, *trial)
            if error is None:
                return params, model
            first = first or error
            if self.raise_errors:
                break
        if first is not None:
            raise first
        return None, None


def _fit_and_refuse_mixing(estimator, params, public, some):
    model = _without_caches(with_params(estimator, params))
    with watched_steps(model):
        model, _ = train(model, public.X, public.y, public.fit_params, rows=some)
    refuse_row_mixing(model, take_rows(public.X, some), public.scorer.response_method)


def _without_caches(estimator):
    for part in parts_inside(estimator):
        if "memory" in own_params(part):
            part.set_params(memory=None)
    return estimator


def _totals(sums):
    """Protected: return the first sum of each candidate."""
    return [None if of_candidate is None else of_candidate[0] for of_candidate in sums]


def _reduced_outcomes(estimator, params, public, uncached, rows, groups, scorer, reduce):
    """Return (reduced outcomes, None), protected, or (None, public error)."""
    trial = _trained_on_public_rows, estimator, params, public, uncached, scorer
    model, error = attempt_publicly(*trial)
    if error is not None:
        return None, error
    outcomes = isolated_outcomes(model, scorer, *rows, groups)
    # Reduced in the worker, so that less is sent back.
    return outcomes if reduce is None else reduce(outcomes), None


def _trained_on_public_rows(estimator, params, public, uncached, scorer):
    X, y, fit_params = public
    model = with_params(estimator, params)
    model = _without_caches(model) if uncached else model
    model, _ = train(model, X, y, fit_params)
    first = np.arange(min(_N_TRIED, n_rows(X)))
    try_scorer(model, scorer, take_rows(X, first), None if y is None else take_rows(y, first))
    return model
