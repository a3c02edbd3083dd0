"""Metrics that are refused, with the reason and the nearest supported metric."""

_CURVE = (
    "with a single positive record, replacing one record moves it from 1 to 1 / m, and no public "
    "shift or denominator is common to all candidates"
)
_VARIANCE = (
    "it forgives the mean residual, a sum over all records, so that one record moves it by four "
    "times the largest loss, where a mean moves by one"
)
_ORDER = (
    "it is an order statistic: where the errors next to it are 0 and the bound, replacing one "
    "record moves it by the whole bound"
)
_RATES = (
    "it is a ratio of two rates without an upper end: a single false positive more or less moves "
    "it without bound"
)
_PARTITION = "it compares two partitions: one record enters the pairs or entropies of all others"
_MULTI = "several metrics are several releases; a search selects by one"

_ERRORS = "'neg_mean_squared_error' or 'neg_mean_absolute_error' with a public loss_bound"
_OWN = "make_per_record_scorer with a loss of single records"

# Prefix of the scoring name -> (reason, nearest supported metric). The longest prefix decides.
_REASONS = {
    "adjusted_": (_PARTITION, _OWN),
    "average_precision": (_CURVE, "'roc_auc'"),
    "completeness_score": (_PARTITION, _OWN),
    "explained_variance": (_VARIANCE, "'r2', which differs by the squared mean residual"),
    "fowlkes_mallows_score": (_PARTITION, _OWN),
    "homogeneity_score": (_PARTITION, _OWN),
    "mutual_info_score": (_PARTITION, _OWN),
    "neg_max_error": (_ORDER, _ERRORS),
    "neg_median_absolute_error": (_ORDER, "'neg_mean_absolute_error' with a public loss_bound"),
    "neg_negative_likelihood_ratio": (_RATES, "'balanced_accuracy'"),
    "normalized_mutual_info_score": (_PARTITION, _OWN),
    "positive_likelihood_ratio": (_RATES, "'balanced_accuracy'"),
    "rand_score": (_PARTITION, _OWN),
    "v_measure_score": (_PARTITION, _OWN),
}
_UNKNOWN = ("no bound on what one record can change is known for it", _OWN)
SEVERAL = f"scoring names several metrics: {_MULTI}. Give one name or one per-record scorer."
CALLABLE = (
    "scoring is a callable and may depend on its records in any way, so no noise can be calibrated "
    "to it. Use make_per_record_scorer(loss, bound=...), where loss(y_true, y_pred) returns one "
    "loss for each record, or one of scikit-learn's names."
)
WITHOUT_DEFAULT = (
    "scoring=None has a bounded default for classifiers ('accuracy') and regressors "
    "('neg_mean_squared_error') only. Use make_per_record_scorer(loss, bound=..., "
    'response_method=...) for this estimator; for a density response_method="score_samples", and '
    "as the loss a public upper end minus y_pred."
)


def refusal(name, of_chunks):
    """Return the reason for refusing a scikit-learn name, and the nearest bounded alternative.

    `of_chunks`: whether chunks of the rows may be scored by it.
    """
    names = name, f"neg_{name}"  # `name` may be that of the metric's function
    prefixes = [prefix for prefix in _REASONS if any(one.startswith(prefix) for one in names)]
    reason, instead = _REASONS[max(prefixes, key=len)] if prefixes else _UNKNOWN
    chunks = (
        ", or protect=Chunks(), which takes it and protects every record with any estimator, but "
        "releases no model"
    )
    offered = instead + chunks * of_chunks
    return f"scoring={name!r} cannot be used under differential privacy: {reason}. Use {offered}."


def refuse_bound(loss_bound, name):
    """Refuse a `loss_bound` of a metric with a fixed range."""
    if loss_bound is not None:
        raise ValueError(
            f"loss_bound does not apply to {name!r}, whose range is fixed: leave it out, or give a "
            "dict with the bounds of the other metrics."
        )
