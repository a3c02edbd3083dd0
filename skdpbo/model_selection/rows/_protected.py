"""Public and protected rows, separated without reading a value.

Public rows train, cross-validate and fit the preprocessing; protected rows are predicted and
scored. The schema (numbers of rows and columns, column names, types) is public. A protected value
that does not fit the schema marks its own record as unreadable and changes nothing else.
"""

from dataclasses import dataclass

import numpy as np

from skdpbo.model_selection._sklearn import n_rows, take_rows
from skdpbo.model_selection.rows._object_table import as_objects, list_width
from skdpbo.model_selection.rows._public_types import as_public_schema, as_public_targets, sizes
from skdpbo.model_selection.rows._settled_types import settled_rows, settled_targets


def number_of_units(X, groups):
    """Return the number of groups, or of rows if there are no groups. Public."""
    # initial=-1 avoids an error for no rows, whose number may be secret.
    return n_rows(X) if groups is None else int(groups.max(initial=-1)) + 1


@dataclass(repr=False)
class ProtectedParts:
    """Rows of one fit, all of them protected. The numbers of units are public.

    Attributes
    ----------
    X, y : rows and targets that train and, without `X_val`, that score; `y` may be None
    X_val, y_val : rows and targets that score, or None
    groups, groups_val : ndarray of dtype intp, or None
        Number of the group of each row of `X` and of `X_val`. Protected.
    """

    X: object
    y: object
    X_val: object = None
    y_val: object = None
    groups: object = None
    groups_val: object = None

    @property
    def containers(self):
        """Containers of rows and targets."""
        return [self.X, self.y, self.X_val, self.y_val]

    def opened(self, labels):
        """Protected, after the charge: return the parts with the types that ``fit`` gets.

        `labels`: whether targets are labels.
        """
        # Each typed by itself, as both are protected.
        options = {"width": list_width(self.X), "labels": labels}
        training = _settled(self.X, self.y, **options)
        validation = _settled(self.X_val, self.y_val, **options)
        return ProtectedParts(*training, *validation, self.groups, self.groups_val)

    @property
    def n_samples(self):
        """Number of units of the rows that train."""
        return number_of_units(self.X, self.groups)

    @property
    def n_validation(self):
        """Number of units of `X_val`, or None."""
        return None if self.X_val is None else number_of_units(self.X_val, self.groups_val)


def _settled(X, y, *, width, labels):
    """Return rows and targets as ``fit`` gets them. Protected; after the charge."""
    X, y = _repeatable(X), _repeatable(y)
    X, y = _without_labels(as_objects(X, width)), _without_labels(y)
    return settled_rows(X), settled_targets(y, labels)


def _repeatable(values):
    """Return rows or targets whose labels may repeat: a good row may stand in for a bad one."""
    flags = getattr(values, "flags", None)  # of pandas
    is_allowed = getattr(flags, "allows_duplicate_labels", True)
    return values if is_allowed else values.set_flags(allows_duplicate_labels=True)


def _without_labels(values):
    """Return rows or targets with a new index, as one record's label may type the old one."""
    if not hasattr(values, "reset_index"):
        return values
    plain = values.reset_index(drop=True)
    is_plain = type(plain.index) is type(values.index) and plain.index.equals(values.index)
    return values if is_plain else plain


def rows_of_units(groups, units):
    """Protected: return the positions of the rows of some units, which are groups or rows."""
    return units if groups is None else np.flatnonzero(np.isin(groups, units))


def take_units(X, y, groups, units=None):
    """Protected: return the rows of some units; without a copy for all units.

    Parameters
    ----------
    X : indexable of shape (n, ...)
    y : indexable of shape (n, ...), or None
    groups : ndarray of shape (n,), dtype intp, or None
        Number of the group of each row, from 0.
    units : ndarray of int, default=None
        Numbers of groups, or positions of rows if there are no groups. None: all.

    Returns
    -------
    X, y, groups
        Rows of these units; the groups are renumbered from 0.
    """
    if units is None or len(units) == number_of_units(X, groups):
        return X, y, groups
    rows = rows_of_units(groups, units)
    inside = None if groups is None else np.searchsorted(np.sort(units), groups[rows])
    return take_rows(X, rows), None if y is None else take_rows(y, rows), inside


