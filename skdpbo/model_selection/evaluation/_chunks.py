"""Sample and aggregate: disjoint chunks of protected rows, and the sensitivity to one record.

Every candidate is trained on each chunk, and the losses of the k models are added up. Replacing a
record changes one of the models arbitrarily, and the record's own loss under the other models.
Proofs and tightness: ``docs/theory/sample_and_aggregate.md``.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from skdpbo.model_selection._frozen_parameters import FrozenParameters
from skdpbo.model_selection.rows._protected import ProtectedParts, take_units
from skdpbo.privacy._checks import check_count, check_within

# Chosen once and for all; any constant would do. It is public: the chunks must not depend on data.
_CHUNK_SEED = 20070613
# Rule for the number of chunks, measured in docs/theory/sample_and_aggregate.md.
_CHUNKS_TIMES_EPSILON, _FEWEST_CHUNKS, _FEWEST_ROWS = 10, 5, 200


@dataclass(frozen=True)
class Chunks(FrozenParameters):
    """Sample and aggregate, as `protect` of a searcher.

    Every candidate is trained on disjoint chunks of the rows, each model is scored on the rows
    outside its chunk or on all of `X_val`, and candidates are compared by the sums over their
    models. Every record is protected, with any estimator. No model is released.

    Parameters
    ----------
    n_chunks : int or None, default=None
        Number k >= 2 of chunks. None: about 10 / epsilon, but no more than n / 200 for n rows, and
        at least 5. Chunks of fewer than five rows raise a warning.
    excess_bound : float or None, default=0.05
        Clipping bound of a model's excess loss over the best candidate on the same chunk, as a
        share of the loss bound, in (0, 1]. The choice is made by these clipped differences, so one
        record moves the mean by about `excess_bound` / k instead of 1 / k: smaller differences
        stand out from the noise, and all differences above the bound count alike. None: the choice
        is made by the plain mean losses. A value chosen by looking at the protected rows would
        break the guarantee. The released score is always that of the plain losses.

    See Also
    --------
    DPGridSearchCV : A searcher; ``protect="all"`` takes this with the defaults for estimators that
        are not differentially private.

    Notes
    -----
    `excess_bound` is not used by ``mechanism="gaussian"``, which releases mean losses.

    ROC AUC, F1 and other metrics that are not means of losses are computed chunk by chunk: every
    third row of a chunk is held out to score its model.

    References
    ----------
    K. Nissim, S. Raskhodnikova, A. Smith, Smooth sensitivity and sampling in private data analysis,
    STOC 2007. Proofs: :doc:`/theory/sample_and_aggregate`.

    Examples
    --------
    >>> from skdpbo.model_selection import Chunks
    >>> Chunks(50, excess_bound=0.1)
    Chunks(n_chunks=50, excess_bound=0.1)
    """

    n_chunks: int | None = None
    excess_bound: float | None = 0.05

    def __post_init__(self):
        k, share = self.n_chunks, self.excess_bound
        if k is not None:
            check_count(k, "n_chunks", least=2)
        if share is not None:
            check_within(share, "excess_bound", "(0, 1]")


def number_of_chunks(chunks, epsilon, n_samples=None):
    """Return the number of chunks, given or by the rule of docs/theory/sample_and_aggregate.md.

    Parameters
    ----------
    chunks : Chunks
    epsilon : float
    n_samples : int or None, default=None
        None: not known yet, assumed large.

    Returns
    -------
    int
        k = 10 / epsilon, at most n / 200, at least 5.
    """
    if chunks.n_chunks is not None:
        return chunks.n_chunks
    k = math.ceil(_CHUNKS_TIMES_EPSILON / float(epsilon))
    most = k if n_samples is None else n_samples // _FEWEST_ROWS
    return max(min(k, most), _FEWEST_CHUNKS)


def chunk_positions(n_samples, n_chunks):
    """Return the positions of the rows of each chunk, which depend on the two numbers alone.

    Parameters
    ----------
    n_samples : int
    n_chunks : int
        At most `n_samples`.

    Returns
    -------
    chunks : list of ndarray, length n_chunks
        Disjoint, sorted, together all positions; their sizes differ by at most one.
    """
    # At random, as tables are often sorted and each chunk should be representative. RandomState
    # is frozen by numpy's compatibility policy: the same chunks in every version.
    order = np.random.RandomState(_CHUNK_SEED).permutation(n_samples)  # public randomness
    return [np.sort(chunk) for chunk in np.array_split(order, n_chunks)]


def n_chunk_losses(n_chunks, n_samples, n_validation=None):
    """Count the losses in a total: each model's on the rows outside its chunk, or on all of X_val.

    Parameters
    ----------
    n_chunks : int
        k
    n_samples : int
        n, rows that are divided into chunks.
    n_validation : int or None, default=None
        m, rows of the validation part; None: each model is scored on the rows outside its chunk.

    Returns
    -------
    int
        (k - 1) n, or k m.
    """
    return (n_chunks - 1) * n_samples if n_validation is None else n_chunks * n_validation


def _most_rows(n_chunks, n_samples, n_validation):
    """Return the largest number of rows that score a model: all outside a smallest chunk, or m."""
    return n_samples - n_samples // n_chunks if n_validation is None else n_validation


def chunk_sensitivity(units, n_chunks, n_samples, n_validation=None):
    """Largest change of a total of integer losses when one protected record is replaced.

    Parameters
    ----------
    units : int
        B: every loss is an integer in [0, B].
    n_chunks, n_samples, n_validation
        As for `n_chunk_losses`.

    Returns
    -------
    int
        B (n - floor(n / k) + k - 1), or B max(k, m).
    """
    rows = _most_rows(n_chunks, n_samples, n_validation)
    if n_validation is not None:
        # A record of X changes one model, thus its m losses; one of X_val, one loss of each model.
        return units * max(n_chunks, rows)
    # All losses of the model trained on the record, and its own loss under the k - 1 others.
    return units * (rows + n_chunks - 1)


def excess_cap(units, excess_bound, n_chunks, n_samples, n_validation=None):
    """Return the public integer R at which the excess of one model's total loss is clipped."""
    rows = _most_rows(n_chunks, n_samples, n_validation)
    # Rounded down, so that noise is not above that requested; at 0 all candidates would be equal.
    return max(math.floor(excess_bound * units * rows), 1)


