"""Kernels of the user's own: on protected rows they are isolated, and the guarantee is conditional.

With a kernel that uses several rows at once, such as one whose length-scale is the median distance
of its input rows, a record affects the features of all others.
"""

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    Sum,
)

from skdpbo.gaussian_process._isolated_rows import differs_alone, isolated_answers, own_copy
from skdpbo.gaussian_process._linear_kernel import LinearKernel

# Verified by reading: they treat rows independently and do not raise for finite ones. Exact
# classes.
_KNOWN = {
    *(RBF, ConstantKernel, DotProduct, Exponentiation, ExpSineSquared, LinearKernel, Matern),
    *(Product, RationalQuadratic, Sum),
}
_METRICS = ("cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid")


def foreign_kernels(kernel):
    """Return the class names of kernels, and of their parts, that are not verified.

    Parameters
    ----------
    kernel : None, kernel or list of kernels
        As given by the user; not checked.
    """
    kinds = (
        type(part)
        for part in _parts(kernel)
        # With another metric a PairwiseKernel may call a user's function.
        if type(part) not in _KNOWN
        and not (type(part) is PairwiseKernel and part.metric in _METRICS)
    )
    return tuple(dict.fromkeys(kind.__name__ for kind in kinds))


def _parts(kernel):
    if isinstance(kernel, list | tuple):
        for part in kernel:
            yield from _parts(part)
    elif callable(kernel):  # scikit-learn's sums accept any callable
        yield kernel
        # Parts of a foreign kernel do not matter, since it may mix rows itself.
        params = kernel.get_params(deep=False) if type(kernel) in _KNOWN else {}
        for value in params.values():
            yield from _parts(value)


class IsolatedKernel:
    """Map of protected rows to k_Z by a copy of a kernel; NaN for rows for which it raises.

    Parameters
    ----------
    kernel : kernel
    Z : ndarray of shape (d, p)
        Inducing points.
    """

    def __init__(self, kernel, Z):
        # A copy, which may store rows: the estimator's own kernel does not.
        self._kernel, self._Z = own_copy(kernel), Z

    def __call__(self, X):
        """Protected: return k_Z of rows, shape (n, d)."""
        # The lattice turns rows of NaN into zeros: such a record adds nothing to the sums.
        return isolated_answers(self._values, X, np.full(len(self._Z), np.nan))

    def _values(self, rows):
        """Protected rows, or public points: return k_Z, or raise. Call in isolation."""
        K = np.array(self._kernel(rows, self._Z), dtype=np.float64)
        if K.shape != (len(rows), len(self._Z)):
            raise ValueError(f"{type(self._kernel).__name__} must give one value for each pair.")
        return K


def refuse_unfit_kernel(kernel, Z, points, *, released=False):
    """Raise if a kernel fails at public points, or, if foreign, mixes rows there.

    Parameters
    ----------
    kernel : kernel
    Z : ndarray of shape (d, p)
        Inducing points.
    points : ndarray of shape (n, p)
        Public.
    released : bool, default=False
        Whether the box of Z is, or may be, released. Mixing is not checked then: far from 0 it
        cannot be told from rounding.
    """
    values = IsolatedKernel(kernel, Z)._values
    # Overflow far outside of the box is refused below, by name.
    with np.errstate(all="ignore"):
        together = values(points)
    if not np.isfinite(together).all():
        box, hint = "the box of the inducing points", ""
        if released:
            box, hint = "the widest box that may be released", ": give X_bounds"
        raise ValueError(
            f"kernel must be finite on all points: {type(kernel).__name__} is not finite in {box}, "
            f"or around it{hint}."
        )
    if released or not foreign_kernels(kernel):
        return
    if differs_alone(values, points, together, rtol=1e-6, atol=1e-9):
        raise ValueError(
            f"{type(kernel).__name__} looks at several rows at once: on public points, its values "
            "for some point change with the other points. One protected record could move the "
            "features of all others. Compute each value from its two points and public constants."
        )
