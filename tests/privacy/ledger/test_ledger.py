"""The ledger: nothing is released that it cannot afford, nothing is counted half."""

import copy
import pickle
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _support.planted import original, put
from skdpbo.exceptions import BudgetExceededError
from skdpbo.privacy import (
    LedgerEntry,
    PrivacyGuarantee,
    PrivacyLedger,
    charge_active_ledger,
    charged_elsewhere,
    compose,
    epsilon_from_mu,
)


def pure(epsilon):
    return PrivacyGuarantee(epsilon=epsilon)


def gaussian(mu, delta=1e-5):
    return PrivacyGuarantee(epsilon=epsilon_from_mu(mu, delta), delta=delta, mu=mu)


def test_without_a_ledger_nothing_happens():
    charge_active_ledger(pure(100.0), "free")


def test_charges_are_recorded_and_the_overdraft_is_not():
    with PrivacyLedger(1.0) as ledger:
        charge_active_ledger(pure(0.5), "grid search")
        ledger.charge(pure(0.25))
        with pytest.raises(
            BudgetExceededError, match=r"epsilon=0\.25, .* left of .*nothing was charged"
        ):
            charge_active_ledger(pure(0.5), "second search")
    assert [(e.guarantee.epsilon, e.label) for e in ledger.entries] == [
        (0.5, "grid search"),
        (0.25, ""),
    ]
    assert ledger.spent() == (0.75, 0.0)
    assert ledger.remaining() == (0.25, 0.0)
    charge_active_ledger(pure(5.0))  # the block is closed
    assert len(ledger.entries) == 2


def test_ten_tenths_fit_and_nothing_more():
    ledger = PrivacyLedger(1.0)
    for _ in range(10):
        ledger.charge(pure(0.1))
    assert ledger.remaining().epsilon == 0.0
    with pytest.raises(BudgetExceededError):
        ledger.charge(pure(1e-9))


def test_ten_deltas_fit():
    ledger = PrivacyLedger(10.0, 1e-5)
    for _ in range(10):
        ledger.charge(PrivacyGuarantee(epsilon=0.1, delta=1e-6))
    assert ledger.spent().delta == pytest.approx(1e-5)


def test_a_pure_budget_refuses_delta():
    ledger = PrivacyLedger(100.0)
    with pytest.raises(BudgetExceededError):
        ledger.charge(gaussian(0.1))
    with pytest.raises(BudgetExceededError):
        ledger.charge(PrivacyGuarantee(epsilon=1.0, delta=1e-300))


@pytest.mark.parametrize("order", [1, -1])
def test_a_guarantee_that_says_nothing_for_replaced_records_does_not_fit(order):
    """As two steps, (1, .3) for added records has a delta of 0.3 (1 + e), above 1."""
    ledger = PrivacyLedger(100.0, 0.9)
    added = PrivacyGuarantee(epsilon=1.0, delta=0.3, neighbours="add-remove")
    first, second = [PrivacyGuarantee(epsilon=1.0, delta=0.1), added][::order]
    ledger.charge(first)
    with pytest.raises(BudgetExceededError):
        ledger.charge(second)
    assert [entry.guarantee for entry in ledger.entries] == [first]


def test_what_is_spent_is_stated_at_the_sum_of_the_deltas():
    ledger = PrivacyLedger(3.0, 1e-4)
    ledger.charge(PrivacyGuarantee(epsilon=1.0, delta=1e-5))
    assert ledger.spent() == (1.0, 1e-5)


def test_a_budget_is_stated_in_floats():
    ledger = PrivacyLedger(Fraction(1, 10))
    ledger.charge(pure(0.1))  # the float, which is larger
    assert [type(part) for part in (*ledger.spent(), *ledger.remaining())] == [float] * 4


def test_gaussian_charges_are_composed_not_added():
    ledger = PrivacyLedger(3.0, 1e-5)
    release = gaussian(0.268)  # epsilon 1 each
    for _ in range(7):
        ledger.charge(release)
    with pytest.raises(BudgetExceededError):
        ledger.charge(release)
    expected = compose(*[release] * 7, delta=1e-5).epsilon
    assert ledger.spent().epsilon == pytest.approx(expected, rel=1e-9)
    assert ledger.remaining().delta == 0.0


