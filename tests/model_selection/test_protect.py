"""Who is protected: how the searchers dispatch, before anything is fitted."""

import inspect

import pytest
from sklearn.linear_model import Ridge

from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV

SEARCHERS = [DPGridSearchCV, DPRandomizedSearchCV, DPBayesSearchCV]


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_chunks_protect_all_records_or_none(searcher):
    search = searcher(Ridge(), {"alpha": [0.1, 1.0]}, n_chunks=5)
    with pytest.raises(ValueError, match="n_chunks"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("searcher", SEARCHERS)
@pytest.mark.parametrize("n_chunks", [1, 0, -3, 2.5, "all"])
def test_bad_numbers_of_chunks(searcher, n_chunks):
    search = searcher(Ridge(), {"alpha": [0.1, 1.0]}, protect="all", n_chunks=n_chunks)
    with pytest.raises((ValueError, TypeError), match="n_chunks"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_a_misspelt_protection_is_refused(searcher):
    search = searcher(Ridge(), {"alpha": [0.1, 1.0]}, protect="everything")
    with pytest.raises(ValueError, match="protect"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


def test_bayes_tunes_no_private_estimators():
    search = DPBayesSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, protect="all")
    with pytest.raises(ValueError, match="n_chunks"):
        search.fit([[0.0], [1.0]], [0.0, 1.0])


def test_who_has_which_parameter():
    both = {"protect", "n_chunks"}
    private = {"selection", "estimator_guarantee"}
    names = {searcher: set(inspect.signature(searcher).parameters) for searcher in SEARCHERS}
    assert names[DPGridSearchCV] >= both | private
    assert names[DPRandomizedSearchCV] >= both | private
    assert names[DPBayesSearchCV] >= both
    assert not names[DPBayesSearchCV] & private
    assert not set(inspect.signature(DPGIBOSearchCV).parameters) & (both | private)
    assert DPGIBOSearchCV.protect == "validation"
