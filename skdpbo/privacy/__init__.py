"""Privacy guarantees: conversions, composition, private selection and the ledger."""

from skdpbo.privacy._composition import compose, compose_parallel
from skdpbo.privacy._conversions import epsilon_from_mu, mu_from_epsilon
from skdpbo.privacy._guarantee import PrivacyGuarantee
from skdpbo.privacy._privacy_profile import PrivacyProfile
from skdpbo.privacy._replace_one import as_replace_one
from skdpbo.privacy.ledger._budget import Budget, LedgerEntry
from skdpbo.privacy.ledger._charging import LedgerMixin, charge_active_ledger, charged_elsewhere
from skdpbo.privacy.ledger._ledger import PrivacyLedger
from skdpbo.privacy.selection._selection_guarantee import candidate_mu, selection_guarantee
from skdpbo.privacy.selection._trial_law import TrialLaw

__all__ = [
    "Budget",
    "LedgerEntry",
    "LedgerMixin",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "PrivacyProfile",
    "TrialLaw",
    "as_replace_one",
    "candidate_mu",
    "charge_active_ledger",
    "charged_elsewhere",
    "compose",
    "compose_parallel",
    "epsilon_from_mu",
    "mu_from_epsilon",
    "selection_guarantee",
]
