"""Leak scans: search a fitted object, its pickle, its texts and its traces for secrets."""

import pickle
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbo._attempt import attempt
from skdpbo.audit._traces import Traces
from skdpbo.audit._walk import as_array, reachable
from skdpbo.privacy._checks import check_count, check_within

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Leak:
    """Place of a secret that was found, without the secret.

    Parameters
    ----------
    channel : {"object", "pickle", "repr", "html", "text"}
        Kind of place.
    path : str, default=""
        Path in the object; not one with a secret key in it.
    """

    channel: str
    path: str = ""


class Secrets:
    """Planted secrets and the forms in which they are recognised.

    Parameters
    ----------
    values : iterable of float, str or bytes, or array or data frame of them
        Planted values that do not occur by chance, such as numbers with many digits.
    predicate : callable, default=None
        Returns whether an object is secret.
    rtol : float, default=1e-9
        Relative tolerance of numbers, at least 0.
    digits : int, default=4
        Least number of significant digits by which a printed number is recognised, in [1, 17].

    Examples
    --------
    >>> from skdpbo.audit import Secrets
    >>> secrets = Secrets([0.7316520948315577, "S3cr3t"])
    >>> secrets.in_text("the largest residual is 0.73165"), secrets.in_text("it is 0.73")
    (True, False)
    """

    def __init__(
        self,
        values: Any = (),
        *,
        predicate: Callable[[Any], bool] | None = None,
        rtol: float = 1e-9,
        digits: int = 4,
    ) -> None:
        values = as_array(values)
        if isinstance(values, np.ndarray):
            values = values.ravel().tolist()
        values = [values] if isinstance(values, str | bytes) else list(values)
        self.texts = [
            v.decode(errors="replace") if isinstance(v, bytes) else v
            for v in values
            if isinstance(v, str | bytes)
        ]
        self.numbers = [float(v) for v in values if not isinstance(v, str | bytes)]
        self.predicate = predicate
        self.rtol = check_within(rtol, "rtol", "[0, inf)")
        self.digits = check_count(digits, "digits", most=17)
        # Doubles in either byte order.
        self._patterns = [text.encode() for text in self.texts]
        self._patterns += [struct.pack(order, v) for v in self.numbers for order in ("<d", ">d")]
        # Printed forms, rounded to `digits` or more significant digits.
        self._printed = {
            abs(float(f"{number:.{digits}g}"))
            for number in self.numbers
            for digits in range(self.digits, 17)
        }

    def in_text(self, text: str) -> bool:
        """Return whether a text contains a secret text or number.

        Parameters
        ----------
        text : str
            Printed or logged text.

        Returns
        -------
        bool
            True if a secret was found.
        """
        if any(secret in text for secret in self.texts):
            return True
        if not self.numbers:
            return False
        for shown in _NUMBER.findall(text):
            # Too few significant digits, as 0.9 for 0.90003, are no evidence.
            digits = re.sub(r"[eE].*|\D", "", shown).lstrip("0")
            printed = abs(float(shown)) in self._printed and len(digits) >= self.digits
            if printed or self.is_number(float(shown)):
                return True
        return False

    def in_bytes(self, data: Any) -> bool:
        """Return whether bytes contain a secret text or double.

        Parameters
        ----------
        data : bytes
            Such as a pickle.

        Returns
        -------
        bool
            True if a secret was found.
        """
        return any(pattern in data for pattern in self._patterns)

    def is_number(self, value: Any) -> bool:
        """Return whether a number equals a secret one, up to its sign.

        Parameters
        ----------
        value : float
            Number to compare.

        Returns
        -------
        bool
            True if it equals a secret.
        """
        return any(
            abs(abs(value) - abs(secret)) <= self.rtol * abs(secret) for secret in self.numbers
        )

    def match(self, value: Any) -> bool:
        """Return whether an object itself, apart from its contents, is secret.

        Parameters
        ----------
        value : object
            Of any type.

        Returns
        -------
        bool
            True if the object is a secret.
        """
        if self.predicate is not None and self.predicate(value):
            return True
        if isinstance(value, str):
            return self.in_text(value)
        if isinstance(value, bytes | bytearray):
            return self.in_bytes(bytes(value))
        # True equals 1.0, and would match every secret 1.
        if isinstance(value, bool | np.bool_ | complex | np.complexfloating):
            return False
        if not isinstance(value, int | float | np.number):
            return False
        number, _ = attempt(float, value)  # None for an integer too large for a float
        return number is not None and self.is_number(number)

    def absent_from(self, array: np.ndarray) -> bool:
        """Return whether no item of an array is secret; False if items must be visited.

        Parameters
        ----------
        array : ndarray
            Of any type.

        Returns
        -------
        bool
            True for real numbers without a secret among them.
        """
        if self.predicate is not None or array.dtype.kind not in "biuf":
            return False
        with np.errstate(all="ignore"):  # infinities, and numbers too large for doubles
            values = np.abs(np.ma.getdata(array).astype(float))
            return not any(
                np.any(np.abs(values - abs(secret)) <= self.rtol * abs(secret))
                for secret in self.numbers
            )


def leak_scan(thing: Any, secrets: Any, *, texts: Iterable[str] = ()) -> list[Leak]:
    """Search an object for secrets, in itself, its pickle, its repr and its HTML.

    Parameters
    ----------
    thing : object
        A fitted estimator, an exception, the arguments of a callback; or `Traces`, whose text is
        searched.
    secrets : Secrets, callable or iterable
        A callable is a predicate on objects; an iterable, array or frame holds planted numbers and
        texts.
    texts : iterable of str, default=()
        Further texts to search.

    Returns
    -------
    leaks : list of Leak
        Empty if no secret was found.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from skdpbo.audit import leak_scan
    >>> X = np.array([[0.7316520948315577], [2.0]])
    >>> model = KNeighborsRegressor(1).fit(X, [0.0, 1.0])
    >>> sorted({leak.channel for leak in leak_scan(model, X[0])})
    ['object', 'pickle']
    """
    if not isinstance(secrets, Secrets | Callable):
        secrets = Secrets(secrets if isinstance(secrets, Iterable) else [secrets])
    elif not isinstance(secrets, Secrets):
        secrets = Secrets(predicate=secrets)
    if isinstance(thing, Traces):
        return [Leak("text")] if secrets.in_text(thing.text()) else []
    # Arrays without a secret are skipped: visiting their items may take minutes.
    objects = reachable(thing, skip=secrets.absent_from)
    places = [path for path, value in objects if secrets.match(value)]
    # A path must not quote a secret key.
    leaks = [Leak("object", "a secret key" if secrets.in_text(p) else p) for p in places]
    # Objects that cannot be pickled or printed do not leak by these channels.
    data, _ = attempt(pickle.dumps, thing)
    if data is not None and secrets.in_bytes(data):
        leaks.append(Leak("pickle"))
    printed, _ = attempt(lambda: repr(thing) + str(thing))
    if printed is not None and secrets.in_text(printed):
        leaks.append(Leak("repr"))
    html, _ = attempt(lambda: thing._repr_html_())
    if html is not None and secrets.in_text(html):
        leaks.append(Leak("html"))
    texts = [texts] if isinstance(texts, str) else texts
    return leaks + [Leak("text") for text in texts if secrets.in_text(text)]