_SPLIT_SEED = 20150717  # public and fixed: the split must not depend on the data
_KINDS = dict.fromkeys("biuf", "numbers") | {
    "M": "dates",
    "m": "durations",
    "Period": "periods",
    "Interval": "intervals",
}
# Different kinds of public and protected columns of which values can be converted. One text among
# protected cells makes all of them texts.
_OF_DATES = "dates", "durations", "periods", "intervals"
_READ = {
    *((public, "texts") for public in ("numbers", *_OF_DATES)),
    *(("texts", protected) for protected in _OF_DATES),
    ("dates", "numbers"),
    ("durations", "numbers"),
    ("periods", "dates"),
}
_N_READ = 1000  # number of public values read to find the kind of a column of objects


class NotPickled:
    """Base class of objects that hold protected records during a fit."""

    def __reduce__(self):
        raise TypeError("protected rows are not pickled with the searcher.")


@dataclass(repr=False)
class ProtectedRows(NotPickled):
    """Rows that the guarantee covers, with a mark for records that cannot be read.

    Attributes
    ----------
    X : indexable of shape (m, ...)
        Inputs in the schema of the public rows.
    y : indexable of shape (m,) or (m, n_outputs), or None
    unreadable : ndarray of shape (m,), dtype bool
        Records whose inputs do not fit the public schema. They get the worst loss and are never
        shown to a model.
    groups : ndarray of shape (m,), dtype intp, or None
        Number of the group of each record, from 0.
    """

    X: object
    y: object
    unreadable: np.ndarray
    groups: np.ndarray | None = None

    @property
    def n_losses(self):
        """Number of groups, or of records where there are none."""
        return number_of_units(self.unreadable, self.groups)


def protected_positions(n_samples, fraction):
    """Positions of the protected rows if the user gives no `X_val`.

    A fixed pseudo-random choice that depends on `n_samples` and `fraction` alone, so that data
    sorted by class or by time is spread over both parts. Row 0 is always public.

    Parameters
    ----------
    n_samples : int
        Number of rows, at least 2.
    fraction : float in (0, 1)
        Share of the rows that becomes protected; at least one row, and at least one stays public.

    Returns
    -------
    protected : ndarray of shape (n_protected,), dtype intp
        Sorted positions.
    """
    n_protected = min(max(round(float(fraction) * n_samples), 1), n_samples - 1)
    # RandomState is the same in every version of numpy.
    order = 1 + np.random.RandomState(_SPLIT_SEED).permutation(n_samples - 1)  # public randomness
    return np.sort(order[:n_protected])


def in_public_schema(X_val, y_val, X_public, y_public, groups=None):
    """Bring protected rows into the schema of the public ones, record by record.

    Protected, after `check_schema` and the charge: no value raises.

    Returns
    -------
    rows : ProtectedRows
    """
    X_val, y_val = _repeatable(X_val), _repeatable(y_val)
    with np.errstate(all="ignore"):  # a warning of a cast would depend on the values
        X, unreadable = as_public_schema(X_val, X_public)
        # Index labels get the public type; they are numbered if they have levels or none exist.
        indices = [data.index for data in (X, X_public) if hasattr(data, "set_axis")]
        if [index.nlevels for index in indices] == [1, 1]:
            # A label that does not fit is replaced; its record is not marked.
            labels, _ = as_public_schema(*(i.to_frame(index=False, name="label") for i in indices))
            X = X.set_axis(labels["label"], axis=0).rename_axis(X_public.index.name)
        else:
            X = _without_labels(X)
        y = as_public_targets(y_val, y_public)
    labelled = hasattr(X, "set_axis") and hasattr(y, "set_axis")
    y = y.set_axis(X.index, axis=0) if labelled else _without_labels(y)
    return ProtectedRows(X, y, unreadable, groups)


