"""Public model of public rows, whose residuals a private process models.

A residual is a function of its own record and of public values, so no sensitivity changes
(docs: public rows first).
"""

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

from skdpbo._parameters import check_bounds
from skdpbo._schema import refuse_sparse_and_complex, refuse_types, share_memory
from skdpbo.gaussian_process._isolated_rows import differs_alone, isolated_answers, own_copy

_FEWEST_ROWS = 5
_FOLDS = 5
_REACH = 3.0  # bound of residuals, in standard deviations of the public ones
_FAR = 1e30  # largest input of the model: trees compute in single precision
_LARGEST_PROCESS = 500  # rows: a Gaussian process costs their cube
_LARGEST_TREES = 2000  # rows, for trees without histograms


def public_model(base, X, y, largest):
    """Fit the public model and bound its residuals; every argument is public.

    Parameters
    ----------
    base : None or regressor
        None: a Gaussian process, gradient boosting or ridge regression, by cross-validation.
    X : ndarray of shape (n_public, n_features)
    y : ndarray of shape (n_public, q)
    largest : ndarray of shape (q,)
        Largest residual bounds, which are used if the public residuals vanish.

    Returns
    -------
    PublicModel
    """
    # Shuffled, as public rows may be sorted; with a fixed seed, so that results are reproducible.
    folds = KFold(min(_FOLDS, len(y)), shuffle=True, random_state=0)
    # A vector for one target: scikit-learn's boosting warns of a column.
    targets = y[:, 0] if y.shape[1] == 1 else y
    tried = []
    with warnings.catch_warnings():
        if base is None:  # warnings of length-scales at their bounds
            warnings.simplefilter("ignore")
        # By cross-validation: residuals of training rows are too small for new rows.
        for model in default_bases(*X.shape, y.shape[1]) if base is None else [base]:
            # With metadata routing, scikit-learn 1.6 does not take None for params.
            predicted = cross_val_predict(clone(model), X, targets, cv=folds, params={})
            left = y - predicted.reshape(y.shape)
            tried.append((np.mean(np.square(left), axis=0), model))
        # Residual variances of several targets are relative to the variances of the targets.
        spread = np.where(y.var(axis=0) > 0, y.var(axis=0), 1.0)
        squares, best = min(tried, key=lambda candidate: np.sum(candidate[0] / spread))
        best = clone(best).fit(X, targets)
    reach = _REACH * np.sqrt(squares)
    # If the model is exact on public rows, residuals of the others are unknown.
    bound = np.where(reach > 0, np.minimum(reach, largest), largest)
    return PublicModel(best, y.mean(axis=0), bound)


def default_bases(n_rows, n_columns, n_targets):
    """Return the models from which public rows choose."""
    if n_rows > _LARGEST_TREES:
        boosting = HistGradientBoostingRegressor(random_state=0)
    else:
        boosting = GradientBoostingRegressor(learning_rate=0.05, subsample=0.8, random_state=0)
    if n_targets > 1:
        boosting = MultiOutputRegressor(boosting)
    bases = [make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))), boosting]
    if n_rows <= _LARGEST_PROCESS:
        # Distances of standardised rows grow with the root of the number of columns.
        kernel = ConstantKernel(1.0) * RBF(math.sqrt(n_columns), (0.3, 100.0))
        kernel += WhiteKernel(0.2, (1e-4, 10.0))
        process = GaussianProcessRegressor(kernel, normalize_y=True)
        bases.append(make_pipeline(StandardScaler(), process))
    return bases


def public_box(X):
    """Return the ranges of the columns of public rows; a width of 1 where they have none."""
    low, high = X.min(axis=0), X.max(axis=0)
    half = np.where(high > low, (high - low) / 2, 0.5)
    return (low + high) / 2 - half, (low + high) / 2 + half


@dataclass(frozen=True)
class PublicModel:
    """Model of the public rows, and bounds of its residuals; public.

    Attributes
    ----------
    model : regressor
    centre : ndarray of shape (q,)
        Prediction where the model has no finite one.
    bound : ndarray of shape (q,)
        Three standard deviations of the cross-validated residuals.
    """

    model: object
    centre: np.ndarray
    bound: np.ndarray

    def __call__(self, X):
        """Return finite predictions of shape (n, q)."""
        predicted = np.asarray(self.model.predict(np.clip(X, -_FAR, _FAR)), dtype=np.float64)
        predicted = predicted.reshape(len(X), len(self.centre))
        return np.where(np.isfinite(predicted), predicted, self.centre)

    def copied(self):
        """Return a copy, which may store the rows that it predicts."""
        return replace(self, model=own_copy(self.model))

    def refuse_mixed_rows(self, points):
        """Raise if predictions at *public* points change with the other points."""
        own = self.copied()
        together = own(points)
        # Allows single precision; relative to the range, as targets may be far from 0.
        error = 1e-4 * np.ptp(together, axis=0) + 5e-6 * np.abs(together).max(axis=0)
        if differs_alone(own, points, together, rtol=0, atol=error):
            raise ValueError(
                f"{type(self.model).__name__} looks at several rows at once: on public points, its "
                "prediction for some point changes with the other points. One protected record "
                "could move the residuals of all others. Predict each row from that row alone."
            )


