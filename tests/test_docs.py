"""The API reference has every public name; the page of the papers adds up and names what exists."""

import importlib
import re
import runpy
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
API = TESTS.parent / "docs" / "api"
PAPERS = (TESTS.parent / "docs" / "papers.md").read_text("utf-8")
STATES = ("reproduced", "refuted", "partly", "impossible", "not done")
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
    public = set(importlib.import_module(f"skdpbo.{floor}").__all__)
    assert len(listed) == len({*listed})
    assert {*listed} == public, f"docs/api/{floor}.rst: {public ^ {*listed}} is missing or too much"


def test_the_header_links_the_repository_that_the_metadata_name():
    pages = runpy.run_path(str(TESTS.parent / "docs" / "conf.py"))
    links, declared = pages["repository_links"], pages["PYPROJECT"]["project"].get("urls", {})
    shown = [link["url"] for link in pages["html_theme_options"]["icon_links"]]
    assert shown == [declared[name] for name in declared if name == "Repository"]
    address = "https://example.org/skdpbo"
    (link,) = links({"project": {"urls": {"Issues": "no", "Repository": address}}})
    assert link["url"] == address
    assert links({"project": {}}) == links({"project": {"urls": {"Issues": "no"}}}) == []


def test_the_tally_of_the_papers_is_that_of_their_rows():
    total = [0] * 6
    for section in PAPERS.split("\n## ")[1:]:
        states = re.findall(rf"^\| [^|]+ \| ({'|'.join(STATES)}) \|", section, re.M)
        if states:
            title = re.escape(section.splitlines()[0])
            (printed,) = re.findall(rf"^\| \[{title}\]\([^)]*\) \|(.*)\|$", PAPERS, re.M)
            counts = [*map(states.count, STATES), len(states)]
            assert [int(cell) for cell in printed.split("|")] == counts
            total = [a + b for a, b in zip(total, counts, strict=True)]
    (printed,) = re.findall(r"^\| all \|(.*)\|$", PAPERS, re.M)
    assert [int(cell) for cell in printed.split("|")] == total
    assert total[-1] == 68


def anchors(page):
    """Return the anchors of the headings, as GitHub and the docs build make them."""
    headings = re.findall(r"^#{1,3} (.*)", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_headings():
    links = [
        (page, path, anchor)
        for page in (TESTS.parent / "docs").rglob("*.md")
        for path, anchor in re.findall(r"\]\(([\w/.-]*)#([\w-]+)\)", page.read_text("utf-8"))
    ]
    assert len(links) > 50
    assert [
        (page, path, anchor)
        for page, path, anchor in links
        if anchor not in anchors(page.parent / path if path else page)
    ] == []


def test_tests_that_the_papers_name_exist():
    named = re.findall(r"`([\w/]+\.py): ([^`]+)`", PAPERS)
    assert len(named) > 50
    for file, expression in named:
        if file == "FILE.py":  # the explanation
            continue
        names = re.findall(r"(?:def|class) (test\w*)", (TESTS / file).read_text("utf-8"), re.I)
        for word in set(re.findall(r"\w+", expression)) - {"or", "and"}:
            assert any(word.lower() in name.lower() for name in names), (file, word)


def test_benchmarks_that_the_papers_name_exist():
    scripts = {path.stem for path in (API.parent / "benchmarks").glob("*/*.py")}
    assert set(re.findall(r"`run\.py (\w+)", PAPERS)) - {"NAME"} <= scripts
