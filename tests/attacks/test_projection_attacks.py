"""Attacks on released rows, on answers and on what the curator's objects hold.

Recovery: what reveals every row of the published transform fails on ours. Likelihood ratios: lower
confidence bounds on the privacy loss (false alarms 1e-6) stay below the claim, come close to it,
and exceed it for planted mistakes.
"""

import math
import pickle
import re
import struct
import sys
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, make_pipeline

from _support.bounds import mu_at_least
from _support.planted import plant
from skdpbo.exceptions import VoidGuaranteeWarning
from skdpbo.gaussian_process import PrivateProjection, ProjectedGP

ALARM = 1e-6
OURS = ("l2_laplace", "gaussian")


def released(X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VoidGuaranteeWarning)
        return PrivateProjection(**parameters).fit(X).release_.Z


# Recovery of rows


def rows_within_25(n, d):
    X = np.random.default_rng(1).normal(size=(n, d))  # public randomness
    return X * (25 / np.linalg.norm(X, axis=1).max())


def column_residual(Z, X):
    """Largest part of Z outside of the span of 1 and the columns of X, relative to Z."""
    basis = np.column_stack([np.ones(len(X)), X])
    return np.abs(Z - basis @ np.linalg.lstsq(basis, Z, rcond=None)[0]).max() / np.abs(Z).max()


def recovered(Z, X, known):
    """Every row of X from the rows `known`, as z is an affine function of x."""
    basis = np.column_stack([X, np.ones(len(X))])[known]
    W = np.linalg.lstsq(basis, Z[known], rcond=None)[0]
    return (Z - W[-1]) @ np.linalg.pinv(W[:-1])


@pytest.mark.parametrize(
    ("n", "d", "r", "epsilon", "delta"),
    [(10_000, 2, 10, 3.0042, 1e-5), (2004, 2, 15, 1.0, 1e-4), (36_000, 3, 15, 0.01, 1e-5)],
)
def test_the_published_transform_is_broken(n, d, r, epsilon, delta):
    X = rows_within_25(n, d)
    neighbour = X.copy()
    neighbour[17, 0] += 1.0
    settings = {"mechanism": "kharkovskii2020", "n_components": r, "data_norm": 25.0}
    Z = released(X, epsilon=epsilon, delta=delta, **settings)
    assert column_residual(Z, X) <= 1e-12
    assert column_residual(Z, neighbour) >= 1e-4
    moved = X.copy()
    moved[17, 1] += 1e-8  # a hundred-millionth of the unit
    assert column_residual(Z, moved) > 1e4 * column_residual(Z, X)
    assert np.abs(recovered(Z, X, np.arange(d + 1)) - X).max() <= 2e-12 * 25


@pytest.mark.parametrize("mechanism", OURS)
def test_the_attacks_fail_on_ours(mechanism):
    X = rows_within_25(10_000, 2)
    neighbour = X.copy()
    neighbour[17, 0] += 1.0
    settings = {"mechanism": mechanism, "epsilon": 3.0042, "data_norm": 25.0}
    Z = released(X, **settings)
    std = PrivateProjection(**settings).fit(X[:1]).release_.noise_std
    residuals = [column_residual(Z, rows) for rows in (X, neighbour)]
    assert min(residuals) >= 1e-2
    assert residuals[0] == pytest.approx(residuals[1], rel=0.2)  # nothing tells them apart
    for known in (np.arange(3), np.arange(9999)):  # even all the others do not help
        error = np.abs(recovered(Z, X, known)[-1000:] - X[-1000:])
        assert np.median(error) > 0.4 * std


# Likelihood ratios


def interval(successes, trials):
    low = stats.beta.ppf(ALARM / 2, successes, trials - successes + 1) if successes else 0.0
    return low, stats.beta.isf(ALARM / 2, successes + 1, trials - successes)


def epsilon_lower_bound(first, second, delta=0.0):
    """Bound below epsilon from the event {statistic < 0}, of large probability for `first`."""
    p, _ = interval(int(np.sum(first < 0)), len(first))
    _, q = interval(int(np.sum(second < 0)), len(second))
    return math.log(max(p - delta, 1e-300) / q)


def samples(pair, n, **parameters):
    """Releases of two rows, n of each: the rows of one data set are released independently."""
    return [released(np.tile(row, (n, 1)), **parameters) for row in pair]


