"""The table of design goals judges figures, and names peers that are missing."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Import a script of the folder by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    yield pytest.importorskip
    for name in set(sys.modules) - before:
        if name.startswith(("goals", "provenance")):
            del sys.modules[name]


@pytest.fixture
def lines(script):
    return script("goals.design_goals_lines")


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


def test_tables_are_written_between_their_marks(lines, script, tmp_path):
    rows = [
        lines.line("a", "skdpbo", "s", "ms", [2.0, 3.0, 4.0], goal=1),
        lines.line("a", "peer", "s", "ms", [0.00003], "exact", stated=0.5),
        lines.line("b c", "skdpbo", "s", "regret", [0.02, 0.04], "mean", goal=0.05),
    ]
    rows = [lines.rounded(each) | {"date": "2026-01-01"} for each in rows]
    page = tmp_path / "page.md"
    page.write_text(
        "top\n<!-- verdict -->\n<!-- end -->\n<!-- a -->\nold\n<!-- end -->\n"
        "between\n<!-- b c -->\n<!-- end -->\nlast\n<!-- origin -->\n<!-- end -->\n",
        "utf-8",
    )
    origin = {"machine": "m", "blas threads": "1", "versions": "v 1"}
    for _ in range(2):  # writing twice changes nothing
        script("goals.design_goals_tables").write_tables(rows, origin, page)
        text = page.read_text("utf-8").splitlines()
    assert [line for line in text if line in ("top", "between", "last", "old")] == [
        "top",
        "between",
        "last",
    ]
    assert "| s; ms | 3 (2.5 – 3.5) | < .0001 [0.5] | ≤ 1: **missed** |" in text
    assert "| s; regret | .03 ± .01 | ≤ .05: met |" in text
    assert "1 of 2 figures with a goal keep it." in text
