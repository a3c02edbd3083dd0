"""Differential tests on public rows that find steps whose output for a row depends on other rows.

The guarantee assumes that every row is transformed and predicted from that row alone. A step that,
say, fills missing values by the mean of a batch learns from protected rows without noise. Steps
found here are refused; for all others that are not on the list of `_row_wise`, row independence
remains an assumption.
"""

import copy
import inspect
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import FunctionTransformer

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import seeded_generators
from skdpbo.model_selection._sklearn import n_rows, take_rows
from skdpbo.model_selection.evaluation._probe_batches import probe_batches
from skdpbo.model_selection.evaluation._row_wise import framed_steps, step_name, unverified_parts

_SEED = 20070619
_ROUNDING = 1e-5  # relative to the largest number; above any effect of the order of summation
_N_JUDGED = 2  # calls of a step that are tested: one in a fit, one in a prediction
FUNCTIONS = ("func", "inverse_func")
_METHODS = ("transform", "predict", "predict_proba", "decision_function", "inverse_transform")
_RESPONSES = ("predict_proba", "decision_function", "predict", "transform")


class MixedRowsError(ValueError):
    """A step or a loss is not computed row by row. The text of the error is public."""

    @classmethod
    def of_step(cls, name, framed=()):
        """Return the error for a step; `framed` are the names of steps whose output is a frame."""
        types = (
            f" Columns of the frames of {', '.join(framed)} have a type by all rows: "
            'set_output(transform="default"), or give texts a type, as by astype("str").'
        )
        return cls(
            f"{name} looks at several rows at once: on public rows, its answer for some row "
            "changes with the other rows of the batch. One protected record could move the losses "
            "of all others. Treat every row by itself, with public constants or what was learnt "
            f"by fit.{types * bool(framed)}"
        )


def one_of_each_structure(candidates):
    """Return the first candidate with each set of names, of functions and of estimators."""
    first = {}
    # Numbers and texts do not change the steps. Callables and estimators may: compared by identity.
    for params in candidates:
        parts = (id(v) for v in params.values() if callable(v) or hasattr(v, "get_params"))
        first.setdefault((tuple(params), tuple(parts)), params)
    return list(first.values())


def refuse_row_mixing(model, X, response_method=None):
    """Raise if a prediction of a fitted model depends on the other rows of the batch.

    Call in isolation.

    Parameters
    ----------
    model : estimator
        Fitted on public or synthetic rows.
    X : indexable of shape (n, ...)
        Public or synthetic rows in the container of the protected ones; twelve of them are used,
        also with missing, huge and repeated values.
    response_method : callable or other, default=None
        Of a scorer. A user's function ``response_method(model, X)`` is tested, too.

    Raises
    ------
    MixedRowsError
        Naming the step where it can be identified, else the model.
    """
    if callable(response_method):  # the only output of the model that is scored
        responses = [partial(response_method, model)]
        if mixes_rows(responses[0], X):
            raise MixedRowsError.of_step("response_method of the scorer")
    else:  # the finest prediction of a model, and the one with standard deviations
        responses = [getattr(model, name) for name in _RESPONSES if hasattr(model, name)][:1]
        predict = getattr(model, "predict", None)
        if predict is not None and "return_std" in inspect.signature(predict).parameters:
            responses.append(lambda rows: predict(rows, return_std=True))
    parts = unverified_parts(model)
    # All steps are verified by reading: a few batches are a check against oversights.
    if not parts and not any(_differs(response, X) for response in responses):
        return
    if any(step is not model for _, step in parts):
        with watched_steps(model):
            for response in responses:
                _answers(response, X)
    if any(mixes_rows(response, X, 2 if parts else 1) for response in responses):
        raise MixedRowsError.of_step(step_name(model, ""), [*framed_steps(model)])


def _differs(function, rows):
    """Whether the answers for the kept rows differ between a few batches."""
    families, _ = attempt(probe_batches, rows, few=True)
    # None: a container that cannot be indexed by row.
    return any(
        any(_departures([_answers(function, probe.rows) for probe in family], family, 0))
        for family in families or ()
    )


