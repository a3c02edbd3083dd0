"""Attacks on ``protect="all"`` by private selection, each with a planted bug that it catches.

What a secret number of trials protects is lost once the number is known, so most attacks here
look for it; the others for noise that is used twice, for budgets that are not set, and for rows.
"""

import contextlib
import logging
import math
import random
import warnings
from pathlib import Path

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.parallel import Parallel

from _support.internals import (
    ExactSampler,
    ReleasedScore,
    StatedCosts,
    TrialData,
    TrialRandomness,
    best_of_trials,
    epsilon_of,
    event_bounds,
    plan_trials,
)
from _support.noted import NotingRows, note_charges
from _support.planted import original, plant, put
from _support.protections import private_selection
from skdpbo import DPGridSearchCV
from skdpbo.audit import Traces, leak_scan, same_seed_difference
from skdpbo.mechanisms import GaussianMechanism, noise_source
from skdpbo.model_selection import PrivateSelection
from skdpbo.privacy import (
    PrivacyGuarantee,
    PrivacyLedger,
    TrialLaw,
    charge_active_ledger,
    mu_from_epsilon,
)

LOGGER = logging.getLogger("tests.attacks.selected")
UNITS = 2**20


class NoisyMean(RegressorMixin, BaseEstimator):
    """Mean of targets clipped to [-1, 1] with Gaussian noise; talks, as real models do."""

    def __init__(self, factor=1.0, epsilon=1.0, delta=1e-5, random_state=None, rounded=False):
        self.factor = factor
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state
        self.rounded = rounded

    def privacy_guarantee(self, n_samples=None):
        guarantee = PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=mu_from_epsilon(self.epsilon, self.delta),
            protects="training records",
        )
        return guarantee if self.random_state is None else guarantee.voided("seeded")

    def fit(self, X, y):
        charge_active_ledger(self.privacy_guarantee(), "NoisyMean")
        self.say(X, y)
        targets = np.nan_to_num(np.asarray(y, dtype=float))
        total = int(np.rint(np.clip(targets, -1, 1) * UNITS).sum())
        mu = self.privacy_guarantee().mu
        noise = GaussianMechanism(mu=mu, sensitivity=2 * UNITS, lattice=1.0, n_draws=1)
        noisy = int(noise.release(total, source=noise_source(self.random_state)))
        # Rounded, so that two data sets are distinguished by their noise alone where it is large.
        self.mean_ = float(np.sign(noisy)) if self.rounded else noisy / UNITS / len(targets)
        self.mean_ *= self.factor
        self.n_features_in_, self.privacy_ = np.shape(X)[1], self.privacy_guarantee()
        return self

    def say(self, X, y):
        print(f"fitting {len(X)} rows")
        LOGGER.info("fitting")
        warnings.warn("fitting", stacklevel=2)
        self.draw_ = np.random.rand() + random.random()
        del self.draw_

    def predict(self, X):
        return np.full(len(X), self.mean_)


RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(50, 2)), RNG.uniform(-1, 1, size=50)
X_VAL, Y_VAL = RNG.normal(size=(30, 2)), RNG.uniform(-1, 1, size=30)
FACTORS = {"factor": [0.5, 1.0, 2.0]}


def search(estimator=None, space=FACTORS, **params):
    estimator = NoisyMean() if estimator is None else estimator
    if "selection" in params:
        params["protect"] = private_selection(params.pop("selection"))
    options = {"protect": "all", "loss_bound": 4.0} | params
    return DPGridSearchCV(estimator, space, **options)


def fitted(searcher=None):
    searcher = search() if searcher is None else searcher
    return searcher.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)


