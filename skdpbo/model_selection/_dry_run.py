"""What is wrong with an estimator, found on synthetic rows.

Where protected rows train, a fit that fails cannot be shown: it costs the worst score in silence.
A mistake that has nothing to do with the records, such as a parameter out of range, shows on
synthetic rows as well, and there it may be told.
"""

import numbers
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from skdpbo.exceptions import DryRunWarning
from skdpbo.model_selection._evaluation import refuse_mixed_losses
from skdpbo.model_selection._isolation import ONE_AT_A_TIME, nothing_leaves, public_generators
from skdpbo.model_selection._row_by_row import FUNCTIONS, MixedRowsError, watched_functions
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
        The first with each set of names, and of functions of rows, is tried.
    X, y : protected rows and targets
        Their shapes, column names and types are read, never a value. Nothing is tried where these
        say too little (lists, foreign containers).
    scorer : callable, default=None
        ``scorer(model, X, y)``: also tried, on the same synthetic rows.

    Raises
    ------
    ValueError
        If a function of the estimator, or a user's loss, looks at several rows at once.
    """
    structures = {_structure(params): params for params in reversed(candidates)}
    for params in structures.values():
        error = _common_failure(estimator, params, scorer, X, y)
        if error is not None:
            _warn(estimator, params, error, _text_of(error, estimator, params, scorer, X, y))


def _structure(params):
    functions = (id(v) for key, v in params.items() if key.split("__")[-1] in FUNCTIONS)
    return tuple(params), tuple(functions)


def _common_failure(estimator, params, scorer, X, y, rename=None):
    """First error if all guesses of synthetic rows fail, else None; raise what is refused."""
    rows = _synthetic(estimator, X, y, rename)
    errors = [_failure(estimator, params, scorer, *guess) for guess in rows]
    for error in errors:
        if isinstance(error, MixedRowsError):
            raise ValueError(str(error))
    return errors[0] if errors and None not in errors else None


def _text_of(error, estimator, params, scorer, X, y):
    """Text of an error that names no category: these are in the schema, but not ours to print."""
    dtypes = [*getattr(X, "dtypes", ()), getattr(y, "dtype", None)]
    if any(getattr(dtype, "categories", None) is not None for dtype in dtypes):
        error = _common_failure(estimator, params, scorer, X, y, _with_names_of_ours)
    return "." if error is None else f": {error}"


def _with_names_of_ours(dtype):
    """Return a type like `dtype` whose categories, if it has any, have other names."""
    categories = getattr(dtype, "categories", None)
    if categories is None:
        return dtype
    names = [
        i if isinstance(category, numbers.Real) else f"category {i}"
        for i, category in enumerate(categories)
    ]
    return type(dtype)(names, ordered=getattr(dtype, "ordered", False))


def _failure(estimator, params, scorer, X, y):
    """Error of one fit and score, or None."""
    with nothing_leaves(), ONE_AT_A_TIME, public_generators(_SEED), charged_elsewhere():
        try:
            model = clone(estimator).set_params(**clone(params, safe=False))
            with watched_functions(model):
                model.fit(X, *(() if y is None else (y,)))
                if scorer is not None:
                    scorer(model, X, y)
                    refuse_mixed_losses(model, scorer, X, y)
        except (Exception, SystemExit) as error:
            return error
    return None


def _warn(estimator, params, error, text):
    warnings.warn(
        f"{type(estimator).__name__} with {params} cannot be trained and scored on synthetic rows "
        f"of the given shape and types: {type(error).__name__}{text} What fails on protected "
        "rows is never reported; it costs the worst score. If the synthetic values alone are to "
        "blame, ignore this.",
        DryRunWarning,
        stacklevel=5,
    )


def _synthetic(estimator, X, y, rename=None):
    """Yield (X, y) of synthetic rows: one guess for plain types, two for arrays of objects."""
    rng = np.random.RandomState(_SEED)  # public randomness
    rename = rename or (lambda dtype: dtype)
    targets = _targets(estimator, y, rng, rename)
    for table in _tables(X, rng, rename):
        yield table, targets


def _tables(X, rng, rename):
    if sparse.issparse(X):
        values = sparse.random(_N_ROWS, X.shape[1], 0.3, "csr", np.float64, rng)
        yield values.astype(X.dtype)
    elif hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns"):
        yield _frame(X, rng, rename)
    elif isinstance(X, np.ndarray) and X.ndim > 0:
        kinds = ["f", "O"] if X.dtype.kind == "O" else [X.dtype.kind]
        for kind in kinds:
            values = _values(kind, (_N_ROWS, *X.shape[1:]), rng)
            if values is not None:
                yield values.astype(X.dtype)


def _frame(X, rng, rename):
    """Return a frame with the columns and types of `X`."""
    dtypes = [rename(dtype) for dtype in X.dtypes]
    columns = [_column(dtype, rng) for dtype in dtypes]
    frame = type(X)(dict(enumerate(columns)))
    frame = frame.astype(dict(enumerate(dtypes)))
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


def _targets(estimator, y, rng, rename):
    if y is None:
        return None
    shape = (_N_ROWS, *getattr(y, "shape", ())[1:])
    dtype = rename(getattr(y, "dtype", None))
    if getattr(dtype, "categories", None) is not None:
        return _column(dtype, rng)
    kind = getattr(dtype, "kind", "i" if is_classifier(estimator) else "f")
    if not is_classifier(estimator):
        return 0.5 + rng.uniform(size=shape)
    labels = rng.permutation(np.resize([0, 1], _N_ROWS * int(np.prod(shape[1:])))).reshape(shape)
    return (
        np.array(_TEXTS)[labels] if kind in "OUST" else labels.astype(float if kind == "f" else int)
    )
