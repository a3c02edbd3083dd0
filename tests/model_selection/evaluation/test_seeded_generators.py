"""Seeds of one isolated call: of the stated streams, and without a trace."""

import gc
import random
import sys

import numpy as np
import pytest
from joblib.memory import MemorizedFunc

from _support.internals import in_isolation, seeded_generators
from _support.interrupts import interrupted
from _support.planted import nothing, original, put
from _support.replayed_noise import replayed


def draws(seed):
    with seeded_generators(seed):
        return random.random(), np.random.random_sample(2).tolist(), np.random.normal()


def state():
    name, words, *rest = np.random.get_state()
    return random.getstate(), name, words.tolist(), rest


def test_the_streams_are_those_of_the_seed():
    own, numpy_own = random.Random(7), np.random.RandomState(7)
    assert draws(7) == (own.random(), numpy_own.random_sample(2).tolist(), numpy_own.normal())
    assert draws(8) != draws(7) == draws(7)


def test_projects_that_let_global_seeds_raise(monkeypatch):
    """It would end a fit after the charge."""
    before = draws(7)
    with monkeypatch.context() as context:
        context.setattr(np.random, "seed", None)
        assert draws(7) == before


def test_a_seed_inside_another_does_not_move_it():
    with seeded_generators(7):
        before = np.random.random_sample(2).tolist()
        draws(8)
        after = np.random.normal()
    assert (before, after) == draws(7)[1:]


def fails(seed):
    with seeded_generators(seed):
        np.random.normal()
        raise LookupError


def test_generators_are_put_back():
    np.random.random_sample()
    before = state()
    draws(7)
    with pytest.raises(LookupError):
        fails(7)
    assert state() == before


def test_a_test_does_not_start_from_a_spare_generator():
    # Threads that a planted bug has let run at once exchange generators in any order.
    usual, spare = np.random.get_bit_generator(), np.random.MT19937(1)
    np.random.set_bit_generator(spare)
    with replayed("another test"):
        assert np.random.get_bit_generator() is usual


def test_isolation_puts_back_a_normal_deviate_in_reserve():
    np.random.normal()
    while not np.random.get_state()[3]:
        np.random.normal()
    before = state()
    in_isolation(draws, 7)
    assert state() == before


def test_another_kind_of_generator_can_be_set():
    usual = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        other = draws(7)
        assert type(np.random.get_bit_generator()) is np.random.PCG64
    finally:
        np.random.set_bit_generator(usual)
    assert other == draws(7)


@pytest.mark.filterwarnings("error")
def test_isolation_with_another_kind_of_generator_gives_no_warning(capsys):
    usual, other = np.random.get_bit_generator(), np.random.PCG64(1)
    np.random.set_bit_generator(other)
    try:
        before = other.state
        assert in_isolation(np.random.random_sample) > 0
        assert other.state == before
    finally:
        np.random.set_bit_generator(usual)
    print("heard")
    assert capsys.readouterr().out == "heard\n"


def test_an_error_half_way_into_isolation_leaves_the_output(monkeypatch, capsys):
    def fails():
        raise LookupError

    monkeypatch.setattr(random, "getstate", fails)
    with pytest.raises(LookupError):
        in_isolation(max, 1, 2)
    print("heard")
    assert capsys.readouterr().out == "heard\n"


PLACES = "isolation: _put_back", "silence: _Silence.let_generators_go_on"
MODULES = {original(place).__module__ for place in PLACES} | {"contextlib"}


def numbers():
    return random.random(), np.random.random_sample()


CACHED_CALLS = {name: vars(MemorizedFunc)[name] for name in original("silence: _CACHED_CALLS")}


@pytest.fixture
def ends_silence():
    """End what an interrupt has left silenced or uncached, for the tests that follow."""
    yield
    process = original("silence: _PROCESS")
    while process.silence is not None:
        process.silence.late = True  # generators go on
        process.silence.blocks.clear()
        original("silence: _end")(None, None)
    for name, method in CACHED_CALLS.items():  # one that came while they were put back
        setattr(MemorizedFunc, name, method)


@pytest.mark.slow
@pytest.mark.usefixtures("ends_silence")
class TestInterrupts:
    """Noise drawn after an interrupt (Ctrl-C) is neither known nor repeated."""

    def drawn(self):
        """Return what is drawn after interrupts at each place: at once, after a call, and later."""
        found, kept, at, streams = [], [], 1, (sys.stdout, sys.stderr)

        def call():
            try:
                in_isolation(draws, 7)
            except KeyboardInterrupt as error:
                kept.append(error)  # as a notebook does

        gc.freeze()  # collections of what is new alone are fast
        while interrupted(call, MODULES, at):
            found += numbers()
            in_isolation(abs, 1)
            found += numbers()
            kept.clear()
            gc.collect()
            found += numbers()
            sys.stdout, sys.stderr = streams
            at += 1
        gc.unfreeze()
        assert at > 200
        return [*draws(7)[:1], *draws(7)[1], *found]

    def test_no_number_comes_twice(self):
        found = self.drawn()
        assert len({*found}) == len(found)

    @pytest.mark.parametrize("place", PLACES)
    def test_one_that_does_is_found(self, place, monkeypatch):
        put(monkeypatch, place, nothing)
        with pytest.raises(AssertionError):
            self.test_no_number_comes_twice()
