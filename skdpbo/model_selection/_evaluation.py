"""Integer losses of candidate models on protected rows.

What comes out of this file is protected: exact losses that only a mechanism may read. Nothing else
leaves: no time, no exception, no warning, no output, no state of a global generator, no model. One
record changes its own loss alone, and a total by at most ``scorer.units``, provided that the model
predicts each row from that row alone (written among the assumptions of every guarantee).
"""

import copy
import warnings
from contextlib import ExitStack

import numpy as np
from sklearn.base import clone

from skdpbo.model_selection._isolation import (
    ONE_AT_A_TIME,
    jobs_here,
    nothing_leaves,
    public_generators,
    this_process,
    unshared,
)
from skdpbo.model_selection._losses import UserLoss
from skdpbo.model_selection._parallel import run_tasks
from skdpbo.model_selection._row_by_row import MixedRowsError
from skdpbo.model_selection._sklearn import n_rows, take_rows, without_callbacks
from skdpbo.privacy import charged_elsewhere

__all__ = ["candidate_losses", "record_losses"]

_SEED = 20070613


def candidate_losses(estimator, candidates, X, y, **how):
    """Train every candidate on the public rows and total its losses on the protected ones.

    Parameters
    ----------
    **how
        As for `record_losses`.

    Returns
    -------
    totals : list of (int or None)
        Sum of integer losses in ``[0, n_protected * scorer.units]``; None for a candidate that
        fails on the *public* rows. Protected: give it to a mechanism and drop it.
    """
    return _evaluate(_total, estimator, candidates, X, y, **how)


def record_losses(estimator, candidates, X, y, **how):
    """Train every candidate on the public rows and lose on each protected one.

    Parameters
    ----------
    estimator : estimator
        Not fitted; it is cloned.
    candidates : list of dict
    X, y : public rows and their targets
    protected : ProtectedRows
    scorer : PerRecordScorer
    fit_params : dict
    raise_public_errors : bool
        Raise when a candidate cannot be trained on, or cannot score, the public rows, instead of
        leaving it out.
    none_may_be_left : bool, default=False
        False: when all candidates fail on the public rows, the error of the first is raised anyway.
    order_is_secret : bool, default=False
        Whether it depends on protected rows which candidates are evaluated. Caches of pipelines are
        not used then: their files would tell.
    n_jobs, pre_dispatch
        As in joblib.

    Returns
    -------
    losses : list of (ndarray of shape (n_protected,), dtype int64, or None)
        In ``[0, scorer.units]``; None for a candidate that fails on the *public* rows. Protected:
        give it to a mechanism and drop it.
    """
    return _evaluate(_as_they_are, estimator, candidates, X, y, **how)


def _total(losses):
    return int(losses.sum())


def _as_they_are(losses):
    return losses


def _evaluate(
    reduce,
    estimator,
    candidates,
    X,
    y,
    *,
    protected,
    scorer,
    fit_params,
    raise_public_errors,
    n_jobs,
    pre_dispatch,
    none_may_be_left=False,
    order_is_secret=False,
):
    rows = (protected.X, protected.y, protected.unreadable)
    common = (X, y, rows, scorer, fit_params, this_process())
    estimator = without_callbacks(clone(estimator))
    if order_is_secret:
        _forget_caches(estimator)
    tasks = [(reduce, clone(estimator), params, *common) for params in candidates]
    n_jobs = jobs_here(n_jobs)
    # The filters are also set here: with threads, each worker restores those of the one before.
    # What slips through while a worker resets them is recorded, that is not shown, and dropped.
    with nothing_leaves(), warnings.catch_warnings(record=True):
        warnings.simplefilter("ignore")
        results = run_tasks(_losses_of_candidate, tasks, n_jobs=n_jobs, pre_dispatch=pre_dispatch)
    losses, errors = zip(*results, strict=True)
    failed = [error for error in errors if error is not None]
    if failed and (raise_public_errors or (not none_may_be_left and len(failed) == len(losses))):
        raise failed[0]
    return list(losses)


def _losses_of_candidate(reduce, estimator, params, X, y, rows, scorer, fit_params, parent):
    """Return (reduced losses, None), or (None, public error)."""
    with ExitStack() as stack:
        if this_process() != parent:  # threads share what the parent keeps inside
            stack.enter_context(nothing_leaves())
        # Each training starts from the same public state: protected rows that were predicted
        # before have used the global generators as often as they liked. A private estimator is
        # trained on public rows here, and the searcher has paid for the others.
        for context in (ONE_AT_A_TIME, warnings.catch_warnings(), charged_elsewhere()):
            stack.enter_context(context)
        warnings.simplefilter("ignore")
        try:
            with public_generators(_SEED):
                model = _trained(estimator, params, X, y, fit_params)
                _score_first_public_rows(model, scorer, X, y)
        except Exception as error:
            return None, error
        return reduce(_isolated_losses(model, scorer, *rows)), None


