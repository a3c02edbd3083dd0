"""Small releases before the second moments (docs: First releases).

Each is a function of the records and of earlier releases; the rest is post-processing.
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

# Shares of mu^2: for the location of targets and records (2 % more noise on the moments), and for
# effects of more than two columns (5 %) or of two (3.5 %).
SHARE_OF_SPREAD, _SHARE_OF_COLUMNS, _SHARE_OF_TWO = 0.04, 0.1, 0.067
_SHARE_OF_REACH = 0.1  # for reaches, with one column and large noise (5 % more noise)


@dataclass(frozen=True)
class ReleasePlan:
    """Parameters of the release of second moments; public or released.

    Attributes
    ----------
    family : KernelFamily
    Z : ndarray of shape (n_inducing, n_features)
        Inducing points.
    mu : float
        Rest of the budget.
    half_width : ndarray of shape (q,)
        Distance from the centre to which targets are clipped.
    shift : float or ndarray of shape (q,), default=0
        Shift of the centre of the targets.
    wide : bool, default=False
        Whether the records fill a small part of the box.
    columns : list of int, default=None
        Columns that matter. None: unknown.
    left_out : tuple, default=None
        As in :class:`MixturePredictor`, for the other columns.
    """

    family: KernelFamily
    Z: np.ndarray
    mu: float
    half_width: np.ndarray
    shift: float | np.ndarray = 0.0
    wide: bool = False
    columns: list | None = None
    left_out: tuple | None = None


def first_releases(start, n_records, release_sums, *, n_inducing=None, moved=True, centred=False):
    """Release the location of targets and records, and columns that matter, for default kernels.

    Parameters
    ----------
    start : ReleasePlan
        Public plan: family, inducing points, half-widths of the targets' bounds.
    n_records : int
    release_sums : callable
        ``release_sums(method)`` releases the sums of a method over the records.
    n_inducing : None or int, default=None
        Number of inducing points, as for :func:`inducing_design`.
    moved : bool, default=True
        Whether the inducing points may be moved: not if the user gave them.
    centred : bool, default=False
        Whether the targets lie about 0, as residuals do.

    Returns
    -------
    ReleasePlan
    """
    Z, many = start.Z, has_many_columns(start.Z)
    centre, box = point_box(Z)
    common = {"n_records": n_records}
    sizes = {"n_columns": Z.shape[1], "n_targets": len(start.half_width)}
    plan, bounds = start, start.half_width
    rest, mu_reach = split_budget(start.mu, _SHARE_OF_REACH)
    # A public rule. If it fails, nothing is released, and the other releases get this share.
    if shows_reach(mu_reach, **common, **sizes):
        reach = RecordReach((centre, box), mu=mu_reach, half_width=bounds, **common)
        inside, *parts = reach.parts(release_sums(reach))
        plan = replace(plan, mu=rest, half_width=parts * bounds)
        if moved:
            Z = centre + inside * (Z - centre)
            # Kernels keep the variance of the public bounds: bands would be too narrow otherwise.
            plan = replace(plan, Z=Z, family=default_family(Z, bounds))
    mu, mu_spread = split_budget(plan.mu, SHARE_OF_SPREAD)
    spread = RecordSpread((centre, box), mu=mu_spread, half_width=plan.half_width, **common)
    released = release_sums(spread)
    # Up to three columns, where functions may have peaks, the reach is for the moments' noise.
    mean, sd, half = spread.location(released, mu_spread if many else mu, centred)
    plan = replace(plan, mu=mu, half_width=half, shift=mean, wide=spread.is_wide(released))
    # Given points in up to three columns are not a design for a subset of the columns.
    if not many and not moved:
        return plan
    extent = spread.extent(released)
    # A box of few columns, which a design fills well, is kept unless it is far too wide.
    if moved and (many or (plan.wide and Z is start.Z)):
        Z = centre + extent * (Z - centre)
    if Z.shape[1] == 1:
        return plan if Z is plan.Z else replace(plan, Z=Z, family=default_family(Z, bounds))
    columns, hidden_size, mu = _columns(extent, plan, sd, sizes | common, release_sums)
    left_out, few = None, moved and hidden_size is not None
    if few:
        others = [j for j in range(Z.shape[1]) if j not in columns]
        left_out = np.square(hidden_size), RBF(kernel_unit(Z, others))
        Z = design_for_columns(n_inducing, Z, columns)
    # With few columns, bands need the variance of the public bounds.
    family = default_family(Z, bounds, columns, few, sd if many and not few else None)
    return replace(plan, family=family, Z=Z, columns=columns, mu=mu, left_out=left_out)


def _columns(extent, plan, sd, public, release_sums):
    """Release the columns that matter; return them, the hidden effect of others, the rest of mu.

    The hidden effect is None if other columns may matter, or if there are no others.
    """
    centre, box = point_box(plan.Z)
    # Relative to `plan.mu`, the rest of the budget after the release of the spread.
    many = has_many_columns(plan.Z)
    most = (_SHARE_OF_TWO if len(box) == 2 else _SHARE_OF_COLUMNS) / (1 - SHARE_OF_SPREAD)
    for effects in (JointEffects, ColumnEffects) if many else (JointEffects,):
        share = min(most, (effects.most_mu(**public) / plan.mu) ** 2)
        rest, mu = split_budget(plan.mu, share)
        if effects.can_show_effects(mu, **public):  # a public rule
            break
    else:  # nothing is released, and the moments get this share
        return list(range(len(box))), None, plan.mu
    options = {"mean": plan.shift, "sd": sd, "n_records": public["n_records"]}
    release = effects((centre, extent * box), mu=mu, **options)
    noisy = release_sums(release)
    columns = release.columns(noisy)
    few = len(columns) <= min(FEW_COLUMNS, len(box) - 1) and release.hides_others(columns, noisy)
    return columns, release.smallest_visible_effect() if few else None, rest
