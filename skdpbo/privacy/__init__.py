"""What is promised: guarantees, conversions, composition, calibration and the ledger."""

from ._calibration import gaussian_sigma, l2_laplace_scale, laplace_scale
from ._checks import check_delta, check_epsilon, check_mu, check_rho, check_sensitivity
from ._composition import compose, compose_parallel
from ._conversions import (
    delta_from_mu,
    delta_from_rho,
    epsilon_from_mu,
    epsilon_from_rho,
    log_delta_from_mu,
    mu_from_epsilon,
    mu_from_pure_epsilon,
    mu_from_rho,
    rho_from_epsilon,
    rho_from_mu,
    rho_from_pure_epsilon,
)
from ._guarantee import PrivacyGuarantee
from ._ledger import PrivacyLedger, charge_active_ledger
from ._ledger_scope import LedgerMixin, charged_elsewhere
from ._ledger_store import Budget, LedgerEntry
from ._liu_talwar import liu_talwar_max_trials
from ._private_selection import (
    candidate_epsilon,
    candidate_mu,
    composition_is_better,
    selection_guarantee,
)
from ._trial_law import TrialLaw

__all__ = [
    "Budget",
    "LedgerEntry",
    "LedgerMixin",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "TrialLaw",
    "candidate_epsilon",
    "candidate_mu",
    "charge_active_ledger",
    "charged_elsewhere",
    "check_delta",
    "check_epsilon",
    "check_mu",
    "check_rho",
    "check_sensitivity",
    "compose",
    "compose_parallel",
    "composition_is_better",
    "delta_from_mu",
    "delta_from_rho",
    "epsilon_from_mu",
    "epsilon_from_rho",
    "gaussian_sigma",
    "l2_laplace_scale",
    "laplace_scale",
    "liu_talwar_max_trials",
    "log_delta_from_mu",
    "mu_from_epsilon",
    "mu_from_pure_epsilon",
    "mu_from_rho",
    "rho_from_epsilon",
    "rho_from_mu",
    "rho_from_pure_epsilon",
    "selection_guarantee",
]
