"""Attacks on releases: lower bounds on privacy losses, sensitivities by brute force, leak scans.

For tests of estimators, scorers and mechanisms on synthetic records. No other package imports this
one.
"""

from skdpbo.audit._leaks import Leak, Secrets, leak_scan
from skdpbo.audit._likelihood import audit_samples, likelihood_ratio_audit, normal_mu_bound
from skdpbo.audit._precision import last_digits, off_lattice, precision_audit
from skdpbo.audit._result import AuditResult, event_bounds
from skdpbo.audit._same_seed import Difference, same_seed_difference
from skdpbo.audit._sensitivity import SensitivityResult, scorer_sensitivity_audit, sensitivity_audit
from skdpbo.audit._traces import Traces
from skdpbo.audit._walk import reachable

__all__ = [
    "AuditResult",
    "Difference",
    "Leak",
    "Secrets",
    "SensitivityResult",
    "Traces",
    "audit_samples",
    "event_bounds",
    "last_digits",
    "leak_scan",
    "likelihood_ratio_audit",
    "normal_mu_bound",
    "off_lattice",
    "precision_audit",
    "reachable",
    "same_seed_difference",
    "scorer_sensitivity_audit",
    "sensitivity_audit",
]
