"""``protect=PrivateSelection(...)``: every trial trains a private estimator.

Order of a fit: the plan and a dry run (public), the charge, the trials. The winner is released;
the number of trials is secret.
"""

from dataclasses import replace

import numpy as np
from sklearn.base import is_classifier

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._isolation._parallel import Progress
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import (
    DryRunWarning,
    SelectionCostWarning,
    VoidGuaranteeWarning,
)
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._private_choice import for_groups_of_all_records
from skdpbo.model_selection._search_mechanism import Chosen
from skdpbo.model_selection._sklearn import final_step, n_rows
from skdpbo.model_selection.evaluation._dry_run import NOTHING_CHARGED, dry_run
from skdpbo.model_selection.private_training._costs import costs_of_groups
from skdpbo.model_selection.private_training._estimators import (
    n_stated_classes,
    refuse_unknown_groups,
)
from skdpbo.model_selection.private_training._plan import (
    SCORED_SHARE,
    largest_cost,
    plan_final,
    plan_trials,
    prefers_composition,
    tuning_share,
)
from skdpbo.model_selection.private_training._selection_rules import ranking_selection
from skdpbo.model_selection.private_training._statements import mark_total
from skdpbo.model_selection.private_training._trials import (
    TrialData,
    best_of_trials,
    published_trials,
    train_final,
)
from skdpbo.model_selection.protection._protection import AllRecordsProtection
from skdpbo.model_selection.protection._score_share import warn_if_trial_is_noisy
from skdpbo.model_selection.protection._setup import refuse_complex, refuse_metric_of_groups
from skdpbo.model_selection.protection._synthetic_fits import warnings_of_synthetic_fits
from skdpbo.model_selection.rows._overlap import entry_length, refuse_rows_among_entries
from skdpbo.model_selection.rows._protected import check_schema, protected_positions, take_units
from skdpbo.model_selection.scoring._resolve import resolve_trial_scorer

_NO_MODEL = (
    "The training of the winning trial failed, so that there is no model; the budget is spent. Why "
    "it failed depends on protected rows and is not shown."
)
_USUAL = (
    "NaN (which DPSimpleImputer fills in) or infinite values are a usual reason, or too few rows."
)
_OF_LABELS = (
    "So are labels of y that are all alike, or fractions: without classes, which are public, they "
    "are those that occur."
)
_NOT_NUMERIC = "X is not of a numeric type: every argument must be a string or a real number."


