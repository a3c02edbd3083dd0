"""Privacy ledger: a total budget, charged before a release reads protected data."""

from __future__ import annotations

import difflib
import html
import os
import unicodedata
import warnings
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NoReturn

from skdpbo.exceptions import NewBudgetWarning
from skdpbo.privacy._checks import check_delta, check_positive, check_text
from skdpbo.privacy._composition import SAME_GROUPS
from skdpbo.privacy._guarantee import RELATIONS, PrivacyGuarantee
from skdpbo.privacy._replace_one import common_relation
from skdpbo.privacy.ledger._budget import Budget, LedgerEntry, budgets, fits
from skdpbo.privacy.ledger._charging import charge, enter, leave, stores_around
from skdpbo.privacy.ledger._store import LOCAL, Store

_DATASET = "default"
_SIMILAR = (
    "The privacy ledger {!r} gets a new budget for the data set {!r}, beside that of {!r}. If the "
    "same records are meant, PrivacyLedger.from_file refuses names that do not exist."
)


class PrivacyLedger:
    """Total budget (epsilon, delta) to which releases are charged; charges beyond it are refused.

    Charges are composed by :func:`compose` at the ledger's delta. They are made before protected
    data is read and are never given back, even if the release then fails. A void guarantee is
    charged the numbers that it claims. Blocks may be nested; a charge counts in all enclosing
    ledgers, or in none if one cannot afford it. A ledger cannot be copied.

    An estimator that is made or fitted inside ``with ledger:`` is charged there at each fit, also
    after the block: see :class:`LedgerMixin`. A fit in a thread that has opened no ledger is
    charged to all that are open in the process.

    Parameters
    ----------
    epsilon : float
        Total epsilon, positive.
    delta : float, default=0.0
        Total delta, in [0, 1). With 0 only pure guarantees can be charged.
    path : str or path-like, default=None
        File of the charges, created if it does not exist. Charges survive the process, and
        processes that share the file cannot overdraw it together. None: a private temporary file,
        kept as long as the ledger or an estimator charged to it is in use.
    dataset : str, default="default"
        Name of the data set whose budget this is. A file holds any number of them.
    accountant : object, default=None
        An accountant of another library with the methods ``check(epsilon, delta)`` and
        ``spend(epsilon, delta)``: every charge is checked and spent there too.

    Raises
    ------
    LedgerError
        If the file is damaged, is not a ledger, cannot be written, or holds another budget for
        the data set. A charge that cannot be stored raises it as well; nothing may be released
        then.

    Notes
    -----
    Amounts are compared up to a relative 1e-12, so that ten charges of 0.1 fit a budget of 1. A new
    data set in a file that has one of a similar name gets a `NewBudgetWarning`: a mistyped name
    would be a second budget for the same records.

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
        dataset: str = _DATASET,
        accountant: Any = None,
    ) -> None:
        self.epsilon: float | Fraction = check_positive(epsilon, "epsilon")
        self.delta: float = check_delta(delta)
        self.dataset = check_text(dataset, "dataset")
        methods = [getattr(accountant, name, None) for name in ("check", "spend")]
        if accountant is not None and not all(map(callable, methods)):
            raise TypeError("accountant must have the methods check and spend.")
        self._store = Store(path, self.dataset, accountant)
        self._store.create()
        total = self.epsilon, self.delta
        with self._store.transaction() as tables:
            tables.check_pages()
            if dataset not in (known := tables.datasets()):
                plain = {_plain(name): name for name in known}
                for similar in difflib.get_close_matches(_plain(dataset), plain, 1, cutoff=0.8):
                    text = _SIMILAR.format(self._store.path, dataset, plain[similar])
                    warnings.warn(text, NewBudgetWarning, 2)
                tables.create(dataset, total)
            written, _ = self._store.read(tables)  # refuses missing or changed rows
            if written != total:
                raise tables.error(
                    f"holds the budget epsilon={written[0]}, delta={written[1]} for the data set "
                    f"{dataset!r}, not epsilon={total[0]}, delta={total[1]}. A budget is not "
                    "changed: use the one of the file, or another name for another data set"
                )
        # Last: pickles must not find a ledger that was refused.
        LOCAL[self._store.token] = self._store

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
            or the file cannot be used.
        """
        with Store(path, "").transaction(write=False) as tables:
            known = tables.datasets()
            names = ", ".join(map(repr, known))
            if dataset is None and len(known) != 1:
                raise tables.error(f"needs a name. Name one of the data sets: {names}")
            if dataset is not None and dataset not in known:
                raise tables.error(f"has no data set {dataset!r}, only {names}")
            name = known[0] if dataset is None else dataset
            budget = tables.read(name)[0]
        return cls(*budget, path=path, dataset=name)

    def charge(self, guarantee: PrivacyGuarantee, label: str = "") -> None:
        """Record a release here and in the ledgers that enclose this one.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Guarantee of the release; its status is recorded with it.
        label : str, default=""
            Purpose of the release.

        Raises
        ------
        BudgetExceededError
            If the charge does not fit; then nothing is recorded in any ledger.
        """
        charge(stores_around(self._store), guarantee, label)

    @property
    def path(self) -> str | None:
        """The file that keeps the charges; None for a temporary one."""
        return None if self._store.temporary else self._store.path

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The charges, oldest first, including those of other processes."""
        return self._store.entries()

    def affords(self, guarantee: PrivacyGuarantee) -> bool:
        """Whether a charge would fit this ledger now.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Guarantee of the planned release.

        Returns
        -------
        bool
            True if it fits; an enclosing ledger may still refuse it.
        """
        if not isinstance(guarantee, PrivacyGuarantee):
            raise TypeError(f"guarantee must be a PrivacyGuarantee, got {guarantee!r}.")
        return fits((self.epsilon, self.delta), self.entries, guarantee)

    def spent(self) -> Budget:
        """Return the budget that is spent.

        Returns
        -------
        Budget
            Composed epsilon at the sum of the charged deltas, or at the ledger's delta if it fits
            the budget only there.
        """
        return budgets((self.epsilon, self.delta), self.entries)[0]

    def remaining(self) -> Budget:
        """Return the rest of the budget: a release within it fits, by basic composition.

        Returns
        -------
        Budget
            Total minus spent epsilon and delta, each at least 0.
        """
        return budgets((self.epsilon, self.delta), self.entries)[1]

    def to_dict(self) -> dict[str, Any]:
        """Return budget and charges as JSON types, without rounding any amount.

        Returns
        -------
        dict
            Data set, budget as texts (exact), what is spent and left, neighbours, all entries.
        """
        entries = self.entries
        spent, left = budgets((self.epsilon, self.delta), entries)
        return {
            "version": 1,
            "dataset": self.dataset,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "spent": spent._asdict(),
            "remaining": left._asdict(),
            "composition": f"sequential, of {len(entries)} releases",
            "neighbours": _relations(entries),
            "entries": [
                {"charged_at": entry.charged_at.isoformat(), "label": entry.label}
                | {"guarantee": entry.guarantee.to_dict()}
                for entry in entries
            ],
        }

    def __repr__(self) -> str:
        where = "" if self.path is None else f", path={self.path!r}"
        if where or self.dataset != _DATASET:
            where += f", dataset={self.dataset!r}"
        entries = self.entries
        spent, left = budgets((self.epsilon, self.delta), entries)
        return (
            f"PrivacyLedger(epsilon={self.epsilon}, delta={self.delta}{where}): {len(entries)} "
            f"charged, spent epsilon={spent.epsilon:.6g}, delta={spent.delta:.6g}, "
            f"left epsilon={left.epsilon:.6g}, delta={left.delta:.6g}"
        )

    def __str__(self) -> str:
        entries, lines = self.entries, []
        for entry in entries:
            g = entry.guarantee
            amounts = f"epsilon={g.epsilon:<8.6g}  delta={g.delta:<8.6g}  {g.status:<11}"
            line = f"{entry.charged_at:%Y-%m-%d %H:%M:%S}  {amounts}  {entry.label}"
            lines.append(line.rstrip())
        neighbours = [f"neighbours: {_relations(entries)}"] if entries else []
        return "\n".join([*lines, repr(self), *neighbours])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def __enter__(self) -> PrivacyLedger:
        enter(self._store)
        return self

    def __exit__(self, *error: object) -> None:
        leave(self._store)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A PrivacyLedger is not copied or pickled: two copies spend twice.")


def _plain(name: str) -> str:
    """Return a name without case and accents, which Unicode may encode in several ways."""
    letters = unicodedata.normalize("NFKD", name)
    return "".join(c for c in letters if not unicodedata.combining(c)).casefold()


def _relations(entries: Sequence[LedgerEntry]) -> str:
    """Text about the neighbouring relation of the composed charges."""
    relations = list(dict.fromkeys(entry.guarantee.neighbours for entry in entries))
    if (common := common_relation(relations)) is not None:
        converted = [name for name in RELATIONS if name in relations and name != common]
        others = [name for name in relations if name not in RELATIONS]
        relations = [f"{common} ({' and '.join(converted)} charges converted)", *others]
    if sum("group" in entry.guarantee.neighbours for entry in entries) > 1:
        relations = [
            f"{name}, if {SAME_GROUPS}" if name.startswith("one group") else name
            for name in relations
        ]
    mixed = ": the total covers each kind by itself, not both changes"
    return "; ".join(relations) + (mixed if len(relations) > 1 else "")
