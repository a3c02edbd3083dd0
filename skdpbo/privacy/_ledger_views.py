"""What a ledger shows: a table, a page in a notebook, an export."""

from __future__ import annotations

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from ._ledger_codec import amount_to_text, guarantee_to_dict
from ._ledger_store import Budget, LedgerEntry

_COLUMNS = ("charged_at", "label", "epsilon", "delta", "mu", "status", "protects", "mechanism")


class LedgerViews(ABC):
    """The views of a ledger, from its budget and its charges."""

    epsilon: float | Fraction
    delta: float
    dataset: str

    @property
    @abstractmethod
    def path(self) -> str | None:
        """The file that keeps the charges, or None."""

    @property
    @abstractmethod
    def entries(self) -> tuple[LedgerEntry, ...]:
        """The charges, oldest first."""

    @abstractmethod
    def _spent(self, entries: Iterable[LedgerEntry]) -> Budget: ...

    @abstractmethod
    def _remaining(self, entries: Iterable[LedgerEntry]) -> Budget: ...

    def table(self) -> list[dict[str, Any]]:
        """Return the charges as rows of a table, oldest first; for `pandas.DataFrame`, say.

        Returns
        -------
        list of dict
            With the time of the charge (UTC, ISO 8601), label, epsilon, delta, mu, status, what
            it protects and the mechanism.
        """
        return [_row(entry) for entry in self.entries]

    def to_json(self) -> str:
        """Return everything that the ledger knows as JSON, without rounding any amount.

        Returns
        -------
        str
            An object with ``dataset``, ``epsilon``, ``delta`` (budget; text, since a Fraction is
            written as one), ``spent``, ``remaining`` and ``entries``; each entry has the time, the
            label and the whole guarantee with its parts.
        """
        entries = self.entries
        state = {
            "dataset": self.dataset,
            "epsilon": amount_to_text(self.epsilon),
            "delta": amount_to_text(self.delta),
            "spent": self._spent(entries)._asdict(),
            "remaining": self._remaining(entries)._asdict(),
            "entries": [
                {
                    "charged_at": entry.as_charge.charged_at,
                    "label": entry.label,
                    "guarantee": guarantee_to_dict(entry.guarantee),
                }
                for entry in entries
            ],
        }
        return json.dumps(state, indent=2, allow_nan=False)

    def __repr__(self) -> str:
        entries = self.entries
        return (
            f"PrivacyLedger(epsilon={self.epsilon}, delta={self.delta}{self._where()}): "
            f"{len(entries)} charged, {self._remaining(entries).epsilon:.6g} of epsilon left"
        )

    def __str__(self) -> str:
        entries = self.entries
        rows = [("time (UTC)", "label", "epsilon", "delta", "status"), *map(_cells, entries)]
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*(lines if entries else []), *self._summary(entries)])

    def _repr_html_(self) -> str:
        entries = self.entries
        head = "".join(f"<th>{name}</th>" for name in ("time (UTC)", *_COLUMNS[1:6]))
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"
            for cells in (_cells(entry, mu=True) for entry in entries)
        )
        caption = html.escape(f"Privacy ledger, data set {self.dataset}")
        used = min(1.0, self._spent(entries).epsilon / float(self.epsilon))
        summary = "<br>".join(map(html.escape, self._summary(entries)))
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
            f'<p><progress max="1" value="{used:.6f}"></progress><br>{summary}</p>'
        )

    def _where(self) -> str:
        return "" if self.path is None else f", path={self.path!r}, dataset={self.dataset!r}"

    def _summary(self, entries: Sequence[LedgerEntry]) -> list[str]:
        spent, left = self._spent(entries), self._remaining(entries)
        return [
            f"spent epsilon={spent.epsilon:.6g}, delta={spent.delta:.6g} of "
            f"epsilon={float(self.epsilon):.6g}, delta={self.delta:.6g}",
            f"left epsilon={left.epsilon:.6g}, delta={left.delta:.6g}",
        ]


def _row(entry: LedgerEntry) -> dict[str, Any]:
    shown = {"charged_at": entry.as_charge.charged_at, "label": entry.label}
    return shown | {name: getattr(entry.guarantee, name) for name in _COLUMNS[2:]}


def _cells(entry: LedgerEntry, mu: bool = False) -> tuple[str, ...]:
    guarantee = entry.guarantee
    when = "" if entry.charged_at is None else f"{entry.charged_at:%Y-%m-%d %H:%M:%S}"
    size = "" if guarantee.mu is None else f"{guarantee.mu:.6g}"
    cells = (when, entry.label, f"{guarantee.epsilon:.6g}", f"{guarantee.delta:.6g}")
    return (*cells, *((size,) if mu else ()), guarantee.status)
