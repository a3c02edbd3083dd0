"""Likelihood-ratio audits: an event is chosen on one half of the runs and tested on the other."""

import math
import numbers
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm

from skdpbo._parameters import warn_caller
from skdpbo.audit._result import AuditResult, epsilon_of, event_bounds, mu_of
from skdpbo.audit._walk import as_array
from skdpbo.privacy._checks import check_choice, check_count, check_within

_MAX_THRESHOLDS = 1000
_LARGEST = np.finfo(float).max
_FAR = 1e3  # interquartile ranges


def likelihood_ratio_audit(
    release: Any,
    data: Any,
    neighbour: Any,
    *,
    n_runs: int = 2000,
    statistic: Callable[[Any], float] | None = None,
    delta: float = 0.0,
    target: str = "epsilon",
    false_alarm: float = 1e-6,
) -> AuditResult:
    """Run a release on two neighbouring data sets and bound its privacy loss from below.

    Half of the runs choose the event that separates the data sets best; the other half bound its
    two probabilities. The bound holds for any release and any statistic; a poor statistic makes it
    small. An audit can refute a claim but not prove one.

    Parameters
    ----------
    release : callable
        ``release(data)`` makes one release with fresh noise and returns its published output.
    data, neighbour : object
        Two data sets that differ in one protected record.
    n_runs : int, default=2000
        Runs on each data set, at least 4.
    statistic : callable, default=None
        Maps a release to a number that tends to be larger on one of the data sets, such as the log
        likelihood ratio. None: a number is used unchanged, a vector (array or list) is projected
        onto its best linear direction, and any other hashable output is ranked by its frequency;
        direction and ranks are learned from the first half of the runs.
    delta : float in [0, 1), default=0.0
        Delta at which epsilon is bounded.
    target : {"epsilon", "mu"}, default="epsilon"
        Bound for which the event is chosen; both are reported.
    false_alarm : float in (0, 1), default=1e-6
        Probability that a bound exceeds the true loss.

    Returns
    -------
    result : AuditResult
        Lower bounds of the loss, and the event that attains them.

    See Also
    --------
    audit_samples : The same from stored runs.

    Examples
    --------
    A release that omits the factor 2 of a replaced record:

    >>> from skdpbo.audit import likelihood_ratio_audit
    >>> from skdpbo.mechanisms import DiscreteLaplace
    >>> from skdpbo.privacy import PrivacyGuarantee
    >>> mechanism = DiscreteLaplace(epsilon=2.0, sensitivity=1)
    >>> audit = likelihood_ratio_audit(mechanism.release, -1, 1, n_runs=3000)
    >>> audit.violates(mechanism.guarantee)
    True
    >>> likelihood_ratio_audit(mechanism.release, 0, 1, n_runs=3000).violates(mechanism.guarantee)
    False
    """
    check_count(n_runs, "n_runs", least=4)
    _check_options(delta, target, false_alarm)  # before the runs, which may take hours
    read = _comparable if statistic is None else lambda output: float(statistic(output))
    outputs = [[read(release(each)) for _ in range(n_runs)] for each in (data, neighbour)]
    return audit_samples(*outputs, delta=delta, target=target, false_alarm=false_alarm)


