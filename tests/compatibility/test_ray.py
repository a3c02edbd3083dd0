"""Searches on a local Ray cluster of real worker processes: same results, same charges, no words.

Ray is a large download and not on every platform: it has an extra of its own, `ray`.
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

from _support.planted import located, put
from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
)
from skdpbo.exceptions import BudgetExceededError
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import Chunks, PrivateSelection
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, mu_from_epsilon

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]

PARENT = os.getpid()
MARK = b"PROTECT!"  # the bytes of a number in protected rows
SECRET = float(np.frombuffer(MARK)[0])
X, y = load_breast_cancer(return_X_y=True)
X_VAL = np.where(np.arange(30) == 29, SECRET, X[300:])
ROWS = {"X": X[:300], "y": y[:300], "X_val": X_VAL, "y_val": y[300:]}
TREE = DecisionTreeClassifier(random_state=0)
DEPTHS = {"max_depth": [1, 2, 4, 8]}
LINE = np.linspace(-1, 1, 200)[:, None]
LINE_ROWS = {"X": LINE, "y": LINE[:, 0]}


class Loud(DecisionTreeClassifier):
    """Says what it sees, and dies once, if given a place to leave word of it."""

    def __init__(self, max_depth=None, random_state=None, flag=None, parent=PARENT):
        super().__init__(max_depth=max_depth, random_state=random_state)
        self.flag = flag
        self.parent = parent

    def fit(self, X, y, sample_weight=None, check_input=True):
        die_once(self.flag, self.parent)
        return super().fit(X, y, sample_weight, check_input)

    def predict(self, X, check_input=True):
        print("seen", SECRET if (np.asarray(X) == SECRET).any() else "nothing")
        return super().predict(X, check_input)


class Constant(RegressorMixin, BaseEstimator):
    """Private, as it learns nothing; may spoil the noise of the worker that trains it."""

    def __init__(self, label=0, plant=None, flag=None, parent=PARENT, epsilon=1.0, delta=1e-5):
        self.label = label
        self.plant = plant
        self.flag = flag
        self.parent = parent
        self.epsilon = epsilon
        self.delta = delta

    def privacy_guarantee(self, n_samples=None):
        mu = mu_from_epsilon(self.epsilon, self.delta)
        return PrivacyGuarantee(epsilon=self.epsilon, delta=self.delta, mu=mu)

    def fit(self, X, y):
        die_once(self.flag, self.parent)
        if self.plant is not None and os.getpid() != self.parent:
            spoil_noise(self.plant)
        self.n_features_in_, self.privacy_ = np.shape(X)[1], self.privacy_guarantee()
        return self

    def predict(self, X):
        return np.zeros(len(X))


def die_once(flag, parent):
    if flag is not None and os.getpid() != parent and not os.path.exists(flag):
        with open(flag, "w", encoding="utf-8"):
            os.kill(os.getpid(), signal.SIGKILL)


def spoil_noise(plant):
    """Make all noise of this worker the same, or a stream that is the same in every worker."""
    trials, _ = located("trials: noise_source")
    if plant == "constant":
        trials.noise_source = lambda *_: noise_source(5)
    elif not hasattr(trials, "stream"):
        trials.stream = noise_source(5)
        trials.noise_source = lambda *_: trials.stream


def say(text):
    print(text)


def worker_id(_):
    time.sleep(0.2)
    return os.getpid()


@pytest.fixture(scope="module")
def cluster():
    """Folder of a cluster of two worker processes, with its logs and spilled rows."""
    from ray.util.joblib import register_ray

    here = sys.modules[__name__]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=10**8, _temp_dir=folder)
        register_ray()
        ray.cloudpickle.register_pickle_by_value(here)  # workers cannot import the tests
        yield Path(folder)
        ray.cloudpickle.unregister_pickle_by_value(here)
        ray.shutdown()


@pytest.fixture
def on_ray(cluster):
    return lambda **options: parallel_config(backend="ray", n_jobs=2, **options)


@pytest.fixture
def nothing_here(monkeypatch):
    """No search may be saved by doing the work in this process."""
    put(monkeypatch, "parallel: _done_here", lambda *_: pytest.fail("not on Ray"))


def selection(**params):
    gp = DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-1, 1), inducing_points=4)
    params = {"protect": "all", "loss_bound": 1.0, "score_fraction": 0.1} | params
    return DPGridSearchCV(gp, {"noise_variance": [0.01, 0.1]}, **params)


COMPOSITION = PrivateSelection(accounting="composition")
RANGES = {"max_depth": (1, 9)}
SEARCHES = {
    "grid": (DPGridSearchCV(TREE, DEPTHS, random_state=0), ROWS),
    "random": (DPRandomizedSearchCV(TREE, DEPTHS, n_iter=3, guide=False, random_state=0), ROWS),
    "bayes": (DPBayesSearchCV(TREE, RANGES, n_iter=6, batch_size=3, random_state=0), ROWS),
    "gibo": (
        DPGIBOSearchCV(
            TREE, {"ccp_alpha": (0.0, 0.5)}, n_iter=1, scoring="accuracy", random_state=0
        ),
        ROWS,
    ),
    "chunks": (
        DPGridSearchCV(
            TREE, DEPTHS, protect=Chunks(5), score_fraction=0.1, epsilon=9.0, random_state=0
        ),
        {"X": X, "y": y},
    ),
    "composition": (selection(protect=COMPOSITION, epsilon=9.0, random_state=0), LINE_ROWS),
    "selection": (
        selection(
            protect=PrivateSelection(eta=1.0, expected_trials=4), epsilon=9.0, random_state=0
        ),
        LINE_ROWS,
    ),
}


def released(search, rows):
    """Return what the fit of a clone publishes, and what it has charged."""
    search = clone(search)  # a fitted one charges the ledger of its first fit as well
    with PrivacyLedger(epsilon=10.0, delta=1e-3) as ledger:
        search.fit(**rows)
    columns = search.cv_results_.get("private_validation_score", [])
    entries = [(entry.label, entry.guarantee) for entry in ledger.entries]
    return search.best_score_, search.best_params_, list(columns), entries


def test_workers_are_processes(on_ray):
    with on_ray():
        found = joblib.Parallel()(joblib.delayed(worker_id)(k) for k in range(6))
    assert len(set(found) | {os.getpid()}) == 3


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize("name", SEARCHES)
def test_search_releases_and_charges_what_it_does_on_one_machine(on_ray, name):
    here = released(*SEARCHES[name])
    with on_ray():
        there = released(*SEARCHES[name])
    assert there == here
    assert len(there[-1]) == 1


def test_nothing_is_sent_when_the_budget_is_used_up(on_ray, monkeypatch):
    search, rows = SEARCHES["random"]
    put(monkeypatch, "parallel: Parallel", lambda **_: pytest.fail("rows were sent"))
    with on_ray(), PrivacyLedger(epsilon=0.5) as ledger, pytest.raises(BudgetExceededError):
        search.fit(**rows)
    assert ledger.entries == ()


def test_fits_of_a_search_that_is_not_private_are_counted(on_ray, tmp_path):
    gp = DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(-1, 1), epsilon=0.1, inducing_points=3)
    with on_ray(), PrivacyLedger(5.0, 1e-3, path=tmp_path / "ledger") as ledger:
        GridSearchCV(gp, {"noise_variance": [0.01, 0.1]}, cv=3).fit(**LINE_ROWS)
    assert len(ledger.entries) == 2 * 3 + 1


class TestNoise:
    """Workers draw noise of their own, of the same law as on one machine."""

    N_SCORES = 200

    def scores(self, n_scores, plant=None):
        """Noisy scores of one model; the noise of each is drawn where it is scored."""
        search = DPGridSearchCV(
            Constant(plant=plant),
            {"label": list(range(n_scores))},
            protect=COMPOSITION,
            loss_bound=1.0,
            epsilon=4.0 * np.sqrt(n_scores / self.N_SCORES),
        )
        rows = np.zeros((1000, 1))
        search.fit(rows, rows[:, 0], X_val=rows.copy(), y_val=np.full(1000, np.sqrt(0.5)))
        return search.cv_results_["private_validation_score"]

    def is_fresh_noise(self, scores):
        """Rate of false alarms: 1e-6, a third for each of shape, variance and repeated draws."""
        here = self.scores(self.N_SCORES)
        shape = stats.ks_2samp(scores, here, method="exact").pvalue
        ratio = stats.f(self.N_SCORES - 1, self.N_SCORES - 1).cdf(np.var(scores) / np.var(here))
        n_repeated = self.N_SCORES - len(set(scores))  # 1e-3 expected of an honest worker
        return min(shape, 2 * ratio, 2 * (1 - ratio)) > 3e-7 and n_repeated <= 1

    @pytest.mark.usefixtures("nothing_here")
    def test_is_of_the_same_law(self, on_ray):
        with on_ray():
            scores = self.scores(self.N_SCORES)
        assert self.is_fresh_noise(scores)

    @pytest.mark.usefixtures("nothing_here")
    @pytest.mark.parametrize("plant", ["constant", "stream"])
    def test_seeded_workers_are_found(self, on_ray, plant):
        with on_ray():
            scores = self.scores(self.N_SCORES, plant)
        assert not self.is_fresh_noise(scores)

    def test_another_law_is_found(self):
        scores = self.scores(self.N_SCORES)
        assert not self.is_fresh_noise(2 * scores - np.mean(scores))


class TestKilledWorker:
    def search(self, flag, **params):
        model = Loud(random_state=0, flag=str(flag))
        return DPGridSearchCV(model, DEPTHS, random_state=0, **params)

    CASES = {
        "unguided": ({"guide": False}, ROWS),
        "chunks": (
            {"protect": Chunks(5), "score_fraction": 0.1, "epsilon": 9.0},
            {"X": X, "y": y},
        ),
    }

    @pytest.mark.parametrize("case", CASES)
    def test_changes_neither_result_nor_charge(self, on_ray, tmp_path, case):
        params, rows = self.CASES[case]
        here = released(self.search(tmp_path / "flag", **params), rows)
        assert not (tmp_path / "flag").exists()
        with on_ray():
            there = released(self.search(tmp_path / "flag", **params), rows)
        assert (tmp_path / "flag").exists()
        assert there == here
        assert len(there[-1]) == 1

    @pytest.mark.usefixtures("nothing_here")
    def test_of_a_private_selection(self, on_ray, tmp_path):
        model = Constant(flag=str(tmp_path / "flag"))
        search = DPGridSearchCV(
            model,
            {"label": [0, 1, 2]},
            protect=COMPOSITION,
            loss_bound=1.0,
            score_fraction=0.1,
            epsilon=9.0,
            random_state=0,
        )
        here = released(search, LINE_ROWS)
        with on_ray():
            there = released(search, LINE_ROWS)
        assert (tmp_path / "flag").exists()
        assert there == here

    def test_of_a_cross_validation_is_an_error_and_charges_nothing(self, on_ray, tmp_path):
        # scikit-learn's part of the search, on public rows, has no second attempt of its own.
        with (
            on_ray(),
            PrivacyLedger(epsilon=10.0) as ledger,
            pytest.raises((TypeError, ray.exceptions.RayError)) as failure,
        ):
            self.search(tmp_path / "flag").fit(**ROWS)
        assert ledger.entries == ()
        assert str(SECRET) not in str(failure.value)

    def test_of_a_cross_validation_is_replaced_if_ray_is_set_to(self, on_ray, tmp_path):
        retries = {"max_restarts": 3, "max_task_retries": 3}
        here = released(self.search(tmp_path / "flag"), ROWS)
        with on_ray(ray_remote_args=retries):
            there = released(self.search(tmp_path / "flag"), ROWS)
        assert (tmp_path / "flag").exists()
        assert there == here


class TestWords:
    """Ray writes what workers print to files of the cluster, and repeats it on the driver."""

    def files_with(self, folder, needle):
        files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return [path.name for path in files if needle in path.read_bytes()]

    def fit(self, model):
        DPGridSearchCV(model, DEPTHS, guide=False).fit(**ROWS)
        DPGridSearchCV(model, DEPTHS, protect=Chunks(5)).fit(np.r_[X[:300], X_VAL], y)

    @pytest.mark.usefixtures("nothing_here")
    def test_nothing_of_a_record_is_reported(self, cluster, on_ray, capfd, tmp_path):
        with on_ray():
            self.fit(Loud(random_state=0))
        time.sleep(2)  # Ray writes its files, and repeats them, with a delay
        output = "".join(capfd.readouterr())
        assert str(SECRET) not in output
        for needle in (str(SECRET).encode(), MARK):
            assert self.files_with(cluster, needle) == []

    def test_it_would_be_found(self, cluster, on_ray, capfd):
        text = f"seen {SECRET}"
        with on_ray():
            joblib.Parallel()(joblib.delayed(say)(text) for _ in range(4))
        deadline = time.monotonic() + 600
        output, files = "", []
        while time.monotonic() < deadline and not (text in output and files):
            time.sleep(0.5)
            output += "".join(capfd.readouterr())
            files = self.files_with(cluster, text.encode())
        assert text in output
        assert files
