"""Rules that choose the best of privately trained candidates, and their cost.

Either a secret random number of trials is run and only the best is released (`BestOfTrials`), or
every candidate is trained once and every score is published (`PublishedScores`). Both compute the
total cost from that of one trial, and the largest budget of one trial from the total.
"""

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from skdpbo.model_selection._frozen_parameters import FrozenParameters
from skdpbo.privacy import (
    PrivacyGuarantee,
    TrialLaw,
    candidate_mu,
    compose,
    mu_from_epsilon,
    selection_guarantee,
)
from skdpbo.privacy._checks import check_choice, check_count, check_flag, check_within, set_fields
from skdpbo.privacy.selection._liu_talwar import liu_talwar_max_trials

ACCOUNTINGS = ("profile", "papernot_steinke", "liu_talwar", "composition")
# With three expected trials for each candidate, a given candidate is drawn with probability about
# 3/4; with 30, one of the best tenth with probability .77. More trials cost more than they gain.
_TRIALS_PER_CANDIDATE, _MOST_TRIALS, _ETA = 3, 30, 1.0
# If the winner is trained again, trials only rank candidates: more trials, and rarely few. With up
# to three candidates these would need more noise than publishing every score.
_LEAST_RANKED, _RANKING_PER_CANDIDATE, _MOST_RANKING, _ETA_OF_RANKING = 4, 5, 50, 2.0


