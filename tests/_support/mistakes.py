"""Mistakes in the mechanisms, the searchers and the ledger, for ``tests/_support/mutate.py``."""

SAMPLING = "tests/mechanisms/test_sampling.py"
INPUT_TYPES = "tests/mechanisms/test_input_types.py"
TRIALS = "tests/mechanisms/test_trial_count.py"
LATTICE = "tests/mechanisms/test_lattice.py tests/mechanisms/test_noisy_max.py"
LATTICE += " tests/mechanisms/test_discrete_laplace.py tests/mechanisms/test_gaussian_mechanism.py"
MEANS = "tests/mechanisms/test_clipping.py tests/mechanisms/test_mean.py"
GAUSSIAN = "tests/mechanisms/test_gaussian_mechanism.py tests/mechanisms/test_opendp_engine.py"
NEIGHBOURS = "tests/attacks/test_neighbours.py tests/attacks/test_faults.py"
SEEDS = "tests/model_selection/evaluation/test_seeded_generators.py"
EFFECTS = "tests/attacks/test_side_effects.py tests/attacks/test_shared_objects.py"
EFFECTS += " tests/attacks/test_hidden_trajectory.py tests/attacks/test_protected_rows.py"
CHUNKS = "tests/model_selection/test_fit_chunks.py"
RAISED = "tests/attacks/test_base_exceptions.py"
RAISED_BY_SIGNALS = "tests/attacks/test_signals.py"
ENDS = "tests/model_selection/scoring/metrics/test_metric_scorers.py -k TestNoiseBeyondTheRange"
PRIVATE_DESCENT = "tests/model_selection/test_fit_private_descent.py"
BAD_INPUT = "tests/model_selection/test_bad_input.py"
OUTSOURCED = "gaussian_process/outsourced"
CURATOR = "tests/gaussian_process/outsourced/test_curator.py"
RECEIPTS = "tests/privacy/ledger/test_receipts.py"
FAULTS = "tests/attacks/test_faults.py"
ISOLATED = "_isolation/_isolated_calls.py"
SILENCE = "_isolation/_silence.py"
TRAINED = "model_selection/private_training/_trials.py"
RELATIONS = "tests/model_selection/test_groups.py -k TestRelations"
COMPOSITION = "tests/privacy/test_privacy_composition.py -k one_change"
STEPS = "model_selection/private_training/_estimators.py"

