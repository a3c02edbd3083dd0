"""A public prior for a private choice: what the public scores already say costs no budget.

Permute-and-flip on utilities u_k = score_k + c * public_k is as private as without the second term,
which no protected record can move: both members of a neighbouring pair get the same integers added.
Both c and public_k are computed from public numbers alone.
"""

import numpy as np

from skdpbo.surrogate import fit_hyperparameters

# Standard deviation of a Gumbel-like selection noise of scale 1 (pi / sqrt 6).
_SELECTION_NOISE_SD = 1.28
# Public and protected rows never agree perfectly on the candidates; in units of the loss bound.
_SMALLEST_DISAGREEMENT = 0.01
# Of smoothed scores. Good candidates may differ by .001: with .005 a private choice among them lost
# to the public scores at small budgets.
_SMALLEST_ERROR = 0.003
# Share of the variance of the public scores' error that is taken to be independent from candidate
# to candidate, and can be smoothed away; neighbours have the rest in common.
_INDEPENDENT_SHARE = 0.25
# The choice is made among the publicly best: their error counts.
_BEST_SHARE = 0.25
_LEAST_NOISE = 1e-8  # keeps the covariance of the scores invertible
_MOST_NOISE = 1e150  # in units of the error: its square is a float, and public scores decide


def public_error(split_scores):
    """Standard error of the public mean scores, apart from what all candidates share.

    From the residuals of the candidate x fold table, as in a two-way analysis of variance:
    candidates that are all easier in one fold are no error.

    Parameters
    ----------
    split_scores : ndarray of shape (n_splits, n_candidates) or None
        Public scores; NaN where one failed.

    Returns
    -------
    float
        Non-negative; 0.0 where the table says nothing: None, one fold or one candidate.
    """
    if split_scores is None:
        return 0.0
    table = split_scores[:, np.isfinite(split_scores).all(axis=0)]
    n_splits, n_candidates = table.shape
    if min(table.shape) < 2:
        return 0.0
    # Two-way analysis of variance: (K - 1)(n - 1) degrees of freedom, of a mean of K folds.
    residuals = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    return float(np.sqrt(np.sum(residuals**2) / ((n_splits - 1) * (n_candidates - 1)) / n_splits))


def public_noise_variance(split_scores, share=_INDEPENDENT_SHARE):
    """Variance of the part of `public_error` that smoothing can remove: a quarter."""
    return share * public_error(split_scores) ** 2


def public_disagreement(split_scores, *, bound):
    """tau, the standard deviation of (protected score - public score) across candidates.

    The root of the sum of squares of `public_error` and 1 % of `bound`.

    Parameters
    ----------
    split_scores : ndarray of shape (n_splits, n_candidates) or None
        Public scores; NaN where one failed. None: nothing is known of the folds.
    bound : float
        Largest loss of a record, in the units of the scores.

    Returns
    -------
    tau : float
        Positive.
    """
    return float(np.hypot(public_error(split_scores), _SMALLEST_DISAGREEMENT * bound))


