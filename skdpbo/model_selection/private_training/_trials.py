"""Training and scoring of trials; the best of them is released.

Nothing leaves a trial but its score and its model, which are what the proof counts. Their number
stays within `best_of_trials`.
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
        Training rows, and what else ``fit`` is given.
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
        Of the number of trials and of the candidates; a seeded one also of all other noise.
    verbose : int, default=0
        Of the `Progress`, which is of the trials where all are padded: else their number is secret.
    **parallel
        `n_jobs` and `pre_dispatch`, as in joblib.

    Returns
    -------
    winner : Winner
    """
    cut = plan.rule.max_trials(plan.guarantee.delta)
    # Drawn before anything is trained, so that no result can decide how many there are.
    used = draw_trials(plan.rule.law, max_trials=cut, source=source)
    run = cut if plan.rule.selection.pad_trials else used
    randomness, sampler = TrialRandomness(source), ExactSampler(source)
    # With replacement, as the trials of the theorems are alike and independent.
    drawn = (sampler.below(len(plan.models)) for _ in range(run))
    if plan.rule.selection.pad_trials:
        heading = f"Private training and scoring: {cut} trials"
        progress = Progress(verbose, heading, cut, "trials")
    else:
        progress = Progress(
            verbose,
            f"Private training and scoring: {plan.rule.expected_trials:.4g} trials expected. "
            "Their number is secret, and so is how many are done.",
        )
    # Trials that are padded are run and dropped: all that shows is the cap.
    shown = progress if plan.rule.selection.pad_trials else None
    # Models that are dropped may print: a line of each would reveal their secret number.
    with nothing_leaves(), warnings.catch_warnings(record=True, action="ignore"):
        trials = _tried(plan, data, drawn, run, randomness, shown, **parallel)
        # Those that count; they are alike, so that the first of equal scores is as good as any.
        counted = (trial for number, trial in trials if number < used)
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
    how = TrialRandomness(source), progress
    trials = [trial for _, trial in _tried(plan, data, iter(range(n)), n, *how, **parallel)]
    scores = np.array([trial.score.value for trial in trials])
    winner = trials[int(np.argmax(scores))]  # of released scores
    return np.where(np.isneginf(scores), np.nan, scores), winner


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
        """Return one for each trial: (whether it is reproducible, seed sequence)."""
        # The key is secret and never used up: hashed with the trial's number by SeedSequence.
        return [
            (self._seeded, np.random.SeedSequence(self._key, spawn_key=(number,)))
            for number in numbers
        ]


def _tried(plan, data, candidates, n, randomness, progress, *, n_jobs, pre_dispatch):
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
    """Train and score; return (score, model), or the worst and None if the training failed."""
    training, scoring = sequence.spawn(2)  # the model must not know the noise of its score
    model = attempted_model(model, data, seeded, training)
    if model is None:
        return _WORST, None
    source = noise_source(np.random.Generator(np.random.PCG64(scoring)) if seeded else None)
    # A NaN, of a mean that overflowed, would compare as neither better nor worse.
    score = trial_score(model, data.rows, data.scorer, budget=data.budget, source=source)
    return (_WORST if math.isnan(score.value) else score), model


def trained_model(model, data, seeded, sequence):
    """Protected: return the model, trained with randomness of the trial's own.

    Steps that draw from the operating system do so by themselves. A seed that the user gave to a
    private step would repeat its noise in every trial, and one given in its place would be read
    from the released model: it has none, but in a seeded search, which is void.
    """
    names = [name for name, value in noise_seeds(model).items() if seeded or value is not None]
    # Of a sequence of their own: steps and global generators must not share a stream.
    seeds = [int(word) for word in sequence.spawn(1)[0].generate_state(len(names))]
    model = clone(model).set_params(
        **dict(zip(names, seeds if seeded else [None] * len(names), strict=True))
    )
    words = sequence.generate_state(_N_WORDS)
    # In types of these rows: a replaced row of another part would move this training, too.
    labels = is_classifier(model)
    fresh = copy.deepcopy(model)
    # A missing label in a list would be a number among those of all others.
    y = separate_labels(data.y) if labels and isinstance(data.y, list | tuple) else data.y
    model, frozen = train(model, data.X, y, data.fit_params, seed=words, labels=labels)
    forget_rows(model, fresh)
    # Copies that were shown rows are not released; what a frozen part knows is paid for already.
    for twin, original in frozen:
        if isinstance(twin, FrozenEstimator):
            twin.estimator = original.estimator
    return model


def train_final(model, data, source):
    """Train the winner on `data`, in isolation.

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
    # A new key: number 0 of it is the stream of no trial.
    ((seeded, sequence),) = TrialRandomness(source).of([0])
    tasks = [(model, data, seeded, sequence)]
    (trained,) = run_isolated(attempted_model, tasks, n_jobs=1, pre_dispatch="all")
    return trained


def attempted_model(model, *task):
    """Protected: return the trained model, None if there is none to train or it failed."""
    # Why it failed may quote a record.
    return None if model is None else attempt(trained_model, model, *task)[0]
