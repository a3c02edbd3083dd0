"""Public cross-validation of ``protect="validation"``, called by scikit-learn's hooks.

Candidates may depend on the scores so far. scikit-learn recomputes its whole results table after
every round, which takes time of order T^2 in total. Here only the scores are computed between
rounds, and the table once at the end.

Failing public fits are reported in a line instead of scikit-learn's tracebacks.
"""

import re
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import partial

import numpy as np
from sklearn.exceptions import FitFailedWarning

from skdpbo._parameters import warn_caller
from skdpbo.model_selection._sklearn import all_fits_failed, task
from skdpbo.model_selection.protection._protection import Protection
from skdpbo.model_selection.protection._score_share import warn_if_metric_is_noisy
from skdpbo.model_selection.scoring._losses import UserLoss
from skdpbo.model_selection.scoring.metrics._confusion_scorer import public_counts
from skdpbo.model_selection.scoring.metrics._metric_scorer import MetricScorer

_SOON = 10  # shorter remaining times, in seconds, are not printed
_KINDS = 5  # largest number of different errors that a message quotes
_SECTION = re.compile(
    r"^(\d+) fits failed with the following error:\n(.*?)(?=^-{80}|\Z)", re.MULTILINE | re.DOTALL
)
_ADVICE = 'error_score="raise" gives the whole traceback of the first one.'


class PublicSearch(Protection):
    """Protection whose candidates ``BaseSearchCV.fit`` cross-validates on public rows."""

    so_far = None  # results between rounds, instead of scikit-learn's table
    memory = None  # of public folds
    outcomes = ()  # of all public fits so far

    def cross_validate(self, evaluate_candidates, callback_ctx):
        """Cross-validate the candidates that the mechanism proposes, until there are no more."""
        searcher, propose = self.searcher, self.mechanism.propose
        evaluate = partial(self._evaluate, evaluate_candidates)
        parent = {} if callback_ctx is None else {"callback_ctx": callback_ctx}
        if self.mechanism.in_rounds:
            self.so_far, self.fold_scores = {}, []
            if self.memory is not None:
                self.memory.results, self.memory.verbose = self.so_far, 0
            if searcher.verbose:
                progress = PublicProgress(self.mechanism.n_proposals, self.metric)
                evaluate = partial(progress.timed, evaluate)
        elif self.memory is None:
            evaluate(propose(None), parent, "search")
            return
        results, batch = None, propose(None)
        whole = task(parent, searcher, task_name="search", max_subtasks=None)
        # One line for each candidate, not two; above 1 one for each fold. The fit restores it.
        searcher.verbose = searcher.verbose if searcher.verbose > 1 else 0
        with whole as search:
            while batch:
                try:
                    results = evaluate(batch, search)
                except ValueError as error:
                    # A failing candidate must not end a search that proposes one at a time.
                    if results is None or not all_fits_failed(error):
                        raise
                batch = propose(results)
            if self.so_far is not None:
                # In place, as scikit-learn holds this dict.
                table = self.make_table()
                self.so_far.clear()
                self.so_far.update(table)
        self.so_far = None

    def _evaluate(self, evaluate_candidates, batch, parent, task_name="candidates"):
        """Cross-validate a batch on public rows; return the results of all candidates so far."""
        searcher = self.searcher

        def train(some, **options):
            size = len(some) * searcher.n_splits_ if parent else None
            sizes = {"max_subtasks": size, "sequential_subtasks": False}
            with task(parent, searcher, task_name=task_name, **sizes) as callback:
                return evaluate_candidates(some, **callback, **options)

        if self.memory is None:
            results = train(batch)
        else:
            results = self.memory.evaluate(batch, train, searcher._format_results)
        # No trial on public rows is needed if a candidate has been trained and scored there,
        # except to test whether a user's loss can be computed for a single record.
        own_loss = isinstance(getattr(self.scorer, "_loss", None), UserLoss)
        if not own_loss and np.isfinite(results[f"mean_test_{self.metric}"]).any():
            self.evaluator.trials = []
        return results

    def format_results(self, candidates, n_splits, outcomes, more, make_table):
        """Return ``cv_results_``, or between rounds the scores so far.

        Parameters
        ----------
        candidates, n_splits, outcomes, more
            As for `BaseSearchCV._format_results`, of all candidates so far.
        make_table : callable
            Without arguments; returns scikit-learn's table of them.
        """
        if self.memory is not None and self.memory.takes(candidates, n_splits, outcomes, more):
            return self.memory.results
        self.outcomes = outcomes
        if self.so_far is not None:
            # Between rounds only the scores; the table is made once, at the end.
            self.make_table, results = make_table, self.so_far
            new = [outcome["test_scores"] for outcome in outcomes[len(self.fold_scores) :]]
            self.fold_scores += [s[self.metric] if isinstance(s, dict) else s for s in new]
            folds = np.array(self.fold_scores, dtype=np.float64).reshape(len(candidates), n_splits)
            results["params"] = candidates
            # Equal to the mean in the table to the bit, so that proposals do not differ.
            results[f"mean_test_{self.metric}"] = np.average(folds, axis=1)
            results |= {f"split{k}_test_{self.metric}": folds[:, k] for k in range(n_splits)}
            return results
        # Confusion matrices attached to public scores, for the cost weights of a ratio.
        scores = [outcome["test_scores"] for outcome in outcomes]
        scores = [s[self.metric] if isinstance(s, dict) else s for s in scores]
        self.problem.public_counts[:] = public_counts(scores, n_splits)
        return make_table()

    def choose(self, results):
        """Release the winner; return its index."""
        if not self.mechanism.reads_early:  # nothing is charged yet
            self.warn_of_failed_fits(results[f"mean_test_{self.metric}"])
            # The winner of GridSearchCV; NaN, of failing candidates, comes last.
            scores = np.nan_to_num(results[f"mean_test_{self.metric}"], nan=-np.inf)
            best, n_losses, scorer = scores.argmax(), self.problem.n_losses, self.problem.scorer
            if isinstance(scorer, MetricScorer):
                warn_if_metric_is_noisy(self.mechanism, scorer, n_losses, scores[best])
            noise = self.mechanism.unwarned_noise(n_losses)
            self.problem.folds.warn(results["params"][int(best)], noise)
        # Stored for `run`, as scikit-learn's hook returns the index alone.
        self.chosen = self.mechanism.choose(results)
        demote_error_filters()  # scikit-learn trains the winner next
        return self.chosen.index

    def warn_of_failed_fits(self, scores):
        """Warn once about failed fits, with their errors, which are public.

        In scikit-learn's words, but without tracebacks.
        """
        texts = [outcome["fit_error"] for outcome in self.outcomes]
        if failed := [(text, 1) for text in texts if text is not None]:
            n_failed, errors = _counted(failed)
            warn_caller(
                f"{n_failed} fits failed out of a total of {len(texts)} on public rows. The "
                "score on these train-test partitions for these parameters will be set to "
                f"{self.searcher.error_score}. {errors}. {_ADVICE}",
                FitFailedWarning,
            )
        elif missing := int(np.sum(~np.isfinite(scores))):
            warn_caller(
                f"{missing} of {len(scores)} candidates have no finite score on public rows: "
                f"training, predicting or scoring failed. {_ADVICE}",
                UserWarning,
            )


