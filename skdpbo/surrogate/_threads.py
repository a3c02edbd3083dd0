"""Keep small products of matrices on one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # comes with scikit-learn


def one_blas_thread() -> AbstractContextManager[Any]:
    """Context in which the BLAS uses one thread.

    For hundreds of products of small matrices in a row. Threads gain little there, and on a busy
    machine they wait for each other at each product.
    """
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks through the loaded libraries: milliseconds
