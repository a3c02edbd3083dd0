"""Why a scikit-learn metric is refused, and what to use instead."""

_COUNTS = (
    "it is a ratio of counts over all records: with a single positive record, replacing "
    "that record can move it from 1 to 0"
)
_MICRO = (
    "it is a ratio of counts over all records (with one label for each record, it is the accuracy)"
)
_CURVE = (
    "it compares records with one another: with a single positive record, replacing that record "
    "can move it by 1"
)
_RATIO = (
    "it divides by the spread of y, which a single record can change without bound, even when y "
    "is clipped"
)
_ORDER = "it is decided by one record (an order statistic), so replacing that record moves it fully"
_ROOT = (
    "the square root of a mean is not a mean of bounded losses (near 0 one record moves it by the "
    "square root of the bound over n); it ranks candidates as the mean itself does"
)
_PARTITION = "it compares two partitions: one record enters the pairs or entropies of all others"
_SAMPLES = "it has bounded losses per record, but skdpbo does not provide it"
_MULTI = "several metrics are several releases; a search selects by one"

_ACCURACY = "'accuracy', 'neg_log_loss' or 'neg_brier_score'"
_PROBABILITIES = "'neg_log_loss' or 'neg_brier_score'"
_ERRORS = "'neg_mean_squared_error' or 'neg_mean_absolute_error' with a public loss_bound"
_OWN = "make_per_record_scorer with a loss of single records"

# Prefix of the scoring name -> (reason, nearest bounded alternative). The longest prefix decides.
_REASONS = {
    "adjusted_": (_PARTITION, _OWN),
    "average_precision": (_CURVE, _PROBABILITIES),
    "balanced_accuracy": (_COUNTS, _ACCURACY),
    "completeness_score": (_PARTITION, _OWN),
    "d2_absolute_error_score": (_RATIO, _ERRORS),
    "d2_brier_score": (_RATIO, "'neg_brier_score'"),
    "d2_log_loss_score": (_RATIO, "'neg_log_loss'"),
    "d2_": (_RATIO, _ERRORS),
    "explained_variance": (_RATIO, _ERRORS),
    "f1": (_COUNTS, _ACCURACY),
    "f1_micro": (_MICRO, "'accuracy'"),
    "f1_samples": (_SAMPLES, f"'accuracy' (exact match) or {_OWN}"),
    "fowlkes_mallows_score": (_PARTITION, _OWN),
    "homogeneity_score": (_PARTITION, _OWN),
    "jaccard": (_COUNTS, _ACCURACY),
    "jaccard_samples": (_SAMPLES, f"'accuracy' (exact match) or {_OWN}"),
    "matthews_corrcoef": (_COUNTS, _ACCURACY),
    "mutual_info_score": (_PARTITION, _OWN),
    "neg_max_error": (_ORDER, _ERRORS),
    "neg_median_absolute_error": (_ORDER, "'neg_mean_absolute_error' with a public loss_bound"),
    "neg_negative_likelihood_ratio": (_COUNTS, _ACCURACY),
    "neg_root_mean_squared_error": (_ROOT, "'neg_mean_squared_error'"),
    "neg_root_mean_squared_log_error": (_ROOT, "'neg_mean_squared_log_error'"),
    "normalized_mutual_info_score": (_PARTITION, _OWN),
    "positive_likelihood_ratio": (_COUNTS, _ACCURACY),
    "precision": (_COUNTS, _ACCURACY),
    "precision_micro": (_MICRO, "'accuracy'"),
    "precision_samples": (_SAMPLES, f"'accuracy' (exact match) or {_OWN}"),
    "r2": (_RATIO, _ERRORS),
    "rand_score": (_PARTITION, _OWN),
    "recall": (_COUNTS, _ACCURACY),
    "recall_micro": (_MICRO, "'accuracy'"),
    "recall_samples": (_SAMPLES, f"'accuracy' (exact match) or {_OWN}"),
    "roc_auc": (_CURVE, _PROBABILITIES),
    "top_k_accuracy": (_SAMPLES, f"'accuracy', 'neg_log_loss' or {_OWN}"),
    "v_measure_score": (_PARTITION, _OWN),
}
_UNKNOWN = ("no bound on what one record can change is known for it", _OWN)


def refusal(name):
    """Return the sentence that refuses a scikit-learn scoring name.

    Parameters
    ----------
    name : str
        A name of `sklearn.metrics.get_scorer_names`.

    Returns
    -------
    str
        The reason and the nearest bounded alternative.
    """
    prefixes = [prefix for prefix in _REASONS if name.startswith(prefix)]
    reason, instead = _REASONS[max(prefixes, key=len)] if prefixes else _UNKNOWN
    return f"scoring={name!r} cannot be used under differential privacy: {reason}. Use {instead}."


def refusal_of_several():
    """Return the sentence that refuses several metrics at once."""
    return f"scoring names several metrics: {_MULTI}. Give one name or one per-record scorer."


def refusal_of_callable():
    """Return the sentence that refuses a scorer whose losses are unknown."""
    return (
        "scoring is a callable and may depend on its records in any way, so no noise can be "
        "calibrated to it. Use make_per_record_scorer(loss, bound=...), where "
        "loss(y_true, y_pred) returns one loss for each record, or one of scikit-learn's names."
    )


def refusal_without_default():
    """Return the sentence for scoring=None and an estimator of neither kind."""
    return (
        "scoring=None has a bounded default for classifiers ('accuracy') and regressors "
        "('neg_mean_squared_error') only. Use make_per_record_scorer(loss, bound=..., "
        "response_method=...) for this estimator."
    )
