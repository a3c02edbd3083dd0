"""A kernel of the user's own meets protected rows: it is isolated, and the guarantee says so."""

import copy
import multiprocessing
import pickle
import threading
import warnings

import joblib
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Kernel,
    Matern,
    NormalizedKernelMixin,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    StationaryKernelMixin,
    Sum,
)

from _support.forks import forking
from _support.internals import kernel_chunks
from _support.planted import put
from skdpbo.gaussian_process import DPSparseGPClassifier, DPSparseGPRegressor
from skdpbo.privacy import PrivacyLedger

GP = {"inducing_points": 5, "X_bounds": (-2, 2)}
N, SECRET = 40, 1.2345678
X = np.random.default_rng(0).uniform(-2, 2, (N, 1))
X[3] = SECRET
Y = np.sin(X[:, 0])


class Own(NormalizedKernelMixin, StationaryKernelMixin, Kernel):
    """RBF kernel."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        D = cdist(X, X if Y is None else Y)
        return np.exp(-((D / self.scale(X, D)) ** 2) / 2)

    def scale(self, X, D):
        return 1.0


class Tells(Own):
    """It keeps, prints, warns of and changes the rows, and raises for one of them."""

    def scale(self, X, D):
        if len(X) <= N:
            self.rows_ = X.copy()
        if SECRET in X:
            print(f"row {SECRET}")
            warnings.warn(f"row {SECRET}", stacklevel=2)
            X[:] = 0.0
            raise ValueError(f"row {SECRET}")
        return 1.0


class Median(Own):
    """The median heuristic, of whatever rows it is given."""

    def scale(self, X, D):
        return np.median(D)


class Duck:
    """No kernel of scikit-learn's base class; its sums and products take it all the same."""

    requires_vector_input, hyperparameters = True, []

    def __init__(self, kernel):
        self.kernel = kernel

    def get_params(self, deep=True):
        return {"kernel": self.kernel}

    def __call__(self, X, Y=None, eval_gradient=False):
        return self.kernel(X, Y)

    def diag(self, X):
        return np.ones(len(X))

    def is_stationary(self):
        return True


IN_PARTS = [lambda duck: Sum(RBF(), duck), lambda duck: 2.0 * Product(duck, RBF())]
IN_PARTS.append(lambda duck: Exponentiation(duck, 2))


def regressor(kernel, **params):
    return DPSparseGPRegressor(kernel, y_bounds=(-1, 1), **GP, **params)


def fit(kernel):
    return regressor(kernel).fit(X, Y)


@pytest.mark.parametrize(
    "kernel",
    [
        None,
        [RBF(), 2.0 * Matern(nu=0.7) + DotProduct() ** 2],
        ExpSineSquared() * RationalQuadratic(),
        PairwiseKernel(metric="laplacian"),
    ],
)
def test_known_kernels_are_proved(kernel):
    assert regressor(kernel).privacy_guarantee().status == "proved"


def test_kernels_of_a_default_fit_are_known():
    assert regressor(fit(None).kernels_).privacy_guarantee().status == "proved"


@pytest.mark.parametrize(
    "kernel",
    [Own(), [RBF(), 2.0 * (Own() + RBF())], Own() ** 2, PairwiseKernel(metric=lambda x, z: x @ z)],
)
def test_other_kernels_are_an_assumption(kernel):
    before = regressor(kernel).privacy_guarantee()
    assert before.status == "conditional"
    name = "PairwiseKernel" if isinstance(kernel, PairwiseKernel) else "Own"
    assert before.assumptions[-1].endswith(f"verified: {name}")


@pytest.mark.parametrize("build", IN_PARTS)
def test_parts_of_no_base_class_are_an_assumption_and_isolated(build, capsys):
    kernel = build(Duck(Tells()))
    before = regressor(kernel).privacy_guarantee()
    assert before.status == "conditional"
    assert before.assumptions[-1].endswith("verified: Duck")
    assert traces(capsys, kernel) == ([], False, False)
    with pytest.raises(ValueError, match="looks at several rows at once"):
        fit(build(Duck(Median())))


def test_the_statement_before_a_fit_is_that_of_the_fit():
    after = fit(Own()).privacy_
    before = regressor(Own()).privacy_guarantee()
    assert (after.status, after.assumptions) == (before.status, before.assumptions)
    classifier = DPSparseGPClassifier(Own(), classes=[0, 1], **GP)
    assert classifier.privacy_guarantee(groups=True).status == "conditional"
    assert classifier.fit(X, Y > 0).privacy_.status == "conditional"


def traces(capsys, kernel=None):
    before = X.copy()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted, error = None, None
        try:
            fitted = fit(kernel or Tells())
        except ValueError as raised:
            error = str(raised)
    reported = [*map(str, (w.message for w in caught)), error or "", capsys.readouterr().out]
    changed = not np.array_equal(X, before)
    X[:] = before
    return (
        [t for t in reported if str(SECRET) in t],
        changed,
        X[3].tobytes() in pickle.dumps(fitted),
    )


def test_nothing_that_a_kernel_does_with_rows_leaves(capsys):
    assert traces(capsys) == ([], False, False)


