"""OpenDP as the engine, and as a second opinion on our own samplers (false-alarm rate 1e-6)."""

import numpy as np
import pytest
from scipy import stats

from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism, noise_source

pytest.importorskip("opendp")
ALARM = 1e-6


def agree(first, second, edges):
    """Two-sample chi-square p-value of the counts between common edges."""
    table = [
        np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (first, second)
    ]
    return stats.chi2_contingency(table).pvalue


def test_laplace_engines_agree():
    zeros = np.zeros(20_000, dtype=int)
    ours, theirs = (DiscreteLaplace(0.4, 2, engine=e).release(zeros) for e in ("skdpbo", "opendp"))
    assert agree(ours, theirs, np.arange(-12, 13) - 0.5) > ALARM
    assert agree(DiscreteLaplace(0.5, 2).release(zeros), theirs, np.arange(-12, 13) - 0.5) < ALARM


@pytest.mark.parametrize("lattice", [None, 1.0])
def test_gaussian_engines_agree(lattice):
    zeros = np.zeros(20_000, dtype=int)
    make = {"mu": 0.5, "sensitivity": 2.0, "lattice": lattice}
    ours, theirs = (
        GaussianMechanism(**make, engine=engine).release(zeros) for engine in ("skdpbo", "opendp")
    )
    edges = np.linspace(-8, 8, 17) - 0.5
    assert agree(ours, theirs, edges) > ALARM
    short = GaussianMechanism(**{**make, "mu": 0.65}).release(zeros)
    assert agree(short, theirs, edges) < ALARM


def test_distance_is_charged_to_delta():
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, sensitivity=1.0, engine="opendp")
    guarantee = mechanism.guarantee
    assert guarantee.delta == 1e-5
    assert 0 < guarantee.statistical_distance < 1e-18
    assert any("OpenDP" in text for text in guarantee.assumptions)
    by_mu = GaussianMechanism(mu=1.0, sensitivity=1.0, engine="opendp").guarantee
    assert by_mu.delta >= 1e-5


@pytest.mark.parametrize("mechanism", [DiscreteLaplace(1.0, 1, engine="opendp")])
def test_there_is_no_seed(mechanism):
    with pytest.raises(ValueError, match="no seed"):
        mechanism.release([1, 2], noise_source(0))


def test_refusals():
    with pytest.raises(ValueError, match="engine"):
        DiscreteLaplace(1.0, 1, engine="numpy")
    with pytest.raises(ValueError, match="too large"):
        DiscreteLaplace(1e-16, 1, engine="opendp")
    assert type(DiscreteLaplace(1.0, 1, engine="opendp").release(3)) is int
