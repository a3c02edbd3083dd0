"""Corrupt files, hostile lines and nonsense numbers for the two parties of the outsourced protocol.

The curator's rows and the outcomes that nobody requested hold unmistakable numbers. Whatever the
other side sends, the curator says what was agreed and nothing else, the modeler believes only the
answer that is due, and the only errors are those that the documentation names.
"""

import io
import json
import math
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic

from _support.hostile import settled
from _support.internals import REASONS, Answer, ProtocolError, Query, Refusal, decode, encode
from _support.planted import original, plant, put
from skdpbo.audit import Secrets, leak_scan
from skdpbo.gaussian_process import GPUCBModeler, PrivateProjection, ProjectionRelease
from skdpbo.gaussian_process.outsourced import Box, run_queries, serve_answers
from skdpbo.privacy import PrivacyGuarantee

N = 6
SECRET = 0.7316520948315577
Y = [SECRET + i for i in range(N)]
X = np.full((N, 2), SECRET)


def many(n):
    """`n` examples by default and twenty times as many where time is given."""
    return [
        pytest.param(n, id="some"),
        pytest.param(20 * n, marks=pytest.mark.slow, id="many"),
    ]


def release(**fields):
    given_fields = {
        "Z": np.random.RandomState(0).uniform(-1, 1, size=(N, 2)),
        "noise_std": 0.1,
        "domain": Box([-1.0, -1.0], [1.0, 1.0]),
        "projection": None,
        "mechanism": "l2_laplace",
        "guarantee": PrivacyGuarantee(epsilon=1.0),
        "displacement": 1.0,
        "data_norm": 2.0,
    }
    return ProjectionRelease(**(given_fields | fields))


def curator():
    made = PrivateProjection(X_bounds=(-1, 1), answers_per_row=2, n_answers=5)
    return made.fit(X, Y)


# What may stand in the place of a value
NUMBERS = [0, 1, 3, -1, N, N - 1, 2**53, 2**53 + 1, 10**400, 0.0, 0.5, -0.0, 1e308, 5e-324]
ODD = [True, False, None, "", "1", "query", [], [1], {}, {"row": 1}, math.nan, math.inf, "\ud800"]
values = st.sampled_from(range(len(NUMBERS + ODD))).map((NUMBERS + ODD).__getitem__)
steps, rows = st.integers(1, 8), st.integers(0, N - 1)
reasons = st.sampled_from(REASONS)
good_messages = st.one_of(
    st.builds(Query, steps, rows),
    st.builds(Query, steps, rows),
    st.builds(Answer, steps, rows, st.floats(-1e3, 1e3)),
    st.builds(Refusal, steps, rows, reasons),
)


@st.composite
def lines(draw, messages=good_messages):
    """A line of a stranger: right, nearly right, or anything at all; never empty."""
    line = encode(draw(messages))
    kind = draw(
        st.sampled_from(["right"] * 4 + ["field", "field", "text", "repeat", "any", "deep"])
    )
    if kind == "field":
        content = json.loads(line)
        name = draw(st.sampled_from([*content, "extra"]))
        if draw(st.booleans()):
            content[name] = draw(values)
        else:
            content.pop(name, None)
        line = json.dumps(content) + "\n"
    elif kind == "text":
        at, what = draw(st.integers(0, len(line) - 1)), draw(st.text(max_size=3))
        line = line[:at] + what.replace("\n", "") + line[at + draw(st.integers(0, 4)) :]
    elif kind == "repeat":
        line = line.replace("}", ', "row": 0}')
    elif kind == "any":
        line = draw(st.text(max_size=30)).replace("\n", " ").replace("\r", " ") + "\n"
    elif kind == "deep":
        line = "[" * draw(st.sampled_from([5, 900])) + "\n"
    return line if line.endswith("\n") else line + "\n"


def decoded(line):
    """The message of a line, or None; no other error than the documented one."""
    try:
        message = decode(line)
    except ProtocolError:
        return None
    assert decode(encode(message)) == message
    return message


@pytest.mark.parametrize("n", many(100))
def test_lines_are_messages_or_refused(n):
    @settled(n)
    @given(lines())
    def run(line):
        decoded(line)

    run()


