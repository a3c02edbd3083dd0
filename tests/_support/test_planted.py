"""Every place that tests replace exists."""

import re
from functools import cache
from pathlib import Path

import pytest

from _support import planted

TESTS = Path(__file__).parents[1]
NAMED = re.compile(rf'"((?:{"|".join(planted.STAGES)}): [\w.]+)"')


@cache
def texts():
    return [path.read_text("utf-8") for path in sorted(TESTS.rglob("*.py"))]


def places():
    return sorted({place for text in texts() for place in NAMED.findall(text)})


def test_every_place_exists():
    # min and max are builtins that a module shadows
    usual = [place for place in places() if not place.startswith("answers: m")]
    lost = [place for place in usual if not hasattr(*planted.located(place))]
    assert lost == [], "correct STAGES of planted.py, or the stage in the tests that plant there"


def test_no_place_is_listed_twice():
    assert len(set(planted.STAGES.values())) == len(planted.STAGES)


def test_every_mistake_can_be_planted_and_is_used():
    for mistake in planted.BUGS:
        with pytest.MonkeyPatch.context() as monkeypatch:
            planted.plant(monkeypatch, mistake)
        places = sum(f'"{mistake}"' in text for text in texts())
        assert places > 1, f"no test plants {mistake!r} of BUGS in planted.py"
