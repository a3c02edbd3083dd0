"""Train, score and isolate one candidate: the one place where user code meets protected rows.

Public-row training, chunks, private trials and the dry run call these functions. Every training
gets copies of its own of the rows, of further arguments of ``fit`` and of frozen steps, starts
from global generators that are seeded for it, and has no callbacks: nothing connects it to another
training. One record changes its own loss alone, and a total by at most ``scorer.units``, provided
that the model predicts each row from that row alone (written among the assumptions of every
guarantee).

Groups of records have one loss each, the mean of those of their records: it depends on the records
of the group alone, and is in {0, ..., ``scorer.units``} as that of a record is, so that a group
that is replaced moves a total by at most ``units``, too (``docs/theory/groups.md``).
"""

import copy
from functools import partial

import numpy as np
from sklearn import config_context

from skdpbo._attempt import attempt
from skdpbo._isolation._estimator_parts import unshared
from skdpbo._isolation._isolated_calls import seeded_generators
from skdpbo._isolation._row_answers import answers_by_row
from skdpbo._record_groups import place_batches
from skdpbo.model_selection._sklearn import n_rows, take_method_params, take_rows, without_callbacks
from skdpbo.model_selection.evaluation._row_independence import MixedRowsError
from skdpbo.model_selection.rows._overlap import entry_length
from skdpbo.model_selection.rows._settled_types import settled_public_targets, settled_targets
from skdpbo.model_selection.scoring._losses import UserLoss, n_predictions, refuse_negated
from skdpbo.model_selection.scoring._scorer import _response

SEED = 20070613  # public, and one for all: candidates are compared under equal draws
_MEGABYTES = 64  # of a table of distances


def train(model, X, y, fit_params, *, rows=None, seed=SEED, labels=None):
    """Fit a clone so that it shares nothing with the caller's objects. Call in isolation.

    Parameters
    ----------
    model : estimator
        A clone of its own, not fitted.
    X, y : rows and targets; y may be None
    fit_params : dict
        Entries as long as `X` go with their rows.
    rows : ndarray of int, default=None
        Positions of the rows to train on; None: all of them.
    seed : int or ndarray, default=SEED
        Of the global generators, see `seeded_generators`.
    labels : bool, default=None
        Whether targets are labels: they and the entries of ``fit`` that go with the rows have the
        types of these rows. None: as they are.

    Returns
    -------
    model : estimator
        Fitted. Protected where the rows are.
    frozen : list
        Pairs of a copy of a frozen part and the original, see `unshared`.
    """
    # Positions also of all rows: taking them makes the copy that is the training's own.
    whole, rows = rows is None, np.arange(n_rows(X)) if rows is None else rows
    model, frozen = unshared(without_callbacks(model))
    # An object among them may keep what it is shown, or note which candidates are trained.
    params = copy.deepcopy(take_method_params(X, fit_params, rows))
    own, targets = take_rows(X, rows), () if y is None else (take_rows(y, rows),)  # or no argument
    if labels is not None:
        # In types of these rows: a long text or a missing value of another has typed them all, and
        # a frame is laid out by the types that it had.
        own = own.copy() if hasattr(own, "isetitem") else own
        targets = [settled_targets(settled_public_targets(t, labels), labels) for t in targets]
        # Of all rows none is cut: one may be as long by chance, and their number secret.
        lengths = () if whole else (n_rows(X),)
        cut = [name for name, entry in fit_params.items() if entry_length(entry) in lengths]
        params |= {name: settled_public_targets(params[name], True) for name in cut}
    with seeded_generators(seed):
        model.fit(own, *targets, **params)
    return model, frozen


def try_scorer(model, scorer, X, y):
    """Raise what is wrong with a scorer on *public* rows: on protected ones it is a silent loss.

    Raises
    ------
    MixedRowsError
        If a user's loss of some row is another in a batch than of the row alone. On protected rows
        it is computed of each alone: a score by other losses, or the worst in silence.
    """
    scorer = copy.deepcopy(scorer)  # a user's loss may keep what it is shown
    with seeded_generators(SEED):
        if isinstance(getattr(scorer, "response_method", None), str | list | tuple):
            # anything but one entry for each row is refused
            answer = _response(model, X, scorer.response_method)
            length = n_predictions(answer) if hasattr(answer, "__len__") else None
            if length != n_rows(X):
                raise ValueError(
                    f"{type(model).__name__} must give one prediction for each row, got "
                    f"{type(answer).__name__} for {n_rows(X)} rows."
                )
        scorer.try_on(model, X, y)
        loss = getattr(scorer, "_loss", None)
        if not isinstance(loss, UserLoss):
            return
        prediction = scorer._predict(model, X, y)
        together, alone = loss(model, y, prediction), loss.isolated(y, prediction)
    refuse_negated(together, scorer)
    # Rounding alone may differ: sums over a batch are taken in another order.
    if not np.allclose(together, alone, rtol=1e-6, atol=1e-9 * scorer.bound, equal_nan=True):
        raise MixedRowsError(
            f"the loss of {scorer!r} cannot be computed of one record alone: it is another for a "
            "record by itself than among others, as where it divides by the variance of y or "
            "counts classes. Use public constants in their place, or class_weight."
        )


