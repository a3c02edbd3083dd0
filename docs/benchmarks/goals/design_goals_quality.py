"""Rows of `design_goals.py` that measure regret, error or noise at a given privacy.

Data, functions and noise are seeded, so that runs can be repeated: they carry no guarantee.
"""

import importlib.util
import math
import warnings
from types import SimpleNamespace

import numpy as np
import papers.honkela_melkas_tuning as sinc
from goals.design_goals_lines import line, not_installed
from papers import outsourced
from quality import landscapes
from scipy.optimize import brentq
from sklearn.gaussian_process.kernels import RBF

from skdpbo.exceptions import SeededNoiseWarning
from skdpbo.gaussian_process import DPSparseGPRegressor
from skdpbo.mechanisms import noise_source
from skdpbo.privacy import TrialLaw, candidate_mu
from skdpbo.privacy.selection._selection_profile import GaussianProfile, selection_bounds

# -- regret of the released candidate -----------------------------------------------------------

RECORDS = (100, 1000, 10_000)
RELEASES = {  # our name: name in landscapes.py, stated figures, goals, by number of records
    "skdpbo, default": ("prior", {}, {100: 0.0045, 1000: 0.0014, 10_000: 0.0012}),
    "skdpbo, two-task": ("two-task", {}, {10_000: 0.0009}),
    "Kusner et al., Algorithm 1": ("Kusner", dict.fromkeys(RECORDS, 0.150), {}),
    "uniform draw": ("uniform", {}, {}),
    "permute-and-flip, 50 random": (
        "50 random", {100: 0.029, 1000: 0.0136, 10_000: 0.0135}, {},
    ),
    "Gaussian BO": ("gaussian", {100: 0.064, 1000: 0.0034, 10_000: 0.0004}, {}),
    "public scores alone": ("public", dict.fromkeys(RECORDS, 0.0042), {}),
}  # fmt: skip


def regret(options):
    """Mean regret on the same smooth landscapes, epsilon 1, T = 50 of 200 candidates."""
    regrets = {}
    for seed in range(options.times(200)):
        for m, method, value in _regrets_of_a_landscape(seed):
            regrets.setdefault((m, method), []).append(value)
    for m in RECORDS:
        for method, (name, stated, goals) in RELEASES.items():
            goal = {"goal": goals[m]} if m in goals else {}
            yield line(
                "regret", method, f"{m} protected records", "mean regret", regrets[m, name],
                "mean", stated=stated.get(m, ""), **goal,
            )  # fmt: skip


