r"""Estimate of the features' second moment from its noisy release (docs: DP sparse GP).

Released is :math:`B' = \sum_i \phi(x_i)\phi(x_i)' + E`. As the kernel and the inducing points are
public, the sum is known to be a mixture of :math:`\phi(x)\phi(x)'`; in few dimensions these are a
small part of all positive matrices. Post-processing of the release.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsymv
from scipy.optimize import nnls

from skdpbo._gram_release import lifted

_N_STEPS = 400
_LEAST_FEATURES = 1e-30  # least fourth power of the norm of features, which is at most 1
_SMALLEST = 1e-280
_LEAST_SHARE = 0.02  # of the initial weights, spread evenly, as a weight of 0 would stay 0
_LEAST_NOISE = 0.01  # per record, assumed in a diagonal entry; keeps the weights of M smooth
_LEAST_REMAINING = 0.3  # of the noise variance, as the mixture may be slightly wrong
_LOW_QUANTILE, _LEAST_GAP = 0.1, 0.01  # of phi' M phi inside, and its least distance to outside


def denoised_second_moment(B, support, *, sb, n_records, weights=None):
    r"""Positive semi-definite estimate of the second moment, and its remaining noise.

    The mixture of :math:`\phi(x)\phi(x)'` over public support points that is nearest to B', plus
    a share of the difference if that is more than noise, so that the estimate tends to B' as the
    noise vanishes, even if records lie outside of the support. A mixture has fewer degrees of
    freedom than a matrix, and so removes noise.

    Parameters
    ----------
    B : ndarray of shape (d, d)
        B', released, symmetric.
    support : ndarray of shape (n_support, d)
        Features of the support points, public.
    sb : float
        Standard deviation of the noise of a diagonal entry, > 0; sb / sqrt 2 off the diagonal.
    n_records : int
        Public.
    weights : ndarray of shape (n_support,), default=None
        Result of :func:`nearest_mixture`, if known.

    Returns
    -------
    estimate : ndarray of shape (d, d)
    sb : float
        Standard deviation of the remaining noise: at least half of the given one.
    """
    weights = nearest_mixture(B, support) if weights is None else weights
    # B_1 = B_0 + rho (B' - B_0), and then eigenvalues that n records can give.
    mixture = (support.T * weights) @ support
    rest = B - mixture
    d = len(rest)  # E |E_b|_F^2 = d sb^2 + d (d - 1) sb^2 / 2
    square = np.sum(rest**2) / (0.5 * sb**2 * d * (d + 1))
    # James and Stein's share has no square. With it, errors of the mixture vanish sooner; they lie
    # in weak directions, which matter most for the posterior.
    share = 1.0 - 1.0 / max(square, 1.0) ** 2
    # c_0 = 1 - r, and c = c_0 + rho^2 (1 - c_0), as the restored part contains noise.
    kept = min(max(1.0 - square, _LEAST_REMAINING), 1.0)
    left = float(sb * np.sqrt(kept + share**2 * (1.0 - kept)))
    return lifted(mixture + share * rest, share * sb, n_records), left


def smaller_scales(weights, moments, estimate):
    r"""Return factors of at most 1 that correct the length of the posterior mean of each target.

    A denoised B_+ underestimates directions along which correlated columns vary. As u solves a
    ridge regression, :math:`u'B_+u + r = u'A'` with the penalty r; with
    :math:`u'Bu = u'B_+u + \delta` the best multiple of u is :math:`u'A' / (u'A' + \delta)`.

    Parameters
    ----------
    weights : ndarray of shape (d, q)
        u.
    moments : NoisyMoments
        Released.
    estimate : ndarray of shape (d, d)
        B_+.

    Returns
    -------
    ndarray of shape (q,)
    """
    explained = np.einsum("ij,ij->j", weights, moments.A)
    excess = np.einsum("ij,ij->j", weights, (moments.B - estimate) @ weights)
    # The standard deviation of u'E_b u: off the diagonal E_b has 1 / sqrt 2 of that on it.
    noise = moments.sb * np.einsum("ij,ij->j", weights, weights)
    # Factors never exceed 1, and are 1 if noise explains the excess.
    is_clear = (explained > 0) & (excess > noise)
    kept = 1.0 - (noise / np.where(is_clear, excess, np.inf)) ** 2
    return np.where(is_clear, explained / np.where(is_clear, explained + kept * excess, 1.0), 1.0)


def nearest_mixture(B, support, designs=()):
    """Return weights w >= 0 for which the sum of w phi phi' is nearest to B in the Frobenius norm.

    By multiplicative steps w <- w h / (Q w), Q w = h being the normal equations. They keep w
    positive, decrease the distance, and fit structure long before noise. The minimiser is not
    unique; the start selects one.

    Parameters
    ----------
    B : ndarray of shape (d, d)
    support : ndarray of shape (n_support, d)
        Features of the support points.
    designs : sequence of slice
        Disjoint parts of the support, whose nearest mixture is the start. Empty: equal weights.

    Returns
    -------
    ndarray of shape (n_support,)
    """
    # Entries of Q are <phi phi', psi psi'>_F = (phi'psi)^2. h >= 0 keeps weights positive.
    h = np.maximum(np.sum((support @ B) * support, axis=1), 0.0)
    w = np.full(len(support), 1 / len(support))
    # Points of vanishing features keep their weights, as better ones would overflow.
    seen = np.einsum("ij,ij->i", support, support) ** 2 > _LEAST_FEATURES
    designs = [design for design in designs if seen[design].any()]
    if designs:
        parts = [support[design] for design in designs]
        moments = np.stack([(part.T @ part).ravel() / len(part) for part in parts], axis=1)
        # Each design as one component: with so few unknowns, noise is not fitted.
        shares, _ = nnls(moments, B.ravel())
        if shares.any():
            w *= _LEAST_SHARE
            for design, part, share in zip(designs, parts, shares / shares.sum(), strict=True):
                w[design] += share / len(part)
    h, moving = h[seen], w[seen]
    times_Q = _times_squares(support[seen])
    for _ in range(_N_STEPS if seen.any() else 0):
        moving *= h / np.maximum(times_Q(moving), _SMALLEST)  # weights may vanish
    w[seen] = moving
    return w


def _times_squares(support):
    """Return the map from weights w >= 0 to Q w, with the entries (phi'psi)^2 of Q."""
    F = _products(support)
    if F is None:  # dsymv reads half of the symmetric matrix
        Q = ((support @ support.T) ** 2).T
        return lambda w: dsymv(1.0, Q, w)
    diagonal = np.einsum("ij,ij->i", F, F)
    # All terms of Q w are >= 0, so the diagonal one is a lower bound, in case of rounding errors.
    return lambda w: np.maximum(F @ (w @ F), diagonal * w)


def _products(points):
    """Return F with Q = F F'; None if F has a fourth of the entries of Q, or more.

    A row of F holds the upper triangle of phi phi'.
    """
    n, d = points.shape
    if d * (d + 1) >= n / 2:
        return None
    i, j = np.triu_indices(d)
    return points[:, i] * points[:, j] * np.where(i == j, 1.0, np.sqrt(2.0))


def _ridge(points, penalty, target):
    """Return a with (Q + penalty I) a = target, for the Q of `_times_squares`."""
    F = _products(points)
    if F is None:
        regular = (points @ points.T) ** 2
        regular[np.diag_indices_from(regular)] += penalty
        return cho_solve(cho_factor(regular, lower=True, overwrite_a=True), target)
    small = F.T @ F + penalty * np.eye(F.shape[1])
    return (target - F @ cho_solve(cho_factor(small, lower=True), target @ F)) / penalty


def share_in_reach(B, inside, outside, *, sb, n_records):
    r"""Estimate the share of the records that lie near the inducing points.

    By a linear function of B', :math:`\mathrm{tr}(M B') / n`, with M such that phi' M phi is about
    1 at points inside and 0 far outside, as far as noise allows. Post-processing of the release.

    Parameters
    ----------
    B : ndarray of shape (d, d)
        B', released.
    inside, outside : ndarray of shape (n_points, d)
        Features of public points.
    sb : float
        As for `denoised_second_moment`.
    n_records : int

    Returns
    -------
    share : float
        Relative to a low quantile of phi' M phi inside, so that it errs on the high side.
    sd : float
        Standard deviation of its noise.
    """
    points, n_inside = np.vstack([inside, outside]), len(inside)
    target = (np.arange(len(points)) < n_inside).astype(float)
    # docs/theory/sparse_gp.md, Rows out of reach.
    penalty = len(points) * max(sb / n_records, _LEAST_NOISE) ** 2
    # M = sum_j a_j phi_j phi_j' has the least mean squared error, including noise.
    a = _ridge(points, penalty, target)
    values = target - penalty * a  # Q a
    low, zero = np.quantile(values[:n_inside], _LOW_QUANTILE), values[n_inside:].mean()
    if low < zero + _LEAST_GAP:  # features inside and outside are too similar
        return 1.0, np.inf
    total = a @ np.sum((points @ B) * points, axis=1) / n_records
    # The variance of tr(M E_b) is sb^2 |M|_F^2, and |M|_F^2 = a'Qa.
    sd = sb * np.sqrt(max(a @ values, 0.0)) / n_records
    return float((total - zero) / (low - zero)), float(sd / (low - zero))
