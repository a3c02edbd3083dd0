"""Estimators that may be trained on protected rows, and the cost of their training.

An estimator is private as a whole, or it is a composition of scikit-learn of private steps and of
steps whose ``fit`` reads nothing but the shape of the rows. A private step states its cost
(``privacy_guarantee(n_samples)``) and has a parameter ``epsilon`` (and ``delta``) to set it.
"""

from inspect import signature

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from skdpbo._attempt import attempt
from skdpbo._isolation._estimator_parts import parts_inside
from skdpbo.model_selection._sklearn import final_step
from skdpbo.model_selection.evaluation._row_wise import step_name

_NOTHING = ("passthrough", "drop")
_SHAPE = ("n_features_in_", "feature_names_in_")


def always(step):
    """Return True, the condition of a step that needs none."""
    return True


def _has_given_categories(step):
    counts = step.min_frequency is not None or step.max_categories is not None
    given = not isinstance(step.categories, str)
    # A single unknown category would decide whether there is an error or (with drop) a warning.
    reveals = step.handle_unknown in ("error", "warn") or getattr(step, "drop", None) is not None
    return given and not counts and not reveals


# Transformers whose fit reads the shape and the types alone (checked in scikit-learn 1.6 and 1.9):
# (condition, advice if it does not hold). A frozen one was fitted earlier, at its own cost if any.
_SHAPE_ONLY = {
    CountVectorizer: (lambda step: step.vocabulary is not None, "give a public vocabulary"),
    FeatureHasher: (always, ""),
    FrozenEstimator: (always, ""),
    GaussianRandomProjection: (always, ""),
    HashingVectorizer: (always, ""),
    OneHotEncoder: (
        _has_given_categories,
        'give categories and handle_unknown="ignore", without drop, min_frequency and '
        "max_categories",
    ),
    OrdinalEncoder: (
        _has_given_categories,
        'give categories and handle_unknown="use_encoded_value", without min_frequency and '
        "max_categories",
    ),
    PolynomialCountSketch: (always, ""),
    PolynomialFeatures: (always, ""),
    RBFSampler: (lambda step: step.gamma != "scale", "give gamma as a number"),
    SimpleImputer: (
        lambda step: (
            step.strategy == "constant" and step.keep_empty_features and not step.add_indicator
        ),
        'use strategy="constant", keep_empty_features=True, add_indicator=False',
    ),
    SparseRandomProjection: (always, ""),
    SplineTransformer: (
        lambda step: not isinstance(step.knots, str) and step.extrapolation != "error",
        'give knots as an array, and not extrapolation="error"',
    ),
    TfidfTransformer: (lambda step: not step.use_idf, "set use_idf=False"),
    TfidfVectorizer: (
        lambda step: step.vocabulary is not None and not step.use_idf,
        "give a public vocabulary and use_idf=False",
    ),
}


def is_shape_only(step):
    """Whether a step is a transformer whose ``fit`` reads the shape and types of the rows alone.

    True for transformers that scikit-learn tags as needing no ``fit`` (`Normalizer`, `Binarizer`,
    `FunctionTransformer`), and for those of a list, some under a condition.
    """
    if not is_transformer(step):
        return False
    if type(step) in _SHAPE_ONLY:  # not a subclass, which may read the rows
        return bool(_SHAPE_ONLY[type(step)][0](step))
    tags = get_tags(step)
    # Some predictors need no fit either, but learn from the rows if they are fitted.
    transforms = tags.transformer_tags is not None and tags.estimator_type is None
    return transforms and not tags.requires_fit


def private_steps(estimator):
    """Return the private steps of an estimator; refuse any other step that learns.

    Parameters
    ----------
    estimator : estimator
        Not fitted. Itself private, or a `Pipeline`, `FeatureUnion`, `ColumnTransformer` or
        `TransformedTargetRegressor` of private and shape-only steps.

    Returns
    -------
    steps : dict of str -> estimator
        Prefix of the step's parameters among those of `estimator` ("" or ending with "__"), and
        the step itself.

    Raises
    ------
    ValueError
        If a step learns from the rows without noise, which the error names; or if none is private.
    """
    steps = {}
    for prefix, step, inner in nodes(estimator):
        if is_private(step) and not isinstance(step, FrozenEstimator):  # not trained
            if not getattr(step, "releases_nothing", False):  # else it needs no budget
                steps[prefix] = step
        elif inner is None and not is_shape_only(step):
            raise ValueError(_refusal(step, prefix))
    if not steps:
        raise ValueError(
            f"{step_name(estimator, '')} has no step that is differentially private, so there is "
            "nothing whose budget could be set."
        )
    return steps


def nodes(estimator, prefix=""):
    """Yield (prefix, estimator, its named steps or None), and the same for every step inside it.

    The steps of a step that states a cost are left out: the statement covers them.
    """
    if is_nothing(estimator):
        return
    steps = None if is_private(estimator) else children(estimator, prefix)
    yield prefix, estimator, steps
    for name, step in steps or ():
        yield from nodes(step, f"{prefix}{name}__")


def has_private_part(estimator, candidates):
    """Whether an estimator, or a part of it or of a candidate's values, spends its own budget.

    Parameters
    ----------
    estimator : estimator
    candidates : list of dict
    """
    # Values of candidates as well: a candidate may replace a step.
    values = [estimator, *(value for params in candidates for value in params.values())]
    return any(
        is_private(part) and not getattr(part, "releases_nothing", False)
        for part in parts_inside(values)
        if not isinstance(part, type | FrozenEstimator)  # not trained
    )


