"""Isolated user code on protected rows, with one answer per row."""

import copy
import warnings

import numpy as np

from skdpbo._isolation._estimator_parts import is_estimator
from skdpbo._isolation._row_answers import answers_by_row
from skdpbo._isolation._silence import nothing_leaves
from skdpbo._reentrant_lock import ReentrantLock

_ONE_AT_A_TIME = ReentrantLock()  # filters of warnings belong to the process
_ONE_AT_A_TIME.free_in_forks()
_N_TRIED = 12


def isolated_answers(function, X, missing):
    """Protected: return the answers of user code for rows; output and warnings stay inside.

    Parameters
    ----------
    function : callable
        ``function(rows)`` returns an array with one entry per row. It gets a copy of the rows.
    X : ndarray of shape (n, p)
        Protected.
    missing : ndarray
        Answer for a row for which it raises. Size of the batch and places of the other rows stay
        the same then.

    Returns
    -------
    answers : ndarray of shape (n, ...)
    """
    # Not `ONE_AT_A_TIME`: a search that holds it may wait for the threads of this pass.
    filters, floats = warnings.catch_warnings(record=True), np.errstate(all="ignore")
    with nothing_leaves(), _ONE_AT_A_TIME, filters, floats:
        warnings.simplefilter("ignore")
        # Copies, as user code may write into what it is given.
        return answers_by_row(lambda rows: function(X[rows]), np.zeros(len(X), bool), missing)


def own_copy(model):
    """Return a copy of an estimator or a kernel, which may store protected rows.

    Raises
    ------
    TypeError
        If copying the model, or a part of it, returns the part itself.
    """
    copies = {}  # deepcopy's memo, which lacks such parts
    copied = copy.deepcopy(model, copies)
    for part in (model, *getattr(model, "get_params", dict)().values()):
        if is_estimator(part) and id(part) not in copies:
            raise TypeError(
                f"{type(part).__name__} cannot be copied, and would keep protected rows: take its "
                "__deepcopy__ away."
            )
    return copied


def differs_alone(function, points, together, *, rtol, atol):
    """Whether the answers of user code for *public* points change with the other points.

    It cannot prove that rows are never mixed, so the guarantee stays conditional.

    Parameters
    ----------
    function : callable
        ``function(rows)`` returns an array with one entry for each row, or raises.
    points : ndarray of shape (n, p)
        Public.
    together : ndarray of shape (n, ...)
        ``function(points)``.
    rtol, atol : float
        Tolerances, as rounding of matrix products depends on the place of a row in its batch.
    """
    some = np.unique(np.linspace(0, len(points) - 1, _N_TRIED).astype(int))
    return not all(
        np.allclose(together[batch], function(points[batch]), rtol=rtol, atol=atol)
        for batch in (some, *some[:, None])
    )
