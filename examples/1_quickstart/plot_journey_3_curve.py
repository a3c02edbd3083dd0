"""
Journey 3: a curve with error bands
===================================

442 patients with diabetes were followed for a year, and every record is sensitive. The progress of
the disease is to be published as a curve over the body-mass index, with bands that include the
privacy noise.
"""

# %%
# The table and its bounds
# ------------------------
# The diabetes data of scikit-learn. Bounds come from general knowledge: an index between 15 and 45,
# and a score that its authors define between 0 and 350. Values outside are clipped. A minimum of
# the table would be the value of one patient.

import pickle

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from skdpbo import DPSparseGPRegressor
from skdpbo.exceptions import BudgetExceededError
from skdpbo.plotting import BudgetDisplay, GPPosteriorDisplay
from skdpbo.privacy import PrivacyLedger

data = load_diabetes(as_frame=True, scaled=False)
X, y = data.data[["bmi"]].to_numpy(), data.target.to_numpy()
public = {"X_bounds": (15, 45), "y_bounds": (0, 350)}

# %%
# Fit
# ---
# Sums over the records are released once, with noise; all else follows from them, also how rough
# the curve is and how much patients of one index differ.

gp = DPSparseGPRegressor(epsilon=3.0, **public)
with PrivacyLedger(epsilon=3.0, delta=1e-5, dataset="diabetes") as ledger:
    gp.fit(X, y)

# %%
# Publish the model or its curve, and the sentence:

display = GPPosteriorDisplay.from_estimator(
    gp, np.linspace(17, 42, 100)[:, None], input_name="body-mass index", target_name="progression"
)
print(gp.privacy_)

# %%
# The band is that of the curve. A single patient differs from it by the noise of the observations,
# which is estimated from the same sums:

for index in (20.0, 25.0, 30.0, 35.0):
    mean, std = gp.predict([[index]], return_std=True)
    patient = np.sqrt(std**2 + gp.noise_variance_)
    print(f"index {index:.0f}: curve {mean[0]:.0f} ± {1.96 * std[0]:.0f}, ", end="")
    print(f"a patient ± {1.96 * patient[0]:.0f}")

# %%
# Do not publish `gp.score(X, y)` or anything else that is computed from the records again. A second
# fit is refused before a record is read:

try:
    with ledger:
        gp.fit(X, y)
except BudgetExceededError as error:
    print("refused:", error)
display = BudgetDisplay.from_ledger(ledger)

# %%
# The price
# ---------
# These records are public, so that they may be fitted many times and drawn. At epsilon 1 there are
# too few for more than the trend, and the band says so. Twice the records have the effect of twice
# the epsilon.

grid = np.linspace(17, 42, 100)[:, None]
figure, panels = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
for axes, epsilon in zip(panels, (1.0, 3.0, 10.0), strict=True):
    mean, std = DPSparseGPRegressor(epsilon=epsilon, **public).fit(X, y).predict(grid, True)
    axes.plot(X, y, ".", color="0.8", markersize=3)
    axes.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="#D55E00", alpha=0.25)
    axes.plot(grid, mean, color="#D55E00")
    axes.set(title=f"epsilon {epsilon:g}", xlabel="body-mass index", ylim=(0, 350))
panels[0].set_ylabel("progression in a year")
plt.show()

# %%
# The attacker's view
# -------------------
# An object of a size that does not depend on the number of records, without a record in it:

print(f"{len(pickle.dumps(gp))} bytes:", *(name for name in vars(gp) if name.endswith("_")))

# %%
# The attacker knows 441 patients and looks for one at an index of 40. Ten fits with this patient's
# score at 0, and ten at 350:

found = {}
for score in (0.0, 350.0):
    tables = np.append(X, [[40.0]], axis=0), np.append(y, score)
    fits = [DPSparseGPRegressor(epsilon=3.0, **public).fit(*tables) for _ in range(10)]
    found[score] = sorted(fit.predict([[40.0]])[0] for fit in fits)
    print(f"score {score:3.0f}: curve at 40", *(f"{value:.0f}" for value in found[score]))

# %%
# The runs overlap: one curve tells little about which of the two it was. `privacy_` bounds what any
# attacker learns about any patient. What the curve says about all people of an index is not a leak:
# it is the purpose.
