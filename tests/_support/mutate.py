"""Plant textual mistakes one after another, and report those that no test notices.

A list of mistakes is a Python file that defines ``MISTAKES``, of tuples (file below skdpbo, text,
text put in its place, tests to run). The text must occur exactly once. Nothing but a temporary
copy of the repository is changed::

    python tests/_support/mutate.py tests/_support/mistakes.py [number ...]

A mistake is noticed if the tests fail or are not done after `--seconds`. Survivors are printed at
the end, and the exit code is their number. Run it where nothing else needs the processors.
"""

import argparse
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("skdpbo", "tests", "docs", "examples", "pyproject.toml", "README.md", "CHANGELOG.md")


def noticed(copy, path, old, new, tests, seconds):
    """Return how the tests notice one mistake; "" if they do not."""
    target = copy / "skdpbo" / path
    honest = target.read_text(encoding="utf-8")
    if honest.count(old) != 1:
        return f"not planted: the text occurs {honest.count(old)} times"
    target.write_text(honest.replace(old, new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider"]
    command += ["-m", ""]  # the slow ones, too
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(
            [*command, *tests.split()],
            cwd=copy,
            env=environment,
            timeout=seconds,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return "noticed: not done in time"
    finally:
        target.write_text(honest, encoding="utf-8")
    if run.returncode not in (0, 1):
        return f"not run: {run.stdout[-300:]}"
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"noticed: {' '.join(failed)[:100]}" if run.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mistakes", type=Path)
    parser.add_argument("numbers", nargs="*", type=int)
    parser.add_argument("--seconds", type=float, default=300.0, help="of one run of tests")
    options = parser.parse_args()
    mistakes = runpy.run_path(str(options.mistakes))["MISTAKES"]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in KEPT:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        for number in options.numbers or range(len(mistakes)):
            path, old, new, tests = mistakes[number]
            verdict = noticed(copy, path, old, new, tests, options.seconds)
            print(
                f"{number:3d} {path}: {old!r} -> {new!r}\n    {verdict or 'SURVIVES'}", flush=True
            )
            if not verdict.startswith("noticed"):
                survivors.append(number)
    print(f"{len(survivors)} survivors: {survivors}")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(main())
