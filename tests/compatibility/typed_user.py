"""Code of a user who checks types: mypy reads it strictly beside the wheel, nothing runs it."""

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPClassifier,
    DPSparseGPRegressor,
    GPUCBModeler,
    PrivateProjection,
    ProjectedGP,
    make_per_record_scorer,
)
from skdpbo.audit import leak_scan, likelihood_ratio_audit
from skdpbo.gaussian_process import optimize
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.mechanisms import DiscreteLaplace
from skdpbo.model_selection import Chunks, Descent, GradientSurrogate, PrivateSelection
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.plotting import SearchTraceDisplay
from skdpbo.preprocessing import DPMinMaxScaler, DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger

Rows = NDArray[np.float64]


def tune(X: Rows, y: Rows) -> float:
    """Return the epsilon of searches under one budget."""
    with PrivacyLedger(epsilon=2.0) as ledger:
        search = DPBayesSearchCV(LogisticRegression(), {"C": (1e-4, 1e2, "log-uniform")})
        search.fit(X[:200], y[:200], X_val=X[200:], y_val=y[200:])
        guarantee: PrivacyGuarantee = search.privacy_
        print(guarantee.assumptions, guarantee.epsilon, search.predict(X[:3]))
        chunks = DPGridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, protect=Chunks(10))
        chunks.set_params(protect__n_chunks=20)
        print(chunks.fit(X, y).best_params_["C"], chunks.privacy_guarantee().delta)
        rule = PrivateSelection(expected_trials=5)
        DPRandomizedSearchCV(
            DPLogisticRegression(), {"C": [0.1, 1.0]}, n_iter=2, protect=rule, loss_bound=3.0
        ).fit(X, y)
        DPGIBOSearchCV(
            LogisticRegression(),
            {"C": (0.1, 1.0)},
            descent=Descent(tol=0.1),
            surrogate=GradientSurrogate.paper(),
            scoring=make_per_record_scorer(lambda y, prediction: abs(y - prediction), bound=1.0),
        ).fit(X, y)
        SearchTraceDisplay.from_estimator(search).plot()
        return ledger.spent().epsilon


def fit_models(X: Rows, y: Rows) -> float:
    """Return the epsilon of a private classifier."""
    mean, std = DPSparseGPRegressor(X_bounds=(0, 1), y_bounds=(0, 1)).fit(X, y).predict(X, True)
    print(mean - std, DPRidge(epsilon=0.5).fit(X, y).predict(X) - y)
    print(DPSparseGPClassifier(classes=[0, 1]).fit(X, y).predict_proba(X))
    for transformer in (DPMinMaxScaler(), DPSimpleImputer(), DPStandardScaler(), DPOneHotEncoder()):
        print(transformer.fit(X).transform(X))
    model = DPLogisticRegression(epsilon=1.0, X_bounds=(-3.0, 3.0)).fit(X, y)
    print(model.predict_proba(X[:3]), leak_scan(model, X[0]))
    return pipeline_guarantee(model).epsilon


def outsource(X: Rows, y: Rows) -> int:
    """Return the number of answers of a curator."""
    curator = PrivateProjection(n_components=1, data_norm=1.0).fit(X, y)
    model = ProjectedGP(n_components=1, data_norm=1.0).fit(X, y)
    modeler = GPUCBModeler(curator.release_, kernel=model.kernel_)
    return len(optimize(curator, modeler, 5))


noise: DiscreteLaplace = DiscreteLaplace(epsilon=1.0, sensitivity=1)
print(likelihood_ratio_audit(noise.release, 0, 1).violates(noise.guarantee))
