"""
=======================================
Tune a model without revealing patients
=======================================

A clinic tunes a classifier on its patients' records and wants to publish the chosen parameters and
the score. It first uses `GridSearchCV`, whose published score reveals the diagnosis of one patient.
Then it uses `DPBayesSearchCV`, whose results may be published under a stated guarantee.
"""

# %%
# Public and protected rows
# -------------------------
# The breast cancer data of scikit-learn are public; here most of them stand for sensitive records.
# 200 **public** rows may influence everything, such as an older, released study. The other 369
# rows, the clinic's own patients, are **protected**.

import math

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpbo import DPBayesSearchCV, DPGridSearchCV
from skdpbo.exceptions import BudgetExceededError
from skdpbo.privacy import PrivacyLedger

data = load_breast_cancer()
X_public, X_private, y_public, y_private = train_test_split(
    data.data, data.target, train_size=200, stratify=data.target, random_state=0
)
pipeline = make_pipeline(StandardScaler(), LogisticRegression())
grid = {"logisticregression__C": [0.001, 0.01, 0.1, 1.0, 10.0]}
print(f"{len(y_public)} public rows, {len(y_private)} protected rows")

# %%
# Leak of GridSearchCV
# --------------------
# The clinic runs a grid search on its patients and publishes `best_score_`. An attacker who knows
# the other patients' rows wants the diagnosis of patient 0. There are two possibilities: run the
# search for both and compare with the published number.


def published_by_grid_search(y):
    search = GridSearchCV(pipeline, grid, cv=3).fit(X_private, y)
    return float(search.best_score_), search.cv_results_["mean_test_score"]


def with_diagnosis(patient, diagnosis):
    y = y_private.copy()
    y[patient] = diagnosis
    return y


score, table = published_by_grid_search(y_private)
print(f"GridSearchCV publishes   {score!r}")
for diagnosis, name in enumerate(data.target_names):
    guess, _ = published_by_grid_search(with_diagnosis(0, diagnosis))
    match = "<- this is it" if guess == score else ""
    print(f"if patient 0 is {name:9}  {guess!r} {match}")

# %%
# This is exact: the numbers agree to the last digit for one diagnosis only. The same holds for
# other patients, and the whole table reveals more than its best entry:

revealed = [
    published_by_grid_search(with_diagnosis(patient, 1 - y_private[patient]))
    for patient in range(6)
]
by_score = sum(other != score for other, _ in revealed)
by_table = sum(not np.array_equal(other, table) for _, other in revealed)
print(f"GridSearchCV: best_score_ reveals {by_score} of 6 patients, cv_results_ {by_table} of 6")

# %%
# Rounding would protect some patients and not others. Differential privacy gives every patient the
# same guarantee.
#
# The same search with a guarantee
# --------------------------------
# `DPBayesSearchCV` trains and cross-validates on the public rows. The protected rows are used to
# choose among the visited candidates, at random but in favour of good ones, and to release the
# winner's score with noise. `epsilon` limits the dependence on any one patient; smaller is more
# private and noisier.

search = DPBayesSearchCV(
    pipeline,
    {"logisticregression__C": (1e-4, 1e2, "log-uniform")},
    n_iter=12,
    epsilon=1.0,
)
with PrivacyLedger(epsilon=1.0) as ledger:
    search.fit(X_public, y_public, X_val=X_private, y_val=y_private)

print(f"skdpbo publishes  C = {search.best_params_['logisticregression__C']:.3g}")
print(f"                  score = {search.best_score_:.3f}")
print(search.privacy_)

# %%
# Publish this sentence with the result. At epsilon 1, an attacker who considers both diagnoses of a
# patient equally likely, and knows everything else, is right with probability at most

print(f"at most {math.e / (1 + math.e):.0%} after skdpbo, 100% after GridSearchCV")

# %%
# The attack fails: the scores released in five runs for each diagnosis differ more from run to run
# than between the diagnoses. (These data are public. On real patients ten runs with epsilon 1 are
# together a release with epsilon 10.)

for diagnosis, name in enumerate(data.target_names):
    y = with_diagnosis(0, diagnosis)
    runs = [
        DPGridSearchCV(pipeline, grid, epsilon=1.0, guide=False)
        .fit(X_public, y_public, X_val=X_private, y_val=y)
        .best_score_
        for _ in range(5)
    ]
    print(f"if patient 0 is {name:9}", *(f"{run:.3f}" for run in sorted(runs)))

# %%
# The budget of 1 is spent, so the ledger refuses a second search before a protected row is read:

try:
    with ledger:
        search.fit(X_public, y_public, X_val=X_private, y_val=y_private)
except BudgetExceededError as error:
    print("refused:", error)

# %%
# Cost
# ----
# Noise decreases with the number of protected rows, and 369 is few. A tenth of epsilon is spent on
# the score (`score_fraction`), the rest on the choice:

sd, n = search.best_score_std_, len(y_private)
print(f"standard deviation of the noise on the score: {sd:.3f} with {n} protected rows")
print(f"                                              {sd / 10:.4f} with {10 * n}")

# %%
# With so few rows the score is a rough figure; `score_fraction=0.5` would make it five times as
# precise, at the expense of the choice. The choice itself suffers less. Because these data are
# public, the exact accuracy of every candidate can be shown here; for real patients it must never
# be printed.

exact = [
    pipeline.set_params(**params).fit(X_public, y_public).score(X_private, y_private)
    for params in search.cv_results_["params"]
]
print(f"exact accuracy: chosen {exact[search.best_index_]:.3f}, best {max(exact):.3f}")

# %%
# `best_params_`, `best_score_` and `privacy_` may be published. `cv_results_` and `best_estimator_`
# depend on public rows only. The plot shows both kinds of results.

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    C = np.array([params["logisticregression__C"] for params in search.cv_results_["params"]])
    order = np.argsort(C)
    fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    public_scores = search.cv_results_["mean_test_score"]
    ax.semilogx(C[order], public_scores[order], "o-", label="cross-validation, public rows")
    ax.errorbar(
        search.best_params_["logisticregression__C"],
        search.best_score_,
        yerr=sd / n,
        fmt="s",
        capsize=4,
        label="released choice and score (± noise sd)",
    )
    ax.set(xlabel="C", ylabel="accuracy")
    ax.legend()
