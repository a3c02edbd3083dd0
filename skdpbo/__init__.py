"""Private model tuning that a scikit-learn user can drop into existing code."""

from skdpbo.model_selection import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    make_per_record_scorer,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "DPBayesSearchCV",
    "DPGIBOSearchCV",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "__version__",
    "make_per_record_scorer",
]
