"""Run a benchmark by its name, or list them all.

    python -m benchmarks.run                      # what there is
    python -m benchmarks.run NAME [its options]   # run one; --help shows its options
    python -m benchmarks.run --threads 2 NAME     # threads of BLAS, 1 unless given

A benchmark runs in a process of its own with a fixed number of BLAS threads, which has to be set
before numpy is imported. Peers are installed by ``pip install -e ".[bench]"``.
"""

import argparse
import ast
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def benchmarks():
    """Names of the scripts that can be run, and the question that each answers."""
    questions = {}
    for path in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "main" in functions and path != Path(__file__).resolve():
            questions[path.stem] = (ast.get_docstring(tree) or "").splitlines()[0]
    return questions


def run(name, options, threads):
    """Return the exit code of a benchmark."""
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    command = [sys.executable, str(FOLDER / f"{name}.py"), *options]
    return subprocess.run(command, env=environment).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS")
    parser.add_argument("name", nargs="?", help="the benchmark; without it all are listed")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the benchmark")
    arguments = parser.parse_args()
    known = benchmarks()
    if arguments.name is None:
        for name, question in known.items():
            print(f"{name:24} {question}")
        return 0
    if arguments.name not in known:
        parser.error(f"unknown benchmark {arguments.name!r}; there are {', '.join(known)}")
    return run(arguments.name, arguments.options, arguments.threads)


if __name__ == "__main__":
    sys.exit(main())
