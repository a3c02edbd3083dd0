"""Sphinx configuration: ``sphinx-build -W docs docs/_build``."""

import skdpbo

project = "skdpbo"
author = "The skdpbo developers"
copyright = "2026, The skdpbo developers"
release = skdpbo.__version__
version = release

extensions = ["myst_parser"]
myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
