"""Private Bayesian optimisation: a Gaussian process proposes, a mechanism chooses."""

import numbers
import re
from typing import ClassVar

import numpy as np

from skdpbo.model_selection._base import BasePrivateSearchCV
from skdpbo.model_selection._prior import automatic_prior_weight, public_offsets
from skdpbo.model_selection._proposals import UpperConfidenceProposer
from skdpbo.model_selection._sklearn import Interval, StrOptions
from skdpbo.model_selection._space import SearchSpace

__all__ = ["DPBayesSearchCV"]


class DPBayesSearchCV(BasePrivateSearchCV):
    """Bayesian optimisation whose choice and score are differentially private.

    GP-UCB on the public cross-validation scores proposes candidates from a finite,
    data-independent set; the winner among those visited is chosen privately on the protected
    records.

    What is private: the protected records, given as `X_val` and `y_val` or set apart by
    `validation_fraction`. Released from them are the choice and one score, by an epsilon-DP
    mechanism; everything else comes from public rows.

    Parameters
    ----------
    estimator : estimator object
        Any scikit-learn estimator. It is trained on public rows only.
    search_spaces : dict or list of dicts
        Names and lists of categories, frozen scipy distributions, or ranges `(low, high)` and
        `(low, high, "log-uniform")`; a range of two integers gives integers, both ends included. A
        list of dicts is a choice between spaces.
    n_iter : int, default=32
        Number of candidates that are evaluated.
    epsilon : float, default=1.0
        Privacy budget of the whole fit, in (0, inf). Smaller is more private.
    delta : float, default=1e-5
        In [0, 1). Not used by the pure mechanisms of this class, whose guarantee has delta 0.
    mechanism : {"permute_and_flip", "exponential"}, default="permute_and_flip"
        How the winner is chosen. Permute-and-flip is never worse in expectation than the
        exponential mechanism.
    n_initial_points : int, default=5
        Candidates evaluated before the surrogate is used.
    n_candidates : int, default=500
        Size of the finite candidate set; the whole space if it has no more points.
    batch_size : int, default=1
        Candidates proposed at a time; with `n_jobs` they are evaluated in parallel.
    sqrt_beta : float, default=2.0
        Weight of the posterior standard deviation in the upper confidence bound, >= 0.
    prior_weight : "auto" or float, default="auto"
        Weight c >= 0 of the public score in the private choice, which maximises (protected score
        + c * public score) up to noise. It costs no budget. "auto" weighs the selection noise
        against the public scores' own error and goes to 0 where protected records abound; 0
        switches it off.
    scoring : str, list, tuple, dict, PerRecordScorer or None, default=None
        A score that is the mean of bounded per-record losses: `"accuracy"`, `"neg_log_loss"`,
        `"neg_brier_score"`, `"neg_mean_squared_error"`, `"neg_mean_absolute_error"`, or the result
        of `make_per_record_scorer`. None means accuracy for classifiers and
        `"neg_mean_squared_error"` for regressors; `score` is then the estimator's own. With
        several metrics, `refit` names the one that decides; the others are computed on public rows
        only.
    loss_bound : float or None, default=None
        Largest loss of one record for the losses that have no bound of their own, in the units of
        the loss; larger losses are clipped. None takes a default that does not depend on the data,
        with a `DefaultBoundsWarning`.
    score_fraction : float, default=0.1
        Share of `epsilon` spent on `best_score_`, in [0, 1). 0: no score is released.
    validation_fraction : float, default=0.2
        Share of the rows that is protected when `fit` is not given `X_val`, in (0, 1). Row 0 is
        always public.
    cv : int, cross-validation generator or iterable, default=None
        As in `GridSearchCV`; splits the public rows only.
    guide : bool, default=True
        Whether candidates are cross-validated on the public rows. False: one fit a candidate,
        `cv_results_` holds only the parameters. Not possible here: the proposals need public
        scores.
    refit : bool or str, default=True
        Train the winner on all public rows. A str names the deciding metric. A callable is refused.
    n_jobs : int or None, default=None
        Number of jobs run in parallel by joblib.
    verbose : int, default=0
        Messages about the public cross-validation.
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
        Released. Noisy score of the winner on the protected rows; absent when `score_fraction=0`.
    best_estimator_ : estimator
        The winner trained on the public rows; absent when `refit=False`.
    cv_results_ : dict of ndarrays
        Public. The columns of `GridSearchCV`, from the public rows.
    privacy_ : PrivacyGuarantee
        What is promised, to whom, on which assumptions.
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
    feature_names_in_ : ndarray of shape (n_features_in_,)

    See Also
    --------
    DPGridSearchCV : All combinations of listed values.
    DPRandomizedSearchCV : Candidates drawn from distributions.

    Notes
    -----
    Neighbours are two data sets of the same size that differ in one protected record. One record
    moves the total integer loss of a candidate by at most the per-record bound B, whatever the
    candidates are, because it trains nothing. So permute-and-flip with weights exp(-epsilon loss /
    (2 B)) is epsilon-DP (McKenna & Sheldon 2020, Theorem 1), and discrete Laplace noise of scale B
    / epsilon on the winner's total is epsilon-DP (Ghosh et al. 2012); the two shares add up to
    `epsilon`. A record that cannot be read or predicted counts with the worst loss. It is assumed
    that the estimator predicts each row from that row alone.

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
        **BasePrivateSearchCV._parameter_constraints,
        "search_spaces": [dict, list],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_initial_points": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_candidates": [Interval(numbers.Integral, 1, None, closed="left")],
        "batch_size": [Interval(numbers.Integral, 1, None, closed="left")],
        "sqrt_beta": [Interval(numbers.Real, 0, None, closed="left")],
        "prior_weight": [Interval(numbers.Real, 0, None, closed="left"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        estimator,
        search_spaces,
        *,
        n_iter=32,
        epsilon=1.0,
        delta=1e-5,
        mechanism="permute_and_flip",
        n_initial_points=5,
        n_candidates=500,
        batch_size=1,
        sqrt_beta=2.0,
        prior_weight="auto",
        scoring=None,
        loss_bound=None,
        score_fraction=0.1,
        validation_fraction=0.2,
        cv=None,
        guide=True,
        refit=True,
        n_jobs=None,
        verbose=0,
        pre_dispatch="2*n_jobs",
        error_score=np.nan,
        return_train_score=False,
        random_state=None,
    ):
        super().__init__(
            estimator=estimator,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            scoring=scoring,
            loss_bound=loss_bound,
            score_fraction=score_fraction,
            validation_fraction=validation_fraction,
            cv=cv,
            guide=guide,
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
        self.n_initial_points = n_initial_points
        self.n_candidates = n_candidates
        self.batch_size = batch_size
        self.sqrt_beta = sqrt_beta
        self.prior_weight = prior_weight

    def _check_parameters(self):
        super()._check_parameters()
        if not self.guide:
            raise ValueError("guide must be True: the candidates are proposed from public scores.")

    def _all_candidates(self):
        space = SearchSpace(self.search_spaces, name="search_spaces")
        return space.candidates(
            max(self.n_candidates, self.n_iter), random_state=self._public_random_state()
        )

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        candidates = self._session().candidates
        space = SearchSpace(self.search_spaces, name="search_spaces")
        proposer = UpperConfidenceProposer(
            space.encode(candidates),
            n_iter=self.n_iter,
            n_initial_points=self.n_initial_points,
            batch_size=self.batch_size,
            sqrt_beta=self.sqrt_beta,
        )
        column = f"mean_test_{self._session().metric}"

        def propose(results):
            if results is not None:
                proposer.tell(results[column])
            return [candidates[k] for k in proposer.ask()]

        self._evaluate_publicly(evaluate_candidates, propose, callback_ctx)

    def _choose(self, candidates, results=None):
        session = self._session()
        best, total = self._private_choice().release(
            self._protected_totals(candidates),
            self._public_offsets(session, results),
            units=session.scorer.units,
            n_records=session.protected.n_records,
            source=session.source,
        )
        session.release_score(total)
        return best

    def _public_offsets(self, session, results):
        metric, scorer = session.metric, session.scorer
        n_records = session.protected.n_records
        weight = self.prior_weight
        if weight == "auto":
            splits = re.compile(rf"split\d+_test_{re.escape(metric)}")
            weight = automatic_prior_weight(
                np.array([results[name] for name in results if splits.fullmatch(name)]),
                n_records=n_records,
                epsilon=float(self._private_choice().epsilon_choice),
                bound=scorer.bound,
            )
        return public_offsets(
            results[f"mean_test_{metric}"],
            weight,
            n_records=n_records,
            units=scorer.units,
            bound=scorer.bound,
        )
