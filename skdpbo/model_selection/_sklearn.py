"""The one place that imports private names of scikit-learn.

When a scikit-learn release moves one of these names, this is the file to change. The hooks of
``BaseSearchCV`` that the searchers override are listed in ``_base.py``.

Tasks of scikit-learn's callback protocol (>= 1.9). Callbacks are shown public data only.
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
    """Return the rows of a container at some positions, as a container of its kind."""
    # Losses of single records take rows of arrays thousands of times: without an inspection.
    if type(rows) is type(positions) is np.ndarray:
        return rows[positions]
    return _safe_indexing(rows, positions)


def results_table(make, *lists):
    """Return the columns that scikit-learn makes of results, with zeros where it sets nothing.

    What a mask hides in the column of a parameter is memory that has held other arrays, such as
    losses of protected records, and pickles show it.
    """
    table = make(*lists)
    for column in table.values():
        if isinstance(column, np.ma.MaskedArray) and not column.dtype.hasobject:
            column.data[np.ma.getmaskarray(column)] = np.zeros((), column.dtype)
    return table


def puts_out_frames(step):
    """Whether a transformer answers with frames (``set_output``, or scikit-learn's setting)."""
    own = getattr(step, "_sklearn_output_config", {}).get("transform")
    how = get_config()["transform_output"] if own is None else own
    return how != "default" and hasattr(step, "transform") and hasattr(step, "set_output")


def with_params(estimator, params):
    """Return a clone with the parameters of a candidate."""
    # Their values are cloned as well: candidates may name one estimator, which each would change.
    return clone(estimator).set_params(**clone(params, safe=False))


def final_step(estimator):
    """Return the model at the end of a pipeline, or of pipelines in one another."""
    while isinstance(estimator, Pipeline) and estimator.steps:
        estimator = estimator.steps[-1][1]
    return estimator


def all_fits_failed(error):
    """Whether ``BaseSearchCV`` gave up because every fit of a batch of candidates failed."""
    return type(error) is ValueError and str(error).lstrip().startswith("All the ")


def has_callbacks(parts):
    """Whether callbacks of scikit-learn's protocol (>= 1.9) are set on one of some objects."""
    return any(getattr(part, "_skl_callbacks", None) for part in parts)


def without_callbacks(estimator):
    """An estimator whose callbacks of that protocol, and those of its parts, are taken away."""
    for part in parts_inside(estimator):
        if getattr(part, "_skl_callbacks", None) and not isinstance(part, type):
            part.__dict__.pop("_skl_callbacks", None)
    return estimator


@contextmanager
def readable_errors():
    """Errors of parameters list texts in order, and name classes as they are imported."""
    try:
        yield
    except InvalidParameterError as error:
        # Users import from public modules, and sets of texts have no order of their own.
        text = re.sub(r"'(skdpbo\.\w+)[.\w]*\._\w+\.(\w+)'", r"'\1.\2'", str(error))
        text = re.sub(
            r"(?<=among \{).*?(?=\})", lambda texts: ", ".join(sorted(texts[0].split(", "))), text
        )
        raise InvalidParameterError(text) from None


@contextmanager
def task(parent, estimator, **description):
    """Open a task under `parent`; yield the keyword that hands it on, {} without the protocol."""
    if not parent:
        yield {}
        return
    context = parent["callback_ctx"].subcontext(**description)
    context = context.call_on_fit_task_begin(estimator=estimator)
    yield {"callback_ctx": context}
    context.call_on_fit_task_end(estimator=estimator)  # not after an error
