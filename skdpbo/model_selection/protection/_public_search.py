"""Public cross-validation of ``protect="validation"``, as scikit-learn's hooks ask for it."""

from contextlib import contextmanager
from functools import partial

import numpy as np

from skdpbo.model_selection._sklearn import begin_task, end_task
from skdpbo.model_selection.protection._protection import Protection
from skdpbo.model_selection.protection._rounds import (
    PublicProgress,
    ScoresSoFar,
    cross_validate_in_rounds,
)
from skdpbo.model_selection.scoring.metrics._confusion_scorer import public_counts

__all__ = ["PublicSearch"]


class PublicSearch(Protection):
    """Protection whose candidates ``BaseSearchCV.fit`` cross-validates on public rows."""

    scores_so_far = None  # while candidates are cross-validated in rounds
    memory = None  # of public folds

    def cross_validate(self, evaluate_candidates, callback_ctx):
        """Cross-validate publicly what the mechanism proposes."""
        searcher = self.searcher

        def evaluate(batch, context, task_name="candidates"):
            def train(some, **how):
                given = partial(evaluate_candidates, **how), some, context, task_name
                return searcher._evaluate_batch(*given)

            if self.memory is None:
                return train(batch)
            return self.memory.evaluate(batch, train, searcher._format_results)

        if self.mechanism.in_rounds:
            progress = PublicProgress(searcher.verbose, self.mechanism.n_proposals, self.metric)
            self.scores_so_far = ScoresSoFar(self.metric)
            if self.memory is not None:
                self.memory.results, self.memory.verbose = self.scores_so_far.results, 0
            timed, scores = partial(progress.timed, evaluate), self.scores_so_far
            with self._without_headings():  # one line a candidate, not two
                cross_validate_in_rounds(searcher, scores, timed, self.propose, callback_ctx)
            self.scores_so_far = None
        elif self.memory is None:
            evaluate(self.mechanism.propose(None), callback_ctx, "search")
        else:
            context = begin_task(callback_ctx, searcher, task_name="search", max_subtasks=None)
            with self._without_headings():
                evaluate(self.mechanism.propose(None), context)
            end_task(context, searcher)

    @contextmanager
    def _without_headings(self):
        verbose = self.searcher.verbose
        self.searcher.verbose = verbose if verbose > 1 else 0  # above 1 each fold has a line
        try:
            yield
        finally:
            self.searcher.verbose = verbose

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
        if not self.mechanism.reads_early:  # nothing is charged yet
            self.failed_fits.warn(results[f"mean_test_{self.metric}"])
            best = np.nan_to_num(results[f"mean_test_{self.metric}"], nan=-np.inf).argmax()
            self.problem.folds.warn_of_low_bound(results["params"][int(best)])
        self.chosen = self.mechanism.choose(results)
        return self.chosen.index

    def _note(self, results):
        """A candidate with a public score has been trained and scored: nothing is to be tried."""
        if results is not None and np.isfinite(results[f"mean_test_{self.metric}"]).any():
            self.evaluator.trials = []
