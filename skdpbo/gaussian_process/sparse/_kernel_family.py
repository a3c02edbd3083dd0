"""Kernels of a fit: checks, the default family, and the average of several."""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, WhiteKernel

from skdpbo.gaussian_process._linear_kernel import LinearKernel

_DEFAULT_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_MIXED_FACTORS = (0.5, 2.0)
_FACTORS_OF_ALL = (1.0, 2.0, 4.0, 8.0)  # where columns were left out: kernels on all of them
FEW_COLUMNS = 3  # up to here public points are a design, and kernels on each set take part
# In units. Three columns have more sets, and one shape takes less time: the rough one, since bands
# of a smooth one alone are narrow.
_EFFECTS = {2: (RBF(1.5), Matern(1.0, nu=0.5)), 3: (Matern(1.0, nu=0.5),)}
_SMALLER = (2, 4)  # times, at least and at most, are slopes in columns that were left out smaller
_EFFECT_LOG_PRIOR = -3.0  # of each, beside 0: evenly they win by chance where a line would do
_ENOUGH_COLUMNS, _LINEAR_LOG_PRIOR = 10, 0.5  # the prior: for each column beyond these
_EVIDENCE_FACTOR = 0.5  # of the kernels' variance, of many columns up to these
_LEAST_NOISE = 0.005  # of a moment, over the number of records; with less the whole variance does
MOST_COLUMNS = 100  # the sums of a choice grow with their square, and the noise hides columns
_LINEAR_SHARE, _LARGEST_LINEAR_SHARE = 0.05, 0.5  # for each column; of the release
_LINEAR_WEIGHT = 0.5  # in a design for many columns, where little else can be learnt
_LABEL_FACTORS = (0.25, 0.5, 1.0, 8.0)
_LABEL_VARIANCE = 0.5  # the coordinates of the labels have a mean square of 1
_VARIANCE_SHARE = 1 / 6  # of the squared half-width of the targets' range
_MOST_VARIANCE = 1.5  # times that of the targets; the share above of a range of 3 deviations
_WEAK = 1 / 6  # of the variance: of smooth functions that no effect shows
_SMALLEST_SHARE = 0.05  # of a kernel whose length-scales the inducing points do not resolve


@dataclass(frozen=True)
class KernelFamily:
    """Kernels of a fit, and what is fixed of them before its release; public or released before.

    Attributes
    ----------
    kernels : list of sklearn kernels
    log_priors : ndarray of shape (n_kernels,)
        Of their weights, up to a common constant.
    in_release : ndarray of shape (n_kernels,)
        Whether a kernel has a share of the release. The others enter after it, by evidence.
    many : bool, default=False
        Whether there are too many columns for public points to stand for the records.
    """

    kernels: list
    log_priors: np.ndarray
    in_release: np.ndarray
    many: bool = False

    @classmethod
    def of(cls, kernels):
        """Return the family of kernels that count alike."""
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
        When there is none, or one does not work on vectors or has white noise.
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
    # What a fit does with them does not change the user's.
    return KernelFamily.of([clone(k) for k in kernels])


def default_family(Z, half_width, columns=None, few=False, sd=None):
    """Return the default family of regression, in public units.

    RBF kernels have 1/8 to 8 units of the inducing points, a Matern kernel of nu 1/2 has one, and
    there is a linear kernel in their box. Of two and three columns there are also kernels on some
    of them: linear on one, others on every set, and averages of those on one. From four columns on,
    or where columns are left out, there are averages of the linear kernel and an RBF kernel of 1/2
    or 2 units. From four on, without a design of few, the linear kernel's box is smaller by sqrt 3,
    so that its constant has less of its variance. Where some of four or more are left out there are
    RBF kernels of 1 to 8 units on all, without which bands are narrow where others matter, too.
    A design of few has a linear kernel of these, and that of all has smaller slopes in the others.

    Parameters
    ----------
    Z : ndarray of shape (d, n_features)
        Inducing points.
    half_width : ndarray of shape (q,)
        Of the ranges of the targets.
    columns : list of int, default=None
        Columns on which the kernels depend, but linear and average ones: the length-scale in the
        others is infinite. Public or released. None: all.
    few : bool, default=False
        Whether Z is a design for `columns`, up to three of more.
    sd : ndarray of shape (q,), default=None
        Of the targets, public or released. None: their range alone is known.

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
    # Without a share: they enter after the release, by evidence (docs/theory/many_columns.md,
    # Corollary). The others serve them, and Proposition 2 bounds the noise of averages, too.
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
    """Return the log prior of the linear kernel of many columns, beside 0."""
    # docs/theory/many_columns.md, Beyond ten columns: stationary ones explain noise there.
    return _LINEAR_LOG_PRIOR * max(p - _ENOUGH_COLUMNS, 0)


def _effects(Z, columns, linear=None):
    """Return kernels on some of two or three columns, and averages of those on one column.

    And averages of these with `linear`, if given.
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
        if linear is not None:  # rough kernels would stand for what it explains
            found.append(ConstantKernel(0.5) * average + ConstantKernel(0.5) * linear)
    return found


