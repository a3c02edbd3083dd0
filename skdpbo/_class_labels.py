"""Labels of protected records, and their positions among the public classes."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import in_isolation
from skdpbo._isolation._lazy_rows import lazy
from skdpbo._parameters import warn_caller
from skdpbo._record_groups import placed
from skdpbo._schema import declared_types, kind_of_type, refuse_sparse_and_complex
from skdpbo.exceptions import SkdpboWarning

NO_LABEL = np.iinfo(np.int64).min  # in integers: a missing label, or one that is no class's


class ProbabilityClassifier(ClassifierMixin):
    """Mixin of private classifiers with probabilities."""

    def predict_log_proba(self, X):
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
    """Return the public labels, sorted, or None where none are given.

    Of `y` shape and type alone are looked at: no text is the label of a number.
    """
    refuse_sparse_and_complex(y, "y")
    shape = getattr(y, "shape", ())
    _refuse_columns(shape)
    labels = None if classes is None else _sorted_labels(classes)
    if labels is not None:
        refuse_other_kind(labels, y)
        if kind_of_type(labels.dtype) == "numbers" and getattr(y, "dtype", None) == np.object_:
            warn_caller(
                "y is of the type of objects, and classes are numbers: texts, also those of "
                "numbers, are labels of no class. Give y a type of numbers.",
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
    """Return given labels, sorted; refuse what is no vector of them."""
    labels, _ = attempt(lambda: np.unique(np.asarray(classes)))  # those of two kinds have no order
    missing = labels is None or (labels.dtype.kind == "f" and not np.isfinite(labels).all())
    if missing or np.ndim(classes) != 1 or len(labels) < 2:
        raise ValueError("classes must be a vector that holds at least two labels, none missing.")
    return labels


def refuse_other_kind(classes, y):
    """Raise where of `classes` and `y` one is declared as texts and the other as numbers."""
    kinds = {kind_of_type(dtype) for dtype in (_sorted_labels(classes).dtype, *declared_types(y))}
    if len(kinds - {"objects", "mixed", "decimals"}) > 1:
        raise ValueError(
            "classes and y must both be texts or both be numbers. What numbers the labels, such as "
            "VotingClassifier, or cross_val_predict for probabilities, needs classes=[0, 1, ...]."
        )


def refuse_fractions(classes):
    """Raise where a class is a fraction: in trainings of a search numbers are whole, or no label.

    Fractions would be labels again, all of them, beside one that is no number.
    """
    labels = _sorted_labels(classes)
    if labels.dtype.kind == "f" and (labels % 1).any():
        raise ValueError(
            "classes must be texts or whole numbers in a search of private models: give the "
            "fractions as texts, or number the classes."
        )


def refuse_unknown_labels(classes, y):
    """Raise where none of the public labels `y` is one of `classes`."""
    if (label_positions(np.asarray(y, dtype=object).ravel(), _sorted_labels(classes)) < 0).all():
        raise ValueError("classes must hold labels of y: no public row has one of them.")


def checked_labels(y, classes):
    """Protected: return the labels as a vector.

    With public `classes` errors depend on shape and type. None: the labels are public by
    declaration, finite, and must be those of classes.
    """
    y, declared = lazy(y), hasattr(y, "dtype") or hasattr(y, "dtypes")
    if classes is not None and not declared:
        y = in_isolation(separate_labels, y)
    array = np.asarray(y)
    if array.dtype.kind == "c":  # scikit-learn's error quotes them
        raise ValueError("Complex data not supported: y must be real.")
    _refuse_columns(array.shape)
    labels = column_or_1d(y if classes is None else exact_labels(y))
    if classes is None:  # beside given classes a missing label is another one, as in a list
        check_classification_targets(_present(labels))
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("Input y contains NaN or infinity.")
    return labels


def exact_labels(y):
    """Protected: return nullable numbers and categories of numbers as objects, others as they are.

    numpy makes floats of them, of integers that are categories where one label is missing: those
    beyond 2^53 would be others then.
    """
    types = declared_types(y)
    known = all(t is None or isinstance(t, np.dtype) for t in types)
    if known or not all(kind_of_type(t) == "numbers" for t in types) or not hasattr(y, "astype"):
        return y
    return np.asarray(y.astype(object))


def _present(labels):
    """Protected: the labels without missing ones, which are those of no class."""
    if labels.dtype.kind != "O":
        return labels[labels != NO_LABEL] if labels.dtype.kind == "i" else labels
    # Missing ones, NaN, NaT and NA, are not equal to themselves.
    here = (cell is not None and attempt(lambda c: bool(c == c), cell)[0] for cell in labels)
    return labels[np.fromiter(map(bool, here), bool, len(labels))]


def separate_labels(y):
    """Protected: return the labels of a list, or another sequence, as objects, each by itself."""
    if hasattr(y, "to_pylist"):  # of Arrow, whose cells equal no label, and whose rows are dicts
        y = (y.column(0) if hasattr(y, "column") else y).to_pylist()
    # For one text numpy would make texts of all labels.
    table, _ = attempt(np.asarray, y, dtype=object)
    # It looks into each of them, and one that raises, or a longer one, changes what it finds.
    if np.ndim(table) < 2 or table.shape[1:] == (1,):
        rows = y if hasattr(y, "__getitem__") else table  # as an array alone
        return np.fromiter(map(_label, rows), dtype=object, count=len(rows))
    return table


def _label(cell):
    """Protected: return a label, also of a row that holds one, by itself."""
    table, _ = attempt(np.asarray, cell, dtype=object)
    return table.item() if table is not None and table.size == 1 else cell


def _refuse_columns(shape):
    """Raise for several columns of labels; the number of rows, secret with groups, is not shown."""
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
        From `checked_classes`; None: those that occur, which are public by declaration.
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
        if present.dtype == np.longdouble:  # of which some bytes are those of other arrays before
            present = present.astype(np.float64)
        classes = np.unique(present)
        if len(classes) < 2:
            name = type(owner).__name__
            raise ValueError(f"{name} needs records of at least two classes; got 1 class or none.")
    return classes, placed(table, label_positions(labels, classes))


def label_positions(labels, classes):
    """Protected: positions of the labels in `classes`, -1 for any other."""
    if classes.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        # searchsorted returns len(classes) for what is above the largest class.
        positions = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        return np.where(classes[positions] == labels, positions, -1)
    table = {label: k for k, label in enumerate(classes.tolist())}
    # A label that cannot be hashed is no class, and no error.
    found = in_isolation(lambda: [attempt(table.get, label, -1)[0] for label in labels.tolist()])
    return np.array([-1 if position is None else position for position in found])
