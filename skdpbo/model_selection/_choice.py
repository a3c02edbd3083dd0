"""The release of the searchers: one private choice among candidates and one noisy score.

Sensitivity: replacing one protected record moves the total integer loss of every candidate by at
most a public integer. With protected validation records that is ``units``, because a record trains
nothing and its own loss lies in {0, ..., units}; with chunks see ``chunk_sensitivity``. Theorems:
see ``docs/theory/permute_and_flip.md``.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from skdpbo.mechanisms import DiscreteLaplace, ExponentialMechanism, PermuteAndFlip
from skdpbo.privacy import PrivacyGuarantee, check_epsilon

__all__ = ["CHOICE_ASSUMPTIONS", "PrivateChoice"]

CHOICE_ASSUMPTIONS = (
    "the public rows (X, or the rows of X outside the validation part) may influence everything "
    "that is released",
    "the estimator predicts each row from that row alone",
    "the numbers of rows, the column names and the types (with the categories of categorical "
    "columns) are public",
    "running time and memory use are not observed",
)

# The last of equal candidates is handicapped by less than 1 / _TIE_BREAK of the sensitivity.
_TIE_BREAK = 100


@dataclass(frozen=True)
class PrivateChoice:
    """Pure epsilon-DP choice of one candidate and, with a share of the budget, its score.

    Parameters
    ----------
    mechanism : {"permute_and_flip", "exponential"}
        Who chooses.
    epsilon : float, int or Fraction
        Budget of both releases, > 0; taken as the exact fraction that it is.
    score_fraction : float
        Share of the score, in [0, 1); 0 releases none.
    """

    mechanism: str
    epsilon: float | Fraction
    score_fraction: float

    SELECTIONS: ClassVar[dict] = {
        "permute_and_flip": PermuteAndFlip,
        "exponential": ExponentialMechanism,
    }

    def __post_init__(self):
        # A plain float or a Fraction from here on: Fraction(numpy.float32(1)) is a TypeError.
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon, "epsilon"))
        if self.mechanism not in self.SELECTIONS:
            raise ValueError(f"mechanism must be one of {sorted(self.SELECTIONS)}.")
        # Also where scikit-learn's parameter validation is switched off.
        if not 0 <= self.score_fraction < 1:
            raise ValueError("score_fraction must be in [0, 1).")

    @property
    def epsilon_score(self):
        """Share of the score, a Fraction."""
        return Fraction(self.epsilon) * Fraction(float(self.score_fraction))

    @property
    def epsilon_choice(self):
        """Share of the choice, a Fraction; the two add up to epsilon exactly."""
        return Fraction(self.epsilon) - self.epsilon_score

    @property
    def guarantee(self):
        """Guarantee of both releases together, by sequential composition."""
        name = self.mechanism.replace("_", "-")
        steps = [f"{name} choice (epsilon {float(self.epsilon_choice):.4g})"]
        if self.epsilon_score:
            steps.append(f"discrete Laplace score (epsilon {float(self.epsilon_score):.4g})")
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            protects="validation records",
            mechanism=" + ".join(steps),
            assumptions=CHOICE_ASSUMPTIONS,
            reference="McKenna & Sheldon 2020; Ghosh, Roughgarden & Sundararajan 2012",
        )

    def score_noise(self, *, sensitivity, largest):
        """Standard deviation of the score's noise, as a share of the score's range; public.

        That of discrete Laplace noise of scale s is sqrt(2) s within 1 % for s above 3, and less
        below. 0 without a score.
        """
        if not self.epsilon_score:
            return 0.0
        return math.sqrt(2) * sensitivity / (float(self.epsilon_score) * largest)

    def release(self, totals, offsets, *, sensitivity, largest, source):
        """Choose, and release the total loss of the chosen.

        Parameters
        ----------
        totals : list of (int or None), length n_candidates
            Total losses on the protected records, protected; None for a candidate that cannot win.
        offsets : list of int, length n_candidates
            Public integers added to the losses in the choice (not in the score).
        sensitivity : int
            Largest change of any total when one protected record is replaced.
        largest : int
            Largest possible total.
        source : RandomSource

        Returns
        -------
        index : int
            Released.
        total : int or None
            Released: noisy total loss, clipped to [0, largest] (post-processing); None if
            `score_fraction` is 0.
        """
        index = self.choose(totals, offsets, sensitivity=sensitivity, source=source)
        return index, self.score(
            totals[index], sensitivity=sensitivity, largest=largest, source=source
        )

    def choose(self, totals, offsets, *, sensitivity, source):
        """Release the index of the choice; see `release`."""
        eligible = [k for k, total in enumerate(totals) if total is not None]
        # Equal candidates: the first is preferred, as in GridSearchCV, by a public offset of at
        # most 1 % of the sensitivity. Multiplying losses and sensitivity keeps integers.
        fine = _TIE_BREAK * len(eligible)
        losses = [
            fine * (totals[k] + offsets[k]) + rank * sensitivity for rank, k in enumerate(eligible)
        ]
        mechanism = self.SELECTIONS[self.mechanism](self.epsilon_choice, fine * sensitivity)
        return eligible[mechanism.select(losses, source=source)]

    def score(self, total, *, sensitivity, largest, source):
        """Release the noisy total of the chosen, or None; see `release`."""
        if not self.epsilon_score:
            return None
        noisy = DiscreteLaplace(self.epsilon_score, sensitivity).release(total, source=source)
        return min(max(int(noisy), 0), largest)
