"""Errors about the schema of protected records say nothing of their values."""

import itertools
import traceback
import warnings
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from _support.internals import attempt, public_shape
from skdpbo.exceptions import (
    BudgetExceededError,
    DefaultBoundsWarning,
    HiddenColumnsWarning,
    SkdpboWarning,
)
from skdpbo.gaussian_process import (
    DPSparseGPClassifier,
    DPSparseGPRegressor,
    PrivateProjection,
    ProjectedGP,
)
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.preprocessing import DPMinMaxScaler, DPOneHotEncoder, DPSimpleImputer, DPStandardScaler
from skdpbo.privacy import PrivacyLedger

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


class Telling:
    """A cell that warns where it is converted."""

    def __array__(self, *args, **kwargs):
        warnings.warn(SECRET, stacklevel=2)
        raise ValueError(SECRET)


def test_a_cell_that_warns_is_not_heard():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match=r"^X must be a rectangular array\.$"):
            DPStandardScaler(X_bounds=(-3, 3)).fit([[0.0], [Telling()]])
    assert caught == []


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
    error = refused(ages, Y)
    assert "contains NaN" in str(error)
    assert "DPSimpleImputer" in error.__notes__[0]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.longdouble, object])
def test_every_real_type_is_read(dtype):
    model = DPSparseGPRegressor(X_bounds=(0, 3), y_bounds=(-2, 2))
    values = np.abs(X).astype(dtype)
    assert np.isfinite(model.fit(values, values[:, 0]).predict([[1.0]])).all()


class Loud(float):
    """A number that says whose it is when it is converted."""

    def __float__(self):
        warnings.warn(SECRET, stacklevel=2)
        return 1.0


