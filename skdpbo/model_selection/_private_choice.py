"""The release of the searchers: one private choice among candidates and one noisy score.

Sensitivity: replacing one protected record moves the integer total of every candidate by at most
a public integer. For validation records the scorer states it: ``units`` for a sum of losses in
{0, ..., units}, as a record is not used in training; for chunks see ``chunk_sensitivity``.
Theorems: ``docs/theory/permute_and_flip.md``, ``docs/theory/ratio_and_pair_metrics.md``.

If records are added or removed, all totals change in the same direction, so that both selections
may run at twice the rate. The number of records is secret, and a score is divided by a noisy count.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import ClassVar

from skdpbo._parameters import ORDER_OF_GROUPS
from skdpbo.mechanisms import DiscreteLaplace, ExponentialMechanism, PermuteAndFlip
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_choice, check_positive, check_within, set_fields
from skdpbo.privacy._guarantee import RECORD_RELATIONS, about_groups

REPLACE_ONE, ADD_REMOVE = NEIGHBOURS = RECORD_RELATIONS
_SCHEMA = "the column names and the types (with the categories of categorical columns) are public"
CHOICE_ASSUMPTIONS = (
    "the public rows (X, or the rows of X outside the validation part) may influence everything "
    "that is released",
    "the estimator predicts each row from that row alone",
    f"the numbers of rows, {_SCHEMA}",
    "running time and memory use are not observed",
)
# If the number of records is secret, only that of the public rows is public.
_SECRET_COUNT = tuple(
    f"the number of public rows, {_SCHEMA}" if _SCHEMA in text else text
    for text in CHOICE_ASSUMPTIONS
)

_COUNTED_GROUPS = f"the numbers of public rows and of groups of protected records, {_SCHEMA}"


def for_groups_of_validation_records(guarantee, *, set_apart):
    """Return the guarantee of a search whose losses are those of groups of protected records.

    `set_apart`: whether the order of the groups decided which of them are protected.
    """
    # With added or removed records, the number of groups is secret, too.
    counted = guarantee.neighbours == REPLACE_ONE
    assumptions = tuple(
        _COUNTED_GROUPS if counted and _SCHEMA in text else text for text in guarantee.assumptions
    )
    if set_apart:
        assumptions = (*assumptions, ORDER_OF_GROUPS)
    protects = f"groups of {guarantee.protects}"
    return about_groups(guarantee, protects=protects, assumptions=assumptions)


def for_groups_of_all_records(guarantee):
    """Return the guarantee, for groups, of a search that protects every record.

    In the assumptions, records become groups.
    """
    assumptions = guarantee.assumptions
    for words in ("numbers of row", "number of record", "no record", "its own record"):
        of_groups = f"{words.rpartition(' ')[0]} group"
        assumptions = tuple(text.replace(words, of_groups) for text in assumptions)
    return about_groups(
        guarantee,
        protects=f"groups of {guarantee.protects}",
        assumptions=(*assumptions, ORDER_OF_GROUPS),
    )


_LEAST_EPSILON = 1e-100  # so that the variance of the noise is finite
# The offset of the last of equal candidates is less than 1 / _TIE_BREAK of the sensitivity, and for
# a large epsilon less than _TIE_BREAK / epsilon of it: 50 scales of the noise.
_TIE_BREAK = 100


@dataclass(frozen=True)
class PrivateChoice:
    """Pure epsilon-DP choice of one candidate and, with a share of the budget, its score.

    Parameters
    ----------
    mechanism : {"permute_and_flip", "exponential"}
        Selection mechanism.
    epsilon : float, int or Fraction
        Budget of both releases, > 0; used as an exact fraction.
    score_fraction : float
        Share of the score, in [0, 1); 0: no score is released.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Relation of neighbouring data sets. With "add-remove" half of the score's share is for the
        number of records.

    Attributes
    ----------
    epsilon_score, epsilon_choice : Fraction
        Shares of the score and of the choice; the two add up to epsilon exactly.
    counts : bool
        Whether the number of records is secret, so that a count is released.
    rate : int
        Rate of the selection, relative to that for replaced records: a replaced record may increase
        one total and reduce another, an added one moves all totals in the same direction.
    """

    mechanism: str
    epsilon: float | Fraction
    score_fraction: float
    neighbours: str = REPLACE_ONE

    SELECTIONS: ClassVar[dict] = {
        "permute_and_flip": PermuteAndFlip,
        "exponential": ExponentialMechanism,
    }

    def __post_init__(self):
        # A plain float or a Fraction, as Fraction(numpy.float32(1)) is a TypeError.
        epsilon = check_positive(self.epsilon, "epsilon")
        if epsilon < _LEAST_EPSILON:
            raise ValueError(f"epsilon must be at least {_LEAST_EPSILON}, got {float(epsilon)}.")
        check_choice(self.mechanism, "mechanism", sorted(self.SELECTIONS))
        # Checked even if scikit-learn's parameter validation is switched off.
        check_within(self.score_fraction, "score_fraction", "[0, 1)")
        check_choice(self.neighbours, "neighbours", list(NEIGHBOURS))
        # In fractions, so that both shares add up to epsilon without a rounding.
        of_score = Fraction(epsilon) * Fraction(float(self.score_fraction))
        if 0 < of_score < _LEAST_EPSILON / 1e10:
            raise ValueError(
                f"score_fraction is too small: epsilon={float(of_score)} of the score."
            )
        shares = {"epsilon_score": of_score, "epsilon_choice": Fraction(epsilon) - of_score}
        counts = self.neighbours == ADD_REMOVE
        # Rate 2: exp(-epsilon loss / Delta) instead of exp(-epsilon loss / (2 Delta)).
        derived = {"epsilon": epsilon, **shares, "counts": counts, "rate": 2 if counts else 1}
        set_fields(self, **derived)

    @property
    def guarantee(self):
        """Guarantee of all releases together, by sequential composition."""
        name = self.mechanism.replace("_", "-")
        steps = [f"{name} choice (epsilon {float(self.epsilon_choice):.4g})"]
        if self.epsilon_score:
            what = "score and count, half each" if self.counts else "score"
            steps.append(f"discrete Laplace {what} (epsilon {float(self.epsilon_score):.4g})")
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            protects="validation records",
            mechanism=" + ".join(steps),
            assumptions=_SECRET_COUNT if self.counts else CHOICE_ASSUMPTIONS,
            reference="McKenna & Sheldon 2020; Ghosh, Roughgarden & Sundararajan 2012",
        )

    def release_count(self, n_records, source):
        """Release a secret number of records, at least 1; None without a budget for it.

        Adding or removing a record moves the number by 1.

        Parameters
        ----------
        n_records : int
            Protected.
        source : RandomSource

        Returns
        -------
        count : int or None
            Released.
        """
        if not self.epsilon_score:
            return None
        # At least 1, as a denominator. Sensitivity 1; the other half of the score's share is for
        # the total.
        return max(1, int(DiscreteLaplace(self.epsilon_score / 2, 1).release(n_records, source)))

    def release(self, totals, offsets, *, sensitivity, score, source, compared=None):
        """Release a choice and the score of the chosen candidate.

        Parameters
        ----------
        totals : list of (int or None), length n_candidates
            Totals on the protected records, smaller is better. Protected. None for a candidate that
            cannot win.
        offsets : list of int, length n_candidates
            Public integers added to the losses in the choice (not in the score).
        sensitivity : int
            Largest change of any total when one protected record is replaced, or added; an added
            one must not reduce a total.
        score : callable
            ``score(index, epsilon)`` releases the score of a candidate at a cost of epsilon.
        source : RandomSource
        compared : tuple (list of int, int), default=None
            Protected integers that are compared instead of the totals, and their sensitivity.

        Returns
        -------
        index : int
            Released.
        score : ReleasedScore or None
            Released; None if `score_fraction` is 0.
        """
        # Public: a total is None if a candidate fails on the public rows.
        eligible = [k for k, total in enumerate(totals) if total is not None]
        values, unit = (totals, sensitivity) if compared is None else compared
        # Of equal candidates the first is preferred, as in GridSearchCV, by a public offset of at
        # most 1 % of the sensitivity, and less if that would exceed the noise. Losses and
        # sensitivity are multiplied by `fine` so that the offsets are integers.
        fine = max(_TIE_BREAK, ceil(self.epsilon_choice / _TIE_BREAK)) * len(eligible)
        losses = [fine * (values[k] + offsets[k]) + rank * unit for rank, k in enumerate(eligible)]
        rate = self.rate * self.epsilon_choice
        mechanism = self.SELECTIONS[self.mechanism](rate, fine * unit)
        index = eligible[mechanism.select(losses, source=source)]
        # The score of the chosen candidate alone: each further score would cost as much again.
        return index, score(index, self.epsilon_score) if self.epsilon_score else None


SELECTION_NAMES = ", ".join(f'"{name}"' for name in PrivateChoice.SELECTIONS)  # for messages
