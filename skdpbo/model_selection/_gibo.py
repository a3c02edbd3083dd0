"""Private search along gradients: many continuous parameters at once."""

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from skdpbo.model_selection._base import BasePrivateSearchCV
from skdpbo.model_selection._sklearn import Interval, StrOptions
from skdpbo.model_selection.bayes._gp_ucb import PublicBest
from skdpbo.model_selection.gibo._gradient_release import TrajectoryRelease
from skdpbo.model_selection.gibo._settings import DEFAULTS, Descent, GradientSurrogate
from skdpbo.model_selection.gibo._trajectory_search import TrajectorySearch
from skdpbo.model_selection.protection._private_descent import PrivateDescentProtection
from skdpbo.model_selection.protection._validation import ValidationProtection
from skdpbo.model_selection.space._continuous import ContinuousSpace

# Parameters of the public search for the start, as of `DPBayesSearchCV`.
_PUBLIC_SEARCH = {"n_iter": 32, "n_initial_points": 5, "batch_size": 1, "sqrt_beta": 2.0}
_N_CANDIDATES = 500
# Share of the start in the epsilon of the choices: it has many candidates, and descents seldom end
# worse than they began.
_START_SHARE = 0.8


class DPGIBOSearchCV(BasePrivateSearchCV):
    """Gradient-informative local Bayesian optimisation with differential privacy (DP-GIBO).

    Descends from a public point through a continuous space of many parameters. Before each step
    a few points around the current one are trained on the public rows and scored on the protected
    ones; a Gaussian process turns each record's losses into a gradient. The gradients are clipped,
    and their mean is released with noise.

    The protected records, given as `X_val` and `y_val` or set apart by `validation_fraction`, are
    private. Their releases are the trajectory, the choices of its start and end and one score;
    together they are (epsilon, delta)-DP. Everything else comes from public rows. With
    ``protect="all"`` every record is private, and all models are trained privately.

    Parameters
    ----------
    estimator : estimator object
        Any scikit-learn estimator. It is trained on public rows only. With ``protect="all"``: one
        that is differentially private (mu-GDP or pure), such as `DPRidge`, alone or in a pipeline
        with steps that learn nothing from the rows. The search sets its ``epsilon`` and ``delta``.
    search_spaces : dict
        Names and ranges `(low, high)` or `(low, high, "log-uniform")`, ``Real`` or ``Integer`` of
        scikit-optimize, or frozen scipy distributions of bounded support. Integers are searched as
        reals and rounded after the noise. A list of one value is a constant; longer lists
        (categories) are refused: see `DPBayesSearchCV`.
    n_iter : int or None, default=None
        Number T of steps, in [1, 10^6]. None: 25; 10 with ``protect="all"``.
    epsilon : float, default=1.0
        Privacy budget of the whole fit, in (0, inf). Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1); far below one over the number of records.
    guide : bool, default=True
        Whether public scores are used: candidates and the released points are cross-validated,
        each step combines the released gradient with that of the public folds, and public scores
        enter the choice of the end. False: one fit for each point, and only protected scores are
        used; take it if the public rows come from another population.
    init : "public", None, dict or array-like of shape (n_params,), default="public"
        Public starting point: a dict of parameters, a point of the unit cube with parameters in
        alphabetical order, or None: the centre. "public": the best by public cross-validation of
        the estimator's own parameters and of a search by GP-UCB, 32 candidates in all; with
        ``guide=False`` the estimator's own parameters, or the centre if they lie outside. With
        `end_fraction`, the start is chosen privately among the eight best and, if protected losses
        are more precise than public ones, forty untried candidates of the best predicted scores.
    descent : Descent or None, default=None
        Clipping norm, learning rate and budgets of the steps; ``Descent.paper()`` is the paper's.
        None: ``Descent()``. Its parameters are also those of the search: ``descent__clip``.
    surrogate : GradientSurrogate or None, default=None
        Kernel and length-scale of the losses; ``GradientSurrogate.paper()`` is the paper's. None:
        ``GradientSurrogate()``.
    scoring : str, list, tuple, dict, PerRecordScorer or None, default=None
        A mean of bounded per-record losses, such as `"neg_log_loss"`, `"neg_brier_score"`,
        `"neg_mean_squared_error"`, or of `make_per_record_scorer`; accuracy has almost no gradient.
        None: accuracy for classifiers, `"neg_mean_squared_error"` for regressors; `score` is then
        the estimator's own. With several metrics, `refit` names the deciding one; the others are
        computed on public rows only.
    loss_bound : float, dict or None, default=None
        Largest loss of one record for unbounded losses, in their units, in [1e-100, 1e100]; larger
        losses are clipped. A dict has one for each name of a score. None: for squared and absolute
        errors the largest loss of the middle of public `y_bounds` of a private regressor, else a
        default that does not depend on the data, with a `DefaultBoundsWarning`.
    end_fraction : float, default=0.5
        Share of epsilon spent on private choices, in [0, 1), so that a noisy descent need not end
        worse than it began. `best_params_` is chosen among released points (the start, intermediate
        points, the last one, the mean of the last ones); after a public search, the start is chosen
        too, with four fifths of this share. 0: the best public candidate, and the mean of the last
        points.
    score_fraction : float, default=0.1
        Share of `best_score_` in mu squared of trajectory and score, in [0, 1). 0: no score is
        released.
    validation_fraction : float, default=0.2
        Share of the rows that is protected when `fit` is not given `X_val`, in (0, 1). Row 0 is
        always public.
    protect : {"validation", "all"}, default="validation"
        Which records the guarantee covers. "all": training records, too. Half of their squared
        budget is for the released model, the rest is divided between all models of the steps (see
        Notes), so that by default there are few, and thousands of rows are needed. No row is
        public: `cv`, `return_train_score`, `memory`, several metrics and ``error_score="raise"``
        are refused. `guide` and `end_fraction` are not used, and "public" for `init` means the
        estimator's own parameters.
    memory : str, path, joblib.Memory or None, default=None
        As in `DPGridSearchCV`: a folder of public fold scores, including those of released points.
    cv : int, cross-validation generator or iterable, default=None
        As in `GridSearchCV`; splits the public rows only. Splits of all rows of `X` are restricted
        to them. None: five folds, or as many as the smallest public class allows, at least two.
    refit : bool or str, default=True
        Train the winner on all public rows. A str names the deciding metric. A callable is refused.
        With ``protect="all"``: train it privately. With False and ``score_fraction=0``, the whole
        budget of the training rows is for the steps.
    n_jobs : int or None, default=None
        Number of models of a batch trained in parallel by joblib.
    verbose : int, default=0
        A line for each candidate and each step; above 1 also the messages of `GridSearchCV`.
    pre_dispatch : int or str, default="2*n_jobs"
        As in `GridSearchCV`.
    error_score : "raise" or numeric, default=np.nan
        Public score of a point whose fit or public scoring fails. On the protected rows a point
        that cannot be trained on all public rows has the worst loss.
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
        Released. Its index in `cv_results_["params"]`.
    best_score_ : float
        Released. Noisy score of `best_params_` on the protected rows; absent when
        `score_fraction=0`.
    best_score_std_ : float
        Public. Standard deviation of the noise of `best_score_`; absent without it.
    best_estimator_ : estimator
        The winner trained on the public rows, or privately on the training rows (its ``privacy_``
        is that of the whole search); absent when `refit=False`.
    cv_results_ : dict of ndarrays
        `params` and `param_*` of the public search, and, released, of the trajectory, then of the
        mean if there is one. Public: with `guide`, the other columns of `GridSearchCV`, from the
        public rows.
    descent_ : DescentResult
        Released. The trajectory in the unit cube, the noisy gradients and their noise scales, and
        the uncertainty of each gradient given the points of its step (``traces``).
        ``error_terms(norm)``: terms of these in the bounds of the paper's Theorems 3.2 and 3.3.
    privacy_ : PrivacyGuarantee
        Guarantee of the whole fit. Its ``parts`` are the gradients with the score, which are
        mu-GDP, and each choice; with ``end_fraction=0`` it is that of the gradients itself.
    scorer_ : callable or dict
        Scorer used by `score`.
    n_splits_ : int
        Number of public folds; absent if there are none, as with ``guide=False``.
    refit_time_ : float
        Seconds of the public refit; absent without one.
    multimetric_ : bool
    classes_ : ndarray of shape (n_classes,)
        Class labels of the winner.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    See Also
    --------
    Descent : Parameters of the steps.
    GradientSurrogate : Parameters of the surrogate.
    DPBayesSearchCV : For categories, few parameters and few protected records.
    DPRandomizedSearchCV : Private selection, with ``protect="all"``: for fewer rows.

    Notes
    -----
    Neighbours are two data sets of the same size n that differ in one protected record. A record's
    losses are clipped to a public bound and it is not used in training, so that its gradient is a
    public linear map of its own losses alone; clipped to norm B, it moves the sum by at most 2 B.
    Gaussian noise of standard deviation 2 B / (n mu_t) per coordinate makes each step mu_t-GDP.
    Start and end are chosen by permute-and-flip among public and released points, by sums of losses
    clipped around each record's midrange, with pure epsilons of .8 and .2 of ``end_fraction *
    epsilon`` (all of it if only the end is chosen). Steps and score compose to mu, the root of the
    sum of the squares (Sopa et al. 2025, Lemma 3.1); mu is the largest for which Gaussian and pure
    releases together are (epsilon, delta)-DP, by exact composition [2]_, [3]_: at epsilon = 1,
    delta = 1e-5, .154 with the choices, .268 without. A record that cannot be scored has the worst
    loss. It is assumed that each row is predicted from that row alone.

    With ``protect="all"`` training and scoring rows are disjoint, by position or as given, so that
    each part may cost the whole budget. b T models of mu_a and the released one of mu_z cost a
    training record ``(b T mu_a^2 + mu_z^2)^(1/2)``, by composition.

    With equal steps the noise has norm 2 B sqrt(T d) / (n mu). If this public number is above a
    tenth of B, a `NoisyGradientWarning` asks for fewer steps, a larger epsilon or fewer parameters.
    With ``protect="all"`` it is also given if there are too few rows: n mu_a below 160.

    References
    ----------
    .. [1] G. Sopa, J. Marusic, M. Avella-Medina, J. P. Cunningham. Scalable differentially private
       Bayesian optimization. arXiv:2502.06044, 2025.
    .. [2] J. Dong, A. Roth, W. J. Su. Gaussian differential privacy. JRSS B 84(1), 2022.
    .. [3] P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential privacy. ICML
           2015.

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
    >>> [round(part.epsilon, 4) for part in search.privacy_.parts]
    [0.5468, 0.1, 0.4]
    """

    _where_none: ClassVar[dict] = {"descent": Descent, "surrogate": GradientSurrogate}
    _parameter_constraints: ClassVar[dict] = {
        **BasePrivateSearchCV._parameter_constraints,
        "search_spaces": [dict, list],
        "n_iter": [Interval(numbers.Integral, 1, 10**6, closed="both"), None],
        "delta": [Interval(numbers.Real, 0, 1, closed="neither")],
        "descent": [Descent, None],
        "surrogate": [GradientSurrogate, None],
        "end_fraction": [Interval(numbers.Real, 0, 1, closed="left")],
        "protect": [StrOptions({"validation", "all"})],
        "guide": ["boolean"],
        "init": [StrOptions({"public"}), dict, "array-like", None],
    }

    def __init__(
        self,
        estimator: Any,
        search_spaces: Any,
        *,
        n_iter: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        guide: bool = True,
        init: Any = "public",
        descent: Descent | None = None,
        surrogate: GradientSurrogate | None = None,
        scoring: Any = None,
        loss_bound: float | dict[str, float] | None = None,
        end_fraction: float = 0.5,
        score_fraction: float | str = 0.1,
        validation_fraction: float = 0.2,
        protect: Any = "validation",
        memory: Any = None,
        cv: Any = None,
        refit: bool | str = True,
        n_jobs: int | None = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        error_score: float | str = np.nan,
        return_train_score: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            estimator=estimator,
            search_spaces=search_spaces,
            n_iter=n_iter,
            protect=protect,
            guide=guide,
            init=init,
            descent=descent,
            end_fraction=end_fraction,
            surrogate=surrogate,
            epsilon=epsilon,
            delta=delta,
            scoring=scoring,
            loss_bound=loss_bound,
            score_fraction=score_fraction,
            validation_fraction=validation_fraction,
            memory=memory,
            cv=cv,
            refit=refit,
            n_jobs=n_jobs,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
        )

    def _protection(self):
        kind = PrivateDescentProtection if self.protect == "all" else ValidationProtection
        return kind(self, *self._candidates())

    def _mechanism(self):
        # With every record protected each candidate of a choice would need one more training.
        shares = self.score_fraction, 0.0 if self.protect == "all" else self.end_fraction
        search = PublicBest(_PUBLIC_SEARCH) if self._searches_publicly() else None
        # Without a public search the start is not chosen.
        start_share = _START_SHARE if search else 0.0
        release = TrajectoryRelease(self.epsilon, self.delta, *shares, start_share=start_share)
        steps, defaults = self.descent or Descent(), DEFAULTS[self.protect]
        steps.check()
        return TrajectorySearch(
            release=release,
            descent=steps,
            largest_batch=defaults.largest_batch,
            n_iter=defaults.n_iter if self.n_iter is None else self.n_iter,
            random_state=self._public_seed(),
            surrogate=self._surrogate(),
            given_start=self._start,
            public_search=search,
            verbose=self.verbose,
        )

    def _candidates(self):
        space = ContinuousSpace(self.search_spaces)
        self._surrogate().check(space.names)  # before the charge
        start = space.decode([self._start(space)])
        n = _N_CANDIDATES if self._searches_publicly() else 0
        drawn = space.candidates(n, check_random_state(self._public_seed())) if n else []
        # The start comes first, among the initial points of the search.
        return space, start + [candidate for candidate in drawn if candidate != start[0]]

    def _searches_publicly(self):
        return self.guide and isinstance(self.init, str) and self.protect == "validation"

    def _start(self, space):
        if not isinstance(self.init, str):
            return space.start(self.init)
        own = self.estimator.get_params()
        try:
            return space.encode([own])[0]
        # A parameter that is missing, not a number, or outside its range.
        except (KeyError, TypeError, ValueError):
            return space.start(None)

    def _surrogate(self):
        given = self.surrogate or GradientSurrogate()
        return given._filled(**DEFAULTS[self.protect].surrogate)
