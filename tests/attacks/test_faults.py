"""State after a search is killed, a worker dies, or a candidate returns nonsense.

Never a half-made release: no attribute, no file, no message with a protected value. The ledger
counts every fit that may have touched protected rows.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.gaussian_process.kernels import RBF

from _support.internals import RUNNING
from _support.planted import SameContext, original, put
from skdpbo import (
    DPBayesSearchCV,
    DPGIBOSearchCV,
    DPGridSearchCV,
    DPRandomizedSearchCV,
    DPSparseGPRegressor,
)
from skdpbo.audit import Secrets, Traces, leak_scan
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, charge_active_ledger

# Fifty protected rows are few for a gradient, of which a warning is given.
pytestmark = [
    pytest.mark.usefixtures("few_public_candidates"),
    pytest.mark.filterwarnings("ignore::skdpbo.exceptions.NoisyGradientWarning"),
]
CHILD = Path(__file__).parent / "fault_child.py"
SECRET = 0.7316520948315577
SECRETS = Secrets([SECRET, 3 * SECRET])
HELD = Secrets([SECRET, 3 * SECRET], digits=9)  # fitted objects print noise and times
RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(30, 2)), RNG.normal(size=30)
X_VAL, Y_VAL = np.full((50, 2), SECRET), np.full(50, 3 * SECRET)


def environment(folder):
    """Every temporary file of a child goes into one folder."""
    (folder / "tmp").mkdir(exist_ok=True)
    places = {name: str(folder / "tmp") for name in ("TMPDIR", "JOBLIB_TEMP_FOLDER")}
    return {**os.environ, **places, "OPENBLAS_NUM_THREADS": "1"}


def start(folder, task, *arguments):
    command = [sys.executable, str(CHILD), task, *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(folder),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def finish(child, limit=1200):
    """Return the further output of a child, when it and its workers are gone."""
    try:
        child.wait(timeout=limit)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with child:
            output = child.stdout.read()
    return output


def entries(path):
    if not path.exists():
        return 0
    with PrivacyLedger(epsilon=3.0, delta=1e-4, path=path) as ledger:
        return len(ledger.entries)


def files_with_secrets(folder):
    """Files, those of joblib included, in which a protected value is found."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if SECRETS.in_bytes(path.read_bytes())]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n_jobs"),
    [("DPGridSearchCV", 0), ("DPBayesSearchCV", 2), ("DPGIBOSearchCV", 0)],
)
def test_killed_at_a_random_moment(kind, n_jobs, tmp_path):
    ledger, mark = tmp_path / "budget.ledger", tmp_path / "touched"
    moments, touched = random.Random(f"{kind} {n_jobs}"), 0
    for killed in (1, 2):
        mark.unlink(missing_ok=True)
        child = start(tmp_path, "search", ledger, mark, kind, n_jobs)
        assert child.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.02, 0.3))
        os.killpg(child.pid, signal.SIGKILL)  # with its helpers, which would speak of its death
        output = finish(child)
        assert output == "" or output.startswith("released")
        # At most one charge for each start; and one for each that has seen a protected row.
        touched += mark.exists()
        assert touched <= entries(ledger) <= killed
    before = entries(ledger)
    assert files_with_secrets(tmp_path) == []
    child = start(tmp_path, "search", ledger, mark, kind, n_jobs)
    output = finish(child)
    assert "released" in output, output
    assert entries(ledger) == before + 1
    assert files_with_secrets(tmp_path) == []


@pytest.mark.slow
def test_a_charge_that_comes_too_late_is_caught(tmp_path):
    # Planted bug: the ledger is charged when the fit is over.
    ledger, mark = tmp_path / "budget.ledger", tmp_path / "touched"
    child = start(tmp_path, "search_unpaid", ledger, mark, "DPGridSearchCV", 0)
    deadline = time.monotonic() + 1200
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    child.kill()
    finish(child)
    assert mark.exists()
    assert entries(ledger) == 0  # "touched <= entries" fails, as it should


@pytest.mark.slow
class TestWorkerThatDies:
    """On public rows it is joblib's error; on protected ones no error may tell of a record."""

    def run(self, where, folder):
        child = start(folder, "lose_a_worker", where, "DPGridSearchCV")
        output = finish(child)
        assert not SECRETS.in_text(output)
        assert files_with_secrets(folder) == []
        return child.returncode, output

    def test_on_public_rows(self, tmp_path):
        code, output = self.run("public", tmp_path)
        assert code == 0, output
        assert "TerminatedWorkerError" in output
        assert "leaks: []" in output
        assert "fitted: []" in output

    def test_on_protected_rows_the_fit_goes_on_without_workers(self, tmp_path):
        code, output = self.run("in a worker", tmp_path)
        assert code == 0, output
        assert "Error" not in output
        assert "best_params_" in output

    def test_where_that_ends_the_process_nothing_is_released(self, tmp_path):
        code, output = self.run("protected", tmp_path)
        assert code == 3
        assert "fitted" not in output
        assert "Error:" not in output


