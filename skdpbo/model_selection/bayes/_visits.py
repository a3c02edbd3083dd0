"""Searches that visit candidates of a finite set, by index."""

import re
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from skdpbo.model_selection._search_mechanism import Chosen, SearchMechanism

__all__ = ["PublicScores", "VisitingSearch"]


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


def _spread(values, listed):
    """Return columns at their places among all visited, NaN at the others."""
    spread = np.full((*values.shape[:-1], len(listed)), np.nan)
    spread[..., listed] = values
    return spread


class VisitingSearch(SearchMechanism):
    """Search that visits candidates one batch after the other.

    A sub-class proposes indices (`ask`) and releases one (`release_choice`).
    """

    def start(self, problem, guided):
        """Make ready; no protected value is read."""
        self._problem = problem
        self._visited, self._listed = [], []

    @abstractmethod
    def ask(self, scores):
        """Return the next indices. `scores` are the `PublicScores` so far, None at first."""

    @abstractmethod
    def release_choice(self, scores):
        """Return (index of the winner, score or None), released."""

    def released_columns(self, indices):
        """Return further columns of ``cv_results_``, released, for the candidates listed."""
        return {}

    def propose(self, public):
        """Return the next candidates for public cross-validation."""
        batch = self.ask(self._scores(public))
        self._visited += batch
        return [self._problem.candidates[k] for k in batch]

    def choose(self, public):
        """Release the winner among the candidates that ``cv_results_`` lists."""
        index, score = self.release_choice(self._scores(public))
        listed = [k for k, is_listed in zip(self._visited, self._listed, strict=True) if is_listed]
        return self._chosen(listed, index, score)

    def _chosen(self, indices, index, score):
        candidates = [self._problem.candidates[k] for k in indices]
        columns = self.released_columns(indices)
        return Chosen(candidates, list(indices).index(index), score, columns)

    def _scores(self, public):
        if public is None:
            return None
        new = len(self._visited) - len(self._listed)
        # A batch is listed whole or not at all.
        self._listed += [len(public["params"]) > sum(self._listed)] * new
        return PublicScores.of(public, self._problem.metric, self._listed)
