"""Growth in the searchers: the sweeps of `scaling.py` over candidates, T, rows, columns."""

import numpy as np
from scaling.scaling_models import Bowl, Majority, NoisyMean, labelled, targets
from scaling.scaling_sweep import Sweep

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.model_selection import Chunks, PrivateSelection

SPACE = {"a": (0.0, 1.0), "b": (0.0, 1.0)}


def validation(search, n_public=40, n_protected=200, d=2):
    """Fit with public and protected rows."""
    X, y = labelled(n_public, d)
    X_val, y_val = labelled(n_protected, d)
    return lambda: search.fit(X, y, X_val=X_val, y_val=y_val)


def grid(n_candidates, **options):
    values = np.linspace(0, 1, n_candidates).tolist()
    return DPGridSearchCV(Majority(), {"a": values}, cv=2, refit=False, **options)


def randomized(n_iter, **options):
    options = {"cv": 2, "refit": False, "scoring": "accuracy"} | options
    return DPRandomizedSearchCV(Majority(), SPACE, n_iter=n_iter, **options)


def bayes(n_iter, **options):
    options = {"cv": 2, "refit": False, "scoring": "accuracy"} | options
    return DPBayesSearchCV(Majority(), SPACE, n_iter=n_iter, **options)


def selected(max_trials, n=1000):
    """Private selection that always runs `max_trials` trials, so that the time is no lottery."""
    law = PrivateSelection(expected_trials=max_trials / 15, max_trials=max_trials, pad_trials=True)
    space = {"factor": np.linspace(-1, 1, 30).tolist()}
    search = DPRandomizedSearchCV(
        NoisyMean(), space, n_iter=30, protect=law, epsilon=2.0, loss_bound=1.0
    )
    return lambda: search.fit(*targets(n))


def chunked(k, n=4000, n_iter=4, kind=randomized, **options):
    search = kind(n_iter, protect=Chunks(k), cv=None, **options)
    return lambda: search.fit(*labelled(n))


def gibo(n_iter=5, d=2, n_protected=1000):
    names = [f"p{i}" for i in range(d)]
    search = DPGIBOSearchCV(
        Bowl(**dict.fromkeys(names, 0.1)),
        dict.fromkeys(names, (0.0, 1.0)),
        n_iter=n_iter,
        guide=False,
        init=None,
        scoring="neg_mean_squared_error",
        loss_bound=1.0,
        refit=False,
    )
    X, y = targets(40)
    X_val, y_val = targets(n_protected)
    return lambda: search.fit(X, y, X_val=X_val, y_val=y_val)


TIMES_ALL = "every candidate is cloned, fitted and scored on its own"
COPIES = "one candidate at a time predicts a copy of the rows"
NO_GUIDE = {"guide": False, "scoring": "accuracy"}
ROWS = (1_000, 10_000, 100_000, 1_000_000)

