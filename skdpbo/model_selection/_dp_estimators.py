"""Which estimators may be trained on protected rows, and what their training costs.

An estimator is private as a whole, or it is built by scikit-learn's pipelines from steps that are
private and steps whose ``fit`` reads nothing but the shape of the rows. A private step states its
cost (``privacy_guarantee(n_samples)``) and has a parameter ``epsilon`` (and ``delta``) to set it.
"""

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
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

from skdpbo.model_selection._sklearn import has_callbacks
from skdpbo.privacy import PrivacyGuarantee

__all__ = [
    "check_discretion",
    "children",
    "declared_guarantee",
    "is_nothing",
    "is_private",
    "is_shape_only",
    "noise_seeds",
    "private_steps",
    "stated_guarantee",
    "step_name",
    "voided_by_seeds",
]

_NEIGHBOURS = "replace-one"
_NOTHING = ("passthrough", "drop")
_SEEDS = ("seed", "rng", "generator")


def _always(step):
    return True


def _has_fixed_scale(step):
    return step.gamma != "scale"


def _has_given_knots(step):
    return not isinstance(step.knots, str) and step.extrapolation != "error"


def _has_given_categories(step):
    # With handle_unknown="error", one record decides whether there is a model.
    counts = step.min_frequency is not None or step.max_categories is not None
    given = not isinstance(step.categories, str)
    return given and not counts and step.handle_unknown != "error"


def _fills_a_constant(step):
    return step.strategy == "constant" and step.keep_empty_features and not step.add_indicator


# Transformers whose fit reads the shape and the types alone (checked in scikit-learn 1.6 and 1.9),
# under the condition beside them. A frozen one was fitted before, on rows that are public.
_SHAPE_ONLY = {
    FeatureHasher: (_always, ""),
    FrozenEstimator: (_always, ""),
    GaussianRandomProjection: (_always, ""),
    HashingVectorizer: (_always, ""),
    OneHotEncoder: (
        _has_given_categories,
        'give categories and handle_unknown="ignore", without min_frequency and max_categories',
    ),
    OrdinalEncoder: (
        _has_given_categories,
        'give categories and handle_unknown="use_encoded_value", without min_frequency and '
        "max_categories",
    ),
    PolynomialCountSketch: (_always, ""),
    PolynomialFeatures: (_always, ""),
    RBFSampler: (_has_fixed_scale, "give gamma as a number"),
    SimpleImputer: (
        _fills_a_constant,
        'use strategy="constant", keep_empty_features=True, add_indicator=False',
    ),
    SparseRandomProjection: (_always, ""),
    SplineTransformer: (_has_given_knots, 'give knots as an array, and not extrapolation="error"'),
}


def is_shape_only(step):
    """Whether ``fit`` of a transformer reads nothing from the rows but their shape and types.

    Those that scikit-learn tags as needing no ``fit`` (`Normalizer`, `Binarizer`,
    `FunctionTransformer`), and a list of others, some of them under a condition.
    """
    if type(step) in _SHAPE_ONLY:
        return bool(_SHAPE_ONLY[type(step)][0](step))
    tags = get_tags(step)
    # Some models that predict need no fit either, and learn from the rows when they get one.
    transforms = tags.transformer_tags is not None and tags.estimator_type is None
    return transforms and not tags.requires_fit


def private_steps(estimator):
    """Steps that are private by themselves; refuses an estimator with any other that learns.

    Parameters
    ----------
    estimator : estimator
        Not fitted. Itself private, or a `Pipeline`, `FeatureUnion`, `ColumnTransformer` or
        `TransformedTargetRegressor` of private and shape-only steps.

    Returns
    -------
    steps : dict of str -> estimator
        Prefix of the step's parameters in those of `estimator` ("" or ending with "__"), and the
        step, which is part of `estimator`.

    Raises
    ------
    ValueError
        If a step learns from the rows without noise, by its name; or if none is private.
    """
    steps = dict(_private_steps(estimator, ""))
    if not steps:
        raise ValueError(_no_private_step(estimator))
    return steps


def _private_steps(estimator, prefix):
    if is_private(estimator):
        yield prefix, estimator
        return
    steps = children(estimator, prefix)
    if steps is None:
        if not _is_transformer(estimator) or not is_shape_only(estimator):
            raise ValueError(_refusal(estimator, prefix))
        return
    for name, child in steps:
        if not is_nothing(child):
            yield from _private_steps(child, f"{prefix}{name}__")


def is_private(step):
    """Whether a step states what its training costs."""
    return callable(getattr(step, "privacy_guarantee", None))


def is_nothing(step):
    """Whether a step is None, "passthrough" or "drop"."""
    return step is None or (isinstance(step, str) and step in _NOTHING)


def _is_transformer(estimator):
    return hasattr(estimator, "fit") and hasattr(estimator, "transform")


def children(estimator, prefix):
    """Named steps of scikit-learn's own compositions, None for anything else.

    Sub-classes are not looked into: they may do more with the rows than hand them on.
    """
    if type(estimator) is Pipeline:
        return estimator.steps
    if type(estimator) is FeatureUnion:
        return estimator.transformer_list
    if type(estimator) is ColumnTransformer:
        for name, _, columns in estimator.transformers:
            if callable(columns) and type(columns) is not make_column_selector:
                raise ValueError(
                    f"the columns of {prefix}{name} are chosen by a function, which may read the "
                    "protected rows: name them, or use make_column_selector."
                )
        named = [(name, step) for name, step, _ in estimator.transformers]
        return [*named, ("remainder", estimator.remainder)]
    if type(estimator) is TransformedTargetRegressor:
        if isinstance(estimator.transformer, FrozenEstimator):
            raise ValueError(
                f"{step_name(estimator, prefix)} cannot have a FrozenEstimator as its transformer: "
                "scikit-learn fits it without y, which fails. Use func and inverse_func with "
                "public constants."
            )
        regressor = LinearRegression() if estimator.regressor is None else estimator.regressor
        return [("regressor", regressor), ("transformer", estimator.transformer)]
    return None


