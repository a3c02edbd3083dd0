"""Worth of the public prior on random landscapes; exact, nothing is drawn."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import UpperConfidenceProposer, automatic_prior, public_offsets
from skdpbo.mechanisms import PermuteAndFlip

UNITS = 2**20


def landscape(kind, seed):
    """200 points, their scores in [.6, .9] and 5 folds whose mean errs by .02, smoothly."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(200, 2))
    root = np.linalg.cholesky(RBF(0.25)(X) + 1e-9 * np.eye(200))
    h = root @ rng.normal(size=200)
    z = (h.max() - h) / np.ptp(h)
    score = 0.9 - 0.3 * z if kind == "smooth" else 0.9 - 0.4 * np.maximum(z - 0.2, 0) - 0.02 * z
    return X, score, score + np.sqrt(5) * 0.02 * rng.normal(size=(5, 200)) @ root.T


def regrets(kind, seed, records):
    """Expected regret with and without the prior by number of records, and of the publicly best."""
    X, score, folds = landscape(kind, seed)
    proposer = UpperConfidenceProposer(
        X, n_iter=50, n_initial_points=5, batch_size=1, sqrt_beta=2.0
    )
    while proposer.ask():
        proposer.tell(folds[:, proposer.visited].mean(axis=0))
    visited, table = proposer.visited, folds[:, proposer.visited]
    public = table.mean(axis=0)
    row = [score.max() - score[visited][public.argmax()]]
    for m in records:
        prior = automatic_prior(
            X[visited],
            public,
            table,
            kernel=proposer.kernel,
            epsilon=1.0,
            bound=1.0,
            sensitivity=1 / m,
        )
        for c in (1, 0):
            offsets = public_offsets(prior, c, units_per_score=m * UNITS)
            losses = [round(m * UNITS * (1 - s)) for s in score[visited].tolist()]
            utilities = [loss + offset for loss, offset in zip(losses, offsets, strict=True)]
            p = PermuteAndFlip(1.0, UNITS).probabilities(utilities)
            row.append(score.max() - p @ score[visited])
    return row


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["smooth", "plateau"])
def test_prior_is_as_good_as_the_better_of_what_it_joins(kind):
    rows = np.array([regrets(kind, seed, (100, 10_000)) for seed in range(12)])
    public, few, few_alone, many, many_alone = rows.mean(axis=0)
    assert few < few_alone / 2
    assert few < 1.2 * public
    assert many < 1.05 * many_alone + 1e-6
    assert many < public / 5