SEARCHERS = [
    Sweep(
        "DPGridSearchCV",
        "candidates",
        (16, 32, 64, 128, 256),
        lambda m: validation(grid(m, scoring="accuracy")),
        time=1,
        memory=1,
        law=f"m: {TIMES_ALL}",
        fixed="2 folds, 40 public and 200 protected rows",
    ),
    Sweep(
        "DPGridSearchCV",
        "protected rows",
        ROWS,
        lambda n: validation(grid(4, **NO_GUIDE), n_protected=n),
        time=1,
        memory=1,
        law=f"n d: {COPIES}",
        fixed="4 candidates, 2 columns, guide=False",
    ),
    Sweep(
        "DPGridSearchCV",
        "public rows",
        ROWS[:3],
        lambda n: validation(grid(4, scoring="accuracy"), n_public=n),
        time=1,
        memory=1,
        law="n d: the folds are copied",
        fixed="4 candidates, 2 folds, 2 columns",
    ),
    Sweep(
        "DPGridSearchCV",
        "columns",
        (10, 100, 1_000, 10_000),
        lambda d: validation(grid(4, **NO_GUIDE), n_protected=1000, d=d),
        time=1,
        memory=1,
        law=f"n d: {COPIES}",
        fixed="4 candidates, 1000 protected rows, guide=False",
    ),
    Sweep(
        "DPRandomizedSearchCV",
        "candidates",
        (16, 32, 64, 128, 256),
        lambda m: validation(randomized(m)),
        time=1,
        memory=1,
        law=f"m: {TIMES_ALL}",
        fixed="2 folds, 40 public and 200 protected rows",
    ),
    Sweep(
        'DPRandomizedSearchCV, protect="all"',
        "trials",
        (30, 60, 120, 240),
        selected,
        time=1,
        memory=0,
        law="K: every trial is one model; the best so far is kept",
        fixed="max_trials, padded; 1000 rows",
    ),
    Sweep(
        'DPRandomizedSearchCV, protect="all"',
        "rows",
        ROWS,
        lambda n: selected(30, n),
        time=1,
        memory=1,
        law="n d: rows are copied for each trial",
        fixed="30 trials",
    ),
    Sweep(
        "DPRandomizedSearchCV, Chunks",
        "chunks",
        (5, 10, 20, 40, 80),
        chunked,
        time=1,
        memory=1,
        law="k n: each of k models scores all the rows outside its chunk",
        fixed="4 candidates, 4000 rows",
    ),
    Sweep(
        "DPRandomizedSearchCV, Chunks",
        "rows",
        (2_000, 8_000, 32_000, 128_000),
        lambda n: chunked(10, n),
        time=1,
        memory=1,
        law="k n",
        fixed="4 candidates, 10 chunks",
    ),
    Sweep(
        "DPBayesSearchCV",
        "T",
        (25, 50, 100, 200, 400),
        lambda T: validation(bayes(T)),
        time=3,
        memory=1,
        law="T^3 + T^2 m: fits of the kernel at geometrically spaced T, O(T m) an update",
        fixed="500 candidates, 2 folds, one at a time",
    ),
    Sweep(
        "DPBayesSearchCV",
        "candidates",
        (500, 2_000, 8_000, 32_000),
        lambda m: validation(bayes(30, n_candidates=m)),
        time=1,
        memory=1,
        law="T m: an update of every candidate's mean and variance",
        fixed="T = 30",
    ),
    Sweep(
        "DPBayesSearchCV",
        "batch size",
        (1, 4, 16, 64),
        lambda b: validation(bayes(128, batch_size=b)),
        time=0,
        memory=0,
        law="the same candidates in fewer rounds: not slower",
        fixed="T = 128",
    ),
    Sweep(
        "DPBayesSearchCV",
        "protected rows",
        ROWS,
        lambda n: validation(bayes(8), n_protected=n),
        time=1,
        memory=1,
        law=f"n d: {COPIES}",
        fixed="T = 8",
    ),
    Sweep(
        'DPBayesSearchCV, "gaussian"',
        "T",
        (25, 50, 100, 200),
        lambda T: validation(bayes(T, mechanism="gaussian")),
        time=3,
        memory=1,
        law="T^3 + T^2 m",
        fixed="500 candidates, 2 folds",
    ),
    Sweep(
        'DPBayesSearchCV, "gaussian", guide=False',
        "T",
        (25, 50, 100, 200),
        lambda T: validation(bayes(T, mechanism="gaussian", guide=False)),
        time=3,
        memory=1,
        law="T^3 + T^2 m",
        fixed="500 candidates",
    ),
    Sweep(
        "DPBayesSearchCV, Chunks",
        "T",
        (8, 16, 32, 64),
        lambda T: chunked(5, 1000, T, bayes, mechanism="gaussian"),
        time=3,
        memory=1,
        law="T^3 + T k n",
        fixed='5 chunks, 1000 rows, "gaussian"',
    ),
    Sweep(
        "DPGIBOSearchCV",
        "T",
        (10, 20, 40, 80, 160),
        lambda T: gibo(n_iter=T),
        time=3,
        memory=2,
        law="N^2 d + N n d a step with N = T (d + 1) points, N n numbers",
        fixed="d = 2, 1000 protected rows",
    ),
    Sweep(
        "DPGIBOSearchCV",
        "parameters d",
        (2, 4, 8, 16, 32),
        lambda d: gibo(d=d),
        time=4,
        memory=2,
        law="N^2 d + N n d a step with N = T (d + 1) points; the design some iterations of d^4",
        fixed="T = 5, 1000 protected rows",
    ),
    Sweep(
        "DPGIBOSearchCV",
        "protected rows",
        (1_000, 10_000, 100_000, 500_000),
        lambda n: gibo(n_protected=n),
        time=1,
        memory=1,
        law="T^2 d^2 n, and T d n numbers",
        fixed="T = 5, d = 2",
    ),
]
