"""Display of a private Gaussian process along one input."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdpbo.plotting._axes import PRIVATE, PUBLIC, axes_for, plain, promise
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_within


@dataclass(eq=False, kw_only=True, repr=False)
class GPPosteriorDisplay:
    """Posterior mean and band of a fitted Gaussian process along one input.

    Parameters
    ----------
    x : ndarray of shape (n_points,)
        The input that varies. Public.
    mean : ndarray of shape (n_points,)
        Posterior mean. Released.
    std : ndarray of shape (n_points,)
        Posterior standard deviation of the function, including the privacy noise where the model
        accounts for it. Released.
    inducing_points : ndarray of shape (n_inducing,) or None
        Positions on the axis. Public, or moved by a release.
    guarantee : PrivacyGuarantee or None
        Guarantee of the fit, for the title.
    input_name, target_name : str
        Labels of the axes, with units.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : Line2D
    band_ : PolyCollection

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from skdpbo import DPSparseGPRegressor
    >>> from skdpbo.plotting import GPPosteriorDisplay
    >>> x = np.random.default_rng(0).uniform(-3, 3, (500, 1))
    >>> gp = DPSparseGPRegressor(X_bounds=(-3, 3), y_bounds=(-1, 1), inducing_points=7)
    >>> gp = gp.fit(x, np.sin(x[:, 0]))
    >>> display = GPPosteriorDisplay.from_estimator(gp, np.linspace(-3, 3, 50)[:, None])
    >>> display.ax_.get_title()
    'ε = 1, δ = 1e-05 for the training records'
    """

    x: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    inducing_points: np.ndarray | None = None
    guarantee: PrivacyGuarantee | None = None
    input_name: str = "x"
    target_name: str = "y"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        feature: int = 0,
        input_name: str | None = None,
        target_name: str = "y",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a fitted Gaussian process at given points.

        Parameters
        ----------
        estimator : fitted regressor
            Regressor with ``predict(X, return_std=True)``.
        X : array-like of shape (n_points, n_features)
            Points of prediction. Public: do not pass protected rows.
        feature : int, default=0
            Column of `X` on the horizontal axis; `X` is sorted by it.
        input_name : str, default=None
            Default: the name of the column, where the estimator has one.
        target_name : str, default="y"
            Label of the vertical axis.
        ax : matplotlib Axes, default=None
            Default: new axes.
        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : GPPosteriorDisplay
            The drawn display.
        """
        check_is_fitted(estimator)
        values = np.asarray(X, dtype=float)
        order = np.argsort(values[:, feature], kind="stable")
        with warnings.catch_warnings():  # an array of the same columns, without names
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            mean, std = estimator.predict(X, return_std=True)
        if np.ndim(mean) != 1:
            raise ValueError("The regressor has several targets; a display shows one.")
        points = getattr(estimator, "inducing_points_", None)
        names = getattr(estimator, "feature_names_in_", None)
        if input_name is None:
            input_name = "x" if names is None else plain(str(names[feature]))
        display = cls(
            x=values[order, feature],
            mean=mean[order],
            std=std[order],
            inducing_points=None if points is None else points[:, feature],
            guarantee=getattr(estimator, "privacy_", None),
            input_name=input_name,
            target_name=target_name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, n_std: float = 1.96) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Default: new axes.
        n_std : float, default=1.96
            Half-width of the band in posterior standard deviations, > 0; 1.96 is 95 %.

        Returns
        -------
        display : GPPosteriorDisplay
            The drawn display.
        """
        n_std = check_within(n_std, "n_std", "(0, inf)")
        self.figure_, self.ax_ = axes_for(ax, type(self).__name__)
        self.band_ = self.ax_.fill_between(
            self.x,
            self.mean - n_std * self.std,
            self.mean + n_std * self.std,
            color=PRIVATE,
            alpha=0.2,
            linewidth=0,
            label=f"± {n_std:g} standard deviations",
        )
        (self.line_,) = self.ax_.plot(self.x, self.mean, color=PRIVATE, label="posterior mean")
        if self.inducing_points is not None:
            # Distinct positions: in a grid of several columns many points share one.
            positions = np.unique(np.asarray(self.inducing_points, dtype=float))
            self.ax_.plot(
                positions,
                np.zeros(len(positions)),
                "|",
                color=PUBLIC,
                markersize=10,
                transform=self.ax_.get_xaxis_transform(),
                label="inducing points",  # public, or moved by a first release
            )
        self.ax_.set(xlabel=self.input_name, ylabel=self.target_name, title=promise(self.guarantee))
        self.ax_.legend()
        return self
