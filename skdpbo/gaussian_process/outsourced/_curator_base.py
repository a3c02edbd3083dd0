"""Base class of `PrivateProjection` and `ProjectedGP`: the charged release of rows."""

import math
from typing import ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skdpbo._parameters import check_bounds, conditional_if_subclassed, warn_caller, warn_of_ends
from skdpbo._private_estimator import PrivateEstimator
from skdpbo._schema import check_same_length, in_doubles, refuse_not_finite
from skdpbo.exceptions import DefaultBoundsWarning, NoisyRowsWarning, VoidGuaranteeWarning
from skdpbo.gaussian_process.outsourced._domains import Ball, Box
from skdpbo.gaussian_process.outsourced._noisy_rows import NoisyRows, rows_guarantee
from skdpbo.gaussian_process.outsourced._random_projection import random_projection
from skdpbo.gaussian_process.outsourced._row_release import ProjectionRelease
from skdpbo.gaussian_process.papers._kharkovskii2020 import (
    VOID_REASON,
    PublishedRows,
    published_guarantee,
)
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import (
    check_choice,
    check_count,
    check_delta,
    check_positive,
)

_CLEAR, _FAR = 0.05, 3.0  # largest noise, as a share of the domain; its standard deviations
_MECHANISMS = ("l2_laplace", "gaussian", "kharkovskii2020")


