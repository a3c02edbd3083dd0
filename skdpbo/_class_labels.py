"""Labels of protected records, and their positions among the public classes."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skdpbo._attempt import attempt, is_known
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._isolation._lazy_rows import lazy
from skdpbo._parameters import warn_caller
from skdpbo._record_groups import placed
from skdpbo._schema import declared_types, kind_of_type, refuse_sparse_and_complex
from skdpbo.exceptions import SkdpboWarning

NO_LABEL = np.iinfo(np.int64).min  # code, in integer labels, of a missing or unknown label


class ProbabilityClassifier(ClassifierMixin):
    """Mixin of private classifiers with probabilities."""

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to classify, as for `predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return np.log(self.predict_proba(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # with few records the privacy noise prevails
        return tags


def checked_classes(classes, y):
    """Return the public labels, sorted, or None if none are given.

    Checks the shape and the declared type of `y` alone: a text never equals a number.
    """
    refuse_sparse_and_complex(y, "y")
    shape = getattr(y, "shape", ())
    _refuse_columns(shape)
    labels = None if classes is None else _sorted_labels(classes)
    if labels is not None:
        refuse_other_kind(labels, y)
        if kind_of_type(labels.dtype) == "numbers" and getattr(y, "dtype", None) == np.object_:
            warn_caller(
                "y is of the type of objects, and classes are numbers: texts, such as '1', are "
                "labels of no class. Give y a type of numbers.",
                SkdpboWarning,
            )
    if shape[1:]:  # before the charge: a filter may make it an error
        warn_caller(
            "A column-vector y was passed when a 1d array was expected. Give y of shape "
            "(n_samples,), for example by ravel().",
            DataConversionWarning,
        )
    return labels


def _sorted_labels(classes):
    """Return the given labels, sorted; refuse anything but a vector of two or more."""
    labels, _ = attempt(lambda: np.unique(np.asarray(classes)))  # texts and numbers have no order
    invalid = labels is None or (labels.dtype.kind == "f" and not np.isfinite(labels).all())
    if invalid or np.ndim(classes) != 1 or len(labels) < 2:
        raise ValueError("classes must be a vector that holds at least two labels, none missing.")
    return labels


def refuse_other_kind(classes, y):
    """Raise if one of `classes` and `y` is declared as texts and the other as numbers."""
    kinds = {kind_of_type(dtype) for dtype in (_sorted_labels(classes).dtype, *declared_types(y))}
    if len(kinds - {"objects", "mixed", "decimals"}) > 1:
        raise ValueError(
            "classes and y must both be texts or both be numbers. What numbers the labels, such as "
            "VotingClassifier, or cross_val_predict for probabilities, needs classes=[0, 1, ...]."
        )


def refuse_fractions(classes):
    """Raise if a class is a fraction.

    Trainings of a search pass numeric labels as integers, unless some label is no number: whether
    a fraction is a label would then depend on other records.
    """
    labels = _sorted_labels(classes)
    if labels.dtype.kind == "f" and (labels % 1).any():
        raise ValueError(
            "classes must be texts or whole numbers in a search of private models: give the "
            "fractions as texts, or number the classes."
        )


def refuse_unknown_labels(classes, y):
    """Raise if none of the public labels `y` is one of `classes`."""
    if (label_positions(np.asarray(y, dtype=object).ravel(), _sorted_labels(classes)) < 0).all():
        raise ValueError("classes must hold labels of y: no public row has one of them.")


def checked_labels(y, classes):
    """Protected: return the labels as a vector.

    With public `classes` errors depend on shape and type alone. With None the set of labels is
    declared public, and scikit-learn's checks of classification targets apply.
    """
    y, declared = lazy(y), hasattr(y, "dtype") or hasattr(y, "dtypes")
    if classes is not None and not declared:
        y = in_isolation(separate_labels, y)
    array = np.asarray(y)
    if array.dtype.kind == "c":  # scikit-learn's error quotes values
        raise ValueError("Complex data not supported: y must be real.")
    _refuse_columns(array.shape)
    labels = column_or_1d(y if classes is None else exact_labels(y))
    if classes is None:  # with given classes, a missing label is merely one of no class
        check_classification_targets(_present(labels))
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("Input y contains NaN or infinity.")
    return labels


def exact_labels(y):
    """Protected: return nullable numbers and categories of numbers as objects, others as they are.

    numpy converts them to floats (integer categories if one label is missing), in which integers
    beyond 2^53 are rounded.
    """
    types = declared_types(y)
    known = all(t is None or isinstance(t, np.dtype) for t in types)
    if known or not all(kind_of_type(t) == "numbers" for t in types) or not hasattr(y, "astype"):
        return y
    return np.asarray(y.astype(object))


def _present(labels):
    """Protected: return the labels without missing ones."""
    if labels.dtype.kind != "O":
        return labels[labels != NO_LABEL] if labels.dtype.kind == "i" else labels
    return labels[np.fromiter(map(is_known, labels), bool, len(labels))]


def separate_labels(y):
    """Protected: return the labels of a list or other sequence as objects, each converted alone."""
    if hasattr(y, "to_pylist"):  # of Arrow, whose cells equal no label, and whose rows are dicts
        y = (y.column(0) if hasattr(y, "column") else y).to_pylist()
    # Objects: a single text would make numpy convert all labels to texts.
    table, _ = attempt(np.asarray, y, dtype=object)
    # One by one, since a label that raises, or is a longer row, changes the shape of the table.
    if np.ndim(table) < 2 or table.shape[1:] == (1,):
        rows = y if hasattr(y, "__getitem__") else table  # readable as an array alone
        return np.fromiter(map(_label, rows), dtype=object, count=len(rows))
    return table


def _label(cell):
    """Protected: return a label, or that of a row of one label."""
    table, _ = attempt(np.asarray, cell, dtype=object)
    return table.item() if table is not None and table.size == 1 else cell


def _refuse_columns(shape):
    """Raise for several columns of labels, without the number of rows, secret with groups."""
    if len(shape) > 2 or shape[1:] not in ((), (1,)):
        columns = ", ".join(map(str, shape[1:]))
        raise ValueError(f"y should be a 1d array, got an array of shape (n, {columns}) instead.")


def read_labels(y, classes, table, owner):
    """Protected: return the classes, and positions of labels among them in the order of a table.

    Parameters
    ----------
    y : array-like of shape (n,)
        Protected.
    classes : ndarray or None
        From `checked_classes`. None: the set of labels that occur is declared public.
    table : ndarray, PlacedRows or other
        From `PrivateEstimator._charged`.
    owner : estimator
        Named in the error of too few classes.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
    positions : ndarray of int
        -1 for a label of no class.
    """
    labels = checked_labels(y, classes)
    if classes is None:
        present = _present(labels)
        if present.dtype == np.longdouble:  # whose padding bytes may hold earlier data
            present = present.astype(np.float64)
        classes = np.unique(present)
        if len(classes) < 2:
            name = type(owner).__name__
            raise ValueError(f"{name} needs records of at least two classes; got 1 class or none.")
    return classes, placed(table, label_positions(labels, classes))


def label_positions(labels, classes):
    """Protected: positions of the labels in `classes`, -1 for any other."""
    if classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        # searchsorted returns len(classes) for labels above the largest class.
        positions = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        return np.where(classes[positions] == labels, positions, -1)
    table = {label: k for k, label in enumerate(classes.tolist())}
    # An unhashable label is of no class, and must not raise.
    found = in_isolation(lambda: [attempt(table.get, label, -1)[0] for label in labels.tolist()])
    return np.array([-1 if position is None else position for position in found])
