"""Base class of the private sparse processes: budget, releases and attributes.

A fit has up to five of these releases, in this order: ranges of columns; a private prior mean; for
one column, reaches of records and targets; location and reach of the targets with the extent of the
records; for several columns, those that matter; second moments. Each is a function of the records
and of earlier releases, and their mu^2 add up to that of the fit (adaptive composition, Dong, Roth
& Su 2022, Corollary 3.3).
"""

import math
import numbers
import warnings
from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs
from scipy.special import softmax

from skdpbo._column_ranges import LARGEST_END, may_show_ranges, released_ranges, warn_of_no_range
from skdpbo._exact_gram import products, streamed_sums
from skdpbo._gaussian_estimator import GaussianEstimator
from skdpbo._isolation._estimator_parts import refuse_cached_functions
from skdpbo._parameters import DEFAULT_BOUNDS, check_bounds
from skdpbo._record_groups import PlacedRows, record_codes
from skdpbo.gaussian_process._foreign_kernels import foreign_kernels, refuse_unfit_kernel
from skdpbo.gaussian_process.sparse._features import WhitenedFeatures, refuse_indefinite
from skdpbo.gaussian_process.sparse._first_releases import SHARE_OF_SPREAD, first_releases
from skdpbo.gaussian_process.sparse._fit_warnings import warn_of_units
from skdpbo.gaussian_process.sparse._inducing import (
    SUPPORT_DESIGNS,
    inducing_design,
    support_design,
    unreached_design,
)
from skdpbo.gaussian_process.sparse._kernel_family import (
    MOST_COLUMNS,
    check_kernels,
    has_many_columns,
    scaled_kernel,
)
from skdpbo.gaussian_process.sparse._predictor import MixturePredictor, WeightPredictor
from skdpbo.mechanisms import BoundedMean, CoinPressMean, split_budget
from skdpbo.privacy._checks import check_choice, check_count

# Of mu^2: 5 % more noise on the moments; ranges are found from about 1000 records on at epsilon 1.
_SHARE_OF_BOUNDS = 0.1
# Of mu^2: 2.5 % more noise on the moments; the mean of 1000 records has an error of about a tenth
# of the half-width at epsilon 1.
_SHARE_OF_MEAN = 0.05
_NEGLIGIBLE = 1e-9  # probability of a kernel, below which predictions leave it out


@dataclass(frozen=True)
class Budgets:
    """Parts of the budget of a fit, whose squares add up to its square. Public."""

    moments: float  # includes the first releases
    bounds: float | None
    mean: float | None
    names: list[str]  # of bounds that are not given, which are released if `bounds` is not None


