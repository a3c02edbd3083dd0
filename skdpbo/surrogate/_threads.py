"""Limit small products of matrices to one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # a dependency of scikit-learn

__all__ = ["one_blas_thread"]

# The search through the loaded libraries takes milliseconds: once in a process.
_controller = cache(ThreadpoolController)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which the BLAS uses one thread.

    For hundreds of products of small matrices in a row. Threads gain little there, and on a busy
    machine they wait for each other at each product.
    """
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited
