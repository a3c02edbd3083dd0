"""Set-up of all tests: one thread each, the same examples, and no deadline for an example."""

import gc
import importlib.util
import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits  # comes with scikit-learn

import skdpbo  # noqa: F401  (loads the libraries that are limited)

# Thousands of tests stay in memory: to look through them often takes 6 % of the time.
gc.set_threshold(50_000, 20, 50)
# The matrices are small, and threads of BLAS and OpenMP that wait take a core each.
threadpool_limits(1)
for library in ("OPENBLAS", "OMP"):  # of the processes and threads that tests start
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
# So that workers and child processes can import _support.
paths = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
pytest.register_assert_rewrite("_support")
from _support.own_errors import NOTED  # noqa: E402  (after the path and the rewriting)
from _support.parameter_names import read_once  # noqa: E402
from _support.planted import original, put  # noqa: E402
from _support.replayed_noise import replayed  # noqa: E402

read_once()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Let a test draw noise from a stream of its own."""
    with replayed(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Let a fixture draw the same noise whichever test needs it first."""
    if fixturedef.func.__module__.startswith("_pytest."):  # parameters of tests, too: no noise
        return (yield)
    with replayed(f"{request.node.nodeid} {fixturedef.argname} {request.param_index}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown():
    """Fail a test in which the library has dropped an error of its own code as one of a record."""
    try:
        return (yield)
    finally:
        noted, NOTED[:] = [*NOTED], []
        assert not noted


@pytest.fixture(autouse=True, scope="session")
def every_scikit_learn_counts_as_read():
    """Let a later scikit-learn fail where its classes differ, and not in each test of a status."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        put(monkeypatch, "row-wise steps: LAST_READ", (math.inf,))
        yield


@pytest.fixture(scope="module")
def few_public_candidates():
    """Let DPGIBOSearchCV begin with 6 public candidates: 32 would say the same more slowly."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(original("gibo searcher: _PUBLIC_SEARCH"), "n_iter", 6)
        yield


def pytest_configure(config):
    """Refuse a package that would keep worker processes from finding these tests."""
    other = importlib.util.find_spec("tests")
    if other is not None and other.origin is not None:
        # joblib would do the workers' tasks in this process, without a word.
        raise pytest.UsageError(f"another package is called tests, too: remove {other.origin}")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no doctests in the tests themselves."""
    return [part for part in (yield) if type(part) is pytest.Module]


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem():
    """Mark the further cases of a test as slow, before any of them is left out of the run."""
    made = yield
    if isinstance(made, list) and made and (mark := made[0].get_closest_marker("quick_cases")):
        cases = [case for case in made if not case.get_closest_marker("slow")]
        for index in {*range(len(cases))} - spread(*mark.args, len(cases)):
            cases[index].add_marker("slow")
    return made


def spread(n, n_all):
    """Indices of `n` of `n_all` cases; a golden step misses no value of a repeated parameter."""
    steps = range(round(0.618 * n_all), 2 * n_all)
    step = next(step for step in steps if math.gcd(step, n_all) == 1)
    return {i * step % n_all for i in range(n)}


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
