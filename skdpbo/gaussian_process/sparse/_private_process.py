"""The common part of the private sparse processes: release and attributes."""

import numbers

from joblib import effective_n_jobs

from skdpbo._exact_gram import streamed_gram
from skdpbo._gaussian_estimator import GaussianEstimator
from skdpbo._parameters import bounds_or_default
from skdpbo.gaussian_process.sparse._inducing import inducing_design
from skdpbo.gaussian_process.sparse._kernel_average import kernel_average
from skdpbo.privacy._checks import check_count

__all__ = ["PrivateProcess"]


class PrivateProcess(GaussianEstimator):
    """Base class of estimators that release second moments of features at inducing points.

    A sub-class has the parameters of `GaussianEstimator`, `inducing_points`, `X_bounds`, `n_jobs`
    and `chunk_size`.
    """

    _mechanism = "Gaussian second moments of whitened features"
    _chosen = "the kernels, the inducing points and the bounds were"
    _theory = "docs/theory/sparse_gp.md"

    def _check_pass(self):
        """Check the settings of the pass over the data, which would fail after the charge."""
        check_count(self.chunk_size, "chunk_size")
        effective_n_jobs(self.n_jobs)

    def _inducing_points(self, n_features, default_box=None):
        points, box = self.inducing_points, None
        if points is None or isinstance(points, numbers.Integral):
            box = self.X_bounds if default_box is None or self.X_bounds is not None else default_box
            box = bounds_or_default(box, n_features, "X_bounds")
        return inducing_design(points, box, n_features)

    def _release(self, method, rows, X, targets, source):
        """Protected: sum over the records and return the sums with noise."""
        gram = streamed_gram(
            rows, X, targets, rows.radius, chunk_size=self.chunk_size, n_jobs=self.n_jobs
        )
        return method.release(gram, source)

    def _publish_average(self, kernels, Z, prior_mean, fits):
        """Set the attributes of the kernels; return the average. All is public or released."""
        self.kernels_, self.inducing_points_ = kernels, Z
        average = kernel_average(kernels, Z, prior_mean, fits)
        self.log_evidence_ = average.log_evidence
        self.kernel_probabilities_ = average.probabilities
        self.kernel_, self._predictor = average.likeliest, average.predictor
        return average
