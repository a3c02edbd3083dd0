"""Tasks of test_faults.py, in processes to be killed: ``fault_child.py TASK [ARG]``.

The classes live in ``__main__`` here, so that joblib sends them to its workers by value.
"""

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from _support.planted import located

SECRET = 0.7316520948315577
X, Y = np.random.RandomState(0).normal(size=(60, 2)), np.linspace(-1, 1, 60)
X_VAL, Y_VAL = np.full((50, 2), SECRET), np.full(50, 3 * SECRET)


class Slow(RegressorMixin, BaseEstimator):
    """Takes its time, and leaves a mark when it is shown a protected row."""

    def __init__(self, alpha=0, mark=None, dies_on=None):
        self.alpha = alpha
        self.mark = mark
        self.dies_on = dies_on

    def fit(self, X, y):
        self.n_features_in_ = 2
        if self.dies_on == "public" and self.alpha == 1:
            os._exit(3)
        time.sleep(0.005)
        return self

    def predict(self, X):
        if (np.asarray(X) == SECRET).any():
            if self.mark is not None:
                Path(self.mark).touch()
            in_worker = str(os.getpid()) != os.environ["MAIN_PROCESS"]
            if self.dies_on == "protected" or (self.dies_on == "in a worker" and in_worker):
                os._exit(3)
            time.sleep(0.005)
        return np.full(len(X), 0.1 * self.alpha)


def make_search(kind="DPGridSearchCV", **params):
    """A searcher over six candidates, with the marks of its estimator."""
    import skdpbo

    estimator = Slow(**params.pop("estimator", {}))
    space = {"alpha": (0.0, 5.0)} if "GIBO" in kind else {"alpha": [0, 1, 2, 3, 4, 5]}
    fewer = {} if kind == "DPGridSearchCV" else {"n_iter": 4}
    return getattr(skdpbo, kind)(
        estimator, space, **fewer, **{"cv": 2, "loss_bound": 1.0, "epsilon": 0.5, **params}
    )


def search(ledger, mark, kind, n_jobs):
    """Fit a search that charges the ledger file."""
    from skdpbo.privacy import PrivacyLedger

    searcher = make_search(kind, estimator={"mark": mark}, n_jobs=int(n_jobs) or None)
    print("ready", flush=True)
    with PrivacyLedger(epsilon=3.0, delta=1e-4, path=ledger):
        searcher.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    print("released", searcher.best_params_, flush=True)


def search_unpaid(*arguments):
    """Planted bug: protected rows are touched before the ledger is charged."""

    module, name = located("protection: charge_active_ledger")
    setattr(module, name, lambda *args, **kwargs: None)
    search(*arguments)


def lose_a_worker(where, kind):
    """Fit a search whose worker dies, and say what is left."""
    from skdpbo.audit import leak_scan

    searcher = make_search(kind, estimator={"dies_on": where}, n_jobs=2, guide=where == "public")
    try:
        searcher.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    except Exception as error:
        print(type(error).__name__)
        print("leaks:", leak_scan(error, [SECRET, 3 * SECRET]))
    print("fitted:", [name for name in vars(searcher) if name.endswith("_")])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["MAIN_PROCESS"] = str(os.getpid())
    tasks = {"search": search, "search_unpaid": search_unpaid, "lose_a_worker": lose_a_worker}
    tasks[sys.argv[1]](*sys.argv[2:])
