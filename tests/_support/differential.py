"""A differential check of fitted estimators: a row must have the same answer in every batch.

In batches of one size the answer for a row must have the same bits, whatever the other rows hold;
alone, in another order or in a batch of another size it may differ by rounding.
"""

import copy
import inspect
import warnings
from functools import cache

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

METHODS = ("predict", "predict_proba", "decision_function", "transform", "inverse_transform")
KEPT = (0, 7, 19)
N_BATCH = 20
N = 60


@cache
def data():
    """Return the tables and the targets on which estimators are tried."""
    rng = np.random.RandomState(0)
    dense = rng.uniform(0.1, 2, size=(N, 4))
    missing = np.where(rng.rand(N, 4) < 0.2, np.nan, dense)
    words = np.array(["red", "blue", "sun", "moon", "tea"])
    tables = {
        "dense": dense,
        "missing": missing,
        "one": dense[:, :1],
        "single": dense.astype(np.float32),
        "integers": rng.randint(50, size=(N, 4)),
        "sparse": sparse.csr_matrix(np.where(rng.rand(N, 4) < 0.6, dense, 0)),
        "categories": np.array(["a", "b", "c"], dtype=object)[rng.randint(3, size=(N, 3))],
        "texts": [" ".join(rng.choice(words, size=5)) for _ in range(N)],
        "dicts": [{"a": float(v), "b": "xy"[int(10 * v) % 2]} for v in rng.rand(N)],
        "labels": rng.randint(3, size=N).tolist(),
        "images": rng.rand(N, 8, 8),
    }
    targets = {
        "classes": rng.randint(3, size=N),
        "binary": rng.randint(2, size=N),
        "numbers": rng.uniform(0.1, 3, size=N),
        "outputs": rng.uniform(0.1, 3, size=(N, 2)),
        "labels": rng.randint(2, size=(N, 3)),
        "partly": np.where(rng.rand(N) < 0.4, -1, rng.randint(2, size=N)),
    }
    return tables, targets


def construct(cls, **params):
    """Return an estimator of a class, with small inner estimators where it needs some."""
    model = Ridge() if "Regress" in cls.__name__ else LogisticRegression()
    scaled = ("a", StandardScaler(), [0, 1])
    inner = {
        "estimator": model,
        "base_estimator": model,
        "estimators": [("a", model), ("b", clone(model))],
        "transformers": [scaled, ("b", "passthrough", [2])],
        "transformer_list": [scaled[:2]],
        "steps": [scaled[:2], ("b", LogisticRegression())],
        "param_grid": {"C": [0.1, 1.0]},
        "param_distributions": {"C": [0.1, 1.0]},
        "dictionary": np.arange(12.0).reshape(3, 4) / 10,
    }
    sizes = {"n_components": 2, "n_estimators": 3, "n_features": 16}
    signature = inspect.signature(cls).parameters
    needed = {k: inner[k] for k, p in signature.items() if p.default is p.empty and k in inner}
    small = {k: v for k, v in sizes.items() if k in signature and type(signature[k].default) is int}
    if cls.__name__ in ("SelfTrainingClassifier", "ClassifierChain", "RegressorChain"):
        # Its name, and whether it has a default, change from version to version.
        needed = {"estimator" if "estimator" in signature else "base_estimator": model}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of classes that will go
        return cls(**{**needed, **small, **params})


def failures(estimator, tables=None, n_tables=None, n_fits=1):
    """Fit an estimator on what it takes; return (number of answers compared, descriptions).

    Parameters
    ----------
    estimator : estimator
    tables : iterable of str, default=None
        Names of tables; all by default.
    n_tables : int, default=None
        Largest number of tables on which it is fitted.
    n_fits : int, default=1
        Targets that are tried on each table.
    """
    compared, found, n_fitted = 0, [], 0
    for name, X in data()[0].items():
        if (tables is not None and name not in tables) or n_fitted == n_tables:
            continue
        n_before = compared
        for model, target in _fitted(estimator, X, n_fits):
            for method in METHODS:
                n, bad = _differences(model, method, X)
                compared += n
                found += [f"{method} of {name} ({target}): {what}" for what in bad]
        n_fitted += compared > n_before
    return compared, found


