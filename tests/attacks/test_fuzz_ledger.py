"""Ledgers against a simple model of what they must do, by random programs.

A program opens ledgers on several data sets, in memory and in one file, charges them alone, inside
each other and by fits in their blocks, opens them again, exports them, and tries to copy them. The
model is a list of epsilons and deltas for each data set. A ledger must hold exactly what was
acknowledged, refuse before anything is written, and never spend more than its budget.
"""

import copy
import json
import math
import pickle
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from _support.planted import original, put
from skdpbo.exceptions import BudgetExceededError, LedgerError
from skdpbo.privacy import (
    LedgerEntry,
    PrivacyGuarantee,
    PrivacyLedger,
    charge_active_ledger,
    charged_elsewhere,
    compose,
    epsilon_from_mu,
)

# Data sets of the program: name, budget, and whether it is kept in the file.
BUDGETS = {
    "pure": (1.0, 0.0, True),
    "approximate": (Fraction(3), 1e-5, True),
    "ten tenths": (0.5, 1e-6, False),
    "in memory": (2.0, 1e-5, False),
}
names = st.sampled_from(sorted(BUDGETS))
EPSILONS = [0.1, 0.25, 0.5, Fraction(1, 3), 1.0, 3.0, 1e-9, 1e6]
LABELS = [
    "",
    "a fit",
    "O'Neill; DROP TABLE charges;--",
    "\x1f\x00\u2603",
    "<b>&amp;</b>",
    "x" * 500,
]
ODD = ["0.5", None, 0.5, float("nan"), -1, object(), [1], {"epsilon": 1.0}]


@st.composite
def guarantees(draw):
    kind = draw(st.sampled_from(["pure", "pure", "approximate", "gaussian", "void"]))
    if kind == "gaussian":
        mu = draw(st.sampled_from([0.05, 0.2, 0.5]))
        return PrivacyGuarantee(epsilon=epsilon_from_mu(mu, 1e-6), delta=1e-6, mu=mu)
    epsilon = draw(st.sampled_from(EPSILONS))
    if kind == "approximate":
        return PrivacyGuarantee(epsilon=epsilon, delta=draw(st.sampled_from([1e-7, 1e-6, 1e-5])))
    made = PrivacyGuarantee(epsilon=epsilon, mechanism="Laplace", assumptions=("one", "two"))
    return made.voided("a seed") if kind == "void" else made


def total_epsilon(charges, delta):
    """Epsilon of all charges together at `delta` by the library's composition; inf if none."""
    try:
        return compose(*charges, delta=delta).epsilon
    except ValueError:
        return math.inf


class Model:
    """Model of a ledger of one data set."""

    def __init__(self, epsilon, delta):
        self.epsilon, self.delta = epsilon, delta
        self.charges = []  # guarantee, label
        self.checked = None  # number of charges whose totals were compared

    def fits(self, guarantee):
        """True or False where it is plain; None within rounding."""
        together = [g for g, _ in self.charges] + [guarantee]
        plain = math.fsum(g.epsilon for g in together), math.fsum(g.delta for g in together)
        if plain[0] <= self.epsilon and plain[1] <= self.delta:
            return True
        # What one charge alone costs at least cannot be saved by any composition.
        if guarantee.delta == 0 and guarantee.epsilon > float(self.epsilon) * (1 + 1e-9):
            return None if self.delta else False
        if self.delta == 0:
            return None if plain[0] <= float(self.epsilon) * (1 + 1e-9) and not plain[1] else False
        return None


