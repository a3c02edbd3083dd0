"""What all tests share: one thread of BLAS, the same examples, and no limits of time."""

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits  # comes with scikit-learn

import skdpbo  # noqa: F401  (loads the libraries that are limited)

# The matrices are small, and idle threads take a core each.
threadpool_limits(1, user_api="blas")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes that tests start
# So that workers and child processes can import _support.
paths = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
pytest.register_assert_rewrite("_support")


def pytest_configure(config):
    """Refuse a package that would keep worker processes from finding these tests."""
    other = importlib.util.find_spec("tests")
    if other is not None and other.origin is not None:
        # joblib would do the workers' tasks in this process, without a word.
        raise pytest.UsageError(f"another package is called tests, too: remove {other.origin}")


def pytest_collection_modifyitems(items):
    """Refuse names of tests that differ between processes: pytest-xdist compares them."""
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"a test is named by an object's address: {item.nodeid}")


settings.register_profile(
    "the same everywhere",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("the same everywhere")
