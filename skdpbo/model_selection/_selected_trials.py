"""Training and scoring of trials; the best of them is released.

Nothing leaves a trial but its score and its model, which are what the proof counts. How many there
were stays within `best_of_trials`.
"""

import contextlib
import copy
import random
from dataclasses import dataclass

import joblib
import numpy as np
from sklearn.base import clone

from skdpbo.mechanisms import draw_trials, noise_source
from skdpbo.model_selection._dp_estimators import noise_seeds
from skdpbo.model_selection._isolation import (
    ONE_AT_A_TIME,
    jobs_here,
    quiet,
    thawed,
    this_process,
    unshared,
)
from skdpbo.model_selection._parallel import run_tasks
from skdpbo.model_selection._roles import ProtectedRows
from skdpbo.model_selection._sklearn import n_rows, take_rows
from skdpbo.model_selection._trial_scores import trial_score
from skdpbo.privacy import PrivacyGuarantee, charged_elsewhere

__all__ = ["TrialData", "Winner", "best_of_trials", "published_trials"]

_WORST = -np.inf
_N_WORDS = 8  # 32-bit words of a trial's own randomness


@dataclass(frozen=True)
class TrialData:
    """What every trial is given.

    Attributes
    ----------
    X, y, fit_params
        Training rows, protected, and what else ``fit`` is given.
    rows : tuple (X, y, unreadable)
        What `ProtectedRows` are made of: the validation rows, protected.
    scorer : PerRecordScorer
    budget : PrivacyGuarantee
        Of one score.
    """

    X: object
    y: object
    fit_params: dict
    rows: tuple
    scorer: object
    budget: PrivacyGuarantee


@dataclass(frozen=True)
class Winner:
    """What is released of the best trial.

    Attributes
    ----------
    index : int
        In the public list of candidates.
    score : float
        Private; -inf if the training failed.
    model : estimator or None
        As trained; None if the training failed.
    """

    index: int
    score: float
    model: object


def best_of_trials(plan, data, source, **parallel):
    """Run a secret number of trials of uniformly drawn candidates; return the best.

    Parameters
    ----------
    plan : TrialPlan
    data : TrialData
    source : RandomSource
        Of the number of trials and of the candidates; a seeded one also of all other noise.
    **parallel
        `n_jobs` and `pre_dispatch`, as in joblib.

    Returns
    -------
    winner : Winner
    """
    cut = plan.rule.max_trials(plan.guarantee.delta)
    used = draw_trials(plan.rule.law, max_trials=cut, source=source)
    run = cut if plan.rule.selection.pad_trials else used
    randomness = TrialRandomness(source)
    batch = 4 * joblib.effective_n_jobs(parallel["n_jobs"])
    best = None
    for start in range(0, run, batch):
        numbers = range(start, min(start + batch, run))
        indices = [uniform_below(len(plan.models), source) for _ in numbers]
        results = _run(plan, data, indices, randomness.of(numbers), **parallel)
        for number, index, (score, model) in zip(numbers, indices, results, strict=True):
            # Trials are alike, so that the first of equal scores is as good as any.
            if number < used and (best is None or score > best.score):
                best = Winner(index, score, model)
    return best


def published_trials(plan, data, source, **parallel):
    """Train and score every candidate once.

    Returns
    -------
    scores : ndarray of shape (n_candidates,)
        Private, all of them released; NaN where the training failed.
    winner : Winner
    """
    indices = range(len(plan.models))
    results = _run(plan, data, indices, TrialRandomness(source).of(indices), **parallel)
    scores = np.array([score for score, _ in results])
    index = int(np.argmax(scores))
    winner = Winner(index, float(scores[index]), results[index][1])
    return np.where(np.isneginf(scores), np.nan, scores), winner


def uniform_below(n, source):
    """Return an integer uniform on {0, ..., n - 1}, by rejection; exact."""
    n_bytes = (n.bit_length() + 7) // 8
    shift = 8 * n_bytes - (n - 1).bit_length()
    while True:
        drawn = int.from_bytes(source.bytes(n_bytes), "little") >> shift
        if drawn < n:
            return drawn


class TrialRandomness:
    """Randomness of each trial: of its own, by counter, so that two trials never share noise.

    Parameters
    ----------
    source : RandomSource
    """

    def __init__(self, source):
        self._seeded = source.seeded
        self._key = int.from_bytes(source.bytes(4 * _N_WORDS), "little")

    def of(self, numbers):
        """Return one for each trial: (whether it is reproducible, words)."""
        # The key is secret and never used up: hashed with the trial's number by SeedSequence.
        return [
            (self._seeded, np.random.SeedSequence(self._key, spawn_key=(number,)))
            for number in numbers
        ]


def _run(plan, data, indices, randomness, *, n_jobs, pre_dispatch):
    tasks = [
        (plan.models[index], data, own, this_process())
        for index, own in zip(indices, randomness, strict=True)
    ]
    n_jobs = jobs_here(n_jobs)
    # Paid for: what is sent to workers, the models included, belongs to no open ledger.
    with quiet(), charged_elsewhere():
        return run_tasks(_trial, tasks, n_jobs=n_jobs, pre_dispatch=pre_dispatch)


def _trial(model, data, randomness, parent):
    """Train and score; return (score, model), or (-inf, None) if the training failed."""
    own_process = contextlib.nullcontext() if this_process() == parent else quiet()
    # Threads would seed the global generators for each other.
    with own_process, ONE_AT_A_TIME, charged_elsewhere(), np.errstate(all="ignore"):
        seeded, sequence = randomness
        fresh = sequence.spawn(2)
        model = _trained(model, data, seeded, fresh[0])
        if model is None:
            return _WORST, None
        source = noise_source(np.random.Generator(np.random.PCG64(fresh[1])) if seeded else None)
        rows = ProtectedRows(*data.rows)
        score = trial_score(model, rows, data.scorer, budget=data.budget, source=source)
        return (_WORST if np.isnan(score) else float(score)), model


def _trained(model, data, seeded, sequence):
    """Model of one trial, or None."""
    try:
        model, frozen = unshared(clone(model))
        _seed(model, seeded, sequence)
        # Copies: one trial may not change what the next is trained on.
        X = take_rows(data.X, np.arange(n_rows(data.X)))
        y = () if data.y is None else (take_rows(data.y, np.arange(n_rows(data.y))),)
        with joblib.parallel_config(max_nbytes=None):
            # Copies: an object among them may keep what it is shown, or count the trials.
            model.fit(X, *y, **copy.deepcopy(data.fit_params))
        thawed(frozen)
    except (Exception, SystemExit):
        return None
    return model


def _seed(model, seeded, sequence):
    """Give a trial's model randomness of its own.

    Steps that draw from the operating system do so by themselves. A seed that the user gave to a
    private step would repeat its noise in every trial; in a seeded search every step needs one.
    """
    words = sequence.generate_state(_N_WORDS)
    np.random.seed(words)  # noqa: NPY002
    random.seed(words.tobytes())
    names = [name for name, value in noise_seeds(model).items() if seeded or value is not None]
    seeds = sequence.spawn(1)[0].generate_state(len(names))
    model.set_params(**{name: int(s) for name, s in zip(names, seeds, strict=True)})
