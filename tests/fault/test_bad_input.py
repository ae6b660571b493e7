"""Bad input of every kind is a typed error that names the buffer, has a ``Fix:`` and leaves nothing half-written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vyre
from support.small_programs import catalog_of, saxpy_kernel, saxpy_program
from vyre.domain.errors import BackendUnavailable, InvalidInput, InvalidResource, VyreError
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.types import ScalarType
from vyre.testing.fakes import FunctionExecutor, function_backend

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
BACKEND = function_backend(saxpy_kernel)
PROGRAM = saxpy_program()


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    assert isinstance(BACKEND.executor, FunctionExecutor)
    BACKEND.executor.requests.clear()
    with vyre.open(catalog=catalog_of(BACKEND)) as opened:
        yield opened
    assert BACKEND.executor.requests == []  # nothing reached the backend


class NotABuffer:
    pass


BAD_INPUTS: dict[str, tuple[Any, str]] = {
    "too few": ([2.0, X], "takes 3 inputs, got 2"),
    "too many": ([2.0, X, Y, Y], "takes 3 inputs, got 4"),
    "none": ((), "takes 3 inputs, got 0"),
    "missing name": ({"a": 2.0, "x": X}, "`y` is missing"),
    "unknown name": ({"a": 2.0, "x": X, "y": Y, "z": Y}, "`z` is no input"),
    "misspelt name": ({"a": 2.0, "x": X, "Y": Y}, "`y` is missing and `Y` is no input"),
    "an array instead of a list": (X, "ndarray"),
    "bytes instead of a list": (b"abc", "bytes"),
    "a string": ("axy", "str"),
    "nothing": (None, "NoneType"),
    "dtype of the same size": ([2.0, X.view(np.uint32), Y], "`x` holds f32"),
    "dtype of another size": ([2.0, X.astype(np.float64), Y], "`x` holds f32"),
    "bool_ for f32": ([2.0, X > 0, Y], "`x` holds f32"),
    "objects": ([2.0, np.array([1, "a"], dtype=object), Y], "`x` holds Python objects"),
    "structured": ([2.0, np.zeros(2, [("a", "<f4"), ("b", "<f4")]), Y], "`x` holds f32"),
    "byte order": ([2.0, X.astype(">f4"), Y], "`x` is big-endian"),
    "strided": ([2.0, X[::2], Y], "`x`: the memory is not C-contiguous"),
    "transposed": ([2.0, X.reshape(2, 4).T, Y], "`x`: the memory is not C-contiguous"),
    "strided memoryview": ([2.0, memoryview(X.tobytes())[::2], Y], "`x`: the memory is not C-contiguous"),
    "a list of texts": ([2.0, ["1.0", "2.0"], Y], "`x` holds f32, and the list is one of <U3"),
    "a number for a buffer": ([2.0, 3.0, Y], "`x` is of type `float`"),
    "a NumPy scalar for a buffer": ([2.0, np.float32(3), Y], "`x` is of type `float32`"),
    "no buffer": ([2.0, NotABuffer(), Y], "`x`: NotABuffer offers no bytes"),
    "None": ([2.0, None, Y], "`x`: NoneType offers no bytes"),
    "a string for a number": (["2", X, Y], "`a`: f32 takes a number, got str"),
    "an array for a number": ([X, X, Y], "`a`: f32 takes a number, got ndarray"),
    "a bool for a number": ([True, X, Y], "`a`: f32 takes a number, got bool"),
    "a complex number": ([2j, X, Y], "`a`: f32 takes a number, got complex"),
    "a float beyond f32": ([1e39, X, Y], "`a`: 1e+39 is beyond"),
    "an int beyond f32": ([10**400, X, Y], "`a`: an int of 1329 bits is beyond"),
    "raw parameter of another size": ([b"\0" * 3, X, Y], "`a` is f32, got 3 bytes"),
}


@pytest.mark.parametrize(("inputs", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_inputs(session: vyre.Session, inputs: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        session.dispatch(PROGRAM, inputs)
    assert message in str(caught.value)
    assert "Fix: " in str(caught.value)


def _read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(8, np.float32)
    array.flags.writeable = False
    return array


BAD_OUTPUTS: dict[str, tuple[Any, type[VyreError], str]] = {
    "unknown name": ({"z": np.zeros(8, np.float32)}, InvalidInput, "`z` is no output"),
    "an input's name": ({"x": np.zeros(8, np.float32)}, InvalidInput, "`x` is no output"),
    "read-only": ({"y": _read_only()}, InvalidInput, "`y` is read-only"),
    "dtype": ({"y": np.zeros(8, np.float64)}, InvalidInput, "`y` is an array of float64"),
    "byte order": ({"y": np.zeros(8, ">f4")}, InvalidInput, "`y` is an array of >f4"),
    "strided": ({"y": np.zeros(16, np.float32)[::2]}, InvalidInput, "`y` is not C-contiguous"),
    "no array": ({"y": bytearray(32)}, InvalidInput, "`y` is a bytearray"),
    "another input": ({"y": X}, InvalidResource, "shares memory with input `x`"),
    "part of an input": ({"y": Y[1:]}, InvalidResource, "shares a part of the memory of input `y`"),
}


@pytest.mark.parametrize(("out", "kind", "message"), BAD_OUTPUTS.values(), ids=BAD_OUTPUTS)
def test_outputs(session: vyre.Session, out: Any, kind: type[VyreError], message: str) -> None:
    before = {name: bytes(array) for name, array in out.items()}
    with pytest.raises(kind) as caught:
        session.dispatch(PROGRAM, [2.0, X, Y], out=out)
    assert message in str(caught.value)
    assert "Fix: " in str(caught.value)
    assert {name: bytes(array) for name, array in out.items()} == before


def test_out_and_an_arena_exclude_each_other(session: vyre.Session) -> None:
    arena = vyre.OutputArena()
    with pytest.raises(InvalidInput, match="both out and outputs"):
        session.dispatch(PROGRAM, [2.0, X, Y], out={"y": np.zeros(8, np.float32)}, outputs=arena)
    assert len(arena) == 0


@pytest.mark.parametrize("elements", [0, 7, 9, 16])
def test_an_out_array_of_another_size_stays_as_it_was(elements: int) -> None:
    out = np.full(elements, 7, np.float32)
    with (
        vyre.open(catalog=catalog_of(function_backend(saxpy_kernel))) as session,
        pytest.raises(InvalidInput, match=r"`y` has \d+ elements.*Fix:"),
    ):
        session.dispatch(PROGRAM, [2.0, X, Y], out={"y": out})
    assert (out == 7).all()


def test_two_outs_may_not_overlap() -> None:
    with ProgramBuilder("two", workgroup=1) as p:
        a, b = p.output("a", vyre.u32, 4), p.output("b", vyre.u32, 4)
        a[p.global_id()] = 1
        b[p.global_id()] = 2
    program = p.build()
    shared = np.full(6, 9, np.uint32)
    backend = function_backend(lambda _: {"a": b"\1\0\0\0" * 4, "b": b"\2\0\0\0" * 4})
    with vyre.open(catalog=catalog_of(backend)) as session:
        with pytest.raises(InvalidResource, match="`b` shares memory with out `a`"):
            session.dispatch(program, [], out={"a": shared[:4], "b": shared[2:]})
        assert (shared == 9).all()
        session.dispatch(program, [], out={"a": shared[:4]})
    assert shared.tolist() == [1, 1, 1, 1, 9, 9]


PUSH_LIMITS = {
    ScalarType.U32: (0, 2**32 - 1),
    ScalarType.I32: (-(2**31), 2**31 - 1),
    ScalarType.U64: (0, 2**64 - 1),
    ScalarType.I64: (-(2**63), 2**63 - 1),
}


@pytest.mark.parametrize("element", PUSH_LIMITS, ids=lambda e: e.text)
def test_integer_parameters_are_range_checked(element: ScalarType) -> None:
    with ProgramBuilder("push", workgroup=1) as p:
        y = p.output("y", element, 1)
        y[0] = p.param("a", element)
    program = p.build()
    with vyre.open(catalog=catalog_of(function_backend(lambda inputs: {"y": inputs["a"]}))) as session:
        for value in PUSH_LIMITS[element]:
            assert session.dispatch(program, [value])["y"].tolist() == [value]
            numpy_value = np.array(value, element.numpy_name)[()]
            assert session.dispatch(program, [numpy_value])["y"].tolist() == [value]
        low, high = PUSH_LIMITS[element]
        for bad in (low - 1, high + 1, 1.0, True, np.float32(1), "1", None, 10**5000):
            with pytest.raises(InvalidInput, match=r"`a`.*Fix:"):
                session.dispatch(program, [bad])  # type: ignore[list-item]


def test_bool_parameters_and_buffers_convert_both_ways() -> None:
    with ProgramBuilder("bools", workgroup=1) as p:
        x, y = p.input("x", vyre.bool_), p.output("y", vyre.bool_, 3)
        y[0] = p.param("a", vyre.bool_) & x[0]
    program = p.build()
    seen: list[bytes] = []

    def kernel(inputs: Any) -> dict[str, bytes]:
        seen.append(inputs["x"] + inputs["a"])
        return {"y": inputs["x"]}

    words = np.array([0, 1, 7], np.uint32)
    with vyre.open(catalog=catalog_of(function_backend(kernel))) as session:
        for x_, a in ((words != 0, True), (words != 0, np.True_)):
            result = session.dispatch(program, {"x": x_, "a": a})["y"]
            assert result.dtype == np.bool_
            assert result.tolist() == [False, True, True]
            assert np.frombuffer(seen[-1], np.uint32).tolist() == [0, 1, 1, 1]
        session.dispatch(program, {"x": words, "a": False})  # 32-bit words as they are
        assert np.frombuffer(seen[-1], np.uint32).tolist() == [0, 1, 7, 0]
        out = np.zeros(3, np.bool_)
        session.dispatch(program, {"x": words, "a": False}, out={"y": out})
        assert out.tolist() == [False, True, True]
        wrong: tuple[Any, ...] = (1, 0.0, "true")
        for bad in wrong:
            with pytest.raises(InvalidInput, match="a bool"):
                session.dispatch(program, {"x": words, "a": bad})
        with pytest.raises(InvalidInput, match="holds bool"):
            session.dispatch(program, {"x": words.astype(np.uint8), "a": True})


def test_bf16_is_raw_16_bit_words() -> None:
    with ProgramBuilder("bf16", workgroup=1) as p:
        x, y = p.input("x", vyre.bf16), p.output("y", vyre.bf16, 2)
        y[0] = x[0]
    program = p.build()
    with vyre.open(catalog=catalog_of(function_backend(lambda inputs: {"y": inputs["x"]}))) as session:
        words = np.array([0x3F80, 0x7FC0], np.uint16)
        result = session.dispatch(program, [words])["y"]
        assert result.dtype == np.uint16
        assert result.tolist() == words.tolist()
        with pytest.raises(InvalidInput, match=r"bf16.*raw 16 bits"):
            session.dispatch(program, [np.zeros(2, np.float16)])


@pytest.mark.parametrize("name", ["nope", "", "REFERENCE"])
def test_an_unknown_backend(name: str) -> None:
    with pytest.raises(BackendUnavailable, match=r"no backend.*Fix:"):
        vyre.open(name)
