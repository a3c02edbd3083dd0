"""Finds of a leak scan, and their places."""

import collections
import functools
import io
import logging
import sys
import types
import warnings
from array import array as compact

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from skdpbo.audit import Leak, Secrets, Traces, leak_scan, reachable, same_seed_difference

NUMBER, TEXT = 0.7316520948315577, "S3cr3tPatientName"
SECRETS = Secrets([NUMBER, TEXT])


class Slotted:
    __slots__ = ("kept",)

    def __init__(self, kept):
        self.kept = kept


def closure(value):
    return lambda: value


def failure(value):
    try:
        try:
            raise ValueError(f"bad value {value}")
        except ValueError:
            raise RuntimeError("a record cannot be read")  # noqa: B904
    except RuntimeError as error:
        return error


def noted(value):
    error = ValueError("no")
    error.add_note(f"it was {value}")
    return error


class SlottedToo(Slotted):
    """A class without slots below one with them."""

    def __init__(self, kept):
        super().__init__(kept)
        self.public = 0


class Labelled(collections.deque):
    label = "public"

    def __init__(self, kept):
        super().__init__([kept])
        self.label = "public"


class SetByFunction(Slotted):
    """Pickled with a function that sets its state."""

    __slots__ = ()

    def __reduce__(self):
        return SetByFunction, (0,), self.kept, None, None, print


def endless(value):
    while True:
        yield value


HIDING_PLACES = {
    "nested": lambda v: {"a": [(v,)]},
    "key": lambda v: {v: 1},
    "slot": Slotted,
    "slot beside attributes": SlottedToo,
    "deque with attributes": Labelled,
    "namespace": lambda v: types.SimpleNamespace(x=types.SimpleNamespace(y=v)),
    "closure": closure,
    "partial": lambda v: functools.partial(print, v),
    "default": lambda v: types.FunctionType((lambda x: x).__code__, {}, "f", (v,)),
    "bound method": lambda v: types.SimpleNamespace(kept=v).__eq__.__self__,
    "exception chain": failure,
    "note": noted,
    "generator": endless,
    "iterator": lambda v: iter([v]),
    "deque": lambda v: collections.deque([v]),
    "state with a setter": SetByFunction,
    "stream": lambda v: io.StringIO(f"{v}"),
    "series": lambda v: pd.Series([1, v], dtype=object),
    "frame": lambda v: pd.DataFrame({"a": [0.0, 0.0], "b": pd.Series([v, v], dtype=object)}),
    "message": lambda v: f"the value {v} is out of range",
}


