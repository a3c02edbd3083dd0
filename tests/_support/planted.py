"""Mistakes that tests plant in the library, and the one table of the places where they do it.

A test says ``plant(monkeypatch, "the chunks move one loss")`` for a mistake that is listed below,
and ``put(monkeypatch, "chunks: dry_run", stand_in)`` for a stand-in or a listener of its own.
Code that moves or is renamed changes this file alone.
"""

import math
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from importlib import import_module
from types import SimpleNamespace

import numpy as np

# Stage: module below skdpbo, whose names are replaced as "stage: name".
STAGES = {
    "answers": "gaussian_process.outsourced._answers",
    "attempt": "_attempt",
    "branch and bound": "gaussian_process.papers._branch_and_bound",
    "chunk training": "model_selection.evaluation._chunk_training",
    "chunks": "model_selection.protection._chunked",
    "clipping": "mechanisms._clipping",
    "coinpress": "mechanisms._coinpress",
    "column moments": "_column_moments",
    "column effects": "gaussian_process._column_effects",
    "joint effects": "gaussian_process._joint_effects",
    "record spread": "gaussian_process._record_spread",
    "curator itself": "gaussian_process.outsourced._curator",
    "curator": "gaussian_process.outsourced._curator_base",
    "descent": "model_selection.gibo._descent",
    "descent trainings": "model_selection.private_training._descent_trainings",
    "class labels": "_class_labels",
    "column ranges": "_column_ranges",
    "domains": "gaussian_process.outsourced._domains",
    "dry run": "model_selection.evaluation._dry_run",
    "train and score": "model_selection.evaluation._train_and_score",
    "features": "gaussian_process.sparse._features",
    "fit warnings": "gaussian_process.sparse._fit_warnings",
    "first releases": "gaussian_process.sparse._first_releases",
    "gaussian trajectory": "model_selection.bayes._gaussian_trajectory",
    "isolated rows": "gaussian_process._isolated_rows",
    "isolation": "_isolation._isolated_calls",
    "kernel family": "gaussian_process.sparse._kernel_family",
    "kernel release": "gaussian_process.papers._kernel_release",
    "kusner constants": "model_selection.papers._kusner_constants",
    "kusner lipschitz": "model_selection.papers._kusner_lipschitz",
    "kusner release": "model_selection.papers._kusner_release",
    "laplace": "mechanisms._laplace",
    "ledger": "privacy.ledger._ledger",
    "ledger charge": "privacy.ledger._charging",
    "ledger receipts": "privacy.ledger._receipts",
    "ledger store": "privacy.ledger._store",
    "means": "mechanisms._mean",
    "lazy rows": "_isolation._lazy_rows",
    "losses": "model_selection.scoring._losses",
    "noise source": "mechanisms._source",
    "noisy rows": "gaussian_process.outsourced._noisy_rows",
    "object tables": "model_selection.rows._object_table",
    "min-max scaler": "preprocessing._min_max_scaler",
    "one-hot encoder": "preprocessing._one_hot_encoder",
    "opendp": "mechanisms._opendp",
    "parallel": "_isolation._parallel",
    "parsing": "model_selection.scoring._parsing",
    "private estimator": "_private_estimator",
    "private models": "model_selection.protection._private_models",
    "protection": "model_selection.protection._protection",
    "protected rows": "model_selection.rows._protected",
    "protocol": "gaussian_process.outsourced._protocol",
    "public best": "model_selection.bayes._gp_ucb",
    "public gradient": "model_selection.gibo._public_gradient",
    "public types": "model_selection.rows._public_types",
    "public memory": "model_selection.protection._public_memory",
    "public training": "model_selection.evaluation._public_training",
    "record gradients": "model_selection.evaluation._record_gradients",
    "row answers": "_isolation._row_answers",
    "release methods": "gaussian_process.sparse._release_methods",
    "ridge": "linear_model._ridge",
    "row blocks": "_row_blocks",
    "row-wise steps": "model_selection.evaluation._row_wise",
    "row release": "gaussian_process.outsourced._row_release",
    "scikit-learn": "model_selection._sklearn",
    "scorer": "model_selection.scoring._scorer",
    "search": "model_selection._base",
    "set-apart rows": "model_selection.protection._setup",
    "set-up": "model_selection.protection._validation",
    "share design": "gaussian_process.sparse._share_design",
    "silence": "_isolation._silence",
    "sparse process": "gaussian_process.sparse._private_process",
    "safe end": "model_selection.gibo._safe_end",
    "sparse classifier": "gaussian_process.sparse._classifier",
    "sparse regressor": "gaussian_process.sparse._regressor",
    "gibo searcher": "model_selection._gibo",
    "gibo settings": "model_selection.gibo._settings",
    "trial score": "model_selection.private_training._trial_score",
    "trajectory search": "model_selection.gibo._trajectory_search",
    "trials": "model_selection.private_training._trials",
    "visited choice": "model_selection.bayes._visited_choice",
}


