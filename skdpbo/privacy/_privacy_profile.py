"""Privacy profile of a release, stated by the user or by an accountant of another library."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdpbo.privacy._checks import check_delta, check_real, check_text
from skdpbo.privacy._guarantee import PrivacyGuarantee, Status, as_strings, joint_terms
from skdpbo.privacy._profile import upper_log_gaussian_delta
from skdpbo.privacy._profile_table import ProfileTable, falling, tabulate
from skdpbo.privacy._rounding import round_up

Array = NDArray[np.float64]

UNSTATED = "not stated by the profile"
_STATED = "the stated privacy profile holds"
# Names of delta(epsilon) in other libraries: privacy-loss distributions and accountants of
# dp-accounting, privacy profiles of OpenDP.
_DELTA_METHODS = ("get_delta_for_epsilon", "get_delta", "delta")
_RELATIONS = {"ADD_OR_REMOVE_ONE": "add-remove", "REPLACE_ONE": "replace-one"}
# Deltas at which an accountant that offers only epsilon(delta), such as those of Opacus, is
# evaluated; each may take a tenth of a second. Four times as many lower an epsilon by at most 1 %,
# and the total of a selection by .3 % (Gaussian profiles).
_DELTAS = np.concatenate([np.linspace(0.99, 0.1, 20), np.logspace(-1, -15, 71)])


class PrivacyProfile:
    """Privacy profile of a release: an upper bound on delta at every epsilon.

    It is evaluated at 1025 points; in between, chords in e^epsilon bound it from above, since the
    profile of a mechanism is convex in e^epsilon. It holds no data.

    Parameters
    ----------
    profile : callable, PrivacyGuarantee, privacy-loss distribution or accountant
        - A function delta(epsilon) of a number or an array, epsilon >= 0, for both directions of
          the neighbouring relation.
        - A `PrivacyGuarantee` (its Gaussian curve if it has one, else the pair) or a
          `PrivacyProfile`.
        - A privacy-loss distribution or an accountant of dp-accounting, a privacy profile of
          OpenDP, or anything else with a method ``get_delta_for_epsilon``, ``get_delta`` or
          ``delta`` of epsilon.
        - An accountant of Opacus, or anything else with ``get_epsilon(delta)``.
    neighbours : str, default=None
        Relation of neighbouring data sets for which the profile holds. None: that of the object, if
        it states one; "replace-one" for a function; otherwise "not stated by the profile", which
        does not compose with other relations.
    protects, mechanism : str, default=""
        As in `PrivacyGuarantee`.
    assumptions : tuple of str, default=()
        Beyond the assumption that the stated profile holds.
    reference : str, default=""
        As in `PrivacyGuarantee`.

    Attributes
    ----------
    status : {"proved", "conditional", "void"}
        That of a guarantee or profile that is given; else "conditional", since a stated profile is
        not checked.

    Raises
    ------
    TypeError, ValueError
        If a value is not a finite number in [0, 1], or the profile increases.

    See Also
    --------
    selection_guarantee : Cost of the best of several trials, from the profile of one.

    References
    ----------
    Balle, Barthe and Gaboardi (2018), Privacy amplification by subsampling, Theorem 1.
    Dong, Roth and Su (2022), Gaussian differential privacy, Proposition 2.12 (duality).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.privacy import PrivacyProfile
    >>> pure = PrivacyProfile(
    ...     lambda epsilon: np.maximum(np.e - np.exp(epsilon), 0) / (np.e + 1)
    ... )
    >>> print(pure.guarantee(1e-5).status, round(float(pure.epsilon(0.1)), 3))
    conditional 0.853
    """

    def __init__(
        self,
        profile: Any,
        *,
        neighbours: str | None = None,
        protects: str = "",
        mechanism: str = "",
        assumptions: Sequence[str] = (),
        reference: str = "",
    ) -> None:
        stated = _stated_neighbours(profile)
        if neighbours is not None and stated not in (None, neighbours):
            raise ValueError(
                f"neighbours is {neighbours!r}, but the profile was computed for {stated!r}."
            )
        given: Any = profile if isinstance(profile, PrivacyGuarantee | PrivacyProfile) else None
        self.table = _table_of(profile)
        self.neighbours = neighbours or stated or ("replace-one" if callable(profile) else UNSTATED)
        self.protects = check_text(protects, "protects") or (given.protects if given else "")
        self.mechanism = check_text(mechanism, "mechanism") or (given.mechanism if given else "")
        self.assumptions = (*(given.assumptions if given else (_STATED,)), *as_strings(assumptions))
        self.status: Status = given.status if given else "conditional"
        self.reference = check_text(reference, "reference") or (given.reference if given else "")

    def delta(self, epsilon: float | Array) -> float | Array:
        """Upper bound on delta at any real epsilon, rounded up.

        Parameters
        ----------
        epsilon : float or ndarray
            Below zero the profile continues to delta = 1.

        Returns
        -------
        float or ndarray
            Of the shape of `epsilon`, in [0, 1].
        """
        bound = self.table.delta(np.asarray(epsilon, dtype=float))
        return float(bound) if np.ndim(epsilon) == 0 else bound

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon >= 0 that holds with `delta`, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Returns
        -------
        float
            Infinity where no point of the profile is as low.
        """
        return self.table.epsilon(check_delta(delta))

    def guarantee(self, delta: float) -> PrivacyGuarantee:
        """Return the point of the profile at `delta`.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Returns
        -------
        PrivacyGuarantee
            The pair, without `mu`.

        Raises
        ------
        ValueError
            If no epsilon holds with `delta`.
        """
        epsilon = self.epsilon(delta)
        if not math.isfinite(epsilon):
            raise ValueError(f"No epsilon holds for this profile at delta={delta}.")
        return PrivacyGuarantee(
            # PrivacyGuarantee allows epsilon 0 with delta 0 alone.
            epsilon=max(epsilon, math.ulp(0.0)),
            delta=delta,
            neighbours=self.neighbours,
            protects=self.protects,
            mechanism=self.mechanism,
            assumptions=self.assumptions,
            status=self.status,
            reference=self.reference,
        )

    def voided(self, reason: str) -> PrivacyProfile:
        """Return a copy that promises nothing; the reason comes first among its assumptions.

        Parameters
        ----------
        reason : str
            Reason for the status.

        Returns
        -------
        PrivacyProfile
            The same bound with the status "void".
        """
        stated = (check_text(reason, "reason"), *self.assumptions)
        return changed_profile(self, self.table, status="void", assumptions=stated)

    def assuming(self, *assumptions: str) -> PrivacyProfile:
        """Return a copy with further assumptions, conditional on them.

        Parameters
        ----------
        *assumptions : str
            Appended to those that the profile has; each is stated once.

        Returns
        -------
        PrivacyProfile
            The same bound on more assumptions.
        """
        stated = tuple(dict.fromkeys((*self.assumptions, *assumptions)))
        status = "void" if self.status == "void" else "conditional"
        return changed_profile(self, self.table, assumptions=stated, status=status)

    def __repr__(self) -> str:
        points = ", ".join(
            f"delta={delta:.0e} at epsilon={self.epsilon(delta):.4g}" for delta in (1e-5, 1e-8)
        )
        return f"PrivacyProfile({points}; neighbours: {self.neighbours})"


