"""Evaluator of chunks: protected rows train, and other protected rows score."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import run_isolated
from skdpbo._isolation._progress import Progress
from skdpbo.model_selection.evaluation._chunks import (
    ChunkedRows,
    chunk_sensitivity,
    clipped_excess,
    excess_cap,
    excess_sensitivity,
    n_chunk_losses,
)
from skdpbo.model_selection.evaluation._evaluator import SEED, isolated_losses, train
from skdpbo.model_selection.evaluation._group_losses import group_losses
from skdpbo.model_selection.scoring._scorer import PerRecordScorer

__all__ = ["ChunkTraining", "trained_on"]

# Batches of work for each job: the rows are sent with every batch, and the last one is waited for.
_BATCHES = 4


@dataclass(repr=False, kw_only=True)
class ChunkTraining:
    """Losses of candidates that are trained on every chunk.

    A model is a function of its own chunk and of public constants, and its losses are functions of
    the model and of single rows.

    Attributes
    ----------
    estimator : estimator
        Not fitted; it is cloned.
    rows : ChunkedRows
    fit_params : dict
        Entries as long as ``rows.X`` go with their rows; the others are public.
    scorer : PerRecordScorer
    excess_bound : float or None
        See `Chunks`.
    n_jobs, pre_dispatch
        As in joblib.
    verbose : int
        Of the `Progress`.
    """

    estimator: Any
    rows: ChunkedRows
    fit_params: dict
    scorer: PerRecordScorer
    excess_bound: float | None
    n_jobs: int | None
    pre_dispatch: int | str
    verbose: int = 0

    def __reduce__(self):
        raise TypeError("protected rows are not pickled with the searcher.")

    @property
    def n_losses(self):
        """Number of losses in a total."""
        return n_chunk_losses(*self.rows.size)

    @property
    def sensitivity(self):
        """Largest change of a total when one protected record, or group, is replaced."""
        return chunk_sensitivity(self.scorer.units, *self.rows.size)

    def _excess_cap(self):
        """Return the cap of the excess, and its sensitivity."""
        k, _, m = self.rows.size
        cap = excess_cap(self.scorer.units, self.excess_bound, *self.rows.size)
        return cap, excess_sensitivity(self.scorer.units, cap, k, m)

    def release(self, choice, candidates, *, source):
        """Release a choice among candidates, and its score.

        Parameters
        ----------
        choice : PrivateChoice
        candidates : list of dict
        source : RandomSource

        Returns
        -------
        index : int
        score : ReleasedScore or None
        """
        losses = self.losses(candidates)
        compared = None
        if self.excess_bound is not None:
            cap, sensitivity = self._excess_cap()
            compared = clipped_excess(losses, cap), sensitivity
        totals = [sum(of_models) for of_models in losses]

        def score(k, epsilon):
            return self.scorer.release_score(
                (totals[k],), epsilon, self.n_losses, source, sensitivity=self.sensitivity
            )

        return choice.release(
            totals,
            [0] * len(candidates),  # offsets: no public score is known
            sensitivity=self.sensitivity,
            score=score,
            source=source,
            compared=compared,
        )

    def totals(self, candidates, **how):
        """Total the losses of each candidate. Protected: pass only to a mechanism.

        Parameters
        ----------
        candidates : list of dict
        **how
            Not used: no error is public.

        Returns
        -------
        totals : list of int
        """
        return [sum(of_models) for of_models in self.losses(candidates)]

    def losses(self, candidates):
        """Total the losses of each model. Protected: pass only to a mechanism.

        Parameters
        ----------
        candidates : list of dict

        Returns
        -------
        losses : list of list of int, shape (n_candidates, n_chunks)
            A model that cannot be trained or scored has the worst loss on every row.
        """
        n_chunks = len(self.rows.chunks)
        pairs = [(k, j) for k in range(len(candidates)) for j in range(n_chunks)]
        n_batches = min(len(pairs), _BATCHES * max(effective_n_jobs(self.n_jobs), 1))
        # Dealt in turn: candidates that train slowly are spread over the batches.
        batches = [pairs[start::n_batches] for start in range(n_batches)]
        common = self.estimator, candidates, self.rows, self.fit_params, self.scorer
        progress = None
        if self.verbose:
            models = (
                f"{len(candidates)} candidates on each of {n_chunks} chunks: {len(pairs)} models"
            )
            heading = f"Training {models}, in {n_batches} parts"
            progress = Progress(self.verbose, heading, n_batches, "parts")
        results = run_isolated(
            _losses_of_batch,
            [(self.loss_of_model, self.worst_loss, batch, *common) for batch in batches],
            n_jobs=self.n_jobs,
            pre_dispatch=self.pre_dispatch,
            progress=progress,
        )
        losses = [[0] * n_chunks for _ in candidates]
        for batch, of_batch in zip(batches, results, strict=True):
            for (k, j), loss in zip(batch, of_batch, strict=True):
                losses[k][j] = loss
        return losses

    @staticmethod
    def loss_of_model(estimator, params, j, rows, fit_params, scorer):
        """Train on chunk j, and total the losses on what is outside. Protected."""
        model = trained_on(rows.chunks[j], estimator, params, j, rows, fit_params)
        X, y, groups = rows.scoring(rows.outside(j) if rows.X_val is None else None)
        if groups is None:
            return int(isolated_losses(model, scorer, X, y).sum())
        unreadable = np.zeros(len(groups), dtype=bool)  # each is shown to the model
        return int(group_losses(model, scorer, X, y, unreadable, False, groups).sum())

    @staticmethod
    def worst_loss(j, rows, fit_params, scorer):
        """Return the loss of a model that cannot be trained or scored."""
        # That of every row which the model would have scored, a public number.
        outside = rows.n_samples - len(rows.chunks[j])
        return scorer.units * (outside if rows.X_val is None else rows.n_validation)


def trained_on(units, estimator, params, j, rows, fit_params):
    """Return a candidate trained on some units of chunk j. Protected."""
    positions = rows.training(units)
    model = clone(estimator).set_params(**clone(params, safe=False))
    # The seed is of the chunk, not of the candidate: candidates are compared under equal draws.
    model, _ = train(model, rows.X, rows.y, fit_params, rows=positions, seed=SEED + j)
    return model


def _losses_of_batch(loss_of_model, worst_loss, batch, estimator, candidates, *of_rows):
    """Protected: loss of each (candidate, chunk); the worst if anything fails."""
    losses = []
    for k, j in batch:
        loss, error = attempt(loss_of_model, estimator, candidates[k], j, *of_rows)
        losses.append(loss if error is None else worst_loss(j, *of_rows))
    return losses
