r"""Constants and sensitivities of Kusner et al. (2015): pure functions of public numbers.

Letters: Lambda, the finite candidate set; T = `n_iter`, the number of evaluations; delta, the
probability over the Gaussian-process prior (and the observation noise) with which a sensitivity
may fail; k = `correlation`, the prior correlation k1(V, V') of the scores of two neighbouring data
sets; sigma^2 = `noise_variance`; gamma_T = `information_gain`. All values are in prior standard
deviations (of 1), their squares, or nats. Errata: ``docs/theory/kusner2015.md``.

Sensitivities are rounded up by a few units in the last place where a lattice needs it, not here.
"""

import math

from skdpbo.surrogate import gp_ucb_sqrt_beta


def beta(t, *, n_candidates, delta, constants="printed"):
    r"""Return the squared multiplier beta_t of GP-UCB.

    Printed (Alg. 1, line 4): :math:`\beta_t = 2 \log(|\Lambda| t^2 \pi^2 / (3 \delta))`, for which
    some confidence interval of a data set fails with probability at most delta / 2. Corrected: at
    most delta / 4, as the score needs those of two data sets within half of delta.
    """
    # The intervals of `gp_ucb_sqrt_beta` fail with probability at most half of its delta.
    share = {"printed": delta, "corrected": delta / 2}[constants]
    return gp_ucb_sqrt_beta(t, n_candidates, share) ** 2


def data_set_change(*, n_candidates, delta, correlation, parts):
    r"""Return a bound c on the change of any true score that fails with probability delta / parts.

    :math:`c = 2 \sqrt{(1 - k) \log(\mathrm{parts} \cdot |\Lambda| / \delta)}`. Printed: 3 parts in
    Alg. 1 (line 9), 2 in Alg. 2 (line 3); the corrected split of the score's delta has 4.
    """
    return 2 * math.sqrt((1 - correlation) * math.log(parts * n_candidates / delta))


def noise_change(*, n_iter, noise_variance, delta, constants):
    r"""Return a bound q on the effect of observation noise on the difference of two largest values.

    Printed (Alg. 1, line 10): :math:`q = \sigma \sqrt{8 \log(3 / \delta)}`, a tail bound for a
    single noise value; but the largest observation tends to have a large noise. Corrected: for all
    2 T noise values of two runs, :math:`q = \sigma \sqrt{8 \log(8 T / \delta)}`, failing with
    probability delta / 4.
    """
    argument = {"printed": 3, "corrected": 8 * n_iter}[constants] / delta
    return math.sqrt(8 * noise_variance * math.log(argument))


def regret_constant(noise_variance):
    r"""Return :math:`C_1 = 8 / \log(1 + \sigma^{-2})` of GP-UCB's regret (Alg. 1, line 11)."""
    return 8 / math.log1p(1 / noise_variance)


def choice_sensitivity(*, n_candidates, n_iter, delta, correlation):
    r"""Return the largest change of the posterior mean of any candidate (Theorem 1).

    :math:`2 \sqrt{\beta_{T+1}} + c`. It holds with probability 1 - delta under the prior, as
    published, since only the intervals at T + 1 are used.
    """
    sqrt_beta = math.sqrt(beta(n_iter + 1, n_candidates=n_candidates, delta=delta))
    c = data_set_change(n_candidates=n_candidates, delta=delta, correlation=correlation, parts=3)
    return 2 * sqrt_beta + c


def score_sensitivity(
    *, n_candidates, n_iter, delta, correlation, noise_variance, information_gain, constants
):
    r"""Return the largest change of the best observed value (Theorem 3).

    :math:`\sqrt{C_1 \beta_T \gamma_T / T} + c + q`. With the printed constants it fails with a
    probability above delta: use the corrected ones.
    """
    beta_T = beta(n_iter, n_candidates=n_candidates, delta=delta, constants=constants)
    mean_regret = math.sqrt(regret_constant(noise_variance) * beta_T * information_gain / n_iter)
    # Of the score's delta: see `data_set_change`.
    parts = {"printed": 3, "corrected": 4}[constants]
    c = data_set_change(
        n_candidates=n_candidates, delta=delta, correlation=correlation, parts=parts
    )
    q = noise_change(n_iter=n_iter, noise_variance=noise_variance, delta=delta, constants=constants)
    return mean_regret + c + q


def exact_score_regret(*, n_iter, n_features, A, tau):
    r"""Return :math:`A \exp(-T \tau / (\log T)^{d/4})`, the regret assumed in Theorem 5."""
    if n_iter < 2:
        raise ValueError("n_iter must be at least 2: the regret bound is void for one evaluation.")
    return A * math.exp(-n_iter * tau / math.log(n_iter) ** (n_features / 4))


def exact_score_sensitivity(*, n_candidates, n_iter, n_features, delta, correlation, A, tau):
    """Return the largest change of the exact score at the last point (Alg. 2, Theorem 5)."""
    c = data_set_change(n_candidates=n_candidates, delta=delta, correlation=correlation, parts=2)
    return exact_score_regret(n_iter=n_iter, n_features=n_features, A=A, tau=tau) + c


def lipschitz_score_sensitivity(
    *, smallest, largest, lipschitz, bound, n_records, constants="corrected"
):
    r"""Return the largest difference of the scores of two candidates (Alg. 3, Theorem 7).

    :math:`\min\{g^*/m, 2L/(m\lambda_{\min})\} +
    L(\lambda_{\max}-\lambda_{\min})/(\lambda_{\max}\lambda_{\min})`; printed with L in place of
    2 L, which underestimates the effect of a record by a factor of 2.

    Parameters
    ----------
    smallest, largest : float
        Range of the regularisation lambda, positive.
    lipschitz : float
        L, Lipschitz constant of the loss of one record in the weight vector.
    bound : float
        g*, range of that loss.
    n_records : int
        m, number of protected records.
    constants : {"corrected", "printed"}
    """
    factor = {"printed": 1, "corrected": 2}[constants]
    one_record = min(bound, factor * lipschitz / smallest) / n_records
    # L (l_max - l_min) / (l_max l_min), as a difference of reciprocals.
    return one_record + (1 / smallest - 1 / largest) * lipschitz
