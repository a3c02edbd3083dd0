"""What a user meets first: the import, the README's example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import skdpbo

ROOT = Path(__file__).resolve().parent.parent
OPTIONAL = {"dask", "distributed", "dp_accounting", "hypothesis", "matplotlib", "opendp", "pandas"}


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.M | re.S)


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


@pytest.mark.parametrize("block", python_blocks("README.md"))
def test_readme_example_runs(block):
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    assert names["search"].privacy_.status == "proved"
