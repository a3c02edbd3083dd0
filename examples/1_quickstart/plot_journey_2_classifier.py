"""
Journey 2: every record is sensitive, a classifier to publish
=============================================================

569 women were examined, and none of the records is public. A classifier of their tumours is to be
published with its accuracy. This page goes from the raw table to the sentence to publish.
"""

# %%
# The table and its bounds
# ------------------------
# Four columns of the breast cancer data of scikit-learn, chosen by their meaning: each column
# costs accuracy. The bounds are what the instrument can show, not what the records are; wide
# ones cost little. Split by position, never by value.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpbo.linear_model import DPLogisticRegression
from skdpbo.mechanisms import DiscreteLaplace
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger

data = load_breast_cancer(as_frame=True)
X = data.data[["mean radius", "mean texture", "mean smoothness", "mean concave points"]]
y = data.target  # 1: benign
bounds = ([0, 0, 0, 0], [50, 100, 0.5, 0.5])
test = np.arange(len(X)) % 4 == 3

# %%
# The promise before the data
# ---------------------------
# The guarantee needs no records, so it can be agreed on first. A pipeline is as private as all of
# its steps together, and one that learns without noise makes it void:

model = DPLogisticRegression(X_bounds=bounds, classes=[0, 1], epsilon=2.5)
careless = pipeline_guarantee(make_pipeline(StandardScaler(), model))
print(careless.status, "-", careless.assumptions[0])

# %%
# Leave `StandardScaler` out, as this model standardises columns privately by itself. Elsewhere use
# the steps of `skdpbo.preprocessing`.
#
# Train and judge
# ---------------
# The accuracy on the women set apart is a release, too: one woman moves the number of right
# answers by one. The ledger adds it to the model.

with PrivacyLedger(epsilon=3.0, delta=1e-5, dataset="tumours") as ledger:
    model.fit(X[~test], y[~test])
    ledger.charge(PrivacyGuarantee(epsilon=0.5, protects="test records"), label="accuracy")
    right = int(np.sum(model.predict(X[test]) == y[test]))
    accuracy = int(DiscreteLaplace(0.5, sensitivity=1).release(right)) / test.sum()
print(f"accuracy {accuracy:.3f} ± {np.sqrt(8) / test.sum():.3f} (noise)")

# %%
# Publish the model, the accuracy, and:

print(model.privacy_)
print(ledger)

# %%
# The price
# ---------
# 427 records are few: five trainings each. Always answering "benign" is right for 63 %.

plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[~test], y[~test])
print(f"without privacy {plain.score(X[test], y[test]):.3f}")
for epsilon in (0.3, 1.0, 3.0, 10.0):
    fits = [
        DPLogisticRegression(X_bounds=bounds, classes=[0, 1], epsilon=epsilon)
        .fit(X[~test], y[~test])
        .score(X[test], y[test])
        for _ in range(5)
    ]
    print(f"epsilon {epsilon:4}:", *(f"{score:.2f}" for score in sorted(fits)))

# %%
# The attacker's view
# -------------------
# Noisy coefficients, public bounds and classes; no row:

print(*(name for name in vars(model) if name.endswith("_")))

# %%
# The attacker knows all women but one, and compares trainings with her and with the most unusual
# one that the bounds allow in her place. Both clouds are the same to the eye:

replaced, labels = X[~test].copy(), y[~test].copy()
replaced.iloc[0], labels.iloc[0] = bounds[1], 1 - labels.iloc[0]
clouds = {
    "with her": (X[~test], y[~test]),
    "with another in her place": (replaced, labels),
}
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for (name, table), marker in zip(clouds.items(), "o^", strict=True):
    fits = [
        DPLogisticRegression(X_bounds=bounds, classes=[0, 1], epsilon=2.5).fit(*table).coef_[0]
        for _ in range(25)
    ]
    axes.scatter(*np.transpose(fits)[[0, 3]], marker=marker, alpha=0.7, label=name)
axes.set(xlabel="coefficient of mean radius", ylabel="of mean concave points")
axes.legend()
plt.show()

# %%
# No test can do more than `privacy_` allows. One that wrongly accuses 5 % finds at most

power = norm.cdf(norm.ppf(0.05) + model.privacy_.mu)
print(f"{power:.0%} of the cases, from the model")