class TestSecrecyOfTheNumberOfTrials:
    """Two fits that differ in nothing but the number of trials: what can be seen of it?

    All trials have one candidate, one model and one score, so that the best of them is the same.
    """

    @pytest.fixture(autouse=True)
    def alike(self, monkeypatch):
        put(monkeypatch, "trials: trial_score", lambda *a, **k: ReleasedScore(-0.5, 0.1))
        monkeypatch.setattr(NoisyMean, "fit", Constant.fit)

    def differences(self, monkeypatch, searcher=None, few=2, many=23, atol=0.0):
        def fit(trials):
            put(monkeypatch, "trials: draw_trials", lambda *a, **k: trials)
            np.random.seed(1)
            random.seed(1)
            found = fitted(searcher or search(space={"factor": [1.0]}, selection=SELECTION))
            # The global generators are seen by whoever comes next.
            return found, np.random.rand(), random.random()

        return {found.path for found in same_seed_difference(fit, few, many, atol=atol)}

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("options", [{}, {"refit": False}, {"verbose": 10}, {"n_jobs": 2}])
    def test_nothing_tells(self, options, monkeypatch):
        with parallel_config(backend="threading"):
            searcher = search(space={"factor": [1.0]}, selection=SELECTION, **options)
            assert self.differences(monkeypatch, searcher) == set()

    @pytest.mark.slow
    def test_nothing_tells_from_workers(self, monkeypatch, capfd):
        # Workers are processes, where nothing is patched: the noise of the score is made small.
        searcher = search(Silent(), {"factor": [1.0]}, n_jobs=2, epsilon=1e6, verbose=10)
        searcher.set_params(protect=SELECTION)
        assert self.differences(monkeypatch, searcher, atol=0.1) == set()
        printed = capfd.readouterr()
        assert "fitting" not in printed.out + printed.err

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize(
        ("plant", "where"),
        [
            ("attribute", "n_iter_"),
            ("list", "cv_results_"),
            ("in the model", "trial_"),
            ("print", "written"),
            ("progress", "written"),
            ("log", "written"),
            ("warning", "written"),
            ("generators", "[1]"),
        ],
    )
    def test_planted_bugs_are_found(self, plant, where, monkeypatch):
        PLANTS[plant](monkeypatch)
        found = self.differences(monkeypatch)
        assert any(where in path for path in found)

    def test_padding_runs_the_same_number_of_models(self, monkeypatch):
        used = self.models_trained(monkeypatch)
        assert used == {2: 2, 9: 9}

    def models_trained(self, monkeypatch, **options):
        trained = {}
        honest = original("trials: trained_model")

        def count(*args):
            trained[trials] += 1
            return honest(*args)

        put(monkeypatch, "trials: trained_model", count)
        for trials in (2, 9):
            trained[trials] = 0
            selection = PrivateSelection(expected_trials=3, **options)
            put(monkeypatch, "trials: draw_trials", lambda *a, trials=trials, **k: trials)
            fitted(search(selection=selection))
        return trained

    @pytest.mark.slow
    def test_padded(self, monkeypatch):
        trained = self.models_trained(monkeypatch, pad_trials=True, max_trials=60)
        assert trained == {2: 60, 9: 60}

    def test_padding_is_never_used(self, monkeypatch):
        # Scores grow with the trial: the best of the first five is the fifth.
        assert self.best_of_growing(monkeypatch) == -0.95
        # Planted bug: the best of all that were run.
        put(monkeypatch, "trials: draw_trials", lambda *a, **k: 60)
        assert self.best_of_growing(monkeypatch, drawn=60) == -0.4

    def best_of_growing(self, monkeypatch, drawn=5):
        scores = iter(np.arange(-100, 0) / 100 + 0.01)
        put(monkeypatch, "trials: trial_score", lambda *a, **k: ReleasedScore(next(scores), 0.1))
        put(monkeypatch, "trials: draw_trials", lambda *a, **k: drawn)
        selection = PrivateSelection(expected_trials=3, pad_trials=True, max_trials=60)
        return round(fitted(search(selection=selection)).best_score_, 6)


