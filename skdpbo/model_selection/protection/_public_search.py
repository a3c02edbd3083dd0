"""Public cross-validation of ``protect="validation"``, as scikit-learn's hooks ask for it.

Public fits that fail are stated in a line, in place of scikit-learn's tracebacks.
"""

import re
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import partial

import numpy as np
from sklearn.exceptions import FitFailedWarning

from skdpbo._parameters import warn_caller
from skdpbo.model_selection._sklearn import all_fits_failed, begin_task, end_task
from skdpbo.model_selection.protection._protection import Protection
from skdpbo.model_selection.protection._rounds import (
    PublicProgress,
    ScoresSoFar,
    cross_validate_in_rounds,
)
from skdpbo.model_selection.protection._setup import warn_if_metric_is_noisy
from skdpbo.model_selection.scoring.metrics._confusion_scorer import public_counts
from skdpbo.model_selection.scoring.metrics._metric_scorer import MetricScorer

__all__ = ["FailedFits", "PublicSearch"]

_KINDS = 5  # errors that a message quotes
_SECTION = re.compile(
    r"^(\d+) fits failed with the following error:\n(.*?)(?=^-{80}|\Z)", re.MULTILINE | re.DOTALL
)
_ADVICE = 'error_score="raise" gives the whole traceback of the first one.'


class PublicSearch(Protection):
    """Protection whose candidates ``BaseSearchCV.fit`` cross-validates on public rows."""

    scores_so_far = None  # while candidates are cross-validated in rounds
    memory = None  # of public folds

    def cross_validate(self, evaluate_candidates, callback_ctx):
        """Cross-validate publicly what the mechanism proposes."""
        searcher, propose = self.searcher, self.mechanism.propose
        evaluate = partial(self._evaluate, evaluate_candidates)
        if self.mechanism.in_rounds:
            self.scores_so_far = ScoresSoFar(self.metric)
            if self.memory is not None:
                self.memory.results, self.memory.verbose = self.scores_so_far.results, 0
            if searcher.verbose:
                progress = PublicProgress(self.mechanism.n_proposals, self.metric)
                evaluate = partial(progress.timed, evaluate)
            how = self.scores_so_far, evaluate, propose, callback_ctx
            with self._without_headings():  # one line a candidate, not two
                cross_validate_in_rounds(searcher, *how)
            self.scores_so_far = None
        elif self.memory is None:
            evaluate(propose(None), callback_ctx, "search")
        else:
            context = begin_task(callback_ctx, searcher, task_name="search", max_subtasks=None)
            with self._without_headings():
                evaluate(propose(None), context)
            end_task(context, searcher)

    def _evaluate(self, evaluate_candidates, batch, context, task_name="candidates"):
        """Cross-validate a batch publicly; return the results of all candidates so far."""
        searcher = self.searcher

        def train(some, **how):
            if context is None:  # scikit-learn before 1.9
                return evaluate_candidates(some, **how)
            size = len(some) * searcher.n_splits_
            sizes = {"max_subtasks": size, "sequential_subtasks": False}
            task = begin_task(context, searcher, task_name=task_name, **sizes)
            results = evaluate_candidates(some, callback_ctx=task, **how)
            end_task(task, searcher)
            return results

        if self.memory is None:
            results = train(batch)
        else:
            results = self.memory.evaluate(batch, train, searcher._format_results)
        # A candidate with a public score has been trained and scored: none is to be tried first.
        if np.isfinite(results[f"mean_test_{self.metric}"]).any():
            self.evaluator.trials = []
        return results

    @contextmanager
    def _without_headings(self):
        verbose = self.searcher.verbose
        self.searcher.verbose = verbose if verbose > 1 else 0  # above 1 each fold has a line
        try:
            yield
        finally:
            self.searcher.verbose = verbose

    def note_counts(self, outcomes, n_splits):
        """Keep the confusion matrices that public scores carry, for the costs of a ratio."""
        scores = [outcome["test_scores"] for outcome in outcomes]
        scores = [s[self.metric] if isinstance(s, dict) else s for s in scores]
        self.problem.public_counts[:] = public_counts(scores, n_splits)

    def choose(self, results):
        """Release the winner; return its index."""
        if not self.mechanism.reads_early:  # nothing is charged yet
            self.failed_fits.warn(results[f"mean_test_{self.metric}"])
            # The one that GridSearchCV would take; NaN, of candidates that fail, comes last.
            scores = np.nan_to_num(results[f"mean_test_{self.metric}"], nan=-np.inf)
            best, n_losses, scorer = scores.argmax(), self.problem.n_losses, self.problem.scorer
            if isinstance(scorer, MetricScorer):
                warn_if_metric_is_noisy(self.mechanism, scorer, n_losses, scores[best])
            noise = self.mechanism.untold_noise(n_losses)
            self.problem.folds.warn(results["params"][int(best)], noise)
        self.chosen = self.mechanism.choose(results)
        return self.chosen.index


