"""A fit that is given the releases of another, with other protected rows: all else is the same.

The strongest test that weights, steps, scales and stops are functions of public and of released
values: nothing is estimated, and a single bit of difference is found.
"""

from contextlib import suppress

import numpy as np

from _support.internals import PrivateChoice
from _support.planted import original, put
from skdpbo.mechanisms import GaussianMechanism

__all__ = ["replayed"]

_EVALUATED = "public training: PublicTraining.losses"


class Diverged(BaseException):
    """The second fit asks for another release than the first."""


def replayed(monkeypatch, fit, one, other, evaluated=_EVALUATED):
    """Return what can be seen of a fit, and of a second one that gets the releases of the first.

    Parameters
    ----------
    monkeypatch : pytest.MonkeyPatch
    fit : callable
        ``fit(*rows)`` returns what can be seen of a fit when it has ended.
    one, other : tuple
        Protected rows.
    evaluated : str, default="public training: PublicTraining.losses"
        Place of the method that scores models of a list of candidates on protected rows.

    Returns
    -------
    first, second : list
        Models that are scored on protected rows, parameters of releases, in their order;
        last what `fit` returns. The second list ends where its fit asks for another release.
    """
    transcript = []
    first = _seen(monkeypatch, fit, one, transcript, None, evaluated)
    return first, _seen(monkeypatch, fit, other, transcript, iter(transcript), evaluated)


def _seen(monkeypatch, fit, rows, transcript, answers, place):
    noisy, chosen = GaussianMechanism.release, PrivateChoice.release
    evaluated, seen = original(place), []

    def answer(release, *parameters):
        seen.append(parameters)
        if answers is None:
            transcript.append((parameters, release()))
            return transcript[-1][1]
        expected, value = next(answers, (None, None))
        if parameters != expected:
            raise Diverged
        return value

    def gaussian(self, values, source=None):
        return answer(lambda: noisy(self, values, source), repr(self), np.shape(values))

    def choice(self, totals, offsets, *, sensitivity, source, **how):
        def release():
            return chosen(self, totals, offsets, sensitivity=sensitivity, source=source, **how)

        eligible = [total is not None for total in totals]  # as public rows say
        return answer(release, repr(self), eligible, list(offsets), sensitivity)

    def evaluate(training, candidates, *args, **how):
        seen.append([sorted(candidate.items()) for candidate in candidates])
        return evaluated(training, candidates, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(GaussianMechanism, "release", gaussian)
        patch.setattr(PrivateChoice, "release", choice)
        put(patch, place, evaluate)
        with suppress(Diverged):
            seen.append(fit(*rows))
    return seen
