"""``protect="validation"``: public rows train, protected rows score."""

import time
import warnings
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial
from typing import ClassVar

from joblib import parallel_config
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from skdpbo._class_labels import refuse_unknown_labels
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._parameters import warn_caller
from skdpbo._record_groups import group_codes
from skdpbo.exceptions import PublicTrainingWarning, UnboundedSensitivityError
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._private_choice import REPLACE_ONE, for_groups_of_validation_records
from skdpbo.model_selection._search_mechanism import SearchProblem, fold_scores
from skdpbo.model_selection._sklearn import BaseSearchCV, n_rows, with_params
from skdpbo.model_selection.evaluation._fold_losses import FoldLosses
from skdpbo.model_selection.evaluation._public_training import PublicTraining
from skdpbo.model_selection.private_training._estimators import has_private_part, stated_classes
from skdpbo.model_selection.protection._halving import halve
from skdpbo.model_selection.protection._public_memory import PublicMemory
from skdpbo.model_selection.protection._public_search import (
    PublicSearch,
    demote_error_filters,
    without_tracebacks,
)
from skdpbo.model_selection.protection._score_share import (
    mechanism_with_score,
    warn_if_release_is_noisy,
)
from skdpbo.model_selection.protection._setup import (
    check_rows,
    public_cv,
    refuse_metric_of_groups,
    split_rows,
    warn_of_silent_callbacks,
)
from skdpbo.model_selection.rows._overlap import (
    entries_assumption,
    entry_length,
    refuse_rows_among_entries,
    warn_of_shared_rows,
)
from skdpbo.model_selection.rows._protected import (
    check_schema,
    in_public_schema,
    number_of_units,
)
from skdpbo.model_selection.rows._settled_types import (
    from_public_values,
    settled_public_rows,
    settled_public_targets,
    without_long_integers,
)
from skdpbo.model_selection.scoring._multimetric import assign_metrics
from skdpbo.model_selection.scoring.metrics._metric_scorer import MetricScorer
from skdpbo.privacy.ledger._charging import covered_by_fit

# Protection of the running fit, for the searcher's hooks. It is not an attribute of the searcher,
# which callbacks, workers and pickles can read; each thread has its own.
RUNNING: ContextVar = ContextVar("skdpbo_running_search", default=None)


def running_fit(searcher):
    """Return the protection of the running fit of a searcher, or None."""
    running = RUNNING.get()
    return running if running is not None and running.searcher is searcher else None


