"""Private model tuning that a scikit-learn user can drop into existing code."""

__version__ = "0.1.0.dev0"

__all__ = ["__version__"]
