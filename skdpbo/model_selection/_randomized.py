"""Private search over candidates drawn from distributions."""

import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from skdpbo.model_selection._choosing import BaseChoiceSearchCV
from skdpbo.model_selection._sklearn import Interval
from skdpbo.model_selection.space._search_space import SearchSpace
from skdpbo.privacy._checks import check_count


class DPRandomizedSearchCV(BaseChoiceSearchCV):
    """Randomized search whose choice and score are differentially private.

    The protected records, given as `X_val` and `y_val` or set apart by `validation_fraction`, are
    private. Their releases are the choice and one score, by an epsilon-DP mechanism; everything
    else comes from public rows. With ``protect="all"`` every record is private, training records
    included: the estimator is differentially private itself, or it is trained on many chunks of the
    rows.

    Parameters
    ----------
    estimator : estimator object
        Any scikit-learn estimator. It is trained on public rows only. With private selection: one
        that is differentially private, such as `DPSparseGPRegressor`, alone or in a pipeline with
        steps that learn nothing from the rows (see `PrivateSelection`). The search sets its
        ``epsilon`` and ``delta``.
    param_distributions : dict, list of dicts or list of tuples (dict, int)
        Names and lists of values, frozen scipy distributions, ranges `(low, high)` and `(low,
        high, "log-uniform")`, or ``Real``, ``Integer`` and ``Categorical`` of scikit-optimize; a
        range of two integers gives integers, both ends included. A tuple is a space and its number
        of distinct candidates. Candidates are drawn independently of all data.
    n_iter : int, default=10
        Number of candidates, at least 1; not used with tuples.
    epsilon : float, default=1.0
        Privacy budget of the whole fit, in (0, inf). Smaller is more private.
    delta : float, default=1e-5
        Delta of the guarantee of the whole fit, in [0, 1). Used with
        ``protect="all"`` and a private estimator; everything else here is pure and has delta 0.
    mechanism : {"permute_and_flip", "exponential"}, default="permute_and_flip"
        Selection mechanism. Permute-and-flip is never worse in expectation than the exponential
        mechanism.
    scoring : str, list, tuple, dict, PerRecordScorer or None, default=None
        A score that is the mean of bounded per-record losses: `"accuracy"`, `"neg_log_loss"`,
        `"neg_brier_score"`, `"neg_mean_squared_error"`, `"neg_mean_absolute_error"`, or the result
        of `make_per_record_scorer`. ROC AUC, F1, balanced accuracy, R2 and similar metrics are
        supported if validation records are protected, and many of them with ``protect="all"``. None
        means accuracy for classifiers and `"neg_mean_squared_error"` for regressors; `score` is
        then the estimator's own. With several metrics, `refit` names the deciding one; the others
        are computed on public rows only.
    loss_bound : float, dict or None, default=None
        Largest loss of one record for unbounded losses, in their units, in [1e-100, 1e100]; larger
        losses are clipped. A dict has one for each name of a score. None: for squared and absolute
        errors the largest loss of the middle of public `y_bounds` of a private regressor, else a
        default that does not depend on the data, with a `DefaultBoundsWarning`. (A search over
        private estimators without `classes` does not know the number of classes: give
        `"neg_brier_score"` the bound 1 for two.)
    score_fraction : float or "auto", default="auto"
        Share of `epsilon` spent on `best_score_`, in [0, 1). 0: no score is released. "auto": 0.1;
        up to 0.3 for scores that are not means, such as ROC AUC and F1. For these, and with chunks,
        no score is released if it would be mostly noise (a standard deviation above 0.25 of its
        range), as with the default chunks up to epsilon 10.
    validation_fraction : float, default=0.2
        Share of the rows that is protected when `fit` is not given `X_val`, in (0, 1). Row 0 is
        always public.
    protect : {"validation", "all"}, Chunks or PrivateSelection, default="validation"
        Which records the guarantee covers: the validation records, or all of them. "all" means
        `PrivateSelection` if the estimator states its own guarantee, and `Chunks` otherwise; either
        may be given with its parameters. No row is public then and nothing is cross-validated:
        `cv`, `return_train_score`, `memory`, several metrics and ``error_score="raise"`` are
        refused, and `guide` is not used. With chunks no model is released, whatever `refit` is.
        With private models `mechanism` and `score_fraction` are not used, as the score costs
        nothing extra.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        Relation of neighbouring data sets. "add-remove": one protected record more or less, and
        the number of protected records is secret. As an added record cannot reduce a total loss,
        the choice runs at twice the rate, with about half the regret. Half of the score's share is
        spent on a noisy count, by which the score is divided. Needs `X_val`,
        ``protect="validation"`` and a score that is a mean of losses of records.
    cv : int, cross-validation generator or iterable, default=None
        As in `GridSearchCV`; splits the public rows only. Splits of all rows of `X` are restricted
        to them. None: five folds, or as many as the smallest public class allows, at least two.
    guide : bool, default=True
        Whether candidates are cross-validated on the public rows. False: one fit for each
        candidate, and `cv_results_` holds only the parameters.
    memory : str, path, joblib.Memory or None, default=None
        Folder that stores the public fold scores of candidates, so that a fit with the same public
        rows, estimator, folds and scoring trains only new candidates, also after an interruption.
        Protected rows and releases are not stored, and each fit is charged. Needs ``guide=True``.
        Only you should have write access to it; after editing your functions, use a new folder.
    halving : int or None, default=None
        Number of candidates that remain for the private choice, at least 2. The others are dropped
        by scikit-learn's successive halving (`HalvingGridSearchCV`, factor 3) on growing random
        parts of the public rows, so that many candidates cost little. None: all candidates remain,
        as with too few public rows for a first part (then with a warning). Needs ``guide=True`` and
        ``protect="validation"``.
    refit : bool or str, default=True
        Train the winner on all public rows. A str names the deciding metric. A callable is refused.
        With ``protect="all"`` and a private estimator: release the winning model.
    n_jobs : int or None, default=None
        Jobs run in parallel by joblib. The estimator's own has no effect on protected rows.
    verbose : int, default=0
        As in `GridSearchCV` for the public cross-validation, and the number of models trained for,
        or on, the protected rows, which is public, without times. With private selection a heading
        only, as the number of trials is secret (unless ``pad_trials=True``).
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
        `score_fraction`; the error gives the reason). With private selection the best of several
        noisy scores, too high by about one `best_score_std_`, at times two.
    best_score_std_ : float
        Public, or computed from released values. Standard deviation of the noise of `best_score_`;
        absent without it. For R2 and D2 half of the distance to the farthest score within two
        standard deviations of the noise.
    best_estimator_ : estimator
        The winner trained on the public rows, or the winning private model, trained again if only a
        part of the rows was used for tuning; absent when `refit=False` and with chunks. Its
        ``privacy_`` is that of the whole search.
    cv_results_ : dict of ndarrays
        Public. The columns of `GridSearchCV`, from the public rows. With ``protect="all"`` the
        parameters of all candidates; with ``accounting="composition"`` also, released, the column
        ``private_validation_score`` (NaN where the training failed).
    halving_results_ : dict of ndarrays
        Public. ``cv_results_`` of the rounds of `halving`, with the columns ``iter`` and
        ``n_resources`` (rows); absent if no candidate was dropped. `cv_results_` then lists the
        remaining candidates.
    privacy_ : PrivacyGuarantee
        Guarantee of the whole fit.
    scorer_ : callable or dict
        Scorer used by `score`.
    n_splits_ : int
        Number of public folds; absent if there are none, as with ``guide=False``.
    refit_time_ : float
        Seconds of the public refit; absent without one.
    expected_trials_ : float
        Public. Mean of the secret number of trials; only with private selection.
    hit_probability_ : float
        Public. Probability that at least one trial draws one of the best tenth of the candidates
        (the best one, of ten or fewer), whichever they are. Only with private selection.
    multimetric_ : bool
    classes_ : ndarray of shape (n_classes,)
        Class labels of the winner.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    See Also
    --------
    DPGridSearchCV : All combinations of listed values.
    DPBayesSearchCV : Candidates proposed by a Gaussian process.
    PrivateSelection : The number of trials with ``protect="all"`` and a private estimator.
    Chunks : Sample and aggregate with its parameters.

    Notes
    -----
    Neighbours are two data sets of the same size that differ in one protected record. One record
    moves the total integer loss of a candidate by at most the per-record bound B, whatever the
    candidates are, as it is not used in training. Therefore permute-and-flip with weights
    exp(-epsilon loss / (2 B)) is epsilon-DP (McKenna & Sheldon 2020, Theorem 1), and so is discrete
    Laplace noise of scale B / epsilon on the winner's total (Ghosh et al. 2012); the two shares add
    up to `epsilon`. A record that cannot be read or predicted has the worst loss. It is assumed
    that the estimator predicts each row from that row alone.

    *Every record private.* Private estimators: see `PrivateSelection`, which also lists the steps
    that a pipeline may have. Any other: sample and aggregate, see `Chunks`.

    References
    ----------
    .. [1] R. McKenna, D. Sheldon. Permute-and-flip: a new mechanism for differentially private
       selection. NeurIPS 2020.
    .. [2] A. Ghosh, T. Roughgarden, M. Sundararajan. Universally utility-maximizing privacy
       mechanisms. SIAM J. Comput. 41(6), 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skdpbo import DPRandomizedSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> tree = DecisionTreeClassifier(random_state=0)
    >>> search = DPRandomizedSearchCV(tree, {"max_depth": (1, 8)}, n_iter=4, epsilon=1.0)
    >>> search = search.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    >>> search.best_params_["max_depth"] in range(1, 9)
    True
    >>> print(search.privacy_)
    The release is (epsilon=1, delta=0)-differentially private for the validation records ...
    """

    _parameter_constraints: ClassVar[dict] = {
        **BaseChoiceSearchCV._parameter_constraints,
        "param_distributions": [dict, list],
        "halving": [Interval(numbers.Integral, 2, None, closed="left"), None],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: int = 10,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        mechanism: Any = "permute_and_flip",
        scoring: Any = None,
        loss_bound: float | dict[str, float] | None = None,
        score_fraction: float | str = "auto",
        validation_fraction: float = 0.2,
        protect: Any = "validation",
        neighbours: str = "replace-one",
        cv: Any = None,
        guide: bool = True,
        memory: Any = None,
        halving: int | None = None,
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
            param_distributions=param_distributions,
            n_iter=n_iter,
            halving=halving,
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

    def _candidates(self):
        name, given = "param_distributions", self.param_distributions
        several = isinstance(given, list) and any(isinstance(sub, tuple) for sub in given)
        pairs = [] if several else [(SearchSpace(given, name=name), self.n_iter)]
        for k, pair in enumerate(given if several else ()):
            own = f"{name}[{k}]"
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise ValueError(f"{own} must be a tuple (dict, number of candidates), as others.")
            check_count(pair[1], f"{own}[1]", least=1)
            pairs.append((SearchSpace(pair[0], name=f"{own}[0]"), pair[1]))
        # One source for the whole list, so that equal spaces have different draws.
        source = check_random_state(self._public_seed())
        drawn = [setting for sub, n in pairs for setting in sub.sample(n, random_state=source)]
        return pairs, drawn