class PrivateProcess(GaussianEstimator):
    """Base class of estimators that release second moments of features at inducing points.

    A sub-class has the parameters of `GaussianEstimator`, `inducing_points`, `X_bounds`, `n_jobs`
    and `chunk_size`.
    """

    _mechanism = "Gaussian second moments of whitened features"
    _theory = "docs/theory/sparse_gp.md"
    _least_share = math.sqrt(SHARE_OF_SPREAD)  # of mu, for the release with the most noise

    def _check_pass(self):
        """Check the settings of the pass over the data, whose errors must precede the charge."""
        check_count(self.chunk_size, "chunk_size")
        if not isinstance(self.n_jobs, numbers.Integral | None):
            raise TypeError(f"n_jobs must be an integer or None, got {type(self.n_jobs).__name__}.")
        effective_n_jobs(self.n_jobs)  # refuses 0
        # Kernels and a base see protected rows.
        kernels = self.kernel if isinstance(self.kernel, list | tuple) else []
        refuse_cached_functions(self, [{"kernel": kernel} for kernel in kernels])

    def _of_records(self, unit):
        stated, foreign = super()._of_records(unit), foreign_kernels(self.kernel)
        if not foreign:
            return stated
        return stated.assuming(
            "each value of a kernel is computed from its two points alone, by kernels that are not "
            f"verified: {', '.join(foreign)}",
            status="conditional",
        )

    def _checked_kernels(self, Z, default, budgets, found):
        """Return the family; refuse, before the charge, kernels that fail or mix rows."""
        family, boxes = check_kernels(self.kernel, default), [Z]
        if budgets.bounds is not None and "X_bounds" in budgets.names and not found:
            boxes.append(Z / DEFAULT_BOUNDS[1] * LARGEST_END)  # the widest possible released box
        for kernel in () if self.kernel is None else family.kernels:
            for Z_box in boxes:
                # All points at which the kernel will be evaluated apart from records.
                points = np.vstack([Z_box, support_design(Z_box), unreached_design(Z_box)])
                released = bool(found) or Z_box is not Z
                refuse_unfit_kernel(kernel, Z_box, points, released=released)
            if not found:
                refuse_indefinite(kernel, Z)
        return family

    def _warn_of_units(self, kernels, Z, half_width=None):
        if self.kernel is None:
            return
        if half_width is not None and self.signal_variance == "released":
            half_width = half_width / 16  # variances up to 2^8 times that of the kernel are tried
        warn_of_units(kernels, Z, support_design(Z)[SUPPORT_DESIGNS[0]], half_width)

    def _warn_of_plan(self, budgets, n_rows, kernels, Z, half_width=None):
        """Warn before the charge, unless bounds are released first."""
        if budgets.bounds is None:
            warn_of_no_range(self, budgets.names, n_rows)
            self._warn_of_units(kernels, Z, half_width)

    def _points_are_given(self):
        """Whether the user gave the inducing points, not just their number."""
        points = self.inducing_points
        return not (points is None or isinstance(points, numbers.Integral))

    def _private_bounds(self, of_public=False):
        """Return the names of the bounds to be released: "private", or not given and not public."""
        known = {"X_bounds": of_public or self._points_are_given(), "y_bounds": of_public}
        # A classifier has no bounds of targets.
        given = {name: getattr(self, name) for name in known if hasattr(self, name)}
        return [
            name
            for name, bounds in given.items()
            if isinstance(bounds, str) or (bounds is None and not known[name])
        ]

    def _described(self, mechanism):
        """Add the releases before the second moments to the description of the mechanism."""
        if self.kernel is None:
            mechanism += (
                ", of up to 100 columns first where records and targets are and which of 2 or more "
                "matter"
            )
        mechanism = self._with_ranges(mechanism)
        if self._private_bounds() and not self._private_bounds(of_public=True):
            mechanism += " where no public rows give them"
        if self.prior_mean == "private":
            mechanism += " and a private mean of the targets"
        return mechanism

    def _with_ranges(self, mechanism):
        return mechanism + ", ranges from noisy histograms" * bool(self._private_bounds())

    def _budgets(self, mu, n_rows, n_columns, found, of_public=False):
        """Return the names of bounds that are not given, and the parts of mu.

        Parameters
        ----------
        mu : float
        n_rows : int or None
            Number of records; None with groups, when that number is protected.
        n_columns : dict of str -> int
            Number of columns, by the name of the bounds.
        found : dict
            Bounds that have been released, for a second plan.
        of_public : bool, default=False
            Whether public rows give bounds.
        """
        names = self._private_bounds(of_public)
        if "X_bounds" in names and self._points_are_given():
            raise ValueError('X_bounds="private" has no use where inducing_points are given.')
        for name in names:
            if getattr(self, name) is not None:
                check_choice(getattr(self, name), name, ("private",))
        mu_bounds = mu_mean = None
        if names:  # docs/theory/sparse_gp.md, Bounds from the records
            rest, part = split_budget(mu, _SHARE_OF_BOUNDS)
            n_ranges = sum(n_columns[name] for name in names)
            # Ranges that were found have been paid for.
            if found or n_rows is None or may_show_ranges(n_rows, n_ranges, part):
                mu, mu_bounds = rest, part
        if getattr(self, "prior_mean", None) == "private":  # of a regressor
            mu, mu_mean = split_budget(mu, _SHARE_OF_MEAN)
        return Budgets(mu, mu_bounds, mu_mean, names)

    def _bounds(self, name, found, of_public=False):
        """Return bounds: found, given, or defaults until they are released."""
        if name not in found and name in self._private_bounds(of_public):
            return DEFAULT_BOUNDS
        return found.get(name, getattr(self, name))

    def _planned_again(self, check, *found_and_tables):
        """Return the plan for released bounds, without warnings, which may be errors."""
        with warnings.catch_warnings(action="ignore"):
            return check(*found_and_tables)

    def _released_bounds(self, budgets, y, X, source):
        """Protected X, y: release the ranges that are not given; y is None for a classifier.

        Returns
        -------
        bounds : dict of str -> tuple
        unseen : list of str
            Names of bounds for which the range of some column was not found.
        """
        tables, names = {"X_bounds": X}, budgets.names if budgets.bounds else []
        if y is not None:
            tables["y_bounds"] = y = y if y.ndim == 2 else y[:, None]
            # With groups, y needs the same placement of rows as X.
            if (codes := record_codes(X)) is not None:
                tables["y_bounds"] = PlacedRows(y, codes)
        for name in tables:  # of an earlier fit
            vars(self).pop(f"{name}_", None)
        parts, unseen = [budgets.bounds], []
        if len(names) > 1:  # in proportion to the columns, so that all have the same noise
            parts = split_budget(budgets.bounds, y.shape[1] / (X.shape[1] + y.shape[1]))
        found = {}  # not read from attributes, which a fit in another thread may set
        # Without a budget `names` is empty.
        for name, part in zip(names, parts, strict=False):
            found[name], is_found = released_ranges(tables[name], part, source, name[0])
            setattr(self, f"{name}_", found[name])
            if not is_found.all():
                unseen.append(name)
        return found, unseen

    def _inducing_points(self, n_features, found, of_public=None):
        box = None
        if not self._points_are_given():  # given points need no box
            bounds = self._bounds("X_bounds", found, of_public is not None)
            box = check_bounds(of_public if bounds is None else bounds, n_features, "X_bounds")
        return inducing_design(self.inducing_points, box, n_features)

    def _release(self, method, rows, X, targets, source):
        """Protected: sum over the records and return the sums with noise."""
        sums = streamed_sums(
            rows,
            X,
            targets,
            rows.radius,
            chunk_size=self.chunk_size,
            n_jobs=self.n_jobs,
            sums=getattr(method, "sums", products),
        )
        return method.release(sums, source)

    def _plan_of_moments(self, start, n_records, release_sums, public=None):
        """Return the plan after the first releases; `start` if the user gave kernels.

        Protected through `release_sums`, which releases the sums of a method over the records.
        `public` is the model whose residuals are the targets, or None.
        """
        vars(self).pop("columns_", None)
        many = has_many_columns(start.Z)
        if self.kernel is not None or start.Z.shape[1] > MOST_COLUMNS:
            return start
        if public is not None and not many:  # residuals lie about 0, in suitable bounds
            return start
        options = {"n_inducing": self.inducing_points, "moved": not self._points_are_given()}
        plan = first_releases(start, n_records, release_sums, **options, centred=public is not None)
        if plan.columns is not None:
            self.columns_ = plan.columns
        return plan

    def _publish_average(self, kernels, features, prior_mean, fits, left_out=None):
        """Average the posteriors under several kernels, and set the attributes of the kernels.

        Post-processing: every argument is public or released.

        Parameters
        ----------
        kernels : list of sklearn kernels
        features : WhitenedFeatures
            Features of the release.
        prior_mean : ndarray of shape (q,)
        fits : list of FittedWeights
            One for each kernel.
        left_out : tuple, default=None
            As in :class:`MixturePredictor`.

        Returns
        -------
        noise_variance : ndarray of shape (q,)
        elbo : ndarray of shape (q,) or None
        """
        Z, log_evidence = features.Z, np.array([fit.log_evidence for fit in fits])
        weights = softmax(log_evidence + [fit.log_prior for fit in fits])
        # Kernels of negligible weight are dropped, as each makes predictions slower.
        taken = np.flatnonzero(weights > _NEGLIGIBLE)
        shares = weights[taken] / weights[taken].sum()
        scaled = [scaled_kernel(k, fit.amplitude) for k, fit in zip(kernels, fits, strict=True)]
        parts = [
            WeightPredictor(
                WhitenedFeatures(scaled[k], Z), prior_mean, fits[k].means, fits[k].covariances
            )
            for k in taken
        ]
        fitted = None
        if fits[0].in_release is not None:
            # Weights of the same features can be averaged.
            in_release = np.tensordot(shares, [fits[k].in_release for k in taken], 1)
            fitted = WeightPredictor(features, prior_mean, in_release)
        self.kernels_, self.inducing_points_ = kernels, Z
        self.log_evidence_, self.kernel_probabilities_ = log_evidence, weights
        self.kernel_ = scaled[int(np.argmax(weights))]
        # The mean minimises the expected square of the error times `recoverable`.
        mean_shares = shares * np.array([fits[k].recoverable for k in taken]) ** 2
        mean_shares /= mean_shares.sum()
        self._predictor = MixturePredictor(parts, shares, fitted, mean_shares, left_out)
        elbo = None if fits[0].elbo is None else shares @ [fits[k].elbo for k in taken]
        return shares @ [fits[k].noise_variance for k in taken], elbo


