"""``protect="all"`` by private selection: every trial trains a private estimator.

Order of a fit: the plan and a dry run (public), the charge, the trials. What the searcher is left
with is the winner; how many trials there were is secret.
"""

import warnings
from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import check_scoring

from skdpbo.exceptions import (
    DryRunWarning,
    SeededNoiseWarning,
    SelectionCostWarning,
    SkdpboWarning,
    VoidGuaranteeWarning,
)
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._chunk_refusals import refuse_options_of_public_rows
from skdpbo.model_selection._dry_run import _synthetic as synthetic_rows
from skdpbo.model_selection._dry_run import dry_run
from skdpbo.model_selection._objects import as_objects, list_width
from skdpbo.model_selection._opening import check_rows
from skdpbo.model_selection._roles import check_schema, protected_positions
from skdpbo.model_selection._scores import resolve_scorer
from skdpbo.model_selection._selected_trials import (
    TrialData,
    best_of_trials,
    published_trials,
    quiet,
)
from skdpbo.model_selection._shared_rows import (
    entry_length,
    refuse_rows_among_entries,
    refuse_shared_rows,
    with_disjoint_parts,
)
from skdpbo.model_selection._sklearn import masked_param_columns, n_rows, take_rows
from skdpbo.model_selection._trial_plan import plan_trials, prefers_composition
from skdpbo.privacy import charge_active_ledger, charged_elsewhere

__all__ = ["fit_selected", "mark_total", "selected_guarantee"]

_SEEDED = "the noise was drawn from a seed (random_state), so it can be recomputed and removed"
_NO_MODEL = (
    "The training of the winning trial failed, so that there is no model; the budget is spent. Why "
    "it failed depends on protected rows and is not shown."
)
_USUAL = "NaN or infinite values are a usual reason, or too few rows."
_NOT_NUMERIC = "X is not of a numeric type: every argument must be a string or a real number."


def fit_selected(searcher, candidates, X, y, X_val, y_val, params):
    """Fit a searcher with ``protect="all"`` and no chunks; sets its fitted attributes.

    The caller has checked the parameters and the candidates, and has warned of a seeded run.

    Raises
    ------
    ValueError, TypeError
        On a bad parameter or schema, an estimator that is not private, a cost that does not fit:
        before anything is charged. Also, after the charge, if the winning trial has no model; no
        message depends on a protected value.
    """
    if not candidates:
        raise ValueError("No fits were performed. Were there no candidates?")
    refuse_options_of_public_rows(searcher)
    X, y, X_val = check_rows(X, y, X_val, y_val)
    trained, scored = _disjoint_positions(searcher, X, X_val)
    if X_val is not None:
        check_schema(X_val, y_val, X, y)
        refuse_shared_rows(X, X_val)
    _refuse_complex(X, y)
    plan = plan_trials(searcher, candidates, len(trained))
    guarantee = with_disjoint_parts(_voided_if_seeded(searcher, plan.guarantee), X_val)
    # Targets are protected: no scorer learns its classes from them.
    scorer = resolve_scorer(searcher.scoring, searcher.estimator, searcher.loss_bound)
    fit_params = _fit_params(searcher, X, len(trained), params, [X, y, X_val, y_val])
    _advise(searcher, plan)
    failures = _dry_run(searcher, plan, candidates, scorer, X, y)

    # before any protected value is read
    charge_active_ledger(guarantee, type(searcher).__name__, searcher)
    with searcher._all_or_nothing():
        train, validation = _parts(X, y, X_val, y_val, trained, scored)
        # Not typed by the training rows: these are as protected as those that are scored.
        rows = (*validation, np.zeros(n_rows(validation[0]), dtype=bool))
        data = TrialData(*train, fit_params, rows, scorer, plan.budget)
        run = published_trials if plan.rule.publishes_scores else best_of_trials
        released = run(
            plan,
            data,
            noise_source(searcher.random_state),
            n_jobs=searcher.n_jobs,
            pre_dispatch=searcher.pre_dispatch,
        )
        scores, winner = released if plan.rule.publishes_scores else (None, released)
        if winner.model is None:
            raise _no_model(X, failures)
        _publish(searcher, candidates, plan, guarantee, scorer, scores, winner)


def selected_guarantee(searcher, n_samples):
    """What `fit_selected` promises with secret noise; the caller voids it for seeded runs.

    The estimator is asked for the part of `n_samples` rows that trains, as no `X_val` is known.
    """
    candidates = list(searcher._all_candidates())
    if n_samples is not None and n_samples >= 2:
        n_samples -= len(protected_positions(n_samples, searcher.validation_fraction))
    return plan_trials(searcher, candidates, n_samples).guarantee


def _voided_if_seeded(searcher, guarantee):
    return guarantee if searcher.random_state is None else guarantee.voided(_SEEDED)


def _disjoint_positions(searcher, X, X_val):
    """Return the positions in X of the rows that train and of those that score, None with X_val."""
    n_samples = n_rows(X)
    if X_val is not None:
        return np.arange(n_samples), None
    if n_samples < 2:
        raise ValueError(
            f"Found array with n_samples={n_samples}: at least 2 rows are needed to set "
            "validation rows apart."
        )
    scored = protected_positions(n_samples, searcher.validation_fraction)
    return np.setdiff1d(np.arange(n_samples), scored), scored