def test_a_kernel_without_isolation_is_found(monkeypatch, capsys):
    put(monkeypatch, "features: foreign_kernels", lambda kernel: ())
    reported, changed, _ = traces(capsys)
    assert len(reported) == 3
    assert changed


class Features:
    def __init__(self, kernel):
        self.kernel, self.Z = kernel, np.linspace(-2, 2, 5)[:, None]


def test_a_row_without_a_value_changes_no_bit_of_the_others():
    kernel, others = Tells(), np.delete(np.arange(N), 3)
    chunks, scale = kernel_chunks(Features(kernel), np.float64)
    found = scale * chunks(X, chunks.workspace(N))
    assert np.isnan(found[3]).all()
    np.testing.assert_array_equal(found[others], kernel(X[others], Features(kernel).Z))


def test_a_kernel_that_mixes_rows_costs_nothing():
    refused = pytest.raises(ValueError, match="Median looks at several rows at once")
    with PrivacyLedger(epsilon=1.0, delta=1e-4) as ledger, refused:
        fit(Median())
    assert ledger.spent().epsilon == 0


class OwnCopy(Own):
    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("kernel", [OwnCopy(), RBF() + OwnCopy()])
def test_a_kernel_that_is_its_own_copy_is_refused(kernel):
    with pytest.raises(TypeError, match="OwnCopy cannot be copied"):
        fit(kernel)


@pytest.mark.parametrize("estimator", [DPSparseGPRegressor(), DPSparseGPClassifier()])
@pytest.mark.parametrize("several", [False, True])
def test_cached_kernels_are_refused(estimator, several, tmp_path):
    kernel = PairwiseKernel(metric=joblib.Memory(tmp_path, verbose=0).cache(np.dot))
    estimator = clone(estimator).set_params(kernel=[RBF(), kernel] if several else kernel, **GP)
    with PrivacyLedger(epsilon=5.0) as ledger, pytest.raises(ValueError, match=r"joblib\.Memory"):
        estimator.fit(X, Y > 0)
    assert not ledger.entries


def test_a_kernel_that_cannot_do_public_points_costs_nothing():
    class Narrow(Own):
        def scale(self, X, D):
            if np.abs(X).max() > 100:
                raise ValueError("out of range")
            return 1.0

    refused = pytest.raises(ValueError, match="out of range")
    with PrivacyLedger(epsilon=1.0, delta=1e-4) as ledger, refused:
        fit(Narrow())
    assert ledger.spent().epsilon == 0


class Local(Own):
    """No number for far points."""

    def scale(self, X, D):
        return np.where(np.abs(X).max(axis=1, keepdims=True) > 100, np.nan, 1.0)


# Matern is not finite between a row and an inducing point at one place.
@pytest.mark.parametrize("kernel", [DotProduct(0.1) ** 0.5 + RBF(), Local(), Matern(nu=20)])
def test_a_kernel_without_a_value_for_public_points_costs_nothing(kernel):
    def gp(cls, **params):
        return cls(kernel, inducing_points=[[0.5], [1.0]], X_bounds=(-2, 2), **params)

    fits = [
        lambda: gp(DPSparseGPRegressor, y_bounds=(-1, 1)).fit(X, Y),
        lambda: gp(DPSparseGPClassifier, classes=[0, 1]).fit(X, Y > 0),
    ]
    with PrivacyLedger(epsilon=2.0, delta=1e-4) as ledger:
        for fitted in fits:
            with pytest.raises(ValueError, match="kernel must be finite on all points"):
                fitted()
    assert ledger.spent().epsilon == 0


def test_own_kernels_give_the_features_of_their_known_twin():
    points = np.linspace(-2, 2, 7)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            copy.deepcopy(regressor(kernel, random_state=0)).fit(X, Y) for kernel in (Own(), RBF())
        ]
    np.testing.assert_allclose(*(gp.predict(points) for gp in fits), atol=1e-4)


class Busy(Own):
    """It does something of its own when it sees the protected rows."""

    def __init__(self, deed=None):
        self.deed = deed

    def scale(self, X, D):
        if SECRET in X:
            self.deed()
        return 1.0


def ends(deed):
    """Whether a deed comes to an end."""
    thread = threading.Thread(target=deed, daemon=True)
    thread.start()
    thread.join(120)
    return not thread.is_alive()


def fit_own():
    fit(Own())


def test_a_kernel_may_fit_a_process_with_a_kernel():
    assert ends(lambda: fit(Busy(fit_own)))


@forking
def test_a_process_that_is_forked_meanwhile_may_fit_one(monkeypatch):
    inside, leave = threading.Event(), threading.Event()
    monkeypatch.setattr(Busy, "__deepcopy__", lambda kernel, memo: Busy(kernel.deed), raising=False)
    thread = threading.Thread(target=fit, args=[Busy(lambda: (inside.set(), leave.wait(120)))])
    thread.start()
    assert inside.wait(120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads
        child = multiprocessing.get_context("fork").Process(target=fit_own, daemon=True)
        child.start()
    child.join(60)
    code = child.exitcode  # None of one that waits for the thread
    child.kill()
    leave.set()
    thread.join()
    assert code == 0
