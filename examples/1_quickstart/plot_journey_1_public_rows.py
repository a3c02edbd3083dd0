"""
Journey 1: public rows train, protected rows judge
==================================================

A lab has 500 public images of handwritten digits, and 1297 by its own patients, which are
protected. It wants to publish the settings of a classifier and its score on the patients. This page
goes from the table to the sentence to publish.
"""

# %%
# The table
# ---------
# The digits of scikit-learn: 64 grey levels and a label in each row. Here the later rows stand for
# the patients. The public rows need no consent; they may influence everything.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skdpbo import DPGridSearchCV
from skdpbo.mechanisms import PermuteAndFlip
from skdpbo.plotting import PrivacyUtilityDisplay, SearchTraceDisplay
from skdpbo.privacy import PrivacyLedger

X, y = load_digits(return_X_y=True, as_frame=True)
X_public, y_public, X_private, y_private = X[:500], y[:500], X[500:], y[500:]

# %%
# The change
# ----------
# Scaling is inside the pipeline, so that it is learned from public rows. Pipeline and grid are
# those of ``GridSearchCV(pipeline, grid)``. The class is another, and has an epsilon.

pipeline = make_pipeline(StandardScaler(), SVC())
grid = {"svc__C": [0.1, 1, 10], "svc__gamma": [1e-4, 1e-3, 1e-2, 1e-1]}
search = DPGridSearchCV(pipeline, grid, scoring="accuracy", epsilon=1.0)

# %%
# Choice of epsilon
# -----------------
# Public rows answer before a patient is looked at: draw as many rows as there are patients from
# them, and compute which candidate would be released.

display = PrivacyUtilityDisplay.from_public_rows(
    search, X_public, y_public, n_records=(100, 300, 1297)
)

# %%
# For 1297 patients .3 is enough, and 1 has room for a score.
#
# The search
# ----------
# The ledger refuses whatever exceeds the budget, before a row is read. The public rows train and
# cross-validate, the patients only judge.

with PrivacyLedger(epsilon=1.0, dataset="patients 2026") as ledger:
    search.fit(X_public, y_public, X_val=X_private, y_val=y_private)

# %%
# Publish the settings, the score with its noise, and the sentence:

print(search.best_params_)
print(f"accuracy {search.best_score_:.3f} ± {search.best_score_std_:.3f} (noise)")
print(search.privacy_)

# %%
# `cv_results_` and `best_estimator_` are computed from public rows alone (blue).

display = SearchTraceDisplay.from_estimator(search)

# %%
# The attacker's view
# -------------------
# The attacker knows all patients but one, and both labels that this one may have. `GridSearchCV`
# would reveal the label (:doc:`quickstart </auto_examples/1_quickstart/plot_quickstart>`). Here it
# moves each number of errors by at most one. The digits are public, so that the effect on the
# choice can be computed for each patient:

models = [
    pipeline.set_params(**params).fit(X_public, y_public).predict(X_private)
    for params in search.cv_results_["params"]
]
wrong = np.array([predicted != y_private for predicted in models])
choice = PermuteAndFlip(0.9, sensitivity=1)  # a tenth of epsilon is the score's
errors = wrong.sum(axis=1)
law = choice.probabilities(errors)
others = [choice.probabilities(errors + np.where(column, -1, 1)) for column in wrong.T]

change = np.abs(np.log(others) - np.log(law))
print(f"the released choice had the probability {law[search.best_index_]:.3f}")
print(f"one patient changes it by at most {np.abs(np.subtract(others, law)).max():.1g},")
print(f"and no probability, however small, by more than a factor e^{change.max():.2f}")
print(f"one patient moves the score by {1 / len(y_private):.4f}, the noise by", end=" ")
print(f"{search.best_score_std_:.4f}")

# %%
# At epsilon 1 an attacker who holds both labels equally likely is right with probability at most
# e / (1 + e) = 73 %, whatever else is known. A second search of these patients would add to that,
# and the ledger refuses it.
#
# Not covered: patients among the public rows, running time, and several rows of one patient
# (:doc:`/auto_examples/2_how_to/plot_people_not_rows`).
