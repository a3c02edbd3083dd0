"""The one ``except`` of everything that is computed from protected records.

And single values that are missing, hidden by a mask, or complex for those of other records.
"""

import signal
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

_COMPLEX_TYPES = complex, np.complex64, np.complex128, np.clongdouble
_OF_THE_CALLER = KeyboardInterrupt, GeneratorExit


def attempt(function, *args, **kwargs):
    """Call a function that may raise anything.

    An exception that a protected record has caused, of whatever class, may quote the record and
    must not end the fit. Only the caller's own interrupt does: it is raised anew, so that no text,
    traceback or context of the first one is left. So is what the caller's handler of a signal, as
    of SIGTERM or of an alarm, raises: with its text, as it knows of no record. No frames are kept,
    which the caller's would hold in a circle: what they own would end, and say so, when the silence
    is over.

    Parameters
    ----------
    function : callable
    *args, **kwargs
        Of the call.

    Returns
    -------
    result : object
        None after an error.
    error : BaseException or None
        Protected where an argument is: drop it.
    """
    try:
        return function(*args, **kwargs), None
    except BaseException as error:
        # Exact classes: anything derived from them is not the caller's own.
        interrupt: Any = type(error)
        if not is_among(interrupt, _OF_THE_CALLER):
            interrupt = error if _is_of_handler(error) else None
            _drop_frames(error)
            if interrupt is None:
                return None, error
    return _pass_on(interrupt)


def _pass_on(interrupt):
    """Raise what is the caller's own; this frame shows it to calls of `attempt` around."""
    raise interrupt


def _is_of_handler(error):
    """Whether a handler of a signal has raised an error, as its frame shows."""
    frames = BaseException.__traceback__.__get__(error).tb_next  # without that of `attempt`
    # Python calls handlers in the main thread alone.
    if frames is None or threading.current_thread() is not threading.main_thread():
        return False
    handlers = map(signal.getsignal, signal.valid_signals())
    # An inner call of `attempt` has dropped the frames of an interrupt. Another error leaves one as
    # well, where it cannot call a function any more: of a record that holds itself.
    codes = {_pass_on.__code__, *map(_code_of, handlers)} - {None}
    while frames is not None:
        if frames.tb_frame.f_code in codes:
            return True
        frames = frames.tb_next
    return False


def _code_of(handler):
    """Return the code that a handler runs; None of one in C, as that of Ctrl-C, and of none."""
    if not callable(handler):  # SIG_DFL: an enum, of which the class is called like any other
        return None
    while isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)  # of a method
    called = function if hasattr(function, "__code__") else type(function).__call__
    return getattr(called, "__code__", None)


def attempt_publicly(function, *args):
    """As `attempt`, of *public* or synthetic rows: the error keeps its traceback."""
    frames = []

    def noted():
        try:
            return function(*args)
        except BaseException as its:
            frames.append(its.__traceback__)
            raise

    result, error = attempt(noted)
    return result, error if error is None else error.with_traceback(frames[0])


def is_known(value):
    """Whether a value is not missing: NaN, NaT and NA are not equal to themselves."""
    return value is not None and bool(attempt(lambda: bool(value == value))[0])


def is_among(kind: type, kinds: Iterable[type]) -> bool:
    """Whether a class is one of several; its own class may define ``==`` and ``hash``."""
    return any(kind is known for known in kinds)


def real_if_exact(cell):
    """Return a complex number without imaginary part as a real one, anything else as it is.

    One complex number among those of other records has made complex ones of all.
    """
    # Not of a sub-class, whose attributes may do anything.
    exact = is_among(type(cell), _COMPLEX_TYPES) and cell.imag == 0
    return cell.real if exact else cell


def refuse_masked(values: Any, name: str) -> None:
    """Raise a TypeError for an array with a mask: what it hides would be read and released."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, which is not supported: give filled(...).")


def _drop_frames(error):
    """Drop the frames of an error, and the errors that led to it, which have frames, too."""
    # No recursion, which an error in a thousand groups would end; one may be in a group twice.
    pending: list[BaseException] = [error]
    seen: set[int] = set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        BaseException.with_traceback(part, None)  # of the base class: others may raise
        for link in (BaseException.__context__, BaseException.__cause__):
            link.__set__(part, None)
        if issubclass(type(part), BaseExceptionGroup):
            pending += BaseExceptionGroup.exceptions.__get__(part)
