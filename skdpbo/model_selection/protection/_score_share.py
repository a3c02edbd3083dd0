"""Share of the budget for the released score, and warnings of a score that is mostly noise."""

import numpy as np

from skdpbo._attempt import attempt
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import NoisyScoreWarning
from skdpbo.model_selection.scoring._score_release import MOSTLY_NOISE
from skdpbo.model_selection.scoring.metrics._protected_metrics import TrialMetric

_SMALL_NOISE = 0.05  # of the range of the score
_LARGE_BESIDE_GAIN = 0.5  # noise of a ratio or of pairs, as a share of the gain over chance
# Of the budget, with score_fraction="auto": the first for means, and for other scores the first of
# which the noise is small. What the score gets, the choice loses.
SCORE_SHARES = (0.1, 0.3)


def mechanism_with_score(searcher, scorer, n_records):
    """Return the mechanism of a ratio or of pairs, with a share of the score that makes it useful.

    ``score_fraction="auto"`` takes the smallest of two shares of which the noise is small, from
    public numbers alone, or releases no score, with a warning.
    """
    automatic = isinstance(searcher.score_fraction, str)  # "auto" is its only text
    for share in SCORE_SHARES if automatic else (searcher.score_fraction,):
        mechanism = searcher._mechanism(score_fraction=share)
        if not mechanism.epsilon_score:  # score_fraction=0: there is no score to be noisy
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
    """Warn where the noise of a ratio or of pairs is large beside what models gain over chance.

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
    if _LARGE_BESIDE_GAIN * gain < share <= MOSTLY_NOISE:  # of more a warning has come
        warn_caller(
            "best_score_ will be mostly noise: the standard deviation of its noise is about "
            f"{share * (scorer.upper - scorer.lower):.2g}, the public score of the best candidate "
            f"{public_score:.2g}, and chance has {scorer.of_chance:g}. Protect more records, take "
            "a larger epsilon or score_fraction, or spend all of the budget on the choice "
            "(score_fraction=0).",
            NoisyScoreWarning,
        )


def warn_if_release_is_noisy(mechanism, scorer, n_records, score):
    """Warn where a released ratio turns out to be mostly noise, as its denominator is small.

    Parameters
    ----------
    mechanism : SearchMechanism
    scorer : MetricScorer
    n_records : int
    score : ReleasedScore
        The warning is post-processing of it.
    """
    # The noise expected of a middling candidate was small, and that of this winner is not.
    expected = scorer.expected_noise(mechanism.epsilon_score, n_records)  # warned of if large
    if expected <= MOSTLY_NOISE < score.std / (scorer.upper - scorer.lower):
        warn_caller(
            f"best_score_ is mostly noise: it is {score.value:.3g}, and the standard deviation of "
            f"its noise {score.std:.2g}. {scorer.name!r} divides by a sum over protected records, "
            "such as the number of a class or the spread of the targets, that is small. A mean of "
            f"losses has less noise: {scorer.nearest_mean}. Another fit spends another budget.",
            NoisyScoreWarning,
        )


def warn_if_trial_is_noisy(scorer, score, model):
    """Warn where the noise of a trial's score is large beside what its model gains, or still loses.

    Parameters
    ----------
    scorer : PerRecordScorer or TrialMetric
    score : ReleasedScore
    model : estimator or None
        Released. The warning is post-processing of both.
    """
    if not np.isfinite(score.value):  # no model
        return
    # The best of several noisy scores is too high by about one standard deviation.
    likely = score.value - score.std
    is_metric = isinstance(scorer, TrialMetric)
    if is_metric:
        own, _ = attempt(scorer.of, model)  # with the classes of the model
        chance = (own or scorer).of_chance
        size, compared = likely - chance, f"chance has {chance:g}"
    else:  # of losses, or its root
        size, compared = scorer.offset - likely, f"a perfect one is {scorer.offset:g}"
    fixed = is_metric or scorer.name == "accuracy"  # a range that says what is small
    if score.std > max(_LARGE_BESIDE_GAIN * size, _SMALL_NOISE * scorer.bound * fixed):
        warn_caller(
            f"best_score_ of the best trial is mostly noise: it is {score.value:.3g}, the standard "
            f"deviation of its noise {score.std:.2g}, and {compared}. Candidates that differ by "
            "less are hardly distinguished. Protect more records, take a larger epsilon, or spend "
            "all of it on one training with parameters that are chosen beforehand. Another fit "
            "spends another budget.",
            NoisyScoreWarning,
        )
