"""
============================
Tuning when no row is public
============================

6000 people answered a survey, and none of the rows is public. ``protect="all"`` tunes any
scikit-learn estimator by *sample and aggregate*. It divides the rows into k chunks, trains every
candidate on each of them, and chooses by the scores of all these models. One person is in one chunk
and affects one of the k models of a candidate.
"""

# %%
# Rows
# ----
# Synthetic answers. The first one predicts much, the second one in waves, for which a tree needs
# some depth.

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPGridSearchCV
from skdpbo.model_selection import Chunks
from skdpbo.plotting import PrivacyUtilityDisplay

rng = np.random.default_rng(0)


def people(n):
    X = rng.normal(size=(n, 4))
    risk = 2.5 * X[:, 0] + 3.0 * np.sin(3 * X[:, 1])
    return X, (risk + rng.logistic(size=n) > 0).astype(int)


X, y = people(6000)
tree = DecisionTreeClassifier(random_state=0)
depths = {"max_depth": [1, 3, 6, 12]}

# %%
# Search
# ------
# There is no `X_val`: the model of a chunk is scored on the rows of the other chunks. Every row of
# `X` and `y` is protected.

search = DPGridSearchCV(tree, depths, protect=Chunks(20), epsilon=1.0)
search.fit(X, y)
print(search.best_params_)
print(search.privacy_)

# %%
# Released and not released
# -------------------------
# `best_params_`, and nothing else that knows a row: `cv_results_` lists the candidates without
# scores. There is no fitted model, because a model that was trained on these rows would be a
# release of its own:

print("cv_results_:", *search.cv_results_)
try:
    search.best_estimator_  # noqa: B018
except AttributeError as error:
    print(error)

# %%
# A score could be released too, but its noise would dominate, so it is not paid for: one person
# affects a model that is 1/20 of the mean, so the noise is about 300 times that of a score on 6000
# protected rows. With ``score_fraction=0.1`` its standard deviation would be

sd = np.sqrt(2) * (1 / 20 + 1 / 6000) / (0.1 * search.epsilon)
print(f"{sd:.2f}, on a scale from 0 to 1")

# %%
# The choice needs less: it compares models of the same chunk and clips their differences
# (`skdpbo.model_selection.Chunks`). All of epsilon is spent on it.
#
# Use of the result
# -----------------
# The released depth may be published and used by others on their rows, by you for a model kept in
# house, or for a model to publish that is private itself, such as `DPSparseGPRegressor`. In house:

X_new, y_new = people(20_000)
in_house = tree.set_params(**search.best_params_).fit(X, y)
print(f"accuracy of the model in house: {in_house.score(X_new, y_new):.3f}")

# %%
# Publish neither that model nor its score on rows of `X`.
#
# Number of chunks
# ----------------
# The choice is the best depth *for as many rows as a chunk has*, which differs from the best depth
# for 6000 rows if there are many chunks. On the other hand more chunks mean less noise. Synthetic
# data allow a look at both effects. First, the accuracy of each depth when trained on one chunk:


def chunk_models(k):
    """Errors on the other chunks, and exact accuracies, of every depth on each of k chunks."""
    chunks = np.arange(len(X)) % k
    errors, accuracy = np.zeros((2, len(depths["max_depth"]), k))
    for i, depth in enumerate(depths["max_depth"]):
        for j in range(k):
            model = DecisionTreeClassifier(max_depth=depth, random_state=0)
            model.fit(X[chunks == j], y[chunks == j])
            errors[i, j] = np.sum(model.predict(X) != y, where=chunks != j)
            accuracy[i, j] = model.score(X_new, y_new) if j < 20 else np.nan
    return errors.astype(int), np.nanmean(accuracy, axis=1)


models = {k: chunk_models(k) for k in (5, 20, 200)}
for k, (_, accuracy) in models.items():
    print(f"{len(X) // k:5} rows each", *(f"{value:.3f}" for value in accuracy))

# %%
# 1200 or 300 rows show that depth 6 is best; 30 rows do not. Second, the noise. The search counts
# by how many errors a model exceeds the best one of its chunk, at most R, which is 5 % of the rows
# that score it. One person changes the sum over chunks by at most R through their own chunk and by
# 2 through each other one. The law of permute-and-flip gives the expected quality of the released
# depth:

from skdpbo.mechanisms import PermuteAndFlip

quality = np.array(
    [tree.set_params(max_depth=d).fit(X, y).score(X_new, y_new) for d in depths["max_depth"]]
)


def expected_quality(k, epsilon):
    """Mean exact accuracy, trained on all rows, of the depth that is released."""
    errors, _ = models[k]
    R = (len(X) - len(X) // k) // 20
    excess = np.minimum(errors - errors.min(axis=0), R).sum(axis=1)
    return PermuteAndFlip(epsilon, R + 2 * (k - 1)).probabilities(excess) @ quality


epsilons = np.geomspace(0.03, 10, 11)
curves = {
    f"{k} chunks of {len(X) // k} rows": [expected_quality(k, e) for e in epsilons] for k in models
}
for k in models:
    print(f"{k:3} chunks", *(f"{expected_quality(k, e):.3f}" for e in (0.1, 0.3, 1.0, 3.0)))

# %%
# Four times the chunks need about a third of the epsilon. With too many chunks a larger epsilon
# does not help, because the chunks prefer another depth. A rule that also did well on real data: k
# = 10 / epsilon, at least 5 chunks, and at least 200 rows in each.
#
# Parameters that depend on the number of rows must be rescaled: the `C` of `LogisticRegression`
# multiplies a sum over rows and has to be divided by k before training on all of them.

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    colours = ["#D55E00", "#009E73", "#CC79A7"]  # those of the display on the right
    left.plot(quality, "o--", color="#0072B2", label="all 6000 rows")
    for (k, (_, accuracy)), colour in zip(models.items(), colours, strict=True):
        left.plot(accuracy, "o-", color=colour, label=f"{len(X) // k} rows, a chunk of {k}")
        best = accuracy.argmax()
        left.plot(best, accuracy[best], "*", color=colour, ms=17, mec="white")
    left.set_xticks(range(4), depths["max_depth"])
    left.set(xlabel="max_depth", ylabel="exact accuracy", title="what a chunk can see")
    left.legend(frameon=False, loc="upper left")
    left.set_ylim(0.55, 0.95)
    PrivacyUtilityDisplay(
        epsilon=epsilons,
        utility=curves,
        reference={"best depth": max(quality)},
        utility_name="exact accuracy, trained on all rows",
    ).plot(ax=right)
    right.axhline(quality.mean(), color="0.5", ls=":", label="a depth at random")
    right.set_xticks([0.03, 0.1, 0.3, 1, 3, 10], ["0.03", "0.1", "0.3", "1", "3", "10"])
    right.set_xticks([], minor=True)
    right.set_title("the released depth, every row protected")
    right.legend(framealpha=1, edgecolor="none", loc="lower right", bbox_to_anchor=(1, 0.08))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    plt.show()

# %%
# Protecting every row costs about ten times the epsilon of protecting the validation rows only (see
# "Public rows, protected rows, and how many you need"). If the model is private itself, "Tuning a
# model that is itself private" also releases the model.