class ValidationProtection(PublicSearch):
    """Validation records are protected; the training rows are public.

    scikit-learn's ``BaseSearchCV`` is given the public rows only, for cross-validation,
    ``cv_results_``, refit, callbacks and routing. Meanwhile the searcher's hooks call this object.
    """

    halved: ClassVar[dict] = {}  # fitted attributes of halving

    def __init__(self, searcher, space, candidates):
        super().__init__(searcher, space, candidates)
        self.mechanism = searcher._mechanism()
        # Whether the number of protected records, or of their groups, is public.
        self.counted = searcher.neighbours == REPLACE_ONE

    def check(self):
        """Refuse a mechanism that does not support the value of `guide`."""
        if self.searcher.halving is not None and not self.searcher.guide:
            raise ValueError("halving needs guide=True: candidates are dropped by public scores.")
        if self.searcher.memory is not None and not self.searcher.guide:
            raise ValueError("memory needs guide=True: it keeps the scores of public folds.")
        if not self.searcher.guide:
            warn_of_silent_callbacks(self.searcher)
        if self.searcher.guide in self.mechanism.guided:
            return
        if self.searcher.guide:
            raise ValueError(
                "guide must be False with Kusner2015 and a secret trajectory: the search runs on "
                "the protected records alone and stays secret."
            )
        raise ValueError(
            "guide must be True with this mechanism: the candidates are proposed from public "
            'scores. mechanism="gaussian" can do without.'
        )

    def promise(self, n_samples):
        """Return the guarantee of the mechanism."""
        return self.mechanism.guarantee

    def for_groups(self, guarantee, set_apart=False):
        """Return the guarantee for all records of a group; refuse a mechanism without one."""
        self.mechanism.refuse_groups()
        return for_groups_of_validation_records(guarantee, set_apart=set_apart)

    def set_up(self, rows, params):
        """Refuse rows by their schema and return the guarantee of this fit; no value is read."""
        searcher = self.searcher
        self.public, self.protected, labels = self._divided(rows, params)
        X, y, _ = self.public
        # With groups their number is public, but the number of rows is not.
        self.rows_counted = self.counted and labels is None
        get_scorers = partial(BaseSearchCV._get_scorers, searcher)
        self.scorer, self.scorers, self.metric = assign_metrics(
            searcher, y, get_scorers, self.candidates
        )
        self.mechanism.refuse_scorer(self.scorer)
        check_schema(*self.protected, X, y, counted=self.rows_counted)
        self.groups = None if labels is None else self._groups(labels, self.protected[0])
        self.n_losses = number_of_units(self.protected[0], self.groups) if self.counted else None
        if self.counted and self.scorer.is_mean:
            self.mechanism.warn_if_score_is_noisy(sensitivity=1, largest=self.n_losses)
        elif self.counted:
            # For ratios and pairs the share of the score depends on the scorer.
            self.mechanism = mechanism_with_score(searcher, self.scorer, self.n_losses)
        elif not self.scorer.is_mean:
            raise UnboundedSensitivityError(
                f'{self.scorer.name!r} is not supported with neighbours="add-remove": it is no '
                "mean of losses of single records. One record more adds as many pairs as there "
                "are records, whose number is secret; ratios would need further noisy counts. Use "
                "a mean, such as 'accuracy' or 'neg_log_loss' (with class_weight for rare classes)."
            )
        # The length of the protected part, if secret, must not affect the assumptions.
        n_entries = self.n_losses if self.rows_counted or rows[2] is None else n_rows(rows[0])
        entries = entries_assumption(params, n_rows(rows[0]), n_entries)
        guarantee = self.mechanism.guarantee
        if self.groups is not None:
            guarantee = self.for_groups(guarantee, set_apart=rows[2] is None)
        return self.stated(guarantee, self.n_losses, n_rows(X), entries, X)

    def try_publicly(self):
        """Refuse entries of ``fit`` that no step requests; warn of needlessly private models."""
        X, y, fit_params = self.public
        self.fit_params = self.routed(X, fit_params)
        classes = stated_classes(self.searcher.estimator)
        if classes is not None and y is not None:
            refuse_unknown_labels(classes, y)
        if has_private_part(self.searcher.estimator, self.candidates):
            warn_caller(
                "The estimator adds privacy noise of its own, for an epsilon of its own, on rows "
                'that are treated as public here. protect="all" tunes private models and protects '
                "the rows that train, too; public rows are better learned without noise.",
                PublicTrainingWarning,
            )

    def run(self, charge):
        """Cross-validate on the public rows, and choose on the protected ones."""
        searcher, (X, y, fit_params) = self.searcher, self.public
        source = noise_source(searcher.random_state)
        self.evaluator = self._evaluator(charge, source)
        # Group means and weighted means are not comparable with the scores of public folds.
        others = {*fit_params} - {"groups"}
        self.comparable = self.scorer.is_mean and self.groups is None and not others
        with self._running():
            # First, as halving may drop candidates.
            folds = self._public_folds() if searcher.guide else None
            of_fit = self.evaluator.candidates, self.evaluator, source, self.space, self.metric
            self.problem = SearchProblem(*of_fit, folds=folds)
            self.mechanism.start(self.problem, searcher.guide)
            if searcher.guide:
                with without_tracebacks():
                    BaseSearchCV.fit(searcher, X, y, **fit_params)
                return self.chosen
            # The search visits no others.
            self.evaluator.trials = self.candidates[: self.mechanism.n_proposals]
            chosen = self.mechanism.search_unguided()
            if not searcher.refit:
                return chosen
            # Train the winner on the public rows, like `BaseSearchCV`.
            best = with_params(searcher.estimator, chosen.candidates[chosen.index])
            start = time.time()
            with warnings.catch_warnings():
                demote_error_filters()
                best.fit(X, *(() if y is None else (y,)), **self.fit_params)
            model = {"best_estimator_": best, "refit_time_": time.time() - start}
            return replace(chosen, attributes=model | chosen.attributes)

    def _evaluator(self, charge, source):
        """Return the evaluator of the protected losses, which charges when it opens the rows."""
        searcher, (X, y, _) = self.searcher, self.public
        outside = copy_context()  # of the active ledgers; inside, trainings are not charged

        def open_records():
            outside.run(charge)
            return in_isolation(in_public_schema, *self.protected, X, y, self.groups)

        return PublicTraining(
            estimator=searcher.estimator,
            X=X,
            y=y,
            fit_params=self.fit_params,
            scorer=self.scorer if self.groups is None else self.scorer.for_groups(),
            n_losses=self.n_losses,
            open_records=open_records,
            source=source,
            candidates=self.candidates,
            trials=self.candidates,
            raise_errors=isinstance(searcher.error_score, str),  # "raise" is its only text
            n_jobs=searcher.n_jobs,
            pre_dispatch=searcher.pre_dispatch,
            verbose=searcher.verbose,
        )

    @contextmanager
    def _running(self):
        """Make this the protection of the running fit; restore `cv` and `verbose` afterwards."""
        searcher, before = self.searcher, RUNNING.get()
        given = searcher.cv, searcher.verbose
        RUNNING.set(self)
        try:
            # Trainings on public rows are not charged; the choice is charged separately. One value
            # of max_nbytes for the whole fit, as joblib restarts its workers if it changes.
            with covered_by_fit(), parallel_config(max_nbytes=None):
                yield
        finally:
            searcher.cv, searcher.verbose = given
            if RUNNING.get() is self:  # not so if an interrupt ends this in another context
                RUNNING.set(before)

    def _public_folds(self):
        """Return the losses of the public folds; halve the candidates and open the memory."""
        searcher, (X, y, fit_params) = self.searcher, self.public
        grouped = self.groups is not None
        cv = public_cv(searcher, X, y, self.places, grouped=grouped)
        # check_cv makes a list of splits from a generator.
        searcher.cv = check_cv(cv, y, classifier=is_classifier(searcher.estimator))
        if searcher.halving is not None:
            with without_tracebacks():
                left, results = halve(searcher, self.candidates, self.public, self.scorer)
            self.evaluator.candidates = self.evaluator.trials = left
            if results is not None:
                self.warn_of_failed_fits(results["mean_test_score"][results["iter"] == 0])
                self.halved = {"halving_results_": results}
        if searcher.memory is not None:
            self.memory = PublicMemory(searcher, X, y, fit_params, self.scorers)
        return FoldLosses(self.evaluator, searcher.cv, fit_params.get("groups"))

    def _divided(self, rows, params):
        """Return (public X, y, entries of fit), (protected X, y) and the labels of their groups."""
        X, y, X_val, y_val, labels = rows
        counted = params.get("groups") is None
        X, y, X_val, y_val = check_rows(X, y, X_val, y_val, labels, counted)
        self.places = None
        if X_val is None and not self.counted:
            raise ValueError(
                'neighbours="add-remove" needs the protected rows as X_val: which rows of X are '
                "set apart depends on their number."
            )
        if X_val is not None:
            warn_of_shared_rows(rows[0], rows[2])
            known = {"n_public": n_rows(X), "counted": self.counted and labels is None}
            refuse_rows_among_entries(params, [*rows[2:], X_val], (), **known)
            X, y = without_long_integers(from_public_values(X)), from_public_values(y)
            return (X, y, params), (X_val, y_val), labels
        refuse_rows_among_entries(params, [X, y], {n_rows(X)}, counted=counted)
        public, protected, self.places, labels = split_rows(self.searcher, X, y, params)
        # Types of entries that go with the rows, like those of targets, depend on all rows.
        aligned = [name for name, entry in params.items() if entry_length(entry) == n_rows(X)]
        X, y, params = public
        params = {
            name: settled_public_targets(entry, True) if name in aligned else entry
            for name, entry in params.items()
        }
        y = settled_public_targets(y, is_classifier(self.searcher.estimator))
        return (settled_public_rows(X), y, params), protected, labels

    def _groups(self, labels, X_val):
        """Return the number of the group of each protected record, or refuse groups."""
        self.mechanism.refuse_groups()
        refuse_metric_of_groups(self.scorer)
        groups = in_isolation(group_codes, labels, n_rows(X_val))
        if self.counted and not len(groups):
            raise ValueError("X_val must hold at least one group of protected rows, got 0.")
        return groups

    def fitted_attributes(self, chosen):
        """Return the fitted attributes; with public scores most are set by scikit-learn."""
        if not self.searcher.guide:  # scikit-learn has not run
            return super().fitted_attributes(chosen)
        table = self.searcher.cv_results_ | chosen.columns
        return {"cv_results_": table} | self.halved | chosen.attributes

    def warn_of_result(self, guarantee, chosen):
        """Give the warnings that are based on the release or had to wait for the charge."""
        if chosen.score is not None and isinstance(self.scorer, MetricScorer):
            warn_if_release_is_noisy(self.mechanism, self.scorer, self.n_losses, chosen.score)
        folds, table = self.problem.folds, self.searcher.cv_results_
        if folds is not None and self.mechanism.reads_early:
            self.warn_of_failed_fits(table[f"mean_test_{self.metric}"])
        if folds is not None and self.comparable and chosen.score is not None:
            scores = [scores[chosen.index] for scores in fold_scores(table, self.metric)]
            # The number before halving; a descent adds released points.
            n_candidates = max(len(self.candidates), len(table["params"]))
            folds.warn_of_gap(chosen.score, scores, guarantee, n_candidates)