def smoothed_public_scores(
    X, scores, split_scores, *, kernel, bound, independent_share=_INDEPENDENT_SHARE
):
    """Posterior mean of the candidates' scores given the public ones, and its error.

    A Gaussian process is fitted to the public scores, whose noise variance is known from the
    folds (`public_noise_variance`). Where neighbours say that a score was luck, it is corrected;
    where scores are rough, they stay nearly as they are.

    Parameters
    ----------
    X : ndarray of shape (n_candidates, n_features)
        Encoded candidates.
    scores : ndarray of shape (n_candidates,)
        Mean public scores; NaN where a candidate failed.
    split_scores : ndarray of shape (n_splits, n_candidates)
        Scores of the folds.
    kernel : Kernel
        Template for standardised scores.
    bound : float
        Largest loss of a record, in the units of the scores.
    independent_share : float, default=0.25
        Share of the variance of the public error that is smoothed away.

    Returns
    -------
    smoothed : ndarray of shape (n_candidates,)
        NaN where a candidate failed.
    error : float
        Posterior standard deviation of the best quarter of the candidates, apart from what they
        have in common; root of the sum of squares with 0.3 % of `bound`.
    """
    smoothed = np.array(scores, dtype=float)
    finite = np.isfinite(smoothed)
    if not finite.any():
        return smoothed, _SMALLEST_ERROR * bound
    X, observed = X[finite], smoothed[finite]
    noise_variance = public_noise_variance(split_scores, independent_share)
    fitted = fit_hyperparameters(
        kernel,
        X,
        observed,
        noise_variance=noise_variance,
        noise_variance_bounds="fixed",
    )
    K = fitted.kernel(X)
    # Posterior mean m + G (y - m) and covariance K - G K with the gain G = K (K + s^2 I)^-1.
    gain = np.linalg.solve(K + max(noise_variance, _LEAST_NOISE * K.max()) * np.eye(len(X)), K).T
    mean = fitted.prior_mean + gain @ (observed - fitted.prior_mean)
    smoothed[finite] = mean
    best = np.argsort(-mean)[: int(np.ceil(_BEST_SHARE * len(X)))]
    covariance = (K - gain @ K)[np.ix_(best, best)]
    # Half the mean variance of a difference: what the best have in common is no error.
    variance = covariance.diagonal().mean() - covariance.mean()
    return smoothed, float(np.hypot(np.sqrt(max(variance, 0.0)), _SMALLEST_ERROR * bound))


def automatic_prior_weight(error, *, moved, epsilon):
    """Precision weight c = (s / error)^2 of public scores of a given standard error.

    s = 1.28 * 2 moved / epsilon is about the standard deviation of the selection noise. As the
    number of records or epsilon grows, c goes to 0.

    Parameters
    ----------
    error : float
        Standard deviation of (protected score - public score) across the candidates, > 0.
    moved : float
        Largest change of a score by one record; bound / m for a mean of m losses.
    epsilon : float
        Budget of the choice.

    Returns
    -------
    c : float
        Non-negative.
    """
    s = _SELECTION_NOISE_SD * 2 * moved / epsilon
    return float(min(s / error, _MOST_NOISE) ** 2)


def automatic_prior(X, scores, split_scores, *, kernel, epsilon, bound, moved):
    """Public score to add to each candidate's protected one: c p + min(1, sqrt(c)) (b - p).

    p are the smoothed public scores and c their weight. b are the same with all of the public error
    smoothed away: they favour candidates among good neighbours where the selection noise is
    larger than the differences of p, so that it chooses among fewer.

    Parameters
    ----------
    X, scores, split_scores, kernel
        As for `smoothed_public_scores`.
    epsilon, moved
        As for `automatic_prior_weight`.
    bound : float
        Largest loss of a record, in the units of the scores.

    Returns
    -------
    prior : ndarray of shape (n_candidates,)
        In the units of the scores; NaN where a candidate failed.
    """
    smoothed, error = smoothed_public_scores(X, scores, split_scores, kernel=kernel, bound=bound)
    broad, _ = smoothed_public_scores(
        X, scores, split_scores, kernel=kernel, bound=bound, independent_share=1.0
    )
    weight = automatic_prior_weight(error, moved=moved, epsilon=epsilon)
    return weight * smoothed + min(1.0, weight**0.5) * (broad - smoothed)


def public_offsets(public_scores, weight, *, units_per_score):
    """Integers to add to the total losses: round(c * units_per_score * (best - public_k)).

    Parameters
    ----------
    public_scores : ndarray of shape (n_candidates,)
        Greater is better; NaN counts as the worst.
    weight : float
        c >= 0.
    units_per_score : float
        Change of a total for one unit of the score; m B / bound for a mean of m losses.

    Returns
    -------
    offsets : list of int
        Non-negative, 0 for the publicly best candidate.
    """
    scores = np.asarray(public_scores, dtype=float)
    finite = scores[np.isfinite(scores)]
    # Without a public score, or a weight, the protected ones decide alone.
    if len(finite) == 0 or weight == 0:
        return [0] * len(scores)
    scores = np.where(np.isfinite(scores), scores, finite.min())
    scale = weight * units_per_score
    return [round(scale * gap) for gap in (finite.max() - scores).tolist()]
