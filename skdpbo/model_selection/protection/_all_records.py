"""Protections under which no row is public: common set-up, and the opening of the rows."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from sklearn.base import is_classifier

from skdpbo._record_groups import group_codes
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.private_training._statements import warn_if_void_for_groups
from skdpbo.model_selection.protection._protection import Protection
from skdpbo.model_selection.protection._setup import (
    check_rows,
    refuse_options_of_public_rows,
    refuse_telling_parts,
)
from skdpbo.model_selection.rows._object_table import as_objects, list_width
from skdpbo.model_selection.rows._overlap import entries_assumption, refuse_shared_rows
from skdpbo.model_selection.rows._settled_types import settled_rows, settled_targets
from skdpbo.model_selection.rows._units import TwoParts

__all__ = ["AllRecordsProtection", "ProtectedParts"]

_DISJOINT = "no record is both in X and in X_val"


@dataclass(frozen=True)
class ProtectedParts(TwoParts):
    """Rows of one fit, all of them protected. The numbers of units are public.

    Attributes
    ----------
    X, y, groups
        Rows that train and, without `X_val`, that score; numbers of their groups, or None.
    X_val, y_val, groups_val
        Rows that score, or None.
    params : dict
        Further entries of ``fit``, without the groups.
    """

    X: Any
    y: Any
    groups: Any
    X_val: Any
    y_val: Any
    groups_val: Any
    params: dict

    @classmethod
    def of_fit(cls, rows, params):
        """Return the parts that ``fit`` was given; rows that cannot be counted are refused."""
        X, y, X_val, y_val, groups_val = rows
        X, y, X_val = check_rows(X, y, X_val, y_val, groups_val)
        params = dict(params)
        groups = params.pop("groups", None)
        if groups is not None or groups_val is not None:
            # A part without groups would be of single records, and have another guarantee.
            if groups is None or (groups_val is None) != (X_val is None):
                raise ValueError(
                    "groups must name the group of each row of X, and groups_val of each row of "
                    "X_val, if it is given: every record is protected."
                )
            groups = group_codes(groups, n_rows(X), name="groups", rows="X")
            groups_val = None if X_val is None else group_codes(groups_val, n_rows(X_val))
        return cls(X, y, groups, X_val, y_val, groups_val, params)

    @property
    def containers(self):
        """Containers of rows and targets."""
        return [self.X, self.y, self.X_val, self.y_val]

    def opened(self, estimator):
        """Protected, after the charge: return the parts with the types that ``fit`` gets."""
        # Not typed by the training rows: those that score are as protected as these.
        how = {"width": list_width(self.X), "labels": is_classifier(estimator)}
        training = _settled(self.X, self.y, self.groups, **how)
        validation = _settled(self.X_val, self.y_val, self.groups_val, **how)
        return ProtectedParts(*training, *validation, self.params)


class AllRecordsProtection(Protection):
    """Every record is protected, those that train and those that score."""

    def check(self):
        """Refuse options that would be releases of their own, or need public rows."""
        refuse_options_of_public_rows(self.searcher)
        refuse_telling_parts(self.searcher.estimator, self.candidates)

    def set_up(self, rows, params):
        """Refuse rows by their schema and return the guarantee of this fit; no value is read."""
        parts = self.parts = ProtectedParts.of_fit(rows, params)
        guarantee = self.planned(parts)
        if parts.X_val is not None:  # copies are not found below, only memory that is shared
            guarantee = guarantee.assuming(_DISJOINT)
        refuse_shared_rows(parts.X, parts.X_val)
        if parts.groups is not None:
            of_record, guarantee = guarantee, self.for_groups(guarantee)
            warn_if_void_for_groups(of_record, guarantee)
        entries = entries_assumption(parts.params, n_rows(parts.X), None)
        # Units: with groups, what is counted is groups.
        n_protected = parts.n_samples + (parts.n_validation or 0)
        return self.stated(guarantee, n_protected, entries=entries)

    @abstractmethod
    def planned(self, parts):
        """Settle scorer and plan, from public sizes; return the guarantee of single records."""


def _settled(X, y, groups, *, width, labels):
    """Return rows, targets and groups as ``fit`` gets them. Protected; after the charge."""
    return settled_rows(as_objects(X, width)), settled_targets(y, labels), groups
