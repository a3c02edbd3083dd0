"""Frozen public release that a curator hands to the modeler."""

import io
import json
import zipfile
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from skdpbo.gaussian_process.outsourced._domains import Ball, Box
from skdpbo.privacy import PrivacyGuarantee
from skdpbo.privacy._checks import check_count, check_positive, check_within, set_fields

_FORMAT = "skdpbo projection release"
_VERSION = 1
_ARRAYS = ("Z", "projection")
_GUARANTEES = ("guarantee", "answer_guarantee")


# eq=False: a comparison of arrays has no single truth value.
@dataclass(frozen=True, eq=False, kw_only=True)
class ProjectionRelease:
    """The released rows and all that a modeler needs to know about them.

    Everything in it is released or public: it may be copied, sent and published.

    Parameters
    ----------
    Z : array-like of shape (n, r)
        The released rows, finite. Released.
    noise_std : float
        Standard deviation of the noise in a coordinate of Z, in the units of Z; at least 0, 0
        without noise. Public.
    domain : Ball, Box or None
        Domain of the rows before the noise, in the space of Z. Public.
    projection : array-like of shape (d, r) or None
        Matrix by which the rows were multiplied before the noise; None if there is none or it is
        secret. Public.
    mechanism : str
        Name of the mechanism that made Z private. Public.
    guarantee : PrivacyGuarantee
        Guarantee of the release of Z.
    displacement : float
        The move of a row that `guarantee` hides, > 0, in the units of X. Public.
    data_norm : float
        Largest norm of a row of X, > 0, in its units. Public.
    answers_per_row : int, default=1
        Largest number of answers for a row, at least 1. Public.
    answer_noise_std : float, default=0.0
        Standard deviation of the noise of an answer, in the units of y; at least 0, 0 for exact
        answers. Public.
    n_answers : int or None, default=None
        Largest number of answers in total, at least 1; None for as many as `answers_per_row`
        allows. Public.
    answer_guarantee : PrivacyGuarantee or None, default=None
        Guarantee of all answers together; None if they are public.

    Notes
    -----
    The arrays are copies and read-only. `save` writes a NumPy archive (npz) without pickled
    objects, and `load` executes nothing: it checks every field again.
    """

    Z: np.ndarray
    noise_std: float
    domain: Ball | Box | None
    projection: np.ndarray | None
    mechanism: str
    guarantee: PrivacyGuarantee
    displacement: float
    data_norm: float
    answers_per_row: int = 1
    answer_noise_std: float = 0.0
    n_answers: int | None = None
    answer_guarantee: PrivacyGuarantee | None = None

    def __post_init__(self):
        set_fields(self, Z=_matrix(self.Z, "Z"))
        r = self.Z.shape[1]
        if self.projection is not None:
            set_fields(self, projection=_matrix(self.projection, "projection"))
            if self.projection.shape[1] != r:
                raise ValueError(f"projection must have {r} columns, as Z.")
        if self.domain is not None:
            if not isinstance(self.domain, Ball | Box):
                raise TypeError("domain must be a Ball, a Box or None.")
            if isinstance(self.domain, Box) and len(self.domain.low) != r:
                raise ValueError(
                    f"the domain has {len(self.domain.low)} coordinates and the rows {r}."
                )
        for name in ("noise_std", "answer_noise_std"):
            set_fields(self, **{name: check_within(getattr(self, name), name, "[0, inf)")})
        for name in ("displacement", "data_norm"):
            set_fields(self, **{name: float(check_positive(getattr(self, name), name))})
        set_fields(self, answers_per_row=check_count(self.answers_per_row, "answers_per_row"))
        if self.n_answers is not None:
            set_fields(self, n_answers=check_count(self.n_answers, "n_answers"))
        if not isinstance(self.mechanism, str) or not self.mechanism:
            raise TypeError("mechanism must be a name.")
        answers = () if self.answer_guarantee is None else (self.answer_guarantee,)
        if not all(
            isinstance(guarantee, PrivacyGuarantee) for guarantee in (self.guarantee, *answers)
        ):
            raise TypeError("guarantee and answer_guarantee must be PrivacyGuarantees.")
        if (self.answer_guarantee is None) != (self.answer_noise_std == 0):
            raise ValueError("answer_guarantee and answer_noise_std go together.")

    @property
    def n_rows(self) -> int:
        """Number n of rows."""
        return self.Z.shape[0]

    @property
    def n_components(self) -> int:
        """Number r of coordinates of a released row."""
        return self.Z.shape[1]

    def rows_in_domain(self) -> np.ndarray:
        """Return the rows of Z moved to the nearest points of the public domain.

        Returns
        -------
        ndarray of shape (n, r)
            Z itself where `domain` is None.
        """
        return self.Z if self.domain is None else self.domain.project(self.Z)

    def save(self, path: Any) -> None:
        """Write the release to a file.

        Parameters
        ----------
        path : str or path-like
            Used as it is: no ending is added. An existing file is replaced.
        """
        header = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _ARRAYS}
        if self.domain is not None:
            header["domain"] = {"type": type(self.domain).__name__, **asdict(self.domain)}
        for name in _GUARANTEES:
            if (stated := header[name]) is not None:
                header[name] = {f.name: getattr(stated, f.name) for f in fields(stated) if f.init}
        text = json.dumps({"format": _FORMAT, "version": _VERSION, **header}, allow_nan=False)
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        # To a file object, since `savez` would append an ending to a path.
        with open(path, "wb") as file:
            np.savez(file, header=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read a release from a file that `save` wrote.

        Parameters
        ----------
        path : str or path-like
            Used as it is: no ending is added.

        Returns
        -------
        ProjectionRelease
            With the content of the one that was saved.

        Raises
        ------
        ValueError
            If the file is damaged, is not a release, or holds invalid values.
        OSError
            If it cannot be read.
        """
        # The file is not trusted: nothing in it is executed, and the constructor checks all fields.
        header, arrays = _read(path)
        version = header.pop("version", None)
        if version != _VERSION:
            raise ValueError(f"{path} has version {version!r} of the format, not {_VERSION}.")
        names = {f.name for f in fields(cls)} - set(_ARRAYS)
        if set(header) != names:
            raise _not_a_release(path, "its header has other fields")
        try:
            if header["domain"] is not None:
                domain, kinds = dict(header["domain"]), {"Ball": Ball, "Box": Box}
                if (kind := domain.pop("type", None)) not in kinds:
                    raise ValueError("the domain is neither a Ball nor a Box")
                header["domain"] = kinds[kind](**domain)
            for name in _GUARANTEES:
                if header[name] is not None:
                    header[name] = PrivacyGuarantee(**header[name])
            return cls(Z=arrays["Z"], projection=arrays.get("projection"), **header)
        except (TypeError, ValueError, KeyError) as error:
            raise _not_a_release(path, str(error)) from None

    def __reduce__(self):
        # Unpickling calls the constructor, which checks all fields and makes arrays read-only.
        return partial(type(self), **{f.name: getattr(self, f.name) for f in fields(self)}), ()

    def __repr__(self):
        return (
            f"ProjectionRelease({self.n_rows} rows of {self.n_components} coordinates, "
            f"mechanism={self.mechanism!r}, noise_std={self.noise_std:.6g}, "
            f"status={self.guarantee.status!r})"
        )


def _read(path):
    """Return the header, a dict without the format's name, and the arrays of a file."""
    data = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
        # Compressed members are refused, as a small file could take much memory.
        if any(m.compress_type != zipfile.ZIP_STORED or m.file_size > len(data) for m in members):
            raise ValueError("its members are compressed")
        names = sorted(member.filename.removesuffix(".npy") for member in members)
        if names not in (sorted(["header", "Z"]), sorted(["header", *_ARRAYS])):
            raise ValueError("its members have other names")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in names}
        header = arrays.pop("header")
        if header.dtype != np.uint8 or header.ndim != 1:
            raise ValueError("its header is not text")
        header = json.loads(header.tobytes().decode())
    except Exception as error:  # damaged archives raise errors of many kinds
        raise _not_a_release(path, f"{type(error).__name__}: {error}") from None
    if not isinstance(header, dict) or header.pop("format", None) != _FORMAT:
        raise _not_a_release(path, "its header is another one")
    return header, arrays


def _not_a_release(path, why):
    return ValueError(f"{path} is not a release of projected rows, or it is damaged: {why}.")


def _matrix(values, name):
    """Return a read-only copy of a finite real matrix that has rows and columns."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must be a matrix of real numbers with rows and columns.")
    # A copy, which shares no memory with a writable array.
    array = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite.")
    array.flags.writeable = False
    return array
