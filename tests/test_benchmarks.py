"""The benchmarks can be found, and import names that exist."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "benchmarks"
SCRIPTS = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.py"))


def runner(*arguments):
    command = [sys.executable, "docs/benchmarks/run.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)


def test_lists_every_benchmark_with_its_question():
    listed = runner().stdout.splitlines()
    assert len(listed) >= 14
    assert all(len(line.split(maxsplit=1)) == 2 for line in listed)


def test_an_unknown_name_is_refused():
    done = runner("nosuch")
    assert done.returncode == 2
    assert "unknown benchmark 'nosuch'" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_names_that_a_benchmark_imports_from_the_package_exist(script):
    # Peers need not be installed, so that the imports are read instead of executed.
    for node in ast.walk(ast.parse((FOLDER / script).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skdpbo":
            module = importlib.import_module(node.module)
            for alias in node.names:
                found = hasattr(module, alias.name)
                assert found or importlib.import_module(f"{node.module}.{alias.name}")
