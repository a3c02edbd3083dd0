"""Curator and modeler in one process and in two: the same run, and nothing but valid messages."""

import io
import json
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from _support.internals import decode, encode
from skdpbo.gaussian_process import GPUCBModeler, PrivateProjection, ProjectionRelease, optimize
from skdpbo.gaussian_process.outsourced import (
    Answer,
    ProtocolError,
    Query,
    Refusal,
    run_queries,
    serve_answers,
)
from skdpbo.privacy import PrivacyGuarantee

MODELER = """
import sys
from sklearn.gaussian_process.kernels import RBF
from skdpbo.gaussian_process import GPUCBModeler, ProjectionRelease
from skdpbo.gaussian_process.outsourced import run_queries

release = ProjectionRelease.load(sys.argv[1])
modeler = GPUCBModeler(release, kernel=RBF(1.5))
run_queries(modeler, int(sys.argv[2]), sys.stdin, sys.stdout)
print(modeler.best(), file=sys.stderr)
"""


class Curator:
    """A curator as the protocol sees it: each row is answered once."""

    def __init__(self, y):
        self.y = y
        self.requested = []

    def answer(self, row):
        if not 0 <= row < len(self.y):
            raise IndexError(f"secret {self.y[0]}")
        if row in self.requested:
            raise RuntimeError(f"secret {self.y[row]}")
        self.requested.append(row)
        return self.y[row]


@pytest.fixture
def release():
    return ProjectionRelease(
        Z=np.random.default_rng(0).normal(size=(50, 2)),
        noise_std=0.2,
        domain=None,
        projection=None,
        mechanism="l2_laplace",
        guarantee=PrivacyGuarantee(epsilon=1.0),
        displacement=1.0,
        data_norm=5.0,
    )


@pytest.fixture
def y(release):
    return np.sin(release.Z).sum(axis=1)


@pytest.mark.parametrize(
    "message",
    [
        Query(1, 0),
        Answer(3, 17, 0.1 + 0.2),
        Answer(1, 2, 5),
        Refusal(None, None, "malformed message"),
        Refusal(4, 2, "unknown row"),
    ],
)
def test_messages_survive_the_way(message):
    line = encode(message)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert decode(line) == message


def test_numpy_numbers_are_sent_as_numbers():
    assert decode(encode(Answer(1, 2, np.float64(0.1)))).y == 0.1
    assert decode(encode(Answer(np.int64(1), np.int32(2), np.float32(0.5)))) == Answer(1, 2, 0.5)


GOOD = {"version": 1, "type": "answer", "step": 1, "row": 2, "y": 0.5}
BAD_LINES = [
    "",
    "\n",
    "hello",
    "null",
    "[1, 2]",
    '"query"',
    "{",
    "[" * 900,
    json.dumps(GOOD | {"more": 1}),
    json.dumps({k: v for k, v in GOOD.items() if k != "y"}),
    json.dumps({k: v for k, v in GOOD.items() if k != "version"}),
    json.dumps(GOOD | {"version": 2}),
    json.dumps(GOOD | {"version": True}),
    json.dumps(GOOD | {"version": 1.0}),
    json.dumps(GOOD | {"type": "Answer"}),
    json.dumps(GOOD | {"type": ["answer"]}),
    json.dumps(GOOD | {"type": "query"}),
    json.dumps(GOOD | {"step": 0}),
    json.dumps(GOOD | {"step": 1.0}),
    json.dumps(GOOD | {"step": "1"}),
    json.dumps(GOOD | {"row": -1}),
    json.dumps(GOOD | {"row": True}),
    json.dumps(GOOD | {"row": None}),
    json.dumps(GOOD | {"row": 10**30}),
    json.dumps(GOOD | {"y": "0.5"}),
    json.dumps(GOOD | {"y": True}),
    json.dumps(GOOD | {"y": None}),
    json.dumps(GOOD | {"y": [0.5]}),
    json.dumps(GOOD | {"y": 10**400}),
    json.dumps(GOOD | {"y": float("nan")}),
    json.dumps(GOOD | {"y": float("inf")}),
    json.dumps(GOOD).replace("0.5", "1e999"),
    json.dumps(GOOD)[:-1] + ', "y": 0.7}',
    json.dumps(GOOD) + json.dumps(GOOD),
    json.dumps(GOOD) + " " * 2000,
    '{"version": 1, "type": "refusal", "step": 1, "row": 2, "reason": "because y = 3"}',
    '{"version": 1, "type": "refusal", "step": 1, "row": null, "reason": "unknown row"}',
]


@pytest.mark.parametrize("line", BAD_LINES, ids=range(len(BAD_LINES)))
def test_malformed_lines_are_refused(line):
    with pytest.raises(ProtocolError):
        decode(line)


def test_only_text_is_decoded():
    with pytest.raises(ProtocolError):
        decode(encode(Query(1, 2)).encode())


