"""The modeler: GP-UCB as published, on the release and the answers alone."""

import math
import pickle

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from _support.internals import noisy_inputs
from skdpbo.gaussian_process import GPUCBModeler, ProjectionRelease
from skdpbo.gaussian_process.outsourced import Ball, Box
from skdpbo.privacy import PrivacyGuarantee

PUBLIC = PrivacyGuarantee(epsilon=1.0, protects="rows", mechanism="test")
SETTING = {"kernel": 2.0 * RBF(1.5), "noise_variance": 0.01}


def released(Z, *, noise_std=0.3, **fields):
    values = {"domain": None, "projection": None, "mechanism": "l2_laplace"}
    values |= {"guarantee": PUBLIC, "displacement": 1.0, "data_norm": 5.0}
    if "answer_noise_std" in fields:
        values["answer_guarantee"] = PUBLIC
    return ProjectionRelease(Z=Z, noise_std=noise_std, **(values | fields))


@pytest.fixture
def release():
    return released(np.random.default_rng(0).normal(size=(60, 2)))


def f(rows):
    return np.sin(rows[:, 0]) + np.cos(rows[:, 1])


def run(modeler, y, n_iter):
    requested = []
    for _ in range(n_iter):
        requested.append(modeler.ask())
        modeler.tell(requested[-1], y[requested[-1]])
    return requested


def by_hand(release, requested, y, t, setting):
    """Choose row t + 1 by the equations of the paper and the whole covariance matrix."""
    noise, rows = setting["noise_variance"], requested[:t]
    K = noisy_inputs(setting["kernel"], release.noise_std, 2)(release.Z)
    weights = np.linalg.solve(K[np.ix_(rows, rows)] + noise * np.eye(t), K[rows])
    mean = y[rows] @ weights
    std = np.sqrt(np.diagonal(K) - np.einsum("ij,ij->j", K[rows], weights))
    beta = 2 * math.log(release.n_rows * (t + 1) ** 2 * math.pi**2 / (6 * 0.05 / 2))
    bound = mean + math.sqrt(beta) * std
    bound[rows] = -np.inf
    return int(bound.argmax()), mean, std


def test_every_choice_is_that_of_algorithm_2(release):
    y = f(release.Z)
    modeler = GPUCBModeler(release, sqrt_beta=None, **SETTING)
    requested = run(modeler, y, 20)
    assert len(set(requested)) == 20
    for t in range(1, 20):
        assert requested[t] == by_hand(release, requested, y, t, SETTING)[0]
    _, mean, std = by_hand(release, requested, y, 20, SETTING)
    np.testing.assert_allclose(modeler.predict(), mean, atol=1e-10)
    np.testing.assert_allclose(modeler.predict(return_std=True)[1], std, atol=1e-7)


def test_choices_are_a_function_of_release_and_answers(release):
    y = f(release.Z)
    first = run(GPUCBModeler(release, **SETTING), y, 15)
    assert run(GPUCBModeler(release, **SETTING), y, 15) == first
    # answers that come from somewhere else make the same modeler
    given = GPUCBModeler(release, **SETTING)
    for row in first:
        given.tell(row, y[row])
    requested = GPUCBModeler(release, **SETTING)
    run(requested, y, 15)
    assert given.ask() == requested.ask()


def test_a_pickled_modeler_goes_on_where_it_was(release):
    y = f(release.Z)
    modeler = GPUCBModeler(release, **SETTING)
    run(modeler, y, 5)
    copied = pickle.loads(pickle.dumps(modeler))
    assert run(copied, y, 5) == run(modeler, y, 5)


def test_batches_are_chosen_as_if_means_had_been_answered(release):
    y = f(release.Z)
    modeler, imagined = (GPUCBModeler(release, **SETTING, sqrt_beta=2.0) for _ in range(2))
    for _ in range(3):
        batch = modeler.ask_batch(4)
        one_by_one = []
        for _ in range(4):
            one_by_one.append(imagined.ask())
            imagined.tell(one_by_one[-1], imagined.predict()[one_by_one[-1]])
        assert batch == one_by_one
        assert len(set(batch)) == 4
        for row in reversed(batch):
            modeler.tell(row, y[row])
        imagined = GPUCBModeler(release, **SETTING, sqrt_beta=2.0)
        for row in modeler.answers[0]:
            imagined.tell(row, y[row])


