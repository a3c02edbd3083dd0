"""The unit cube of DPGIBOSearchCV, and its optimizers."""

import numpy as np
import pytest
from scipy import stats

from _support.internals import OPTIMIZERS, ContinuousSpace

SPACE = {
    "C": (1e-3, 1e3, "log-uniform"),
    "depth": (1, 9),
    "rate": stats.uniform(2, 2),
    "kind": ["only"],
}


class TestContinuousSpace:
    def test_settings(self):
        space = ContinuousSpace(SPACE)
        assert space.n_dims == 3
        assert space.names == ["C", "depth", "rate"]
        low, middle, high = space.decode([[0, 0, 0], [0.5, 0.5, 0.5], [1, 1, 1]])
        assert low["C"] == pytest.approx(1e-3)
        assert middle == {"C": pytest.approx(1.0), "depth": 5, "rate": 3.0, "kind": "only"}
        assert (high["depth"], type(high["depth"])) == (9, int)

    def test_start(self):
        space = ContinuousSpace([SPACE])
        np.testing.assert_array_equal(space.start(None), [0.5, 0.5, 0.5])
        np.testing.assert_array_equal(space.start([0.1, 0.2, 0.3]), [0.1, 0.2, 0.3])
        corner = space.start([0, 1, 1])
        np.testing.assert_array_equal(corner, [0.0, 1.0, 1.0])
        assert corner.dtype == np.float64  # a step from it is not rounded
        start = space.start({"C": 1.0, "depth": 5, "rate": 3.5})
        np.testing.assert_allclose(start, [0.5, 0.5, 0.75])

    @pytest.mark.parametrize(
        ("space", "match"),
        [
            ({"a": [1, 2]}, "DPBayesSearchCV"),
            ({"a": np.array([1.0, 2.0])}, "DPBayesSearchCV"),
            ([{"a": (0.0, 1.0)}, {"b": (0.0, 1.0)}], "DPBayesSearchCV"),
            ([], "one dict"),
            ([3], "one dict"),
            ({}, "no parameter"),
            ({"a": [1]}, "no parameter"),
            ({"a": stats.norm()}, "infinite support"),
            ({"a": (1.0, 0.0)}, "reversed"),
        ],
    )
    def test_refusals(self, space, match):
        with pytest.raises(ValueError, match=match):
            ContinuousSpace(space)

    @pytest.mark.parametrize(
        "init",
        [[0.5], [0.5, 0.5, 1.5], [np.nan, 0, 0], {"C": 1.0}, {"C": 1e9, "depth": 5, "rate": 3.5}],
    )
    def test_bad_starts(self, init):
        with pytest.raises(ValueError, match="init"):
            ContinuousSpace(SPACE).start(init)


class TestOptimizers:
    GRADIENTS = [np.array([3.0, -4.0]), np.array([4.0, 0.0])]

    def path(self, name):
        optimizer, theta = OPTIMIZERS[name](0.5), np.zeros(2)
        for gradient in self.GRADIENTS:
            theta = optimizer.step(theta, gradient)
        return theta

    def test_values(self):
        np.testing.assert_allclose(self.path("sgd"), [-3.5, 2.0])
        np.testing.assert_allclose(self.path("adagrad"), [-0.5 - 0.5 * 4 / 5, 0.5], rtol=1e-7)
        first = (0.9 * 0.3 + 0.4) / (1 - 0.81), 0.9 * -0.4 / (1 - 0.81)
        second = (0.999 * 0.009 + 0.016) / (1 - 0.999**2), 0.999 * 0.016 / (1 - 0.999**2)
        steps = np.array([1.0, -1.0]) + np.array(first) / np.sqrt(second)
        np.testing.assert_allclose(self.path("adam"), -0.5 * steps, rtol=1e-7)

    @pytest.mark.parametrize("name", OPTIMIZERS)
    def test_zero_gradients_stay(self, name):
        theta = OPTIMIZERS[name](0.5).step(np.ones(2), np.zeros(2))
        np.testing.assert_array_equal(theta, np.ones(2))

    @pytest.mark.parametrize("name", OPTIMIZERS)
    @pytest.mark.parametrize("rate", [0.0, -1.0, np.inf, np.nan])
    def test_bad_rates(self, name, rate):
        with pytest.raises(ValueError, match="learning_rate"):
            OPTIMIZERS[name](rate)
