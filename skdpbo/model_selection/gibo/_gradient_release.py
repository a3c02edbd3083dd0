"""Release of `DPGIBOSearchCV`: noisy gradients, choices of the start and the end, a score.

Sensitivities: twice the clipping norm for the sum of the records' clipped gradients
(`skdpbo.mechanisms.ClippedMean`), `units` for the total integer loss of the final point, and those
of `_safe_end` for the choices of start and end.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from skdpbo.mechanisms import GaussianMechanism, split_budget
from skdpbo.model_selection._private_choice import CHOICE_ASSUMPTIONS, PrivateChoice
from skdpbo.model_selection.scoring._scorer import total_loss_sensitivity
from skdpbo.privacy import PrivacyGuarantee, compose, epsilon_from_mu, mu_from_epsilon
from skdpbo.privacy._checks import (
    check_mu_of_fit,
    check_positive,
    check_positive_delta,
    check_within,
    set_fields,
)
from skdpbo.privacy._composed_losses import mu_beside
from skdpbo.privacy._guarantee import restated
from skdpbo.privacy._rounding import round_down


@dataclass(frozen=True)
class TrajectoryRelease:
    r"""Release of a trajectory and a score, which are mu-GDP, and of choices, which are pure DP.

    The choices are epsilon_end-DP together; mu is the largest value for which the whole release is
    (epsilon, delta)-DP, by the exact composition of pure and Gaussian releases.

    Parameters
    ----------
    epsilon : float, int or Fraction
        Budget of all releases, > 0.
    delta : float
        In (0, 1).
    score_fraction : float
        Share of the score in mu^2, in [0, 1); 0: no score is released.
    end_fraction : float, default=0.0
        Share of the choices in epsilon, in [0, 1); 0: no private choice.
    start_share : float, default=0.0
        Share of the start in the epsilon of the choices, in [0, 1); 0: the end alone is chosen.

    Attributes
    ----------
    mu : float
        Of trajectory and score together.
    mu_trajectory, mu_score : float
        Of each; ``mu_score`` is 0 without a score.
    choice, start_choice : PrivateChoice or None
        Of the end and of the start; None without a share.

    References
    ----------
    G. Sopa et al., arXiv:2502.06044, 2025, Lemma 3.1. J. Dong, A. Roth, W. J. Su, Gaussian
    differential privacy, JRSS B 2022, Theorem 2.7 and Corollary 3.3. P. Kairouz, S. Oh,
    P. Viswanath, The composition theorem for differential privacy, ICML 2015.
    """

    epsilon: float | Fraction
    delta: float
    score_fraction: float
    end_fraction: float = 0.0
    start_share: float = 0.0

    def __post_init__(self):
        set_fields(self, epsilon=check_positive(self.epsilon, "epsilon"))
        # Checked even if scikit-learn's parameter validation is switched off.
        check_within(self.score_fraction, "score_fraction", "[0, 1)")
        check_within(self.end_fraction, "end_fraction", "[0, 1)")
        check_within(self.start_share, "start_share", "[0, 1)")
        check_positive_delta(self.delta)
        # Pure epsilons add up (Dwork and Roth 2014, Theorem 3.14).
        whole = Fraction(float(self.end_fraction)) * Fraction(self.epsilon)
        of_start = Fraction(float(self.start_share))
        shares = {"end": (1 - of_start) * whole, "start": of_start * whole}
        # Rounded down: the shares must not add up to more than the whole.
        choices = {
            what: PrivateChoice("permute_and_flip", round_down(share), 0.0)
            for what, share in shares.items()
            if share
        }
        epsilons = [choice.epsilon for choice in choices.values()]
        alone = check_mu_of_fit(mu_from_epsilon(self.epsilon, self.delta), least=0.0)
        mu = mu_beside(epsilons, round_down(self.epsilon), self.delta) if epsilons else alone
        # mu^2 = mu_trajectory^2 + mu_score^2 (Dong, Roth and Su 2022, Corollary 3.3).
        share = float(self.score_fraction)
        mu_trajectory, mu_score = split_budget(mu, share) if share else (mu, 0.0)
        derived = {"mu": mu, "mu_trajectory": mu_trajectory, "mu_score": mu_score}
        derived |= {"choice": choices.get("end"), "start_choice": choices.get("start")}
        set_fields(self, **derived, _choices=choices)

    @property
    def guarantee(self):
        """Guarantee of all releases together, with each of them as a part."""
        common = {
            "protects": "validation records",
            "assumptions": CHOICE_ASSUMPTIONS,
            "reference": "Sopa et al. 2025, Lemma 3.1; Dong, Roth & Su 2022",
        }
        score = f", Gaussian score (mu {self.mu_score:.4g})" if self.mu_score else ""
        # With choices, the Gaussian part has a smaller epsilon than the whole.
        epsilon = self.epsilon
        if self._choices:
            epsilon = max(epsilon_from_mu(self.mu, self.delta), math.ulp(0.0))  # must be positive
        gaussian = PrivacyGuarantee(
            epsilon=epsilon,
            delta=self.delta,
            mu=self.mu,
            mechanism=f"clipped mean gradients (mu {self.mu_trajectory:.4g}){score}",
            **common,
        )
        if not self._choices:
            return gaussian
        choices = [
            PrivacyGuarantee(
                epsilon=choice.epsilon,
                mechanism=f"permute-and-flip {what} (epsilon {choice.epsilon:.4g})",
                **common | {"reference": "McKenna & Sheldon 2020"},
            )
            for what, choice in self._choices.items()
        ]
        # The requested epsilon: that of the composition may be slightly smaller by rounding.
        return restated(compose(gaussian, *choices), epsilon=self.epsilon)

    def of_total(self, units):
        """Return the `GaussianMechanism` of a total integer loss; None without a score.

        Raises
        ------
        ValueError
            If its noise needs more than 64 bits; therefore call it before the charge.
        """
        if not self.mu_score:
            return None
        try:
            return GaussianMechanism(
                mu=self.mu_score, sensitivity=total_loss_sensitivity(units), n_draws=1
            )
        except ValueError:
            raise ValueError(
                f"score_fraction={self.score_fraction:.6g} leaves the score mu={self.mu_score:.2g},"
                " whose noise needs more than 64 bits: raise it or epsilon, or set it to 0."
            ) from None
