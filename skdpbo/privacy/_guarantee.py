"""Statement of a guarantee, and copies that state the same or less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from skdpbo.privacy._checks import (
    check_choice,
    check_count,
    check_delta,
    check_mu,
    check_positive,
    check_real,
    check_text,
    set_fields,
)
from skdpbo.privacy._conversions import delta_from_mu
from skdpbo.privacy._rounding import one_plus_exp, round_up

Status = Literal["proved", "conditional", "void"]
DELTA_ROUNDING = 1e-9  # relative; a stated delta may lie this far below the computed one
TINY_DELTA = 1e-30  # smaller deltas are shown as "<1e-30"
_VERSION = 1  # of the dictionary form
STATUSES: tuple[Status, ...] = ("proved", "conditional", "void")  # from strong to weak
RECORD_RELATIONS = ("replace-one", "add-remove")
# Relation for all records of a group, by the one for a single record.
GROUP_RELATIONS = dict(
    zip(RECORD_RELATIONS, ("one group replaced", "one group more or less"), strict=True)
)
RELATIONS = (*RECORD_RELATIONS, *GROUP_RELATIONS.values())
SEEDED = "the noise was drawn from a seed (random_state), so it can be recomputed and removed"


@dataclass(frozen=True, kw_only=True)
class PrivacyGuarantee:
    """Differential privacy of a release: parameters, protected records and assumptions.

    It holds no data.

    For any two neighbouring data sets D, D' and any set S of outputs,
    P(M(D) in S) <= exp(epsilon) P(M(D') in S) + delta.

    Parameters
    ----------
    epsilon : float
        Bound on the privacy loss in nats, positive and finite; 0, with delta 0, for a release that
        is a function of public values alone.
    delta : float, default=0.0
        In [0, 1); 0 is pure differential privacy. At worst the probability that everything is
        shown. The release raises the odds of the true data set (D or D') by a factor above
        2 exp(epsilon) with probability at most 2 delta.
    mu : float or None, default=None
        If given, the mechanism is also mu-Gaussian differentially private. The pair
        (epsilon, delta) is then one point of its curve, and composition uses the whole curve.
        With ``delta=0`` composition uses epsilon.
    statistical_distance : float, default=0.0
        Total variation distance in [0, 1) between what is run and the ideal mechanism that `mu`
        describes. Delta must include (1 + exp(epsilon)) times it.
    neighbours : str, default="replace-one"
        Relation of neighbouring data sets, such as "replace-one" or "add-remove".
    protects : str, default=""
        Protected records, such as "validation records".
    mechanism : str, default=""
        Mechanism that makes the release private.
    assumptions : tuple of str, default=()
        Conditions outside the code; the first one of a void guarantee is the reason.
    status : {"proved", "conditional", "void"}, default="proved"
        "conditional": proved under the assumptions only. "void": nothing is promised.
    reference : str, default=""
        Source of the proof.
    n_protected : int, default=None
        Number of protected records, at least 0, where it is public; None where it is unknown or
        secret.
    n_public : int, default=None
        Number of records that are not protected, at least 0, where there are some.

    Attributes
    ----------
    parts : tuple of PrivacyGuarantee
        Releases that a composed guarantee consists of; () for a single release. Used to compose
        further without loss; a copy made by :func:`dataclasses.replace` has none.

    References
    ----------
    Dwork and Roth (2014), The algorithmic foundations of differential privacy, Definition 2.4.
    Dong, Roth and Su (2022), Gaussian differential privacy, Definition 2.6.

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
    n_protected: int | None = None
    n_public: int | None = None
    parts: tuple[PrivacyGuarantee, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        set_fields(self, delta=check_delta(self.delta))
        # Epsilon 0 is for releases that read no record: without delta and mu.
        is_free = self.delta == 0 and self.mu is None and check_real(self.epsilon, "epsilon") == 0
        bound = 0.0 if is_free else round_up(check_positive(self.epsilon, "epsilon"))
        set_fields(self, epsilon=bound)
        if self.mu is not None:
            set_fields(self, mu=check_mu(self.mu))
        distance = check_delta(self.statistical_distance, "statistical_distance")
        set_fields(self, statistical_distance=distance)
        for name in ("neighbours", "protects", "mechanism", "reference"):
            check_text(getattr(self, name), name)
        if not self.neighbours:
            raise ValueError("neighbours must say when two data sets are neighbours.")
        check_choice(self.status, "status", STATUSES)
        set_fields(self, assumptions=as_strings(self.assumptions))
        for name in ("n_protected", "n_public"):
            if (count := getattr(self, name)) is not None:
                set_fields(self, **{name: check_count(count, name, least=0)})
        if self.status != "void":
            # The stated delta must not be below that of the curve. The curve has no point at
            # delta 0: such a pair is pure, and proved without it.
            mu = self.mu if self.delta > 0 else None
            needed = implied_delta(self.epsilon, mu, self.statistical_distance)
            if needed > self.delta * (1 + DELTA_ROUNDING):
                raise ValueError(
                    f"delta={self.delta} is not implied: at epsilon={self.epsilon}, mu={self.mu} "
                    f"and statistical_distance={self.statistical_distance} it is {needed:.9g}."
                )

    def assuming(self, *assumptions: str, status: Status | None = None) -> PrivacyGuarantee:
        """Return a copy with further assumptions.

        Parameters
        ----------
        *assumptions : str
            Appended to those that the guarantee has; each is stated once.
        status : {"proved", "conditional", "void"}, default=None
            Status of the copy if it is weaker than that of the guarantee; a status never gets
            stronger.

        Returns
        -------
        PrivacyGuarantee
            The same numbers on more assumptions.

        Examples
        --------
        >>> from skdpbo.privacy import PrivacyGuarantee
        >>> stated = PrivacyGuarantee(epsilon=1.0)
        >>> print(stated.assuming("records are independent", status="conditional"))
        The release is (epsilon=1, delta=0)-differentially private \
(neighbours: replace-one); conditional, assuming: records are independent.
        """
        if status is not None:
            check_choice(status, "status", STATUSES)
        return restated(
            self,
            assumptions=tuple(dict.fromkeys((*self.assumptions, *as_strings(assumptions)))),
            status=max(self.status, status or "proved", key=STATUSES.index),
        )

    def voided(self, reason: str) -> PrivacyGuarantee:
        """Return a copy that promises nothing; the reason comes first among its assumptions.

        Parameters
        ----------
        reason : str
            Reason for the status; not empty.

        Returns
        -------
        PrivacyGuarantee
            The same numbers with the status "void".
        """
        if not isinstance(reason, str) or not reason:
            raise ValueError("reason must say why the guarantee is void.")
        return restated(self, status="void", assumptions=(reason, *self.assumptions))

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and the parts as JSON types, without rounding.

        Returns
        -------
        dict
            Also a ``version``, for :meth:`from_dict`, and, for human readers, the protected
            ``unit`` and the ``composition``.
        """
        state = {item.name: getattr(self, item.name) for item in fields(self) if item.init}
        return state | {
            "assumptions": list(self.assumptions),
            "parts": [part.to_dict() for part in self.parts],
            "version": _VERSION,
            **self._for_readers(),
        }

    def _for_readers(self) -> dict[str, str]:
        """Statements that follow from the fields."""
        # Unit of protection: all records that differ between neighbours.
        unit = "one row, moved" if "moved" in self.neighbours else "one record"
        if "group" in self.neighbours:
            unit = "all records of one group"
        n_parts = len(self.parts)
        return {
            "unit": unit,
            "composition": f"sequential, of {n_parts} releases" if n_parts else "one release",
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> PrivacyGuarantee:
        """Return the guarantee of a dictionary that :meth:`to_dict` made.

        Parameters
        ----------
        state : mapping
            An unknown field or version is an error, and so is a unit or a composition that does
            not follow from the fields.

        Returns
        -------
        PrivacyGuarantee
            Equal to the one that was written, with its parts.
        """
        if not isinstance(state, Mapping):
            raise TypeError(f"state must be a mapping, got {type(state).__name__}.")
        values = dict(state)
        version, parts = values.pop("version", None), values.pop("parts", ())
        read = {name: values.pop(name) for name in ("unit", "composition") if name in values}
        if version != _VERSION:
            raise ValueError(f"A guarantee of version {version!r} is not supported.")
        guarantee = cls(**values)
        set_fields(guarantee, parts=tuple(map(cls.from_dict, parts)))
        for name, text in read.items():
            # A unit or composition that was edited must not pass as a statement of the fields.
            if text != guarantee._for_readers()[name]:
                raise ValueError(f"{name}={text!r} does not follow from the other fields.")
        return guarantee

    def voided_if_seeded(self, random_state: object) -> PrivacyGuarantee:
        """Return the guarantee of noise drawn with `random_state`: void unless that is None.

        Parameters
        ----------
        random_state : object
            Parameter `random_state` of an estimator; None stands for secret noise.

        Returns
        -------
        PrivacyGuarantee
            The same guarantee, or a void copy.
        """
        return self if random_state is None else self.voided(SEEDED)

    def __str__(self) -> str:
        delta = f"delta<{TINY_DELTA}" if 0 < self.delta < TINY_DELTA else f"delta={self.delta:.6g}"
        what = f"(epsilon={self.epsilon:.6g}, {delta})-differentially private"
        if self.mu is not None:
            what += f" and {self.mu:.6g}-GDP"
        who = f" for the {self.protects}" if self.protects else ""
        by = f" by {self.mechanism}" if self.mechanism else ""
        because = "; ".join(self.assumptions)
        if self.status == "void":
            why = because or "no reason was given"
            return (
                f"The release carries no privacy guarantee ({why}); it was made to be {what}{who}."
            )
        ending = self.status + (f", assuming: {because}" if because else "")
        text = ""
        if self.n_protected is not None:
            text += f"; {self.n_protected} {self.protects or 'records'}"
        if self.n_public:
            text += f"; the {self.n_public} public rows are not protected"
        relation = f"(neighbours: {self.neighbours}{text})"
        return f"The release is {what}{who}{by} {relation}; {ending}."


def implied_delta(epsilon: float, mu: float | None, statistical_distance: float) -> float:
    """Delta at epsilon of a mechanism within a total variation distance of a mu-GDP one."""
    delta = 0.0 if mu is None else delta_from_mu(mu, epsilon)
    if statistical_distance > 0:
        delta += one_plus_exp(epsilon) * statistical_distance
    return delta


def joint_terms(stated: Sequence[Any]) -> dict[str, Any]:
    """Return the joint assumptions, status and reference of guarantees or profiles, as fields."""
    return {
        "assumptions": tuple(dict.fromkeys(text for s in stated for text in s.assumptions)),
        "status": max((s.status for s in stated), key=STATUSES.index),  # the weakest
        "reference": "; ".join(dict.fromkeys(s.reference for s in stated if s.reference)),
    }


def restated(stated: PrivacyGuarantee, **changes: Any) -> PrivacyGuarantee:
    """Return a guarantee with changed fields and the same parts.

    Parameters
    ----------
    stated : PrivacyGuarantee
    **changes : dict of str -> object
        New values of fields, which the parts must imply.
    """
    copy = replace(stated, **changes)
    set_fields(copy, parts=stated.parts)  # `replace` drops them; composition needs them
    return copy


def about_groups(stated: PrivacyGuarantee, **changes: Any) -> PrivacyGuarantee:
    """Return a guarantee for one record, and its parts, restated for all records of one group.

    Parameters
    ----------
    stated : PrivacyGuarantee
        Of a mechanism that takes one value per record and is given one per group instead.
    **changes : dict of str -> object
        Further fields.
    """
    copy = replace(stated, neighbours=GROUP_RELATIONS[stated.neighbours], **changes)
    set_fields(copy, parts=tuple(about_groups(part, **changes) for part in stated.parts))
    return copy


def as_strings(values: Iterable[str]) -> tuple[str, ...]:
    """Return assumptions as a tuple."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"assumptions must be a tuple of strings, got {values!r}.")
    strings = tuple(values)
    if not all(isinstance(value, str) for value in strings):
        raise TypeError("assumptions must be a tuple of strings.")
    return strings