def _regrets_of_a_landscape(seed):
    X, score, folds = landscapes.landscape("smooth", seed)
    yield from landscapes.permute_and_flip(X, score, folds, RECORDS)
    source = noise_source(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        for m in RECORDS:
            for method in ("two-task", "gaussian"):
                guided = method == "two-task"
                found = landscapes.gaussian_regret(X, score, folds, m, source, guided)
                yield m, method, found
            yield m, "Kusner", landscapes.kusner_regret(X, score, source)


# -- sparse GP ----------------------------------------------------------------------------------

RULES = {
    "skdpbo": ({}, {}, {1: 0.073, 3: 0.044}),
    "paper, its Eq. (7)": (sinc.RELEASES["published"], {}, {}),
    "paper, certified norm": (
        sinc.RELEASES["published"] | {"sensitivity": "certified"}, {1: 0.139, 3: 0.085}, {},
    ),
}  # fmt: skip


def sparse_error(options):
    """Error and coverage of a private sparse GP, sin(2x)/(2x), 1024 records, 9 points."""
    for epsilon in (1, 3):
        runs = {method: [] for method in RULES}
        for seed in range(options.times(100)):
            X, y = sinc.observations(np.random.default_rng([seed, 11]), 1024)
            for method, (rule, *_) in RULES.items():
                runs[method].append(_error_and_coverage(X, y, epsilon, rule, seed))
        setting = f"epsilon {epsilon}, delta 1e-4"
        for method, (_, stated, goals) in RULES.items():
            rmse, covered = np.array(runs[method]).T
            goal, share = ({}, {})
            if epsilon in goals:
                goal, share = {"goal": goals[epsilon]}, {"goal": 0.95, "at_least": True}
            printed = stated.get(epsilon, "")
            yield line(
                "sparse error", method, setting, "RMSE", rmse, "mean", stated=printed, **goal
            )
            yield line(
                "sparse error", method, setting, "coverage of 95 % bands", covered, "mean", **share
            )


def _error_and_coverage(X, y, epsilon, rule, seed):
    gp = DPSparseGPRegressor(
        RBF(1.0),
        noise_variance=0.01,
        inducing_points=sinc.INDUCING_POINTS,
        epsilon=epsilon,
        delta=1e-4,
        y_bounds=(-1, 1),
        X_bounds=(-4, 4),
        random_state=seed,
        **rule,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp.fit(X, y)
    mean, sd = gp.predict(sinc.LINE, return_std=True)
    error = mean - sinc.function(sinc.LINE)
    return math.sqrt(np.mean(error**2)), np.mean(np.abs(error) <= 1.959964 * sd)


# -- private selection --------------------------------------------------------------------------

MEAN, EPSILON, DELTA = 30, 1.0, 1e-5


def selection(options):
    """Noise multiplier of a trial at (1, 1e-5), 30 trials expected: exact figures."""

    def exact(method, eta, multiplier, **more):
        setting = f"30 trials expected, eta {eta:g}"
        return line("selection", method, setting, "noise multiplier", [multiplier], "exact", **more)

    goals = {-0.5: {"goal": 5.6}, 0.0: {}, 1.0: {"goal": 6.6}}
    first = {-0.5: 5.8, 0.0: "", 1.0: 6.9}
    for eta, goal in goals.items():
        law = TrialLaw(MEAN, eta)
        yield exact("skdpbo", eta, 1 / candidate_mu(EPSILON, DELTA, law), **goal)
        yield exact("skdpbo, Theorem 1 alone", eta, _theorem_1(law), stated=first[eta])
    liu_talwar = candidate_mu(EPSILON, DELTA, TrialLaw(MEAN, 1.0), method="liu_talwar")
    yield exact("Liu & Talwar", 1.0, 1 / liu_talwar, stated=22.5)
    for eta in (0.0, 1.0):
        renyi = candidate_mu(EPSILON, DELTA, TrialLaw(MEAN, eta), method="papernot_steinke")
        printed = {"stated": 7.7} if eta == 0 else {}
        yield exact("Papernot & Steinke, ours", eta, 1 / renyi, **printed)
        method = "Papernot & Steinke, dp-accounting"
        if importlib.util.find_spec("dp_accounting"):
            yield exact(method, eta, _multiplier_of_dp_accounting(eta), **printed)
        else:
            setting = f"30 trials expected, eta {eta:g}"
            yield not_installed("selection", method, setting, "noise multiplier", "dp-accounting")


def _theorem_1(law):
    """Multiplier by the simpler of our two theorems."""

    def excess(mu):
        return selection_bounds(GaussianProfile(mu), law)[0].log_delta(EPSILON) - math.log(DELTA)

    return 1 / brentq(excess, 0.02, 1.0)


def _multiplier_of_dp_accounting(eta):
    from dp_accounting import dp_event, privacy_accountant, rdp

    orders = list(1 + np.logspace(-3, 5, 700))

    def excess(multiplier):
        accountant = rdp.RdpAccountant(orders, privacy_accountant.NeighboringRelation.REPLACE_ONE)
        trial = dp_event.GaussianDpEvent(multiplier)
        accountant.compose(dp_event.RepeatAndSelectDpEvent(trial, MEAN, eta))
        return accountant.get_epsilon(DELTA) - EPSILON

    return brentq(excess, 2.0, 50.0, xtol=1e-4)


# -- outsourced optimisation --------------------------------------------------------------------

BUDGETS = {3.004: math.exp(1.1), 1.0: 1.0}
ARMS = {  # name in outsourced.py: ours, stated figures by epsilon, for the paper's beta
    "l2_laplace + domain": ("skdpbo", {}),
    "published": ("published transform", {3.004: 0.111, 1.0: 0.216}),
    "gaussian": ("Gaussian rows", {3.004: 0.157, 1.0: 0.247}),
    "random": ("random search", dict.fromkeys(BUDGETS, 0.417)),
    "non-private": ("exact rows, not private", dict.fromkeys(BUDGETS, 0.107)),
}
REGRET_GOALS = {3.004: 0.080, 1.0: 0.125}


def outsourced_search(options):
    """Simple regret after 50 answers, 100 x 100 points, length-scale 4.42."""
    task, runs = outsourced.Grid(4.42), range(options.times(300))
    for sqrt_beta, name in ((None, "the paper's beta"), (5.0, "sqrt_beta=5, the default")):
        settings = SimpleNamespace(seed=0, sqrt_beta=sqrt_beta)
        regrets = {}
        for run in runs:
            for arm, epsilon, _, path in outsourced.run(task, run, _arms(), 50, settings):
                regrets.setdefault((arm, epsilon), []).append(path[-1])
        for budget, epsilon in BUDGETS.items():
            for arm, (method, stated) in ARMS.items():
                values = regrets[arm, "" if arm in ("random", "non-private") else epsilon]
                goal = {"goal": REGRET_GOALS[budget]} if method == "skdpbo" else {}
                yield line(
                    "outsourced", method, f"epsilon {budget:g}, {name}", "mean simple regret",
                    values, "mean", stated=stated[budget] if stated and not sqrt_beta else "",
                    **goal,
                )  # fmt: skip


def _arms():
    """Arms as `outsourced.run` takes them: (arm, epsilon, r)."""
    private = [(arm, eps, "") for eps in BUDGETS.values() for arm in ("gaussian", *list(ARMS)[:1])]
    published = [("published", eps, 10) for eps in BUDGETS.values()]
    return [("random", "", ""), ("non-private", "", ""), *published, *private]
