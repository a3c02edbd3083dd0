"""The benchmarks can be found."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def runner(*arguments):
    command = [sys.executable, "-m", "benchmarks.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_lists_every_benchmark_with_its_question():
    listed = runner().stdout.splitlines()
    assert len(listed) >= 14
    assert all(len(line.split(maxsplit=1)) == 2 for line in listed)


def test_an_unknown_name_is_refused():
    done = runner("nosuch")
    assert done.returncode == 2
    assert "unknown benchmark 'nosuch'" in done.stderr
