"""Checks of options and rows at the start of a fit, with warnings; no protected value is read."""

import numbers
from itertools import chain

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.utils import get_tags, indexable
from sklearn.utils.multiclass import type_of_target

from skdpbo._isolation._estimator_parts import own_params, parts_inside
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._parameters import warn_caller
from skdpbo._record_groups import group_codes
from skdpbo._schema import declared_types, refuse_array_kinds, refuse_equal_names
from skdpbo.exceptions import (
    PublicTrainingWarning,
    UnboundedSensitivityError,
)
from skdpbo.model_selection._sklearn import (
    has_callbacks,
    n_rows,
    split_for_estimator,
    take_method_params,
    with_params,
)
from skdpbo.model_selection.rows._object_table import as_plain_array, as_series, by_row
from skdpbo.model_selection.rows._overlap import refuse_foreign_types
from skdpbo.model_selection.rows._protected import protected_positions

# scikit-learn's default, and fewer for a rare class, as each stratified fold needs a row of it.
_MOST_FOLDS, _FEWEST_FOLDS = 5, 2


def warn_of_silent_callbacks(searcher):
    """Warn that callbacks of a search without public folds are not called."""
    if has_callbacks([searcher]):
        warn_caller(
            f"The callbacks of this {type(searcher).__name__} are not called: they are shown "
            "public fits, and there are none. verbose=1 prints the counts that are public.",
            UserWarning,
        )


def refuse_revealing_parts(estimator, candidates):
    """Raise for an estimator that would store, print, count or mix protected rows.

    Parameters
    ----------
    estimator : estimator
    candidates : list of dict
    """
    # Every candidate, as a value may be an estimator with a cache or callbacks.
    for params in [{}, *candidates]:
        model = with_params(estimator, params)
        parts = [*parts_inside(model)]
        # Parameters of items of lists, too, which get_params leaves out.
        settings = [own_params(part).items() for part in parts]
        for name, value in chain(model.get_params().items(), *settings):
            last = name.rsplit("__", 1)[-1]
            if last == "memory" and value is not None:
                raise ValueError(
                    f"{name} must be None: a cache stores protected rows on disk and repeats the "
                    "noise of an earlier fit."
                )
            if last == "verbose" and value and value != -1:  # LightGBM is silent at -1
                raise ValueError(f"{name} must be 0: messages could reveal protected rows.")
        if any(_writes_files(part) for part in parts):
            raise ValueError(
                "allow_writing_files must be False: CatBoost would write losses on protected rows "
                "to a folder."
            )
        if get_tags(model).input_tags.pairwise:
            raise ValueError(
                'A precomputed kernel or distance cannot be used with protect="all": one record '
                "enters the rows of all others. Give the features."
            )
        if has_callbacks(parts):
            raise ValueError(
                'Callbacks of the estimator cannot be used with protect="all": they are shown fits '
                "on protected rows, and their number."
            )


def _writes_files(part):
    """Whether a part is an estimator of CatBoost that writes the course of its training."""
    name = "allow_writing_files"  # absent from its parameters unless it is given
    arguments = getattr(getattr(type(part).__init__, "__code__", None), "co_varnames", ())
    return name in arguments and own_params(part).get(name) is not False


def refuse_complex(**containers):
    """Raise if a declared type, or that of categories, is complex."""
    for name, values in containers.items():
        dtypes = declared_types(values)
        dtypes = [getattr(getattr(one, "categories", one), "dtype", one) for one in dtypes]
        if "c" in [getattr(dtype, "kind", "") for dtype in dtypes]:
            raise ValueError(f"Complex data not supported: {name} must be real.")


def refuse_metric_of_groups(scorer):
    """Refuse a score that is not a mean, as it would depend on the sizes of the groups."""
    if not scorer.is_mean:
        raise UnboundedSensitivityError(
            f"{scorer.name!r} is not supported with groups: it is no mean of losses of single "
            "records. A group changes as many pairs or counts as it has records, and their number "
            f"has no bound. Use a mean, such as {scorer.nearest_mean}, or keep one row of each "
            "group (the first, whatever its values) and leave groups out."
        )


def check_rows(X, y, X_val, y_val, groups_val=None, counted=True):
    """Return (X, y, X_val, y_val) that can be indexed by row, of equal lengths; reads no value.

    Unless `counted`, the number of rows of X is secret.
    """
    if X is None:
        raise ValueError("X must hold rows, got None.")
    # First, as `indexable` converts unknown containers into arrays.
    _refuse_containers(X=X, y=y, X_val=X_val, y_val=y_val, groups_val=groups_val)
    X, y, X_val, y_val = map(as_plain_array, (X, y, X_val, y_val))
    X, X_val = map(as_series, (X, X_val))
    y, y_val = map(by_row, (y, y_val))
    try:
        X, y = indexable(X, y)
    except ValueError as error:  # scikit-learn's own text does not name them
        found = f" {error}" if counted else ""
        raise ValueError(f"X and y must have the same number of rows.{found}") from None
    if X_val is not None:
        (X_val,) = indexable(X_val)
    elif y_val is not None:
        raise ValueError("y_val was given without X_val: give both or neither.")
    elif groups_val is not None:
        raise ValueError(
            "groups_val was given without X_val, whose groups they are. Those of X are groups."
        )
    return X, y, X_val, y_val


