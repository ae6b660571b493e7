"""``Instructions``: the spelling of LLVM instructions, the same for one value and for a vector of W values.

The rules of the operators are written once, on elements; whether an element stands for a uniform value or for a vector
of lanes is a matter of the types in the text only.  ``lift`` makes elements of values: scalars where all of them are
uniform, else vectors of lanes.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.values import Shape, Value
from vyre.adapters.cpu.llvm.writer import Writer
from vyre.domain.ir.types import ScalarType

_SUFFIX: Final = {"half": "f16", "float": "f32", "double": "f64"}
FRACTION: Final = {"float": 23, "double": 52}
"""The number of stored fraction bits of each floating-point type."""
WORD: Final = {"half": "i16", "float": "i32", "double": "i64"}
"""The integer type with the bits of each floating-point type."""


def width(element: str) -> int:
    """Returns the number of bits of an element type."""
    return int(WORD.get(element, element)[1:])


class Instructions:
    """Writes pure instructions on elements: scalars, or vectors of ``lanes`` of them.

    ``element`` is an LLVM type such as ``i32`` or ``double``.  Numbers are written by ``number`` and ``real``.
    """

    __slots__ = ("lanes", "w")

    def __init__(self, w: Writer, lanes: int | None) -> None:
        self.w: Final = w
        self.lanes: Final = lanes
        """The number of lanes of a vector, None for scalars."""

    def type(self, element: str) -> str:
        """Returns the type of a value."""
        return element if self.lanes is None else f"<{self.lanes} x {element}>"

    def number(self, element: str, number: int) -> str:
        """Returns an integer constant; it is taken modulo 2^width."""
        return self._constant(element, str(number & ((1 << width(element)) - 1)))

    def real(self, element: str, value: float) -> str:
        """Returns a floating-point constant whose value the type holds exactly."""
        return self._constant(element, f"0x{_f64_bits(value):016X}")

    def half(self, bits: int) -> str:
        """Returns a constant of the LLVM type ``half`` by its bits."""
        return self._constant("half", f"0xH{bits:04X}")

    def truth(self, value: bool) -> str:
        """Returns a constant of type i1."""
        return self._constant("i1", "true" if value else "false")

    def _constant(self, element: str, text: str) -> str:
        return text if self.lanes is None else f"splat ({element} {text})"

    def do(self, op: str, element: str, *operands: str) -> str:
        """Returns ``op operands`` of one element type, for example ``add``."""
        places = ", ".join("{}" for _ in operands)
        return self.w.pure(f"{op} {self.type(element)} {places}", *operands)

    def compare(self, predicate: str, element: str, a: str, b: str) -> str:
        """Returns an i1: ``icmp`` of integers, ``fcmp`` of floats."""
        op = "fcmp" if element in WORD else "icmp"
        return self.do(f"{op} {predicate}", element, a, b)

    def select(self, element: str, condition: str, on_true: str, on_false: str) -> str:
        """Returns ``on_true`` where the i1 ``condition`` holds, else ``on_false``."""
        kind = self.type(element)
        return self.w.pure(f"select {self.type('i1')} {{}}, {kind} {{}}, {kind} {{}}", condition, on_true, on_false)

    def convert(self, op: str, source: str, target: str, a: str) -> str:
        """Returns a conversion, for example ``zext``; ``a`` itself where the types are equal."""
        if source == target:
            return a
        if self.lanes is not None and source == "i32" and target == "i64":
            a = self._hidden(a)
        return self.w.pure(f"{op} {self.type(source)} {{}} to {self.type(target)}", a)

    def _hidden(self, a: str) -> str:
        """Returns a vector of i32 of which LLVM cannot know that its elements have fewer bits.

        LLVM 22 turns shifted 64-bit products of values that it knows to have 16 bits into wrong instructions.
        """
        zero = self.w.zero()
        if zero == "0":
            return a
        one = self.w.pure(f"insertelement {self.type('i32')} poison, i32 {{}}, i64 0", zero)
        order = f"<{self.lanes} x i32> zeroinitializer"
        zeros = self.w.pure(f"shufflevector {self.type('i32')} {{}}, {self.type('i32')} poison, {order}", one)
        return self.do("xor", "i32", a, zeros)

    def call(self, intrinsic: str, element: str, *operands: str, flags: str = "") -> str:
        """Returns an intrinsic whose operands and result have one element type.

        ``flags`` are i1 arguments that follow, for example ``", i1 false"``.
        """
        kind = self.type(element)
        name = f"@llvm.{intrinsic}.{self.suffix(element)}"
        types = ", ".join(kind for _ in operands) + ", i1" * flags.count("i1")
        self.w.declare(f"declare {kind} {name}({types})")
        places = ", ".join(f"{kind} {{}}" for _ in operands)
        return self.w.pure(f"call {kind} {name}({places}{flags})", *operands)

    def convert_by(self, intrinsic: str, source: str, target: str, a: str) -> str:
        """Returns an intrinsic conversion, for example ``fptosi.sat``."""
        name = f"{intrinsic}.{self.suffix(target)}.{self.suffix(source)}"
        return self.w.call(self.type(target), name, (self.type(source), a))

    def bits(self, element: str, a: str) -> str:
        """Returns the bit pattern of a float."""
        return self.convert("bitcast", element, WORD[element], a)

    def from_bits(self, element: str, a: str) -> str:
        """Returns the float with a bit pattern."""
        return self.convert("bitcast", WORD[element], element, a)

    def high_product(self, element: str, a: str, b: str, *, signed: bool) -> str:
        """Returns the high half of the product of double width."""
        bits = width(element)
        if bits == 32 or self.lanes is None:
            wide, extend = f"i{2 * bits}", "sext" if signed else "zext"
            product = self.do(
                "mul", wide, self.convert(extend, element, wide, a), self.convert(extend, element, wide, b)
            )
            return self.convert("trunc", wide, element, self.do("lshr", wide, product, self.number(wide, bits)))
        return self._high_product_of_halves(a, b, signed=signed)

    def _high_product_of_halves(self, a: str, b: str, *, signed: bool) -> str:
        """Returns the high half of a 64-bit product by four products of 32 bits, which vectors have."""
        low_bits, shift, e = self.number("i64", 0xFFFF_FFFF), self.number("i64", 32), "i64"
        a_low, a_high = self.do("and", e, a, low_bits), self.do("lshr", e, a, shift)
        b_low, b_high = self.do("and", e, b, low_bits), self.do("lshr", e, b, shift)
        # The freeze keeps LLVM from recognising the whole as a product of 128 bits, which it would compute by lanes.
        low = self.do("lshr", e, self.do("freeze", e, self.do("mul", e, a_low, b_low)), shift)
        # Neither sum can wrap: a product of halves is at most (2^32 - 1)^2, which leaves room for a half.
        middle = self.do("add", e, self.do("mul", e, a_high, b_low), low)
        other = self.do("add", e, self.do("mul", e, a_low, b_high), self.do("and", e, middle, low_bits))
        carried = self.do("add", e, self.do("lshr", e, middle, shift), self.do("lshr", e, other, shift))
        high = self.do("add", e, self.do("mul", e, a_high, b_high), carried)
        if not signed:
            return high
        # The unsigned product counts each negative factor as 2^64 too much.
        sign = self.number(e, 63)
        for_a = self.do("and", e, self.do("ashr", e, a, sign), b)
        for_b = self.do("and", e, self.do("ashr", e, b, sign), a)
        return self.do("sub", e, self.do("sub", e, high, for_a), for_b)

    def suffix(self, element: str) -> str:
        """Returns the end of the name of an intrinsic on elements of this type."""
        suffix = _SUFFIX.get(element, element)
        return suffix if self.lanes is None else f"v{self.lanes}{suffix}"


def _f64_bits(value: float) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


class Lifted(NamedTuple):
    """The operands of an instruction, all scalars or all vectors, and what writes instructions on them."""

    ins: Instructions
    operands: tuple[str, ...]

    def value(self, dtype: ScalarType, operand: str) -> Value:
        """Returns a result."""
        return Value(dtype, operand, Shape.UNIFORM if self.ins.lanes is None else Shape.VARYING)


def lift(k: Kernel, *values: Value) -> Lifted:
    """Returns values as scalars if all of them are uniform, else as vectors."""
    for value in values:
        if value.shape is not Shape.UNIFORM:
            return Lifted(Instructions(k.w, k.lanes), tuple([k.vector(value) for value in values]))
    return Lifted(Instructions(k.w, None), tuple([value.operand for value in values]))
