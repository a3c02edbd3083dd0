"""Interrupts (Ctrl-C) at each place of some code where Python notices one."""

import ctypes
import math
import signal
import sys
from contextlib import suppress

from joblib import parallel_config

# Of C: Python notices a signal of a tracer in Python in the tracer itself.
_SEND = ctypes.PyDLL(None).PyErr_SetInterrupt
_SEND.argtypes, _SEND.restype = [ctypes.py_object] * 3, None


def interrupted(call, modules, at):
    """Call a function, and interrupt it before one instruction of some modules.

    Parameters
    ----------
    call : callable
        Without arguments.
    modules : collection of str
    at : int
        Number of the instruction, from 1.

    Returns
    -------
    reached : bool
        Whether there are so many instructions.
    """
    # Later versions show a tracer the instructions of code that was traced just before.
    if sys.version_info >= (3, 12) and at < math.inf:
        interrupted(call, modules, at=math.inf)
    seen, reached = 0, False

    def trace(frame, event, _):
        nonlocal seen
        if frame.f_globals.get("__name__") not in modules:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        seen += event == "opcode"
        return _SEND if seen == at - 1 else trace

    def stop(*_):
        nonlocal reached
        sys.settrace(None)
        reached = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        # An interrupt may come before the end of a block of joblib's own, which would stay.
        with parallel_config(), suppress(KeyboardInterrupt):
            sys.settrace(trace)
            call()
            sys.settrace(None)
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGINT, before)
    return reached
