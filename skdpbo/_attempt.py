"""Calls of code that may raise on protected records, and checks of single cells.

No other module catches the errors of such code.
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
    must not end the fit. Two kinds do end it: an interrupt (Ctrl-C), which is raised anew without
    the text, traceback and context of the original; and an error of the caller's signal handler
    (SIGTERM, an alarm), whose text is kept, as the handler knows of no record. Frames are dropped:
    they would form a reference cycle, and objects in them would be finalized, possibly with output,
    only after the process has stopped being silent.

    Parameters
    ----------
    function : callable
    *args, **kwargs
        Arguments of `function`.

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
        # Exact classes: user code may raise sub-classes of them.
        interrupt: Any = type(error)
        if not is_among(interrupt, _OF_THE_CALLER):
            interrupt = error if _was_raised_by_handler(error) else None
            _drop_frames(error)
            if interrupt is None:
                return None, error
    return _pass_on(interrupt)


def _pass_on(interrupt):
    """Raise what ends the fit; outer calls of `attempt` recognise it by this frame."""
    raise interrupt


def _was_raised_by_handler(error):
    """Whether a signal handler has raised an error, by the frames of the traceback."""
    frames = BaseException.__traceback__.__get__(error).tb_next  # without that of `attempt`
    # Python calls handlers in the main thread alone.
    if frames is None or threading.current_thread() is not threading.main_thread():
        return False
    handlers = map(signal.getsignal, signal.valid_signals())
    # An inner call of `attempt` has dropped all frames but that of `_pass_on`.
    codes = {_pass_on.__code__, *map(_code_of, handlers)} - {None}
    while frames is not None:
        if frames.tb_frame.f_code in codes:
            return True
        frames = frames.tb_next
    return False


def _code_of(handler):
    """Return the code object of a handler; None for one in C, as that of Ctrl-C, and for none."""
    if not callable(handler):  # SIG_DFL is an enum member, whose class has a `__call__`
        return None
    while isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)  # of a method
    called = function if hasattr(function, "__code__") else type(function).__call__
    return getattr(called, "__code__", None)


def attempt_publicly(function, *args):
    """Call `attempt` on *public* or synthetic rows: the error keeps its traceback."""
    frames = []

    def noted():
        try:
            return function(*args)
        except BaseException as raised:
            frames.append(raised.__traceback__)
            raise

    result, error = attempt(noted)
    return result, error if error is None else error.with_traceback(frames[0])


def is_known(value):
    """Whether a value is not missing: NaN, NaT and NA are not equal to themselves."""
    return value is not None and bool(attempt(lambda: bool(value == value))[0])


def is_among(kind: type, kinds: Iterable[type]) -> bool:
    """Whether a class is one of several, by identity: its metaclass may define ``==``."""
    return any(kind is known for known in kinds)


def real_if_exact(cell):
    """Return a complex number without imaginary part as a real one, anything else as it is.

    A single complex number of one record makes an array, and so the other records, complex.
    """
    # Exact types: the attributes of a sub-class may run any code.
    exact = is_among(type(cell), _COMPLEX_TYPES) and cell.imag == 0
    return cell.real if exact else cell


def refuse_masked(values: Any, name: str) -> None:
    """Raise a TypeError for a masked array, whose hidden values would be read and released."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, which is not supported: give filled(...).")


def _drop_frames(error):
    """Drop the frames of an error, and the errors that led to it, which have frames, too."""
    # No recursion: exception groups may be nested a thousand deep, and contain an error twice.
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
