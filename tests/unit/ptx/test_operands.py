"""Operands of emitted instructions: how each kind renders, and that a register is known by its type."""

from __future__ import annotations

import pytest

from vyre.adapters.cuda.ptx.operands import (
    Address,
    Elements,
    Immediate,
    Operand,
    Register,
    Symbol,
    hexadecimal,
    register,
)
from vyre.adapters.cuda.ptx.values import counted, immediate, in_register, literal
from vyre.adapters.cuda.ptx.writer import Writer
from vyre.domain.ir.types import f32, i32, u32


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        (register("rd", 12), "%rd12"),
        (Register("%tid.x"), "%tid.x"),
        (Immediate("0x7FFF"), "0x7FFF"),
        (hexadecimal(255), "0xff"),
        (-1, "-1"),
        (Symbol("smem"), "smem"),
        (Elements(register("r", 1), register("r", 2)), "{%r1, %r2}"),
        (Address(register("rd", 1)), "[%rd1]"),
        (Address(Symbol("smem"), 0), "[smem+0]"),
        (Address(register("rd", 1), -8), "[%rd1+-8]"),
    ],
)
def test_each_kind_of_operand_renders_as_it_stands_in_an_instruction(operand: Operand, text: str) -> None:
    w = Writer("k")
    result = w.emit("r", "op.b32", operand, operand)
    assert isinstance(result, Register)
    assert w.body == [f"op.b32 {result}, {text}, {text};"]


def test_a_counted_number_is_a_literal_and_a_counted_register_is_not() -> None:
    number, held = counted(7), counted(register("r", 3))
    assert (number.operand, number.bits, number.dtype) == ("7", 7, u32)
    assert (held.operand, held.bits, held.dtype) == ("%r3", None, u32)


def test_only_what_is_in_no_register_is_moved_into_one() -> None:
    w = Writer("k")
    held = counted(register("r", 9))
    assert in_register(w, held) is held.operand
    assert w.body == []
    moved = in_register(w, literal(f32, 0x3F80_0000))
    assert w.body == [f"mov.f32 {moved}, 0f3F800000;"]


def test_the_least_integer_is_written_as_its_pattern() -> None:
    assert immediate(i32, 1 << 31) == "0x80000000"
    assert immediate(i32, 0xFFFF_FFFF) == "-1"
