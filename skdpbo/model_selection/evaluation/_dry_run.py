"""Dry run of an estimator on synthetic rows, to find public errors.

Where protected rows train, a failed fit must not be reported: it silently costs the worst score.
An error that does not depend on the records, such as a parameter out of range, also occurs on
synthetic rows, where it can be reported.
"""

import numbers
import traceback

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier

from skdpbo._attempt import attempt, attempt_publicly
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._schema import declared_types, kind_of_type, public_shape
from skdpbo.model_selection._sklearn import (
    InvalidParameterError,
    n_rows,
    take_rows,
    with_params,
)
from skdpbo.model_selection.evaluation._row_independence import (
    MixedRowsError,
    one_of_each_structure,
    refuse_row_mixing,
    watched_steps,
)
from skdpbo.model_selection.evaluation._train_and_score import train, try_scorer
from skdpbo.model_selection.rows._object_table import as_objects
from skdpbo.model_selection.rows._overlap import entry_length
from skdpbo.model_selection.rows._settled_types import settled_rows, settled_targets
from skdpbo.model_selection.scoring._scorer import MissingResponseError

NOTHING_CHARGED = " Nothing was charged."  # end of an error message
_N_ROWS = 60  # training rows: each fold of five still has rows of both classes
_N_SHOWN = _N_ROWS + 1  # the last one is only scored: its texts are new to the model
_SEED = 20070611
# (type, shape of a row) of lists of unknown shape, as of dicts.
_GUESSES_FOR_LISTS = [("f", (8,)), ("f", (64,)), ("O", (8,))]
_LABELS = ("a", "b")
# Modules of this library whose errors do not depend on the values of rows.
_OWN = {"_class_labels", "_parameters", "_schema"}
_OWN |= {"gaussian_process", "linear_model", "preprocessing", "privacy"}
# Words that vectorizers accept: several letters, no stop words.
_TEXTS = ("alpha beta", "beta gamma")
_UNSEEN = "unseen text"


def dry_run(estimator, candidates, X, y, scorer=None, fit_params=None, cuts_entries=True):
    """Fit one candidate of each structure on synthetic rows; raise or return public failures.

    Parameters
    ----------
    estimator : estimator
        Not fitted; it is cloned.
    candidates : list of dict
        The first of each structure (`one_of_each_structure`) is tried; all of them if these fail
        for reasons that do not depend on the values of rows.
    X, y : protected rows and targets
        Only shapes, column names and types are read, never a value. Nothing is tried where they
        are insufficient (foreign containers).
    scorer : callable, default=None
        ``scorer(model, X, y)``: also tried, on the same synthetic rows.
    fit_params : dict, default=None
        Further arguments of ``fit``; ones replace the entries that go with the rows.
    cuts_entries : bool, default=True
        Whether entries as long as `X` go with its rows.

    Returns
    -------
    failures : list of str
        A warning for each tried candidate that fails, perhaps because of the synthetic values.

    Raises
    ------
    ValueError
        If every candidate fails for a reason that does not depend on the values of rows: a
        parameter out of range or unknown, a response that the model does not have, a scorer that
        raises. Also if a function of the estimator, or a user's loss, mixes rows.
    """
    lengths = (n_rows(X),) if cuts_entries else ()
    entries = (fit_params or {}).items()
    aligned = [name for name, entry in entries if entry_length(entry) in lengths]
    setting = scorer, X, y, (fit_params or {}) | dict.fromkeys(aligned, np.ones(_N_ROWS))
    # One of each: a fit of every candidate could take as long as the search.
    first = one_of_each_structure(candidates)
    errors = [_common_failure(estimator, params, *setting) for params in first]
    types = [dtype for values in (X, y) if values is not None for dtype in declared_types(values)]
    # The schema does not determine the types of all cells.
    guessed = bool(aligned) or any(dtype is None or dtype == np.object_ for dtype in types)
    others = (params for params in candidates if not any(params is tried for tried in first))
    if all(_is_public(error, guessed) for error in errors) and all(
        _is_public(_common_failure(estimator, params, *setting), guessed) for params in others
    ):
        text = _text_of(errors[0], estimator, first[0], *setting)
        raise ValueError(
            f"{type(estimator).__name__} cannot be trained and scored with any candidate, whatever "
            f"the values of X are: {text}{NOTHING_CHARGED}"
        )
    return [
        f"{type(estimator).__name__} with {params} cannot be trained and scored on synthetic rows "
        f"of the given shape and types: {_text_of(error, estimator, params, *setting)} What fails "
        "on protected rows is never reported; it costs the worst score. If the synthetic values "
        "alone are to blame, ignore this."
        for params, error in zip(first, errors, strict=True)
        if error is not None
    ]


class _TextsError(Exception):
    """A fit fails with texts, but not with numbers, in a table of objects that may hold either."""


