"""Private adaptation of a clipping norm to a quantile of the vectors' norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from skdpbo.mechanisms._gaussian import GaussianMechanism
from skdpbo.mechanisms._source import RandomSource
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_mu, check_within


def clipped_count_sensitivity() -> int:
    """Largest change, under one substitution, of the number of vectors that need no clipping."""
    return 1


@dataclass(frozen=True, kw_only=True)
class ClipQuantile:
    r"""Private adaptation of a clipping norm to a quantile of the vectors' norms.

    Released: the share of the records whose vectors need no clipping, with noise of standard
    deviation :math:`1/(n\mu)`; one record moves the count by at most 1. The next clipping norm
    is :math:`B \exp(-\eta (\tilde b - \gamma))` (post-processing).

    Parameters
    ----------
    n_records : int
        n, at least 1.
    mu : float
        Gaussian privacy parameter of one release, > 0.
    quantile : float, default=0.5
        Target share gamma of the records that need no clipping, in [0, 1].
    rate : float, default=0.2
        Rate eta of the geometric update, in (0, 100].

    References
    ----------
    G. Andrew, O. Thakkar, B. McMahan, S. Ramaswamy, Differentially private learning with adaptive
    clipping, NeurIPS 2021, Algorithm 1.

    Examples
    --------
    >>> from skdpbo.mechanisms import ClipQuantile
    >>> ClipQuantile(n_records=1000, mu=0.5).next_clip(1.0, share=0.75)
    0.951229424500714
    """

    n_records: int
    mu: float
    quantile: float = 0.5
    rate: float = 0.2
    _noise: GaussianMechanism = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_count(self.n_records, "n_records")
        check_within(self.quantile, "quantile", "[0, 1]")
        check_within(self.rate, "rate", "(0, 100]")
        noise = GaussianMechanism(
            mu=check_mu(self.mu), sensitivity=clipped_count_sensitivity(), n_draws=1
        )
        object.__setattr__(self, "_noise", noise)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Gaussian differential privacy of one release."""
        return self._noise.guarantee

    def release(self, n_inside: int, source: RandomSource | None = None) -> float:
        """Return the noisy share, clipped to [0, 1], of `ClippedMean.exact_total`'s count.

        Parameters
        ----------
        n_inside : int
            Number of records that needed no clipping, in [0, n_records]; protected.
        source : RandomSource, default=None
            None reads the operating system's generator.

        Returns
        -------
        float
            Noisy share of the records, in [0, 1].
        """
        # Post-processing of the noisy count: n is public, and clipping bounds one update's factor.
        share = float(self._noise.release(n_inside, source)) / self.n_records
        return min(max(share, 0.0), 1.0)

    def next_clip(self, clip: float, share: float) -> float:
        """Return the next clipping norm.

        Parameters
        ----------
        clip : float
            Current clipping norm, positive.
        share : float
            Released share of the records that needed no clipping, in [0, 1].

        Returns
        -------
        float
            In the units of `clip`; larger if `share` is below `quantile`.
        """
        clip, share = check_within(clip, "clip", "(0, inf)"), check_within(share, "share", "[0, 1]")
        return clip * math.exp(-self.rate * (share - self.quantile))
