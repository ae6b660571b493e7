"""Bounds of counted loops of every integer type, in both directions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.adapters.cuda.ptx.operands import Register
from vyre.adapters.cuda.ptx.values import Value, in_register
from vyre.adapters.cuda.ptx.writer import CLASS_OF, Writer
from vyre.domain.ir.types import ScalarType


def runs_never(start: Value, stop: Value, step: Value) -> bool:
    """Returns whether literal bounds alone leave the loop no iteration."""
    if step.bits == 0:
        return True
    dtype = start.dtype
    if not dtype.is_signed:
        return stop.bits == 0 or (start.bits is not None and stop.bits is not None and start.bits >= stop.bits)
    if start.bits is None or stop.bits is None or step.bits is None:
        return False
    first, last = _number(dtype, start.bits), _number(dtype, stop.bits)
    return first <= last if _number(dtype, step.bits) < 0 else first >= last


def _number(dtype: ScalarType, bits: int) -> int:
    return bits - (1 << dtype.bits) if bits >> (dtype.bits - 1) else bits


class _Bounds:
    """The bounds of a loop in registers.

    ``stride`` is what the counter advances by, modulo 2^width.
    """

    def __init__(self, w: Writer, start: Value, stop: Value, step: Value) -> None:
        self.w: Final = w
        self.dtype: Final = start.dtype
        self.first: Final = in_register(w, start)
        self.last: Final = in_register(w, stop)
        self.stride: Final = in_register(w, step)
        self._computed: Final = step.bits is None

    def never(self) -> Iterator[Register]:
        """Writes, one after the other, the predicates of the lanes that run no iteration."""
        yield self._test("ge", self.first, self.last)
        if self._computed:
            yield self._test("eq", self.stride, 0, signed=False)

    def more(self, counter: Register) -> Register:
        """Writes the predicate of the lanes that run another iteration after that of ``counter``."""
        return self._test("gt", self._difference(self.last, counter), self.stride, signed=False)

    def _test(self, relation: str, a: Register, b: Register | int, *, signed: bool = True) -> Register:
        letter = "s" if signed and self.dtype.is_signed else "u"
        return self.w.emit("p", f"setp.{relation}.{letter}{self.dtype.bits}", a, b)

    def _difference(self, a: Register, b: Register) -> Register:
        return self.w.emit(CLASS_OF[self.dtype], f"sub.u{self.dtype.bits}", a, b)


class _Downward(_Bounds):
    """Bounds of a loop whose step is a negative literal."""

    def __init__(self, w: Writer, start: Value, stop: Value, step: Value) -> None:
        super().__init__(w, start, stop, step)
        assert step.bits is not None
        size = Value(step.operand, step.dtype)
        self._size: Final = _magnitude(w, size)

    def never(self) -> Iterator[Register]:
        yield self._test("le", self.first, self.last)

    def more(self, counter: Register) -> Register:
        return self._test("gt", self._difference(counter, self.last), self._size, signed=False)


class _EitherWay(_Bounds):
    """Bounds of a loop whose step is computed and has a sign."""

    def __init__(self, w: Writer, start: Value, stop: Value, step: Value) -> None:
        super().__init__(w, start, stop, step)
        self._down: Final = self._test("lt", self.stride, 0)
        negated = _magnitude(w, step)
        self._size: Final = w.emit(CLASS_OF[self.dtype], f"selp.b{self.dtype.bits}", negated, self.stride, self._down)

    def never(self) -> Iterator[Register]:
        w, down = self.w, self._down
        below = w.emit("p", "and.pred", down, self._test("le", self.first, self.last))
        up = w.emit("p", "not.pred", down)
        above = w.emit("p", "and.pred", up, self._test("ge", self.first, self.last))
        yield w.emit("p", "or.pred", below, above)
        yield self._test("eq", self.stride, 0, signed=False)

    def more(self, counter: Register) -> Register:
        below, above = self._difference(counter, self.last), self._difference(self.last, counter)
        left = self.w.emit(CLASS_OF[self.dtype], f"selp.b{self.dtype.bits}", below, above, self._down)
        return self._test("gt", left, self._size, signed=False)


def _magnitude(w: Writer, step: Value) -> Register:
    """Returns the negated step, modulo 2^width."""
    kind, bits = CLASS_OF[step.dtype], step.dtype.bits
    return w.emit(kind, f"sub.u{bits}", w.emit(kind, f"mov.b{bits}", 0), step.operand)


def begin(w: Writer, start: Value, stop: Value, step: Value) -> _Bounds:
    """Writes the bounds of a loop of one integer type into registers.

    The loop counts up or, with a negative step, down; distances are unsigned, so that nothing wraps.
    """
    if not start.dtype.is_signed:
        return _Bounds(w, start, stop, step)
    if step.bits is None:
        return _EitherWay(w, start, stop, step)
    return (_Downward if step.bits >> (step.dtype.bits - 1) else _Bounds)(w, start, stop, step)
