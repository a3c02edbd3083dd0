"""Base classes of protections: check, promise, search and publish one fit.

`AllRecordsProtection` is the base of protections of every record, without public rows.
"""

import warnings
from functools import partial

from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import check_scoring

from skdpbo._class_labels import refuse_fractions, refuse_other_kind
from skdpbo._isolation._estimator_parts import parts_inside, refuse_cached_functions
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._isolation._silence import warn_if_tracked
from skdpbo._parameters import conditional_if_subclassed, warn_caller
from skdpbo._record_groups import group_codes
from skdpbo._schema import declared_types, public_shape
from skdpbo.model_selection._sklearn import (
    final_step,
    n_rows,
    param_columns,
    results_table,
    take_method_params,
    with_params,
)
from skdpbo.model_selection.evaluation._row_wise import row_wise_assumption, unverified_steps
from skdpbo.model_selection.private_training._estimators import stated_classes
from skdpbo.model_selection.private_training._statements import warn_if_void_for_groups
from skdpbo.model_selection.protection._setup import (
    check_rows,
    refuse_revealing_parts,
    warn_of_silent_callbacks,
)
from skdpbo.model_selection.rows._object_table import by_row
from skdpbo.model_selection.rows._overlap import (
    entries_assumption,
    entry_length,
    refuse_shared_rows,
)
from skdpbo.model_selection.rows._protected import NotPickled, ProtectedParts
from skdpbo.model_selection.scoring._losses import UserLoss
from skdpbo.model_selection.scoring._resolve import refuse_other_task
from skdpbo.model_selection.scoring._scorer import PerRecordScorer
from skdpbo.privacy import charge_active_ledger
from skdpbo.privacy._guarantee import restated
from skdpbo.privacy.ledger._receipts import payments_ending


