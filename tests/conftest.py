"""What all tests share: one thread of BLAS, and no test that fails because a machine is slow."""

import os

from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits  # comes with scikit-learn

import skdpbo  # noqa: F401  (loads the libraries that are limited)

# The matrices are small, and idle threads take a core each.
threadpool_limits(1, user_api="blas")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes that tests start

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
