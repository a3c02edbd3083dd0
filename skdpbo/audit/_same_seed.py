"""Fits with equal noise on neighbouring data, to find dependence outside the releases."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbo.audit._traces import Traces
from skdpbo.audit._walk import reachable
from skdpbo.privacy._checks import check_within

_LEAVES = (bool, int, float, complex, str, bytes, np.generic)


@dataclass(frozen=True)
class Difference:
    """Dependence on the data outside a release.

    Parameters
    ----------
    path : str
        Path of an attribute, ``"written output"`` or ``"error"``.
    first, second : object
        The two values; None where one is missing.
    """

    path: str
    first: Any
    second: Any


def same_seed_difference(
    fit: Callable[..., Any],
    data: Any,
    neighbour: Any,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    ignore: Iterable[str] = (),
) -> list[Difference]:
    """Fit twice with the same noise and almost no budget, and list all differences.

    With one seed and epsilon close to 0, the noise dominates every record, and the releases of two
    fits agree up to rounding. Any other difference (an attribute, a message, an error) depends on
    the data outside a release.

    Parameters
    ----------
    fit : callable
        ``fit(data)`` returns a fitted object; with a fixed ``random_state`` and, for instance,
        ``epsilon=1e-9``.
    data, neighbour : object
        Two data sets of one schema; they may differ in every record.
    rtol, atol : float, default=0.0
        At least 0. Numbers are equal within ``atol + rtol * abs(first)``; a release may differ by
        its sensitivity.
    ignore : iterable of str, default=()
        Parts of paths to skip, such as times and public attributes that differ on purpose.

    Returns
    -------
    differences : list of Difference
        Empty if the fits are equal. The values are quoted: for tests, not for publication.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.audit import same_seed_difference
    >>> class Mean:
    ...     def fit(self, x):
    ...         self.n_, self.bound_ = len(x), max(abs(x))
    ...         # public randomness: the audit needs the same noise in both runs
    ...         self.mean_ = x.mean() + np.random.default_rng(0).laplace(scale=1e12)
    ...         return self
    >>> data, neighbour = np.array([0.0, 1.0]), np.array([0.0, 5.0])
    >>> [found.path for found in same_seed_difference(Mean().fit, data, neighbour, rtol=1e-9)]
    ['.bound_']
    """
    rtol, atol = check_within(rtol, "rtol", "[0, inf)"), check_within(atol, "atol", "[0, inf)")
    if isinstance(ignore, str):  # single letters would match all paths
        raise TypeError(f"ignore must be an iterable of texts, got {ignore!r}.")
    seen = [_observe(fit, each, tuple(ignore)) for each in (data, neighbour)]
    # Including paths that only one of the fits has.
    paths = [*seen[0], *(path for path in seen[1] if path not in seen[0])]
    pairs = ((path, seen[0].get(path), seen[1].get(path)) for path in paths)
    # A missing value is reported as None, but differs from None.
    return [
        Difference(*pair)
        for pair in pairs
        if (pair[0] in seen[0]) != (pair[0] in seen[1]) or not _equal(*pair[1:], rtol, atol)
    ]


def _observe(fit, data, ignore):
    """Return all leaves of a fitted object by path, and the written output and error of the fit."""
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
        if (value is None or isinstance(value, _LEAVES)) and not any(p in path for p in ignore)
    }
    return {**leaves, "written output": traces.text(), "error": failure}


def _equal(first, second, rtol, atol):
    if isinstance(first, float | np.floating) and isinstance(second, float | np.floating):
        # NaN equals NaN here.
        if math.isnan(first):
            return math.isnan(second)
        return bool(first == second or abs(first - second) <= atol + rtol * abs(first))
    return type(first) is type(second) and bool(first == second)  # 1, 1.0 and True differ
