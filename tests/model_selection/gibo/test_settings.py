"""Groups of parameters of DPGIBOSearchCV: nested names, copies, repr and refusals."""

import inspect
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern
from sklearn.linear_model import Ridge

from _support.internals import PrivateDescent
from skdpbo import DPGIBOSearchCV
from skdpbo.mechanisms import noise_source
from skdpbo.model_selection import Descent, GradientSurrogate
from skdpbo.surrogate import GradientPosterior


def search(**params):
    return DPGIBOSearchCV(Ridge(), {"alpha": (0.1, 1.0)}, **params)


def test_nested_names_make_a_changed_copy():
    given = Descent(clip=0.1)
    one = search(descent=given)
    one.set_params(descent__averaging=0.0, surrogate__kernel="matern52", n_iter=3)
    assert one.descent == Descent(clip=0.1, averaging=0.0)
    assert given == Descent(clip=0.1)
    assert one.surrogate == GradientSurrogate(kernel="matern52")
    assert one.n_iter == 3
    assert one.get_params()["descent__clip"] == 0.1
    assert "descent__clip" not in one.get_params(deep=False)


def test_a_group_and_one_of_its_parameters_together():
    one = search().set_params(descent=Descent.paper(), descent__clip=0.2)
    assert one.descent == Descent.paper(clip=0.2)


def test_copies_and_repr():
    one = search(descent=Descent(clip=0.1), surrogate=GradientSurrogate(length_scale=[0.5]))
    for again in (
        clone(one),
        pickle.loads(pickle.dumps(one)),
        DPGIBOSearchCV(**one.get_params(False)),
    ):
        assert again.descent == one.descent
        assert again.surrogate == one.surrogate
    assert "clip=0.1" in repr(one)
    assert "surrogate" not in repr(search())


def test_frozen():
    with pytest.raises(FrozenInstanceError):
        Descent().clip = 0.5


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="'norm'"):
        search().set_params(descent__norm=1.0)
    with pytest.raises(TypeError):
        search(clip=0.1)


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"tol": 0.0}, ValueError, "tol"),
        ({"clip": "wide"}, TypeError, "clip"),
        ({"learning_rate": -1.0}, ValueError, "learning_rate"),
        ({"budget_schedule": "late"}, ValueError, "budget_schedule"),
        ({"contraction": 1.5}, ValueError, "contraction"),
        ({"averaging": 2.0}, ValueError, "averaging"),
        ({"adaptive_clip": 1}, TypeError, "adaptive_clip"),
        ({"patience": 0}, ValueError, "patience"),
        ({"batch_size": 10**30}, ValueError, "batch_size"),
        ({"clip": 1e308}, ValueError, "clip"),
    ],
)
def test_bad_steps(params, error, match):
    with pytest.raises(error, match=match):
        Descent(**params).check()


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"kernel": "linear"}, ValueError, "kernel"),
        ({"length_scale": 0.0}, ValueError, "length_scale"),
        ({"length_scale": "1"}, TypeError, "length_scale"),
        ({"length_scale": True}, TypeError, "length_scale"),
        ({"length_scale": ["1"]}, ValueError, "length_scale"),
        ({"length_scale": 5e-324}, ValueError, "length_scale"),
        ({"noise_variance": 1e308}, ValueError, "noise_variance"),
        ({"design_jitter": 1e308}, ValueError, "design_jitter"),
        ({"noise_variance": -1.0}, ValueError, "noise_variance"),
        ({"cache_size": 0}, ValueError, "cache_size"),
        ({"fit_length_scale": None}, TypeError, "fit_length_scale"),
        ({"level_variance": -1.0}, ValueError, "level_variance"),
        ({"design_jitter": 0.0}, ValueError, "design_jitter"),
        ({"kernel": Matern(nu=1.5)}, TypeError, "nu=1.5"),
        ({"kernel": RBF(np.nan)}, ValueError, "kernel must have finite gradients"),
        ({"kernel": RBF([1.0, 1.0])}, ValueError, "kernel must have finite gradients"),
        ({"kernel": RBF(), "fit_length_scale": True}, ValueError, "kernel must be a name"),
    ],
)
def test_bad_surrogates(params, error, match):
    with pytest.raises(error, match=match):
        GradientSurrogate(**params).check(["alpha"])


def test_the_paper_in_its_own_units():
    """Width 5: the same descent, noise and clipping included, in the unit cube and in raw units."""
    width, bound, start = 5.0, 3.0, np.array([4.0, 1.5])
    optima = np.random.default_rng(0).uniform(1.0, 3.0, (200, 2))

    def losses(points):
        far = np.square(optima - points[:, None]).sum(axis=2)
        return bound * (1 - np.exp(-far / 8))

    common = {"n_iter": 8, "mu": 1e6, "optimizer": "adagrad", "budget_schedule": "uniform"}
    raw = PrivateDescent(
        **common, clip=0.3, learning_rate=1.0, bounds=(0.0, width), loss_bound=bound
    ).run(losses, start, GradientPosterior(RBF(1.0)), noise_source(0))
    assert np.linalg.norm(raw.trajectory[-1] - start) > 1.0
    surrogate = GradientSurrogate.paper(length_scale=1.0 / width, noise_variance=0.0)
    for clip in (0.3 * width / bound, 0.3):  # the second is wrong
        steps = Descent.paper(clip=clip, learning_rate=1.0 / width)
        cube = PrivateDescent(
            **common,
            clip=steps.clip,
            learning_rate=steps.learning_rate,
            bounds=(0.0, 1.0),
            loss_bound=bound,
            loss_scale=1.0 / bound,
        ).run(lambda u: losses(width * u), start / width, surrogate._posterior(), noise_source(0))
        sizes = np.array([cube.gradients[0] / raw.gradients[0], [cube.noise_scales[0]] * 2])
        sizes[1] /= raw.noise_scales[0]
        assert np.allclose(sizes, width / bound, rtol=1e-3) == (clip > 0.3)
        if clip > 0.3:  # up to the tolerance of the designs
            np.testing.assert_allclose(width * cube.trajectory, raw.trajectory, atol=0.02)


def test_kernels_of_a_surrogate():
    kernel = DotProduct(1.0) ** 2
    for level in (0.0, 4.0):
        surrogate = GradientSurrogate(
            kernel=kernel, length_scale=1.0, noise_variance=0.0, level_variance=level
        )
        surrogate.check(["a", "b"])
        posterior = surrogate._posterior()
        points = posterior.design(np.full(2, 0.5), 6)
        posterior.add(points)
        slopes = posterior.weights(np.full(2, 0.3)) @ (points[:, 0] ** 2 - points.prod(axis=1))
        np.testing.assert_allclose(slopes, [0.3, -0.3], atol=1e-3)  # six points tell a quadratic


def test_the_first_parameters_are_those_that_people_set():
    names = list(inspect.signature(DPGIBOSearchCV).parameters)
    assert len(names) <= 24
    assert names[:5] == ["estimator", "search_spaces", "n_iter", "epsilon", "delta"]