def isolated_outcomes(model, scorer, X, y, unreadable=None, batches=None, groups=None):
    """Return what the scorer keeps of each record. Protected: pass only to a mechanism.

    Call in isolation.

    Parameters
    ----------
    model : estimator
        Fitted. It may keep what it is shown: give a copy of one that is released.
    scorer : PerRecordScorer
    X, y : protected rows and targets
    unreadable : ndarray of shape (m,), dtype bool, default=None
        Records that are not shown to the model.
    batches : ndarray of shape (n_batches, width), dtype intp, default=None
        Records that are shown together, -1 where a batch has a place left: see `random_batches`.
        None: all of them.
    groups : ndarray of shape (m,), dtype int, default=None
        Number of the group of each record, from 0.

    Returns
    -------
    outcomes : ndarray of shape (m, ...)
        Row i depends on record i alone; ``scorer.worst_outcome`` for one that cannot be scored.
        Of a mean of losses these losses, in {0, ..., ``scorer.units``}; with groups their means,
        one for each group, in batches of `place_batches` where none are given.
    """
    unreadable = np.zeros(n_rows(X), dtype=bool) if unreadable is None else unreadable
    if groups is not None:
        batches = place_batches(groups) if batches is None else batches
        of_records = _outcomes_in_batches(model, scorer, X, y, unreadable, batches)
        return mean_losses(of_records, groups)
    if batches is not None:
        return _outcomes_in_batches(model, scorer, X, y, unreadable, batches)
    # A copy: a user's loss may be an object that keeps what it is shown.
    own_scorer, _ = attempt(copy.deepcopy, scorer)
    answer = partial(_outcomes_together, model, own_scorer, X, y)
    return answers_by_row(answer, unreadable, scorer.worst_outcome)


def _outcomes_in_batches(model, scorer, X, y, unreadable, batches):
    """Protected: outcomes of the records, which are shown in batches of one size."""
    outcomes = np.repeat([scorer.worst_outcome], len(unreadable), axis=0)
    for batch in batches:
        # Empty places hold some record of the batch, so that all batches are equally long.
        shown, held = np.where(batch < 0, batch.max(), batch), batch >= 0
        targets = None if y is None else take_rows(y, shown)
        rows = take_rows(X, shown), targets, unreadable[shown]
        outcomes[batch[held]] = isolated_outcomes(model, scorer, *rows)[held]
    return outcomes


def _outcomes_together(model, scorer, X, y, rows):
    """Protected: outcomes of some records, or whatever the scorer raises.

    The model gets a copy, always laid out in the same way: it may write into what it predicts
    (``copy=False``), and the order of the memory moves the rounding. It may draw from the global
    generators: what it draws does not depend on how many batches have failed before.
    """
    X, y = take_rows(X, rows), None if y is None else take_rows(y, rows)
    # Neighbours would be found in another way, which breaks ties otherwise, if no row of a sparse
    # batch held a number but one. This way takes tables of distances: small ones are faster.
    options = {"enable_cython_pairwise_dist": False, "working_memory": _MEGABYTES}
    with seeded_generators(SEED), config_context(**options):
        return scorer.checked_outcomes(scorer.record_outcomes(model, X, y), len(rows))


def mean_losses(losses, groups):
    """Return the mean integer loss of each group, rounded to the next integer.

    Parameters
    ----------
    losses : ndarray of shape (m,), dtype int64
        In {0, ..., units}; so is the mean. Rounding moves it by at most 1/2.
    groups : ndarray of shape (m,), dtype int

    Returns
    -------
    means : ndarray of shape (n_groups,), dtype int64
    """
    sizes = np.bincount(groups)
    totals = np.zeros(len(sizes), dtype=np.int64)
    np.add.at(totals, groups, losses)
    return (2 * totals + sizes) // (2 * sizes)  # floor(total / size + 1/2), in integers
