"""Signs of life: lines of public counts, the same whatever protected rows and workers do."""

import re
import sys

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from _support.internals import Progress, PublicProgress, run_isolated, run_tasks
from _support.planted import put
from skdpbo import DPBayesSearchCV, DPGridSearchCV
from skdpbo.model_selection import Chunks

RNG = np.random.default_rng(0)
X, X_VAL = RNG.normal(size=(60, 2)), RNG.normal(size=(40, 2))
Y, Y_VAL = (X[:, 0] > 0).astype(int), (X_VAL[:, 0] > 0).astype(int)
SPACE = {"C": [0.01, 0.1, 1.0, 10.0, 100.0, 1e3]}


def shown(search, capsys, rows=(X_VAL, Y_VAL)):
    search.fit(X, Y, X_val=rows[0], y_val=rows[1])
    out, err = capsys.readouterr()
    assert not err
    return out.splitlines()


class Talking(ClassifierMixin, BaseEstimator):
    """Prints what it is given."""

    def __init__(self, a=0):
        self.a = a

    def fit(self, X, y):
        print("SECRET", X, file=sys.stdout)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        print("SECRET", X, file=sys.stderr)
        return np.full(len(X), self.classes_[0])


class NoWorker:
    def __call__(self, tasks):
        raise OSError


class TestProgress:
    @pytest.mark.parametrize(
        ("verbose", "total", "lines"),
        [(0, 8, []), (1, 8, [2, 4, 6, 8]), (1, 3, [1, 2, 3]), (2, 5, [1, 2, 3, 4, 5]), (1, 1, [])],
    )
    @pytest.mark.parametrize("batches", ["one", "all", "two"])
    def test_lines_do_not_depend_on_batches(self, verbose, total, lines, batches, capsys):
        progress = Progress(verbose, "Heading", total)
        for done in {"one": range(1, total + 1), "all": [total], "two": [total // 2, total]}[
            batches
        ]:
            progress.at(done)
        expected = ["Heading"] * bool(verbose) + [f"  {k} of {total} tasks" for k in lines]
        assert capsys.readouterr().out.splitlines() == expected

    def test_a_closed_stream_ends_nothing(self, monkeypatch):
        monkeypatch.setattr(sys, "stdout", open("/dev/null", "w"))  # noqa: SIM115
        progress = Progress(1, "Heading", 4)
        sys.stdout.close()
        progress.at(4)

    def test_same_lines_where_no_worker_lives(self, monkeypatch, capsys):
        put(monkeypatch, "parallel: Parallel", lambda **_: NoWorker())
        progress = Progress(2, "Heading", 3)
        run_tasks(abs, [(-1,)] * 3, n_jobs=1, pre_dispatch="all", progress=progress)
        assert capsys.readouterr().out.splitlines()[1:] == [f"  {k} of 3 tasks" for k in (1, 2, 3)]

    def test_none_of_a_secret_number_of_tasks(self):
        how = {"n_jobs": 1, "pre_dispatch": "all", "progress": Progress(0, "")}
        assert run_isolated(abs, [(-1,)], **how) == [1]
        with pytest.raises(ValueError, match="secret"):
            run_isolated(abs, [(-1,)], secretly_often=True, **how)


class TestSearches:
    def test_one_line_a_candidate(self, capsys):
        search = DPBayesSearchCV(LogisticRegression(), SPACE, n_iter=6, cv=2, verbose=1)
        lines = shown(search, capsys)
        assert search.verbose == 1
        expected = [f"Candidate {k} of 6" for k in range(1, 7)]
        assert [line.split(":")[0] for line in lines[:6]] == expected
        scores = search.cv_results_["mean_test_score"]
        for line, score in zip(lines[:6], scores, strict=True):
            assert f"public score {score:.4g}, best so far" in line
        assert lines[5].endswith(f"best so far {scores.max():.4g}")
        assert lines[6].endswith("candidates 1 to 6")
        assert lines[7:] == [f"  {k} of 6 candidates" for k in (2, 3, 5, 6)]

    def test_lines_of_folds_above_one(self, capsys):
        search = DPBayesSearchCV(LogisticRegression(), SPACE, n_iter=6, cv=2, verbose=2)
        lines = shown(search, capsys)
        assert sum(line.startswith("[CV] END") for line in lines) == 12
        assert sum(line.startswith("Candidate ") for line in lines) == 6

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("protect", ["validation", Chunks(4)])
    @pytest.mark.parametrize("verbose", [0, 1, 3])
    def test_same_for_all_protected_rows(self, protect, verbose, capsys):
        options = {"guide": False, "refit": False, "scoring": "accuracy", "epsilon": 1e-9}
        options |= {"protect": protect, "verbose": verbose, "score_fraction": 0}
        search = DPGridSearchCV(Talking(), {"a": [1, 2, 3]}, **options)
        seen = [shown(search, capsys, rows) for rows in ((X_VAL, Y_VAL), (-X_VAL, 1 - Y_VAL))]
        assert seen[0] == seen[1]
        assert bool(seen[0]) == bool(verbose)
        assert not re.search(r"SECRET|\d s\b|seconds|min\b|elapsed|\d\.\d", "".join(seen[0]))


def test_time_left_is_that_of_public_folds(capsys, monkeypatch):
    clock = iter([0.0, 30.0, 1000.0, 1030.0])  # 970 seconds between, on protected rows
    progress = PublicProgress(4, "score")
    monkeypatch.setattr(f"{type(progress).__module__}.time.perf_counter", lambda: next(clock))
    progress.timed(lambda: {"mean_test_score": [0.5]})
    progress.timed(lambda: {"mean_test_score": [0.5, np.nan]})
    first, second = capsys.readouterr().out.splitlines()
    assert first == (
        "Candidate 1 of 4: public score 0.5, best so far 0.5, about 90 s of public folds left"
    )
    assert second.endswith("public score nan, best so far 0.5, about 60 s of public folds left")
