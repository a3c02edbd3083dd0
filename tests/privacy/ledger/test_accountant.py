"""The accountant of another library: charged with the ledger, or neither is."""

import math

import pytest

from skdpbo.exceptions import BudgetExceededError, LedgerError
from skdpbo.privacy import PrivacyGuarantee, PrivacyLedger, charge_active_ledger


class BudgetError(ValueError):
    """As an accountant of another library raises."""


class Accountant:
    """Adds epsilons and deltas; the interface of diffprivlib's BudgetAccountant."""

    def __init__(self, epsilon, delta=0.0):
        self.budget = epsilon, delta
        self.spent_budget = []

    def check(self, epsilon, delta):
        spent = [*self.spent_budget, (epsilon, delta)]
        if any(
            math.fsum(a) > b for a, b in zip(zip(*spent, strict=True), self.budget, strict=True)
        ):
            raise BudgetError("Privacy spend will exceed remaining budget.")
        return True

    def spend(self, epsilon, delta):
        self.check(epsilon, delta)
        self.spent_budget.append((epsilon, delta))
        return self


def pure(epsilon):
    return PrivacyGuarantee(epsilon=epsilon)


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return tmp_path / "l.db" if request.param == "file" else None


def test_charges_are_spent_there_too(path):
    accountant = Accountant(1.0, 1e-5)
    with PrivacyLedger(9.0, 1e-4, path=path, accountant=accountant) as ledger:
        charge_active_ledger(PrivacyGuarantee(epsilon=0.5, delta=1e-6))
        ledger.charge(pure(0.25))
        with pytest.raises(BudgetExceededError, match=r"Accountant .* check .*remaining budget"):
            charge_active_ledger(pure(0.5))
    assert accountant.spent_budget == [(0.5, 1e-6), (0.25, 0.0)]
    assert len(ledger.entries) == 2


def test_what_the_ledger_refuses_is_not_spent_there(path):
    accountant = Accountant(9.0)
    ledger = PrivacyLedger(1.0, path=path, accountant=accountant)
    with pytest.raises(BudgetExceededError, match="ledger"):
        ledger.charge(pure(2.0))
    assert accountant.spent_budget == []


def test_one_accountant_of_nested_ledgers_is_charged_once(path):
    accountant, other = Accountant(9.0), Accountant(0.5)
    with PrivacyLedger(9.0, accountant=accountant), PrivacyLedger(9.0, accountant=accountant):
        charge_active_ledger(pure(0.25))
        with PrivacyLedger(9.0, path=path, accountant=other) as inner:
            charge_active_ledger(pure(0.25))
            with pytest.raises(BudgetExceededError):
                charge_active_ledger(pure(0.5))
    assert accountant.spent_budget == [(0.25, 0.0)] * 2
    assert other.spent_budget == [(0.25, 0.0)]
    assert len(inner.entries) == 1


class NeverSpends(Accountant):
    def spend(self, epsilon, delta):
        raise RuntimeError("connection lost")


class SaysNo(Accountant):
    def check(self, epsilon, delta):
        return False


class FailsToCheck(Accountant):
    def check(self, epsilon, delta):
        raise OSError("connection lost")


@pytest.mark.parametrize("kind", [NeverSpends, SaysNo, FailsToCheck])
def test_when_it_cannot_spend_nothing_is_charged(path, kind):
    accountant = kind(9.0)
    with (
        PrivacyLedger(9.0, path=path, accountant=accountant) as ledger,
        PrivacyLedger(9.0) as other,
        pytest.raises(BudgetExceededError, match=kind.__name__),
    ):
        charge_active_ledger(pure(0.5))
    assert ledger.entries == other.entries == ()
    assert accountant.spent_budget == []


def test_a_check_without_an_answer_is_a_consent(path):
    class Silent(Accountant):
        def check(self, epsilon, delta):
            super().check(epsilon, delta)

    accountant = Silent(1.0)
    PrivacyLedger(9.0, path=path, accountant=accountant).charge(pure(0.5))
    assert accountant.spent_budget == [(0.5, 0.0)]


def test_when_the_file_cannot_be_written_nothing_is_spent_there(tmp_path):
    accountant = Accountant(9.0)
    ledger = PrivacyLedger(9.0, path=tmp_path / "l.db", accountant=accountant)
    (tmp_path / "l.db").write_bytes(b"")
    with pytest.raises(LedgerError, match="empty"):
        ledger.charge(pure(0.5))
    assert accountant.spent_budget == []


def test_accountants_are_checked():
    for accountant in (object(), "accountant", type("Half", (), {"check": lambda *a: True})()):
        with pytest.raises(TypeError, match="check and spend"):
            PrivacyLedger(1.0, accountant=accountant)
