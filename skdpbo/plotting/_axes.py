"""Axes, colours and titles shared by all displays."""

import textwrap

from skdpbo.privacy._guarantee import TINY_DELTA

# Safe for colour-blind readers (Okabe and Ito). In every plot public values are blue and values
# released from protected records are orange.
PUBLIC, PRIVATE = "#0072B2", "#D55E00"
TITLE_WIDTH = 48  # characters in a line of a title over axes of the default size


def axes_for(ax, name):
    """Return (figure, axes): those given, or new ones.

    Parameters
    ----------
    ax : matplotlib Axes or None
    name : str
        Name of the display, for the error message.

    Raises
    ------
    ImportError
        When matplotlib is not installed.
    """
    try:  # an optional dependency
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{name} draws with matplotlib: pip install matplotlib.") from error
    if ax is None:
        _, ax = plt.subplots(layout="constrained")  # makes room for long labels
    return ax.figure, ax


def plain(text):
    """Return a user's label, escaped so that matplotlib does not parse it as a formula."""
    return str(text).replace("$", r"\$")


def promise(guarantee):
    """Return a short text of the guarantee for a title.

    Parameters
    ----------
    guarantee : PrivacyGuarantee or None
    """
    if guarantee is None:
        return "no privacy statement"
    if guarantee.status == "void":
        return "no privacy guarantee (void)"
    delta = f", δ = {guarantee.delta:.3g}" if guarantee.delta > TINY_DELTA else ""
    condition = ", conditional" if guarantee.status == "conditional" else ""
    text = f"ε = {guarantee.epsilon:.3g}{delta} for the {guarantee.protects}{condition}"
    return textwrap.fill(text, TITLE_WIDTH)
