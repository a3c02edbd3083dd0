"""Public cross-validation of ``protect="validation"``, as scikit-learn's hooks ask for it.

Candidates may depend on the scores so far. scikit-learn makes its whole results table anew after
every round, which takes time of order T^2 in all. Between the rounds only the scores are needed;
the table is made once, after the last.

Public fits that fail are stated in a line, in place of scikit-learn's tracebacks.
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

_SOON = 10  # seconds that are not mentioned
_KINDS = 5  # errors that a message quotes
_SECTION = re.compile(
    r"^(\d+) fits failed with the following error:\n(.*?)(?=^-{80}|\Z)", re.MULTILINE | re.DOTALL
)
_ADVICE = 'error_score="raise" gives the whole traceback of the first one.'


class PublicSearch(Protection):
    """Protection whose candidates ``BaseSearchCV.fit`` cross-validates on public rows."""

    so_far = None  # in rounds: in the place of scikit-learn's table, which keeps what it is given
    memory = None  # of public folds
    outcomes = ()  # of all public fits so far

    def cross_validate(self, evaluate_candidates, callback_ctx):
        """Cross-validate publicly what the mechanism proposes, until it proposes nothing."""
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
        # One line a candidate, not two; above 1 each fold has a line. The fit puts it back.
        searcher.verbose = searcher.verbose if searcher.verbose > 1 else 0
        with whole as search:
            while batch:
                try:
                    results = evaluate(batch, search)
                except ValueError as error:
                    # One candidate that fails must not end a search that asks for one at a time.
                    if results is None or not all_fits_failed(error):
                        raise
                batch = propose(results)
            if self.so_far is not None:
                # Into the very dict that scikit-learn holds by now.
                table = self.make_table()
                self.so_far.clear()
                self.so_far.update(table)
        self.so_far = None

    def _evaluate(self, evaluate_candidates, batch, parent, task_name="candidates"):
        """Cross-validate a batch publicly; return the results of all candidates so far."""
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
        # A candidate with a public score has been trained and scored: none is to be tried first,
        # unless it is not known whether a loss of the user's can be computed of one record alone.
        is_known = not isinstance(getattr(self.scorer, "_loss", None), UserLoss)
        if is_known and np.isfinite(results[f"mean_test_{self.metric}"]).any():
            self.evaluator.trials = []
        return results

    def format_results(self, candidates, n_splits, outcomes, more, make_table):
        """Return ``cv_results_``, or between rounds the scores so far.

        Parameters
        ----------
        candidates, n_splits, outcomes, more
            As `BaseSearchCV._format_results` gets them, of all candidates so far.
        make_table : callable
            Without arguments; scikit-learn's table of all this.
        """
        if self.memory is not None and self.memory.takes(candidates, n_splits, outcomes, more):
            return self.memory.results
        self.outcomes = outcomes
        if self.so_far is not None:
            # Between rounds what proposals follow; the whole table is made once, at the end.
            self.make_table, results = make_table, self.so_far
            new = [outcome["test_scores"] for outcome in outcomes[len(self.fold_scores) :]]
            self.fold_scores += [s[self.metric] if isinstance(s, dict) else s for s in new]
            folds = np.array(self.fold_scores, dtype=np.float64).reshape(len(candidates), n_splits)
            results["params"] = candidates
            # The mean of that table, to the bit: proposals are the same with either.
            results[f"mean_test_{self.metric}"] = np.average(folds, axis=1)
            results |= {f"split{k}_test_{self.metric}": folds[:, k] for k in range(n_splits)}
            return results
        # The confusion matrices that public scores carry, for the costs of a ratio.
        scores = [outcome["test_scores"] for outcome in outcomes]
        scores = [s[self.metric] if isinstance(s, dict) else s for s in scores]
        self.problem.public_counts[:] = public_counts(scores, n_splits)
        return make_table()

    def choose(self, results):
        """Release the winner; return its index."""
        if not self.mechanism.reads_early:  # nothing is charged yet
            self.warn_of_failed_fits(results[f"mean_test_{self.metric}"])
            # The one that GridSearchCV would take; NaN, of candidates that fail, comes last.
            scores = np.nan_to_num(results[f"mean_test_{self.metric}"], nan=-np.inf)
            best, n_losses, scorer = scores.argmax(), self.problem.n_losses, self.problem.scorer
            if isinstance(scorer, MetricScorer):
                warn_if_metric_is_noisy(self.mechanism, scorer, n_losses, scores[best])
            noise = self.mechanism.unwarned_noise(n_losses)
            self.problem.folds.warn(results["params"][int(best)], noise)
        # Kept for `run`: scikit-learn wants the index alone, and ends its fit with it.
        self.chosen = self.mechanism.choose(results)
        let_no_warning_be_an_error()  # scikit-learn trains the winner next
        return self.chosen.index

    def warn_of_failed_fits(self, scores):
        """Say once how many fits failed, and why: rows, errors and mean scores are public.

        The words are scikit-learn's, for whom looks for them; its tracebacks are left out.
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
    """One line for each candidate of a public search in rounds, in the place of a heading a round.

    Parameters
    ----------
    total : int or None
        Number of candidates in all, None where it is not known.
    metric : str
        As in ``cv_results_``.
    """

    def __init__(self, total, metric):
        self._total, self._column = total, f"mean_test_{metric}"
        self._n_printed = 0
        self._seconds = 0.0  # of public folds: what protected rows take is never timed

    def timed(self, evaluate, *args):
        """Return ``evaluate(*args)``, the results of all candidates so far, and say so."""
        start = time.perf_counter()
        results = evaluate(*args)
        self._seconds += time.perf_counter() - start
        scores = np.asarray(results[self._column])
        known, self._n_printed = self._n_printed, (n := len(scores))
        left = 0 if self._total is None else (self._total - n) * self._seconds / n
        rounded = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min"
        end = "\n" if left < _SOON else f", about {rounded} of public folds left\n"
        best = np.fmax.accumulate(np.where(np.isfinite(scores), scores, np.nan))
        of = "" if self._total is None else f" of {self._total}"
        lines = (
            f"Candidate {k + 1}{of}: public score {scores[k]:.4g}, best so far {best[k]:.4g}"
            for k in range(known, n)
        )
        print(*lines, sep="\n", end=end)
        return results


def let_no_warning_be_an_error():
    """Show the warnings that a filter makes errors, until the caller's `catch_warnings` ends.

    After the charge such an error would cost the budget: trainings on protected rows are silent, so
    that the last training of the winner is the first to warn of all public rows.
    """
    shown = [("default" if kind == "error" else kind, *of) for kind, *of in warnings.filters]
    warnings.filters[:] = shown
    warnings.simplefilter("default", append=True)  # so that Python takes notice of the change


@contextmanager
def without_tracebacks():
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
            sections = _SECTION.findall(str(error))
            n_failed, errors = _counted((text, int(number)) for number, text in sections)
            raise ValueError(
                f"All the {n_failed} fits failed on public rows, perhaps because your "
                f"model is misconfigured. {errors}. Nothing was charged. {_ADVICE}"
            ) from None


def _counted(tracebacks):
    """Return the sum of the numbers of some tracebacks, and a text of the most frequent errors."""
    errors = Counter()
    for text, number in tracebacks:
        # Of a chain of errors the last; its type stands in the first line that is not indented.
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
