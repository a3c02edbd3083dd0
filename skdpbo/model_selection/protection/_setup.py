"""Checks of rows and warnings at the start of a fit; no protected value is read."""

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import indexable

from skdpbo._parameters import warn_caller
from skdpbo._record_groups import group_codes
from skdpbo.exceptions import (
    NoisyScoreWarning,
    PublicTrainingWarning,
    UnboundedSensitivityError,
)
from skdpbo.model_selection._sklearn import n_rows, split_for_estimator, take_method_params
from skdpbo.model_selection.rows._protected import protected_positions

__all__ = [
    "MOSTLY_NOISE",
    "check_rows",
    "groups_of_all",
    "mechanism_with_score",
    "refuse_metric_of_groups",
    "refuse_other_than_means",
    "split_rows",
    "warn_if_score_is_noisy",
]

# Noise of a quarter of the score's range: one released score in six is off by more.
MOSTLY_NOISE = 0.25
SMALL_NOISE = 0.05
# Of the budget, with score_fraction="auto". The smaller comes first: what the score gets, the
# choice loses.
SCORE_SHARES = (0.1, 0.3)


def warn_if_score_is_noisy(mechanism, *, sensitivity, largest):
    """Warn, from public numbers, that `best_score_` will be mostly noise."""
    noise = mechanism.score_noise(sensitivity=sensitivity, largest=largest)
    if noise > MOSTLY_NOISE:
        warn_caller(
            "best_score_ will be mostly noise: the standard deviation of its noise is "
            f"{noise:.2g} of the whole range of the score. Protect more records, take a larger "
            "epsilon, or spend "
            "all of it on the choice (score_fraction=0).",
            NoisyScoreWarning,
        )


def mechanism_with_score(searcher, scorer, n_records):
    """Return the mechanism of a ratio or of pairs, with a share of the score that makes it useful.

    ``score_fraction="auto"`` takes the smallest of two shares of which the noise is small, from
    public numbers alone, or releases no score, with a warning.
    """
    automatic = isinstance(searcher.score_fraction, str)
    for share in SCORE_SHARES if automatic else (searcher.score_fraction,):
        mechanism = searcher._mechanism(score_fraction=share)
        if not mechanism.epsilon_score:
            return mechanism
        noise = scorer.expected_noise(mechanism.epsilon_score, n_records)
        if noise <= (SMALL_NOISE if automatic else MOSTLY_NOISE):
            return mechanism
    mostly = noise > MOSTLY_NOISE
    if mostly:
        warn_caller(
            f"The noise of best_score_ would have a standard deviation of about {noise:.2g} of the "
            f"whole range of {scorer.name!r}"
            + (": it is not released." if automatic else ".")
            + " Protect more records, take a larger epsilon, or set score_fraction.",
            NoisyScoreWarning,
        )
    return searcher._mechanism(score_fraction=0.0) if mostly and automatic else mechanism


def refuse_other_than_means(scorer):
    """Refuse a score that one added record moves by more than a public number, or divides anew."""
    if not scorer.is_mean:
        raise UnboundedSensitivityError(
            f'{scorer.name!r} is not supported with neighbours="add-remove": it is no mean of '
            "losses of single records. One record more adds as many pairs as there are records, "
            "whose number is secret; ratios would need further noisy counts. Use a mean, such as "
            "'accuracy' or 'neg_log_loss' (with class_weight for rare classes)."
        )


def refuse_metric_of_groups(scorer):
    """Refuse a score that is no mean: it would depend on the sizes of the groups."""
    if not scorer.is_mean:
        raise UnboundedSensitivityError(
            f"{scorer.name!r} is not supported with groups: it is no mean of losses of single "
            "records. A group changes as many pairs or counts as it has records, and their number "
            f"has no bound. Use a mean, such as {scorer.nearest_mean}."
        )


def groups_of_all(params, X, X_val, groups_val):
    """Return the number of the group of each row of both parts, None for single records.

    For searches that protect every record. Protected; the numbers of groups are public.
    """
    groups = params.get("groups")
    if groups is None and groups_val is None:
        return None, None
    if groups is None or (groups_val is None) != (X_val is None):
        raise ValueError(
            "groups must name the group of each row of X, and groups_val of each row of "
            "X_val, if it is given: every record is protected."
        )
    codes = group_codes(groups, n_rows(X), name="groups", rows="X")
    return codes, None if X_val is None else group_codes(groups_val, n_rows(X_val))


