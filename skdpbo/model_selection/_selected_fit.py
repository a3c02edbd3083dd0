"""``protect="all"`` by private selection: every trial trains a private estimator."""

__all__ = ["fit_selected", "selected_guarantee"]


def fit_selected(searcher, candidates, X, y, X_val, y_val, params):
    """Fit a searcher with ``protect="all"`` and no chunks; sets its fitted attributes.

    The caller has checked the parameters and the candidates, has warned of a seeded run, and
    forgets the fitted attributes when this raises.
    """
    raise NotImplementedError('protect="all" without n_chunks is not available yet.')


def selected_guarantee(searcher, n_samples):
    """What `fit_selected` promises with secret noise; the caller voids it for seeded runs."""
    raise NotImplementedError('protect="all" without n_chunks is not available yet.')
