"""Share of the budget for the released score, and warnings of a score that is mostly noise."""

import numpy as np

from skdpbo._attempt import attempt
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import NoisyScoreWarning
from skdpbo.model_selection.scoring._score_release import MOSTLY_NOISE
from skdpbo.model_selection.scoring.metrics._protected_metrics import TrialMetric

_SMALL_NOISE = 0.05  # small standard deviation of the noise, as a share of the score's range
_LARGE_BESIDE_GAIN = 0.5  # warn if the noise exceeds this share of the gain over chance
# Shares of the budget with score_fraction="auto": the first for means, and for other scores the
# first whose noise is small.
SCORE_SHARES = (0.1, 0.3)


def mechanism_with_score(searcher, scorer, n_records):
    """Return the mechanism for a ratio or a score of pairs, with a useful share for the score.

    ``score_fraction="auto"`` takes the smallest of two shares whose noise is small, from public
    numbers alone. If the score would be mostly noise it is not released, with a warning.
    """
    automatic = isinstance(searcher.score_fraction, str)  # "auto" is its only text
    for share in SCORE_SHARES if automatic else (searcher.score_fraction,):
        mechanism = searcher._mechanism(score_fraction=share)
        if not mechanism.epsilon_score:  # score_fraction=0
            return mechanism
        noise = scorer.expected_noise(mechanism.epsilon_score, n_records)
        if noise <= (_SMALL_NOISE if automatic else MOSTLY_NOISE):
            return mechanism
    mostly = noise > MOSTLY_NOISE
    if mostly:
        warn_caller(
            f"The noise of best_score_ would have a standard deviation of about {noise:.2g} of the "
            f"whole range of {scorer.name!r}"
            + (": it is not released." if automatic else ".")
            + " Protect more records, take a larger epsilon, or set score_fraction.",
            NoisyScoreWarning,
        )
    return searcher._mechanism(score_fraction=0.0) if mostly and automatic else mechanism


def warn_if_metric_is_noisy(mechanism, scorer, n_records, public_score):
    """Warn if the noise of a ratio or a score of pairs is large relative to the gain over chance.

    Parameters
    ----------
    mechanism : SearchMechanism
    scorer : MetricScorer
    n_records : int
    public_score : float
        Of the best candidate.
    """
    if not mechanism.epsilon_score or not np.isfinite(public_score):
        return
    informed = scorer.informed_by(public_score)
    share = informed.expected_noise(mechanism.epsilon_score, n_records)
    gain = abs(public_score - scorer.of_chance) / (scorer.upper - scorer.lower)
    if _LARGE_BESIDE_GAIN * gain < share <= MOSTLY_NOISE:  # above, mechanism_with_score warns
        warn_caller(
            "best_score_ will be mostly noise: the standard deviation of its noise is about "
            f"{share * (scorer.upper - scorer.lower):.2g}, the public score of the best candidate "
            f"{public_score:.2g}, and chance has {scorer.of_chance:g}. Protect more records, take "
            "a larger epsilon or score_fraction, or spend all of the budget on the choice "
            "(score_fraction=0).",
            NoisyScoreWarning,
        )


def warn_if_release_is_noisy(mechanism, scorer, n_records, score):
    """Warn if a released ratio turns out to be mostly noise, as its denominator is small.

    Parameters
    ----------
    mechanism : SearchMechanism
    scorer : MetricScorer
    n_records : int
    score : ReleasedScore
        Released; the warning is post-processing.
    """
    # If the expected noise is large, mechanism_with_score has already warned.
    expected = scorer.expected_noise(mechanism.epsilon_score, n_records)
    if expected <= MOSTLY_NOISE < score.std / (scorer.upper - scorer.lower):
        warn_caller(
            f"best_score_ is mostly noise: it is {score.value:.3g}, and the standard deviation of "
            f"its noise {score.std:.2g}. {scorer.name!r} divides by a sum over protected records, "
            "such as the number of a class or the spread of the targets, that is small. A mean of "
            f"losses has less noise: {scorer.nearest_mean}. Another fit spends another budget.",
            NoisyScoreWarning,
        )


def warn_if_trial_is_noisy(scorer, score, model):
    """Warn if the noise of a trial's score is large relative to its gain or its mean loss.

    Parameters
    ----------
    scorer : PerRecordScorer or TrialMetric
    score : ReleasedScore
    model : estimator or None
        Released; the warning is post-processing.
    """
    if not np.isfinite(score.value):  # no model
        return
    # The best of several noisy scores is biased upwards by about one standard deviation.
    likely = score.value - score.std
    is_metric = isinstance(scorer, TrialMetric)
    if is_metric:
        own, _ = attempt(scorer.of, model)  # with the classes of the model
        chance = (own or scorer).of_chance
        size, compared = likely - chance, f"chance has {chance:g}"
    else:  # a mean loss, or its root
        size, compared = scorer.offset - likely, f"a perfect one is {scorer.offset:g}"
    has_scale = is_metric or scorer.name == "accuracy"  # whether the range is that of usual scores
    if score.std > max(_LARGE_BESIDE_GAIN * size, _SMALL_NOISE * scorer.bound * has_scale):
        warn_caller(
            f"best_score_ of the best trial is mostly noise: it is {score.value:.3g}, the standard "
            f"deviation of its noise {score.std:.2g}, and {compared}. Candidates that differ by "
            "less are hardly distinguished. Protect more records, take a larger epsilon, or spend "
            "all of it on one training with parameters that are chosen beforehand. Another fit "
            "spends another budget.",
            NoisyScoreWarning,
        )
