"""What one call of fit needs and nobody may keep."""

from contextvars import ContextVar
from dataclasses import dataclass

from skdpbo.mechanisms import RandomSource
from skdpbo.model_selection._roles import ProtectedRows
from skdpbo.model_selection._scores import PerRecordScorer

__all__ = ["SESSION", "Session"]


@dataclass(repr=False)
class Session:
    """Data, scorers and noise of a running fit.

    It lives in a context variable, never on the searcher, which callbacks, workers and pickles see.

    Attributes
    ----------
    owner : BasePrivateSearchCV
        The searcher that is being fitted; a searcher inside it has a session of its own.
    candidates : list of dict
        Public.
    X, y, fit_params
        Public rows, their targets, and what ``fit`` was given besides.
    protected : ProtectedRows
    scorer : PerRecordScorer
        Of the protected records.
    scorers : PerRecordScorer or MultimetricScorer
        Of the public folds.
    metric : str
        The deciding metric's name in ``cv_results_``.
    source : RandomSource
        One for the whole fit: a seeded source that were opened twice would repeat its noise.
    mechanism, visits, visited
        What a guided searcher keeps between its search and its choice.
    scores_so_far : ScoresSoFar or None
        While candidates are cross-validated in rounds. Public.
    best_score : float or None
        Released.
    """

    owner: object
    candidates: list
    X: object
    y: object
    fit_params: dict
    protected: ProtectedRows
    scorer: PerRecordScorer
    scorers: object
    metric: str
    source: RandomSource
    mechanism: object = None
    visits: object = None
    visited: list | None = None
    scores_so_far: object = None
    best_score: float | None = None

    def __reduce__(self):
        raise TypeError("the session of a fit is not pickled")

    def release_score(self, total):
        """Turn a released total loss into the score that is published; None: no score."""
        if total is not None:
            self.best_score = self.scorer.score_from_units(total, self.protected.n_records)


SESSION: ContextVar[Session | None] = ContextVar("skdpbo_search_session", default=None)
