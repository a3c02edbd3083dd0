"""Errors of the library's own code, which `attempt` drops as it drops those of a record.

A mistake in an evaluator is otherwise as silent as a bad record: the worst loss. Noted is what an
operation in a file of skdpbo has raised: no ``raise`` statement, no code of others, and no
function that reads cells of any kind. Processes that a test starts note nothing.
"""

import dis
from pathlib import Path
from types import FunctionType

import skdpbo
from skdpbo import _attempt

__all__ = ["NOTED"]

NOTED = []
_HOME = str(Path(skdpbo.__file__).parent)
# Functions that do with a cell, or with what a model answers, what it may refuse: compare, convert,
# hash or measure it.
_READERS = {
    "attempt",
    "_code_of",
    "_date",
    "_disagreement",
    "_is_known",
    "_is_label",
    "_number_of_kind",
    "_with_truth_values",
    "n_records",
}


def note(error, function):
    """Note an error that `attempt` is about to drop, if it is one of the library's own code."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code.co_name == "attempt" and isinstance(function, FunctionType):
        code = function.__code__  # called with other arguments than it has
    raised = trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    own = code.co_filename.startswith(_HOME) and code.co_qualname.split(".")[0] not in _READERS
    if own and not raised:
        place = f"{Path(code.co_filename).name}, line {trace.tb_lineno}"
        NOTED.append(f"{type(error).__name__} in {code.co_qualname} ({place})")


def noting(function, *args, **kwargs):
    """Take the place of the code of `attempt`, whose module then has the two other names."""
    result, error = original(function, *args, **kwargs)  # noqa: F821
    if error is not None:
        note(error, function)
    return result, error


# The code, not the name: modules have imported that.
_attempt.original = FunctionType(_attempt.attempt.__code__, vars(_attempt), "attempt")
_attempt.note = note
_attempt.attempt.__code__ = noting.__code__
