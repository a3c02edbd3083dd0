"""Every mistake of the lists for ``mutate.py`` can be planted, and the tests to run exist."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTS = sorted(Path(__file__).parent.glob("mistakes*.py"))


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_every_text_occurs_once_and_every_test_exists(path):
    for number, (file, text, _, tests) in enumerate(runpy.run_path(str(path))["MISTAKES"]):
        code = (ROOT / "skdpbo" / file).read_text(encoding="utf-8")
        assert code.count(text) == 1, f"{path.name} {number}: not once in {file}: {text!r}"
        for name in re.findall(r"tests/[\w/.]+", tests):
            assert (ROOT / name).exists(), f"{path.name} {number}: {name}"
