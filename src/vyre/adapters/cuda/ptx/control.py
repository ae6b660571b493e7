"""Control flow: bounds of counted loops of every integer type, in both directions, and the way to the arm of a switch.

A switch branches by a table where its labels are dense, else it makes one test per arm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from vyre.adapters.cuda.decisions.ptxas_hazard_table import Fence
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.operands import Register
from vyre.adapters.cuda.ptx.values import Value, in_register, literal
from vyre.adapters.cuda.ptx.writer import CLASS_OF, Writer
from vyre.domain.ir.stmt import Arm, Body
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


def loop_bounds(w: Writer, start: Value, stop: Value, step: Value) -> _Bounds:
    """Writes the bounds of a loop of one integer type into registers.

    The loop counts up or, with a negative step, down; distances are unsigned, so that nothing wraps.
    """
    if not start.dtype.is_signed:
        return _Bounds(w, start, stop, step)
    if step.bits is None:
        return _EitherWay(w, start, stop, step)
    return (_Downward if step.bits >> (step.dtype.bits - 1) else _Bounds)(w, start, stop, step)


TABLE_FROM: Final = 6
"""The number of labels from which on a table may replace the tests."""
SPARSENESS: Final = 3
"""The most entries of a table for each label."""
WriteBody = Callable[[Kernel, Body], None]


def write_switch(
    k: Kernel, selector: Value, arms: Sequence[Arm], default: Body, uniform: str, write_body: WriteBody
) -> None:
    """Writes a switch.  ``uniform`` is ``.uni`` if all lanes of a subgroup select the same arm, else empty."""
    labels = [_number(selector.dtype, label.bits) for arm in arms for label in arm.labels]
    span = max(labels, default=0) - min(labels, default=0)
    if len(labels) >= TABLE_FROM and span < SPARSENESS * len(labels):
        _by_table(k, selector, arms, default, uniform, write_body)
    else:
        _by_tests(k, selector, arms, default, uniform, write_body)


def _by_tests(
    k: Kernel, selector: Value, arms: Sequence[Arm], default: Body, uniform: str, write_body: WriteBody
) -> None:
    w, end = k.w, k.w.label()
    register = in_register(w, selector)
    for number, arm in enumerate(arms):
        last = number + 1 == len(arms) and not default
        following = end if last else w.label()
        chosen = _is_one_of(k, register, selector, arm)
        w.line(f"@!{chosen} bra{uniform} {following};")
        write_body(k, arm.body)
        if not last:
            w.line(f"bra.uni {end};")
            w.place(following)
    write_body(k, default)
    w.place(end)


def _is_one_of(k: Kernel, register: Register, selector: Value, arm: Arm) -> Register:
    """Writes whether the selector is a label of an arm; labels that follow each other are tested together."""
    w, dtype = k.w, selector.dtype
    is_label: Register | None = None
    for first, last in _runs(sorted(_number(selector.dtype, label.bits) for label in arm.labels)):
        low = literal(dtype, first & ((1 << dtype.bits) - 1))
        if first == last:
            here = w.emit("p", f"setp.eq.u{dtype.bits}", register, low.operand)
        else:
            above = w.emit(CLASS_OF[dtype], f"sub.u{dtype.bits}", register, low.operand)
            here = w.emit("p", f"setp.le.u{dtype.bits}", above, last - first)
        is_label = here if is_label is None else w.emit("p", "or.pred", is_label, here)
    assert is_label is not None, "every arm has a label"
    return is_label


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Returns the first and the last number of each run of consecutive ones."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _by_table(
    k: Kernel, selector: Value, arms: Sequence[Arm], default: Body, uniform: str, write_body: WriteBody
) -> None:
    w, dtype = k.w, selector.dtype
    end, table = w.label(), w.label()
    otherwise = w.label() if default else end
    places = [w.label() if arm.body else end for arm in arms]
    place_of = {
        _number(selector.dtype, one.bits): place for arm, place in zip(arms, places, strict=True) for one in arm.labels
    }
    low, high = min(place_of), max(place_of)
    first = literal(dtype, low & ((1 << dtype.bits) - 1))
    entry = in_register(w, selector)
    if low:
        entry = w.emit(CLASS_OF[dtype], f"sub.u{dtype.bits}", entry, first.operand)
    beyond = w.emit("p", f"setp.gt.u{dtype.bits}", entry, high - low)
    w.line(f"@{beyond} bra{uniform} {otherwise};")
    if dtype.bits == 64:
        entry = k.integers.fences.around(w, Fence.NARROWING, w.emit("r", "cvt.u32.u64", entry))
    targets = ", ".join(place_of.get(number, otherwise) for number in range(low, high + 1))
    w.line(f"{table}: .branchtargets {targets};")
    w.line(f"brx.idx{uniform} {entry}, {table};")
    for arm, place in zip(arms, places, strict=True):
        if arm.body:
            w.place(place)
            write_body(k, arm.body)
            w.line(f"bra.uni {end};")
    if default:
        w.place(otherwise)
        write_body(k, default)
    w.place(end)
