"""Guarantee of a pipeline: the composition of its private steps, if no other step learns."""

from typing import Any

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpbo.model_selection.evaluation._row_wise import (
    FRAMES,
    framed_steps,
    row_wise_assumption,
    step_name,
    unverified_parts,
)
from skdpbo.model_selection.private_training._costs import finite_assumption, risky_steps
from skdpbo.model_selection.private_training._estimators import (
    children,
    is_nothing,
    is_private,
    is_shape_only,
)
from skdpbo.model_selection.private_training._statements import stated_guarantee
from skdpbo.privacy import PrivacyGuarantee, compose
from skdpbo.privacy._guarantee import GROUP_RELATIONS

# Steps that may pass on Python objects; the output of others is numeric.
_PASS_ON = FrozenEstimator, FunctionTransformer, SimpleImputer


def pipeline_guarantee(estimator: Any, n_samples: int | None = None) -> PrivacyGuarantee:
    """Compose the guarantees of the steps of a pipeline.

    Parameters
    ----------
    estimator : estimator
        Fitted or not: a private estimator, or a `Pipeline`, `ColumnTransformer`, `FeatureUnion` or
        `TransformedTargetRegressor` (no subclasses) of private steps, and of steps whose ``fit``
        reads nothing but the shape of the rows.
    n_samples : int, default=None
        Number of training records, for steps whose guarantee depends on it.

    Returns
    -------
    PrivacyGuarantee
        Composition of all private steps on the same records; for groups of records if the steps
        were fitted with groups. Void, with the step's name, if another step learns from the
        records: its fitted attributes reveal them, and later steps get rows that depend on several
        records. Conditional, with the step's name, if a step is not verified to transform each row
        from that row alone (a user's function; a frame of Python objects from ``set_output``, whose
        types depend on all rows) or to keep every row finite (a logarithm).

    Raises
    ------
    ValueError
        If no step is private, or some were fitted with groups and others without.

    See Also
    --------
    skdpbo.privacy.compose : Composition of guarantees.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from skdpbo.linear_model import DPLogisticRegression
    >>> from skdpbo.pipeline import pipeline_guarantee
    >>> pipeline_guarantee(make_pipeline(Normalizer(), DPLogisticRegression())).status
    'proved'
    >>> leaky = pipeline_guarantee(make_pipeline(StandardScaler(), DPLogisticRegression()))
    >>> leaky.status, leaky.assumptions[0]
    ('void', "StandardScaler (step 'standardscaler') learns from the records without noise")
    """
    found: tuple[list[Any], ...] = ([], [], [], [])
    private, reasons, framed, summed = found
    _collect(estimator, "", *found)
    if not private:
        raise ValueError(
            f"{type(estimator).__name__} has no step with a privacy guarantee. Looked into are "
            "Pipeline, ColumnTransformer, FeatureUnion and TransformedTargetRegressor; what others "
            "fit several times, such as MultiOutputRegressor, skdpbo.privacy.compose adds up."
        )
    composed = compose(*_stated_guarantees(private, n_samples))
    # Private models are not inspected: their statements cover them, and no step uses predictions.
    seen = {id(step) for step in private if not hasattr(step, "transform")}
    if names := [name for name, _ in unverified_parts(estimator, seen=seen)] + framed:
        composed = composed.assuming(row_wise_assumption(names), status="conditional")
    # Outside of a search, warnings such as those of overflowing targets are shown.
    risky = [] if reasons else risky_steps(estimator)
    if names := [*summed, *risky]:
        assumption = finite_assumption(names)
        composed = composed.assuming(assumption, status="conditional" if risky else "proved")
    for reason in reversed(reasons):
        composed = composed.voided(reason)
    return composed


def _stated_guarantees(private, n_samples):
    """Return the guarantees of all steps, for groups if they were fitted with groups."""
    known = [getattr(getattr(step, "privacy_", None), "neighbours", None) for step in private]
    grouped = [neighbours in GROUP_RELATIONS.values() for neighbours in known]
    stated = [stated_guarantee(step, n_samples) for step in private]
    for k, step in enumerate(private):
        # A step that reads no value has the same guarantee for groups. Others without groups do
        # not protect them, and `compose` refuses the mixture.
        if grouped[k] or (any(grouped) and stated[k].epsilon == 0):
            stated[k] = stated_guarantee(step, n_samples, groups=True)
    return stated


def _collect(estimator, prefix, private, reasons, framed, summed):
    """Collect private steps, reasons of a void guarantee, steps with frames, and summed targets.

    scikit-learn checks the targets of a `TransformedTargetRegressor` for finiteness by their sum.
    """
    if is_nothing(estimator):
        return
    if is_private(estimator):
        private.append(estimator)
        return
    name = step_name(estimator, prefix)
    summed += [name] * (type(estimator) is TransformedTargetRegressor)
    inverted = (getattr(estimator, key, None) for key in ("inverse_func", "transformer"))
    if getattr(estimator, "check_inverse", False) and any(part is not None for part in inverted):
        reasons.append(
            f"{name} compares records with what is inverted, and warns if one of them differs: set "
            "check_inverse=False"
        )
    try:
        steps = children(estimator, prefix)
    except ValueError as error:  # columns that a function chooses
        reasons.append(str(error))
        return
    words = [child for _, child in steps or () if isinstance(child, str)]
    if (type(estimator) in _PASS_ON or "passthrough" in words) and any(framed_steps(estimator)):
        framed.append(f"{FRAMES} {name}")
    if steps is None:
        if not is_shape_only(estimator):
            reasons.append(f"{name} learns from the records without noise")
        return
    if getattr(estimator, "memory", None) is not None:
        reasons.append(f"{name} has a cache, which stores records and repeats noise")
    if type(estimator) is ColumnTransformer and estimator.sparse_threshold > 0:
        # Private steps refuse sparse rows, and give dense ones.
        parts = [step for _, step in steps if not is_nothing(step)]
        last = [part.steps[-1][1] if type(part) is Pipeline else part for part in parts]
        dense = [is_private(part) and not getattr(part, "sparse_output", False) for part in last]
        if not (dense and all(dense)):
            reasons.append(
                f"{name} counts the zeros of the records, which decide whether it gives sparse "
                "rows: set sparse_threshold=0"
            )
    for step, child in steps:
        _collect(child, f"{prefix}{step}__", private, reasons, framed, summed)