class Faulty(RegressorMixin, BaseEstimator):
    """Returns what it is given when it predicts, or raises it."""

    def __init__(self, k=0, answer=None, on="protected", interrupt=None):
        self.k = k
        self.answer = answer
        self.on = on
        self.interrupt = interrupt

    def fit(self, X, y):
        self.n_features_in_ = 2
        return self

    def predict(self, X):
        protected = bool((np.asarray(X) == SECRET).any())
        if self.on == "both" or protected == (self.on == "protected"):
            if self.interrupt is not None:
                raise self.interrupt(f"while predicting {X}")
            return ANSWERS[self.answer](X)
        return np.zeros(len(X))


class Sound(Faulty):
    def predict(self, X):
        return np.zeros(len(X))


def fail(X):
    raise MemoryError(f"too many {X}")


def hopeless(X):
    return hopeless(X)


ANSWERS = {
    "nothing": lambda X: None,
    "NaN": lambda X: np.full(len(X), np.nan),
    "infinite": lambda X: np.full(len(X), -np.inf),
    "one row short": lambda X: np.zeros(len(X) - 1),
    "too many columns": lambda X: np.zeros((len(X), 3)),
    "a table of a table": lambda X: np.zeros((len(X), 1, 1)),
    "a number": lambda X: 3.0,
    "text": lambda X: ["text"] * len(X),
    "objects": lambda X: np.array([object()] * len(X)),
    "the rows": lambda X: X,
    "a generator": lambda X: (x for x in X),
    "complex": lambda X: np.full(len(X), 1j),
    "itself": lambda X: Faulty(),
    "an error": fail,
    "a recursion": hopeless,
}
SEARCHERS = {
    "grid": lambda e, **k: DPGridSearchCV(e, {"k": [0, 1]}, **k),
    "randomized": lambda e, **k: DPRandomizedSearchCV(e, {"k": (0, 9)}, n_iter=2, **k),
    "bayes": lambda e, **k: DPBayesSearchCV(e, {"k": (0, 9)}, n_iter=2, n_initial_points=2, **k),
    "gibo": lambda e, **k: DPGIBOSearchCV(e, {"k": (0.0, 9.0)}, n_iter=2, **{"cv": 2, **k}),
}


def attempt(search, **rows):
    """Fit inside a ledger; return the failure, the output, and the number of charges."""
    failure = None
    with Traces() as traces, PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger:
        try:
            search.fit(X, Y, **{"X_val": X_VAL, "y_val": Y_VAL, **rows})
        except BaseException as error:
            failure = error
    return failure, traces.text(), len(ledger.entries)


def fitted(estimator):
    return [name for name in vars(estimator) if name.endswith("_") and name[0] != "_"]


class TestNonsense:
    # A choice and a descent see every answer; the other searches choose as the grid does.
    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize(
        ("kind", "answer"),
        [
            *product(("grid", "gibo"), ANSWERS),
            *product(("randomized", "bayes"), ("nothing", "one row short", "an error")),
        ],
    )
    def test_on_protected_rows_it_costs_the_worst_loss(self, kind, answer):
        search = SEARCHERS[kind](Faulty(answer=answer), loss_bound=1.0, cv=2, refit=False)
        failure, output, charges = attempt(search)
        assert failure is None
        assert charges == 1
        assert not leak_scan(search, HELD)
        assert not SECRETS.in_text(output)

    @pytest.mark.slow
    def test_the_worst_loss_it_is(self, monkeypatch):
        totals, honest = [], original("public training: _totals")

        def recorded(*args, **kwargs):
            totals.append(honest(*args, **kwargs))
            return totals[-1]

        put(monkeypatch, "public training: _totals", recorded)
        for answer in ANSWERS:
            search = SEARCHERS["grid"](Faulty(answer=answer), loss_bound=1.0, guide=False)
            assert attempt(search)[0] is None
        assert totals == [[50 * 2**20] * 2] * len(ANSWERS)

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("kind", SEARCHERS)
    @pytest.mark.parametrize("answer", ["nothing", "NaN", "objects", "one row short", "an error"])
    def test_on_public_rows_it_is_an_error_or_a_bad_score(self, kind, answer):
        search = SEARCHERS[kind](Faulty(answer=answer, on="both"), loss_bound=1.0, cv=2)
        failure, output, charges = attempt(search)
        assert failure is None or isinstance(failure, ValueError | TypeError | MemoryError)
        assert charges <= 1
        assert bool(fitted(search)) == (failure is None)
        assert not leak_scan(failure, SECRETS)
        assert not SECRETS.in_text(output)

    def test_a_quoting_failure_is_caught(self, monkeypatch):
        # Planted bug: an error of a protected record comes through.
        put(monkeypatch, "row answers: attempt", lambda call, *args: (call(*args), None))
        search = SEARCHERS["grid"](Faulty(answer="an error"), loss_bound=1.0, guide=False)
        assert leak_scan(attempt(search)[0], SECRETS)


