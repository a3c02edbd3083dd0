"""Entries of ``fit`` that hold protected rows are refused by their length, or named."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.dummy import DummyRegressor

from _support.hostile import Hostile, Unseen
from _support.internals import entries_assumption, refuse_rows_among_entries
from skdpbo import DPGridSearchCV
from skdpbo.exceptions import PublicTrainingWarning

N_PUBLIC, N_PROTECTED = 40, 33
PROTECTED = pd.DataFrame(np.random.RandomState(0).normal(size=(N_PROTECTED, 2)), columns=["a", "b"])
TARGETS = pd.Series(np.arange(N_PROTECTED))
PERMUTED = np.random.RandomState(1).permutation(N_PROTECTED)
COPIES = {
    "itself": (PROTECTED, TARGETS),
    "arrays": (PROTECTED.to_numpy(), TARGETS.to_numpy()),
    "copies": (PROTECTED.copy(), TARGETS.copy()),
    "columns": (PROTECTED[["a"]], TARGETS),
    "slice": (PROTECTED.iloc[:], TARGETS.iloc[:]),
    "lists": (PROTECTED.to_numpy().tolist(), TARGETS.tolist()),
    "sparse": (sparse.csr_array(PROTECTED.to_numpy()), TARGETS),
    "float32": (PROTECTED.to_numpy(np.float32), TARGETS.astype(str)),
    "permuted": (PROTECTED.iloc[PERMUTED], TARGETS.iloc[PERMUTED]),
    "scaled": ((PROTECTED / 2).to_numpy(), TARGETS),
}
WRAPPED = {
    "list of pairs": lambda pair: {"eval_set": [pair]},
    "pair": lambda pair: {"eval_set": pair},
    "dict": lambda pair: {"eval_set": {"x": pair[0], "y": pair[1]}},
    "two entries": lambda pair: {"X_eval": pair[0], "y_eval": pair[1]},
    "targets alone": lambda pair: {"y_eval": pair[1]},
}


@pytest.mark.parametrize("wrapped", sorted(WRAPPED))
@pytest.mark.parametrize("copies", sorted(COPIES))
def test_copies_are_refused(copies, wrapped):
    params = WRAPPED[wrapped](COPIES[copies])
    with pytest.raises(ValueError, match="holds protected rows"):
        refuse_rows_among_entries(params, [PROTECTED, TARGETS], (), n_public=N_PUBLIC)
    with pytest.raises(ValueError, match="holds protected rows"):
        refuse_rows_among_entries({"more": 1} | params, [TARGETS], {N_PUBLIC})


@pytest.mark.parametrize(
    "params",
    [
        {"sample_weight": np.ones(N_PUBLIC)},
        {"eval_set": [(np.zeros((N_PUBLIC, 2)), np.zeros(N_PUBLIC))]},
        {"eval_set": [(PROTECTED.iloc[:20], TARGETS.iloc[:20])]},
        {"verbose": False, "early_stopping_rounds": 10, "name": "x" * N_PROTECTED, "none": None},
        {"coef_init": np.zeros((1, 2)), "size": np.int64(3)},
    ],
    ids=["weights", "public rows", "part", "settings", "start"],
)
def test_what_has_another_length_passes(params):
    refuse_rows_among_entries(params, [PROTECTED, TARGETS], (), n_public=N_PUBLIC)


@pytest.mark.parametrize("cell", [Hostile, Unseen, lambda: [0.0] * N_PUBLIC])
def test_cells_of_what_is_cut_are_not_looked_into(cell):
    weights = [1.0] * (N_PUBLIC - 1) + [cell()]
    refuse_rows_among_entries({"w": weights}, [PROTECTED, TARGETS], {N_PUBLIC})
    assert entries_assumption({"w": weights}, N_PUBLIC, N_PROTECTED) is None


def test_what_is_cut_and_typed_by_another_library_is_refused():
    pa = pytest.importorskip("pyarrow")
    weights = pa.array(np.ones(N_PUBLIC))
    with pytest.raises(TypeError, match=r"^w is neither a numpy array.* w.to_numpy\(\)"):
        refuse_rows_among_entries({"w": weights}, [PROTECTED, TARGETS], {N_PUBLIC})
    refuse_rows_among_entries({"w": weights}, [PROTECTED, TARGETS], (), n_public=N_PUBLIC)


def test_a_part_that_shares_memory_is_refused():
    X = np.zeros((N_PROTECTED, 2))
    with pytest.raises(ValueError, match="holds protected rows"):
        refuse_rows_among_entries({"eval_set": [X[:5]]}, [X], (), n_public=N_PUBLIC)
    # As many public as protected rows: the protected ones themselves are not taken for weights.
    weights = np.ones(N_PROTECTED)
    with pytest.raises(ValueError, match="holds protected rows"):
        refuse_rows_among_entries({"w": weights}, [weights], (), n_public=N_PROTECTED)
    refuse_rows_among_entries({"w": weights}, [X], (), n_public=N_PROTECTED)


def test_what_cannot_be_refused_is_named():
    part = [(PROTECTED.iloc[:20], TARGETS.iloc[:20])]
    weights = np.ones(N_PUBLIC)
    params = {"eval_set": part, "sample_weight": weights, "verbose": 0, "data": object()}
    text = entries_assumption(params, N_PUBLIC, N_PROTECTED)
    assert text.endswith("as eval_set, data")
    assert entries_assumption({"w": weights, "n": 1}, N_PUBLIC, N_PROTECTED) is None
    assert entries_assumption({}, N_PUBLIC, N_PROTECTED) is None
    # Of one length with the protected records, weights may be a copy of them.
    assert entries_assumption({"w": weights}, N_PUBLIC, N_PUBLIC).endswith("as w")


@pytest.mark.usefixtures("few_public_candidates")
def test_rows_that_are_given_as_public_too_are_announced():
    X = np.random.default_rng(0).normal(size=(40, 2))
    search = DPGridSearchCV(DummyRegressor(), {}, cv=2, loss_bound=9.0, score_fraction=0.0)
    with pytest.warns(PublicTrainingWarning, match="X and X_val share rows"):
        search.fit(X, X[:, 0], X_val=X[20:], y_val=X[20:, 0])
    search.fit(X, X[:, 0], X_val=X[20:].copy(), y_val=X[20:, 0])  # without a warning