def _is_public(error, guessed):
    """Whether an error shows that no rows of these types can be fitted and scored.

    Any other error may be due to the synthetic values.
    """
    # An InvalidParameterError is both a ValueError and a TypeError: see the next condition.
    if isinstance(error, TypeError | AttributeError) and not isinstance(error, ValueError):
        return not guessed or isinstance(error, MissingResponseError)
    kinds = InvalidParameterError | NameError | ImportError | NotImplementedError
    if error is None or isinstance(error, kinds):
        return error is not None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    module = frames[-1].f_globals.get("__name__", "") if frames else ""
    floor = module.removeprefix("skdpbo.").partition(".")[0]
    # Numbers of dimensions and of columns, which are not guessed.
    return floor in _OWN or (bool(frames) and frames[-1].f_code.co_name == "check_array")


def _common_failure(estimator, params, scorer, X, y, fit_params, rename=None):
    """Return the first error if all guesses of synthetic rows fail, else None.

    Mixed rows are raised as a ValueError; if only texts fail, a `_TextsError` is returned.
    """
    errors = []
    pos_label = getattr(scorer, "pos_label", None)
    for guess in synthetic_rows(estimator, X, y, rename, pos_label):
        # In isolation, though no row is protected: nothing is printed, as with protected rows,
        # and the global generators are restored.
        trial = _fit_and_score, estimator, params, scorer, *guess, fit_params
        errors.append(in_isolation(attempt_publicly, *trial)[1])
    for error in errors:
        if isinstance(error, MixedRowsError):
            raise ValueError(str(error))
    of_texts = errors and errors[0 if hasattr(X, "iloc") else -1]
    if not of_texts or (None in errors and isinstance(X, list)):  # lists mostly hold numbers
        return None
    if None in errors:
        return _TextsError(
            f"{_class_and_text(of_texts)}. These are texts, as columns of objects may hold; "
            "numbers need a numeric type, as by X.astype(float), to be known as such"
        )
    if isinstance(X, list):
        # The types of the cells are not public: the rows may differ from a failing guess.
        if public_shape(X) is None and str(errors[0]) != str(errors[1]):
            return None  # the error depends on the number of columns
        errors = [error for error in errors if _is_public(error, True)]
    return next(iter(errors), None)


def _text_of(error, estimator, params, scorer, X, y, fit_params):
    """Return class and text of an error, without names of categories, which we do not print."""
    kind = type(error).__name__
    dtypes = [*getattr(X, "dtypes", ()), getattr(y, "dtype", None)]
    if any(getattr(dtype, "categories", None) is not None for dtype in dtypes):
        error = _common_failure(estimator, params, scorer, X, y, fit_params, _renamed_categories)
    return f"{kind if error is None else _class_and_text(error)}."


def _class_and_text(error):
    kind = "" if isinstance(error, _TextsError) else f"{type(error).__name__}: "
    return kind + str(error).partition("\narray=")[0].rstrip(".:")  # synthetic rows explain nothing


def _renamed_categories(dtype):
    """Return a type like `dtype` whose categories, if it has any, have neutral names."""
    categories = getattr(dtype, "categories", None)
    if categories is None:
        return dtype
    names = [
        i if issubclass(type(category), numbers.Real) else f"category {i}"
        for i, category in enumerate(categories)
    ]
    return type(dtype)(names, ordered=getattr(dtype, "ordered", False))


def _fit_and_score(estimator, params, scorer, X, y, fit_params):
    model = with_params(estimator, params)
    with watched_steps(model):
        trained = [None if rows is None else take_rows(rows, np.arange(_N_ROWS)) for rows in (X, y)]
        model, _ = train(model, *trained, fit_params)
        if scorer is not None:
            # Inside the watch: a step may mix rows only when the scorer predicts.
            _, error = attempt_publicly(try_scorer, model, scorer, X, y)
            if type(error) is RuntimeError:
                # A loss is a formula: unlike a training, it does not fail at random.
                raise NotImplementedError(f"the scorer raises {error!r}.")
            if error is not None:
                raise error
    refuse_row_mixing(model, X, getattr(scorer, "response_method", None))


def synthetic_rows(estimator, X, y, rename=None, pos_label=None):
    """Yield guesses (X, y) of synthetic rows: several if the types of cells are unknown.

    `pos_label`, if given, is one of the labels.
    """
    rng = np.random.RandomState(_SEED)  # public randomness
    rename = rename or (lambda dtype: dtype)
    targets = _targets(estimator, y, rng, rename, pos_label)
    if y is not None and not hasattr(y, "shape"):  # a list
        targets = targets.tolist()
    elif sparse.issparse(y):
        targets = type(y)(targets)
    targets = settled_targets(targets, is_classifier(estimator))
    for table in _tables(X, rng, rename):
        yield settled_rows(as_objects(table)), targets


