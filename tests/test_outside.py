"""First contact of a user: the import, the code on the pages."""

import doctest
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import skdpbo
from skdpbo.exceptions import SkdpboWarning

ROOT = Path(__file__).resolve().parent.parent
OPTIONAL = {"dask", "distributed", "dp_accounting", "hypothesis", "matplotlib", "opendp", "pandas"}


# A comment "not run: <reason>" in the line before a block leaves the block out.
BLOCK = re.compile(
    r"(?P<left_out>^<!-- not run: \S[^\n]* -->\n)?"
    r"^(?P<fence>```|~~~)(?P<kind>python|pycon)\n(?P<code>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    if BLOCK.search(path.read_text("utf-8"))
)
SLOW = {"docs/audits.md", "docs/migration.md", "docs/user_guide.md"}


def run_page(path):
    """Run the code of a page from top to bottom, as if pasted; return its names."""
    text, names = path.read_text("utf-8"), {"__name__": "page"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start("code"))
        if block["left_out"]:
            continue
        if block["kind"] == "pycon":
            session = doctest.DocTestParser().get_doctest(
                block["code"], names, path.name, str(path), line
            )
            doctest.DebugRunner(optionflags=doctest.ELLIPSIS).run(session, clear_globs=False)
            names.update(session.globs)  # the session has a copy
        else:
            # Empty lines before it make tracebacks count the lines of the page.
            exec(compile("\n" * line + block["code"], str(path), "exec"), names)
    return names


def test_without_optional_packages_the_import_works_and_drawing_says_what_is_missing():
    # A None in sys.modules makes the import fail, as if the package were not installed.
    code = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(OPTIONAL)}))
import skdpbo
from skdpbo.plotting import BudgetDisplay
from skdpbo.privacy import PrivacyLedger
try:
    BudgetDisplay.from_ledger(PrivacyLedger(epsilon=1.0))
except ImportError as error:
    assert "pip install matplotlib" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_public_names_exist():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", skdpbo.__version__)
    assert all(hasattr(skdpbo, name) for name in skdpbo.__all__)
    assert f"\nversion: {skdpbo.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW)) for page in PAGES]
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # pages write ledgers and releases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkdpboWarning)  # explained on the page
        names = run_page(ROOT / page)
    if page == "README.md":
        assert names["search"].privacy_.status == "proved"


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ("```python\nx = 1\n```\ntext\n~~~python\nx / 0\n~~~", ZeroDivisionError),
        ("```python\ny = 1\n```\n```pycon\n>>> y\n2\n```", doctest.DocTestFailure),
        ("```pycon\n>>> z\n```", doctest.UnexpectedException),
        ("<!-- not run: a reason -->\n\n```python\nundefined\n```", NameError),
        ("<!-- not run: a reason -->\n```python\nundefined\n```", None),
        ("```pycon\n>>> x = 1\n```\n```python\nassert x == 1\n```", None),
    ],
)
def test_a_page_fails_where_a_block_fails(tmp_path, blocks, error):
    page = tmp_path / "page.md"
    page.write_text(f"{blocks}\n", "utf-8")
    if error is None:
        run_page(page)
    else:
        with pytest.raises(error):
            run_page(page)