def audit_samples(
    first: Any,
    second: Any,
    *,
    delta: float = 0.0,
    target: str = "epsilon",
    false_alarm: float = 1e-6,
) -> AuditResult:
    """Bound a privacy loss from independent releases on two neighbouring data sets.

    Parameters
    ----------
    first, second : sequence of n outputs
        Releases, or a statistic of each: numbers, vectors of one length, or hashable objects.
        Rows of an array or a data frame are vectors. At least 4 of each.
    delta : float in [0, 1), default=0.0
        Delta at which epsilon is bounded.
    target : {"epsilon", "mu"}, default="epsilon"
        Bound for which the event is chosen; both are reported.
    false_alarm : float in (0, 1), default=1e-6
        Probability that a bound exceeds the true loss.

    Returns
    -------
    result : AuditResult
        Lower bounds of the loss, and the event that attains them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.audit import audit_samples
    >>> # public randomness: synthetic samples
    >>> rng = np.random.default_rng(0)
    >>> result = audit_samples(rng.normal(size=4000), rng.normal(2, size=4000), target="mu")
    >>> 1.5 < result.mu < 2
    True
    """
    delta, false_alarm = _check_options(delta, target, false_alarm)
    if min(len(first), len(second)) < 4:
        raise ValueError("At least 4 runs on each data set are needed.")
    # One half chooses the event, the other bounds its probability, so that the bound is valid.
    rows = [[_comparable(output) for output in as_array(each)] for each in (first, second)]
    learning, holding = ([each[part::2] for each in rows] for part in (0, 1))
    name, score = learned_statistic(*learning)
    a, b = (score(each) for each in learning)
    threshold, swap = _best_threshold(a, b, delta, target, false_alarm)
    if swap:
        holding = holding[::-1]
    hits, other = (int(np.count_nonzero(score(each) >= threshold)) for each in holding)
    runs = [len(each) for each in holding]
    # Clopper and Pearson: exact.
    low, high = event_bounds(hits, other, runs[0], runs[1], false_alarm)
    return AuditResult(
        low=float(low),
        high=float(high),
        delta=delta,
        false_alarm=false_alarm,
        event=f"{name} of at least {threshold:.4g}",
        n_runs=min(runs),
    )


def _check_options(delta, target, false_alarm):
    check_choice(target, "target", ("epsilon", "mu"))
    false_alarm = check_within(false_alarm, "false_alarm", "(0, 1)")
    return check_within(delta, "delta", "[0, 1)"), false_alarm


def _comparable(output):
    """Return an output, or raise a TypeError if it needs a statistic."""
    try:
        if isinstance(output, list | np.ndarray):
            np.asarray(output, dtype=float)
        elif output is not None and type(output).__eq__ is object.__eq__:
            raise TypeError("equal to itself alone")
        else:
            hash(output)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "an output must be a number, an array or list of numbers, or hashable, got "
            f"{type(output).__name__} ({error}): give a statistic of it."
        ) from error
    return output


def _best_threshold(first, second, delta, target, false_alarm):
    """Return (threshold, swap) of {x >= threshold}, which is likelier under `second` if `swap`."""
    pooled = np.unique(np.concatenate([first, second]))
    # All observed values, or a subset of them, are tried as thresholds.
    thresholds = pooled[np.linspace(0, len(pooled) - 1, _MAX_THRESHOLDS).astype(int)]
    thresholds = np.unique(thresholds)
    counts = [
        len(each) - np.searchsorted(np.sort(each), thresholds, side="left")
        for each in (first, second)
    ]
    runs = [len(first), len(second)]
    gains = []
    # Either distribution may have the larger values.
    for order in (slice(None), slice(None, None, -1)):
        low, high = event_bounds(*counts[order], *runs[order], false_alarm)
        gain = mu_of(low, high) if target == "mu" else epsilon_of(low, high, delta)
        gains.append(gain)
    if max(gain.max() for gain in gains) == 0:  # too few runs for a bound: use the difference
        difference = counts[0] / runs[0] - counts[1] / runs[1]
        gains = [difference, -difference]
    swap = bool(gains[1].max() > gains[0].max())
    return float(thresholds[gains[swap].argmax()]), swap


def learned_statistic(first, second):
    """Return the name of a statistic, and a function from a list of outputs to an array."""
    sample = first[0]
    if isinstance(sample, numbers.Real) and not isinstance(sample, bool | np.bool_):
        # Different large integers may be equal as floats: use exact differences from one of them.
        is_large = isinstance(sample, numbers.Integral) and abs(int(sample)) >= 2**53
        origin = int(sample) if is_large else 0
        name = f"a value less {origin}" if is_large else "a value"
        return name, partial(_numbers, origin=origin)
    if isinstance(sample, list | np.ndarray):
        return "a linear statistic", _linear(first, second)
    a, b = Counter(first), Counter(second)
    if max((a + b).values()) == 1:
        warn_caller(
            "No output occurred twice, so that frequencies tell nothing: give a statistic, or "
            "release numbers as a list or an array.",
            UserWarning,
        )
    # Half a count is added to each, so that unseen outputs have a ratio of 1.
    return "a log frequency ratio", lambda outputs: np.log(
        [(a[value] + 0.5) / (b[value] + 0.5) for value in outputs]
    )