KERNELS = {
    "sum": 0.5 * RBF(0.7) + 1.5 * RBF(3.0) + ConstantKernel(0.3),
    "product": RBF(2.0) * (2.0 * RBF(3.0) + ConstantKernel(0.5)),
    "matern": 2.0 * Matern(1.5, nu=1.5),
    "rational": ConstantKernel(2.0) * RationalQuadratic(1.5, alpha=0.7),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_posteriors_of_isotropic_kernels_on_exact_rows_are_scikit_learns(kernel):
    Z = np.random.default_rng(0).normal(size=(60, 2))
    modeler = GPUCBModeler(released(Z, noise_std=0.0), kernel=kernel, noise_variance=0.01)
    for row in range(20):
        modeler.tell(row, f(Z)[row])
    known = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(Z[:20], f(Z)[:20])
    mean, std = known.predict(Z, return_std=True)
    np.testing.assert_allclose(modeler.predict(), mean, atol=1e-4)
    np.testing.assert_allclose(modeler.posterior.std**2, std**2, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (2.0 * RBF([1.0, 2.0]), ValueError, "kernel must be isotropic"),
        (RBF() + Matern([1.0, 2.0]), ValueError, "kernel must be isotropic"),
        (DotProduct(), TypeError, "kernel must be made of .* got DotProduct"),
        (RBF() + WhiteKernel(), TypeError, "got WhiteKernel"),
        (ExpSineSquared(), TypeError, "got ExpSineSquared"),
        (RBF() ** 2, TypeError, "got Exponentiation"),
        (1.5, TypeError, "got float"),
        (RBF, TypeError, "kernel"),
        (RBF(-1.0), ValueError, "length_scale of kernel"),
        (RBF(math.nan), ValueError, "length_scale of kernel"),
        (RBF("1"), TypeError, "length_scale of kernel"),
        (Matern(nu=0.1), ValueError, "nu of kernel"),
        (Matern(nu=math.nan), ValueError, "nu of kernel"),
        (RationalQuadratic(alpha=0.0), ValueError, "alpha of kernel"),
        (ConstantKernel(-1.0) * RBF(), ValueError, "constant_value of kernel"),
        (ConstantKernel(0.0) * RBF(), ValueError, "kernel must have a variance"),
    ],
)
def test_other_kernels_are_refused_by_name(release, kernel, error, message):
    with pytest.raises(error, match=message):
        GPUCBModeler(release, kernel=kernel)


def test_batches_keep_the_limits_of_the_release():
    Z = np.random.default_rng(1).normal(size=(5, 2))
    modeler = GPUCBModeler(released(Z, n_answers=4), **SETTING)
    assert len(modeler.ask_batch(9)) == 4
    assert modeler.ask_batch(1) == [modeler.ask()]
    for row in modeler.ask_batch(3):
        modeler.tell(row, 0.0)
    (last,) = modeler.ask_batch(3)
    assert last not in modeler.answers[0]
    modeler.tell(last, 0.0)
    with pytest.raises(RuntimeError, match="allows"):
        modeler.ask_batch(2)
    with pytest.raises(ValueError, match="size"):
        modeler.ask_batch(0)
    with pytest.raises(TypeError, match="size"):
        modeler.ask_batch(1.5)


def test_ask_is_repeatable_and_the_first_row_is_public(release):
    modeler = GPUCBModeler(release, **SETTING)
    assert modeler.ask() == modeler.ask() == GPUCBModeler(release, kernel=RBF(9.0)).ask()
    firsts = {GPUCBModeler(release, **SETTING, random_state=s).ask() for s in range(20)}
    assert len(firsts) > 5


def test_minimising_is_maximising_the_negative(release):
    y = f(release.Z)
    up = GPUCBModeler(release, prior_mean=0.5, **SETTING)
    down = GPUCBModeler(release, prior_mean=-0.5, maximize=False, **SETTING)
    assert run(up, y, 12) == run(down, -y, 12)
    np.testing.assert_allclose(up.predict(), -down.predict(), atol=1e-12)
    assert up.best() == down.best()
    assert up.best("mean") == down.best("mean")
    rows, answers = down.answers
    np.testing.assert_array_equal(answers, -y[rows])


def test_best_row(release):
    y = f(release.Z)
    modeler = GPUCBModeler(release, **SETTING)
    with pytest.raises(RuntimeError, match="no answer"):
        modeler.best()
    requested = run(modeler, y, 10)
    assert modeler.best() == max(requested, key=lambda row: y[row])
    assert modeler.best("mean") == modeler.predict().argmax()
    with pytest.raises(ValueError, match="by must be"):
        modeler.best("score")


