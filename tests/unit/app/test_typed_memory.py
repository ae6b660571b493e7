"""Memory whose elements have a type is never read as another one, wherever it is handed over."""

from __future__ import annotations

import array
import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

import vyre
from support.limits import LIMIT_S
from support.small_programs import saxpy_program
from vyre.app.host_arrays import HostInputs
from vyre.domain.errors import InvalidInput, VyreError

Make: TypeAlias = Callable[[npt.NDArray[np.float32]], Any]
Floats: TypeAlias = npt.NDArray[np.float32]
X: Final = np.array([1.5, -2.0, 0.25, 3.0], np.float32)
Y: Final = np.array([10.0, 20.0, 30.0, 40.0], np.float32)
SAXPY: Final = saxpy_program()


def view(x: npt.NDArray[Any] | np.generic) -> memoryview:
    return memoryview(x)  # type: ignore[arg-type]  # ndarray has __buffer__ in the stubs from 3.12 on


RIGHT: Final[dict[str, Make]] = {
    "memoryview": lambda x: view(x),
    "matrix": lambda x: view(x.reshape(2, 2)),
    "array.array": lambda x: array.array("f", x.tolist()),
    "ctypes": lambda x: (ctypes.c_float * x.size)(*x.tolist()),
    "bytes": lambda x: x.tobytes(),
    "bytearray": lambda x: bytearray(x.tobytes()),
    "characters": lambda x: memoryview(x.tobytes()).cast("c"),
    "signed bytes": lambda x: array.array("b", x.tobytes()),
    "ctypes bytes": lambda x: (ctypes.c_ubyte * x.nbytes).from_buffer_copy(view(x)),
    "ctypes characters": lambda x: (ctypes.c_char * x.nbytes).from_buffer_copy(view(x)),
    "memory-mapped array": lambda x: x.view(np.memmap),
}
WRONG: Final[dict[str, Make]] = {
    "memoryview of doubles": lambda x: view(x.astype(np.float64)),
    "memoryview of as many bytes": lambda x: view(x[:2].astype(np.float64)),
    "memoryview of ints": lambda x: view(x.astype(np.int32)),
    "memoryview of words": lambda x: view(x.view(np.uint32)),
    "memoryview of halves": lambda x: view(x.astype(np.float16)),
    "memoryview of bools": lambda x: view(x > 0),
    "memoryview of complex numbers": lambda x: view(x.astype(np.complex64)),
    "memoryview of records": lambda x: view(x.view([("a", "<f4")])),
    "memoryview of objects": lambda x: view(x.astype(object)),
    "big-endian memoryview": lambda x: view(x.astype(">f4")),
    "array.array of doubles": lambda x: array.array("d", x.tolist()),
    "array.array of ints": lambda x: array.array("i", map(int, x)),
    "array.array of characters": lambda x: array.array("w" if sys.version_info >= (3, 13) else "u", "four"),
    "ctypes doubles": lambda x: (ctypes.c_double * x.size)(*x.tolist()),
    "ctypes ints": lambda x: (ctypes.c_int * x.size)(),
    "ctypes pointers": lambda x: (ctypes.c_void_p * x.size)(),
    "big-endian ctypes": lambda x: (ctypes.c_float.__ctype_be__ * x.size)(*x.tolist()),
    "no elements of another type": lambda x: array.array("d"),
    "masked array": lambda x: np.ma.masked_array(x, x < 0),
    "masked array without a mask": lambda x: np.ma.masked_array(x),
    "objects": lambda x: x.astype(object),
}


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


def _resident(session: vyre.Session, x: Any) -> Floats:
    with session.resident(x) as held, session.resident(Y) as y:
        session.bind_resident(SAXPY, {"a": 2.0, "x": held, "y": y})()
        return y.download()


def _uploaded(session: vyre.Session, x: Any) -> Floats:
    with session.resident(np.zeros(4, np.float32)) as held:
        held.upload(x)
        return _resident(session, held.download())


def _bound_resident(session: vyre.Session, x: Any) -> Floats:
    with session.resident(Y) as y, session.bind_resident(SAXPY, {"a": 2.0, "x": x, "y": y}) as launch:
        launch()
        return y.download()


def _sequence(session: vyre.Session, x: Any) -> Floats:
    with session.resident(Y) as y:
        session.sequence([vyre.Step(SAXPY, {"a": 2.0, "x": x, "y": y})])()
        return y.download()


def _mixed(session: vyre.Session, x: Any) -> Floats:
    with session.resident(Y) as y:
        session.dispatch(SAXPY, {"a": 2.0, "x": x, "y": y})
        return y.download()


