"""Evaluator of chunks by metrics that are no means of losses: one bounded number for each model.

A record takes part in one chunk alone: it trains its model, or scores it. So it changes one number.
Proof: ``docs/theory/metrics_of_trials_and_chunks.md``, Theorem 5.
"""

import copy

import numpy as np

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import seeded_generators
from skdpbo.model_selection._sklearn import take_rows
from skdpbo.model_selection.evaluation._chunk_training import ChunkTraining, trained_on
from skdpbo.model_selection.evaluation._chunks import chunk_positions
from skdpbo.model_selection.evaluation._evaluator import SEED, isolated_losses

__all__ = [
    "ChunkMetricTraining",
    "chunk_metric_sensitivity",
    "chunk_parts",
    "metric_excess_cap",
    "refuse_empty_parts",
]

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
    if rows.X_val is not None:
        return chunk, chunk_positions(rows.n_validation, len(rows.chunks))[j]
    scores = np.arange(len(chunk)) % _HELD_BACK == _HELD_BACK - 1  # by position: no value decides
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


def chunk_metric_sensitivity(units):
    """Largest change of a sum of integer losses of chunks, each in [0, units]: one of them."""
    return int(units)


def metric_excess_cap(units, excess_bound):
    """Return R, at which the excess of one chunk is clipped: also its sum's largest change."""
    return max(int(excess_bound * units), 1)


class ChunkMetricTraining(ChunkTraining):
    """Losses of candidates by a `ChunkMetric` of the model of each chunk."""

    @property
    def n_losses(self):
        """Number of losses in a total: one for each chunk."""
        return len(self.rows.chunks)

    @property
    def sensitivity(self):
        """Largest change of a total when one protected record is replaced."""
        return chunk_metric_sensitivity(self.scorer.units)

    def _excess_cap(self):
        cap = metric_excess_cap(self.scorer.units, self.excess_bound)
        return cap, cap  # a record moves the excess of its own chunk alone

    @staticmethod
    def loss_of_model(estimator, params, j, rows, fit_params, scorer):
        """Train on one part of chunk j and score the other. Protected."""
        trained, scored = chunk_parts(rows, j)
        model = trained_on(trained, estimator, params, j, rows, fit_params)
        X, y, _ = rows.scoring(scored)
        value, _ = attempt(_value, model, scorer, X, y)
        if value is not None:
            return scorer.loss_of(value)
        # Without the records that cannot be scored: each costs its share of the range.
        readable = isolated_losses(model, scorer.readable, X, y) == 0
        some = np.flatnonzero(readable)
        value, _ = attempt(_value, model, scorer, take_rows(X, some), take_rows(y, some))
        if value is None:
            return scorer.units
        return scorer.loss_of(scorer.lower + (value - scorer.lower) * float(readable.mean()))

    @staticmethod
    def worst_loss(j, rows, fit_params, scorer):
        """Return the loss of a model that cannot be trained or scored."""
        return scorer.units


def _value(model, scorer, X, y):
    with seeded_generators(SEED):
        return copy.deepcopy(scorer).value(model, X, y)