def check_schema(X_val, y_val, X, y, *, public=True, counted=True):
    """Check numbers of rows, columns and outputs, column names and types.

    No protected value is read. Public columns of objects are, if `public`. Unless `counted`, the
    number of protected rows is secret: it may be 0, and no message states it.

    Raises
    ------
    ValueError
        If the *schema* does not fit. Never because of a value.
    """
    kind = public_kind if public else declared_kind
    if counted and n_rows(X_val) < 1:
        raise ValueError("X_val must hold at least one protected row, got 0.")
    _check_pairing(X_val, y_val, y, kind, counted)
    names, names_val = getattr(X, "columns", None), getattr(X_val, "columns", None)
    if names is not None and names_val is None:
        raise ValueError("X_val must be a data frame with the columns of X, as X is one.")
    if names is not None and list(names) != list(names_val):
        only, only_val = (
            ", ".join(str(name) for name in own if name not in list(others))
            for own, others in ((names, names_val), (names_val, names))
        )
        raise ValueError(
            "X_val must have the columns of X, with the same names in the same order"
            f"{f'; X alone has {only}' * bool(only)}"
            f"{f'; X_val alone has {only_val}' * bool(only_val)}."
        )
    (dims, columns), (dims_val, columns_val) = sizes(X), sizes(X_val)
    if public and isinstance(X, list) and list_width(X) is None:
        dims = 1  # texts or other single objects
    # None is unknown: such a container is read after the charge, row by row.
    if None not in (dims, dims_val) and dims != dims_val:
        raise ValueError(f"X_val must have as many dimensions as X, got {dims_val} and {dims}.")
    if None not in (columns, columns_val) and columns != columns_val:
        raise ValueError(f"X_val must have as many columns as X, got {columns_val} and {columns}.")
    # Refuse declared types that no value can match, as numbers where public ones are texts.
    pairs = [("X_val", X_val, X)]
    if hasattr(X_val, "iloc") and names is not None:
        pairs = [
            (f"column {name!r} of X_val", X_val.iloc[:, j], X.iloc[:, j])
            for j, name in enumerate(names)
        ]
    for name, values, public_values in pairs:
        kinds = kind(public_values), declared_kind(values)
        if None not in kinds and kinds[0] != kinds[1] and kinds not in _READ:
            raise ValueError(
                f"{name} has the type of {kinds[1]} where the public rows hold {kinds[0]}: no "
                "value could match. Read both with the same types, for instance dtype=str."
            )


def _check_pairing(X_val, y_val, y_public, kind, counted):
    if (y_val is None) != (y_public is None):
        given, missing = ("y", "y_val") if y_val is None else ("y_val", "y")
        raise ValueError(
            f"{missing} is missing: give both y and y_val, or neither (got {given} alone)."
        )
    if y_val is None:
        return
    if n_rows(y_val) != n_rows(X_val):
        numbers_of_rows = f", got {n_rows(X_val)} and {n_rows(y_val)}" if counted else ""
        raise ValueError(f"X_val and y_val must have the same number of rows{numbers_of_rows}.")
    (_, outputs), (dims_val, outputs_val) = sizes(y_public), sizes(y_val)
    if (dims_val or 1) > 2:
        raise ValueError(f"y_val must have one or two dimensions, got {dims_val}.")
    if None not in (outputs, outputs_val) and outputs != outputs_val:
        raise ValueError(f"y_val must have as many outputs as y, got {outputs_val} and {outputs}.")
    kinds = kind(y_public), declared_kind(y_val)
    # One protected text makes all numbers texts: with public numbers they are read as numbers.
    read = kind is public_kind and kinds[1] == "texts"
    if None not in kinds and kinds[0] != kinds[1] and not read:
        raise ValueError(
            f"y_val must have the type of y, got {kinds[1]} and {kinds[0]}: no prediction could be "
            "right. Encode both alike."
        )


def declared_kind(values):
    """Return "texts", "numbers", "dates" and the like by the declared type; None for others."""
    dtype = getattr(values, "dtype", None)
    # Categories have the type of the values that they stand for.
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    kind = getattr(dtype, "kind", None)
    if kind in ("U", "S", "T") or getattr(dtype, "name", "") in ("str", "string"):
        return "texts"
    scalar = getattr(getattr(dtype, "type", None), "__name__", "")
    return _KINDS.get(kind) or _KINDS.get(scalar)


def public_kind(values):
    """Return the kind of public values, read if their type is object."""
    declared = declared_kind(values)
    if declared is not None or isinstance(values, dict) or not hasattr(values, "__len__"):
        return declared
    if getattr(getattr(values, "dtype", None), "categories", None) is not None:
        values = values.dtype.categories
    if not isinstance(values, list):
        values = np.asarray(values, dtype=object).ravel()[:_N_READ].tolist()
    rows = (row if isinstance(row, list | tuple) else [row] for row in values[:_N_READ])
    kinds = {isinstance(cell, str | bytes) for row in rows for cell in row}
    return "texts" if kinds == {True} else None
