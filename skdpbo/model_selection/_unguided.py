"""A search without public cross-validation: one fit per candidate, all on the public rows."""

import time

from sklearn.base import clone

from skdpbo.model_selection._sklearn import masked_param_columns

__all__ = ["fit_unguided"]


def fit_unguided(searcher, session):
    """Search, choose, and set the attributes that `BaseSearchCV` would have set.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    session : Session
        Open, and the searcher's own.
    """
    if not session.candidates:
        raise ValueError("No fits were performed. Were there no candidates?")
    searcher.multimetric_ = False
    candidates, searcher.best_index_ = searcher._search_unguided(session)
    searcher.best_params_ = candidates[searcher.best_index_]
    searcher.cv_results_ = {**masked_param_columns(candidates), "params": candidates}
    searcher.scorer_ = session.scorer
    if searcher.refit:
        _refit(searcher, session)


def _refit(searcher, session):
    best = clone(searcher.estimator).set_params(**clone(searcher.best_params_, safe=False))
    searcher.best_estimator_ = best
    start = time.time()
    targets = () if session.y is None else (session.y,)
    best.fit(session.X, *targets, **searcher._routed_fit_params(session))
    searcher.refit_time_ = time.time() - start
    if hasattr(best, "feature_names_in_"):
        searcher.feature_names_in_ = best.feature_names_in_
