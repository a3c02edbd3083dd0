"""Print requirements that pyproject.toml declares, one a line.

``requirements.py group dev`` prints a dependency group as it is written;
``requirements.py lowest test`` prints the run-time dependencies and one extra, each pinned
to its lower bound.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def pin_to_lower_bound(requirement):
    """``name>=1.2`` becomes ``name==1.2``, a marker stays; any other form is an error."""
    match = re.fullmatch(r"([\w.-]+(?:\[[a-z,]+\])?)>=([0-9][0-9.]*)(; .+)?", requirement)
    if match is None:
        sys.exit(f"{requirement!r} is not of the form name>=version")
    return f"{match[1]}=={match[2]}{match[3] or ''}"


def main(kind, name):
    """Return the lines for one of the two commands."""
    settings = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    if kind == "group":
        return settings["dependency-groups"][name]
    if kind == "lowest":
        project = settings["project"]
        wanted = project["dependencies"] + project["optional-dependencies"][name]
        return [pin_to_lower_bound(requirement) for requirement in wanted]
    sys.exit(f"unknown command {kind!r}")


if __name__ == "__main__":
    print("\n".join(main(*sys.argv[1:])))
