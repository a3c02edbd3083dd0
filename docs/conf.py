"""Sphinx configuration: ``sphinx-build -W docs docs/_build``."""

import re
from pathlib import Path

import skdpbo

ROOT = Path(__file__).resolve().parent.parent

project = "skdpbo"
author = "The skdpbo developers"
copyright = "2026, The skdpbo developers"
release = skdpbo.__version__
version = release

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst", "**/*.ipynb"]
default_role = "literal"

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say more than the annotations
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "doc_module": ("skdpbo",),
    "backreferences_dir": "api/backreferences",
    "reference_url": {"skdpbo": None},
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "skdpbo"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}


def _without_foreign_references(app, what, name, obj, options, lines):
    """Inherited docstrings refer to the glossary and the guide of scikit-learn, not to ours."""
    lines[:] = [re.sub(r":(?:term|ref):`([^`<]*?) *(?:<[^`>]*>)?`", r"``\1``", line) for line in lines]


def setup(app):
    """Register the hook."""
    app.connect("autodoc-process-docstring", _without_foreign_references)
