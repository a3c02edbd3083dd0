"""Steps of a private pipeline that keep finite rows finite and never fail on one.

A private step states what it costs for finite rows: if a step before it overflows on one record,
that record decides whether there is a model, which no noise hides.
"""

import numbers

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
)

from skdpbo.model_selection.private_training._estimators import (
    children,
    is_nothing,
    is_private,
    step_name,
)

__all__ = ["finiteness_assumption", "risky_steps"]


def _always(step):
    return True


def _does_nothing(step):
    return step.func is None


def _codes_are_finite(step):
    # A missing value that is a category has a code of its own, NaN by default.
    missing = any(_is_missing(category) for of_column in step.categories for category in of_column)
    codes = [step.unknown_value] + [step.encoded_missing_value] * missing
    return all(isinstance(code, numbers.Real) and np.isfinite(code) for code in codes)


def _is_missing(category):
    return category is None or category != category


# Checked for the largest and the smallest numbers and for any object that can be hashed. All
# others, those that multiply or call a function, overflow or raise for some finite row.
_KEEP_FINITE = {
    Binarizer: _always,
    FunctionTransformer: _does_nothing,
    Normalizer: _always,
    OneHotEncoder: _always,
    OrdinalEncoder: _codes_are_finite,
}


def risky_steps(estimator):
    """Names of the steps, other than the private ones, that may not keep a finite row finite.

    Parameters
    ----------
    estimator : estimator
        Accepted by `private_steps`; not fitted.

    Returns
    -------
    names : list of str
    """
    return list(_risky_steps(estimator, ""))


def _risky_steps(estimator, prefix):
    if is_private(estimator):
        return
    if type(estimator) is TransformedTargetRegressor:
        # Fitting also inverts some targets, to compare.
        for name in ("func", "inverse_func"):
            if getattr(estimator, name) is not None:
                yield f"{name} of {step_name(estimator, prefix)}"
    steps = children(estimator, prefix)
    if steps is None:
        if not _KEEP_FINITE.get(type(estimator), lambda step: False)(estimator):
            yield step_name(estimator, prefix)
        return
    for name, step in steps:
        if not is_nothing(step):
            yield from _risky_steps(step, f"{prefix}{name}__")


def finiteness_assumption(names):
    """Return the assumption of the guarantee where steps may overflow or raise."""
    return f"every record stays finite, and raises no error, in {', '.join(names)}"
