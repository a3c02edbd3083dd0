"""The table of private names is up to date, and no test goes around it without need."""

import ast
from pathlib import Path

import pytest

from _support import internals

TESTS = Path(__file__).parents[1]


def names():
    return [(module, name) for module, line in internals.HOMES.items() for name in line.split()]


def test_every_name_is_where_the_table_says():
    lost = [name for _, name in names() if getattr(internals, name, None) is None]
    assert lost == [], "correct their lines of HOMES in internals.py"


def test_no_name_stands_in_two_lines():
    listed = [name for _, name in names()]
    assert len(listed) == len(set(listed))


@pytest.mark.slow
def test_every_name_is_imported_by_a_test():
    imported = set()
    for path in TESTS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "_support.internals" in text else ():
            if isinstance(node, ast.ImportFrom) and node.module == "_support.internals":
                imported |= {alias.name for alias in node.names}
    unused = {name for _, name in names()} - imported
    assert not unused, f"remove {unused} from HOMES of internals.py"
