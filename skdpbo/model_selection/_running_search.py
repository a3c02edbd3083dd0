"""What a mechanism of `DPBayesSearchCV` is given of the search that it serves."""

from dataclasses import dataclass

import numpy as np

__all__ = ["PublicScores", "RunningSearch"]


@dataclass(frozen=True)
class PublicScores:
    """Public cross-validation of the visited candidates, in the order of their visits.

    Attributes
    ----------
    mean : ndarray of shape (n_visited,)
    splits : ndarray of shape (n_splits, n_visited)
    """

    mean: np.ndarray
    splits: np.ndarray


@dataclass(frozen=True)
class RunningSearch:
    """What a mechanism may use of the search that it serves.

    Attributes
    ----------
    X : ndarray of shape (n_candidates, n_features)
        The finite candidate set Lambda, encoded.
    candidates : list of dict
        The same as parameters.
    totals : callable
        ``totals(indices, **how)``: protected total losses; see `candidate_losses`.
    scorer : PerRecordScorer
    n_records : int
        Number m of protected records.
    source : RandomSource
    design : dict
        `n_iter`, `n_initial_points`, `batch_size` and `sqrt_beta` of the search.
    """

    X: np.ndarray
    candidates: list
    totals: object
    scorer: object
    n_records: int
    source: object
    design: dict

    def score(self, total):
        """Score of a total loss."""
        return self.scorer.score_from_units(total, self.n_records)