def evidence_factor(Z, noise):
    """Return the part of its variance with which the evidence of a default kernel is computed.

    Evidence charges a kernel for each direction in which its functions stand out from the noise,
    and not for those that the noise hides: rough kernels win where little is shown.
    `noise` is that of a released moment over the number of records; all public.
    """
    # docs/theory/many_columns.md, Evidence with half of the variance.
    many = has_many_columns(Z) and Z.shape[1] <= _ENOUGH_COLUMNS
    return _EVIDENCE_FACTOR if many and noise > _LEAST_NOISE else 1.0


def has_many_columns(Z):
    """Whether there are too many columns for a design of public points to stand for the records."""
    return Z.shape[1] > FEW_COLUMNS


def label_family(Z):
    """Return the default family of classification: RBF kernels of 1/4, 1/2, 1 and 8 units.

    Labels carry less information than targets, and every rough kernel takes a share of the release:
    a smaller family is more accurate. From four columns on there is a linear kernel, too: points of
    a box are far from most records then.
    """
    many, rows = has_many_columns(Z), [(RBF(f * kernel_unit(Z)), 0.0, True) for f in _LABEL_FACTORS]
    if many:
        rows += [(_linear_kernel(Z, smaller=True), _linear_log_prior(Z.shape[1]), True)]
    return _family(rows, _LABEL_VARIANCE, many)


def _linear_kernel(Z, columns=None, *, others=0.0, smaller=False):
    """Return the linear kernel of some columns, default all, in the box of the points.

    Slopes in the others have `others` times the variance of theirs. In a smaller box the half-width
    is one standard deviation of records that fill the points' box: a record's constant and slopes
    have the variance there that they have at the points.
    """
    centre, box = point_box(Z)
    taken = np.isin(np.arange(len(box)), range(len(box)) if columns is None else columns)
    parts = np.where(taken, 1.0, others)
    return LinearKernel(centre, box / math.sqrt(3) if smaller else box, parts / parts.sum())


def kernel_unit(Z, columns=None):
    """Return a sixth of the range of the points in each column, times the root of their number."""
    width = 2 * point_box(Z)[1]
    if columns is None:
        # Distances of points in a box grow with the root of the number of columns.
        return width / 6 * math.sqrt(Z.shape[1])
    unit = np.full(Z.shape[1], np.inf)
    unit[columns] = width[columns] / 6 * math.sqrt(len(columns))
    return unit


def point_box(Z):
    """Return the centre and the half-widths of the box of the inducing points; 3 of one point."""
    width = np.ptp(Z, axis=0)
    return (Z.min(axis=0) + Z.max(axis=0)) / 2, np.where(width > 0, width, 6.0) / 2


def reference_variance(kernel, Z):
    """Return the kernel's variance; where it is not constant, its mean over the inducing points."""
    variances = kernel.diag(Z)
    return float(variances[0] if kernel.is_stationary() else variances.mean())


def kernel_shares(family, Z):
    r"""Return the shares of a family in its average, public and of sum 1.

    They are proportional to :math:`\sqrt{D_k} (1 - D_k / d)`, where
    :math:`D_k = (\mathrm{tr} K)^2 / \mathrm{tr} K^2` is the number of directions that kernel k uses
    at the d inducing points. A rough kernel needs a larger share than a smooth one, whose
    directions the rough ones have as well; one that the points do not resolve cannot be learnt.
    Of many columns the linear kernel has at least 5 % for each column, up to a half.

    Parameters
    ----------
    family : KernelFamily
    Z : ndarray of shape (d, n_features)
        Inducing points.

    Returns
    -------
    ndarray of shape (n_kernels,)
        0 of a kernel without a share.
    """
    directions = []
    for K in (kernel(Z) for kernel in family.kernels):
        K = K / np.abs(K).max()  # the squares neither overflow nor vanish
        directions.append(float(np.trace(K) ** 2 / np.sum(K * K)))
    directions = np.array(directions)
    # docs/theory/default_kernels.md, Fixed shares; without the root they lose at small epsilon.
    shares = np.sqrt(directions) * np.maximum(1 - directions / len(Z), _SMALLEST_SHARE)
    shares = np.where(family.in_release, shares, 0.0)
    shares /= shares.sum()
    linear = _are_linear(family.kernels)
    least = min(_LINEAR_SHARE * Z.shape[1], _LARGEST_LINEAR_SHARE)
    if family.many and 0 < shares[linear].sum() < least:
        shares = np.where(linear, least, shares * (1 - least) / shares[~linear].sum())
    return shares


def design_weights(kernels, many):
    """Return how much each kernel counts in a design of the shares, of sum 1.

    Evenly, but of `many` columns the linear one as much as all others together.
    """
    linear = _are_linear(kernels)
    if many and 0 < linear.sum() < len(linear):
        return np.where(linear, _LINEAR_WEIGHT, (1 - _LINEAR_WEIGHT) / (~linear).sum())
    return np.full(len(kernels), 1 / len(kernels))


def _are_linear(kernels):
    # In a default family each kernel is a constant, k1, times another one, k2.
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
        Of sum 1; kernels without a share are left out. None: equal shares.
    """
    # Variances are the kernels' scales, not their weights in the release: they cancel here, and
    # come back in the prior of each kernel's weights.
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
