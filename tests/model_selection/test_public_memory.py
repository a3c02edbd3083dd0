"""Memory of public folds: nothing is trained twice, and no protected row gets there."""

import warnings
from pathlib import Path
from typing import ClassVar
from weakref import WeakKeyDictionary

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import GroupKFold, KFold

from _support.internals import protected_positions
from _support.planted import plant
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.audit import Secrets
from skdpbo.exceptions import SeededNoiseWarning
from skdpbo.linear_model import DPRidge
from skdpbo.model_selection import Chunks, make_per_record_scorer
from skdpbo.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X, X_VAL = RNG.normal(size=(60, 1)), RNG.normal(size=(40, 1))
Y, Y_VAL = X[:, 0] + 0.1 * RNG.normal(size=60), X_VAL[:, 0]
GRID = {"a": [0.0, 0.5, 1.0, 2.0]}
N_FOLDS = 3


class Slope(RegressorMixin, BaseEstimator):
    """Predicts a x; notes what it is trained with, and stops at a limit."""

    trained, limit = (), np.inf

    def __init__(self, a=0.0, b=0.0):
        self.a, self.b = a, b

    def fit(self, X, y, sample_weight=None):
        kind = type(self)
        if len(kind.trained) >= kind.limit:
            raise KeyboardInterrupt
        kind.trained = (*kind.trained, self.a)
        if self.a == "fails":
            raise ValueError("a public error")
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        return self.a * np.asarray(X)[:, 0] + self.b


@pytest.fixture(autouse=True)
def _nothing_trained(monkeypatch):
    monkeypatch.setattr(Slope, "trained", ())
    monkeypatch.setattr(Slope, "limit", np.inf)


def make(memory, kind=DPGridSearchCV, space=GRID, estimator=None, **params):
    usual = {"cv": N_FOLDS, "loss_bound": 4.0, "refit": False}
    return kind(estimator or Slope(), space, memory=memory, **usual | params)


def fitted(search, rows=(X_VAL, Y_VAL), public=(X, Y), **params):
    return search.fit(*public, X_val=rows[0], y_val=rows[1], **params)


def folds_trained(search, **how):
    """Number of public folds that a fit trains: of each candidate there is one more training."""
    Slope.trained = ()
    fitted(search, **how)
    beside = len(search.cv_results_["params"]) + 1  # and one to see whether rows are mixed
    return len(Slope.trained) - beside - N_FOLDS  # and the folds of the best one, for its bound


def table(search):
    shown = {k: v for k, v in search.cv_results_.items() if "time" not in k}
    return {name: np.asarray(column).tolist() for name, column in shown.items()}


SEARCHES = {
    "grid": {},
    "randomized": {"kind": DPRandomizedSearchCV, "space": {"a": (0.0, 2.0)}, "n_iter": 6},
    "bayes": {"kind": DPBayesSearchCV, "space": {"a": (0.0, 2.0)}, "n_iter": 6},
    "batches": {
        "kind": DPBayesSearchCV,
        "space": {"a": (0.0, 2.0)},
        "n_iter": 6,
        "n_initial_points": 2,
        "batch_size": 2,
    },
}


