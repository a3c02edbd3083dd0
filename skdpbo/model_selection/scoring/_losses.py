"""Losses of single records, before they are clipped.

Every loss is a callable ``loss(estimator, y, prediction)`` that returns one float per record.
``inf`` stands for the worst loss (of an unseen label); NaN for a record that cannot be scored,
which is an error for public rows and the worst loss for protected ones. Entry i depends on record i
alone.
"""

import copy
import operator
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from skdpbo._attempt import attempt
from skdpbo.model_selection._sklearn import n_rows
from skdpbo.model_selection.scoring._parsing import (
    as_labels,
    as_numbers,
    n_outputs,
    of_numpy,
    record_objects,
)


def zero_one(estimator, y, prediction):
    """Return 0 if all labels of a record are predicted, else 1 (multilabel: exact match)."""
    y = of_numpy(y)
    alike = type(y) is type(prediction) is np.ndarray and y.shape == prediction.shape
    alike = alike and y.dtype.kind == prediction.dtype.kind and y.ndim in (1, 2)
    # Types that compare exactly and have no missing values: several 100 times faster than below.
    if alike and y.dtype.kind in "biuU":
        return (y != prediction).reshape(len(y), -1).any(axis=1).astype(np.float64)
    width = n_outputs(prediction)
    pairs = zip(as_labels(y, width), as_labels(prediction, width), strict=True)
    # Labels whose comparison raises are different; NaN for records without labels.
    return np.array(
        [np.nan if None in pair else not attempt(operator.eq, *pair)[0] for pair in pairs],
        dtype=np.float64,
    )


def codes_among(classes, y):
    """Return the position of each label among the classes: -1 unseen, -2 unreadable."""
    classes, labels = np.asarray(classes), of_numpy(y)
    typed = isinstance(labels, np.ndarray) and labels.ndim == 1
    # For equal kinds of types, which are public, comparison is exact and all labels are readable.
    if typed and classes.dtype.kind == labels.dtype.kind and labels.dtype.kind in "biuU":
        # Labels beyond the last class are compared with it, and found different.
        order = np.argsort(classes)
        codes = order[np.searchsorted(classes, labels, sorter=order).clip(max=len(classes) - 1)]
        return np.where(classes[codes] == labels, codes, -1)
    # Label by label: comparing whole arrays would convert all labels to one type.
    codes = {(label,): i for i, label in enumerate(record_objects(classes))} | {None: -2}
    found = (attempt(codes.get, label, -1) for label in as_labels(y, 1))
    # An error is due to an unhashable label.
    return np.array([code if error is None else -1 for code, error in found], dtype=np.int64)


def _classes(estimator):
    classes = getattr(estimator, "classes_", None)
    if classes is None or len(np.shape(classes)) != 1:
        raise ValueError("probabilities are scored for a single output with `classes_` only")
    return classes


def _probabilities_and_codes(estimator, y, prediction):
    """Return (n, n_classes) probabilities, NaN where a row is not finite, and class codes."""
    classes = _classes(estimator)
    n_classes = len(classes)
    if len(getattr(prediction, "shape", ())) != 2 or prediction.shape[1] != n_classes:
        raise ValueError("predict_proba must return one column for each class of `classes_`")
    return as_numbers(prediction, n_classes), codes_among(classes, y)


def log_loss(estimator, y, prediction):
    """Return -log of the probability of the true class."""
    probabilities, codes = _probabilities_and_codes(estimator, y, prediction)
    # For negative codes any column, as `_with_codes` replaces their losses.
    of_truth = probabilities[np.arange(len(codes)), np.maximum(codes, 0)]
    with np.errstate(all="ignore"):
        # Probabilities of at most 0 cost 36, as in scikit-learn.
        losses = np.maximum(-np.log(np.maximum(of_truth, np.finfo(float).eps)), 0.0)
    return _with_codes(losses, codes)


@dataclass(frozen=True)
class Brier:
    """The squared distance of the probabilities from the truth, or half of it.

    ``halved`` is True for two classes (scikit-learn's binary convention, in [0, 1]), False for
    more (in [0, 2]), and None to decide by the classes of each estimator.
    """

    halved: bool | None = None

    @property
    def largest(self):
        """Largest loss of a probability."""
        return 2.0 if self.halved is False else 1.0

    def __call__(self, estimator, y, prediction):
        """Return one loss per record."""
        probabilities, codes = _probabilities_and_codes(estimator, y, prediction)
        truth = np.arange(probabilities.shape[1]) == codes[:, None]
        with np.errstate(all="ignore"):
            losses = np.square(probabilities - truth).sum(axis=1)
        halved = probabilities.shape[1] <= 2 if self.halved is None else self.halved
        return _with_codes(losses / 2.0 if halved else losses, codes)


def _with_codes(losses, codes):
    # The worst loss for an unseen class; NaN for an unreadable label or prediction.
    losses = np.where((codes == -1) & ~np.isnan(losses), np.inf, losses)
    return np.where(codes == -2, np.nan, losses)


@dataclass(frozen=True)
class TopK:
    """Loss of 0 if the true class is among the k largest scores, else 1."""

    k: int

    def __call__(self, estimator, y, prediction):
        """Return one loss per record; of equal scores, later classes count as larger."""
        codes, n_classes = codes_among(_classes(estimator), y), len(_classes(estimator))
        scores = as_numbers(prediction, n_outputs(prediction))
        if scores.shape[1] == 1 and n_classes == 2:  # a decision function for the second class
            scores = np.hstack([-scores, scores])
        if scores.shape[1] != n_classes:
            raise ValueError("the estimator must return one score for each class.")
        places = np.arange(scores.shape[1])
        own = np.maximum(codes, 0)[:, None]
        of_truth = np.take_along_axis(scores, own, axis=1)
        ahead = (scores > of_truth) | ((scores == of_truth) & (places > own))
        losses = (ahead.sum(axis=1) >= self.k).astype(np.float64)
        losses[np.isnan(scores).any(axis=1)] = np.nan  # comparisons with NaN are False
        return _with_codes(losses, codes)


