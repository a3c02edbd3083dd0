"""
From a raw table to a published classifier
==========================================

Every record is sensitive and a classifier is to be published. This example scales the columns and
trains a logistic regression, both privately, under one ledger; states the guarantee of the
pipeline; looks at what an attacker sees; and measures where the limits are.
"""

# %%
# A raw table
# -----------
#
# 20 000 patients, six measurements in different units, one diagnosis. The bounds come from what the
# instruments can show, not from the records, and may be far wider than the data. Five thousand
# further records serve to judge the result; in a real project they would be protected, too.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpbo.linear_model import DPLogisticRegression
from skdpbo.pipeline import pipeline_guarantee
from skdpbo.preprocessing import DPStandardScaler
from skdpbo.privacy import PrivacyLedger

CENTRES = np.array([52.0, 128.0, 25.0, 5.2, 71.0, 1.1])
SPREADS = np.array([14.0, 17.0, 4.5, 1.0, 11.0, 0.4])
BOUNDS = (np.zeros(6), np.array([120.0, 300.0, 80.0, 20.0, 250.0, 15.0]))


def patients(n, seed, n_useless=0, intercept=-1.0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 6 + n_useless))
    risk = Z[:, :6] @ [1.2, 0.8, 0.6, 0.9, -0.4, 1.1] + intercept
    y = (risk + rng.logistic(size=n) > 0).astype(int)
    centres = np.append(CENTRES, np.zeros(n_useless))
    spreads = np.append(SPREADS, np.ones(n_useless))
    low, high = np.append(BOUNDS[0], np.full(n_useless, -9)), np.append(BOUNDS[1], [9] * n_useless)
    return (centres + spreads * Z).clip(low, high), y, (low, high)


X, y, bounds = patients(20_000, seed=0)
X_new, y_new, _ = patients(5000, seed=1)
print(f"{y.mean():.0%} are ill; guessing is right for {max(y_new.mean(), 1 - y_new.mean()):.1%}.")

# %%
# The pipeline and its guarantee
# ------------------------------
#
# Each step is a release of its own, with a share of the budget. The guarantee needs no data, so it
# can be agreed on before anybody opens the table. The classes are public.


def pipeline(epsilon, bounds, classes=(0, 1)):
    return make_pipeline(
        DPStandardScaler(epsilon=0.2 * epsilon, delta=1e-6, X_bounds=bounds),
        DPLogisticRegression(epsilon=0.8 * epsilon, delta=9e-6, X_bounds=(-4, 4), classes=classes),
    )


model = pipeline(1.0, bounds)
print(pipeline_guarantee(model))

# %%
# A step that learns without noise makes the whole void, and is named.

careless = make_pipeline(StandardScaler(), DPLogisticRegression(X_bounds=(-4, 4), classes=[0, 1]))
print(pipeline_guarantee(careless).status, "-", pipeline_guarantee(careless).assumptions[0])

# %%
# Training under a ledger
# -----------------------
#
# The ledger counts every fit in its block and refuses what does not fit the total, before a record
# is read.

with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
    model = pipeline(1.0, bounds).fit(X, y)
for entry in ledger.entries:
    print(f"{entry.label}: epsilon {entry.guarantee.epsilon}, mu {entry.guarantee.mu:.4f}")
exact = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
print(f"accuracy on new patients: private {model.score(X_new, y_new):.3f}")
print(f"                      not private {exact.score(X_new, y_new):.3f}")

# %%
# What an attacker sees
# ---------------------
#
# The published object holds noisy moments and noisy coefficients, public bounds and classes, and no
# record. Suppose that the attacker knows every patient but one and asks whether that one is in the
# table. Coefficients with and without that patient differ by far less than those of two trainings
# on the same table; the guarantee says the same of every test on whatever is published.

coefficients = np.array([pipeline(1.0, bounds).fit(X, y)[-1].coef_[0] for _ in range(6)])
print("spread of the coefficients over six trainings:", coefficients.std(axis=0).round(3))
one_less = X.copy(), y.copy()
one_less[0][0], one_less[1][0] = bounds[1], 1 - y[0]
change = LogisticRegression().fit(StandardScaler().fit_transform(one_less[0]), one_less[1]).coef_
print("change by one patient, without noise:", np.abs(change - exact[-1].coef_)[0].round(4))

# %%
# Limits
# ------
#
# Few records, many columns and rare classes are the limits: the noise stays, and the signal of each
# coefficient shrinks. Two trainings each; recall is the share of the ill who are found.


def measured(n, epsilon, n_useless=0, intercept=-1.0):
    X, y, box = patients(n, 2, n_useless, intercept)
    X_test, y_test, _ = patients(5000, 3, n_useless, intercept)
    models = [pipeline(epsilon, box).fit(X, y) for _ in range(2)]
    found = [m.predict(X_test) for m in models]
    accuracy = np.mean([np.mean(f == y_test) for f in found])
    recall = np.mean([np.mean(f[y_test == 1]) for f in found])
    plain = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    return (
        accuracy,
        recall,
        plain.score(X_test, y_test),
        np.mean(plain.predict(X_test)[y_test == 1]),
    )


CASES = {
    "20 000 records": (20_000, 1.0),
    "2000 records": (2000, 1.0),
    "300 records": (300, 1.0),
    "2000 records, 100 useless columns": (2000, 1.0, 100),
    "2000 records, 4 % ill": (2000, 1.0, 0, -5.0),
    "300 records, epsilon 10": (300, 10.0),
}
print(f"{'epsilon 1, unless stated':36} accuracy (exact)   recall (exact)")
results = {name: measured(*case) for name, case in CASES.items()}
for name, (accuracy, recall, exact_accuracy, exact_recall) in results.items():
    print(f"{name:36} {accuracy:.3f} ({exact_accuracy:.3f})    {recall:.3f} ({exact_recall:.3f})")

figure, axis = plt.subplots(figsize=(7, 3))
positions = np.arange(len(results))
axis.barh(positions - 0.2, [r[2] for r in results.values()], 0.4, label="not private", color="0.8")
axis.barh(positions + 0.2, [r[0] for r in results.values()], 0.4, label="private")
axis.set_yticks(positions, list(results))
axis.invert_yaxis()
axis.set_xlim(0.4, 1)
axis.set_xlabel("accuracy on new patients")
axis.legend(loc="lower right")
figure.tight_layout()
plt.show()

# %%
# A rule of thumb: the noise of a gradient has norm sqrt(columns) / (records x epsilon) up to a
# factor of about four; where that comes near .1, collect more records, drop columns, or publish
# less than a model.
