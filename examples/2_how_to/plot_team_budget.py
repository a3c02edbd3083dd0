"""
=====================
One budget for a team
=====================

Several people work with the same protected records, and every published result costs epsilon. A
`PrivacyLedger` in a file keeps the total of all charges. It refuses a charge above the budget
before a record is read, and no charge is lost in a crash.
"""

# %%
# Budget
# ------
# The records are 4000 synthetic patients of a ward. The owner decides *once* on the total: epsilon
# 1.5 at delta 1e-6.

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.tree import DecisionTreeClassifier

from skdpbo import DPGridSearchCV, DPSparseGPRegressor
from skdpbo.exceptions import BudgetExceededError
from skdpbo.plotting import BudgetDisplay
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, compose

rng = np.random.default_rng(0)


def patients(n):
    age = rng.uniform(20, 80, n)
    pressure = 100 + 0.5 * age + rng.normal(0, 10, n)
    ill = (rng.logistic(size=n) + 0.06 * (age - 50) + 0.05 * (pressure - 125) > 0).astype(int)
    return np.column_stack([age, pressure]), ill


X_public, y_public = patients(800)  # of another ward, which has published its records
X, y = patients(4000)

folder = tempfile.TemporaryDirectory()
path = pathlib.Path(folder.name) / "ward.ledger"
ledger = PrivacyLedger(epsilon=1.5, delta=1e-6, path=path, dataset="ward 2026")

# %%
# Ada tunes a tree
# ----------------
# Everybody opens the ledger by its path. Fits inside the `with` block are charged.

tree = DecisionTreeClassifier(random_state=0)
search = DPGridSearchCV(tree, {"max_depth": [1, 2, 3, 4, 6, 8]}, epsilon=0.5)

with PrivacyLedger.from_file(path, "ward 2026"):
    search.fit(X_public, y_public, X_val=X, y_val=y)

print(search.best_params_, f"score {search.best_score_:.3f}")

# %%
# Ben fits curves
# ---------------
# Ben shows blood pressure as a function of age for six length-scales, at epsilon 0.3 each:

curve = DPSparseGPRegressor(
    epsilon=0.3,
    delta=1e-7,
    X_bounds=(20, 80),
    y_bounds=(80, 180),
    inducing_points=6,
)
with PrivacyLedger.from_file(path, "ward 2026"):
    for years in (5, 10, 15, 20, 30, 40):
        curve.set_params(kernel=15**2 * RBF(years)).fit(X[:, :1], X[:, 1])

# %%
# By addition Ada and Ben would have spent 0.5 + 6 * 0.3 = 2.3, above the budget. Gaussian releases
# compose better than by addition:

print(ledger)

# %%
# A crash
# -------
# Ada's next run dies: a process that ends itself while the candidates are scored.

crash = f"""
import os
import numpy as np
from sklearn.dummy import DummyClassifier
from skdpbo import DPGridSearchCV
from skdpbo.privacy import PrivacyLedger

class Doomed(DummyClassifier):
    def predict(self, X):
        if X.any():  # a protected row
            os._exit(9)  # no clean-up, no exception, nothing
        return super().predict(X)

X, y = np.zeros((100, 2)), np.arange(100) % 2
with PrivacyLedger.from_file({str(path)!r}, "ward 2026"):
    search = DPGridSearchCV(Doomed(), {{"constant": [0, 1]}}, epsilon=0.2, guide=False)
    search.fit(X, y, X_val=X + 1, y_val=y)
"""
died = subprocess.run([sys.executable, "-c", crash], check=False).returncode
print(f"exit status {died}; {len(ledger.entries)} charges, the last one {ledger.entries[-1].label}")

# %%
# The charge was on disk before the first protected row was read, and it stays, because it is
# unknown what a process revealed before it died. Charges are never returned.
#
# A refusal
# ---------
# Ben asks for a curve with a third of the noise. It exceeds the budget:

with PrivacyLedger.from_file(path, "ward 2026"):
    try:
        curve.set_params(epsilon=1.0).fit(X[:, :1], X[:, 1])
    except BudgetExceededError as error:
        print("refused:", str(error).replace(folder.name, "..."))

# %%
# `affords` checks a charge without making it. `remaining` is the epsilon left for a release of any
# kind; a Gaussian release may fit although it is larger.

for epsilon in (0.1, 0.3, 1.0):
    fits = ledger.affords(curve.set_params(epsilon=epsilon).privacy_guarantee())
    print(f"a curve with epsilon {epsilon}: {'fits' if fits else 'does not fit'}")
print("any release:", ledger.remaining())

# %%
# Releases made without skdpbo are charged by hand, such as a histogram with Laplace noise:

ledger.charge(PrivacyGuarantee(epsilon=0.05), label="histogram of ages, by hand")

# %%
# Figure
# ------
# Composed epsilon charge by charge, beside the sum of the epsilons. The cross is the refused curve.

guarantees = [entry.guarantee for entry in ledger.entries]
added = np.cumsum([0.0] + [guarantee.epsilon for guarantee in guarantees])
composed = compose(*guarantees, delta=ledger.delta).epsilon
print(f"composed {composed:.2f}, added {added[-1]:.2f}, budget {ledger.epsilon}")
refused = compose(*guarantees[:-1], curve.privacy_guarantee(), delta=ledger.delta).epsilon

try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    BudgetDisplay.from_ledger(ledger, ax=ax)
    charges = np.arange(len(added))
    ax.step(charges, added, where="post", color="0.6", ls=":", marker=".", label="added up")
    ax.plot(8.5, refused, "X", color="#000000", ms=10, label="refused: never made")
    names = ["Ada: tree", *[f"Ben: curve {k}" for k in range(1, 7)], "Ada: crashed", "by hand"]
    ax.set_xticks(charges, ["", *names])
    ax.set(xlabel="", ylim=(0, 1.1 * added[-1]))
    ax.legend(frameon=False, loc="upper left")
    ax.spines[["top", "right"]].set_visible(False)
    plt.show()

folder.cleanup()  # a real ledger is never deleted: who makes it anew begins to count at 0

# %%
# Rules
# -----
# - One file for each data set, in a place where those who spend cannot delete or replace it.
# - Everybody wraps access to protected rows into a `with` block. Access outside it is not counted:
#   the ledger is book-keeping among people who cooperate.
# - ``GridSearchCV(DPSparseGPRegressor(...))`` in such a block is charged for *every* fit. The
#   searchers of skdpbo are charged once.
# - Many small releases cost less than the sum of their epsilons, if the ledger has a delta. With
#   ``delta=0`` epsilons add.
