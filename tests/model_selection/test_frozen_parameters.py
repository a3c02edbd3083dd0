"""Parameters of the objects that group some are those of the searcher, by nested names."""

import pickle

import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.tree import DecisionTreeRegressor

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV
from skdpbo.model_selection import (
    Chunks,
    Descent,
    GaussianTrajectory,
    GradientSurrogate,
    Kusner2015,
    Kusner2015Lipschitz,
    PrivateSelection,
)

TREE = DecisionTreeRegressor()
LIPSCHITZ = Kusner2015Lipschitz(lipschitz=1.0, lambda_name="ccp_alpha")
GROUPS = [
    (DPGridSearchCV(TREE, {}, protect=Chunks(5)), "protect", "n_chunks", 7),
    (DPGridSearchCV(TREE, {}, protect=PrivateSelection()), "protect", "eta", 2.0),
    (DPBayesSearchCV(TREE, {}, mechanism=GaussianTrajectory()), "mechanism", "n_private", 3),
    (DPBayesSearchCV(TREE, {}, mechanism=Kusner2015()), "mechanism", "kernel", RBF(0.7)),
    (DPBayesSearchCV(TREE, {}, mechanism=LIPSCHITZ), "mechanism", "lipschitz", 0.5),
    (DPGIBOSearchCV(TREE, {}), "descent", "clip", 0.5),
    (DPGIBOSearchCV(TREE, {}, descent=Descent(clip=2.0)), "descent", "tol", 0.5),
    (DPGIBOSearchCV(TREE, {}, surrogate=GradientSurrogate()), "surrogate", "kernel", RBF(0.7)),
]


@pytest.mark.parametrize(("search", "group", "name", "value"), GROUPS)
def test_a_nested_name_changes_a_copy(search, group, name, value):
    before = getattr(search, group)
    other = clone(search).set_params(**{f"{group}__{name}": value, "epsilon": 3.0})
    assert getattr(getattr(other, group), name) == value
    assert other.get_params()[f"{group}__{name}"] == value
    assert other.epsilon == 3.0
    assert getattr(search, group) is before
    for copy in (clone(other), pickle.loads(pickle.dumps(other))):
        assert getattr(copy, group) == getattr(other, group)
        assert repr(copy) == repr(other)


def test_nested_names_are_those_of_an_object_given_with_them():
    search = DPGridSearchCV(TREE, {}).set_params(protect=Chunks(5), protect__excess_bound=None)
    assert search.protect == Chunks(5, None)


@pytest.mark.parametrize(("search", "group", "name", "value"), GROUPS)
def test_an_unknown_name_is_refused(search, group, name, value):
    with pytest.raises(ValueError, match=r"Invalid parameter 'fast' for .*Valid parameters are"):
        clone(search).set_params(**{f"{group}__fast": value})
