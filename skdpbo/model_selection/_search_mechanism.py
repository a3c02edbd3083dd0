"""Base classes of search mechanisms, and the description of a search that they are given."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, takewhile
from typing import Any, ClassVar

import numpy as np

from skdpbo._parameters import warn_caller
from skdpbo.exceptions import NoisyScoreWarning, UnboundedSensitivityError
from skdpbo.mechanisms import RandomSource
from skdpbo.model_selection._private_choice import SELECTION_NAMES
from skdpbo.model_selection.scoring._score_release import MOSTLY_NOISE, ReleasedScore
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import set_fields


@dataclass(frozen=True)
class SearchProblem:
    """Candidates of a fit and the evaluator of their losses.

    Attributes
    ----------
    candidates : list of dict
        Public.
    evaluator : PublicTraining, ChunkTraining or DescentTrainings
        Its `losses` and `totals` are protected, and must be passed to a mechanism by the function
        that calls them; `release` of the first two returns a private choice and score.
    source : RandomSource
        One for the whole fit: two sources with one seed would repeat their noise.
    space : object
        Search space of the candidates.
    metric : str
        Name of the deciding metric in ``cv_results_``.
    public_counts : list
        Confusion matrices of the candidates on the public folds, if the scorer has any.
    folds : FoldLosses or None
        Losses of public rows under models not trained on them; None without public scores.
    scorer, n_losses
        Those of the evaluator: scorer of the protected records, number of losses in a total.
    """

    candidates: list
    evaluator: Any  # the classes share an interface, but no code
    source: RandomSource
    space: Any = None
    metric: str = "score"
    public_counts: list = field(default_factory=list)  # filled when the folds have been scored
    folds: Any = None
    scorer: Any = field(init=False)
    n_losses: int | None = field(init=False)

    def __post_init__(self):
        set_fields(self, scorer=self.evaluator.scorer, n_losses=self.evaluator.n_losses)

    @property
    def largest(self):
        """Largest total loss."""
        return self.n_losses * self.scorer.units

    def totals(self, indices, **options):
        """Return the total losses of candidates. Protected: pass only to a mechanism."""
        return self.evaluator.totals([self.candidates[k] for k in indices], **options)

    def score(self, total):
        """Return the score of a total loss."""
        return self.scorer.score_from_units(total, self.n_losses)


@dataclass(frozen=True)
class Chosen:
    """Release of a search.

    Attributes
    ----------
    candidates : list of dict
        Candidates that are published, in the order of ``cv_results_``.
    index : int
        Of the winner, in `candidates`.
    score : ReleasedScore, float or None
    columns : dict of str -> ndarray
        Further columns of ``cv_results_``.
    attributes : dict of str -> object
        Further fitted attributes.
    """

    candidates: list
    index: int
    score: ReleasedScore | float | None
    columns: dict = field(default_factory=dict)
    attributes: dict = field(default_factory=dict)


def best_public_score(scores):
    """Return the largest of the public scores that are numbers, or NaN."""
    finite = [score for score in scores if math.isfinite(score)]
    return max(finite, default=math.nan)


def fold_scores(table, metric):
    """Return the public scores of the candidates in ``cv_results_``, one row for each fold."""
    names = takewhile(table.__contains__, (f"split{k}_test_{metric}" for k in count()))
    return [table[name] for name in names]


class SearchMechanism:
    """Private search: states a guarantee, proposes candidates and releases the winner.

    With public scores ``propose(public)`` returns the next candidates for public cross-validation,
    a list of dict, [] at the end, and ``choose(public)`` the winner among those that
    ``public["params"]`` lists; `public` is ``cv_results_`` so far, None at first. Without public
    scores ``search_unguided()`` searches and returns the winner.

    Attributes
    ----------
    guarantee : PrivacyGuarantee
        With secret noise.
    guided : tuple of bool
        Supported values of `guide`: True, with public scores, and False, without.
    in_rounds : bool
        Whether proposals depend on the public scores so far.
    reads_early : bool
        Whether protected records are read before the last proposal.
    of_means : bool
        Whether it needs a score that is a mean of losses of single records.
    of_groups : bool
        Whether its guarantee holds for groups, each with one loss.
    n_proposals : int or None
        Total number of candidates that a started search proposes; None if unknown.
    epsilon_score : Fraction or int
        Pure budget of the score, if it is released with a single choice; else 0.
    """

    guarantee: PrivacyGuarantee
    guided: ClassVar[tuple] = (True, False)
    in_rounds: ClassVar[bool] = True
    reads_early: ClassVar[bool] = False
    of_means: ClassVar[bool] = True
    of_groups: ClassVar[bool] = True
    n_proposals: int | None = None
    epsilon_score: Fraction | int = 0

    def start(self, problem, guided):
        """Prepare the search; no protected value is read."""
        self._problem = problem

    def warn_if_score_is_noisy(self, *, sensitivity, largest):
        """Warn, from public numbers, that `best_score_` will be mostly noise."""
        noise = self.score_noise(sensitivity=sensitivity, largest=largest)
        if noise > MOSTLY_NOISE:
            warn_caller(
                "best_score_ will be mostly noise: the standard deviation of its noise is "
                f"{noise:.2g} of the whole range of the score. Protect more records, take a larger "
                "epsilon, or spend all of it on the choice (score_fraction=0).",
                NoisyScoreWarning,
            )

    def unwarned_noise(self, n_losses):
        """Return `score_noise` of a started search, or 0 if a warning has already been given.

        Parameters
        ----------
        n_losses : int or None
            None if secret; 0 is returned, as the noise is not known before the release.
        """
        # `warn_if_score_is_noisy` has warned of noise above MOSTLY_NOISE.
        noise = 0.0 if n_losses is None else self.score_noise(sensitivity=1, largest=n_losses)
        return noise if noise <= MOSTLY_NOISE else 0.0

    def refuse_scorer(self, scorer):
        """Refuse a score that this mechanism does not support."""
        if self.of_means and not scorer.is_mean:
            raise UnboundedSensitivityError(
                f"{scorer.name!r} is no mean of losses of single records: one can move it by more "
                "than a loss, and this search makes its noise for means, or follows the "
                f"gradients of losses. Use {scorer.nearest_mean}, or DPGridSearchCV, "
                "DPRandomizedSearchCV or DPBayesSearchCV with "
                'mechanism="permute_and_flip".'
            )

    def refuse_groups(self):
        """Refuse groups of records if the guarantee holds for single records only."""
        if not self.of_groups:
            raise ValueError(
                "groups are not supported with Kusner2015 and Kusner2015Lipschitz: what they "
                "assume of one replaced record need not hold for a group of them. Use mechanism "
                f'{SELECTION_NAMES} or "gaussian".'
            )

    def score_noise(self, *, sensitivity, largest):
        """Return the standard deviation of the released score's noise, as a share of its range.

        For discrete Laplace noise of scale s it is sqrt(2) s within 1 % for s above 3, and less
        below. 0 without a score, or if it depends on more than the sizes.
        """
        if not self.epsilon_score:
            return 0.0
        return math.sqrt(2) * sensitivity / (float(self.epsilon_score) * largest)


class ListChoice(SearchMechanism):
    """One private choice among all candidates, and one score.

    Parameters
    ----------
    choice : PrivateChoice
    """

    in_rounds = False
    of_means = False

    def __init__(self, choice):
        self._choice, self.epsilon_score = choice, choice.epsilon_score
        self.guarantee = choice.guarantee

    def propose(self, public):
        """Return all candidates at once, to be trained in parallel."""
        return self._problem.candidates if public is None else []

    def choose(self, public=None):
        """Release the winner and its score; without public scores `public` is None."""
        problem, options = self._problem, {}
        if public is not None:
            # Public numbers for the cost weights of a ratio.
            options["public_score"] = best_public_score(public[f"mean_test_{problem.metric}"])
            options["public_counts"] = problem.public_counts
        index, score = problem.evaluator.release(
            self._choice, problem.candidates, source=problem.source, **options
        )
        return Chosen(problem.candidates, index, score)

    search_unguided = choose


@dataclass(frozen=True)
class PublicScores:
    """Public cross-validation of the visited candidates, in the order of their visits.

    Attributes
    ----------
    mean : ndarray of shape (n_visited,)
        NaN where a fold failed.
    splits : ndarray of shape (n_splits, n_visited)
    listed : ndarray of shape (n_visited,), dtype bool
        Whether ``cv_results_`` has the candidate. scikit-learn leaves out batches whose fits all
        failed.
    """

    mean: np.ndarray
    splits: np.ndarray
    listed: np.ndarray


class VisitingSearch(SearchMechanism):
    """Search that visits candidates of a finite set by index, one batch after the other.

    A sub-class has the methods ``ask(scores)``, which returns the next indices, and
    ``release_choice(scores)``, which releases (index of the winner, score or None), given the
    `PublicScores` so far, None at first; its `_proposer` has the list `visited`.
    """

    _listed = ()  # for each cross-validated candidate, whether ``cv_results_`` has it

    def propose(self, public):
        """Return the next candidates for public cross-validation."""
        return [self._problem.candidates[k] for k in self.ask(self._scores(public))]

    def choose(self, public):
        """Release the winner among the candidates that ``cv_results_`` lists."""
        index, score = self.release_choice(self._scores(public))
        # The returned index is that of a row of scikit-learn's table.
        visited = zip(self._proposer.visited, self._listed, strict=True)
        return self._chosen([k for k, is_listed in visited if is_listed], index, score)

    def _chosen(self, indices, index, score):
        candidates = [self._problem.candidates[k] for k in indices]
        return Chosen(candidates, list(indices).index(index), score)

    def _scores(self, public):
        if public is None:
            return None
        # The candidates proposed since the last call have just been cross-validated.
        new = len(self._proposer.visited) - len(self._listed)
        # A batch is listed whole or not at all.
        self._listed += (len(public["params"]) > sum(self._listed),) * new
        metric, listed = self._problem.metric, np.array(self._listed)
        rows = [public[f"mean_test_{metric}"], *fold_scores(public, metric)]
        # NaN for candidates that are not listed.
        scores = np.full((len(rows), len(listed)), np.nan)
        scores[:, listed] = rows
        return PublicScores(mean=scores[0], splits=scores[1:], listed=listed)