def audited_epsilon(pair=((0.0,), (1.0,)), n=20_000, **parameters):
    """Lower bound on the loss of l2-Laplace rows with one released column.

    In one dimension the event that the noisy row lies beyond the first one has probability 1/2
    for it, and e^-epsilon / 2 for a row `displacement` away: no event loses more.
    """
    parameters = {"epsilon": 1.0, "data_norm": 5.0, **parameters}
    first, second = samples(pair, n, **parameters)
    centre = PrivateProjection(**parameters).fit(np.array(pair)).exact_rows(np.array(pair))
    direction = np.sign(centre[1] - centre[0])
    return epsilon_lower_bound(
        ((first - centre[0]) * direction).ravel(), ((second - centre[0]) * direction).ravel()
    )


def audited_mu(pair=((0.0, 0.0), (0.6, 0.8)), n=20_000, **parameters):
    """Lower bound on mu of Gaussian rows, from their coordinate along the move."""
    first, second = samples(pair, n, mechanism="gaussian", data_norm=5.0, **parameters)
    direction = second.mean(axis=0) - first.mean(axis=0)
    return mu_at_least(first @ direction, second @ direction)


@pytest.mark.slow
def test_l2_laplace_rows_lose_what_is_claimed_and_not_more():
    assert 0.8 < audited_epsilon() <= 1.0
    assert 0.8 < audited_epsilon(((0.0,), (3.0,)), displacement=3.0) <= 1.0


@pytest.mark.slow
def test_l2_laplace_rows_have_metric_privacy():
    # half the move, half the loss; twice the move, twice the loss: metric privacy
    assert 0.35 < audited_epsilon(((0.0,), (0.5,))) <= 0.5
    assert 1.6 < audited_epsilon(((0.0,), (2.0,))) <= 2.0


@pytest.mark.slow
def test_rows_in_the_plane():
    """A cone about the first row's far side: most of the loss of two dimensions."""
    n = 20_000
    first, second = samples(((0.0, 0.0), (0.6, 0.8)), n, epsilon=2.0, data_norm=5.0)
    losses = [
        np.linalg.norm(Z - (0.6, 0.8), axis=1) - np.linalg.norm(Z, axis=1) for Z in (first, second)
    ]
    bounds = [epsilon_lower_bound(edge - losses[0], edge - losses[1]) for edge in (0.5, 0.8)]
    assert 1.2 < max(bounds) <= 2.0


def test_gaussian_rows_lose_what_is_claimed_and_not_more():
    claimed = PrivateProjection(mechanism="gaussian", epsilon=2.0).privacy_guarantee().mu
    assert 0.75 * claimed < audited_mu(epsilon=2.0) <= claimed
    assert audited_mu(((0.0, 0.0), (1.8, 2.4)), epsilon=2.0, displacement=3.0) <= claimed


@pytest.mark.slow
def test_projected_rows_lose_what_is_claimed_and_not_more():
    P = PrivateProjection(1, data_norm=5.0).fit(np.eye(4)).release_.projection
    pair = (np.zeros(4), P[:, 0] / np.linalg.norm(P))  # along the projection: the worst move
    assert 0.8 < audited_epsilon(pair, n_components=1) <= 1.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyRowsWarning")  # as it should
def test_replaced_rows_lose_what_is_claimed_and_not_more():
    claimed = PrivateProjection(epsilon=0.5, data_norm=1.0).replacement_guarantee(1).epsilon
    assert claimed == pytest.approx(1.0)
    assert 0.8 < audited_epsilon(((-9.0,), (9.0,)), epsilon=0.5, data_norm=1.0) <= claimed


@pytest.mark.slow
def test_planted_half_of_the_noise_is_caught(monkeypatch):
    plant(monkeypatch, "rows: half of the noise")
    assert audited_epsilon() > 1.5
    claimed = PrivateProjection(mechanism="gaussian", epsilon=2.0).privacy_guarantee().mu
    assert audited_mu(epsilon=2.0) > 1.5 * claimed


@pytest.mark.slow
def test_a_forgotten_displacement_is_caught(monkeypatch):
    plant(monkeypatch, "rows: the displacement is forgotten")
    assert audited_epsilon(((0.0,), (3.0,)), displacement=3.0) > 1.5


