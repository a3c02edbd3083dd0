"""Filters that make warnings errors: they stop a pipeline before its first charge, or not at all.

A warning of a later step that became an error would cost what the first steps have spent.
"""

import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline, make_union

from skdpbo.exceptions import DefaultBoundsWarning
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.preprocessing import DPMinMaxScaler, DPStandardScaler
from skdpbo.privacy import PrivacyLedger

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0]
COLUMN = (X[:, :1] > 0).astype(int)
BOX = {"X_bounds": (-3, 3)}
BOXES = {**BOX, "y_bounds": (-3, 3)}


def scaler():
    return DPStandardScaler(**BOX)


def fitted(model, X, y):
    """Fit where warnings are errors; return those that are shown, and the number of charges."""
    with PrivacyLedger(epsilon=50.0, delta=1e-2) as ledger:
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("error")
            model.fit(X, y)
        return shown, len(ledger.entries)


WARNING_LATE = {
    "default bounds": (make_pipeline(scaler(), DPRidge()), Y, DefaultBoundsWarning),
    "column of labels": (make_pipeline(scaler(), DPLogisticRegression(**BOX)), COLUMN, UserWarning),
    # 60 records show no range.
    "after its own charge": (make_pipeline(DPMinMaxScaler(), DPRidge(**BOXES)), Y, UserWarning),
    "beside it": (make_union(scaler(), DPMinMaxScaler()), Y, UserWarning),
    "columns": (
        make_pipeline(
            make_column_transformer((scaler(), [0]), (DPStandardScaler(), [1])), DPRidge(**BOXES)
        ),
        Y,
        DefaultBoundsWarning,
    ),
}


@pytest.mark.parametrize("name", WARNING_LATE)
def test_after_the_first_charge_they_are_shown(name):
    pipeline, y, category = WARNING_LATE[name]
    shown, n_charges = fitted(pipeline, X, y)
    assert n_charges == 2 + (name == "columns")
    assert shown
    for warning in shown:
        assert issubclass(warning.category, category)
        assert warning.filename == __file__  # of the caller, not of what runs the steps


def test_before_it_they_stop_each_fit():
    """That an earlier call has charged its steps says nothing of the next one."""
    pipeline = make_pipeline(DPStandardScaler(), DPRidge(**BOXES))
    for _ in range(2):
        with PrivacyLedger(epsilon=50.0, delta=1e-2) as ledger:
            pipeline.set_params(dpstandardscaler__X_bounds=(-3, 3)).fit(X, Y)
            pipeline.set_params(dpstandardscaler__X_bounds=None)
            with warnings.catch_warnings(action="error"), pytest.raises(DefaultBoundsWarning):
                pipeline.fit(X, Y)
            assert len(ledger.entries) == 2


def test_so_they_do_in_a_fit_without_a_pipeline():
    with pytest.raises(DefaultBoundsWarning), warnings.catch_warnings(action="error"):
        DPRidge().fit(X, Y)


def test_filters_are_as_before():
    with warnings.catch_warnings(action="error"):
        before = warnings.filters[:]
        make_pipeline(scaler(), DPRidge(**BOXES)).fit(X, Y)
        with warnings.catch_warnings(record=True):
            make_pipeline(scaler(), DPRidge()).fit(X, Y)
        assert warnings.filters == before
        with pytest.raises(DefaultBoundsWarning):
            cross_val_predict(DPRidge(), X, Y)
