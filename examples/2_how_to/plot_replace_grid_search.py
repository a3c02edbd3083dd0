"""
======================================================
Replacing GridSearchCV in a ColumnTransformer pipeline
======================================================

You have a pipeline for a table of mixed columns, and a `GridSearchCV` that tunes it. Some of the
rows are sensitive, and the chosen parameters and the score will be published. This page changes the
search, and nothing else.
"""

# %%
# The table
# ---------
# A bank's loans, made up: 2000 **public** rows, say an older extract that was published, and 6000
# **protected** rows of present customers.

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
# The pipeline and the grid are scikit-learn's, and stay as they are. All that is learned from rows,
# imputation, scaling, categories, is inside the pipeline: so it will be learned from public rows.

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
# Whatever this publishes depends on every customer without a limit:

before = GridSearchCV(pipeline, grid, scoring="neg_log_loss")
before.fit(pd.concat([X_public, X_private]), np.concatenate([y_public, y_private]))
print(before.best_params_, f"{before.best_score_:.4f}")

# %%
# After
# -----
# Another class, `epsilon`, and the customers as `X_val`. The public rows train and cross-validate
# as before; the customers' rows only judge.

search = DPGridSearchCV(pipeline, grid, scoring="neg_log_loss", epsilon=1.0)
search.fit(X_public, y_public, X_val=X_private, y_val=y_private)
print(search.best_params_, f"{search.best_score_:.4f}")
print(search.privacy_)

# %%
# The released score is noisy, about .02 here: the log loss of a row may be as large as 6.9, and
# only a tenth of epsilon pays for the score (`score_fraction`). The choice gets the other nine.
#
# What you use afterwards has the same names: `search.predict`, `search.best_estimator_`,
# `search.cv_results_`. The fitted model was trained on public rows and may be published as well.
# `cv_results_` is a table about public rows; the searcher keeps no score of a customer.

pd.DataFrame(search.cv_results_)[["params", "mean_test_score", "rank_test_score"]].head(4)

# %%
# The plot tells the two worlds apart: blue is public, orange was released.

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plots: matplotlib is not installed)")
else:
    SearchTraceDisplay.from_estimator(search)

# %%
# How much does it cost?
# ----------------------
# These customers are made up, so we may look at what must stay hidden otherwise: the exact score of
# the released candidate on the protected rows, for several epsilons, six searches each.
# `guide=False` skips the cross-validation, which the choice of `DPGridSearchCV` does not need.

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
# With 6000 protected rows the candidate found at epsilon 1 is within a few thousandths of the best.
# The noise is divided by the number of rows times epsilon: with 600 rows read the curve ten times
# further to the right.
#
# What changed, besides the name
# ------------------------------
# - The score must be a mean of bounded losses of single rows. `"accuracy"`, `"neg_log_loss"` and
#   errors with a bound are; `"roc_auc"`, `"f1"` and `"r2"` are refused with the reason.
# - `refit` cannot be a callable, and `best_index_` is a private choice, not the first rank.
# - `random_state` stays None: a seed would take the guarantee away.
