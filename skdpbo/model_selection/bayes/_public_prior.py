"""A public prior for a private choice: public scores are used without privacy cost.

Permute-and-flip on utilities u_k = score_k + c * public_k is as private as without the second term,
which is the same for neighbouring data sets. Both c and public_k are computed from public numbers
alone.
"""

import numpy as np

from skdpbo.surrogate import fit_hyperparameters

# Standard deviation of a Gumbel-like selection noise of scale 1 (pi / sqrt 6).
_SELECTION_NOISE_SD = 1.28
# Lower bound of the disagreement between public and protected rows, in units of the loss bound.
_SMALLEST_DISAGREEMENT = 0.01
# Lower bound of the error of smoothed scores, in units of the loss bound. Good candidates may
# differ by .001: at .005 private choices were worse than public ones at small budgets.
_SMALLEST_ERROR = 0.003
# Assumed share of the variance of the public scores' error that is independent between candidates,
# and can be smoothed away; the rest is shared by similar candidates.
_INDEPENDENT_SHARE = 0.25
# Share of the publicly best candidates, between which the choice is made: their error counts.
_BEST_SHARE = 0.25
_LEAST_NOISE = 1e-8  # keeps the covariance of the scores invertible
_MOST_NOISE = 1e150  # largest ratio of selection noise to error; its square is finite


def public_error(split_scores):
    """Return the standard error of the public mean scores, apart from effects of the folds.

    From the residuals of the candidate x fold table, as in a two-way analysis of variance: a fold
    that is easier for all candidates is not an error.

    Parameters
    ----------
    split_scores : ndarray of shape (n_splits, n_candidates) or None
        Public scores; NaN where one failed.

    Returns
    -------
    float
        Nonnegative; 0.0 for None, one fold or one candidate.
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
    """Return the variance of the part of `public_error` that smoothing can remove."""
    return share * public_error(split_scores) ** 2


def public_disagreement(split_scores, *, bound):
    """Return tau, the standard deviation of (protected score - public score) across candidates.

    The root of the sum of squares of `public_error` and 1 % of `bound`.

    Parameters
    ----------
    split_scores : ndarray of shape (n_splits, n_candidates) or None
        Public scores; NaN where one failed. None: there are no folds.
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
    """Return the posterior mean of the candidates' scores given the public ones, and its error.

    A Gaussian process is fitted to the public scores, whose noise variance is known from the folds
    (`public_noise_variance`). Scores that vary smoothly between similar candidates are smoothed;
    if they vary strongly, they change little.

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
        Posterior standard deviation of the best quarter of the candidates, apart from their common
        error; root of the sum of squares with 0.3 % of `bound`.
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
    # Half the mean variance of a difference between two of the best.
    variance = covariance.diagonal().mean() - covariance.mean()
    return smoothed, float(np.hypot(np.sqrt(max(variance, 0.0)), _SMALLEST_ERROR * bound))


def automatic_prior_weight(error, *, sensitivity, epsilon):
    """Return the precision weight c = (s / error)^2 of public scores of a given standard error.

    s = 1.28 * 2 sensitivity / epsilon is about the standard deviation of the selection noise. As
    the number of records or epsilon grows, c goes to 0.

    Parameters
    ----------
    error : float
        Standard deviation of (protected score - public score) across the candidates, > 0.
    sensitivity : float
        Largest change of a score by one record; bound / m for a mean of m losses.
    epsilon : float
        Budget of the choice.

    Returns
    -------
    c : float
        Nonnegative.
    """
    s = _SELECTION_NOISE_SD * 2 * sensitivity / epsilon
    return float(min(s / error, _MOST_NOISE) ** 2)


def automatic_prior(X, scores, split_scores, *, kernel, epsilon, bound, sensitivity):
    """Return the term c p + min(1, sqrt(c)) (b - p) to add to the protected scores.

    p are the smoothed public scores and c their weight. b are public scores smoothed as if all of
    their error were independent between candidates: if the selection noise is larger than the
    differences of p, they favour candidates near other good ones.

    Parameters
    ----------
    X, scores, split_scores, kernel
        As for `smoothed_public_scores`.
    epsilon, sensitivity
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
    weight = automatic_prior_weight(error, sensitivity=sensitivity, epsilon=epsilon)
    return weight * smoothed + min(1.0, weight**0.5) * (broad - smoothed)


def public_offsets(public_scores, weight, *, units_per_score):
    """Return integers to add to the total losses: round(c units_per_score (best - public_k)).

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
        Nonnegative, 0 for the publicly best candidate.
    """
    scores = np.asarray(public_scores, dtype=float)
    finite = scores[np.isfinite(scores)]
    # Without public scores, or with weight 0, the protected scores decide alone.
    if len(finite) == 0 or weight == 0:
        return [0] * len(scores)
    scores = np.where(np.isfinite(scores), scores, finite.min())
    scale = weight * units_per_score
    return [round(scale * gap) for gap in (finite.max() - scores).tolist()]
