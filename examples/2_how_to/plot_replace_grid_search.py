"""
======================================================
Replacing GridSearchCV in a ColumnTransformer pipeline
======================================================

A `GridSearchCV` tunes a pipeline for a table of mixed columns. Some rows are sensitive, and the
chosen parameters and the score will be published. Only the search changes.
"""

# %%
# Data
# ----
# Synthetic loans of a bank: 2000 **public** rows, such as an older published extract, and 6000
# **protected** rows of current customers.

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from skdpbo import DPGridSearchCV
from skdpbo.plotting import PrivacyUtilityDisplay, SearchTraceDisplay

JOBS = ["clerk", "driver", "nurse", "teacher", "builder"]


def loans(n, seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": np.exp(rng.normal(10.3, 0.5, n)),
            "age": rng.integers(18, 80, n).astype(float),
            "job": rng.choice(JOBS, n),
            "region": rng.choice(["north", "south"], n),
        }
    )
    wealth = np.log(table["income"]) - 10.3
    risk = -1.2 * wealth + 0.0015 * (table["age"] - 45) ** 2 - 0.6
    risk += table["job"].map(dict(zip(JOBS, [0.0, 0.5, -0.5, -0.5, 0.3], strict=True)))
    default = (risk + rng.logistic(size=n) > 0).astype(int)
    table.loc[rng.random(n) < 0.05, "age"] = np.nan
    return table, default


X_public, y_public = loans(2000, seed=0)
X_private, y_private = loans(6000, seed=1)
X_public.head()

# %%
# Pipeline and grid are scikit-learn's and stay as they are. Imputation, scaling and categories are
# inside the pipeline, so that they are learned from public rows.

numbers = make_pipeline(SimpleImputer(), StandardScaler(), PolynomialFeatures())
columns = ColumnTransformer(
    [
        ("numbers", numbers, ["income", "age"]),
        ("categories", OneHotEncoder(handle_unknown="ignore"), ["job", "region"]),
    ]
)
pipeline = make_pipeline(columns, LogisticRegression(max_iter=1000))
grid = {
    "columntransformer__numbers__polynomialfeatures__degree": [1, 2, 3],
    "logisticregression__C": [0.001, 0.01, 0.1, 1.0],
}

# %%
# Before
# ------
# This result depends on every customer without a limit:

before = GridSearchCV(pipeline, grid, scoring="neg_log_loss")
before.fit(pd.concat([X_public, X_private]), np.concatenate([y_public, y_private]))
print(before.best_params_, f"{before.best_score_:.4f}")

# %%
# After
# -----
# Another class, `epsilon`, and the customers as `X_val`. Public rows train and cross-validate as
# before; the customers' rows only judge.

search = DPGridSearchCV(pipeline, grid, scoring="neg_log_loss", epsilon=1.0)
search.fit(X_public, y_public, X_val=X_private, y_val=y_private)
print(search.best_params_, f"{search.best_score_:.4f}")
print(search.privacy_)

# %%
# The released score has noise of about .02: the log loss of a row is bounded by 6.9, and a tenth of
# epsilon is spent on the score (`score_fraction`).
#
# `search.predict`, `search.best_estimator_` and `search.cv_results_` work as before. The model was
# trained on public rows, and `cv_results_` is about public rows; no score of a customer is kept.

pd.DataFrame(search.cv_results_)[["params", "mean_test_score", "rank_test_score"]].head(4)

# %%
# Blue values are public, orange ones were released:

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plots: matplotlib is not installed)")
else:
    SearchTraceDisplay.from_estimator(search)

# %%
# Cost
# ----
# Synthetic customers allow a look at the exact score of the released candidate on the protected
# rows, for several epsilons, six searches each. `guide=False` skips the cross-validation, which the
# choice of `DPGridSearchCV` does not use.

from sklearn.metrics import log_loss
from sklearn.model_selection import ParameterGrid

exact = []
for params in ParameterGrid(grid):
    model = pipeline.set_params(**params).fit(X_public, y_public)
    exact.append(-log_loss(y_private, model.predict_proba(X_private)))

epsilons = [0.01, 0.1, 1.0]
scores = []
for epsilon in epsilons:
    runs = DPGridSearchCV(
        pipeline, grid, scoring="neg_log_loss", epsilon=epsilon, guide=False, refit=False
    )
    chosen = [
        runs.fit(X_public, y_public, X_val=X_private, y_val=y_private).best_index_ for _ in range(6)
    ]
    scores.append([exact[index] for index in chosen])
    print(f"epsilon {epsilon:4}: mean score {np.mean(scores[-1]):.4f}, best {max(exact):.4f}")

try:
    import matplotlib.pyplot as plt
except ImportError:
    pass
else:
    PrivacyUtilityDisplay(
        epsilon=epsilons,
        utility={"released candidate": scores},
        reference={"best candidate": max(exact)},
        utility_name="exact score (minus log loss)",
    ).plot()
    plt.show()

# %%
# With 6000 protected rows the candidate chosen at epsilon 1 is within a few thousandths of the
# best. Noise decreases with the number of rows times epsilon: with 600 rows the curve shifts by a
# factor of ten to the right.
#
# Other differences
# -----------------
# - The score must have a proof: means of bounded per-record losses, such as `"accuracy"` and errors
#   with a bound, and `"roc_auc"`, `"f1"`, `"r2"` and their family.
# - `refit` cannot be a callable, and `best_index_` is a private choice, not the first rank.
# - `random_state` stays None: a seed voids the guarantee.
