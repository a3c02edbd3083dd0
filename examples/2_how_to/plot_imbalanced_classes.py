"""
Imbalanced classes
==================

Where one class is rare, accuracy chooses models that hardly ever predict it. The searchers also
choose by ROC AUC, F1 or balanced accuracy, under their scikit-learn names, for the same epsilon.
This example compares the four on 6 % positive records.
"""

# %%
# Public rows and protected ones
# ------------------------------
#
# 2000 public rows train, 3000 protected ones choose.

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPGridSearchCV

X, y = make_classification(
    n_samples=10_000, n_informative=6, weights=[0.96], flip_y=0.04, class_sep=0.8, random_state=0
)
X_public, y_public = X[:2000], y[:2000]
X_protected, y_protected = X[2000:5000], y[2000:5000]
X_new, y_new = X[5000:], y[5000:]
print(f"{y_public.mean():.1%} of the public rows are positive.")

# %%
# One search for each metric
# --------------------------
#
# A score is released with the standard deviation of its noise. For a rare class that is large: one
# record of it counts as much as many others. So the searcher spends three tenths of the budget on
# the score where a tenth would not tell enough, and ``print(search.privacy_)`` shows the shares.

grid = {
    "max_depth": [1, 2, 4, 6, 10, 15],
    "min_samples_leaf": [1, 20],
    "class_weight": [None, "balanced"],
}
searches = {}
for scoring in ("accuracy", "roc_auc", "f1", "balanced_accuracy"):
    search = DPGridSearchCV(
        DecisionTreeClassifier(random_state=0), grid, scoring=scoring, epsilon=2.0, cv=3
    )
    search.fit(X_public, y_public, X_val=X_protected, y_val=y_protected)
    searches[scoring] = search
    print(f"{scoring:18} {search.best_score_:.3f} +- {search.best_score_std_:.3f}")
    print("  ", search.best_params_)

# %%
# The models on new records
# -------------------------

metrics = {
    "ROC AUC": lambda model: roc_auc_score(y_new, model.predict_proba(X_new)[:, 1]),
    "F1": lambda model: f1_score(y_new, model.predict(X_new)),
    "balanced accuracy": lambda model: balanced_accuracy_score(y_new, model.predict(X_new)),
}
fig, ax = plt.subplots(figsize=(7, 3.5))
for place, (scoring, search) in enumerate(searches.items()):
    values = [metric(search.best_estimator_) for metric in metrics.values()]
    ax.bar([i + 0.2 * place for i in range(3)], values, width=0.18, label=scoring)
ax.set(xticks=[i + 0.3 for i in range(3)], xticklabels=list(metrics), ylabel="on new records")
ax.legend(title="chosen by", loc="lower right")
fig.tight_layout()

# %%
# F1 and its family need the class frequencies and a level, the best score of the candidates: both
# come from the public rows and cost nothing. ROC AUC is chosen by the number of wrongly ordered
# pairs. The proofs are on the page "Metrics of pairs and ratios".
#
# A loss of your own takes public weights of the classes, in every searcher:
# ``make_per_record_scorer(loss, bound=1.0, class_weight={0: 1, 1: 15})``.

print(searches["f1"].privacy_)
