"""Kernels of a fit: checks, the default family, and the average of several."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, WhiteKernel

from skdpbo.gaussian_process._linear_kernel import LinearKernel

_DEFAULT_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # length-scales, in units of the points
_MIXED_FACTORS = (0.5, 2.0)  # of averages with the linear kernel
_FACTORS_OF_ALL = (1.0, 2.0, 4.0, 8.0)  # of kernels on all columns, if some were left out
FEW_COLUMNS = 3  # largest number with a design of public points and kernels on each set of columns
# Kernels on sets of columns. Of three columns there are more sets, so one shape, to save time: the
# rough one, since bands of a smooth one alone are too narrow.
_EFFECTS = {2: (RBF(1.5), Matern(1.0, nu=0.5)), 3: (Matern(1.0, nu=0.5),)}
_SMALLER = (2, 4)  # least and largest factor by which slopes in columns left out are smaller
_EFFECT_LOG_PRIOR = -3.0  # of kernels on sets, others 0; with 0 they often win by chance
_ENOUGH_COLUMNS, _LINEAR_LOG_PRIOR = 10, 0.5  # of the linear kernel, per column beyond these
_EVIDENCE_FACTOR = 0.5  # of the kernels' variance in the evidence, for four to ten columns
_LEAST_NOISE = 0.005  # of a moment, over the number of records, for the factor above
MOST_COLUMNS = 100  # for a choice of columns, whose cost grows with their square
_LINEAR_SHARE, _LARGEST_LINEAR_SHARE = 0.05, 0.5  # of the release, per column and in total
_LINEAR_WEIGHT = 0.5  # in a design for many columns, where little else can be learnt
_LABEL_FACTORS = (0.25, 0.5, 1.0, 8.0)
_LABEL_VARIANCE = 0.5  # the coordinates of the label codes have a mean square of 1
_VARIANCE_SHARE = 1 / 6  # of the squared half-width of the targets' range
_MOST_VARIANCE = 1.5  # in variances of the targets: the share above for a range of 3 deviations
_WEAK = 1 / 6  # factor of the variance of smooth functions that no effect shows
_SMALLEST_SHARE = 0.05  # factor for a kernel that the inducing points do not resolve


@dataclass(frozen=True)
class KernelFamily:
    """Kernels of a fit with their priors; public, or released before the second moments.

    Attributes
    ----------
    kernels : list of sklearn kernels
    log_priors : ndarray of shape (n_kernels,)
        Log prior probabilities, up to a common constant.
    in_release : ndarray of shape (n_kernels,)
        Whether a kernel has a share of the release. The others are used after it, by evidence.
    many : bool, default=False
        Whether there are too many columns for public points to represent the records.
    """

    kernels: list
    log_priors: np.ndarray
    in_release: np.ndarray
    many: bool = False

    @classmethod
    def of(cls, kernels):
        """Return the family of kernels with equal priors."""
        return cls(kernels, np.zeros(len(kernels)), np.ones(len(kernels), dtype=bool))


def check_kernels(kernel, default):
    """Return a family of kernels: copies of the given ones, or `default` for None.

    Parameters
    ----------
    kernel : None, sklearn kernel or list of sklearn kernels
    default : KernelFamily

    Raises
    ------
    TypeError
        When a kernel is no scikit-learn kernel.
    ValueError
        If there is none, or one does not work on vectors or contains white noise.
    """
    if kernel is None:
        return default
    kernels = list(kernel) if isinstance(kernel, list | tuple) else [kernel]
    if not kernels:
        raise ValueError("kernel must hold at least one kernel.")
    for k in kernels:
        if not isinstance(k, Kernel):
            raise TypeError(f"kernel must be a scikit-learn kernel, got {type(k).__name__}.")
        if not k.requires_vector_input:
            raise ValueError(
                "kernel must be a kernel on vectors, such as RBF, Matern or DotProduct."
            )
        if any(isinstance(part, WhiteKernel) for part in k.get_params().values()):
            raise ValueError(
                "kernel must not contain a WhiteKernel: the noise of the observations is the "
                "parameter noise_variance."
            )
    return KernelFamily.of([clone(k) for k in kernels])


def default_family(Z, half_width, columns=None, few=False, sd=None):
    """Return the default family of regression, in public units.

    RBF kernels have length-scales of 1/8 to 8 units of the inducing points, a Matern kernel of nu
    1/2 has one unit, and there is a linear kernel in their box. With two or three columns there are
    also kernels on some of them: linear ones on one column, others on every set, and averages of
    those on one column. From four columns on, or if columns are left out, there are averages of the
    linear kernel and an RBF kernel of 1/2 or 2 units. From four columns on, unless `few`, the box
    of the linear kernel is smaller by sqrt 3, which reduces the share of its constant. If some of
    four or more columns are left out, there are RBF kernels of 1 to 8 units on all columns, without
    which bands are too narrow if other columns matter. With `few` there is a linear kernel of the
    chosen columns, and the one of all columns has smaller slopes in the others.

    Parameters
    ----------
    Z : ndarray of shape (d, n_features)
        Inducing points.
    half_width : ndarray of shape (q,)
        Half-widths of the targets' ranges.
    columns : list of int, default=None
        Columns on which the kernels depend, except linear and average ones; the length-scale in the
        others is infinite. Public or released. None: all.
    few : bool, default=False
        Whether Z is a design for `columns`, at most three and not all.
    sd : ndarray of shape (q,), default=None
        Standard deviations of the targets, public or released. None: unknown.

    Returns
    -------
    KernelFamily
    """
    p, columns = Z.shape[1], list(range(Z.shape[1])) if columns is None else columns
    unit = kernel_unit(Z, columns)
    variance = _VARIANCE_SHARE * float(np.mean(np.square(half_width)))
    if sd is not None:
        variance = min(variance, _MOST_VARIANCE * float(np.mean(np.square(sd))))
    many, n_others = has_many_columns(Z) and not few, p - len(columns)
    smaller = float(np.clip(n_others, *_SMALLER)) ** -2.0 if few else 1.0
    linear = _linear_kernel(Z, columns, others=smaller, smaller=many)
    rows = [(RBF(factor * unit), 0.0, True) for factor in _DEFAULT_FACTORS]
    rows += [(Matern(unit, nu=0.5), 0.0, True)]
    less = 0.0 if many else _EFFECT_LOG_PRIOR
    # docs/theory/many_columns.md, Process of the columns that stay.
    rows += [(linear, less if few else _linear_log_prior(p), True)]
    # The following have no share of the release and are used after it, by evidence
    # (docs/theory/many_columns.md, Corollary); Proposition 2 also bounds the noise of averages.
    if few:
        rows += [(_linear_kernel(Z, columns), 0.0, False)]
    if many or n_others:
        half = ConstantKernel(0.5)
        rows += [(half * RBF(f * unit) + half * linear, less, False) for f in _MIXED_FACTORS]
    if many and not n_others:
        smooth = (linear, RBF(_DEFAULT_FACTORS[-1] * unit))
        rows += [(ConstantKernel(_WEAK) * kernel, 0.0, False) for kernel in smooth]
    if not many:
        averaged = linear if few and has_many_columns(Z) else None
        rows += [(kernel, less, False) for kernel in _effects(Z, columns, averaged)]
    if n_others and has_many_columns(Z):
        rows += [(RBF(factor * kernel_unit(Z)), 0.0, False) for factor in _FACTORS_OF_ALL]
    return _family(rows, variance, many)


def _family(rows, variance, many):
    """Return the family of rows (kernel of variance 1, log prior, whether it has a share)."""
    kernels, priors, in_release = zip(*rows, strict=True)
    kernels = [ConstantKernel(variance) * kernel for kernel in kernels]
    return KernelFamily(kernels, np.array(priors), np.array(in_release), many)


def _linear_log_prior(p):
    """Return the log prior of the linear kernel with many columns; that of others is 0."""
    # docs/theory/many_columns.md, Beyond ten columns.
    return _LINEAR_LOG_PRIOR * max(p - _ENOUGH_COLUMNS, 0)


def _effects(Z, columns, linear=None):
    """Return kernels on sets of two or three columns, and averages of those on one column.

    With `linear`, also averages of the latter with it.
    """
    p = len(columns)
    sets = [list(chosen) for size in range(1, p) for chosen in combinations(columns, size)]
    found = [_linear_kernel(Z, [column]) for column in columns] if p > 1 else []
    for shape in _EFFECTS.get(p, ()):
        scales = [shape.length_scale * kernel_unit(Z, columns) for columns in sets]
        some = [clone(shape).set_params(length_scale=scale) for scale in scales]
        alone = [ConstantKernel(1 / p) * kernel for kernel in some[:p]]
        average = sum(alone[1:], alone[0])
        found += [*some, average]
        if linear is not None:
            found.append(ConstantKernel(0.5) * average + ConstantKernel(0.5) * linear)
    return found


def evidence_factor(Z, noise):
    """Return the factor of a default kernel's variance in its evidence; of public values.

    Evidence penalises a kernel for directions in which its functions stand out from the noise, but
    not for those that noise hides: with much noise, rough kernels would win. `noise` is that of a
    released moment over the number of records.
    """
    # docs/theory/many_columns.md, Evidence with half of the variance.
    many = has_many_columns(Z) and Z.shape[1] <= _ENOUGH_COLUMNS
    return _EVIDENCE_FACTOR if many and noise > _LEAST_NOISE else 1.0


def has_many_columns(Z):
    """Whether there are too many columns for a design of public points to represent the records."""
    return Z.shape[1] > FEW_COLUMNS


def label_family(Z):
    """Return the default family of classification: RBF kernels of 1/4, 1/2, 1 and 8 units.

    The family is small, since labels carry less information than targets, and every rough kernel
    takes a share of the release. From four columns on, where points of a box are far from most
    records, there is also a linear kernel.
    """
    many, rows = has_many_columns(Z), [(RBF(f * kernel_unit(Z)), 0.0, True) for f in _LABEL_FACTORS]
    if many:
        rows += [(_linear_kernel(Z, smaller=True), _linear_log_prior(Z.shape[1]), True)]
    return _family(rows, _LABEL_VARIANCE, many)


def _linear_kernel(Z, columns=None, *, others=0.0, smaller=False):
    """Return the linear kernel of some columns, default all, in the box of the points.

    Slopes in the other columns have `others` times the variance of slopes in these. With `smaller`
    the half-width is one standard deviation of records that are uniform in the points' box, so that
    constant and slopes have the same variance at records as at the points.
    """
    centre, box = point_box(Z)
    taken = np.isin(np.arange(len(box)), range(len(box)) if columns is None else columns)
    parts = np.where(taken, 1.0, others)
    return LinearKernel(centre, box / math.sqrt(3) if smaller else box, parts / parts.sum())


def kernel_unit(Z, columns=None):
    """Return a sixth of the range of the points in each column, times sqrt(number of columns).

    Distances of points in a box grow with that root. Other columns have an infinite unit.
    """
    width = 2 * point_box(Z)[1]
    if columns is None:
        return width / 6 * math.sqrt(Z.shape[1])
    unit = np.full(Z.shape[1], np.inf)
    unit[columns] = width[columns] / 6 * math.sqrt(len(columns))
    return unit


def point_box(Z):
    """Return centre and half-widths of the box of the inducing points; 3 if the width is 0."""
    width = np.ptp(Z, axis=0)
    return (Z.min(axis=0) + Z.max(axis=0)) / 2, np.where(width > 0, width, 6.0) / 2


def reference_variance(kernel, Z):
    """Return the kernel's variance, or its mean over the inducing points if not constant."""
    variances = kernel.diag(Z)
    return float(variances[0] if kernel.is_stationary() else variances.mean())


