"""``protect=PrivateSelection(...)``: every trial trains a private estimator.

Order of a fit: the plan and a dry run (public), the charge, the trials. The searcher keeps the
winner; how many trials there were is secret.
"""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator

from skdpbo._attempt import attempt
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import (
    DryRunWarning,
    SeededNoiseWarning,
    SelectionCostWarning,
    SkdpboWarning,
    UnreachedRowsWarning,
    VoidGuaranteeWarning,
)
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._sklearn import n_rows, take_rows
from skdpbo.model_selection.evaluation._dry_run import dry_run, synthetic_rows
from skdpbo.model_selection.evaluation._evaluator import train
from skdpbo.model_selection.evaluation._isolation import in_isolation
from skdpbo.model_selection.private_training._final_training import (
    SCORED_SHARE,
    plan_final,
    train_final,
    tuning_share,
)
from skdpbo.model_selection.private_training._plan import plan_trials, prefers_composition
from skdpbo.model_selection.private_training._selection_rules import ranking_selection
from skdpbo.model_selection.private_training._trials import (
    TrialData,
    best_of_trials,
    published_trials,
)
from skdpbo.model_selection.protection._options import (
    refuse_options_of_public_rows,
    refuse_telling_parts,
)
from skdpbo.model_selection.protection._protection import Protection, Release, table_of
from skdpbo.model_selection.protection._setup import check_rows, refuse_groups
from skdpbo.model_selection.rows._object_table import as_objects, list_width
from skdpbo.model_selection.rows._overlap import (
    entries_assumption,
    entry_length,
    refuse_rows_among_entries,
    refuse_shared_rows,
    with_disjoint_parts,
)
from skdpbo.model_selection.rows._protected import check_schema, protected_positions
from skdpbo.model_selection.rows._settled_types import settled_rows, settled_targets
from skdpbo.model_selection.scoring._resolve import resolve_trial_scorer

__all__ = ["PrivateModelsProtection", "mark_total"]

_NO_MODEL = (
    "The training of the winning trial failed, so that there is no model; the budget is spent. Why "
    "it failed depends on protected rows and is not shown."
)
_USUAL = "NaN or infinite values are a usual reason, or too few rows."
_NOT_NUMERIC = "X is not of a numeric type: every argument must be a string or a real number."