def mixes_rows(function, rows, n_families=2):
    """Whether the answer of a function for a row changes with the other rows of a batch.

    Parameters
    ----------
    function : callable
        ``function(rows)`` returns one entry for each row. Batches for which it raises are left
        out; a function that is not deterministic is not judged.
    rows : indexable of shape (n, ...)
        Public.
    n_families : int, default=2
        1 leaves out missing and huge values in the rows whose answers are compared.
    """
    families, _ = attempt(probe_batches, rows, n_families)
    # None: a container that cannot be indexed by row.
    return any(_is_mixed(function, family) for family in families or ())


def _is_mixed(function, family):
    """Whether the kept rows have other answers in one batch of a family than in another."""
    answers = [_answers(function, probe.rows) for probe in family]
    first = next((i for i, answer in enumerate(answers) if answer is not None), None)
    if first is None or len(family[first].which) < len(family[0].which):
        return False
    differing = _departures(answers, family, first)
    # A function that is not deterministic is not judged.
    if not any(differing) or not _same(answers[first], _answers(function, family[first].rows)):
        return False
    if any(
        probe.in_place and answer is not None and differs
        for probe, answer, differs in zip(family, answers, differing, strict=True)
    ):
        return True
    *several, one, another = [i for i, probe in enumerate(family) if not probe.in_place]
    if answers[one] is None and answers[another] is None:
        return True  # it answers for a batch, but raises for single rows
    # Answers that depend on the position of a row, such as draws, may change with the order and
    # the number of rows. A label at a tie may change by rounding.
    return (
        not differing[several[0]]
        and any(part.dtype.kind in "fc" for part in answers[first])
        and any(differing[i] for i in several)
    )


def _departures(answers, family, first):
    """Return for each batch whether its kept rows have other answers than in the first, or none.

    Parameters
    ----------
    answers : list of (list of ndarray, or None)
        One for each batch of the family.
    family : list of Probe
    first : int
        The batch with which the others are compared; it has an answer.

    Returns
    -------
    departures : list of bool
    """
    kept = []  # parts of each answer at the kept rows; None if it has not one entry for each row
    for probe, answer in zip(family, answers, strict=True):
        n = n_rows(probe.rows)
        whole = answer is not None and all(len(part) == n for part in answer)
        kept.append([part[probe.kept] for part in answer] if whole else None)
    start = kept[first]
    return [
        start is None or parts is None or not _same(parts, [part[probe.which] for part in start])
        for probe, parts in zip(family, kept, strict=True)
    ]


def _answers(function, rows):
    """Return the answer as a list of arrays, or None if the function raises."""
    return attempt(_answer_parts, function, rows)[0]


def _answer_parts(function, rows):
    copied = take_rows(rows, np.arange(n_rows(rows)))  # the function may write into its argument
    with seeded_generators(_SEED):
        answer = function(copied)
    # A list of tables is predict_proba of several outputs.
    tables = isinstance(answer, list) and all(getattr(part, "ndim", 0) == 2 for part in answer)
    parts = answer if isinstance(answer, tuple) or tables else [answer]
    return [
        np.atleast_1d(np.asarray(part.toarray() if sparse.issparse(part) else part))
        for part in parts
    ]


def _same(first, second):
    """Whether two answers are equal up to rounding; the second may be None."""
    if second is None or len(first) != len(second):
        return False
    for one, other in zip(first, second, strict=True):
        if one.shape != other.shape:
            return False
        try:
            numbers = one.astype(float), other.astype(float)
        except (TypeError, ValueError):  # texts and other objects
            if not all(_same_cell(*pair) for pair in zip(one.flat, other.flat, strict=True)):
                return False
            continue
        # One tolerance for a whole part: a small entry may be a difference of large terms.
        finite = np.abs(numbers[1][np.isfinite(numbers[1])])
        tolerance = _ROUNDING * (finite.max() if finite.size else 0.0)
        if not np.allclose(*numbers, rtol=0, atol=tolerance, equal_nan=True):
            return False
    return True