# Losses of a target y and a prediction p, by the names of their scores.
ERRORS = {
    "neg_mean_squared_error": lambda y, p: np.square(y - p),
    "neg_mean_absolute_error": lambda y, p: np.abs(y - p),
    # With scikit-learn's machine epsilon.
    "neg_mean_absolute_percentage_error": lambda y, p: (
        np.abs(y - p) / np.maximum(np.abs(y), np.finfo(np.float64).eps)
    ),
    # For y, p > -1.
    "neg_mean_squared_log_error": lambda y, p: np.square(np.log1p(y) - np.log1p(p)),
    "neg_mean_poisson_deviance": lambda y, p: np.where(
        (y >= 0) & (p > 0), 2.0 * (xlogy(y, y / p) - y + p), np.nan
    ),
    "neg_mean_gamma_deviance": lambda y, p: np.where(
        (y > 0) & (p > 0), 2.0 * (np.log(p / y) + y / p - 1.0), np.nan
    ),
}


@dataclass(frozen=True)
class Elementwise:
    """The mean over the outputs of one of `ERRORS`."""

    name: str

    def __call__(self, estimator, y, prediction):
        """Return one loss per record."""
        width = n_outputs(prediction)
        with np.errstate(all="ignore"):
            losses = ERRORS[self.name](as_numbers(y, width), as_numbers(prediction, width))
            return losses.mean(axis=1)


@dataclass(frozen=True)
class UserLoss:
    """A user's ``loss(y_true, y_pred)``, for all public rows at once, or single protected ones.

    `class_weight` maps labels to public weights of at most 1; other labels have weight 1.
    """

    function: object
    class_weight: dict | None = None

    def __call__(self, estimator, y, prediction):
        """Return one loss per public record; raise if the result has another shape."""
        n = n_predictions(prediction)
        if y is not None:
            y = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
        losses = np.asarray(self.function(y, prediction), dtype=np.float64)
        if losses.shape != (n,):
            name = getattr(self.function, "__name__", type(self.function).__name__)
            raise TypeError(
                f"scoring: the loss {name} must return one number for each record, an array of "
                f"shape (n,); it returned one of shape {losses.shape}"
            )
        return losses * self._weights(y, n)

    def isolated(self, y, prediction):
        """Return one loss per protected record, each computed from its record alone.

        The function is called on a copy of one record at a time, so that entries depend on their
        own record even if the function raises or mixes rows. A callable object is copied for each
        record, as it may store its arguments.
        """
        losses = np.full(n_predictions(prediction), np.nan)
        with np.errstate(all="ignore"):
            if y is None:
                records = [None] * len(losses)
            elif isinstance(y, np.ndarray) and y.dtype.kind in "biuf":  # the type is public
                records = [y[i : i + 1].copy() for i in range(len(y))]
            else:  # each array is typed by its record alone
                records = [_one_row_array(record) for record in record_objects(y)]
            for i, record in enumerate(records):
                loss, error = attempt(self._one_loss, record, prediction, i)
                losses[i] = loss if error is None else np.nan
            return losses * self._weights(y, len(losses))

    def _one_loss(self, record, prediction, i):
        """Protected: the loss of one record; NaN if it is not one number."""
        # Row i of the prediction, a copy, as a batch of one.
        if _is_one_table_per_output(prediction):
            predicted = [table[i : i + 1].copy() for table in prediction]
        elif isinstance(prediction, list | tuple):
            predicted = _one_row_array(prediction[i])
        else:
            rows = prediction.iloc if hasattr(prediction, "iloc") else prediction
            predicted = rows[i : i + 1].copy()
        loss = np.asarray(copy.deepcopy(self.function)(record, predicted))
        number = loss.shape == (1,) and loss.dtype.kind in "biuf"
        return as_numbers(loss, 1)[0, 0] if number else np.nan

    def _weights(self, y, n):
        """Return the weight of each record's label; 1 for others."""
        if self.class_weight is None:
            return np.ones(n)
        # The last entry is for code -1, other labels.
        weights = np.array([*self.class_weight.values(), 1.0])
        return weights[np.maximum(codes_among(np.array([*self.class_weight], dtype=object), y), -1)]


def refuse_negated(losses, scorer):
    """Raise if losses of *public* rows are negative or 0, so that all would be clipped to 0."""
    # Rounding may make a loss of 0 slightly negative.
    if losses.max(initial=0.0) <= 0 and losses.min(initial=0.0) < -1e-9 * scorer.bound:
        raise ValueError(
            f"scoring: no loss of {scorer!r} is above 0 on public or synthetic rows, and all are "
            "clipped to 0. Smaller losses are better: give the loss, not minus the loss."
        )


def _one_row_array(record):
    record = record.tolist() if isinstance(record, np.ndarray) else record
    array, error = attempt(np.asarray, [record])
    return array if error is None else np.array([None], dtype=object)  # ragged


def _is_one_table_per_output(prediction):
    """Whether a prediction is that of predict_proba with several outputs."""
    tables = prediction if isinstance(prediction, list) else []
    return bool(tables) and all(isinstance(t, np.ndarray) and t.ndim == 2 for t in tables)


def n_predictions(prediction):
    """Return the number of records that were predicted."""
    return n_rows(prediction[0] if _is_one_table_per_output(prediction) else prediction)
