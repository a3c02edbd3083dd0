"""The same fits on a local cluster of real worker processes: same results, same charges."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from _support.dask_cluster import dask_cluster
from _support.planted import put
from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
)
from skdpbo.model_selection import Chunks, PrivateSelection
from skdpbo.privacy import PrivacyLedger

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]

X, y = load_breast_cancer(return_X_y=True)
ROWS = {"X": X[:300], "y": y[:300], "X_val": X[300:], "y_val": y[300:]}
TREE = DecisionTreeClassifier(random_state=0)
DEPTHS = {"max_depth": [1, 2, 4, 8]}


@pytest.fixture(scope="module")
def client():
    with dask_cluster() as client:
        yield client


def on_cluster():
    return parallel_config(backend="dask")


@pytest.fixture
def nothing_here(monkeypatch):
    """No search may be saved by doing the work in this process."""
    put(monkeypatch, "parallel: _done_here", lambda *_: pytest.fail("the workers have failed"))


def gp(**params):
    params = {"inducing_points": 4, "random_state": 0} | params
    return DPSparseGPRegressor(RBF(0.5), X_bounds=(-1, 1), y_bounds=(-1, 1), **params)


LINE = np.linspace(-1, 1, 200)[:, None]
SEARCHES = {
    "grid": (DPGridSearchCV(TREE, DEPTHS, random_state=0), ROWS),
    "random": (DPRandomizedSearchCV(TREE, DEPTHS, n_iter=3, guide=False, random_state=0), ROWS),
    "bayes": (
        DPBayesSearchCV(TREE, {"max_depth": (1, 9)}, n_iter=6, batch_size=3, random_state=0),
        ROWS,
    ),
    "gibo": (
        DPGIBOSearchCV(
            TREE, {"ccp_alpha": (0.0, 0.5)}, n_iter=2, scoring="accuracy", random_state=0
        ),
        ROWS,
    ),
    "selection": (
        DPGridSearchCV(
            gp(random_state=None),
            {"noise_variance": [0.01, 0.1]},
            protect="all",
            loss_bound=1.0,
            random_state=0,
        ),
        {"X": LINE, "y": LINE[:, 0]},
    ),
    "chunks": (
        DPGridSearchCV(TREE, DEPTHS, protect=Chunks(5), score_fraction=0.1, random_state=0),
        {"X": X, "y": y},
    ),
}


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize("name", SEARCHES)
def test_search_releases_what_it_releases_on_one_machine(client, name):
    search, rows = SEARCHES[name]
    here = search.fit(**rows).best_score_, search.best_params_
    with on_cluster(), PrivacyLedger(epsilon=1.0, delta=1e-3) as ledger:
        there = search.fit(**rows).best_score_, search.best_params_
    assert there == here
    assert len(ledger.entries) == 1


def test_private_selection_is_charged_once(client):
    search = DPGridSearchCV(
        DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=4),
        {"noise_variance": [0.01, 0.1]},
        loss_bound=1.0,
        epsilon=1.0,
        protect=PrivateSelection(accounting="composition"),
    )
    x = np.linspace(-1, 1, 400)[:, None]
    with on_cluster(), PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        search.fit(x, x[:, 0])
    assert len(ledger.entries) == 1


def test_fits_of_a_search_that_is_not_private_are_counted(client, tmp_path):
    gp = DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-1, 1), epsilon=0.1, inducing_points=3)
    x = np.linspace(-1, 1, 60)[:, None]
    with on_cluster(), PrivacyLedger(5.0, 1e-3, path=tmp_path / "ledger") as ledger:
        GridSearchCV(gp, {"noise_variance": [0.01, 0.1]}, cv=3).fit(x, x[:, 0])
    assert len(ledger.entries) == 2 * 3 + 1


@pytest.mark.usefixtures("nothing_here")
def test_models_that_are_parallel_themselves_do_not_wait_for_each_other(client):
    forest = RandomForestClassifier(n_estimators=10, random_state=0)
    search = DPGridSearchCV(forest, {"max_depth": list(range(1, 9))}, guide=False, random_state=0)
    here = search.fit(**ROWS).best_score_
    with on_cluster():
        assert search.fit(**ROWS).best_score_ == here


def test_regression_on_a_dask_array_reads_it_where_it_is(client):
    da = pytest.importorskip("dask.array")
    x = np.random.default_rng(0).uniform(-1, 1, (4000, 1))
    here = gp().fit(x, np.sin(3 * x[:, 0])).mean_
    blocks = da.from_array(x, chunks=(1000, 1))
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        there = gp().fit(blocks, da.sin(3 * blocks[:, 0])).mean_
    np.testing.assert_allclose(there, here, rtol=1e-9)
    assert len(ledger.entries) == 1


@pytest.mark.usefixtures("nothing_here")
def test_private_fits_inside_of_what_is_paid_are_not_charged_again(client, tmp_path):
    inner = GridSearchCV(gp(random_state=None), {"noise_variance": [0.01, 0.1]}, cv=2)
    search = DPGridSearchCV(inner, {"cv": [2, 3]}, protect=Chunks(5), loss_bound=1.0)
    with on_cluster(), PrivacyLedger(9.0, 1e-3, path=tmp_path / "ledger") as ledger:
        search.fit(LINE, LINE[:, 0])
    assert len(ledger.entries) == 1
