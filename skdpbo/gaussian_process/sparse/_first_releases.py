"""Small releases before the second moments (docs: First releases).

Each is a function of the records and of what was released before it; the rest is post-processing.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skdpbo.gaussian_process._column_effects import ColumnEffects
from skdpbo.gaussian_process._joint_effects import JointEffects
from skdpbo.gaussian_process._record_spread import RecordReach, RecordSpread, shows_reach
from skdpbo.gaussian_process.sparse._inducing import design_for_columns
from skdpbo.gaussian_process.sparse._kernel_family import (
    FEW_COLUMNS,
    KernelFamily,
    default_family,
    has_many_columns,
    kernel_unit,
    point_box,
)
from skdpbo.mechanisms import split_budget

# Of mu^2, 2, 5 and 3.5 % more noise on the moments: where targets and records are, and the columns,
# of more than two and of two.
SHARE_OF_SPREAD, _SHARE_OF_COLUMNS, _SHARE_OF_TWO = 0.04, 0.1, 0.067
_SHARE_OF_REACH = 0.1  # of mu^2, in one column where noise is large: 5 % more noise on the moments


@dataclass(frozen=True)
class Shown:
    """Parameters of the release of second moments; public or released.

    Attributes
    ----------
    family : KernelFamily
    Z : ndarray of shape (n_inducing, n_features)
        Inducing points.
    mu : float
        What is left of the budget.
    half_width : ndarray of shape (q,)
        To which targets are clipped.
    shift : float or ndarray of shape (q,), default=0
        Of their centre.
    wide : bool, default=False
        Whether the records fill a small part of the box.
    columns : list of int, default=None
        That matter. None: nothing is known.
    left_out : tuple, default=None
        As in :class:`MixturePredictor`: of the other columns.
    """

    family: KernelFamily
    Z: np.ndarray
    mu: float
    half_width: np.ndarray
    shift: float | np.ndarray = 0.0
    wide: bool = False
    columns: list | None = None
    left_out: tuple | None = None


def first_releases(start, n_records, passed, *, n_inducing=None, moved=True, centred=False):
    """Release where targets and records are, and the columns that matter to the default kernels.

    Parameters
    ----------
    start : Shown
        Before the releases: public family, points and half-widths of the targets' bounds.
    n_records : int
    passed : callable
        ``passed(method)`` releases what a method sums over the records.
    n_inducing : None or int, default=None
        Number of inducing points, as for :func:`inducing_design`.
    moved : bool, default=True
        Whether the inducing points may be others than those of `start`: none that the user gave.
    centred : bool, default=False
        Whether the targets lie about 0, as residuals do.

    Returns
    -------
    Shown
    """
    Z, many = start.Z, has_many_columns(start.Z)
    centre, box = point_box(Z)
    common = {"n_records": n_records}
    sizes = {"n_columns": Z.shape[1], "n_targets": len(start.half_width)}
    shown, bounds = start, start.half_width
    rest, mu_reach = split_budget(start.mu, _SHARE_OF_REACH)
    # A public rule. Where it fails nothing is released, and the others keep this share.
    if shows_reach(mu_reach, **common, **sizes):
        reach = RecordReach((centre, box), mu=mu_reach, half_width=bounds, **common)
        inside, *parts = reach.parts(passed(reach))
        shown = replace(shown, mu=rest, half_width=parts * bounds)
        if moved:
            Z = centre + inside * (Z - centre)
            # The variance of the kernels stays that of the bounds: bands would be too narrow.
            shown = replace(shown, Z=Z, family=default_family(Z, bounds))
    mu, mu_spread = split_budget(shown.mu, SHARE_OF_SPREAD)
    spread = RecordSpread((centre, box), mu=mu_spread, half_width=shown.half_width, **common)
    released = passed(spread)
    # By the noise of the moments up to three columns, where functions may have peaks.
    mean, sd, half = spread.location(released, mu_spread if many else mu, centred)
    shown = replace(shown, mu=mu, half_width=half, shift=mean, wide=spread.is_wide(released))
    # Up to three columns, points that are given are no design for some of these.
    if not many and not moved:
        return shown
    extent = spread.extent(released)
    # A box of few columns that a design fills well stays, unless the records are far within.
    if moved and (many or (shown.wide and Z is start.Z)):
        Z = centre + extent * (Z - centre)
    if Z.shape[1] == 1:
        return shown if Z is shown.Z else replace(shown, Z=Z, family=default_family(Z, bounds))
    columns, missed, mu = _columns(extent, shown, sd, sizes | common, passed)
    left_out, few = None, moved and missed is not None
    if few:
        others = [j for j in range(Z.shape[1]) if j not in columns]
        left_out = np.square(missed), RBF(kernel_unit(Z, others))
        Z = design_for_columns(n_inducing, Z, columns)
    # Bands of few columns count on the variance of the bounds.
    family = default_family(Z, bounds, columns, few, sd if many and not few else None)
    return replace(shown, family=family, Z=Z, columns=columns, mu=mu, left_out=left_out)


def _columns(extent, shown, sd, public, passed):
    """Release the columns that matter; return them, what others may add, and what is left of mu.

    The second is None where the others may matter, and where there is none.
    """
    centre, box = point_box(shown.Z)
    # The share is one of the whole budget, of which `mu` is what the spread has left.
    many = has_many_columns(shown.Z)
    most = (_SHARE_OF_TWO if len(box) == 2 else _SHARE_OF_COLUMNS) / (1 - SHARE_OF_SPREAD)
    for effects in (JointEffects, ColumnEffects) if many else (JointEffects,):
        share = min(most, (effects.most_mu(**public) / shown.mu) ** 2)
        rest, mu = split_budget(shown.mu, share)
        if effects.shows(mu, **public):  # a public rule
            break
    else:  # nothing is released, and the moments keep this share
        return list(range(len(box))), None, shown.mu
    how = {"mean": shown.shift, "sd": sd, "n_records": public["n_records"]}
    release = effects((centre, extent * box), mu=mu, **how)
    noisy = passed(release)
    columns = release.columns(noisy)
    few = len(columns) <= min(FEW_COLUMNS, len(box) - 1) and release.hides_others(columns, noisy)
    return columns, release.missed() if few else None, rest
