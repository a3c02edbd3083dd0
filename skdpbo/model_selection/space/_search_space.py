"""Search spaces: finite or continuous sets of parameter settings, all public."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from typing import ClassVar

import numpy as np
from scipy.stats import qmc
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from skdpbo.model_selection.space._dimensions import make_dimension

# Above this size a finite space is sampled by draws, as positions must fit a C int.
_MAX_INDEXED = 2**31 - 1


class SearchSpace:
    """A set of parameter settings, finite or not, with draws and an encoding.

    Parameters
    ----------
    space : dict or list of dict
        Maps parameter names (``step__param`` for nested ones) to a list or a one-dimensional
        array (categories, which may be estimators or tuples), a frozen scipy distribution, a
        dimension of scikit-optimize, or a range ``(low, high)``, ``(low, high, "uniform")``,
        ``(low, high, "log-uniform")``. A range between two integers holds the Python integers
        between them, both ends included. A list of dicts is the union of its members.
    name : str, default="search_spaces"
        Name of the parameter, for error messages.
    bounded : bool, default=False
        Whether to refuse distributions of infinite support, as methods that move through the
        unit cube must.

    Attributes
    ----------
    size : int or float
        Number of settings, ``math.inf`` for continuous spaces.
    is_finite : bool
        Whether ``size`` is finite.
    n_features : int
        Number of columns of the encoding.

    Notes
    -----
    The space is public: nothing in it may be computed from protected records. The order of the keys
    in a dict does not matter.

    Examples
    --------
    >>> from skdpbo.model_selection.space._search_space import SearchSpace
    >>> space = SearchSpace({"depth": (1, 3), "criterion": ["gini", "entropy"]})
    >>> space.size
    6
    >>> space.candidates(10)[0]
    {'criterion': 'gini', 'depth': 1}
    """

    _constants: ClassVar[dict] = {}  # parameters of all settings that a sub-class does not encode

    def __init__(self, space, name="search_spaces", *, bounded=False):
        self.name = name
        self._subspaces = [
            {key: make_dimension(values, f"{name}[{key!r}]", bounded) for key, values in sub}
            for sub in _sorted_items(space, name)
        ]
        self._sizes = [
            math.prod((dim.size for dim in dims.values()), start=1) for dims in self._subspaces
        ]
        self.size = sum(self._sizes)
        self.is_finite = self.size != math.inf
        # A draw: one coordinate for the dict, then one for each of its keys.
        self._draw_width = 1 + max(len(dims) for dims in self._subspaces)
        # The encoding: indicators of several dicts, then the columns of one dict after another.
        n_indicators = len(self._subspaces) if len(self._subspaces) > 1 else 0
        widths = (sum(dim.width for dim in dims.values()) for dims in self._subspaces)
        *self._starts, self.n_features = accumulate(widths, initial=n_indicators)

    def sample(self, n, random_state=None):
        """Draw at most ``n`` distinct settings with public randomness.

        Parameters
        ----------
        n : int
            Number of settings. A finite space with no more than ``n`` settings is returned whole.
        random_state : int, RandomState or None, default=None
            Public randomness; it must not be the source of privacy noise.

        Returns
        -------
        list of dict
            The settings, in the order of the draws (grid order for a whole finite space).
        """
        if self.size <= n:
            return [self._setting(*self._tokens_at(i)) for i in range(self.size)]
        rng = check_random_state(random_state)
        # Equally likely settings are drawn by position without replacement; others are drawn until
        # they differ.
        if (
            self.is_finite
            and self.size <= _MAX_INDEXED
            and all(dim.uniform for dims in self._subspaces for dim in dims.values())
        ):
            picks = sample_without_replacement(self.size, n, random_state=rng)
            return [self._setting(*self._tokens_at(int(i))) for i in picks]
        return self._draw(n, rng, np.empty((0, self._draw_width)))

    def candidates(self, n_max, random_state=0):
        """Return the whole space when it has at most ``n_max`` settings, else ``n_max`` of them.

        Parameters
        ----------
        n_max : int
            Largest number of candidates.
        random_state : int, RandomState or None, default=0
            Public randomness of the scrambled Sobol design.

        Returns
        -------
        list of dict
            Distinct candidates.
        """
        if self.size <= n_max:
            return self.sample(n_max)
        rng = check_random_state(random_state)
        engine = qmc.Sobol(self._draw_width, seed=int(rng.randint(2**31 - 1)))
        # A Sobol design is balanced at powers of two: take the next one.
        design = engine.random_base2(max(n_max - 1, 1).bit_length())
        return self._draw(n_max, rng, design)

    def encode(self, settings):
        """Map settings to the unit cube.

        Numbers become one column (their position in the range, on the log scale for
        ``"log-uniform"``; the distribution function for scipy distributions), categories one
        column each (0/1). With several dicts, an indicator column for each dict comes first and
        the columns of the other dicts are zero.

        Parameters
        ----------
        settings : list of dict of length n
            Settings of this space.

        Returns
        -------
        ndarray of shape (n, n_features)
            Values in [0, 1].
        """
        encoded = np.zeros((len(settings), self.n_features))
        for row, setting in zip(encoded, settings, strict=True):
            k, tokens = self._locate(setting)
            if len(self._subspaces) > 1:
                row[k] = 1.0
            start = self._starts[k]
            dims = self._subspaces[k].values()
            for dim, token in zip(dims, tokens, strict=True):
                row[start : start + dim.width] = dim.features(token)
                start += dim.width
        return encoded

    def decode(self, encoded):
        """Map points of the unit cube to settings: the nearest category, the nearest integer.

        Parameters
        ----------
        encoded : array-like of shape (n, n_features)
            Points; values outside [0, 1] are clipped.

        Returns
        -------
        list of dict of length n
            Settings of this space, with ``decode(encode(s)) == s`` up to rounding of floats.
        """
        settings = []
        for row in np.clip(np.asarray(encoded, dtype=np.float64), 0.0, 1.0):
            k = 0
            if len(self._subspaces) > 1:
                k = int(np.argmax(row[: len(self._subspaces)]))
            start, tokens = self._starts[k], []
            for dim in self._subspaces[k].values():
                own = row[start : start + dim.width]  # indicators, or a position in [0, 1]
                token = dim.token(float(own[0])) if dim.values is None else int(own.argmax())
                tokens.append(token)
                start += dim.width
            settings.append(self._setting(k, tokens))
        return settings

    def _tokens_at(self, index):
        """Return the subspace and the tokens at a position; the last key varies fastest."""
        k = 0
        while index >= self._sizes[k]:
            index -= self._sizes[k]
            k += 1
        tokens = []
        for dim in reversed(self._subspaces[k].values()):
            # Digits in the mixed radix of the dimensions' sizes.
            index, digit = divmod(index, dim.size)
            tokens.append(dim.first + digit)
        return k, tokens[::-1]

    def _setting(self, k, tokens):
        pairs = zip(self._subspaces[k].items(), tokens, strict=True)
        return self._constants | {
            key: token if dim.values is None else dim.values[token] for (key, dim), token in pairs
        }

    def _draw(self, n, rng, design):
        """Collect ``n`` distinct draws: first from the rows of a design, then from ``rng``."""
        found = {}
        # The number of draws is limited, as some settings may be very unlikely.
        for i in range(len(design) + 100 * n):
            if len(found) == n:
                break
            row = design[i] if i < len(design) else rng.random_sample(design.shape[1])
            # All dicts are equally likely, however many settings they have.
            k = min(int(row[0] * len(self._subspaces)), len(self._subspaces) - 1)
            # zip stops at the shorter: a subspace uses as many coordinates as it has keys.
            dims = self._subspaces[k].values()
            tokens = [dim.token(float(u)) for dim, u in zip(dims, row[1:], strict=False)]
            found.setdefault((k, *tokens), (k, tokens))
        if len(found) < n and self.is_finite:  # the rest is very unlikely: taken in order
            for index in range(self.size):
                k, tokens = self._tokens_at(index)
                found.setdefault((k, *tokens), (k, tokens))
                if len(found) == n:
                    break
        return [self._setting(k, tokens) for k, tokens in found.values()]

    def _locate(self, setting):
        """Return the first subspace that holds a setting, with the tokens of its values."""
        for k, dims in enumerate(self._subspaces):
            if dims.keys() == setting.keys():
                tokens = [dim.find(setting[key]) for key, dim in dims.items()]
                if all(token is not None for token in tokens):
                    return k, tokens
        raise ValueError(f"a setting does not belong to {self.name}")


def _sorted_items(space, name):
    """Return one sorted list of (key, values) for every dict of a space."""
    if isinstance(space, Mapping):
        space = [space]
    if not isinstance(space, Sequence) or isinstance(space, str | bytes):
        raise TypeError(f"{name} must be a dict or a list of dicts, got {type(space).__name__}")
    if len(space) == 0:
        raise ValueError(f"{name} is empty: give at least one dict")
    for sub in space:
        if isinstance(sub, tuple):
            raise TypeError(
                f"{name} must hold dicts only, got a tuple: pairs (dict, number of candidates) are "
                "for DPRandomizedSearchCV. Elsewhere n_iter is for all dicts together."
            )
        if not isinstance(sub, Mapping):
            raise TypeError(f"{name} must hold dicts only, got {type(sub).__name__}")
        for key in sub:
            if not isinstance(key, str):
                raise TypeError(f"the keys of {name} must be str, got {type(key).__name__}")
    # By name: equal dicts have equal candidates for a seed, however they were written.
    return [sorted(sub.items(), key=itemgetter(0)) for sub in space]
