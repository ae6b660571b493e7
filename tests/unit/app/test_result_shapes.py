"""The shapes of returned arrays: those that came in, those that the extent declares, else one axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import c_float
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.limits import LIMIT_S
from vyre import DispatchConfig, OutputArena, Program, ProgramBuilder, ScalarType, bf16, bool8, bool_, f32, u8, u32

Array = npt.NDArray[Any]
WIDTH, HEIGHT = 3, 2
PICTURE: Array = np.arange(WIDTH * HEIGHT, dtype=np.uint32).reshape(HEIGHT, WIDTH)


def doubled(count: int = 0) -> Program:
    """``image`` doubled in place, and copied to ``copy`` and (its size) to ``one``."""
    with ProgramBuilder("doubled", workgroup=(2, 2)) as p:
        image = p.inout("image", u32, count)
        copy = p.output("copy", u32, like="image")
        one = p.output("one", u32, 1)
        i = p.let(p.global_id(1) * WIDTH + p.global_id(0), "i")
        with p.if_((p.global_id(0) < WIDTH) & (i < image.length)):
            copy[i] = image[i]
            image[i] = image[i] * 2
        with p.if_(i == 0):
            one[0] = image.length
    return p.build()


def kept(element: ScalarType, *, output_range: tuple[int, int] | None = None) -> Program:
    """Every element of ``data`` is written back as it is."""
    with ProgramBuilder("same", workgroup=4) as p:
        data = p.inout("data", element, output_range=output_range)
        i = p.global_id()
        with p.if_(i < data.length):
            data[i] = data[i].cast(bool_) if element is bool_ else data[i]
    return p.build()


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference") as opened:
        yield opened


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (u32, np.uint32),
        (f32, np.float32),
        (u8, np.uint8),
        (bool_, np.bool_),
        (bool8, np.bool_),
        (bf16, np.uint16),
    ],
)
@pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 5), (2, 1, 3), (0, 7), ()])
def test_an_inout_returns_the_shape_that_came_in(
    session: vyre.Session, element: ScalarType, dtype: npt.DTypeLike, shape: tuple[int, ...]
) -> None:
    data = np.ones(shape, dtype)
    got = session.dispatch(kept(element), {"data": data})["data"]
    assert (got.shape, got.dtype) == (data.shape, data.dtype)
    assert got.flags.owndata and got.tobytes() == data.tobytes()
    assert session.dispatch(kept(element), [data])[0].shape == shape


def test_bytes_have_one_axis_whatever_the_extent_is(session: vyre.Session) -> None:
    program = doubled()
    for raw in (PICTURE.tobytes(), memoryview(PICTURE.tobytes()), bytearray(PICTURE.tobytes()), PICTURE.reshape(-1)):
        result = session.dispatch(program, {"image": raw}, extent=(WIDTH, HEIGHT))
        assert result["image"].shape == (6,)
        assert result["copy"].shape == (HEIGHT, WIDTH)


@pytest.mark.parametrize(
    ("extent", "shape"),
    [
        (6, (6,)),
        ((6,), (6,)),
        ((WIDTH, HEIGHT), (HEIGHT, WIDTH)),
        ((WIDTH, HEIGHT, 1), (1, HEIGHT, WIDTH)),
        ((1, 6), (6, 1)),
        ((WIDTH, 1, HEIGHT), (HEIGHT, 1, WIDTH)),
        ((WIDTH + 1, HEIGHT), (6,)),
    ],
)
def test_an_extent_shapes_the_outputs_of_its_size_and_no_others(
    session: vyre.Session, extent: int | tuple[int, ...], shape: tuple[int, ...]
) -> None:
    result = session.dispatch(doubled(), {"image": PICTURE.reshape(-1)}, extent=extent)
    assert result["copy"].shape == shape
    assert result["one"].shape == (1,)
    assert result["image"].shape == (6,)


def test_typed_memory_of_other_kinds_has_its_shape_too(session: vyre.Session) -> None:
    floats = ((c_float * 3) * 2)(*[(c_float * 3)(1, 2, 3)] * 2)
    for memory in (memoryview(bytearray(24)).cast("f", (2, 3)), floats):
        assert session.dispatch(kept(f32), {"data": memory})["data"].shape == (2, 3)
    raw = memoryview(bytearray(6)).cast("B", (2, 3))  # of bytes, and so untyped
    assert session.dispatch(kept(u8), {"data": raw})["data"].shape == (6,)


def test_without_an_extent_outputs_have_one_axis(session: vyre.Session) -> None:
    result = session.dispatch(doubled(), {"image": PICTURE}, grid=(2, 1))
    assert [array.shape for array in result] == [(HEIGHT, WIDTH), (6,), (1,)]


def test_a_range_of_an_inout_has_one_axis(session: vyre.Session) -> None:
    data = np.arange(16, dtype=np.uint32).reshape(4, 4)
    for wanted, shape, dtype in [((4, 12), (2,), np.uint32), ((1, 17), (16,), np.uint8), ((0, 64), (4, 4), np.uint32)]:
        got = session.dispatch(kept(u32, output_range=wanted), {"data": data})["data"]
        assert got.shape == shape and got.dtype == np.dtype(dtype)
        assert got.tobytes() == data.tobytes()[slice(*wanted)]


def _bundle(session: vyre.Session, program: Program, tmp_path: Path) -> vyre.Result:
    vyre.build_bundle(program, tmp_path / "doubled.vyrz", targets=["sm_90"])
    (loaded,) = vyre.load_bundle(tmp_path / "doubled.vyrz").values()
    return session.dispatch(loaded, {"image": PICTURE}, extent=(WIDTH, HEIGHT))


def _resident(session: vyre.Session, program: Program) -> vyre.Result:
    with session.resident(np.zeros(1, np.uint32)) as one:
        return session.dispatch(program, {"image": PICTURE, "one": one}, extent=(WIDTH, HEIGHT))


def _specialized(session: vyre.Session, program: Program) -> vyre.Result:
    with ProgramBuilder("scaled", workgroup=(2, 2)) as p:
        factor = p.param("factor", u32)
        image = p.inout("image", u32)
        copy = p.output("copy", u32, like="image")
        i = p.let(p.global_id(1) * WIDTH + p.global_id(0), "i")
        with p.if_((p.global_id(0) < WIDTH) & (i < image.length)):
            copy[i] = image[i]
            image[i] = image[i] * factor
    return session.specialize(p.build(), extent=(WIDTH, HEIGHT))({"factor": 2, "image": PICTURE})


WAYS: dict[str, Callable[[vyre.Session, Program], vyre.Result]] = {
    "dispatch": lambda s, p: s.dispatch(p, {"image": PICTURE}, extent=(WIDTH, HEIGHT)),
    "config": lambda s, p: s.dispatch(p, [PICTURE], DispatchConfig(extent=(WIDTH, HEIGHT))),
    "pipeline": lambda s, p: s.compile(p, extent=(WIDTH, HEIGHT))({"image": PICTURE}),
    "bound": lambda s, p: s.bind(p, {"image": PICTURE}, extent=(WIDTH, HEIGHT))(),
    "submit": lambda s, p: s.submit(p, {"image": PICTURE}, extent=(WIDTH, HEIGHT)).result(LIMIT_S),
    "many": lambda s, p: s.dispatch_many(p, [{"image": PICTURE}], extent=(WIDTH, HEIGHT))[0],
    "arena": lambda s, p: s.dispatch(p, {"image": PICTURE}, extent=(WIDTH, HEIGHT), outputs=OutputArena()),
    "resident": _resident,
    "specialized": _specialized,
}


@pytest.mark.parametrize("backend", ["reference", "cuda-machine"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_run_gives_the_same_shapes_and_says_the_same_of_the_launch(way: str, backend: str) -> None:
    with vyre.open(backend) as opened:
        result = WAYS[way](opened, doubled())
        _check(result)


def test_a_predicting_session_and_a_bundle_do_too(tmp_path: Path) -> None:
    with vyre.open("reference", predict=True) as opened:
        for way in ("dispatch", "submit"):
            _check(WAYS[way](opened, doubled()))
    with vyre.open("cuda-machine", cache=False) as session:
        _check(_bundle(session, doubled(), tmp_path))


def _check(result: vyre.Result) -> None:
    assert np.array_equal(result["image"], PICTURE * 2)
    assert np.array_equal(result["copy"], PICTURE)
    assert "image: uint32[2, 3]" in repr(result)
    launch = result.launch
    assert (launch.grid, launch.workgroup, launch.extent) == ((2, 1, 1), (2, 2, 1), (WIDTH, HEIGHT))
    assert launch.rule is vyre.GridRule.GIVEN_EXTENT
    assert result.launch is launch


def test_arrays_of_out_keep_their_own_shape(session: vyre.Session) -> None:
    out: dict[str, Array] = {"image": np.zeros((3, 2), np.uint32), "copy": np.zeros(6, np.uint32)}
    result = session.dispatch(doubled(), {"image": PICTURE}, extent=(WIDTH, HEIGHT), out=out)
    assert result["image"] is out["image"] and result["copy"] is out["copy"]
    assert np.array_equal(out["image"].reshape(-1), PICTURE.reshape(-1) * 2)
    assert np.array_equal(out["copy"], PICTURE.reshape(-1))


def test_the_shape_is_that_of_each_dispatch(session: vyre.Session) -> None:
    pipeline = session.compile(kept(u32))
    shapes = [(6,), (2, 3), (3, 2), (6,), (1, 6)]
    assert [pipeline([PICTURE.reshape(shape)])[0].shape for shape in shapes] == shapes
