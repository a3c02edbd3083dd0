"""Fits that leave no trace: no warning, output, log record, file or state of a global generator."""

import logging
import os
import platform
import random
import warnings
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout

import numpy as np
from joblib import parallel_config

__all__ = ["nothing_leaves", "public_generators", "this_process"]

_SEED = 20070612


def this_process():
    """Name of the process; two machines may have processes of one number."""
    return platform.node(), os.getpid()


@contextmanager
def nothing_leaves():
    """Keep inside what the code of a block says, and how often it draws.

    For one thread at a time: it changes what all threads of the process share. What compiled code
    writes to the terminal by itself is not held back.
    """
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("ignore")
        nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        stack.enter_context(redirect_stdout(nowhere))
        stack.enter_context(redirect_stderr(nowhere))
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        stack.enter_context(public_generators(_SEED))
        # Parallel work inside would otherwise write large arrays to disk for its workers.
        stack.enter_context(parallel_config(max_nbytes=None))
        yield


@contextmanager
def public_generators(seed):
    """Seed the global generators of Python and numpy publicly, and put their states back."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)  # public randomness
    np.random.seed(seed)  # public randomness  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