class PublicProgress:
    """Prints a line for each candidate of a public search in rounds.

    Parameters
    ----------
    total : int or None
        Total number of candidates, None if unknown.
    metric : str
        As in ``cv_results_``.
    """

    def __init__(self, total, metric):
        self._total, self._column = total, f"mean_test_{metric}"
        self._n_printed = 0
        self._seconds = 0.0  # of public folds alone: times of protected rows are secret

    def timed(self, evaluate, *args):
        """Return ``evaluate(*args)``, the results of all candidates so far, and print new ones."""
        start = time.perf_counter()
        results = evaluate(*args)
        self._seconds += time.perf_counter() - start
        scores = np.asarray(results[self._column])
        n_printed, self._n_printed = self._n_printed, (n := len(scores))
        left = 0 if self._total is None else (self._total - n) * self._seconds / n
        rounded = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min"
        end = "\n" if left < _SOON else f", about {rounded} of public folds left\n"
        best = np.fmax.accumulate(np.where(np.isfinite(scores), scores, np.nan))
        of_total = "" if self._total is None else f" of {self._total}"
        lines = (
            f"Candidate {k + 1}{of_total}: public score {scores[k]:.4g}, best so far {best[k]:.4g}"
            for k in range(n_printed, n)
        )
        print(*lines, sep="\n", end=end)
        return results


def demote_error_filters():
    """Show warnings that a filter turns into errors, until the caller's `catch_warnings` ends.

    After the charge such an error would cost the budget, and the final training of the winner may
    be the first that warns about the public rows, as evaluations are silent.
    """
    shown = [("default" if kind == "error" else kind, *of) for kind, *of in warnings.filters]
    warnings.filters[:] = shown
    warnings.simplefilter("default", append=True)  # invalidates Python's cache of filters


@contextmanager
def without_tracebacks():
    """Suppress scikit-learn's warnings of failed fits, and shorten its error."""
    with warnings.catch_warnings():
        # From its modules only, not our warning above.
        own = r"sklearn\.model_selection"
        warnings.filterwarnings("ignore", category=FitFailedWarning, module=own)
        for text in ("One or more of the (test|train) scores are non-finite", "Scoring failed"):
            warnings.filterwarnings("ignore", text, module=own)
        try:
            yield
        except ValueError as error:
            if not all_fits_failed(error):
                raise
            sections = _SECTION.findall(str(error))
            n_failed, errors = _counted((text, int(number)) for number, text in sections)
            raise ValueError(
                f"All the {n_failed} fits failed on public rows, perhaps because your "
                f"model is misconfigured. {errors}. Nothing was charged. {_ADVICE}"
            ) from None


def _counted(tracebacks):
    """Return the total number of failed fits, and a text of the most frequent errors."""
    errors = Counter()
    for text, number in tracebacks:
        # The last of a chain of errors; its type is in the first line that is not indented.
        frames = text.rpartition("Traceback (most recent call last):\n")[2].splitlines()
        line = next((line for line in frames if line and not line[0].isspace()), "an error")
        kind, colon, message = line.partition(": ")
        # Without the module of the type.
        errors[kind.rpartition(".")[2] + colon + message.rstrip(".")] += number
    quoted = [
        f"{number} fits failed with the following error: {error}"
        for error, number in errors.most_common(_KINDS)
    ]
    further = len(errors) - _KINDS
    more = f"; and {further} other errors" if further > 0 else ""
    return errors.total(), "; ".join(quoted) + more
