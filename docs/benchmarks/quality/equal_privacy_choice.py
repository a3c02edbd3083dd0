"""Private choices of a candidate for `equal_privacy.py`: the project's searches, and others'.

The others are written as somebody would today with numpy or OpenDP: the losses of a fixed list of
candidates are summed, and noise decides. `sums` are in units of the largest loss of a record, so
that replacing a record moves each of them by at most 1.
"""

import functools
import math

import numpy as np
from quality.equal_privacy_tasks import FOLDS, KernelRidge, LookUp, ailerons
from sklearn.model_selection import PredefinedSplit
from sklearn.utils import check_random_state

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.model_selection import Kusner2015
from skdpbo.privacy import mu_from_epsilon

try:
    import opendp.prelude as dp

    dp.enable_features("contrib")
except ImportError:
    dp = None

T = 32
DELTA = 1e-5
NO_PRIVACY = 1e6  # an epsilon without any effect of noise


def exponential(sums, epsilon, rng):
    return np.argmax(-0.5 * epsilon * sums + rng.gumbel(size=len(sums)))


def laplace(sums, epsilon, rng):
    """Publish every score; epsilon is divided evenly among them."""
    return np.argmin(sums + rng.laplace(scale=len(sums) / epsilon, size=len(sums)))


def gaussian(sums, epsilon, rng):
    """Publish every score; Gaussian differential privacy adds up exactly."""
    scale = math.sqrt(len(sums)) / mu_from_epsilon(epsilon, DELTA)
    return np.argmin(sums + rng.normal(scale=scale, size=len(sums)))


def opendp_laplace(sums, epsilon, rng):
    """Publish every score by OpenDP; its basic composition gives the scale."""
    return np.argmin(opendp_noisy(sums, "laplace", epsilon))


def opendp_gaussian(sums, epsilon, rng):
    """Publish every score by OpenDP; zero-concentrated composition, then epsilon and delta."""
    return np.argmin(opendp_noisy(sums, "gaussian", epsilon))


def opendp_noisy_max(sums, epsilon, rng):
    """Publish the best score's place by OpenDP's own selection."""
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    metric, law = dp.linf_distance(T=float), dp.max_divergence()
    choice = dp.m.make_noisy_max(domain, metric, law, scale=2.0 / epsilon, negate=True)
    if choice.map(1.0) > epsilon * (1 + 1e-9):
        raise RuntimeError("OpenDP counts the noisy maximum differently")
    return choice([float(value) for value in sums])


def opendp_noisy(sums, law, epsilon):
    release = opendp_release(law, len(sums), epsilon)
    return [release(float(value)) for value in sums]