class ResidualRows:
    """Lattice rows of the residuals of a public model; see `LatticeRows`.

    Parameters
    ----------
    rows : LatticeRows
    public : PublicModel
    """

    def __init__(self, rows, public):
        self.rows, self.public = rows, public.copied()
        self.radius, self.width, self.workspace = rows.radius, rows.width, rows.workspace

    def __call__(self, X, Y, workspace):
        """Protected: return a chunk's rows, shape (n, width): integers in a shared float buffer."""
        # The centre where the model raises.
        predicted = isolated_answers(self.public, X, self.public.centre)
        with np.errstate(all="ignore"):  # a warning would depend on the values
            # docs/theory/public_rows.md, Theorem 1: a function of the record itself and of public
            # values.
            residuals = Y - predicted
        return self.rows(X, residuals, workspace)


@dataclass(frozen=True)
class GatedPredictor:
    """Public model plus the private process times the probability of a signal.

    Attributes
    ----------
    public : PublicModel
    process : MixturePredictor
        Posterior of the residuals.
    probability : float
        The gate.
    """

    public: PublicModel
    process: object
    probability: float

    def mean(self, X):
        """Mean, shape (n, q)."""
        return self.public(X) + self.probability * self.process.mean(X)

    def moments(self, X):
        """Mean, and variance about it given a signal, each of shape (n, q)."""
        mean, variance = self.process.moments(X)
        # The mean is p m, about which the process has the second moment v + ((1 - p) m)^2.
        closed = (1 - self.probability) * mean
        return self.public(X) + mean - closed, variance + closed**2

    def joint(self, X):
        """Mean, shape (n, q), and covariance, shape (n, n, q)."""
        mean, covariance = self.process.joint(X)
        closed = (1 - self.probability) * mean
        return self.public(X) + mean - closed, covariance + closed[:, None] * closed[None]


class PublicBase:
    """Mixin of estimators that take public rows, with the parameters `base` and `y_bounds`."""

    def _with_public(self, guarantee, X, y, X_public, y_public):
        """Check public rows, if any, against the parameters; return the guarantee of the fit."""
        if X_public is None and y_public is None:
            return guarantee
        if X_public is None or y_public is None:
            raise ValueError("X_public and y_public must be given together.")
        for name, rows in (("X_public", X_public), ("y_public", y_public)):
            refuse_sparse_and_complex(rows, name)
            refuse_types(rows, name)
        if share_memory(X, X_public) or share_memory(y, y_public):
            raise ValueError(
                "X and X_public, or y and y_public, share rows: protected rows are not public."
            )
        if self.release == "kernel" or self.prior_mean == "private":
            raise ValueError(
                'public rows need release="whitened" and prior_mean="none": the gate needs the '
                "evidence of the whitened release, and the public model gives the mean."
            )
        if self._private_bounds(of_public=True):
            raise ValueError('"private" bounds have no use with public rows, which give them.')
        # An assumption, as a search for equal values would read records.
        guarantee = guarantee.assuming(
            "no protected record is among the public rows, which were chosen without looking at it"
        )
        if self.base is None:
            return guarantee
        return guarantee.assuming(
            "the base predicts each row from that row alone", status="conditional"
        )

    def _fitted_public(self, X_public, y_public, y):
        """Return the `PublicModel` and the box of the public rows, or None and None."""
        if X_public is None:
            return None, None
        X_public, y_public = validate_data(
            self, X_public, y_public, multi_output=True, y_numeric=True, dtype=np.float64,
            ensure_min_samples=_FEWEST_ROWS, reset=False,
        )  # fmt: skip
        if y_public.shape[1:] != y.shape[1:]:
            raise ValueError("y_public must have the targets of y.")
        y_public = np.asarray(y_public, dtype=np.float64).reshape(len(X_public), -1)
        low, high = public_box(y_public)
        if self.y_bounds is not None:
            low, high = check_bounds(self.y_bounds, y_public.shape[1], "y_bounds")
        model = public_model(self.base, X_public, y_public, (high - low) / 2)
        return model, public_box(X_public)

    def _publish_gate(self, public, probability):
        """Set the attributes of a fit with public rows; everything is public or released."""
        self._predictor = GatedPredictor(public, self._predictor, probability)
        at_points = self._predictor.joint(self.inducing_points_)
        self.mean_, self.covariance_ = map(self._shaped, at_points)
        self.base_, self.signal_probability_ = public.model, probability
        self.residual_bound_ = self._shaped(public.bound)
