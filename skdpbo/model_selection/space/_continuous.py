"""Search spaces of ranges alone, mapped to the unit cube."""

from collections.abc import Mapping, Sequence

import numpy as np

from skdpbo.model_selection.space._dimensions import plain_values
from skdpbo.model_selection.space._search_space import SearchSpace


class ContinuousSpace(SearchSpace):
    """Search space of ranges, with the unit cube as its encoding.

    Parameters
    ----------
    search_spaces : dict, or list of one dict
        Ranges ``(low, high)`` and ``(low, high, "log-uniform")``, integers included, ``Real`` and
        ``Integer`` of scikit-optimize, and frozen scipy distributions of bounded support. A list
        of a single value is a constant.

    Attributes
    ----------
    n_dims : int
        Number of parameters that are searched.
    names : list of str
        Their names, in the order of the coordinates.
    """

    def __init__(self, search_spaces):
        # A list of one dict is that dict: the other searchers take lists of several.
        if isinstance(search_spaces, Sequence) and len(search_spaces) == 1:
            search_spaces = search_spaces[0]
        if not isinstance(search_spaces, Mapping):
            raise ValueError(
                "search_spaces must be one dict of ranges. For a choice between spaces use "
                "DPBayesSearchCV."
            )
        ranges, constants = {}, {}
        for name, values in search_spaces.items():
            values = plain_values(values, f"search_spaces[{name!r}]")
            if not isinstance(values, list | np.ndarray):
                ranges[name] = values
                continue
            if len(values) != 1:
                raise ValueError(
                    f"search_spaces[{name!r}] is a list of categories, between which there is no "
                    "gradient: give a range (low, high), or use DPBayesSearchCV."
                )
            constants[name] = values[0]
        if not ranges:
            raise ValueError("search_spaces has no parameter to search: give at least one range.")
        # Bounded, as steps are projected onto the unit cube.
        super().__init__(ranges, bounded=True)
        self._constants = constants  # parts of every setting without a coordinate
        self.names = sorted(ranges)  # the order of the encoding
        self.n_dims = len(ranges)

    def encode(self, settings):
        """Return the points of settings, shape (n, n_dims)."""
        searched = [{name: setting[name] for name in self.names} for setting in settings]
        return super().encode(searched)

    def start(self, init):
        """Return a public starting point, shape (n_dims,): the centre for None."""
        if init is None:
            return np.full(self.n_dims, 0.5)
        if isinstance(init, Mapping):
            if set(init) != set(self.names):
                given = sorted(map(str, init))
                raise ValueError(f"init must name each of {self.names}, got {given}.")
            try:
                return self.encode([init])[0]
            except ValueError:
                raise ValueError("a value of init lies outside search_spaces.") from None
        point = np.asarray(init, dtype=np.float64)
        if point.shape != (self.n_dims,):
            raise ValueError(
                f"init must be a dict or {self.n_dims} numbers in [0, 1], one for each of "
                f"{self.names}, got an array of shape {point.shape}."
            )
        if not ((point >= 0) & (point <= 1)).all():
            raise ValueError("init must lie in the unit cube; give a dict for values in units.")
        return point
