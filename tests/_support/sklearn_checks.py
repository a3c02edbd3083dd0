"""scikit-learn's checks of an estimator, and those that it fails."""

import warnings

from sklearn.utils.estimator_checks import check_estimator

__all__ = ["failed_checks"]


def failed_checks(estimator, least=30):
    """Return the errors of the checks that fail, by name; at least so many have been run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert len(results) > least
    assert not any(result["status"] == "xfail" for result in results)
    return {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
