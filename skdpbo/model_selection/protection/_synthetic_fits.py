"""Warnings of a private model, found by fits on synthetic rows; no protected value is read."""

import warnings

import numpy as np
from sklearn.base import clone

from skdpbo._attempt import attempt
from skdpbo._isolation._estimator_parts import separate_copy
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo.exceptions import (
    DefaultBoundsWarning,
    HiddenColumnsWarning,
    OutsideBoundsWarning,
    SeededNoiseWarning,
    SkdpboWarning,
    UnreachedRowsWarning,
    WideBoundsWarning,
)
from skdpbo.model_selection._sklearn import n_rows, take_rows
from skdpbo.model_selection.evaluation._dry_run import synthetic_rows
from skdpbo.model_selection.evaluation._train_and_score import train

# Not reported: the search itself warns of seeds, and the others depend on the synthetic values.
_NOT_SHOWN = (
    SeededNoiseWarning,
    UnreachedRowsWarning,
    HiddenColumnsWarning,
    OutsideBoundsWarning,
    WideBoundsWarning,
)
_MOST_SYNTHETIC = 20_000  # rows, enough for releases of bounds at epsilon .01


def warnings_of_synthetic_fits(model, X, y, n_trained, grouped):
    """Return the warnings of a private model that do not depend on the records.

    Parameters
    ----------
    model : estimator
        Private, with the budget of a trial.
    X, y : array-like
        Protected; shape and types are read.
    n_trained : int
        Number of rows of a training, or of groups.
    grouped : bool
        Whether it is fitted with groups.

    Returns
    -------
    shown : list of tuple (category, text)

    Raises
    ------
    TypeError
        If the fitted model has a part that could store the rows that score it.
    """
    shown = []
    # All guesses of types, as a step that fails with texts hides missing bounds of later steps.
    for tables in synthetic_rows(model, X, y):
        caught = in_isolation(_warnings_of_fit, model, grouped, *tables)
        if any(warning.category is DefaultBoundsWarning for warning in caught):
            # Whether bounds can be released depends on the number of rows, or of groups.
            rows = np.arange(min(n_trained, _MOST_SYNTHETIC)) % n_rows(tables[0])
            repeated = [None if v is None else take_rows(v, rows) for v in tables]
            caught = in_isolation(_warnings_of_fit, model, grouped, *repeated)
        for kind, text in ((w.category, str(w.message)) for w in caught):
            if issubclass(kind, SkdpboWarning) and kind not in _NOT_SHOWN:
                shown.append((kind, text))
    return shown


def _warnings_of_fit(model, grouped, X, y):
    """Return the warnings of a fit on synthetic rows or groups of one row, even if it fails.

    Raises
    ------
    TypeError
        If the fitted model has a part that could store the rows that score it.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        groups = {"groups": np.arange(n_rows(X))} if grouped else {}  # they change the releases
        trained, _ = attempt(train, clone(model), X, y, groups)
    if trained is not None:
        separate_copy(trained[0])
    return caught
