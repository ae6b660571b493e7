"""Operands of instructions: a closed union, whose members render as the text in the instruction.

Members that are one word are strings of their own types, so that a line of PTX is joined from them like any text, and
code that must know what an operand is can check its type.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias


class Register(str):
    """A register of the kernel (``%r3``), or a special one (``%tid.x``)."""

    __slots__ = ()


_KEPT: Final = 1 << 16
"""Names of registers of one class that are kept: every kernel counts from 0."""
_names: Final[dict[str, tuple[Register, ...]]] = {}


def registers(kind: str) -> tuple[Register, ...]:
    """Returns the registers of a class whose names are kept, from number 0 on."""
    return _names.get(kind, ())


def register(kind: str, number: int) -> Register:
    """Returns a register of the kernel."""
    names = _names.get(kind, ())
    if number < len(names):
        return names[number]
    if number >= _KEPT:
        return Register(f"%{kind}{number}")
    more = range(len(names), 2 * number + 64)
    names = _names[kind] = (*names, *(Register(f"%{kind}{n}") for n in more))
    return names[number]


class Immediate(str):
    """A constant that is not written as a decimal integer: ``0x7FFF``, ``0f3F800000``."""

    __slots__ = ()


class Symbol(str):
    """The name of a variable or parameter, which denotes its address."""

    __slots__ = ()


class Elements(NamedTuple):
    """Two registers that are the halves of one value: ``{%r1, %r2}``."""

    low: Register
    high: Register

    def __str__(self) -> str:
        return f"{{{self.low}, {self.high}}}"


class Address(NamedTuple):
    """Memory at a base: ``[%rd1]``, or ``[smem+16]`` if an offset in bytes is given, even 0."""

    base: Register | Symbol
    offset: int | None = None

    def __str__(self) -> str:
        return f"[{self.base}]" if self.offset is None else f"[{self.base}+{self.offset}]"


Word: TypeAlias = Register | int
"""A value used in index arithmetic: in a register, or known when the kernel is written."""
Operand: TypeAlias = Register | Immediate | Symbol | Elements | Address | int
"""Any operand; an int is a decimal constant."""


def hexadecimal(bits: int) -> Immediate:
    """Returns a bit pattern as a hexadecimal constant."""
    return Immediate(hex(bits))
