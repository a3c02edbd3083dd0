"""Private names under test, and the modules that hold them.

``from _support.internals import exact_chunk`` works in every test, so that a module that moves or
is renamed changes one line of the tests. Names are looked up when they are imported: a line that
is out of date fails the tests that need it, and no others.
"""

from importlib import import_module

# Module below skdpbo: names that tests import from it.
HOMES = {
    "_attempt": "attempt",
    "_class_labels": "NO_LABEL checked_labels label_positions separate_labels",
    "_column_moments": (
        "at_one_end hidden_columns histogram_sensitivity is_box_wide moment_blocks "
        "nearest_counts norm_counts norm_edges release_moments release_radius"
    ),
    "_column_ranges": (
        "column_counts counts_sensitivity may_show_ranges narrowest_run released_ranges"
    ),
    "_exact_gram": "exact_chunk lattice_radius rows_on_lattice shorten_rows streamed_sums",
    "_gram_release": (
        "NoisyMoments SQUARED_NORM WhitenedRelease lifted release_gram second_moment_sensitivity"
    ),
    "_noise_aware": "MomentModel released_noise_variance",
    "_parameters": "check_bounds",
    "_record_groups": (
        "PlacedRows divide_by_group_size divide_by_root_of_group_size group_codes histogram_step "
        "place_batches placed random_batches"
    ),
    "_reentrant_lock": "ReentrantLock",
    "_row_blocks": "BoxedRows",
    "_schema": "public_shape",
    "audit._result": "epsilon_of event_bounds",
    "gaussian_process._column_effects": "ColumnEffects",
    "gaussian_process._joint_effects": "JointEffects",
    "gaussian_process._record_spread": "RecordReach RecordSpread shows_reach spread_features",
    "gaussian_process._public_base": (
        "GatedPredictor PublicModel ResidualRows default_bases public_model"
    ),
    "gaussian_process.outsourced._answers": "AnswerNoise answer_sensitivity",
    "gaussian_process.outsourced._messages": (
        "Answer ProtocolError Query REASONS Refusal decode encode"
    ),
    "gaussian_process.outsourced._noisy_covariance": ("NoisyInputRBF noisy_inputs"),
    "gaussian_process.outsourced._noisy_kernels": ("NoisyRowsKernel gaussian_mixture shrinkage"),
    "gaussian_process.outsourced._noisy_rows": "NoisyRows",
    "gaussian_process.outsourced._random_projection": (
        "operator_norm_bound random_projection row_sensitivity"
    ),
    "gaussian_process.outsourced._row_belief": ("denoised_variances is_isotropic normal_rows"),
    "gaussian_process.papers._branch_and_bound": "_upper _values largest_squared_norm",
    "gaussian_process.papers._kernel_posterior": (
        "JITTER POSTERIORS _covariance_from_noise in_coordinates kernel_posterior regulariser"
    ),
    "gaussian_process.papers._kernel_release": "KernelRelease KernelRows",
    "gaussian_process.papers._kernel_sensitivity": (
        "NORM_BOUNDS certified_norm grid_axes grid_centre_norm joint_sensitivity line_norm "
        "optimal_ratio product_grid_norm searched_norm separation_norm "
        "spectral_norm trivial_norm"
    ),
    "gaussian_process.papers._kharkovskii2020": "published_transform threshold",
    "gaussian_process.papers._stationary_kernels": "stationary_kernel",
    "gaussian_process.sparse._denoising": (
        "denoised_second_moment nearest_mixture share_in_reach smaller_scales"
    ),
    "gaussian_process.sparse._features": "LatticeRows WhitenedFeatures kernel_chunks",
    "gaussian_process.sparse._inducing": (
        "SUPPORT_DESIGNS design_for_columns inducing_design support_design"
    ),
    "gaussian_process.sparse._kernel_family": (
        "KernelFamily average_kernel check_kernels default_family design_weights kernel_shares "
        "label_family"
    ),
    "gaussian_process._isolated_rows": "isolated_answers",
    "gaussian_process._linear_kernel": "LinearKernel",
    "gaussian_process.sparse._label_codes": "class_offsets class_probabilities label_codes",
    "gaussian_process.sparse._mixtures": (
        "AMPLITUDES FittedWeights amplitude_prior averaged feature_maps map_error mixture_moments "
        "nearest_points"
    ),
    "gaussian_process.sparse._predictor": "MixturePredictor WeightPredictor",
    "gaussian_process.sparse._private_process": "private_prior_mean",
    "gaussian_process.sparse._release_methods": "KernelMethod WhitenedMethod",
    "gaussian_process.sparse._share_design": "designed_shares recoverable_parts",
    "linear_model._class_balance": "class_counts release_balance",
    "linear_model._gradient_sum": (
        "GradientRelease gradient_sensitivity residuals_on_lattice rows_on_grid"
    ),
    "linear_model._record_rows": "ColumnScales JoinedRows StandardisedRecords",
    "mechanisms._clip_quantile": "clipped_count_sensitivity",
    "mechanisms._clipping": "clip_to_lattice clipped_mean_sensitivity clipped_sum_sensitivity",
    "mechanisms._coinpress": "clipping_radius default_shares share_of_budget",
    "mechanisms._lattice": "add_integers",
    "mechanisms._mean": "as_records centred_blocks interval_mean_sensitivity",
    "mechanisms._normal_sampler": "NormalSampler",
    "mechanisms._laplace": "laplace_std",
    "mechanisms._sampling": "ExactSampler",
    "mechanisms._source": "RandomSource",
    "mechanisms._trial_count": "_first_probability",
    "model_selection._base": "BasePrivateSearchCV",
    "model_selection.protection._halving": "number_of_rounds",
    "model_selection.evaluation._fold_losses": "largest_gap",
    "model_selection.protection._setup": "refuse_revealing_parts",
    "model_selection._private_choice": "PrivateChoice",
    "model_selection._search_mechanism": "ListChoice PublicScores SearchProblem VisitingSearch",
    "model_selection._sklearn": "BaseSearchCV",
    "model_selection.bayes._gaussian_trajectory": (
        "PrivateScores coarse_step trajectory_sensitivity"
    ),
    "model_selection.bayes._gp_ucb": "UpperConfidenceProposer",
    "model_selection.bayes._public_prior": (
        "automatic_prior automatic_prior_weight public_disagreement public_error "
        "public_noise_variance public_offsets smoothed_public_scores"
    ),
    "model_selection.protection._public_search": "PublicProgress",
    "model_selection.bayes._two_task_ucb": "PrivateTrajectoryProposer automatic_n_private",
    "model_selection.evaluation._chunk_training": ("ChunkMetricTraining ChunkTraining chunk_parts"),
    "model_selection.evaluation._chunks": (
        "ChunkedRows Chunks chunk_positions chunk_sensitivity clipped_excess excess_cap "
        "excess_sensitivity n_chunk_losses"
    ),
    "model_selection.evaluation._dry_run": "dry_run synthetic_rows",
    "model_selection.evaluation._train_and_score": (
        "SEED isolated_outcomes mean_losses train try_scorer"
    ),
    "_isolation._estimator_parts": "parts_inside separate_copy",
    "_isolation._isolated_calls": (
        "_isolated_task in_isolation run_isolated seeded_generators this_process"
    ),
    "_isolation._parallel": "Progress run_tasks",
    "_isolation._silence": "nothing_leaves",
    "model_selection.evaluation._probe_batches": "probe_batches",
    "model_selection.evaluation._public_training": "PublicTraining",
    "model_selection.evaluation._record_gradients": "RecordLosses",
    "model_selection.evaluation._row_independence": (
        "MixedRowsError mixes_rows refuse_row_mixing watched_steps"
    ),
    "model_selection.evaluation._row_wise": "VERIFIED row_wise_assumption unverified_steps",
    "model_selection.gibo._descent": "PrivateDescent noise_to_clip",
    "model_selection.gibo._gradient_release": "TrajectoryRelease",
    "model_selection.gibo._optimizers": "OPTIMIZERS",
    "model_selection.gibo._safe_end": (
        "PublicChanges SafeEnd end_positions end_sensitivity public_limit"
    ),
    "model_selection.gibo._public_gradient": (
        "PublicGradient clipped_rows precise_clip roughness squared_error"
    ),
    "model_selection.papers._kusner_constants": (
        "beta choice_sensitivity exact_score_sensitivity score_sensitivity"
    ),
    "model_selection.papers._kusner_release": (
        "BranchAndBound Gains Shares _step add_laplace choose lattice_units laplace_noise_std "
        "run_gp_ucb"
    ),
    "model_selection.private_training._costs": (
        "_KEEP_FINITE StatedCosts gaussian_budget risky_steps"
    ),
    "model_selection.private_training._descent_trainings": "plan_descent",
    "model_selection.private_training._estimators": "is_shape_only private_steps",
    "model_selection.private_training._plan": (
        "_calibrated_plan largest_cost plan_trials tuning_share"
    ),
    "model_selection.private_training._selection_rules": (
        "largest_trial_epsilon ranking_selection"
    ),
    "model_selection.private_training._statements": "mark_total noise_seeds",
    "model_selection.private_training._trial_score": ("gaussian_mu losses_of trial_score"),
    "model_selection.private_training._trials": ("TrialData TrialRandomness _trial best_of_trials"),
    "model_selection.protection._score_share": "warn_if_trial_is_noisy",
    "model_selection.protection._validation": "RUNNING ValidationProtection running_fit",
    "model_selection.rows._object_table": "as_objects list_width",
    "model_selection.rows._public_types": "as_public_targets",
    "model_selection.rows._settled_types": (
        "from_public_values settled_public_rows settled_public_targets settled_rows "
        "settled_targets without_long_integers"
    ),
    "model_selection.rows._overlap": (
        "entries_assumption refuse_rows_among_entries refuse_shared_rows"
    ),
    "model_selection.rows._protected": (
        "ProtectedRows check_schema in_public_schema protected_positions rows_of_units"
    ),
    "model_selection.scoring._log_density": "concentrated_mu",
    "model_selection.scoring._losses": "UserLoss codes_among zero_one",
    "model_selection.scoring._multimetric": "assign_metrics",
    "model_selection.scoring._parsing": "as_labels as_numbers",
    "model_selection.scoring._resolve": (
        "DEFAULT_LOG_LOSS_BOUND _MEANS resolve_chunk_scorer resolve_scorer resolve_trial_scorer"
    ),
    "model_selection.scoring._score_release": (
        "NoisySums ReleasedScore SumGroup SumNoise centred_total ratio_ends "
        "score_of_secret_count score_std"
    ),
    "model_selection.scoring._scorer": "PerRecordScorer total_loss_sensitivity",
    "model_selection.scoring._user_loss": "make_per_record_scorer",
    "model_selection.scoring.metrics._protected_metrics": "chunk_metric",
    "model_selection.scoring.metrics._confusion": (
        "Matthews Ratio confusion_cells cost_matrix one_vs_rest_counts"
    ),
    "model_selection.scoring.metrics._pair_counts": (
        "PairTable capped_excess_pairs doubled_wrong_pairs excess_pairs majority_cap "
        "pair_tables wrong_pair_sensitivity wrong_pairs_l1_sensitivity"
    ),
    "model_selection.scoring.metrics._confusion_scorer": "ConfusionScorer public_counts",
    "model_selection.scoring.metrics._sklearn_metrics": "PublicTargets metric_of",
    "model_selection.space._continuous": "ContinuousSpace",
    "model_selection.space._search_space": "SearchSpace",
    "preprocessing._category_columns": "category_counts category_key key_positions representatives",
    "preprocessing._imputer": "LEVELS dyadic_counts quantile_of_counts value_or_missing",
    "preprocessing._one_hot_encoder": "category_threshold",
    "privacy._checks": (
        "check_count check_delta check_mu check_positive check_positive_delta check_real "
        "check_within"
    ),
    "privacy._composed_losses": "added_epsilon composed_epsilon exact_sum mu_beside",
    "privacy._conversions": (
        "delta_from_mu gaussian_sigma l2_laplace_scale mu_from_pure_epsilon "
        "pure_epsilon_from_mu rho_from_epsilon"
    ),
    "privacy._guarantee": "PrivacyGuarantee",
    "privacy._profile": "log_gaussian_delta log_sum_exp log_zcdp_delta with_error",
    "privacy._profile_table": "ProfileTable tabulate",
    "privacy._rounding": "round_down round_up round_up_root text_below",
    "privacy.ledger._charging": "_CARRIED covered_by_fit",
    "privacy.ledger._receipts": "Receipt payments_ending",
    "privacy.ledger._process": "PROCESS",
    "privacy.ledger._budget": "guarantee_from_text guarantee_to_text",
    "privacy.selection._liu_talwar": "liu_talwar_max_trials",
    "privacy.selection._selection_profile": (
        "ComposedProfile GaussianProfile StaircaseProfile candidate_profiles loss_of_rank "
        "selection_bounds"
    ),
    "privacy.selection._selection_total": (
        "core_epsilon distance_cost prices_of_a_cap total_epsilon"
    ),
    "surrogate._batch_design": "GradientTrace",
    "surrogate._covariance": "compile_covariance",
    "surrogate._kernels": "differentiable prior_gradient_covariance",
    "surrogate._length_scale": "_GradientLikelihood",
    "surrogate._linalg": "cholesky_inverse cholesky_solve jittered_cholesky",
    "surrogate._hyperparameters": "negative_log_marginal_likelihood",
}

_MODULE_OF = {name: module for module, names in HOMES.items() for name in names.split()}


def __getattr__(name):
    """Import `name` from its module."""
    if name not in _MODULE_OF:
        # Import statements show the message of an ImportError alone; special names are only tried.
        error = AttributeError if name.startswith("__") else ImportError
        raise error(f"tests/_support/internals.py has no line for {name!r}")
    return getattr(import_module(f"skdpbo.{_MODULE_OF[name]}"), name)
