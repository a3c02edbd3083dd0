"""A budget that releases are charged to before they touch protected data."""

from __future__ import annotations

import difflib
import math
import os
import warnings
from collections.abc import Iterable, Sequence
from fractions import Fraction
from types import TracebackType
from typing import Any, NoReturn

from ..exceptions import BudgetExceededError, LedgerError, NewBudgetWarning
from ._checks import check_delta, check_epsilon, check_text
from ._composition import added_epsilon, composed_epsilon
from ._guarantee import PrivacyGuarantee
from ._ledger_accountant import Accountant, ask, check_accountant, distinct
from ._ledger_file import LedgerFile
from ._ledger_scope import (
    PROCESS,
    Opening,
    RemoteOpening,
    claims_of,
    enter,
    leave,
    openings_here,
    without_walls,
)
from ._ledger_sharing import SharedStore, remote_file
from ._ledger_store import Budget, FileStore, LedgerEntry, Store, new_entry, transaction
from ._ledger_views import LedgerViews

# Ten releases of 0.1 fit a budget of 1, although ten times the float 0.1 is larger than 1.
_ROUNDING = 1e-12


class PrivacyLedger(LedgerViews):
    """A total (epsilon, delta) that everything released inside its ``with`` block is charged to.

    Charges are composed by :func:`compose` at the ledger's delta. They are made before protected
    data is touched and are never given back, also if the release then fails. A void guarantee is
    charged what it claims: it promises nothing, but it is not free. Blocks may be nested; a charge
    counts in all enclosing ledgers, or in none if one of them cannot afford it. A ledger is not to
    be copied or pickled.

    Parameters
    ----------
    epsilon : float
        Total epsilon, positive.
    delta : float, default=0.0
        Total delta, in [0, 1). With 0 only pure guarantees can be charged.
    path : str or path-like, default=None
        A file that keeps the charges; it is created if it does not exist. Charges survive the
        process, and processes that share the file never overdraw it together. None keeps them
        in memory.
    dataset : str, default="default"
        Name of the data set whose budget this is. A file holds any number of them.
    accountant : object, default=None
        An accountant of another library with the methods ``check(epsilon, delta)`` and
        ``spend(epsilon, delta)``: every charge is checked and spent there too.

    Attributes
    ----------
    epsilon, delta : float or Fraction, float
        The budget.
    path : str or None
        The file.
    dataset : str
        The data set.
    entries : tuple of LedgerEntry
        The charges, oldest first, those of other processes included.

    Raises
    ------
    LedgerError
        If the file is damaged, is not a ledger, cannot be written, or holds another budget for
        the data set. So does every charge that cannot be kept; nothing may be released then.

    Notes
    -----
    Amounts are compared up to a relative 1e-12, so that ten charges of 0.1 fit a budget of 1.

    A new data set in a file that has one of a similar name gets a `NewBudgetWarning`: a mistyped
    name would be a second budget for the same records.

    What is released may depend on earlier releases. That the *amounts* charged may depend on them
    too is proved for charges that fit by adding epsilons and deltas (Rogers, Roth, Ullman and
    Vadhan 2016) and for Gaussian charges alone (Smith and Thakurta 2022); where others fit by
    composition only, choose the amounts beforehand.

    Fits of estimators with :class:`LedgerMixin` (all of skdpbo's) are also counted in worker
    threads and processes that the block hands them to. A thread without a ledger of its own is
    counted in all that are open in the process.

    Examples
    --------
    >>> from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger
    >>> with PrivacyLedger(epsilon=1.0) as ledger:
    ...     ledger.charge(PrivacyGuarantee(epsilon=0.75), label="choice of C")
    >>> ledger.remaining()
    Budget(epsilon=0.25, delta=0.0)
    """

    def __init__(
        self,
        epsilon: float | Fraction,
        delta: float = 0.0,
        *,
        path: str | os.PathLike[str] | None = None,
        dataset: str = "default",
        accountant: Accountant | None = None,
    ) -> None:
        self.epsilon: float | Fraction = check_epsilon(epsilon)
        self.delta: float = check_delta(delta)
        self.dataset = check_text(dataset, "dataset")
        self._accountant = check_accountant(accountant)
        self._shared = SharedStore(self.dataset, self.epsilon, self.delta)
        if path is not None:
            file = LedgerFile(path)
            file.create()
            self._agree_on_budget(file)
            self._shared.store = FileStore(file, self.dataset)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], dataset: str | None = None) -> PrivacyLedger:
        """Open a ledger that exists, with the budget that its file holds.

        Parameters
        ----------
        path : str or path-like
            The file.
        dataset : str, default=None
            Name of the data set; None for the only one.

        Returns
        -------
        PrivacyLedger

        Raises
        ------
        LedgerError
            If there is no such file or data set, the file has several data sets and none is named,
            or it cannot be used.
        """
        file = LedgerFile(path)
        with file.transaction(write=False) as tables:
            known = tables.datasets()
            names = ", ".join(map(repr, known))
            if dataset is None:
                if len(known) != 1:
                    raise LedgerError(
                        f"Name one of the data sets of the privacy ledger {file.path!r}: {names}.",
                        path=file.path,
                    )
                (dataset,) = known
            budget = tables.budget(dataset)
            if budget is None:
                raise LedgerError(
                    f"The privacy ledger {file.path!r} has no data set {dataset!r}, only {names}.",
                    path=file.path,
                )
        return cls(*budget, path=path, dataset=dataset)

    @property
    def path(self) -> str | None:
        """The file that keeps the charges, or None."""
        return self._shared.path

    @property
    def _store(self) -> Store:
        return self._shared.store

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The charges, oldest first, those of other processes included."""
        with PROCESS.lock:
            return self._store.entries

    def charge(self, guarantee: PrivacyGuarantee, label: str = "") -> None:
        """Record a release here and in the ledgers that enclose this one.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            What the release promises; its status is recorded with it.
        label : str, default=""
            What the release is for.

        Raises
        ------
        BudgetExceededError
            If it does not fit; then nothing is recorded anywhere.
        LedgerError
            If it cannot be recorded.
        """
        around = [ledger for ledger in map(_ledger_of, openings_here()) if ledger is not None]
        enclosing = around[: around.index(self)] if self in around else []
        _charge([*enclosing, self], guarantee, label)

    def affords(self, guarantee: PrivacyGuarantee) -> bool:
        """Whether a charge would fit this ledger now.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Of the release that is planned.

        Returns
        -------
        bool
            True if it fits; a ledger that encloses this one may still refuse it.
        """
        return self._within_budget(self.entries, guarantee)

    def spent(self) -> Budget:
        """Return what is spent.

        Returns
        -------
        Budget
            Delta is the sum of the charged ones, or the whole delta where epsilon fits only then.
        """
        return self._spent(self.entries)

    def remaining(self) -> Budget:
        """Return what a further release may cost, by adding epsilons and deltas.

        Returns
        -------
        Budget
            The epsilon and the delta that are left, each at least 0.
        """
        return self._remaining(self.entries)

    def _spent(self, entries: Iterable[LedgerEntry]) -> Budget:
        charged = [entry.guarantee for entry in entries]
        if not charged:
            return Budget(0.0, 0.0)
        delta = min(math.fsum(g.delta for g in charged), self.delta)
        epsilon = composed_epsilon(charged, delta * (1 + _ROUNDING))
        if epsilon > self.epsilon * (1 + _ROUNDING):  # it fits at the whole delta only
            delta = self.delta
            epsilon = composed_epsilon(charged, delta * (1 + _ROUNDING))
        return Budget(min(epsilon, float(self.epsilon)), delta)

    def _remaining(self, entries: Iterable[LedgerEntry]) -> Budget:
        spent = self._spent(entries)
        return Budget(float(self.epsilon) - spent.epsilon, self.delta - spent.delta)

    def _within_budget(self, entries: Iterable[LedgerEntry], guarantee: PrivacyGuarantee) -> bool:
        delta = min(self.delta * (1 + _ROUNDING), math.nextafter(1.0, 0.0))
        charged = [*(entry.guarantee for entry in entries), guarantee]
        epsilon = self.epsilon * (1 + _ROUNDING)
        # Adding is quick, and mostly enough as long as much is left.
        return (
            added_epsilon(charged, delta) <= epsilon or composed_epsilon(charged, delta) <= epsilon
        )

    def _check_reachable(self) -> None:
        if not self._shared.reachable:
            raise LedgerError(
                "The privacy ledger is kept in the memory of the process that opened it, and this "
                "one has a copy only. Nothing is charged and nothing may be released. Give the "
                "ledger a path, or let joblib hand the estimator to the workers."
            )

    def _agree_on_budget(self, file: LedgerFile) -> None:
        with file.transaction() as tables:
            tables.check_pages()
            written = tables.budget(self.dataset)
            if written is None:
                _warn_of_similar(self.dataset, tables.datasets(), file.path)
                tables.create(self.dataset, self.epsilon, self.delta)
            elif written != (self.epsilon, self.delta):
                raise LedgerError(
                    f"The privacy ledger {file.path!r} holds the budget epsilon={written[0]}, "
                    f"delta={written[1]} for the data set {self.dataset!r}, not "
                    f"epsilon={self.epsilon}, delta={self.delta}. A budget is not changed: use "
                    "the one of the file, or another name for another data set.",
                    path=file.path,
                )
            tables.charges(self.dataset)  # refuses a file with missing or changed rows

    @property
    def _usable_here(self) -> bool:
        return self._shared.reachable

    def _share(self, opening_id: str) -> dict[str, Any]:
        """Where other processes can charge this ledger, for :mod:`_ledger_scope`."""
        shared = self._shared.share(opening_id)
        if self._accountant is not None:
            shared["refusal"] = "its accountant is an object of the process that opened it"
        return shared

    def __enter__(self) -> PrivacyLedger:
        enter(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        opening, last = leave(self)
        if opening is not None:
            self._shared.unshare(opening.id, last)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A PrivacyLedger is not copied or pickled: two copies spend twice.")


def _warn_of_similar(dataset: str, known: Iterable[str], path: str) -> None:
    """Say that a mistyped name would be a second budget for the same records."""
    for similar in difflib.get_close_matches(dataset, list(known), n=1, cutoff=0.8):
        warnings.warn(
            f"The privacy ledger {path!r} gets a new budget for the data set {dataset!r}, beside "
            f"that of {similar!r}. If the same records are meant, PrivacyLedger.from_file refuses "
            "names that do not exist.",
            NewBudgetWarning,
            stacklevel=4,
        )


def charge_active_ledger(
    guarantee: PrivacyGuarantee, label: str = "", estimator: object = None
) -> None:
    """Charge a release to every active ledger; nothing happens when there is none.

    To be called before protected data is touched.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        What the release costs.
    label : str, default=""
        What it is for.
    estimator : object, default=None
        The estimator that is fitted. If it has :class:`LedgerMixin`, ledgers that were open
        where it was cloned or pickled are charged from worker threads and processes too.

    Raises
    ------
    BudgetExceededError
        If one of them cannot afford it; then nothing is recorded anywhere.
    LedgerError
        If one of them cannot be charged here, or cannot be read or written.
    """
    ledgers = map(_ledger_of, without_walls(claims_of(estimator)))
    _charge([ledger for ledger in ledgers if ledger is not None], guarantee, label)


def _ledger_of(opening: Opening | RemoteOpening) -> PrivacyLedger | None:
    """Return the ledger of an open block, wherever it was opened; None if it is closed."""
    if isinstance(opening, Opening):
        return opening.ledger if isinstance(opening.ledger, PrivacyLedger) else None
    file = remote_file(opening)
    return None if file is None else PrivacyLedger.from_file(file.path, opening.dataset)


def _charge(ledgers: Sequence[PrivacyLedger], guarantee: PrivacyGuarantee, label: str) -> None:
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"guarantee must be a PrivacyGuarantee, got {type(guarantee).__name__}.")
    check_text(label, "label")
    if not ledgers:
        return
    with PROCESS.lock:
        for ledger in ledgers:
            ledger._check_reachable()
        budgets = list({ledger._store.key: ledger for ledger in reversed(ledgers)}.values())[::-1]
        accountants = distinct(ledger._accountant for ledger in ledgers)
        with transaction([ledger._store for ledger in budgets]) as current:
            for ledger in budgets:
                charged = current.entries(ledger._store)
                if not ledger._within_budget(charged, guarantee):
                    raise BudgetExceededError(_refusal(ledger, charged, guarantee, label))
            for accountant in accountants:
                ask(accountant, "check", guarantee)
            current.add(new_entry(guarantee, label))
            for accountant in accountants:
                ask(accountant, "spend", guarantee)


def _refusal(
    ledger: PrivacyLedger, charged: Sequence[LedgerEntry], guarantee: PrivacyGuarantee, label: str
) -> str:
    left = ledger._remaining(charged)
    pure_only = ledger.delta == 0 < guarantee.delta
    what = f"{label}: " if label else ""
    which = "ledger"
    if ledger.path is not None:
        which = f"ledger {ledger.path!r} (data set {ledger.dataset!r})"
    return (
        f"{what}(epsilon={guarantee.epsilon:.6g}, delta={guarantee.delta:.6g}) does not fit the "
        f"{which}, which has epsilon={left.epsilon:.6g}, delta={left.delta:.6g} left of "
        f"epsilon={float(ledger.epsilon):.6g}, delta={ledger.delta:.6g}; nothing was charged."
        + (
            " With delta=0 a ledger pays for pure releases only: give it a delta for others."
            * pure_only
        )
    )
