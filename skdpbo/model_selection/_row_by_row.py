"""Functions of a pipeline that look at several rows at once, found on synthetic rows.

The guarantee assumes that every row is transformed and predicted from that row alone. A function
that, say, subtracts the mean of a batch learns from the protected rows without noise.
"""

from contextlib import contextmanager

import numpy as np
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from skdpbo.model_selection._sklearn import n_rows, take_rows

__all__ = ["FUNCTIONS", "MixedRowsError", "watched_functions"]

_N_ALONE = 8  # rows that are also given one at a time
_ROUNDING = 1e-5  # relative to the largest number; more than any order of summation explains
FUNCTIONS = ("func", "inverse_func")


class MixedRowsError(ValueError):
    """A function or a loss is not computed of each row alone. The text is public."""


@contextmanager
def watched_functions(model):
    """Watch what the functions of a model do to *public* rows while a block is run.

    Parameters
    ----------
    model : estimator
        Its `FunctionTransformer` and `TransformedTargetRegressor` steps are watched.

    Raises
    ------
    MixedRowsError
        After the block, if the answer of a function for some row alone is another than in a batch.
    """
    steps = {"": model, **model.get_params(deep=True)}
    watched = [
        (step, name, _Watched(getattr(step, name), f"{name} of {_name(key, step)}"))
        for key, step in steps.items()
        for name in FUNCTIONS
        if _is_watched(steps, key) and getattr(step, name) is not None
    ]
    for step, name, watch in watched:
        setattr(step, name, watch)
    try:
        yield
    finally:
        for step, name, watch in watched:
            setattr(step, name, watch.function)
    for _, _, watch in watched:
        if watch.mixes:
            raise MixedRowsError(
                f"{watch.name} looks at several rows at once: on synthetic rows, its answer for a "
                'row alone is another than in a batch. With protect="all" it must treat every row '
                "by itself: use public constants."
            )


def _is_watched(steps, key):
    # What is frozen belongs to the user and is not copied.
    frozen = isinstance(steps.get(key.rpartition("__")[0]), FrozenEstimator)
    kinds = FunctionTransformer | TransformedTargetRegressor
    return isinstance(steps[key], kinds) and not (key and frozen)


def _name(key, step):
    kind = type(step).__name__
    return f"{kind} (step {key!r})" if key else kind


class _Watched:
    """A function that is compared with itself on single rows whenever it is called."""

    def __init__(self, function, name):
        self.function = function
        self.name = name
        self.mixes = False

    def __call__(self, rows, *args, **kwargs):
        """Return what the function returns."""
        answer = self.function(_copied(rows), *args, **kwargs)
        if not self.mixes:
            self.mixes = _mixes(lambda some: self.function(some, *args, **kwargs), rows, answer)
        return answer

    def __deepcopy__(self, memo):
        """A clone of a step is watched by the same."""
        return self


def _copied(rows):
    return take_rows(rows, np.arange(n_rows(rows)))


def _mixes(function, rows, answer):
    n = n_rows(rows)
    if n < 2 or not _same(function(_copied(rows)), answer):
        return False  # one that draws at random cannot be judged
    try:
        return n_rows(answer) != n or not all(
            _same(function(take_rows(rows, [i])), take_rows(answer, [i]))
            for i in range(min(n, _N_ALONE))
        )
    except Exception:  # it can do a batch and cannot do a row
        return True


def _same(first, second):
    first, second = (
        np.asarray(values.toarray() if sparse.issparse(values) else values)
        for values in (first, second)
    )
    if first.shape != second.shape:
        return False
    try:
        first, second = first.astype(float), second.astype(float)
    except (TypeError, ValueError):
        return bool(np.array_equal(first, second))
    finite = np.abs(second[np.isfinite(second)])
    scale = finite.max() if finite.size else 0.0
    return bool(np.allclose(first, second, rtol=0, atol=_ROUNDING * scale, equal_nan=True))