MECHANISMS = [
    ("_normal_sampler.py", "dtype=np.uint8) >= 128", "dtype=np.uint8) > 128", SAMPLING),
    ("_mean.py", 'refuse_masked(values, "values")', "pass", INPUT_TYPES),
    ("_mean.py", 'or nullable.kind in "fiu"', "", INPUT_TYPES),
    ("_lattice.py", "    refuse_masked(values, name)\n", "", INPUT_TYPES),
    ("_normal_sampler.py", "return k[kept]", "return np.minimum(k[kept], 5)", SAMPLING),
    ("_normal_sampler.py", "lanes = lanes[k[lanes] > 2]", "lanes = lanes[k[lanes] > 3]", SAMPLING),
    (
        "_normal_sampler.py",
        "alive, again = alive[c <= even]",
        "alive, again = alive[c < even]",
        SAMPLING,
    ),
    (
        "_normal_sampler.py",
        "less[i] = self._exceeds_uniform(known.setdefault(int(lanes[i]), []))",
        "pass",
        SAMPLING,
    ),
    (
        "_normal_sampler.py",
        "digits[:, 0] >> np.uint64(63)",
        "digits[:, 0] >> np.uint64(62)",
        SAMPLING,
    ),
    (
        "_sampling.py",
        "while self._bernoulli_exp_unit(1, 1):\n            quotient += 1",
        "while quotient < 40 and self._bernoulli_exp_unit(1, 1):\n            quotient += 1",
        SAMPLING,
    ),
    ("_sampling.py", "if not (negative and magnitude == 0)", "if True", SAMPLING),
    (
        "_sampling.py",
        "offset = abs(draw) * scale * b - a",
        "offset = abs(draw) * scale * b",
        SAMPLING,
    ),
    ("_sampling.py", "return k % 2 == 1", "return k % 2 == 0", SAMPLING),
    (
        "_trial_count.py",
        "while k < last and sampler",
        "while k < min(last, 80) and sampler",
        TRIALS,
    ),
    (
        "_trial_count.py",
        "while k < last:\n        if",
        "while k < min(last, 60):\n        if",
        TRIALS,
    ),
    ("_trial_count.py", "(k * whole + eta.numerator)", "(k * whole)", TRIALS),
    (
        "_gaussian.py",
        "check_delta(self.delta) - self._charge(epsilon)",
        "check_delta(self.delta)",
        GAUSSIAN,
    ),
    (
        "_gaussian.py",
        "one_plus_exp(epsilon)",
        "(one_plus_exp(epsilon) - 1)",
        GAUSSIAN,
    ),
    ("_gaussian.py", "sigma = self._calibrated(sensitivity + rounding)", "pass", GAUSSIAN),
    (
        "_gaussian.py",
        "scale = math.ceil(ratio * 2**shift)",
        "scale = math.floor(ratio * 2**shift)",
        GAUSSIAN,
    ),
    ("_lattice.py", "np.trunc(quotients)", "np.rint(quotients)", LATTICE),
    ("_lattice.py", "if math.frexp(step)[0] != 0.5:", "if False:", LATTICE),
    ("_lattice.py", "if largest < 2**61:", "if True:", LATTICE),
    ("_noisy_max.py", "epsilon.denominator * 2 * int(", "epsilon.denominator * int(", LATTICE),
    ("_noisy_max.py", "(value - best)", "(value - values[0])", LATTICE),
    (
        "_laplace.py",
        "exact_scale = int(self.sensitivity) / as_fraction",
        "exact_scale = 1 / as_fraction",
        LATTICE,
    ),
    ("_clipping.py", "return 2.0 * clip", "return clip", MEANS),
    (
        "_mean.py",
        "interval_mean_sensitivity(self.low, self.high, 2)",
        "interval_mean_sensitivity(self.low, self.high, 4)",
        MEANS,
    ),
    (
        "_coinpress.py",
        "return math.sqrt(share) * mu * (1 - _ROUNDING)",
        "return math.sqrt(share) * mu",
        MEANS,
    ),
    ("_clip_quantile.py", "share - self.quantile", "self.quantile - share", MEANS),
    (
        "_schedule.py",
        "np.array([1.0 - share, share])",
        "np.array([1.0, share])",
        "tests/mechanisms tests/gaussian_process/sparse/test_regressor.py",
    ),
]
EVALUATOR = [
    ("_train_and_score.py", "without_callbacks(model)", "model", EFFECTS),
    (
        "_train_and_score.py",
        "own_scorer, _ = attempt(copy.deepcopy, scorer)",
        "own_scorer = scorer",
        EFFECTS,
    ),
    ("_chunks.py", "(rows + n_chunks - 1)", "(rows + n_chunks - 2)", CHUNKS),
    ("_chunks.py", "own = min(2 * units, cap)", "own = min(units, cap)", CHUNKS),
    ("_chunks.py", "return units * max(n_chunks, rows)", "return units * rows", CHUNKS),
]
PRIVACY = [
    (
        "_composed_losses.py",
        "if losses.failure >= 1:",
        "if False:",
        "tests/privacy/test_privacy_composition.py -k leaves_nothing",
    ),
    ("_composition.py", 'if "group" in neighbours', "if False", COMPOSITION),
    ("_composition.py", 'if "group" in guarantees[0].neighbours', "if False", RELATIONS),
    ("ledger/_ledger.py", 'if name.startswith("one group")', "if False", RELATIONS),
    ("_composition.py", "if neighbours in _OF_ANY_NUMBER", "if False", COMPOSITION),
    (
        "ledger/_charging.py",
        'value = getattr(value, "categories", ())',
        "value = ()",
        "tests/privacy/ledger/test_ledger_processes.py -k inside_another",
    ),
    (
        "ledger/_store.py",
        'return LOCAL.setdefault(state["token"], store)',
        "return store",
        "tests/privacy/ledger/test_ledger_processes.py",
    ),
    (
        "ledger/_store.py",
        "st_nlink > 1",
        "st_nlink > 2",
        "tests/privacy/ledger/test_database.py -k names",
    ),
    (
        "ledger/_store.py",
        "if linked or _is_mounted(self.path):",
        "if linked:",
        "tests/privacy/ledger/test_database.py -k mounted",
    ),
    (
        "ledger/_store.py",
        '== [("wal",)]',
        '== [("none",)]',
        "tests/privacy/ledger/test_database.py -k wal",
    ),
    (
        "ledger/_store.py",
        "if (chain[0], charged[: len(rows)]) != (beginning, rows):",
        "if chain[0] != beginning:",
        "tests/privacy/ledger/test_database.py -k open_ledger_sees",
    ),
    (
        "ledger/_store.py",
        "if self.key != key",
        "if False",
        "tests/privacy/ledger/test_database.py -k replaced",
    ),
    (
        "ledger/_charging.py",
        "            store.entries()",
        "            pass",
        "tests/privacy/ledger/test_database.py -k journal",
    ),
    (
        "ledger/_receipts.py",
        "if self.path in _INHERITED:",
        "if False:",
        RECEIPTS,
    ),
    (
        "ledger/_process.py",
        "except KeyboardInterrupt:",
        "except ZeroDivisionError:",
        "tests/privacy/ledger/test_ledger_processes.py -k interrupt",
    ),
    (
        "ledger/_process.py",
        "while frame.f_lasti == place:",
        "while False:",
        "tests/privacy/ledger/test_ledger_processes.py -k interrupt",
    ),
    ("ledger/_receipts.py", "                block.end()", "                pass", FAULTS),
    ("ledger/_receipts.py", "if self._payer is PROCESS.token and not", "if not", RECEIPTS),
    ("ledger/_charging.py", "block.hand_out()", "pass", RECEIPTS),
    (
        "ledger/_charging.py",
        "if not isinstance(b, Receipt) or b.is_valid()",
        "if True",
        RECEIPTS,
    ),
    (
        "ledger/_ledger.py",
        "tables.check_pages()",
        "pass",
        "tests/privacy/ledger/test_database.py",
    ),
    (
        "_guarantee.py",
        "one_plus_exp(epsilon)",
        "(one_plus_exp(epsilon) - 1)",
        "tests/privacy/test_privacy_guarantee.py",
    ),
]
FLOOR = [
    (ISOLATED, "np.random.set_bit_generator(source)", "pass", SEEDS),
    (ISOLATED, "random.setstate(state)", "pass", SEEDS),
    (SILENCE, "logging.disable(_ALL_LEVELS)", "pass", EFFECTS),
    (SILENCE, "sys.maxsize", "logging.CRITICAL", EFFECTS),
    (SILENCE, "caches.close()", "pass", EFFECTS),
    (SILENCE, "silence is None or not silence.is_silencing()", "silence is None", EFFECTS),
    (ISOLATED, "copy_context().run(function, *args)", "function(*args)", EFFECTS),
    (
        ISOLATED,
        "return result if parent in (None, this_process()) else",
        "return result or",
        EFFECTS,
    ),
    (TRAINED, "    forget_rows(model, fresh)", "    pass", EFFECTS),
    (STEPS, "if all_kept or key in _SHAPE", "if True", EFFECTS),
    (STEPS, "for part in (model, *", "for part in (fresh, *", EFFECTS),
    (SILENCE, '{"has_gauss": 0}', "{}", EFFECTS),
    (SILENCE, "not late or is_in_place()", "True", EFFECTS),
    (SILENCE, "not self.late or warnings.filters is self._filters", "True", EFFECTS),
    (SILENCE, '"stdout", "stderr", ', '"stdout", ', EFFECTS),
    (SILENCE, ', "__stdout__", "__stderr__"', "", EFFECTS),
    (SILENCE, 'yield logging.Logger, "callHandlers", _drop', "pass", EFFECTS),
    (SILENCE, 'yield logging.Logger, "handle", _drop', "pass", EFFECTS),
    (SILENCE, 'yield tracking, "_AUTOLOGGING_GLOBALLY_DISABLED", True', "pass", EFFECTS),
    (
        SILENCE,
        '"handlers", [logging.NullHandler()]',
        '"handlers", [*logging.root.handlers]',
        EFFECTS,
    ),
    (
        "model_selection/evaluation/_public_training.py",
        "model = _without_caches(model) if uncached else model",
        "estimator = _without_caches(estimator) if uncached else estimator",
        "tests/attacks/test_hidden_trajectory.py",
    ),
    (
        "model_selection/protection/_setup.py",
        "chain(model.get_params().items(), *settings)",
        "model.get_params().items()",
        "tests/attacks/test_hidden_trajectory.py",
    ),
    (
        "model_selection/_sklearn.py",
        "for part in parts_inside(estimator):",
        "for part in [estimator, *estimator.get_params().values()]:",
        "tests/attacks/test_hidden_trajectory.py",
    ),
    (
        "model_selection/private_training/_statements.py",
        "if not own or id(part) in known or is_shape_only",
        "if True or is_shape_only",
        "tests/model_selection/private_training/test_estimators.py -k seeds",
    ),
    (
        "model_selection/evaluation/_chunk_training.py",
        "attempt(in_own_context, loss_of_model",
        "attempt(loss_of_model",
        EFFECTS,
    ),
    (ISOLATED, 'np.errstate(all="ignore")', "np.errstate()", EFFECTS),
    ("_isolation/_estimator_parts.py", "model = copy.deepcopy(model, copies)", "pass", EFFECTS),
    ("_attempt.py", "except BaseException as error", "except Exception as error", RAISED),
    ("_attempt.py", "_pass_on(interrupt)\n\n", "_pass_on(interrupt(str(args)))\n\n", RAISED),
    ("_attempt.py", "{_pass_on.__code__, *map", "{attempt.__code__, *map", RAISED),
    ("_attempt.py", "{_pass_on.__code__, *map", "{*map", RAISED_BY_SIGNALS),
    ("_attempt.py", "if not callable(handler)", "if False", RAISED_BY_SIGNALS),
    ("_attempt.py", "if _was_raised_by_handler(error)", "if True", RAISED),
    (
        "_attempt.py",
        "pending += BaseExceptionGroup.exceptions.__get__(part)",
        "[_drop_frames(inner) for inner in BaseExceptionGroup.exceptions.__get__(part)]",
        RAISED,
    ),
    ("_attempt.py", "any(kind is known for known in kinds)", "kind in kinds", RAISED),
    ("_attempt.py", "tb_frame.f_code in codes", "tb_frame.f_code", RAISED_BY_SIGNALS),
    (f"{OUTSOURCED}/_curator.py", "seed = self._seed", "seed = self.random_state", CURATOR),
    (f"{OUTSOURCED}/_answers.py", "low / 2 + high / 2", "(low + high) / 2", CURATOR),
    (f"{OUTSOURCED}/_noisy_rows.py", "self.domain.norm * largest", "largest", CURATOR),
    (
        "_record_groups.py",
        "np.trunc(units / sizes[rows, None])",
        "np.ceil(units / sizes[rows, None])",
        "tests/attacks/test_group_sums_audit.py",
    ),
    (
        "_record_groups.py",
        "np.floor(np.sqrt(np.floor(Q**2 / sizes[rows, None])))",
        "np.ceil(np.sqrt(Q**2 / sizes[rows, None]))",
        "tests/attacks/test_group_sums_audit.py",
    ),
    (
        "_record_groups.py",
        "+ _ranks(groups)) % width, width)",
        "+ np.arange(len(groups))) % width, width)",
        "tests/attacks/test_group_sums_audit.py",
    ),
]
SELECTION = [
    (
        "private_training/_descent_trainings.py",
        "UNWATCHED, *trainings.assumptions]",
        "UNWATCHED, *both.assumptions]",
        f"{PRIVATE_DESCENT} -k test_groups",
    ),
    (
        "private_training/_descent_trainings.py",
        "numbers = range(self._n_trained - len(models), self._n_trained)",
        "numbers = range(len(models))",
        PRIVATE_DESCENT,
    ),
    (
        "private_training/_descent_trainings.py",
        "self._randomness.of([plan.n_trainings])",
        "self._randomness.of([0])",
        PRIVATE_DESCENT,
    ),
    (
        "private_training/_descent_trainings.py",
        "set(cost.assumptions) <= set(stated.assumptions)",
        "set(cost.assumptions) != {}",
        PRIVATE_DESCENT,
    ),
    (
        "gibo/_gradient_release.py",
        "epsilons = [choice.epsilon for choice in choices.values()]",
        "epsilons = [choice.epsilon for choice in choices.values()][:1]",
        "tests/model_selection/gibo/test_safe_end.py",
    ),
    (
        "rows/_object_table.py",
        "Counter(attempt(_vector_length, row)[0] for row in rows)",
        "Counter(_vector_length(row) for row in rows)",
        RAISED,
    ),
    ("scoring/_losses.py", "[code if error is None else -1", "[code or -1", RAISED),
    ("scoring/metrics/_metric_scorer.py", "np.clip(noisy.values, *ends.T)", "noisy.values", ENDS),
    ("scoring/metrics/_regression_scorer.py", "(-most / 2, most / 2)", "(0, most)", ENDS),
    ("scoring/metrics/_regression_scorer.py", ", ends=(0, n_records)", ", ends=(0, 1)", ENDS),
    ("scoring/metrics/_confusion_scorer.py", "1, typical, (0.0, math.inf)", "1, typical", ENDS),
    (
        "private_training/_trials.py",
        "twin.estimator = original.estimator",
        "pass",
        EFFECTS,
    ),
    (
        "private_training/_trials.py",
        "seeds if seeded else [None] * len(names)",
        "seeds",
        "tests/attacks/test_trial_seeds.py",
    ),
    (
        "protection/_protection.py",
        "steps = self.searcher.estimator, self.candidates",
        "steps = (self.searcher.estimator,)",
        "tests/attacks/test_shared_streams.py",
    ),
]
MISTAKES = FLOOR
MISTAKES += [(f"mechanisms/{path}", *rest) for path, *rest in MECHANISMS]
MISTAKES += [(f"model_selection/evaluation/{path}", *rest) for path, *rest in EVALUATOR]
MISTAKES += [
    (
        "_isolation/_row_answers.py",
        "        if len(rows) == 1:",
        "        if len(rows) <= 2:",
        NEIGHBOURS,
    ),
    ("_isolation/_row_answers.py", "answers[bad] = missing", "pass", BAD_INPUT),
    (
        "_isolation/_row_answers.py",
        "if answers is not None:\n        return answers",
        "return answers",
        NEIGHBOURS,
    ),
]
MISTAKES += [(f"privacy/{path}", *rest) for path, *rest in PRIVACY]
MISTAKES += [(f"model_selection/{path}", *rest) for path, *rest in SELECTION]
