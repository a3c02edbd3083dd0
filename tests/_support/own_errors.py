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


def note(error):
    """Note an error that `attempt` is about to drop, if it is one of the library's own code."""
    trace = BaseException.__traceback__.__get__(error)
    function = trace.tb_frame.f_locals["function"]
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


def noting(error):
    """Take the place of what drops the frames of an error."""
    trace = BaseException.__traceback__.__get__(error)
    if trace is not None and trace.tb_frame.f_code is _attempt.attempt.__code__:
        note(error)
    drop_frames(error)


drop_frames = _attempt._drop_frames
_attempt._drop_frames = noting