def check_rows(X, y, X_val, y_val, groups_val=None):
    """Return (X, y, X_val) that can be indexed by row, of consistent lengths; no value is read."""
    if X is None:
        raise ValueError("X must hold rows, got None.")
    _refuse_containers(X=X, y=y, X_val=X_val, y_val=y_val, groups_val=groups_val)
    X, y = indexable(X, y)
    if X_val is not None:
        (X_val,) = indexable(X_val)
    elif y_val is not None:
        raise ValueError("y_val was given without X_val: give both or neither.")
    elif groups_val is not None:
        raise ValueError("groups_val was given without X_val, whose groups they are.")
    return X, y, X_val


def _refuse_containers(**containers):
    """Refuse single values and rows that are not computed yet; no value is quoted."""
    for name, values in containers.items():
        rows = ("shape", "__getitem__", "__array__")
        single = not any(hasattr(values, kind) for kind in rows)
        if values is not None and (single or getattr(values, "shape", None) == ()):
            raise TypeError(f"{name} must have at least 1 dimension, got a single value.")
        if name != "groups_val" and _types_cells_unknown(values):
            raise TypeError(
                f"{name} is neither a numpy array, a pandas frame, a sparse matrix nor a list, and "
                f"one record may decide its types. Give {name}.to_pandas() or {name}.to_numpy()."
            )
        if hasattr(values, "__dask_graph__"):  # models that cannot read them would lose silently
            raise TypeError(
                f"{name} is a Dask collection: searchers need rows in memory. Give "
                f"{name}.compute(); the fits can be sent to a cluster with "
                'joblib.parallel_config(backend="dask").'
            )


def _types_cells_unknown(values):
    """Whether types are inferred by a library other than numpy, scipy and pandas."""
    typed = hasattr(values, "dtype") or hasattr(values, "dtypes")
    home = type(values).__module__.partition(".")[0]
    known = isinstance(values, np.ndarray) or issparse(values) or hasattr(values, "iloc")
    return typed and not known and home not in ("dask", "pandas")


def split_rows(searcher, X, y, params):
    """Set validation rows apart by position, with a warning to the caller of ``fit``.

    With ``groups`` among the entries of ``fit``, groups are set apart, by the order in which they
    first appear: all records of a group are protected, or none.

    Returns
    -------
    public : tuple (X, y, params)
    protected : tuple (X, y)
    positions : ndarray
        Of the public rows.
    labels : ndarray or None
        Groups of the protected rows.
    """
    n_samples, groups = n_rows(X), params.get("groups")
    if groups is None:
        n_units, what, order = n_samples, "rows", "position"
    else:
        codes = group_codes(groups, n_samples, name="groups", rows="X")
        n_units, what = int(codes.max(initial=-1)) + 1, "groups"
        order = "the order of their first rows"
    if n_units < 2:
        found = f"array with n_samples={n_units}" if groups is None else f"{n_units} group(s)"
        raise ValueError(
            f"Found {found}: at least 2 {what} are needed to set validation rows apart; or give "
            "the protected rows as X_val."
        )
    protected = protected_positions(n_units, searcher.validation_fraction)
    warn_caller(
        f"X_val was not given: {len(protected)} of the {n_units} {what}, chosen by {order}, "
        f"are protected; the other {n_units - len(protected)} are treated as public and may "
        "influence everything that is released.",
        PublicTrainingWarning,
    )
    if groups is not None:
        protected = np.flatnonzero(np.isin(codes, protected))
    public = np.setdiff1d(np.arange(n_samples), protected)
    X_public, y_public = split_for_estimator(searcher.estimator, X, y, public)
    held_out = split_for_estimator(searcher.estimator, X, y, protected, public)
    labels = None if groups is None else codes[protected]
    return (X_public, y_public, take_method_params(X, params, public)), held_out, public, labels
