"""Folds of the public rows."""

import numbers

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.utils.multiclass import type_of_target

from skdpbo.model_selection._sklearn import n_rows

__all__ = ["public_cv"]

_MOST_FOLDS, _FEWEST_FOLDS = 5, 2


def public_cv(searcher, X, y, positions, grouped=False):
    """Return the splitter of the public rows.

    Parameters
    ----------
    searcher : BasePrivateSearchCV
        Its `cv` and `estimator` are read.
    X, y : public rows and targets
    positions : ndarray or None
        Of the public rows among all rows that ``fit`` was given, None if it was given `X_val`.
    grouped : bool, default=False
        Whether `positions` depend on the sizes of protected groups, which are secret.

    Returns
    -------
    cv : int, cross-validation generator or iterable
        With ``cv=None`` five folds, or as many as the smallest class has rows, at least two.
        Splits of all rows are restricted to the public ones.
    """
    cv = searcher.cv
    if cv is None:
        return _number_of_folds(n_rows(X), y, is_classifier(searcher.estimator))
    if positions is None or isinstance(cv, numbers.Integral):
        return cv
    if hasattr(cv, "split") and not isinstance(cv, PredefinedSplit):
        return cv
    if grouped:
        raise ValueError(
            "cv must be a number or a splitter, such as GroupKFold(5), where groups are set apart: "
            "positions of rows depend on the sizes of the protected groups."
        )
    splits = check_cv(cv)
    folds = [tuple(map(np.asarray, fold)) for fold in splits.split()]
    if max((part.max() for fold in folds for part in fold if part.size), default=0) < n_rows(X):
        return splits  # of the public rows alone
    public = [
        tuple(np.searchsorted(positions, part[np.isin(part, positions)]) for part in fold)
        for fold in folds
    ]
    return [fold for fold in public if all(part.size for part in fold)]


def _number_of_folds(n_samples, y, classifier):
    fewest = n_samples
    if classifier and y is not None and type_of_target(y) in ("binary", "multiclass"):
        fewest = np.unique(np.asarray(y), return_counts=True)[1].min()
    return int(min(max(fewest, _FEWEST_FOLDS), _MOST_FOLDS))