class Constant(NoisyMean):
    """The same model in every trial; it talks."""

    def fit(self, X, y):
        self.say(X, y)
        self.mean_, self.n_features_in_ = 0.25, np.shape(X)[1]
        self.privacy_ = self.privacy_guarantee()
        return self


class Silent(Constant):
    """Its predictions cost the worst loss, so that at a large budget every score is the same."""

    def predict(self, X):
        return np.full(len(X), 1e9)


SELECTION = PrivateSelection(expected_trials=5)


def plant_attribute(monkeypatch):
    after(monkeypatch, lambda searcher, trials: setattr(searcher, "n_iter_", trials))


def plant_list(monkeypatch):
    def lengthen(searcher, trials):
        searcher.cv_results_["mean_fit_time"] = np.zeros(trials)

    after(monkeypatch, lengthen)


def plant_in_model(monkeypatch):
    def mark(searcher, trials):
        searcher.best_estimator_.trial_ = trials

    after(monkeypatch, mark)


def plant_progress(monkeypatch):
    plant(monkeypatch, "trials: progress is of the trials that are drawn")


def plant_warning(monkeypatch):
    after(monkeypatch, lambda searcher, trials: warnings.warn(f"{trials} trials", stacklevel=2))


def after(monkeypatch, bug):
    honest = original("protection: Protection.publish")

    def publish(protection, *release):
        honest(protection, *release)
        bug(protection.searcher, original("trials: draw_trials")())

    put(monkeypatch, "protection: Protection.publish", publish)


def plant_loud(monkeypatch):
    plant(monkeypatch, "trials: output comes through")


def plant_generators(monkeypatch):
    # The global generators go on from where the trials have left them.
    @contextlib.contextmanager
    def seeded(seed):
        np.random.seed(seed)
        yield

    put(monkeypatch, "train and score: seeded_generators", seeded)
    plant_loud(monkeypatch)


PLANTS = {
    "attribute": plant_attribute,
    "list": plant_list,
    "in the model": plant_in_model,
    "print": plant_loud,
    "progress": plant_progress,
    "log": plant_loud,
    "warning": plant_warning,
    "generators": plant_generators,
}


class TestLedger:
    def events(self, monkeypatch, which):
        """Return the order in which rows are read and the ledger is charged."""
        seen = []
        note_charges(monkeypatch, "protection: charge_active_ledger", seen)
        rows = {"X": X, "y": Y, "X_val": X_VAL, "y_val": Y_VAL}
        rows[which] = NotingRows(rows[which].tolist(), lambda: seen.append("read"))
        search().fit(rows.pop("X"), rows.pop("y"), **rows)
        return seen

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("which", ["X", "y", "X_val", "y_val"])
    def test_charged_before_anything_is_read(self, which, monkeypatch):
        seen = self.events(monkeypatch, which)
        assert seen[0] == "charge"
        assert seen.count("charge") == 1
        assert "read" in seen

    @pytest.mark.parametrize("which", ["y", "y_val"])
    def test_a_peek_is_found(self, which, monkeypatch):
        # Planted bug: the classes of the targets are looked up for the scorer.
        honest = original("private models: check_schema")

        def peek(X_val, y_val, X_train, y_train, **how):
            set(y_val), set(y_train)
            return honest(X_val, y_val, X_train, y_train, **how)

        put(monkeypatch, "private models: check_schema", peek)
        assert self.events(monkeypatch, which)[0] == "read"

    @pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
    @pytest.mark.parametrize("selection", ["profile", "composition"])
    def test_one_charge_of_the_total(self, selection, backend):
        with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger, parallel_config(backend=backend):
            found = fitted(search(selection=selection, n_jobs=2))
        assert [entry.guarantee for entry in ledger.entries] == [found.privacy_]

    def test_a_double_charge_is_found(self, monkeypatch):
        plant(monkeypatch, "trials: each trial pays as well")
        with PrivacyLedger(epsilon=1e6, delta=0.1) as ledger:
            fitted()
        assert len(ledger.entries) > 1

    def test_a_forgotten_charge_is_found(self, monkeypatch):
        plant(monkeypatch, "trials: the search does not pay")
        with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger:
            fitted()
        assert ledger.entries == ()


