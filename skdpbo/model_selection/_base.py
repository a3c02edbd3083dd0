"""The searchers' common part: public cross-validation, then one private choice.

scikit-learn's ``BaseSearchCV`` does all that concerns public rows (cross-validation,
``cv_results_``, refit, callbacks, routing) and is given the public rows only. Its hooks used here,
and nowhere else: ``_get_scorers`` (which losses), ``_run_search`` (which candidates),
``_format_results`` (the table), ``_select_best_index`` (who wins), ``_get_routed_params_for_fit``.
"""

import numbers
import warnings
from abc import abstractmethod
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

from joblib import parallel_config
from sklearn.base import clone
from sklearn.metrics import check_scoring

from skdpbo.model_selection._callbacks import begin_task, end_task
from skdpbo.model_selection._choice import PrivateChoice
from skdpbo.model_selection._chunked_fit import chunked_guarantee, fit_chunked
from skdpbo.model_selection._chunks import Chunks
from skdpbo.model_selection._evaluation import candidate_losses, record_losses
from skdpbo.model_selection._isolation import refuse_cached_functions
from skdpbo.model_selection._opening import open_session, warn_if_seeded
from skdpbo.model_selection._public_rounds import cross_validate_in_rounds
from skdpbo.model_selection._selected_fit import fit_selected, selected_guarantee
from skdpbo.model_selection._session import SESSION
from skdpbo.model_selection._sklearn import (
    BaseSearchCV,
    Interval,
    StrOptions,
    take_method_params,
)
from skdpbo.model_selection._unguided import fit_unguided
from skdpbo.privacy import LedgerMixin, charged_elsewhere

__all__ = ["BasePrivateSearchCV"]


