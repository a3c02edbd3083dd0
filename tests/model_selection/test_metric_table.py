"""Every metric in every searcher: offered, or refused with a reason before any charge."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer_names

from _support.internals import _MEANS, metric_of
from _support.planted import put
from _support.scorings import installed, scoring_of
from skdpbo import DPBayesSearchCV, DPGIBOSearchCV, DPGridSearchCV, DPRandomizedSearchCV
from skdpbo.exceptions import UnboundedSensitivityError
from skdpbo.linear_model import DPLogisticRegression, DPRidge
from skdpbo.model_selection import Chunks, Kusner2015, PrivateSelection

pytestmark = pytest.mark.usefixtures("few_public_candidates")

RNG = np.random.RandomState(0)
X = RNG.normal(size=(120, 2))
TARGETS = {
    "two": (X[:, 0] + RNG.normal(size=120) > 0).astype(int),
    "three": np.digitize(X[:, 0] + RNG.normal(size=120), [-0.5, 0.5]),
    "number": X[:, 0] + 0.1 * RNG.normal(size=120),
    "positive": X[:, 0] / 10 + 5,
}

# Refused where: v validation, m mechanisms that need means, c chunks, g chunks with Gaussian noise,
# t private trials.
MEAN = ""
RATIO, RELATIVE, ROOT, ORDER, NO = "m", "mt", "mg", "vmt", "vmcgt"
TABLE = {
    "two": {
        **dict.fromkeys(["accuracy", "neg_log_loss", "neg_brier_score", "f1_micro"], MEAN),
        **dict.fromkeys(["precision_micro", "recall_micro", "recall_weighted"], MEAN),
        **dict.fromkeys(["roc_auc", "balanced_accuracy", "f1", "precision", "recall"], RATIO),
        **dict.fromkeys(["jaccard", "f1_macro", "f1_weighted", "precision_macro"], RATIO),
        **dict.fromkeys(["precision_weighted", "recall_macro", "jaccard_macro"], RATIO),
        **dict.fromkeys(["jaccard_micro", "jaccard_weighted", "matthews_corrcoef"], RATIO),
        **dict.fromkeys(["d2_log_loss_score", "d2_brier_score"], RELATIVE),
        "average_precision": ORDER,
        "positive_likelihood_ratio": NO,
        **dict.fromkeys([f"{of}_samples" for of in ("f1", "jaccard", "precision", "recall")], NO),
    },
    "three": {
        **dict.fromkeys(["roc_auc_ovr", "roc_auc_ovo", "roc_auc_ovr_weighted"], RATIO),
        "roc_auc_ovo_weighted": RATIO,
        "top_k_accuracy": MEAN,
    },
    "number": {
        **dict.fromkeys(["neg_mean_squared_error", "neg_mean_absolute_error"], MEAN),
        "neg_mean_absolute_percentage_error": MEAN,
        "neg_root_mean_squared_error": ROOT,
        **dict.fromkeys(["r2", "d2_absolute_error_score"], RELATIVE),
        **dict.fromkeys(["explained_variance", "neg_max_error"], ORDER),
        "neg_median_absolute_error": ORDER,
    },
    "positive": {
        "neg_mean_squared_log_error": MEAN,
        **dict.fromkeys(["neg_mean_poisson_deviance", "neg_mean_gamma_deviance"], MEAN),
        "neg_root_mean_squared_log_error": ROOT,
    },
}
QUICK = ("roc_auc", "f1", "balanced_accuracy", "r2", "neg_root_mean_squared_error", "neg_max_error")
CASES = [
    pytest.param(kind, name, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
    for kind in TABLE
    for name in installed(TABLE[kind])
]
# GIBO follows gradients, which a loss of labels does not have: that is refused elsewhere.
LABELS = ("accuracy", "top_k_accuracy", "f1_micro", "precision_micro", "recall_micro")


def test_every_metric_of_a_name_is_in_the_table():
    offered = {name for name in get_scorer_names() if metric_of(name) is not None} | {*_MEANS}
    missing = offered - {name for kind in TABLE.values() for name in kind}
    assert not missing, f"add {missing} to TABLE"


class ChargedError(Exception):
    """The search has got as far as to pay."""


@pytest.fixture(autouse=True)
def till(monkeypatch):
    def charge(*args, record=True, **how):
        if record:  # what is requested before that is not charged
            raise ChargedError

    put(monkeypatch, "protection: charge_active_ledger", charge)


def searches(kind, name):
    """Return the searcher for each mechanism: (mark in the table, search, whether public rows)."""
    number = kind in ("number", "positive")
    plain, private = (Ridge(), DPRidge()) if number else (LogisticRegression(), None)
    private = private or DPLogisticRegression(classes=np.unique(TARGETS[kind]).tolist())
    parameter = "alpha" if number else "C"
    values, interval = {parameter: [0.1, 1.0]}, {parameter: (0.1, 1.0)}
    how = {"scoring": scoring_of(name), "loss_bound": 2.0 if number else None, "epsilon": 5.0}
    free = {**how, "guide": False}
    yield "v", DPGridSearchCV(plain, values, **free), True
    yield "v", DPRandomizedSearchCV(plain, interval, n_iter=2, **free), True
    yield "v", DPBayesSearchCV(plain, interval, n_iter=2, cv=2, **how), True
    yield "m", DPBayesSearchCV(plain, interval, n_iter=2, mechanism="gaussian", **free), True
    if "m" in TABLE[kind][name]:  # it pays within its own search, where errors are scores of 0
        yield "m", DPBayesSearchCV(plain, interval, mechanism=Kusner2015(), **free), True
    if name not in (*LABELS, "recall_weighted"):
        yield "m", DPGIBOSearchCV(plain, interval, n_iter=2, **how), True
    everything = {**how, "protect": Chunks(4)}
    yield "c", DPGridSearchCV(plain, values, **everything), False
    gaussian = {**everything, "mechanism": "gaussian", "guide": False, "n_iter": 2}
    yield "g", DPBayesSearchCV(plain, interval, **gaussian), False
    trials = {**how, "protect": PrivateSelection(), "epsilon": 50.0, "delta": 1e-5}
    yield "t", DPGridSearchCV(private, {}, **trials), False


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_offered_or_refused_with_a_reason_before_any_charge(kind, name):
    y, refused = TARGETS[kind], TABLE[kind][name]
    for mark, search, with_public_rows in searches(kind, name):
        part = {"X_val": X[60:], "y_val": y[60:]} if with_public_rows else {}
        n = 60 if with_public_rows else 120
        expected = UnboundedSensitivityError if mark in refused else ChargedError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(expected) as caught:
                search.fit(X[:n], y[:n], **part)
        if expected is UnboundedSensitivityError:
            assert "Use " in str(caught.value)
            assert name.split("_")[0] in str(caught.value)