class PrivateModelsProtection(AllRecordsProtection):
    """Every record is protected; the estimator is differentially private.

    Parameters
    ----------
    searcher, space, candidates
        Of `Protection`.
    selection : PrivateSelection
    """

    cuts_entries = False
    best_of_several = True  # whether the released score is the best of noisy ones

    def __init__(self, searcher, space, candidates, selection):
        super().__init__(searcher, space, candidates)
        self.selection = selection
        self._budgeted = []  # models of each plan, with their number of rows

    def promise(self, n_samples, own_rows=None):
        """Plan the division of `n_samples` rows and the budgets; return the guarantee.

        Parameters
        ----------
        n_samples : int or None
        own_rows : bool, default=None
            Whether scoring rows are given as `X_val`; None before a fit.
        """
        if own_rows is None and (n_samples is None or n_samples < 2):  # cannot be divided yet
            return self._plan(n_samples).guarantee
        # Positions alone, so that the plan is made before a row is read.
        self.positions = trained, _, rest = self._positions(n_samples, own_rows=bool(own_rows))
        self.plan = self._plan(len(trained), trained_again=rest is not None)
        self.final = None if rest is None else self._budget(plan_final, len(rest))
        tuning = self.plan.guarantee
        if self.final is None:
            return tuning
        mechanism = f"{tuning.mechanism}; then one training of the winner on other rows"
        return replace(largest_cost([tuning, self.final.guarantee]), mechanism=mechanism)

    def for_groups(self, guarantee):
        """Return the guarantee for groups, which are not divided; refuse unsuitable estimators."""
        refuse_unknown_groups(self.searcher.estimator, self.selection)
        stated = for_groups_of_all_records(guarantee)
        # Of every plan: assumptions of a model's cost for a group beyond those for a record.
        for models, n_samples in self._budgeted:
            for _, of_group in costs_of_groups(models, n_samples):
                stated = stated.assuming(*of_group.assumptions, status=of_group.status)
        return stated

    def planned(self, parts):
        """Determine scorer and plan from public sizes; return the guarantee of single records."""
        searcher, own_rows = self.searcher, parts.X_val is not None
        # Parts of one table have the same schema.
        if own_rows:
            check_schema(parts.X_val, parts.y_val, parts.X, parts.y, public=False)
        refuse_complex(X=parts.X, y=parts.y)
        guarantee = self.promise(parts.n_samples, own_rows)
        # Targets are protected: the scorer must not take its classes from them.
        n_classes = n_stated_classes(self.plan.models)
        scorer = resolve_trial_scorer(
            searcher.scoring, searcher.estimator, searcher.loss_bound, n_classes
        )
        if parts.groups is not None:
            refuse_metric_of_groups(scorer)
            scorer = scorer.for_groups()
        self.scorer = scorer
        # With groups the number of rows is secret, and must not affect an error.
        counted = parts.groups is None
        lengths = (n_rows(parts.X), len(self.positions[0])) if counted else ()
        refuse_rows_among_entries(self.params, parts.containers, lengths, counted=counted)
        for name, value in self.params.items():
            if entry_length(value) in lengths or name.rpartition("__")[2] == "sample_weight":
                raise ValueError(
                    f'{name} goes with the rows: with protect="all" it would be part of the '
                    "protected records, which no stated guarantee covers."
                )
        self.fit_params = self.routed(parts.X, self.params) if self.params else {}
        return guarantee

    def try_publicly(self):
        """Warn of a void or inferior plan, and of failures on synthetic rows."""
        plan = self.plan
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
        # Stored, as they may explain why there is no model.
        given = self.parts.X, self.parts.y, self.scorer, self.fit_params, self.cuts_entries
        self.failures = dry_run(self.searcher.estimator, self.candidates, *given)
        shown = [(DryRunWarning, failure) for failure in self.failures]
        grouped, n_trained = self.parts.groups is not None, len(self.positions[0])
        shown += warnings_of_synthetic_fits(plan.models[0], *given[:2], n_trained, grouped)
        for category, message in dict.fromkeys(shown):
            warn_caller(message, category)

    def run(self, charge):
        """Protected: run the trials and release the best.

        Raises
        ------
        ValueError, TypeError
            If the winning trial has no model. No message depends on a protected value.
        """
        charge()
        data, data_of_final = self._opened_data()
        released, model = self._run(data)
        if self.final is not None:
            Progress(self.searcher.verbose, "Training the winner again on the other rows")
            source = noise_source(self.searcher.random_state)
            model = train_final(self.final.models[released.index], data_of_final, source)
        if model is None and self.plan.releases_model:
            # Only one candidate of each structure was tried before, and not the end of a descent.
            given = self.parts.X, self.parts.y, self.scorer, self.fit_params, self.cuts_entries
            end = [released.candidates[released.index]]
            own, error = attempt(dry_run, self.searcher.estimator, end, *given)
            own = own if error is None else [str(error).removesuffix(NOTHING_CHARGED)]
            if getattr(final_step(self.searcher.estimator), "classes", ()) is None:
                own = [_OF_LABELS, *own]
            raise _no_model(self.parts.X, dict.fromkeys([*self.failures, *own]))
        of_model = {"best_estimator_": model} if self.searcher.refit else {}
        return replace(released, attributes=released.attributes | of_model)

    def _opened_data(self):
        """Protected: return data of the trials, and of the last training or None."""
        trained, scored, rest = self.positions
        parts = in_isolation(self.parts.opened, is_classifier(self.searcher.estimator))
        everything = parts.X, parts.y, parts.groups
        own = parts.X_val, parts.y_val, parts.groups_val
        data = TrialData(
            **_training(take_units(*everything, trained), self.fit_params),
            rows=own if scored is None else take_units(*everything, scored),
            scorer=self.scorer,
            budget=self.plan.budget,
        )
        if rest is None:
            return data, None
        others = _training(take_units(*everything, rest), self.fit_params)
        return data, replace(data, **others)

    def _plan(self, n_samples, *, trained_again=False):
        selection = self.selection
        if trained_again:
            selection = ranking_selection(selection, len(self.candidates))
        return self._budget(plan_trials, n_samples, selection)

    def _budget(self, plan, n_samples, *selection):
        searcher = self.searcher
        budget = {"epsilon": searcher.epsilon, "delta": searcher.delta, "n_samples": n_samples}
        planned = plan(searcher.estimator, self.candidates, *selection, **budget)
        self._budgeted.append((planned.models, n_samples))
        return planned

    def _positions(self, n_samples, *, own_rows):
        """Return the positions in X of the rows of each part; they depend on public values alone.

        Parameters
        ----------
        n_samples : int
        own_rows : bool
            Whether scoring rows are given as `X_val`.

        Returns
        -------
        trained, scored, rest : ndarray of int
            Rows that train the trials, that score them (None with own rows) and that train the
            winner (None if it is not trained again).
        """
        searcher, everything = self.searcher, np.arange(n_samples)
        share = None
        if searcher.refit:
            share = tuning_share(self.selection, n_samples, len(self.candidates), searcher.epsilon)
        if n_samples < 2 and not (own_rows and share is None):
            raise ValueError(
                f"Found array with n_samples={n_samples}: at least 2 rows are needed to set "
                "validation rows apart."
            )
        tuned = everything if share is None else protected_positions(n_samples, share)
        # Rows that were not used for tuning train the winner again, with the whole budget.
        rest = None if share is None else np.delete(everything, tuned)
        if own_rows:
            return tuned, None, rest
        if len(tuned) < 2:
            raise ValueError("tuning_fraction leaves fewer than 2 rows to train and to score.")
        fraction = searcher.validation_fraction if share is None else SCORED_SHARE
        places = protected_positions(len(tuned), fraction)
        return np.delete(tuned, places), tuned[places], rest

    def _run(self, data):
        """Protected: return the release, as `Chosen`, and the winning model."""
        plan, names = self.plan, ("n_jobs", "pre_dispatch", "verbose")
        options = {name: getattr(self.searcher, name) for name in names}
        run = published_trials if plan.rule.publishes_scores else best_of_trials
        released = run(plan, data, noise_source(self.searcher.random_state), **options)
        scores, winner = released if plan.rule.publishes_scores else (None, released)
        columns = {} if scores is None else {"private_validation_score": scores}
        law = {
            "expected_trials_": plan.rule.expected_trials,
            "hit_probability_": plan.rule.hit_probability,
        }
        return Chosen(self.candidates, winner.index, winner.score, columns, law), winner.model

    def publish(self, guarantee, chosen):
        """Set the fitted attributes; the model states the guarantee of the whole search."""
        # The model's own guarantee is that of one training; the other trials cost as well.
        if self.searcher.refit:
            mark_total(chosen.attributes["best_estimator_"], guarantee)
        super().publish(guarantee, chosen)

    def warn_of_result(self, guarantee, chosen):
        """Warn if the noise of the released score is large."""
        if chosen.score is not None and self.best_of_several:
            model = vars(self.searcher).get("best_estimator_")
            warn_if_trial_is_noisy(self.scorer, chosen.score, model)


def _training(rows, fit_params):
    """Protected: return the training rows and arguments of ``fit`` by name."""
    X, y, groups = rows
    entries = fit_params if groups is None else fit_params | {"groups": groups}
    return {"X": X, "y": y, "fit_params": entries}


def _no_model(X, failures):
    """Return the error that there is no model, from the schema and public failures alone."""
    if getattr(getattr(X, "dtype", None), "kind", "f") in "biuf":
        return ValueError(" ".join([_NO_MODEL, _USUAL, *failures]))
    return TypeError(" ".join([_NO_MODEL, _NOT_NUMERIC, *failures]))
