"""The only module that imports private names of scikit-learn.

If a scikit-learn release moves one of these names, change this file. The hooks of ``BaseSearchCV``
that the searchers override are listed in ``_base.py``.

Also tasks of scikit-learn's callback protocol (>= 1.9). Callbacks get public data only.
"""

import re
from contextlib import contextmanager

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.metrics._scorer import _MultimetricScorer as MultimetricScorer
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._search import _yield_masked_array_for_each_param as param_columns
from sklearn.model_selection._search_successive_halving import HalvingGridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.metaestimators import _safe_split as split_for_estimator
from sklearn.utils.validation import _check_method_params as take_method_params
from sklearn.utils.validation import _num_samples as n_rows

from skdpbo._isolation._estimator_parts import parts_inside

__all__ = [
    "BaseSearchCV",
    "HalvingGridSearchCV",
    "Interval",
    "InvalidParameterError",
    "MultimetricScorer",
    "StrOptions",
    "all_fits_failed",
    "final_step",
    "has_callbacks",
    "n_rows",
    "param_columns",
    "puts_out_frames",
    "readable_errors",
    "results_table",
    "split_for_estimator",
    "take_method_params",
    "take_rows",
    "task",
    "with_params",
    "without_callbacks",
]


def take_rows(rows, positions):
    """Return the rows of a container at some positions, as a container of the same kind."""
    # Fast path for losses of single records, which take rows of arrays thousands of times.
    if type(rows) is type(positions) is np.ndarray:
        return rows[positions]
    return _safe_indexing(rows, positions)


def results_table(make, *lists):
    """Return scikit-learn's table of results, with zeros for masked values.

    Masked values of a column are uninitialised memory, which may have held losses of protected
    records, and would be pickled.
    """
    table = make(*lists)
    for column in table.values():
        if isinstance(column, np.ma.MaskedArray) and not column.dtype.hasobject:
            column.data[np.ma.getmaskarray(column)] = np.zeros((), column.dtype)
    return table


def puts_out_frames(step):
    """Whether a transformer returns frames (``set_output``, or scikit-learn's configuration)."""
    own = getattr(step, "_sklearn_output_config", {}).get("transform")
    container = get_config()["transform_output"] if own is None else own
    return container != "default" and hasattr(step, "transform") and hasattr(step, "set_output")


def with_params(estimator, params):
    """Return a clone with the parameters of a candidate."""
    # Values are cloned, too: candidates may share an estimator, which each would change.
    return clone(estimator).set_params(**clone(params, safe=False))


def final_step(estimator):
    """Return the model at the end of a pipeline, or of nested pipelines."""
    while isinstance(estimator, Pipeline) and estimator.steps:
        estimator = estimator.steps[-1][1]
    return estimator


def all_fits_failed(error):
    """Whether ``BaseSearchCV`` gave up because every fit of a batch of candidates failed."""
    return type(error) is ValueError and str(error).lstrip().startswith("All the ")


def has_callbacks(parts):
    """Whether callbacks of scikit-learn's protocol (>= 1.9) are set on any of some objects."""
    return any(getattr(part, "_skl_callbacks", None) for part in parts)


def without_callbacks(estimator):
    """Remove the callbacks of that protocol from an estimator and its parts; return it."""
    for part in parts_inside(estimator):
        if getattr(part, "_skl_callbacks", None) and not isinstance(part, type):
            part.__dict__.pop("_skl_callbacks", None)
    return estimator


@contextmanager
def readable_errors():
    """Make parameter errors list options in order, and name classes by their public modules."""
    try:
        yield
    except InvalidParameterError as error:
        text = re.sub(r"'(skdpbo\.\w+)[.\w]*\._\w+\.(\w+)'", r"'\1.\2'", str(error))
        text = re.sub(
            r"(?<=among \{).*?(?=\})", lambda texts: ", ".join(sorted(texts[0].split(", "))), text
        )
        raise InvalidParameterError(text) from None


@contextmanager
def task(parent, estimator, **description):
    """Open a task under `parent`; yield its keyword argument, {} without the protocol."""
    if not parent:
        yield {}
        return
    context = parent["callback_ctx"].subcontext(**description)
    context = context.call_on_fit_task_begin(estimator=estimator)
    yield {"callback_ctx": context}
    context.call_on_fit_task_end(estimator=estimator)  # not after an error
