"""An instance of every private estimator, new at each call: what all of them must pass, all do.

Tests of all private estimators take them from here, and add variants of their own.
"""

from skdpbo.gaussian_process import (
    DPSparseGPClassifier,
    DPSparseGPRegressor,
    PrivateProjection,
    ProjectedGP,
)
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.preprocessing import (
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
)

ROWS = {"X_bounds": (-2, 2)}
BOXES, CLASSES = {**ROWS, "y_bounds": (-2, 2)}, {**ROWS, "classes": [0, 1]}


def regressors():
    return {
        "ridge": DPRidge(**BOXES),
        "regressor": DPSparseGPRegressor(inducing_points=4, **BOXES),
    }


def classifiers():
    return {
        "logistic": DPLogisticRegression(**CLASSES),
        "classifier": DPSparseGPClassifier(inducing_points=4, **CLASSES),
    }


def transformers():
    return {
        "scaler": DPStandardScaler(**ROWS),
        "ranges": DPMinMaxScaler(epsilon=100.0),  # at 1 few records show no range
        "imputer": DPSimpleImputer(**ROWS),
        "encoder": DPOneHotEncoder(),
    }


def of_all_records():
    """Return those that protect every record, or group of them."""
    return regressors() | classifiers() | transformers()


def of_rows():
    """Return those that protect input rows up to a displacement."""
    return {
        "projection": PrivateProjection(data_norm=4.0),
        "projected gp": ProjectedGP(data_norm=4.0, noise_variance=0.1, optimizer=None),
    }


def every_private_estimator():
    return of_all_records() | of_rows()