def _fitted(estimator, X, n_fits):
    models = []
    for name, y in [*data()[1].items(), ("none", None)]:
        if len(models) == n_fits or (name == "none" and models):
            break
        try:
            model = _quietly(clone, estimator)
            # The tables are cached, and copy=False writes into them.
            _quietly(model.fit, *copy.deepcopy((X,) if y is None else (X, y)))
        except Exception:  # the table is not for it
            continue
        models.append((model, name))
    return models


def _quietly(function, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*args)


def _differences(model, method, X):
    """Return (answers compared, kinds of batches in which some row has another answer)."""
    batch = _take(X, range(N_BATCH))
    if method == "inverse_transform":
        batch = _answer(model, "transform", batch, raw=True)
    usual = None if batch is None else _answer(model, method, batch)
    if usual is None:
        return 0, []
    if len(usual) != N_BATCH:
        return 1, ["not one answer for each row"]
    compared, bad = 1, []
    for kind in ("huge", "negative", "tiny", "missing", "some missing", "repeated", "moved"):
        answer = _answer(model, method, _changed(batch, kind))
        if answer is not None:
            compared += 1
            if not _same_bits(usual, answer):
                bad.append(kind)
    for order in ([0], [7], [7, 0], range(N_BATCH)[::-1], [0] * 7):
        answer = _answer(model, method, _take(batch, order))
        compared += 1
        if answer is None or not _close(usual[list(order)], answer, _rounding(X, usual)):
            bad.append(f"rows {list(order)[:3]}")
    return compared, bad


def _answer(model, method, X, raw=False):
    if not hasattr(model, method):
        return None
    try:
        np.random.seed(0)
        with config_context(enable_cython_pairwise_dist=False):  # as the evaluators do
            answer = _quietly(getattr(model, method), copy.deepcopy(X))  # copy=False writes into it
    except Exception:  # what fails for a batch is tried again by parts of it
        return None
    if raw:
        return answer
    if isinstance(answer, list) and all(np.shape(part)[1:] for part in answer):
        return np.concatenate(answer, axis=1)  # probabilities of several outputs
    if isinstance(answer, list | tuple):
        cells = np.empty(len(answer), dtype=object)
        cells[:] = [str(part) for part in answer]
        return cells
    return answer.toarray() if sparse.issparse(answer) else np.asarray(answer)


def _take(X, rows):
    rows = list(rows)
    return [X[i] for i in rows] if isinstance(X, list | tuple) else X[rows]


def _changed(batch, kind):
    """Return a batch of the same size in which all rows but `KEPT` are others."""
    others = [i for i in range(N_BATCH) if i not in KEPT]
    if isinstance(batch, list | tuple):
        rows = list(batch)
        for i, j in zip(others, others[::-1], strict=True):
            rows[i] = batch[KEPT[0]] if kind == "repeated" else batch[j]
        return rows
    values = batch.toarray() if sparse.issparse(batch) else np.array(batch)
    column = (1 + np.arange(len(others))).reshape(-1, *[1] * (values.ndim - 1))
    new = {"huge": 1e6 * column, "negative": -1e6, "tiny": 1e-300, "missing": np.nan}
    if kind == "repeated":
        values[others] = values[KEPT[0]]
    elif values.dtype.kind != "f" or kind == "moved":
        values[others] = values[others[::-1]]
    elif kind == "some missing":
        values[others[::2]] = np.nan
    else:
        values[others] = new[kind]
    return type(batch)(values) if sparse.issparse(batch) else values


def _same_bits(first, second):
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.dtype == object:
        return [str(row) for row in first[list(KEPT)]] == [str(r) for r in second[list(KEPT)]]
    return all(first[i].tobytes() == second[i].tobytes() for i in KEPT)


def _rounding(X, answer):
    """Return the tolerance: kernels of rows in single precision are rounded to it."""
    return 1e-3 if np.float32 in (answer.dtype, getattr(X, "dtype", None)) else 1e-6


def _close(first, second, rounding):
    if first.shape != second.shape:
        return False
    if first.dtype.kind not in "fc":
        return [str(row) for row in first] == [str(row) for row in second]
    largest = np.nanmax(np.abs(first), initial=0)
    return np.allclose(first, second, rtol=rounding, atol=rounding * largest, equal_nan=True)