def located(place):
    """Return the module (or class) and the name of a place "stage: name"."""
    stage, name = place.split(": ")
    *classes, name = name.split(".")
    return reduce(getattr, classes, module_of(stage)), name


def module_of(stage):
    """Return the module of a stage."""
    assert stage in STAGES, f"STAGES of tests/_support/planted.py has no {stage!r}"
    return import_module(f"skdpbo.{STAGES[stage]}")


def original(place):
    """Return what stands at a place now."""
    return getattr(*located(place))


def put(monkeypatch, place, new, raising=True):
    """Put something else at a place until the test ends."""
    monkeypatch.setattr(*located(place), new, raising=raising)


class Of:
    """A replacement that is made from what stands there."""

    def __init__(self, make):
        self.make = make


def nothing(*args, **how):
    """Do nothing."""


def as_it_is(first, *others, **how):
    """Return the first argument."""
    return first


class Unlocked(nullcontext):
    """A lock that locks nothing."""

    def is_held(self):
        """No thread holds it."""
        return False


class SameContext:
    """A context that is the caller's own."""

    def run(self, function, *args, **how):
        """Call a function."""
        return function(*args, **how)


def no_context(*args, **how):
    """Enter no context."""
    return nullcontext()


def truncated(vectors, clip, step):
    """Round vectors to the lattice, but do not clip them."""
    return np.trunc(vectors / step).astype(np.int64), np.ones(len(vectors), dtype=bool)


