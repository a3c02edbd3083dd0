"""Base class of estimators whose fit spends one Gaussian budget on tables of numbers."""

from dataclasses import replace
from typing import ClassVar

from skdpbo._parameters import (
    ORDER_OF_GROUPS,
    OWN_GROUP,
    OWN_RECORD,
    bounds_or_default,
    conditional_if_subclassed,
    warn_caller,
)
from skdpbo._private_estimator import PrivateEstimator
from skdpbo.exceptions import HiddenColumnsWarning, WideBoundsWarning
from skdpbo.privacy import PrivacyGuarantee, mu_from_epsilon
from skdpbo.privacy._checks import (
    check_count,
    check_flag,
    check_mu_of_fit,
    check_positive,
    check_positive_delta,
)
from skdpbo.privacy._guarantee import about_groups


class GaussianEstimator(PrivateEstimator):
    """Base class of estimators with one Gaussian budget, and its guarantee.

    A sub-class has parameters `epsilon`, `delta` and `random_state`, and class attributes
    ``_mechanism`` (of the guarantee), ``_finite`` (assumptions about values that are public) and
    ``_theory`` (a page). ``_check_public(table, *targets)`` depends on shapes, types and
    parameters alone, and raises and warns before the charge; the default needs `X_bounds`.

    The order of a `fit`, for transformers that of `PrivateTransformer`:

    1. Checks of parameters, `check_same_length`, `checked_classes`. An error costs nothing.
    2. ``guarantee = self._guarantee_of_fit(groups)``; ``guarantee.mu`` is the whole budget.
    3. ``self._charged(guarantee, self._check_public, X, groups=groups)``; then `read_labels`
       and a `BoxedRows` of the table, with ``check_finite()``.
    4. Releases with the returned source and budgets from `split_budget`, under
       ``np.errstate(all="ignore")``. Sums take the ``sizes`` of the rows: a group counts as one.
    5. Fitted attributes from releases, then ``return self._close(n_units(table), guarantee)``.
    """

    _finite: ClassVar[tuple[str, ...]] = (
        "that no value is infinite, or missing where none may be, is public",
    )
    _theory = "docs/theory/private_classifiers.md"

    # Whether the parameters alone decide what `fit` publishes, so that it costs nothing.
    releases_nothing = False

    def _close(self, n_records, guarantee, hidden=(), is_wide=False, shows=True):
        """Set the attributes that every fit has; then warn, since a warning may be an error.

        Parameters
        ----------
        n_records : int
            Number of records, or of groups.
        guarantee : PrivacyGuarantee
        hidden : sequence of int, default=()
            Result of `hidden_columns`: columns of X, then targets.
        is_wide : bool, default=False
            Result of `is_box_wide`.
        shows : bool, default=True
            Whether the model shows an effect of X, as given to `is_box_wide`.
        """
        self.n_records_ = n_records
        self.privacy_ = replace(guarantee, n_protected=n_records)
        if len(hidden):
            p = self.n_features_in_
            columns = getattr(self, "feature_names_in_", range(p))
            names = dict.fromkeys(str(columns[j]) if j < p else "y" for j in hidden)
            warn_caller(
                f"The released spread of {', '.join(names)} is within its own noise, that of at "
                "least half of the columns far above: its scale is noise. The bounds may be much "
                "wider than the values, or in other units; columns that hardly vary may be left "
                "out.",
                HiddenColumnsWarning,
            )
        elif is_wide:
            warn_caller(
                "The released squares of X are within their noise, far below those of rows that "
                "fill half of X_bounds, which may be much wider than the values, or in other "
                "units. Give narrower ones."
                if shows
                else "The released squares of X and its released effect on y are within their "
                "noise: predictions hardly depend on X. X_bounds may be much wider than the "
                "values, or in other units, and narrower ones better; or the records are too few "
                "for this epsilon, or without effect.",
                WideBoundsWarning,
            )
        return self

    def _check_public(self, table, counted=True):
        """Return the public box of X; `counted`: whether the number of rows is public."""
        return bounds_or_default(self.X_bounds, table.shape[1], "X_bounds", self)

    def privacy_guarantee(
        self, n_samples: int | None = None, *, groups: bool = False
    ) -> PrivacyGuarantee:
        """Return the guarantee of `fit`; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Number of records, at least 1; the budget does not depend on it.
        groups : bool, default=False
            Whether it is that of a fit with groups, for all records of one group.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Guarantee of all that one fit publishes.
        """
        if n_samples is not None:
            check_count(n_samples, "n_samples")
        stated = self._of_records("group" if check_flag(groups, "groups") else "record")
        if groups:
            stated = about_groups(stated, protects="groups of training records")
        return conditional_if_subclassed(self, stated)

    def _guarantee_of_fit(self, groups):
        # A user's sub-class may override the method without the parameter `groups`.
        return self.privacy_guarantee() if groups is None else self.privacy_guarantee(groups=True)

    def _of_records(self, unit):
        """Return the guarantee, whose assumptions name the `unit`, "record" or "group"."""
        # Worded alike for all steps of a pipeline, which states it once.
        of_all = (
            f"the number of {unit}s, the columns and the types are public",
            "all parameters were chosen without looking at the records",
        )
        if self.releases_nothing:
            check_positive(self.epsilon, "epsilon")  # invalid even if nothing is spent
            check_positive_delta(self.delta)
            return PrivacyGuarantee(
                epsilon=0.0,
                protects="training records",
                mechanism="given parameters alone: no value of a record is read",
                assumptions=of_all,
                reference=self._theory,
            )
        labels_are_read = getattr(self, "classes", ()) is None  # a classifier without given classes
        # The largest mu for epsilon and delta; sub-classes split mu^2 among their releases.
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=check_mu_of_fit(mu_from_epsilon(self.epsilon, self.delta)),
            protects="training records",
            mechanism=self._mechanism,
            assumptions=(
                *of_all,
                *self._finite,
                *(("the labels that occur are public",) if labels_are_read else ()),
                # Rounding of matrix products depends on places, and so on the order of groups.
                *((OWN_RECORD,) if unit == "record" else (OWN_GROUP, ORDER_OF_GROUPS)),
                "running time and memory use are not observed",
            ),
            reference=f"Dong, Roth & Su 2022, Theorem 2.7 and Corollary 3.3; {self._theory}",
        ).voided_if_seeded(self.random_state)
