"""Stated costs of one fit, checked to cover the training rows, and void with a seed."""

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from skdpbo._isolation._estimator_parts import own_params, parts_inside
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import VoidGuaranteeWarning
from skdpbo.model_selection._private_choice import for_groups_of_all_records
from skdpbo.model_selection.private_training._estimators import is_shape_only
from skdpbo.privacy import PrivacyGuarantee, PrivacyProfile
from skdpbo.privacy._guarantee import GROUP_RELATIONS
from skdpbo.privacy._privacy_profile import as_profile
from skdpbo.privacy._replace_one import as_replace_one

_NEIGHBOURS = "replace-one"
_SEEDS = ("seed", "rng", "generator")


def stated_guarantee(step, n_samples, *, groups=False):
    """Return the stated cost of one fit of a private step, checked to cover training rows.

    With groups, the cost for all records of any one group.

    Raises
    ------
    TypeError, ValueError
        If it is not a guarantee for the replacement of any one training record.
    """
    options = {"groups": True} if groups else {}  # foreign steps need not have the parameter
    stated = step.privacy_guarantee(n_samples=n_samples, **options)
    return _covering_training(stated, step, GROUP_RELATIONS[_NEIGHBOURS] if groups else _NEIGHBOURS)


def declared_cost(declaration):
    """Return the cost of one fit for one replaced record, declared by `estimator_guarantee`.

    Parameters
    ----------
    declaration : PrivacyGuarantee or privacy profile
        An add-remove profile is converted.

    Returns
    -------
    cost : PrivacyGuarantee or PrivacyProfile
    """
    name = "estimator_guarantee"
    if isinstance(declaration, PrivacyGuarantee):
        return _covering_training(declaration, name)
    try:
        profile = as_profile(declaration)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} gives no guarantee. {error}") from None
    return _covering_training(
        as_replace_one(profile) if profile.neighbours == "add-remove" else profile, name
    )


def voided_by_seeds(guarantee, estimator):
    """Void the guarantee of a training with a seed that the search cannot set for each trial.

    Such a seed has another name than `random_state`, or its step is not among the parameters.
    """
    named = noise_seeds(estimator, other_names=True)
    seeds = [key for key, value in named.items() if value is not None]
    known = {id(part) for part in (estimator, *estimator.get_params(deep=True).values())}
    for part in parts_inside(estimator):
        own = own_params(part)
        if not own or id(part) in known or is_shape_only(part):
            continue
        # Parameters of a step that is an item of a list cannot be set, random_state included.
        given = (key for key, value in own.items() if value is not None)
        own_seeds = (key for key in given if key == "random_state" or _is_seed(key))
        seeds += [f"{key} of {type(part).__name__}" for key in own_seeds]
    if not seeds:
        return guarantee
    return guarantee.voided(
        f"{seeds[0]} is not None: if it seeds the noise, every trial has the same, and it can be "
        "removed"
    )


def _is_seed(name):
    return name in _SEEDS or name.endswith("_seed")


def noise_seeds(estimator, other_names=False):
    """Return all parameters ``random_state`` that may seed noise, not those of shape-only steps.

    Parameters
    ----------
    estimator : estimator
    other_names : bool, default=False
        Return the seeds with other names instead.

    Returns
    -------
    seeds : dict of str -> object
        Names and values.
    """
    named, seeds = estimator.get_params(deep=True), {}
    for key, value in named.items():
        prefix = key.rpartition("__")[0]
        owner = named.get(prefix, estimator) if prefix else estimator
        name = key.split("__")[-1]
        is_seed = _is_seed(name) if other_names else name == "random_state"
        if is_seed and not is_shape_only(owner):
            seeds[key] = value
    return seeds


def _covering_training(guarantee, origin, neighbours=_NEIGHBOURS):
    """Return the guarantee if it covers training rows, else raise; `origin` is for the error."""
    stated = f"{type(origin).__name__}.privacy_guarantee()"
    name = origin if isinstance(origin, str) else stated
    if not isinstance(guarantee, PrivacyGuarantee | PrivacyProfile):
        raise TypeError(f"{name} must give a PrivacyGuarantee, got {type(guarantee).__name__}.")
    # A guarantee for add-remove neighbours does not suffice: a replacement costs more.
    if guarantee.neighbours != neighbours:
        raise ValueError(
            f"{name} holds for neighbours {guarantee.neighbours!r}; here it must hold for the "
            f"replacement of one record, or group, by any other: {neighbours!r}."
        )
    records = guarantee.protects
    # A searcher may state a guarantee of its validation records alone.
    if records and "training" not in records and "all" not in records.split():
        raise ValueError(f"{name} protects {records!r} and not the training records.")
    return guarantee


def warn_if_void_for_groups(of_record, of_group):
    """Warn if the total is void for groups but not for records.

    Parameters
    ----------
    of_record, of_group : PrivacyGuarantee
        The total, and the total with the statements for groups.
    """
    if of_group.status != "void" or of_record.status == "void":
        return
    known = for_groups_of_all_records(of_record).assumptions
    # The reason is among the assumptions that are not made for records.
    own = [text for text in of_group.assumptions if text not in known]
    warn_caller(
        "The search carries no privacy guarantee for groups, as one training with groups carries "
        f"none{': ' * bool(own)}{'; '.join(own)}.",
        VoidGuaranteeWarning,
    )


def mark_total(model, guarantee, seen=None):
    """Replace the guarantee of one training by that of the whole, in every fitted step.

    A frozen step was fitted earlier, at its own cost, and keeps its statement.

    Parameters
    ----------
    model : estimator
        Fitted; changed.
    guarantee : PrivacyGuarantee
    """
    seen = set() if seen is None else seen
    if id(model) in seen:  # fitted objects may hold each other
        return
    seen.add(id(model))
    if isinstance(model, list | tuple):
        parts = model
    elif isinstance(model, dict):
        parts = model.values()
    elif isinstance(model, BaseEstimator) and not isinstance(model, FrozenEstimator):
        if "privacy_" in vars(model):
            model.privacy_ = guarantee
        parts = vars(model).values()
    else:
        return
    for part in parts:
        mark_total(part, guarantee, seen)
