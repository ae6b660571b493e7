"""Operands of an entry's instructions: registers and constants as numbered places, checked against types."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from vyre.adapters.cuda.machine.faults import PtxError
from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, bits_of
from vyre.adapters.cuda.machine.ptx_syntax import SIZE_OF, Elements, Instruction, Operand, RegisterName
from vyre.adapters.cuda.machine.ptx_syntax import operand as classified
from vyre.adapters.lanes.types import Dense

_INTEGER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]{1,32}|0[bB][01]{1,64}|(0[0-7]{1,32})|[1-9][0-9]{0,31}|0)U?\Z")
"""Decimal, hexadecimal, binary, or octal with a leading 0."""
_FLOAT_BITS: Final = re.compile(r"0([fF][0-9a-fA-F]{8}|[dD][0-9a-fA-F]{16})\Z")
_DECIMAL: Final = re.compile(r"-?[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?\Z")
_ADDRESS: Final = re.compile(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+)\s*)?\]\Z")
_LARGEST_F32: Final = float(np.finfo(np.float32).max)
_POISON: Final = 0xCDCD_CDCD_CDCD_CDCD


class Symbol(NamedTuple):
    """The meaning of a name: an offset in its space, or (``offset`` None) a variable that is placed at load."""

    space: str
    offset: int | None


class Patch(NamedTuple):
    """A constant that holds the address of a module variable, plus ``addend``."""

    place: int
    name: str
    addend: int
    kind: str


class Address(NamedTuple):
    """An address operand: the value at ``place`` plus ``offset``; ``width`` is that of the register in bits."""

    place: int
    offset: int
    width: int


STORAGE: Final[dict[str, np.dtype[Any]]] = {
    kind: dtype if kind in ("f32", "f64", "pred") else np.dtype(f"u{dtype.itemsize}")
    for kind, dtype in LANE_DTYPE.items()
}
"""The dtype of a register's array by declared type: integers are unsigned, halves are words."""


@cache
def _fits(declared: str, kind: str, wider: bool) -> bool:
    """Returns whether an operand of type ``kind`` may be a register of the declared type; ``wider``: or of a
    wider one.
    """
    if declared == kind:
        return True
    if "pred" in (declared, kind):
        return False
    size, wanted = SIZE_OF[declared], SIZE_OF[kind]
    if "f" in kind:
        return declared[0] == "b" and size == wanted
    return (kind[0] == "b" or "f" not in declared) and (size == wanted or (wider and size > wanted))


