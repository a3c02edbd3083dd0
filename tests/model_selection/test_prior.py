import numpy as np
import pytest

from skdpbo.model_selection._prior import automatic_prior_weight, public_offsets


def test_weight_vanishes_as_protected_records_abound():
    table = np.random.RandomState(0).normal(0.8, 0.02, (5, 20))
    weights = [
        automatic_prior_weight(table, n_records=m, epsilon=1.0, bound=1.0)
        for m in (100, 1000, 10_000)
    ]
    assert weights[0] > 1
    assert weights[2] < 1e-3
    np.testing.assert_allclose(np.divide(weights[:2], weights[1:]), 100)


def test_weight_falls_with_the_error_of_the_public_scores():
    rng = np.random.RandomState(0)
    noise = rng.normal(size=(5, 30))
    precise, vague = (
        automatic_prior_weight(0.8 + sd * noise, n_records=100, epsilon=1.0, bound=1.0)
        for sd in (0.001, 0.1)
    )
    assert vague < precise / 10


def test_easier_folds_are_no_error():
    table = np.linspace(0.6, 0.9, 30)[None, :] + np.array([[0.3], [0.0], [-0.2]])
    weight = automatic_prior_weight(table, n_records=100, epsilon=1.0, bound=1.0)
    assert weight == pytest.approx((1.28 * 2 / 100 / 0.01) ** 2)


@pytest.mark.parametrize("table", [np.full((5, 4), np.nan), np.ones((1, 4)), np.ones((5, 1))])
def test_weight_without_a_table_of_scores(table):
    assert automatic_prior_weight(table, n_records=10, epsilon=1.0, bound=2.0) == pytest.approx(
        (1.28 * 2 * 2 / 10 / 0.02) ** 2
    )


def test_offsets_are_the_weighted_gaps_in_units():
    offsets = public_offsets([0.5, np.nan, 0.75, 0.25], 0.5, n_records=100, units=4, bound=2.0)
    assert offsets == [25, 50, 0, 50]
    assert public_offsets([np.nan, np.nan], 0.5, n_records=9, units=1, bound=1.0) == [0, 0]
    assert public_offsets([0.1, 0.2], 0, n_records=9, units=1, bound=1.0) == [0, 0]
