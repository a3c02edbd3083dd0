"""What is promised: guarantees, conversions, composition, calibration and the ledger."""

from ._checks import check_delta, check_epsilon, check_mu, check_sensitivity
from ._guarantee import PrivacyGuarantee
from ._ledger import charge_active_ledger

__all__ = [
    "PrivacyGuarantee",
    "charge_active_ledger",
    "check_delta",
    "check_epsilon",
    "check_mu",
    "check_sensitivity",
]