class TestObjects:
    @pytest.mark.parametrize("place", HIDING_PLACES)
    @pytest.mark.parametrize("secret", [NUMBER, TEXT])
    def test_hiding_places(self, place, secret):
        assert any(
            leak.channel == "object" for leak in leak_scan(HIDING_PLACES[place](secret), SECRETS)
        )
        assert leak_scan(HIDING_PLACES[place]("public"), SECRETS) == []

    @pytest.mark.parametrize(
        "hide",
        [
            lambda v: np.array([[0.0, v]])[:, :1],  # a view: its base has the rest
            lambda v: np.ma.masked_values([0.0, v], v),
            lambda v: np.array([v, None], dtype=object),
            lambda v: -v,
            lambda v: pd.DataFrame({"a": [1.0, -v], "b": ["x", "y"]}),
            lambda v: np.float64(v * (1 + 1e-12)),
            lambda v: compact("d", [v]),
            lambda v: v.hex().encode() + np.array([v]).tobytes(),
        ],
    )
    def test_numbers(self, hide):
        assert leak_scan([hide(NUMBER)], SECRETS)
        assert leak_scan([hide(0.5)], SECRETS) == []

    @pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i8", "u1", "?", "c16", "O"])
    @pytest.mark.parametrize("secret", [2.0, -2.0, 3.0, np.inf, np.nan, 1e300])
    def test_an_array_is_searched_as_its_items_are(self, dtype, secret):
        with np.errstate(all="ignore"):
            array = np.array([2, 0, 1]).astype(dtype)
            if np.issubdtype(array.dtype, np.floating):
                array[1:] = np.inf, np.nan
        secrets = Secrets([secret])
        found = any(secrets.match(value) for value in array.tolist())
        assert any(leak.channel == "object" for leak in leak_scan(array, secrets)) == found
        assert not (found and secrets.absent_from(array))

    def test_the_place_is_reported_and_not_the_secret(self):
        model = Ridge().fit([[0.0], [1.0]], [0.0, 1.0])
        model.kept_ = {"rows": np.array([1.0, NUMBER])}
        leaks = leak_scan(model, SECRETS)
        assert Leak("object", ".kept_['rows'][1]") in leaks
        assert Leak("pickle") in leaks
        assert str(NUMBER) not in str(leaks)

    def test_a_key_on_the_way_is_not_reported(self):
        leaks = leak_scan({TEXT: {"x": [TEXT]}}, SECRETS)
        assert [leak.path for leak in leaks if leak.channel == "object"] == [
            "a secret key",
            ".key[0]",
        ]
        assert TEXT not in repr(leaks)

    def test_texts_of_an_object(self):
        model = Ridge(alpha=NUMBER)
        channels = {leak.channel for leak in leak_scan(model, SECRETS)}
        assert channels >= {"object", "pickle", "repr", "html"}

    def test_a_predicate(self):
        def large(value):
            return isinstance(value, np.ndarray) and value.size > 10

        assert leak_scan({"a": np.zeros(20)}, large) == [Leak("object", "['a']")]
        assert leak_scan({"a": np.zeros(5)}, large) == []

    def test_circles_and_foreign_objects(self):
        circle = [NUMBER]
        circle += [circle, sys, object(), Warning, open]
        assert len([leak for leak in leak_scan(circle, SECRETS) if leak.channel == "object"]) == 1

    def test_it_does_not_enter_an_object_twice(self):
        shared = [1.0, 2.0]
        paths = [path for path, value in reachable([shared, shared]) if value is shared]
        assert len(paths) == 1


class TestTexts:
    @pytest.mark.parametrize(
        "text",
        [
            f"x={NUMBER}",
            f"{NUMBER:.4f}",
            f"{NUMBER:.4f}"[1:],
            f"{-NUMBER:.8e}",
            f"got [0.1, {NUMBER:.5g}]",
            TEXT,
        ],
    )
    def test_found(self, text):
        assert leak_scan(None, SECRETS, texts=[text]) == [Leak("text")]

    @pytest.mark.parametrize("text", ["0.7", "0.73", "0.75 of 12", "name", "7316"])
    def test_not_found(self, text):
        assert leak_scan(None, SECRETS, texts=[text]) == []

    def test_a_number_of_few_digits_is_no_rounded_secret(self):
        """Of thousands of protected values, one is near 0.9 or 2."""
        secrets = [0.9000312, 2.0000413]
        texts = ["epsilon 0.9, key 2, 2.000e0, 0.90", "it is 0.9000", "of 2.000041"]
        found = [bool(leak_scan(None, secrets, texts=[text])) for text in texts]
        assert found == [True, True, True]
        assert leak_scan(None, secrets, texts=["epsilon 0.9, key 2, 2e0, 0.90"]) == []
        assert leak_scan(None, [0.9], texts=["epsilon 0.9"]) == [Leak("text")]  # the secret itself

    @pytest.mark.parametrize(
        "say",
        [
            print,
            lambda text: print(text, file=sys.stderr),
            lambda text: warnings.warn(text, stacklevel=1),
            lambda text: logging.getLogger("tests.audit.leaks").debug("found %s", text),
        ],
    )
    def test_traces(self, say):
        level = logging.getLogger().level
        with Traces() as traces:
            say(TEXT)
        assert leak_scan(traces, SECRETS) == [Leak("text")]
        assert TEXT in traces.text()
        assert logging.getLogger().level == level

    def test_a_failure_leaves_nothing_behind(self):
        out, handlers = sys.stdout, list(logging.getLogger().handlers)
        with pytest.raises(KeyError), Traces():
            raise KeyError
        assert sys.stdout is out
        assert logging.getLogger().handlers == handlers