def _tables(X, rng, rename):
    if sparse.issparse(X):
        values = sparse.random(_N_SHOWN, X.shape[1], 0.3, "csr", np.float64, rng)
        yield values.astype(X.dtype)
    elif hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns"):
        dtypes = [rename(dtype) for dtype in X.dtypes]
        # Next to columns of other types, objects are likely to be texts.
        objects = all(dtype == np.object_ for dtype in dtypes)
        for cells in [dtypes, [np.dtype(float)] * len(dtypes)][: 1 + objects]:
            columns = dict(enumerate(_column(dtype, rng) for dtype in cells))
            # No rows are made of types unknown here, nor of categories that raise.
            frame, error = attempt(type(X), columns)
            if error is None:
                frame, error = attempt(frame.astype, dict(enumerate(dtypes)))
            if error is None:
                frame.columns = X.columns
                yield frame
    elif isinstance(X, list):
        shape = public_shape(X)
        guesses = _GUESSES_FOR_LISTS if shape is None else [("f", shape[1:]), ("O", shape[1:])]
        for kind, columns in guesses:
            yield _values(kind, (_N_SHOWN, *columns), rng).astype(object)
    elif isinstance(X, np.ndarray) and X.dtype.names:
        rows = np.zeros((_N_SHOWN, *X.shape[1:]), X.dtype)
        for name in X.dtype.names:
            values = _values(X.dtype[name].base.kind, rows[name].shape, rng)
            rows[name] = rows[name] if values is None else values
        yield rows
    elif isinstance(X, np.ndarray) and X.ndim > 0:
        kinds = ["f", "O"] if X.dtype.kind == "O" else [X.dtype.kind]
        for kind in kinds:
            values = _values(kind, (_N_SHOWN, *X.shape[1:]), rng)
            if values is not None:
                yield values.astype(X.dtype)


def _column(dtype, rng):
    categories = getattr(dtype, "categories", None)
    if categories is not None and len(categories):
        return np.asarray(categories, dtype=object)[rng.randint(len(categories), size=_N_SHOWN)]
    kind = getattr(dtype, "kind", "O")
    if hasattr(dtype, "closed"):  # intervals, of numbers or dates
        breaks = np.arange(_N_SHOWN + 1).astype(getattr(dtype.subtype, "base", dtype.subtype))
        return dtype.construct_array_type().from_breaks(breaks, closed=dtype.closed)
    if kind in "mM" or hasattr(dtype, "freq"):  # durations, dates or periods
        days = _binary(rng, _N_SHOWN).astype("timedelta64[D]" if kind == "m" else "datetime64[D]")
        local = hasattr(dtype, "tz")  # pandas cannot cast to it
        return dtype.construct_array_type()._from_sequence(days, dtype=dtype) if local else days
    return _values(kind, (_N_SHOWN,), rng)


def _of_type(series, dtype, rng):
    values = _column(dtype, rng)
    return (type(series)(values) if hasattr(series, "iloc") else values).astype(dtype)


def _binary(rng, size):
    """Return equally many zeros and ones: every fold of an inner cross-validation has both."""
    return rng.permutation(np.resize([0, 1], size))


def _values(kind, shape, rng):
    """Return values of a kind of type, nonnegative as some estimators require; None if unknown."""
    if kind in "fc":
        return rng.uniform(size=shape)
    if kind in "iu":
        return rng.randint(3, size=shape)
    if kind == "b":
        return rng.randint(2, size=shape).astype(bool)
    if kind in "OUST":
        texts = np.array(_TEXTS, dtype=object)[rng.randint(2, size=shape)]
        texts[-1] = _UNSEEN
        return texts
    return None


def _targets(estimator, y, rng, rename, pos_label):
    if y is None:
        return None
    shape = (_N_SHOWN, *getattr(y, "shape", ())[1:])
    dtype = rename(next(iter(declared_types(y)), None))
    if len(shape) == 1 and getattr(dtype, "categories", None) is not None:
        return _column(dtype, rng)
    kind = getattr(dtype, "kind", "U" if isinstance(pos_label, str) else "i")
    if len(shape) == 1 and kind_of_type(dtype) == "others":
        values = attempt(_of_type, y, dtype, rng)[0]
        if values is not None:
            return values
    if not is_classifier(estimator) and kind_of_type(dtype) != "texts":
        return 0.5 + rng.uniform(size=shape)  # as Poisson and gamma regressions need
    labels = _binary(rng, int(np.prod(shape))).reshape(shape)
    if kind in "OUST":
        known = pos_label if isinstance(pos_label, str) else _LABELS[1]
        other = next(label for label in _LABELS if label != known)
        return np.array([other, known])[labels]
    if isinstance(pos_label, numbers.Real) and pos_label not in (0, 1):
        labels = labels + (pos_label - 1)
    return labels.astype(float if kind == "f" else int)
