"""Base class of estimators whose fit spends one Gaussian budget on tables of numbers."""

from dataclasses import replace

from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skdpbo._parameters import OWN_RECORD, warn_if_seeded
from skdpbo._schema import checked_table, has_numeric_type
from skdpbo.mechanisms import noise_source
from skdpbo.privacy import LedgerMixin, PrivacyGuarantee, charge_active_ledger, mu_from_epsilon

__all__ = ["GaussianEstimator"]


class GaussianEstimator(LedgerMixin, BaseEstimator):
    """Base class: checks, the charge and the guarantee.

    A sub-class has parameters `epsilon`, `delta` and `random_state`, class attributes
    ``_mechanism``, ``_public`` (of assumptions: values that are public) and ``_chosen`` (values
    that were chosen without looking at the records), and the method ``_check_public``.
    """

    _public = "the number of records, the columns, the types and that all values are finite"
    _chosen = "the bounds were"
    _accepts_sparse = False

    @property
    def releases_nothing(self):
        """Whether the parameters alone decide what `fit` publishes, so that it costs nothing."""
        return False

    def _opened(self, X, *targets):
        """Check the input, charge the ledger, and return what `fit` needs.

        Errors and warnings before the charge depend on shapes, types and parameters alone.

        Returns
        -------
        table : ndarray, Dask array or CSR matrix
            Protected.
        public : object
            As from ``_check_public(table, *targets)``, which may warn.
        mu : float
        source : RandomSource
        """
        guarantee = self.privacy_guarantee()
        readable = all(has_numeric_type(values) for values in (X, *targets))
        if not readable:  # lists and objects are read to learn their shape and type
            charge_active_ledger(guarantee, type(self).__name__, self)
        table = self._checked_table(X)
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        public = self._check_public(table, *targets)
        source = noise_source(self.random_state)
        if not self.releases_nothing:
            warn_if_seeded(self.random_state, stacklevel=3)
        if readable:  # before any value is read
            charge_active_ledger(guarantee, type(self).__name__, self)
        return table, public, guarantee.mu, source

    def _checked_table(self, X):
        return checked_table(
            X, "X", ensure_2d=True, estimator=self, accept_sparse=self._accepts_sparse
        )

    def _close(self, n_records):
        """Set the attributes that every fit has; returns the estimator."""
        self.n_records_ = n_records
        self.privacy_ = replace(self.privacy_guarantee(), n_protected=n_records)
        return self

    def privacy_guarantee(self, n_samples=None):
        """Return the guarantee of `fit`; needs no data.

        Parameters
        ----------
        n_samples : int, default=None
            Ignored: the budget does not depend on the number of records.

        Returns
        -------
        guarantee : PrivacyGuarantee
            Of one fit: all that it publishes together.
        """
        if self.releases_nothing:
            return PrivacyGuarantee(
                epsilon=0.0,
                protects="training records",
                mechanism="given parameters alone: no value of a record is read",
                assumptions=(
                    "the number of records, the columns and the types are public",
                    f"{self._chosen} chosen without looking at the records",
                ),
                reference="docs/theory/private_classifiers.md",
            )
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=mu_from_epsilon(self.epsilon, self.delta),
            protects="training records",
            mechanism=self._mechanism,
            assumptions=(
                f"{self._public} are public",
                f"{self._chosen} chosen without looking at the records",
                OWN_RECORD,
                "running time and memory use are not observed",
            ),
            reference="Dong, Roth & Su 2022, Theorem 2.7 and Corollary 3.3; "
            "docs/theory/private_classifiers.md",
        ).voided_if_seeded(self.random_state)