class FailedFits:
    """Errors of the public cross-validation of one search.

    The words are scikit-learn's, for whom looks for them; its tracebacks are left out.

    Parameters
    ----------
    error_score : float or "raise"
    """

    outcomes = ()  # of all public fits so far, as `BaseSearchCV._format_results` gets them

    def __init__(self, error_score):
        self._error_score = error_score

    def warn(self, scores):
        """Say once how many fits failed, and why: rows, errors and mean scores are public."""
        texts = [outcome["fit_error"] for outcome in self.outcomes]
        errors = Counter(_error_line(text) for text in texts if text is not None)
        if errors:
            warn_caller(
                f"{errors.total()} fits failed out of a total of {len(texts)} on public rows. The "
                "score on these train-test partitions for these parameters will be set to "
                f"{self._error_score}. {_quoted(errors)}. {_ADVICE}",
                FitFailedWarning,
            )
        elif missing := int(np.sum(~np.isfinite(scores))):
            warn_caller(
                f"{missing} of {len(scores)} candidates have no finite score on public rows: "
                f"training, predicting or scoring failed. {_ADVICE}",
                UserWarning,
            )

    @contextmanager
    def without_tracebacks(self):
        """Leave out scikit-learn's own warnings of failed fits, and shorten its error."""
        with warnings.catch_warnings():
            # Of its modules only: the warning above is in the name of the caller.
            own = r"sklearn\.model_selection"
            warnings.filterwarnings("ignore", category=FitFailedWarning, module=own)
            for text in ("One or more of the (test|train) scores are non-finite", "Scoring failed"):
                warnings.filterwarnings("ignore", text, module=own)
            try:
                yield
            except ValueError as error:
                if not all_fits_failed(error):
                    raise
                counts = Counter()
                for number, text in _SECTION.findall(str(error)):
                    counts[_error_line(text)] += int(number)
                raise ValueError(
                    f"All the {counts.total()} fits failed on public rows, perhaps because your "
                    f"model is misconfigured. {_quoted(counts)}. Nothing was charged. {_ADVICE}"
                ) from None


def _error_line(text):
    """Return the error at the end of a traceback, without the module of its type."""
    # Of a chain of errors the last; its type stands in the first line that is not indented.
    frames = text.rpartition("Traceback (most recent call last):\n")[2].splitlines()
    line = next((line for line in frames if line and not line[0].isspace()), "an error")
    kind, colon, message = line.partition(": ")
    return kind.rpartition(".")[2] + colon + message.rstrip(".")


def _quoted(errors):
    """Return the most frequent errors with their numbers."""
    quoted = [
        f"{number} fits failed with the following error: {error}"
        for error, number in errors.most_common(_KINDS)
    ]
    further = len(errors) - _KINDS
    return "; ".join(quoted) + (f"; and {further} other errors" if further > 0 else "")
