"""Training and scoring of trials; the best of them is released.

The outputs of a trial are its score and its model alone, as in the proof. The number of trials is
known to `best_of_trials` alone.
"""

import copy
import math
import warnings
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

import joblib
import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator

from skdpbo._attempt import attempt
from skdpbo._class_labels import separate_labels
from skdpbo._isolation._isolated_calls import run_isolated
from skdpbo._isolation._parallel import Progress
from skdpbo._isolation._silence import nothing_leaves
from skdpbo.mechanisms import draw_trials, noise_source
from skdpbo.mechanisms._sampling import ExactSampler
from skdpbo.model_selection.evaluation._train_and_score import train
from skdpbo.model_selection.private_training._estimators import forget_rows
from skdpbo.model_selection.private_training._statements import noise_seeds
from skdpbo.model_selection.private_training._trial_score import trial_score
from skdpbo.model_selection.scoring._score_release import ReleasedScore
from skdpbo.privacy import PrivacyGuarantee

_WORST = ReleasedScore(-math.inf, 0.0)
_N_WORDS = 8  # 32-bit words of randomness of a trial


@dataclass(frozen=True)
class TrialData:
    """Data of every trial. Protected.

    Attributes
    ----------
    X, y, fit_params
        Training rows, their targets, and further arguments of ``fit``.
    rows : tuple (X, y, groups)
        Validation rows, their targets, and numbers of groups or None.
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
    """Outcome of a trial; that of the best one is released.

    Attributes
    ----------
    index : int
        In the public list of candidates.
    score : ReleasedScore
        Private; -inf if the training failed.
    model : estimator or None
        As trained; None if the training failed.
    """

    index: int
    score: ReleasedScore
    model: object


def best_of_trials(plan, data, source, *, verbose=0, **parallel):
    """Run a secret number of trials of uniformly drawn candidates; return the best.

    Parameters
    ----------
    plan : TrialPlan
    data : TrialData
    source : RandomSource
        Of the number of trials and of the candidates; if seeded, also of all other noise.
    verbose : int, default=0
        Of the `Progress`. Trials are reported only if padded, as their number is secret otherwise.
    **parallel
        `n_jobs` and `pre_dispatch`, as in joblib.

    Returns
    -------
    winner : Winner
    """
    max_trials = plan.rule.max_trials(plan.guarantee.delta)
    # Drawn before anything is trained, so that it cannot depend on any result.
    n_used = draw_trials(plan.rule.law, max_trials=max_trials, source=source)
    n_run = max_trials if plan.rule.selection.pad_trials else n_used
    randomness, sampler = TrialRandomness(source), ExactSampler(source)
    # With replacement, as the trials of the theorems are independent and identically distributed.
    drawn = (sampler.below(len(plan.models)) for _ in range(n_run))
    if plan.rule.selection.pad_trials:
        heading = f"Private training and scoring: {max_trials} trials"
        progress = Progress(verbose, heading, max_trials, "trials")
    else:
        Progress(
            verbose,
            f"Private training and scoring: {plan.rule.expected_trials:.4g} trials expected. "
            "Their number is secret, and so is how many are done.",
        )
        progress = None
    # Padded trials may print, too: a line of each trial would reveal the secret number.
    with nothing_leaves(), warnings.catch_warnings(record=True, action="ignore"):
        trials = _outcomes(plan, data, drawn, n_run, randomness, progress, **parallel)
        # Without padding trials; of equal scores the first wins, as trials are exchangeable.
        counted = (trial for number, trial in trials if number < n_used)
        return max(counted, key=attrgetter("score.value"))


def published_trials(plan, data, source, *, verbose=0, **parallel):
    """Train and score every candidate once; parameters are those of `best_of_trials`.

    Returns
    -------
    scores : ndarray of shape (n_candidates,)
        Private, all of them released; NaN where the training failed.
    winner : Winner
    """
    n = len(plan.models)
    heading = f"Private training and scoring of each of {n} candidates"
    progress = Progress(verbose, heading, n, "candidates")
    outcomes = _outcomes(
        plan, data, iter(range(n)), n, TrialRandomness(source), progress, **parallel
    )
    trials = [trial for _, trial in outcomes]
    scores = np.array([trial.score.value for trial in trials])
    winner = trials[int(np.argmax(scores))]  # a function of released scores
    return np.where(np.isneginf(scores), np.nan, scores), winner


class TrialRandomness:
    """Randomness of each trial, derived from its number, so that no two trials share noise.

    Parameters
    ----------
    source : RandomSource
    """

    def __init__(self, source):
        self._seeded = source.seeded
        self._key = int.from_bytes(source.bytes(4 * _N_WORDS), "little")

    def of(self, numbers):
        """Return a pair for each trial: (whether it is reproducible, seed sequence)."""
        # SeedSequence hashes the secret key with the trial's number.
        return [
            (self._seeded, np.random.SeedSequence(self._key, spawn_key=(number,)))
            for number in numbers
        ]


def _outcomes(plan, data, candidates, n, randomness, progress, *, n_jobs, pre_dispatch):
    """Protected: yield number and outcome, as a `Winner`, of n trials of the next candidates."""
    options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch, "secretly_often": True}
    # Not all at once: every model of a batch is in memory until its scores are compared.
    size = 4 * joblib.effective_n_jobs(n_jobs)
    for start in range(0, n, size):
        numbers = range(start, min(start + size, n))
        indices, own = list(islice(candidates, len(numbers))), randomness.of(numbers)
        tasks = [(plan.models[k], data, *each) for k, each in zip(indices, own, strict=True)]
        results = run_isolated(_trial, tasks, **options)
        for number, index, result in zip(numbers, indices, results, strict=True):
            yield number, Winner(index, *result)
        if progress is not None:
            progress.at(numbers[-1] + 1)


def _trial(model, data, seeded, sequence):
    """Protected: return (score, model) of a trial; the worst score and None if training fails."""
    training, scoring = sequence.spawn(2)  # the model must not know the noise of its score
    model = attempted_model(model, data, seeded, training)
    if model is None:
        return _WORST, None
    source = noise_source(np.random.Generator(np.random.PCG64(scoring)) if seeded else None)
    # NaN, from a mean that overflowed, cannot be compared.
    score = trial_score(model, data.rows, data.scorer, budget=data.budget, source=source)
    return (_WORST if math.isnan(score.value) else score), model


def trained_model(model, data, seeded, sequence):
    """Protected: return the model, trained with the trial's own randomness.

    A seed that the user gave to a private step would repeat its noise in every trial, and another
    seed in its place could be read from the released model. Therefore it is set to None, so that
    the step draws from the operating system; only a seeded search, whose guarantee is void, sets
    seeds.
    """
    names = [name for name, value in noise_seeds(model).items() if seeded or value is not None]
    # From a spawned sequence: steps and global generators must not share a stream.
    seeds = [int(word) for word in sequence.spawn(1)[0].generate_state(len(names))]
    model = clone(model).set_params(
        **dict(zip(names, seeds if seeded else [None] * len(names), strict=True))
    )
    words = sequence.generate_state(_N_WORDS)
    # `labels` converts to types of these rows: those of y may depend on rows of another part.
    labels = is_classifier(model)
    fresh = copy.deepcopy(model)
    # A missing label in a list must not turn all others into numbers.
    y = separate_labels(data.y) if labels and isinstance(data.y, list | tuple) else data.y
    model, frozen = train(model, data.X, y, data.fit_params, seed=words, labels=labels)
    forget_rows(model, fresh)
    # Copies that were given rows are not released; the originals of frozen parts were paid for.
    for twin, original in frozen:
        if isinstance(twin, FrozenEstimator):
            twin.estimator = original.estimator
    return model


def train_final(model, data, source):
    """Train the winner on `data`, in isolation; return the model, or None if that fails.

    Parameters
    ----------
    model : estimator
        Of `plan_final`.
    data : TrialData
        Of the rows that took no part in the tuning. Protected.
    source : RandomSource

    Returns
    -------
    estimator or None
        None if the training failed.
    """
    # A new key, so that this stream differs from those of all trials.
    ((seeded, sequence),) = TrialRandomness(source).of([0])
    tasks = [(model, data, seeded, sequence)]
    (trained,) = run_isolated(attempted_model, tasks, n_jobs=1, pre_dispatch="all")
    return trained


def attempted_model(model, *task):
    """Protected: return the trained model; None if `model` is None or its training fails."""
    # The error is dropped: it may quote a record.
    return None if model is None else attempt(trained_model, model, *task)[0]