class Expected:
    """Allowed replies of a curator, by the rules alone: one to a line."""

    def __init__(self):
        self.last, self.answered, self.given = 0, [], []

    def reply(self, line):
        query = decoded(line)
        if not isinstance(query, Query):
            return Refusal(None, None, "malformed message")
        step, row = query.step, query.row
        if step <= self.last:
            return Refusal(step, row, "step out of order")
        self.last = step
        if row >= N:
            return Refusal(step, row, "unknown row")
        if len(self.answered) == 5 or self.answered.count(row) == 2:
            return Refusal(step, row, "refused")
        self.answered.append(row)
        return Answer(step, row, Y[row])


def assert_served_by_the_rules(received, measured):
    """Serve a conversation, and compare each reply with the only one that is allowed."""
    expected, requested = Expected(), []
    allowed = [expected.reply(line) for line in received]
    made = PrivateProjection(X_bounds=(-1, 1), answers_per_row=2, n_answers=5)
    made.fit(X, None if measured else Y)

    def evaluate(row):
        requested.append(row)
        return Y[row]

    written = io.StringIO()
    how = {"evaluate": evaluate} if measured else {}
    n_answered = serve_answers(made, io.StringIO("".join(received)), written, **how)
    replies = [decode(line) for line in written.getvalue().splitlines()]
    assert replies == allowed
    assert n_answered == len(expected.answered) == len(made.answers_)
    assert requested == (expected.answered if measured else [])
    hidden = Secrets([y for row, y in enumerate(Y) if row not in expected.answered], digits=9)
    assert not hidden.in_text(written.getvalue())


conversations = st.lists(lines(st.builds(Query, steps, rows)) | lines(), max_size=12)


@pytest.mark.parametrize("n", many(40))
def test_the_curator_says_what_is_agreed(n):
    @settled(n)
    @given(conversations, st.booleans())
    def run(received, measured):
        assert_served_by_the_rules(received, measured)

    run()


def test_a_replay_is_caught(monkeypatch):
    plant(monkeypatch, "protocol: a line that arrives twice is answered twice")

    @settings(settled(100), phases=[Phase.generate], report_multiple_bugs=False)
    @given(conversations)
    def run(received):
        assert_served_by_the_rules(received, measured=False)

    with pytest.raises(AssertionError):
        run()


class Stranger(io.StringIO):
    """A curator elsewhere: replies to each query with the answer that is due, or with a line."""

    def __init__(self, script):
        super().__init__()
        self.script, self.due, self.replies = list(script), [], []

    def write(self, line):
        query = decode(line)
        reply = self.script.pop(0) if self.script else None
        if reply is None:
            reply = encode(Answer(query.step, query.row, 0.1 * query.row))
        self.due.append((query.step, query.row))
        self.replies.append(reply)
        return len(line)

    def readline(self, limit=-1):
        return self.replies[-1]


scripts = st.lists(st.none() | st.none() | lines() | st.just(""), min_size=1, max_size=5)


def assert_believes_nothing_else(script):
    modeler, stranger = GPUCBModeler(release(answers_per_row=2), kernel=RBF(1.0)), Stranger(script)
    failed = False
    try:
        run_queries(modeler, 6, stranger, stranger)
    except ProtocolError:
        failed = True
    right = []
    for due, line in zip(stranger.due, stranger.replies, strict=True):
        reply = decoded(line) if line else None
        if not isinstance(reply, Answer) or (reply.step, reply.row) != due:
            break
        if abs(reply.y) > 1e150:
            break
        right.append((reply.row, reply.y))
    received = list(zip(*(part.tolist() for part in modeler.answers), strict=True))
    assert received == right
    assert failed == (len(right) < 6)
    assert np.isfinite(modeler.predict()).all()


@pytest.mark.parametrize("n", many(40))
def test_the_modeler_believes_the_answer_that_is_due(n):
    @settled(n)
    @given(scripts)
    def run(script):
        assert_believes_nothing_else(script)

    run()