class PrivateModelsProtection(Protection):
    """Every record is protected; the estimator is differentially private.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    selection : PrivateSelection
    """

    def __init__(self, searcher, selection):
        super().__init__(searcher)
        self.selection = selection

    def check(self):
        """Refuse options that would be releases of their own, or need public rows."""
        refuse_options_of_public_rows(self.searcher)
        refuse_telling_parts(self.searcher.estimator, self.candidates)

    def promise(self, n_samples):
        """Return the guarantee of the plan, for the parts of `n_samples` rows."""
        if n_samples is None or n_samples < 2:
            return self._plan(n_samples).guarantee
        trained, _, rest = self._positions(n_samples, own_rows=False)
        tuning = self._plan(len(trained), trained_again=rest is not None).guarantee
        return tuning if rest is None else self._final_plan(len(rest)).joined(tuning)

    for_groups = staticmethod(refuse_groups)

    def search(self, rows, params):
        """Run the trials and release the best.

        Raises
        ------
        ValueError, TypeError
            Before the charge on a bad schema, estimator or cost; after it if the winning trial has
            no model. No message depends on a protected value.
        """
        searcher = self.searcher
        (X, y, X_val, y_val), _ = rows[:4], refuse_groups(rows[4], params)
        X, y, X_val = check_rows(X, y, X_val, y_val)
        *positions, rest = self._positions(n_rows(X), own_rows=X_val is not None)
        if X_val is not None:
            check_schema(X_val, y_val, X, y, public=False)
            refuse_shared_rows(X, X_val)
        _refuse_complex(X, y)
        plan = self._plan(len(positions[0]), trained_again=rest is not None)
        final = None if rest is None else self._final_plan(len(rest))
        guarantee = plan.guarantee if final is None else final.joined(plan.guarantee)
        guarantee = with_disjoint_parts(guarantee, X_val)
        n_protected = n_rows(X) + (0 if X_val is None else n_rows(X_val))
        entries = entries_assumption(params, n_rows(X), None)
        guarantee = self.stated(guarantee, n_protected, entries=entries)
        # Targets are protected: no scorer learns its classes from them.
        scorer = resolve_trial_scorer(searcher.scoring, searcher.estimator, searcher.loss_bound)
        fit_params = self._fit_params(X, len(positions[0]), params, [X, y, X_val, y_val])
        self.check_budget(guarantee, own_rows=X_val is not None)
        self._advise(plan)
        failures = self._dry_run(plan, scorer, X, y, fit_params)

        # before any protected value is read
        with self.all_or_nothing():
            self.charge(guarantee, own_rows=X_val is not None)
            labels = is_classifier(searcher.estimator)
            train_rows, validation = _parts(X, y, X_val, y_val, *positions, labels)
            # Not typed by the training rows: these are as protected as those that are scored.
            scored = (*validation, np.zeros(n_rows(validation[0]), dtype=bool))
            data = TrialData(*train_rows, fit_params, scored, scorer, plan.budget)
            run = published_trials if plan.rule.publishes_scores else best_of_trials
            released = run(
                plan,
                data,
                noise_source(searcher.random_state),
                n_jobs=searcher.n_jobs,
                pre_dispatch=searcher.pre_dispatch,
            )
            scores, winner = released if plan.rule.publishes_scores else (None, released)
            if final is not None:
                X_rest, y_rest = _rows_at(rest, X, y, labels)
                model = final.models[winner.index]
                others = replace(data, X=X_rest, y=y_rest)
                model = train_final(model, others, noise_source(searcher.random_state))
                winner = replace(winner, model=model)
            if winner.model is None:
                raise _no_model(X, failures)
        self.forget()  # what an earlier fit has set
        return self._release(guarantee, plan, scorer, scores, winner)

    def _plan(self, n_samples, *, trained_again=False):
        searcher, selection = self.searcher, self.selection
        return plan_trials(
            searcher.estimator,
            self.candidates,
            ranking_selection(selection, len(self.candidates)) if trained_again else selection,
            epsilon=searcher.epsilon,
            delta=searcher.delta,
            n_samples=n_samples,
        )

    def _final_plan(self, n_samples):
        searcher = self.searcher
        return plan_final(
            searcher.estimator,
            self.candidates,
            epsilon=searcher.epsilon,
            delta=searcher.delta,
            n_samples=n_samples,
        )

    def _positions(self, n_samples, *, own_rows):
        """Return the positions in X of the rows of each part; they depend on public values alone.

        Parameters
        ----------
        n_samples : int
        own_rows : bool
            Whether rows that score are given as `X_val`.

        Returns
        -------
        trained, scored, rest : ndarray of int
            Rows that train the trials, that score them (None with own rows) and that train the
            winner (None where that is not trained again).
        """
        searcher, everything = self.searcher, np.arange(n_samples)
        share = None
        if searcher.refit:
            n_candidates = len(self.candidates)
            share = tuning_share(self.selection, n_samples, n_candidates, searcher.epsilon)
        if n_samples < 2 and not (own_rows and share is None):
            raise ValueError(
                f"Found array with n_samples={n_samples}: at least 2 rows are needed to set "
                "validation rows apart."
            )
        tuned = everything if share is None else protected_positions(n_samples, share)
        rest = None if share is None else np.setdiff1d(everything, tuned)
        if own_rows:
            return tuned, None, rest
        if len(tuned) < 2:
            raise ValueError("tuning_fraction leaves fewer than 2 rows to train and to score.")
        fraction = searcher.validation_fraction if share is None else SCORED_SHARE
        scored = tuned[protected_positions(len(tuned), fraction)]
        return np.setdiff1d(tuned, scored), scored, rest

    def _fit_params(self, X, n_trained, params, protected):
        """Return the arguments of ``fit`` other than the rows; refuse values for each row."""
        lengths = n_rows(X), n_trained
        refuse_rows_among_entries(params, protected, lengths)
        for name, value in params.items():
            if entry_length(value) in lengths:
                raise ValueError(
                    f'{name} goes with the rows: with protect="all" it would be part of the '
                    "protected records, which no stated guarantee covers."
                )
        return self.routed(X, params) if params else {}

    def _advise(self, plan):
        if plan.guarantee.status == "void":
            warn_caller(
                "The search carries no privacy guarantee, as one training carries none: "
                f"{'; '.join(plan.own_assumptions)}.",
                VoidGuaranteeWarning,
            )
        if prefers_composition(plan, self.searcher.epsilon, self.searcher.delta):
            warn_caller(
                f"With {len(plan.models)} candidate(s), train each once and publish every score "
                '(protect=PrivateSelection(accounting="composition")): a secret number of trials '
                "may miss the best one, and needs as much noise or more.",
                SelectionCostWarning,
            )

    def _dry_run(self, plan, scorer, X, y, fit_params):
        """Warn of what synthetic rows show: failures, which are returned, and missing bounds."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dry_run(self.searcher.estimator, self.candidates, X, y, scorer, fit_params)
        failures = [str(warning.message) for warning in caught]
        shown = [(DryRunWarning, failure) for failure in failures]
        for table, targets in list(synthetic_rows(plan.models[0], X, y))[:1]:
            for warning in in_isolation(_warnings_of_fit, plan.models[0], table, targets):
                # Of seeds `_advise` warns; that synthetic rows are out of reach says nothing.
                kind, not_shown = warning.category, (SeededNoiseWarning, UnreachedRowsWarning)
                if issubclass(kind, SkdpboWarning) and kind not in not_shown:
                    shown.append((kind, str(warning.message)))
        for category, message in dict.fromkeys(shown):
            warn_caller(message, category)
        return failures

    def _release(self, guarantee, plan, scorer, scores, winner):
        attributes = {
            "multimetric_": False,
            "expected_trials_": plan.rule.expected_trials,
            "hit_probability_": plan.rule.hit_probability,
        }
        if self.searcher.refit:
            mark_total(winner.model, guarantee)
            attributes["best_estimator_"] = winner.model
        columns = {} if scores is None else {"private_validation_score": scores}
        return Release(
            guarantee=guarantee,
            table=table_of(self.candidates) | columns,
            index=winner.index,
            score=winner.score,
            scorer=scorer,
            attributes=attributes,
        )


def _warnings_of_fit(model, X, y):
    """Return the warnings of a fit on synthetic rows, whether it fails or not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attempt(train, clone(model), X, y, {})
    return caught


