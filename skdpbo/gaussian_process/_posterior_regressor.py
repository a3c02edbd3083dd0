"""Predictions, draws and densities of a fitted Gaussian process."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from skdpbo._private_estimator import NoisyRegressor
from skdpbo.privacy._checks import check_count


class PosteriorRegressor(NoisyRegressor, BaseEstimator):
    """Base class of regressors with a released Gaussian posterior.

    A sub-class sets, in ``fit``, ``_predictor`` (with the methods ``mean``, ``moments`` and
    ``joint``), ``_single_target`` and ``noise_variance_``.
    """

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Posterior of the function at new points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where to predict.
        return_std, return_cov : bool, default=False
            At most one of them. Both describe the function, the privacy noise included, and not new
            observations, whose variance is larger by `noise_variance_`.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In the units of the targets.
        std : ndarray of the shape of `mean`
            If `return_std`. That of an observation is ``sqrt(std**2 + noise_variance_)``.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            If `return_cov`.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        with np.errstate(under="ignore"):  # far from all points: 0
            if return_cov:
                return tuple(self._shaped(part) for part in self._predictor.joint(X))
            if return_std:
                mean, variance = self._predictor.moments(X)
                return self._shaped(mean), self._shaped(np.sqrt(variance))
            return self._shaped(self._predictor.mean(X))

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> np.ndarray:
        """Draw functions from the posterior; as `GaussianProcessRegressor.sample_y`.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
            Where the functions are evaluated, all points jointly.
        n_samples : int, default=1
            Number of functions, at least 1.
        random_state : None, int or RandomState, default=0
            No privacy depends on it.

        Returns
        -------
        samples : ndarray of shape (n_points, n_samples) or (n_points, n_targets, n_samples)
            Values of the functions, without the noise of observations.
        """
        check_is_fitted(self)
        check_count(n_samples, "n_samples")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        # One generator for all targets, so that their draws are independent.
        generator = check_random_state(random_state)  # public randomness, of released values
        with np.errstate(under="ignore"):
            mean, covariance = self._predictor.joint(X)
            draws = [
                generator.multivariate_normal(mean[:, j], covariance[:, :, j], n_samples).T
                for j in range(mean.shape[1])
            ]
        return draws[0] if self._single_target else np.stack(draws, axis=1)

    def log_predictive_density(self, X: Any, y: Any) -> np.ndarray:
        """Log density of each observation under its own predictive distribution.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where the observations were made.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            The observations, in the units of the targets.

        Returns
        -------
        log_density : ndarray of the shape of `y`
            log N(y | mean, variance + `noise_variance_`). A function of (X, y): not private.
        """
        mean, std = self.predict(X, return_std=True)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if y.shape != mean.shape:
            raise ValueError(f"y must have shape {mean.shape}, got {y.shape}.")
        variance = std**2 + self.noise_variance_
        return -0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)

    def _shaped(self, values):
        """Drop the target axis, the last one, when y was a vector."""
        if not self._single_target:
            return values
        values = values[..., 0]
        return float(values) if np.ndim(values) == 0 else values
