"""Sensitivities by brute force."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

from skdpbo import make_per_record_scorer
from skdpbo.audit import scorer_sensitivity_audit, sensitivity_audit


def test_integers_are_exact():
    """A difference of 1 next to 2^80, where floats are 2^28 apart."""

    def count(data):
        return 2**80 + sum(data)

    found = sensitivity_audit(count, [0, 0], [1], sensitivity=1)
    assert (found.largest, found.violated, found.n_neighbours) == (1.0, False, 2)
    slightly = sensitivity_audit(count, [0, 0], [1], sensitivity=1 - Fraction(1, 2**70))
    assert slightly.violated


@pytest.mark.parametrize(("norm", "size"), [("l1", 7.0), ("l2", 5.0), ("max", 4.0)])
def test_norms(norm, size):
    rows = np.zeros((3, 2))
    found = sensitivity_audit(
        lambda data: data.sum(axis=0), rows, [[3.0, -4.0]], sensitivity=size, norm=norm
    )
    assert found.largest == size
    assert not found.violated
    np.testing.assert_array_equal(rows, 0)


def test_length_that_depends_on_the_data():
    with pytest.raises(ValueError, match="length"):
        sensitivity_audit(lambda data: [1] * data[0], [1, 1], [2], sensitivity=1)


def test_a_statistic_that_works_in_place():
    def excess(rows):
        rows -= 1
        return rows.clip(0).sum()

    data = np.array([2.0, 2.0])
    found = sensitivity_audit(excess, data, [9.0], sensitivity=6.5)
    assert (found.largest, found.violated, data.tolist()) == (7.0, True, [2.0, 2.0])


@pytest.mark.parametrize("objects", [False, True])
def test_a_statistic_that_works_in_place_on_what_records_hold(objects):
    def excess(rows):
        for row in rows:
            row[0] -= 1
        return sum(max(row[0], 0) for row in rows)

    data, record = [[2.0], [2.0]], [9.0]
    if objects:
        data = np.fromiter(data, dtype=object)
    found = sensitivity_audit(excess, data, [record], sensitivity=6.5)
    assert (found.largest, found.violated, found.record) == (7.0, True, [9.0])
    assert [*data, record] == [[2.0], [2.0], [9.0]]


def test_unknown_norm():
    with pytest.raises(ValueError, match="norm"):
        sensitivity_audit(sum, [1], [2], sensitivity=1, norm="l3")


class TestScorer:
    MODEL = DummyRegressor().fit([[0.0]], [0.0])
    ROWS, TARGETS = [[0.0]] * 4, [0.0, 0.1, 0.2, 0.3]
    RECORDS = [([0.0], 1e6), ([0.0], -1e6), ([0.0], 0.5), ([0.0], np.nan)]

    def audit(self, scorer):
        return scorer_sensitivity_audit(scorer, self.MODEL, self.ROWS, self.TARGETS, self.RECORDS)

    def test_a_per_record_scorer(self):
        found = self.audit(make_per_record_scorer(lambda y, p: abs(y - p), bound=1.0))
        assert not found.violated
        assert found.largest == found.claimed

    def test_a_loss_beyond_the_bound_is_caught(self):
        class Unclipped:
            units = 1000

            def record_losses(self, model, X, y):
                return [round(1000 * abs(t)) for t in np.nan_to_num(y)]

        assert self.audit(Unclipped()).violated

    def test_a_loss_that_looks_at_other_records_is_caught(self):
        class Standardised:
            units = 1000

            def record_losses(self, model, X, y):
                return [round(1000 * min(abs(t - max(y)), 1)) for t in y]

        rows, targets = self.ROWS, self.TARGETS
        found = scorer_sensitivity_audit(Standardised(), self.MODEL, rows, targets, [([0.0], 5.0)])
        assert found.violated


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize(("digits", "shown"), [(200, 1e200), (400, np.inf)])
def test_changes_beyond_the_floats_are_compared_exactly(norm, digits, shown):
    size = 10**digits
    for claimed, violated in ((size, False), (size - 1, True)):
        result = sensitivity_audit(sum, [0, 0], [size], sensitivity=claimed, norm=norm)
        assert result.largest == pytest.approx(shown, rel=1e-12)
        assert result.violated == violated


@pytest.mark.parametrize("value", [-1, np.nan, "1"])
def test_other_claims_are_refused_by_name(value):
    with pytest.raises((TypeError, ValueError), match="sensitivity"):
        sensitivity_audit(sum, [0.0], [1.0], sensitivity=value)


@pytest.mark.parametrize(
    ("data", "record"),
    [([True, False], -9.0), ([0, 1], 0.5), (["a", "b"], "abc")],
    ids=["bool", "int", "text"],
)
def test_a_record_that_an_array_would_cut_off_is_refused(data, record):
    with pytest.raises(ValueError, match=r"^a record of records"):
        sensitivity_audit(len, np.array(data), [record], sensitivity=1)


def test_rows_of_a_frame_are_records():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 1.0, 1.0]})
    found = sensitivity_audit(
        lambda rows: np.sum(rows, axis=0), frame, [[9.0, 1.0]], sensitivity=9.0
    )
    assert (found.largest, found.violated, found.n_neighbours) == (9.0, False, 3)


def test_long_doubles_are_exact():
    found = sensitivity_audit(lambda rows: np.longdouble(rows[0]), [1], [3], sensitivity=2)
    assert (found.largest, found.violated) == (2.0, False)


def test_a_scorer_predicts_from_the_rows():
    model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    scorer = make_per_record_scorer(lambda y, p: abs(y - p), bound=1.0)
    found = scorer_sensitivity_audit(scorer, model, [[0.5], [0.25]], [0.5, 0.25], [([0.75], 0.0)])
    assert found.largest == pytest.approx(0.75 * scorer.units, abs=1)


def test_a_scorer_reads_the_rows_of_a_frame():
    model = DummyRegressor().fit([[0.0, 0.0]], [0.0])
    scorer = make_per_record_scorer(lambda y, p: abs(y - p), bound=1.0)
    frame, y = pd.DataFrame({"a": [0.0] * 3, "b": [1.0] * 3}), pd.Series([0.25, 0.5, 0.5])
    found = scorer_sensitivity_audit(scorer, model, frame, y, [([0.0, 0.0], 9.0)])
    assert (found.largest, found.n_neighbours) == (0.75 * scorer.units, 3)
