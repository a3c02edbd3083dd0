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
from ._ledger import Budget, LedgerEntry, PrivacyLedger, charge_active_ledger, charged_elsewhere

__all__ = [
    "Budget",
    "LedgerEntry",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "charge_active_ledger",
    "charged_elsewhere",
    "check_delta",
    "check_epsilon",
    "check_mu",
    "check_rho",
    "check_sensitivity",
    "compose",
    "compose_parallel",
    "delta_from_mu",
    "delta_from_rho",
    "epsilon_from_mu",
    "epsilon_from_rho",
    "gaussian_sigma",
    "l2_laplace_scale",
    "laplace_scale",
    "log_delta_from_mu",
    "mu_from_epsilon",
    "mu_from_pure_epsilon",
    "mu_from_rho",
    "rho_from_epsilon",
    "rho_from_mu",
    "rho_from_pure_epsilon",
]