def test_an_answer_for_another_row_is_caught(monkeypatch):
    # Planted bug: whatever comes is taken for the answer that is due.
    requested, honest = [], original("protocol: _write")

    def write(stream, query):
        requested.append(query)
        honest(stream, query)

    def decode_anyway(line):
        y = getattr(decoded(line), "y", 0.0)
        return Answer(requested[-1].step, requested[-1].row, y)

    put(monkeypatch, "protocol: _write", write)
    put(monkeypatch, "protocol: decode", decode_anyway)

    @settings(settled(60), phases=[Phase.generate], report_multiple_bugs=False)
    @given(scripts)
    def run(script):
        assert_believes_nothing_else(script)

    with pytest.raises((AssertionError, RuntimeError)):
        run()


indices = st.integers(-2, N + 1) | values | st.just(np.int64(2)) | st.just(np.float64(1.0))
outcomes = st.floats() | values | st.sampled_from([np.float32(0.5), 1j, np.array([1.0])])
DOCUMENTED = (IndexError, TypeError, ValueError, RuntimeError)


def assert_refusals_change_nothing(received):
    modeler = GPUCBModeler(release(answers_per_row=2, n_answers=4), kernel=RBF(1.0))
    for index, y in received:
        before = [part.tolist() for part in modeler.answers], modeler.predict().tolist()
        try:
            modeler.tell(index, y)
        except DOCUMENTED:
            assert (
                [part.tolist() for part in modeler.answers],
                modeler.predict().tolist(),
            ) == before
        assert len(modeler) <= 4
        if modeler.n_remaining:
            assert 0 <= modeler.ask() < N


@pytest.mark.parametrize("n", many(60))
def test_what_a_modeler_receives(n):
    @settled(n)
    @given(st.lists(st.tuples(indices, outcomes), max_size=8))
    def run(received):
        assert_refusals_change_nothing(received)

    run()


def test_an_answer_that_is_taken_and_refused_is_caught(monkeypatch):
    # Planted bug: the answer is counted before it is checked.
    honest = GPUCBModeler.tell

    def tell(self, index, y):
        self.posterior.append(0, 1.0)
        honest(self, index, y)

    monkeypatch.setattr(GPUCBModeler, "tell", tell)
    with pytest.raises((AssertionError, RuntimeError)):
        assert_refusals_change_nothing([(99, 1.0)])


TUNED = ("noise_variance", "prior_mean", "delta_ucb", "sqrt_beta")
lengths = values | st.just(1.0) | st.just([1.0, 2.0])
kernels = st.one_of(
    st.builds(RBF, lengths),
    st.builds(Matern, lengths, nu=values),
    st.builds(RationalQuadratic, lengths, values),
)
parameters = st.fixed_dictionaries(
    {"kernel": kernels | values | st.builds(lambda c, k: ConstantKernel(c) * k, values, kernels)},
    optional=dict.fromkeys(TUNED, values),
)


@pytest.mark.parametrize("n", many(60))
def test_parameters_of_a_modeler(n):
    @settled(n)
    @given(parameters)
    def run(how):
        try:
            modeler = GPUCBModeler(release(), **how)
        except (TypeError, ValueError):
            return
        with np.errstate(all="ignore"):
            for y in (0.5, -0.25):
                modeler.tell(modeler.ask(), y)
            assert 0 <= modeler.ask() < N

    run()


def saved(**fields):
    made = release(**fields)
    header = {
        "format": "skdpbo projection release",
        "version": 1,
        "domain": {"type": "Box", "low": [-1.0, -1.0], "high": [1.0, 1.0]},
        "guarantee": {"epsilon": 1.0},
        "answer_guarantee": None,
        "n_answers": None,
        "answers_per_row": 1,
        "answer_noise_std": 0.0,
        "noise_std": 0.1,
        "mechanism": "l2_laplace",
        "displacement": 1.0,
        "data_norm": 2.0,
    }
    return header, {"Z": made.Z}


ARRAYS = [
    np.full((2, 2), np.nan),
    np.zeros((0, 2)),
    np.zeros(3),
    np.zeros((2, 2, 2)),
    np.array([["a", "b"]]),
    np.array([[1 + 1j]]),
    np.full((N, 2), 1e308),
    np.full((N, 2), 2**63, dtype=np.uint64),
    np.ones((N, 2), dtype=np.float16),
    np.zeros((N, 2), dtype="datetime64[s]"),
    np.zeros((N, 2), dtype=bool),
    np.zeros((N, 2), dtype=[("a", float)]),
]