def kernel_shares(family, Z):
    r"""Return the shares of a family in its average, public and of sum 1.

    They are proportional to :math:`\sqrt{D_k} (1 - D_k / d)`, where
    :math:`D_k = (\mathrm{tr} K)^2 / \mathrm{tr} K^2` is the effective number of directions of
    kernel k at the d inducing points. A rough kernel needs a larger share than a smooth one, whose
    directions the rough ones contain; a kernel that the points do not resolve cannot be learnt.
    With many columns the linear kernel has at least 5 % per column, up to a half.

    Parameters
    ----------
    family : KernelFamily
    Z : ndarray of shape (d, n_features)
        Inducing points.

    Returns
    -------
    ndarray of shape (n_kernels,)
        0 for a kernel that is not in the release.
    """
    directions = []
    for K in (kernel(Z) for kernel in family.kernels):
        K = K / np.abs(K).max()  # so that squares neither overflow nor underflow
        directions.append(float(np.trace(K) ** 2 / np.sum(K * K)))
    directions = np.array(directions)
    # docs/theory/default_kernels.md, Fixed shares; without the root they are worse at small
    # epsilon.
    shares = np.sqrt(directions) * np.maximum(1 - directions / len(Z), _SMALLEST_SHARE)
    shares = np.where(family.in_release, shares, 0.0)
    shares /= shares.sum()
    linear = _are_linear(family.kernels)
    least = min(_LINEAR_SHARE * Z.shape[1], _LARGEST_LINEAR_SHARE)
    if family.many and 0 < shares[linear].sum() < least:
        shares = np.where(linear, least, shares * (1 - least) / shares[~linear].sum())
    return shares


def design_weights(kernels, many):
    """Return the weights of the kernels in a design of the shares, of sum 1.

    Equal, except that with `many` columns the linear one has the weight of all others together.
    """
    linear = _are_linear(kernels)
    if many and 0 < linear.sum() < len(linear):
        return np.where(linear, _LINEAR_WEIGHT, (1 - _LINEAR_WEIGHT) / (~linear).sum())
    return np.full(len(kernels), 1 / len(kernels))


def _are_linear(kernels):
    # Kernels of a default family are products of a constant, k1, and another kernel, k2.
    return np.array([type(getattr(k, "k2", k)) is LinearKernel for k in kernels])


def average_kernel(kernels, Z, shares=None):
    """Return the average of the kernels, each divided by its variance.

    Parameters
    ----------
    kernels : list of sklearn kernels
        A single one is returned as it is.
    Z : ndarray of shape (d, n_features)
        Inducing points.
    shares : ndarray of shape (n_kernels,), default=None
        Of sum 1; kernels with share 0 are left out. None: equal shares.
    """
    # Variances cancel here; they are in the prior of each kernel's weights.
    variances = [reference_variance(kernel, Z) for kernel in kernels]
    if len(kernels) == 1:
        return kernels[0]
    shares = np.full(len(kernels), 1 / len(kernels)) if shares is None else shares
    scales = (shares / variances).tolist()
    parts = [scaled_kernel(k, c) for c, k in zip(scales, kernels, strict=True) if c > 0]
    return sum(parts[1:], parts[0])


def scaled_kernel(kernel, factor):
    """Return the kernel times a fixed factor."""
    return kernel if factor == 1.0 else ConstantKernel(factor, "fixed") * kernel