def _parts(X, y, X_val, y_val, trained, scored, labels):
    """Return (X, y) to train on and (X, y) to score on. Protected; after the charge."""
    width = list_width(X)
    X, X_val = (settled_rows(as_objects(rows, width)) for rows in (X, X_val))
    y, y_val = settled_targets(y, labels), settled_targets(y_val, labels)
    if X_val is not None:
        return _taken(X, y, trained), (X_val, y_val)
    return _taken(X, y, trained), _taken(X, y, scored)


def _rows_at(positions, X, y, labels):
    """Protected: return the rows at `positions` as ``fit`` gets them; after the charge."""
    X = settled_rows(as_objects(X, list_width(X)))
    return _taken(X, settled_targets(y, labels), positions)


def _taken(X, y, positions):
    """Protected: return rows and targets at `positions`; without a copy where that is all."""
    if len(positions) == n_rows(X):
        return X, y
    return take_rows(X, positions), None if y is None else take_rows(y, positions)


def _no_model(X, failures):
    """Return the error that there is no model: of the schema and of public failures alone."""
    if _kind(X) in "biuf":
        return ValueError(" ".join([_NO_MODEL, _USUAL, *failures]))
    return TypeError(" ".join([_NO_MODEL, _NOT_NUMERIC, *failures]))


def _refuse_complex(X, y):
    for name, values in (("X", X), ("y", y)):
        if _kind(values) == "c":
            raise ValueError(f"Complex data not supported: {name} must be real.")


def _kind(values):
    """Return the kind of the type of an array, "f" for other containers."""
    return getattr(getattr(values, "dtype", None), "kind", "f")


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
