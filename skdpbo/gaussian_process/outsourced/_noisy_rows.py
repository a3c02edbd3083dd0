"""Private release of rows: l2-Laplace or Gaussian noise on clipped, optionally projected rows."""

import math
from dataclasses import dataclass, replace

import numpy as np

from skdpbo.gaussian_process.outsourced._domains import Ball, Box
from skdpbo.gaussian_process.outsourced._random_projection import row_sensitivity
from skdpbo.mechanisms import GaussianMechanism, L2Laplace
from skdpbo.mechanisms._l2_laplace import MAX_DIMENSION
from skdpbo.privacy import PrivacyGuarantee, epsilon_from_mu, mu_from_epsilon
from skdpbo.privacy._checks import check_delta, check_positive, set_fields
from skdpbo.privacy._rounding import text_below

ROW_ASSUMPTIONS = (
    "the number of rows, the columns, the types and that all values are finite are public",
    "the norm or box of the rows and all other parameters were chosen without looking at the rows",
    "running time and memory use are not observed",
)
_REFERENCES = {
    "l2_laplace": "Andres et al. 2013; docs/theory/outsourced.md, Theorem 1",
    "gaussian": "Dong, Roth & Su 2022, Theorem 2.7; docs/theory/outsourced.md, Theorem 2",
}


@dataclass(frozen=True, kw_only=True)
class NoisyRows:
    r"""Rows of X, moved into a public domain, optionally multiplied by a public matrix, plus noise.

    Private: the position of every row, for data sets in which one row is moved by at most
    `displacement` in l2 norm. Theorem: the computed row moves by at most `row_sensitivity`, to
    which the noise, l2-Laplace or Gaussian, is calibrated; the other rows do not change, and noise
    is independent. A move t >= 1 times as long costs t times epsilon, or mu.

    Parameters
    ----------
    mechanism : {"l2_laplace", "gaussian"}
    epsilon : float
    delta : float
        Used by the Gaussian mechanism only.
    displacement : float
        D, > 0, in the units of X.
    domain : Ball or Box
        Public domain, into which the rows of X are moved.
    n_features : int
        d.
    projection : ndarray of shape (d, r) or None, default=None
        P, public.

    Attributes
    ----------
    n_components : int
        Number r of coordinates of a released row.
    sensitivity : float
        Largest l2 move of a row of Z for a move of `displacement` in X, rounded up.
    """

    mechanism: str
    epsilon: float
    delta: float
    displacement: float
    domain: Ball | Box
    n_features: int
    projection: np.ndarray | None = None

    def __post_init__(self):
        # By the Cauchy-Schwarz inequality, partial sums of a product are at most half of that.
        largest = 1.0 if self.projection is None else 2 * float(np.linalg.norm(self.projection))
        if not math.isfinite(self.domain.norm * largest):
            # A public error: otherwise overflow would depend on a row.
            raise ValueError("data_norm or X_bounds are too large: a row may exceed the floats.")
        # Inside the domain no row moves further than its diameter.
        sensitivity = row_sensitivity(
            min(self.displacement, self.domain.diameter),
            data_norm=self.domain.norm,
            n_features=self.n_features,
            projection=self.projection,
        )
        r = self.n_features if self.projection is None else self.projection.shape[1]
        # The domain of the rows before the noise, in the space of Z.
        image = self.domain.image(self.projection)
        set_fields(self, n_components=r, sensitivity=sensitivity, image=image)

    def mechanism_for(self, n_rows):
        """Return the noise and its standard deviation per coordinate, in the units of Z."""
        r = self.n_components
        if self.mechanism == "l2_laplace":
            noise = L2Laplace(self.epsilon, self.sensitivity, r)
            # The norm has the law Gamma(r, scale): E |e|^2 = r (r + 1) scale^2, in r coordinates.
            return noise, noise.scale * math.sqrt(r + 1)
        # n_draws: rounding of all coordinates to the lattice counts towards the sensitivity.
        noise = GaussianMechanism(
            epsilon=self.epsilon,
            delta=self.delta,
            sensitivity=self.sensitivity,
            n_draws=max(1, n_rows * r),
        )
        return noise, noise.sigma

    def exact(self, X):
        """Protected: return the rows of X before the noise, shape (n, r)."""
        rows = self.domain.project(X)
        return rows if self.projection is None else rows @ self.projection

    def release(self, X, noise, source):
        """Protected X: return Z, the `exact` rows plus noise, shape (n, r)."""
        return noise.release(self.exact(X), source)


