"""Searches that `gibo_papers.py` compares descents with; without a public guide.

`random`, `gp-ucb` and `gp-ucb local` are not private: they see exact mean losses (in C.5: noisy
ones) and return the best point seen. The settings of GP-UCB are not stated in the paper. Here it
starts at the common start and 20 Sobol points, with the proposer of `DPBayesSearchCV` in the unit
cube (Matern 5/2, one length-scale per parameter, all fitted again as scores come in).
"""

import numpy as np
from scipy.stats import qmc

from skdpbo.mechanisms import PermuteAndFlip, noise_source
from skdpbo.model_selection.bayes._gp_ucb import UpperConfidenceProposer
from skdpbo.privacy import epsilon_from_mu

UNITS = 2**16  # of a loss, for permute-and-flip
N_CANDIDATES = 1024
N_INITIAL = 21
REFINEMENTS = ((0.4, None), (0.6, 0.5), (0.8, 0.25), (1.0, 0.125))  # (share spent, box's width)


def mean_loss(task, point):
    """Mean loss of a raw point, without observation noise."""
    noise, task.noise = getattr(task, "noise", 0.0), 0.0
    value = task.losses(point[None]).mean()
    task.noise = noise
    return value


def random_arms(task, n_evaluations, seed):
    """Random search, not private, and the choice by permute-and-flip among the same points."""
    rng = np.random.default_rng([seed, 1])
    points = rng.uniform(task.low, task.high, (n_evaluations, len(task.low)))
    points[0] = task.start
    totals, means = [], []
    for point in points:
        losses = np.rint(task.losses(point[None])[0] * (UNITS / task.bound)).astype(np.int64)
        totals.append(int(losses.sum()))
        means.append(mean_loss(task, point) if getattr(task, "noise", 0.0) else losses.mean())
    means = np.array(means) * (1.0 if getattr(task, "noise", 0.0) else task.bound / UNITS)
    mechanism = PermuteAndFlip(epsilon_from_mu(1.0, 1e-5), sensitivity=UNITS)
    chosen = mechanism.select(totals, noise_source(seed))
    return {"random": {"last": means[np.argmin(totals)]}, "random + pf": {"last": means[chosen]}}


class _Evaluated:
    """Points of the unit cube whose mean losses have been observed."""

    def __init__(self, task):
        self._task, self.points, self.losses = task, [], []

    def observe(self, points):
        width = self._task.high - self._task.low
        for point in points:
            self.points.append(point)
            self.losses.append(self._task.losses((self._task.low + point * width)[None]).mean())

    def best(self):
        i = int(np.argmin(self.losses))
        task = self._task
        return self.points[i], mean_loss(task, task.low + self.points[i] * (task.high - task.low))


def upper_confidence_arm(task, n_evaluations, seed, refinements=((1.0, None),)):
    """GP-UCB, not private: over Sobol points, then in smaller boxes around the best point."""
    sobol = qmc.Sobol(len(task.low), seed=seed).random(N_CANDIDATES)
    start = (task.start - task.low) / (task.high - task.low)
    seen = _Evaluated(task)
    for share, width in refinements:
        n_known = len(seen.points)
        if width is None:
            X, first = np.vstack([start, sobol]), N_INITIAL
        else:
            near = np.clip(seen.best()[0] + width * (sobol - 0.5), 0.0, 1.0)
            X, first = np.vstack([seen.points, near]), n_known
        proposer = UpperConfidenceProposer(
            X,
            n_iter=round(share * n_evaluations),
            n_initial_points=first,
            batch_size=1,
            sqrt_beta=2.0,
        )
        while len(chosen := proposer.ask()):
            seen.observe(X[[i for i in chosen if i >= n_known]])
            proposer.tell(-np.array(seen.losses))
    return {"last": seen.best()[1]}


def upper_confidence_arms(task, n_evaluations, seed):
    """Yield (arm, values): GP-UCB with fixed candidates, and refined."""
    yield "gp-ucb", upper_confidence_arm(task, n_evaluations, seed)
    yield "gp-ucb local", upper_confidence_arm(task, n_evaluations, seed, REFINEMENTS)
