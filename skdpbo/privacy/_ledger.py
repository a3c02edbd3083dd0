"""A budget that releases are charged to before they touch protected data."""

from __future__ import annotations

from ._guarantee import PrivacyGuarantee


def charge_active_ledger(guarantee: PrivacyGuarantee, label: str = "") -> None:
    """Charge a release to every active ledger; nothing happens when there is none."""
