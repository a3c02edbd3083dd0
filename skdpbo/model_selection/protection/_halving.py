"""Successive halving of the candidates on public rows. No protected row is read."""

from itertools import count

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skdpbo._parameters import warn_caller
from skdpbo.model_selection._sklearn import HalvingGridSearchCV, n_rows, results_table, task
from skdpbo.model_selection.protection._public_memory import PublicMemory

_FACTOR = 3  # scikit-learn's default: keep a third of the candidates, with three times the rows
_FEWEST = 5  # smallest number of rows of the rarest class in a test part of the first round


class _Halving(HalvingGridSearchCV):
    """Successive halving that can reuse fold scores from a memory."""

    # Set together if there is a memory. Not parameters, which scikit-learn would check.
    _known, _n_splits = None, None

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        pieces = count()

        def evaluate(batch, cv, *, more_results, **context):
            def train(some, cv):
                size = len(some) * self._n_splits
                sizes = {"max_subtasks": size, "sequential_subtasks": False}
                with task(context, self, task_id=next(pieces), **sizes) as piece:
                    evaluate_candidates(some, cv, **piece)

            self._known.use(cv)
            return self._known.evaluate(batch, train, self._format_results, more_results)

        known = evaluate_candidates if self._known is None else evaluate
        # The keyword is absent before scikit-learn 1.9.
        super()._run_search(
            known, **({} if callback_ctx is None else {"callback_ctx": callback_ctx})
        )

    def _format_results(self, *lists):
        if self._known is not None and self._known.takes(*lists):
            return self._known.results
        return results_table(super()._format_results, *lists)


def halve(searcher, candidates, public, scorer):
    """Return the candidates that remain after scikit-learn's halving on the public rows.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
        Its `halving`, `memory`, `estimator`, `cv` (a splitter), `n_jobs`, `verbose` and
        `error_score` are read.
    candidates : list of dict
    public : tuple (X, y, fit_params)
    scorer : PerRecordScorer

    Returns
    -------
    left : list of dict
        At most `halving`, in the order of `candidates`; all, with a warning, if rows are too few.
    results : dict of ndarrays or None
        ``cv_results_`` of the rounds; None if there were no rounds.
    """
    n_left, (X, y, fit_params) = searcher.halving, public
    if len(candidates) <= n_left:
        return candidates, None
    n_splits = searcher.cv.get_n_splits(X, y, fit_params.get("groups"))
    share = 1.0  # of the rarest class, of which each test part needs some rows
    if y is not None and type_of_target(y) in ("binary", "multiclass"):
        share = np.unique(np.asarray(y), return_counts=True)[1].min() / n_rows(y)
    fewest = int(np.ceil(_FEWEST * n_splits / share))
    rounds = number_of_rounds(len(candidates), n_left, n_rows(X), fewest)
    if not rounds:
        warn_caller(
            f"halving needs at least {_FACTOR * fewest} public rows for these folds and classes, "
            f"got {n_rows(X)}: all {len(candidates)} candidates are left.",
            UserWarning,
        )
        return candidates, None
    halving = _halving_search(searcher, candidates, scorer, n_rows(X) // _FACTOR**rounds, rounds)
    if searcher.memory is not None:
        halving._known = PublicMemory(searcher, X, y, fit_params, scorer)
        halving._n_splits = n_splits
        halving.verbose = 0  # the memory prints its own lines
    halving.fit(X, y, **fit_params)
    # The best of the last round. scikit-learn passes on the dicts of the first one, so that their
    # ids identify the candidates.
    results = halving.cv_results_
    positions = {id(results["params"][k]): k for k in np.flatnonzero(results["iter"] == 0)}
    last = np.flatnonzero(results["iter"] == results["iter"].max())
    scores = results["mean_test_score"][last]
    if not np.isfinite(scores).any():  # the cross-validation of all candidates reports the errors
        return candidates, None
    order = np.argsort(-scores, kind="stable")  # NaN, of candidates that fail, comes last
    best = last[order[: min(n_left, np.isfinite(scores).sum())]]
    left = sorted(positions[id(results["params"][i])] for i in best)
    return [candidates[k] for k in left], results


def _halving_search(searcher, candidates, scorer, first, rounds):
    """Return scikit-learn's search, not fitted, with the given number of rows in round one."""
    return _Halving(
        searcher.estimator,
        [{name: [value] for name, value in params.items()} for params in candidates],
        factor=_FACTOR,
        min_resources=first,
        # One more than the power, as scikit-learn rounds down the logarithm of the quotient.
        max_resources=first * (_FACTOR ** (rounds - 1) + (rounds > 1)),
        scoring=scorer,
        cv=searcher.cv,
        refit=False,
        n_jobs=searcher.n_jobs,
        verbose=searcher.verbose,
        error_score=searcher.error_score,
        return_train_score=False,
        random_state=searcher._public_seed(),
    )


def number_of_rounds(n_candidates, n_left, n_samples, fewest):
    """Return the number of rounds before the remaining candidates get all public rows.

    Parameters
    ----------
    n_candidates, n_left, n_samples : int
    fewest : int
        Smallest number of rows of the first round.

    Returns
    -------
    rounds : int
        0 if a third of the rows is too few for a round.
    """
    rounds = 1
    while n_left * _FACTOR**rounds < n_candidates:
        rounds += 1
    while rounds and n_samples < fewest * _FACTOR**rounds:
        rounds -= 1
    return rounds
