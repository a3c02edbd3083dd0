"""Curator of the outsourced protocol, who releases rows once and then answers queries."""

import numbers
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpbo._parameters import bounds_or_default
from skdpbo.gaussian_process.outsourced._answers import AnswerBook, AnswerNoise
from skdpbo.gaussian_process.outsourced._curator_base import RowReleaser
from skdpbo.mechanisms import noise_source
from skdpbo.privacy import compose
from skdpbo.privacy._checks import check_count, check_positive, check_within


class PrivateProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowReleaser):
    r"""Curator of outsourced optimisation: releases noisy rows and answers about them.

    The curator keeps the records and this object. `fit` releases a noisy copy of the rows once,
    as the frozen `release_`. A modeler that has nothing else asks for values y by the number of a
    row, and `answer` gives each as often as agreed.

    Private: the position of every row of X, for data sets in which one row is moved by at most
    `displacement` in l2 norm; a row that is moved t times as far costs t times as much, and
    `replacement_guarantee` says what replacing a row by any other costs. Theorem: the noise of a
    row is l2-Laplace, of density proportional to :math:`\exp(-\epsilon\|z\|/\Delta)`, or Gaussian,
    :math:`\Delta` the largest move of the computed row. The values y are not protected unless
    `answer_epsilon` is given, and the queried rows are known to the modeler.

    Parameters
    ----------
    n_components : int, default=None
        Number of columns of the released rows, at most that of X. Fewer: the rows are multiplied
        by a public random matrix with orthogonal columns first, for inputs of many dimensions.
        None: as many as X has.
    mechanism : {"l2_laplace", "gaussian", "kharkovskii2020"}, default="l2_laplace"
        Mechanism that makes the rows private. "l2_laplace": the smallest noise in few dimensions
        (up to 8, 12 or 16 at epsilon 0.1, 1 or 3). "gaussian": the smallest in many.
        "kharkovskii2020": the published transform, for study: it reveals the rows, with a
        `VoidGuaranteeWarning`.
    epsilon : float, default=1.0
        Privacy loss bound of the rows, > 0.
    delta : float, default=1e-5
        Delta of the guarantee, in (0, 1). Not used by "l2_laplace".
    data_norm : float, default=None
        Public norm N, > 0, in the units of X; longer rows are shortened to it. None: three times
        the square root of the number of features, with a `DefaultBoundsWarning`, unless `X_bounds`
        are given.
    displacement : float, default=1.0
        The move of a row that is hidden, > 0, in the units of X (l2 norm).
    X_bounds : tuple (low, high), default=None
        Public box for the rows in place of `data_norm`, in the units of X; numbers, or vectors
        with one value for each feature. Rows outside are clipped.
    answers_per_row : int, default=1
        How often a row is answered, in [1, 10^9].
    n_answers : int, default=None
        How many answers are given in all, at least 1; None for no limit but `answers_per_row`.
    answer_epsilon : float, default=None
        Privacy loss bound of all answers together, > 0; None for exact answers.
    answer_delta : float, default=1e-5
        Delta of the guarantee of the answers, in (0, 1).
    y_bounds : tuple (low, high), default=None
        Public range of y, in its units, with `answer_epsilon`; values outside are clipped. None:
        (-3, 3), with a `DefaultBoundsWarning`.
    random_state : None, int or RandomState, default=None
        None draws the noise from the operating system. Anything else makes it reproducible, for
        tests only: the guarantees are void and a `SeededNoiseWarning` is given. Read by `fit`, also
        for the answers.

    Attributes
    ----------
    release_ : ProjectionRelease
        For the modeler. Released.
    privacy_ : PrivacyGuarantee
        Guarantee of the release of the rows. Public.
    answer_privacy_ : PrivacyGuarantee or None
        Guarantee of all answers together; None if they are exact. Public.
    answers_ : list of tuple (int, float)
        The answers so far: number of the row and what was given. Released.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        When X has string column names.

    See Also
    --------
    GPUCBModeler : The modeler.
    ProjectedGP : Regression on released rows.

    Notes
    -----
    The object holds y and no row of X. A pickle or copy does not hold y and does not answer, so
    that limits on answers hold. All attributes listed above may be published. The result of
    `exact_rows` is as sensitive as the rows.

    Further assumptions: the number of rows, the columns and that every value is a finite
    number are public; the parameters are chosen without the records; time and memory are not
    observed. A record whose row moves and whose y changes has both guarantees, composed, and this
    is what a `PrivacyLedger` is charged.

    References
    ----------
    D. Kharkovskii, Z. Dai, B. K. H. Low, Private outsourced Bayesian optimization, ICML 2020.
    M. E. Andres et al., Geo-indistinguishability, CCS 2013. K. Kenthapadi et al., Privacy via the
    Johnson-Lindenstrauss transform, Journal of Privacy and Confidentiality 5(1), 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbo.gaussian_process import PrivateProjection
    >>> X = np.linspace(-5, 5, 200).reshape(100, 2)
    >>> y = X.sum(axis=1)
    >>> curator = PrivateProjection(epsilon=2.0, X_bounds=(-5, 5), n_answers=10)
    >>> curator.fit_transform(X, y).shape
    (100, 2)
    >>> round(curator.release_.noise_std, 3)
    0.866
    >>> curator.answer(3)
    -9.34673366834171
    >>> curator.replacement_guarantee().epsilon > 14 * curator.privacy_.epsilon
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        mechanism: Any = "l2_laplace",
        epsilon: float = 1.0,
        delta: float = 1e-5,
        data_norm: float | None = None,
        displacement: float = 1.0,
        X_bounds: Any = None,
        answers_per_row: int = 1,
        n_answers: int | None = None,
        answer_epsilon: float | None = None,
        answer_delta: float = 1e-5,
        y_bounds: Any = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.displacement = displacement
        self.X_bounds = X_bounds
        self.answers_per_row = answers_per_row
        self.n_answers = n_answers
        self.answer_epsilon = answer_epsilon
        self.answer_delta = answer_delta
        self.y_bounds = y_bounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the rows of X, and be ready to answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Protected.
        y : array-like of shape (n_samples,), default=None
            The values to answer with; None if each is measured at its query and passed to
            `answer`. Protected by `answer_epsilon`, public without it.

        Returns
        -------
        self : object
            The curator, with `release_` and `privacy_`.

        Raises
        ------
        ValueError, TypeError
            On a bad parameter or shape; on NaN and infinity, reported for all records
            together.
        BudgetExceededError
            If the active `PrivacyLedger` cannot pay; nothing has been touched then.
        """
        noise = self._answer_noise()
        answer_privacy = (
            None if noise is None else noise.guarantee.voided_if_seeded(self.random_state)
        )
        rows_privacy = self.privacy_guarantee()
        # All answers are charged together with the rows, before the first value is read. Exact
        # answers have no guarantee: y is public by the owner's decision.
        total = rows_privacy if answer_privacy is None else compose(rows_privacy, answer_privacy)

        def check(shape, y):
            if y is not None and y.size != len(y):
                raise ValueError("y must be a vector: one value for each row of X.")
            return self._plan(*shape)

        X, y, plan, source = self._charged_rows(X, y, total, check)
        # Stated again: the domain may depend on the number of columns, which is known now.
        guarantee = self._guarantees(self.n_features_in_)[0]
        release = self._release_rows(
            X,
            plan,
            guarantee,
            source,
            answers_per_row=int(self.answers_per_row),
            n_answers=self.n_answers,
            answer_noise_std=0.0 if noise is None else noise.std,
            answer_guarantee=answer_privacy,
        )
        # Kept from this fit, whose guarantees depend on it; the parameter may be set later.
        self._seed = self.random_state
        self._book = AnswerBook(
            len(X),
            None if y is None else np.array(y, dtype=np.float64).ravel(),
            noise=noise,
            answers_per_row=int(self.answers_per_row),
            n_answers=self.n_answers,
        )
        self.answer_privacy_ = answer_privacy
        self.answers_: list[tuple[int, float]] = []
        return self._close(release, guarantee)

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Release the rows of X, and be ready to answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Protected.
        y : array-like of shape (n_samples,), default=None
            The values to answer with, as in `fit`.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            The released rows, ``release_.Z``.
        """
        # The arrays of a release are read-only, those of a transformer are not.
        return self.fit(X, y).release_.Z.copy()

    def exact_rows(self, X: Any) -> np.ndarray:
        """Protected: return rows under the fitted map, without noise, for the curator's own use.

        There is no `transform`: in pipelines scikit-learn calls ``fit(X).transform(X)`` for
        ``fit_transform(X)``, which would return rows without noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Protected.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Protected.
        """
        check_is_fitted(self)
        return self._map.exact(validate_data(self, X, dtype=np.float64, reset=False))

    def answer(self, index: int, value: Any = ...) -> float:
        """Give the value y of a row, and log it.

        Parameters
        ----------
        index : int
            Number of the row, in [0, n) for n released rows.
        value : float
            Measured value, if y was not given to `fit`. With `answer_epsilon` anything but a finite
            number, also None, counts as the centre of `y_bounds`.

        Returns
        -------
        y : float
            Released: with noise where `answer_epsilon` was given.

        Raises
        ------
        IndexError
            When there is no such row.
        ValueError, TypeError
            If a value is missing, or given although `fit` had y, or an exact answer is not a finite
            number.
        RuntimeError
            If the limit for this row, or for all rows together, is reached, or this object is a
            copy.
        """
        check_is_fitted(self)
        if self._book is None:
            raise RuntimeError("A copied or pickled curator does not answer: its y was not copied.")
        seed = self._seed
        if isinstance(seed, numbers.Integral):  # a seeded run needs other noise for each answer
            seed = np.random.default_rng([int(seed), 1 + len(self.answers_)])
        row, answer = self._book.answer(index, value, noise_source(seed))
        self.answers_.append((row, answer))
        return answer

    def _answer_noise(self):
        """Check the limits; return the noise of the answers, None for exact ones."""
        check_count(self.answers_per_row, "answers_per_row", most=10**9)
        limits = [self.answers_per_row]
        if self.n_answers is not None:
            check_count(self.n_answers, "n_answers")
            limits.append(self.n_answers)
        delta = check_within(self.answer_delta, "answer_delta", "(0, 1)")
        if self.answer_epsilon is None:
            if self.y_bounds is not None:
                raise ValueError("y_bounds is for noisy answers: give answer_epsilon, too.")
            return None
        low, high = bounds_or_default(self.y_bounds, 1, "y_bounds", self)
        return AnswerNoise(
            epsilon=check_positive(self.answer_epsilon, "answer_epsilon"),
            delta=delta,
            y_bounds=(low[0], high[0]),
            answers_per_row=min(limits),  # largest number of answers about one record
        )

    @property
    def _n_features_out(self):
        """Number of columns of the released rows, for `get_feature_names_out`."""
        return self.release_.n_components

    def __getstate__(self):
        # Without the book, which holds y: a copy would count its answers by itself.
        state = super().__getstate__()
        return {**state, "_book": None} if "_book" in state else state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags
