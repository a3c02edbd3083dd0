"""Files of results say where they come from, and can be continued."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


@pytest.fixture
def provenance(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    yield pytest.importorskip("provenance")
    sys.modules.pop("provenance", None)


def test_a_file_is_read_as_it_was_written(provenance, tmp_path):
    path = tmp_path / "results" / "a.csv"
    rows = [{"method": "ours, and theirs", "ms": 1.5}, {"method": "#1", "seed": 3}]
    provenance.write_rows(path, rows, settings={"T": 5, "note": "two\nlines"}, peers=("nosuch",))
    first, second = provenance.read_rows(path)
    assert first == {"method": "ours, and theirs", "ms": "1.5", "seed": ""}
    assert second == {"method": "#1", "ms": "", "seed": "3"}
    (block,) = provenance.read_provenance(path)
    assert block["settings"] == "T=5; note=two lines"
    assert "scikit-learn" in block["versions"]
    assert "nosuch not installed" in block["versions"]
    assert block["blas threads"]


def test_a_run_is_continued_with_a_block_where_the_settings_change(provenance, tmp_path):
    path = tmp_path / "a.csv"
    for seed, T in ((0, 5), (1, 5), (2, 9)):
        provenance.append_row(path, {"seed": seed}, settings={"T": T})
    assert [row["seed"] for row in provenance.read_rows(path)] == ["0", "1", "2"]
    assert [b["settings"] for b in provenance.read_provenance(path)] == ["T=5", "T=9"]
    with pytest.raises(ValueError, match="no column"):
        provenance.append_row(path, {"other": 1})
