"""How a fit begins: who is protected, what is charged, and what is said before anything is read."""

import warnings

import numpy as np
from sklearn.utils import indexable

from skdpbo.exceptions import NoisyScoreWarning, PublicTrainingWarning, SeededNoiseWarning
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._metric_roles import assign_metrics
from skdpbo.model_selection._roles import check_protected, check_schema, protected_positions
from skdpbo.model_selection._session import Session
from skdpbo.model_selection._shared_rows import refuse_rows_among_entries
from skdpbo.model_selection._sklearn import n_rows, split_for_estimator, take_method_params
from skdpbo.privacy import charge_active_ledger

__all__ = ["check_rows", "open_session", "warn_if_score_is_noisy", "warn_if_seeded"]

# Noise of a quarter of the score's range: one released score in six is off by more.
_TELLING_NOISE = 0.25


def warn_if_seeded(random_state):
    """Say in the name of the caller's caller that seeded noise protects nobody."""
    if random_state is not None:
        warnings.warn(
            f"random_state={random_state!r} makes the noise reproducible: the result "
            "carries no privacy guarantee. Leave random_state=None for anything that is "
            "published.",
            SeededNoiseWarning,
            stacklevel=3,
        )


def warn_if_score_is_noisy(searcher, *, sensitivity, largest, stacklevel):
    """Say before anything is charged, from public numbers, that `best_score_` will tell little."""
    noise = searcher._score_noise(sensitivity=sensitivity, largest=largest)
    if noise > _TELLING_NOISE:
        warnings.warn(
            f"best_score_ will tell little: the standard deviation of its noise is {noise:.2g} of "
            "the whole range of the score. Protect more records, take a larger epsilon, or spend "
            "all of it on the choice (score_fraction=0).",
            NoisyScoreWarning,
            stacklevel=stacklevel + 1,
        )


def check_rows(X, y, X_val, y_val):
    """Return (X, y, X_val) that can be indexed by row, of consistent lengths; no value is read."""
    if X is None:
        raise ValueError("X must hold rows, got None.")
    _check_not_scalars(X=X, y=y, X_val=X_val, y_val=y_val)
    _refuse_dask(X=X, y=y, X_val=X_val, y_val=y_val)
    X, y = indexable(X, y)
    if X_val is not None:
        (X_val,) = indexable(X_val)
    elif y_val is not None:
        raise ValueError("y_val was given without X_val: give both or neither.")
    return X, y, X_val


def _check_not_scalars(**containers):
    """Refuse a single value in the place of rows: scikit-learn's own message would quote it."""
    for name, values in containers.items():
        rows = ("shape", "__getitem__", "__array__")
        single = not any(hasattr(values, kind) for kind in rows)
        if values is not None and (single or getattr(values, "shape", None) == ()):
            raise TypeError(f"{name} must have at least 1 dimension, got a single value.")


def _refuse_dask(**containers):
    """Refuse rows that are not computed yet: models that cannot read them would lose silently."""
    for name, values in containers.items():
        if hasattr(values, "__dask_graph__"):
            raise TypeError(
                f"{name} is a Dask collection: searchers need rows in memory. Give "
                f"{name}.compute(); the fits can be sent to a cluster with "
                'joblib.parallel_config(backend="dask").'
            )


def open_session(searcher, candidates, rows, params, guarantee, scikit_learn_scorers):
    """Session of a fit that protects validation records; the ledger is charged here.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    candidates : list of dict
    rows : tuple (X, y, X_val, y_val)
        As given to ``fit``.
    params : dict
        What ``fit`` was given besides.
    guarantee : PrivacyGuarantee
        Charged to the active ledger before any protected value is read.
    scikit_learn_scorers : callable
        See `assign_metrics`.

    Returns
    -------
    session : Session
    """
    X, y, X_val, y_val = rows
    X, y, X_val = check_rows(X, y, X_val, y_val)
    if X_val is None:
        refuse_rows_among_entries(params, [X, y], {n_rows(X)})
        X, y, X_val, y_val, params = _split_rows(searcher, X, y, params)
    else:
        refuse_rows_among_entries(params, [*rows[2:], X_val], ())
    scoring = assign_metrics(searcher, y, scikit_learn_scorers)
    check_schema(X_val, y_val, X, y)
    warn_if_score_is_noisy(searcher, sensitivity=1, largest=n_rows(X_val), stacklevel=4)
    charge_active_ledger(guarantee, type(searcher).__name__, searcher)
    protected = check_protected(X_val, y_val, X, y)
    source = noise_source(searcher.random_state)
    return Session(searcher, candidates, X, y, params, protected, *scoring, source)


def _split_rows(searcher, X, y, params):
    """Set validation rows apart by position; return (X, y, X_val, y_val, params)."""
    n_samples = n_rows(X)
    if n_samples < 2:
        raise ValueError(
            f"Found array with n_samples={n_samples}: at least 2 rows are needed to set "
            "validation rows apart; or give the protected rows as X_val."
        )
    protected = protected_positions(n_samples, searcher.validation_fraction)
    public = np.setdiff1d(np.arange(n_samples), protected)
    warnings.warn(
        f"X_val was not given: {len(protected)} of the {n_samples} rows, chosen by position, "
        f"are protected; the other {len(public)} are treated as public and may influence "
        "everything that is released.",
        PublicTrainingWarning,
        stacklevel=5,
    )
    X_public, y_public = split_for_estimator(searcher.estimator, X, y, public)
    X_val, y_val = split_for_estimator(searcher.estimator, X, y, protected, public)
    return X_public, y_public, X_val, y_val, take_method_params(X, params, public)