def is_private(step):
    """Whether a step states what its training costs."""
    return callable(getattr(step, "privacy_guarantee", None))


def stated_classes(estimator):
    """Return the parameter `classes` of a private classifier or private last step, or None."""
    model = final_step(estimator)
    return getattr(model, "classes", None) if is_private(model) else None


def n_stated_classes(models):
    """Return the number of labels if all of some models state the same number, else None."""
    # None also for a candidate without labels, or with labels that cannot be counted.
    numbers = {attempt(lambda labels: len({*labels}), stated_classes(m))[0] for m in models}
    return numbers.pop() if len(numbers) == 1 else None


def is_nothing(step):
    """Whether a step is None, "passthrough" or "drop"."""
    return step is None or (isinstance(step, str) and step in _NOTHING)


def is_transformer(estimator):
    return hasattr(estimator, "fit") and hasattr(estimator, "transform")


def children(estimator, prefix):
    """Return the named steps of a composition of scikit-learn, None for any other estimator.

    None also for subclasses: they may do more with the rows than pass them on.
    """
    if type(estimator) is ColumnTransformer:
        for name, _, columns in estimator.transformers:
            if callable(columns) and type(columns) is not make_column_selector:
                raise ValueError(
                    f"the columns of {prefix}{name} are chosen by a function, which may read the "
                    "protected rows: name them, or use make_column_selector."
                )
    is_of_targets = type(estimator) is TransformedTargetRegressor
    if is_of_targets and isinstance(estimator.transformer, FrozenEstimator):
        raise ValueError(
            f"{step_name(estimator, prefix)} cannot have a FrozenEstimator as its transformer: "
            "scikit-learn fits it without y, which fails. Use func and inverse_func with "
            "public constants."
        )
    return _named_steps(estimator)


def _named_steps(estimator):
    if type(estimator) is Pipeline:
        return estimator.steps
    if type(estimator) is FeatureUnion:
        return estimator.transformer_list
    if type(estimator) is ColumnTransformer:
        named = [(name, step) for name, step, _ in estimator.transformers]
        return [*named, ("remainder", estimator.remainder)]
    if type(estimator) is TransformedTargetRegressor:
        # scikit-learn's default, which is refused, as it learns without noise.
        regressor = LinearRegression() if estimator.regressor is None else estimator.regressor
        return [("regressor", regressor), ("transformer", estimator.transformer)]
    return None


def forget_rows(model, fresh):
    """Restore the steps that learn nothing to their state before the fit.

    A user's function may store its inputs, and would be released with the step.

    Parameters
    ----------
    model : estimator
        Fitted; changed in place.
    fresh : estimator
        A copy of it from before the fit.
    """
    if is_private(fresh) or isinstance(fresh, FrozenEstimator):
        return
    before = _named_steps(fresh)
    if before is None:
        if isinstance(fresh, BaseEstimator) and is_shape_only(fresh):
            # A step that requires a fit has attributes that depend on the shape alone.
            all_kept = get_tags(fresh).requires_fit
            kept = {key: value for key, value in vars(model).items() if all_kept or key in _SHAPE}
            vars(model).clear()
            vars(model).update(kept | vars(fresh))
        return
    if type(model) is ColumnTransformer:
        after = {name: step for name, step, _ in model.transformers_}
    elif type(model) is TransformedTargetRegressor:
        after = {"regressor": model.regressor_, "transformer": model.transformer_}
    else:
        after = dict(_named_steps(model))
    for name, step in before:
        if not is_nothing(step) and name in after:
            forget_rows(after[name], step)
    if type(fresh) is TransformedTargetRegressor:
        for part in (model, *([model.transformer_] if fresh.transformer is None else [])):
            part.func, part.inverse_func = fresh.func, fresh.inverse_func


def _refusal(estimator, prefix):
    name = step_name(estimator, prefix)
    way_out = (
        "declare what one fit costs with PrivateSelection(estimator_guarantee=...) if it is "
        "differentially private; or use protect=Chunks(), which protects every record with any "
        "estimator and releases the choice without a model."
    )
    if not is_transformer(estimator) or hasattr(estimator, "predict"):
        return (
            f"{name} states no privacy guarantee: trained on protected rows, it would show them. "
            "With private selection use an estimator that is differentially private; " + way_out
        )
    condition = _SHAPE_ONLY.get(type(estimator), (None, ""))[1]
    instead = condition or (
        "use a FunctionTransformer with public constants, or a FrozenEstimator of one that was "
        "fitted on public rows"
    )
    return (
        f"{name} learns from the protected rows without noise. With private selection {instead}; "
        "take a private scaler, imputer or encoder of skdpbo.preprocessing; " + way_out
    )


def refuse_unknown_groups(estimator, selection):
    """Raise a ValueError unless the estimator states the cost of a fit with groups to a group.

    Parameters
    ----------
    estimator : estimator
    selection : PrivateSelection
    """
    stated = getattr(estimator, "privacy_guarantee", None)
    if selection.estimator_guarantee is not None or not (
        has_fit_parameter(estimator, "groups")
        and callable(stated)
        and "groups" in signature(stated).parameters
    ):
        raise ValueError(
            f"groups are not supported with {type(estimator).__name__}: in private trials fit must "
            "take groups and privacy_guarantee(groups=True) must state the cost, as those of "
            "DPLogisticRegression do. With a pipeline or estimator_guarantee keep one row of each "
            "group (the first, whatever its values) and leave groups out."
        )