def test_pure_charges_use_the_delta_when_they_do_not_add_up():
    ledger = PrivacyLedger(5.0, 1e-5)
    for _ in range(40):
        ledger.charge(pure(0.1))
    assert ledger.spent() == pytest.approx((4.0, 0.0))
    for _ in range(60):
        ledger.charge(pure(0.1))
    expected = compose(*[pure(0.1)] * 100, delta=1e-5).epsilon
    assert ledger.spent() == pytest.approx((expected, 1e-5))
    assert ledger.remaining().epsilon == pytest.approx(5.0 - expected)
    ledger.charge(pure(ledger.remaining().epsilon * 0.999))


def test_nested_ledgers_are_all_charged_or_none():
    with PrivacyLedger(1.0) as outer, PrivacyLedger(5.0) as inner:
        charge_active_ledger(pure(0.75))
        with pytest.raises(BudgetExceededError):
            charge_active_ledger(pure(0.5))  # fits the inner one only
        assert len(outer.entries) == len(inner.entries) == 1
    with PrivacyLedger(5.0) as outer, PrivacyLedger(1.0) as inner:
        with pytest.raises(BudgetExceededError):
            charge_active_ledger(pure(2.0))  # fits the outer one only
        assert outer.entries == inner.entries == ()


def test_charging_an_inner_ledger_counts_outside_too():
    with PrivacyLedger(1.0) as outer, PrivacyLedger(1.0) as inner:
        inner.charge(pure(0.5))
        outer.charge(pure(0.25))
    assert len(outer.entries) == 2
    assert len(inner.entries) == 1
    inner.charge(pure(0.5))  # no longer enclosed
    assert len(outer.entries) == 2


def test_the_same_ledger_entered_twice_is_charged_once():
    ledger = PrivacyLedger(1.0)
    with ledger, ledger:
        charge_active_ledger(pure(0.5))
    assert len(ledger.entries) == 1
    with ledger:
        charge_active_ledger(pure(0.5))
    assert len(ledger.entries) == 2


def test_an_error_closes_the_block_and_the_charge_stays():
    ledger = PrivacyLedger(1.0)

    def failing_fit():
        with ledger:
            charge_active_ledger(pure(0.5))
            raise RuntimeError("fit failed")

    with pytest.raises(RuntimeError, match="fit failed"):
        failing_fit()
    assert ledger.spent().epsilon == 0.5
    charge_active_ledger(pure(9.0))
    assert len(ledger.entries) == 1


def test_what_is_charged_elsewhere_is_not_charged_again():
    with PrivacyLedger(1.0) as ledger:
        charge_active_ledger(pure(1.0), "all of it")
        with charged_elsewhere():
            charge_active_ledger(pure(9.0))
            with charged_elsewhere():
                charge_active_ledger(pure(9.0))
            charge_active_ledger(pure(9.0))
        with pytest.raises(BudgetExceededError):
            charge_active_ledger(pure(0.5))
    assert [entry.label for entry in ledger.entries] == ["all of it"]


def test_charged_elsewhere_ends_with_an_error():
    def failing():
        with charged_elsewhere():
            raise RuntimeError("no")

    with PrivacyLedger(1.0) as ledger:
        with pytest.raises(RuntimeError, match="no"):
            failing()
        charge_active_ledger(pure(0.5))
    assert len(ledger.entries) == 1


def test_a_ledger_opened_inside_charged_elsewhere_is_charged():
    with PrivacyLedger(1.0) as outer, charged_elsewhere(), PrivacyLedger(1.0) as inner:
        charge_active_ledger(pure(0.5))
    assert len(inner.entries) == 1
    assert outer.entries == ()


def test_charged_elsewhere_concerns_its_own_thread_only():
    entered, left = threading.Barrier(2), threading.Barrier(2)

    def work():
        with charged_elsewhere():
            entered.wait(120)
            left.wait(120)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(120)
    with PrivacyLedger(1.0) as ledger:
        charge_active_ledger(pure(0.5))
    left.wait(120)
    thread.join()
    assert len(ledger.entries) == 1


def test_a_void_guarantee_is_charged_what_it_claims():
    ledger = PrivacyLedger(1.0)
    ledger.charge(pure(0.75).voided("seeded noise"))
    assert ledger.entries[0].guarantee.status == "void"
    assert ledger.remaining().epsilon == 0.25
    with pytest.raises(BudgetExceededError):
        ledger.charge(pure(0.5).voided("seeded noise"))


def test_threads_cannot_overdraw_together():
    ledger = PrivacyLedger(1.0)
    start = threading.Barrier(16)
    refused = []

    def work():
        start.wait(120)
        for _ in range(4):
            try:
                ledger.charge(pure(0.0625))
            except BudgetExceededError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 16
    assert len(refused) == 48


def test_a_ledger_is_not_duplicated():
    ledger = PrivacyLedger(1.0)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="spend twice"):
            duplicate(ledger)


