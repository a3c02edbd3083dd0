"""The benchmarks can be found, and import names that exist."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*/*.py"))


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


def test_names_that_a_benchmark_imports_from_the_package_exist():
    # Peers need not be installed, so that the imports are read instead of executed.
    nodes = [node for path in SCRIPTS for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {
        (node.module, alias.name)
        for node in imports
        if (node.module or "").split(".")[0] == "skdpbo"
        for alias in node.names
    }
    assert len(names) > 50
    for module, name in sorted(names):
        found = hasattr(importlib.import_module(module), name)
        assert found or importlib.import_module(f"{module}.{name}")