class Ledgers(RuleBasedStateMachine):
    """A random program."""

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp(prefix="skdpbo-test-"))
        self.path = self.folder / "ledger"
        self.models = {name: Model(*BUDGETS[name][:2]) for name in BUDGETS}
        self.ledgers, self.blocks = {}, []
        for name in BUDGETS:
            self.reopen(name)

    def teardown(self):
        for name in reversed(getattr(self, "blocks", [])):
            self.ledgers[name].__exit__(None, None, None)
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def reopen(self, name):
        epsilon, delta, in_file = BUDGETS[name]
        if in_file:
            self.ledgers[name] = PrivacyLedger(epsilon, delta, path=self.path, dataset=name)
        elif name not in self.ledgers:
            self.ledgers[name] = PrivacyLedger(epsilon, delta, dataset=name)

    def attempt(self, among, charge, guarantee, label):
        """Charge, and note it in the model of each of the data sets, or of none."""
        before = {name: self.held(name) for name in BUDGETS}
        expected = [self.models[name].fits(guarantee) for name in among]
        try:
            charge(guarantee, label)
        except BudgetExceededError:
            assert not all(expected) or not among
            assert {name: self.held(name) for name in BUDGETS} == before
        else:
            assert False not in expected
            for name in among:
                self.models[name].charges.append((guarantee, label))

    def held(self, name):
        return [(entry.guarantee, entry.label) for entry in self.ledgers[name].entries]

    @rule(name=names, guarantee=guarantees(), label=st.sampled_from(LABELS))
    def charge(self, name, guarantee, label):
        # Blocks around a block of this ledger are charged, too.
        around = self.blocks[: self.blocks.index(name)] if name in self.blocks else []
        among = list(dict.fromkeys([*around, name]))
        self.attempt(among, self.ledgers[name].charge, guarantee, label)

    @rule(guarantee=guarantees(), label=st.sampled_from(LABELS))
    def fit(self, guarantee, label):
        among = list(dict.fromkeys(self.blocks))
        self.attempt(among, charge_active_ledger, guarantee, label)

    @rule(guarantee=guarantees())
    def fit_that_is_paid_for(self, guarantee):
        with charged_elsewhere():
            charge_active_ledger(guarantee, "inside")

    @rule(name=names, odd=st.sampled_from(range(len(ODD))))
    def charge_nonsense(self, name, odd):
        with pytest.raises(TypeError):
            self.ledgers[name].charge(ODD[odd])
        with pytest.raises(TypeError):
            self.ledgers[name].charge(PrivacyGuarantee(epsilon=0.1), label=ODD[2 + odd % 2])

    @precondition(lambda self: len(self.blocks) < 3)
    @rule(name=names)
    def enter(self, name):
        assert self.ledgers[name].__enter__() is self.ledgers[name]
        self.blocks.append(name)

    @precondition(lambda self: self.blocks)
    @rule(failed=st.booleans())
    def leave(self, failed):
        name = self.blocks.pop()
        failure = (ValueError, ValueError("x"), None) if failed else (None, None, None)
        assert not self.ledgers[name].__exit__(*failure)

    @precondition(lambda self: not self.blocks)
    @rule(name=names)
    def open_again(self, name):
        self.reopen(name)
        if BUDGETS[name][2]:
            other = PrivacyLedger.from_file(self.path, name)
            assert (other.epsilon, other.delta) == BUDGETS[name][:2]
            assert other.remaining() == self.ledgers[name].remaining()

    @rule(name=st.sampled_from(["pure", "approximate"]), epsilon=st.sampled_from([0.5, 10.0]))
    def open_with_another_budget(self, name, epsilon):
        with pytest.raises(LedgerError):
            PrivacyLedger(epsilon, BUDGETS[name][1], path=self.path, dataset=name)
        with pytest.raises(LedgerError):
            PrivacyLedger.from_file(self.path, name + "?")

    @rule(name=names)
    def copy_it(self, name):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                duplicate(self.ledgers[name])

    @rule(name=names)
    def export(self, name):
        ledger, model = self.ledgers[name], self.models[name]
        state = json.loads(json.dumps(ledger.to_dict()))
        assert [entry["label"] for entry in state["entries"]] == [w for _, w in model.charges]
        exported = [entry["guarantee"]["epsilon"] for entry in state["entries"]]
        assert exported == [g.epsilon for g, _ in model.charges]
        assert "<b>" not in ledger._repr_html_()
        assert repr(ledger)
        assert str(ledger)

    @precondition(lambda self: not self.blocks)
    @rule(
        name=st.sampled_from(["pure", "approximate"]), at=st.floats(0, 1), byte=st.integers(0, 255)
    )
    def damage_a_copy_of_the_file(self, name, at, byte):
        """One wrong byte: the ledger is refused, or holds what it held; never less."""
        data = bytearray(self.path.read_bytes())
        data[int(at * (len(data) - 1))] = byte
        damaged = self.folder / "damaged"
        damaged.write_bytes(data)
        try:
            entries = PrivacyLedger(*BUDGETS[name][:2], path=damaged, dataset=name).entries
        except LedgerError:
            return
        assert [(e.guarantee, e.label) for e in entries] == self.models[name].charges

    @invariant()
    def nothing_is_lost_or_overdrawn(self):
        for name, model in getattr(self, "models", {}).items():
            assert self.held(name) == model.charges
            if model.checked != len(model.charges):  # totals change with charges alone
                model.checked = len(model.charges)
                self.check_totals(self.ledgers[name], model)

    @staticmethod
    def check_totals(ledger, model):
        spent, left = ledger.spent(), ledger.remaining()
        assert spent.epsilon <= float(model.epsilon)
        assert spent.delta <= model.delta
        assert left.epsilon >= 0
        assert left.delta >= 0
        if model.charges:
            charged = [g for g, _ in model.charges]
            allowed = float(model.epsilon) * (1 + 1e-9)
            assert total_epsilon(charged, model.delta * (1 + 1e-9)) <= allowed


def run(n, steps, **how):
    chosen = settings(
        max_examples=n,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        **how,
    )
    run_state_machine_as_test(Ledgers, settings=chosen)


def assert_found():
    with pytest.raises((AssertionError, LedgerError)):
        run(40, 25, phases=[Phase.generate], report_multiple_bugs=False)


def test_some_programs():
    run(6, 15)


@pytest.mark.slow
def test_many_programs():
    run(60, 35)


@pytest.mark.slow
class TestPlantedBugs:
    """The programs find ledgers that are wrong."""

    def test_a_charge_of_half(self, monkeypatch):
        def half(guarantee, label):
            return LedgerEntry(PrivacyGuarantee(epsilon=guarantee.epsilon / 2), label)

        put(monkeypatch, "ledger charge: LedgerEntry", half)
        assert_found()

    def test_a_refusal_that_comes_too_late(self, monkeypatch):
        honest = original("ledger charge: _check_fit")

        def recorded_first(store, tables, guarantee, label):
            _, _, chain = tables.read(store.dataset)
            tables.add(store.dataset, chain, LedgerEntry(guarantee, label))
            tables.sql("COMMIT")
            tables.sql("BEGIN IMMEDIATE")
            honest(store, tables, guarantee, label)

        put(monkeypatch, "ledger charge: _check_fit", recorded_first)
        assert_found()

    def test_a_chain_that_is_not_checked(self, monkeypatch):
        put(monkeypatch, "ledger store: Store.entries", first_half)
        assert_found()


def first_half(store):
    with store.transaction(write=False) as tables:
        _, entries = store.read(tables)
    return tuple(entries[: (len(entries) + 1) // 2])


@pytest.mark.slow
def test_a_budget_that_is_not_kept_is_found(monkeypatch):
    # Planted bug: every request is within the budget.
    put(monkeypatch, "ledger charge: fits", lambda total, charged, guarantee: True)
    assert_found()