def clipped_excess(losses, cap):
    """Add up each candidate's excess loss over the best of the same chunk, clipped at `cap`.

    Parameters
    ----------
    losses : list of list of int, shape (n_candidates, n_chunks)
        Total loss of each model.
    cap : int

    Returns
    -------
    list of int, length n_candidates
        sum_j min(L_kj - min_l L_lj, R)
    """
    best = [min(of_chunk) for of_chunk in zip(*losses, strict=True)]  # min_l L_lj
    return [
        sum(min(loss - least, cap) for loss, least in zip(of_models, best, strict=True))
        for of_models in losses
    ]


def excess_sensitivity(units, cap, n_chunks, n_validation=None):
    """Largest change of `clipped_excess` when one protected record is replaced.

    Parameters
    ----------
    units : int
        B
    cap : int
        R
    n_chunks, n_validation
        As for `n_chunk_losses`.

    Returns
    -------
    int
        R + (k - 1) min(2 B, R), or max(R, k min(2 B, R)).
    """
    # The record's own loss moves a candidate's total by B, and the best total by B the other way.
    own = min(2 * units, cap)
    if n_validation is not None:
        return max(cap, n_chunks * own)
    return cap + (n_chunks - 1) * own


@dataclass(repr=False)
class ChunkedRows(ProtectedParts):
    """Protected rows: chunks that train, and the rows that score their models.

    A unit is a record, or a group of records; a group is never divided between chunks. Without
    `X_val`, the units outside a chunk score its model.

    Attributes
    ----------
    chunks : list of ndarray
        Units, see `chunk_positions`.
    """

    chunks: list = field(kw_only=True)

    @property
    def size(self):
        """(k, n, m), all that the sensitivities depend on."""
        return len(self.chunks), self.n_samples, self.n_validation

    def outside(self, j):
        """Units outside chunk j."""
        return np.setdiff1d(np.arange(self.n_samples), self.chunks[j], assume_unique=True)

    def scoring(self, units=None):
        """Protected: return the scoring rows, targets and group numbers; None: all of X_val."""
        if self.X_val is None:
            return take_units(self.X, self.y, self.groups, units)
        return take_units(self.X_val, self.y_val, self.groups_val, units)
