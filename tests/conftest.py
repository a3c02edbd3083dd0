"""One thread of BLAS for all tests: the matrices are small, and idle threads take a core each."""

import os

from threadpoolctl import threadpool_limits  # comes with scikit-learn

import skdpbo  # noqa: F401  (loads the libraries that are limited)

threadpool_limits(1, user_api="blas")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes that tests start
