"""Values and settings of tests that look for quotations of protected values."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

__all__ = [
    "NUMBER",
    "TEXT",
    "WHOLE",
    "Hostile",
    "Unprinted",
    "Unseen",
    "mostly",
    "one",
    "settled",
]

NUMBER, WHOLE, TEXT = 0.7316520948315577, 731652094831, "S3cr3tPatientName"


def settled(n):
    """Return settings for n examples that are the same on every machine."""
    return settings(
        max_examples=n,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Hostile:
    """A value whose every use raises, with a text that quotes it."""

    def __init__(self, error=RuntimeError):
        self.error = error

    def __float__(self, *args, **kwargs):
        raise self.error(TEXT)

    __array__ = __eq__ = __hash__ = __bool__ = __len__ = __reduce__ = __str__ = __float__


class Unseen(Hostile):
    """One that raises when its class or any attribute is read, as a proxy of nothing."""

    def __getattribute__(self, name):
        raise RuntimeError(TEXT)


class Unprinted(tuple):
    """An example that hypothesis does not print: containers of hostile values raise, too."""

    __slots__ = ()

    def __repr__(self):
        return "Unprinted"


def one(values):
    """Draw one of any objects: hypothesis would hash and compare them."""
    return st.sampled_from(range(len(values))).map(values.__getitem__)


def mostly(*good, bad, weight):
    """Draw a good value `weight` times as often as a bad one."""
    return one([*(good * weight), *bad])
