"""The same noise on neighbouring data: what still differs did not go through the noise."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._traces import Traces
from ._walk import reachable

__all__ = ["Difference", "same_seed_difference"]


@dataclass(frozen=True)
class Difference:
    """Something that depends on the data beyond its release.

    Parameters
    ----------
    path : str
        Where: an attribute's path, ``"what was written"`` or ``"error"``.
    first, second : object
        The two values, None where there is none.
    """

    path: str
    first: Any
    second: Any


def same_seed_difference(fit, data, neighbour, *, rtol=0.0, atol=0.0, ignore=()):
    """Fit twice with the same noise and next to no budget, and list what is not equal.

    With the same seed and epsilon close to 0 the noise is so large beside any record that two
    fits agree up to rounding in all that was released. Whatever else differs (an attribute, a
    message, an error) comes from the data by another way than a release.

    Parameters
    ----------
    fit : callable
        ``fit(data)`` returns a fitted object; with a fixed ``random_state`` and, for instance,
        ``epsilon=1e-9``.
    data, neighbour : object
        Any two data sets with the same schema; they may differ in every record.
    rtol, atol : float, default=0.0
        Numbers are equal where they differ by at most ``atol + rtol * abs(first)``: a release may
        differ by its sensitivity.
    ignore : iterable of str, default=()
        Parts of paths that are left out, such as times and public attributes that were chosen to
        differ.

    Returns
    -------
    differences : list of Difference
        Empty where everything is equal. It quotes values: for tests, not for publication.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.audit import same_seed_difference
    >>> class Mean:
    ...     def fit(self, x):
    ...         self.n_, self.bound_ = len(x), max(abs(x))
    ...         # public randomness: the same noise in both runs, as the audit needs it
    ...         self.mean_ = x.mean() + np.random.default_rng(0).laplace(scale=1e12)
    ...         return self
    >>> data, neighbour = np.array([0.0, 1.0]), np.array([0.0, 5.0])
    >>> [found.path for found in same_seed_difference(Mean().fit, data, neighbour, rtol=1e-9)]
    ['.bound_']
    """
    seen = [_observe(fit, each, tuple(ignore)) for each in (data, neighbour)]
    paths = [*seen[0], *(path for path in seen[1] if path not in seen[0])]
    pairs = ((path, seen[0].get(path), seen[1].get(path)) for path in paths)
    return [Difference(*pair) for pair in pairs if not _equal(*pair[1:], rtol, atol)]


def _observe(fit, data, ignore):
    """All leaves of a fitted object by path, and what the fit wrote."""
    with Traces() as traces:
        try:
            thing = fit(data)
        except Exception as error:
            thing, failure = None, f"{type(error).__name__}: {error}"
        else:
            failure = None
    leaves = {
        path: value
        for path, value in reachable(thing)
        if _is_leaf(value) and not any(part in path for part in ignore)
    }
    return {**leaves, "what was written": traces.text(), "error": failure}


def _is_leaf(value):
    return value is None or isinstance(value, bool | int | float | str | bytes | np.generic)


def _equal(first, second, rtol, atol):
    if isinstance(first, float | np.floating) and isinstance(second, float | np.floating):
        if math.isnan(first) or math.isnan(second):
            return math.isnan(first) and math.isnan(second)
        return bool(first == second or abs(first - second) <= atol + rtol * abs(first))
    return type(first) is type(second) and bool(first == second)
