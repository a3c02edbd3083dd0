"""Public fold scores kept on disk, so that a search goes on where another has stopped."""

import os
import pickle
import sys
import warnings
from dataclasses import dataclass
from types import FunctionType

import joblib
import numpy as np
import sklearn
from joblib import effective_n_jobs
from sklearn.base import clone

from skdpbo._isolation._parallel import Progress
from skdpbo.model_selection._sklearn import all_fits_failed, take_method_params


class PublicMemory:
    """Outcomes of public folds, found by the hash of all public inputs that they depend on.

    It stands between a search and scikit-learn's ``evaluate_candidates``, which gets the
    candidates that are not known, some at a time. No protected value comes near this file.

    Parameters
    ----------
    searcher : BaseChoiceSearchCV
        Its `memory`, `estimator`, `cv` (a splitter) and how it scores are read.
    X, y : public rows and targets
    params : dict
        Further public entries of ``fit``.
    scorers : callable or dict
        Of the public folds.
    """

    def __init__(self, searcher, X, y, params, scorers):
        memory = searcher.memory
        if not isinstance(memory, joblib.Memory):  # which puts a path and a str in two folders
            memory = joblib.Memory(os.fspath(memory), verbose=0)
        # A copy, new to joblib: of a function that it has cached it writes no code into a
        # further folder, and a later process loses the first candidate that it looks for there.
        code, name = _fold_outcomes.__code__, _fold_outcomes.__name__
        anew = FunctionType(code, globals(), name, _fold_outcomes.__defaults__)
        self._kept = memory.cache(anew, ignore=["outcomes"])
        self._n_at_once, self.verbose = effective_n_jobs(searcher.n_jobs), searcher.verbose
        routed = searcher._get_routed_params_for_fit(take_method_params(X, params))
        self._split = X, y, routed.splitter.split
        # Another version may split, train or score otherwise.
        versions = sys.modules["skdpbo"].__version__, sklearn.__version__, np.__version__
        scored = scorers, searcher.error_score, searcher.return_train_score
        self._public = _hash((versions, clone(searcher.estimator), X, y, params, scored))
        self.use(searcher.cv)
        # scikit-learn's lists of all candidates; outcomes of those being trained, None between.
        self._lists = self._fresh = None
        self._n_listed = 0  # candidates of the batches before, in scikit-learn's lists
        self.results = {}

    def use(self, cv):
        """Take the folds of a splitter, once: one that shuffles would make others each time."""
        X, y, params = self._split
        self._splits = _SameSplits(list(cv.split(X, y, **params)))
        self._of_folds = _hash((self._public, self._splits.folds))

    def evaluate(self, batch, train, table, more=None):
        """Return the results of all candidates so far, as scikit-learn's function would.

        Parameters
        ----------
        batch : list of dict
        train : callable
            ``train(candidates, cv=splits)`` calls scikit-learn's function.
        table : callable
            ``table(*lists)`` makes the results of scikit-learn's lists.
        more : dict of str -> list, default=None
            Further columns of the results, for this batch.
        """
        batch = list(batch)
        # Sorted: the order in which a space names its parameters makes no other candidate.
        keys = [_hash((self._of_folds, sorted(params.items()))) for params in batch]
        found = [self._kept(key) if self._kept.check_call_in_cache(key) else None for key in keys]
        missing = [k for k, outcomes in enumerate(found) if outcomes is None]
        if not missing and self._lists is None:
            missing = [0]  # scikit-learn cannot end a search in which it has trained nothing
        of = f"of {len(batch)} candidates, {len(batch) - found.count(None)} known from memory"
        progress = Progress(self.verbose, f"Public folds {of}", len(missing), "candidates")
        failed = []
        for start in range(0, len(missing), self._n_at_once):
            piece = missing[start : start + self._n_at_once]
            try:
                self._train(piece, batch, keys, found, train)
            except ValueError as error:
                if not all_fits_failed(error) or len(piece) == len(batch):
                    raise
                failed += piece
            progress.at(start + len(piece))
        if failed:
            # scikit-learn gives up where all of a batch fail: one that does not fail is with them.
            good = [k for k, outcomes in enumerate(found) if outcomes is not None]
            self._train(failed + good[:1], batch, keys, found, train)
        # scikit-learn's own lists, which `takes` has emptied of what was trained: filled in order.
        candidates, _, outcomes, columns = self._lists
        candidates += batch
        for name, column in (more or {}).items():
            columns[name] += column
        self._n_listed += len(batch)
        outcomes += [outcome for of_candidate in found for outcome in of_candidate]
        made = table(*self._lists)
        if made is not self.results:
            self.results.update(made)
        return self.results

    def _train(self, piece, batch, keys, found, train):
        """Train some candidates and keep the outcomes of those that do not fail."""
        self._fresh = []
        try:
            train([batch[k] for k in piece], cv=self._splits)
            n_splits = len(self._splits.folds)
            for i, k in enumerate(piece):
                found[k] = self._fresh[i * n_splits : (i + 1) * n_splits]
                self._keep(keys[k], found[k])
        finally:
            self._fresh = None

    def _keep(self, key, outcomes):
        """Keep public outcomes, unless a fold has failed: it may do better another time."""
        for outcome in outcomes:
            scores = outcome["test_scores"]
            values = list(scores.values()) if isinstance(scores, dict) else [scores]
            if outcome["fit_error"] is not None or not np.isfinite(np.asarray(values, float)).all():
                return
        with warnings.catch_warnings():
            # joblib says so where a slow disk takes half a second; it is no error.
            warnings.filterwarnings("ignore", "Persisting input arguments took")
            if self._kept(key, outcomes) is None:
                self._kept.call(key, outcomes)  # in the place of what cannot be read

    def takes(self, candidates, n_splits, outcomes, more):
        """Take what has been trained out of scikit-learn's lists; return whether this was due."""
        if self._fresh is None:
            return False
        known = self._n_listed  # those of the batches before stay in the lists
        self._lists = candidates, n_splits, outcomes, more
        self._fresh = outcomes[known * n_splits :]
        del candidates[known:], outcomes[known * n_splits :]
        return True


@dataclass
class _SameSplits:
    """Splitter of folds that have been made: a shuffled one would make others each time."""

    folds: list

    def split(self, X, y=None, groups=None, **params):
        return iter(self.folds)


def _fold_outcomes(key, outcomes=None):
    """Return what is kept under a key; None where it cannot be read."""
    return outcomes


def _hash(inputs):
    try:
        return joblib.hash(inputs)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            "memory needs a public estimator, space and scoring that can be pickled, without "
            f"lambdas and functions inside functions: {error}"
        ) from None
