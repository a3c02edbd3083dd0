"""The same likelihood-ratio audit for every release: what it proves, and what it would notice.

Each entry releases on a worst pair of neighbours. The bound holds with probability 1 - 1e-6 and
must not contradict the claim; with the noise of a larger budget under the same claim, a planted
bug, it must. Fits of the same data replay its public work and exact losses.
``PYTHONPATH=tests python tests/attacks/test_audit_table.py`` prints the table of docs/audits.md.
Whole fits are slow, so their runs are few and their bounds weak; sharp audits of the same
releases are test_selection_audit.py (searchers), test_gaussian_trajectory_audit.py,
test_kusner_audit.py, test_gibo_audit.py, test_sparse_gp_audit.py, test_kernel_choice_audit.py
(regressors) and test_projection_attacks.py (rows).
"""

import math
import sys
import warnings
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.gaussian_process.kernels import RBF

from _support.bounds import gaussian_delta
from _support.internals import (
    KernelFamily,
    KernelMethod,
    WhitenedMethod,
    choice_sensitivity,
    private_prior_mean,
    score_sensitivity,
    streamed_sums,
)
from _support.planted import put
from _support.repeated import RepeatedRelease
from _support.replay import replay_evaluations
from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
)
from skdpbo.audit import audit_samples, last_digits, off_lattice
from skdpbo.gaussian_process import PrivateProjection
from skdpbo.mechanisms import (
    BoundedMean,
    ClippedMean,
    ClipQuantile,
    CoinPressMean,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    GaussianMechanism,
    L2Laplace,
    PermuteAndFlip,
    noise_source,
)
from skdpbo.model_selection import Descent, GaussianTrajectory, Kusner2015, Kusner2015Lipschitz
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu, mu_from_epsilon

ALARM = 1e-6


