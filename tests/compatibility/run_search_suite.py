"""Run scikit-learn's own tests of its searchers with `DPGridSearchCV` in place of `GridSearchCV`.

A script for a process of its own, because it changes `sklearn.model_selection` before the tests
are imported: ``python run_search_suite.py OUTPUT.json [--swap] [FUNCTION ...]``. Nothing of
scikit-learn's is copied; its installed test file is run.
"""

import contextlib
import importlib.util
import inspect
import json
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import sklearn.model_selection
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import check_scoring, get_scorer
from sklearn.utils import _safe_indexing

from skdpbo import DPGridSearchCV
from skdpbo.exceptions import SkdpboWarning, UnboundedSensitivityError
from skdpbo.model_selection import make_per_record_scorer

SUITE = "sklearn.model_selection.tests.test_search"
# The nearest metric that is a mean of bounded losses, for the names that the suite uses.
NEAREST = {
    **dict.fromkeys(("f1", "recall", "precision", "roc_auc", "balanced_accuracy"), "accuracy"),
    "r2": "neg_mean_squared_error",
}
SWAP = "--swap" in sys.argv
_used = set()


class OneRecord:
    """Another score's value on one record at a time: what is averaged in its place."""

    def __init__(self, scorer):
        self.scorer = scorer

    def __call__(self, estimator, X):
        """One function of the record's target for each row, shape (n,)."""
        rows = range(len(X) if hasattr(X, "__len__") else X.shape[0])
        return np.array([self._of_row(estimator, X, i) for i in rows] + [None], dtype=object)[:-1]

    def _of_row(self, estimator, X, i):
        return partial(self.scorer, estimator, _safe_indexing(X, [i]))


def own_score(estimator, X, y=None):
    return estimator.score(X) if y is None else estimator.score(X, y)


def missing_score(y_true, scores):
    """One minus each record's score; scores are clipped to [0, 1]."""
    targets = [()] * len(scores) if y_true is None else [([target],) for target in y_true]
    values = [_one(score, target) for score, target in zip(scores, targets, strict=True)]
    return 1.0 - np.clip(np.array(values, dtype=float), 0.0, 1.0)


def _one(score, target):
    try:
        return score()  # a score that needs no target
    except TypeError:
        return score(*target)


class GridSearchCV(DPGridSearchCV):
    """`DPGridSearchCV` with GridSearchCV's parameters only.

    At an epsilon that hides nothing; one row in ten is protected, as the data sets are tiny.
    """

    def __init__(
        self,
        estimator,
        param_grid,
        *,
        scoring=None,
        n_jobs=None,
        refit=True,
        cv=None,
        verbose=0,
        pre_dispatch="2*n_jobs",
        error_score=np.nan,
        return_train_score=False,
    ):
        _used.add("GridSearchCV")
        super().__init__(
            estimator,
            param_grid,
            epsilon=1e6,
            validation_fraction=0.1,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )

    def fit(self, X, y=None, **params):
        """The searcher's own fit; its warnings about privacy are not what this suite is about."""
        _used.add("GridSearchCV")
        with warnings.catch_warnings(), self._swapped_metric():
            warnings.simplefilter("ignore", SkdpboWarning)
            if "groups" in params:  # without X_val one of its three groups would be set apart whole
                params |= {"X_val": X, "y_val": y}
            super().fit(X, y, **params)
        if self.scoring is None:
            # What the searcher does itself when the metric has not been swapped.
            self.scorer_ = check_scoring(self.estimator, None)
        return self

    @contextlib.contextmanager
    def _swapped_metric(self):
        """With --swap: the nearest bounded metric in place of one without bounded sensitivity."""
        given = self.scoring
        self.scoring = _nearest(given, self.estimator) if SWAP else given
        try:
            yield
        finally:
            self.scoring = given


def _nearest(scoring, estimator):
    """The bounded metric in place of `scoring`, or `scoring` itself."""
    if scoring is None:
        return _nearest_to_own_score(estimator)
    if isinstance(scoring, str):
        return NEAREST.get(scoring, scoring)
    if isinstance(scoring, dict):
        return {name: _nearest(metric, estimator) for name, metric in scoring.items()}
    if isinstance(scoring, (list, tuple, set)):
        return {name: _nearest(name, estimator) for name in scoring}
    if type(scoring) is type(get_scorer("accuracy")):  # made by make_scorer
        return "accuracy" if is_classifier(estimator) else "neg_mean_squared_error"
    return _record_by_record(scoring) if _needs_no_targets(scoring, skip=2) else scoring


def _nearest_to_own_score(estimator):
    """None, the searcher's own default, where predictions can be scored."""
    predicts = hasattr(estimator, "predict") and (
        is_classifier(estimator) or is_regressor(estimator)
    )
    if predicts and not _needs_no_targets(estimator.score, skip=1):
        return None
    return _record_by_record(own_score)


def _record_by_record(scorer):
    return make_per_record_scorer(missing_score, bound=1.0, response_method=OneRecord(scorer))


def _needs_no_targets(score, skip):
    parameters = list(inspect.signature(score).parameters.values())[skip:]
    return all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in parameters)


def refusal(error):
    """The privacy reason for which a search was refused, anywhere in a chain of exceptions."""
    while error is not None:
        text = str(error)
        if isinstance(error, UnboundedSensitivityError) or text.startswith("refit must be a bool"):
            return text
        error = error.__cause__ or error.__context__
    return None


class Recorder:
    """Pytest plugin: one entry for each parametrisation that was run."""

    def __init__(self):
        self.runs = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        _used.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "call" or not report.passed:
            error = call.excinfo.value if report.failed else None
            callspec = getattr(item, "callspec", None)
            values = [] if callspec is None else callspec.params.values()
            self.runs.append(
                {
                    "function": item.originalname,
                    "test": item.name,
                    "outcome": report.outcome,
                    "error": None if error is None else f"{type(error).__name__}: {error}"[:600],
                    "refusal": refusal(error),
                    "searcher": "GridSearchCV" in _used
                    or any(v is GridSearchCV or isinstance(v, GridSearchCV) for v in values),
                }
            )
        return report


def main(output, functions):
    """Run the suite, or some functions of it, and write what happened to a JSON file."""
    sklearn.model_selection.GridSearchCV = GridSearchCV
    path = importlib.util.find_spec(SUITE).origin
    recorder = Recorder()
    options = ["-q", "-p", "no:cacheprovider", "-c", str(Path(output).parent / "none.ini")]
    Path(options[-1]).write_text("[pytest]\naddopts=\n", "utf-8")
    chosen = [f"{path}::{name}" for name in functions] or [path]
    with contextlib.redirect_stdout(sys.stderr):
        pytest.main([*options, *chosen], plugins=[recorder])
    Path(output).write_text(json.dumps(recorder.runs), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], [name for name in sys.argv[2:] if name != "--swap"])