@dataclass(frozen=True, kw_only=True)
class PrivateSelection(FrozenParameters):
    """Private selection among private models, as `protect` of a searcher.

    A secret random number of trials each train a differentially private estimator, and the best is
    chosen. Every record is protected and the winning model is released.

    Parameters
    ----------
    accounting : {"profile", "papernot_steinke", "liu_talwar", "composition"}, default="profile"
        Bound of the total cost: by privacy profiles, with the least noise; by Renyi differential
        privacy (Papernot & Steinke 2022); or as in Honkela & Melkas (2021), Eq. (23) (Liu & Talwar
        2019). "composition": every candidate is trained once and all scores are published; the
        other parameters of trials do not apply then.
    expected_trials : float or None, default=None
        Mean number of trials, in [1, 10^6]. None: three for each candidate, at most 30; if the
        winner is trained again and there are four or more candidates, five for each, at most 50.
        300 instead of 30 need 23 to 29 % more noise (epsilon from 10 down to 0.3).
    eta : float or None, default=None
        Shape of the distribution of the number of trials, a truncated negative binomial, in
        (-1, 1000]; 1 is geometric, 0 logarithmic. None: 1; 2 if the winner is trained again, with
        four or more candidates, if neither `expected_trials` nor `max_trials` is given (not with
        "liu_talwar"). Smaller values need less noise for the same mean, but most of their mean
        comes from rare, very long runs: with 30 expected trials the probability to draw one of the
        best tenth is .77 for eta 1, .55 for 0 (8 % less noise) and .30 for -0.5 (14 % less).
    pad_trials : bool, default=False
        Always train `max_trials` models and use the first K, so that the running time does not
        reveal the number of trials K. Needs `max_trials`.
    max_trials : int or None, default=None
        Largest number of trials, in [1, 10^6]. The probability that more would have been drawn is
        charged to delta. With ``eta=1``, ``delta=1e-5`` and 30 or more expected trials, 15 times
        the mean costs almost nothing, 12 times up to 3 % more noise, and 11 times is refused.
    estimator_guarantee : PrivacyGuarantee, privacy profile, callable or None, default=None
        Cost of one fit of an estimator that does not state it itself, for one replaced record; the
        guarantee of the search is then conditional on it. The search does not change the cost: if
        it does not fit epsilon and delta, the error names what would. A privacy profile is a
        `PrivacyProfile`, a function delta(epsilon), or an accountant of another library; one for
        add-remove neighbours is converted. A function of ``(estimator, n_samples)`` is called for
        every candidate and returns one of these; the largest cost is taken.
    tuning_fraction : "auto", float or None, default="auto"
        Share of the rows used for tuning, in (0, 1); without `X_val` 60 % of them train and 40 %
        score. The winner is then trained with the whole budget on the other rows, and `best_score_`
        is that of the model that won on the tuning rows. None: all rows are used for tuning, and
        the winning model is released. "auto": 0.25 if the number of rows is at least 1000 and,
        times epsilon, at least 12000; otherwise None, also with a single candidate, with
        `estimator_guarantee` and with ``accounting="composition"``.

    See Also
    --------
    DPGridSearchCV, DPRandomizedSearchCV : The searchers.

    Notes
    -----
    The rows are split by position into training and scoring rows (`X`, `X_val`, or
    `validation_fraction`), so that each record is in only one part. A trial draws a candidate
    uniformly, trains it and scores it, both within a budget that is calibrated to `epsilon` and
    `delta`; the best of K trials is released, with its score and model. The cost does not grow with
    the number of candidates, but it requires K to be secret: it is drawn from the operating
    system's generator and is in no attribute, message or file; prints, logs and warnings of the
    trials are dropped. The running time depends on K, and so may the records of a cluster's
    scheduler: if others can see them, use `pad_trials` and a machine of your own.

    Steps of a pipeline may be private by themselves (``privacy_guarantee``, ``epsilon``), sharing
    the budget by composition, or learn nothing: those that need no ``fit``, `FrozenEstimator` of a
    step fitted before, on public rows or privately, and some others (`PolynomialFeatures`, random
    projections, `RBFSampler` with a number for gamma, `SplineTransformer` with given knots,
    encoders with given categories that accept unknown ones, `SimpleImputer` with a constant).
    `StandardScaler` and the like are refused. A step that overflows or raises for one finite record
    would reveal it: with any step other than `Normalizer`, `Binarizer` and encoders the guarantee
    is conditional on every record staying finite. A failed training has the worst score; if all
    fail, ``fit`` raises without the reason. Therefore the candidates are first tried on synthetic
    rows (`DryRunWarning`). A seed of the estimator voids the guarantee.

    With one or two candidates, train each once and publish every score
    (``accounting="composition"``): no candidate is missed, with about as much noise or less; a
    `SelectionCostWarning` recommends it. From three candidates on, and from four with
    ``expected_trials=30``, a secret number of trials needs less noise (profile accounting, epsilon
    from 0.3 to 10). As it may miss the best candidate, both are about equally good up to five.

    References
    ----------
    A. Koskela, R. E. Redberg, Y.-X. Wang, Privacy profiles for private selection, ICML 2024.
    N. Papernot, T. Steinke, Hyperparameter tuning with Renyi differential privacy, ICLR 2022.
    J. Liu, K. Talwar, Private selection from private candidates, STOC 2019.

    Examples
    --------
    >>> from skdpbo.model_selection import PrivateSelection
    >>> PrivateSelection(expected_trials=20).law(n_candidates=100).mean
    20.0
    """

    accounting: str = "profile"
    expected_trials: float | None = None
    eta: float | None = None
    pad_trials: bool = False
    max_trials: int | None = None
    estimator_guarantee: PrivacyGuarantee | Callable | None = None
    tuning_fraction: str | float | None = "auto"

    def check(self):
        """Raise ValueError or TypeError, by the parameter's name."""
        fraction = self.tuning_fraction
        if fraction is not None and fraction != "auto":
            real = isinstance(fraction, numbers.Real) and not isinstance(fraction, bool)
            if not real or not 0 < fraction < 1:
                raise ValueError('tuning_fraction must be "auto", None or a number in (0, 1).')
            if self.estimator_guarantee is not None:
                raise ValueError(
                    "tuning_fraction needs an estimator that states its guarantee: the cost that "
                    "estimator_guarantee declares is the same for every budget."
                )
        check_choice(self.accounting, "accounting", ACCOUNTINGS)
        if self.accounting == "composition":
            trials = self.expected_trials, self.eta, self.pad_trials, self.max_trials
            if trials != (None, None, False, None):
                raise ValueError(
                    "expected_trials, eta, pad_trials and max_trials have no meaning with "
                    'accounting="composition": every candidate is trained once.'
                )
            return
        if self.expected_trials is not None:
            check_within(self.expected_trials, "expected_trials", "[1, 1e6]")
        check_flag(self.pad_trials, "pad_trials")
        if self.max_trials is not None:
            check_count(self.max_trials, "max_trials", most=10**6)
        elif self.pad_trials:
            raise ValueError("pad_trials=True needs max_trials: it is the number of trials run.")

    def law(self, n_candidates: int) -> TrialLaw:
        """Return the distribution of the number of trials.

        Parameters
        ----------
        n_candidates : int
            Length of the public list of candidates.

        Returns
        -------
        law : TrialLaw
            With the mean `expected_trials`, or its default for so many candidates.
        """
        mean = self.expected_trials
        if mean is None:
            mean = min(_TRIALS_PER_CANDIDATE * n_candidates, _MOST_TRIALS)
        return TrialLaw(mean, _ETA if self.eta is None else self.eta)


