"""An estimator that pays and reads nothing, and what workers of all kinds do with it."""

import os
import pickle
import signal
import threading
import time

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from skdpbo.exceptions import BudgetExceededError, LedgerError
from skdpbo.privacy import LedgerMixin, PrivacyGuarantee, charge_active_ledger

__all__ = ["ROWS", "Paid", "fit", "fit_a_clone", "fit_again", "fit_and_die", "fit_late"]

ROWS = np.zeros((4, 1))


class Paid(LedgerMixin, RegressorMixin, BaseEstimator):
    """A regressor that costs epsilon and looks at nothing."""

    def __init__(self, epsilon=0.125):
        self.epsilon = epsilon

    def fit(self, X, y=None):
        charge_active_ledger(PrivacyGuarantee(epsilon=self.epsilon), "Paid", self)
        return self

    def predict(self, X):
        return np.zeros(len(X))


def fit(model, released=None):
    """Fit; return "released" or the name of the refusal. A file gets one byte a release."""
    try:
        model.fit(ROWS)
    except (BudgetExceededError, LedgerError) as error:
        return type(error).__name__
    if released is not None:
        with open(released, "ab", buffering=0) as file:
            file.write(b".")
    return "released"


def fit_again(state, times):
    """Load a pickle and fit it, a number of times."""
    return [fit(pickle.loads(state)) for _ in range(times)]


def fit_late(model):
    """Fit when the block of the caller is likely closed."""
    time.sleep(0.2)
    return fit(model)


def fit_a_clone(model):
    """Fit a clone that the worker makes."""
    return fit(clone(model))


def fit_and_die(model, released, seconds):
    """Fit again and again, in a process that is killed after some time."""
    killer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
    killer.daemon = True
    killer.start()
    while True:
        fit(model, released)
