"""Integer losses of models that are trained on chunks of protected rows.

What comes out of this file is protected, and nothing else leaves it: no model, no time, no
exception, no warning, no output, no state of a global generator, no file. A model is a function of
its own chunk and of public constants, and its losses are functions of the model and of single rows.
"""

import copy
import warnings
from contextlib import ExitStack

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone

from skdpbo.model_selection._evaluation import _isolated_losses
from skdpbo.model_selection._isolation import (
    ONE_AT_A_TIME,
    jobs_here,
    nothing_leaves,
    public_generators,
    this_process,
    unshared,
)
from skdpbo.model_selection._parallel import run_tasks
from skdpbo.model_selection._sklearn import take_method_params, take_rows
from skdpbo.privacy import charged_elsewhere

__all__ = ["chunk_losses"]

_SEED = 20070612
# Batches of work for each job: the rows are sent with every batch, and the last one is waited for.
_BATCHES = 4


def chunk_losses(estimator, candidates, rows, *, scorer, fit_params, n_jobs, pre_dispatch):
    """Train every candidate on every chunk and total each model's losses.

    Parameters
    ----------
    estimator : estimator
        Not fitted; it is cloned.
    candidates : list of dict
    rows : ChunkedRows
    scorer : PerRecordScorer
    fit_params : dict
        Entries as long as ``rows.X`` go with their rows; the others are public.
    n_jobs, pre_dispatch
        As in joblib.

    Returns
    -------
    totals : list of list of int, shape (n_candidates, n_chunks)
        A model that cannot be trained or scored has the worst loss on every row. Protected: give
        it to a mechanism and drop it.
    """
    n_chunks = len(rows.chunks)
    pairs = [(k, j) for k in range(len(candidates)) for j in range(n_chunks)]
    n_batches = min(len(pairs), _BATCHES * _n_workers(n_jobs))
    batches = [pairs[start::n_batches] for start in range(n_batches)]
    common = (estimator, candidates, rows, scorer, fit_params, this_process())
    tasks = [(batch, *common) for batch in batches]
    n_jobs = jobs_here(n_jobs)
    with nothing_leaves(), charged_elsewhere():
        results = run_tasks(_losses_of_batch, tasks, n_jobs=n_jobs, pre_dispatch=pre_dispatch)
    totals = [[0] * n_chunks for _ in candidates]
    for batch, losses in zip(batches, results, strict=True):
        for (k, j), loss in zip(batch, losses, strict=True):
            totals[k][j] = loss
    return totals


def _n_workers(n_jobs):
    workers = effective_n_jobs(n_jobs)
    return workers if workers > 1 else 1


def _losses_of_batch(batch, estimator, candidates, rows, scorer, fit_params, parent):
    with ExitStack() as stack:
        if this_process() != parent:  # threads share what the parent keeps inside
            stack.enter_context(nothing_leaves())
        stack.enter_context(charged_elsewhere())
        return [_total(estimator, candidates[k], rows, j, scorer, fit_params) for k, j in batch]


def _total(estimator, params, rows, j, scorer, fit_params):
    """Total loss of the model of one chunk; the worst if anything fails."""
    outside = rows.outside(j) if rows.X_val is None else None
    n_losses = rows.n_validation if outside is None else len(outside)
    # Each fit starts from the same public state: it owes nothing to the fits before it.
    with ONE_AT_A_TIME, warnings.catch_warnings(), public_generators(_SEED + j):
        warnings.simplefilter("ignore")
        try:
            model = _train(estimator, params, rows, rows.chunks[j], fit_params)
            if outside is None:
                X, y = rows.X_val, rows.y_val
            else:
                X, y = _take(rows, outside)
            losses = _isolated_losses(model, scorer, X, y, np.zeros(n_losses, dtype=bool))
            return int(losses.sum())
        except (Exception, SystemExit):
            return n_losses * scorer.units


def _train(estimator, params, rows, chunk, fit_params):
    model, _ = unshared(clone(estimator).set_params(**clone(params, safe=False)))
    X, y = _take(rows, chunk)
    # Copies: an object among them may keep what it is shown.
    params_of_chunk = copy.deepcopy(take_method_params(rows.X, fit_params, chunk))
    model.fit(X, *(() if y is None else (y,)), **params_of_chunk)
    return model


def _take(rows, positions):
    y = None if rows.y is None else take_rows(rows.y, positions)
    return take_rows(rows.X, positions), y