def step_name(estimator, prefix):
    """Type of a step and, unless it is the whole, its place."""
    kind = type(estimator).__name__
    return f"{kind} (step {prefix.removesuffix('__')!r})" if prefix else kind


def _refusal(estimator, prefix):
    name = step_name(estimator, prefix)
    way_out = (
        "declare what one fit costs with estimator_guarantee if it is differentially private; or "
        "give n_chunks, which protects every record with any estimator and releases the choice "
        "without a model."
    )
    if not _is_transformer(estimator) or hasattr(estimator, "predict"):
        return (
            f"{name} states no privacy guarantee: trained on protected rows, it would show them. "
            'With protect="all" use an estimator that is differentially private; ' + way_out
        )
    condition = _SHAPE_ONLY.get(type(estimator), (None, ""))[1]
    instead = condition or (
        "use a FunctionTransformer with public constants, or a FrozenEstimator of one that was "
        "fitted on public rows"
    )
    return (
        f"{name} learns from the protected rows without noise. With protect='all' {instead}; "
        + way_out
    )


def _no_private_step(estimator):
    return (
        f"{step_name(estimator, '')} has no step that is differentially private, so there is "
        "nothing whose budget could be set."
    )


def stated_guarantee(step, n_samples):
    """What a private step says that one fit costs; checks that it is meant for training rows.

    Raises
    ------
    TypeError, ValueError
        If it is no guarantee for the replacement of any one training record.
    """
    name = type(step).__name__
    return _checked(step.privacy_guarantee(n_samples=n_samples), f"{name}.privacy_guarantee()")


def check_discretion(estimator):
    """Refuse what would write down, mix or count protected rows, or tell of the trials.

    Raises
    ------
    ValueError
        For a cache, messages, callbacks or a precomputed kernel.
    """
    for key, value in estimator.get_params(deep=True).items():
        last = key.split("__")[-1]
        if last == "memory" and value is not None:
            raise ValueError(
                f"{key} must be None: a cache stores protected rows and repeats the noise of an "
                "earlier fit."
            )
        if last == "verbose" and value:
            raise ValueError(f"{key} must be 0: messages would tell of protected rows.")
    if get_tags(estimator).input_tags.pairwise:
        raise ValueError(
            'A precomputed kernel or distance cannot be used with protect="all": one record enters '
            "the rows of all others. Give the features."
        )
    if has_callbacks(estimator):
        raise ValueError(
            'Callbacks of the estimator cannot be used with protect="all": they would be shown the '
            "trials, whose number is secret."
        )


def declared_guarantee(declaration, estimator, n_samples):
    """What the user says that one fit of a candidate costs: `estimator_guarantee`.

    Parameters
    ----------
    declaration : PrivacyGuarantee or callable
        A callable is asked with ``(estimator, n_samples)``.
    estimator : estimator
        A copy of the candidate, not fitted.
    n_samples : int or None

    Returns
    -------
    guarantee : PrivacyGuarantee
        Void if the estimator has a seed.
    """
    asked = callable(declaration)
    guarantee = declaration(estimator, n_samples) if asked else declaration
    guarantee = _checked(guarantee, "estimator_guarantee")
    if any(value is not None for value in noise_seeds(estimator).values()):
        return guarantee.voided("the estimator has a random_state, so its noise can be removed")
    return voided_by_seeds(guarantee, estimator)


def voided_by_seeds(guarantee, estimator):
    """Void the guarantee of a training that may be seeded by a parameter of another name.

    The search does not know how to give each trial a seed of its own there.
    """
    for key, value in estimator.get_params(deep=True).items():
        name = key.split("__")[-1]
        seeds = name in _SEEDS or name.endswith("_seed")
        if value is not None and seeds and _may_be_private(_owner(estimator, key)):
            return guarantee.voided(
                f"{key} is not None: if it seeds the noise, every trial has the same, and it can "
                "be removed"
            )
    return guarantee


def noise_seeds(estimator):
    """Parameters ``random_state`` that may seed privacy noise: all but those of shape-only steps.

    Returns
    -------
    seeds : dict of str -> object
        Names and values.
    """
    return {
        key: value
        for key, value in estimator.get_params(deep=True).items()
        if key.split("__")[-1] == "random_state" and _may_be_private(_owner(estimator, key))
    }


def _owner(estimator, key):
    """The step that a parameter belongs to."""
    prefix = key.rpartition("__")[0]
    return estimator.get_params(deep=True).get(prefix, estimator) if prefix else estimator


def _may_be_private(owner):
    return not (_is_transformer(owner) and is_shape_only(owner))


def _checked(guarantee, name):
    if not isinstance(guarantee, PrivacyGuarantee):
        raise TypeError(f"{name} must give a PrivacyGuarantee, got {type(guarantee).__name__}.")
    if guarantee.neighbours != _NEIGHBOURS:
        raise ValueError(
            f"{name} holds for neighbours {guarantee.neighbours!r}; here it must hold for the "
            f"replacement of one record by any other ({_NEIGHBOURS!r})."
        )
    whom = guarantee.protects
    if whom and "training" not in whom and "all" not in whom.split():
        raise ValueError(f"{name} protects {whom!r} and not the training records.")
    return guarantee
