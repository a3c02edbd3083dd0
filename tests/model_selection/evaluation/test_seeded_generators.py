"""Seeds of one isolated call: of the stated streams, and without a trace."""

import random

import numpy as np
import pytest

from _support.internals import in_isolation, seeded_generators


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
