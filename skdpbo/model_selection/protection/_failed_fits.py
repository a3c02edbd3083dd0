"""Short statements of public fits that failed, in place of scikit-learn's tracebacks."""

import re
import warnings
from collections import Counter
from contextlib import contextmanager

import numpy as np
from sklearn.exceptions import FitFailedWarning

from skdpbo._parameters import warn_caller
from skdpbo.model_selection._sklearn import all_fits_failed

__all__ = ["FailedFits"]

_KINDS = 5  # errors that a message quotes
_SECTION = re.compile(
    r"^(\d+) fits failed with the following error:\n(.*?)(?=^-{80}|\Z)", re.MULTILINE | re.DOTALL
)
_ADVICE = 'error_score="raise" gives the whole traceback of the first one.'


class FailedFits:
    """Errors of the public cross-validation of one search.

    The words are scikit-learn's, for whom looks for them; its tracebacks are left out.

    Parameters
    ----------
    error_score : float or "raise"
    """

    outcomes = ()  # of all public fits so far, as `BaseSearchCV._format_results` gets them

    def __init__(self, error_score):
        self._error_score = error_score

    def warn(self, scores):
        """Say once how many fits failed, and why: rows, errors and mean scores are public."""
        texts = [outcome["fit_error"] for outcome in self.outcomes]
        errors = Counter(_error_line(text) for text in texts if text is not None)
        if errors:
            warn_caller(
                f"{errors.total()} fits failed out of a total of {len(texts)} on public rows. The "
                "score on these train-test partitions for these parameters will be set to "
                f"{self._error_score}. {_quoted(errors)}. {_ADVICE}",
                FitFailedWarning,
            )
        elif missing := int(np.sum(~np.isfinite(scores))):
            warn_caller(
                f"{missing} of {len(scores)} candidates have no finite score on public rows: "
                f"training, predicting or scoring failed. {_ADVICE}",
                UserWarning,
            )

    @contextmanager
    def without_tracebacks(self):
        """Leave out scikit-learn's own warnings of failed fits, and shorten its error."""
        with warnings.catch_warnings():
            # Of its modules only: the warning above is in the name of the caller.
            own = r"sklearn\.model_selection"
            warnings.filterwarnings("ignore", category=FitFailedWarning, module=own)
            for text in ("One or more of the (test|train) scores are non-finite", "Scoring failed"):
                warnings.filterwarnings("ignore", text, module=own)
            try:
                yield
            except ValueError as error:
                if not all_fits_failed(error):
                    raise
                counts = Counter()
                for number, text in _SECTION.findall(str(error)):
                    counts[_error_line(text)] += int(number)
                raise ValueError(
                    f"All the {counts.total()} fits failed on public rows, perhaps because your "
                    f"model is misconfigured. {_quoted(counts)}. Nothing was charged. {_ADVICE}"
                ) from None


def _error_line(text):
    """Return the error at the end of a traceback, without the module of its type."""
    frames = text.rpartition("Traceback (most recent call last):\n")[2].splitlines()
    line = next((line for line in frames if line and not line[0].isspace()), "an error")
    kind, colon, message = line.partition(": ")
    return kind.rpartition(".")[2] + colon + message.rstrip(".")


def _quoted(errors):
    """Return the most frequent errors with their numbers."""
    quoted = [
        f"{number} fits failed with the following error: {error}"
        for error, number in errors.most_common(_KINDS)
    ]
    further = len(errors) - _KINDS
    return "; ".join(quoted) + (f"; and {further} other errors" if further > 0 else "")
