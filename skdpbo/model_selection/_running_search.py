"""What a mechanism of `DPBayesSearchCV` is given of the search that it serves."""

import re
from dataclasses import dataclass

import numpy as np

__all__ = ["PublicScores", "RunningSearch", "Visits"]


@dataclass(frozen=True)
class PublicScores:
    """Public cross-validation of the visited candidates, in the order of their visits.

    Attributes
    ----------
    mean : ndarray of shape (n_visited,)
        NaN where a fold failed.
    splits : ndarray of shape (n_splits, n_visited)
    listed : ndarray of shape (n_visited,), dtype bool
        Whether ``cv_results_`` has the candidate. scikit-learn lists none of a batch in which every
        fit failed.
    """

    mean: np.ndarray
    splits: np.ndarray
    listed: np.ndarray

    @classmethod
    def of(cls, results, metric, listed):
        """Read ``cv_results_``; `listed` as above."""
        folds = re.compile(rf"split\d+_test_{re.escape(metric)}")
        splits = np.array([results[name] for name in results if folds.fullmatch(name)])
        listed = np.array(listed)
        return cls(
            mean=_spread(results[f"mean_test_{metric}"], listed),
            splits=_spread(splits, listed),
            listed=listed,
        )


class Visits:
    """Which candidates were asked for, in order, and which of them ``cv_results_`` lists."""

    def __init__(self, metric):
        self._metric = metric
        self._indices, self._listed = [], []

    def asked(self, batch):
        """Note the next batch of indices."""
        self._indices += batch

    def told(self, results):
        """Return the public scores of all that was asked for; None before the first."""
        if results is None:
            return None
        new = len(self._indices) - len(self._listed)
        # A batch is listed whole or not at all.
        self._listed += [len(results["params"]) > sum(self._listed)] * new
        return PublicScores.of(results, self._metric, self._listed)

    @property
    def listed(self):
        """Indices in the order of ``cv_results_``."""
        return [k for k, listed in zip(self._indices, self._listed, strict=True) if listed]


def _spread(values, listed):
    """Columns at their places among all visited, NaN at the others."""
    spread = np.full((*values.shape[:-1], len(listed)), np.nan)
    spread[..., listed] = values
    return spread


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
        Number m of protected records, or with chunks of losses in a total.
    sensitivity : int
        Largest change of a total when one protected record is replaced.
    source : RandomSource
    design : dict
        `n_iter`, `n_initial_points`, `batch_size` and `sqrt_beta` of the search.
    """

    X: np.ndarray
    candidates: list
    totals: object
    scorer: object
    n_records: int
    sensitivity: int
    source: object
    design: dict

    def score(self, total):
        """Score of a total loss."""
        return self.scorer.score_from_units(total, self.n_records)
