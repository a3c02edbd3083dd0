"""Labels beside given classes: one record decides no other record's label, and is not quoted."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import checked_labels, label_positions
from skdpbo.gaussian_process import DPSparseGPClassifier
from skdpbo.linear_model import DPLogisticRegression

CLASSES = np.array([0, 1])
LABELS = [0, 1] * 20
PRIVATE = [
    DPLogisticRegression(classes=[0, 1], X_bounds=(-3, 3)),
    DPSparseGPClassifier(RBF(1.0), inducing_points=3, classes=[0, 1], X_bounds=(-3, 3)),
]


@pytest.mark.parametrize("cell", ["a text", None, 0.5, float("nan"), 10**400, 1j, [1], {}])
def test_one_label_in_a_list_changes_no_other(cell):
    usual = label_positions(checked_labels(LABELS, CLASSES), CLASSES)
    with_cell = label_positions(checked_labels([cell, *LABELS[1:]], CLASSES), CLASSES)
    assert usual.tolist() == LABELS
    assert with_cell.tolist() == [-1, *LABELS[1:]]


def test_labels_in_the_type_that_numpy_gives_a_list_are_found():
    # Planted bug: numpy makes texts of all labels for one of them.
    inferred = checked_labels(np.asarray(["a text", *LABELS[1:]]), CLASSES)
    assert label_positions(inferred, CLASSES).tolist() == [-1] * len(LABELS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", PRIVATE, ids=["logistic", "gp"])
def test_complex_labels_are_refused_and_not_quoted(model):
    secret = 10.0 * np.array(LABELS) + 7.625j
    with pytest.raises(ValueError, match="Complex data not supported: y must be real") as caught:
        model.fit(np.zeros((len(LABELS), 2)), secret)
    assert "7.625" not in str(caught.value)
