"""Records (inputs, targets) of a linear model: joined, standardised, and on the lattice."""

import numpy as np

from skdpbo._exact_gram import integer_gram, rows_on_lattice
from skdpbo._record_groups import shared_roots


class JoinedRows:
    """Rows of the box of X and of the box of y, side by side.

    Parameters
    ----------
    rows : BoxedRows
        Protected.
    targets : BoxedRows
        Protected; of an array of shape (n, q) in memory.
    """

    def __init__(self, rows, targets):
        self._rows, self._targets, self.sizes = rows, targets, rows.sizes
        self.n_targets = targets.shape[1]
        self.shape = (rows.shape[0], rows.shape[1] + self.n_targets)

    def __iter__(self):
        """Protected: yield the slice of the rows and the joined rows."""
        for rows, block in self._rows:
            yield rows, np.hstack([block, self._targets.scaled(rows)])


class StandardisedRecords:
    """Inputs z and targets t in units of released scales; a long z shortens both.

    Parameters
    ----------
    joined : JoinedRows
        Protected.
    z_scales, t_scales : ColumnScales
        Released; those of the targets have no constant column.

    Attributes
    ----------
    shape : tuple (n_records, n_targets)
        The number of groups where there are some.
    sizes : ndarray or None
        As of `BoxedRows`.
    """

    def __init__(self, joined, z_scales, t_scales):
        self._joined, self._z, self._t = joined, z_scales, t_scales
        self.sizes = joined.sizes
        self.width = joined.shape[1] + 1
        self.shape = (joined.shape[0], joined.n_targets)

    def blocks(self):
        """Protected: yield the slice of the rows, and (z, t) of norm |z| at most 1.

        A record with a longer z is divided by |z|, target included: it counts less, and the
        relation between inputs and target stays as it is.
        """
        for part, block in self._joined:
            z = self._z.columns(block[:, : -self._joined.n_targets])
            # Without the constant column, which targets have not.
            t = self._t.columns(block[:, -self._joined.n_targets :])[:, :-1]
            # Both by one factor: a shortened record is then a record of less weight.
            longer = np.maximum(np.sqrt(np.einsum("ij,ij->i", z, z)), 1.0)[:, None]
            yield part, z / longer, t / longer

    @property
    def largest_target(self):
        """Bound on the targets of a record in the box; from released values."""
        t = self._t
        # Both ends of the box are 1 from its centre, here in the units of t.
        ends = (1 / t.radius + np.abs(t.mean)) * t.factor / t.size
        return float(ends.max())

    def exact_gram(self, release, half_width):
        """Protected: sum the outer products of (z, beta t), t cut to the half width, in integers.

        Parameters
        ----------
        release : WhitenedRelease
        half_width : float
            Released.

        Returns
        -------
        ndarray of shape (width, width)
            int64, in steps of the release.
        """
        total = np.zeros((self.width, self.width), dtype=np.int64)
        for part, z, t in self.blocks():
            # Clipped before the weight: |z|^2 + beta^2 |t|^2 is what the noise is made for.
            t = np.clip(t, -half_width, half_width) * release.beta
            units = rows_on_lattice(np.hstack([z, t]), release.step, release.radius)
            # Exact: at most 2^13 rows of norm at most 2^20.
            total += integer_gram(shared_roots(units, self.sizes, part))
        return total
