"""Modeler of the outsourced protocol: GP-UCB over the rows of a release."""

import math
from typing import Any

import numpy as np

from skdpbo.gaussian_process.outsourced._noisy_kernels import NoisyRowsKernel
from skdpbo.gaussian_process.outsourced._row_release import ProjectionRelease
from skdpbo.privacy._checks import (
    check_choice,
    check_count,
    check_flag,
    check_index,
    check_real,
    check_within,
)
from skdpbo.surrogate import CandidatePosterior, gp_ucb_sqrt_beta, select_batch

# Answers are not trusted: larger ones would make the posterior overflow.
LARGEST_ANSWER = 1e150
_SMALLEST_VARIANCE = 1e-100


class GPUCBModeler:
    r"""Modeler that chooses rows of a release to query, by the upper confidence bound of a GP.

    It has a `ProjectionRelease` and the answers, and never the curator's rows. So all that it
    computes is post-processing: it may run anywhere and costs no privacy. Its queries are a
    function of the release and of the answers so far.

    In round t it asks for the row with the largest :math:`\mu_t + \sqrt{\beta_t}\,\sigma_t`
    (Kharkovskii et al. 2020, Algorithm 2), where the paper has
    :math:`\beta_t = 2\log(n t^2 \pi^2 / (6 \delta'))`, :math:`\delta' = \delta_{ucb} / 2`
    (``sqrt_beta=None``). Unlike there, the Gaussian process models the noise of the rows: its
    covariance is the mean of the kernel over that noise (`release.noise_std`), and rows outside of
    the public domain (`release.domain`) are moved to its edge.

    Parameters
    ----------
    release : ProjectionRelease
        Release of the curator.
    kernel : sklearn.gaussian_process.kernels.Kernel
        Prior covariance of f on rows without noise, in squared units of the answers: an isotropic
        kernel made of ConstantKernel, RBF, Matern and RationalQuadratic, their sums and products;
        ``RBF(l)`` is the paper's. Length-scales are in the units of the rows, from 1e-50 to 1e50,
        nu and alpha at least 0.2, the variance at least 1e-100. Nothing is fitted here. It must be
        chosen from public knowledge or answers, never from the curator's own rows.
    noise_variance : float, default=1e-5
        Variance of an answer apart from the noise that the curator adds to it
        (`release.answer_noise_std`, which is counted too), >= 0.
    prior_mean : float, default=0.0
        Prior mean of f, finite, in the units of the answers.
    delta_ucb : float, default=0.05
        Probability that some confidence interval of GP-UCB fails, in (0, 1). Not a privacy
        parameter.
    sqrt_beta : float or None, default=5.0
        Weight of exploration, >= 0. None for the paper's :math:`\sqrt{\beta_t}`, which grows with
        t from about 5 to 6.5, for which regret is bounded, and with which `delta_ucb` counts. The
        default did better where rows were nearly exact, and as well where they were noisy.
    maximize : bool, default=True
        Whether large answers are sought, or small ones.
    random_state : int or None, default=0
        Seed of the first row, at least 0, which is drawn uniformly. Public: no noise is drawn here.

    Attributes
    ----------
    rows : ndarray of shape (n, r)
        The released rows, moved into the public domain. Released.
    posterior : CandidatePosterior
        Of f, or of -f where `maximize` is false. Released: a function of released values.

    See Also
    --------
    optimize : Runs curator and modeler in one process.
    run_queries : Runs a modeler whose curator is elsewhere.

    Notes
    -----
    A step costs O(n t) time and all of them together at most 2 T + 16 numbers of memory for each
    row: fifty steps over 10 000 rows take some hundredths of a second with an RBF kernel, about 30
    times as long with a Matern or a rational quadratic one, which are sums of RBF kernels here.
    Where the curator answers a row more than once and adds no noise, a second answer tells
    nothing new.

    References
    ----------
    D. Kharkovskii, Z. Dai, B. K. H. Low, Private outsourced Bayesian optimization, ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skdpbo.gaussian_process import GPUCBModeler, ProjectionRelease
    >>> from skdpbo.gaussian_process.outsourced import Box
    >>> from skdpbo.mechanisms import L2Laplace
    >>> X = np.linspace(-10, 10, 201)[:, None]  # the curator's rows and outcomes
    >>> y = np.cos(X[:, 0] / 3)
    >>> mechanism = L2Laplace(epsilon=2.0, displacement=1.0, dimension=1)
    >>> release = ProjectionRelease(
    ...     Z=mechanism.release(X), noise_std=2**0.5 / 2, domain=Box([-10.0], [10.0]),
    ...     projection=None, mechanism="l2_laplace", guarantee=mechanism.guarantee,
    ...     displacement=1.0, data_norm=10.0, n_answers=20)
    >>> modeler = GPUCBModeler(release, kernel=RBF(3.0), sqrt_beta=2.0)
    >>> for _ in range(20):
    ...     row = modeler.ask()
    ...     modeler.tell(row, y[row])
    >>> bool(y[modeler.best()] > 0.9)
    True
    """

    def __init__(
        self,
        release: Any,
        *,
        kernel: Any,
        noise_variance: Any = 1e-5,
        prior_mean: Any = 0.0,
        delta_ucb: float = 0.05,
        sqrt_beta: float | None = 5.0,
        maximize: bool = True,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        if not isinstance(release, ProjectionRelease):
            raise TypeError("release must be a ProjectionRelease.")
        noise_variance = check_within(noise_variance, "noise_variance", "[0, inf)")
        prior_mean = float(check_real(prior_mean, "prior_mean"))
        delta_ucb = check_within(delta_ucb, "delta_ucb", "(0, 1)")
        if random_state is not None:
            check_count(random_state, "random_state", least=0)
        if sqrt_beta is not None:
            sqrt_beta = check_within(sqrt_beta, "sqrt_beta", "[0, inf)")
        self.release = release
        self.rows = release.rows_in_domain()
        covariance = NoisyRowsKernel(self.rows, kernel=kernel, noise_std=release.noise_std)
        if not _SMALLEST_VARIANCE <= covariance.variance < math.inf:
            raise ValueError(f"kernel must have a variance of at least {_SMALLEST_VARIANCE}.")
        self.delta_ucb = delta_ucb
        self.sqrt_beta = sqrt_beta
        self.maximize = check_flag(maximize, "maximize")
        self._sign = 1.0 if maximize else -1.0  # the posterior is that of sign times f
        self.posterior = CandidatePosterior(
            covariance,
            np.arange(release.n_rows, dtype=np.float64)[:, None],  # rows by number, not by value
            # The known noise of answers adds to that of the observations.
            noise_variance=noise_variance + release.answer_noise_std**2,
            prior_mean=self._sign * prior_mean,
        )
        self._n_answers = np.zeros(release.n_rows, dtype=np.int64)  # answers of each row
        # public randomness: the modeler has seen released rows alone
        self._first = int(np.random.default_rng(random_state).integers(release.n_rows))

    def __len__(self):
        """Return the number of answers so far."""
        return len(self.posterior)

    def __repr__(self):
        return f"GPUCBModeler({len(self)} answers of {self.release!r})"

    @property
    def n_remaining(self) -> int:
        """Number of further answers that the release allows."""
        by_rows = self.release.n_rows * self.release.answers_per_row
        total = by_rows if self.release.n_answers is None else self.release.n_answers
        return min(by_rows, total) - len(self)

    def ask(self) -> int:
        """Return the number of the row to ask for next.

        A repeated query before its answer returns the same row.

        Returns
        -------
        int
            Row of the release, in [0, n).

        Raises
        ------
        RuntimeError
            When the release allows no further answer.
        """
        return self.ask_batch(1)[0]

    def ask_batch(self, size: int) -> list[int]:
        """Return the numbers of several rows to ask for at once.

        The first is that of `ask`. Each further one is chosen as if the rows before it had been
        answered with their posterior means: these stay, the standard deviations shrink (GP-BUCB,
        Desautels, Krause & Burdick 2014). The curator's answers are added one by one, in any order.

        Parameters
        ----------
        size : int
            Number of rows, at least 1.

        Returns
        -------
        list of int
            Different rows; fewer where the release allows no more, or has no more rows.

        Raises
        ------
        RuntimeError
            When the release allows no further answer.
        """
        size = min(check_count(size, "size"), self.n_remaining)
        if size <= 0:
            raise RuntimeError("all the answers that the release allows have been given.")
        weight = self.sqrt_beta
        if weight is None:
            # Algorithm 2, line 3, delta' = delta_ucb / 2: log(n t^2 pi^2 / (3 delta_ucb))
            weight = gp_ucb_sqrt_beta(len(self) + 1, self.release.n_rows, self.delta_ucb)
        if len(self):
            # Rows that the curator would refuse to answer.
            used = np.flatnonzero(self._n_answers >= self.release.answers_per_row)
            return select_batch(self.posterior, size, weight, used)
        # Without answers all rows are alike: the first is drawn, by public randomness.
        batch = [self._first]
        if size > 1:
            # Condition on the mean of the first row, so that the batch spreads out.
            imagined = self.posterior.copy()
            imagined.append(self._first, float(imagined.mean[self._first]))
            batch += select_batch(imagined, size - 1, weight, batch)
        return batch

    def tell(self, index: int, y: float) -> None:
        """Take the curator's answer for a row, whether `ask` returned it or not.

        Parameters
        ----------
        index : int
            Number of the row, in [0, n).
        y : float
            The answer, in [-1e150, 1e150].

        Raises
        ------
        IndexError, TypeError, ValueError
            When there is no such row, or `y` is no number in [-1e150, 1e150].
        RuntimeError
            When the release allows no further answer for this row, or none at all. Nothing is
            changed by an answer that is refused.
        """
        index = check_index(index, self.release.n_rows)
        y = check_within(y, "y", f"[-{LARGEST_ANSWER}, {LARGEST_ANSWER}]")
        if self.n_remaining <= 0 or self._n_answers[index] >= self.release.answers_per_row:
            raise RuntimeError(f"the release allows no further answer for row {index}.")
        self.posterior.append(index, self._sign * y)
        self._n_answers[index] += 1

    @property
    def answers(self) -> tuple[np.ndarray, np.ndarray]:
        """The queried rows, shape (t,), and their answers, shape (t,), in order."""
        return self.posterior.observed, self._sign * self.posterior.values

    def predict(self, *, return_std: bool = False) -> Any:
        """Posterior mean of f at every released row.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return the standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n,)
            Posterior mean, in the units of the answers.
        std : ndarray of shape (n,)
            Posterior standard deviation in the same units, if `return_std`.
        """
        mean = self._sign * self.posterior.mean
        return (mean, self.posterior.std) if return_std else mean

    def best(self, by: str = "answer") -> int:
        """Return the number of the best row.

        Parameters
        ----------
        by : {"answer", "mean"}, default="answer"
            "answer": of the answered rows the one with the best answer, the right choice when
            answers are exact. "mean": of all rows the one with the best posterior mean, queried
            or not.

        Returns
        -------
        int
            Row of the release, in [0, n).

        Raises
        ------
        RuntimeError
            If there is no answer and `by` is "answer".
        """
        if check_choice(by, "by", ("answer", "mean")) == "mean":
            return int(self.posterior.mean.argmax())
        if not len(self):
            raise RuntimeError("there is no answer yet.")
        return int(self.posterior.observed[self.posterior.values.argmax()])
