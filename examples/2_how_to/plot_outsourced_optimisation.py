"""
===================================================
Outsourced optimisation: two parties, two processes
===================================================

A hospital looks for the patients who respond best to a treatment. A test costs a day, so that only
40 of 3000 patients can be tested. A company chooses them but may not see the records.

The hospital is the *curator*: `PrivateProjection` releases a noisy copy of the records once. The
company is the *modeler*: `GPUCBModeler` sees that copy, queries one row after another, and receives
the outcomes. Here the modeler runs in a separate process, with one file and lines of text as input.
"""

# %%
# Records
# -------
# Synthetic age, blood pressure and blood sugar, with a synthetic response.

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skdpbo.gaussian_process import GPUCBModeler, PrivateProjection, optimize
from skdpbo.gaussian_process.outsourced import serve_answers

rng = np.random.default_rng(0)
n = 3000
age = 20 + 70 * rng.beta(2.5, 2.0, n)
pressure = rng.normal(105 + 0.4 * age, 14)
sugar = rng.normal(80 + 0.25 * pressure, 15)
records = np.column_stack([age, pressure, sugar])


def response(records):
    age, pressure, sugar = records.T
    good = np.exp(-(((age - 38) / 16) ** 2) - ((pressure - 142) / 20) ** 2)
    fair = np.exp(-(((age - 72) / 18) ** 2) - ((sugar - 125) / 22) ** 2)
    return 30 + 45 * good + 30 * fair


outcome = response(records)

# %%
# Curator
# -------
# The position of each row is protected up to a displacement that the curator states. First scale
# the columns to units of one displacement: here 5 years, 8 mmHg and 8 mg/dl. Then state, from
# general knowledge, the box that holds all rows.

units = np.array([5.0, 8.0, 8.0])
low, high = np.array([20, 80, 60]) / units, np.array([90, 200, 180]) / units

curator = PrivateProjection(
    epsilon=2.0, displacement=1.0, X_bounds=(low, high), answers_per_row=1, n_answers=40
)
curator.fit(records / units)
print(curator.privacy_)

# %%
# This guarantee covers a move of one unit. Hiding the replacement of a whole row is a much stronger
# requirement:

print(f"replacing a row: epsilon = {curator.replacement_guarantee().epsilon:.1f}")

# %%
# The released file holds the noisy rows, the standard deviation of their noise, the box and the
# guarantee. It may be published.

folder = tempfile.TemporaryDirectory()
file = Path(folder.name) / "release.npz"
curator.release_.save(file)
print(curator.release_)

# %%
# Modeler, in a separate process
# ------------------------------
# It loads the file; all further input is lines of JSON. The kernel is its own assumption: responses
# vary by 20 around 40, over about 5 units. `sqrt_beta` weighs exploration; noisier rows need more.

MODELER = """
import sys
from sklearn.gaussian_process.kernels import RBF
from skdpbo.gaussian_process import GPUCBModeler, ProjectionRelease
from skdpbo.gaussian_process.outsourced import run_queries

release = ProjectionRelease.load(sys.argv[1])
modeler = GPUCBModeler(release, kernel=20.0**2 * RBF(5.0), prior_mean=40.0, sqrt_beta=4.0)
run_queries(modeler, 40, sys.stdin, sys.stdout)
"""

# %%
# The curator serves the modeler until it closes the connection. `evaluate` performs the test of a
# queried row, if the row may still be answered.

tested = []


def perform_test(row):
    tested.append(row)
    return outcome[row]


with subprocess.Popen(
    [sys.executable, "-c", MODELER, str(file)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
) as process:
    n_answered = serve_answers(curator, process.stdout, process.stdin, evaluate=perform_test)
print(f"{n_answered} tests, modeler's exit code {process.returncode}")

# %%
# The messages are row numbers and outcomes, and the curator keeps a log:

for row, y in curator.answers_[:3]:
    print(f"row {row}: {y:.1f}")

# %%
# Queries beyond the agreed number are refused:

try:
    curator.answer(tested[0], 0.0)
except RuntimeError as error:
    print("refused:", error)

# %%
# Cost
# ----
# *Regret* is the response of the best patient minus that of the best tested one. Random search is
# the baseline: it needs no data and is perfectly private. `optimize` runs both parties in one
# process.


def regret(rows):
    return outcome.max() - np.maximum.accumulate(outcome[rows])


def private_search(epsilon, seed):
    curator = PrivateProjection(epsilon=epsilon, X_bounds=(low, high), n_answers=40)
    curator.fit(records / units, outcome)
    modeler = GPUCBModeler(
        curator.release_,
        kernel=20.0**2 * RBF(5.0),
        prior_mean=40.0,
        sqrt_beta=4.0,
        random_state=seed,  # of the first row, not of any noise
    )
    return regret([answer.row for answer in optimize(curator, modeler, 40)])


random = np.array([regret(rng.choice(n, 40, replace=False)) for _ in range(500)])
curves = {"the two processes (epsilon 2)": regret(tested)}
for epsilon in (0.5, 2.0, 8.0):
    curves[f"epsilon {epsilon:g}"] = np.mean(
        [private_search(epsilon, seed) for seed in range(6)], axis=0
    )

print(f"random search                   {random[:, -1].mean():5.2f}")
for name, curve in curves.items():
    print(f"{name:30}  {curve[-1]:5.2f}")

# %%
# At a small epsilon most of the gain over random search is lost. The outcomes and the tested rows
# are *not* protected; see `answer_epsilon` for noisy outcomes.
#
# Figure
# ------

folder.cleanup()
try:
    import matplotlib.pyplot as plt
except ImportError:
    print("(no plot: matplotlib is not installed)")
else:
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    tests = np.arange(1, 41)
    band = np.quantile(random, [0.1, 0.9], axis=0)
    ax.fill_between(tests, *band, color="0.9", lw=0, label="random search, 80 % of runs")
    ax.plot(tests, random.mean(axis=0), color="0.5", ls="--", label="random search, mean")
    colours = ["black", *plt.get_cmap("viridis")(np.linspace(0.1, 0.8, 3))]
    for (name, curve), colour in zip(curves.items(), colours, strict=True):
        one = name.startswith("the two")
        label = name if one else f"{name}, mean of 6"
        ax.plot(tests, curve, color=colour, lw=1 if one else 2, drawstyle="steps-post", label=label)
    ax.set(
        xlabel="patients tested",
        ylabel="regret: response short of the best patient's",
        xlim=(1, 40),
        ylim=(0, None),
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    ax.set_title("Simple regret of an outsourced search")
