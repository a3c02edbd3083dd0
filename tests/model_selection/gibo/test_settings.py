"""Groups of parameters of DPGIBOSearchCV: nested names, copies, repr and refusals."""

import inspect
import pickle
from dataclasses import FrozenInstanceError

import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from skdpbo import DPGIBOSearchCV
from skdpbo.model_selection import Descent, GradientSurrogate


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
        ({"noise_variance": -1.0}, ValueError, "noise_variance"),
        ({"cache_size": 0}, ValueError, "cache_size"),
        ({"fit_length_scale": None}, TypeError, "fit_length_scale"),
    ],
)
def test_bad_surrogates(params, error, match):
    with pytest.raises(error, match=match):
        GradientSurrogate(**params).check(["alpha"])


def test_the_first_parameters_are_those_that_people_set():
    names = list(inspect.signature(DPGIBOSearchCV).parameters)
    assert len(names) <= 24
    assert names[:5] == ["estimator", "search_spaces", "n_iter", "epsilon", "delta"]