class RowReleaser(PrivateEstimator):
    """Base class of estimators that release the rows of X once.

    A sub-class has the parameters n_components, mechanism, epsilon, delta, data_norm,
    displacement, X_bounds and random_state.
    """

    _assumed: ClassVar[tuple[str, ...]] = ()  # further assumptions of a sub-class

    def privacy_guarantee(
        self, n_samples: int | None = None, n_features: int | None = None
    ) -> PrivacyGuarantee:
        """Return the guarantee of `fit`, before any data.

        Parameters
        ----------
        n_samples : int, default=None
            Number of rows, at least 1; the noise does not depend on it.
        n_features : int, default=None
            Number of columns of X, at least 1. If `data_norm` is not given, or `X_bounds` are
            numbers, it is needed to state the cost of replacing a row as a figure.

        Returns
        -------
        guarantee : PrivacyGuarantee
            For data sets that differ in one row, moved by at most `displacement`.
        """
        if n_samples is not None:
            check_count(n_samples, "n_samples")
        return self._guarantees(n_features)[0]

    def replacement_guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of `fit` for the replacement of a row, before any data.

        Parameters
        ----------
        n_features : int, default=None
            Number of columns of X, at least 1; not needed after `fit`.

        Returns
        -------
        guarantee : PrivacyGuarantee
            For data sets that differ in one row, anywhere in its domain.
        """
        n_features = getattr(self, "n_features_in_", None) if n_features is None else n_features
        replaced = self._guarantees(n_features)[1]
        if replaced is None:
            raise ValueError("The domain of the rows is not known yet: give n_features.")
        return replaced

    def _guarantees(self, n_features):
        """Return the guarantees for a moved row and, if its domain is known, a replaced one."""
        check_choice(self.mechanism, "mechanism", _MECHANISMS)
        check_delta(self.delta)  # even if it is not used
        if n_features is not None:
            check_count(n_features, "n_features")
        if self.mechanism == "kharkovskii2020":
            pair = (published_guarantee(self.epsilon, self.delta),) * 2
        else:
            # A replaced row moves by at most the diameter of the domain.
            domain = self._domain(n_features)
            diameter = None if domain is None else domain.diameter
            pair = rows_guarantee(
                self.mechanism, self.epsilon, self.delta, self.displacement, diameter
            )
        stated = (part and part.voided_if_seeded(self.random_state) for part in pair)
        return tuple(
            part and conditional_if_subclassed(self, part).assuming(*self._assumed)
            for part in stated
        )

    def _domain(self, n_features):
        """Return the public domain of the rows of X; None if it needs an unknown `n_features`."""
        if self.X_bounds is not None:
            if self.data_norm is not None:
                raise ValueError("Give data_norm or X_bounds, not both.")
            # Numbers hold for any number of columns; vectors have one for each.
            sizes = [np.size(ends) for ends in self.X_bounds] if np.iterable(self.X_bounds) else []
            size = max(sizes, default=1) if n_features is None else n_features
            box = Box(*check_bounds(self.X_bounds, size, "X_bounds"))
            return None if n_features is None and size == 1 else box
        if self.data_norm is not None:
            return Ball(float(check_positive(self.data_norm, "data_norm")))
        # Three standard deviations of standard scores in each column; with a warning in `_plan`.
        return None if n_features is None else Ball(3.0 * n_features**0.5)

    def _checked_components(self, n_features):
        """Return r; refuse a projection to more dimensions."""
        r = self.n_components
        if r is None:
            return n_features
        if isinstance(r, Kernel):
            raise TypeError(
                "n_components comes first: give the kernel by name, as kernel=RBF(1.0)."
            )
        check_count(r, "n_components")
        if r > n_features and self.mechanism != "kharkovskii2020":
            raise ValueError(
                f"n_components={r} is more than the {n_features} features: a projection to more "
                "dimensions only adds noise. Leave n_components=None."
            )
        return int(r)

    def _plan(self, n_rows, n_features):
        """Return the release of the rows, from public values alone; raises all public errors."""
        r = self._checked_components(n_features)
        displacement = float(check_positive(self.displacement, "displacement"))
        domain = self._domain(n_features)
        if self.mechanism == "kharkovskii2020":
            if displacement != 1:
                raise ValueError("The published transform is about a displacement of 1.")
            message = f'mechanism="kharkovskii2020" protects nothing: {VOID_REASON}.'
            warn_caller(message, VoidGuaranteeWarning)
            return PublishedRows(self.epsilon, self.delta, r, domain)
        if self.data_norm is None and self.X_bounds is None:
            warn_caller(
                f"data_norm was not given: rows are shortened to the norm {domain.norm:.6g} "
                "(3 for each feature), whatever the data are. Give a public data_norm or X_bounds.",
                DefaultBoundsWarning,
            )
        plan = NoisyRows(
            mechanism=self.mechanism,
            epsilon=self.epsilon,
            delta=self.delta,
            displacement=displacement,
            domain=domain,
            n_features=n_features,
            # docs/theory/outsourced.md, Theorem 3: useful with fewer columns alone.
            projection=random_projection(n_features, r) if r < n_features else None,
        )
        noise = plan.mechanism_for(n_rows)[1]  # may refuse parameters
        self._guarantees(n_features)  # may refuse the displacement
        if noise > 2 * domain.norm:
            warn_caller(
                f"The noise of a released column has a standard deviation of {noise:.2g}, and no "
                f"row is longer than {domain.norm:.2g}: hardly anything of X is released. "
                "displacement, X_bounds and data_norm are in the units of X: take a smaller "
                "displacement, or a larger epsilon.",
                NoisyRowsWarning,
            )
        return plan

    def _charged_rows(self, X, y, guarantee, check):
        """Protected: call `_charged`, with a `check` of the shape and the targets.

        Returns
        -------
        X : ndarray of shape (n, d)
            float64, finite.
        y : ndarray or None
            Finite.
        checked : object
            What `check(shape, y)` returned.
        source : RandomSource
        """
        check_same_length(X, y, None)

        def check_rows(table, y):
            if y is not None:
                y = self._checked_targets(y)
            return y, check(table.shape, y)

        table, (y, checked), source = self._charged(guarantee, check_rows, X, y)
        # Charged: from here on values are read.
        table, y = (None if values is None else in_doubles(values) for values in (table, y))
        refuse_not_finite(table, "X")
        if y is not None:
            refuse_not_finite(y, "y")
        return np.asarray(table, dtype=np.float64), y, checked, source

    def _release_rows(self, X, plan, guarantee, source, **answers):
        """Protected X: release its rows by a plan, and keep the plan."""
        noise, std = plan.mechanism_for(len(X))
        with np.errstate(all="ignore"):  # an error or warning would depend on a row
            Z = plan.release(X, noise, source)
        self._map = plan  # for the owner of the rows; what it computes is protected
        return ProjectionRelease(
            Z=Z,
            noise_std=std,
            domain=plan.image,
            projection=plan.projection,
            mechanism=self.mechanism,
            guarantee=guarantee,
            displacement=float(self.displacement),
            data_norm=plan.domain.norm,
            **answers,
        )

    def _close(self, release, guarantee):
        """Set the attributes that every fit has; then warn, since a warning may be an error."""
        self.release_, self.privacy_ = release, guarantee
        domain = release.domain
        if release.projection is not None or domain is None:
            return self
        # Look for rows that are nearly all at one place of the edge of their domain.
        mean = release.Z.mean(axis=0)
        noise = release.noise_std / math.sqrt(release.n_rows)  # of each mean
        if isinstance(domain, Ball):
            # The mean is as long as the rows only if they are all at one place.
            size = np.linalg.norm(mean) / domain.radius
            noise = math.sqrt(len(mean)) * noise / domain.radius
        else:
            low, high = np.array(domain.low), np.array(domain.high)
            half = high / 2 - low / 2
            size, noise = np.abs((mean - low) / half - 1), noise / half
        # Sizes are 1 at the edge.
        ends = np.flatnonzero((_FAR * noise < _CLEAR) & (size + _FAR * noise >= 1))
        if isinstance(domain, Box):
            if 2 * len(ends) >= len(mean):  # a rare indicator alone says nothing
                warn_of_ends("X_bounds", ends)
        elif ends.size:
            warn_of_ends("the ball of data_norm")
        return self