def serve(curator, lines):
    writer = io.StringIO()
    n_answered = serve_answers(curator, io.StringIO("".join(lines)), writer)
    return n_answered, [decode(line) for line in writer.getvalue().splitlines()]


def test_curator_answers_refuses_and_goes_on(y):
    curator = Curator(y)
    malformed = Refusal(None, None, "malformed message")
    n_answered, replies = serve(
        curator,
        [
            encode(Query(1, 4)),
            encode(Query(1, 5)),  # a step twice
            "nonsense\n",
            encode(Answer(2, 4, 0.0)),  # not for a curator
            encode(Query(2, 50)),
            encode(Query(7, 4)),  # a row twice
            encode(Query(3, 6)),  # an older step
            encode(Query(8, 6)),
        ],
    )
    assert n_answered == 2
    assert replies == [
        Answer(1, 4, y[4]),
        Refusal(1, 5, "step out of order"),
        malformed,
        malformed,
        Refusal(2, 50, "unknown row"),
        Refusal(7, 4, "refused"),
        Refusal(3, 6, "step out of order"),
        Answer(8, 6, y[6]),
    ]
    assert curator.requested == [4, 6]


def test_refusals_say_nothing_of_the_curators_own_errors(y):
    for line in (encode(Query(1, 99)), encode(Query(2, 3))):
        curator = Curator(y)
        curator.requested.append(3)
        _, (reply,) = serve(curator, [line])
        assert "secret" not in encode(reply)


def test_a_line_without_end_is_not_read_to_its_end(y):
    stream = io.StringIO("x" * 10_000_000)
    with pytest.raises(ProtocolError, match="too long"):
        serve_answers(Curator(y), stream, io.StringIO())
    assert stream.tell() < 10_000


def test_bytes_that_are_no_text_end_the_service(y):
    stream = io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n"), encoding="utf-8")
    with pytest.raises(ProtocolError, match="not text"):
        serve_answers(Curator(y), stream, io.StringIO())


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "ended the conversation at step 1"),
        (encode(Refusal(1, 2, "refused")), "refused step 1: refused"),
        (encode(Answer(2, 2, 0.0)), "not the answer to step 1"),
        (encode(Query(1, 2)), "not the answer to step 1"),
        ("nonsense\n", "JSON"),
    ],
)
def test_modeler_takes_nothing_but_the_answer_that_is_due(release, reply, message):
    modeler = GPUCBModeler(release, kernel=RBF(1.5))
    with pytest.raises(ProtocolError, match=message):
        run_queries(modeler, 3, io.StringIO(reply), io.StringIO())
    assert len(modeler) == 0


def test_answer_for_another_row_is_refused(release):
    modeler = GPUCBModeler(release, kernel=RBF(1.5))
    other = encode(Answer(1, modeler.ask() + 1, 0.0))
    with pytest.raises(ProtocolError, match="not the answer"):
        run_queries(modeler, 1, io.StringIO(other), io.StringIO())


def test_optimize_is_ask_answer_tell(release, y):
    modeler = GPUCBModeler(release, kernel=RBF(1.5))
    answers = optimize(Curator(y), modeler, 10)
    by_hand = GPUCBModeler(release, kernel=RBF(1.5))
    for step, answer in enumerate(answers, start=1):
        row = by_hand.ask()
        assert answer == Answer(step, row, y[row])
        by_hand.tell(row, y[row])
    assert len(modeler) == 10
    # goes on where it stopped
    assert optimize(Curator(y), modeler, 2)[0].step == 11


@pytest.mark.parametrize("n_iter", [0, -1, 2.5, True, 51])
def test_optimize_refuses_more_than_the_release_allows_before_it_asks(release, y, n_iter):
    curator, whole = Curator(y), type(n_iter) is int
    with pytest.raises(ValueError if whole else TypeError, match=r"n_iter|allows 50"):
        optimize(curator, GPUCBModeler(release, kernel=RBF(1.5)), n_iter)
    assert not curator.requested


def test_optimize_refuses_a_modeler_of_another_release(release, y):
    curator = Curator(y)
    curator.release_ = release
    optimize(curator, GPUCBModeler(release, kernel=RBF(1.5)), 1)
    other = ProjectionRelease(**{**vars(release), "Z": release.Z + 1.0})
    with pytest.raises(ValueError, match="another release"):
        optimize(curator, GPUCBModeler(other, kernel=RBF(1.5)), 1)


@pytest.mark.slow
def test_two_processes_run_as_one_does(release, y, tmp_path):
    """The modeler's process gets the file and the messages, and asks for the same rows."""
    release.save(tmp_path / "release.npz")
    modeler = GPUCBModeler(release, kernel=RBF(1.5))
    expected = [answer.row for answer in optimize(Curator(y), modeler, 12)]

    curator = Curator(y)
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", MODELER, str(tmp_path / "release.npz"), "12"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        timer = threading.Timer(1200, process.kill)
        timer.start()
        n_answered = serve_answers(curator, process.stdout, process.stdin)
        best = process.stderr.read()
        timer.cancel()
    assert process.returncode == 0, best
    assert n_answered == 12
    assert curator.requested == expected
    assert int(best) == modeler.best()