def _parts(X, y, X_val, y_val, trained, scored):
    """Return (X, y) to train on and (X, y) to score on; after the charge."""
    width = list_width(X)
    X, X_val = as_objects(X, width), as_objects(X_val, width)
    if X_val is not None:
        return (X, y), (X_val, y_val)
    train, validation = (
        (take_rows(X, part), None if y is None else take_rows(y, part))
        for part in (trained, scored)
    )
    return train, validation


def _fit_params(searcher, X, n_trained, params, protected):
    """What the estimator's ``fit`` is given besides rows; nothing that goes with the rows."""
    lengths = n_rows(X), n_trained
    refuse_rows_among_entries(params, protected, lengths)
    for name, value in params.items():
        if entry_length(value) in lengths:
            raise ValueError(
                f'{name} goes with the rows: with protect="all" it would be part of the protected '
                "records, which no stated guarantee covers."
            )
    if not params:
        return {}
    return searcher._routed_fit_params(SimpleNamespace(X=X, fit_params=params))


def _advise(searcher, plan):
    if plan.guarantee.status == "void":
        warnings.warn(
            "The search carries no privacy guarantee, as one training carries none: "
            f"{'; '.join(plan.own_assumptions)}.",
            VoidGuaranteeWarning,
            stacklevel=4,
        )
    if prefers_composition(plan, searcher.epsilon, searcher.delta):
        warnings.warn(
            f"With {len(plan.models)} candidate(s), train each once and publish every score "
            '(selection="composition"): a secret number of trials may miss the best one, and needs '
            "as much noise or more.",
            SelectionCostWarning,
            stacklevel=4,
        )


def _dry_run(searcher, plan, candidates, scorer, X, y):
    """Say what synthetic rows show: failures, which are returned, and bounds that are missing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dry_run(searcher.estimator, candidates, X, y, scorer)
    failures = [str(warning.message) for warning in caught]
    for category, message in dict.fromkeys(
        [(DryRunWarning, failure) for failure in failures] + _said_of_defaults(plan, X, y)
    ):
        warnings.warn(message, category, stacklevel=4)
    return failures


def _said_of_defaults(plan, X, y):
    """Categories and messages of skdpbo's own warnings, which the trials keep to themselves."""
    said = []
    for table, targets in list(synthetic_rows(plan.models[0], X, y))[:1]:
        with quiet(), charged_elsewhere(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                clone(plan.models[0]).fit(table, *(() if targets is None else (targets,)))
            except (Exception, SystemExit):  # noqa: S110
                pass  # the dry run has told
        said += [(w.category, str(w.message)) for w in caught]
    # Of seeds something else is said, see `_advise`.
    return [
        (category, message)
        for category, message in said
        if issubclass(category, SkdpboWarning) and category is not SeededNoiseWarning
    ]


def _no_model(X, failures):
    """The error that there is no model: of the schema and of public failures alone."""
    if _kind(X) in "biuf":
        return ValueError(" ".join([_NO_MODEL, _USUAL, *failures]))
    return TypeError(" ".join([_NO_MODEL, _NOT_NUMERIC, *failures]))


def _refuse_complex(X, y):
    for name, values in (("X", X), ("y", y)):
        if _kind(values) == "c":
            raise ValueError(f"Complex data not supported: {name} must be real.")


def _kind(values):
    """Kind of the type of an array, "f" for other containers."""
    return getattr(getattr(values, "dtype", None), "kind", "f")


def _publish(searcher, candidates, plan, guarantee, scorer, scores, winner):
    """Set the attributes; everything here is public or released."""
    searcher._forget()  # what an earlier fit has set
    searcher.best_index_ = winner.index
    searcher.best_params_ = candidates[winner.index]
    searcher.best_score_ = winner.score
    searcher.cv_results_ = {**masked_param_columns(candidates), "params": candidates}
    if scores is not None:
        searcher.cv_results_["private_validation_score"] = scores
    searcher.multimetric_ = False
    searcher.scorer_ = check_scoring(searcher.estimator) if searcher.scoring is None else scorer
    searcher.expected_trials_ = plan.rule.expected_trials
    searcher.hit_probability_ = plan.rule.hit_probability
    searcher.privacy_ = guarantee
    if searcher.refit:
        mark_total(winner.model, guarantee)
        searcher.best_estimator_ = winner.model
        if hasattr(winner.model, "feature_names_in_"):
            searcher.feature_names_in_ = winner.model.feature_names_in_


def mark_total(model, guarantee, seen=None):
    """Put the guarantee of the whole in place of that of one training, in every fitted step.

    A frozen step was fitted earlier, at its own cost, and keeps its statement.

    Parameters
    ----------
    model : estimator
        Fitted; changed.
    guarantee : PrivacyGuarantee
    """
    seen = set() if seen is None else seen
    if id(model) in seen:
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
