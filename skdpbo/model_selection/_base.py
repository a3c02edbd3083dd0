"""Common base of the private searchers: parameters, fit and the hooks of ``BaseSearchCV``.

The steps of a fit, from the rows to the release:

1. `fit` makes the `Protection` of the records (folder ``protection``), with its candidates
   (``space``) and its `SearchMechanism` (``bayes``, ``gibo``, ``papers``) or, for private models,
   its plan of trainings (``private_training``).
2. ``Protection.search`` checks rows by their schema, checks that the ledger can pay, tries the
   estimator and scorer without protected values, runs, and publishes.
3. With public rows, ``BaseSearchCV.fit`` runs on these alone. Its hooks, overridden here only, call
   the protection: ``_get_scorers`` (losses), ``_run_search`` (candidates), ``_format_results``
   (table), ``_select_best_index`` (winner).
4. The mechanism proposes candidates by public or released scores. An evaluator (``evaluation``,
   ``private_training``) trains and scores on protected rows in isolation and returns integers. The
   ledger is charged just before the rows are opened.
5. The calling function passes these integers to a mechanism of ``skdpbo.mechanisms``, whose output
   is released and set as fitted attributes.
"""

import numbers
from abc import abstractmethod
from contextvars import copy_context
from fractions import Fraction
from functools import partial
from inspect import signature
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Memory
from sklearn.frozen import FrozenEstimator

from skdpbo._parameters import warn_if_seeded
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection._frozen_parameters import FrozenParameters, changed
from skdpbo.model_selection._private_choice import REPLACE_ONE
from skdpbo.model_selection._sklearn import (
    BaseSearchCV,
    Interval,
    readable_errors,
    results_table,
)
from skdpbo.model_selection.protection._validation import running_fit
from skdpbo.privacy import LedgerMixin, PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_flag
from skdpbo.privacy._stated_html import StatedHTML

NO_MODEL = (
    "every record is protected, and a model that was trained on protected rows would be a release "
    "of its own. Train best_params_ on rows that may be used, or with a private estimator."
)
_NO_REFIT = (
    "it was initialized with refit=False. Train an estimator with best_params_ on rows that may be "
    "used; a private training spends another budget."
)
_OF_SCIKIT_LEARN = signature(BaseSearchCV).parameters.keys()


class Fitted:
    """Attribute that a fit may set on the object; until then a method returns it or raises."""

    def __init__(self, method):
        self.method, self.__doc__ = method, method.__doc__

    # Without `__set__`, so that an attribute set on the object takes precedence.
    def __get__(self, searcher, owner=None):
        return self if searcher is None else self.method(searcher)


