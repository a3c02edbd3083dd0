"""
================================================
Tune a model without giving a patient away
================================================

A clinic tunes a classifier on its patients' records and wants to publish the tuning: the chosen
parameters and the score. This page does it twice. First with `GridSearchCV`, to see how one
published number gives away the diagnosis of one patient. Then with `DPBayesSearchCV`, whose
results are safe to publish, in a sense that it states itself.
"""

# %%
# Two kinds of rows
# -----------------
# The breast cancer data of scikit-learn are public; we play that most of them are not. 200
# **public** rows may influence everything (an older, released study, say). The other 369 rows are
# **protected**: they are the clinic's own patients.

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
# What GridSearchCV gives away
# ----------------------------
# The clinic runs a grid search on its patients and publishes `best_score_`. Somebody knows the
# other patients' rows (a colleague, or the owner of an earlier copy) and wants the diagnosis of
# patient 0. There are two possibilities: try both, and see which one gives the published number.


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
# Nothing was estimated: the numbers agree to the last digit for one diagnosis and not for the
# other. It is not bad luck of one patient either, and the whole table says more than its best
# entry:

revealed = [
    published_by_grid_search(with_diagnosis(patient, 1 - y_private[patient]))
    for patient in range(6)
]
by_score = sum(other != score for other, _ in revealed)
by_table = sum(not np.array_equal(other, table) for _, other in revealed)
print(f"GridSearchCV: best_score_ reveals {by_score} of 6 patients, cv_results_ {by_table} of 6")

# %%
# Rounding the score would hide some patients and not others, and nobody could say which. That is
# what differential privacy is for: it promises the same to every patient.
#
# The same search, with a promise
# -------------------------------
# `DPBayesSearchCV` trains and cross-validates on the public rows only. The protected rows are
# used once: to choose among the candidates it visited, at random but in favour of the good ones,
# and to add noise to the winner's score. `epsilon` limits how much all of this may depend on any
# one patient; smaller is safer and noisier.

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
# The sentence above belongs to the result: publish it too. What epsilon = 1 means here: somebody
# who finds both diagnoses of a patient equally likely beforehand, and knows everything else, is
# right about the patient with probability at most

print(f"at most {math.e / (1 + math.e):.0%} after skdpbo, 100% after GridSearchCV")

# %%
# We can watch the attack fail. Below are the scores that five runs release for each of the two
# diagnoses: they differ from run to run far more than from one diagnosis to the other. (Here the
# data are public, so we may run as often as we like. On real patients ten runs with epsilon = 1
# would together be a release with epsilon = 10.)

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
# The ledger keeps count. The budget of 1 is spent, so a second search is refused before it reads
# a protected row:

try:
    with ledger:
        search.fit(X_public, y_public, X_val=X_private, y_val=y_private)
except BudgetExceededError as error:
    print("refused:", error)

# %%
# The price
# ---------
# Noise is divided by the number of protected rows, and 369 is few. One tenth of epsilon pays for
# the score (`score_fraction`), nine tenths for the choice:

sd = math.sqrt(2) / (search.score_fraction * search.epsilon)
n = len(y_private)
print(f"standard deviation of the noise on the score: {sd / n:.3f} with {n} protected rows")
print(f"                                              {sd / (10 * n):.4f} with {10 * n}")

# %%
# So with these few rows read the score as "about", not to the third digit; `score_fraction=0.5`
# would make it five times sharper, at the expense of the choice. The choice suffers less.
# Because these data are public we may look at what may never be printed for real patients: the
# exact accuracy of every candidate.

exact = [
    pipeline.set_params(**params).fit(X_public, y_public).score(X_private, y_private)
    for params in search.cv_results_["params"]
]
print(f"exact accuracy: chosen {exact[search.best_index_]:.3f}, best {max(exact):.3f}")

# %%
# What may be published: `best_params_`, `best_score_` and `privacy_`. The table `cv_results_` and
# the fitted `best_estimator_` know the public rows only. The plot shows both kinds of results.

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
