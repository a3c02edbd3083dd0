"""
People, not rows
================

Patients come more than once, and a patient is to be protected, not a visit. Here the visits of a
patient are a *group*: they share one part of every sum, with the noise of a single row. The number
of visits of a patient stays secret; the number of patients is public.

The alternative, to divide epsilon by the largest number of visits, needs a public bound of that
number and costs that factor.
"""

# %%
# Visits
# ------
# Up to twenty a patient, and few patients with many. What is to be predicted differs between
# patients as well as between visits.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skdpbo import DPGridSearchCV
from skdpbo.linear_model import DPLogisticRegression
from skdpbo.model_selection import Chunks

rng = np.random.default_rng(0)
N_PATIENTS, MOST = 6000, 20
visits = np.minimum(rng.geometric(0.4, N_PATIENTS), MOST)
patients = np.repeat(np.arange(N_PATIENTS), visits)
own = rng.normal(size=(N_PATIENTS, 4))[patients]
X = np.clip(0.8 * own + 0.6 * rng.normal(size=own.shape), -3, 3)
y = (X @ [1.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=len(X)) > 0).astype(int)
PUBLIC, TEST = 500, 1500
public, test = patients < PUBLIC, patients >= N_PATIENTS - TEST
private = ~public & ~test
print(f"{N_PATIENTS} patients, {len(X)} visits, at most {visits.max()} of one patient")

# %%
# A private model
# ---------------
# ``groups`` names the patient of each row.

model = DPLogisticRegression(epsilon=0.1, X_bounds=(-3, 3), classes=[0, 1])
model.fit(X[private], y[private], groups=patients[private])
print(model.privacy_)

# %%
# The same promise without groups: each visit at epsilon / 20. Accuracy is the mean over patients of
# the mean over their visits, as each patient counts once.


def accuracy(fitted):
    """Return the mean over patients that took no part."""
    right = fitted.predict(X[test]) == y[test]
    return np.average(right, weights=1 / visits[patients[test]])


def fitted(epsilon, groups):
    """Fit at some epsilon for a patient, by groups or by the largest number of visits."""
    if groups:
        share, delta, how = epsilon, 1e-5, {"groups": patients[private]}
    else:  # group privacy: MOST visits at (share, delta) are (epsilon, 1e-5) for a patient
        share, delta, how = epsilon / MOST, 1e-5 / (MOST * np.exp(epsilon)), {}
    new = DPLogisticRegression(epsilon=share, delta=delta, X_bounds=(-3, 3), classes=[0, 1])
    return new.fit(X[private], y[private], **how)


EPSILONS = [0.03, 0.1, 0.3, 1.0]
means = {
    by: [np.mean([accuracy(fitted(e, by)) for _ in range(3)]) for e in EPSILONS]
    for by in (True, False)
}
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(EPSILONS, means[True], "o-", label="visits share one part (groups)")
axes.plot(EPSILONS, means[False], "s--", label="epsilon / 20 for each visit")
axes.set(xscale="log", xlabel="epsilon for a patient", ylabel="accuracy, mean over patients")
axes.legend()

# %%
# A private choice
# ----------------
# With public patients a search trains on them and chooses by the others: ``groups_val`` names the
# patient of each protected row. A patient has one loss, the mean of theirs.

grid = {"C": [0.001, 0.03, 1.0]}
search = DPGridSearchCV(LogisticRegression(), grid, scoring="accuracy", epsilon=0.5)
search.fit(X[public], y[public], X_val=X[private], y_val=y[private], groups_val=patients[private])
print(search.best_params_, search.privacy_.neighbours, search.privacy_.n_protected)

# %%
# Without public patients, chunks keep all visits of a patient together.

search = DPGridSearchCV(
    LogisticRegression(), grid, scoring="accuracy", epsilon=2.0, protect=Chunks(10)
)
search.fit(X[private], y[private], groups=patients[private])
print(search.best_params_, search.privacy_.neighbours, search.privacy_.n_protected)

# %%
# Before a fit, the same statement without data:

print(model.privacy_guarantee(groups=True).to_dict()["unit"])
