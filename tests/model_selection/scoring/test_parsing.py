"""Records of every container are read as each by itself, also where a container is read at once."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from _support.internals import as_labels, as_numbers, codes_among, zero_one

ODD = [None, np.nan, np.inf, -0.0, 2**60 + 1, 10**400, True, "1", b"1", np.float32(0.1), 1 + 0j]
ODD += [np.int64(1), np.str_("1"), Decimal("0.1"), pd.NA, [1], np.array([1]), 1.0, 1]
NUMBERS = np.array([0, 1, 1, 0, 1])
CONTAINERS = {
    "floats": [0.5, np.nan, -np.inf, 0.0],
    "objects": np.array([*ODD, None], dtype=object)[:-1],
    "list": ODD,
    "series": pd.Series(ODD, dtype=object),
    "nullable": pd.Series(NUMBERS).astype("Int64"),
    "categories": pd.Series(NUMBERS).astype("category"),
    "texts": pd.Series(NUMBERS).astype(str),
    "dates": pd.Series(NUMBERS).astype("datetime64[ns]"),
    "long": pd.Series(NUMBERS + 2**60),
    "column": pd.DataFrame({"y": NUMBERS}),
    **{kind: pd.Series(NUMBERS).astype(kind) for kind in ("int8", "uint64", "bool", "float32")},
    "missing": pd.Series([0, 1, 1, np.nan, 1]),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_is_read_as_each_of_its_records_alone(name):
    values = CONTAINERS[name]
    cells = values.to_numpy(dtype=object).tolist() if hasattr(values, "iloc") else list(values)
    # A record that is a list is looked at item by item, whatever its items are.
    alone = [cell if isinstance(cell, list | np.ndarray) else [cell] for cell in cells]
    assert repr(as_labels(values, 1)) == repr(as_labels(alone, 1))
    np.testing.assert_array_equal(as_numbers(values, 1), as_numbers(alone, 1))
    for predicted in (np.ones(len(cells), dtype=int), np.array(["1"] * len(cells)), alone):
        np.testing.assert_array_equal(
            zero_one(None, values, predicted), zero_one(None, alone, predicted)
        )
    for classes in ([0, 1], [False, True], ["0", "1"], [2**60, 2**60 + 1]):
        np.testing.assert_array_equal(codes_among(classes, values), codes_among(classes, alone))


def test_columns_of_several_types_keep_their_own():
    values = pd.DataFrame({"a": [2**60 + 1, 1], "b": [0.5, np.nan]})
    assert as_labels(values, 2) == [(2**60 + 1, 0.5), None]
    np.testing.assert_array_equal(as_numbers(values, 2), [[2.0**60, 0.5], [np.nan, np.nan]])
    predicted = np.array([[2**60, 0.5], [1, 0.5]])
    np.testing.assert_array_equal(zero_one(None, values, predicted), [1, np.nan])
