"""The published release, Honkela & Melkas (2021): A = K_ZX y and B = K_ZX K_XZ, with noise.

Sensitivity: :func:`joint_sensitivity`, Eq. (6) where it is tight and 2 R_k R_y below. Theorem: the
Gaussian mechanism on the d numbers of A and the d (d + 1)/2 of the upper triangle of B. See
``docs/theory/sparse_gp_release.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from skdpbo._exact_gram import RowMap, lattice_radius, rows_on_lattice
from skdpbo._gram_release import noisy_symmetric
from skdpbo.gaussian_process.papers._kernel_sensitivity import (
    joint_sensitivity,
    noise_shape,
    unit_sensitivity,
)
from skdpbo.mechanisms import GaussianMechanism
from skdpbo.privacy._checks import check_mu, check_positive, set_fields

_N_DRAWS = 2**40  # no limit: the sampler is exact
_REFERENCE = "Honkela & Melkas 2021, Theorem 2 and Lemma 5; Dong, Roth & Su 2022, Theorem 2.7"


@dataclass(frozen=True)
class KernelStatistics:
    """Released statistics, in the units of the kernel and of the targets.

    Attributes
    ----------
    A : ndarray of shape (d, q)
        Sum over records of k_Z(x) y', plus noise.
    B : ndarray of shape (d, d)
        Sum of k_Z(x) k_Z(x)', plus symmetric noise.
    sa : ndarray of shape (q,)
        Standard deviation of the noise of A, for each target.
    sb : float
        Standard deviation of the noise on the diagonal of B; it is sb / sqrt 2 off it.
    """

    A: np.ndarray
    B: np.ndarray
    sa: np.ndarray
    sb: float


@dataclass(frozen=True, kw_only=True)
class KernelRelease:
    r"""Joint Gaussian mechanism for A and B, Eq. (5); exactly mu-Gaussian differentially private.

    Private: every training record, inputs and targets, for data sets that differ in one record;
    the number of records is public. A record's k_Z(x) and targets are put on integer lattices
    and shortened there to R_k and R_y, products and sums are those of integers, and integer noise
    is added. So the guarantee holds for every kernel function and every R_k, even if k_Z(x) exceeds
    it; R_k affects accuracy alone.

    Parameters
    ----------
    mu : float
        Gaussian privacy parameter, > 0; the guarantee states epsilon at delta = 1e-5.
    k_norm : float
        R_k, > 0: bound on the norm of k_Z(x), in the units of the kernel. Longer vectors are
        shortened.
    half_width : tuple of float
        R_y of each of q targets, > 0; targets are clipped to [-R_y, R_y].
    n_records : int
        Number of records, public.
    ratio : float, default=1.0
        c = sigma_a^2 / sigma_b^2, > 0; sigma_a is that of a target whose half-width is the root
        mean square of all. 1 is the paper's; see :func:`optimal_ratio`.

    Attributes
    ----------
    y_norm : float
        R_y: bound on the l2 norm of a record's targets.
    shape : float
        s = sqrt(2 c) R_k / R_y.
    sensitivity : float
        Delta in units of A: the root of |dA|^2 + c |dB|_F^2 changes by at most this.
    radius : int
        Norms R_k and R_y in lattice steps, a power of two. Public.
    steps : tuple (float, ndarray of shape (q,))
        Lattice steps of k_Z(x) and of each target.
    guarantee : PrivacyGuarantee

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.gaussian_process.papers._kernel_release import KernelRelease
    >>> from skdpbo.privacy import mu_from_epsilon
    >>> mu = mu_from_epsilon(1.0, 1e-4)
    >>> release = KernelRelease(mu=mu, k_norm=1.83392, half_width=(1.0,), n_records=1024)
    >>> round(release.sensitivity, 3), release.sigma_a.round(2), round(release.sigma_b, 2)
    (5.463, array([17.41]), 17.41)
    """

    mu: float
    k_norm: float
    half_width: tuple[float, ...]
    n_records: int
    ratio: float = 1.0

    def __post_init__(self):
        check_positive(self.k_norm, "k_norm")
        check_positive(self.ratio, "ratio")
        for width in self.half_width:
            check_positive(width, "half_width")
        if not self.half_width:
            raise ValueError("half_width must have one value for each target")
        mu = check_mu(self.mu)
        # Norm of a record's vector of targets, each clipped to its own half-width.
        y_norm = math.sqrt(math.fsum(R * R for R in self.half_width))
        shape = noise_shape(self.k_norm, y_norm, self.ratio)
        # On the diagonal of B, in units of R_k^2: sigma_b = sigma_a / sqrt c.
        noise_of_A = unit_sensitivity(shape) / mu  # in units of R_k R_y
        # Algorithm 1 prints sigma_a / sigma_b for c, the supplement its square
        # (docs/theory/sparse_gp_release.md, Errata).
        noise_of_B = noise_of_A * math.sqrt(2.0) / shape
        radius = lattice_radius(self.n_records, max(noise_of_A, noise_of_B))
        # The vector of y_j / R_j has norm at most sqrt(q), which is `radius` steps.
        step_y = np.asarray(self.half_width) * (math.sqrt(len(self.half_width)) / radius)
        derived = {
            "mu": mu,
            "y_norm": y_norm,
            "shape": shape,
            "sensitivity": joint_sensitivity(self.k_norm, y_norm, self.ratio),
            "radius": radius,
            "steps": (self.k_norm / radius, step_y),
        }
        set_fields(self, **derived)

    @property
    def sigma_a(self):
        """Standard deviation of the noise of A for each target, shape (q,)."""
        step_k, step_y = self.steps
        return self._mechanisms[0].sigma * step_k * step_y

    @property
    def sigma_b(self):
        """Standard deviation of the noise on the diagonal of B."""
        return self._mechanisms[1].sigma * self.steps[0] ** 2

    @property
    def guarantee(self):
        """Guarantee of one release."""
        return replace(
            self._mechanisms[0].guarantee,
            protects="training records",
            mechanism="Gaussian mechanism on kernel statistics",
            assumptions=(
                "kernel, inducing points and bounds were chosen without the records",
                "the number of records is public",
            ),
            reference=_REFERENCE,
        )

    def release(self, gram, source=None):
        """Protected: add noise to the exact sums.

        Parameters
        ----------
        gram : ndarray of shape (d + q, d + q)
            Sum over records of the outer products of :class:`KernelRows`, int64. Protected. Its
            block of squared targets is not used.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        KernelStatistics
        """
        q = len(self.half_width)
        d = len(gram) - q
        of_A, on_diagonal, off_diagonal = self._mechanisms
        # One joint Gaussian mechanism in three draws, as the noise of entries is independent.
        A = of_A.release(np.ascontiguousarray(gram[:d, d:]), source)
        B = noisy_symmetric(gram[:d, :d], on_diagonal, off_diagonal, source)
        step_k, step_y = self.steps  # from here on post-processing
        return KernelStatistics(
            A=np.asarray(A, dtype=np.float64) * (step_k * step_y),
            B=B * step_k**2,
            sa=self.sigma_a,
            sb=self.sigma_b,
        )

    @cached_property
    def _mechanisms(self):
        """Mechanisms of A, of the diagonal of B and of its other entries, in lattice products.

        Together: |dA|^2 / sa^2 + sum of dB_ii^2 / sb^2 + sum over i < j of dB_ij^2 / (sb^2 / 2) is
        (|dA|^2 + c |dB|_F^2) / sa^2 <= (Delta / sa)^2 = mu^2, with norms of at most `radius`.
        """
        # docs/theory/sparse_gp_release.md, Theorem 1, with R_k = R_y = `radius` steps.
        sa = unit_sensitivity(self.shape) * self.radius**2
        # sb = sa / sqrt c in units of R_k^2, and sb / sqrt 2 off the diagonal; rounded up by 2^-50.
        sb = sa * math.sqrt(2.0) / self.shape * (1.0 + 2.0**-50)
        off = sa / self.shape * (1.0 + 2.0**-50)
        return tuple(
            GaussianMechanism(mu=self.mu, sensitivity=value, lattice=1.0, n_draws=_N_DRAWS)
            for value in (sa, sb, off)
        )


class KernelRows(RowMap):
    """Records as integer rows (k_Z(x) / h_k, y / h_y): k_Z(x) and y each of norm at most `radius`.

    Parameters
    ----------
    kernel : callable
        ``kernel(X, Z)`` of shape (n, d), as scikit-learn's kernels.
    Z : ndarray of shape (d, p)
        Inducing points, public.
    release : KernelRelease
    centre : ndarray of shape (q,), optional
        Public, subtracted from the targets.
    """

    def __init__(self, kernel, Z, release, centre=0.0):
        self.kernel, self.Z, self.centre = kernel, Z, centre
        self.half_width = np.asarray(release.half_width)
        self.step_k, self.step_y = release.steps
        self.radius = release.radius
        self.width = len(Z) + len(self.half_width)

    def __call__(self, X, Y, workspace=None):
        """Protected: return a chunk's rows, shape (n, width): floats that hold integers."""
        d = len(self.Z)
        Q = np.empty((len(X), self.width))
        with np.errstate(all="ignore"):  # a warning would depend on the values
            k = self.kernel(np.asarray(X, dtype=np.float64), self.Z)
            Q[:, :d] = rows_on_lattice(k, self.step_k, self.radius)
            # Both parts are shortened separately: the sensitivity has a bound for each.
            y = np.clip(np.subtract(Y, self.centre), -self.half_width, self.half_width)
            Q[:, d:] = rows_on_lattice(y / self.step_y, 1.0, self.radius)
        return Q
