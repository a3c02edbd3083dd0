"""Score of a secret number of records: a noisy centred total over a noisy count.

Adding a record with a loss in {0, ..., B} moves twice the total minus n B by at most B, so that
half of the noise of a total will do. The count is noisy already.
"""

import math

from skdpbo.mechanisms import DiscreteLaplace
from skdpbo.model_selection.scoring._score_release import ReleasedScore, laplace_std

__all__ = ["centred_total", "score_of_secret_count"]


def centred_total(total, n_records, units):
    """Twice a total loss minus n B. Protected: pass only to a mechanism.

    Its sensitivity to one record more or less is B, the largest loss.
    """
    return 2 * int(total) - n_records * units


def score_of_secret_count(scorer, total, n_records, *, epsilon, count, source):
    """Release the mean score of a secret number of records.

    Parameters
    ----------
    scorer : PerRecordScorer
        Its score is a mean of losses of records.
    total, n_records : int
        Total loss of the winner, and number of records. Protected.
    epsilon : Fraction
        Budget of the score and of `count`, half each.
    count : int
        Noisy number of records, at least 1; released.
    source : RandomSource

    Returns
    -------
    ReleasedScore
        Clipped to the range of the score, with a standard deviation from released values: to
        first order in the noise of the total and of the count.
    """
    units, half = scorer.units, epsilon / 2
    noisy = int(
        DiscreteLaplace(half, units).release(centred_total(total, n_records, units), source)
    )
    ratio = min(max(noisy / (count * units), -1.0), 1.0)
    score = scorer.offset - scorer.bound * (1 + ratio) / 2
    error = math.hypot(laplace_std(half, units) / units, ratio * laplace_std(half, 1)) / count
    return ReleasedScore(float(score), scorer.bound * error / 2, count)
