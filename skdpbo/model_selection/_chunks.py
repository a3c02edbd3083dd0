"""Sample and aggregate: disjoint chunks of protected rows, and what one record can move.

Every candidate is trained on each chunk, and the losses of the k models are added up. A replaced
record changes one of the models at will, and its own loss under the others. Proof and tightness:
``docs/theory/sample_and_aggregate.md``.
"""

from dataclasses import dataclass

import numpy as np

from skdpbo.model_selection._sklearn import n_rows

__all__ = ["ChunkedRows", "chunk_positions", "chunk_sensitivity", "n_chunk_losses"]

# Chosen once and for all; any constant would do. It is public: the chunks must not depend on data.
_CHUNK_SEED = 20070613


def chunk_positions(n_samples, n_chunks):
    """Positions of the rows of each chunk, from the two numbers alone.

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
    # RandomState is frozen by numpy's compatibility policy: the same chunks in every version.
    order = np.random.RandomState(_CHUNK_SEED).permutation(n_samples)  # public randomness
    return [np.sort(chunk) for chunk in np.array_split(order, n_chunks)]


def n_chunk_losses(n_chunks, n_samples, n_validation=None):
    """Count the losses in a total: each model's on the rows outside its chunk, or on all of X_val.

    Parameters
    ----------
    n_chunks : int
        k
    n_samples : int
        n, rows that are cut into chunks.
    n_validation : int or None, default=None
        m, rows of the validation part; None: each model is scored on the rows outside its chunk.

    Returns
    -------
    int
        (k - 1) n, or k m.
    """
    return (n_chunks - 1) * n_samples if n_validation is None else n_chunks * n_validation


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
    if n_validation is not None:
        # A record of X changes one model, that is m losses; one of X_val one loss of each model.
        return units * max(n_chunks, n_validation)
    smallest = n_samples // n_chunks
    # One model, on the most rows that are outside a chunk; and the record's own loss under the
    # k - 1 others, which are trained without it.
    return units * (n_samples - smallest + n_chunks - 1)


@dataclass(repr=False)
class ChunkedRows:
    """Protected rows: chunks that train, and what scores them.

    Attributes
    ----------
    X, y : protected rows and targets; y may be None
    chunks : list of ndarray
        Positions, see `chunk_positions`.
    X_val, y_val : protected validation part, or None to score on the rows outside a chunk
    """

    X: object
    y: object
    chunks: list
    X_val: object = None
    y_val: object = None

    @property
    def n_samples(self):
        return n_rows(self.X)

    @property
    def n_validation(self):
        """Rows of the validation part, or None."""
        return None if self.X_val is None else n_rows(self.X_val)

    def outside(self, j):
        """Positions outside chunk j."""
        return np.setdiff1d(np.arange(self.n_samples), self.chunks[j], assume_unique=True)