class TestInterrupts:
    """Control-C in the middle: no attribute, no open session; the charge stays."""

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("kind", SEARCHERS)
    def test_of_searchers(self, kind):
        search = SEARCHERS[kind](Faulty(answer="NaN"), loss_bound=1.0, cv=2, refit=False)
        search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
        assert "privacy_" in fitted(search)
        search.set_params(estimator=Faulty(interrupt=KeyboardInterrupt))
        failure, output, charges = attempt(search)
        assert type(failure) is KeyboardInterrupt
        assert charges == 1
        assert fitted(search) == []
        assert RUNNING.get() is None
        assert not SECRETS.in_text(output)
        search.set_params(estimator=Sound(), epsilon=4.0)
        assert attempt(search, y_val=np.zeros(50))[0] is None
        assert search.best_score_ > -0.5  # -1 where the later fit loses all records

    @pytest.mark.quick_cases(1)
    @pytest.mark.parametrize("kind", SEARCHERS)
    def test_an_exit_is_an_error_of_its_record(self, kind):
        search = SEARCHERS[kind](Faulty(interrupt=SystemExit), loss_bound=1.0, cv=2, refit=False)
        failure, output, charges = attempt(search)
        assert failure is None
        assert charges == 1
        assert not SECRETS.in_text(output)

    def test_a_half_made_release_is_caught(self, monkeypatch):
        # Planted bug: what was set before the interrupt stays.
        put(monkeypatch, "protection: Protection.forget", lambda self: None)
        search = SEARCHERS["grid"](Faulty(answer="NaN"), loss_bound=1.0, cv=2, refit=False)
        attempt(search)
        search.set_params(estimator=Faulty(interrupt=KeyboardInterrupt))
        assert type(attempt(search)[0]) is KeyboardInterrupt
        assert fitted(search)

    def charges_after_one_inside(self, monkeypatch):
        """Interrupt a search where a payment has begun, then charge a release in the same ledger.

        The block is begun and never left, as a notebook keeps the traceback, and so the block.
        """
        honest, kept = original("isolation: covered_by_fit"), []

        def begun(*args):
            kept.append(honest(*args))
            kept[-1].__enter__()
            raise KeyboardInterrupt

        search = SEARCHERS["grid"](Faulty(answer="NaN"), loss_bound=1.0, guide=False)
        put(monkeypatch, "isolation: covered_by_fit", begun)
        with PrivacyLedger(epsilon=5.0) as ledger:
            with pytest.raises(KeyboardInterrupt):
                search.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
            charge_active_ledger(PrivacyGuarantee(epsilon=0.5))
            return len(ledger.entries)

    @pytest.mark.parametrize("in_own_context", [True, False])
    def test_a_payment_that_was_not_left_covers_no_later_fit(self, in_own_context, monkeypatch):
        if not in_own_context:  # either alone ends it
            put(monkeypatch, "search: copy_context", SameContext)
        assert self.charges_after_one_inside(monkeypatch) == 1

    def test_a_payment_that_goes_on_is_caught(self, monkeypatch):
        # Planted bug: nothing ends what an interrupt has left open.
        put(monkeypatch, "protection: payments_ending", contextlib.nullcontext)
        put(monkeypatch, "search: copy_context", SameContext)
        assert self.charges_after_one_inside(monkeypatch) == 0

    @pytest.mark.parametrize("n_before", [0, 1])
    def test_of_the_regressor(self, n_before, monkeypatch):
        def interrupted(*args, **kwargs):
            raise KeyboardInterrupt

        gp = DPSparseGPRegressor(RBF(1.0), inducing_points=4, X_bounds=(-3, 3), y_bounds=(-3, 3))
        for _ in range(n_before):
            gp.fit(X, Y)
        before = {name: getattr(gp, name) for name in fitted(gp)}
        put(monkeypatch, "sparse process: streamed_sums", interrupted)
        with PrivacyLedger(epsilon=5.0, delta=1e-4) as ledger, pytest.raises(KeyboardInterrupt):
            gp.fit(X, Y)
        assert len(ledger.entries) == 1
        # Nothing, or the earlier release as it was; the number of columns is public.
        after = {name: getattr(gp, name) for name in fitted(gp) if name != "n_features_in_"}
        assert all(after[name] is before[name] for name in after)