def test_domain_and_answer_noise_are_used():
    Z = np.array([[3.0, 0.0], [0.5, 0.2], [0.0, -9.0], [0.1, 0.1]])
    boxed = GPUCBModeler(released(Z, domain=Box((-1, -1), (1, 1))), **SETTING)
    np.testing.assert_array_equal(boxed.rows, [[1, 0], [0.5, 0.2], [0, -1], [0.1, 0.1]])
    balled = GPUCBModeler(released(Z, domain=Ball(2.0)), **SETTING)
    np.testing.assert_allclose(np.linalg.norm(balled.rows, axis=1).max(), 2.0)
    noisy = GPUCBModeler(released(Z, answer_noise_std=0.5), **SETTING)
    assert noisy.posterior.noise_variance == pytest.approx(0.01 + 0.25)


def test_limits_of_the_release_are_kept():
    Z = np.random.default_rng(1).normal(size=(4, 2))
    modeler = GPUCBModeler(released(Z, answers_per_row=2, n_answers=7), sqrt_beta=2.0, **SETTING)
    requested = run(modeler, f(Z), 7)
    assert max(np.bincount(requested)) == 2
    assert modeler.n_remaining == 0
    with pytest.raises(RuntimeError, match="all the answers"):
        modeler.ask()
    before = modeler.predict()
    with pytest.raises(RuntimeError, match="no further answer"):
        modeler.tell(0, 1.0)
    np.testing.assert_array_equal(modeler.predict(), before)

    once = GPUCBModeler(released(Z), **SETTING)
    assert once.n_remaining == 4
    assert sorted(run(once, f(Z), 4)) == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="all the answers"):
        once.ask()


def test_a_row_that_is_used_up_is_refused_while_others_are_left(release):
    modeler = GPUCBModeler(release, **SETTING)
    modeler.tell(3, 0.0)
    with pytest.raises(RuntimeError, match="row 3"):
        modeler.tell(3, 0.0)
    assert len(modeler) == 1


@pytest.mark.parametrize(
    ("index", "y", "error"),
    [
        (60, 0.0, IndexError),
        (-1, 0.0, IndexError),
        (1.5, 0.0, TypeError),
        (1, "0", TypeError),
        (1, True, TypeError),
        (1, math.nan, ValueError),
        (1, math.inf, ValueError),
        (1, 1.1e150, ValueError),
        (True, 0.0, TypeError),
    ],
)
def test_bad_answers_are_refused_and_change_nothing(release, index, y, error):
    modeler = GPUCBModeler(release, **SETTING)
    with pytest.raises(error, match="index" if y == 0 else "y must"):
        modeler.tell(index, y)
    assert len(modeler) == 0
    assert modeler.n_remaining == 60


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"noise_variance": math.nan}, "noise_variance"),
        ({"prior_mean": math.nan}, "prior_mean"),
        ({"delta_ucb": 1.0}, "delta_ucb"),
        ({"sqrt_beta": math.inf}, "sqrt_beta"),
        ({"delta_ucb": "0.1"}, "delta_ucb"),
        ({"maximize": 0}, "maximize"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": 0.5}, "random_state"),
    ],
)
def test_bad_parameters_are_refused(release, parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        GPUCBModeler(release, **(SETTING | parameters))


def test_only_a_release_is_accepted():
    with pytest.raises(TypeError, match="ProjectionRelease"):
        GPUCBModeler(np.zeros((3, 2)), kernel=RBF())


def test_noise_of_the_rows_is_counted():
    """Without the noisy-input kernel the modeler trusts rows that noise has shuffled."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-5, 5, (400, 2))
    Z = X + rng.normal(0, 1.5, X.shape)
    rows = rng.choice(400, 100, replace=False)
    aware, naive = (
        GPUCBModeler(released(Z, noise_std=std), kernel=RBF(2.0), noise_variance=1e-5)
        for std in (1.5, 0.0)
    )
    y = f(X)
    for modeler in (aware, naive):
        for row in rows:
            modeler.tell(row, y[row])
    others = np.setdiff1d(np.arange(400), rows)

    def log_density(modeler):
        mean, std = (values[others] for values in modeler.predict(return_std=True))
        return np.mean(-0.5 * ((y[others] - mean) / std) ** 2 - np.log(std))

    assert log_density(aware) > -1.0
    assert log_density(naive) < -10.0
