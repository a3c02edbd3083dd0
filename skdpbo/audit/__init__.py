"""Attacks on releases: lower bounds on privacy losses, sensitivities by brute force, leak scans.

Nothing else in the package imports this floor. Use it on your own estimators, scorers and
mechanisms, in tests and on synthetic records.
"""

from ._leaks import Leak, Secrets, leak_scan
from ._likelihood import audit_samples, likelihood_ratio_audit
from ._normal import normal_mu_bound
from ._precision import last_digits, off_lattice, precision_audit
from ._result import AuditResult, event_bounds
from ._same_seed import Difference, same_seed_difference
from ._sensitivity import SensitivityResult, scorer_sensitivity_audit, sensitivity_audit
from ._traces import Traces
from ._walk import reachable

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