def ranking_selection(selection, n_candidates):
    """Return the selection with defaults for trials whose winner is trained again.

    Parameters
    ----------
    selection : PrivateSelection
    n_candidates : int

    Returns
    -------
    selection : PrivateSelection
    """
    trials = selection.expected_trials, selection.eta, selection.max_trials
    geometric = selection.accounting in ("liu_talwar", "composition")
    if trials != (None, None, None) or geometric or n_candidates < _LEAST_RANKED:
        return selection
    mean = min(_RANKING_PER_CANDIDATE * n_candidates, _MOST_RANKING)
    return replace(selection, expected_trials=mean, eta=_ETA_OF_RANKING)


@dataclass(frozen=True)
class BestOfTrials:
    """Run K trials and release the best; K is random and secret."""

    selection: PrivateSelection
    n_candidates: int

    publishes_scores = False

    def __post_init__(self):
        law, n = self.selection.law(self.n_candidates), self.n_candidates
        derived = {
            "law": law,  # of K
            "expected_trials": float(law.mean),
            # Probability that some trial draws one of the best tenth of the candidates.
            "hit_probability": float(law.hit_probability(math.ceil(n / 10) / n)),
        }
        set_fields(self, **derived)

    def max_trials(self, delta):
        """Return the cap on K for a total of `delta`; None without a cap."""
        if self.selection.max_trials is not None:
            return int(self.selection.max_trials)
        if self.selection.accounting == "liu_talwar" and delta > 0:
            return liu_talwar_max_trials(self.law, delta)  # their algorithm stops after so many
        return None

    def total(self, trial, delta):
        """Return the guarantee of the whole at `delta` if one trial has the guarantee `trial`."""
        method, most = self.selection.accounting, self.max_trials(delta)
        return selection_guarantee(trial, self.law, delta=delta, method=method, max_trials=most)

    def trial_mu(self, epsilon, delta):
        """Return the largest mu of one trial."""
        method, most = self.selection.accounting, self.max_trials(delta)
        return candidate_mu(epsilon, delta, self.law, method=method, max_trials=most)


@dataclass(frozen=True)
class PublishedScores:
    """Train every candidate once and publish every score: composition."""

    n_candidates: int

    publishes_scores = True
    hit_probability = 1.0

    @property
    def expected_trials(self):
        """Number of trainings, not random."""
        return float(self.n_candidates)

    def total(self, trial, delta):
        """Return the guarantee of the whole at `delta` if one trial has the guarantee `trial`."""
        return compose(*[trial] * self.n_candidates, delta=delta)

    def trial_mu(self, epsilon, delta):
        """Return the largest mu of one trial, mu / sqrt(n) (Dong, Roth & Su 2022, Cor. 3.3)."""
        mu = mu_from_epsilon(epsilon, delta) / math.sqrt(self.n_candidates)
        return mu * (1 - 1e-12) if self.n_candidates > 1 else mu  # covers the rounding


@lru_cache(maxsize=256)
def largest_trial_epsilon(rule, epsilon, delta, trial_delta=0.0):
    """Return the largest epsilon of a trial, with `trial_delta`, for a total (epsilon, delta).

    Found by bisection and rounded down: the total of the result is at most (epsilon, delta).

    Parameters
    ----------
    rule : BestOfTrials or PublishedScores
    epsilon, delta : float
        The total.
    trial_delta : float, default=0.0
        Delta of one trial.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If there is no such epsilon.
    """

    def affordable(trial_epsilon):
        try:
            trial = PrivacyGuarantee(epsilon=trial_epsilon, delta=trial_delta)
            return rule.total(trial, delta).epsilon <= epsilon
        except ValueError:  # no epsilon holds at this delta
            return False

    # One trial cannot cost more than all of them.
    found = largest_affordable(float(epsilon), affordable, precision=1e-9)
    if found is None:
        raise ValueError(
            f"No trial of delta={trial_delta:.6g} fits a total of "
            f"epsilon={float(epsilon):.6g}, delta={delta:.6g}."
        )
    return found


def largest_affordable(most, affordable, *, precision):
    """Return nearly the largest affordable budget in (0, most], None if none is found.

    Parameters
    ----------
    most : float
    affordable : callable
        ``affordable(budget)``; if true, it is true for every smaller budget.
    precision : float
        Relative precision of the result.
    """
    low = high = most
    while not affordable(low):
        low, high = low / 2, low
        if low < most * 2.0**-40:
            return None
    # Invariant: `low` is affordable.
    while high - low > precision * low:
        middle = (low + high) / 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low
