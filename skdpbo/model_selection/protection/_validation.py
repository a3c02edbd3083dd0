"""``protect="validation"``: public rows train, and everything but one private choice is public."""

import time
from contextvars import ContextVar, copy_context
from functools import cached_property, partial

import numpy as np
from joblib import parallel_config
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv

from skdpbo._record_groups import group_codes
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._private_choice import REPLACE_ONE, stated_for_groups
from skdpbo.model_selection._search_mechanism import SearchProblem
from skdpbo.model_selection._sklearn import BaseSearchCV, n_rows
from skdpbo.model_selection.evaluation._fold_losses import FoldLosses
from skdpbo.model_selection.evaluation._public_training import PublicTraining
from skdpbo.model_selection.protection._failed_fits import FailedFits
from skdpbo.model_selection.protection._halving import halve
from skdpbo.model_selection.protection._protection import Protection, Release, table_of
from skdpbo.model_selection.protection._public_folds import public_cv
from skdpbo.model_selection.protection._public_progress import PublicProgress
from skdpbo.model_selection.protection._rounds import ScoresSoFar, cross_validate_in_rounds
from skdpbo.model_selection.protection._setup import (
    check_rows,
    mechanism_with_score,
    refuse_metric_of_groups,
    refuse_other_than_means,
    split_rows,
    warn_if_score_is_noisy,
)
from skdpbo.model_selection.rows._overlap import entries_assumption, refuse_rows_among_entries
from skdpbo.model_selection.rows._protected import check_protected, check_schema
from skdpbo.model_selection.rows._settled_types import (
    from_public_values,
    settled_public_rows,
    settled_public_targets,
)
from skdpbo.model_selection.scoring._multimetric import assign_metrics
from skdpbo.model_selection.scoring.metrics._confusion_scorer import public_counts
from skdpbo.privacy.ledger._charging import covered_by_fit

__all__ = ["RUNNING", "ValidationProtection", "running_fit"]

# The running fit. It is not on the searcher, which callbacks, workers and pickles see.
RUNNING: ContextVar = ContextVar("skdpbo_running_search", default=None)


def running_fit(searcher):
    """Return the protection of a searcher's own running fit, or None."""
    running = RUNNING.get()
    return running if running is not None and running.searcher is searcher else None