def changed_profile(profile: PrivacyProfile, table: ProfileTable, **fields: Any) -> PrivacyProfile:
    """Copy a profile with another table and other statements."""
    # Not by the constructor, which would tabulate the profile again.
    copy = object.__new__(type(profile))
    vars(copy).update(vars(profile) | {"table": table} | fields)
    return copy


def largest_profile(profiles: Sequence[PrivacyProfile], **statement: str) -> PrivacyProfile:
    """Profile that holds for each of several releases, one of which is chosen publicly."""
    epsilons = np.unique(np.concatenate([profile.table.epsilons for profile in profiles]))
    deltas = np.max([profile.table.delta(epsilons) for profile in profiles], axis=0)
    largest = ProfileTable(epsilons, falling(deltas))
    return changed_profile(profiles[0], largest, **joint_terms(profiles), **statement)


def _stated_neighbours(profile: Any) -> str | None:
    """Relation that a guarantee, an accountant, or an accountant's bound method states."""
    owner = getattr(profile, "__self__", profile)
    if isinstance(owner, PrivacyGuarantee | PrivacyProfile):
        return owner.neighbours
    # Accountants of Opacus state no relation; their proofs are for add-remove.
    if type(owner).__module__.partition(".")[0] == "opacus":
        return "add-remove"
    relation = getattr(owner, "neighboring_relation", None)
    if relation is None:
        return None
    name = getattr(relation, "name", str(relation))
    if name not in _RELATIONS:
        raise ValueError(f"Profiles for neighbours {name!r} are not supported.")
    return _RELATIONS[name]


