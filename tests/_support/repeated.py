"""Releases of a fit, made again without the rest of it: for audits of thousands of releases."""

from functools import partial

from _support.planted import original, put

__all__ = ["RepeatedRelease"]


class RepeatedRelease:
    """Note the release of the last fit and make it `again`: exact losses, choice and score.

    Beside each audit, whole fits with the same coins are shown to release the same.
    """

    def __init__(self, monkeypatch, place):
        self._honest = original(place)
        put(monkeypatch, place, lambda *args, **how: self._first(*args, **how))

    def _first(self, training, choice, candidates, *, source, **how):
        self.candidates, self._source = candidates, source
        self._call = partial(self._honest, training, choice, candidates, **how)
        return self.again()

    def again(self, source=None):
        """Return the index of another release, and its score or None."""
        return self._call(source=self._source if source is None else source)
