"""Algorithm 3 of Kusner et al. (2015): the best score, without a Gaussian process."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from sklearn.gaussian_process.kernels import RBF

from skdpbo.mechanisms import DiscreteLaplace
from skdpbo.model_selection._frozen_parameters import FrozenParameters
from skdpbo.model_selection._private_choice import PrivateChoice
from skdpbo.model_selection.papers._kusner_constants import lipschitz_score_sensitivity
from skdpbo.model_selection.papers._kusner_release import (
    Gains,
    expected_improvement,
    run_gp_ucb,
)
from skdpbo.privacy._checks import check_choice, check_positive
from skdpbo.surrogate import CandidatePosterior

_PRINTED_IS_VOID = (
    "the printed constant counts one of the two ways in which replacing a record changes the "
    "score: the privacy loss can be twice the stated one"
)
_LEAST_NOISE_VARIANCE = 1e-10  # of a posterior for exact scores
_LENGTH_SCALE = 0.2


@dataclass(frozen=True, kw_only=True)
class Kusner2015Lipschitz(FrozenParameters):
    r"""Choice by permute-and-flip, score by Algorithm 3 of Kusner et al. (2015).

    For linear models with regularisation :math:`\lambda`: the score is the best one of the visited
    candidates, plus Laplace noise for the largest difference of the scores of any two candidates on
    any two neighbouring data sets.

    The protected records are private: in the choice without further assumptions, in the score for
    the training problems described in the Notes (status "conditional"). For a public trajectory the
    default mechanism has less noise and needs no assumptions.

    Parameters
    ----------
    lipschitz : float
        L > 0, Lipschitz constant of the loss of one protected record in the weight vector, before
        clipping to [0, bound].
    lambda_name : str
        Name of the search-space parameter that sets :math:`\lambda`, such as
        ``"sgdclassifier__alpha"``.
    constants : {"corrected", "printed"}, default="corrected"
        Whether one record counts with 2 L / (m lambda_min), or as published with half of it, for
        which the guarantee is **void**.
    transform : callable or None, default=None
        From the parameter's value to :math:`\lambda`, such as 1 / (n C) for the `C` of
        `LogisticRegression` on n public rows. None: the value is :math:`\lambda`. Define it at the
        top level of a module if the search must be pickled.
    trajectory : {"public", "secret"}, default="public"
        "public": candidates are proposed from public scores, and the choice is among those visited.
        "secret", as published: the search runs on exact scores of the protected records, by the
        `acquisition` of `DPBayesSearchCV` and a Gaussian process of kernel ``RBF(0.2)``; the visits
        affect the score before noise alone. All `n_candidates` are trained and scored, so that
        neither the choice nor the running time depends on the visits. Needs ``guide=False``, and
        `lambda_name` as the only parameter of the search.

    See Also
    --------
    skdpbo.DPBayesSearchCV : The searcher.

    Notes
    -----
    Training must minimise :math:`(\lambda/2) \|w\|^2` plus the mean of losses that are convex and
    1-Lipschitz in w, exactly, with an intercept only as a regularised weight; features of norm at
    most 1 give logistic and hinge losses that constant. The sensitivity is
    :math:`\min\{g^*/m, 2L/(m\lambda_{\min})\} +
    L(\lambda_{\max}-\lambda_{\min})/(\lambda_{\max}\lambda_{\min})`, where the second entry of the
    minimum also needs a loss that is the same for every record at w = 0. Records that cannot be
    scored violate this, as they have the largest loss. The second term, for candidates that differ
    in :math:`\lambda` alone, is needed for a secret trajectory, which may visit other candidates on
    a neighbouring data set.

    References
    ----------
    M. Kusner, J. Gardner, R. Garnett, K. Weinberger. Differentially private Bayesian optimization.
    ICML 2015, Algorithm 3 and Theorem 7. Errata: ``docs/theory/kusner2015_lipschitz.md``.

    Examples
    --------
    >>> from skdpbo.model_selection import Kusner2015Lipschitz
    >>> mechanism = Kusner2015Lipschitz(lipschitz=0.25, lambda_name="sgdclassifier__alpha")
    >>> mechanism.guarantee(epsilon=1.0, score_fraction=0.1).status
    'conditional'
    """

    lipschitz: float
    lambda_name: str
    constants: Literal["corrected", "printed"] = "corrected"
    transform: Callable[[Any], float] | None = None
    trajectory: Literal["public", "secret"] = "public"

    def __post_init__(self):
        check_positive(self.lipschitz, "lipschitz")
        if not (isinstance(self.lambda_name, str) and self.lambda_name):
            raise TypeError("lambda_name must be the name of a parameter.")
        check_choice(self.constants, "constants", ["corrected", "printed"])
        if self.transform is not None and not callable(self.transform):
            raise TypeError("transform must be callable or None.")
        check_choice(self.trajectory, "trajectory", ["public", "secret"])

    def lambdas(self, candidates):
        """Return the regularisation of each candidate, public.

        Parameters
        ----------
        candidates : list of dict
            Parameters by name.

        Returns
        -------
        list of float
            Positive and finite.
        """
        if not all(self.lambda_name in params for params in candidates):
            raise ValueError(f"lambda_name={self.lambda_name!r} is not a parameter of every space.")
        others = {name for params in candidates for name in params} - {self.lambda_name}
        if others and self.trajectory == "secret":
            # On neighbouring data sets the visited models may differ in the other parameters, too.
            raise ValueError(
                f'trajectory="secret" needs lambda_name={self.lambda_name!r} as the only parameter '
                f"of the search, got {', '.join(sorted(others))} as well: the sensitivity of the "
                "score is for candidates that differ in lambda alone. Set the others in the "
                "estimator."
            )
        values = [params[self.lambda_name] for params in candidates]
        if self.transform is not None:
            values = [self.transform(value) for value in values]
        _check_lambdas(values)
        return [float(value) for value in values]

    def guarantee(self, *, epsilon, score_fraction):
        """Return the guarantee of choice and score together.

        Parameters
        ----------
        epsilon : float, int or Fraction
            Total of both releases, > 0.
        score_fraction : float
            Share of the score, in [0, 1); 0: no score is released, and the guarantee is proved.

        Returns
        -------
        PrivacyGuarantee
            Of both releases; status "conditional" or "void" if a score is among them.
        """
        choice = PrivateChoice("permute_and_flip", epsilon, score_fraction)
        proved = choice.guarantee
        # The choice does not need the assumptions of the paper.
        if not choice.epsilon_score:
            return proved
        steps = (
            f"permute-and-flip choice (epsilon {float(choice.epsilon_choice):.4g})",
            f"score of Kusner et al. 2015, Algorithm 3 (epsilon {float(choice.epsilon_score):.4g})"
            + (", trajectory secret" if self.trajectory == "secret" else ""),
        )
        assumptions = (
            "training minimises (lambda/2) ||w||^2 plus the mean of losses that are convex and "
            f"1-Lipschitz in w, exactly, where lambda is set by {self.lambda_name} (norms of "
            "features at most 1; an intercept, if any, is regularised)",
            f"the loss of a protected record is {float(self.lipschitz):g}-Lipschitz in w, and at "
            "w = 0 the same for all records",
            "every protected record can be read and scored: one that cannot has the largest loss, "
            "also at w = 0",
        )
        changes = {
            "mechanism": " + ".join(steps),
            "assumptions": (*assumptions, *proved.assumptions),
            "status": "conditional",
            "reference": "McKenna & Sheldon 2020; Kusner, Gardner, Garnett & Weinberger 2015",
        }
        guarantee = replace(proved, **changes)
        return guarantee.voided(_PRINTED_IS_VOID) if self.constants == "printed" else guarantee

    def smallest_visited(self, X, totals, largest, *, n_iter, acquisition, sqrt_beta, source):
        """Return the smallest total loss on a trajectory guided by exact scores. Protected.

        Parameters
        ----------
        X : ndarray of shape (n_candidates, n_features)
            Encoded candidates in [0, 1], public.
        totals : list of (int or None)
            Total losses of all candidates, in [0, `largest`]; protected. None, for public reasons:
            the candidate cannot be trained.
        largest : int
            n_records * units.
        n_iter : int
            Number of visits, public.
        acquisition : {"ucb", "ei"}
        sqrt_beta : float
            Of "ucb".
        source : RandomSource
            Of the observation noise, whose variance is nearly zero.

        Returns
        -------
        int
            Protected: pass only to `release_score`.
        """
        # GP-UCB maximises: the gain is 1 minus the mean loss over its bound.
        gains = [None if total is None else 1 - total / largest for total in totals]
        posterior = CandidatePosterior(RBF(_LENGTH_SCALE), X, noise_variance=_LEAST_NOISE_VARIANCE)
        options = {"utilities": expected_improvement} if acquisition == "ei" else {}
        usable = Gains(gains.__getitem__, len(gains))
        run_gp_ucb(posterior, usable, float, [sqrt_beta] * n_iter, source, **options)
        return min(totals[k] for k in posterior.observed)

    def release_score(self, total_min, *, lambdas, units, bound, n_records, epsilon, source):
        """Release the smallest total loss of the visited candidates.

        Parameters
        ----------
        total_min : int
            Smallest total loss on the protected records, in [0, n_records * units]; protected.
        lambdas : sequence of float
            Regularisations of all candidates, public; see `lambdas`.
        units : int
            Integer that stands for the largest loss of one record.
        bound : float
            That loss, g*.
        n_records : int
            m, public.
        epsilon : float, int or Fraction
            Budget of the score, > 0.
        source : RandomSource
            Of the noise.

        Returns
        -------
        int
            Released: noisy total loss, clipped to [0, n_records * units].
        """
        sensitivity = self.integer_sensitivity(
            lambdas, units=units, bound=bound, n_records=n_records
        )
        mechanism = DiscreteLaplace(check_positive(epsilon, "epsilon"), sensitivity)
        # The range of a total is public: clipping to it is post-processing.
        return min(max(int(mechanism.release(int(total_min), source)), 0), n_records * units)

    def integer_sensitivity(self, lambdas, *, units, bound, n_records):
        """Return the sensitivity of the smallest total loss in integer units, rounded up.

        Rounding the losses to integers adds up to n_records units to the difference of two totals,
        which is at most n_records * units in any case.

        Parameters
        ----------
        lambdas : sequence of float
            Regularisations of all candidates, public.
        units : int
            Integer that stands for the largest loss of one record.
        bound : float
            That loss, g*.
        n_records : int
            m, public.

        Returns
        -------
        int
            In [1, n_records * units].
        """
        _check_lambdas(lambdas)
        # In fractions the formula is exact.
        sensitivity = lipschitz_score_sensitivity(
            smallest=Fraction(float(min(lambdas))),
            largest=Fraction(float(max(lambdas))),
            lipschitz=Fraction(float(self.lipschitz)),
            bound=Fraction(float(bound)),
            n_records=n_records,
            constants=self.constants,
        )
        # From the mean of m losses to their sum, in integer units.
        total = sensitivity / Fraction(float(bound)) * n_records * units
        # Each of the records' losses was rounded by at most half a unit, in both data sets.
        return min(math.ceil(total) + n_records, n_records * units)


def _check_lambdas(values):
    if not len(values):
        raise ValueError("lambdas must not be empty.")
    for value in values:
        check_positive(value, "lambda")
