"""What may stand as an operand in an instruction: a closed union, whose members render as the text that stands there.

The members that are one word are strings of their own types, so that a line of PTX is put together from them as from
any text, and whoever must know what an operand is asks for its type.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias


class Register(str):
    """A register of the kernel (``%r3``), or a special one (``%tid.x``)."""

    __slots__ = ()


@lru_cache(maxsize=4096)
def register(kind: str, number: int) -> Register:
    """A register of the kernel; every kernel counts from 0, so the same few come again and again."""
    return Register(f"%{kind}{number}")


class Immediate(str):
    """A constant that is written in another form than a decimal integer: ``0x7FFF``, ``0f3F800000``."""

    __slots__ = ()


class Symbol(str):
    """The name of a variable or parameter, which stands for its address."""

    __slots__ = ()


class Elements(NamedTuple):
    """Two registers that are the halves of one value: ``{%r1, %r2}``."""

    low: Register
    high: Register

    def __str__(self) -> str:
        return f"{{{self.low}, {self.high}}}"


class Address(NamedTuple):
    """Memory at a base: ``[%rd1]``, or ``[smem+16]`` where an offset in bytes is given, even 0."""

    base: Register | Symbol
    offset: int | None = None

    def __str__(self) -> str:
        return f"[{self.base}]" if self.offset is None else f"[{self.base}+{self.offset}]"


Word: TypeAlias = Register | int
"""A value that is counted with: in a register, or known now."""
Operand: TypeAlias = Register | Immediate | Symbol | Elements | Address | int
"""An int is a decimal constant."""


def hexadecimal(bits: int) -> Immediate:
    return Immediate(hex(bits))
