"""Private Bayesian optimisation: a Gaussian process proposes, a mechanism chooses."""

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from skdpbo.model_selection._choosing import BaseChoiceSearchCV
from skdpbo.model_selection._private_choice import PrivateChoice
from skdpbo.model_selection._sklearn import Interval, StrOptions
from skdpbo.model_selection.bayes._gaussian_trajectory import GaussianTrajectory
from skdpbo.model_selection.bayes._visited_choice import bayes_mechanism, chooses_once
from skdpbo.model_selection.papers._kusner2015 import Kusner2015
from skdpbo.model_selection.papers._kusner_lipschitz import Kusner2015Lipschitz
from skdpbo.model_selection.protection._private_models import PrivateModelsProtection
from skdpbo.model_selection.space._search_space import SearchSpace

_DESIGN = ("n_iter", "n_initial_points", "batch_size", "sqrt_beta", "acquisition")


class DPBayesSearchCV(BaseChoiceSearchCV):
    """Bayesian optimisation whose choice and score are differentially private.

    GP-UCB on the public cross-validation scores proposes candidates from a finite,
    data-independent set; the winner among those visited is chosen privately on the protected
    records. Other mechanisms guide the search by noisy scores on the protected records, or run the
    algorithms of Kusner et al. (2015).

    The protected records, given as `X_val` and `y_val` or set apart by `validation_fraction`, are
    private; with ``protect="all"`` every record. Their releases are the choice and one score, or
    noisy scores from which both are computed; everything else comes from public rows.

    Parameters
    ----------
    estimator : estimator object
        Any scikit-learn estimator. It is trained on public rows only.
    search_spaces : dict or list of dicts
        Names and lists of categories, frozen scipy distributions, ranges `(low, high)` and
        `(low, high, "log-uniform")`, or ``Real``, ``Integer`` and ``Categorical`` of
        scikit-optimize; a range of two integers gives integers, both ends included. With a list
        of dicts, all share one `n_iter`.
    n_iter : int, default=32
        Number of candidates that are evaluated, in [1, 10^6]; all if there are fewer.
    epsilon : float, default=1.0
        Privacy budget of the whole fit, in (0, inf). Smaller is more private.
    delta : float, default=1e-5
        In [0, 1). Not used by the pure mechanisms "permute_and_flip", "exponential" and
        `Kusner2015Lipschitz`, whose guarantee has delta 0; positive for the others.
    mechanism : str or mechanism object, default="permute_and_flip"
        Releases, and their mechanism:

        - "permute_and_flip": the choice among the visited candidates, and one score; never worse
          in expectation than "exponential", the exponential mechanism.
        - "gaussian", or `GaussianTrajectory` with its parameters: noisy scores of a few
          candidates, which guide the search; the winner and its score are functions of them.
        - `Kusner2015`: Algorithm 1 or 2 of [3]_. The guarantee is conditional on their
          Gaussian-process prior, and at usual budgets the choice is nearly uniform.
        - `Kusner2015Lipschitz`: Algorithm 3 of [3]_ for the score, permute-and-flip for the choice;
          the search follows public scores, or as published secret ones.
    n_initial_points : int, default=5
        Candidates evaluated before the surrogate is used, at least 1.
    n_candidates : int, default=500
        Size of the finite candidate set, in [1, 10^6]; the whole space if it has no more points.
    batch_size : int, default=1
        Candidates proposed at a time, and evaluated in parallel; at least 1.
    sqrt_beta : float, default=2.0
        Weight of the posterior standard deviation in the upper confidence bound, >= 0.
    acquisition : {"ucb", "ei"}, default="ucb"
        Acquisition function for public scores, or for the secret scores of `Kusner2015Lipschitz`:
        the upper confidence bound, or the expected improvement. "gaussian" and `Kusner2015` support
        "ucb" only.
    prior_weight : "auto" or float, default="auto"
        Weight c in [0, 1e100] of the public score in a choice by permute-and-flip or the
        exponential mechanism, which maximises (protected score + c * public score) up to noise. It
        costs no budget. "auto" smooths the public scores and sets c by the ratio of the selection
        noise to their remaining error, so that it tends to 0 with many protected records. A number
        is applied to the unsmoothed scores; set 0 if the public rows come from another population.
    scoring : str, list, tuple, dict, PerRecordScorer or None, default=None
        A score that is the mean of bounded per-record losses: `"accuracy"`, `"neg_log_loss"`,
        `"neg_brier_score"`, `"neg_mean_squared_error"`, `"neg_mean_absolute_error"`, or the result
        of `make_per_record_scorer`. ROC AUC, F1, balanced accuracy, R2 and similar metrics are
        supported if validation records are protected, and with chunks. None means accuracy for
        classifiers and `"neg_mean_squared_error"` for regressors; `score` is then the estimator's
        own. With several metrics, `refit` names the deciding one; the others are computed on public
        rows only.
    loss_bound : float, dict or None, default=None
        Largest loss of one record for unbounded losses, in their units, in [1e-100, 1e100]; larger
        losses are clipped. A dict has one for each name of a score. None: from public `y_bounds` of
        a private regressor, as in `DPGridSearchCV`, else a default that does not depend on the
        data, with a `DefaultBoundsWarning`.
    score_fraction : float or "auto", default="auto"
        Share of the budget spent on `best_score_`, in [0, 1). 0: no score is released. "auto": 0.1;
        up to 0.3 for scores that are not means, such as ROC AUC and F1. For these, and with chunks,
        no score is released if it would be mostly noise (a standard deviation above 0.25 of its
        range), as with the default chunks up to epsilon 10. Not used by "gaussian", which releases
        scores anyway.
    validation_fraction : float, default=0.2
        Share of the rows that is protected without `X_val`, in (0, 1). Row 0 is always public.
    protect : {"validation", "all"} or Chunks, default="validation"
        Which records the guarantee covers: the validation records, or all of them. "all" is
        ``Chunks()``, which may be given with its parameters; an estimator that states its own
        guarantee is refused. No row is public then and nothing is cross-validated: `cv`,
        `return_train_score`, `memory`, several metrics and ``error_score="raise"`` are refused, and
        `guide` is not used. With chunks no model is released, whatever `refit` is. Private models
        are tuned by `DPRandomizedSearchCV` or `DPGridSearchCV`. Without public scores, "gaussian"
        is guided by its released scores, and the others choose among `n_iter` quasi-random
        candidates.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Relation of neighbouring data sets. "add-remove": one protected record more or less, and
        the number of protected records is secret. As an added record cannot reduce a total loss,
        the choice runs at twice the rate, with about half the regret. Half of the score's share is
        spent on a noisy count, by which the score is divided. Needs `X_val`,
        ``protect="validation"`` and a score that is a mean of losses of records. Not for "gaussian"
        and Kusner et al., which need the number of records; a `prior_weight` needs the noisy count.
    cv : int, cross-validation generator or iterable, default=None
        As in `GridSearchCV`; splits the public rows only. Splits of all rows of `X` are restricted
        to them. None: five folds, or as many as the smallest public class allows, at least two.
    guide : bool, default=True
        Whether candidates are cross-validated on the public rows. False: one fit for each
        candidate, and `cv_results_` holds the parameters and released scores only. Must be False
        with `Kusner2015` and a secret trajectory; may be False with "gaussian", which then scores
        all `n_iter` candidates privately; must be True with the other mechanisms.
    memory : str, path, joblib.Memory or None, default=None
        As in `DPGridSearchCV`: a folder of public fold scores, to continue an earlier fit.
    refit : bool or str, default=True
        Train the winner on all public rows. A str names the deciding metric. A callable is refused.
    n_jobs : int or None, default=None
        Jobs run in parallel by joblib. The estimator's own has no effect on protected rows.
    verbose : int, default=0
        A line for each public round, with the remaining time of the public folds, above 1 the
        messages of `GridSearchCV`, and the number of models trained for, or on, the protected rows,
        which is public, without times.
    pre_dispatch : int or str, default="2*n_jobs"
        As in `GridSearchCV`.
    error_score : "raise" or numeric, default=np.nan
        Public score of a candidate whose fit or public scoring fails. A candidate that cannot be
        trained on all public rows cannot win.
    return_train_score : bool, default=False
        Whether `cv_results_` includes scores on the public training folds.
    random_state : int, RandomState or None, default=None
        None: fresh secret noise from the operating system and a fixed public design. Anything else
        makes the noise reproducible, which **voids the guarantee** (`SeededNoiseWarning`).

    Attributes
    ----------
    best_params_ : dict
        Released. Parameters of the private choice.
    best_index_ : int
        Released. Its index in `cv_results_["params"]`.
    best_score_ : float
        Released. Noisy score of the winner on the protected rows; absent if none is released (see
        `score_fraction`). With "gaussian", the surrogate's posterior mean at the winner, clipped to
        within one standard deviation of the mean of its noisy scores.
    best_score_std_ : float
        Public, or computed from released values. Standard deviation of the noise of `best_score_`;
        absent without it. With ``mechanism="gaussian"`` that of the surrogate at the winner, or
        larger. For R2 and D2 as in `DPGridSearchCV`.
    best_estimator_ : estimator
        The winner trained on the public rows; absent when `refit=False` and with chunks.
    cv_results_ : dict of ndarrays
        Public. The columns of `GridSearchCV`, from the public rows; batches of candidates whose
        fits all failed are not listed. With "gaussian" also `private_validation_score`, released:
        noisy scores on the protected rows, unbiased and hence possibly outside the range of the
        score; NaN without one. With `Kusner2015` and a secret trajectory it lists the whole
        candidate set, as the visited part is secret. With chunks, parameters and, with "gaussian",
        `private_validation_score` only.
    privacy_ : PrivacyGuarantee
        Of the whole fit.
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
    DPGridSearchCV : All combinations of listed values.
    DPRandomizedSearchCV : Candidates drawn from distributions.
    GaussianTrajectory : Parameters of ``mechanism="gaussian"``.
    Chunks : Every record protected, with any estimator.
    Kusner2015 : Algorithms 1 and 2 of Kusner et al.
    Kusner2015Lipschitz : Algorithm 3 of Kusner et al.

    Notes
    -----
    Neighbours are two data sets of the same size that differ in one protected record. One record
    moves the total integer loss of a candidate by at most the per-record bound B, whatever the
    candidates are, as it is not used in training. Therefore permute-and-flip with weights
    exp(-epsilon loss / (2 B)) is epsilon-DP (McKenna & Sheldon 2020, Theorem 1), and so is discrete
    Laplace noise of scale B / epsilon on the winner's total (Ghosh et al. 2012); the two shares add
    up to `epsilon`. For "gaussian" and the mechanisms of Kusner et al. see their classes, for
    chunks `Chunks`. A record that cannot be read or predicted has the worst loss. It is assumed
    that the estimator predicts each row from that row alone.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon. Permute-and-flip: a new mechanism for differentially private
       selection. NeurIPS 2020.
    .. [2] A. Ghosh, T. Roughgarden, M. Sundararajan. Universally utility-maximizing privacy
       mechanisms. SIAM J. Comput. 41(6), 2012.
    .. [3] M. J. Kusner, J. R. Gardner, R. Garnett, K. Q. Weinberger. Differentially private
       Bayesian optimization. ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skdpbo import DPBayesSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> tree = DecisionTreeClassifier(random_state=0)
    >>> search = DPBayesSearchCV(tree, {"max_depth": (1, 8)}, n_iter=6, epsilon=1.0)
    >>> search = search.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    >>> search.best_params_["max_depth"] in range(1, 9)
    True
    >>> print(search.privacy_)
    The release is (epsilon=1, delta=0)-differentially private for the validation records ...
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseChoiceSearchCV._parameter_constraints,
        "mechanism": [
            StrOptions({*PrivateChoice.SELECTIONS, "gaussian"}),
            GaussianTrajectory,
            Kusner2015,
            Kusner2015Lipschitz,
        ],
        "search_spaces": [dict, list],
        "n_iter": [Interval(numbers.Integral, 1, 10**6, closed="both")],
        "n_initial_points": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_candidates": [Interval(numbers.Integral, 1, 10**6, closed="both")],
        "batch_size": [Interval(numbers.Integral, 1, None, closed="left")],
        "sqrt_beta": [Interval(numbers.Real, 0, None, closed="left")],
        "acquisition": [StrOptions({"ucb", "ei"})],
        "prior_weight": [Interval(numbers.Real, 0, 1e100, closed="both"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        estimator: Any,
        search_spaces: Any,
        *,
        n_iter: int = 32,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        mechanism: Any = "permute_and_flip",
        n_initial_points: int = 5,
        n_candidates: int = 500,
        batch_size: int = 1,
        sqrt_beta: float = 2.0,
        acquisition: str = "ucb",
        prior_weight: float | str = "auto",
        scoring: Any = None,
        loss_bound: float | dict[str, float] | None = None,
        score_fraction: float | str = "auto",
        validation_fraction: float = 0.2,
        protect: Any = "validation",
        neighbours: str = "replace-one",
        cv: Any = None,
        guide: bool = True,
        memory: Any = None,
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
            n_initial_points=n_initial_points,
            n_candidates=n_candidates,
            batch_size=batch_size,
            sqrt_beta=sqrt_beta,
            acquisition=acquisition,
            prior_weight=prior_weight,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            scoring=scoring,
            loss_bound=loss_bound,
            score_fraction=score_fraction,
            validation_fraction=validation_fraction,
            protect=protect,
            neighbours=neighbours,
            cv=cv,
            guide=guide,
            memory=memory,
            refit=refit,
            n_jobs=n_jobs,
            verbose=verbose,
            pre_dispatch=pre_dispatch,
            error_score=error_score,
            return_train_score=return_train_score,
            random_state=random_state,
        )

    def _mechanism(self, guided=True, score_fraction=None):
        # Without public scores these mechanisms only choose from a list.
        if chooses_once(self.mechanism) and not guided:
            return super()._mechanism(guided, score_fraction)
        if isinstance(self.mechanism, Kusner2015 | Kusner2015Lipschitz) and not guided:
            raise ValueError(
                'mechanism cannot be one of Kusner et al. with protect="all": what they assume of '
                "the scores is about validation records of models that are trained on public rows."
            )
        return bayes_mechanism(
            self.mechanism,
            epsilon=self.epsilon,
            delta=self.delta,
            score_fraction=self._score_share() if score_fraction is None else score_fraction,
            prior_weight=self.prior_weight,
            neighbours=self.neighbours,
            design={name: getattr(self, name) for name in _DESIGN},
        )

    def _protection(self):
        protection = super()._protection()
        if isinstance(protection, PrivateModelsProtection):
            raise ValueError(
                'protect="all" tunes private estimators with DPGridSearchCV and '
                "DPRandomizedSearchCV, not with DPBayesSearchCV. Here protect=Chunks() takes any "
                "estimator, and releases no model."
            )
        return protection

    def _candidates(self):
        space = SearchSpace(self.search_spaces, name="search_spaces")
        public = check_random_state(self._public_seed())
        # A finite set that is fixed in advance, independent of protected scores.
        follows_scores = self.protect == "validation" or not chooses_once(self.mechanism)
        # A search that is not guided by scores visits all of its n_iter candidates.
        size = max(self.n_candidates, self.n_iter) if follows_scores else self.n_iter
        candidates = space.candidates(size, random_state=public)
        if space.is_finite:  # the first points of a grid would be in one corner
            candidates = [candidates[k] for k in public.permutation(len(candidates))]
        if isinstance(self.mechanism, Kusner2015Lipschitz):
            self.mechanism.lambdas(candidates)  # a bad lambda_name is refused before any charge
        return space, candidates