@st.composite
def files(draw):
    """Bytes of a release's file: right, with one thing changed, or with damaged bytes."""
    header, arrays = saved()
    kind = draw(st.sampled_from(["right", "field", "nested", "array", "bytes", "bytes", "header"]))
    if kind == "field":
        name = draw(st.sampled_from([*header, "extra"]))
        header[name] = draw(values)
    elif kind == "nested":
        name = draw(st.sampled_from(["domain", "guarantee", "answer_guarantee"]))
        inner = dict(header[name] or {"epsilon": 1.0})
        keys = [*inner, "delta", "mu", "assumptions", "status", "neighbours", "radius", "extra"]
        inner[draw(st.sampled_from(keys))] = draw(values)
        header[name] = inner
        header["answer_noise_std"] = float(name == "answer_guarantee")
    elif kind == "array":
        which = draw(st.sampled_from(["Z", "projection", "other"]))
        arrays[which] = ARRAYS[draw(st.integers(0, len(ARRAYS) - 1))]
    text = json.dumps(header).encode()
    if kind == "header":
        text = draw(st.sampled_from([b"", b"[1]", b"null", b"\xff", b"[" * 10**5, text[:-5]]))
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(text, dtype=np.uint8), **arrays)
    data = bytearray(buffer.getvalue())
    if kind == "bytes":
        for _ in range(draw(st.integers(1, 3))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
        data = data[: draw(st.just(len(data)) | st.integers(0, len(data)))]
    return bytes(data)


def assert_loaded_or_refused(path, data):
    path.write_bytes(data)
    try:
        loaded = ProjectionRelease.load(path)
    except ValueError:
        return
    assert np.isfinite(loaded.Z).all()
    assert math.isfinite(loaded.noise_std)
    assert not loaded.Z.flags.writeable
    loaded.save(path)
    again = ProjectionRelease.load(path)
    assert np.array_equal(again.Z, loaded.Z)
    assert again.guarantee == loaded.guarantee
    with np.errstate(all="ignore"):
        modeler = GPUCBModeler(loaded, kernel=RBF(1.0))
        modeler.tell(modeler.ask(), 0.5)
        assert modeler.n_remaining == 0 or 0 <= modeler.ask() < loaded.n_rows


@pytest.mark.parametrize("n", many(100))
def test_files_are_releases_or_refused(n, tmp_path):
    @settled(n)
    @given(files())
    def run(data):
        assert_loaded_or_refused(tmp_path / "release", data)

    run()


def test_a_file_that_is_believed_is_caught(monkeypatch, tmp_path):
    plant(monkeypatch, "protocol: arrays of a file are believed")

    @settings(settled(100), phases=[Phase.generate], report_multiple_bugs=False)
    @given(files())
    def run(data):
        assert_loaded_or_refused(tmp_path / "release", data)

    with pytest.raises(Exception) as failure:
        run()
    assert not isinstance(failure.value, ValueError)


def test_a_file_that_unpacks_to_much_is_refused(tmp_path):
    head = b"\x93NUMPY\x01\x00"
    says = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 2), }"
    says += b" " * (118 - len(says) - 1) + b"\n"
    with zipfile.ZipFile(tmp_path / "huge", "w") as archive:
        archive.writestr("Z.npy", head + struct.pack("<H", len(says)) + says)
        archive.writestr("header.npy", b"")
    with pytest.raises(ValueError, match="not a release"):
        ProjectionRelease.load(tmp_path / "huge")


def test_what_a_curator_refuses_tells_nothing_of_its_rows():
    made, hidden = curator(), Secrets([*Y, SECRET], digits=9)
    for index in [N, -1, 10**400, 0.5, "0", None, True, np.array([0, 1]), 1j]:
        with pytest.raises((IndexError, TypeError)) as failure:
            made.answer(index)
        assert not leak_scan(failure.value, hidden)
    for value in [SECRET, "text", math.nan, 10**400]:
        with pytest.raises((TypeError, ValueError)) as failure:
            made.answer(0, value)
        assert not leak_scan(failure.value, hidden)
    assert made.answers_ == []