def _table_of(profile: Any) -> ProfileTable:
    if isinstance(profile, PrivacyProfile):
        return profile.table
    if isinstance(profile, PrivacyGuarantee):
        return tabulate(partial(_stated_deltas, profile))
    for name in _DELTA_METHODS:
        if callable(getattr(profile, name, None)):
            return tabulate(partial(_evaluated, getattr(profile, name)))
    if callable(getattr(profile, "get_epsilon", None)):
        return _from_epsilons(profile.get_epsilon)
    if callable(profile):
        return tabulate(partial(_evaluated, profile))
    raise TypeError(
        "A privacy profile must be a PrivacyGuarantee, a function delta(epsilon), a privacy-loss "
        f"distribution or an accountant, got {type(profile).__name__}."
    )


def _evaluated(function: Callable[[Any], Any], epsilons: Array) -> Array:
    """Evaluate a function that takes a number, or also an array, at all epsilons."""
    # Compared with one value: the function may not treat an array elementwise.
    middle = epsilons.size // 2
    one = _number(function(float(epsilons[middle])))
    try:
        deltas = np.asarray(function(epsilons.copy()), dtype=float)
    except Exception:  # of any kind, if the function takes numbers alone
        deltas = np.empty(0)
    if deltas.shape == epsilons.shape and np.isclose(deltas[middle], one, rtol=1e-9, atol=0):
        return deltas
    return np.array([_number(function(float(epsilon))) for epsilon in epsilons])


def _number(value: Any) -> float:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"A privacy profile must give real numbers, got {type(value).__name__}.")
    number = float(value)
    # Up: the bound must not be below the stated value.
    return round_up(check_real(value, "profile")) if math.isfinite(number) else number


def _stated_deltas(guarantee: PrivacyGuarantee, epsilons: Array) -> Array:
    """Gaussian curve, or randomised response that fails with probability delta."""
    mu, bound, failure = guarantee.mu, guarantee.epsilon, guarantee.delta
    if mu is not None and guarantee.statistical_distance == 0:
        # exp is correct to less than one ulp: the next float is an upper bound, and above 0.
        gaussian = [math.exp(x) for x in upper_log_gaussian_delta(mu, epsilons).tolist()]
        curve: Array = np.minimum(np.nextafter(gaussian, np.inf), 1.0)
        return curve
    # (e^bound - e^epsilon) / (e^bound + 1), without a large exponential.
    inside = -np.expm1(np.minimum(epsilons - bound, 0.0)) / (1 + math.exp(-bound))
    total = failure + (1 - failure) * inside
    deltas: Array = np.where(inside > 0, np.minimum(total * (1 + 1e-14), 1.0), failure)
    return deltas


def _from_epsilons(get_epsilon: Callable[..., Any]) -> ProfileTable:
    """Table of the profile of an accountant that offers only epsilon(delta)."""
    points: dict[float, float] = {0.0: 1.0}
    for delta in _DELTAS:
        try:
            epsilon = _number(get_epsilon(float(delta)))
        except (ValueError, RuntimeError, ArithmeticError):
            continue  # some accountants raise where they have no bound; a missing point is safe
        if epsilon < math.inf:  # not NaN either, which `max` would take for 0
            epsilon = max(0.0, epsilon)
            # Several deltas may give epsilon 0: the smallest holds.
            points[epsilon] = min(float(delta), points.get(epsilon, 1.0))
    if len(points) == 1:
        raise ValueError("The accountant gives no finite epsilon.")
    epsilons = np.array(sorted(points))
    # A bound at a smaller epsilon also holds at a larger one.
    return ProfileTable(epsilons, np.minimum.accumulate([points[x] for x in epsilons]))


def as_profile(profile: Any) -> PrivacyProfile:
    """Return a profile as it is, anything else as a `PrivacyProfile`."""
    return profile if isinstance(profile, PrivacyProfile) else PrivacyProfile(profile)


def takes_epsilon_alone(function: Callable[..., Any]) -> bool:
    """Whether a function takes one argument, delta(epsilon), and no `n_samples` after it."""
    try:
        signature = inspect.signature(function)
        signature.bind(1.0)
    except TypeError:
        return False
    except ValueError:  # without a signature, such as some compiled functions
        return True
    n_samples = signature.parameters.get("n_samples")  # of (estimator, n_samples=None)
    # Keyword-only where a partial has set it.
    return n_samples is None or n_samples.kind is n_samples.KEYWORD_ONLY