@functools.lru_cache
def opendp_release(law, n_scores, epsilon):
    """OpenDP's measurement of one score, such that `n_scores` of them cost epsilon."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    make = {"laplace": dp.m.make_laplace, "gaussian": dp.m.make_gaussian}[law]

    def all_of_them(scale):
        together = dp.c.make_composition([make(*space, scale=scale)] * n_scores)
        if law == "laplace":
            return together
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(together), DELTA)

    d_out = epsilon if law == "laplace" else (epsilon, DELTA)
    bounds = 0.1 * math.sqrt(n_scores), 1e6
    scale = dp.binary_search_param(all_of_them, d_in=1.0, d_out=d_out, T=float, bounds=bounds)
    return make(*space, scale=scale)


OTHERS = {
    "grid, exponential mechanism": exponential,
    "grid, Laplace noise": laplace,
    "grid, Gaussian noise": gaussian,
}
if dp is not None:
    OTHERS |= {
        "OpenDP, Laplace, basic": opendp_laplace,
        "OpenDP, Gaussian, zCDP": opendp_gaussian,
        "OpenDP, noisy max": opendp_noisy_max,
    }


def grid_of(task):
    """The middles of equal parts of every axis, as many as T allows."""
    levels = [math.floor(T ** (1 / len(task.sizes)) + 1e-9)] * len(task.sizes)
    for axis in range(len(levels)):
        if math.prod(levels) // levels[axis] * (levels[axis] + 1) <= T:
            levels[axis] += 1
    return {
        name: ((np.arange(k) + 0.5) * size / k).astype(int).tolist()
        for name, size, k in zip(task.space, task.sizes, levels, strict=True)
    }


def common(epsilon, seed):
    """Settings of all searches: everything is spent on the choice."""
    seed = 10_000 * seed + round(100 * epsilon)
    settings = {"epsilon": epsilon, "loss_bound": 1.0, "score_fraction": 0.0, "refit": False}
    return settings | {"random_state": seed % 2**31}


def lookup_searches(task, epsilon, seed):
    """The searches on a lattice whose losses are known."""
    settings = common(epsilon, seed) | {
        "scoring": "neg_mean_absolute_error",
        "cv": PredefinedSplit(np.arange(len(task.public))),
    }
    space, blind = task.space, settings | {"guide": False}
    kusner = blind | {"mechanism": Kusner2015()}
    return {
        "DPBayesSearchCV": DPBayesSearchCV(LookUp(), space, n_iter=T, **settings),
        "DPRandomizedSearchCV": DPRandomizedSearchCV(LookUp(), space, n_iter=T, **blind),
        "DPGridSearchCV": DPGridSearchCV(LookUp(), grid_of(task), **blind),
        "Kusner Alg. 1": DPBayesSearchCV(LookUp(), space, n_iter=T, **kusner),
    }


def lookup_run(task, epsilons, n_protected, seed):
    """Rows of one draw of the protected records: the utility of what each method releases."""
    rng = np.random.RandomState(seed)
    protected = task.protected[rng.permutation(len(task.protected))[:n_protected]]
    LookUp.task, LookUp.table = task, np.vstack([task.public, protected])
    X, X_val = np.split(np.arange(len(LookUp.table))[:, None], [len(task.public)])
    sums = protected.sum(axis=0, dtype=float)
    grid = [task.index(params) for params in points_of(grid_of(task))]
    fixed = {
        "all candidates, no privacy": task.utility[np.argmin(sums)],
        "grid, no privacy": task.utility[grid[np.argmin(sums[grid])]],
        "public rows alone": task.utility[np.argmin(task.public.mean(axis=0))],
        "default parameters": float(task.utility_of_default),
        "random candidate": task.utility.mean(),
    }
    for epsilon in epsilons:
        row = {"epsilon": epsilon}
        for name, search in lookup_searches(task, epsilon, seed).items():
            search.fit(X, np.zeros(len(X)), X_val=X_val, y_val=np.zeros(n_protected))
            row[name] = task.utility[task.index(search.best_params_)]
        for name, choose in OTHERS.items():
            row[name] = task.utility[grid[choose(sums[grid], epsilon, rng)]]
        yield row | fixed


def points_of(grid):
    axes = np.meshgrid(*grid.values(), indexing="ij")
    points = np.stack([axis.ravel() for axis in axes], axis=1)
    return [dict(zip(grid, map(int, point), strict=True)) for point in points]


LENGTHS = {f"l{k}": (0.5, 50.0, "log-uniform") for k in range(10)}
SPACE = {"alpha": (1e-3, 10.0, "log-uniform"), **LENGTHS}
STEPS, MODELS = 10, 120  # DP-GIBO's steps; models that every search may train
AILERONS = {"n_public": 300, "n_protected": 3000, "n_features": 10}


def ailerons_searches(epsilon, seed):
    settings = common(epsilon, seed) | {"scoring": "neg_mean_squared_error"}
    n_iter = MODELS // (FOLDS + 1)
    bayes = {"n_iter": n_iter, "cv": FOLDS}
    paper = {"guide": False, "init": None, "end_fraction": 0.0, "n_iter": STEPS}
    return {
        "DPBayesSearchCV": DPBayesSearchCV(KernelRidge(), SPACE, **bayes, **settings),
        "DPGIBOSearchCV": DPGIBOSearchCV(KernelRidge(), SPACE, **paper, **settings),
    }


def ailerons_run(folder, split, epsilons):
    """Rows of one split: root mean squared error of kernel ridge regression as released.

    The candidates of the other methods are random: as many as DP-GIBO trains models.
    """
    ((X, y), (X_val, y_val), (X_new, y_new)), unit = ailerons(folder, split, **AILERONS)
    rng = check_random_state(split)

    def rmse(params):
        predicted = KernelRidge(**params).fit(X, y).predict(X_new)
        return unit * math.sqrt(np.mean(np.square(predicted - y_new)))

    def released(search):
        return rmse(search.fit(X, y, X_val=X_val, y_val=y_val).best_params_)

    low, high = np.log([bounds[:2] for bounds in SPACE.values()]).T
    draws = np.exp(rng.uniform(low, high, (MODELS, len(SPACE))))
    candidates = [dict(zip(SPACE, map(float, draw), strict=True)) for draw in draws]
    sums = np.array([clipped_sum(params, X, y, X_val, y_val) for params in candidates])
    utility = functools.cache(lambda index: rmse(candidates[index]))
    exact = ailerons_searches(NO_PRIVACY, split)["DPGIBOSearchCV"]
    fixed = {
        "random candidates, no privacy": utility(int(np.argmin(sums))),
        "DP-GIBO, no privacy": released(exact),
        "public rows alone": rmse(publicly_best(candidates[: MODELS // (FOLDS + 1)], X, y)),
        "default parameters": rmse({}),
        "random candidate": np.mean([utility(index) for index in range(30)]),
    }
    choices = {"permute-and-flip": permute_and_flip, **OTHERS}
    for epsilon in epsilons:
        row = {"epsilon": epsilon}
        for name, search in ailerons_searches(epsilon, split).items():
            row[name] = released(search)
        for name, choose in choices.items():
            name = name.replace("grid", "random")
            name = "DPRandomizedSearchCV" if name == "permute-and-flip" else name
            row[name] = utility(int(choose(sums, epsilon, rng)))
        yield row | fixed


def permute_and_flip(sums, epsilon, rng):
    """Choose as `DPRandomizedSearchCV` does, with known losses: noisy maximum, exponential."""
    return np.argmax(-0.5 * epsilon * sums + rng.exponential(size=len(sums)))


def clipped_sum(params, X, y, X_val, y_val):
    errors = KernelRidge(**params).fit(X, y).predict(X_val) - y_val
    return np.minimum(np.square(errors), 1.0).sum()


def publicly_best(candidates, X, y):
    """The best of the candidates by cross-validation on the public rows."""
    fold = np.arange(len(y)) % FOLDS
    losses = [
        sum(
            clipped_sum(params, X[fold != k], y[fold != k], X[fold == k], y[fold == k])
            for k in range(FOLDS)
        )
        for params in candidates
    ]
    return candidates[int(np.argmin(losses))]