class BasePrivateSearchCV(LedgerMixin, BaseSearchCV):
    """Base class of the private searchers; see `DPGridSearchCV` for the parameters and attributes.

    A sub-class says which candidates are tried: ``_run_search`` (guided by public scores) and
    ``_all_candidates`` (without cross-validation, ``guide=False``).
    """

    _parameter_constraints: ClassVar[dict] = {
        **{k: v for k, v in BaseSearchCV._parameter_constraints.items() if k != "refit"},
        # epsilon and delta are checked by the guarantee itself, which cannot be switched off.
        "epsilon": "no_validation",
        "delta": [Interval(numbers.Real, 0, 1, closed="left")],
        "mechanism": [StrOptions(set(PrivateChoice.SELECTIONS))],
        "loss_bound": [Interval(numbers.Real, 0, None, closed="neither"), None],
        "score_fraction": [Interval(numbers.Real, 0, 1, closed="left")],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "protect": [StrOptions({"validation", "all"})],
        "n_chunks": [Interval(numbers.Integral, 2, None, closed="left"), Chunks, None],
        "guide": ["boolean"],
        "refit": ["boolean", str],
        "random_state": ["random_state"],
    }
    # What a searcher without these parameters does.
    protect = "validation"
    selection = "profile"
    estimator_guarantee = None
    n_chunks = None

    @abstractmethod
    def __init__(
        self,
        estimator,
        *,
        epsilon,
        delta,
        mechanism,
        scoring,
        loss_bound,
        score_fraction,
        validation_fraction,
        protect,
        n_chunks,
        cv,
        guide,
        refit,
        n_jobs,
        verbose,
        pre_dispatch,
        error_score,
        return_train_score,
        random_state,
    ):
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.loss_bound = loss_bound
        self.score_fraction = score_fraction
        self.validation_fraction = validation_fraction
        self.protect = protect
        self.n_chunks = n_chunks
        self.guide = guide
        self.random_state = random_state

    @abstractmethod
    def _all_candidates(self):
        """List of candidates (dicts), from public randomness only."""

    def _prepare(self, session):
        """Make ready what a guided searcher keeps in the session."""

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        """Cross-validate all candidates at once; a guided searcher overrides this."""
        candidates = self._session().candidates
        self._evaluate_batch(evaluate_candidates, candidates, callback_ctx, "search")

    def fit(self, X, y=None, *, X_val=None, y_val=None, **params):
        """Search on the public rows and choose privately on the protected ones.

        With ``protect="all"`` there are no public rows: all of `X`, `y`, `X_val` and `y_val` is
        protected, and nothing is cross-validated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. All of them are public if `X_val` is given; else a fixed, data-independent
            fraction of them (`validation_fraction`) is protected and the others are treated as
            public. With ``protect="all"``: the rows that train, and without `X_val` also those
            that score. Lists then become arrays of objects: give arrays to steps that calculate.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets of `X`.
        X_val : array-like of shape (n_protected, n_features), default=None
            Protected rows: predicted and scored, never trained on. With ``protect="all"`` no
            record may also be in `X`.
        y_val : array-like of shape (n_protected,) or (n_protected, n_outputs), default=None
            Targets of `X_val`.
        **params : dict of str -> object
            As in `GridSearchCV.fit`: given to the estimator's ``fit``, the public scorer and the
            splitter. Entries as long as `X` go with their rows. Protected records are scored with
            equal weights. With ``protect="all"`` and a private estimator, entries as long as `X`
            or its training part are refused.

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
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        self._check_parameters()
        candidates = self._check_candidates()
        warn_if_seeded(self.random_state)
        if self.protect == "validation":
            return self._fit_validation(candidates, (X, y, X_val, y_val), params)
        fit_all = fit_selected if self.n_chunks is None else fit_chunked
        fit_all(self, candidates, X, y, X_val, y_val, params)
        return self

    def privacy_guarantee(self, n_samples=None):
        """What `fit` promises; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Number of rows given to `fit`, without `X_val`. Only a private estimator's own
            guarantee may depend on it (``protect="all"`` without `n_chunks`); it is asked for the
            part that trains.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Of one fit, void with a seed.
        """
        guarantee = self._promise(n_samples)
        if self.random_state is not None:
            return guarantee.voided(
                "the noise was drawn from a seed (random_state), so it can be recomputed and "
                "removed"
            )
        return guarantee

    def get_metadata_routing(self):
        """Routing of scikit-learn's searchers; `fit` itself may request `X_val` and `y_val`.

        Returns
        -------
        routing : MetadataRouter
            Of this search and of the estimators and scorers inside it.
        """
        return super().get_metadata_routing().add_self_request(self)

    def _check_parameters(self):
        if callable(self.refit):
            raise ValueError(
                "refit must be a bool or the name of a metric: a callable would choose from raw "
                "results, without noise."
            )
        self._validate_params()
        if self.n_chunks is not None and self.protect != "all":
            raise ValueError(
                f'n_chunks={self.n_chunks} needs protect="all": with protect="validation" the '
                "models are trained on public rows, which are not cut into chunks."
            )
        if self.estimator_guarantee is not None and (
            self.protect != "all" or self.n_chunks is not None
        ):
            raise ValueError(
                'estimator_guarantee needs protect="all" and no n_chunks: only there are models '
                "that are private themselves trained on protected rows."
            )
        if self.protect != "all":
            self._guarantee()
        elif self.n_chunks is not None:
            chunked_guarantee(self)

    def _check_candidates(self):
        """Return the candidates; a bad space or an unknown name is refused before any charge."""
        candidates = list(self._all_candidates())
        # The names depend on the space's dicts, not on every value: one candidate for each.
        for params in {tuple(params): params for params in candidates if params}.values():
            clone(self.estimator).set_params(**clone(params, safe=False))
        refuse_cached_functions(self.estimator, candidates, self.scoring)
        return candidates

    @contextmanager
    def _all_or_nothing(self):
        """Forget all that is fitted if a block fails that comes after the charge.

        A half-made release carries no statement. What is refused before leaves an earlier one.
        """
        try:
            yield
        except BaseException:
            self._forget()
            raise

    def _forget(self):
        """Drop the fitted attributes."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)

    def _promise(self, n_samples):
        """What `fit` promises with secret noise."""
        if self.protect != "all":
            return self._guarantee()
        if self.n_chunks is None:
            return selected_guarantee(self, n_samples)
        return chunked_guarantee(self)

    def _guarantee(self):
        """What a run with secret noise promises; also checks the privacy parameters."""
        return self._private_choice().guarantee

    def _private_choice(self):
        return PrivateChoice(self.mechanism, self.epsilon, self.score_fraction)

    def _score_noise(self, *, sensitivity, largest):
        """Standard deviation of the noise of `best_score_`, as a share of the score's range."""
        return self._private_choice().score_noise(sensitivity=sensitivity, largest=largest)

    def _public_random_state(self):
        """Seed of the candidate design: public, and fixed unless the user asks for another."""
        return 0 if self.random_state is None else self.random_state

    def _fit_validation(self, candidates, rows, params):
        """Fit with ``protect="validation"``: everything but one private choice is public."""
        guarantee = self.privacy_guarantee()
        session = open_session(self, candidates, rows, params, guarantee, super()._get_scorers)
        token = SESSION.set(session)
        try:
            # What is trained here is trained on public rows, and the choice is charged already.
            # joblib starts its workers anew where max_nbytes changes: one value for all of the fit.
            with self._all_or_nothing(), charged_elsewhere(), parallel_config(max_nbytes=None):
                self._forget()  # what an earlier fit has set, perhaps of another kind
                self._prepare(session)
                if self.guide:
                    super().fit(session.X, session.y, **session.fit_params)
                else:
                    fit_unguided(self, session)
        finally:
            SESSION.reset(token)
        self._publish(session, guarantee)
        return self

    def _session(self):
        """The session of this searcher's own running fit, or None."""
        session = SESSION.get()
        return session if session is not None and session.owner is self else None

    def _get_scorers(self):
        session = self._session()
        return super()._get_scorers() if session is None else (session.scorers, session.metric)

    def _select_best_index(self, refit, refit_metric, results):
        return self._choose(results["params"], results)

    def _choose(self, candidates, results=None):
        """Release the winner's index and put its score, if any, into the session."""
        session = self._session()
        best, total = self._private_choice().release(
            self._protected_totals(candidates),
            [0] * len(candidates),
            sensitivity=session.scorer.units,
            largest=session.protected.n_records * session.scorer.units,
            source=session.source,
        )
        session.release_score(total)
        return best

    def _search_chunks(self, search):
        """Release (candidates to publish, winner's index, score or None, further columns)."""
        best, total = search.release(self._private_choice())
        return search.candidates, best, None if total is None else search.score(total), {}

    def _protected_totals(self, candidates, **how):
        """Exact total losses on the protected records: for a mechanism, and nobody else."""
        return self._evaluate_protected(candidate_losses, candidates, **how)

    def _protected_losses(self, candidates, **how):
        """Exact losses of every protected record: for a mechanism, and nobody else."""
        return self._evaluate_protected(record_losses, candidates, **how)

    def _evaluate_protected(self, evaluate, candidates, **how):
        session = self._session()
        usual = {
            "protected": session.protected,
            "scorer": session.scorer,
            "fit_params": self._routed_fit_params(session),
            "raise_public_errors": isinstance(self.error_score, str),
            "n_jobs": self.n_jobs,
            "pre_dispatch": self.pre_dispatch,
        }
        return evaluate(self.estimator, candidates, session.X, session.y, **(usual | how))

    def _evaluate_publicly(self, evaluate_candidates, propose, callback_ctx):
        """Cross-validate publicly what ``propose(results)`` asks for, until it asks for nothing."""

        def evaluate(batch, search_ctx):
            return self._evaluate_batch(evaluate_candidates, batch, search_ctx, "candidates")

        cross_validate_in_rounds(self, self._session(), evaluate, propose, callback_ctx)

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        all_of_it = (candidate_params, n_splits, out, more_results)
        session = self._session()
        if session is None or session.scores_so_far is None:
            return super()._format_results(*all_of_it)
        make_table = partial(super()._format_results, *all_of_it)
        return session.scores_so_far.take(candidate_params, n_splits, out, make_table)

    def _evaluate_batch(self, evaluate_candidates, batch, parent_ctx, task_name):
        """Cross-validate a batch of candidates as one task of the callback protocol."""
        if parent_ctx is None:  # scikit-learn before 1.9
            return evaluate_candidates(batch)
        context = begin_task(
            parent_ctx,
            self,
            task_name=task_name,
            max_subtasks=len(batch) * self.n_splits_,
            sequential_subtasks=False,
        )
        results = evaluate_candidates(batch, callback_ctx=context)
        end_task(context, self)
        return results

    def _routed_fit_params(self, session):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said once by the public part
            params = take_method_params(session.X, session.fit_params)
            return self._get_routed_params_for_fit(params).estimator.fit

    def _search_unguided(self, session):
        """Return the candidates that are published and the winner's index among them."""
        return session.candidates, self._choose(session.candidates)

    def _publish(self, session, guarantee):
        """Put the private release, or nothing, in place of the public score; state the promise."""
        if session.best_score is not None:
            self.best_score_ = session.best_score
        elif hasattr(self, "best_score_"):
            del self.best_score_
        if self.scoring is None:
            # As in GridSearchCV, score() is the estimator's own.
            self.scorer_ = check_scoring(self.estimator, None)
        self.privacy_ = guarantee
