"""The API reference has every public name."""

import importlib
import re
from pathlib import Path

import pytest

API = Path(__file__).resolve().parent.parent / "docs" / "api"
FLOORS = sorted(path.stem for path in API.glob("*.rst"))


def test_there_is_a_page_for_every_floor():
    package = Path(importlib.import_module("skdpbo").__file__).parent
    floors = {path.parent.name for path in package.glob("*/__init__.py")} | {"exceptions"}
    inner = {"gaussian_process.outsourced"}  # public names of a package inside a floor
    own = {"_isolation", "surrogate"}  # for the library's own use
    assert set(FLOORS) == (floors - own) | inner


@pytest.mark.parametrize("floor", FLOORS)
def test_every_public_name_is_on_its_page(floor):
    listed = re.findall(r"^   ([A-Za-z]\w*)$", (API / f"{floor}.rst").read_text("utf-8"), re.M)
    assert sorted(listed) == sorted(importlib.import_module(f"skdpbo.{floor}").__all__)
