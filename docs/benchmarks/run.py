"""Run a benchmark by its name, or list them all.

    python docs/benchmarks/run.py                      # list
    python docs/benchmarks/run.py NAME [its options]   # run one; --help shows its options
    python docs/benchmarks/run.py --threads 2 NAME     # BLAS threads; default 1

A benchmark runs in its own process, because the number of BLAS threads must be set before numpy is
imported. Peers are installed by ``pip install -e ".[bench]"``.
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
    """Return module and question of every script that can be run, by name."""
    found = {}
    for path in sorted(FOLDER.glob("*/*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if "main" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            question = (ast.get_docstring(tree) or "").splitlines()[0]
            found[path.stem] = f"{path.parent.name}.{path.stem}", question
    return found


def run(module, options, threads):
    """Return the exit code of a benchmark."""
    # Benchmarks import each other by folder, also in the workers that joblib starts.
    search = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    environment = os.environ | dict.fromkeys(THREADS, str(threads)) | {"PYTHONPATH": search}
    return subprocess.run([sys.executable, "-m", module, *options], env=environment).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS")
    parser.add_argument("name", nargs="?", help="the benchmark; without it all are listed")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the benchmark")
    arguments = parser.parse_args()
    known = benchmarks()
    if arguments.name is None:
        for module, question in sorted(known.values()):
            print(f"{module:32} {question}")
        return 0
    if arguments.name not in known:
        parser.error(f"unknown benchmark {arguments.name!r}; there are {', '.join(known)}")
    return run(known[arguments.name][0], arguments.options, arguments.threads)


if __name__ == "__main__":
    sys.exit(main())