def rows_guarantee(mechanism, epsilon, delta, displacement, diameter=None):
    """Return the guarantees of the release of the rows; needs no data.

    Parameters
    ----------
    mechanism : {"l2_laplace", "gaussian"}
    epsilon, delta : float
    displacement : float
        In the units of X.
    diameter : float or None, default=None
        Largest distance of two rows in their domain, where it is known. Then the second guarantee
        is that of replacing a row by any other.

    Returns
    -------
    moved : PrivacyGuarantee
        Of one row that moves by at most `displacement`.
    replaced : PrivacyGuarantee or None
        Of one row that is replaced.
    """
    move, epsilon = check_positive(displacement, "displacement"), check_positive(epsilon, "epsilon")
    common = {
        "epsilon": epsilon,
        # The displacement is rounded down, as a longer move costs more than epsilon.
        "neighbours": f"one row of X moved by at most {text_below(float(move))} (l2 norm)",
        "protects": "positions of the rows of X",
        "reference": _REFERENCES[mechanism],
    }
    if mechanism == "gaussian":
        delta = check_delta(delta)
        # The noise hides a move of `displacement` as mu-GDP (Dong, Roth and Su 2022, Theorem 2.7).
        mu = mu_from_epsilon(epsilon, delta)
        moved = PrivacyGuarantee(delta=delta, mu=mu, mechanism="Gaussian rows", **common)
    else:
        moved = PrivacyGuarantee(
            # Delta of the sampler in any dimension. Lattice steps of dimensions differ by factors
            # below 2, hence 4.
            delta=4 * L2Laplace(epsilon, 1.0, MAX_DIMENSION).guarantee.delta,
            mechanism="l2-Laplace rows",
            assumptions=("delta is the statistical distance of the sampler from its law",),
            **common,
        )
    replaced, cost = None, "epsilon times their distance / displacement"
    if diameter is not None:
        # Rounded up; at least one move, even in a domain smaller than the displacement.
        replaced = _scaled(moved, max(1.0, math.nextafter(diameter / displacement, math.inf)))
        cost = f"epsilon {replaced.epsilon:.6g}"
    stated = (f"replacing a row by any other of its domain costs {cost}", *ROW_ASSUMPTIONS)
    if replaced is not None:
        replaced = replaced.assuming(*ROW_ASSUMPTIONS)
    return moved.assuming(*stated), replaced


def _scaled(guarantee, times):
    """Return the guarantee of a move `times` as long."""
    common = {"neighbours": "replace-one", "protects": "rows of X"}
    if guarantee.mu is None:
        # The sampler's distance counts 1 + exp(epsilon) times; delta must stay below 1.
        log_delta = math.log(guarantee.delta) + (times - 1) * guarantee.epsilon
        delta = math.exp(min(log_delta + 1e-9, -1e-15))
        # Metric privacy: the loss is proportional to the distance moved (Andres et al. 2013).
        epsilon = math.nextafter(times * guarantee.epsilon, math.inf)
        return replace(guarantee, epsilon=epsilon, delta=delta, **common)
    # mu is proportional to the distance moved.
    mu = math.nextafter(times * guarantee.mu, math.inf)
    if mu > 1e15:  # the largest that `epsilon_from_mu` accepts
        raise ValueError(
            "displacement is too small beside X_bounds or data_norm: a replaced row moves "
            f"{times:.3g} times as far, which no guarantee is stated for."
        )
    epsilon = max(epsilon_from_mu(mu, guarantee.delta), guarantee.epsilon)
    return replace(guarantee, mu=mu, epsilon=epsilon, **common)
