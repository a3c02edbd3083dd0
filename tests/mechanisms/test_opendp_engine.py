"""OpenDP as the engine, and as a second opinion on our own samplers (false-alarm rate 1e-6)."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from _support.planted import module_of
from skdpbo.mechanisms import DiscreteLaplace, GaussianMechanism, noise_source

pytest.importorskip("opendp")
engine_of_opendp = module_of("opendp")
ALARM = 1e-6


def agree(first, second, edges):
    """Two-sample chi-square p-value of the counts between common edges."""
    table = [
        np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (first, second)
    ]
    return stats.chi2_contingency(table).pvalue


@pytest.mark.slow
def test_laplace_engines_agree():
    zeros = np.zeros(20_000, dtype=int)
    ours, theirs = (DiscreteLaplace(0.4, 2, engine=e).release(zeros) for e in ("skdpbo", "opendp"))
    assert agree(ours, theirs, np.arange(-12, 13) - 0.5) > ALARM
    assert agree(DiscreteLaplace(0.5, 2).release(zeros), theirs, np.arange(-12, 13) - 0.5) < ALARM


@pytest.mark.slow
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


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-18), (1.0, 1e-18), (5.0, 1e-16)])
def test_the_curve_and_the_distance_fill_delta(epsilon, delta):
    mechanism = GaussianMechanism(epsilon=epsilon, delta=delta, sensitivity=1.0, engine="opendp")
    with mpmath.workdps(40):
        # Theorem 8 of Balle and Wang 2018, and (1 + e^epsilon) times the distance of all draws.
        a, b = 1 / (2 * mpmath.mpf(mechanism.sigma)), epsilon * mpmath.mpf(mechanism.sigma)
        curve = mpmath.ncdf(a - b) - mpmath.exp(epsilon) * mpmath.ncdf(-a - b)
        distance = (1 + mpmath.exp(epsilon)) * mechanism.n_draws / (24 * mpmath.mpf(4) ** 40)
        assert 0.999 * delta < curve + distance <= delta
    assert distance > 0.02 * delta  # the test would notice if it were forgotten


@pytest.mark.parametrize("mechanism", [DiscreteLaplace(1.0, 1, engine="opendp")])
def test_there_is_no_seed(mechanism):
    with pytest.raises(ValueError, match="no seed"):
        mechanism.release([1, 2], noise_source(0))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [2.5, 5.0])  # where OpenDP 0.12.0 to 0.14.1 are wrong
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_scales_at_which_old_versions_were_wrong(law, scale):
    draws = engine_of_opendp.opendp_noise(law, 400_000, scale, None)
    k = np.arange(-int(4 * scale), int(4 * scale) + 1)
    power = np.abs(k) / scale if law == "laplace" else k**2 / (2 * scale**2)
    weights = np.exp(-power)
    total = weights.sum() if law == "gaussian" else 1 / np.tanh(0.5 / scale)
    if law == "gaussian":  # the tails beyond four standard deviations
        total += 2 * np.exp(-(np.arange(k[-1] + 1, 60) ** 2) / (2 * scale**2)).sum()
    counts = np.array([np.sum(draws == value) for value in k])
    observed = np.append(counts, len(draws) - counts.sum())
    expected = np.append(weights, total - weights.sum()) / total * len(draws)
    assert stats.chisquare(observed, expected).pvalue > ALARM


def test_old_versions_are_refused(monkeypatch):
    monkeypatch.setattr(engine_of_opendp.metadata, "version", lambda name: "0.14.1")
    engine_of_opendp._measurement.cache_clear()
    with pytest.raises(ImportError, match=r"0\.14\.2 or newer"):
        DiscreteLaplace(1.0, 1, engine="opendp").release([1, 2])
    for version in ("0.14.2", "0.15.0a1", "1.0"):
        monkeypatch.setattr(engine_of_opendp.metadata, "version", lambda name, v=version: v)
        engine_of_opendp._measurement.cache_clear()
        DiscreteLaplace(1.0, 1, engine="opendp").release([1, 2])


def test_refusals():
    with pytest.raises(ValueError, match="engine"):
        DiscreteLaplace(1.0, 1, engine="numpy")
    with pytest.raises(ValueError, match="too large"):
        DiscreteLaplace(1e-16, 1, engine="opendp")
    assert type(DiscreteLaplace(1.0, 1, engine="opendp").release(3)) is int
