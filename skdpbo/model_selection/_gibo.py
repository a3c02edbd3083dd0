"""Private search along gradients: many continuous parameters at once."""

import numbers
from functools import partial
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state

from skdpbo.model_selection._base import BasePrivateSearchCV
from skdpbo.model_selection._sklearn import Interval, StrOptions
from skdpbo.model_selection.bayes._public_best import PublicBest
from skdpbo.model_selection.gibo._descent import PrivateDescent
from skdpbo.model_selection.gibo._gradient_release import TrajectoryRelease
from skdpbo.model_selection.gibo._gradient_surrogate import SurrogateRecipe
from skdpbo.model_selection.gibo._public_scales import AUTOMATIC
from skdpbo.model_selection.gibo._settings import Descent, GradientSurrogate, changed
from skdpbo.model_selection.gibo._trajectory_search import TrajectorySearch
from skdpbo.model_selection.space._continuous import ContinuousSpace

__all__ = ["DPGIBOSearchCV"]

# The public search of the start, as of `DPBayesSearchCV`.
_PUBLIC_SEARCH = {"n_iter": 32, "n_initial_points": 5, "batch_size": 1, "sqrt_beta": 2.0}
_N_CANDIDATES = 500
# Share of the squared budget that adaptive clipping spends on counts.
_CLIP_SHARE = 0.1