def test_repr_and_refusal_name_amounts_and_label():
    ledger = PrivacyLedger(1.0, 1e-5)
    assert repr(ledger) == (
        "PrivacyLedger(epsilon=1.0, delta=1e-05): 0 charged, spent epsilon=0, delta=0, "
        "left epsilon=1, delta=1e-05"
    )
    named = PrivacyLedger(1.0, 1e-5, dataset="wards")
    assert repr(named).startswith("PrivacyLedger(epsilon=1.0, delta=1e-05, dataset='wards'): 0 ")
    with pytest.raises(BudgetExceededError, match=r"^my search: \(epsilon=2, delta=0\)"):
        ledger.charge(pure(2.0), "my search")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((0.0,), ValueError), ((True,), TypeError), ((1.0, 1.0), ValueError), ((None,), TypeError)],
)
def test_budgets_are_checked(arguments, error):
    with pytest.raises(error):
        PrivacyLedger(*arguments)


@pytest.mark.parametrize(
    "make", [lambda path: PrivacyLedger(1.0, path=path), PrivacyLedger.from_file]
)
def test_the_path_is_checked(make):
    with pytest.raises(TypeError, match="path must be a str or path-like, got int"):
        make(5)


def test_charges_are_checked():
    ledger = PrivacyLedger(1.0)
    with pytest.raises(TypeError, match="PrivacyGuarantee"):
        ledger.charge(0.5)
    with pytest.raises(TypeError, match="label"):
        ledger.charge(pure(0.5), label=3)
    with pytest.raises(TypeError, match="PrivacyGuarantee"):
        charge_active_ledger(0.5)
    assert ledger.entries == ()


releases = st.one_of(
    st.floats(0.01, 1).map(pure),
    st.floats(0.01, 0.5).map(gaussian),
    st.builds(PrivacyGuarantee, epsilon=st.floats(0.01, 1), delta=st.floats(1e-9, 1e-6)),
)


@pytest.mark.slow
@given(st.lists(releases, max_size=8), st.floats(0.5, 4))
@settings(max_examples=25, deadline=None)
def test_what_is_accepted_holds_and_what_remains_is_affordable(offered, epsilon):
    ledger = PrivacyLedger(epsilon, 2e-5)
    for release in offered:
        if ledger.affords(release):
            ledger.charge(release)
        else:
            with pytest.raises(BudgetExceededError):
                ledger.charge(release)
    accepted = [entry.guarantee for entry in ledger.entries]
    if accepted:
        together = compose(*accepted, delta=2e-5 * (1 + 1e-12))
        assert together.epsilon <= epsilon * (1 + 1e-12)
    left = ledger.remaining()
    assert left.epsilon >= 0
    assert left.delta >= 0
    if left.epsilon > 1e-9:
        assert ledger.affords(PrivacyGuarantee(epsilon=left.epsilon, delta=left.delta))


def test_a_ledger_without_delta_says_that_it_pays_for_pure_releases_only():
    with pytest.raises(BudgetExceededError, match="pure releases only"):
        PrivacyLedger(epsilon=1.0).charge(PrivacyGuarantee(epsilon=0.5, delta=1e-6))


def test_threads_that_race_for_a_budget_use_it_up_and_no_more(tmp_path, monkeypatch):
    """The check of the budget is slow, so that other threads come in between if they can."""
    honest = original("ledger charge: fits")

    def slow(total, charged, guarantee):
        answer = honest(total, charged, guarantee)
        time.sleep(0.002)
        return answer

    put(monkeypatch, "ledger charge: fits", slow)
    for path in (None, tmp_path / "ledger"):
        ledger, refused = PrivacyLedger(1.0, path=path), []
        together = threading.Barrier(4)

        def spend(ledger=ledger, refused=refused, together=together):
            together.wait(120)
            for _ in range(6):
                try:
                    ledger.charge(pure(0.125))
                except BudgetExceededError:
                    refused.append(1)

        threads = [threading.Thread(target=spend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ledger.entries) == 8
        assert len(refused) == 16


def test_planted_bug_a_check_before_the_transaction_is_caught():
    """Threads that check first and write later overdraw, so that the test above would fail."""
    ledger, together = PrivacyLedger(1.0), threading.Barrier(4)
    ledger.charge(pure(0.875))

    def spend():
        if ledger.affords(pure(0.125)):
            together.wait(120)
            with ledger._store.transaction() as tables:
                _, _, chain = tables.read("default")
                tables.add("default", chain, LedgerEntry(pure(0.125)))

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries) == 5
