"""Capture of printed output, warnings and log records."""

import io
import logging
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any


class Traces:
    """Record what is printed, warned and logged inside a ``with`` block.

    All warnings are recorded and none is shown; the root logger is set to the lowest level. Output
    of other processes is not captured.

    Attributes
    ----------
    warnings : list of warnings.WarningMessage
        In order of issue.

    Examples
    --------
    >>> from skdpbo.audit import Traces
    >>> with Traces() as traces:
    ...     print("hello")
    >>> traces.text()
    'hello'
    """

    def __init__(self) -> None:
        self.warnings: list[Any] = []
        self._printed, self._logged = io.StringIO(), io.StringIO()

    def __enter__(self):
        self._stack = ExitStack()
        self._stack.enter_context(redirect_stdout(self._printed))
        self._stack.enter_context(redirect_stderr(self._printed))
        self.warnings = self._stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        root, handler = logging.getLogger(), logging.StreamHandler(self._logged)
        self._stack.callback(root.setLevel, root.level)
        self._stack.callback(root.removeHandler, handler)
        root.setLevel(1)
        root.addHandler(handler)
        return self

    def __exit__(self, *exc_info):
        self._stack.close()

    def text(self) -> str:
        """Return the captured output as one text.

        Returns
        -------
        text : str
            Printed output, then log records, then warnings.
        """
        warned = [f"{w.category.__name__}: {w.message}" for w in self.warnings]
        written = [self._printed.getvalue(), self._logged.getvalue(), *warned]
        return "\n".join(text.strip() for text in written if text.strip())
