"""A public prior for a private choice: what the public scores already say costs no budget.

Permute-and-flip on utilities u_k = score_k + c * public_k is as private as without the second term,
which no protected record can move: both members of a neighbouring pair get the same integers added.
The weight c is computed from public numbers alone.
"""

import numpy as np

__all__ = ["automatic_prior_weight", "public_disagreement", "public_offsets"]

# Standard deviation of a Gumbel-like selection noise of scale 1 (pi / sqrt 6).
_SELECTION_NOISE_SD = 1.28
# Public and protected rows never agree perfectly on the candidates; in units of the loss bound.
_SMALLEST_DISAGREEMENT = 0.01


def automatic_prior_weight(split_scores, *, n_records, epsilon, bound):
    """Precision weight c = (s / tau)^2 of the public scores.

    s = 1.28 * 2 bound / (m epsilon) is about the standard deviation of the selection noise, tau
    that of the public scores' own error across candidates, from the residuals of the candidate x
    fold table (candidates that are all easier in one fold are no error). As m epsilon grows, c goes
    to 0.

    Parameters
    ----------
    split_scores : ndarray of shape (n_splits, n_candidates)
        Public scores; NaN where one failed.
    n_records : int
        Number m of protected records (public).
    epsilon : float
        Budget of the choice.
    bound : float
        Largest loss of a record, in the units of the scores.

    Returns
    -------
    c : float
        Non-negative.
    """
    s = _SELECTION_NOISE_SD * 2 * bound / (n_records * epsilon)
    return float(s**2 / public_disagreement(split_scores, bound=bound) ** 2)


def public_disagreement(split_scores, *, bound):
    """tau, the standard deviation of (protected score - public score) across candidates.

    The square root of the variance of the public mean scores, from the residuals of the candidate
    x fold table (candidates that are all easier in one fold are no error), plus (1 % of `bound`)^2.

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
    if split_scores is None:
        return _SMALLEST_DISAGREEMENT * bound
    table = split_scores[:, np.isfinite(split_scores).all(axis=0)]
    n_splits, n_candidates = table.shape
    variance = 0.0
    if min(table.shape) > 1:
        residuals = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        variance = np.sum(residuals**2) / ((n_splits - 1) * (n_candidates - 1)) / n_splits
    return float(np.sqrt(variance + (_SMALLEST_DISAGREEMENT * bound) ** 2))


def public_offsets(public_scores, weight, *, n_records, units, bound):
    """Integers to add to the total losses: round(c * m * B / bound * (best - public_k)).

    Parameters
    ----------
    public_scores : ndarray of shape (n_candidates,)
        Greater is better; NaN counts as the worst.
    weight : float
        c >= 0.
    n_records, units, bound : int, int, float
        m, B and the loss that B units stand for.

    Returns
    -------
    offsets : list of int
        Non-negative, 0 for the publicly best candidate.
    """
    scores = np.asarray(public_scores, dtype=float)
    finite = scores[np.isfinite(scores)]
    if len(finite) == 0 or weight == 0:
        return [0] * len(scores)
    scores = np.where(np.isfinite(scores), scores, finite.min())
    scale = weight * n_records * units / bound
    return [round(scale * gap) for gap in (finite.max() - scores).tolist()]