@pytest.mark.quick_cases(1)
@pytest.mark.filterwarnings("ignore::skdpbo.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize("number", [2**64, -(10**30), Decimal("7.5"), Fraction(-22, 7)], ids=str)
def test_a_number_of_another_type_in_a_list_is_a_number(number):
    # numpy makes objects of the whole list: an error showed one record whose values are finite.
    model = DPRidge(X_bounds=(-3, 3), y_bounds=(-2, 2), random_state=0)
    cells = [number, float(number)]
    one, other = (with_secret(X, cell).tolist() for cell in cells)
    fits = [clone(model).fit(rows, Y).coef_ for rows in (one, other)]
    assert fits[0] == fits[1]
    one, other = (with_secret(Y, cell).tolist() for cell in cells)
    fits = [clone(model).fit(X, targets).coef_ for targets in (one, other)]
    assert fits[0] == fits[1]


@pytest.mark.parametrize("cell", [np.longdouble("1e400"), np.ma.masked, Loud(), np.ones(1)])
@pytest.mark.parametrize("model", [DPMinMaxScaler(X_bounds=(-3, 3)), DPSimpleImputer()])
def test_a_cell_that_warns_as_it_is_converted_is_not_heard(model, cell):
    values = with_secret(X, 0.0)
    values[7, 0] = cell
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, error = attempt(model.fit, values)
    assert {w.category for w in caught} <= {DefaultBoundsWarning}
    # Fitted, or refused for this cell: it is infinite, or no number for newer versions of numpy.
    usual = {np.longdouble: "Input X contains infinity", np.ndarray: "X must be numeric"}
    assert error is None or str(error).startswith(usual[type(cell)])


DEFAULT_BOUNDS = [
    DPStandardScaler(),
    DPSimpleImputer(),
    DPRidge(),
    DPLogisticRegression(),
    DPSparseGPRegressor(inducing_points=3),
    DPSparseGPClassifier(inducing_points=3),
    PrivateProjection(),
    ProjectedGP(),
]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("model", DEFAULT_BOUNDS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("dtype", ["float64", "Float64", object])
def test_missing_bounds_are_reported_before_the_charge_and_once(model, dtype):
    X, y = np.linspace(-1, 1, 40).reshape(20, 2), np.arange(20) % 2
    X, y = pd.DataFrame(X, dtype=dtype), pd.Series(y, dtype=dtype)
    y = y.astype(int) if hasattr(model, "classes") else y
    first, second = (type(model)(**model.get_params()) for _ in range(2))
    with PrivacyLedger(epsilon=4.0, delta=1e-3) as ledger:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(DefaultBoundsWarning):
                first.fit(X, y)
        assert not ledger.entries
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            second.fit(X, y)
    texts = [str(w.message) for w in caught if w.category is DefaultBoundsWarning]
    assert texts
    assert len(set(texts)) == len(texts)


def test_rows_of_different_lengths_are_an_error_after_the_charge():
    with PrivacyLedger(epsilon=1.0, delta=1e-3) as ledger:
        with pytest.raises(ValueError, match="X must be a rectangular array"):
            DPStandardScaler(X_bounds=(-1, 1)).fit([[1.0, 2.0], [1.0]])
        assert len(ledger.entries) == 1


def test_the_shape_of_a_list_is_that_of_most_rows():
    assert public_shape([0.5, "a", None, 1]) == (4,)
    assert public_shape([[]] * 3) == (3, 0)
    assert public_shape([[0.5, []], [0.5, 1.0], (None, 2), [1]]) == (4, 2)
    assert public_shape([[[0.5]], [[1]], [2]]) == (3, 1, 1)
    assert public_shape([[[1], 0.5], [[2], 0.5]]) == (2, 2)  # a column of lists
    assert public_shape([[{}], [{}]]) == (2, 1)
    assert public_shape([{}, {}]) == (2,)  # for vectorizers of dicts
    assert public_shape([object(), object()]) is None
    endless = [0.5]
    endless[0] = endless
    assert public_shape([endless, [1.0], [2.0]]) == (3, 1)


REGRESSORS = [
    DPRidge(X_bounds=(-1, 1), y_bounds=(0, 1)),
    DPSparseGPRegressor(X_bounds=(-1, 1), y_bounds=(0, 1)),
    ProjectedGP(X_bounds=(-1, 1)),
]
CLASSIFIERS = [
    DPLogisticRegression(X_bounds=(-1, 1), classes=[0, 1]),
    DPSparseGPClassifier(X_bounds=(-1, 1), classes=[0, 1]),
]
DATES = pd.Series(pd.date_range("2020-01-01", periods=60))
OTHER = {
    "date": DATES,
    "local date": DATES.dt.tz_localize("Asia/Tokyo"),
    "duration": DATES - DATES[0],
    "period": DATES.dt.to_period("D"),
    "interval": pd.Series(pd.interval_range(0, 60)),
    "category of intervals": pd.Series(pd.cut(range(60), 3)),
    "category of dates": DATES.astype("category"),
}
TEXTS = {
    "text": pd.Series(["a", "b"] * 30, dtype="string"),
    "category": pd.Series(["a", "b"] * 30, dtype="category"),
}


def costs_nothing(model, X, y, error, match):
    with PrivacyLedger(10.0, 1e-3) as ledger, pytest.raises(error, match=match):
        clone(model).fit(X, y)
    assert not ledger.entries


@pytest.mark.quick_cases(16)
@pytest.mark.parametrize("kind", OTHER | TEXTS)
@pytest.mark.parametrize(
    "model",
    [
        *REGRESSORS,
        *CLASSIFIERS,
        DPStandardScaler(X_bounds=(-1, 1)),
        DPSimpleImputer(X_bounds=(-1, 1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_columns_that_are_no_numbers_by_their_type_cost_nothing(model, kind):
    column = (OTHER | TEXTS)[kind]
    frame = pd.DataFrame({"known": X[:, 0], "other": column})
    costs_nothing(model, frame, np.arange(60) % 2, TypeError, "other types: other.*as numbers")
    if isinstance(column.dtype, np.dtype):
        costs_nothing(model, column.to_numpy()[:, None], X[:, 0], TypeError, "X must be numeric")


@pytest.mark.quick_cases(23)
@pytest.mark.parametrize("kind", OTHER | TEXTS)
@pytest.mark.parametrize("form", [pd.Series, pd.Series.to_frame])
@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_targets_that_can_be_none_by_their_type_cost_nothing(model, form, kind):
    errors = (TypeError, "y must be numeric") if model in REGRESSORS else (ValueError, "must both")
    costs_nothing(model, X, form((OTHER | TEXTS)[kind]), *errors)


@pytest.mark.slow
def test_labels_of_other_types_are_read():
    pa = pytest.importorskip("pyarrow")
    for classes in ([0, 1], ["a", "b"]):
        labels = pa.array(classes * 30).dictionary_encode()
        known = pd.Series(labels, dtype=pd.ArrowDtype(labels.type))
        # One label of another type makes categories of several types.
        forms = [known, pd.Series([*classes * 29, 2, "c"], dtype="category")]
        if classes == [0, 1]:
            forms.append(known.astype(pd.ArrowDtype(pa.decimal128(19, 0))))
        for y, model in itertools.product(forms, CLASSIFIERS):
            clone(model).set_params(classes=classes).fit(X, y)
        names = DPOneHotEncoder(epsilon=5.0).fit(known.to_frame("known")).categories_
        assert names[0].tolist() == classes


@pytest.mark.parametrize("kind", OTHER)
def test_categories_that_have_no_name_by_their_type_cost_nothing(kind):
    frame = pd.DataFrame({"known": X[:, 0], "other": OTHER[kind]})
    costs_nothing(DPOneHotEncoder(), frame, None, TypeError, "X must hold numbers .* Give dates as")


SPARSE = {
    "matrix": csr_array,
    "frame": lambda A: pd.DataFrame(A).astype(pd.SparseDtype(float, 0.0)),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("form", SPARSE)
def test_sparse_rows_that_are_not_supported_cost_nothing(form):
    dense = [*REGRESSORS[1:], CLASSIFIERS[1], DPStandardScaler(), DPSimpleImputer()]
    for model in dense:
        costs_nothing(model, SPARSE[form](X), np.arange(60) % 2, TypeError, "Sparse data was")
    for model in REGRESSORS + CLASSIFIERS:
        costs_nothing(model, X, SPARSE[form](X), TypeError, "Sparse data was passed for y")
    REGRESSORS[0].fit(SPARSE[form](X), Y)  # a model that takes them


@pytest.mark.parametrize(
    "model", [*REGRESSORS, *CLASSIFIERS, DPOneHotEncoder()], ids=lambda model: type(model).__name__
)
def test_columns_of_equal_names_cost_nothing(model):
    frame = pd.DataFrame(np.hstack([X, X, X, X, X]), columns=["a", "b", "a", "c", "b"])
    costs_nothing(model, frame, Y, ValueError, r"^X must .* different names.* of: 'a', 'b'\.$")


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_masked_arrays_cost_nothing(model):
    # What is masked would be read.
    costs_nothing(model, np.ma.masked_array(X), Y, TypeError, r"X is a masked array.*filled")
    costs_nothing(model, X, np.ma.masked_array(Y), TypeError, r"y is a masked array.*filled")


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_matrices_cost_nothing(model):
    costs_nothing(model, np.asmatrix(X), Y, TypeError, "X is a np.matrix")
    costs_nothing(model, X, np.asmatrix(Y).T, TypeError, "y is a np.matrix")


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_lists_of_three_dimensions_cost_nothing(model):
    costs_nothing(model, X[:, :, None].tolist(), Y, ValueError, "Found array with dim 3")


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_lists_of_dicts_cost_nothing(model):
    rows = [{"a": 0.5}] * len(Y)
    costs_nothing(model, rows, Y, ValueError, "Expected 2D array.*got 1D array instead")


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_what_has_no_rows_costs_nothing(model):
    costs_nothing(model, None, Y, TypeError, "X must have one entry for each record, got NoneType")


def test_frames_of_sparse_columns_that_fill_with_missing_values_cost_nothing():
    # scikit-learn makes no matrix of them.
    frame = pd.DataFrame(np.tile(X.round() % 2, (5, 1))).astype(pd.SparseDtype(float))
    costs_nothing(REGRESSORS[0], frame, np.tile(Y, 5), TypeError, "Sparse data was passed for X")
    names = DPOneHotEncoder().fit(frame).categories_
    assert names[0].tolist() == [0.0, 1.0]


def test_labels_of_objects_beside_classes_that_are_numbers_are_warned_of_before_the_charge():
    labels = pd.Series([0, 1] * 30, dtype=object)
    for model in CLASSIFIERS:
        costs_nothing(model, X, labels, SkdpboWarning, "y is of the type of objects")
        clone(model).set_params(classes=["no", "yes"]).fit(X, np.where(labels == 1, "yes", "no"))


class Foreign:
    """A vector of a library whose types have neither kinds nor categories of one column."""

    dtype = SimpleNamespace(categories=["of", "other", "columns"])

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def test_a_category_that_hides_its_class_is_no_error():
    class Proxy:
        @property
        def __class__(self):
            raise RuntimeError(SECRET)

    names = np.array([0, 1, Proxy()], dtype=object)
    y = pd.Series(pd.Categorical.from_codes([0, 1, 2] * 20, pd.Index(names)))
    for model in CLASSIFIERS:
        clone(model).fit(X, y)


@pytest.mark.slow
def test_types_of_other_libraries_say_nothing():
    for model in CLASSIFIERS:
        clone(model).fit(X, Foreign(np.arange(60) % 2))  # without a warning
    for model in REGRESSORS:
        clone(model).fit(X, Foreign(X[:, 0]))


class ForeignFrame(Foreign):
    """A frame of a library whose types name those of Python, as polars.

    As an array its columns have one common type, which a missing cell of any may change for all.
    """

    def __init__(self, kind):
        super().__init__(np.column_stack([X, X]))
        self.columns = ["known", "other"]
        self.dtypes = [SimpleNamespace(to_python=lambda k=k: k) for k in (float, kind)]


@pytest.mark.parametrize("kind", [date, timedelta, bytes, list, Decimal, str])
def test_types_that_name_those_of_python_cost_nothing_where_they_are_no_numbers(kind):
    frame, y = ForeignFrame(kind), np.arange(60) % 2
    for model in (REGRESSORS[0], CLASSIFIERS[0], DPSimpleImputer(X_bounds=(-1, 1))):
        costs_nothing(model, frame, y, TypeError, "X must be numeric.* other types: other")
    if kind is not str:
        costs_nothing(DPOneHotEncoder(), frame, None, TypeError, "X must hold numbers or texts")


def test_types_that_name_numbers_and_objects_of_python_are_read():
    for kind in (bool, int, object, type(None)):  # the last where all cells are missing
        clone(REGRESSORS[0]).fit(ForeignFrame(kind), Y)
    with pytest.warns(HiddenColumnsWarning, match="No category"):  # of numbers, no two alike
        DPOneHotEncoder().fit(ForeignFrame(str))


@pytest.mark.parametrize(
    "cell", [date(2020, 1, 1), timedelta(1), b"1", [1.0], {"a": 1}, Decimal(1), None, "1"]
)
@pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
def test_types_of_arrow_cost_nothing_where_they_are_no_numbers(kind, cell):
    arrow = pytest.importorskip("pyarrow")
    y, others = np.arange(60) % 2, arrow.array([cell] * 60)
    table = getattr(arrow, kind).from_arrays([X[:, 0], others], names=["known", "other"])
    for model in (REGRESSORS[0], CLASSIFIERS[0], DPSimpleImputer(X_bounds=(-1, 1))):
        costs_nothing(model, table, y, TypeError, r"X must be numeric.* other types: other\.")
    for targets in (others, arrow.chunked_array([others])):
        costs_nothing(REGRESSORS[0], X, targets, TypeError, "y must be numeric")
    if cell != "1":
        costs_nothing(DPOneHotEncoder(), table, None, TypeError, "X must hold numbers or texts")


def test_numbers_and_texts_of_arrow_are_read():
    arrow = pytest.importorskip("pyarrow")
    columns = {"a": X[:, 0], "b": Y > 0, "c": arrow.array(["no", "yes"] * 30).dictionary_encode()}
    table = arrow.table(columns)
    clone(REGRESSORS[0]).fit(table.select(["a", "b"]), table["a"])
    with pytest.warns(HiddenColumnsWarning, match=r"No category of a is"):
        encoder = DPOneHotEncoder(epsilon=100).fit(table)
    assert [found.tolist() for found in encoder.categories_[1:]] == [[0.0, 1.0], ["no", "yes"]]


class Exported:
    """Rows that an exchange format gives, as DLPack, and numpy does not read."""

    shape = (60, 1)

    def __len__(self):
        return 60


@pytest.mark.parametrize(
    "rows", [Exported(), {"a": X[:, 0]}, set(Y.tolist())], ids=["exported", "dict", "set"]
)
@pytest.mark.parametrize(
    "model", [*REGRESSORS[:2], *CLASSIFIERS, DPStandardScaler(X_bounds=(-1, 1)), DPOneHotEncoder()]
)
def test_what_is_not_read_by_row_costs_nothing(model, rows):
    costs_nothing(model, rows, Y > 0, TypeError, "X must have one entry for each record, got")
    if not hasattr(model, "transform"):
        costs_nothing(model, X, rows, TypeError, "y must have one entry for each record, got")


class ForeignSparse(Foreign):
    """A sparse array of a library of its own, which refuses to become dense unasked."""

    def todense(self):
        raise AssertionError("read")

    __array__ = todense


def test_labels_that_are_read_as_an_array_alone_are_labels():
    class Labels(Foreign):
        dtype = property()  # none is declared

    for model in CLASSIFIERS:
        clone(model).fit(X, Labels(np.arange(60) % 2))


class Tensor(Foreign):
    """Rows of a type that numpy does not have, or of a tensor whose gradients are kept."""

    def __getitem__(self, rows):
        return Tensor(self.values[rows])

    def __array__(self, dtype=None, copy=None):
        assert len(self) == 0, "read"
        raise TypeError(f"Got unsupported ScalarType {SECRET}")


class Untyped(Foreign):
    """A frame of which no type is known before it is read, as of narwhals."""

    dtype, columns = None, ["a"]


def test_sparse_arrays_and_tables_of_other_libraries_cost_nothing():
    for model in (REGRESSORS[0], CLASSIFIERS[0], DPOneHotEncoder()):
        costs_nothing(model, ForeignSparse(X), Y > 0, TypeError, "Sparse data was passed for X")
        costs_nothing(model, Untyped(X), Y > 0, TypeError, "X is a table of unknown types")
        costs_nothing(model, Tensor(X), Y > 0, TypeError, "X cannot be read as a numpy array")
    costs_nothing(REGRESSORS[0], X, Tensor(Y), TypeError, "y cannot be read as a numpy array")


class Stored(Foreign):
    """Numbers in a file, as of h5py or zarr: the shape and the type are known before."""

    def __init__(self, values):
        super().__init__(values)
        self.dtype, self.ndim = values.dtype, values.ndim

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("read")


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "model", [*REGRESSORS[:2], *CLASSIFIERS, DPStandardScaler(X_bounds=(-1, 1))]
)
def test_a_file_is_not_read_before_the_charge(model):
    model = clone(model)
    with PrivacyLedger(1e-9, 1e-9), pytest.raises(BudgetExceededError):
        model.fit(Stored(X), Y > 0)
    with PrivacyLedger(1e-9, 1e-9), pytest.raises(BudgetExceededError):
        model.fit(X, Stored(Y))
