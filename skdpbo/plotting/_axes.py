"""What all displays share: the axes they draw on, and the promise written on them."""

__all__ = ["PRIVATE", "PUBLIC", "axes_for", "promise"]

# Colours that the colour-blind can tell apart (Okabe and Ito): public knowledge is blue, what was
# released from protected records is orange, in every plot.
PUBLIC, PRIVATE = "#0072B2", "#D55E00"


def axes_for(ax, name):
    """Return (figure, axes): those given, or new ones.

    Parameters
    ----------
    ax : matplotlib Axes or None
    name : str
        Of the display, for the message.

    Raises
    ------
    ImportError
        When matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f"{name} draws with matplotlib: pip install matplotlib") from error
    if ax is None:
        _, ax = plt.subplots()
    return ax.figure, ax


def promise(guarantee):
    """Return the guarantee in few words for a title, or its absence.

    Parameters
    ----------
    guarantee : PrivacyGuarantee or None
    """
    if guarantee is None:
        return "no privacy statement"
    if guarantee.status == "void":
        return "no privacy guarantee (void)"
    delta = f", δ = {guarantee.delta:.3g}" if guarantee.delta else ""
    condition = ", conditional" if guarantee.status == "conditional" else ""
    return f"ε = {guarantee.epsilon:.3g}{delta} for the {guarantee.protects}{condition}"
