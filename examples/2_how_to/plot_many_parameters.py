"""
A weight for every feature
==========================

A classifier of handwritten digits lets training rows vote, near ones more than far ones. Each of 16
features has a weight in the distance. With a prior count of votes these are 17 parameters, too many
for a grid. :class:`skdpbo.DPGIBOSearchCV` follows private gradients of the loss.
"""

# %%
# Data
# ----
# Means of 2 x 2 pixels of scikit-learn's digits. 300 images are public, 1100 are protected, and
# nobody sees the others before the end.

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import euclidean_distances

from skdpbo import DPGIBOSearchCV

digits = load_digits()
X = digits.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 16
order = np.random.RandomState(0).permutation(len(X))
X, y = X[order], digits.target[order]

# %%
# A model with a parameter for every feature
# ------------------------------------------
# Parameters of scikit-learn's models are single values with names, so each weight has its own.

FEATURES = [f"w{k:02}" for k in range(16)]


class Neighbours(ClassifierMixin, BaseEstimator):
    """Votes of the training rows, weighted by a squared exponential kernel."""

    def __init__(self, **params):
        for name in [*FEATURES, "prior"]:
            setattr(self, name, params.get(name, 1.0 if name != "prior" else 0.1))

    def get_params(self, deep=True):
        return {name: getattr(self, name) for name in [*FEATURES, "prior"]}

    def _scaled(self, X):
        return np.asarray(X) * [getattr(self, name) for name in FEATURES]

    def fit(self, X, y):
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.rows_, self.codes_ = self._scaled(X), np.eye(len(self.classes_))[codes]
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X):
        distances = euclidean_distances(self._scaled(X), self.rows_, squared=True)
        votes = np.exp(-distances / 2) @ self.codes_ + self.prior
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


# %%
# The search
# ----------
# A public search finds where to begin, three private steps follow, and the end is chosen privately.

space = dict.fromkeys(FEATURES, (0.3, 30.0, "log-uniform")) | {"prior": (1e-3, 10.0, "log-uniform")}
search = DPGIBOSearchCV(
    Neighbours(), space, n_iter=3, epsilon=1.0, scoring="neg_log_loss", loss_bound=6.9, cv=2
)
search.fit(X[:300], y[:300], X_val=X[300:1400], y_val=y[300:1400])
print(search.privacy_)

# %%
# Gain
# ----
# Losses of the 397 images that no search has seen: of the model as it comes, at the start of the
# descent, and at its end.

start = search.cv_results_["params"][-len(search.descent_.trajectory) - 1]
for name, params in (("defaults", {}), ("start", start), ("end", search.best_params_)):
    model = Neighbours(**params).fit(X[:300], y[:300])
    print(f"{name:8} {log_loss(y[1400:], model.predict_proba(X[1400:])):.3f}")

# %%
# The weights say which parts of an image tell digits apart.

print(np.round([search.best_params_[name] for name in FEATURES], 1).reshape(4, 4))
