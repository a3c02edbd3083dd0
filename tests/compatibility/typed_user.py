"""Code of a user who checks types: mypy reads it beside the installed wheel, nothing runs it."""

import numpy as np
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from skdpbo import DPBayesSearchCV, DPGridSearchCV
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.mechanisms import DiscreteLaplace
from skdpbo.model_selection import Chunks
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger


def tune(X: np.ndarray, y: np.ndarray) -> float:
    """Return the epsilon of two searches under one budget."""
    with PrivacyLedger(epsilon=2.0) as ledger:
        search = DPBayesSearchCV(LogisticRegression(), {"C": (1e-4, 1e2, "log-uniform")})
        search.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
        guarantee: PrivacyGuarantee = search.privacy_
        print(guarantee.assumptions, guarantee.epsilon)
        chunks = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect=Chunks(10))
        print(chunks.fit(X, y).best_params_["C"])
        return ledger.spent().epsilon


def fit_model(X: np.ndarray, y: np.ndarray) -> float:
    """Return the epsilon of a private classifier."""
    model = DPLogisticRegression(epsilon=1.0, X_bounds=(-3.0, 3.0)).fit(X, y)
    print(model.predict_proba(X[:3]))
    return pipeline_guarantee(model).epsilon


noise: DiscreteLaplace = DiscreteLaplace(epsilon=1.0, sensitivity=1)
