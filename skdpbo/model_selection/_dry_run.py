"""What is wrong with an estimator, found on synthetic rows.

Where protected rows train, a fit that fails cannot be shown: it costs the worst score in silence.
A mistake that has nothing to do with the records, such as a parameter out of range, shows on
synthetic rows as well, and there it may be told.
"""

import warnings

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from skdpbo.exceptions import DryRunWarning
from skdpbo.model_selection._isolation import nothing_leaves
from skdpbo.privacy import charged_elsewhere

__all__ = ["dry_run"]

_N_ROWS = 60  # a fold of five still has rows of both classes
_SEED = 20070611
_TEXTS = ("a", "b")


def dry_run(estimator, candidates, X, y, scorer=None):
    """Fit one candidate of each structure on synthetic rows; warn where that fails.

    Parameters
    ----------
    estimator : estimator
        Not fitted; it is cloned.
    candidates : list of dict
        The first with each set of names is tried.
    X, y : protected rows and targets
        Their shapes, column names and types are read, never a value. Nothing is tried where these
        say too little (lists, foreign containers).
    scorer : callable, default=None
        ``scorer(model, X, y)``: also tried, on the same synthetic rows.
    """
    structures = {tuple(params): params for params in reversed(candidates)}
    for params in structures.values():
        errors = [
            _failure(estimator, params, scorer, *rows) for rows in _synthetic(estimator, X, y)
        ]
        if errors and None not in errors:
            _warn(estimator, params, errors[0])


def _failure(estimator, params, scorer, X, y):
    """Error of one fit and score, or None."""
    with nothing_leaves(), charged_elsewhere():
        try:
            model = clone(estimator).set_params(**clone(params, safe=False))
            model.fit(X, *(() if y is None else (y,)))
            if scorer is not None:
                scorer(model, X, y)
        except (Exception, SystemExit) as error:
            return error
    return None


def _warn(estimator, params, error):
    warnings.warn(
        f"{type(estimator).__name__} with {params} cannot be trained and scored on synthetic rows "
        f"of the given shape and types: {type(error).__name__}: {error} What fails on protected "
        "rows is never reported; it costs the worst score. If the synthetic values alone are to "
        "blame, ignore this.",
        DryRunWarning,
        stacklevel=5,
    )


def _synthetic(estimator, X, y):
    """Yield (X, y) of synthetic rows: one guess for plain types, two for arrays of objects."""
    rng = np.random.RandomState(_SEED)  # public randomness
    targets = _targets(estimator, y, rng)
    for table in _tables(X, rng):
        yield table, targets


def _tables(X, rng):
    if sparse.issparse(X):
        values = sparse.random(_N_ROWS, X.shape[1], 0.3, "csr", np.float64, rng)
        yield values.astype(X.dtype)
    elif hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns"):
        yield _frame(X, rng)
    elif isinstance(X, np.ndarray) and X.ndim > 0:
        kinds = ["f", "O"] if X.dtype.kind == "O" else [X.dtype.kind]
        for kind in kinds:
            values = _values(kind, (_N_ROWS, *X.shape[1:]), rng)
            if values is not None:
                yield values.astype(X.dtype)


def _frame(X, rng):
    """Return a frame with the columns and types of `X`."""
    columns = [_column(dtype, rng) for dtype in X.dtypes]
    frame = type(X)(dict(enumerate(columns)))
    frame = frame.astype(dict(enumerate(X.dtypes)))
    frame.columns = X.columns
    return frame


def _column(dtype, rng):
    categories = getattr(dtype, "categories", None)
    if categories is not None and len(categories):
        return np.asarray(categories, dtype=object)[rng.randint(len(categories), size=_N_ROWS)]
    values = _values(getattr(dtype, "kind", "O"), (_N_ROWS,), rng)
    return np.zeros(_N_ROWS, dtype="datetime64[s]") if values is None else values


def _values(kind, shape, rng):
    """Return values of a kind of type: positive, as some estimators insist; None if unknown."""
    if kind == "f":
        return rng.uniform(size=shape)
    if kind in "iu":
        return rng.randint(3, size=shape)
    if kind == "b":
        return rng.randint(2, size=shape).astype(bool)
    if kind in "OUST":
        return np.array(_TEXTS, dtype=object)[rng.randint(2, size=shape)]
    return None


def _targets(estimator, y, rng):
    if y is None:
        return None
    shape = (_N_ROWS, *getattr(y, "shape", ())[1:])
    dtype = getattr(y, "dtype", None)
    if getattr(dtype, "categories", None) is not None:
        return _column(dtype, rng)
    kind = getattr(dtype, "kind", "i" if is_classifier(estimator) else "f")
    if not is_classifier(estimator):
        return 0.5 + rng.uniform(size=shape)
    labels = rng.permutation(np.resize([0, 1], _N_ROWS * int(np.prod(shape[1:])))).reshape(shape)
    return (
        np.array(_TEXTS)[labels] if kind in "OUST" else labels.astype(float if kind == "f" else int)
    )
