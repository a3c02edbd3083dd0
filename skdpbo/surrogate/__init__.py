"""Gaussian-process surrogates of an objective.

Internal. Results computed from public and released values are post-processing and need no noise.
The secret trajectories of Kusner et al. (`model_selection/papers`) pass protected values: results
are then as protected as these.
"""

from skdpbo.surrogate._acquisition import (
    gp_ucb_sqrt_beta,
    greedy_information_gain,
    log_expected_improvement,
    maximum_information_gain_bound,
    select_batch,
    upper_confidence_bound,
)
from skdpbo.surrogate._gradient import GradientPosterior
from skdpbo.surrogate._hyperparameters import (
    default_kernel,
    fit_hyperparameters,
    refit_due,
)
from skdpbo.surrogate._length_scale import fit_length_scale_to_gradients
from skdpbo.surrogate._posterior import CandidatePosterior
from skdpbo.surrogate._two_task import two_task_posterior

__all__ = [
    "CandidatePosterior",
    "GradientPosterior",
    "default_kernel",
    "fit_hyperparameters",
    "fit_length_scale_to_gradients",
    "gp_ucb_sqrt_beta",
    "greedy_information_gain",
    "log_expected_improvement",
    "maximum_information_gain_bound",
    "refit_due",
    "select_batch",
    "two_task_posterior",
    "upper_confidence_bound",
]
