"""Expected score of a search by number of protected rows and epsilon, from public rows alone."""

from types import SimpleNamespace

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from skdpbo.model_selection._private_choice import PrivateChoice
from skdpbo.model_selection.evaluation._fold_losses import FoldLosses
from skdpbo.model_selection.scoring._multimetric import assign_metrics
from skdpbo.privacy._checks import check_count


def rehearsed_scores(searcher, X, y, n_records, epsilons, n_draws):
    """Return the expected score of the released candidate; every row is public.

    Protected rows are drawn from the public ones, with replacement. The loss of a row is that of
    the model of the fold that leaves it out, and the distribution of the choice is exact.

    Parameters
    ----------
    searcher : DPGridSearchCV or DPRandomizedSearchCV
    X, y : array-like of n rows
        Public.
    n_records : sequence of int
        Numbers of protected rows.
    epsilons : sequence of float
    n_draws : int
        Draws of protected rows for each number of them.

    Returns
    -------
    expected : ndarray of shape (n_numbers, n_epsilons, n_draws)
    scores : ndarray of shape (n_candidates,)
        Cross-validated scores of the candidates on all public rows.
    """
    scorer, losses = _public_losses(searcher, X, y)
    scores = np.array([scorer.score_from_units(float(row.sum()), len(row)) for row in losses])
    source = np.random.default_rng(0)  # of public draws: the same for every epsilon
    n, share = losses.shape[1], searcher._score_share()
    expected = np.empty((len(n_records), len(epsilons), n_draws))
    for i, size in enumerate(n_records):
        counts = source.multinomial(check_count(size, "n_records"), np.full(n, 1 / n), size=n_draws)
        for j, epsilon in enumerate(epsilons):
            choice = PrivateChoice(searcher.mechanism, epsilon, share, searcher.neighbours)
            rate = choice.rate * choice.epsilon_choice
            law = choice.SELECTIONS[choice.mechanism](rate, scorer.choice_sensitivity(size))
            # Mean score under the distribution of the choice, given the totals of a draw.
            expected[i, j] = [law.probabilities(losses @ drawn) @ scores for drawn in counts]
    return expected, scores


def _public_losses(searcher, X, y):
    """Return the scorer and integer losses of shape (n_candidates, n_rows)."""
    if searcher.halving is not None:
        raise ValueError(
            "halving is not supported here: set halving=None, for a choice among all candidates."
        )
    scorer, _, _ = assign_metrics(searcher, y, searcher._get_scorers)
    if not scorer.is_mean:
        raise ValueError(
            f"{scorer.name!r} is no mean of losses of records, and the law of a choice by it is "
            f"not computed. Rehearse with {scorer.nearest_mean}."
        )
    # The attributes that `FoldLosses` reads of an evaluator.
    public = SimpleNamespace(
        X=X,
        y=y,
        estimator=searcher.estimator,
        scorer=scorer,
        fit_params={},
        n_jobs=searcher.n_jobs,
        pre_dispatch=searcher.pre_dispatch,
    )
    _, candidates = searcher._candidates()
    # Split here, as `FoldLosses` suppresses the warnings of a split.
    splits = check_cv(searcher.cv, y, classifier=is_classifier(searcher.estimator)).split(X, y)
    losses = FoldLosses(public, list(splits)).losses(candidates)
    # A candidate that fails on public rows cannot win.
    kept = [of_candidate for of_candidate in losses if of_candidate is not None]
    if not kept:
        raise ValueError("No candidate can be trained and scored on the public rows.")
    return scorer, np.array(kept)