def _same_cell(first, second):
    try:
        return first is second or bool(first == second) or bool(first != first and second != second)
    except TypeError:  # pandas.NA equals itself alone
        return False


@contextmanager
def watched_steps(model):
    """Watch what the unverified steps of a model do to *public* rows while a block is run.

    Parameters
    ----------
    model : estimator
        Fitted or not. Clones of its steps are watched too.

    Raises
    ------
    MixedRowsError
        After the block, whether or not the block raises, if the answer of a step for some row
        changes with the other rows of the batch.
    """
    watches = []
    steps = {id(step): (step, name) for name, step in unverified_parts(model)}
    try:
        with ExitStack() as stack:
            for step, name in steps.values():
                _watch(stack, watches, step, name.rpartition(" of ")[2])
            yield
    finally:
        for watch in reversed(watches):  # name the innermost step that mixes rows
            if watch.mixes:
                raise MixedRowsError.of_step(watch.name) from None


def _watch(stack, watches, step, name):
    """Put watches into a step, and into its clones, until the stack is closed."""

    def put(key, watch):
        stack.callback(vars(step).pop, key, None)
        vars(step)[key] = watch

    def cloned():
        twin = type(step).__sklearn_clone__(step)
        _watch(stack, watches, twin, name)
        return twin

    for key in _METHODS:
        if callable(getattr(step, key, None)) and key not in vars(step):
            watches.append(_Watch(getattr(step, key), name, watches, step))
            put(key, watches[-1])
    if isinstance(step, FunctionTransformer | TransformedTargetRegressor):
        for key in FUNCTIONS:
            function = getattr(step, key)
            if callable(function):
                watches.append(_Watch(function, f"{key} of {name}", watches))
                stack.callback(setattr, step, key, function)
                setattr(step, key, watches[-1])
    elif hasattr(type(step), "__sklearn_clone__"):
        # A meta-estimator trains clones of its steps, and `clone` does not copy the watches.
        put("__sklearn_clone__", cloned)


class _Watch:
    """A function of rows that is compared with itself on other batches when it is called.

    Parameters
    ----------
    function : callable
    name : str
        For the error.
    watches : list of _Watch
        All watches of the model: while one compares, the others only pass calls on.
    step : estimator or None, default=None
        The step of which it is a method. A copy is compared, as the step may store its inputs.
    """

    def __init__(self, function, name, watches, step=None):
        self.function, self.name, self.watches, self.step = function, name, watches, step
        self.mixes, self.compares, self.n_judged = False, False, 0
        self.__name__ = getattr(function, "__name__", name)  # for errors of scikit-learn

    def __call__(self, *args, **kwargs):
        """Return what the function returns."""
        if not args:  # LightGBM calls its own methods with names
            signature, _ = attempt(inspect.signature, self.function)
            first = next(iter(signature.parameters), None) if signature else None
            if first not in kwargs:
                return self.function(**kwargs)
            args = [kwargs.pop(first)]
        rows, *args = args
        if self.n_judged < _N_JUDGED and not any(watch.compares for watch in self.watches):
            self.n_judged += 1
            self.compares = True
            try:
                self.mixes |= mixes_rows(lambda some: self._call_copy(some, args, kwargs), rows)
            finally:
                self.compares = False
        return self.function(rows, *args, **kwargs)

    def _call_copy(self, rows, args, kwargs):
        function = self.function
        if self.step is not None:
            function = getattr(copy.deepcopy(self.step), function.__name__)
        return function(rows, *args, **kwargs)

    def __deepcopy__(self, memo):
        """Return a watch of the copied step, or its method in a copy that is compared."""
        twin = memo.get(id(self.step))
        if twin is None:
            return self
        # The method of the copy, or of the object that the copy delegates to.
        method = copy.deepcopy(self.function, memo)
        if any(watch.compares for watch in self.watches):
            return method
        self.watches.append(_Watch(method, self.name, self.watches, twin))
        return self.watches[-1]
