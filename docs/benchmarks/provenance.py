"""Results as CSV files that say where they come from.

A file starts with lines ``# key: value``: versions, processor, number of BLAS threads, date, and
the settings and seeds of the run. The table follows. Rows added later by another version or with
other settings are preceded by a block of their own.

    write_rows(path, rows, settings=vars(options), peers=("optuna",))
    append_row(path, row, settings=vars(options))     # a run that may be cut short
    rows = read_rows(path)                            # dicts of str
"""

import csv
import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from threadpoolctl import threadpool_info

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results"
DOCS = FOLDER.parent
IMAGES = DOCS / "images"
PACKAGES = ("skdpbo", "numpy", "scipy", "scikit-learn")
VARY = ("date", "commit")  # from one run to the next, though nothing that matters has changed


def version(package):
    """Version of an installed package, or "not installed"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def processor():
    """Name of the processor, where the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit():
    """Short name of the commit, "+" added where the library differs from it; "" if unknown."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + "+" * bool(_git("status", "--porcelain", "--", "skdpbo"))
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments):
    done = subprocess.run(
        ["git", *arguments], cwd=DOCS.parent, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def blas_threads():
    """Threads of BLAS, a number, or several if the libraries differ."""
    counts = {str(info["num_threads"]) for info in threadpool_info() if info["user_api"] == "blas"}
    return "/".join(sorted(counts)) or os.environ.get("OPENBLAS_NUM_THREADS", "unknown")


def provenance(settings=None, peers=()):
    """Return what a result depends on, a dict of str; ``peers`` are names of packages."""
    versions = [f"{package} {version(package)}" for package in (*PACKAGES, *peers)]
    settings = "; ".join(f"{key}={value}" for key, value in (settings or {}).items())
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "machine": f"{processor()}, {os.cpu_count()} CPUs, {platform.system()}",
        "blas threads": blas_threads(),
        "settings": " ".join(settings.split()),
    }


def write_rows(path, rows, *, settings=None, peers=()):
    """Write a file of rows, dicts; columns that a row lacks stay empty."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = list(dict.fromkeys(key for row in rows for key in row))
    with open(path, "w", newline="", encoding="utf-8") as file:
        _write_header(file, provenance(settings, peers))
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def append_row(path, row, *, settings=None, peers=()):
    """Add a row to a file, which is made if need be; its columns are those of the first row."""
    path = Path(path)
    if not path.exists():
        return write_rows(path, [row], settings=settings, peers=peers)
    with open(path, newline="", encoding="utf-8") as file:
        fields = next(csv.reader(line for line in file if not line.startswith("# ")))
    if not set(row) <= set(fields):
        raise ValueError(f"{path.name} has no column {sorted(set(row) - set(fields))}")
    now, last = provenance(settings, peers), read_provenance(path)[-1]
    with open(path, "a", newline="", encoding="utf-8") as file:
        if any(now[key] != last.get(key) for key in now if key not in VARY):
            _write_header(file, now)
        csv.DictWriter(file, fields, lineterminator="\n").writerow(row)


def _write_header(file, header):
    file.writelines(f"# {key}: {value}\n" for key, value in header.items())


def read_rows(path):
    """Rows of a file, dicts of str."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("# ")))


def read_provenance(path):
    """Blocks of a file, dicts of str: one, or more if it was continued under other conditions."""
    blocks = [{}]
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("# ") and ": " in line:
                key, value = line[2:].rstrip("\n").split(": ", 1)
                if key in blocks[-1]:
                    blocks.append({})
                blocks[-1][key] = value
    return blocks
