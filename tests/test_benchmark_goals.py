"""The table of design goals judges figures, and names peers that are missing."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield pytest.importorskip("design_goals_lines")
    sys.modules.pop("design_goals_lines", None)


def test_medians_have_quartiles_and_means_standard_errors(lines):
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    median = lines.line("a", "skdpbo", "s", "ms", values)
    assert [median[key] for key in ("low", "value", "high")] == [2.0, 3.0, 4.0]
    mean = lines.line("a", "skdpbo", "s", "regret", values, "mean")
    assert mean["value"] == 22.0
    assert mean["high"] - 22.0 == pytest.approx(19.5064, rel=1e-4)


@pytest.mark.parametrize(
    ("goal", "at_least", "met", "clear"),
    [
        (5.0, False, "yes", "yes"),
        (3.1, False, "yes", "no"),
        (2.9, False, "no", "no"),
        (1.0, False, "no", "yes"),
        (1.0, True, "yes", "yes"),
    ],
)
def test_a_goal_is_judged_with_its_spread(lines, goal, at_least, met, clear):
    found = lines.line("a", "skdpbo", "s", "ms", [2.0, 3.0, 4.0], goal=goal, at_least=at_least)
    assert (found["met"], found["clear"]) == (met, clear)


def test_ratios_and_missing_peers(lines):
    found = lines.with_ratios(
        [
            lines.line("a", "skdpbo", "s", "ms", [2.0]),
            lines.line("a", "peer", "s", "ms", [7.0]),
            lines.not_installed("a", "other", "s", "ms", "nosuch", 5),
        ]
    )
    assert [each.get("times_ours") for each in found] == [1.0, 3.5, None]
    assert lines.rounded(found[2])["value"] == "nosuch not installed"
    assert set(lines.rounded(found[0])) == set(lines.COLUMNS)
