"""The rule of the gallery about warnings."""

import warnings


def raise_warnings(gallery_conf, path):
    """Let a warning of the next example fail the build, as in the tests."""
    warnings.simplefilter("error")
