"""Protections and guarantees, made and compared by hand."""

from dataclasses import replace

from skdpbo.model_selection import PrivateSelection

__all__ = ["private_selection", "without_numbers"]


def private_selection(selection="profile", estimator_guarantee=None):
    """Return a `PrivateSelection` of an accounting's name or of another one."""
    if not isinstance(selection, PrivateSelection):
        selection = PrivateSelection(accounting=selection)
    if estimator_guarantee is None:
        return selection
    return replace(selection, estimator_guarantee=estimator_guarantee)


def without_numbers(guarantee):
    """Return a guarantee as it was before the rows were known."""
    return replace(guarantee, n_protected=None, n_public=None)
