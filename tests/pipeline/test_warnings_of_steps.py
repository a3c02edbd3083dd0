"""Warnings of private steps of a pipeline are of the line that calls the pipeline."""

import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline, make_union

from skdpbo.exceptions import DefaultBoundsWarning
from skdpbo.linear_model import DPRidge
from skdpbo.preprocessing import DPMinMaxScaler, DPStandardScaler

X = np.random.default_rng(0).normal(size=(60, 2))
BOX = {"X_bounds": (-3, 3)}
RIDGE = DPRidge(**BOX, y_bounds=(-3, 3))
WARNING = {
    "the last": make_pipeline(DPStandardScaler(**BOX), DPRidge()),
    "the first": make_pipeline(DPMinMaxScaler(), RIDGE),  # 60 records show no range
    "one of two": make_union(DPStandardScaler(**BOX), DPMinMaxScaler()),
    "columns": make_pipeline(
        make_column_transformer((DPStandardScaler(**BOX), [0]), (DPStandardScaler(), [1])), RIDGE
    ),
}


@pytest.mark.parametrize("name", WARNING)
def test_they_name_the_caller(name):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        WARNING[name].fit(X, X[:, 0])
    assert DefaultBoundsWarning in {warning.category for warning in shown}
    assert {warning.filename for warning in shown} == {__file__}
