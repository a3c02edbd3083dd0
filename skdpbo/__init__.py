"""Private model tuning and private Gaussian processes to drop into scikit-learn code."""

from skdpbo.gaussian_process import (
    DPSparseGPClassifier,
    DPSparseGPRegressor,
    GPUCBModeler,
    PrivateProjection,
    ProjectedGP,
)
from skdpbo.model_selection import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    make_per_record_scorer,
)

__version__ = "0.1.0"

__all__ = [
    "DPBayesSearchCV",
    "DPGIBOSearchCV",
    "DPGridSearchCV",
    "DPRandomizedSearchCV",
    "DPSparseGPClassifier",
    "DPSparseGPRegressor",
    "GPUCBModeler",
    "PrivateProjection",
    "ProjectedGP",
    "__version__",
    "make_per_record_scorer",
]