@dataclass
class Release:
    """A release under audit.

    `sample(factor, which, n)` makes n releases on data set 0 or 1, with `factor` times the
    budget that is claimed (in epsilon, or in mu for Gaussian releases).
    """

    sample: object
    claim: PrivacyGuarantee
    n: int = 4000
    caught: float = 2.0  # a factor that the audit finds
    least: float = 0.5  # share of the claim that it proves at least
    step: float | None = None  # lattice of the released numbers

    @property
    def target(self):
        return "epsilon" if self.claim.mu is None else "mu"

    @property
    def claimed(self):
        return getattr(self.claim, self.target)

    def samples(self, factor=1.0):
        return [self.sample(factor, which, self.n) for which in (0, 1)]

    def audit(self, samples):
        return audit_samples(*samples, target=self.target, false_alarm=ALARM)

    def bound(self, factor=1.0):
        return getattr(self.audit(self.samples(factor)), self.target)

    def is_caught(self, factor):
        """Return whether the claim is refuted, by a quarter of the runs or by more of them."""
        samples = [], []
        for _ in range(4):
            for which, runs in enumerate(samples):
                runs.extend(self.sample(factor, which, self.n // 4))
            if self.audit(samples).violates(self.claim):
                return True
        return False


def gdp(mu, delta=1e-5):
    """A claim of mu-GDP."""
    epsilon = epsilon_from_mu(mu, delta)
    return PrivacyGuarantee(epsilon=epsilon, delta=gaussian_delta(mu, epsilon) * 1.000001, mu=mu)


def pure(epsilon):
    return PrivacyGuarantee(epsilon=epsilon)


def repeated(make, *data):
    """Sample by calling one release again and again."""

    def sample(factor, which, n):
        release = make(factor)
        return [release(data[which]) for _ in range(n)]

    return sample


def batched(make, *values):
    """Sample by one call on an array of equal values."""
    return lambda factor, which, n: np.asarray(make(factor).release(np.full(n, values[which])))


# Mechanisms
LOSSES = [1] + [0] * 4
OTHERS_LOSE = [1 - loss for loss in LOSSES]


def selection(kind):
    return repeated(lambda k: lambda u: kind(2 * k, 1).select(u) == 0, LOSSES, OTHERS_LOSE)


def l2_rows(factor, which, n):
    z = L2Laplace(factor, 2.0, 2).release(np.tile([2.0 * which, 0.0], (n, 1)))
    return np.linalg.norm(z - [2.0, 0.0], axis=1) - np.linalg.norm(z, axis=1)


def clipped(factor):
    mean = ClippedMean(clip=1.0, n_records=10, mu=factor)
    return lambda rows: float(mean.release(rows)[0])


FAR, OTHERS = 1e4, np.linspace(-3, 3, 9)
RECORDS = np.append(OTHERS, FAR), np.append(OTHERS, -FAR)
LAPLACE, NORMAL = DiscreteLaplace(1.0, 1), GaussianMechanism(mu=1.0, sensitivity=1.0)
MECHANISMS = {
    "PermuteAndFlip, 5 candidates": Release(
        selection(PermuteAndFlip), pure(2.0), n=6000, caught=2.0, least=0.3
    ),
    "ExponentialMechanism, 5 candidates": Release(
        selection(ExponentialMechanism), pure(2.0), n=6000, caught=2.0, least=0.3
    ),
    "DiscreteLaplace": Release(
        batched(lambda k: DiscreteLaplace(k, 1), 0, 1),
        LAPLACE.guarantee,
        n=20_000,
        caught=1.5,
        least=0.7,
        step=1.0,
    ),
    "DiscreteGaussian": Release(
        batched(lambda k: DiscreteGaussian(k, 1e-5, 4), 0, 4),
        DiscreteGaussian(1.0, 1e-5, 4).guarantee,
        n=10_000,
        caught=6.0,
        least=0.0,
        step=1.0,
    ),
    "GaussianMechanism": Release(
        batched(lambda k: GaussianMechanism(mu=k, sensitivity=1.0), 0.0, 1.0),
        gdp(1.0),
        n=20_000,
        caught=1.5,
        least=0.7,
        step=NORMAL.step,
    ),
    "L2Laplace, 2 dimensions": Release(l2_rows, pure(1.0), n=20_000, caught=2.0, least=0.5),
    "ClippedMean": Release(
        repeated(clipped, *(records[:, None] for records in RECORDS)),
        gdp(1.0),
        n=800,
        caught=3.0,
        least=0.1,
    ),
    "ClipQuantile": Release(
        repeated(lambda k: ClipQuantile(n_records=10, mu=k).release, 4, 5),
        gdp(1.0),
        n=800,
        caught=3.0,
        least=0.1,
    ),
    "BoundedMean": Release(
        repeated(lambda k: BoundedMean(mu=k, low=-1.0, high=1.0).release, *RECORDS),
        gdp(1.0),
        n=600,
        caught=3.0,
        least=0.0,
    ),
    "CoinPressMean, last centre": Release(
        repeated(
            lambda k: CoinPressMean(mu=k, center=0.0, radius=20.0, n_steps=2).release, *RECORDS
        ),
        gdp(1.0),
        n=600,
        caught=4.0,
        least=0.0,
    ),
}


# Searchers
X_PUBLIC, Y_PUBLIC = np.zeros((4, 1)), np.array([0, 1, 0, 1])
X_VAL = np.zeros((1, 1))


class Constant(ClassifierMixin, BaseEstimator):
    """Candidate 0 predicts 0, the others 1."""

    def __init__(self, k=0):
        self.k = k

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.array([0, 1]), 1
        return self

    def predict(self, X):
        return np.full(len(X), min(self.k, 1))


def search(kind, read, data, epsilon, **params):
    """Whole fits of a searcher on one protected record."""

    def sample(factor, which, n):
        budget = epsilon_from_mu(factor * mu_from_epsilon(epsilon, 1e-5), 1e-5)
        fitted = kind(epsilon=budget if params.get("delta") else factor * epsilon)
        with warnings.catch_warnings(), config_context(skip_parameter_validation=True):
            warnings.simplefilter("ignore")
            return [
                read(fitted.fit(X_PUBLIC, Y_PUBLIC, X_val=X_VAL, y_val=data[which]))
                for _ in range(n)
            ]

    return sample


def chooser(kind, *, n=1000, caught=4.0, epsilon=1.0, **params):
    """The release of a fit, repeated: `test_selection_audit` shows that whole fits do the same."""

    def make(epsilon):
        fewer = {} if kind is DPGridSearchCV else {"n_iter": 2}
        space = {"k": [0, 1]}
        budget = {"epsilon": epsilon, "score_fraction": 0.5, "refit": False}
        return kind(Constant(), space, **budget, **fewer, **params)

    def sample(factor, which, n):
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            warnings.simplefilter("ignore")
            repeated = RepeatedRelease(patch, "public training: PublicTraining.release")
            make(factor * epsilon).fit(X_PUBLIC, Y_PUBLIC, X_val=X_VAL, y_val=[which])
            made = [repeated.again() for _ in range(n)]
        return [f"{index == 0} {score.value > 0.5}" for index, score in made]

    return Release(sample, make(epsilon).privacy_guarantee(), n, caught, 0.0)


def trajectory():
    def make(epsilon):
        return DPBayesSearchCV(
            Constant(),
            {"k": [1, 2, 3]},
            n_iter=3,
            epsilon=epsilon,
            guide=False,
            refit=False,
            mechanism=GaussianTrajectory(n_private=3),
            n_initial_points=3,
        )

    def read(fit):
        return float(np.nansum(fit.cv_results_["private_validation_score"]))

    sample = search(make, read, ([0], [1]), 1.0, delta=True)
    return Release(sample, make(1.0).privacy_guarantee(), 200, 16.0, 0.0)


class Slope(RegressorMixin, BaseEstimator):
    def __init__(self, a=0.0):
        self.a = a

    def fit(self, X, y):
        self.n_features_in_ = 1
        return self

    def predict(self, X):
        return np.full(len(X), self.a)


def gradients():
    """Squared losses that rise with `a` for target 0, and fall for target 1."""

    def make(epsilon):
        return DPGIBOSearchCV(
            Slope(),
            {"a": (0.0, 1.0)},
            n_iter=1,
            epsilon=epsilon,
            descent=Descent(clip=0.05, batch_size=2),
            init=[0.5],
            loss_bound=1.0,
            score_fraction=0.0,
            end_fraction=0.0,
            guide=False,
            refit=False,
        )

    def read(fit):
        return float(fit.descent_.gradients[0, 0])

    sample = search(make, read, ([0.0], [1.0]), 1.0, delta=True)
    return Release(sample, make(1.0).privacy_guarantee(), 200, 16.0, 0.0)


def kusner_choice(n_candidates=5, epsilon=1.0, delta=1e-5):
    """Scores scaled so that the worst pair in [0, 1] differs by what the formulas allow."""
    public = {"n_candidates": n_candidates, "n_iter": n_candidates, "delta": delta}
    scale = 1 / choice_sensitivity(**public, correlation=0.99)
    mechanism = Kusner2015(
        kernel=RBF(1e-3),
        information_gain=100.0,
        noise_variance=1e-4,
        score_center=1.0,
        score_scale=scale,
    )
    X = np.linspace(0, 1, n_candidates)[:, None]
    gains = np.zeros(n_candidates), np.ones(n_candidates)
    gains[0][0], gains[1][0] = 1.0, 0.0
    source = noise_source()

    def make(factor):
        budget = {"epsilon": factor * epsilon, "delta": delta, "score_fraction": 0.0}
        return lambda g: (
            mechanism.search(X, g.__getitem__, n_iter=n_candidates, source=source, **budget)[0] == 0
        )

    return Release(repeated(make, *gains), pure(epsilon), 300, 10.0, 0.0)


def kusner_score(noise_variance, epsilon=1.0):
    delta = 1e-5 * 0.99
    public = {"n_candidates": 1, "n_iter": 2, "delta": delta, "correlation": 0.99}
    scale = 1 / score_sensitivity(
        **public, noise_variance=noise_variance, information_gain=100.0, constants="corrected"
    )
    mechanism = Kusner2015(
        kernel=RBF(1e-3), information_gain=100.0, noise_variance=noise_variance, score_scale=scale
    )
    source = noise_source()

    def make(factor):
        budget = {"epsilon": factor * epsilon, "delta": 1e-5, "score_fraction": 0.99}
        return lambda gain: float(
            mechanism.search([[0.5]], lambda k: gain, n_iter=2, source=source, **budget)[1] > 0.5
        )

    return Release(repeated(make, 1.0, 0.0), pure(epsilon), 500, 5.0, 0.0)


def kusner_lipschitz(epsilon=1.0, units=10_000):
    mechanism = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="alpha")
    known = {"lambdas": [4.0], "units": units, "bound": 1.0, "n_records": 1}

    def make(factor):
        return lambda total: mechanism.release_score(
            total, source=noise_source(), epsilon=factor * epsilon, **known
        )

    return Release(repeated(make, 3 * units // 4, units // 4), pure(epsilon), 2000, 2.0, 0.4)


SEARCHERS = {
    "DPGridSearchCV, choice and score": chooser(DPGridSearchCV, guide=False),
    "DPGridSearchCV, exponential": chooser(DPGridSearchCV, guide=False, mechanism="exponential"),
    "DPRandomizedSearchCV": chooser(DPRandomizedSearchCV, guide=False),
    "DPBayesSearchCV, permute-and-flip": chooser(
        DPBayesSearchCV, n=300, caught=8.0, cv=2, prior_weight=0
    ),
    "DPBayesSearchCV, gaussian": trajectory(),
    "DPBayesSearchCV, Kusner2015, choice": kusner_choice(),
    "DPBayesSearchCV, Kusner2015, score": kusner_score(0.01),
    "DPBayesSearchCV, Kusner2015Lipschitz, score": kusner_lipschitz(),
    "DPGIBOSearchCV, one gradient": gradients(),
}


# Regressors and rows
Z = np.array([[0.0], [1.0], [2.5]])
X_OTHERS, Y_OTHERS = np.array([[0.3], [1.9], [2.2]]), np.array([[0.1], [-0.8], [1.0]])
WORST = ((0.0, 1.0), (math.sqrt(2 * math.log(2)), -1.0))  # features of correlation 1 / 2


def upper(table):
    return table[np.triu_indices(len(table))]


def whitened():
    def read(released):
        sums = [upper(released.B), released.A.ravel(), released.yy.ravel()]
        return np.concatenate(sums)

    return sums_of_records(WhitenedMethod, read, {"posterior": "naive"})


def kernel():
    def read(released):
        return np.concatenate([upper(released.B), released.A.ravel()])

    settings = {"posterior": "naive", "sensitivity": "certified", "ratio": 1.0}
    return sums_of_records(KernelMethod, read, settings)


def sums_of_records(kind, read, settings):
    """Noisy sums over four records, of which the last one is replaced."""

    def make(factor):
        family, half_width = KernelFamily.of([RBF(1.0)]), np.ones(1)
        method = kind(family, Z, mu=factor, half_width=half_width, n_records=4, **settings)
        rows = method.rows(np.zeros(1))
        grams = {record: exact_sums(rows, record) for record in WORST}
        return lambda record: read(method.release(grams[record], None))

    return Release(repeated(make, *WORST), gdp(1.0), 800, 4.0, 0.0)


def exact_sums(rows, record):
    X = np.concatenate([X_OTHERS, [[record[0]]]])
    y = np.concatenate([Y_OTHERS, [[record[1]]]])
    return streamed_sums(rows, X, y, rows.radius, chunk_size=10)


def prior_mean():
    low, high = np.full(1, -1.0), np.full(1, 1.0)
    targets = [np.r_[OTHERS / 3, [end]][:, None] for end in (1.0, -1.0)]

    def make(factor):
        known = {"mu": factor, "scale": None, "source": noise_source()}
        return lambda y: float(private_prior_mean(y, 10 * low, 10 * high, **known)[0])

    return Release(repeated(make, *(10 * t for t in targets)), gdp(1.0), 600, 4.0, 0.0)


def whole_regressor():
    """Fits of one record of the four; what is looked at is the mean at the inducing points."""

    def make(factor):
        budget = epsilon_from_mu(factor, 1e-5)
        gp = DPSparseGPRegressor(
            RBF(1.0), inducing_points=Z, y_bounds=(-1, 1), epsilon=budget, noise_variance=0.05
        )
        return lambda record: (
            gp.fit(np.r_[X_OTHERS, [[record[0]]]], np.r_[Y_OTHERS[:, 0], record[1]]).mean_
        )

    return Release(repeated(make, (0.0, 1.0), (0.0, -1.0)), gdp(1.0), 200, 8.0, 0.0)


def rows(mechanism):
    """A row of a curator's release, moved by the displacement."""

    def make(factor):
        epsilon = factor if mechanism == "l2_laplace" else epsilon_from_mu(factor, 1e-5)
        curator = PrivateProjection(
            mechanism=mechanism, epsilon=epsilon, data_norm=4.0, displacement=1.0
        )

        def release(X):
            z = curator.fit(X).release_.Z[0]
            return float(np.linalg.norm(z - [1.0, 0.0]) - np.linalg.norm(z))

        return release

    data = np.zeros((2, 2)), np.array([[1.0, 0.0], [0.0, 0.0]])
    claim = pure(1.0) if mechanism == "l2_laplace" else gdp(1.0)
    return Release(repeated(make, *data), claim, 400, 6.0, 0.0)


REGRESSORS = {
    "DPSparseGPRegressor, whitened moments": whitened(),
    "DPSparseGPRegressor, kernel statistics": kernel(),
    "DPSparseGPRegressor, private prior mean": prior_mean(),
    "DPSparseGPRegressor, mean_ of whole fits": whole_regressor(),
    "PrivateProjection, l2_laplace rows": rows("l2_laplace"),
    "PrivateProjection, gaussian rows": rows("gaussian"),
}
RELEASES = {**MECHANISMS, **SEARCHERS, **REGRESSORS}
EVERY = pytest.mark.parametrize("name", RELEASES)


def reproducible(monkeypatch, seed=0):
    """One stream of noise for a whole test: a planted bug is caught always or never."""
    stream = np.random.RandomState(seed)
    put(monkeypatch, "noise source: os", SimpleNamespace(urandom=stream.bytes))


@pytest.mark.slow
@EVERY
def test_no_claim_is_contradicted(name, monkeypatch):
    replay_evaluations(monkeypatch)
    release = RELEASES[name]
    assert not release.audit(release.samples()).violates(release.claim)


@pytest.mark.slow
@EVERY
def test_the_audit_has_power(name, monkeypatch):
    reproducible(monkeypatch)
    replay_evaluations(monkeypatch)
    release = RELEASES[name]
    if release.least > 0:
        assert release.bound() >= release.least * release.claimed
    # Planted bug: the noise of a larger budget
    assert release.is_caught(release.caught)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", [n for n, r in RELEASES.items() if r.step is not None])
def test_last_digits_prove_nothing(name):
    release = RELEASES[name]
    samples = [release.sample(1.0, which, 4000) for which in (0, 1)]
    assert sum(off_lattice(each, release.step) for each in samples) == 0
    for step in (None, release.step):
        digits = [last_digits(each, step) for each in samples]
        assert not audit_samples(*digits, false_alarm=ALARM).violates(release.claim)


def line(name, release):
    """One row of the table."""
    columns = [
        name,
        f"{release.target} = {release.claimed:.3g}",
        f"{release.bound():.3g}",
        f"{release.bound(release.caught):.3g} at {release.caught:g} times",
        release.n // 2,
    ]
    return "| " + " | ".join(map(str, columns)) + " |"


if __name__ == "__main__":
    print("| release | claim | proved | proved of a planted bug | runs |")
    print("|---|---|---|---|---|")
    with pytest.MonkeyPatch.context() as patch:
        replay_evaluations(patch)
        for each in RELEASES:
            if len(sys.argv) < 2 or sys.argv[1] in each:
                print(line(each, RELEASES[each]), flush=True)
