"""Display of a search: public scores, released scores and the released choice."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpbo.plotting._axes import PRIVATE, PUBLIC, axes_for, promise
from skdpbo.privacy import PrivacyGuarantee


@dataclass(eq=False, kw_only=True, repr=False)
class SearchTraceDisplay:
    """Scores of the candidates in the order of evaluation.

    Scores from public rows, which spend no budget, have one colour, values released from protected
    records the other. Exact scores on protected records are not stored and cannot be drawn.

    Parameters
    ----------
    public_scores : ndarray of shape (n_candidates,) or None
        Mean cross-validation score on public rows; NaN where a fit failed.
    public_spread : ndarray of shape (n_candidates,) or None
        Standard deviation over the public folds.
    released_scores : ndarray of shape (n_candidates,) or None
        Noisy scores on the protected records; NaN where none was released.
    best_index : int
        The released choice.
    best_score : float or None
        Released score of the choice.
    guarantee : PrivacyGuarantee or None
        Guarantee of the search.
    score_name : str, default="score"
        Label of the axis.
    best_score_std : float or None, default=None
        Standard deviation of the noise of `best_score`, drawn as an error bar.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    public_ : list of Artist
        Artists of the public scores.
    released_ : list of Artist
        Artists of the released values.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skdpbo import DPGridSearchCV
    >>> from skdpbo.plotting import SearchTraceDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> search = DPGridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2, 4, 8]})
    >>> search = search.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    >>> display = SearchTraceDisplay.from_estimator(search)
    >>> display.ax_.get_xlabel()
    'candidate, in the order tried'
    """

    public_scores: np.ndarray | None
    public_spread: np.ndarray | None
    released_scores: np.ndarray | None
    best_index: int
    best_score: float | None
    guarantee: PrivacyGuarantee | None
    score_name: str = "score"
    best_score_std: float | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, metric: str | None = None, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw the trace of a fitted search.

        Parameters
        ----------
        estimator : fitted searcher
            Searcher of skdpbo; for those of scikit-learn the public scores are drawn.
        metric : str, default=None
            One of several metrics. Default: the deciding one.
        ax : matplotlib Axes, default=None
            Default: new axes.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : SearchTraceDisplay

        Raises
        ------
        ValueError
            If the search has neither cross-validation scores nor released ones.
        """
        check_is_fitted(estimator, "cv_results_")
        results = estimator.cv_results_
        # Only the deciding metric is scored on protected records.
        decides = estimator.refit if isinstance(estimator.refit, str) else "score"
        metric = label = decides if metric is None else metric
        if metric == "score":
            scoring = estimator.scoring
            label = scoring if isinstance(scoring, str) else getattr(scoring, "name", "score")
        display = cls(
            public_scores=results.get(f"mean_test_{metric}"),
            public_spread=results.get(f"std_test_{metric}"),
            released_scores=results.get("private_validation_score") if metric == decides else None,
            best_index=estimator.best_index_,
            best_score=getattr(estimator, "best_score_", None) if metric == decides else None,
            guarantee=getattr(estimator, "privacy_", None),
            score_name=label,
            best_score_std=getattr(estimator, "best_score_std_", None),
        )
        if display.public_scores is None and display.released_scores is None:
            raise ValueError(
                f"The search has no scores named {metric!r}: it was not cross-validated on public "
                "rows, and its mechanism releases no scores of candidates."
            )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Default: new axes.

        Returns
        -------
        display : SearchTraceDisplay
            The drawn display.
        """
        self.figure_, self.ax_ = axes_for(ax, type(self).__name__)
        self.public_: list[Any] = []
        self.released_: list[Any] = []
        if self.public_scores is not None:
            order = np.arange(len(self.public_scores))
            scores = np.asarray(self.public_scores, dtype=float)
            if self.public_spread is not None:
                low, high = scores - self.public_spread, scores + self.public_spread
                options = {"color": PUBLIC, "alpha": 0.15, "linewidth": 0}
                self.public_.append(self.ax_.fill_between(order, low, high, **options))
            options = {"color": PUBLIC, "markersize": 4, "label": "public rows, cross-validated"}
            self.public_ += self.ax_.plot(order, scores, "o-", **options)
        self._plot_released()
        self.ax_.set(
            xlabel="candidate, in the order tried",
            ylabel=self.score_name,
            title=promise(self.guarantee),
        )
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self.ax_.legend()
        return self

    def _plot_released(self):
        if self.released_scores is not None:
            order = np.arange(len(self.released_scores))
            self.released_ += self.ax_.plot(
                order,
                np.asarray(self.released_scores, dtype=float),
                "s",
                color=PRIVATE,
                markersize=5,
                label="protected records, with noise",
            )
        if self.best_score is None:
            mark = self.ax_.axvline(
                self.best_index, color=PRIVATE, linestyle=":", label="released choice"
            )
            self.released_.append(mark)
            return
        if self.best_score_std is not None:
            bar = self.ax_.errorbar(
                self.best_index, self.best_score, yerr=self.best_score_std, color=PRIVATE, capsize=4
            )
            self.released_.append(bar)
        self.released_ += self.ax_.plot(
            [self.best_index],
            [self.best_score],
            "*",
            color=PRIVATE,
            markersize=15,
            markeredgecolor="white",
            label="released choice and score"
            + (" (± noise sd)" if self.best_score_std is not None else ""),
        )