class TestSameSeed:
    class Model:
        def __init__(self, bug):
            self.bug = bug

        def fit(self, data):
            self.value_ = sum(data) + 1e15
            self.names_ = ["a", "b"]
            self.bug(self, data)
            return self

    def differences(self, bug):
        found = same_seed_difference(self.Model(bug).fit, [0.0, 1.0], [0.0, 5.0], rtol=1e-12)
        return [difference.path for difference in found]

    def test_equal(self):
        assert self.differences(lambda model, data: None) == []

        def keep(model, data):
            model.kept_ = (
                pd.DataFrame({"a": [1.0], "b": ["x"]}, index=["i"]),
                np.random.RandomState(0),
            )

        assert self.differences(keep) == []

    def keep(self, data):
        self.bound_ = [max(data)]

    def keep_sometimes(self, data):
        if max(data) > 2:
            self.more_ = 1

    def keep_in_a_frame(self, data):
        self.frame_ = pd.DataFrame({"a": [max(data)], "b": ["x"]})

    def keep_in_a_deque(self, data):
        self.kept_ = collections.deque([max(data)])

    def keep_complex(self, data):
        self.root_ = complex(0, max(data))

    def keep_another_type(self, data):
        self.found_ = 1 if max(data) > 2 else True

    def keep_nothing(self, data):
        self.note_ = None if max(data) > 2 else []

    def say(self, data):
        warnings.warn(f"largest {max(data)}", stacklevel=2)

    def fail(self, data):
        if max(data) > 2:
            raise ValueError("too large")

    @pytest.mark.parametrize(
        ("bug", "path"),
        [
            (keep, ".bound_[0]"),
            (keep_sometimes, ".more_"),
            (keep_in_a_frame, ".frame_"),
            (keep_in_a_deque, ".kept_"),
            (keep_complex, ".root_"),
            (keep_another_type, ".found_"),
            (keep_nothing, ".note_"),
            (say, "written output"),
            (fail, "error"),
        ],
    )
    def test_found(self, bug, path):
        assert any(found.startswith(path) for found in self.differences(bug))

    def test_ignored(self):
        fit = self.Model(TestSameSeed.keep).fit
        assert not same_seed_difference(fit, [0.0], [1.0], rtol=1e-12, ignore=["bound_"])


def test_one_text_is_one_text_and_not_its_letters():
    assert leak_scan(None, "S3cr3t", texts="it is S3cr3t")
    assert not leak_scan(None, "S3cr3t", texts="S3")
    for secrets in (Secrets("S3cr3t"), Secrets(b"S3cr3t"), Secrets([b"S3cr3t"])):
        assert (secrets.texts, secrets.numbers) == (["S3cr3t"], [])
    with pytest.raises(TypeError, match="ignore"):
        same_seed_difference(list, [1.0], [2.0], ignore="time")


@pytest.mark.parametrize("table", [np.array, pd.DataFrame])
def test_secrets_of_a_table_are_its_cells(table):
    secrets = Secrets(table([[0.5, NUMBER], [0.25, 2.5]]))
    assert secrets.numbers == [0.5, NUMBER, 0.25, 2.5]
    assert leak_scan([NUMBER], table([[0.5, NUMBER]]))


@pytest.mark.parametrize(("name", "value"), [("rtol", -1.0), ("digits", 0), ("digits", 18)])
def test_tolerances_of_secrets_are_checked(name, value):
    with pytest.raises(ValueError, match=name):
        Secrets([1.5], **{name: value})
