"""Release of `DPGIBOSearchCV`: a trajectory of noisy gradients and at most one score.

Sensitivities: the sum of the records' clipped gradients moves by at most twice the clipping norm
(`skdpbo.mechanisms.ClippedMean`), the total integer loss of the final point by at most `units`.
"""

from dataclasses import dataclass
from fractions import Fraction

from skdpbo.mechanisms import GaussianMechanism, split_budget
from skdpbo.model_selection._private_choice import CHOICE_ASSUMPTIONS
from skdpbo.model_selection.scoring._scorer import total_loss_sensitivity
from skdpbo.privacy import PrivacyGuarantee, mu_from_epsilon
from skdpbo.privacy._checks import check_positive, check_within

__all__ = ["TrajectoryRelease", "total_loss_sensitivity"]


@dataclass(frozen=True)
class TrajectoryRelease:
    r"""Gaussian-DP release of a trajectory and of the final point's score.

    (epsilon, delta) is converted to mu exactly; mu^2 is split between the two, which composes
    back to mu.

    Parameters
    ----------
    epsilon : float, int or Fraction
        Budget of both releases, > 0.
    delta : float
        In (0, 1).
    score_fraction : float
        Share of the score in mu^2, in [0, 1); 0 releases none.

    Attributes
    ----------
    mu : float
        Of both releases.
    mu_trajectory, mu_score : float
        Of each; ``mu_score`` is 0 when no score is released.

    References
    ----------
    G. Sopa et al., arXiv:2502.06044, 2025, Lemma 3.1. J. Dong, A. Roth, W. J. Su, Gaussian
    differential privacy, JRSS B 2022, Theorem 1 and Corollary 2.
    """

    epsilon: float | Fraction
    delta: float
    score_fraction: float

    def __post_init__(self):
        object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        # Also where scikit-learn's parameter validation is switched off.
        check_within(self.score_fraction, "score_fraction", "[0, 1)")
        mu = mu_from_epsilon(self.epsilon, self.delta)
        # mu^2 = mu_trajectory^2 + mu_score^2 (Dong, Roth and Su 2022, Corollary 2).
        parts = split_budget(mu, float(self.score_fraction)) if self.score_fraction else (mu, 0.0)
        for name, value in zip(("mu", "mu_trajectory", "mu_score"), (mu, *parts), strict=True):
            object.__setattr__(self, name, value)

    @property
    def guarantee(self):
        """Guarantee of both releases together."""
        steps = [f"clipped mean gradients (mu {self.mu_trajectory:.4g})"]
        if self.mu_score:
            steps.append(f"Gaussian score (mu {self.mu_score:.4g})")
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self.mu,
            protects="validation records",
            mechanism=" + ".join(steps),
            assumptions=CHOICE_ASSUMPTIONS,
            reference="Sopa et al. 2025, Lemma 3.1; Dong, Roth & Su 2022",
        )

    def release_total(self, total, *, units, n_records, source):
        """Release the total integer loss of the final point.

        Returns
        -------
        int or None
            Noisy and clipped to [0, n_records * units]; None if `score_fraction` is 0.
        """
        if not self.mu_score:
            return None
        mechanism = GaussianMechanism(
            mu=self.mu_score, sensitivity=total_loss_sensitivity(units), n_draws=1
        )
        # Post-processing: the total is known to lie in this range.
        return min(max(round(mechanism.release(total, source)), 0), n_records * units)
