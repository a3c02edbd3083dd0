"""A worker of a Dask cluster that is killed changes no result, and no charge."""

import contextlib
import contextvars
import os
import signal
import threading
from concurrent.futures import CancelledError

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process.kernels import RBF
from sklearn.tree import DecisionTreeClassifier

from _support.dask_cluster import dask_cluster
from _support.planted import put
from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]

X, y = load_breast_cancer(return_X_y=True)
ROWS = {"X": X[:300], "y": y[:300], "X_val": X[300:], "y_val": y[300:]}
DEPTHS = {"max_depth": [1, 2, 4, 8]}


@pytest.fixture
def client():
    """A cluster for one test: it may be short of a worker afterwards."""
    with dask_cluster() as client:
        yield client


def on_cluster():
    return parallel_config(backend="dask")


@pytest.fixture
def nothing_here(monkeypatch):
    """No search may be saved by doing the work in this process."""
    put(monkeypatch, "parallel: _done_here", lambda *_: pytest.fail("the workers have failed"))


def dies_once(flag):
    """Kill the worker that the task runs on, the first time."""
    parent = os.getpid()

    def die():
        if os.getpid() != parent and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def mortal(flag):
    """A tree whose first training on a worker kills that worker."""

    class Mortal(DecisionTreeClassifier):  # local, so that workers are sent its code
        def __init__(self, max_depth=None, die=None):
            super().__init__(max_depth=max_depth, random_state=0)
            self.die = die

        def fit(self, X, y, sample_weight=None, check_input=True):
            self.die()
            return super().fit(X, y, sample_weight, check_input)

    return Mortal(die=dies_once(flag))


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize("case", ["unguided", "chunks"])
def test_a_killed_worker_changes_nothing(client, tmp_path, case):
    flag = tmp_path / "flag"
    params, rows = {"guide": False}, ROWS
    if case == "chunks":
        params, rows = {"protect": Chunks(5), "score_fraction": 0.1}, {"X": X, "y": y}
    search = DPGridSearchCV(mortal(flag), DEPTHS, random_state=0, **params)
    here = search.fit(**rows).best_score_, search.best_params_
    assert not flag.exists()
    with on_cluster(), PrivacyLedger(epsilon=1.0) as ledger:
        there = search.fit(**rows).best_score_, search.best_params_
    assert flag.exists()
    assert there == here
    assert len(ledger.entries) == 1


def test_a_worker_killed_in_a_cross_validation_gives_no_other_result(client, tmp_path):
    # It may have held rows that joblib has given to no other worker: then Dask's error comes out,
    # or, where joblib misses that error, nothing.
    search = DPGridSearchCV(mortal(tmp_path / "flag"), DEPTHS, random_state=0)
    here = search.fit(**ROWS).best_score_
    scores = []

    def fit():
        # The error is by the version of joblib.
        with on_cluster(), contextlib.suppress(CancelledError, TypeError):
            scores.append(search.fit(**ROWS).best_score_)

    with PrivacyLedger(epsilon=10.0) as ledger:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(fit,), daemon=True)
        thread.start()
        thread.join(120.0)
    assert (tmp_path / "flag").exists()
    # Cross-validation is public work: where it fails, no protected record has been read.
    assert (scores, len(ledger.entries)) in [([here], 1), ([], 0)]


def test_a_killed_worker_changes_no_sum_of_a_dask_array(client, tmp_path):
    da = pytest.importorskip("dask.array")
    x = np.random.default_rng(0).uniform(-1, 1, (4000, 1))
    gp = DPSparseGPRegressor(
        RBF(0.5), X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=4, random_state=0
    )
    here = gp.fit(x, np.sin(3 * x[:, 0])).mean_
    die = dies_once(tmp_path / "flag")

    def read(block):
        die()
        return block

    blocks = da.from_array(x, chunks=(1000, 1)).map_blocks(read, meta=x[:0])
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        there = gp.fit(blocks, da.sin(3 * blocks[:, 0])).mean_
    assert (tmp_path / "flag").exists()
    np.testing.assert_allclose(there, here, rtol=1e-9)
    assert len(ledger.entries) == 1
