"""Last digits of released numbers."""

import math

import numpy as np
import pytest

from skdpbo.audit import last_digits, off_lattice, precision_audit
from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism

GAUSSIAN = GaussianMechanism(mu=1.0, sensitivity=1.0)


@pytest.mark.parametrize(
    ("value", "digit"), [(1.0, 0), (0.75, -2), (-6.0, 1), (2.0**-1074, -1074), (3 * 2.0**60, 60)]
)
def test_last_binary_digit(value, digit):
    assert last_digits([value]) == [f"last digit 2^{digit}"]


def test_numbers_without_one():
    assert last_digits([0.0, math.inf, math.nan]) == ["0.0", "inf", "nan"]
    assert off_lattice([0.0, math.inf, math.nan, -0.25, 0.3], 0.25) == 3


@pytest.mark.slow
def test_sound_noise_passes():
    result = precision_audit(GAUSSIAN.release, 0.0, 1.0, n_runs=1200)
    assert result.epsilon < 0.5
    assert not result.violates(GAUSSIAN.guarantee)


@pytest.mark.parametrize("noise", ["laplace", "normal"])
def test_naive_noise_is_caught(noise):
    draw = getattr(np.random.default_rng(0), noise)
    result = precision_audit(lambda x: x + draw(), 0.0, 1.0, n_runs=4000)
    assert result.epsilon > 2


def test_noise_on_a_coarser_lattice_is_caught():
    mechanism = DiscreteLaplace(1.0, 1)

    def release(units):
        return (units + 4 * mechanism.release(0)) * 2.0**-20

    assert precision_audit(release, 0, 1, step=2.0**-20, n_runs=400).epsilon > 2


def test_values_off_the_lattice_are_caught():
    mechanism = DiscreteLaplace(1.0, 1)
    audit = precision_audit(lambda x: x + mechanism.release(0), 0.0, 0.3, step=1.0, n_runs=400)
    assert audit.epsilon > 2


@pytest.mark.parametrize(("name", "value"), [("step", 0), ("step", -1.0), ("modulus", 1)])
def test_a_lattice_has_a_positive_step(name, value):
    with pytest.raises(ValueError, match=name):
        last_digits([1.0], **{"step": 0.5, name: value})
