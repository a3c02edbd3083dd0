"""Private linear models: every training record is protected."""

from skdpbo.linear_model._logistic import DPLogisticRegression
from skdpbo.linear_model._ridge import DPRidge

__all__ = ["DPLogisticRegression", "DPRidge"]
