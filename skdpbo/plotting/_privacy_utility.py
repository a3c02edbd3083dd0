"""Display of utility against epsilon."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import sem

from skdpbo.model_selection import DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.model_selection.protection._rehearsal import rehearsed_scores
from skdpbo.plotting._axes import PRIVATE, PUBLIC, axes_for, plain
from skdpbo.privacy._checks import check_count


@dataclass(eq=False, kw_only=True, repr=False)
class PrivacyUtilityDisplay:
    """Curves of utility against epsilon, with error bars.

    The runs behind the curve spend budget like any others. `from_public_rows` estimates the curve
    of a search for several numbers of protected rows beforehand, from public rows alone.

    Parameters
    ----------
    epsilon : array-like of shape (n_epsilons,)
        Positive.
    utility : dict of str -> array-like of shape (n_epsilons,) or (n_epsilons, n_runs)
        One curve for each name. For several runs, the mean with bars of two standard errors.
    reference : dict of str -> float, default=None
        Horizontal lines, such as the score without privacy.
    utility_name : str, default="score"
        Label of the axis, with unit.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    curves_ : dict of str -> ErrorbarContainer
    references_ : dict of str -> Line2D

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skdpbo.plotting import PrivacyUtilityDisplay
    >>> display = PrivacyUtilityDisplay(
    ...     epsilon=[0.1, 1, 10],
    ...     utility={"private": [[0.71, 0.75], [0.83, 0.84], [0.86, 0.86]]},
    ...     reference={"no privacy": 0.87},
    ...     utility_name="accuracy",
    ... ).plot()
    >>> display.ax_.get_xscale()
    'log'
    """

    epsilon: object
    utility: dict
    reference: dict | None = None
    utility_name: str = "score"

    @classmethod
    def from_public_rows(
        cls,
        search: Any,
        X: Any,
        y: Any = None,
        *,
        n_records: Sequence[int] = (100, 1000, 10_000),
        epsilon: Sequence[float] = (0.1, 0.3, 1.0, 3.0),
        n_draws: int = 100,
        ax: Any = None,
    ) -> Self:
        """Draw the expected score of a search for numbers of protected rows, from public rows.

        Protected rows are drawn from the public ones, each with its loss under models trained
        without it; the probability of each choice is exact. No protected value is read. The result
        does not apply if the protected rows come from another population.

        Parameters
        ----------
        search : DPGridSearchCV or DPRandomizedSearchCV
            Search to be run, with a score that is a mean of losses of records; it is not fitted.
        X : array-like of shape (n_samples, n_features)
            Public rows.
        y : array-like of shape (n_samples,), default=None
            Public targets.
        n_records : sequence of int, default=(100, 1000, 10000)
            Numbers of protected rows, a curve each.
        epsilon : sequence of float, default=(0.1, 0.3, 1.0, 3.0)
            Epsilons of the search.
        n_draws : int, default=100
            Draws of protected rows, at least 2; the bars are two standard errors over them.
        ax : matplotlib Axes, default=None
            Default: new axes.

        Returns
        -------
        display : PrivacyUtilityDisplay
            The drawn display; `utility` has the expected scores.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("agg")
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from skdpbo import DPGridSearchCV
        >>> from skdpbo.plotting import PrivacyUtilityDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> search = DPGridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2, 4]}, cv=2)
        >>> display = PrivacyUtilityDisplay.from_public_rows(search, X, y, n_draws=5)
        >>> list(display.utility)
        ['100 protected rows', '1000 protected rows', '10000 protected rows']
        """
        if not isinstance(search, DPGridSearchCV | DPRandomizedSearchCV):
            raise TypeError(
                "search must be a DPGridSearchCV or a DPRandomizedSearchCV, got "
                f"{type(search).__name__}: the law of other choices is not computed."
            )
        check_count(n_draws, "n_draws", least=2)  # a standard error needs two
        expected, scores = rehearsed_scores(search, X, y, n_records, epsilon, n_draws)
        scoring = search.scoring
        display = cls(
            epsilon=epsilon,
            utility=dict(zip((f"{n} protected rows" for n in n_records), expected, strict=True)),
            reference={"best candidate": scores.max(), "a candidate at random": scores.mean()},
            utility_name=f"expected {scoring if isinstance(scoring, str) else 'score'}",
        )
        return display.plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Default: new axes.

        Returns
        -------
        display : PrivacyUtilityDisplay
            The drawn display.
        """
        epsilon = np.asarray(self.epsilon, dtype=float)
        if epsilon.ndim != 1 or not len(epsilon) or not (epsilon > 0).all():
            raise ValueError("epsilon must hold positive numbers.")
        if not isinstance(self.utility, dict):
            raise TypeError("utility must be a dict of names and values, one for each curve.")
        curves = {}  # the mean of the runs at each epsilon, and two standard errors or None
        for name, values in self.utility.items():
            runs = np.asarray(values, dtype=float)
            if runs.ndim not in (1, 2) or len(runs) != len(epsilon):
                raise ValueError(
                    f"utility[{name!r}] must have one entry, or one row of runs, per epsilon."
                )
            if runs.ndim == 1 or runs.shape[1] == 1:
                curves[name] = runs.reshape(len(epsilon)), None
            else:
                curves[name] = runs.mean(axis=1), 2 * sem(runs, axis=1)
        self.figure_, self.ax_ = axes_for(ax, type(self).__name__)
        order = np.argsort(epsilon)  # lines connect successive points
        colours = [PRIVATE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
        self.curves_ = {
            name: self.ax_.errorbar(
                epsilon[order],
                mean[order],
                None if error is None else error[order],
                fmt="o-",
                capsize=3,
                label=plain(name),
                color=colours[k % 6],
            )
            for k, (name, (mean, error)) in enumerate(curves.items())
        }
        self.references_ = {
            name: self.ax_.axhline(value, c=PUBLIC, ls=("--", ":")[k % 2], label=plain(name))
            for k, (name, value) in enumerate((self.reference or {}).items())
        }
        axis = {"xscale": "log", "xlabel": "ε (smaller is more private)"}
        self.ax_.set(**axis, ylabel=plain(self.utility_name))
        self.ax_.legend()
        return self