def test_the_messages_go_through_a_socket(release, y):
    ours, theirs = socket.socketpair()
    curator, modeler = Curator(y), GPUCBModeler(release, kernel=RBF(1.5))
    with ours, theirs, ours.makefile("rw", encoding="utf-8") as stream:

        def search():
            with theirs.makefile("rw", encoding="utf-8") as other:
                run_queries(modeler, 5, other, other)
            theirs.close()

        thread = threading.Thread(target=search)
        thread.start()
        assert serve_answers(curator, stream, stream) == 5
        thread.join()
    assert curator.requested == modeler.answers[0].tolist()


class BrokenPipe(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_a_modeler_that_dies_ends_the_service(y):
    curator = Curator(y)
    lines = io.StringIO(encode(Query(1, 3)) + encode(Query(2, 4)))
    assert serve_answers(curator, lines, BrokenPipe()) == 1
    assert curator.requested == [3]


def test_a_curator_that_dies_is_reported_as_gone(release):
    modeler = GPUCBModeler(release, kernel=RBF(1.5))
    with pytest.raises(ProtocolError, match="ended the conversation"):
        run_queries(modeler, 1, io.StringIO(), BrokenPipe())


class MeasuringCurator(Curator):
    """A curator whose y is measured on request."""

    def __init__(self, release):
        self.release_ = release
        self.answers_ = []

    def answer(self, row, value):
        self.answers_.append((row, value))
        return value


def test_values_are_measured_on_request_and_only_then(release, y):
    release = ProjectionRelease(**{**vars(release), "n_answers": 3})
    curator, measured = MeasuringCurator(release), []

    def evaluate(row):
        measured.append(row)
        return y[row]

    lines = [encode(Query(s, r)) for s, r in ((1, 4), (2, 50), (3, 4), (4, 5), (5, 6), (6, 7))]
    writer = io.StringIO()
    assert serve_answers(curator, io.StringIO("".join(lines)), writer, evaluate=evaluate) == 3
    assert measured == [4, 5, 6]
    reasons = [getattr(decode(line), "reason", None) for line in writer.getvalue().splitlines()]
    assert reasons == [None, "unknown row", "refused", None, None, "refused"]

    modeler = GPUCBModeler(release, kernel=RBF(1.5))
    curator, measured = MeasuringCurator(release), []
    answers = optimize(curator, modeler, 3, evaluate=lambda row: measured.append(row) or y[row])
    assert [answer.row for answer in answers] == measured
    # a curator whose answers are used up measures nothing
    with pytest.raises(RuntimeError, match="does not answer"):
        optimize(curator, GPUCBModeler(release, kernel=RBF(1.5)), 1, evaluate=measured.append)
    assert len(measured) == 3


def test_a_measurement_that_fails_ends_the_service(release):
    def evaluate(row):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        serve_answers(
            MeasuringCurator(release),
            io.StringIO(encode(Query(1, 4))),
            io.StringIO(),
            evaluate=evaluate,
        )


def test_protocol_with_the_curator_itself(y, release):
    """Same rows for answers known beforehand, measured on demand, and served as text."""
    curators = [
        PrivateProjection(data_norm=5.0, n_answers=6).fit(release.Z, values)
        for values in (y, None, y)
    ]
    modelers = [GPUCBModeler(curator.release_, kernel=RBF(1.5)) for curator in curators]
    first = optimize(curators[0], modelers[0], 6)
    assert [(a.row, a.y) for a in first] == curators[0].answers_
    measured = optimize(curators[1], modelers[1], 6, evaluate=lambda row: y[row])
    assert [a.y for a in measured] == [y[a.row] for a in measured]
    lines = encode(Query(1, 7)) + encode(Query(2, 70))
    writer = io.StringIO()
    assert serve_answers(curators[0], io.StringIO(lines), writer) == 0
    replies = [decode(line) for line in writer.getvalue().splitlines()]
    assert [reply.reason for reply in replies] == ["refused", "unknown row"]
    # the curator's own mistake, to forget `evaluate`, is not blamed on the modeler
    with pytest.raises(ValueError, match="Give a value"):
        serve_answers(curators[1], io.StringIO(lines), io.StringIO())
    queries = [encode(Query(step, row)) for step, row in enumerate((3, 1, 3, 4), start=1)]
    assert serve_answers(curators[2], io.StringIO("".join(queries)), io.StringIO()) == 3
    assert curators[2].answers_ == [(3, y[3]), (1, y[1]), (4, y[4])]