@pytest.mark.slow
def test_a_forgotten_operator_norm_is_caught(monkeypatch):
    P = PrivateProjection(1, data_norm=5.0).fit(np.eye(4)).release_.projection
    plant(monkeypatch, "rows: the projection is forgotten")
    pair = (np.zeros(4), P[:, 0] / np.linalg.norm(P))
    assert audited_epsilon(pair, n_components=1) > 1.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyRowsWarning")  # as it should
def test_a_forgotten_clip_is_caught(monkeypatch):
    plant(monkeypatch, "rows: not clipped")
    assert audited_epsilon(((-9.0,), (9.0,)), epsilon=0.5, data_norm=1.0) > 2.0


# Rows in hand


@pytest.mark.parametrize(
    "container",
    [
        lambda made: made,
        make_pipeline,
        lambda made: FeatureUnion([("rows", made)]),
        lambda made: ColumnTransformer([("rows", made, [0, 1])]),
        lambda made: TransformedTargetRegressor(LinearRegression(), transformer=made),
    ],
    ids=["alone", "pipeline", "union", "columns", "targets"],
)
def test_fit_then_transform_hands_out_no_row(container):
    X = RNG.uniform(-5, 5, (20, 2))
    made = container(PrivateProjection(epsilon=0.1, X_bounds=(-5, 5)))
    targets = isinstance(made, TransformedTargetRegressor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((AttributeError, TypeError)):
            made.fit(X, X).predict(X) if targets else made.fit(X).transform(X)


def test_a_transform_that_hands_out_rows_would_be_found(monkeypatch):
    monkeypatch.setattr(PrivateProjection, "transform", PrivateProjection.exact_rows, raising=False)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_fit_then_transform_hands_out_no_row(make_pipeline)


# Answers


def audited_answers(n=250, k=4, epsilon=8.0):
    """Lower bound on mu of all answers about one record, from their mean; n records at once."""
    settings = {"answers_per_row": k, "answer_epsilon": epsilon, "y_bounds": (0.0, 1.0)}
    sums = []
    for y in (-7.0, 7.0):  # clipped to the bounds
        curator = PrivateProjection(data_norm=1.0, **settings).fit(np.zeros((n, 1)), np.full(n, y))
        sums.append(np.array([sum(curator.answer(i) for _ in range(k)) for i in range(n)]))
    return mu_at_least(*sums), curator.answer_privacy_.mu


@pytest.mark.slow
def test_answers_lose_what_is_claimed_and_not_more():
    found, claimed = audited_answers()
    assert 0.4 * claimed < found <= claimed


@pytest.mark.slow
def test_forgotten_repeats_are_caught(monkeypatch):
    plant(monkeypatch, "answers: repeats are forgotten")
    found, claimed = audited_answers()
    assert found > 1.1 * claimed


@pytest.mark.slow
def test_a_forgotten_clip_of_answers_is_caught(monkeypatch):
    plant(monkeypatch, "answers: not clipped")
    found, claimed = audited_answers(n=100, k=1)
    assert found > 2 * claimed


# What is held, written and printed

SECRETS = [1.7316520948315577, -2.1938847291045533, 0.41772066390126]
RNG = np.random.default_rng(0)  # public randomness
X, Y = RNG.uniform(-3, 3, (30, 2)), RNG.uniform(-1, 1, 30)
X[3, 1], X[7, 0], X[20, 1] = SECRETS
SETTINGS = {
    "l2_laplace": {},
    "gaussian": {"mechanism": "gaussian"},
    "box": {"data_norm": None, "X_bounds": (-3, 3)},
    "projected": {"n_components": 1},
}


def raw_values():
    """Everything exact that could be kept: rows, means, and rows times the public matrix."""
    P = PrivateProjection(1, data_norm=5.0).fit(X).release_.projection
    values = [X, X.mean(axis=0), X.std(axis=0), np.linalg.norm(X, axis=1), X @ P, X.T @ X]
    return np.concatenate([np.ravel(value) for value in values])


def numbers(thing, seen):
    """All numbers that can be reached from an object."""
    if id(thing) in seen or isinstance(thing, (str, bytes, type, type(None), bool)):
        return
    seen[id(thing)] = thing
    if isinstance(thing, (int, float, np.number)):
        yield float(thing)
    elif isinstance(thing, np.ndarray):
        yield from (float(value) for value in thing.ravel().tolist() if np.isreal(value))
        yield from numbers(thing.base, seen)
    elif isinstance(thing, dict):
        yield from (n for part in (*thing.keys(), *thing.values()) for n in numbers(part, seen))
    elif isinstance(thing, (list, tuple, set)):
        yield from (n for part in thing for n in numbers(part, seen))
    else:
        for owner in (thing, getattr(thing, "__self__", None)):  # also of bound methods
            yield from numbers(getattr(owner, "__dict__", None), seen)


def found_in(thing, secrets):
    """Whether an object, its pickle or its text holds a secret."""
    held = np.array(list(numbers(thing, {})) or [0.0])
    # Noisy numbers agree with an exact one by chance: 1000 of them with 100 exact ones, in twelve
    # digits, with a rate of about 1e-7; in the six digits of a text it would be one run in ten.
    if np.any(np.abs(held[:, None] - secrets) <= 1e-12 * np.abs(secrets)):
        return True
    data = pickle.dumps(thing)
    if any(struct.pack(order, value) in data for value in secrets for order in ("<d", ">d")):
        return True
    with np.printoptions(precision=16, floatmode="fixed", threshold=sys.maxsize):
        text = repr(thing) + str(thing)
    printed = [float(number) for number in re.findall(r"-?\d+\.\d{9,}(?:e[+-]\d+)?", text)]
    return any(abs(a - b) <= 1e-12 * abs(b) for a in printed for b in secrets)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_exact_row_is_kept_or_written(setting, tmp_path):
    parameters = {"data_norm": 5.0, **SETTINGS[setting]}
    curator = PrivateProjection(**parameters).fit(X, Y)
    answered = [curator.answer(i) for i in (2, 9)]
    gp = ProjectedGP(**parameters).fit(X, Y)
    curator.release_.save(tmp_path / "release")
    data = (tmp_path / "release").read_bytes()
    secrets = raw_values()
    assert not any(struct.pack(order, value) in data for value in secrets for order in ("<d", ">d"))
    for thing in (curator.release_, curator.answers_, curator, gp, gp.release_, gp._predictor):
        assert not found_in(thing, secrets)
    assert [value for _, value in curator.answers_] == answered
    # values that nobody requested are with the curator alone, and in no copy of it
    unasked = np.delete(Y, [2, 9])
    copy = pickle.loads(pickle.dumps(curator))
    for thing in (curator.release_, curator.answers_, copy):
        assert not found_in(thing, unasked)


def test_what_is_kept_would_be_found():
    secrets = raw_values()
    gp = ProjectedGP(data_norm=5.0).fit(X, Y)
    gp.kept_ = {"rows": (X[:5],)}
    assert found_in(gp, secrets)
    curator = PrivateProjection(data_norm=5.0).fit(X, Y)
    assert found_in(curator._book.__dict__ | {"_lock": None}, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VoidGuaranteeWarning)
        void = PrivateProjection(mechanism="kharkovskii2020", data_norm=5.0).fit(X)
    assert found_in(void, secrets)  # the secret map holds the mean of the rows


@pytest.mark.parametrize("mechanism", OURS)
@pytest.mark.parametrize("estimator", [PrivateProjection, ProjectedGP])
def test_with_all_noise_nothing_depends_on_the_rows(estimator, mechanism):
    """The same noise on arbitrary rows: what is left is what the guarantee does not cover."""
    settings = {"mechanism": mechanism, "epsilon": 1e-9, "data_norm": 5.0, "random_state": 3}
    fits = []
    for rows in (X, np.full_like(X, 2.5)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fits.append(estimator(**settings).fit(rows, Y))
        fits.append([str(warning.message) for warning in caught])
    first, reported, second, reported_again = fits
    assert reported == reported_again
    spread = first.release_.noise_std
    np.testing.assert_allclose(first.release_.Z, second.release_.Z, rtol=0, atol=1e-3 * spread)
    assert vars(first).keys() == vars(second).keys()
    assert len(pickle.dumps(first)) == len(pickle.dumps(second))
    assert first.privacy_ == second.privacy_
    if estimator is ProjectedGP:
        np.testing.assert_allclose(first.predict(X), second.predict(X), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mechanism", OURS)
def test_released_rows_lie_on_a_public_lattice(mechanism):
    curator = PrivateProjection(mechanism=mechanism, data_norm=5.0).fit(X)
    noise, _ = curator._map.mechanism_for(len(X))
    units = curator.release_.Z / noise.step
    np.testing.assert_array_equal(units, np.rint(units))
    fine = units[(units % 2).astype(bool)]
    assert 0.3 < fine.size / units.size < 0.7  # and the last digit is noise
