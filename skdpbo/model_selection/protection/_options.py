"""Refusals of a search in which every record is protected. No protected value is read."""

from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils import get_tags

from skdpbo._parameters import warn_caller
from skdpbo.model_selection._sklearn import has_callbacks
from skdpbo.model_selection.rows._protected import check_schema

__all__ = [
    "refuse_chunk_schema",
    "refuse_options_of_public_rows",
    "refuse_telling_parts",
    "warn_of_silent_callbacks",
]


def warn_of_silent_callbacks(searcher):
    """Warn that callbacks of a search without public folds are not called."""
    if has_callbacks([searcher]):
        warn_caller(
            f"The callbacks of this {type(searcher).__name__} are not called: they are shown "
            "public fits, and there are none. verbose=1 prints the counts that are public.",
            UserWarning,
        )


def refuse_options_of_public_rows(searcher):
    """Raise for options that have no meaning where every record is protected."""
    warn_of_silent_callbacks(searcher)
    effective_n_jobs(searcher.n_jobs)  # raises for 0
    if searcher.cv is not None:
        raise ValueError('cv must be None with protect="all": no row is public to be split.')
    if searcher.return_train_score:
        raise ValueError(
            'return_train_score must be False with protect="all": no row is public to be scored.'
        )
    if searcher.memory is not None:
        raise ValueError(
            'memory must be None with protect="all": no row is public, and nothing else is kept.'
        )
    if isinstance(searcher.error_score, str):
        raise ValueError(
            'error_score="raise" is not supported with protect="all": an error could quote a '
            "record. A model that fails has the worst score."
        )
    if isinstance(searcher.scoring, list | tuple | set | dict):
        raise ValueError(
            'scoring cannot hold several metrics with protect="all": each further score would be '
            "a release of its own."
        )


def refuse_telling_parts(estimator, candidates):
    """Raise for an estimator that would store, print, count or mix protected rows.

    Parameters
    ----------
    estimator : estimator
    candidates : list of dict
    """
    for params in [{}, *candidates]:
        model = clone(estimator).set_params(**clone(params, safe=False))
        parts = model.get_params()
        for name, value in parts.items():
            last = name.rsplit("__", 1)[-1]
            if last == "memory" and value is not None:
                raise ValueError(
                    f"{name} must be None: a cache stores protected rows on disk and repeats the "
                    "noise of an earlier fit."
                )
            if last == "verbose" and value:
                raise ValueError(f"{name} must be 0: messages could reveal protected rows.")
        if get_tags(model).input_tags.pairwise:
            raise ValueError(
                'A precomputed kernel or distance cannot be used with protect="all": one record '
                "enters the rows of all others. Give the features."
            )
        if has_callbacks([model, *parts.values()]):
            raise ValueError(
                'Callbacks of the estimator cannot be used with protect="all": they are shown fits '
                "on protected rows, and their number."
            )


def refuse_chunk_schema(estimator, n_chunks, n_samples, X, y, X_val, y_val):
    """Raise for types and numbers of columns and of rows, or of groups, that cannot be fitted."""
    if n_samples < n_chunks:
        raise ValueError(
            f"Found array with n_samples={n_samples} while n_chunks={n_chunks} needs at least one "
            "row, or group of rows, for each chunk, and hundreds to train well."
        )
    shape, kind = getattr(X, "shape", None), getattr(getattr(X, "dtype", None), "kind", "O")
    if kind == "c":
        raise ValueError("Complex data not supported.")
    if shape is not None and len(shape) == 1 and kind in "biuf":
        raise ValueError(f"Expected 2D array, got 1D array instead, of shape {shape}.")
    if shape is not None and 0 in shape[1:]:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )
    if y is None and get_tags(estimator).target_tags.required:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    if len(getattr(y, "shape", ())) > 2:
        raise ValueError(f"y must have one or two dimensions, got {len(y.shape)}.")
    if X_val is not None:
        check_schema(X_val, y_val, X, y, public=False)
