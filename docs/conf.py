"""Sphinx configuration: ``sphinx-build -W docs docs/_build``."""

import re
import sys
import tomllib
from pathlib import Path

import skdpbo

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))  # the gallery imports gallery_warnings by its name

project = "skdpbo"
author = "The skdpbo developers"
copyright = "2026, The skdpbo developers"
release = skdpbo.__version__
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst", "**/*.ipynb", "benchmarks/results"]
# The table of running times would load scripts from the network.
exclude_patterns += ["sg_execution_times.rst", "**/sg_execution_times.rst"]
default_role = "literal"

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings state shapes and units
numpydoc_show_class_members = False
# Public docstrings document parameters and results; a violation is a warning, so -W fails.
# Left out: an example (EX), a See Also (SA) and an extended summary (ES) in every docstring; the
# infinitive (SS05) and the one line (SS06) of summaries; the capital letter and the full stop of
# descriptions (PR08, PR09, RT04, RT05), which may be short phrases; and unnamed results (RT02).
numpydoc_validation_checks = {
    *("GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "GL10"),
    *("SS01", "SS02", "SS03", "SS04"),
    *("PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR10"),
    *("RT01", "RT03", "YD01"),
}
numpydoc_validation_exclude = {
    r"\.Budget\.(epsilon|delta)$",  # Python's own words for the fields of a named tuple
}

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "doc_module": ("skdpbo",),
    "backreferences_dir": "api/backreferences",
    "reference_url": {"skdpbo": None},
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib", "gallery_warnings.raise_warnings"),
    "within_subsection_order": "FileNameSortKey",
    "parallel": 2,  # examples in two processes
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "skdpbo"
html_static_path = ["_static"]
html_css_files = ["front.css"]
html_sidebars = {"index": []}  # the front page has the width of two columns
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}


def repository_links(pyproject):
    """Return the theme's link to the repository, if the project's metadata have an address."""
    address = pyproject["project"].get("urls", {}).get("Repository")
    icon = "fa-solid fa-code-branch"
    return [{"name": "Repository", "url": address, "icon": icon}] if address else []


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
html_theme_options["icon_links"] = repository_links(PYPROJECT)


def _without_foreign_references(app, what, name, obj, options, lines):
    """Drop references to the glossary and guide of scikit-learn from inherited docstrings."""
    lines[:] = [
        re.sub(r":(?:term|ref):`([^`<]*?) *(?:<[^`>]*>)?`", r"``\1``", line) for line in lines
    ]


def setup(app):
    """Register the hook."""
    app.connect("autodoc-process-docstring", _without_foreign_references)