class ValidationProtection(Protection):
    """Validation records are protected; the rows that train are public.

    scikit-learn's ``BaseSearchCV`` does all that concerns public rows (cross-validation,
    ``cv_results_``, refit, callbacks, routing) and is given the public rows only. The searcher's
    hooks lead here while it runs.
    """

    scores_so_far = None  # while candidates are cross-validated in rounds

    def __init__(self, searcher):
        super().__init__(searcher)
        self.failed_fits = FailedFits(searcher.error_score)

    @cached_property
    def mechanism(self):
        """Mechanism of the search."""
        return self.searcher._mechanism()

    def check(self):
        """Refuse a mechanism that cannot do with, or without, public scores."""
        if self.halving is not None and not self.searcher.guide:
            raise ValueError("halving needs guide=True: candidates are dropped by public scores.")
        if self.searcher.guide in self.mechanism.guided:
            return
        if self.searcher.guide:
            raise ValueError(
                "guide must be False with Kusner2015: its search runs on the protected "
                "records alone and stays secret."
            )
        raise ValueError(
            "guide must be True with this mechanism: the candidates are proposed from public "
            'scores. mechanism="gaussian" can do without.'
        )

    @property
    def halving(self):
        """Number of candidates that successive halving leaves, or None."""
        return getattr(self.searcher, "halving", None)

    @property
    def counted(self):
        """Whether the number of protected records, or of their groups, is public."""
        return getattr(self.searcher, "neighbours", REPLACE_ONE) == REPLACE_ONE

    def promise(self, n_samples):
        """Return the guarantee of the mechanism."""
        return self.mechanism.guarantee

    def for_groups(self, guarantee, set_apart=False):
        """Return the guarantee for all records of a group; refuse a mechanism without one."""
        self.mechanism.refuse_groups()
        return stated_for_groups(guarantee, set_apart=set_apart)

    def search(self, rows, params):
        """Cross-validate on the public rows, and choose on the protected ones."""
        searcher = self.searcher
        (X, y, fit_params), protected, labels = self._parts(rows, params)
        rows_counted = self.counted and labels is None
        scikit_learn_scorers = partial(BaseSearchCV._get_scorers, searcher)
        self.scorer, self.scorers, self.metric = assign_metrics(searcher, y, scikit_learn_scorers)
        self.mechanism.refuse_scorer(self.scorer)
        check_schema(*protected, X, y, counted=rows_counted)
        groups = None if labels is None else self._groups(labels, protected[0])
        n_protected = _n_losses(protected[0], groups) if self.counted else None
        if not self.counted:
            refuse_other_than_means(self.scorer)
        elif self.scorer.is_mean:
            warn_if_score_is_noisy(self.mechanism, sensitivity=1, largest=n_protected)
        else:
            self.mechanism = mechanism_with_score(searcher, self.scorer, n_protected)
        # Whether an entry is as long as the protected part must not show.
        n_entries = n_protected if rows_counted or rows[2] is None else n_rows(rows[0])
        entries = entries_assumption(params, n_rows(rows[0]), n_entries)
        guarantee = self.mechanism.guarantee
        if groups is not None:
            guarantee = self.for_groups(guarantee, set_apart=rows[2] is None)
        guarantee = self.stated(guarantee, n_protected, n_rows(X), entries)
        self.check_budget(guarantee, own_rows=rows[2] is not None)
        outside = copy_context()  # where the ledgers are open

        def open_records():
            outside.run(self.charge, guarantee, rows[2] is not None)
            return check_protected(*protected, X, y, counted=rows_counted, groups=groups)

        self.evaluator = PublicTraining(
            estimator=searcher.estimator,
            X=X,
            y=y,
            fit_params=self.routed(X, fit_params),
            scorer=self.scorer if groups is None else self.scorer.for_groups(),
            n_losses=n_protected,
            open_records=open_records,
            candidates=self.candidates,
            trials=self.candidates,
            raise_errors=isinstance(searcher.error_score, str),
            n_jobs=searcher.n_jobs,
            pre_dispatch=searcher.pre_dispatch,
            verbose=searcher.verbose,
        )
        source = noise_source(searcher.random_state)
        given_cv, token = searcher.cv, RUNNING.set(self)
        try:
            # What is trained here is trained on public rows, and the choice is charged apart.
            # joblib starts its workers anew where max_nbytes changes: one value for all of the fit.
            with self.all_or_nothing(), covered_by_fit(), parallel_config(max_nbytes=None):
                self.forget()  # what an earlier fit has set, perhaps of another kind
                folds, attributes = None, {}
                if searcher.guide:
                    positions, grouped = self.public_positions, groups is not None
                    searcher.cv = public_cv(searcher, X, y, positions, grouped=grouped)
                    if self.halving is not None:
                        attributes = self._halve((X, y, fit_params))
                    folds = FoldLosses(self.evaluator, searcher.cv, fit_params.get("groups"))
                of_fit = self.evaluator.candidates, self.evaluator, source, self.space, self.metric
                self.problem = SearchProblem(*of_fit, folds=folds)
                self.mechanism.start(self.problem, searcher.guide)
                if searcher.guide:
                    with self.failed_fits.without_tracebacks():
                        BaseSearchCV.fit(searcher, X, y, **fit_params)
                    table = searcher.cv_results_
                    return self._release(guarantee, self.chosen, table, attributes=attributes)
                chosen = self.mechanism.search_unguided()
                attributes = {"multimetric_": False} | self._refitted(chosen)
                return self._release(
                    guarantee, chosen, table_of(chosen.candidates), self.scorer, attributes
                )
        finally:
            searcher.cv = given_cv
            RUNNING.reset(token)

    def _parts(self, rows, params):
        """Return (public X, y, entries of fit), (protected X, y) and the labels of their groups."""
        X, y, X_val, y_val, labels = rows
        X, y, X_val = check_rows(X, y, X_val, y_val, labels)
        self.public_positions = None
        if X_val is None and not self.counted:
            raise ValueError(
                'neighbours="add-remove" needs the protected rows as X_val: which rows of X are '
                "set apart depends on their number."
            )
        if X_val is not None:
            known = {"n_public": n_rows(X), "counted": self.counted and labels is None}
            refuse_rows_among_entries(params, [*rows[2:], X_val], (), **known)
            public = from_public_values(X), from_public_values(y), params
            return public, (X_val, y_val), labels
        refuse_rows_among_entries(params, [X, y], {n_rows(X)})
        public, protected, self.public_positions, labels = split_rows(self.searcher, X, y, params)
        X, y, params = public
        y = settled_public_targets(y, is_classifier(self.searcher.estimator))
        return (settled_public_rows(X), y, params), protected, labels

    def _groups(self, labels, X_val):
        """Return the number of the group of each protected record, or refuse groups."""
        self.mechanism.refuse_groups()
        refuse_metric_of_groups(self.scorer)
        groups = group_codes(labels, n_rows(X_val))
        if self.counted and not len(groups):
            raise ValueError("X_val must hold at least one group of protected rows, got 0.")
        return groups

    def _halve(self, public):
        """Leave the candidates that public rows favour to the search; return attributes."""
        searcher, evaluator = self.searcher, self.evaluator
        # A generator of splits is used up once.
        searcher.cv = check_cv(
            searcher.cv, public[1], classifier=is_classifier(evaluator.estimator)
        )
        with self.failed_fits.without_tracebacks():
            left, results = halve(searcher, self.candidates, public, self.scorer)
        evaluator.candidates = evaluator.trials = left
        if results is None:
            return {}
        self.failed_fits.warn(results["mean_test_score"][results["iter"] == 0])
        return {"halving_results_": results}

    def _release(self, guarantee, chosen, table, scorer=None, attributes=None):
        return Release(
            guarantee=guarantee,
            table=table | chosen.columns,
            index=chosen.index,
            score=chosen.score,
            scorer=scorer,
            attributes=(attributes or {}) | chosen.attributes,
        )

    def _refitted(self, chosen):
        """Train the winner on the public rows, as `BaseSearchCV` would."""
        if not self.searcher.refit:
            return {}
        params, evaluator = chosen.candidates[chosen.index], self.evaluator
        best = clone(self.searcher.estimator).set_params(**clone(params, safe=False))
        targets = () if evaluator.y is None else (evaluator.y,)
        start = time.time()
        best.fit(evaluator.X, *targets, **evaluator.fit_params)
        return {"best_estimator_": best, "refit_time_": time.time() - start}

    # Hooks of BaseSearchCV.fit

    def run(self, evaluate_candidates, callback_ctx):
        """Cross-validate publicly what the mechanism proposes."""
        searcher = self.searcher
        if not self.mechanism.in_rounds:
            batch = self.mechanism.propose(None)
            searcher._evaluate_batch(evaluate_candidates, batch, callback_ctx, "search")
            return

        progress = PublicProgress(searcher.verbose, self.mechanism.n_proposals, self.metric)

        def evaluate(batch, search_ctx):
            given = evaluate_candidates, batch, search_ctx, "candidates"
            return progress.timed(searcher._evaluate_batch, *given)

        self.scores_so_far = ScoresSoFar(self.metric)
        rounds = searcher, self.scores_so_far, evaluate, self.propose, callback_ctx
        verbose, searcher.verbose = searcher.verbose, 0  # one line a round, not two
        try:
            cross_validate_in_rounds(*rounds)
        finally:
            searcher.verbose = verbose
        self.scores_so_far = None

    def propose(self, results):
        """Return the next batch of candidates."""
        self._note(results)
        return self.mechanism.propose(results)

    def note_counts(self, outcomes, n_splits):
        """Keep the confusion matrices that public scores carry, for the costs of a ratio."""
        scores = [outcome["test_scores"] for outcome in outcomes]
        scores = [s[self.metric] if isinstance(s, dict) else s for s in scores]
        self.problem.public_counts[:] = public_counts(scores, n_splits)

    def choose(self, results):
        """Release the winner; return its index."""
        self._note(results)
        self.failed_fits.warn(results[f"mean_test_{self.metric}"])
        if not self.mechanism.chosen_early:
            self.problem.folds.warn_of_low_bound(results["params"][_best(results, self.metric)])
        self.chosen = self.mechanism.choose(results)
        return self.chosen.index

    def _note(self, results):
        """A candidate with a public score has been trained and scored: nothing is to be tried."""
        if results is not None and np.isfinite(results[f"mean_test_{self.metric}"]).any():
            self.evaluator.trials = []


def _best(results, metric):
    """Return the position of the best public score."""
    return int(np.nan_to_num(results[f"mean_test_{metric}"], nan=-np.inf).argmax())


def _n_losses(X_val, groups):
    """Number of losses in a total, one for each protected record or group."""
    return n_rows(X_val) if groups is None else int(groups.max()) + 1