class DPGIBOSearchCV(BasePrivateSearchCV):
    """Gradient-informative local Bayesian optimisation with differential privacy (DP-GIBO).

    Descends from a public point through a continuous space of many parameters. Before each step
    a few points around the current one are trained on the public rows and scored on the protected
    ones; a Gaussian process turns each record's losses into a gradient, of which the clipped mean
    is released with noise.

    What is private: the protected records, given as `X_val` and `y_val` or set apart by
    `validation_fraction`. Released from them are the trajectory, the choices of its start and end
    and one score; together they are mu-Gaussian-DP, hence (epsilon, delta)-DP. Everything else
    comes from public rows.

    Parameters
    ----------
    estimator : estimator object
        Any scikit-learn estimator. It is trained on public rows only.
    search_spaces : dict
        Names and ranges `(low, high)` or `(low, high, "log-uniform")`, ``Real`` or ``Integer`` of
        scikit-optimize, or frozen scipy distributions of bounded support. Integers are searched as
        reals and rounded after the noise. A list of one value is a constant; longer lists
        (categories) are refused: see `DPBayesSearchCV`.
    n_iter : int, default=25
        Number T of steps.
    epsilon : float, default=1.0
        Privacy budget of the whole fit, in (0, inf). Smaller is more private.
    delta : float, default=1e-5
        Probability with which epsilon may fail, in (0, 1); far less than one over the number of
        protected records.
    guide : bool, default=True
        Whether the public rows take part: candidates and the released points are cross-validated,
        each step combines the released gradient with that of the public folds, and public scores
        enter the choice of the end. False: one fit a point, and the protected rows alone decide,
        which is right where the public rows come from another population.
    init : "public", None, dict or array-like of shape (n_params,), default="public"
        Public starting point: a dict of parameters, a point of the unit cube with parameters in
        alphabetical order, or None: the centre. "public": the best by public cross-validation of
        the estimator's own parameters and of a search by GP-UCB, 32 candidates in all; with
        ``guide=False`` the estimator's own parameters, or the centre if they lie outside. With
        `end_fraction` the protected rows choose among the eight best, privately.
    descent : Descent or None, default=None
        Clipping norm, learning rate and budgets of the steps; ``Descent.paper()`` is the paper's.
        None: ``Descent()``. Its parameters are also those of the search: ``descent__clip``.
    surrogate : GradientSurrogate or None, default=None
        Kernel and length-scale of the losses; ``GradientSurrogate.paper()`` is the paper's. None:
        ``GradientSurrogate()``.
    scoring : str, list, tuple, dict, PerRecordScorer or None, default=None
        A score that is the mean of bounded per-record losses: `"accuracy"`, `"neg_log_loss"`,
        `"neg_brier_score"`, `"neg_mean_squared_error"`, `"neg_mean_absolute_error"`, or the result
        of `make_per_record_scorer`. None means accuracy for classifiers and
        `"neg_mean_squared_error"` for regressors; `score` is then the estimator's own. Losses
        that move with the parameters, such as `"neg_log_loss"`, have better gradients than
        accuracy. With several metrics, `refit` names the one that decides; the others are computed
        on public rows only.
    loss_bound : float or None, default=None
        Largest loss of one record for the losses that have no bound of their own, in the units of
        the loss; larger losses are clipped. None takes a default that does not depend on the data,
        with a `DefaultBoundsWarning`.
    end_fraction : float, default=0.2
        Share of mu squared spent on private choices, so that a noisy descent need not end worse
        than it began: of `best_params_` among released points (the start, points on the way, the
        last one, the mean of the last ones), and, where a public search comes first, of the start.
        0: the best public candidate and the mean of the last points.
    score_fraction : float, default=0.1
        Share of mu squared spent on `best_score_`, in [0, 1). 0: no score is released.
    validation_fraction : float, default=0.2
        Share of the rows that is protected when `fit` is not given `X_val`, in (0, 1). Row 0 is
        always public.
    cv : int, cross-validation generator or iterable, default=None
        As in `GridSearchCV`; splits the public rows only. Splits of all rows of `X` are restricted
        to them. None: five folds, or as many as the smallest public class allows, at least two.
    refit : bool or str, default=True
        Train the winner on all public rows. A str names the deciding metric. A callable is refused.
    n_jobs : int or None, default=None
        Number of models of a batch trained in parallel by joblib.
    verbose : int, default=0
        Lines for each public round and each step; above 1 also the messages of `GridSearchCV`.
    pre_dispatch : int or str, default="2*n_jobs"
        As in `GridSearchCV`.
    error_score : "raise" or numeric, default=np.nan
        Public score of a point whose fit or public scoring fails. On the protected rows a point
        that cannot be trained on all public rows counts with the worst loss.
    return_train_score : bool, default=False
        Whether `cv_results_` includes scores on the public training folds.
    random_state : int, RandomState or None, default=None
        None: fresh secret noise from the operating system and a fixed public design. Anything else
        makes the noise reproducible, which **voids the guarantee** (`SeededNoiseWarning`).

    Attributes
    ----------
    best_params_ : dict
        Released. Parameters of the point chosen as the end; with ``end_fraction=0`` of the mean of
        the last points.
    best_index_ : int
        Released. Their index in `cv_results_["params"]`.
    best_score_ : float
        Released. Noisy score of `best_params_` on the protected rows; absent when
        `score_fraction=0`.
    best_estimator_ : estimator
        The winner trained on the public rows; absent when `refit=False`.
    cv_results_ : dict of ndarrays
        `params` and `param_*` of the public search, and, released, of the trajectory, then of the
        mean if there is one. Public: with `guide`, the other columns of `GridSearchCV`, from the
        public rows.
    descent_ : DescentResult
        Released. The trajectory in the unit cube, the noisy gradients and their noise scales, and
        how well the points of each step determine its gradient (``traces``).
    privacy_ : PrivacyGuarantee
        Guarantee of the whole fit; `privacy_.mu` is the Gaussian parameter.
    scorer_ : callable or dict
        Scorer that `score` uses.
    n_splits_ : int
        Number of public folds; absent when `guide=False`.
    refit_time_ : float
        Seconds of the public refit.
    multimetric_ : bool
    classes_ : ndarray of shape (n_classes,)
        Of the winner.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    See Also
    --------
    Descent : Parameters of the steps.
    GradientSurrogate : Parameters of the surrogate.
    DPBayesSearchCV : For categories, few parameters and few protected records.

    Notes
    -----
    Neighbours are two data sets of the same size n that differ in one protected record. A record's
    losses are clipped to a public bound and it trains nothing, so that its gradient, a public
    linear map of its own losses, is its own affair; clipped to norm B, it moves the sum by at most
    2 B. Gaussian noise of standard deviation 2 B / (n mu_t) per coordinate makes each step
    mu_t-GDP. Start and end are chosen by permute-and-flip among public and released points, by
    sums of clipped differences of losses: purely epsilon_e-DP, hence mu_e-GDP with mu_e = 2
    Phi^-1(1 / (1 + exp(-epsilon_e))) [2]_. All of it composes to mu, the root of the sum of the
    squares (Sopa et al. 2025, Lemma 3.1). mu = 1 is epsilon = 4.38 at delta = 1e-5. A record
    that cannot be scored counts with the worst loss. It is assumed that the estimator predicts each
    row from that row alone.

    With equal steps the noise has norm 2 B sqrt(T d) / (n mu): beyond a tenth of B, from public
    numbers, a `NoisyGradientWarning` asks for fewer steps, a larger epsilon or fewer parameters.

    References
    ----------
    .. [1] G. Sopa, J. Marusic, M. Avella-Medina, J. P. Cunningham. Scalable differentially private
       Bayesian optimization. arXiv:2502.06044, 2025.
    .. [2] J. Dong, A. Roth, W. J. Su. Gaussian differential privacy. JRSS B 84(1), 2022.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skdpbo import DPGIBOSearchCV
    >>> X, y = make_classification(n_samples=3000, flip_y=0.1, random_state=0)
    >>> search = DPGIBOSearchCV(LogisticRegression(), {"C": (1e-4, 1e2, "log-uniform")},
    ...                         n_iter=5, epsilon=1.0, scoring="neg_log_loss")
    >>> search = search.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    >>> 1e-4 <= search.best_params_["C"] <= 1e2
    True
    >>> round(search.privacy_.mu, 4)
    0.2681
    """

    _parameter_constraints: ClassVar[dict] = {
        **BasePrivateSearchCV._parameter_constraints,
        "search_spaces": [dict, list],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "descent": [Descent, None],
        "surrogate": [GradientSurrogate, None],
        "end_fraction": [Interval(numbers.Real, 0, 1, closed="left")],
        "guide": ["boolean"],
        "init": [StrOptions({"public"}), dict, "array-like", None],
    }

    def __init__(
        self,
        estimator,
        search_spaces,
        *,
        n_iter=25,
        epsilon=1.0,
        delta=1e-5,
        guide=True,
        init="public",
        descent=None,
        surrogate=None,
        scoring=None,
        loss_bound=None,
        end_fraction=0.2,
        score_fraction=0.1,
        validation_fraction=0.2,
        cv=None,
        refit=True,
        n_jobs=None,
        verbose=0,
        pre_dispatch="2*n_jobs",
        error_score=np.nan,
        return_train_score=False,
        random_state=None,
    ):
        super().__init__(
            estimator,
            epsilon=epsilon,
            delta=delta,
            scoring=scoring,
            loss_bound=loss_bound,
            score_fraction=score_fraction,
            validation_fraction=validation_fraction,
            cv=cv,
            refit=refit,
            n_jobs=n_jobs,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
        )
        self.search_spaces = search_spaces
        self.n_iter = n_iter
        self.guide = guide
        self.init = init
        self.descent = descent
        self.end_fraction = end_fraction
        self.surrogate = surrogate

    def set_params(self, **params):
        """Set parameters, also of `descent` and `surrogate`, as ``descent__clip=0.1``.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : object
            The search.
        """
        for group, kind in (("descent", Descent), ("surrogate", GradientSurrogate)):
            prefix = f"{group}__"
            nested = {
                name.removeprefix(prefix): params.pop(name)
                for name in list(params)
                if name.startswith(prefix)
            }
            if nested:  # frozen: a changed copy takes the place
                params[group] = changed(params.get(group, getattr(self, group)) or kind(), nested)
        return super().set_params(**params)

    def _mechanism(self):
        shares = self.score_fraction, self.end_fraction
        n_choices = 2 if self._searches_publicly() else 1
        release = TrajectoryRelease(self.epsilon, self.delta, *shares, n_choices=n_choices)
        steps = self.descent or Descent()
        steps.check()
        return TrajectorySearch(
            release,
            descent=partial(self._steps, steps, release.mu_trajectory),
            surrogate=self._surrogate,
            automatic=[name for name in AUTOMATIC if getattr(steps, name) == "auto"],
            start=self._start,
            public_search=PublicBest(_PUBLIC_SEARCH) if self._searches_publicly() else None,
            averaging=steps.averaging,
            verbose=self.verbose,
        )

    def _space(self):
        return ContinuousSpace(self.search_spaces)

    def _candidates(self, space):
        self._surrogate(space)  # refuses bad length-scales before anything is spent
        start = space.settings([self._start(space)])
        if not self._searches_publicly():
            return start
        drawn = space.candidates(_N_CANDIDATES, check_random_state(self._public_seed()))
        return start + [candidate for candidate in drawn if candidate != start[0]]

    def _searches_publicly(self):
        return self.guide and isinstance(self.init, str)

    def _start(self, space):
        own = space.own(self.estimator) if isinstance(self.init, str) else None
        if own is not None:
            return own
        return space.start(None if isinstance(self.init, str) else self.init)

    def _surrogate(self, space):
        return SurrogateRecipe(self.surrogate or GradientSurrogate(), space.names)

    def _steps(self, steps, mu, units):
        options = steps.get_params()
        options |= {name: AUTOMATIC[name] for name in AUTOMATIC if options[name] == "auto"}
        adaptive = options.pop("adaptive_clip")
        seed = check_random_state(self._public_seed()).randint(2**31 - 1 - self.n_iter)
        return PrivateDescent(
            n_iter=self.n_iter,
            mu=mu,
            **options,
            bounds=(0.0, 1.0),
            clip_share=_CLIP_SHARE if adaptive else 0.0,
            loss_bound=units,
            loss_scale=1.0 / units,
            random_state=seed,
        )
