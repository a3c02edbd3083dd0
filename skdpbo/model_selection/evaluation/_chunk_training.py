"""Evaluators of chunks: protected rows train, and other protected rows score.

A model has a loss on each record that scores it. With a metric that is not a mean of losses, it has
a single bounded value instead, and a record belongs to one chunk alone, where it either trains or
scores the model, so that it changes one value. Proof:
``docs/theory/metrics_of_trials_and_chunks.md``, Theorem 5.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import in_own_context, run_isolated, seeded_generators
from skdpbo._isolation._parallel import Progress
from skdpbo.model_selection._sklearn import take_rows, with_params
from skdpbo.model_selection.evaluation._chunks import (
    ChunkedRows,
    chunk_positions,
    chunk_sensitivity,
    clipped_excess,
    excess_cap,
    excess_sensitivity,
    n_chunk_losses,
)
from skdpbo.model_selection.evaluation._train_and_score import SEED, isolated_outcomes, train
from skdpbo.model_selection.rows._protected import NotPickled, rows_of_units
from skdpbo.model_selection.scoring._scorer import PerRecordScorer, total_loss_sensitivity

# Batches of work for each job: with more, the rows are sent more often; with fewer, jobs idle.
_BATCHES = 4


@dataclass(repr=False, kw_only=True)
class ChunkTraining(NotPickled):
    """Losses of candidates that are trained on every chunk.

    A model is a function of its own chunk and of public constants, and each of its losses is a
    function of the model and of a single row.

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
    n_losses : int
        Number of losses in a total.
    sensitivity : int
        Largest change of a total when one protected record, or group, is replaced.
    worst_losses : list of int
        Loss of the model of each chunk where it cannot be trained or scored.
    """

    estimator: Any
    rows: ChunkedRows
    fit_params: dict
    scorer: PerRecordScorer
    excess_bound: float | None
    n_jobs: int | None
    pre_dispatch: int | str
    verbose: int = 0

    def __post_init__(self):
        (k, n, m), units = self.rows.size, self.scorer.units  # public, as all that follows
        self.n_losses = n_chunk_losses(k, n, m)
        self.sensitivity = chunk_sensitivity(units, k, n, m)
        outside = [n - len(chunk) if m is None else m for chunk in self.rows.chunks]
        self.worst_losses = [units * n_rows for n_rows in outside]

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
        # The choice may compare clipped losses, which are less sensitive; the score may not.
        compared = None
        if self.excess_bound is not None:
            cap, sensitivity = self._excess_cap()
            compared = clipped_excess(losses, cap), sensitivity
        totals = [sum(of_models) for of_models in losses]
        return choice.release(
            totals,
            [0] * len(candidates),  # offsets: no public score is known
            sensitivity=self.sensitivity,
            score=lambda k, epsilon: self.scorer.release_score(
                (totals[k],), epsilon, self.n_losses, source, sensitivity=self.sensitivity
            ),
            source=source,
            compared=compared,
        )

    def totals(self, candidates, **options):
        """Total the losses of each candidate. Protected: pass only to a mechanism.

        Parameters
        ----------
        candidates : list of dict
        **options
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
        # Round-robin: candidates that train slowly are spread over the batches.
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
            # A static method: workers get the rows, and never this object.
            [(self.loss_of_model, self.worst_losses, batch, *common) for batch in batches],
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
        """Train on chunk j, and total the losses on the rows outside it. Protected."""
        model = trained_on(rows.chunks[j], estimator, params, j, rows, fit_params)
        X, y, groups = rows.scoring(rows.outside(j) if rows.X_val is None else None)
        return int(isolated_outcomes(model, scorer, X, y, groups=groups).sum())


def trained_on(units, estimator, params, j, rows, fit_params):
    """Return a candidate trained on some units of chunk j. Protected."""
    positions = rows_of_units(rows.groups, units)
    model = with_params(estimator, params)
    # The seed depends on the chunk, not on the candidate: candidates are compared under equal
    # draws. `labels` converts to the types of the chunk: a text elsewhere types all labels.
    options = {"seed": SEED + j, "labels": is_classifier(model)}
    model, _ = train(model, rows.X, rows.y, fit_params, rows=positions, **options)
    return model


def _losses_of_batch(loss_of_model, worst_losses, batch, estimator, candidates, *of_rows):
    """Protected: return the loss of each (candidate, chunk); the worst if anything fails."""
    losses = []
    for k, j in batch:
        loss, error = attempt(in_own_context, loss_of_model, estimator, candidates[k], j, *of_rows)
        losses.append(loss if error is None else worst_losses[j])
    return losses


# Every third row of a chunk scores its model; the others train it.
_HELD_BACK = 3


def chunk_parts(rows, j):
    """Return the units that train the model of chunk j, and those that score it.

    Parameters
    ----------
    rows : ChunkedRows
    j : int

    Returns
    -------
    trained, scored : ndarray of int
        Units of ``rows.X``, disjoint; with a validation part `scored` are units of
        ``rows.X_val``, disjoint for different chunks.
    """
    chunk = rows.chunks[j]
    # `X_val` is divided, too: a record that scored several models would change several losses.
    if rows.X_val is not None:
        return chunk, chunk_positions(rows.n_validation, len(rows.chunks))[j]
    scores = np.arange(len(chunk)) % _HELD_BACK == _HELD_BACK - 1  # independent of all values
    return chunk[~scores], chunk[scores]


def refuse_empty_parts(n_chunks, n_samples, n_validation):
    """Raise if some chunk has no rows to score its model; the numbers are public."""
    least = n_chunks * (_HELD_BACK if n_validation is None else 1)
    found = n_samples if n_validation is None else n_validation
    if found < least:
        raise ValueError(
            f"Found array with n_samples={found} while a metric of {n_chunks} chunks needs at "
            f"least {least} rows, and hundreds for each chunk to be of use."
        )


class ChunkMetricTraining(ChunkTraining):
    """Losses of candidates by a `ChunkMetric` of the model of each chunk."""

    def __post_init__(self):
        k, units = len(self.rows.chunks), self.scorer.units
        self.n_losses, self.worst_losses = k, [units] * k
        self.sensitivity = total_loss_sensitivity(units)  # a record moves the loss of one chunk

    def _excess_cap(self):
        cap = max(int(self.excess_bound * self.scorer.units), 1)
        return cap, cap  # a record moves the excess of its own chunk alone

    @staticmethod
    def loss_of_model(estimator, params, j, rows, fit_params, scorer):
        """Train on one part of chunk j and score the other. Protected."""
        trained, scored = chunk_parts(rows, j)
        model = trained_on(trained, estimator, params, j, rows, fit_params)
        X, y, _ = rows.scoring(scored)
        # Of all rows at once, as the metric is not a mean. It fails if a row cannot be read.
        value, _ = attempt(_value, model, scorer, X, y)
        if value is not None:
            return scorer.loss_of(value)
        # Leave out the records that cannot be scored; each costs its share of the range.
        readable = isolated_outcomes(model, scorer.readable, X, y) == 0
        some = np.flatnonzero(readable)
        value, _ = attempt(_value, model, scorer, take_rows(X, some), take_rows(y, some))
        if value is not None:
            value = scorer.lower + (value - scorer.lower) * float(readable.mean())
        return scorer.loss_of(value)


def _value(model, scorer, X, y):
    with seeded_generators(SEED):
        return copy.deepcopy(scorer).value(model, X, y)
