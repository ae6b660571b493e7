"""Fixed parameters: which readings become constants, and what stays as it is."""

from __future__ import annotations

import struct

import pytest

import vyre
from support.small_programs import saxpy_program, square_program
from vyre.domain.errors import InvalidInput
from vyre.domain.ir.bake import baked, parameter_literal
from vyre.domain.ir.expr import Literal, Load
from vyre.domain.ir.stmt import If, Let, Loop, Store
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_expressions


def test_readings_of_the_parameter_become_its_value() -> None:
    program = saxpy_program()
    found = baked(program, {"a": struct.pack("<f", 2.5)})
    assert "2.5f * x[gid.x] + y[gid.x]" in found.to_text()
    assert not [e for e in unique_expressions(found) if isinstance(e, Load) and e.buffer == "a"]
    assert (found.name, found.buffers, found.workgroup_size) == (program.name, program.buffers, program.workgroup_size)
    assert not vyre.validate(found).errors
    assert found.digest != program.digest


def test_what_has_no_such_reading_stays_the_same_object() -> None:
    program = saxpy_program()
    assert baked(program, {}).body is program.body
    (guard,) = baked(program, {"a": bytes(4)}).body
    assert isinstance(guard, If) and isinstance(program.body[0], If)
    assert guard.condition is program.body[0].condition


def test_shared_nodes_stay_shared_in_nested_statements() -> None:
    with vyre.ProgramBuilder("shared", workgroup=1) as p:
        a = p.param("a", vyre.u32)
        y = p.output("y", vyre.u32, 4)
        with p.if_(a > 0), p.for_(0, a):
            twice = p.let(a + a)
            y[0] = twice
            y[1] = a + 1
    found = baked(p.build(), {"a": (3).to_bytes(4, "little")})
    (outer,) = found.body
    assert isinstance(outer, If)
    (loop,) = outer.then
    assert isinstance(loop, Loop) and loop.stop == Literal(ScalarType.U32, 3)
    let, _, store = loop.body
    assert isinstance(let, Let) and isinstance(store, Store)
    assert let.value.left is let.value.right is store.value.left  # type: ignore[union-attr]


def test_only_the_named_parameters_are_fixed() -> None:
    with vyre.ProgramBuilder("two", workgroup=1) as p:
        a, b = p.param("a", vyre.i32), p.param("b", vyre.i32)
        p.output("y", vyre.i32, 1)[0] = a - b
    assert "-7i - b" in baked(p.build(), {"a": (-7).to_bytes(4, "little", signed=True)}).to_text().replace(
        "(-7i)", "-7i"
    )


def test_deep_programs_need_no_recursion() -> None:
    with vyre.ProgramBuilder("deep", workgroup=1) as p:
        a = p.param("a", vyre.u32)
        y = p.output("y", vyre.u32, 1)
        value = a
        for _ in range(60):
            value = p.let(value + a)
        y[0] = value
    assert "a" not in {e.buffer for e in unique_expressions(baked(p.build(), {"a": bytes(4)})) if isinstance(e, Load)}


@pytest.mark.parametrize(
    ("element", "data", "bits"),
    [
        (vyre.u32, b"\x01\x00\x00\x80", 0x8000_0001),
        (vyre.f32, b"\x01\x00\xa0\xff", 0xFFA0_0001),
        (vyre.f64, struct.pack("<d", -0.0), 1 << 63),
        (vyre.i64, b"\xff" * 8, 2**64 - 1),
        (vyre.bool_, b"\x00\x00\x00\x00", 0),
        (vyre.bool_, b"\x00\x01\x00\x00", 1),
    ],
)
def test_bytes_become_the_bits_that_a_reading_gives(element: ScalarType, data: bytes, bits: int) -> None:
    with vyre.ProgramBuilder("one", workgroup=1) as p:
        a = p.param("a", element)
        p.output("y", element, 1)[0] = a
    found = parameter_literal(p.build(), "a", data)
    assert found == Literal(element, bits) and type(found.bits) is int


@pytest.mark.parametrize(("name", "data"), [("x", bytes(4)), ("nowhere", bytes(4)), ("a", bytes(8))])
def test_other_names_and_lengths_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        baked(saxpy_program(), {name: data})
    assert baked(square_program(), {}) == square_program()
