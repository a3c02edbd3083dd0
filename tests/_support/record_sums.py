"""Exact sums of releases over hostile records, and how far a neighbour moves them."""

import numpy as np

from _support.internals import PlacedRows, placed, streamed_sums
from _support.many_columns import HUGE
from _support.planted import original, put


class _GivenRows:
    def workspace(self, n_rows):
        return None

    def __call__(self, X, Y, workspace):
        return X


def exact_gram(Q, radius):
    return streamed_sums(_GivenRows(), Q, Q, radius, chunk_size=len(Q))


_TARGETS = [-1e300, -2.0, -0.1, 0.0, 0.3, 5.0]


def sums_of(release, X, Y, **how):
    rows = release.rows(np.zeros(Y.shape[1]))
    return streamed_sums(rows, X, Y, rows.radius, chunk_size=64, sums=release.sums, **how)


def hostile(n, p, q=2, seed=1):
    rng = np.random.default_rng(seed)
    return rng.choice(HUGE, (n, p)), rng.choice(_TARGETS, (n, q))


def assert_sums_have_no_order(release, p):
    """Assert that sums of two targets depend neither on chunks nor on threads nor on order."""
    X, Y = hostile(300, p)
    order = np.random.default_rng(2).permutation(300)
    once = sums_of(release, X, Y)
    np.testing.assert_array_equal(sums_of(release, X[order], Y[order]), once)
    np.testing.assert_array_equal(sums_of(release, X, Y, n_jobs=2), once)


def listen_to_noise(monkeypatch, module):
    """Take the place of a module's noise; return the list of (values, sensitivity) it is given."""
    heard = []

    class Heard:
        def __init__(self, *, sensitivity, **parameters):
            self.sensitivity = sensitivity

        def release(self, values, source):
            heard.append((values, self.sensitivity))
            return values

    put(monkeypatch, f"{module}: GaussianMechanism", Heard)
    return heard


def largest_change(release, heard, p, groups=None):
    """Largest change of the sums of 60 records by a replaced one, or group, over the sensitivity.

    `heard` is what `listen_to_noise` returned.
    """
    X, Y = hostile(60, p)
    for seed in range(200):
        X_new, Y_new = hostile(60, p, seed=seed)
        changed = np.arange(60) == seed % 60 if groups is None else groups == groups[seed % 60]
        new = np.where(changed[:, None], X_new, X), np.where(changed[:, None], Y_new, Y)
        for table, targets in [(X, Y), new]:
            if groups is not None:
                table = PlacedRows(table, groups)
                targets = placed(table, targets)
            release.release(sums_of(release, table, targets), None)
    pairs = zip(heard[::2], heard[1::2], strict=True)
    return max(np.linalg.norm(a - b) / bound for (a, bound), (b, _) in pairs)


def listen_to_budgets(monkeypatch):
    """Return a list that the mu of each release of a fit, but for bounds and mean, is added to."""
    spent = []

    def listen(place, spent_by):
        honest = original(place)

        def heard(method, *args):
            spent.append(spent_by(method))
            return honest(method, *args)

        put(monkeypatch, place, heard)

    listen("record spread: RecordReach.release", lambda method: method.mu)
    listen("record spread: RecordSpread.release", lambda method: method.statistics.mu)
    listen("column effects: ColumnEffects.release", lambda method: method.mu)
    listen("release methods: WhitenedMethod.release", lambda method: method.statistics.mu)
    return spent