def _refuse_containers(**containers):
    """Refuse containers that are not rows in memory; errors quote no value."""
    for name, values in containers.items():
        rows = ("shape", "__getitem__", "__array__")
        single = not any(hasattr(values, kind) for kind in rows)
        if values is not None and (single or getattr(values, "shape", None) == ()):
            raise TypeError(f"{name} must have at least 1 dimension, got a single value.")
        refuse_array_kinds(values, name)
        if name in ("X", "X_val") and getattr(getattr(values, "dtype", None), "names", None):
            raise TypeError(
                f"{name} is a structured array, whose fields have the types of all records: give "
                f"pandas.DataFrame({name})."
            )
        refuse_equal_names(values, name)
        if name != "groups_val":
            refuse_foreign_types(values, name)
        if hasattr(values, "__dask_graph__"):  # models that cannot read them would silently fail
            raise TypeError(
                f"{name} is a Dask collection: searchers need rows in memory. Give "
                f"{name}.compute(); the fits can be sent to a cluster with "
                'joblib.parallel_config(backend="dask").'
            )


def split_rows(searcher, X, y, params):
    """Set validation rows apart by position, with a warning to the caller of ``fit``.

    With ``groups`` among the entries of ``fit``, whole groups are set apart, by the order in which
    they first appear.

    Returns
    -------
    public : tuple (X, y, params)
    protected : tuple (X, y)
    places : ndarray of shape (n_samples,)
        Position of each row among the public ones, -1 for a protected row.
    labels : ndarray or None
        Groups of the protected rows.
    """
    n_samples, groups = n_rows(X), params.get("groups")
    if groups is None:
        n_units, what, order = n_samples, "rows", "position"
    else:
        codes = in_isolation(group_codes, groups, n_samples, "groups", "X")
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
        'influence everything that is released. If none may be public, set protect="all".',
        PublicTrainingWarning,
    )
    if groups is not None:  # from numbers of groups to positions of their rows
        protected = np.flatnonzero(np.isin(codes, protected))
    public = np.delete(np.arange(n_samples), protected)
    X_public, y_public = split_for_estimator(searcher.estimator, X, y, public)
    # The public positions are the columns of a precomputed kernel.
    held_out = split_for_estimator(searcher.estimator, X, y, protected, public)
    labels = None if groups is None else codes[protected]
    places = np.full(n_samples, -1)
    places[public] = np.arange(len(public))
    return (X_public, y_public, take_method_params(X, params, public)), held_out, places, labels


def _folds_of_public_rows(splits, places, n_public):
    """Return splits as positions among the public rows; `places` as in `public_cv`."""
    try:
        folds = [(np.asarray(train), np.asarray(test)) for train, test in splits.split()]
    except (TypeError, ValueError):
        folds = None
    if folds is None or any(p.size and p.dtype.kind not in "biu" for fold in folds for p in fold):
        raise ValueError("cv must hold pairs (train, test) of positions of rows, as integers.")
    folds = [[p if p.dtype.kind == "b" else p.astype(np.intp) for p in fold] for fold in folds]
    parts = [part for fold in folds for part in fold if part.size]
    # Smallest number of rows for each part: a mask, or positions, perhaps negative.
    least = [len(p) if p.dtype.kind == "b" else max(p.max() + 1, -p.min()) for p in parts]
    of_public = places is None or max(least, default=0) <= n_public
    places = np.arange(n_public) if of_public else places
    try:
        folds = [tuple(places[part] for part in fold) for fold in folds]
    except IndexError:
        rows = "public rows: protected ones are in no fold" if of_public else "rows of X"
        text = f"cv must hold positions, or masks, of the {len(places)} {rows}."
        raise ValueError(text) from None
    if of_public:
        return folds
    public = [tuple(part[part >= 0] for part in fold) for fold in folds]
    return [fold for fold in public if all(part.size for part in fold)]


def public_cv(searcher, X, y, places, grouped=False):
    """Return the splitter of the public rows.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
        Its `cv` and `estimator` are read.
    X, y : public rows and targets
    places : ndarray or None
        Position of each row of ``fit`` among the public ones, -1 for a protected row; None with
        `X_val`.
    grouped : bool, default=False
        Whether `places` depends on the sizes of protected groups, which are secret.

    Returns
    -------
    cv : int, cross-validation generator or iterable
        With ``cv=None`` five folds, or as many as the smallest class has rows, at least two.
        Splits of all rows are restricted to the public ones.
    """
    cv, kind = searcher.cv, None
    has_labels = is_classifier(searcher.estimator) and y is not None
    # For a number of folds, too, as scikit-learn's error of a missing label does not name y.
    if has_labels and (cv is None or isinstance(cv, numbers.Integral)):
        kind = type_of_target(y, input_name="y")
    if cv is None:
        fewest = n_rows(X)
        if kind in ("binary", "multiclass"):
            fewest = np.unique(np.asarray(y), return_counts=True)[1].min(initial=fewest)
        return int(min(max(fewest, _FEWEST_FOLDS), _MOST_FOLDS))
    if isinstance(cv, numbers.Integral):
        return cv
    if hasattr(cv, "split") and (places is None or not isinstance(cv, PredefinedSplit)):
        return cv
    if grouped and places is not None:
        raise ValueError(
            "cv must be a number or a splitter, such as GroupKFold(5), where groups are set apart: "
            "positions of rows depend on the sizes of the protected groups."
        )
    return _folds_of_public_rows(check_cv(cv), places, n_rows(X))
