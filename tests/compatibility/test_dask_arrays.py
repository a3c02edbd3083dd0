"""Dask arrays are summed block by block by the regressor, and refused by searchers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPSparseGPRegressor
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger

da = pytest.importorskip("dask.array")

X = np.random.default_rng(0).normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)
MODEL = LogisticRegression()
RANGE = {"C": (1e-2, 1e2, "log-uniform")}
SEARCHES = {
    "grid": DPGridSearchCV(MODEL, {"C": [0.1, 1.0]}),
    "bayes": DPBayesSearchCV(MODEL, RANGE, n_iter=2),
    "gibo": DPGIBOSearchCV(MODEL, RANGE, n_iter=1),
    "chunks": DPGridSearchCV(MODEL, {"C": [0.1, 1.0]}, protect=Chunks(5)),
    "selection": DPGridSearchCV(
        DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-1, 1)),
        {"noise_variance": [0.1, 0.2]},
        protect="all",
        loss_bound=1.0,
    ),
}


def regressor():
    """A new estimator, as one that was fitted under a ledger is charged there for good."""
    return DPSparseGPRegressor(
        X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=3, epsilon=1.0, random_state=0
    )


def in_blocks(array, rows=7):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


@pytest.mark.parametrize("name", ["X", "y", "X_val", "y_val"])
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_searchers_refuse_dask_before_the_charge(search, name):
    rows = {"X": X, "y": Y, "X_val": X.copy(), "y_val": Y}
    rows[name] = in_blocks(rows[name])
    with (
        PrivacyLedger(epsilon=10.0, delta=1e-3) as ledger,
        pytest.raises(TypeError, match=rf"^{name} is a Dask collection.*{name}\.compute\(\)"),
    ):
        search.fit(**rows)
    assert ledger.entries == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cut", ["rows", "columns", "X alone", "y alone"])
def test_regressor_sums_are_the_same_however_they_are_cut(cut):
    y = X[:, 0]
    x_blocks = da.from_array(X, chunks=(20, 1)) if cut == "columns" else in_blocks(X)
    given = X if cut == "y alone" else x_blocks, y if cut == "X alone" else in_blocks(y, 11)
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
        model = regressor().fit(*given)
    np.testing.assert_array_equal(model.mean_, regressor().fit(X, y).mean_)
    assert len(ledger.entries) == 1


def test_unknown_lengths_are_refused_before_the_charge():
    blocks = in_blocks(X)
    with (
        PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger,
        pytest.raises(ValueError, match="unknown chunk size"),
    ):
        regressor().fit(blocks[blocks[:, 0] > -9], X[:, 0])
    assert ledger.entries == ()
