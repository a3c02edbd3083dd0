"""Rules that choose the best of privately trained candidates, and their cost.

Either a secret random number of trials is run and only the best is released (`BestOfTrials`), or
every candidate is trained once and every score is published (`PublishedScores`). Both say what
they cost as a whole if one trial costs a given amount, and how much one trial may cost.
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
# Three trials a candidate meet a given one with probability about 3/4, and 30 meet one of the best
# tenth with probability .77; more trials cost more than they find.
_TRIALS_PER_CANDIDATE, _MOST_TRIALS, _ETA = 3, 30, 1.0
# Where the winner is trained again, trials have only to rank: more of them, and rarely few.
# Up to three candidates that would need more noise than to publish every score.
_LEAST_RANKED, _RANKING_PER_CANDIDATE, _MOST_RANKING, _ETA_OF_RANKING = 4, 5, 50, 2.0


@dataclass(frozen=True, kw_only=True)
class PrivateSelection(FrozenParameters):
    """Private selection among private models, as `protect` of a searcher.

    The best of a secret random number of trials, each of which trains a differentially private
    estimator. Every record is protected and the winning model is released.

    Parameters
    ----------
    accounting : {"profile", "papernot_steinke", "liu_talwar", "composition"}, default="profile"
        How the cost of the whole is bounded: by privacy profiles, the least noise; by Renyi
        differential privacy (Papernot & Steinke 2022); or as in Honkela & Melkas (2021), Eq. (23)
        (Liu & Talwar 2019). "composition": every candidate is trained once and all scores are
        published; the other parameters of the trials have no meaning then.
    expected_trials : float or None, default=None
        Mean number of trials, in [1, 10^6]. None: three for each candidate, at most 30; where the
        winner is trained again, five and 50 from four candidates on. 300 instead of 30 need 23 to
        29 % more noise (epsilon from 10 down to 0.3).
    eta : float or None, default=None
        Shape of the law of the number of trials, a truncated negative binomial; in (-1, 1000]. 1 is
        the geometric law, 0 the logarithmic one. None: 1; 2 where the winner is trained again, from
        four candidates on, if neither `expected_trials` nor `max_trials` is given (not with
        "liu_talwar"). Smaller values need less noise for the same mean, but find less, as most of
        their mean comes from rare, very long runs: with 30 trials expected the probability to meet
        one of the best tenth is .77 for eta 1, .55 for 0 (8 % less noise) and .30 for -0.5 (14 %
        less).
    pad_trials : bool, default=False
        Always train `max_trials` models and use the first K, so that the running time does not
        reveal the number of trials K. Needs `max_trials`.
    max_trials : int or None, default=None
        Largest number of trials, in [1, 10^6]. The probability that more would have been drawn is
        charged to delta. With ``eta=1``, ``delta=1e-5`` and 30 or more expected trials, 15 times
        the mean costs next to nothing, 12 times up to 3 % more noise, and 11 times is refused.
    estimator_guarantee : PrivacyGuarantee, privacy profile, callable or None, default=None
        Cost of one fit of an estimator that does not state it itself, for one replaced record; the
        guarantee of the search is then conditional on it. It is not changed by the search: what
        does not fit into epsilon and delta is refused, with what would fit. A profile, all of
        which counts, is a `PrivacyProfile`, a function delta(epsilon), or an accountant of
        another library; one for add-remove neighbours is converted. A function of
        ``(estimator, n_samples)`` is called for every candidate and returns one of these; the
        largest cost is taken.
    tuning_fraction : "auto", float or None, default="auto"
        Share of the rows that tunes, in (0, 1), 60 % of them by training and 40 % by scoring
        where no `X_val` is given; the winner is then trained with the whole budget on
        the others, and `best_score_` is that of the model that won on the tuning rows. None: all
        rows tune, and the winning model is released as it is. "auto": 0.25 where the number of rows
        times epsilon is at least 12000, from 1000 rows on; otherwise None, also with a single
        candidate, with `estimator_guarantee` and with ``accounting="composition"``.

    See Also
    --------
    DPGridSearchCV, DPRandomizedSearchCV : The searchers.

    Notes
    -----
    A trial draws a candidate uniformly, trains it privately and scores it privately; the best
    trial is released, with its model. The cost does not grow with the number of candidates, but
    it depends on K being secret: K is drawn from the operating system's generator and is in no
    attribute, message or file. The running time does depend on K, and so does what the scheduler
    of a cluster shows: use `pad_trials` where others can see them, and a machine of your own.

    With one or two candidates, train each once and publish every score
    (``accounting="composition"``): it misses none, with about as much noise or less; a
    `SelectionCostWarning` says so. From three candidates on, and from four with
    ``expected_trials=30``, a secret number of trials needs less noise (profile accounting, epsilon
    from 0.3 to 10). As it may miss the best candidate, the two come out about even up to five.

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

    def law(self, n_candidates):
        """Law of the number of trials.

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
    """Return the selection for trials whose winner is trained again; what is given stays.

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
    """Run K trials, release the best; K is random and secret."""

    selection: PrivateSelection
    n_candidates: int

    publishes_scores = False

    def __post_init__(self):
        law, n = self.selection.law(self.n_candidates), self.n_candidates
        derived = {
            "law": law,  # of K
            "expected_trials": float(law.mean),
            # That some trial draws one of the best tenth of the candidates.
            "hit_probability": float(law.hit_probability(math.ceil(n / 10) / n)),
        }
        set_fields(self, **derived)

    def max_trials(self, delta):
        """Cap on K, for a total of `delta`; None without a cap."""
        if self.selection.max_trials is not None:
            return int(self.selection.max_trials)
        if self.selection.accounting == "liu_talwar" and delta > 0:
            return liu_talwar_max_trials(self.law, delta)  # their algorithm stops after so many
        return None

    def total(self, trial, delta):
        """Guarantee of the whole at `delta` if one trial has the guarantee `trial`."""
        options = {"method": self.selection.accounting, "max_trials": self.max_trials(delta)}
        return selection_guarantee(trial, self.law, delta=delta, **options)

    def trial_mu(self, epsilon, delta):
        """Largest mu of one trial."""
        options = {"method": self.selection.accounting, "max_trials": self.max_trials(delta)}
        return candidate_mu(epsilon, delta, self.law, **options)


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
        """Guarantee of the whole at `delta` if one trial has the guarantee `trial`."""
        return compose(*[trial] * self.n_candidates, delta=delta)

    def trial_mu(self, epsilon, delta):
        """Largest mu of one trial: mu / sqrt(n) (Dong, Roth & Su 2022, Corollary 3.3)."""
        mu = mu_from_epsilon(epsilon, delta) / math.sqrt(self.n_candidates)
        return mu * (1 - 1e-12) if self.n_candidates > 1 else mu  # covers the rounding


@lru_cache(maxsize=256)
def largest_trial_epsilon(rule, epsilon, delta, trial_delta=0.0):
    """Largest epsilon of one trial, with `trial_delta`, whose total is at most (epsilon, delta).

    Found by bisection of the total itself, and returned from the private side.

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
        If no epsilon will do.
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
    """Return about the largest budget in (0, most] that is affordable, None if none is found.

    Parameters
    ----------
    most : float
    affordable : callable
        ``affordable(budget)``; true for every budget below one for which it is.
    precision : float
        Relative, of what is left unused.
    """
    low = high = most
    while not affordable(low):
        low, high = low / 2, low
        if low < most * 2.0**-40:
            return None
    # `low` is affordable throughout: what is returned has been tried.
    while high - low > precision * low:
        middle = (low + high) / 2
        low, high = (middle, high) if affordable(middle) else (low, middle)
    return low