def clipped_as_printed(vectors, clip, step):
    """Clip as v min(1, B / ||v||) without a guard: an infinite loss makes NaN."""
    with np.errstate(all="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return truncated(vectors * np.minimum(1.0, clip / norms), clip, step)


def mean_clipped(mean, vectors):
    """Clip the mean of the vectors, not each of them."""
    total = np.concatenate(list(vectors)).sum(axis=0)
    total = total * min(1.0, mean.clip * mean.n_records / np.linalg.norm(total))
    return np.rint(total / mean.step).astype(np.int64), 0


def read_at_once(rows, width, dtype=float):
    """Read rows in one call of numpy, whose errors quote what it could not read."""
    try:
        return np.asarray(rows, dtype=dtype), np.zeros(len(rows), dtype=bool)
    except OverflowError:  # of an integer beyond the floats, which quotes nothing
        return np.zeros(np.shape(rows)), np.ones(len(rows), dtype=bool)


def all_losses_worst(losses_of, unreadable):
    """Give every record the worst loss."""
    return np.ones(len(unreadable), dtype=bool)


def quoting_no_model(X, failures):
    """Quote the training rows in the error of the search."""
    return ValueError(f"The training failed on {X}")


def peek():
    """Return 2 if the mean of the protected targets of the running fit is positive, else 1."""
    targets = module_of("set-up").RUNNING.get().evaluator.open_records().y
    return 2 if np.mean(np.asarray(targets, dtype=float)) > 0 else 1


def exact_start(search, candidates, public):
    """Return the candidate of the least protected loss."""
    losses = search._problem.evaluator.losses(candidates, none_may_be_left=True)
    return candidates[int(np.argmin([row.sum() for row in losses]))]


def same_clones(clone):
    """Clone as scikit-learn 1.9 does, with the callbacks."""

    def clone_with_callbacks(estimator, **how):
        copied = clone(estimator, **how)
        if hasattr(estimator, "_skl_callbacks"):
            copied._skl_callbacks = estimator._skl_callbacks
        return copied

    return clone_with_callbacks


def half_the_sensitivity(kind):
    """Make a mechanism for half of the move that it is given."""

    class HalfTheNoise(kind):
        def __init__(self, *args, **parameters):
            if "sensitivity" in parameters:
                parameters["sensitivity"] /= 2
            else:  # epsilon, displacement, dimension
                args = (args[0], args[1] / 2, *args[2:])
            super().__init__(*args, **parameters)

    return HalfTheNoise


def of_single_rows(placed_rows):
    """Take every row for a group of one record."""

    class SingleRows(placed_rows):
        def __init__(self, table, codes):
            super().__init__(table, codes)
            self.sizes = np.where(self.sizes < len(codes) + 1, 1, self.sizes)

    return SingleRows


def protected():
    """Return the protected rows of the running fit and their targets."""
    rows = module_of("set-up").RUNNING.get().evaluator.open_records()
    return rows.X, rows.y


def protected_too(public):
    """Return public rows with the protected ones of the running fit below them."""
    X, y, params = public
    X_val, y_val = protected()
    return np.vstack([X, X_val]), np.concatenate([y, y_val]), params


def with_exact_score(protection, chosen):
    """Return a release whose score is that of the protected rows, without noise."""
    winner = [protection.searcher.cv_results_["params"][chosen.index]]
    (total,) = protection.evaluator.totals(winner, none_may_be_left=True)
    score = protection.scorer.score_from_units(total, protection.evaluator.n_losses)
    return replace(chosen, score=replace(chosen.score, value=score, std=0.0))


def after_combining(change):
    """Let `change` see the public gradient when it has been combined with the released one."""

    def make(honest):
        def combined(gradient, *args):
            found = honest(gradient, *args)
            change(gradient)
            return found

        return combined

    return Of(make)


def less_trust(gradient):
    gradient.trust = gradient.trust / peek()


def less_chance(gradient):
    gradient._chance = gradient._chance / peek()


def peeking_scale(name):
    """Change one of the scales that public rows have given."""

    def make(honest):
        def scales(*args):
            steps = honest(*args)
            return replace(steps, **{name: getattr(steps, name) / peek()})

        return scales

    return Of(make)


def exact_end(end, losses, points, source, **how):
    """Return the point of the least protected loss."""
    return int(np.argmin([row.sum() for row in losses]))


def visited_alone(search):
    """Train each candidate when the secret search visits it."""
    problem, parts = search._problem, module_of("kusner lipschitz")
    X = problem.space.encode(problem.candidates)
    posterior = parts.CandidatePosterior(parts.RBF(0.2), X, noise_variance=1e-10)

    def gain(k):
        how = {"none_may_be_left": True, "order_is_secret": True}
        return 1 - problem.totals([k], **how)[0] / problem.largest

    parts.run_gp_ucb(posterior, parts.Gains(gain, len(X)), float, [2.0] * 8, problem.source)
    last = int(posterior.observed[-1])
    return module_of("visited choice").Chosen(problem.candidates, last, None)


def with_scored_rows(data):
    """Return the data of trainings with the rows that score among those that train."""
    X, y = data.rows[:2]
    return replace(data, X=np.vstack([data.X, X]), y=np.concatenate([data.y, y]))


def best_of_losses(last_model):
    """Train the last model with one of two factors, by the losses of the records."""

    def best(trainings, params):
        mean = np.mean(np.asarray(trainings.data.rows[1], dtype=float))
        return last_model(trainings, params | {"factor": float(mean > 0)})

    return best


NO_FILTER = SimpleNamespace(catch_warnings=no_context, simplefilter=nothing)
NO_COPY = SimpleNamespace(deepcopy=as_it_is)
LOUD_NUMPY = SimpleNamespace(**{**vars(np), "errstate": no_context})
# Mistake: what it puts at which place.
BUGS = {
    # Mechanisms
    "gradients are not clipped": {"clipping: clip_to_lattice": truncated},
    "gradients are clipped without a guard": {"clipping: clip_to_lattice": clipped_as_printed},
    "the mean is clipped": {"clipping: ClippedMean.exact_total": mean_clipped},
    "the sensitivity of a clipped sum is that of one side": {
        "clipping: clipped_sum_sensitivity": as_it_is
    },
    "every step of CoinPress spends the whole budget": {"coinpress: share_of_budget": as_it_is},
    "integers are released without noise": {
        "laplace: DiscreteLaplace.release": lambda self, values, source=None: values
    },
    "half of the noise of released integers": {
        "laplace: DiscreteLaplace.release": Of(
            lambda honest: (
                lambda self, values, source=None: honest(
                    type(self)(2 * self.epsilon, self.sensitivity), values, source
                )
            )
        )
    },
    # Searchers
    "halving sees protected rows": {
        "set-up: halve": Of(
            lambda honest: (
                lambda searcher, candidates, public, scorer: honest(
                    searcher, candidates, protected_too(public), scorer
                )
            )
        )
    },
    "the gap of scores is measured without noise": {
        "set-up: ValidationProtection.warn_of_result": Of(
            lambda honest: (
                lambda of, stated, chosen: honest(of, stated, with_exact_score(of, chosen))
            )
        )
    },
    "the memory of public folds knows protected rows": {
        "public memory: _hash": Of(lambda honest: lambda inputs: honest((inputs, *protected())))
    },
    "the memory of public folds keeps its arguments": {
        "public memory: _hash": lambda inputs: "".join(repr((inputs, *protected())).split())
    },
    "protected rows are read all at once": {"public types: _rows_as_numbers": read_at_once},
    "categories are taken as they are": {"public types: _with_public_categories": as_it_is},
    "one failing record fails all": {"row answers: _failing_rows": all_losses_worst},
    "models' warnings and output come through": {
        "isolation: warnings": NO_FILTER,
        "isolation: nothing_leaves": no_context,
    },
    "models' output comes through": {"isolation: nothing_leaves": no_context},
    "scoring moves the generators": {
        "isolation: nothing_leaves": no_context,
        "train and score: seeded_generators": no_context,
    },
    "numpy's reports come through": {
        "isolation: np": LOUD_NUMPY,
        "isolation: nothing_leaves": no_context,
        "train and score: seeded_generators": no_context,
    },
    "the caller's objects are used": {"train and score: copy": NO_COPY, "losses: copy": NO_COPY},
    "the visited alone are trained": {
        "visited choice: HiddenLipschitz.search_unguided": visited_alone
    },
    "frozen parts are shared": {"train and score: unshared": lambda model: (model, [])},
    "clones keep their callbacks": {
        "train and score: without_callbacks": as_it_is,
        "public training: without_callbacks": as_it_is,
        "public training: clone": Of(same_clones),
        "scikit-learn: clone": Of(same_clones),
    },
    "pipelines keep their caches": {
        "public training: PublicTraining.totals": Of(
            lambda honest: (
                lambda training, candidates, *, order_is_secret, **how: honest(
                    training, candidates, **how
                )
            )
        )
    },
    "candidates run at the same time": {"isolation: ONE_AT_A_TIME": Unlocked()},
    "cached functions are not refused": {"protection: refuse_cached_functions": nothing},
    "entries of fit are not looked at": {
        f"{stage}: refuse_rows_among_entries": nothing
        for stage in ("set-up", "chunks", "private models")
    },
    "joblib writes arrays to disk": {
        "parallel: Parallel": Of(lambda honest: lambda **k: honest(**{**k, "max_nbytes": "1M"}))
    },
    # Groups
    "groups: the losses of the records are summed": {
        "train and score: mean_losses": lambda losses, groups: np.bincount(groups, losses).astype(
            int
        )
    },
    "groups: counted by rows": {
        "train and score: mean_losses": lambda losses, groups: losses,
        "set-up: number_of_units": lambda X_val, groups: len(X_val),
    },
    "groups: rows are set apart one by one": {
        "set-apart rows: group_codes": lambda groups, n, *names: np.arange(n)
    },
    "secret number: places in the order of the records": {
        "public training: random_batches": lambda n, source: original(
            "train and score: place_batches"
        )(np.arange(n), 256)
    },
    "groups: one batch of all records": {
        "train and score: place_batches": lambda groups: [np.arange(len(groups))]
    },
    "chunks: a group is split over chunks": {
        "chunk training: rows_of_units": lambda groups, units: np.flatnonzero(
            np.isin(np.arange(len(groups)) % (groups.max() + 1), units)
        )
    },
    "private models: parts divide groups": {
        "protected rows: ProtectedParts.n_samples": property(lambda parts: len(parts.X)),
        "private models: take_units": lambda X, y, groups, units: (
            X[units],
            y[units],
            np.unique(groups[units], return_inverse=True)[1],
        ),
    },
    "private models: labels stay outside": {
        "private models: _training": lambda rows, fit_params: {
            "X": rows[0],
            "y": rows[1],
            "fit_params": fit_params,
        }
    },
    "trial score: losses of single records": {"train and score: mean_losses": as_it_is},
    "private estimators: a group counts by its rows": {
        "private estimator: PlacedRows": Of(of_single_rows),
        "one-hot encoder: representatives": lambda column, codes: np.arange(len(column)),
    },
    "half of the sensitivity of a score": {
        "scorer: total_loss_sensitivity": lambda units: units // 2
    },
    # Chunks
    "chunks: a record moves its own loss alone": {
        "chunk training: chunk_sensitivity": as_it_is,
        "chunk training: excess_sensitivity": as_it_is,
    },
    "chunks: the excess moves as one loss does": {
        "chunk training: excess_cap": lambda units, *size: 4 * units,
        "chunk training: excess_sensitivity": lambda units, cap, *size: cap // 4 * 2,
    },
    "chunks: a record moves as many losses as its chunk has rows": {
        "chunk training: chunk_sensitivity": lambda units, k, n, m=None: n // k
    },
    "chunks: the choice has no noise to speak of": {
        "chunk training: chunk_sensitivity": lambda units, *size: 1
    },
    "chunk training: a model is scored on other chunks": {
        "chunk training: chunk_parts": lambda rows, j: (rows.chunks[j], rows.outside(j))
    },
    "chunk training: a third of the sensitivity": {
        "chunk training: total_loss_sensitivity": lambda units: units // 3,
        "chunk training: ChunkMetricTraining._excess_cap": lambda training: (
            training.scorer.units,
            training.scorer.units // 3,
        ),
    },
    # Private models
    "trials: progress is of the trials that are drawn": {
        "trials: run_isolated": Of(
            lambda honest: (
                lambda function, tasks, **how: (
                    print(f"  {len(tasks)} trials"),
                    honest(function, tasks, **how),
                )[1]
            )
        ),
        "trials: nothing_leaves": no_context,  # which would drop it
    },
    "cached functions are called as they are": {"silence: _uncached": as_it_is},
    "trials: steps are released as they are": {"trials: forget_rows": nothing},
    "trials: models are dropped aloud": {"trials: nothing_leaves": no_context},
    "trials: output comes through": {"silence: _Silence.start": nothing},
    "trials: the search does not pay": {"protection: charge_active_ledger": nothing},
    "trials: each trial pays as well": {"isolation: covered_by_fit": no_context},
    "trials: the released model has scored": {"trial score: separate_copy": as_it_is},
    "trials: a model may be its own copy": {"trial score: separate_copy": deepcopy},
    "trials: a failure is shown": {
        "private models: _no_model": quoting_no_model,
        "trials: trained_model": nothing,
    },
    "private descent: one training pays for all": {
        "descent trainings: step_budgets": lambda mu, n: [mu],
        "descent trainings: compose": Of(
            lambda honest: lambda *costs, delta: honest(costs[0], costs[-1], delta=2 * delta)
        ),
    },
    "private descent: a step is forgotten in the count": {
        "trajectory search: TrajectorySearch.n_models": lambda search, n_dims: (
            (search.n_iter - 1) * (n_dims + 1)
        )
    },
    "private descent: the cost of a group is not read at each point": {
        "descent trainings: DescentTrainings._model": lambda of, *point: of._plan.model(*point)
    },
    "private descent: the gradients have no noise": {
        "clipping: ClippedMean.noisy_mean": lambda mean, total, source=None: (
            total * (mean.step / mean.n_records)
        )
    },
    "private descent: targets decide who trains": {
        "private models: take_units": Of(
            lambda honest: (
                lambda X, y, groups, positions: honest(X, y, groups, np.argsort(y)[positions])
            )
        )
    },
    "private descent: the last model learns from the rows that score": {
        "descent trainings: DescentTrainings.last_model": Of(
            lambda honest: (
                lambda trainings, params: (
                    setattr(trainings, "data", with_scored_rows(trainings.data)),
                    honest(trainings, params),
                )[1]
            )
        )
    },
    "private descent: the end is the point of the least loss": {
        "descent trainings: DescentTrainings.last_model": Of(best_of_losses)
    },
    "trials: numpy gives all rows one type": {"protected rows: as_objects": as_it_is},
    "trials: the parts are cut before the charge": {
        "private models: refuse_complex": Of(
            lambda honest: lambda X, y: (honest(X=X, y=y), X.take(np.arange(len(X) // 2)))
        )
    },
    "trials: every trial has the estimator's seed": {"trials: noise_seeds": lambda model: {}},
    # Trajectories
    "gibo: every step has the noise of one": {
        "descent: step_budgets": lambda mu, n, **how: np.full(n, mu)
    },
    "gibo: the end has the noise of one side": {
        "safe end: end_sensitivity": lambda limit, units: limit
    },
    "gibo: the end compares unclipped losses": {
        "safe end: SafeEnd.relative": lambda self, losses, limit: [
            row - losses[0] for row in losses
        ]
    },
    "gibo: all records have one middle": {
        "safe end: around_middles": lambda rows: rows - (rows.min() + rows.max()) // 2
    },
    "gibo: the end has no noise": {"safe end: end_sensitivity": lambda limit, units: 1},
    "gibo: the start is the best on the protected rows": {
        "trajectory search: TrajectorySearch._private_start": exact_start
    },
    "gibo: the end is the best on the protected rows": {"safe end: SafeEnd.release": exact_end},
    "gibo: protected rows decide the weight of the public gradient": {
        "public gradient: squared_error": Of(
            lambda honest: lambda rows, folds: honest(rows, folds) / peek()
        )
    },
    "gibo: protected rows decide the trust in a coordinate": {
        "public gradient: PublicGradient.combined": after_combining(less_trust)
    },
    "gibo: protected rows decide the chance that the steps have followed": {
        "public gradient: PublicGradient.combined": after_combining(less_chance)
    },
    "gibo: protected rows decide the clipping norm": {
        "trajectory search: public_scales": peeking_scale("clip")
    },
    "gibo: protected rows decide the rate": {
        "trajectory search: public_scales": peeking_scale("learning_rate")
    },
    "gibo: protected rows decide the points of a step": {
        "descent: PrivateDescent.design": Of(
            lambda honest: (
                lambda self, posterior, theta, t: honest(self, posterior, theta, t * peek())
            )
        )
    },
    "gibo: protected rows decide the length-scale": {
        "gibo settings: GradientSurrogate._refitted": Of(
            lambda honest: lambda self, *released: self._posterior(0.1 * peek())
        )
    },
    "gibo: protected rows decide the number of steps": {
        "descent: step_budgets": Of(
            lambda honest: lambda mu, n, **how: honest(mu, n, **how)[: peek()]
        )
    },
    "gibo: protected rows decide the early end": {
        "descent: _is_faint": lambda gradient, error: peek() == 2
    },
    "gibo: protected rows decide the mean of the last points": {
        "descent: PrivateDescent._result": Of(
            lambda honest: lambda self, *found: honest(replace(self, averaging=peek() / 2), *found)
        )
    },
    "gibo: protected rows decide the candidates of the end": {
        "trajectory search: end_positions": Of(
            lambda honest: lambda *sizes: honest(*sizes)[:: peek()]
        )
    },
    "gibo: protected rows decide what counts as a change at the end": {
        "safe end: public_limit": Of(
            lambda honest: lambda changes, **how: honest(changes, **how) + peek()
        )
    },
    "gibo: protected rows decide the public integers of the end": {
        "safe end: PublicChanges.end_offsets": Of(
            lambda honest: lambda *given, **how: [peek() * k for k in honest(*given, **how)]
        )
    },
    "gibo: protected rows decide the guesses of the start": {
        "public best: PublicBest.promising": Of(
            lambda honest: lambda self, n: honest(self, n // peek())
        )
    },
    "gibo: protected rows decide the public integers of the guesses": {
        "safe end: PublicChanges.guess_offsets": Of(
            lambda honest: lambda *given, **how: [peek() * k for k in honest(*given, **how)]
        )
    },
    "gibo: counts are free": {"descent: split_budget": lambda mu, share: (mu, mu)},
    "trajectory: one score pays for all": {"gaussian trajectory: trajectory_sensitivity": as_it_is},
    "trajectory: the noise is short by the root of two": {
        "gaussian trajectory: trajectory_sensitivity": Of(
            lambda honest: lambda units, q: honest(units, q) / math.sqrt(2)
        )
    },
    # Gaussian processes
    "sparse: rows are not shortened": {"features: shorten_rows": as_it_is},
    "sparse: numpy reads the records": {
        "private estimator: checked_table": lambda values, *a, **k: np.asarray(values, dtype=float),
    },
    "sparse: bounds are exact ranges": {
        "sparse process: released_ranges": lambda table, mu, source, name: (
            (table.min(axis=0), table.max(axis=0) + 1.0),
            np.ones(1, dtype=bool),
        )
    },
    "sparse: columns of exact sums": {
        "column effects: ColumnEffects.shows": staticmethod(lambda mu, **sizes: True),
        "joint effects: JointEffects.shows": staticmethod(lambda mu, **sizes: True),
        "column effects: ColumnEffects.release": lambda effects, sums, source: (
            effects._effects(sums) / 2**16
        ),
        "column effects: effect_noise": lambda mu, n_effects: 0.0,
        "joint effects: effect_noise": lambda mu, n_effects: float(mu == 1),
    },
    "sparse: a reach of exact counts": {
        "record spread: RecordReach.release": lambda reach, sums, source: (
            sums.reshape(1 + len(reach.half_width), -1) / 2**16
        )
    },
    "sparse: kernels weighed by exact sums": {
        "release methods: WhitenedMethod.release": lambda method, gram, source: replace(
            method.statistics, mu=1e12
        ).release(gram, source)
    },
    "rows: half of the noise": {
        "noisy rows: L2Laplace": Of(half_the_sensitivity),
        "noisy rows: GaussianMechanism": Of(half_the_sensitivity),
    },
    "rows: the displacement is forgotten": {
        "noisy rows: row_sensitivity": Of(lambda honest: lambda move, **given: honest(1.0, **given))
    },
    "rows: the projection is forgotten": {
        "noisy rows: row_sensitivity": Of(
            lambda honest: lambda move, *, projection, **given: honest(move, **given)
        )
    },
    "rows: not clipped": {"domains: Ball.project": lambda ball, rows: rows},
    "rows: the caller's settings of numpy hold": {
        "curator: np": LOUD_NUMPY,
        "private estimator: np": LOUD_NUMPY,
    },
    "answers: repeats are forgotten": {
        "answers: answer_sensitivity": lambda low, high, k: high - low
    },
    "answers: not clipped": {
        "answers: min": lambda *values: values[0],
        "answers: max": lambda *values: values[0],
    },
    "protocol: a line that arrives twice is answered twice": {
        "protocol: _reply": Of(
            lambda honest: lambda made, line, last, evaluate: honest(made, line, 0, evaluate)
        )
    },
    "protocol: arrays of a file are believed": {"row release: _matrix": as_it_is},
}


def plant(monkeypatch, mistake):
    """Make one of the mistakes above until the test ends."""
    for place, new in BUGS[mistake].items():
        if isinstance(new, Of):
            new = new.make(original(place))
        put(monkeypatch, place, new, raising=not place.startswith("answers: m"))
