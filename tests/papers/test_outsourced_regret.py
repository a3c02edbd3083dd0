"""Regret of outsourced optimisation on the grid of Kharkovskii et al. (2020), Section 4.

100 x 100 points of largest norm 25, functions from a GP with length-scale 5.893 (a third of the
half-width: the paper's 1.25 in these units), T = 50. Reference values are means of 150 to 300 runs
of an independent program. Runs are seeded, so a test that passes once passes always; on another
seed each would fail with a probability of about 1e-4 (4 standard errors).
"""

import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import published_transform
from skdpbo.gaussian_process import GPUCBModeler, ProjectionRelease
from skdpbo.gaussian_process.outsourced import Box
from skdpbo.mechanisms import L2Laplace, noise_source
from skdpbo.privacy import PrivacyGuarantee

HALF_WIDTH = 25 / math.sqrt(2)
LENGTH_SCALE = 5.893
VOID = PrivacyGuarantee(epsilon=1.0).voided("seeded")
N_RUNS = 24

# mean and standard deviation of a run
REFERENCE = {
    "non-private": (0.004, 0.017),
    "published, r=10": (0.012, 0.037),
    "published, r=15": (0.079, 0.073),
    "ours, epsilon 1": (0.046, 0.087),
    "random": (0.336, 0.294),
}


def grid():
    axis = np.linspace(-HALF_WIDTH, HALF_WIDTH, 100)
    K = np.exp(-0.5 * (axis[:, None] - axis) ** 2 / LENGTH_SCALE**2)
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # the kernel is a product: K x K
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2), root


def released(Z, noise_std=0.0, domain=None):
    return ProjectionRelease(
        Z=Z,
        noise_std=noise_std,
        domain=domain,
        projection=None,
        mechanism="test",
        guarantee=VOID,
        displacement=1.0,
        data_norm=25.0,
    )


def releases(X, rng):
    """Return what the modeler gets in each arm."""
    for r in (10, 15):  # the largest r of Table 1 in the "if" branch, the next in "else"
        M = rng.standard_normal((2, r))
        yield f"published, r={r}", released(published_transform(X, M, math.exp(1.1), 1e-5).Z)
    noise = L2Laplace(1.0, 1.0, 2)
    Z = noise.release(X, noise_source(rng))
    box = Box([-HALF_WIDTH] * 2, [HALF_WIDTH] * 2)
    yield "ours, epsilon 1", released(Z, noise.scale * math.sqrt(3), box)
    yield "non-private", released(X)


def regret(release, f, n_answers, seed):
    modeler = GPUCBModeler(release, kernel=RBF(LENGTH_SCALE), sqrt_beta=None, random_state=seed)
    for _ in range(n_answers):
        row = modeler.ask()
        modeler.tell(row, f[row])
    return f.max() - f[modeler.best()]


@pytest.fixture(scope="module")
def regrets():
    X, root = grid()
    found = {}
    for run in range(N_RUNS):
        rng = np.random.default_rng([3, run])
        f = (root @ rng.standard_normal((100, 100)) @ root.T).ravel()
        for arm, release in releases(X, rng):
            n_answers = 50 if arm.startswith("ours") else 51  # theirs do not count the first
            found.setdefault(arm, []).append(regret(release, f, n_answers, run))
        random = f.max() - f[rng.choice(len(f), 50, replace=False)].max()
        found.setdefault("random", []).append(random)
    return {arm: np.array(values) for arm, values in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("arm", REFERENCE)
def test_mean_regret(regrets, arm):
    mean, spread = REFERENCE[arm]
    assert abs(regrets[arm].mean() - mean) < 4 * spread / math.sqrt(N_RUNS)


@pytest.mark.slow
def test_published_regret_jumps_where_the_branch_changes(regrets):
    jump = regrets["published, r=15"] - regrets["published, r=10"]
    assert jump.mean() > 4 * jump.std(ddof=1) / math.sqrt(N_RUNS)


@pytest.mark.slow
def test_private_search_is_better_than_random_search(regrets):
    gain = regrets["random"] - regrets["ours, epsilon 1"]
    assert gain.mean() > 4 * gain.std(ddof=1) / math.sqrt(N_RUNS)
