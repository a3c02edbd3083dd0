"""The common part of the private sparse processes: guarantee, schema, release, attributes."""

import numbers

from joblib import effective_n_jobs
from sklearn.utils.validation import validate_data

from skdpbo._exact_gram import streamed_gram
from skdpbo._parameters import OWN_RECORD, bounds_or_default
from skdpbo._schema import checked_table
from skdpbo.gaussian_process.sparse._inducing import inducing_design
from skdpbo.gaussian_process.sparse._kernel_average import kernel_average
from skdpbo.privacy import LedgerMixin, PrivacyGuarantee, mu_from_epsilon
from skdpbo.privacy._checks import check_count, check_positive

__all__ = ["PrivateProcess"]

_ASSUMPTIONS = (
    "the number of records, the columns, the types and that all values are finite are public",
    "the kernels, the inducing points and the bounds were chosen without looking at the records",
    OWN_RECORD,
    "running time and memory use are not observed",
)


class PrivateProcess(LedgerMixin):
    """Mixin of estimators that release second moments of features at inducing points.

    A sub-class has the parameters `epsilon`, `delta`, `inducing_points`, `X_bounds`, `n_jobs`,
    `chunk_size` and `random_state`.
    """

    def privacy_guarantee(self, n_samples=None):
        """Return the guarantee of `fit`; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Ignored: the noise does not depend on the number of records.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Of one fit: all that it publishes together.
        """
        epsilon = check_positive(self.epsilon, "epsilon")
        return PrivacyGuarantee(
            epsilon=epsilon,
            delta=self.delta,
            mu=mu_from_epsilon(epsilon, self.delta),
            protects="training records",
            mechanism=self._mechanism(),
            assumptions=_ASSUMPTIONS,
            reference="Dong, Roth & Su 2022, Theorem 2.7; docs/theory/sparse_gp.md",
        ).voided_if_seeded(self.random_state)

    def _mechanism(self):
        return "Gaussian second moments of whitened features"

    def _check_pass(self):
        """Check the settings of the pass over the data, which would fail after the charge."""
        check_count(self.chunk_size, "chunk_size")
        effective_n_jobs(self.n_jobs)

    def _checked_inputs(self, X):
        """Check the schema and leave the values alone: they are checked as they are read."""
        table = checked_table(X, "X", ensure_2d=True, estimator=self)
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        if table.ndim != 2:
            raise ValueError("X must have two dimensions.")
        return table

    def _inducing_points(self, n_features):
        points, box = self.inducing_points, None
        if points is None or isinstance(points, numbers.Integral):
            box = bounds_or_default(self.X_bounds, n_features, "X_bounds", stacklevel=3)
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
