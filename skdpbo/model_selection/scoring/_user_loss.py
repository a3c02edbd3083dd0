"""Scorers of a user's own losses."""

from collections.abc import Callable
from typing import Any

from skdpbo.model_selection.scoring import _losses
from skdpbo.model_selection.scoring._scorer import FINE_UNITS, PerRecordScorer
from skdpbo.privacy._checks import check_positive, check_within

BOUNDS = "[1e-100, 1e100]"  # of losses: squares of scores, and of the noise on them, stay floats


def make_per_record_scorer(
    loss: Callable[..., Any],
    *,
    bound: float,
    response_method: Any = "predict",
    name: str | None = None,
    class_weight: dict[Any, float] | str | None = None,
) -> PerRecordScorer:
    """Make a score with bounded sensitivity from a loss of single records.

    Parameters
    ----------
    loss : callable
        ``loss(y_true, y_pred)`` returning an array of shape (n,), row i from row i of its
        arguments; smaller is better. ``y_true`` is None without targets. Values are clipped to
        ``[0, bound]``. On protected rows it is called with one record at a time, so that it
        cannot mix records; a record for which it raises or returns NaN costs ``bound``. Define it
        at the top level of a module if the scorer must be pickled.
    bound : float
        Largest loss of a record, positive and finite; chosen without looking at protected data.
    response_method : str, list of str, or callable, default="predict"
        Method of the estimator that returns ``y_pred`` (the first that exists of several), or a
        function ``response_method(estimator, X)``. It must treat rows independently.
    name : str, default=None
        Name of the score; the function's name by default.
    class_weight : dict, default=None
        Public weight of each label, positive; labels that are not listed have the largest weight.
        Losses are multiplied by the weights, scaled so that the largest is 1, before they are
        clipped to `bound`. Weights computed from protected rows would void the guarantee.

    Returns
    -------
    PerRecordScorer
        Minus the mean of the clipped loss, as ``scoring`` of the searchers.

    Raises
    ------
    TypeError
        If `loss` is no function, or another parameter has a wrong type.
    ValueError
        If `bound` or a weight is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyRegressor
    >>> from skdpbo import make_per_record_scorer
    >>> def pinball(y_true, y_pred, alpha=0.9):
    ...     return np.maximum(alpha * (y_true - y_pred), (alpha - 1) * (y_true - y_pred))
    >>> scorer = make_per_record_scorer(pinball, bound=5.0)
    >>> model = DummyRegressor().fit([[0], [1]], [0.0, 2.0])
    >>> scorer(model, [[0], [1]], [1.0, 2.0])
    -0.45
    """
    if not callable(loss):
        raise TypeError("loss must be a callable loss(y_true, y_pred)")
    if not isinstance(response_method, str) and not callable(response_method):
        names = list(response_method) if isinstance(response_method, list | tuple) else []
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError("response_method must be a method name, a list of names or a callable")
    if class_weight is not None:
        if not isinstance(class_weight, dict) or not class_weight:
            raise TypeError(
                "class_weight must be a dict of public weights: those of 'balanced' would be "
                "computed from protected records."
            )
        weights = {k: float(check_positive(w, "class_weight")) for k, w in class_weight.items()}
        class_weight = {label: w / max(weights.values()) for label, w in weights.items()}
    return PerRecordScorer(
        _losses.UserLoss(loss, class_weight),
        name=getattr(loss, "__name__", type(loss).__name__) if name is None else str(name),
        bound=check_within(check_positive(bound, "bound"), "bound", BOUNDS),
        units=FINE_UNITS,
        response_method=response_method,
    )
