"""Train, score and isolate one candidate: the one place where user code meets protected rows.

Public-row training, chunks, private trials and the dry run call these functions. Every training
gets its own copies of the rows, of further arguments of ``fit`` and of frozen steps, starts from
global generators seeded for it, and has no callbacks: nothing connects it to another training. One
record changes its own loss alone, and a total by at most ``scorer.units``, provided that the model
predicts each row from that row alone (an assumption of every guarantee).

The loss of a group of records is the mean of their losses. It depends on the records of the group
alone, and is in {0, ..., ``scorer.units``} like that of a record, so that replacing a group also
moves a total by at most ``units`` (``docs/theory/groups.md``).
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

SEED = 20070613  # public; the same for all, so that candidates are compared under equal draws
_MEGABYTES = 64  # largest table of distances


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
        Whether the targets are labels. Targets and entries of ``fit`` that go with the rows are
        then converted to types that depend on the given rows alone. None: left unchanged.

    Returns
    -------
    model : estimator
        Fitted. Protected if the rows are.
    frozen : list
        Pairs of a copy of a frozen part and the original, see `unshared`.
    """
    # Positions even of all rows: taking rows copies them.
    whole, rows = rows is None, np.arange(n_rows(X)) if rows is None else rows
    model, frozen = unshared(without_callbacks(model))
    # An object among them may store its inputs, or record which candidates are trained.
    params = copy.deepcopy(take_method_params(X, fit_params, rows))
    own, targets = take_rows(X, rows), () if y is None else (take_rows(y, rows),)
    if labels is not None:
        # A long text or a missing value of another row determines the type of all rows, and the
        # memory layout of a frame depends on the types that it had.
        own = own.copy() if hasattr(own, "isetitem") else own
        targets = [settled_targets(settled_public_targets(t, labels), labels) for t in targets]
        # With all rows no entry is selected from, so that none is converted: an entry may be as
        # long as the rows by chance, and their number may be secret.
        lengths = () if whole else (n_rows(X),)
        cut = [name for name, entry in fit_params.items() if entry_length(entry) in lengths]
        params |= {name: settled_public_targets(params[name], True) for name in cut}
    with seeded_generators(seed):
        model.fit(own, *targets, **params)
    return model, frozen


def try_scorer(model, scorer, X, y):
    """Raise the errors of a scorer on *public* rows; on protected rows they are silent.

    Raises
    ------
    MixedRowsError
        If a user's loss of some row differs between a batch and the row alone. On protected rows
        it is computed of each row alone, so that the scores would be of other losses.
    """
    scorer = copy.deepcopy(scorer)  # a user's loss may store its inputs
    with seeded_generators(SEED):
        if isinstance(getattr(scorer, "response_method", None), str | list | tuple):
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
    # Up to rounding: sums over a batch are taken in another order.
    if not np.allclose(together, alone, rtol=1e-6, atol=1e-9 * scorer.bound, equal_nan=True):
        raise MixedRowsError(
            f"the loss of {scorer!r} cannot be computed of one record alone: it is another for a "
            "record by itself than among others, as where it divides by the variance of y or "
            "counts classes. Use public constants in their place, or class_weight."
        )


def isolated_outcomes(model, scorer, X, y, unreadable=None, batches=None, groups=None):
    """Return the scorer's outcome of each record. Protected: pass only to a mechanism.

    Call in isolation.

    Parameters
    ----------
    model : estimator
        Fitted. It may store its inputs: pass a copy of a model that is released.
    scorer : PerRecordScorer
    X, y : protected rows and targets
    unreadable : ndarray of shape (m,), dtype bool, default=None
        Records that are not passed to the model.
    batches : ndarray of shape (n_batches, width), dtype intp, default=None
        Records that are passed to the model together; -1 marks an empty place, see
        `random_batches`. None: all records in one batch.
    groups : ndarray of shape (m,), dtype int, default=None
        Number of the group of each record, from 0.

    Returns
    -------
    outcomes : ndarray of shape (m, ...)
        Row i depends on record i alone; ``scorer.worst_outcome`` for one that cannot be scored. For
        a mean of losses, the losses in {0, ..., ``scorer.units``}; with groups the mean of each
        group, in batches of `place_batches` if none are given.
    """
    unreadable = np.zeros(n_rows(X), dtype=bool) if unreadable is None else unreadable
    if groups is not None:
        batches = place_batches(groups) if batches is None else batches
        of_records = _outcomes_in_batches(model, scorer, X, y, unreadable, batches)
        return mean_losses(of_records, groups)
    if batches is not None:
        return _outcomes_in_batches(model, scorer, X, y, unreadable, batches)
    # A copy: a user's loss may be an object that stores its inputs.
    own_scorer, _ = attempt(copy.deepcopy, scorer)
    answer = partial(_outcomes_together, model, own_scorer, X, y)
    return answers_by_row(answer, unreadable, scorer.worst_outcome)


def _outcomes_in_batches(model, scorer, X, y, unreadable, batches):
    """Protected: return the outcomes of records, passed to the model in batches of one size."""
    outcomes = np.repeat([scorer.worst_outcome], len(unreadable), axis=0)
    for batch in batches:
        # Empty places are filled by some record of the batch, so that all batches are equally long.
        filled, is_own = np.where(batch < 0, batch.max(), batch), batch >= 0
        targets = None if y is None else take_rows(y, filled)
        rows = take_rows(X, filled), targets, unreadable[filled]
        outcomes[batch[is_own]] = isolated_outcomes(model, scorer, *rows)[is_own]
    return outcomes


def _outcomes_together(model, scorer, X, y, rows):
    """Protected: return the outcomes of some records, or raise the error of the scorer.

    The model gets a copy, always with the same memory layout: it may write into its input
    (``copy=False``), and the layout affects rounding. The global generators are seeded anew, so
    that its draws do not depend on how many batches have failed before.
    """
    X, y = take_rows(X, rows), None if y is None else take_rows(y, rows)
    # Otherwise scikit-learn's algorithm for neighbours, and thereby how ties are broken, would
    # depend on the sparsity of the whole batch. Tables of distances are faster if small.
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
