"""Losses of public rows under models that were not trained on them, and warnings based on them.

No protected row is read. A released score is compared with the public one of the same candidate.
"""

import math
import warnings
from functools import cached_property

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv

from skdpbo._attempt import attempt
from skdpbo._isolation._isolated_calls import run_isolated
from skdpbo._parameters import warn_caller
from skdpbo.exceptions import LowBoundWarning, NoisyScoreWarning, ScoreGapWarning
from skdpbo.model_selection._sklearn import take_rows, with_params, without_callbacks
from skdpbo.model_selection.evaluation._train_and_score import isolated_outcomes, train
from skdpbo.model_selection.scoring._losses import refuse_negated

_NOISY = 0.5  # warn if the standard deviation of the noise exceeds this share of the mean loss
_FALSE_ALARMS = 1e-4  # warning rate aimed at if public and protected rows are drawn alike
_COMMON = 0.03  # warn if this share of the records has losses above the bound
_BIAS = 0.05  # warn if clipping the losses moves a score that is a ratio by more than this


class FoldLosses:
    """Integer losses of each public row, under the model of the fold that leaves it out.

    Parameters
    ----------
    training : PublicTraining
        Its public rows, estimator and scorer are read.
    cv : int, cross-validation generator or iterable
    groups : sequence or None
        Of the public rows, for the splitter.

    Attributes
    ----------
    units : int
        Largest loss.
    """

    def __init__(self, training, cv, groups=None):
        self._training = training
        self._cv = cv
        self._groups = groups
        self.units = int(training.scorer.units)

    # Cached: a splitter that shuffles would return other folds each time.
    @cached_property
    def _splits(self):
        training = self._training
        cv = check_cv(self._cv, training.y, classifier=is_classifier(training.estimator))
        with warnings.catch_warnings():
            # scikit-learn's own split of these rows has already warned of ignored groups.
            warnings.simplefilter("ignore")
            return list(cv.split(training.X, training.y, self._groups))

    @cached_property
    def folds(self):
        """Number of the fold of each loss, ndarray of shape (n_losses,)."""
        return np.repeat(np.arange(len(self._splits)), [len(test) for _, test in self._splits])

    def losses(self, candidates, losses_of=isolated_outcomes):
        """Return the losses of the rows under each candidate.

        Parameters
        ----------
        candidates : list of dict
        losses_of : callable, default=isolated_outcomes
            ``losses_of(model, scorer, X, y)`` returns the losses of some rows.

        Returns
        -------
        losses : list of (ndarray of shape (n_losses,), dtype int64, or None)
            In {0, ..., units}, in the order of `folds`; None where a fold fails.
        """
        training = self._training
        # The user's callbacks follow the fits of the search, not these.
        estimator = without_callbacks(clone(training.estimator))
        common = (training.X, training.y, training.fit_params), training.scorer, losses_of
        tasks = [
            (estimator, params, *common, split) for params in candidates for split in self._splits
        ]
        options = {"n_jobs": training.n_jobs, "pre_dispatch": training.pre_dispatch}
        parts = run_isolated(_attempted_losses, tasks, **options)
        k = len(self._splits)
        of_candidates = [parts[i : i + k] for i in range(0, len(parts), k)]
        return [
            None if any(part is None for part in parts) else np.concatenate(parts)
            for parts in of_candidates
        ]

    def warn(self, params, score_noise=0.0):
        """Refuse a negated loss, warn of a low bound and of a noisy score, from the public rows.

        Parameters
        ----------
        params : dict
            The best candidate on the public rows.
        score_noise : float, default=0.0
            Standard deviation of the noise of the released score, as a share of its range; 0 if a
            warning about the noise has already been given.
        """
        scorer = self._training.scorer
        if scorer.clipped is None:
            return
        (losses,) = self.losses([params], _unclipped_losses)
        if losses is None:
            return
        refuse_negated(losses, scorer.clipped)
        self._warn_of_low_bound(losses, score_noise > 0)
        if scorer.clipped is not scorer:  # a ratio has a range of its own
            return
        # Compared with the mean loss, not with the range: most losses are far below their bound.
        mean = scorer.integer_losses(losses).mean()
        kind = scorer.bound_name.rpartition(" ")[2]
        bound = "" if scorer.name == "accuracy" else f"a smaller {kind} if few lose more, "
        expected = scorer.score_with_std(mean, 1, score_noise * scorer.units)
        if expected.std > _NOISY * (scorer.offset - expected.value):
            warn_caller(
                "best_score_ will be mostly noise: the standard deviation of its noise is about "
                f"{expected.std:.4g}, and the public score of the best candidate "
                f"{expected.value:.4g}. Protect more records, take a larger epsilon, "
                f"{bound}or spend all of the budget on the choice (score_fraction=0).",
                NoisyScoreWarning,
            )

    def _warn_of_low_bound(self, losses, has_score):
        """Warn if clipping concerns a few per cent of the public records, or biases a ratio.

        `has_score`: whether a score is released that is not mostly noise.
        """
        given = self._training.scorer
        scorer = given.clipped
        share = float(np.mean(losses > scorer.bound * (1 + 1e-9)))  # tolerates rounding
        bias, enough = given.bias_of_bound(losses, self._training.y)
        if share <= _COMMON and not (has_score and abs(bias) > _BIAS):
            return
        # A bound that few enough records exceed, at least twice the present one.
        # A loss, not a point between two: the largest may be infinite.
        common = float(np.quantile(losses, 1 - _COMMON / 2, method="higher"))
        enough = max(common, 2 * scorer.bound, enough)
        enough = enough if np.isfinite(enough) else 2 * scorer.bound
        # A ratio or a root has other units than its losses.
        loss = "" if given.is_mean else f" (by {given.nearest_mean})"
        text = (
            f"{share:.0%} of the public records lose more than {scorer.bound:.4g}{loss} at the "
            "best public candidate, and no loss above that counts: worse predictions of these "
            "cost nothing, so that candidates may win that are badly wrong on some records."
        )
        if share <= _COMMON:
            side, reason = "high", "at the best public candidate, and no loss above that counts"
            if bias > 0:
                side, reason = "low", f"by a constant, whose loss divides that of {given.name!r}"
            text = (
                f"best_score_ will be too {side} by about {abs(bias):.2g}, which best_score_std_ "
                f"leaves out: public records lose more than {scorer.bound:.4g}{loss} {reason}."
            )
        warn_caller(
            f"{text} By the public rows, take {given.bound_name}={float(f'{enough:.2g}'):g}.",
            LowBoundWarning,
        )

    def warn_of_gap(self, released, scores, stated, n_candidates):
        """Warn if a released score is further below the public one than chance explains.

        Parameters
        ----------
        released : ReleasedScore
        scores : list of float
            Scores of the same candidate on the public folds.
        stated : PrivacyGuarantee
            Holds the numbers of records.
        n_candidates : int
        """
        scorer = self._training.scorer
        # From scores back to mean losses in [0, 1].
        loss, *folds = (scorer.offset - np.array([released.value, *scores])) / scorer.bound
        n_protected = released.n_records if stated.n_protected is None else stated.n_protected
        sizes = min(len(self.folds), stated.n_public), n_protected
        losses, noise = (float(np.mean(folds)), loss), released.std / scorer.bound
        if loss - losses[0] > largest_gap(losses, sizes, noise, folds, n_candidates):
            warn_caller(
                f"best_score_ is {released.value:.4g}, with noise of standard deviation "
                f"{released.std:.2g}, and the public folds gave this candidate "
                f"{np.mean(scores):.4g}: more than chance explains. The public rows are no sample "
                "of the protected ones, so that models and scores from them mislead. Often a table "
                "is sorted by something (time, age, site): put it into a random order before it is "
                "split. Or there are two populations; or protected rows are missing or unreadable, "
                "or y_val has labels that y has not, which costs the worst loss; or records of one "
                "person are in several public folds (GroupKFold). Another fit spends another "
                "budget.",
                ScoreGapWarning,
            )


