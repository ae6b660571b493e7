"""The code that writes usual inputs writes the bytes that the converters give, and leaves all others to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre
from vyre.app.host_arrays import HostInputs
from vyre.app.persistent.input_code import writer_of

F32, U32 = np.arange(4, dtype=np.float32), np.arange(4, dtype=np.uint32)


def program() -> vyre.Program:
    with vyre.ProgramBuilder("inputs", workgroup=4) as p:
        scale, count = p.param("scale", vyre.f32), p.param("count", vyre.u32)
        x, y, b = p.input("x", vyre.f32), p.inout("y", vyre.u32), p.input("b", vyre.bool_)
        i = p.global_id()
        with p.if_((i < count) & b[i]):
            y[i] = y[i] + (x[i] * scale).cast(vyre.u32)
    return p.build()


INPUTS = HostInputs(program())
WRITE = writer_of(INPUTS)
USUAL: dict[str, Any] = {"scale": 0.5, "count": 3, "x": F32, "y": U32, "b": np.array([1, 0, 1, 1], np.bool_)}


def memory() -> list[memoryview]:
    return [memoryview(bytearray(nbytes)) for nbytes in (4, 4, 16, 16, 16)]


@pytest.mark.parametrize(
    "inputs",
    [
        USUAL,
        dict(reversed(USUAL.items())),
        list(USUAL.values()),
        tuple(USUAL.values()),
        {**USUAL, "scale": -0.0, "count": 0xFFFF_FFFF},
        {**USUAL, "x": F32.reshape(2, 2), "y": U32[::1]},
        {**USUAL, "b": [True, False, False, True]},
    ],
)
def test_usual_inputs_are_written_as_they_are_converted(inputs: Any) -> None:
    targets = memory()
    assert WRITE(inputs, targets)
    assert list(map(bytes, targets)) == list(map(bytes, INPUTS.views(inputs)))


@pytest.mark.parametrize(
    "change",
    [
        {"scale": 1},
        {"scale": np.float32(0.5)},
        {"scale": 1e300},
        {"scale": "much"},
        {"count": -1},
        {"count": 1 << 32},
        {"count": True},
        {"x": F32.astype(np.float64)},
        {"x": F32.astype(">f4")},
        {"x": np.arange(8, dtype=np.float32)[::2]},
        {"x": F32[:3]},
        {"x": F32[:0]},
        {"x": F32.tolist()},
        {"x": bytes(16)},
        {"x": F32.view(np.matrix)},
        {"x": U32},
        {"b": U32.astype(np.int8)},
        {"b": np.ones(3, np.bool_)},
        {"z": F32},
    ],
    ids=str,
)
def test_all_others_are_left_to_the_converters(change: dict[str, Any]) -> None:
    assert not WRITE({**USUAL, **change}, memory())


@pytest.mark.parametrize(
    "inputs",
    [{}, [], [0.5, 3], None, 7, "inputs", iter(USUAL.values())],
    ids=["no name", "nothing", "too few", "None", "number", "text", "iterator"],
)
def test_what_are_no_inputs_is_left_to_the_converters(inputs: Any) -> None:
    assert not WRITE(inputs, memory())


def test_a_program_may_take_nothing() -> None:
    with vyre.ProgramBuilder("nothing", workgroup=4) as p:
        p.output("y", vyre.u32, count=4)[p.global_id()] = vyre.u32(7)
    write = writer_of(HostInputs(p.build()))
    assert write((), []) and write({}, []) and write([], [])
    assert not write({"x": F32}, [])
