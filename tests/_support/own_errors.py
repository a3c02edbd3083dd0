"""Errors of the evaluators' own code, which `attempt` drops as it drops those of a record.

A mistake in an evaluator is otherwise as silent as a bad record: the worst loss. Noted is what an
operation there has raised: no ``raise`` statement, and no code of others. Processes that a test
starts note nothing.
"""

import dis
from pathlib import Path
from types import FunctionType

import skdpbo
from skdpbo import _attempt

__all__ = ["NOTED"]

NOTED = []
_HOME = str(Path(skdpbo.__file__).parent / "model_selection" / "evaluation")
# They call what users give, with arguments that it may not take.
_CALLERS = {"train", "_of_type"}


def note(error, function):
    """Note an error that `attempt` is about to drop, if it is one of the library's own code."""
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    if code.co_name == "attempt" and isinstance(function, FunctionType):
        code = function.__code__  # called with other arguments than it has
    raised = trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    own = code.co_filename.startswith(_HOME) and code.co_qualname.split(".")[0] not in _CALLERS
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