PLACES: Final[dict[str, Callable[[vyre.Session, Any], Floats]]] = {
    "dispatch by name": lambda session, x: session.dispatch(SAXPY, {"a": 2.0, "x": x, "y": Y})["y"],
    "dispatch in order": lambda session, x: session.dispatch(SAXPY, [2.0, x, Y])["y"],
    "compile": lambda session, x: session.compile(SAXPY)([2.0, x, Y])["y"],
    "bind": lambda session, x: session.bind(SAXPY, [2.0, x, Y])()["y"],
    "submit": lambda session, x: session.submit(SAXPY, [2.0, x, Y]).result(LIMIT_S)["y"],
    "dispatch_many": lambda session, x: session.dispatch_many(SAXPY, [[2.0, x, Y]])[0]["y"],
    "tuned": lambda session, x: session.dispatch(SAXPY, [2.0, x, Y], tune=True)["y"],
    "specialize": lambda session, x: session.specialize(SAXPY)([2.0, x, Y])["y"],
    "bind_resident": _bound_resident,
    "sequence": _sequence,
    "resident": _resident,
    "upload": _uploaded,
    "beside resident memory": _mixed,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", RIGHT)
def test_memory_of_the_type_and_raw_memory_are_taken(session: vyre.Session, place: str, kind: str) -> None:
    np.testing.assert_array_equal(PLACES[place](session, RIGHT[kind](X)), 2 * X + Y)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", WRONG)
def test_memory_of_another_type_is_refused(session: vyre.Session, place: str, kind: str) -> None:
    with pytest.raises(InvalidInput, match=r"Fix: "):
        PLACES[place](session, WRONG[kind](X))


@pytest.mark.parametrize("kind", sorted({*WRONG, *RIGHT} - {"memory-mapped array"}))
def test_results_go_into_numpy_arrays_only(session: vyre.Session, kind: str) -> None:
    out = (WRONG | RIGHT)[kind](X)
    with pytest.raises(InvalidInput, match=r"out `y`.*Fix: "):
        session.dispatch(SAXPY, [2.0, X, Y], out={"y": out})


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (view(np.float32(2.0)), 2.0),
        (memoryview(b"\0\0\0@"), 2.0),
        (view(np.int32(2)), None),
        (view(np.array(2.0)), None),
        (view(np.array(2.0, ">f4")), None),
        (np.ma.masked_array(2.0, True), None),
        (np.ma.masked, None),
        (np.array(2.0, object), None),
    ],
)
def test_parameters_follow_the_same_rule(session: vyre.Session, value: Any, wanted: float | None) -> None:
    if wanted is None:
        with pytest.raises(InvalidInput, match=r"parameter `a`.*Fix: "):
            session.dispatch(SAXPY, [value, X, Y])
    else:
        np.testing.assert_array_equal(session.dispatch(SAXPY, [value, X, Y])["y"], wanted * X + Y)


def test_bools_are_bools_or_words(session: vyre.Session) -> None:
    with vyre.ProgramBuilder("invert", workgroup=1) as p:
        x = p.input("x", vyre.bool_)
        y = p.output("y", vyre.bool_, like=x)
        y[p.global_id()] = ~x[p.global_id()]
    program, flags = p.build(), np.array([True, False, True])
    for right in (flags, view(flags), flags.astype("<u4"), array.array("I", [1, 0, 1])):
        assert session.dispatch(program, [right])["y"].tolist() == [False, True, False]
    for wrong in (array.array("i", [1, 0, 1]), array.array("f", [1, 0, 1]), np.ma.masked_array(flags)):
        with pytest.raises(InvalidInput, match=r"`x`.*Fix: "):
            session.dispatch(program, [wrong])


def inverted() -> vyre.Program:
    with vyre.ProgramBuilder("invert", workgroup=1) as p:
        x = p.input("x", vyre.bool8)
        y = p.output("y", vyre.bool8, like=x)
        y[p.global_id()] = ~x[p.global_id()]
    return p.build()


def test_bytes_of_bools_are_bools_or_bytes(session: vyre.Session) -> None:
    program, flags = inverted(), np.array([True, False, True])
    for right in (
        flags,
        view(flags),
        flags.tobytes(),
        array.array("b", [1, 0, 2]),
        flags.reshape(1, 3),
        flags.tolist(),
    ):
        result = session.dispatch(program, [right])["y"]
        assert result.dtype == np.bool_
        assert result.ravel().tolist() == [False, True, False]
        assert result.view(np.uint8).ravel().tolist() == [0, 1, 0]
    for wrong in (
        flags.astype(np.uint32),
        flags.astype(np.uint8),
        array.array("I", [1, 0, 1]),
        np.ma.masked_array(flags),
        flags[::2],
        [1, 0, 1],
    ):
        with pytest.raises(InvalidInput, match=r"`x`.*Fix: "):
            session.dispatch(program, [wrong])
    out = np.empty(3, np.bool_)
    session.dispatch(program, [flags], out={"y": out})
    assert out.tolist() == [False, True, False]
    with pytest.raises(InvalidInput, match=r"out `y`.*numpy.bool_"):
        session.dispatch(program, [flags], out={"y": np.empty(3, np.uint8)})


def test_bytes_of_bools_are_bound_without_a_copy() -> None:
    flags = np.zeros((4, 5), np.bool_)
    (bound,) = HostInputs(inverted()).views([flags])
    assert (bound.nbytes, bound.readonly) == (20, True)
    flags[1, 2] = True
    assert bound[7] == 1, "the array is not bound itself"


@pytest.mark.parametrize("wrong", [True, np.bool_(True), np.float32(8), 8.0, None, "8", [1, 2]])
def test_resident_memory_is_made_of_a_size_or_memory(session: vyre.Session, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"Fix: "):
        session.resident(wrong)


@pytest.mark.parametrize(
    ("held", "given", "fits"),
    [
        (np.float32, np.float32, True),
        (np.float32, np.int32, False),
        (np.float32, np.uint8, False),
        (np.uint8, np.float32, True),  # memory without a type
        (np.bool_, np.bool_, True),
        (np.bool_, np.uint32, True),
        (np.uint32, np.bool_, False),
        (np.int32, np.bool_, False),
    ],
)
def test_an_upload_keeps_the_type(
    session: vyre.Session, held: type[np.generic], given: type[np.generic], fits: bool
) -> None:
    with session.resident(np.zeros(16, held)) as memory:
        before = memory.download()
        if fits:
            memory.upload(np.ones(2, given))
            assert memory.download().tolist() != before.tolist()
        else:
            with pytest.raises(VyreError, match=r"upload holds .*Fix: "):
                memory.upload(np.ones(2, given))
            assert memory.download().tolist() == before.tolist()
