"""Release of `DPGIBOSearchCV`: noisy gradients, choices of their start and end, a score.

Sensitivities: the sum of the records' clipped gradients moves by at most twice the clipping norm
(`skdpbo.mechanisms.ClippedMean`), the total integer loss of the final point by at most `units`, the
values among which start and end are chosen by what `safe_end` states.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from skdpbo.mechanisms import GaussianMechanism, split_budget
from skdpbo.model_selection._private_choice import CHOICE_ASSUMPTIONS, PrivateChoice
from skdpbo.model_selection.scoring._scorer import total_loss_sensitivity
from skdpbo.privacy import PrivacyGuarantee, mu_from_epsilon
from skdpbo.privacy._checks import check_count, check_positive, check_within
from skdpbo.privacy._conversions import pure_epsilon_from_mu

__all__ = ["TrajectoryRelease", "total_loss_sensitivity"]


@dataclass(frozen=True)
class TrajectoryRelease:
    r"""Gaussian-DP release of a trajectory, of the choice among its points, and of a score.

    (epsilon, delta) is converted to mu exactly; mu^2 is split between the three, which composes
    back to mu. The choice is purely epsilon_end-DP and hence mu_end-GDP.

    Parameters
    ----------
    epsilon : float, int or Fraction
        Budget of all releases, > 0.
    delta : float
        In (0, 1).
    score_fraction : float
        Share of the score in mu^2, in [0, 1); 0 releases none.
    end_fraction : float, default=0.0
        Share of the choices, in [0, 1 - `score_fraction`); 0: the end is chosen by rule.
    n_choices : int, default=1
        1: of the end; 2: of the start as well, with equal shares.

    Attributes
    ----------
    mu : float
        Of all releases.
    mu_trajectory, mu_end, mu_score : float
        Of each; ``mu_end`` and ``mu_score`` are 0 without a choice and without a score.

    References
    ----------
    G. Sopa et al., arXiv:2502.06044, 2025, Lemma 3.1. J. Dong, A. Roth, W. J. Su, Gaussian
    differential privacy, JRSS B 2022, Theorem 1 and Corollary 2.
    """

    epsilon: float | Fraction
    delta: float
    score_fraction: float
    end_fraction: float = 0.0
    n_choices: int = 1

    def __post_init__(self):
        object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
        # Also where scikit-learn's parameter validation is switched off.
        check_within(self.score_fraction, "score_fraction", "[0, 1)")
        check_within(self.end_fraction, "end_fraction", "[0, 1)")
        left = 1.0 - self.score_fraction
        if self.end_fraction >= left:
            raise ValueError(
                "end_fraction and score_fraction must leave a share for the gradients: their sum "
                f"must be below 1, got {self.end_fraction} and {self.score_fraction}."
            )
        mu = mu_from_epsilon(self.epsilon, self.delta)
        # mu^2 = mu_trajectory^2 + mu_end^2 + mu_score^2 (Dong, Roth and Su 2022, Corollary 2).
        rest, mu_score = _split(mu, float(self.score_fraction))
        mu_trajectory, mu_end = _split(rest, float(self.end_fraction) / left)
        shares = {"mu_trajectory": mu_trajectory, "mu_end": mu_end, "mu_score": mu_score}
        for name, value in {"mu": mu, **shares}.items():
            object.__setattr__(self, name, value)

    @property
    def choice(self):
        """Private choice of the end, or one of two, None without a share."""
        if not self.mu_end:
            return None
        # n choices of mu_c each are sqrt(n) mu_c-GDP together (same paper, Corollary 2).
        mu = self.mu_end / math.sqrt(check_count(self.n_choices, "n_choices"))
        # The trade-off curve of pure epsilon lies above that of mu (same paper, Section 2).
        return PrivateChoice("permute_and_flip", pure_epsilon_from_mu(mu), 0.0)

    @property
    def guarantee(self):
        """Guarantee of all releases together."""
        steps = [f"clipped mean gradients (mu {self.mu_trajectory:.4g})"]
        if self.mu_end:
            pure = self.choice.epsilon
            of = "end" if self.n_choices == 1 else "start, end"
            each = "" if self.n_choices == 1 else " each"
            steps.append(
                f"permute-and-flip {of} (epsilon {pure:.4g}{each}, hence mu {self.mu_end:.4g})"
            )
        if self.mu_score:
            steps.append(f"Gaussian score (mu {self.mu_score:.4g})")
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self.mu,
            protects="validation records",
            mechanism=" + ".join(steps),
            assumptions=CHOICE_ASSUMPTIONS,
            reference="Sopa et al. 2025, Lemma 3.1; Dong, Roth & Su 2022"
            + ("; McKenna & Sheldon 2020" if self.mu_end else ""),
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


def _split(mu, share):
    return split_budget(mu, share) if share else (mu, 0.0)
