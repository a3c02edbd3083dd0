"""The statement that accompanies every release."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from ._checks import check_delta, check_epsilon, check_mu, round_up
from ._conversions import delta_from_mu

Status = Literal["proved", "conditional", "void"]
DELTA_ROUNDING = 1e-9  # relative; how far a stated delta may lie below the computed one
STATUSES: tuple[Status, ...] = ("proved", "conditional", "void")


@dataclass(frozen=True, kw_only=True)
class PrivacyGuarantee:
    """What is promised, to whom, on which assumptions. It holds no data.

    For any two neighbouring data sets D, D' and any set S of outputs,
    P(M(D) in S) <= exp(epsilon) P(M(D') in S) + delta.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss, positive and finite, in nats.
    delta : float, default=0.0
        Probability in [0, 1) with which the bound may fail; 0 is pure differential privacy.
    mu : float or None, default=None
        If given, the mechanism is also mu-Gaussian differentially private. The pair
        (epsilon, delta) is then one point of its curve, and composition uses the whole curve.
        With ``delta=0`` composition uses epsilon.
    statistical_distance : float, default=0.0
        Total variation distance in [0, 1) between what is run and the ideal mechanism that `mu`
        describes. Delta must include (1 + exp(epsilon)) times it.
    neighbours : str, default="replace-one"
        When two data sets are neighbours.
    protects : str, default=""
        Which records are protected.
    mechanism : str, default=""
        What makes the release private.
    assumptions : tuple of str, default=()
        What must hold besides the code; for a void guarantee also why it is void.
    status : {"proved", "conditional", "void"}, default="proved"
        "conditional": proved under the assumptions only. "void": nothing is promised.
    reference : str, default=""
        Where the proof is.

    Attributes
    ----------
    parts : tuple of PrivacyGuarantee
        What a composed guarantee consists of; () for a single release. Used to compose further
        without loss; a copy made by :func:`dataclasses.replace` has none.

    References
    ----------
    Dwork and Roth (2014), The algorithmic foundations of differential privacy, Definition 2.4.
    Dong, Roth and Su (2022), Gaussian differential privacy, Definition 4.

    Examples
    --------
    >>> from skdpbo.privacy import PrivacyGuarantee
    >>> print(PrivacyGuarantee(epsilon=1.0, protects="validation records"))
    The release is (epsilon=1, delta=0)-differentially private for the validation records \
(neighbours: replace-one); proved.
    """

    epsilon: float
    delta: float = 0.0
    mu: float | None = None
    statistical_distance: float = 0.0
    neighbours: str = "replace-one"
    protects: str = ""
    mechanism: str = ""
    assumptions: tuple[str, ...] = ()
    status: Status = "proved"
    reference: str = ""
    parts: tuple[PrivacyGuarantee, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._set("epsilon", round_up(check_epsilon(self.epsilon)))
        self._set("delta", check_delta(self.delta))
        if self.mu is not None:
            self._set("mu", check_mu(self.mu))
        distance = check_delta(self.statistical_distance, "statistical_distance")
        self._set("statistical_distance", distance)
        for name in ("neighbours", "protects", "mechanism", "reference"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a string.")
        if not self.neighbours:
            raise ValueError("neighbours must say when two data sets are neighbours.")
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {STATUSES}, got {self.status!r}.")
        self._set("assumptions", _as_strings(self.assumptions))
        if self.status != "void":
            self._check_consistency()

    def _check_consistency(self) -> None:
        """Refuse a delta that the mechanism's own curve exceeds by more than rounding."""
        mu = self.mu if self.delta > 0 else None
        needed = implied_delta(self.epsilon, mu, self.statistical_distance)
        if needed > self.delta * (1 + DELTA_ROUNDING):
            raise ValueError(
                f"delta={self.delta} is not implied: at epsilon={self.epsilon}, mu={self.mu} and "
                f"statistical_distance={self.statistical_distance} it is {needed:.9g}."
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def voided(self, reason: str) -> PrivacyGuarantee:
        """Return a copy that promises nothing; the reason comes first among its assumptions.

        Parameters
        ----------
        reason : str
            Why nothing is promised; not empty.

        Returns
        -------
        PrivacyGuarantee
            The same numbers with the status "void".
        """
        if not isinstance(reason, str) or not reason:
            raise ValueError("reason must say why the guarantee is void.")
        copy = replace(self, status="void", assumptions=(reason, *self.assumptions))
        copy._set("parts", self.parts)
        return copy

    def __str__(self) -> str:
        what = f"(epsilon={self.epsilon:.6g}, delta={self.delta:.6g})-differentially private"
        if self.mu is not None:
            what += f" and {self.mu:.6g}-GDP"
        who = f" for the {self.protects}" if self.protects else ""
        how = f" by {self.mechanism}" if self.mechanism else ""
        because = "; ".join(self.assumptions)
        if self.status == "void":
            why = because or "no reason was given"
            return (
                f"The release carries no privacy guarantee ({why}); it was made to be {what}{who}."
            )
        ending = self.status + (f", assuming: {because}" if because else "")
        return f"The release is {what}{who}{how} (neighbours: {self.neighbours}); {ending}."


def implied_delta(epsilon: float, mu: float | None, statistical_distance: float) -> float:
    """Delta at epsilon of a mechanism that is within a total variation distance of mu-GDP."""
    delta = 0.0 if mu is None else delta_from_mu(mu, epsilon)
    if statistical_distance > 0:
        delta += (1 + math.exp(min(epsilon, 700.0))) * statistical_distance
    return delta


def _as_strings(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise TypeError("assumptions must be a tuple of strings, not one string.")
    strings = tuple(values)
    if not all(isinstance(value, str) for value in strings):
        raise TypeError("assumptions must be a tuple of strings.")
    return strings
