"""How far records and targets of one column reach, by noisy counts; noise is seeded."""

import math
import warnings

import numpy as np
import pytest

from _support.internals import (
    RecordReach,
    norm_edges,
    shows_reach,
)
from _support.many_columns import fitted, records
from _support.planted import plant, put
from _support.record_sums import (
    assert_sums_have_no_order,
    largest_change,
    listen_to_budgets,
    listen_to_noise,
    sums_of,
)
from skdpbo.exceptions import SeededNoiseWarning, WideBoundsWarning
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.privacy import mu_from_epsilon

STEPS = 2**16
EDGES = norm_edges(1)


def reach_of(n=300, q=2, mu=0.5):
    return RecordReach(
        (np.zeros(1), np.full(1, 3.0)), mu=mu, half_width=np.full(q, 2.0), n_records=n
    )


# The release


def test_sums_are_counts_by_distance():
    (X, Y), reach = np.random.default_rng(0).uniform(-3.5, 3.5, (2, 400, 1)), reach_of(q=1)
    expected = []
    for parts in (np.abs(X[:, 0]) / 3, np.abs(Y[:, 0]) / 2):
        below = [np.sum(parts <= edge) for edge in EDGES[:-1]]
        expected.append(np.diff([0, *below, 400]))
    np.testing.assert_array_equal(sums_of(reach, X, Y), STEPS * np.concatenate(expected))


def test_the_sum_depends_neither_on_chunks_nor_on_threads_nor_on_order():
    assert_sums_have_no_order(reach_of(), p=1)


def test_counts_of_many_targets_and_records_fit():
    rows = reach_of(q=1000).rows(np.zeros(1000))
    assert STEPS <= rows.radius**2 <= 2**62 / 10**9  # a billion records


def change_of_counts(monkeypatch, groups=None):
    heard = listen_to_noise(monkeypatch, "record spread")
    return largest_change(reach_of(60), heard, 1, groups)


@pytest.mark.parametrize(
    ("groups", "least"), [(None, 1 - 1e-12), (np.arange(60) // 3, 0.5)], ids=["records", "groups"]
)
def test_neighbours_differ_by_at_most_the_sensitivity(groups, least, monkeypatch):
    assert least < change_of_counts(monkeypatch, groups) <= 1


def test_a_sensitivity_of_one_histogram_is_caught(monkeypatch):
    put(monkeypatch, "record spread: round_up_root", lambda square: math.sqrt(square / 3))
    assert change_of_counts(monkeypatch) > 1.01


def test_groups_whose_members_count_alike_are_caught(monkeypatch):
    put(monkeypatch, "record spread: divide_by_group_size", lambda units, sizes, part: units)
    assert change_of_counts(monkeypatch, np.arange(60) // 3) > 1.01


def test_counts_have_the_noise_of_their_sensitivity():
    reach, sums = reach_of(mu=0.1), np.full(3 * len(EDGES), 100 * STEPS)
    noisy = np.array([reach.release(sums, None) for _ in range(40)])
    assert np.std(noisy - 100) == pytest.approx(math.sqrt(6) / 0.1, rel=0.1)


def test_all_releases_together_cost_the_budget(monkeypatch):
    spent = listen_to_budgets(monkeypatch)
    X, y = records(3000, 1)
    gp = fitted(X, y, epsilon=0.1)
    assert gp.privacy_.mu == mu_from_epsilon(0.1, 1e-5)
    np.testing.assert_allclose(np.square(spent) / gp.privacy_.mu**2, [0.1, 0.036, 0.864])
    assert math.sqrt(math.fsum(np.square(spent))) <= gp.privacy_.mu
    spent.clear()
    fitted(X, y, epsilon=3.0)  # too little noise for it
    fitted(X[:50], y[:50], epsilon=0.01)  # too much
    fitted(*records(3000, 2), epsilon=0.1)
    assert len(spent) == 6


def test_the_rule_depends_on_public_values():
    sizes = {"n_columns": 1, "n_targets": 1}
    assert shows_reach(0.01, n_records=2000, **sizes)
    assert not shows_reach(0.01, n_records=300, **sizes)
    assert not shows_reach(0.01, n_records=20_000, **sizes)
    assert not shows_reach(0.01, n_records=2000, n_columns=2, n_targets=1)


def box_of(X, y, **parameters):
    points = fitted(X, y, **{"epsilon": 0.02, "random_state": 3, **parameters}).inducing_points_
    return points.max()


def test_with_all_noise_the_box_does_not_depend_on_the_records(monkeypatch):
    put(monkeypatch, "first releases: shows_reach", lambda mu, **sizes: True)
    X, y = records(60, 1)
    assert box_of(X, y) == box_of(X / 20, y)


def test_a_reach_of_exact_counts_is_caught(monkeypatch):
    put(monkeypatch, "first releases: shows_reach", lambda mu, **sizes: True)
    plant(monkeypatch, "sparse: a reach of exact counts")
    X, y = records(60, 1)
    assert box_of(X, y) > 2 * box_of(X / 20, y)


# The parts


def test_parts_are_those_that_are_filled():
    X, Y = np.random.default_rng(0).uniform(-1, 1, (2, 4000, 1))
    reach = reach_of(4000, 1, mu=0.01)
    found = [reach.parts(reach.release(sums_of(reach, X * 1.4, Y * 1.3), None)) for _ in range(20)]
    # .47 and .65 are filled: the edges above, or those below where fewer than a tenth is beyond.
    np.testing.assert_allclose(np.median(found, axis=0), [0.5, 0.5**0.5])


def test_given_points_stay():
    X, y = records(2000, 1)
    Z = np.linspace(-3, 3, 20)[:, None]
    gp = fitted(X / 4, y, epsilon=0.1, inducing_points=Z)
    np.testing.assert_array_equal(gp.inducing_points_, Z)


@pytest.mark.slow
@pytest.mark.slow
def test_bounds_that_are_too_wide_cost_less(monkeypatch):
    X, noise = np.random.default_rng(0).uniform(-3, 3, (2, 2000, 1))

    def error():
        y = np.sin(X[:, 0]) + noise[:, 0] / 9
        given = {"epsilon": 0.3, "y_bounds": (-6, 6)}
        fits = [fitted(X, y, **given, random_state=seed) for seed in range(4)]
        return np.mean([np.sqrt(np.mean((gp.predict(X) - np.sin(X[:, 0])) ** 2)) for gp in fits])

    with_reach = error()
    put(monkeypatch, "first releases: shows_reach", lambda mu, **sizes: False)
    assert error() > 1.5 * with_reach


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("seed", [11, 16, 21, 22])
def test_a_small_range_by_noise_alone_is_not_announced(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (600, 1)) if seed % 2 == 0 else rng.normal(size=(600, 1)).clip(-3, 3)
    y = 1.5 * np.sin(X[:, 0]) + 0.3 * rng.normal(size=600)
    epsilon = 0.1 if seed == 16 else 0.07
    gp = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-3, 3), epsilon=epsilon, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("error", WideBoundsWarning)
        gp.fit(X, y)
