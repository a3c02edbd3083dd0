"""One protection of one fit: check, promise, search, publish."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from sklearn.base import clone
from sklearn.metrics import check_scoring

from skdpbo._isolation._isolated_calls import refuse_cached_functions
from skdpbo.model_selection._sklearn import masked_param_columns, take_method_params
from skdpbo.model_selection.evaluation._row_wise import row_wise_assumption, unverified_steps
from skdpbo.model_selection.scoring._multimetric import scorer_assumption
from skdpbo.model_selection.scoring._score_release import ReleasedScore
from skdpbo.privacy import PrivacyGuarantee, charge_active_ledger
from skdpbo.privacy._guarantee import restated

__all__ = ["Protection", "Release"]


@dataclass(frozen=True, kw_only=True)
class Release:
    """All that a fit publishes; every value is public or released.

    Attributes
    ----------
    guarantee : PrivacyGuarantee
    table : dict
        ``cv_results_``.
    index : int
        Of the winner.
    score : ReleasedScore, float or None
    scorer : PerRecordScorer or None
        None: scikit-learn has set the scorers.
    attributes : dict of str -> object
        Further fitted attributes.
    """

    guarantee: PrivacyGuarantee
    table: dict
    index: int
    score: ReleasedScore | float | None
    scorer: Any = None
    attributes: dict = field(default_factory=dict)


class Protection(ABC):
    """Protection of the records of one fit.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    """

    public_scorer = None  # without `scoring`, the estimator's own

    def __init__(self, searcher):
        self.searcher = searcher

    def __reduce__(self):
        raise TypeError("a running fit is not pickled.")

    @cached_property
    def space(self):
        """Space of the candidates."""
        return self.searcher._space()

    @cached_property
    def candidates(self):
        """Candidates, list of dict; a bad space or an unknown name is refused here."""
        searcher = self.searcher
        candidates = list(searcher._candidates(self.space))
        if not candidates:
            raise ValueError("No fits were performed. Were there no candidates?")
        # The names depend on the space's dicts, not on every value: one candidate for each.
        for params in {tuple(params): params for params in candidates if params}.values():
            clone(searcher.estimator).set_params(**clone(params, safe=False))
        refuse_cached_functions(searcher.estimator, candidates, searcher.scoring)
        return candidates

    @abstractmethod
    def check(self):
        """Refuse parameters that do not go together; no row is seen."""

    @abstractmethod
    def promise(self, n_samples):
        """Return the guarantee of a fit with secret noise; `n_samples` may be None."""

    def search(self, rows, params):
        """Search and return the `Release`.

        The order is the promise: nothing is spent on a fit that the budget cannot pay or that
        fails for a public reason, and no protected value is read before the charge.

        Parameters
        ----------
        rows : tuple (X, y, X_val, y_val, groups_val)
            As given to ``fit``.
        params : dict
            Further entries of ``fit``.
        """
        own_rows = rows[2] is not None
        if self.searcher.scoring is None:  # raises without a method `score`
            self.public_scorer = check_scoring(self.searcher.estimator, None)
        guarantee = self.set_up(rows, params)
        payment = guarantee, type(self.searcher).__name__, self.searcher
        charge = partial(charge_active_ledger, *payment, own_rows=own_rows)
        charge(record=False)  # raises where the active ledgers cannot pay; charges nothing
        self.try_publicly()
        try:
            self.forget()  # what an earlier fit has set, perhaps of another kind
            chosen = self.run(charge)
        except BaseException:
            self.forget()  # a half-made release carries no statement
            raise
        return self.release(guarantee, chosen)

    @abstractmethod
    def set_up(self, rows, params):
        """Refuse rows by their schema and return the guarantee of this fit; no value is read."""

    @abstractmethod
    def try_publicly(self):
        """Make ready, and refuse or warn of what public and synthetic rows show."""

    @abstractmethod
    def run(self, charge):
        """Protected: search and return what is released, as `Chosen`.

        Parameters
        ----------
        charge : callable
            Without arguments. Called once, at the last moment before a protected value is read.
        """

    def release(self, guarantee, chosen):
        """Return the `Release` made of what `run` has returned; post-processing."""
        return Release(
            guarantee=guarantee,
            table={
                **masked_param_columns(chosen.candidates),
                "params": chosen.candidates,
                **chosen.columns,
            },
            index=chosen.index,
            score=chosen.score,
            scorer=self.scorer,
            attributes={"multimetric_": False} | chosen.attributes,
        )

    def publish(self, release):
        """Set the fitted attributes."""
        searcher = self.searcher
        searcher.cv_results_ = release.table
        searcher.best_index_ = release.index
        searcher.best_params_ = release.table["params"][release.index]
        vars(searcher).pop("best_score_", None)  # scikit-learn's is of the public rows
        vars(searcher).pop("best_score_std_", None)
        if release.score is not None:
            searcher.best_score_, searcher.best_score_std_ = release.score.value, release.score.std
        if searcher.scoring is None:
            # As in GridSearchCV, score() is the estimator's own.
            searcher.scorer_ = self.public_scorer
        elif release.scorer is not None:
            searcher.scorer_ = release.scorer
        for name, value in release.attributes.items():
            setattr(searcher, name, value)
        names = getattr(vars(searcher).get("best_estimator_"), "feature_names_in_", None)
        if names is not None:
            searcher.feature_names_in_ = names
        searcher.privacy_ = release.guarantee

    def stated(self, guarantee, n_protected=None, n_public=None, entries=None):
        """Return the guarantee of this fit, with its assumptions and the numbers of records.

        It is conditional on steps and scorers that are not verified to be row-wise, by name.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
        n_protected, n_public : int, default=None
        entries : str, default=None
            Of `entries_assumption`.
        """
        names = unverified_steps(self.searcher.estimator, self.candidates)
        if names:
            guarantee = guarantee.assuming(row_wise_assumption(names), status="conditional")
        guarantee = guarantee.voided_if_seeded(self.searcher.random_state)
        for text in (scorer_assumption(self.searcher), entries):
            if text is not None:
                guarantee = guarantee.assuming(text, status="conditional")
        return restated(guarantee, n_protected=n_protected, n_public=n_public)

    def forget(self):
        """Drop the fitted attributes."""
        fitted = vars(self.searcher)
        for name in [name for name in fitted if name.endswith("_") and name[0] != "_"]:
            del fitted[name]

    def routed(self, X, params):
        """Return the arguments of the estimator's ``fit`` other than the rows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the public part gives them
            params = take_method_params(X, params)
            return self.searcher._get_routed_params_for_fit(params).estimator.fit
