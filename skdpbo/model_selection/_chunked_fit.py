"""``protect="all"`` with ``n_chunks``: sample and aggregate, for any estimator."""

__all__ = ["chunked_guarantee", "fit_chunked"]


def fit_chunked(searcher, candidates, X, y, X_val, y_val, params):
    """Fit a searcher with ``protect="all"`` and ``n_chunks``; sets its fitted attributes."""
    raise NotImplementedError('protect="all" with n_chunks is not available yet.')


def chunked_guarantee(searcher):
    """What `fit_chunked` promises with secret noise; the caller voids it for seeded runs."""
    raise NotImplementedError('protect="all" with n_chunks is not available yet.')