def _trained(estimator, params, X, y, fit_params):
    model, _ = unshared(estimator.set_params(**clone(params, safe=False)))
    model = without_callbacks(model)
    # A copy: one candidate's copy=False must not change what the next one is trained on.
    X_train, targets = take_rows(X, np.arange(n_rows(X))), () if y is None else (y,)
    # Objects among the parameters of fit may note which candidates are trained, in which order.
    model.fit(X_train, *targets, **_copied(fit_params))
    return model


def _forget_caches(estimator):
    names = [name for name in estimator.get_params() if name.rsplit("__", 1)[-1] == "memory"]
    estimator.set_params(**dict.fromkeys(names))


def _score_first_public_rows(model, scorer, X, y):
    """Raise what is wrong with the scorer, which on protected rows would be a silent loss."""
    first = np.arange(min(2, n_rows(X)))
    scorer(model, take_rows(X, first), _take_targets(y, first))
    first = np.arange(min(10, n_rows(X)))
    refuse_mixed_losses(model, scorer, take_rows(X, first), _take_targets(y, first))


def refuse_mixed_losses(model, scorer, X, y):
    """Raise if a user's loss of some *public* row is finite in a batch and not of the row alone.

    On protected rows it is computed of each alone, and would be the worst in silence.
    """
    loss = getattr(scorer, "_loss", None)
    if not isinstance(loss, UserLoss):
        return
    with np.errstate(all="ignore"):
        try:
            prediction = scorer._predict(model, X, y)
            together, alone = loss(model, y, prediction), loss.isolated(y, prediction)
        except Exception:
            return  # the scorer itself has been tried
    if (np.isfinite(together) & ~np.isfinite(alone)).any():
        raise MixedRowsError(
            f"the loss of {scorer!r} cannot be computed of one record alone: it is finite for "
            "several records together and not for each of them by itself, as where it divides by "
            "the variance of y. Use public constants in their place."
        )


def _isolated_losses(model, scorer, X, y, unreadable):
    """Integer losses, shape (m,); a record that cannot be scored gets the worst, alone."""
    scorer = _copied(scorer)
    if not unreadable.any():
        losses = _try_losses(model, scorer, X, y, np.arange(len(unreadable)))
        if losses is not None:
            return losses
    apart, bad = _losses_apart(model, scorer, X, y, unreadable)
    if bad.all():
        return apart
    # The readable records are predicted in their own places of a batch of the same size, so that a
    # bad record does not even move the rounding of the others. Any row will do in its place: what
    # it scores is overwritten.
    places = np.where(bad, np.flatnonzero(~bad)[0], np.arange(len(bad)))
    losses = _try_losses(model, scorer, X, y, places)
    # A batch may fail for no single record, for instance where two row labels are equal.
    return apart if losses is None else np.where(bad, scorer.units, losses)


def _copied(thing):
    """A copy: what a user gives may keep what it is shown, such as a loss that is an object."""
    try:
        return copy.deepcopy(thing)
    except Exception:
        return thing


def _losses_apart(model, scorer, X, y, unreadable):
    """Losses of ever smaller groups of records, by bisection, and which records have none."""
    losses = np.full(len(unreadable), scorer.units, dtype=np.int64)
    bad = unreadable.copy()
    pending = [np.flatnonzero(~unreadable)]
    while pending:
        rows = pending.pop()
        if len(rows) == 0:
            continue
        scored = _try_losses(model, scorer, X, y, rows)
        if scored is not None:
            losses[rows] = scored
        elif len(rows) == 1:
            bad[rows] = True
        else:
            pending += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return losses, bad


def _try_losses(model, scorer, X, y, rows):
    """Losses of some records, or None if scoring raises.

    The model gets a copy, always laid out in the same way: it may write into what it predicts
    (``copy=False``), and the order of the memory moves the rounding. It may draw from the global
    generators: what it draws does not depend on how many batches have failed before.
    """
    try:
        with public_generators(_SEED):
            return _losses(model, scorer, take_rows(X, rows), _take_targets(y, rows))
    except (Exception, SystemExit):
        return None


def _losses(model, scorer, X, y):
    losses = np.asarray(scorer.record_losses(model, X, y))
    if losses.shape != (n_rows(X),) or losses.dtype.kind not in "iu":
        raise TypeError("record_losses must return one integer per record.")
    return np.clip(losses.astype(np.int64), 0, scorer.units)


def _take_targets(y, rows):
    return None if y is None else take_rows(y, rows)