def largest_gap(losses, n_losses, noise, folds, n_candidates):
    """Return an upper bound of how far chance lets a protected mean loss exceed the public one.

    The least of Chernoff's bounds over a grid of rates, from the moment-generating functions of
    three terms: the sampling of the records of both parts (Bernstein's inequality, with Bhatia &
    Davis' bound m (1 - m) of the variance of losses in [0, 1]); the spread of the folds, as the
    released model differs from theirs; and Laplace noise, whose moments are above normal ones. A
    union bound over all candidates, as the candidate may have been picked by either score.

    Parameters
    ----------
    losses : tuple of float
        Mean losses in [0, 1]: public, released.
    n_losses : tuple of int
        Their numbers of records.
    noise : float
        Standard deviation of the noise of the released mean loss.
    folds : sequence of float
        Mean losses of the public folds.
    n_candidates : int

    Returns
    -------
    gap : float
        Exceeded with a probability of about 1e-4 at most if all records are drawn alike and the
        models differ no more than the folds show. Two folds may underestimate how much models
        differ: where models differ by far more than sampling explains, a few per cent exceed it.
    """
    fewest = min(n_losses)
    pooled = float(np.clip(np.average(losses, weights=n_losses), 0, 1))
    variance = pooled * (1 - pooled) * sum(1 / n for n in n_losses)  # of the gap: Bhatia & Davis
    # One fold shows no spread.
    variance += float(np.var(folds, ddof=1)) if len(folds) > 1 else 0.0
    # Both moments exist at rates below 3 n (Bernstein) and below sqrt(2) / std (Laplace).
    rate = np.geomspace(1e-4, 0.99, 200) * min(3 * fewest, math.sqrt(2) / max(noise, 1e-9))
    moments = rate**2 * variance / (2 - 2 * rate / (3 * fewest)) - np.log1p(
        -((rate * noise) ** 2) / 2
    )
    # Chernoff: P(gap > t) <= exp(moments - rate t), which is alpha / n_candidates at this t.
    return float(((math.log(n_candidates / _FALSE_ALARMS) + moments) / rate).min())


def _attempted_losses(*task):
    return attempt(_losses_of_fold, *task)[0]


def _losses_of_fold(estimator, params, public, scorer, losses_of, split):
    (X, y, fit_params), (rows, left_out) = public, split
    model = with_params(estimator, params)
    model, _ = train(model, X, y, fit_params, rows=rows)
    targets = None if y is None else take_rows(y, left_out)
    return losses_of(model, scorer, take_rows(X, left_out), targets)


def _unclipped_losses(model, scorer, X, y):
    # Unclipped, to see how many losses the bound clips.
    losses = scorer.clipped._loss(model, y, scorer._predict(model, X, y))
    return np.asarray(losses, dtype=np.float64)
