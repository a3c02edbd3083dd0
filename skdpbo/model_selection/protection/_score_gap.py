"""Gap between a released score and the public score of the same candidate: no protected value."""

import math

import numpy as np

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import ScoreGapWarning

__all__ = ["largest_gap", "warn_of_score_gap"]

_FALSE_ALARMS = 1e-4  # of fits whose public and protected rows are drawn alike


def largest_gap(losses, n_losses, noise, folds, n_candidates):
    """Return by how much a protected mean loss may exceed the public one by chance.

    Chernoff's bound, the best of a grid of rates: moments as in Bernstein's inequality for the
    records of both parts, with Bhatia & Davis' bound m (1 - m) of the variance of losses in
    [0, 1]; the spread of the folds, as the released model is another one than theirs; the moments
    of Laplace noise, which are above normal ones. The candidate may have been picked by either
    score: a union over all of them.

    Parameters
    ----------
    losses : tuple of float
        Mean losses in [0, 1], the public one and the released one.
    n_losses : tuple of int
        Their numbers of records.
    noise : float
        Standard deviation of the noise of the released one.
    folds : sequence of float
        Mean losses of the public folds.
    n_candidates : int

    Returns
    -------
    gap : float
        Exceeded with a probability of at most 1e-4 where all records are drawn alike and the mean
        over records that are left out misleads no more than the spread of the folds shows.
    """
    fewest = min(n_losses)
    pooled = float(np.clip(np.average(losses, weights=n_losses), 0, 1))
    variance = pooled * (1 - pooled) * sum(1 / n for n in n_losses)  # of the gap: Bhatia & Davis
    # One fold shows no spread.
    variance += float(np.var(folds, ddof=1)) if len(folds) > 1 else 0.0
    # Rates at which both moments exist: below 3 n of Bernstein's, below sqrt(2) / std of Laplace's.
    rate = np.geomspace(1e-4, 0.99, 200) * min(3 * fewest, math.sqrt(2) / max(noise, 1e-9))
    moments = rate**2 * variance / (2 - 2 * rate / (3 * fewest)) - np.log1p(
        -((rate * noise) ** 2) / 2
    )
    # Chernoff: P(gap > t) <= exp(moments - rate t), which is alpha / n_candidates at this t.
    return float(((math.log(n_candidates / _FALSE_ALARMS) + moments) / rate).min())


def warn_of_score_gap(release, scorer, metric, n_scored, n_candidates):
    """Warn where a released score is further below the public one than chance explains.

    Parameters
    ----------
    release : Release
    scorer : PerRecordScorer
    metric : str
        As in ``cv_results_``.
    n_scored : int
        Number of losses on the public folds.
    n_candidates : int
        Number of candidates before any was dropped.
    """
    released, stated = release.score, release.guarantee
    splits = [
        column[release.index]
        for name, column in release.table.items()
        if name.startswith("split") and name.endswith(f"_test_{metric}")
    ]
    if released is None or not splits:
        return
    # From scores back to mean losses in [0, 1].
    loss, *folds = (scorer.offset - np.array([released.value, *splits])) / scorer.bound
    n_protected = released.n_records if stated.n_protected is None else stated.n_protected
    sizes = min(n_scored, stated.n_public), n_protected
    n_candidates = max(n_candidates, len(release.table["params"]))
    losses, noise = (float(np.mean(folds)), loss), released.std / scorer.bound
    if loss - losses[0] > largest_gap(losses, sizes, noise, folds, n_candidates):
        warn_caller(
            f"best_score_ is {released.value:.4g}, with noise of standard deviation "
            f"{released.std:.2g}, and the public folds gave this candidate {np.mean(splits):.4g}: "
            "more than chance explains. The public rows are no sample of the protected ones, so "
            "that models and scores from them mislead. Often a table is sorted by something (time, "
            "age, site): put it into a random order before it is split. Or there are two "
            "populations; or protected rows are missing or unreadable, which costs the worst loss; "
            "or records of one person are in several public folds (GroupKFold). Another fit spends "
            "another budget.",
            ScoreGapWarning,
        )
