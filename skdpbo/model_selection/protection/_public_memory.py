"""Public fold scores stored on disk, so that a search can continue an earlier one."""

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
    """Outcomes of public folds, stored under the hash of all public inputs that they depend on.

    A layer between a search and scikit-learn's ``evaluate_candidates``, which is called for the
    candidates that are not stored, some at a time. This module handles no protected values.

    Parameters
    ----------
    searcher : BaseChoiceSearchCV
        Its `memory`, `estimator`, `cv` (a splitter) and scoring parameters are read.
    X, y : public rows and targets
    params : dict
        Further public entries of ``fit``.
    scorers : callable or dict
        Of the public folds.
    """

    def __init__(self, searcher, X, y, params, scorers):
        memory = searcher.memory
        if not isinstance(memory, joblib.Memory):  # which would separate a path from an equal str
            memory = joblib.Memory(os.fspath(memory), verbose=0)
        # A copy of the function: joblib writes its source only into the first folder that it is
        # cached in, and without it a later process would not find its first candidate there.
        code, name = _fold_outcomes.__code__, _fold_outcomes.__name__
        anew = FunctionType(code, globals(), name, _fold_outcomes.__defaults__)
        self._kept = memory.cache(anew, ignore=["outcomes"])
        self._n_at_once, self.verbose = effective_n_jobs(searcher.n_jobs), searcher.verbose
        routed = searcher._get_routed_params_for_fit(take_method_params(X, params))
        self._split = X, y, routed.splitter.split
        # Versions are hashed, too: others may split, train or score differently.
        versions = sys.modules["skdpbo"].__version__, sklearn.__version__, np.__version__
        scored = scorers, searcher.error_score, searcher.return_train_score
        self._public = _hash((versions, clone(searcher.estimator), X, y, params, scored))
        self.use(searcher.cv)
        # scikit-learn's lists of all candidates; outcomes of those being trained, else None.
        self._lists = self._fresh = None
        self._n_listed = 0  # candidates of earlier batches, in scikit-learn's lists
        self.results = {}

    def use(self, cv):
        """Make the folds of a splitter, only once: a splitter that shuffles would change them."""
        X, y, params = self._split
        self._splits = _SameSplits(list(cv.split(X, y, **params)))
        self._of_folds = _hash((self._public, self._splits.folds))

    def evaluate(self, batch, train, table, more=None):
        """Return the results of all candidates so far, like scikit-learn's function.

        Parameters
        ----------
        batch : list of dict
        train : callable
            ``train(candidates, cv=splits)`` calls scikit-learn's function.
        table : callable
            ``table(*lists)`` returns the results for scikit-learn's lists.
        more : dict of str -> list, default=None
            Further columns of the results, for this batch.
        """
        batch = list(batch)
        # Sorted, as the order of parameters does not matter.
        keys = [_hash((self._of_folds, sorted(params.items()))) for params in batch]
        found = [self._kept(key) if self._kept.check_call_in_cache(key) else None for key in keys]
        missing = [k for k, outcomes in enumerate(found) if outcomes is None]
        if not missing and self._lists is None:
            missing = [0]  # scikit-learn cannot end a search in which nothing was trained
        counts = f"{len(batch)} candidates, {len(batch) - found.count(None)} known from memory"
        progress = Progress(self.verbose, f"Public folds of {counts}", len(missing), "candidates")
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
            # scikit-learn raises if all of a batch fail: add one that does not.
            good = [k for k, outcomes in enumerate(found) if outcomes is not None]
            self._train(failed + good[:1], batch, keys, found, train)
        # Fill scikit-learn's lists in order, from which `takes` has removed what was trained.
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
        """Train some candidates and store the outcomes of those that do not fail."""
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
        """Store public outcomes, unless a fold has failed, which may succeed another time."""
        for outcome in outcomes:
            scores = outcome["test_scores"]
            values = list(scores.values()) if isinstance(scores, dict) else [scores]
            if outcome["fit_error"] is not None or not np.isfinite(np.asarray(values, float)).all():
                return
        with warnings.catch_warnings():
            # A warning of joblib about slow disks.
            warnings.filterwarnings("ignore", "Persisting input arguments took")
            if self._kept(key, outcomes) is None:
                self._kept.call(key, outcomes)  # replaces an unreadable entry

    def takes(self, candidates, n_splits, outcomes, more):
        """Move new outcomes out of scikit-learn's lists; return whether there were any."""
        if self._fresh is None:
            return False
        n = self._n_listed  # earlier batches stay in the lists
        self._lists = candidates, n_splits, outcomes, more
        self._fresh = outcomes[n * n_splits :]
        del candidates[n:], outcomes[n * n_splits :]
        return True


@dataclass
class _SameSplits:
    """Splitter that returns given folds: one that shuffles would change them."""

    folds: list

    def split(self, X, y=None, groups=None, **params):
        return iter(self.folds)


def _fold_outcomes(key, outcomes=None):
    """Return the outcomes stored under a key; None if they cannot be read."""
    return outcomes


def _hash(inputs):
    try:
        return joblib.hash(inputs)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            "memory needs a public estimator, space and scoring that can be pickled, without "
            f"lambdas and functions inside functions: {error}"
        ) from None