class BasePrivateSearchCV(LedgerMixin, StatedHTML, BaseSearchCV):
    """Base class of the private searchers; see `DPGridSearchCV` for the parameters and attributes.

    A sub-class builds, once for each fit, the space with its candidates (``_candidates``, a list of
    dicts, from public randomness only), the `SearchMechanism` (``_mechanism``, which also checks
    the privacy parameters) and the `Protection` (``_protection``); each checks its parameters.
    """

    # Classes of parameters that may be None, for `set_params` with nested names.
    _where_none: ClassVar[dict] = {}
    # Defaults for searchers without these parameters, which protections read.
    halving, neighbours = None, REPLACE_ONE
    _parameter_constraints: ClassVar[dict] = {
        # A callable `refit` is refused in `fit`, with the reason.
        **{k: v for k, v in BaseSearchCV._parameter_constraints.items() if k != "refit"},
        # epsilon is checked by the guarantee, which cannot be switched off.
        "epsilon": "no_validation",
        "delta": [Interval(numbers.Real, 0, 1, closed="left")],
        "loss_bound": [Interval(numbers.Real, 0, None, closed="neither"), dict, None],
        "score_fraction": [Interval(numbers.Real, 0, 1, closed="left")],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "memory": [str, PathLike, Memory, None],
        "refit": ["boolean", str],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def __init__(self, **parameters):
        # Assigned without checks, as required by scikit-learn's conventions.
        theirs = {name: parameters.pop(name) for name in _OF_SCIKIT_LEARN & parameters}
        super().__init__(**theirs)
        vars(self).update(parameters)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, including nested ones such as ``protect__n_chunks=10``.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : object
            The search.
        """
        nested: dict[str, Any] = {}
        for name in [name for name in params if "__" in name]:
            group, _, field = name.partition("__")
            settings = params.get(group, getattr(self, group, None))
            if settings is None and group in self._where_none:
                settings = self._where_none[group]()
            if isinstance(settings, FrozenParameters):
                nested.setdefault(group, (settings, {}))[1][field] = params.pop(name)
        # Objects are frozen: replace each by a changed copy.
        params |= {group: changed(*of_group) for group, of_group in nested.items()}
        return super().set_params(**params)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups_val: Any = None,
        **params: Any,
    ) -> Self:
        """Search on the public rows and choose privately on the protected ones.

        Unless ``protect="validation"`` there are no public rows: all of `X`, `y`, `X_val` and
        `y_val` is protected, and nothing is cross-validated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. All of them are public if `X_val` is given; else a fixed, data-independent
            fraction of them (`validation_fraction`) is protected and the others are treated as
            public. With every record protected: the training rows, and without `X_val` also the
            scoring rows. Lists then become arrays of objects: give arrays to numerical steps.
            Without `X_val`, and with every record protected, 64-bit integers become floats and
            truth values of frames objects, as they would with a single missing value.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets of `X`.
        X_val : array-like of shape (n_protected, n_features), default=None
            Protected rows: predicted and scored, never trained on. With every record protected, no
            record may also be in `X`.
        y_val : array-like of shape (n_protected,) or (n_protected, n_outputs), default=None
            Targets of `X_val`.
        groups_val : sequence of length n_protected, default=None
            Label of the group (person, household, site) of each row of `X_val`. All records of a
            group are then protected together: neighbouring data sets differ in one group, whose
            size is secret, and the number of groups is public. The loss of a group is the mean
            loss of its records. Equal labels are one group; a missing label (None, NaN), or one
            that cannot be a key of a dict, is a group of its own. Needs a score that is a mean of
            losses of records.
        **params : dict of str -> object
            As in `GridSearchCV.fit`: given to the estimator's ``fit``, the public scorer and the
            splitter. Without `X_val`, whole ``groups`` are set apart and protected as with
            `groups_val`; with every record protected, groups are never divided between parts, and
            a private estimator gets them. Entries as long as `X` go with their rows. Protected
            records, or groups, are scored with equal weights, with a warning if a scorer requests
            others. With private selection, other entries as long as `X` or its training part are
            refused.

        Returns
        -------
        self : object
            The fitted search.

        Raises
        ------
        ValueError, TypeError
            On a bad parameter, space or schema. No message depends on a protected value.
        UnboundedSensitivityError
            If one record can move the score by more than a public bound.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; no protected value has been read then.
        """
        # Before scikit-learn's check, whose error does not give the reason.
        if callable(self.refit):
            raise ValueError(
                "refit must be a bool or the name of a metric: a callable would choose from raw "
                "results, without noise. A rule for simpler models can choose on public rows, by "
                "GridSearchCV, which candidates are searched here."
            )
        self._validate_params()
        # Parameters are checked first: no row is read, and nothing is charged.
        protection = self._protection()
        protection.check()
        noise_source(self.random_state)  # an invalid random_state costs nothing
        warn_if_seeded(self.random_state)  # before the charge, as a filter may make it an error
        # In a copied context, as an interrupt may leave numpy's error state changed.
        copy_context().run(protection.search, (X, y, X_val, y_val, groups_val), params)
        return self

    def privacy_guarantee(
        self, n_samples: int | None = None, *, groups: bool = False
    ) -> PrivacyGuarantee:
        """Return the guarantee of a fit; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Number of rows given to `fit`, without `X_val`, at least 1. The guarantee depends on it
            only if every record is protected.
        groups : bool, default=False
            Whether to return that of a fit with groups, for all records of one group; `n_samples`
            is then the number of groups.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Of one fit, void with a seed.
        """
        self._validate_params()
        if n_samples is not None:
            check_count(n_samples, "n_samples")
        check_flag(groups, "groups")
        protection = self._protection()
        promise = protection.promise(n_samples)
        return protection.stated(protection.for_groups(promise) if groups else promise)

    def _validate_params(self):
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, Fraction) and name != "epsilon":  # not comparable for scikit-learn
                raise TypeError(f"{name} must be a float or an int, got a Fraction.")
        with readable_errors():
            super()._validate_params()
        if isinstance(self.estimator, FrozenEstimator):  # its set_params returns None
            raise TypeError(
                "estimator cannot be a FrozenEstimator by itself, which scikit-learn's searchers "
                "cannot set up: give a pipeline with it as a step, such as "
                'Pipeline([("model", frozen)]); further ones are candidates for that step.'
            )
        if hasattr(self.estimator, "get_params"):
            try:
                self.estimator.get_params()
            except TypeError as error:  # of a class, which has no `self`
                name = getattr(self.estimator, "__name__", "LogisticRegression")
                raise TypeError(
                    f"estimator and each of its steps must be an instance, such as {name}(), and "
                    f"no class: {error}"
                ) from None

    def get_metadata_routing(self) -> Any:
        """Routing of scikit-learn's searchers; `fit` itself may request the protected rows.

        Returns
        -------
        routing : MetadataRouter
            Of this search and of the estimators and scorers inside it.
        """
        return super().get_metadata_routing().add_self_request(self)

    @Fitted
    def best_score_(self):
        """Released score of the winner; the error of a search without one gives the reason."""
        name = f"This {type(self).__name__}"
        if "privacy_" not in vars(self):
            raise AttributeError(f"{name} is not fitted yet, and has no best_score_.")
        reason = (
            "a score would have been mostly noise, so nothing was spent on it: set score_fraction "
            "to a number in (0, 1) to have one, in another fit, which spends another budget"
            if self.score_fraction
            else "score_fraction is 0, which spends all of the budget on the choice"
        )
        raise AttributeError(f"{name} has no best_score_: {reason}.")

    @Fitted
    def best_estimator_(self):
        """Winning model; the error of a search without one gives the reason."""
        name = f"This {type(self).__name__}"
        if "privacy_" not in vars(self):
            raise AttributeError(f"{name} is not fitted yet, and has no best_estimator_.")
        reason = NO_MODEL if self.refit else _NO_REFIT
        raise AttributeError(f"{name} has no best_estimator_: {reason}")

    @property
    def classes_(self) -> np.ndarray:
        """Class labels of the winner; the error of a search without a model gives the reason."""
        return self.best_estimator_.classes_

    @Fitted
    def feature_names_in_(self):
        """Column names of the winner; the error of a search without a model gives the reason."""
        return self.best_estimator_.feature_names_in_

    def _public_seed(self):
        """Seed of the candidate design: public, and fixed unless the user asks for another."""
        # Public draws need no secret, and a fixed seed makes runs comparable. A user's seed is
        # shared with the noise, but such a fit has no guarantee anyway.
        return 0 if self.random_state is None else self.random_state

    # scikit-learn's hooks. They find the protection of the running fit in a context variable, so
    # that nothing of it remains on the searcher.
    def _get_scorers(self):
        running = running_fit(self)
        if running is None:  # outside a fit, by scikit-learn's routing of metadata
            return super()._get_scorers()
        return running.scorers, running.metric

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        running_fit(self).cross_validate(evaluate_candidates, callback_ctx)

    def _select_best_index(self, refit, refit_metric, results):
        return running_fit(self).choose(results)

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        lists = (candidate_params, n_splits, out, more_results)
        # Deferred, as the table is not needed between the rounds of a search.
        make_table = partial(results_table, super()._format_results, *lists)
        running = running_fit(self)
        return make_table() if running is None else running.format_results(*lists, make_table)