def private_prior_mean(y, low, high, *, mu, scale, source, groups=None):
    """Protected y: release the mean of the targets.

    Without `scale` the clipped mean, whose noise has a standard deviation of about
    sqrt(q) (high - low) / (n mu). With it COINPRESS, which clips to a few `scale` around the mean
    and has less noise if the range is far wider than the spread of the targets.

    Parameters
    ----------
    y : ndarray of shape (n, q)
        Protected. A value that is not finite counts as the middle of the range.
    low, high : ndarray of shape (q,)
        Public range; y is clipped to it.
    mu : float
    scale : ndarray of shape (q,) or None
        Public standard deviation of each target.
    source : RandomSource
    groups : ndarray of shape (n,), default=None
        Number of the group of each record; protected.

    Returns
    -------
    ndarray of shape (q,)
        In the range.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    # Clipped so that squares neither underflow nor overflow: the range may be a released one.
    unit = half if scale is None else np.clip(scale, 1e-60 * half, 1e60 * half)
    with np.errstate(all="ignore"):  # a warning would depend on the values
        z = (np.clip(np.asarray(y, dtype=np.float64), low, high) - middle) / unit
    if scale is None:
        released = BoundedMean(mu=mu, low=-1.0, high=1.0).release(z, source, groups)
    else:
        # Distance of a corner of the box from its middle.
        radius = float(np.sqrt(np.sum((half / unit) ** 2)))
        released = CoinPressMean(mu=mu, center=0.0, radius=radius).release(z, source, groups)
    return np.clip(middle + np.asarray(released) * unit, low, high)
