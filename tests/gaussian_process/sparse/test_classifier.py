"""DPSparseGPClassifier: codes of the labels, probabilities, behaviour of the estimator."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from _support.internals import (
    KernelFamily,
    LatticeRows,
    WhitenedFeatures,
    WhitenedRelease,
    class_offsets,
    class_probabilities,
    label_codes,
    label_family,
    streamed_sums,
)
from _support.planted import original, put
from skdpbo.exceptions import BudgetExceededError, SeededNoiseWarning
from skdpbo.gaussian_process import DPSparseGPClassifier
from skdpbo.privacy import PrivacyLedger

MOONS_BOX = ([-1.5, -1.0], [2.5, 1.5])


def fitted(X, y, **parameters):
    parameters = {"X_bounds": MOONS_BOX, "random_state": 0, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return DPSparseGPClassifier(**parameters).fit(X, y)


def calibration_error(probabilities, hits):
    """Expected calibration error of the predicted class in 15 bins."""
    confidence = probabilities.max(axis=1)
    bins = np.minimum((15 * confidence).astype(int), 14)
    return sum(
        abs(confidence[bins == k].mean() - hits[bins == k].mean()) * np.mean(bins == k)
        for k in np.unique(bins)
    )


def test_bounds_that_are_not_given_are_released_within_the_budget(monkeypatch):
    X, y = make_moons(3000, noise=0.2, random_state=0)
    X, spent = 50 * X + 300, []
    ranges, moments = (
        original(place)
        for place in ("sparse process: released_ranges", "release methods: WhitenedMethod.release")
    )
    put(
        monkeypatch,
        "sparse process: released_ranges",
        lambda table, mu, *rest: spent.append(mu) or ranges(table, mu, *rest),
    )
    put(
        monkeypatch,
        "release methods: WhitenedMethod.release",
        lambda method, *rest: spent.append(method.statistics.mu) or moments(method, *rest),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", SeededNoiseWarning)
        model = DPSparseGPClassifier(classes=[0, 1], random_state=0).fit(X, y)
    mu = model.privacy_.mu
    assert len(spent) == 2
    assert spent[0] ** 2 == pytest.approx(0.1 * mu**2)
    assert (1 - 1e-12) * mu < np.hypot(*spent) <= mu
    assert model.privacy_.mechanism.endswith("ranges from noisy histograms")
    # Of records that lie in (220, 420): with (-3, 3) the accuracy is that of a constant.
    assert model.score(X, y) > 0.9
    assert np.all(model.X_bounds_[1] - model.X_bounds_[0] < 700)
    model.set_params(X_bounds=(200, 450), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        assert not hasattr(model.fit(X, y), "X_bounds_")


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_codes_are_a_simplex(n_classes):
    codes = label_codes(n_classes)
    products = codes[:-1] @ codes[:-1].T
    assert np.allclose(products, n_classes * np.eye(n_classes) - 1)
    assert np.isnan(codes[-1]).all()
    assert np.allclose(label_codes(2)[:-1], [[-1], [1]])


def test_probabilities_of_two_classes_are_a_probit():
    mean = np.linspace(-3, 3, 41)[:, None]
    found = class_probabilities(mean, label_codes(2)[:-1], 0.7)
    assert np.allclose(found[:, 1], norm.cdf(mean[:, 0] / np.sqrt(0.7)), atol=1e-9)


def test_probabilities_are_those_of_the_nearest_code():
    rng = np.random.default_rng(0)
    codes, mean = label_codes(4)[:-1], np.array([0.6, -0.4, 0.3])
    draws = mean + np.sqrt(1.3) * rng.normal(size=(200_000, 3))
    shares = np.bincount((draws @ codes.T).argmax(axis=1), minlength=4) / len(draws)
    found = class_probabilities(mean[None], codes, 1.3)[0]
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - shares).max() < 5.5 * np.sqrt(0.25 / len(draws))  # 1e-7


@pytest.mark.parametrize("shares", [[0.96, 0.04], [0.9, 0.06, 0.04], [0.06, 0.9, 0.04]])
def test_offsets_bring_mean_probabilities_near_shares(shares):
    rng = np.random.default_rng(1)
    codes, weights = label_codes(len(shares))[:-1], rng.dirichlet(np.ones(50))
    mean = codes[np.argmax(shares)] + 0.1 * rng.normal(size=(50, len(shares) - 1))
    offsets = class_offsets(mean, weights, codes, 0.15, np.array(shares), 0.25)
    found, without = (
        weights @ class_probabilities(mean, codes, 0.15, added) for added in (offsets, 0.0)
    )
    before, after = (np.abs(norm.ppf(p) - norm.ppf(shares)).max() for p in (without, found))
    assert before > 0.3
    # The part of a difference that is not believed remains, here of each class by itself.
    assert after < before * (0.25**2 / (before**2 + 0.25**2) + 0.1)
    assert offsets.sum() == pytest.approx(0, abs=1e-12)
    # Far from all records no class is more likely; a small difference is as likely one of noise.
    assert np.allclose(class_probabilities(0 * mean, codes, 0.15, offsets), 1 / len(shares))
    nearly = without**0.99 / (without**0.99).sum()
    assert np.abs(class_offsets(mean, weights, codes, 0.15, nearly, 0.25)).max() < 0.01


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_probabilities_of_a_rare_class(epsilon):
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (8000, 3))
    probability = 1 / (1 + np.exp(5 - 3 * X[:, 0]))
    y = (rng.random(8000) < probability).astype(int)
    model = fitted(X, y, classes=[0, 1], X_bounds=(-1, 1), epsilon=epsilon, random_state=0)
    found = model.predict_proba(X)[:, 1]
    assert found.mean() == pytest.approx(probability.mean(), rel=0.3)
    loss = log_loss(y, found)
    # Without offsets they are far too small.
    model.offsets_ = np.zeros(2)
    without = model.predict_proba(X)[:, 1]
    assert without.mean() < probability.mean() / 5
    assert loss < 0.8 * log_loss(y, without)


def lattice_rows(n_classes):
    release = WhitenedRelease(0.5, (1.0,) * (n_classes - 1), 1000)
    return LatticeRows(
        WhitenedFeatures(RBF(1.0), np.linspace(-3, 3, 7)[:, None]),
        centre=np.zeros(n_classes - 1),
        half_width=np.ones(n_classes - 1),
        beta=release.beta,
        step=release.step,
        radius=release.radius,
        dtype=np.float64,
        codes=label_codes(n_classes),
    )


def test_records_of_unseen_labels_add_nothing():
    rows, rng = lattice_rows(3), np.random.default_rng(0)
    X, positions = rng.normal(size=(200, 1)), rng.integers(-1, 3, (200, 1))
    known = positions[:, 0] >= 0
    both = [
        streamed_sums(rows, X[part], positions[part], rows.radius, chunk_size=64)
        for part in (slice(None), known)
    ]
    assert np.array_equal(*both)
    assert not known.all()


@pytest.mark.slow
def test_moons_are_classified_with_calibrated_probabilities():
    """Over 10 runs the means are .949 and .008, with standard deviations of .002 and .003."""
    accuracies, errors = [], []
    for seed in range(6):
        X, y = make_moons(2000, noise=0.2, random_state=seed)
        X_test, y_test = make_moons(4000, noise=0.2, random_state=100 + seed)
        probabilities = fitted(X, y, classes=[0, 1], random_state=seed).predict_proba(X_test)
        hits = probabilities.argmax(axis=1) == y_test
        accuracies.append(hits.mean())
        errors.append(calibration_error(probabilities, hits))
    assert np.mean(accuracies) >= 0.94
    assert np.mean(errors) <= 0.05


@pytest.mark.slow
def test_three_classes():
    rng = np.random.default_rng(0)
    centres = np.array([[-0.8, -0.5], [0.5, 1.0], [1.8, -0.3]])
    y = rng.integers(0, 3, 6000)
    X = centres[y] + 0.35 * rng.normal(size=(6000, 2))
    labels = np.array(["a", "b", "c"])[y]
    model = fitted(X, labels, classes=["c", "b", "a"], epsilon=2.0)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, labels) > 0.93
    probabilities = model.predict_proba(X)
    assert np.allclose(probabilities.sum(axis=1), 1)
    assert calibration_error(probabilities, model.predict(X) == labels) <= 0.05
    assert (np.exp(model.predict_log_proba(X)) == probabilities).mean() > 0.1


def test_far_from_all_records_classes_are_equally_likely():
    X, y = make_moons(2000, noise=0.2, random_state=0)
    found = fitted(X, y, kernel=RBF(0.5)).predict_proba([[50.0, 50.0]])
    assert np.allclose(found, 0.5)


def test_result_does_not_depend_on_chunks_or_threads():
    X, y = make_moons(500, noise=0.2, random_state=0)
    first = fitted(X, y).predict_proba(X)
    second = fitted(X, y, chunk_size=33, n_jobs=2).predict_proba(X)
    assert np.allclose(first, second, rtol=0, atol=1e-6)


def test_pickled_and_cloned():
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = fitted(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()
    assert model.privacy_.status == "void"  # seeded


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"classes": [1]}, "at least two labels"),
        ({"chunk_size": 0}, "chunk_size"),
        ({"kernel": []}, "at least one kernel"),
        ({"inducing_points": -1}, "inducing_points"),
        ({"kernel": 0.0 * RBF(1.0)}, "positive variance"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_bad_parameters_are_refused_before_the_charge(parameters, message):
    X, y = make_moons(50, random_state=0)
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-4)
    with ledger, pytest.raises(ValueError, match=message):
        DPSparseGPClassifier(**{"X_bounds": (-2, 2), **parameters}).fit(X, y)
    assert not ledger.entries


def test_ledger_is_charged_once_and_before_the_records():
    X, y = make_moons(300, noise=0.2, random_state=0)
    model = DPSparseGPClassifier(X_bounds=(-2, 2), classes=[0, 1])
    with PrivacyLedger(epsilon=1.1, delta=1e-5) as ledger:
        assert model.fit(X, y).privacy_.status == "proved"
        with pytest.raises(BudgetExceededError):
            clone(model).fit(X, y)
    assert len(ledger.entries) == 1
    bad = np.where(np.arange(300)[:, None] == 7, np.nan, X)
    with (
        PrivacyLedger(epsilon=1.1, delta=1e-5) as ledger,
        pytest.raises(ValueError, match="NaN") as info,
    ):
        DPSparseGPClassifier(X_bounds=(-2, 2), classes=[0, 1]).fit(bad, y)
    assert "7" not in str(info.value)
    assert len(ledger.entries) == 1


@pytest.mark.slow
def test_check_estimator():
    model = DPSparseGPClassifier(X_bounds=(-3, 3), inducing_points=9, epsilon=50.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(model, on_skip=None, on_fail=None)
    failures = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    assert failures == {}


def test_many_columns_that_act_linearly_are_learnt(monkeypatch):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X[:, :10])

    def accuracy():
        return fitted(X, y, X_bounds=(-4, 4), classes=[0, 1]).score(X, y)

    learnt = accuracy()
    assert learnt > 0.85
    # Planted in the family: without the linear kernel there is nothing to learn with.
    put(
        monkeypatch,
        "sparse classifier: label_family",
        lambda Z: KernelFamily.of(label_family(Z).kernels[:4]),
    )
    assert accuracy() < learnt - 0.05


def test_noise_that_hides_every_record_leaves_probabilities():
    X = np.random.default_rng(0).uniform(-2, 2, (60, 3))
    small = {"inducing_points": 3, "X_bounds": (-2, 2), "epsilon": 0.1, "random_state": 5}
    model = fitted(X, X[:, 0] > 0, classes=[False, True], **small)
    assert model.reliability_ == 0.2  # the smallest
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
