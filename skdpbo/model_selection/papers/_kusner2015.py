"""Algorithms 1 and 2 of Kusner et al. (2015): a private choice and a private score of GP-UCB.

The search runs on exact scores of protected records, and is secret: it releases one index and one
noisy value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Kernel

from skdpbo.mechanisms import RandomSource
from skdpbo.model_selection._frozen_parameters import FrozenParameters
from skdpbo.model_selection._private_choice import PrivateChoice
from skdpbo.model_selection.papers import _kusner_constants as formulas
from skdpbo.model_selection.papers._kusner_release import (
    BranchAndBound,
    Gains,
    Shares,
    add_laplace,
    check_kernel,
    choose,
    laplace_noise_std,
    run_gp_ucb,
)
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import (
    check_choice,
    check_count,
    check_positive,
    check_real,
    check_within,
    set_fields,
)
from skdpbo.surrogate import (
    CandidatePosterior,
    greedy_information_gain,
    maximum_information_gain_bound,
)

# The surrogate needs at least this noise variance. Noise of this variance is drawn even for
# noise_variance=0, so that the observations follow the surrogate's model.
_LEAST_NOISE_VARIANCE = 1e-10
# Scores further from 0 than this many prior standard deviations contradict the prior.
_LARGEST_SCORE = 1e6
_DEFAULT_LENGTH_SCALE = 0.2
# Assumptions of every search on protected validation records.
_SEARCH_ASSUMPTIONS = PrivateChoice("exponential", 1.0, 0.0).guarantee.assumptions
_PRINTED_IS_VOID = (
    "the printed q bounds the noise of one observation where the largest of n_iter is released, "
    "and the printed events fail with a probability of up to 5/3 of delta: the published "
    "statement does not hold even under the prior"
)


@dataclass(frozen=True, kw_only=True)
class Kusner2015(FrozenParameters):
    r"""Choice and score of Kusner et al. (2015), as a mechanism of `DPBayesSearchCV`.

    GP-UCB runs on the scores of the protected records, with noise of variance `noise_variance`
    added. The choice is drawn among all candidates by the exponential mechanism on the posterior
    mean; the score, if any, is released with Laplace noise: the largest observed one (Algorithm 1),
    or for ``noise_variance=0`` the exact one of the last candidate (Algorithm 2).

    The protected records are private only **under the Gaussian-process prior** (status
    "conditional"). Delta is the probability, over the scores drawn from the prior and the
    observation noise, that epsilon does not hold; nothing is guaranteed for two given data sets.
    Prefer the default mechanism, which does not need such an assumption and is far more accurate:
    at epsilon = 1 the choice made here is nearly uniform over the candidates.

    Parameters
    ----------
    noise_variance : float, default=0.01
        sigma^2 of the noise added to each observed score, in prior variances (of 1), in [0, 1e100].
        0 selects Algorithm 2.
    dataset_correlation : float, default=0.99
        k(V, V') in [0, 1]: prior correlation of the scores of two data sets that differ in one
        record, at least this for all neighbours. A declared assumption; it cannot be estimated
        from the data.
    kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
        Prior covariance k2 of the candidates, encoded in the unit cube, of variance 1. It must be
        fixed before the protected records are read. None takes ``RBF(0.2)``.
    information_gain : float or "greedy", default="greedy"
        Upper bound on the maximum information gain gamma_T in nats, for the score of Algorithm 1;
        at most 1e100, and refused below the gain of the greedy design. "greedy" computes one: that
        gain, divided by 1 - 1/e.
    constants : {"corrected", "printed"}, default="corrected"
        Whether the score of Algorithm 1 uses the corrected q and split of delta, or the published
        ones, for which the guarantee is **void**. The published sensitivity of the choice is
        correct, and used with both.
    A, tau : float, default=1.0, 0.1
        Positive constants of the regret :math:`A \exp(-T\tau/(\log T)^{d/4})` that Algorithm 2
        assumes for the last of T candidates. The paper gives no values; the defaults are examples.
    acquisition : {"ucb", "branch_and_bound"}, default="ucb"
        GP-UCB, or with ``noise_variance=0`` the search of de Freitas et al. (2012), the paper's.
    score_center, score_scale : float, default=0.0, 1.0
        Public constants that map a gain in [0, 1] to the prior of mean 0 and variance 1: the
        modelled score is (gain - score_center) / score_scale, with score_scale > 0, at most 1e6 in
        size.

    See Also
    --------
    skdpbo.DPBayesSearchCV : The searcher.

    Notes
    -----
    Neighbours are two data sets of the same size that differ in one record. With beta_t, c, q, C_1
    and gamma_T as in ``docs/theory/kusner2015.md``, the sensitivity of the posterior mean is
    :math:`2\sqrt{\beta_{T+1}} + c` and that of the best observation
    :math:`\sqrt{C_1 \beta_T \gamma_T / T} + c + q`, each up to a probability delta under the prior.
    Choice and score take the shares 1 - `score_fraction` and `score_fraction` of epsilon and of
    delta: a search with ``score_fraction=0.5`` and the totals (2 epsilon, 2 delta) makes the two
    (epsilon, delta) releases of the paper. With ``score_fraction=0`` the choice has all.

    References
    ----------
    M. Kusner, J. Gardner, R. Garnett, K. Weinberger. Differentially private Bayesian optimization.
    ICML 2015.

    Examples
    --------
    >>> from skdpbo.model_selection import Kusner2015
    >>> Kusner2015().guarantee(epsilon=1.0, delta=1e-5, score_fraction=0.1).status
    'conditional'
    """

    noise_variance: float = 0.01
    dataset_correlation: float = 0.99
    kernel: Kernel | None = None
    information_gain: float | Literal["greedy"] = "greedy"
    constants: Literal["corrected", "printed"] = "corrected"
    A: float = 1.0
    tau: float = 0.1
    acquisition: Literal["ucb", "branch_and_bound"] = "ucb"
    score_center: float = 0.0
    score_scale: float = 1.0

    def __post_init__(self):
        check_within(self.noise_variance, "noise_variance", "[0, 1e100]")
        check_within(self.dataset_correlation, "dataset_correlation", "[0, 1]")
        if self.kernel is not None:
            check_kernel(self.kernel, np.zeros((1, 1)))
        if not isinstance(self.information_gain, str):
            check_within(self.information_gain, "information_gain", "[0, 1e100]")
        elif self.information_gain != "greedy":
            raise ValueError('information_gain must be "greedy" or a number.')
        check_choice(self.constants, "constants", ["corrected", "printed"])
        if self.acquisition not in ("ucb", "branch_and_bound")[: 1 if self.noise_variance else 2]:
            raise ValueError('acquisition must be "ucb", or with Algorithm 2 "branch_and_bound".')
        for name in ("A", "tau", "score_scale"):
            check_positive(getattr(self, name), name)
        check_real(self.score_center, "score_center")
        if max(abs(self._modelled(gain)) for gain in (0.0, 1.0)) > _LARGEST_SCORE:
            raise ValueError(
                "score_center and score_scale must map the gains 0 and 1 to modelled scores of "
                f"at most {_LARGEST_SCORE:g} prior standard deviations."
            )
        derived = {
            "_kernel": RBF(_DEFAULT_LENGTH_SCALE) if self.kernel is None else self.kernel,
            # Variance of the noise, both drawn and modelled.
            "_variance": max(self.noise_variance, _LEAST_NOISE_VARIANCE),
        }
        set_fields(self, **derived)

    def guarantee(self, *, epsilon, delta, score_fraction):
        """Return the guarantee of choice and score together, under the prior.

        Parameters
        ----------
        epsilon : float, int or Fraction
            Total of both releases, > 0.
        delta : float
            Total of both releases, in (0, 1): the prior probability that a sensitivity fails.
        score_fraction : float
            Share of the score in both, in [0, 1); 0: no score is released.

        Returns
        -------
        PrivacyGuarantee
            Status "conditional", or "void" for a score of Algorithm 1 with printed constants.
        """
        shares = Shares.of(epsilon, delta, score_fraction)
        steps = [f"exponential choice (epsilon {float(shares.epsilon_choice):.4g})"]
        if shares.epsilon_score:
            steps.append(f"Laplace score (epsilon {float(shares.epsilon_score):.4g})")
        algorithm = "Algorithm 1" if self.noise_variance else "Algorithm 2"
        guarantee = PrivacyGuarantee(
            epsilon=epsilon,
            delta=delta,
            protects="validation records",
            mechanism=f"Kusner et al. 2015, {algorithm}: {' + '.join(steps)}",
            assumptions=(*self._assumptions(shares), *_SEARCH_ASSUMPTIONS),
            status="conditional",
            reference="Kusner, Gardner, Garnett & Weinberger 2015; docs/theory/kusner2015.md",
        )
        if shares.epsilon_score and self.noise_variance and self.constants == "printed":
            return guarantee.voided(_PRINTED_IS_VOID)
        return guarantee

    def search(
        self,
        X: np.ndarray,
        observe: Callable[[int], float | None],
        *,
        n_iter: int,
        epsilon: float | Fraction,
        delta: float,
        score_fraction: float,
        source: RandomSource,
    ) -> tuple[int, float | None]:
        """Run GP-UCB on protected scores; release one index and one noisy gain.

        Parameters
        ----------
        X : ndarray of shape (n_candidates, n_features)
            Encoded candidates in [0, 1], public.
        observe : callable
            ``observe(k)``: exact gain in [0, 1] of candidate k on the protected records, called
            at most once per candidate. Out of range, NaN or an exception counts as 0. None, which
            must depend on public rows alone: the candidate cannot be trained, and cannot win.
            The calls depend on protected records: `observe` must not reveal its arguments.
        n_iter : int
            T >= 1, number of observations; candidates that cannot be trained do not count.
        epsilon : float, int or Fraction
            Total of both releases, > 0.
        delta : float
            Total of both releases, in (0, 1).
        score_fraction : float
            Share of the score in both, in [0, 1); 0: no score is released.
        source : RandomSource
            Of all noise.

        Returns
        -------
        index : int
            Released: row of X.
        gain : float or None
            Released: noisy gain, not clipped (noise may take it far outside [0, 1]); None if
            `score_fraction` is 0.
        """
        check_count(n_iter, "n_iter")
        shares = Shares.of(epsilon, delta, score_fraction)
        X = np.asarray(X, dtype=np.float64)
        public = {"n_candidates": len(X), "n_iter": n_iter, "correlation": self.dataset_correlation}
        # Public, as are their errors; computed before a protected score is read.
        posterior = self._posterior(X)
        choice = formulas.choice_sensitivity(delta=shares.delta_choice, **public)
        score = self._score_sensitivity(X, shares, n_iter) if shares.epsilon_score else None
        gains = Gains(observe, len(X))
        # With a score, the betas of the regret bound in its sensitivity.
        share = shares.delta_score if shares.epsilon_score else shares.delta_choice
        of_beta = {"n_candidates": len(X), "delta": share, "constants": self.constants}
        sqrt_betas = [math.sqrt(formulas.beta(t, **of_beta)) for t in range(1, n_iter + 1)]
        options = {"utilities": BranchAndBound(X)} if self.acquisition == "branch_and_bound" else {}
        values = run_gp_ucb(posterior, gains, self._modelled, sqrt_betas, source, **options)
        # The only two releases of the search (Alg. 1, lines 12 to 15).
        index = choose(posterior.mean, gains, choice, shares.epsilon_choice, source)
        if score is None:
            return index, None
        # Algorithm 1 releases the best observed value, Algorithm 2 the exact one of the last visit.
        best = max(values) if self.noise_variance else self._modelled(gains(posterior.observed[-1]))
        noisy = add_laplace(best, score, shares.epsilon_score, source)
        # Back to the scale of gains: post-processing.
        return index, self.score_center + self.score_scale * noisy

    def score_std(self, X, *, n_iter, epsilon, delta, score_fraction):
        """Return the standard deviation of the noise of a released gain; public.

        Parameters
        ----------
        X, n_iter, epsilon, delta, score_fraction : array-like, int or float
            As for `search`.

        Returns
        -------
        float
            Standard deviation, in units of the gain.
        """
        shares = Shares.of(epsilon, delta, score_fraction)
        sensitivity = self._score_sensitivity(np.asarray(X, dtype=np.float64), shares, n_iter)
        return self.score_scale * laplace_noise_std(sensitivity, shares.epsilon_score)

    def _score_sensitivity(self, X, shares, n_iter):
        public = {"n_candidates": len(X), "n_iter": n_iter, "correlation": self.dataset_correlation}
        if not self.noise_variance:
            regret = {"A": float(self.A), "tau": float(self.tau)}
            return formulas.exact_score_sensitivity(
                n_features=X.shape[1], delta=shares.delta_score, **regret, **public
            )
        gain, arguments = self.information_gain, (self._kernel, X, n_iter, self._variance)
        if gain == "greedy":
            gain = maximum_information_gain_bound(*arguments)
        # The greedy gain is attained, so the maximum is no less; 1e-9 allows for rounding.
        elif gain < greedy_information_gain(*arguments) * (1 - 1e-9):
            raise ValueError(
                "information_gain is below the gain of a greedy design of n_iter points, so it is "
                "no upper bound on the maximum."
            )
        return formulas.score_sensitivity(
            delta=shares.delta_score,
            noise_variance=self._variance,
            information_gain=gain,
            constants=self.constants,
            **public,
        )

    def _posterior(self, X):
        check_kernel(self._kernel, X)
        return CandidatePosterior(self._kernel, X, noise_variance=self._variance)

    def _modelled(self, gain):
        return (gain - self.score_center) / self.score_scale

    def _assumptions(self, shares):
        # Fractions have no format before Python 3.12.
        center, scale = float(self.score_center), float(self.score_scale)
        prior = (
            "epsilon holds but for probability delta over the draw of the validation scores from "
            "the Gaussian-process prior and over the observation noise, not for each pair of data "
            f"sets: (score - {center:g}) / {scale:g}, for scores in [0, 1], "
            f"has mean 0, k(V, V') at least {float(self.dataset_correlation):g} for all neighbours "
            f"and the kernel {self._kernel} of the encoded candidates, all fixed in advance and "
            "true",
            "other releases, groups of records and adversaries who know more than the prior are "
            "not covered",
        )
        if not shares.epsilon_score:
            return prior
        if not self.noise_variance:
            regret = (
                f"for each data set the regret of the last candidate is at most {float(self.A):g} "
                f"exp(-{float(self.tau):g} T / (log T)^(d/4)), up to a probability delta / 4"
            )
            return (*prior, regret)
        if self.information_gain == "greedy":
            return prior
        return (*prior, f"the information gain is at most {float(self.information_gain):g} nats")
