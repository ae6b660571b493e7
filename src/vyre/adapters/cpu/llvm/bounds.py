"""The bounds of a loop.  They are compared by distance, ``stop - i > step``, so that nothing wraps."""

from __future__ import annotations

from typing import Final

from vyre.adapters.cpu.llvm.addressing import extended
from vyre.adapters.cpu.llvm.context import Kernel
from vyre.adapters.cpu.llvm.values import SCALAR, Shape, Value
from vyre.domain.ir.types import ScalarType

FEW_ROUNDS: Final = 256
"""The number of rounds up to which a loop does not look at the stop flag."""


class Bounds:
    """The bounds of a loop, with the comparisons on them; ``counter`` is a value of their type."""

    def __init__(self, k: Kernel, start: Value, stop: Value, step: Value) -> None:
        self._k: Final = k
        self.start: Final = start
        self.stop: Final = stop
        self.step: Final = step
        self._dtype: Final = start.dtype
        self._signed: Final = "s" if start.dtype.is_signed else "u"
        self._number: Final = None if step.number is None else _signed(start.dtype.bits, step.number, self._signed)

    @property
    def is_uniform(self) -> bool:
        """Tells whether the lanes agree on all bounds."""
        return all(bound.is_uniform for bound in (self.start, self.stop, self.step))

    @property
    def keeps_stride(self) -> bool:
        """Tells whether the counters of neighbouring lanes always differ by the same constant, which may be 0."""
        return self.start.shape is not Shape.VARYING and self.step.is_uniform

    @property
    def runs_never(self) -> bool:
        """Tells whether constants show that no lane runs a round."""
        return self._number == 0 or self._runs() is False

    @property
    def runs_always(self) -> bool:
        """Tells whether constants show that every lane runs a round."""
        return self._number != 0 and self._runs() is True

    def _runs(self) -> bool | None:
        """Returns whether there is a round by constants; None if these do not show it."""
        numbers = (self.start.number, self.stop.number)
        if self._number is None or None in numbers:
            return None
        first, last = (_signed(self._dtype.bits, n or 0, self._signed) for n in numbers)
        return first < last if self._number > 0 else first > last

    @property
    def steps_by_one(self) -> bool:
        """Tells whether the loop counts u32 up by one."""
        return self._number == 1 and self._dtype is ScalarType.U32

    def are_few(self, most: int) -> str:
        """Returns whether a loop that steps by one runs no more rounds, an i1 operand; only if it runs any."""
        count = self._arithmetic("sub", self.stop, self.start)
        return self._compare("icmp ule", count, self._k.number(self._dtype, most))[0]

    def stop_within(self, length: str) -> str:
        """Returns whether the stop of a u32 is no more than a length, an i64 operand; an i1 operand."""
        return self._k.w.pure("icmp ule i64 {}, {}", extended(self._k, self.stop), length)

    @property
    def is_short(self) -> bool:
        """Tells whether constants show that there are few rounds."""
        start, stop = self.start.number, self.stop.number
        if not self._number or start is None or stop is None:
            return False
        return abs(stop - start) <= FEW_ROUNDS * abs(self._number)

    def entered(self) -> tuple[str, bool]:
        """Returns an i1, or a vector of them, that is true for lanes that run a round; and whether it is an i1."""
        up, down = f"icmp {self._signed}lt", f"icmp {self._signed}gt"
        if self._number == 0:
            return "false", True
        if self._number is not None:
            return self._compare(up if self._number > 0 else down, self.start, self.stop)
        zero = self._k.number(self._dtype, 0)
        if self._signed == "u":
            return self._conjunction(
                self._compare(up, self.start, self.stop), self._compare("icmp ne", self.step, zero)
            )
        rising = self._conjunction(self._compare(up, self.start, self.stop), self._compare(down, self.step, zero))
        falling = self._conjunction(self._compare(down, self.start, self.stop), self._compare(up, self.step, zero))
        return self._combined("or", rising, falling)

    def more(self, counter: Value) -> tuple[str, bool]:
        """Returns an i1, or a vector of them, that is true for lanes that run a round after that of ``counter``."""
        if self._number in (1, -1):
            following = self._arithmetic("add", counter, self.step)
            return self._compare(f"icmp {self._signed}{'lt' if self._number > 0 else 'gt'}", following, self.stop)
        up = self._compare("icmp ugt", self._arithmetic("sub", self.stop, counter), self.step)
        if self._signed == "u" or (self._number or 0) > 0:
            return up
        zero = self._k.number(self._dtype, 0)
        size = self._arithmetic("sub", zero, self.step)
        down = self._compare("icmp ugt", self._arithmetic("sub", counter, self.stop), size)
        if self._number is not None:
            return down
        rising = self._compare("icmp sgt", self.step, zero)
        return self._combined("or", self._conjunction(rising, up), self._conjunction(self._inverse(rising), down))

    def counter(self, operand: str) -> Value:
        """Returns a counter of the shape of ``start``: ``operand`` is a scalar if ``keeps_stride``, else a vector."""
        if not self.keeps_stride:
            return self._k.varying(self._dtype, operand)
        if self.start.is_uniform:
            return self._k.uniform(self._dtype, operand)
        return self._k.affine(self._dtype, operand, self.start.stride)

    def next(self, counter: Value) -> Value:
        """Returns the counter of the next round."""
        if counter.shape is Shape.AFFINE and self.step.is_uniform:
            base = self._k.w.pure(f"add {SCALAR[self._dtype]} {{}}, {{}}", counter.operand, self.step.operand)
            return self._k.affine(self._dtype, base, counter.stride)
        return self._arithmetic("add", counter, self.step)

    def _arithmetic(self, op: str, a: Value, b: Value) -> Value:
        k, element = self._k, SCALAR[self._dtype]
        if a.is_uniform and b.is_uniform:
            return k.uniform(self._dtype, k.w.pure(f"{op} {element} {{}}, {{}}", a.operand, b.operand))
        return k.varying(self._dtype, k.w.pure(f"{op} {k.vector_type(element)} {{}}, {{}}", k.vector(a), k.vector(b)))

    def _compare(self, predicate: str, a: Value, b: Value) -> tuple[str, bool]:
        k, element = self._k, SCALAR[self._dtype]
        if a.is_uniform and b.is_uniform:
            return k.w.pure(f"{predicate} {element} {{}}, {{}}", a.operand, b.operand), True
        return k.w.pure(f"{predicate} {k.vector_type(element)} {{}}, {{}}", k.vector(a), k.vector(b)), False

    def _inverse(self, one: tuple[str, bool]) -> tuple[str, bool]:
        text, is_scalar = one
        kind, all_ones = ("i1", "true") if is_scalar else (self._k.vector_type("i1"), self._k.all_lanes)
        return self._k.w.pure(f"xor {kind} {{}}, {all_ones}", text), is_scalar

    def _conjunction(self, one: tuple[str, bool], other: tuple[str, bool]) -> tuple[str, bool]:
        return self._combined("and", one, other)

    def _combined(self, op: str, one: tuple[str, bool], other: tuple[str, bool]) -> tuple[str, bool]:
        k = self._k
        if one[1] and other[1]:
            return k.w.pure(f"{op} i1 {{}}, {{}}", one[0], other[0]), True
        a, b = (k.splat("i1", text) if is_scalar else text for text, is_scalar in (one, other))
        return k.w.pure(f"{op} {k.vector_type('i1')} {{}}, {{}}", a, b), False


def _signed(bits: int, number: int, sign: str) -> int:
    return number - (1 << bits) if sign == "s" and number >> (bits - 1) else number