class Operands:
    """The numbered places of one entry: registers in the order of their first use, and constants as they occur.

    ``values`` holds the initial value of each place (poison for a register), ``held`` its dtype.  ``reads`` and
    ``writes`` are the places of the current instruction.
    """

    def __init__(self, registers: Mapping[str, str], symbols: Mapping[str, Symbol], parameter_bytes: int) -> None:
        self.parameter_bytes: Final = parameter_bytes
        self.declared: dict[int, str] = {}
        self._places: dict[str, int] = {}
        self._types = registers
        self._symbols = symbols
        self._constants: dict[tuple[str, int], int] = {}
        self.values: list[Dense] = []
        self.held: list[np.dtype[Any]] = []
        self.patches: list[Patch] = []
        self.reads: list[int] = []
        self.writes: list[int] = []
        self.instruction: Instruction

    def begin(self, instruction: Instruction) -> None:
        """Starts with an instruction: clears ``reads`` and ``writes``."""
        self.instruction = instruction
        self.reads, self.writes = [], []

    def error(self, message: str) -> PtxError:
        """Returns an error about the current instruction."""
        return PtxError(self.instruction.line, f"{message}: {self.instruction}")

    # ---- registers
    def _register(self, name: str) -> int:
        place = self._places.get(name)
        if place is None:
            declared = self._types.get(name)
            if declared is None:
                raise self.error(f"{name} is not declared")
            dtype = STORAGE[declared]
            word = np.array(_POISON & (1 << 8 * dtype.itemsize) - 1, f"u{dtype.itemsize}")
            place = self._places[name] = self._add(np.False_ if declared == "pred" else word.view(dtype)[()])
            self.declared[place] = declared
        return place

    def _add(self, value: Dense) -> int:
        self.values.append(value)
        self.held.append(value.dtype)
        return len(self.values) - 1

    def _typed(self, name: str, kind: str, wider: bool) -> int:
        """Returns the place of a register that must fit an operand of type ``kind``."""
        place = self._register(name)
        declared = self.declared[place]
        if declared != kind and not _fits(declared, kind, wider):
            raise self.error(f"{name} is declared .{declared}, not .{kind}")
        return place

    def destination(self, operand: Operand, kind: str, *, wider: bool = False) -> int | None:
        """Returns the place of a result, or None for the sink ``_``."""
        if operand == "_":
            return None
        place = self._typed(operand, kind, wider)
        self.writes.append(place)
        return place

    def result(self, operand: Operand, kind: str) -> int:
        """Returns the place of a result that the instruction must have."""
        place = self.destination(operand, kind)
        if place is None:
            raise self.error("a result is expected")
        return place

    def source(self, operand: Operand, kind: str, *, wider: bool = False) -> int:
        """Returns the place of a register or a constant."""
        if isinstance(operand, RegisterName):
            place = self._typed(operand, kind, wider)
            self.reads.append(place)
            return place
        return self.constant(operand, kind)

    def guard(self, name: RegisterName) -> int:
        """Returns the place of a guard's predicate."""
        return self.source(name, "pred")

    # ---- constants
    def constant(self, operand: str, kind: str) -> int:
        """Returns the place of a literal, or of the address of a variable."""
        symbol = self._symbols.get(operand)
        if symbol is not None:
            return self._address_of(operand, symbol, 0, kind)
        return self.literal(self._bits(operand, kind), kind)

    def literal(self, bits: int, kind: str) -> int:
        """Returns the place of a constant with a bit pattern, in the dtype of ``kind``."""
        key = (kind, bits)
        place = self._constants.get(key)
        if place is None:
            dtype = LANE_DTYPE[kind]
            value = np.bool_(bits) if kind == "pred" else np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
            place = self._constants[key] = self._add(value)
        return place

    def _bits(self, operand: str, kind: str) -> int:
        width = 1 if kind == "pred" else bits_of(kind)
        match = _FLOAT_BITS.match(operand)
        if match:
            digits = match[1][1:]
            if len(digits) * 4 == width and kind[0] in "fb":
                return int(digits, 16)
            raise self.error(f"{operand} is no .{kind}")
        if _DECIMAL.match(operand) and kind in ("f32", "f64"):
            value = float(operand)
            if kind == "f32" and abs(value) > _LARGEST_F32:
                raise self.error(f"{operand} does not fit .{kind}")
            return int.from_bytes(struct.pack("<f" if kind == "f32" else "<d", value), "little")
        if "f" in kind:
            raise self.error(f"{operand} is no .{kind}")
        number = self.integer(operand, kind)
        if not -(1 << 63) <= number < 1 << 64 or (kind == "pred" and number not in (0, 1)):
            raise self.error(f"{operand} does not fit .{kind}")
        return number & (1 << width) - 1

    def _address_of(self, name: str, symbol: Symbol, addend: int, kind: str) -> int:
        if symbol.offset is not None:
            return self.literal(symbol.offset + addend & (1 << bits_of(kind)) - 1, kind)
        place = self._add(LANE_DTYPE[kind].type(0))
        self.patches.append(Patch(place, name, addend, kind))
        return place

    # ---- addresses and lists
    def address(self, operand: Operand, space: str) -> Address:
        """Returns the address ``[register]``, ``[register+n]``, ``[variable]`` or ``[variable+n]``."""
        match = _ADDRESS.match(operand)
        if match is None:
            raise self.error(f"{operand} is no address")
        name, addend = match.groups()
        offset = self.integer(addend) if addend else 0
        if isinstance(classified(name), RegisterName):
            place = self._register(name)
            width = bits_of(self.declared[place]) if self.declared[place] != "pred" else 0
            if "f" in self.declared[place] or (
                width != 64 and not (width == 32 and space in ("shared", "local", "param"))
            ):
                raise self.error(f"{name} holds no address of {space} memory")
            self.reads.append(place)
            return Address(place, offset, width)
        symbol = self._symbols.get(name)
        if symbol is None:
            raise self.error(f"{name} is not declared")
        if symbol.space != space:
            raise self.error(f"{name} lies in {symbol.space} memory, not in {space}")
        return Address(self._address_of(name, symbol, offset, "u64"), 0, 64)

    def elements(self, operand: Operand, count: int) -> tuple[Operand, ...]:
        """Returns the names in ``{a, b}``, or the operand itself for ``count`` 1."""
        if count == 1 and not isinstance(operand, Elements):
            return (operand,)
        if not isinstance(operand, Elements) or len(operand.members) != count:
            raise self.error(f"{count} elements expected, not {operand}")
        return operand.members

    def expect(self, count: int) -> tuple[Operand, ...]:
        """Returns the operands.  Raises ``PtxError`` unless there are ``count`` of them."""
        operands = self.instruction.operands
        if len(operands) != count:
            raise self.error(f"{count} operands expected")
        return operands

    def integer(self, text: str, kind: str = "u64") -> int:
        """Returns the value of an integer literal; ``kind`` names what it should be."""
        match = _INTEGER.match(text)
        if match is None:
            raise self.error(f"{text} is no .{kind}")
        return int(text.rstrip("U"), 8 if match[1] else 0)