class TestNoise:
    """No noise is used twice: not by two trials, not by a training and its score."""

    N_TRIALS = 12

    def noise(self, monkeypatch, estimator, **options):
        """Means of the models and scores, of trials of one candidate."""
        means, scores = [], []
        honest = original("trials: trial_score")

        def score(model, *args, **kwargs):
            means.append(model.mean_)
            scores.append(honest(model, *args, **kwargs))
            return scores[-1]

        put(monkeypatch, "trials: trial_score", score)
        put(monkeypatch, "trials: draw_trials", lambda *a, **k: self.N_TRIALS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted(search(estimator, {"factor": [1.0]}, **options))
        return len(set(means)), len(set(scores))

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("seed", [None, 0])
    @pytest.mark.parametrize("random_state", [None, 1, "RandomState"])
    def test_trials_have_their_own(self, seed, random_state, monkeypatch):
        if random_state == "RandomState":
            random_state = np.random.RandomState(3)
        model = NoisyMean(random_state=random_state)
        distinct = self.noise(monkeypatch, model, random_state=seed, epsilon=0.5)
        # Scores are clipped to their public range, so that some may be equal.
        assert distinct[0] == self.N_TRIALS
        assert distinct[1] > 2

    def test_a_copied_seed_is_found(self, monkeypatch):
        plant(monkeypatch, "trials: every trial has the estimator's seed")
        assert self.noise(monkeypatch, NoisyMean(random_state=1))[0] == 1

    def test_a_source_opened_again_is_found(self, monkeypatch):
        # Planted bug: each score of a seeded search starts the stream anew.
        put(monkeypatch, "trials: noise_source", lambda *args: noise_source(5))
        model = Constant()
        assert self.noise(monkeypatch, model, random_state=0) == (1, 1)

    def test_noise_of_training_and_score_differ(self):
        source = noise_source(4)
        randomness = TrialRandomness(source)
        words = [
            tuple(child.generate_state(8))
            for _, sequence in randomness.of(range(50))
            for child in sequence.spawn(2)
        ]
        assert len(set(words)) == 100

    def test_candidates_are_uniform(self):
        # Chi-square with 6 degrees of freedom: above 45 with probability 5e-8.
        source = noise_source(11)
        sampler = ExactSampler(source)
        drawn = [sampler.below(7) for _ in range(7000)]
        counts = np.bincount(drawn, minlength=7)
        assert ((counts - 1000) ** 2 / 1000).sum() < 45
        assert sampler.below(1) == 0
        # Planted bug: what is too large starts again at 0 instead of being drawn again.
        biased = np.bincount([source.bytes(1)[0] % 8 % 7 for _ in range(7000)], minlength=7)
        assert ((biased - 1000) ** 2 / 1000).sum() > 45


class TestVanishingBudget:
    """Fixed noise and no budget: everything that can be observed is equal."""

    DATA = (
        (X, Y, X_VAL.tolist(), Y_VAL.tolist()),
        (-9 * X, np.ones(50), (1e6 * X_VAL).tolist(), (1e6 * Y_VAL).tolist()),
        (X, -np.ones(50), [["text", None]] * 30, ["text"] * 30),
        (np.zeros((50, 2)), np.zeros(50), [[math.nan, 1.0]] * 30, [math.inf] * 30),
    )

    def fit(self, data, **options):
        model = NoisyMean(rounded=True, epsilon=1e4)
        searcher = search(model, random_state=7, **{"epsilon": 1e-9} | options)
        return searcher.fit(*data[:2], X_val=data[2], y_val=data[3])

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("selection", ["profile", "composition"])
    @pytest.mark.parametrize("other", [1, 2, 3])
    def test_equal(self, selection, other):
        pair = self.DATA[0], self.DATA[other]
        assert same_seed_difference(lambda data: self.fit(data, selection=selection), *pair) == []

    def test_a_budget_that_is_not_set_is_found(self, monkeypatch):
        # Planted bug: candidates are trained with the budget that the estimator came with.
        monkeypatch.setattr(StatedCosts, "_cost_within", keep_budgets)
        pair = self.DATA[1], self.DATA[2]
        assert same_seed_difference(self.fit, *pair)

    def test_a_larger_budget_is_found(self):
        pair = self.DATA[1], self.DATA[2]
        assert same_seed_difference(lambda data: self.fit(data, epsilon=1e3), *pair)


def keep_budgets(costs, step, share):
    step.set_params(epsilon=1e4, delta=1e-5)
    return share


class TestLeaks:
    SECRETS = (0.7316520948315577, -0.3193884729104553, "S3cr3tPatientName")

    def data(self):
        x_val, y_val = X_VAL.tolist(), Y_VAL.tolist()
        x_val[2][1], x_val[5], y_val[7] = self.SECRETS[0], [self.SECRETS[2], 1.0], self.SECRETS[2]
        y = Y.copy()
        y[3], y_val[3] = self.SECRETS[1], self.SECRETS[1]
        return X, y, {"X_val": x_val, "y_val": y_val}

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("selection", ["profile", "composition"])
    def test_nothing_protected(self, selection):
        train, targets, validation = self.data()
        with Traces() as traces:
            found = search(selection=selection, verbose=10).fit(train, targets, **validation)
        assert leak_scan(found, self.SECRETS) == []
        assert leak_scan(traces, self.SECRETS) == []

    def test_failures_hide_the_rows(self):
        class Failing(NoisyMean):
            def fit(self, X, y):
                if len(X) == 50:
                    raise ValueError(f"cannot fit {list(y)} {TestLeaks.SECRETS[2]}")
                return super().fit(X, y)

        train, targets, validation = self.data()
        with Traces() as traces, pytest.raises(ValueError, match="winning trial") as failure:
            search(Failing()).fit(train, targets, **validation)
        assert leak_scan(failure.value, self.SECRETS) == []
        assert failure.value.__context__ is None
        assert leak_scan(traces, self.SECRETS) == []

    @pytest.mark.parametrize("plant", ["keep", "say"])
    def test_planted_bugs_are_found(self, plant, monkeypatch):
        train, targets, validation = self.data()
        honest = original("protection: Protection.publish")

        def publish(protection, *release):
            honest(protection, *release)
            if plant == "keep":
                protection.searcher.rows_ = {"y": [targets]}
            else:
                print(f"the third target is {targets[3]}")

        put(monkeypatch, "protection: Protection.publish", publish)
        with Traces() as traces:
            found = search().fit(train, targets, **validation)
        assert leak_scan(found if plant == "keep" else traces, self.SECRETS)

    @pytest.mark.slow
    def test_no_file_holds_rows(self, tmp_path, monkeypatch):
        assert self.files(tmp_path, monkeypatch) == []

    @pytest.mark.slow
    def test_files_are_found(self, tmp_path, monkeypatch):
        # Planted bug: joblib's default, which writes a megabyte or more to disk for its workers.
        put(
            monkeypatch, "parallel: Parallel", lambda n_jobs, **_: Parallel(n_jobs, max_nbytes="1M")
        )
        assert self.files(tmp_path, monkeypatch)

    def files(self, folder, monkeypatch):
        """Files that a worker sees; two megabytes of rows are sent to it."""
        monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(folder))
        rows = np.zeros((2**17, 2))
        model = FileLister(folder=str(folder))
        in_workers = PrivateSelection(tuning_fraction=None)  # else the winner is trained here
        with parallel_config(backend="loky"):
            found = search(model, protect=in_workers, n_jobs=2).fit(rows, rows[:, 0])
        return found.best_estimator_.files_