def _numbers(outputs, origin):
    # NaN, like None, is ordered below all other outputs.
    known = (math.nan if v is None else v for v in outputs)
    exact = (int(v) if isinstance(v, numbers.Integral) else float(v) for v in known)
    values = np.array([float(value - origin) for value in exact])
    return np.where(np.isnan(values), -np.inf, np.maximum(values, -_LARGEST))


def _linear(first, second):
    """Return a projection onto the linear discriminant of two normal laws with one covariance."""
    tables = [_table(each) for each in (first, second)]
    pooled = np.concatenate(tables)
    finite = np.where(np.isfinite(pooled), pooled, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column without a finite number
        # Medians and interquartile ranges of the columns; 1 where the range is 0.
        centre = np.nan_to_num(np.nanmedian(finite, axis=0))
        scale = np.nan_to_num(np.subtract(*np.nanquantile(finite, [0.75, 0.25], axis=0)))
    scale = np.where(scale > 0, scale, 1.0)

    def standardised(table):
        # Clipped, so that one infinite or huge number does not dominate the other coordinates.
        return np.nan_to_num((table - centre) / scale, nan=-_FAR).clip(-_FAR, _FAR)

    tables = [standardised(table) for table in tables]
    difference = tables[0].mean(axis=0) - tables[1].mean(axis=0)
    centred = np.concatenate([table - table.mean(axis=0) for table in tables])
    covariance = centred.T @ centred / max(len(centred) - 2, 1)
    # Shrinkage by 1 %, against spurious correlations in few runs.
    covariance = 0.99 * covariance + np.diag(0.01 * np.diag(covariance) + 1e-6)
    direction = np.linalg.solve(covariance, difference)
    return lambda outputs: standardised(_table(outputs)) @ direction


def _table(outputs):
    return np.array([np.ravel(np.asarray(output, dtype=float)) for output in outputs])


def normal_mu_bound(first: Any, second: Any, *, false_alarm: float = 1e-6) -> float:
    r"""Bound mu below from a statistic that is normal, with one variance, on both data sets.

    The log-likelihood ratio of a release with Gaussian noise is such a statistic; its means differ
    by mu standard deviations. The bound needs fewer samples than `audit_samples`, which makes no
    assumption on their law.

    Parameters
    ----------
    first, second : array-like of shape (n,)
        The statistic on each of two neighbouring data sets; independent runs.
    false_alarm : float in (0, 1), default=1e-6
        Probability that the bound exceeds mu, for large n.

    Returns
    -------
    mu : float
        :math:`\hat\mu - z\sqrt{2/n + \hat\mu^2/(4n)}`, with :math:`\hat\mu` the standardised
        difference of means and z the upper quantile of `false_alarm` / 2; negative if nothing is
        proved.

    See Also
    --------
    audit_samples : Without an assumption on the law.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.audit import normal_mu_bound
    >>> # public randomness: synthetic samples
    >>> rng = np.random.default_rng(0)
    >>> 1.5 < normal_mu_bound(rng.normal(size=1000), rng.normal(2, size=1000)) < 2
    True
    """
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise ValueError("first and second must be two vectors of one length, at least 2.")
    # Half for each sign of the difference, which matters if mu is near 0.
    tail = float(norm.isf(check_within(false_alarm, "false_alarm", "(0, 1)") / 2))
    n = len(first)
    spread = math.sqrt((first.var() + second.var()) / 2)
    # Different constants have an infinite loss, returned as a huge one.
    mu = abs(first.mean() - second.mean()) / max(spread, 1e-100)
    return float(mu) - tail * math.sqrt(2 / n + mu**2 / (4 * n))
