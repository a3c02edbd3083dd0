"""Errors about the schema of protected records say nothing of their values."""

import traceback

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdpbo.gaussian_process import DPSparseGPRegressor

X = np.random.default_rng(0).uniform(-3, 3, (60, 1))
Y = np.sin(X[:, 0])
SECRET = "secret 8237"
NUMBER = 2.8237


def with_secret(values, secret, dtype=object):
    values = values.astype(dtype)
    values[7] = secret
    return values


BAD = {
    "string in X": (with_secret(X, SECRET), Y),
    "string in y": (X, with_secret(Y, SECRET)),
    "strings in y": (X, [SECRET] * 60),
    "object in X": (with_secret(X, {SECRET: 1}), Y),
    "huge integer in X": (with_secret(X, 10**400 + 8237), Y),
    "complex X": (with_secret(X, NUMBER, complex), Y),
    "complex y": (X, with_secret(Y, NUMBER, complex)),
    "one dimension": (np.full(60, NUMBER), Y),
    "ragged": ([[NUMBER], [NUMBER, NUMBER]], [1, 2]),
    "dates": (np.full((60, 1), "8237-01-01", "M8[s]"), Y),
    "sparse X": (csr_array(with_secret(X, NUMBER, float)), Y),
    "number for y": (X, NUMBER),
    "three dimensions in y": (X, np.full((60, 1, 1), NUMBER)),
    "lengths": (X, np.full(59, NUMBER)),
}


def refused(X, y):
    model = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-2, 2))
    with pytest.raises((TypeError, ValueError)) as caught:
        model.fit(X, y)
    return caught.value


@pytest.mark.parametrize(("X", "y"), BAD.values(), ids=BAD)
def test_errors_contain_no_value(X, y):
    error = refused(X, y)
    # Without the source lines of this file; an error's context is part of it, also when hidden.
    chain = [error, error.__cause__, error.__context__]
    text = "".join("".join(traceback.format_exception_only(link)) for link in chain if link)
    assert "8237" not in text


def test_errors_are_the_same_for_every_record():
    messages = set()
    for row, value in ((0, "a"), (30, "b"), (59, "0x")):
        values = X.astype(object)
        values[row] = value
        messages.add(repr(refused(values, Y)))
    assert len(messages) == 1


def test_the_columns_that_are_not_numeric_are_named_by_their_types():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": [1.0, 2.0], "ward": ["A", SECRET], "sex": pd.Categorical([0, 1])})
    frame["late"] = np.array([1, SECRET], dtype=object)
    frame["early"] = np.array([1, 2], dtype=object)
    with pytest.raises(TypeError, match=r"other types: ward, sex, late, early\. Leave") as caught:
        DPSparseGPRegressor(X_bounds=(0, 1), y_bounds=(0, 1)).fit(frame, [0.0, 1.0])
    assert SECRET not in str(caught.value)


def test_categories_are_refused_and_missing_numbers_are_nan():
    pandas = pytest.importorskip("pandas")
    categories = pandas.DataFrame({"age": pandas.Categorical([SECRET, "other"] * 30)})
    assert "8237" not in str(refused(categories, Y))
    ages = pandas.DataFrame({"age": pandas.Series(X[:, 0]).astype("Float64")})
    ages.loc[3, "age"] = pandas.NA
    assert "contains NaN" in str(refused(ages, Y))


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.longdouble, object])
def test_every_real_type_is_read(dtype):
    model = DPSparseGPRegressor(X_bounds=(0, 3), y_bounds=(-2, 2))
    values = np.abs(X).astype(dtype)
    assert np.isfinite(model.fit(values, values[:, 0]).predict([[1.0]])).all()