class FileLister(Constant):
    """Lists the files of a folder while it is trained."""

    def __init__(self, factor=1.0, epsilon=1.0, delta=1e-5, random_state=None, folder=""):
        super().__init__(factor, epsilon, delta, random_state)
        self.folder = folder

    def fit(self, X, y):
        self.files_ = [path.name for path in Path(self.folder).rglob("*") if path.is_file()]
        return super().fit(X, y)

    rounded = False


class Bit(NoisyMean):
    """Randomised response of one record: the worst that a pure trial can be."""

    def privacy_guarantee(self, n_samples=None):
        return PrivacyGuarantee(epsilon=self.epsilon, protects="training records")

    def fit(self, X, y):
        lie = np.random.random() < 1 / (1 + math.exp(self.epsilon))
        self.mean_ = float((y[0] > 0) != lie)
        return self


class TestLikelihoodRatio:
    """The whole selection on two neighbouring data sets, against its epsilon.

    The training record is 1 or -1 and the model is one bit about it; the score is the bit itself,
    without noise, as it may be for someone who knows the validation rows. The event, fixed
    beforehand: the winner says 0, so that all trials did. P = f(p), f the generating function of
    the law. The bound on epsilon is too large with probability 1e-6 at most.
    """

    # Four trials expected: ten would prove no more in as many runs, and take longer.
    EPSILON, MEAN, N_RUNS = 2.0, 4, 1550
    LAW = TrialLaw(MEAN)

    def bound(self, monkeypatch, trial_epsilon=None):
        """Lower bound on epsilon; the trials cost what is given instead of what they may."""
        put(
            monkeypatch,
            "trials: trial_score",
            lambda model, *a, **k: ReleasedScore(model.mean_, 0.1),
        )
        selection = PrivateSelection(expected_trials=self.MEAN)
        budget = {"epsilon": self.EPSILON, "delta": 0.0}
        plan = plan_trials(Bit(), [{}], selection, **budget, n_samples=None)
        if trial_epsilon is not None:
            plan.models[0].set_params(epsilon=trial_epsilon)
        source = noise_source(20261121)  # one stream for all runs: the test is reproducible
        hits = [sum(self.says_no(plan, y, source) for _ in range(self.N_RUNS)) for y in (-1.0, 1.0)]
        self.check_law(hits, plan.models[0].epsilon)
        low, high = event_bounds(*hits, self.N_RUNS, self.N_RUNS, 1e-6)
        return float(epsilon_of(low, high, 0.0))

    def says_no(self, plan, target, source):
        rows = X_VAL, Y_VAL, None
        data = TrialData(np.zeros((1, 1)), np.array([target]), {}, rows, None, plan.budget)
        parallel = {"n_jobs": None, "pre_dispatch": 2}
        winner = best_of_trials(plan, data, source, **parallel)
        return winner.model.mean_ == 0

    def check_law(self, hits, trial_epsilon):
        """Both counts are those of the law, within 5 standard deviations (1e-6)."""
        p = 1 / (1 + math.exp(-trial_epsilon))
        for count, share in zip(hits, (self.LAW.pgf(p), self.LAW.pgf(1 - p)), strict=True):
            deviation = math.sqrt(self.N_RUNS * share * (1 - share))
            assert abs(count - self.N_RUNS * share) < 5.2 * deviation + 1

    @pytest.mark.slow
    def test_within_the_claim(self, monkeypatch):
        bound = self.bound(monkeypatch)
        assert 0.25 < bound <= self.EPSILON

    @pytest.mark.slow
    def test_every_trial_at_the_total_budget_is_found(self, monkeypatch):
        # Planted bug: the number of trials is ignored by the accounting.
        assert self.bound(monkeypatch, trial_epsilon=self.EPSILON) > self.EPSILON
