"""Dask arrays are summed block by block by private models, and refused by searchers.

Their graph is code on protected rows: it is run after the charge, and in silence.
"""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from _support.planted import no_context, put
from _support.private_estimators import classifiers, of_rows, regressors, transformers
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPSparseGPRegressor
from skdpbo.audit import Traces
from skdpbo.exceptions import BudgetExceededError
from skdpbo.model_selection import Chunks
from skdpbo.privacy import PrivacyLedger

dask = pytest.importorskip("dask")
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


@pytest.mark.quick_cases(5)
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


@pytest.mark.quick_cases(1)
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


@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
def test_blocks_are_summed_where_they_are_and_no_row_is_returned():
    returned = []

    def listen(result):
        for part in result if isinstance(result, list | tuple) else ():
            listen(part)
        if isinstance(result, np.ndarray):
            returned.append(result.shape)

    def listening(graph, keys, **_):
        results = dask.get(graph, keys)
        listen(results)
        return results

    with dask.config.set(scheduler=listening):
        regressor().fit(in_blocks(X), in_blocks(X[:, 0]))
    # Two releases, each of one small matrix a block.
    assert len(returned) == 2 * -(-len(X) // 7)
    assert {*returned} == {(3, 3), (4, 4)}


def test_unknown_lengths_are_refused_before_the_charge():
    blocks = in_blocks(X)
    with (
        PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger,
        pytest.raises(ValueError, match="unknown chunk size"),
    ):
        regressor().fit(blocks[blocks[:, 0] > -9], X[:, 0])
    assert ledger.entries == ()


TEXT = "S3cr3t"
SUPERVISED = {
    **regressors(),
    "private bounds": DPSparseGPRegressor(X_bounds="private", y_bounds=(-1, 1)),
    **classifiers(),
}
PRIVATE = SUPERVISED | transformers() | {"projection": of_rows()["projection"]}
CASES = [(kind, "X") for kind in PRIVATE] + [(kind, "y") for kind in SUPERVISED]


def fit(kind, which, step):
    """Fit to rows or targets that a step makes of each block when they are computed."""
    rows = {"X": X, "y": Y}
    rows[which] = in_blocks(rows[which]).map_blocks(step, meta=rows[which][:0])
    model = PRIVATE[kind]
    model = type(model)(**model.get_params())  # not charged to the ledgers of other fits
    # A pipeline hands the rows on: they are computed once more.
    fit = getattr(model, "fit_transform", model.fit)
    fit(*rows.values() if kind in SUPERVISED else (rows["X"],))


def speak(block):
    print(TEXT)
    np.log(np.zeros(1))
    return block


def fail(block):
    raise ValueError(f"{TEXT} {block}")


@pytest.mark.quick_cases(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "which"), CASES)
def test_a_graph_is_computed_after_the_charge_and_in_silence(kind, which):
    with Traces() as traces:
        fit(kind, which, speak)
    assert not {TEXT, "RuntimeWarning"} & set(traces.text().replace(":", " ").split())
    with pytest.raises(ValueError, match="could not be computed") as caught:
        fit(kind, which, fail)
    assert caught.value.__context__ is caught.value.__cause__ is None
    with PrivacyLedger(epsilon=1e-9, delta=1e-9), pytest.raises(BudgetExceededError):
        fit(kind, which, fail)


def test_a_graph_that_speaks_is_found(monkeypatch):
    put(monkeypatch, "lazy rows: nothing_leaves", no_context)
    for kind in ("ridge", "scaler"):
        with Traces() as traces:
            fit(kind, "X", speak)
        assert TEXT in traces.text()


def test_frames_are_refused():
    frame = pytest.importorskip("dask.dataframe").from_array(X)
    for model in PRIVATE.values():
        with pytest.raises(TypeError, match="to_dask_array"):
            model.fit(frame, Y)