class TestWarmStart:
    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("name", SEARCHES)
    def test_the_same_table_without_training(self, name, tmp_path):
        without, first, second = (make(m, **SEARCHES[name]) for m in (None, tmp_path, tmp_path))
        n = folds_trained(without)
        assert folds_trained(first) == n
        known = folds_trained(second)
        # One candidate is trained of the first batch; all initial points of a Bayesian search are
        # one batch.
        assert known == N_FOLDS
        assert table(without) == table(first) == table(second)
        assert first.n_splits_ == second.n_splits_ == N_FOLDS

    def test_only_new_candidates_are_trained(self, tmp_path):
        fitted(make(tmp_path))
        search = make(str(tmp_path), space={"a": [3.0, 0.5, 1.0, 4.0]})
        assert folds_trained(search) == 2 * N_FOLDS
        assert [p["a"] for p in search.cv_results_["params"]] == [3.0, 0.5, 1.0, 4.0]
        without = fitted(make(None, space={"a": [3.0, 0.5, 1.0, 4.0]}))
        assert table(search) == table(without)

    def test_a_longer_bayesian_search_goes_on(self, tmp_path):
        n_iter, longer = SEARCHES["bayes"], SEARCHES["bayes"] | {"n_iter": 8}
        fitted(make(tmp_path, **n_iter))
        assert folds_trained(make(tmp_path, **longer)) == 3 * N_FOLDS

    CHANGES = {
        "estimator": ({"estimator": Slope(b=1.0)}, {}),
        "folds": ({"cv": KFold(3, shuffle=True, random_state=1)}, {}),
        "bound": ({"loss_bound": 5.0}, {}),
        "scoring": ({"scoring": "neg_mean_absolute_error"}, {}),
        "error score": ({"error_score": 0.0}, {}),
        "train score": ({"return_train_score": True}, {}),
        "rows": ({}, {"public": (X + 1e-9, Y)}),
        "targets": ({}, {"public": (X, Y + 1e-9)}),
        "entries": ({}, {"sample_weight": np.arange(60)}),
    }

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("name", CHANGES)
    def test_nothing_is_used_of_another_problem(self, name, tmp_path):
        params, how = self.CHANGES[name]
        fitted(make(tmp_path))
        n = len(GRID["a"]) * N_FOLDS
        assert folds_trained(make(tmp_path, **params), **how) == n
        assert folds_trained(make(tmp_path, **params), **how) == N_FOLDS

    def test_another_version_starts_anew(self, tmp_path, monkeypatch):
        fitted(make(tmp_path))
        monkeypatch.setattr(sklearn, "__version__", "9.9")
        assert folds_trained(make(tmp_path)) == len(GRID["a"]) * N_FOLDS

    def test_other_protected_rows_and_budgets_go_on(self, tmp_path):
        fitted(make(tmp_path))
        search = make(tmp_path, epsilon=3.0, mechanism="exponential", score_fraction=0)
        assert folds_trained(search, rows=(X_VAL[:9], Y_VAL[:9])) == N_FOLDS

    def test_each_fit_is_charged(self, tmp_path):
        with PrivacyLedger(epsilon=2.0) as ledger:
            for _ in range(2):
                fitted(make(tmp_path))
        assert len(ledger.entries) == 2

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize(
        ("params", "fit"),
        [
            ({"cv": [(np.arange(30), np.arange(30, 60))] * N_FOLDS}, {}),
            ({"cv": GroupKFold(N_FOLDS)}, {"groups": np.arange(60) // 2}),
            ({"scoring": ["neg_mean_absolute_error", "r2"], "refit": "r2"}, {}),
            ({"neighbours": "add-remove", "error_score": "raise"}, {}),
            ({"n_jobs": 2, "estimator": Slope(), "memory": "object"}, {}),
        ],
    )
    def test_with(self, params, fit, tmp_path):
        params = dict(params)
        kept = joblib.Memory(tmp_path, verbose=0) if params.pop("memory", "") else tmp_path
        with joblib.parallel_config(backend="threading"):
            searches = [fitted(make(m, **params), **fit) for m in (None, kept, kept)]
        assert table(searches[0]) == table(searches[1]) == table(searches[2])

    def test_a_generator_of_splits(self, tmp_path):
        for _ in range(2):
            search = fitted(make(tmp_path, cv=KFold(N_FOLDS).split(X)))
        assert search.n_splits_ == N_FOLDS

    def test_verbose(self, tmp_path, capsys):
        fitted(make(tmp_path))
        fitted(make(tmp_path, space={"a": [0.5, 1.0, 7.0]}, verbose=1))
        heading, *lines = capsys.readouterr().out.splitlines()
        assert heading == "Public folds of 3 candidates, 2 known from memory"
        assert lines[0].startswith("Training on all public rows")

    def test_verbose_counts_what_is_trained(self, tmp_path, capsys):
        fitted(make(tmp_path, verbose=2))
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line.startswith("  ")][:4] == [
            f"  {k} of 4 candidates" for k in (1, 2, 3, 4)
        ]
        assert sum(line.startswith("[CV] END") for line in lines) == 4 * N_FOLDS


@pytest.mark.filterwarnings("error:Persisting input arguments took")
def test_a_slow_disk_is_no_warning(tmp_path, monkeypatch):
    clock = iter(range(0, 10**6, 10))  # ten seconds pass between two looks at it
    monkeypatch.setattr(joblib.memory.time, "time", lambda: float(next(clock)))
    fitted(make(tmp_path))
    assert folds_trained(make(tmp_path)) == N_FOLDS


class TestDescent:
    """The public search of the start: 32 candidates, of which one batch is trained again."""

    def search(self, memory, **params):
        usual = {"kind": DPGIBOSearchCV, "space": {"a": (0.0, 2.0), "b": (0.0, 1.0)}, "n_iter": 2}
        return make(memory, **usual | params)

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning")
    def test_the_start_is_known(self, tmp_path):
        n_trained, tables = [], []
        for memory in (None, tmp_path, tmp_path):
            Slope.trained = ()
            with pytest.warns(SeededNoiseWarning):
                search = fitted(self.search(memory, random_state=0))
            n_trained.append(len(Slope.trained))
            tables.append((table(search), search.best_params_))
        assert tables[0] == tables[1] == tables[2]
        assert n_trained[0] == n_trained[1] + N_FOLDS  # the descent begins at a candidate
        assert n_trained[1] - n_trained[2] >= 27 * N_FOLDS

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning")
    def test_each_fit_is_charged(self, tmp_path):
        with PrivacyLedger(epsilon=2.0, delta=1e-4) as ledger:
            for _ in range(2):
                fitted(self.search(tmp_path))
        assert len(ledger.entries) == 2

    @pytest.mark.parametrize("params", [{"guide": False}, {"protect": "all"}])
    def test_without_public_folds_there_is_nothing_to_keep(self, params, tmp_path):
        estimator = DPRidge(X_bounds=(-3, 3), y_bounds=(-3, 3))
        space = {"alpha": (0.1, 10.0)}
        with pytest.raises(ValueError, match="memory"):
            fitted(self.search(tmp_path, estimator=estimator, space=space, cv=None, **params))


class TestHalving:
    """Two rounds of 9 and 3 candidates, and 2 that are left: 42 public folds."""

    X = RNG.normal(size=(150, 1))
    Y = X[:, 0] + 0.1 * RNG.normal(size=150)
    SPACE: ClassVar = {"a": list(np.linspace(0.0, 2.0, 9))}
    N_TRAINED = N_FOLDS * (9 + 3 + 2)

    def search(self, memory, **params):
        return make(memory, space=self.SPACE, halving=2, **params)

    def trained(self, search):
        return folds_trained(search, public=(self.X, self.Y))

    def rounds(self, search):
        shown = {k: v for k, v in search.halving_results_.items() if "time" not in k}
        return {name: np.asarray(column).tolist() for name, column in shown.items()}

    def test_the_same_tables_without_training(self, tmp_path):
        without, first, second = (self.search(m) for m in (None, tmp_path, tmp_path))
        assert self.trained(without) == self.trained(first) == self.N_TRAINED
        assert self.trained(second) == 2 * N_FOLDS  # the first of the rounds, and of the others
        assert self.rounds(without) == self.rounds(first) == self.rounds(second)
        assert table(without) == table(first) == table(second)

    def test_only_new_candidates_are_trained(self, tmp_path):
        self.trained(self.search(tmp_path))
        space = {"a": [*self.SPACE["a"][:-1], 7.0]}  # not among the best
        search = make(tmp_path, space=space, halving=2)
        assert self.trained(search) == N_FOLDS * 2
        assert max(self.rounds(search)["param_a"]) == 7.0

    def test_an_interrupted_round_goes_on(self, tmp_path):
        Slope.limit = N_FOLDS * 10 + 1  # in the second round
        with pytest.raises(KeyboardInterrupt):
            fitted(self.search(tmp_path), public=(self.X, self.Y))
        Slope.limit = np.inf
        search, without = self.search(tmp_path), self.search(None)
        assert self.trained(search) == N_FOLDS * (1 + 2 + 2)
        self.trained(without)
        assert self.rounds(search) == self.rounds(without)

    def test_other_parts_of_the_rows_are_other_folds(self, tmp_path):
        self.trained(self.search(tmp_path))
        search = self.search(tmp_path, random_state=5)  # of the parts, too
        with pytest.warns(SeededNoiseWarning):
            n_trained = self.trained(search)
        assert n_trained == N_FOLDS * (9 + 3 + 1)

    def test_rounds_of_another_metric_are_other_folds(self, tmp_path):
        self.trained(self.search(tmp_path))
        search = self.search(tmp_path, scoring="neg_mean_absolute_error")
        assert self.trained(search) == self.N_TRAINED

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_failures(self, tmp_path):
        space = {"a": ["fails", *self.SPACE["a"][1:]]}
        searches = [make(m, space=space, halving=2) for m in (None, tmp_path, tmp_path)]
        for search in searches:
            self.trained(search)
        found = [repr((self.rounds(search), table(search))) for search in searches]
        assert len(set(found)) == 1

    def test_verbose(self, tmp_path, capsys):
        for _ in range(2):
            self.trained(self.search(tmp_path, verbose=1))
        lines = capsys.readouterr().out.splitlines()
        known = [line for line in lines if "known from memory" in line]
        assert known == [
            f"Public folds of {n} candidates, {k} known from memory"
            for k, n in ((0, 9), (0, 3), (0, 2), (9, 9), (3, 3), (2, 2))
        ]


class TestInterrupted:
    def test_the_rest_is_trained(self, tmp_path):
        Slope.limit = 2 * N_FOLDS + 1  # in the first fold of the third candidate
        with PrivacyLedger(epsilon=2.0) as ledger:
            with pytest.raises(KeyboardInterrupt):
                fitted(make(tmp_path))
            assert not ledger.entries
            Slope.limit = np.inf
            search = make(tmp_path)
            assert folds_trained(search) == 2 * N_FOLDS
        assert table(search) == table(fitted(make(None)))

    def test_a_file_that_cannot_be_read(self, tmp_path):
        fitted(make(tmp_path))
        for file in tmp_path.rglob("output.pkl"):
            file.write_bytes(b"broken")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib's
            search = make(tmp_path)
            assert folds_trained(search) == len(GRID["a"]) * N_FOLDS
        assert folds_trained(make(tmp_path)) == N_FOLDS
        assert table(search) == table(fitted(make(None)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
class TestFailures:
    @pytest.mark.parametrize(
        "values", [["fails", 0.5, "fails", 1.0], [0.5, 1.0, "fails"], [1.0, "fails", 0.5]]
    )
    def test_the_same_table(self, values, tmp_path):
        searches = [fitted(make(m, space={"a": values})) for m in (None, tmp_path, tmp_path)]
        assert repr(table(searches[0])) == repr(table(searches[1])) == repr(table(searches[2]))

    def test_they_are_trained_again(self, tmp_path):
        fitted(make(tmp_path, space={"a": ["fails", 0.5]}))
        Slope.trained = ()
        fitted(make(tmp_path, space={"a": ["fails", 0.5]}))
        # Alone, with one that does not fail, on all rows, and to see whether rows are mixed.
        assert Slope.trained.count("fails") == 2 * N_FOLDS + 2

    def test_all_fail(self, tmp_path):
        with pytest.raises(ValueError, match=r"All the 6 fits failed.*a public error"):
            fitted(make(tmp_path, space={"a": ["fails", "fails"]}))


class TestLaterProcess:
    def test_a_second_folder_is_whole(self, tmp_path, monkeypatch, capsys):
        """Also where the process has used another folder before, or this one, which was deleted."""
        for folder in ("first", "second"):
            fitted(make(tmp_path / folder))
        # What a process knows of functions, as at its start.
        monkeypatch.setattr(joblib.memory, "_FUNCTION_HASHES", WeakKeyDictionary())
        fitted(make(tmp_path / "second", verbose=1))
        assert "4 candidates, 4 known" in capsys.readouterr().out


class TestRefused:
    @pytest.mark.parametrize(
        ("params", "match"),
        [
            ({"guide": False}, "memory needs guide=True"),
            ({"protect": "all", "cv": None}, 'memory must be None with protect="all"'),
            ({"protect": Chunks(4), "cv": None}, 'memory must be None with protect="all"'),
            ({"memory": 3}, "memory"),
            (
                {"scoring": make_per_record_scorer(lambda y, p: 0.0, bound=1.0)},
                "memory needs .* that can be pickled",
            ),
        ],
    )
    def test_before_any_charge(self, params, match, tmp_path):
        params = {"memory": tmp_path, "loss_bound": None} | params
        with PrivacyLedger(epsilon=1.0) as ledger, pytest.raises(ValueError, match=match):
            fitted(make(**params))
        assert not ledger.entries


class TestProtectedRows:
    """The folder holds what an attacker may read: it knows the public rows and all candidates."""

    SECRETS = 0.7316520948315577, -3.1938847291045533

    def files(self, folder, secrets=SECRETS, halving=None):
        X_val, y_val = X_VAL.copy(), Y_VAL.copy()
        X_val[3, 0], y_val[5] = secrets
        for _ in range(2):
            search = make(folder, epsilon=1e6, random_state=0, halving=halving)
            fitted(search, rows=(X_val, y_val))
        return {path.relative_to(folder): path for path in Path(folder).rglob("*.*")}

    def found(self, folder, halving=None):
        secrets = Secrets(self.SECRETS)
        data = [path.read_bytes() for path in self.files(folder, halving=halving).values()]
        return any(secrets.in_bytes(d) or secrets.in_text(d.decode("latin-1")) for d in data)

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
    @pytest.mark.parametrize(("halving", "n_kept"), [(None, 4), (2, 6)])
    def test_they_are_not_in_the_files(self, halving, n_kept, tmp_path):
        assert not self.found(tmp_path, halving)
        assert len(list(tmp_path.rglob("output.pkl"))) == n_kept

    @pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SkdpboWarning")
    @pytest.mark.parametrize("halving", [None, 2])
    def test_the_names_of_files_do_not_depend_on_them(self, halving, tmp_path):
        one = self.files(tmp_path / "1", halving=halving)
        other = self.files(tmp_path / "2", (7.0, 1e9), halving)
        assert one.keys() == other.keys()

    @pytest.mark.quick_cases(1)
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("halving", [None, 2])
    def test_planted_bugs_are_found(self, halving, monkeypatch, tmp_path):
        plant(monkeypatch, "the memory of public folds knows protected rows")
        one = self.files(tmp_path / "1", halving=halving)
        other = self.files(tmp_path / "2", (7.0, 1e9), halving)
        assert one.keys() != other.keys()
        plant(monkeypatch, "the memory of public folds keeps its arguments")
        assert self.found(tmp_path / "3", halving)


SECRET_ROW = protected_positions(60, 0.2)[0]


def typed(values, odd):
    """Return values as numpy or pandas type them with another one in a protected place."""
    cells = [*values]
    cells[SECRET_ROW] = odd
    return np.array(cells, dtype=object if isinstance(odd, str) and values[0] != "w" else None)


ODD_ENTRIES = {
    "a weight that is a fraction": lambda odd: {
        "sample_weight": typed([1] * 60, 0.5 if odd else 1)
    },
    "a weight that is a text": lambda odd: {"sample_weight": typed([1] * 60, "x" if odd else 1)},
    "a long label": lambda odd: {"labels": typed(["w"] * 60, "w" * (20 if odd else 1))},
}
DAYS = pd.to_datetime([f"2020-{k // 28 + 1:02}-{k % 28 + 1:02}" for k in range(60)])
ODD_LABELS = {
    "text": lambda odd: typed(range(60), "x" if odd else 0),
    "fraction": lambda odd: typed(range(60), 0.5 if odd else 0),
    "nanosecond": lambda odd: DAYS.as_unit("ns") if odd else DAYS,
}


class Labelled(Slope):
    """Takes a further entry with its rows."""

    def fit(self, X, y, sample_weight=None, labels=None):
        return super().fit(X, y)


class TestTypesOfPartsThatAreSetApart:
    """Names of files are hashes of public rows, whatever protected ones do to their types."""

    @staticmethod
    def names(path, X, y, **params):
        search = make(path, space={"a": [1.0]}, estimator=Labelled())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(X, y, **params)
        return sorted(folder.name for folder in path.rglob("*") if folder.is_dir())

    @pytest.mark.parametrize("kind", sorted(ODD_ENTRIES))
    def test_entries(self, kind, tmp_path):
        entries = (ODD_ENTRIES[kind](odd) for odd in (False, True))
        usual, other = (self.names(tmp_path / str(k), X, Y, **e) for k, e in enumerate(entries))
        assert usual == other

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("kind", sorted(ODD_LABELS))
    @pytest.mark.parametrize("of_targets", [True, False])
    def test_labels_of_rows(self, kind, of_targets, tmp_path):
        found = []
        for odd in (False, True):
            index = pd.Index(ODD_LABELS[kind](odd))
            rows = X if of_targets else pd.DataFrame(X, index=index)
            targets = pd.Series(Y, index=index) if of_targets else Y
            found.append(self.names(tmp_path / str(odd), rows, targets))
        assert found[0] == found[1]