class Protection(NotPickled):
    """Protection of the records of one fit.

    A sub-class has these methods:

    - ``check()`` refuses combinations of parameters; no row is read.
    - ``promise(n_samples)`` returns the guarantee of a fit with secret noise; the number may be
      None. ``for_groups(guarantee)`` returns that of groups instead of records, or refuses.
    - ``set_up(rows, params)`` refuses rows by their schema and returns the guarantee of this fit;
      no value is read. ``try_publicly()`` prepares the search, and raises errors and warnings
      found on public and synthetic rows.
    - ``run(charge)`` searches and returns the release, as `Chosen`. It calls ``charge()`` once, at
      the last moment before a protected value is read.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
    space : object
        Search space of the candidates.
    candidates : list of dict
        Unknown parameter names are refused.
    """

    public_scorer = None  # without `scoring`, that of the estimator

    def __init__(self, searcher, space, candidates):
        self.searcher, self.space, self.candidates = searcher, space, candidates
        if not candidates:
            raise ValueError("No fits were performed. Were there no candidates?")
        # One candidate for each set of names.
        for params in {tuple(params): params for params in candidates if params}.values():
            with_params(searcher.estimator, params)
        refuse_cached_functions(searcher.estimator, candidates, searcher.scoring)

    def search(self, rows, params):
        """Search and set the fitted attributes.

        The order matters: no budget is spent on a fit that exceeds it or fails for a public reason,
        and no protected value is read before the charge.

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
        else:
            refuse_other_task(self.searcher.scoring, self.searcher.estimator, rows[1])
        params = {name: by_row(entry) for name, entry in params.items()}
        guarantee = self.set_up(rows, params)
        # Name of the charge in the ledger, from public classes.
        model = type(final_step(self.searcher.estimator)).__name__
        payment = guarantee, f"{type(self.searcher).__name__} of {model}", self.searcher
        charge = partial(charge_active_ledger, *payment, own_rows=own_rows)
        charge(record=False)  # raises if an active ledger cannot pay; charges nothing
        with payments_ending():
            self.try_publicly()
            try:
                self.forget()  # attributes of an earlier fit, perhaps of another kind
                chosen = self.run(charge)
                self.publish(guarantee, chosen)
            except BaseException:
                self.forget()  # no attributes without a guarantee
                raise
        self.warn_of_result(guarantee, chosen)

    def fitted_attributes(self, chosen):
        """Return the fitted attributes by name, except those of the winner; post-processing."""
        columns = results_table(dict, param_columns(chosen.candidates))
        table = {**columns, "params": chosen.candidates, **chosen.columns}
        own = {"cv_results_": table, "multimetric_": False, "scorer_": self.scorer}
        return own | chosen.attributes

    def publish(self, guarantee, chosen):
        """Set the fitted attributes: every value is public or released."""
        searcher = self.searcher
        for name, value in self.fitted_attributes(chosen).items():
            setattr(searcher, name, value)
        # Replace values that scikit-learn has set from public scores.
        searcher.best_index_ = chosen.index
        searcher.best_params_ = searcher.cv_results_["params"][chosen.index]
        vars(searcher).pop("best_score_", None)
        vars(searcher).pop("best_score_std_", None)
        if chosen.score is not None:
            searcher.best_score_, searcher.best_score_std_ = chosen.score.value, chosen.score.std
        if searcher.scoring is None:
            # As in GridSearchCV, score() is the estimator's own.
            searcher.scorer_ = self.public_scorer
        names = getattr(vars(searcher).get("best_estimator_"), "feature_names_in_", None)
        if names is not None:
            searcher.feature_names_in_ = names
        searcher.privacy_ = guarantee  # last, as it marks a fitted search

    def warn_of_result(self, guarantee, chosen):
        """Warn about the release, which is kept even if a filter makes the warning an error."""

    def stated(self, guarantee, n_protected=None, n_public=None, entries=None, X=None):
        """Return the guarantee of this fit, with its assumptions and the numbers of records.

        It is conditional if steps or scorers are not verified to be row-wise, and names them.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
        n_protected, n_public : int, default=None
        entries : str, default=None
            Of `entries_assumption`.
        X : training rows, default=None
            Only their types are read.
        """
        steps = self.searcher.estimator, self.candidates
        types = [] if X is None else declared_types(X)
        # Whether cells may be Python objects of any type. The declared type of a list is None.
        objects = any(dtype is None or getattr(dtype, "char", "") == "O" for dtype in types)
        names = unverified_steps(*steps, objects=objects)
        if names:
            guarantee = guarantee.assuming(row_wise_assumption(names), status="conditional")
        if any(isinstance(part, FrozenEstimator) for part in parts_inside([*steps])):
            # It may be part of the release, and its cost is not included here.
            guarantee = guarantee.assuming(_FITTED_BEFORE)
        guarantee = conditional_if_subclassed(self.searcher, guarantee)
        guarantee = guarantee.voided_if_seeded(self.searcher.random_state)
        scorer = self.searcher.scoring
        scorer = scorer.get(self.searcher.refit) if isinstance(scorer, dict) else scorer
        # A user's subclass may have any methods; of our classes only a user's loss is unverified.
        ours = type(scorer).__module__.partition(".")[0] == __name__.partition(".")[0]
        own_loss = isinstance(getattr(scorer, "_loss", None), UserLoss)
        if isinstance(scorer, PerRecordScorer) and (own_loss or not ours):
            guarantee = guarantee.assuming(
                f"the scorer {scorer.name!r}, whose functions are not verified, scores each record "
                "by itself and keeps nothing between calls",
                status="conditional",
            )
        if entries is not None:
            guarantee = guarantee.assuming(entries, status="conditional")
        return restated(guarantee, n_protected=n_protected, n_public=n_public)

    def forget(self):
        """Drop the fitted attributes."""
        fitted = vars(self.searcher)
        for name in [name for name in fitted if name.endswith("_") and name[0] != "_"]:
            del fitted[name]

    def routed(self, X, params, counted=True):
        """Return the arguments of the estimator's ``fit`` other than the rows.

        Warn where the scorer requests some: it has none of protected records. Unless `counted`,
        the number of rows is secret.
        """
        for name, entry in params.items():
            size, n = entry_length(entry), n_rows(X)
            if name.rpartition("__")[2] == "sample_weight" and size not in (None, n):
                # On protected rows every training would silently fail.
                found = f"of {n} rows of X: {size}" if counted else "row of X"
                raise ValueError(f"{name} must have one value for each {found}.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # given for the public rows
            params = take_method_params(X, params)
            routed = self.searcher._get_routed_params_for_fit(params)
        if requested := get_config()["enable_metadata_routing"] and [*routed.scorer.score]:
            warn_caller(
                f"{', '.join(requested)}, requested for scores, has no effect on protected "
                "records, which are scored with equal weights. Request it for fit, and not for "
                "score, to score public rows, if any, in the same way.",
                UserWarning,
            )
        return routed.estimator.fit


_DISJOINT = "no record is both in X and in X_val"
_FITTED_BEFORE = (
    "what a FrozenEstimator holds was fitted on public rows, or released before at its own cost"
)


class AllRecordsProtection(Protection):
    """Every record is protected, in training and in scoring.

    A sub-class has ``planned(parts)``, which determines scorer and plan from public sizes, and
    returns the guarantee of single records.
    """

    cuts_entries = True  # whether entries of fit as long as X go with its rows

    def check(self):
        """Refuse options that would be further releases, or need public rows."""
        searcher = self.searcher
        warn_of_silent_callbacks(searcher)
        warn_if_tracked()  # a tracker may score a pipeline around the search on its rows
        effective_n_jobs(searcher.n_jobs)  # raises for 0
        if searcher.cv is not None:
            raise ValueError('cv must be None with protect="all": no row is public to be split.')
        if searcher.return_train_score:
            raise ValueError(
                'return_train_score must be False with protect="all": no row is public to be '
                "scored."
            )
        if searcher.memory is not None:
            raise ValueError(
                'memory must be None with protect="all": no row is public, and nothing else is '
                "kept."
            )
        if isinstance(searcher.error_score, str):
            raise ValueError(
                'error_score="raise" is not supported with protect="all": an error could quote a '
                "record. A model that fails has the worst score."
            )
        if isinstance(searcher.scoring, list | tuple | set | dict):
            raise ValueError(
                'scoring cannot hold several metrics with protect="all": each further score would '
                "be a release of its own."
            )
        refuse_revealing_parts(searcher.estimator, self.candidates)

    def set_up(self, rows, params):
        """Refuse rows by their schema and return the guarantee of this fit; no value is read."""
        X, y, X_val, y_val, groups_val = rows
        self.params = dict(params)
        groups = self.params.pop("groups", None)
        counted = groups is None
        X, y, X_val, y_val = check_rows(X, y, X_val, y_val, groups_val, counted)
        for name, values in (("X", X), ("X_val", X_val)):
            if type(values) is list and len(public_shape(values) or ()) > 2:
                raise ValueError(
                    f"{name} must have at most two dimensions, as it is a list; give an array if "
                    "the estimator takes such rows."
                )
        classes = stated_classes(self.searcher.estimator)
        if classes is not None:
            refuse_other_kind(classes, y)
            refuse_fractions(classes)
        if groups is not None or groups_val is not None:
            # A part without groups would protect single records, with another guarantee.
            if groups is None or (groups_val is None) != (X_val is None):
                raise ValueError(
                    "groups must name the group of each row of X, and groups_val of each row of "
                    "X_val, if it is given: every record is protected."
                )
            groups = in_isolation(group_codes, groups, n_rows(X), "groups", "X")
            if X_val is not None:
                groups_val = in_isolation(group_codes, groups_val, n_rows(X_val))
        self.parts = parts = ProtectedParts(X, y, X_val, y_val, groups, groups_val)
        guarantee = self.planned(parts)
        if X_val is not None:  # copied rows are not found below, only shared memory
            guarantee = guarantee.assuming(_DISJOINT)
        refuse_shared_rows(parts.X, parts.X_val)
        # The plan for records holds for groups, none of which is divided between parts.
        if groups is not None:
            of_record, guarantee = guarantee, self.for_groups(guarantee)
            warn_if_void_for_groups(of_record, guarantee)
        n_split = n_rows(X) if self.cuts_entries else None
        entries = entries_assumption(self.params, n_split, None)
        # With groups, these numbers count groups.
        n_protected = parts.n_samples + (parts.n_validation or 0)
        return self.stated(guarantee, n_protected, entries=entries, X=X)
