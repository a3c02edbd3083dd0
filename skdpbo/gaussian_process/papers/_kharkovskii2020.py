"""Transform of Kharkovskii, Dai & Low (2020), as printed, for study; it protects nothing."""

import math
from dataclasses import dataclass

import numpy as np

from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_delta, check_positive, check_positive_delta

VOID_REASON = (
    "Theorem 1 of the paper is false for more than d + 1 rows: the transform keeps the column "
    "space of the data, so d + 1 known rows recover all others (docs/theory/kharkovskii2020.md)"
)
_STEP = 2.0**-40  # of the lattice of M


def threshold(n_components, epsilon, delta):
    r"""Return :math:`\omega = 16 \sqrt{r \log(2/\delta)} \log(16 r/\delta) / \epsilon`.

    Algorithm 1, line 5; natural logarithms.

    Parameters
    ----------
    n_components : int
        r.
    epsilon, delta : float

    Returns
    -------
    float

    Examples
    --------
    >>> from math import exp
    >>> from skdpbo.gaussian_process.papers._kharkovskii2020 import threshold
    >>> round(threshold(10, exp(1.1), 1e-5), 1)
    976.1
    """
    r = n_components
    return 16 * math.sqrt(r * math.log(2 / delta)) * math.log(16 * r / delta) / epsilon


@dataclass(frozen=True, eq=False)
class PublishedTransform:
    """Result of Algorithm 1, for the curator alone.

    Attributes
    ----------
    Z : ndarray of shape (n, r)
        Rows that the paper releases.
    mean : ndarray of shape (d,)
    matrix : ndarray of shape (d, r)
        A, with Z = (X - mean) A where X - mean has rank d.
    omega : float
    increased : bool
        Whether the singular values were increased: the "else" branch.
    """

    Z: np.ndarray
    mean: np.ndarray
    matrix: np.ndarray
    omega: float
    increased: bool

    def exact(self, X):
        """Return other rows under the same map, shape (n, r)."""
        return (X - self.mean) @ self.matrix


def published_transform(X, M, epsilon, delta):
    """Algorithm 1 of the paper, line by line.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    M : ndarray of shape (d, r)
        Independent standard normal entries (line 3), secret.
    epsilon, delta : float

    Returns
    -------
    PublishedTransform
    """
    r = M.shape[1]
    mean = X.mean(axis=0)
    centred = X - mean  # line 2
    U, s, Vt = np.linalg.svd(centred, full_matrices=False)  # line 4
    omega = threshold(r, epsilon, delta)  # line 5
    increased = not s.min() >= omega  # line 6
    if increased:
        raised = np.sqrt(s**2 + omega**2)
        Z = (U * raised) @ Vt @ M / math.sqrt(r)  # lines 9 and 10
        # A with (X - mean) A = Z, for other rows; 0 in directions without data.
        growth = np.divide(raised, s, out=np.zeros_like(s), where=s > 1e-12 * s.max())
        matrix = (Vt.T * growth) @ Vt @ M / math.sqrt(r)
    else:
        Z = centred @ M / math.sqrt(r)  # line 7
        matrix = M / math.sqrt(r)
    return PublishedTransform(Z, mean, matrix, omega, increased)


class PublishedRows:
    """The published transform, with the interface of `NoisyRows`."""

    projection, image = None, None

    def __init__(self, epsilon, delta, n_components, domain):
        self.epsilon, self.delta = float(epsilon), check_positive_delta(delta)
        self.n_components, self.domain = n_components, domain

    def mechanism_for(self, n_rows):
        """No noise."""
        return None, 0.0

    def release(self, X, noise, source):
        """Protected X: return Z and keep the map, which is secret."""
        # M is drawn by the exact sampler; no guarantee rests on it.
        normal = GaussianMechanism(mu=1.0, sensitivity=1.0, lattice=_STEP)
        zeros = np.zeros((X.shape[1], self.n_components), dtype=np.int64)
        M = normal.release(zeros, source) * _STEP
        self._transform = published_transform(X, M, self.epsilon, self.delta)
        return self._transform.Z

    def exact(self, X):
        """Protected: return the rows of X under the secret map."""
        return self._transform.exact(X)


def published_guarantee(epsilon, delta):
    """Guarantee that Theorem 1 of the paper claims, void."""
    return PrivacyGuarantee(
        epsilon=check_positive(epsilon, "epsilon"),
        delta=check_delta(delta),
        neighbours="one row of X moved by at most 1 (l2 norm)",
        protects="positions of the rows of X",
        mechanism="random projection (Kharkovskii et al. 2020)",
        reference="Kharkovskii, Dai & Low 2020, Algorithm 1",
    ).voided(VOID_REASON)
