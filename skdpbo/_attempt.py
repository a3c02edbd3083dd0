"""The one ``except`` of everything that is computed from protected records.

And single values that are missing, hidden by a mask, or complex for those of other records.
"""

from typing import Any

import numpy as np

_COMPLEX_TYPES = complex, np.complex64, np.complex128, np.clongdouble


def attempt(function, *args, **kwargs):
    """Call a function that may raise anything.

    An exception that a protected record has caused, of whatever class, may quote the record and
    must not end the fit. Only the caller's own interrupt does: it is raised anew, so that no text,
    traceback or context of the first one is left. No frames are kept, which the caller's would hold
    in a circle: what they own would end, and say so, when the silence is over.

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
        interrupt = type(error)
        # Exact classes: anything derived from them is not the caller's own.
        if interrupt not in (KeyboardInterrupt, GeneratorExit):
            _drop_frames(error)
            return None, error
    raise interrupt


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


def real_if_exact(cell):
    """Return a complex number without imaginary part as a real one, anything else as it is.

    One complex number among those of other records has made complex ones of all.
    """
    # Not of a sub-class, whose attributes may do anything.
    exact = type(cell) in _COMPLEX_TYPES and cell.imag == 0
    return cell.real if exact else cell


def refuse_masked(values: Any, name: str) -> None:
    """Raise a TypeError for an array with a mask: what it hides would be read and released."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, which is not supported: give filled(...).")


def _drop_frames(error):
    """Drop the frames of an error, and the errors that led to it, which have frames, too."""
    BaseException.with_traceback(error, None)  # of the base class: others may raise
    for part in (BaseException.__context__, BaseException.__cause__):
        part.__set__(error, None)
    if issubclass(type(error), BaseExceptionGroup):
        for inner in BaseExceptionGroup.exceptions.__get__(error):
            _drop_frames(inner)
