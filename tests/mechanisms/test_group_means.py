"""Means of groups: each group counts as one record, however many it has."""

import math

import numpy as np
import pytest

from _support.planted import put
from skdpbo.mechanisms import BoundedMean, CoinPressMean, noise_source

NOISELESS = 1e12
MEANS = {
    "interval": BoundedMean(mu=NOISELESS, low=-1.0, high=1.0),
    "coinpress": CoinPressMean(mu=NOISELESS, center=0.0, radius=1.0, n_steps=1),
}
OTHERS, LABELS = [0.1, 0.2, -0.3, 0.3, 0.5], [1, 1, 2, 3, 3]
REPLACED = [[-1.0], [1.0], [1.0] * 40, [1e308] * 3, [math.nan, 0.0], [math.inf, -math.inf], [-9.0]]


def released(mean, own, seed=0):
    """Mean of the other groups and of one that holds `own`."""
    groups = [7] * len(own) + LABELS
    return mean.release([*own, *OTHERS], noise_source(seed), groups=groups)


@pytest.mark.parametrize("name", MEANS)
def test_the_mean_is_over_groups(name):
    expected = np.mean([0.4, np.mean([0.1, 0.2]), -0.3, 0.4])
    assert released(MEANS[name], [0.3, 0.5]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", MEANS)
def test_a_missing_label_is_a_group_of_its_own(name):
    values, labels = [0.5, 0.1, 0.3], [math.nan, 1.0, math.nan]
    mean = MEANS[name].release(values, noise_source(0), groups=labels)
    assert mean == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize("label", [3, 0.5, math.nan, None, math.inf, 2**64, -(2**63), "a", [1]])
@pytest.mark.parametrize("name", MEANS)
def test_the_label_of_one_group_does_not_move_another(name, label):
    # Neither an error nor two groups in one: 2**53 + 1 is no float.
    values, labels = [0.5, -1.0, 1.0], [2**53, 2**53 + 1, label]
    mean = MEANS[name].release(values, noise_source(0), groups=labels)
    assert mean == pytest.approx(0.5 / 3, abs=1e-6)


def largest_move(mean):
    means = [released(mean, own) for own in REPLACED]
    return max(means) - min(means)


def sensitivity(name):
    """Diameter of what a clipped group can be, over the number of groups."""
    (step,) = MEANS[name]._steps(4, 1) if name == "coinpress" else [None]
    return (2.0 if step is None else 2 * step.clip) / 4


@pytest.mark.parametrize("name", MEANS)
def test_a_group_moves_the_mean_as_one_record_does(name):
    assert largest_move(MEANS[name]) <= sensitivity(name) * (1 + 1e-6)


def test_the_interval_is_attained():
    assert largest_move(MEANS["interval"]) == pytest.approx(sensitivity("interval"), rel=1e-6)


def test_planted_groups_counted_by_rows(monkeypatch):
    put(monkeypatch, "means: _group_means", lambda records, groups: records)
    assert largest_move(MEANS["interval"]) > 1.5 * sensitivity("interval")


def test_guarantee_is_for_one_group():
    for mean in MEANS.values():
        assert mean.group_guarantee.neighbours == "one group replaced"
        assert mean.group_guarantee.mu == mean.guarantee.mu
        assert mean.guarantee.neighbours == "replace-one"
        assert mean.group_guarantee.to_dict()["unit"] == "all records of one group"


def test_labels_are_checked():
    for groups in ([1, 2], np.ones((3, 1))):
        with pytest.raises(ValueError, match="groups must"):
            MEANS["interval"].release([0.0] * 3, groups=groups)


def test_columns():
    mean = MEANS["interval"].release([[0.0, 0.5], [1.0, 0.5]], noise_source(0), groups=[1, 1])
    np.testing.assert_allclose(mean, [0.5, 0.5], atol=1e-6)
