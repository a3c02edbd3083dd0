"""Display of utility against epsilon."""

import numpy as np

from skdpbo.plotting._axes import PRIVATE, PUBLIC, axes_for

__all__ = ["PrivacyUtilityDisplay"]


class PrivacyUtilityDisplay:
    """Curves of utility against epsilon, with error bars.

    The runs behind the curve spend privacy like any others. To choose an epsilon beforehand, use
    public or synthetic data.

    Parameters
    ----------
    epsilon : array-like of shape (n_epsilons,)
        Positive.
    utility : dict of str -> array-like of shape (n_epsilons,) or (n_epsilons, n_runs)
        One curve a name. Several runs are shown by their mean, with bars of two standard errors.
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

    def __init__(self, *, epsilon, utility, reference=None, utility_name="score"):
        self.epsilon = epsilon
        self.utility = utility
        self.reference = reference
        self.utility_name = utility_name

    def plot(self, ax=None):
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
        curves = {
            name: _mean_and_error(values, len(epsilon), name)
            for name, values in self.utility.items()
        }
        self.figure_, self.ax_ = axes_for(ax, type(self).__name__)
        colours = [PRIVATE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
        self.curves_ = {
            name: self.ax_.errorbar(
                epsilon, mean, error, fmt="o-", capsize=3, label=name, color=colours[k % 6]
            )
            for k, (name, (mean, error)) in enumerate(curves.items())
        }
        self.references_ = {
            name: self.ax_.axhline(value, color=PUBLIC, linestyle="--", label=name)
            for name, value in (self.reference or {}).items()
        }
        self.ax_.set(xscale="log", xlabel="ε (smaller is more private)", ylabel=self.utility_name)
        self.ax_.legend()
        return self


def _mean_and_error(values, n_epsilons, name):
    """Return the mean of the runs at each epsilon, and two standard errors or None."""
    values = np.asarray(values, dtype=float)
    if values.ndim not in (1, 2) or len(values) != n_epsilons:
        raise ValueError(f"utility[{name!r}] must have one entry, or one row of runs, per epsilon.")
    if values.ndim == 1 or values.shape[1] == 1:
        return values.reshape(n_epsilons), None
    return values.mean(axis=1), 2 * values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
