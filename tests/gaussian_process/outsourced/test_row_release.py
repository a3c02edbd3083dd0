"""The frozen release: every field is checked, the file holds no code, damaged files are refused."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from skdpbo.gaussian_process import ProjectionRelease
from skdpbo.gaussian_process.outsourced import Ball, Box
from skdpbo.privacy import PrivacyGuarantee, mu_from_epsilon

GAUSSIAN = PrivacyGuarantee(
    epsilon=1.0,
    delta=1e-5,
    mu=mu_from_epsilon(1.0, 1e-5),
    neighbours="one row moved",
    protects="rows",
    mechanism="Gaussian",
    assumptions=("first", "second"),
    reference="somewhere",
)
FIELDS = {
    "Z": [[0.1, 1 / 3], [2.0, -3.0], [1e-300, 4.0]],
    "noise_std": 0.7,
    "domain": Ball(25.0),
    "projection": None,
    "mechanism": "gaussian",
    "guarantee": GAUSSIAN,
    "displacement": 1.0,
    "data_norm": 25.0,
}
WITH_ALL = {
    **FIELDS,
    "domain": Box((-1.0, 0.0), (1.0, 0.1)),
    "projection": np.arange(8.0).reshape(4, 2),
    "answers_per_row": 3,
    "answer_noise_std": 0.2,
    "n_answers": 50,
    "answer_guarantee": PrivacyGuarantee(epsilon=2.0).voided("why"),
}


def release(**changes):
    return ProjectionRelease(**{**FIELDS, **changes})


def state(release):
    return {name: np.asarray(value).tolist() for name, value in vars(release).items()}


@pytest.mark.parametrize("fields", [FIELDS, WITH_ALL, {**FIELDS, "domain": None}])
def test_round_trips(fields, tmp_path):
    original = ProjectionRelease(**fields)
    path = tmp_path / "release"
    original.save(path)
    for copy in (ProjectionRelease.load(path), pickle.loads(pickle.dumps(original))):
        assert state(copy) == state(original)
        assert not copy.Z.flags.writeable
    assert [p.name for p in tmp_path.iterdir()] == ["release"]


def test_it_is_frozen_and_a_copy():
    Z = np.ones((2, 2))
    frozen = release(Z=Z)
    Z[0, 0] = 5.0
    assert frozen.Z[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        frozen.Z[0, 0] = 2.0
    with pytest.raises(AttributeError):
        frozen.noise_std = 0.0


def test_the_repr_is_short():
    assert repr(release(Z=np.ones((10_000, 2)))) == (
        "ProjectionRelease(10000 rows of 2 coordinates, mechanism='gaussian', noise_std=0.7, "
        "status='proved')"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"Z": [1.0, 2.0]},
        {"Z": np.ones((0, 2))},
        {"Z": np.ones((2, 0))},
        {"Z": [[np.nan, 1.0]]},
        {"Z": [["a", "b"]]},
        {"Z": [[1j, 1.0]]},
        {"noise_std": -1.0},
        {"noise_std": np.inf},
        {"noise_std": "1"},
        {"noise_std": True},
        {"domain": "ball"},
        {"domain": Box((0.0,), (1.0,))},
        {"projection": np.ones((4, 3))},
        {"projection": [[np.inf, 1.0]]},
        {"mechanism": ""},
        {"mechanism": 3},
        {"guarantee": None},
        {"guarantee": "proved"},
        {"displacement": 0.0},
        {"data_norm": -1.0},
        {"answers_per_row": 0},
        {"answers_per_row": 1.0},
        {"n_answers": 0},
        {"n_answers": True},
        {"answer_noise_std": 1.0},
        {"answer_guarantee": GAUSSIAN},
        {"answer_noise_std": 1.0, "answer_guarantee": 1.0},
    ],
)
def test_what_no_release_has_is_refused(changes):
    with pytest.raises((TypeError, ValueError)):
        release(**changes)


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, np.inf, "1", None])
def test_bad_balls(radius):
    with pytest.raises((TypeError, ValueError)):
        Ball(radius)


@pytest.mark.parametrize(
    ("low", "high"), [((), ()), ((0.0,), (0.0, 1.0)), ((1.0,), (0.0,)), ((np.nan,), (1.0,))]
)
def test_bad_boxes(low, high):
    with pytest.raises(ValueError):
        Box(low, high)


@pytest.mark.slow
def test_domains_return_the_nearest_point():
    points = np.random.default_rng(0).normal(size=(50, 2)) * 3  # public randomness
    grid = np.stack(np.meshgrid(*[np.linspace(-2, 2, 401)] * 2), axis=-1).reshape(-1, 2)
    ball, box = Ball(1.5), Box((-1.0, 0.0), (0.5, 2.0))
    inside = {
        ball: grid[np.linalg.norm(grid, axis=1) <= 1.5],
        box: grid[(grid >= box.low).all(axis=1) & (grid <= box.high).all(axis=1)],
    }
    for domain, members in inside.items():
        nearest = domain.project(points)
        found = np.linalg.norm(points - nearest, axis=1)
        best = np.linalg.norm(points[:, None] - members[None], axis=2).min(axis=1)
        np.testing.assert_array_less(best - 0.008, found)
        np.testing.assert_array_less(found, best + 1e-12)
        np.testing.assert_allclose(release(Z=points, domain=domain).rows_in_domain(), nearest)
    assert release(domain=None).rows_in_domain()[1, 1] == -3.0


def saved(**changes):
    buffer = io.BytesIO()
    np.savez(buffer, **changes)
    return buffer.getvalue()


def file_of(header, Z=((1.0, 2.0),), compress=False, **arrays):
    buffer = io.BytesIO()
    text = json.dumps(header) if isinstance(header, dict) else header
    write = np.savez_compressed if compress else np.savez
    write(buffer, header=np.frombuffer(text.encode(), dtype=np.uint8), Z=np.array(Z), **arrays)
    return buffer.getvalue()


@pytest.fixture
def header(tmp_path):
    release().save(tmp_path / "good")
    with np.load(tmp_path / "good") as file:
        return json.loads(file["header"].tobytes())


def refused(data, tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(ValueError) as caught:
        ProjectionRelease.load(path)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


def test_the_header_written_by_hand_is_accepted(header, tmp_path):
    (tmp_path / "same").write_bytes(file_of(header))
    assert ProjectionRelease.load(tmp_path / "same").guarantee == GAUSSIAN


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        pickle.dumps({"Z": 1}),
        saved(a=np.ones(3)),
        saved(header=np.ones(3), Z=np.ones((2, 2))),
        saved(header=np.array([{"a": 1}], dtype=object), Z=np.ones((2, 2))),
        file_of("no json"),
        file_of("[1, 2]"),
        file_of({"format": "another"}),
    ],
)
def test_foreign_files_are_refused(data, tmp_path):
    assert "not a release" in refused(data, tmp_path)


def test_another_version_is_refused(header, tmp_path):
    assert "version 2" in refused(file_of({**header, "version": 2}), tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"noise_std": -1.0},
        {"noise_std": None},
        {"domain": {"type": "Ball"}},
        {"domain": {"type": "Ball", "radius": 1.0, "more": 2}},
        {"domain": {"type": "int", "x": 1}},
        {"domain": 3},
        {"guarantee": None},
        {"guarantee": {"epsilon": 1.0, "surprise": 1}},
        {"guarantee": {**vars(GAUSSIAN), "parts": None}},
        {"guarantee": [1]},
        {"extra": 1},
        {"answers_per_row": 1.5},
    ],
)
def test_damaged_headers_are_refused(header, change, tmp_path):
    refused(file_of({**header, **change}), tmp_path)


def test_a_guarantee_that_contradicts_itself_is_refused(header, tmp_path):
    statement = {**header["guarantee"], "delta": 1e-9}  # not what mu implies
    assert "not implied" in refused(file_of({**header, "guarantee": statement}), tmp_path)


def test_damaged_arrays_are_refused(header, tmp_path):
    refused(file_of(header, Z=[[np.nan, 1.0]]), tmp_path)
    refused(file_of(header, Z=[1.0, 2.0]), tmp_path)
    refused(file_of(header, other=np.ones(2)), tmp_path)
    refused(file_of(header, compress=True), tmp_path)
    objects = saved(header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), Z=[[{}]])
    refused(objects, tmp_path)


def test_every_truncation_and_flipped_bytes_are_refused_or_harmless(tmp_path):
    path = tmp_path / "release"
    release().save(path)
    data = path.read_bytes()
    for size in range(0, len(data), 37):
        refused(data[:size], tmp_path)
    for i in range(0, len(data), 11):
        damaged = bytearray(data)
        damaged[i] ^= 0x41
        path.write_bytes(damaged)
        try:
            assert state(ProjectionRelease.load(path)) == state(release())
        except ValueError as error:
            assert str(error).startswith(str(path))  # noqa: PT017


def test_duplicate_members_are_refused(header, tmp_path):
    buffer = io.BytesIO(file_of(header))
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("Z.npy", b"")
    refused(buffer.getvalue(), tmp_path)


def test_a_missing_file_is_reported_as_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        ProjectionRelease.load(tmp_path / "nothing")
