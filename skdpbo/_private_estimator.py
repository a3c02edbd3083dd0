"""Base class of estimators that read protected tables in `fit`: check, charge, and then read."""

import warnings
from contextvars import copy_context
from functools import partial, wraps
from typing import ClassVar

import numpy as np
from scipy.special import errstate as special_errstate
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from skdpbo._attempt import attempt_publicly
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._isolation._lazy_rows import lazy
from skdpbo._isolation._silence import warn_if_tracked
from skdpbo._parameters import warn_if_seeded
from skdpbo._record_groups import PlacedRows, check_group_labels, group_codes
from skdpbo._schema import (
    checked_table,
    has_numeric_type,
    is_dask,
    length_of,
    public_shape,
    refuse_sparse_and_complex,
    refuse_types,
)
from skdpbo.mechanisms import noise_source
from skdpbo.privacy import LedgerMixin, charge_active_ledger
from skdpbo.privacy._stated_html import StatedHTML


class PrivateEstimator(LedgerMixin, StatedHTML, BaseEstimator):
    """Base class of estimators that charge a ledger before they read protected rows.

    A sub-class has the parameter `random_state` and a method ``privacy_guarantee(n_samples=None)``,
    which needs no data. Its `fit` checks parameters and shapes, calls `_charged`, and sets
    ``privacy_`` last. `__init_subclass__` wraps `fit` so that it completes or changes nothing.
    """

    _takes: ClassVar[tuple[str, ...]] = ()  # input tags of scikit-learn that are True for X

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        fit = vars(cls).get("fit")
        if fit is None:
            return

        def rounded(*args, **kwargs):
            # No errors or warnings of overflow, which a caller may have asked numpy and scipy for:
            # they would cost the budget. Values that are not finite are refused where it matters.
            with np.errstate(all="ignore"), special_errstate(all="ignore"):
                return fit(*args, **kwargs)

        # A fit that stops, by an error or an interrupt, leaves the estimator unchanged. Otherwise
        # it would hold released values without their guarantee, or next to those of another fit.
        @wraps(fit)
        def complete_or_unchanged(self, *args, **kwargs):
            before = vars(self).copy()
            try:
                # In a copy of the context: an interrupt may leave numpy's error state changed.
                return copy_context().run(rounded, self, *args, **kwargs)
            except BaseException:
                # With a new `privacy_` the fit is complete, and a later warning was an error.
                if vars(self).get("privacy_") is before.get("privacy_"):
                    vars(self).clear()
                    vars(self).update(before)
                raise

        cls.fit = complete_or_unchanged

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        for name in self._takes:
            setattr(tags.input_tags, name, True)
        return tags

    def _charged(self, guarantee, check, X, *targets, groups=None):
        """Check the input, charge the ledger, and return what `fit` needs.

        Errors and warnings before the charge depend on shapes, types and parameters alone.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Guarantee of all that the fit releases.
        check : callable
            Called with the table and the targets before any value is read; raises errors that must
            come before the charge, and warns.
        X : array-like
            Protected.
        *targets : array-like or None
            Protected.
        groups : sequence of hashable, default=None
            Label of the group of each row. Protected, and read after the charge.

        Returns
        -------
        table : ndarray, Dask array or CSR matrix, or PlacedRows with groups
            Protected.
        checked : object
            Result of `check`.
        source : RandomSource
        """
        source = noise_source(self.random_state)  # an invalid random_state costs nothing
        if groups is not None:
            if is_dask(X):
                raise TypeError("groups need X in memory or in a memory map, not a Dask array.")
            check_group_labels(groups, length_of(X, "X"), name="groups", rows="X")
            if (public_shape(X) or ())[1:] == (0,):  # scikit-learn's error quotes the length, too
                raise ValueError("X must have at least one column.")
        if guarantee.epsilon > 0:  # the fit draws noise
            warn_if_seeded(self.random_state)
            warn_if_tracked()
        given = [values for values in (X, *targets) if values is not None]
        readable = all(map(has_numeric_type, given))
        self._refuse_types(X)  # public errors, before the charge
        for y in targets:
            refuse_sparse_and_complex(y, "y")
            refuse_types(y, "y")
        rehearsed = not readable and self._rehearse(check, X, *targets)
        if not readable:  # lists and objects have to be read to know shape and type
            charge_active_ledger(guarantee, type(self).__name__, self)
        table = read(self._checked_table, lazy(X))
        targets = [lazy(y) for y in targets]
        check_columns(self, X, table)
        # All public errors come here, since a charge is never given back.
        with warnings.catch_warnings():
            if rehearsed:  # the warnings have been given
                warnings.simplefilter("ignore")
            checked = check(table, *targets)
        if readable:  # before any value is read
            charge_active_ledger(guarantee, type(self).__name__, self)
        if groups is not None:
            codes = read(group_codes, groups, length_of(X, "X"), "groups", "X")
            table = self._grouped(table, codes)
        return table, checked, source

    def _refuse_types(self, X):
        """Refuse what `fit` cannot take, by containers and declared types alone."""
        refuse_sparse_and_complex(X, "X", sparse="sparse" in self._takes)
        refuse_types(X, "X")

    def _rehearse(self, check, *tables):
        """Run a check on zeros of the same shapes, before the charge; return whether it ran.

        Containers without a shape other than lists have to be read to know it. For these some
        shapes are tried, without warnings: an error in all of them is due to a parameter.
        """
        shapes = [values is None or public_shape(values) for values in tables]
        if None not in shapes:
            self._check_zeros(check, tables[0], shapes)
            return True
        n, errors, known = length_of(tables[0], "X"), [], vars(self).copy()
        for own, others in (((n, 1), (n,)), ((n, 1), (n, 1)), ((n, 2), (n, 2))):
            guesses = [own, *[others] * len(shapes[1:])]
            stand_ins = [g if s is None else s for g, s in zip(guesses, shapes, strict=True)]
            try:
                with warnings.catch_warnings(action="ignore"):
                    errors.append(attempt_publicly(self._check_zeros, check, None, stand_ins)[1])
            finally:  # attributes of an earlier fit stay, as these shapes are guesses
                vars(self).clear()
                vars(self).update(known)
        if None not in errors and len({(type(error), str(error)) for error in errors}) == 1:
            raise errors[0]
        return False

    def _check_zeros(self, check, X, shapes):
        # Views of a single zero, which take no memory.
        zeros = [None if shape is True else np.broadcast_to(0.0, shape) for shape in shapes]
        table = self._checked_table(zeros[0])
        check_columns(self, X, table)  # sets attributes that `check` may need
        check(table, *zeros[1:])

    def _checked_targets(self, y):
        """Protected: return the targets as an array of real numbers."""
        return read(partial(checked_table, name="y", ensure_2d=False, estimator=self), y)

    def _grouped(self, table, codes):
        """Protected: return the rows with their groups."""
        return PlacedRows(table, codes)

    def _checked_table(self, X):
        """Check the schema; values are checked when they are read."""
        return checked_table(
            X, "X", ensure_2d=True, estimator=self, accept_sparse="sparse" in self._takes
        )


class NoisyRegressor(MultiOutputMixin, RegressorMixin):
    """Mixin of private regressors."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # with few records the privacy noise prevails
        return tags


def check_columns(estimator, X, table, *, reset=True):
    """Set names and number of columns, or check them, without reading rows of a list.

    Parameters
    ----------
    estimator : estimator
    X : array-like
        As given by the user, with column names if there are any.
    table : array of shape (n, d), or list of d columns
        Table made of `X`.
    reset : bool, default=True
        Whether names and number are set; otherwise they are compared with those of the fit.
    """
    if not hasattr(X, "shape"):
        width = len(table) if isinstance(table, list) else table.shape[1]
        X = np.broadcast_to(0.0, (1, width))
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def read(function, values, *args):
    """Protected: call a function of values, in isolation if their types may run user code."""
    if has_numeric_type(values):
        return function(values, *args)
    return in_isolation(function, values, *args)
