"""The searchers of `search_overhead.py` behind one interface: ask() -> settings, tell(loss)."""

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from skdpbo.model_selection.bayes._gp_ucb import UpperConfidenceProposer
from skdpbo.model_selection.space._search_space import SearchSpace
from skdpbo.surrogate import default_kernel, refit_due, upper_confidence_bound

SPACE = {"C": (1e-3, 1e2, "log-uniform"), "l1_ratio": (0.0, 1.0)}
N_INITIAL, N_CANDIDATES = 5, 500


class Skdpbo:
    """The proposals of DPBayesSearchCV, with its defaults."""

    def __init__(self, T, seed):
        space = SearchSpace(SPACE)
        self.candidates = space.candidates(max(N_CANDIDATES, T), random_state=seed)
        self.scores, self.queue = [], []
        self.proposer = UpperConfidenceProposer(
            space.encode(self.candidates),
            n_iter=T,
            n_initial_points=N_INITIAL,
            batch_size=1,
            sqrt_beta=2.0,
        )

    def ask(self):
        if not self.queue:
            self.queue = self.proposer.ask()
        return self.candidates[self.queue.pop(0)]

    def tell(self, loss):
        self.scores.append(-loss)
        if not self.queue:
            self.proposer.tell(self.scores)


class ScikitLearnLoop:
    """A loop around GaussianProcessRegressor that optimises its kernel when skdpbo does."""

    due = staticmethod(refit_due)

    def __init__(self, T, seed):
        space = SearchSpace(SPACE)
        self.candidates = space.candidates(max(N_CANDIDATES, T), random_state=seed)
        self.encoded = space.encode(self.candidates)
        self.visited, self.scores = [], []
        self.kernel = default_kernel(self.encoded.shape[1]) + WhiteKernel(1e-3, (1e-6, 1.0))

    def ask(self):
        t = len(self.scores)
        if t < N_INITIAL:
            self.visited.append(t)
            return self.candidates[t]
        optimizer = "fmin_l_bfgs_b" if self.due(t) else None
        gp = GaussianProcessRegressor(self.kernel, optimizer=optimizer, normalize_y=True)
        gp.fit(self.encoded[self.visited], self.scores)
        self.kernel = gp.kernel_
        bound = upper_confidence_bound(*gp.predict(self.encoded, return_std=True))
        bound[self.visited] = -np.inf
        self.visited.append(int(bound.argmax()))
        return self.candidates[self.visited[-1]]

    def tell(self, loss):
        self.scores.append(-loss)


class EagerScikitLearnLoop(ScikitLearnLoop):
    """The same, optimising its kernel every time."""

    due = staticmethod(lambda t: True)


class ScikitOptimize:
    """The optimiser that gp_minimize runs, with its defaults."""

    def __init__(self, T, seed):
        import skopt

        self.optimizer = skopt.Optimizer(
            list(SPACE.values()), "GP", n_initial_points=N_INITIAL, random_state=seed
        )

    def ask(self):
        self.requested = self.optimizer.ask()
        return dict(zip(SPACE, map(float, self.requested), strict=True))

    def tell(self, loss):
        self.optimizer.tell(self.requested, loss)


class OptunaGPSampler:
    """A study with the GPSampler, with its defaults."""

    def __init__(self, T, seed):
        import optuna
        import torch

        torch.set_num_threads(1)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=N_INITIAL)
        self.study = optuna.create_study(direction="minimize", sampler=sampler)

    def ask(self):
        self.trial = self.study.ask()
        (low, high, _), ends = SPACE["C"], SPACE["l1_ratio"]
        C = self.trial.suggest_float("C", low, high, log=True)
        return {"C": C, "l1_ratio": self.trial.suggest_float("l1_ratio", *ends)}

    def tell(self, loss):
        self.study.tell(self.trial, loss)
