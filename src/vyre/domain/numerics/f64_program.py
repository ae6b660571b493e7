"""Straight-line programs over binary64 and 32-bit words: one f32 in, one f32 out.

A transcendental function *is* such a program.  The NumPy evaluator, the plain-Python one, the C build of the
exhaustive proof and any device code generator execute the same steps.  Every step is exact, or rounds once by IEEE
754, and none is fused or approximate, so all of them give the same bits.

Steps are in SSA form: step ``i`` defines value ``i`` and reads only earlier values.  F64Step 0 is the input, the last
step the result.  Words wrap modulo 2^32 (2^64 for ``I64``); a program never reads the payload of a NaN where that
could reach its result, because payloads differ between machines.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.cached import cached_property
from vyre.domain.identity_enum import IdentityEnum


class Kind(IdentityEnum):
    """The type of a value."""

    F32 = 1
    F64 = 2
    I32 = 3
    I64 = 4
    PREDICATE = 5


class Op(IdentityEnum):
    """Operations; the value is the stable tag in the digest, the comment gives operands and result."""

    INPUT = 0  # -> F32
    CONST = 1  # -> any kind but PREDICATE; ``immediate`` is its bit pattern
    BITS = 2  # F32 -> I32, the bit pattern
    FROM_BITS = 3  # I32 -> F32
    WIDEN = 4  # F32 -> F64, exact
    NARROW = 5  # F64 -> F32, to nearest even
    FROM_INT = 6  # I32 as a signed integer -> F64, exact
    ADD = 7  # F64 F64 -> F64, to nearest even; so are the next four
    SUB = 8
    MUL = 9
    DIV = 10
    SQRT = 11
    LO32 = 12  # F64 or I64 -> I32, the low word of the pattern
    HI32 = 13  # F64 or I64 -> I32, the high word
    PACK = 14  # I32 (low), I32 (high) -> F64
    IADD = 15  # I32 I32 -> I32, or I64 I64 -> I64
    ISUB = 16  # I32 I32 -> I32
    IAND = 17
    IOR = 18
    IXOR = 19
    ISHL = 20  # I32, shifted by the ``immediate``
    ISHR = 21  # I32 or I64, logical, by the ``immediate``
    ISAR = 22  # I32, arithmetic, by the ``immediate``
    FUNNEL = 23  # I32 (high), I32 (low), I32 (count): high word of (high:low) << (count & 31)
    IMUL_WIDE = 24  # I32 I32 -> I64, unsigned
    IEQ = 25  # I32 I32 -> PREDICATE
    ILT = 26  # unsigned
    SELECT = 27  # PREDICATE, a, b of one kind: a where true, else b
    TABLE = 28  # I32 -> F64 or I32, entry of table number ``immediate``; the index is always in range


class F64Step(NamedTuple):
    """One operation: the kind of its result, the values it reads, and its literal, if it has one."""

    op: Op
    kind: Kind
    args: tuple[int, ...] = ()
    immediate: int = 0


class Table(NamedTuple):
    """Constants for lookup, as bit patterns of ``kind`` (F64 or I32)."""

    kind: Kind
    entries: tuple[int, ...]


class Branch(NamedTuple):
    """A select, the values needed only where its predicate holds, and those needed only where it does not."""

    select: int
    when_true: Region
    when_false: Region


Region: TypeAlias = "tuple[int | Branch, ...]"


_DIGEST_CONTEXT: Final = b"vyre.f64-program.v1\0"


@dataclass(frozen=True, eq=False)
class F64Program:
    """A named program; ``tables`` are numbered in order.  A ``Writer`` builds it; programs are compared by digests."""

    name: str
    steps: tuple[F64Step, ...]
    tables: tuple[Table, ...] = ()

    @cached_property
    def digest(self) -> bytes:
        """Returns the BLAKE3-256 digest of every step and table (without the name): equal digests, equal function."""
        from blake3 import blake3

        hasher = blake3(_DIGEST_CONTEXT)
        hasher.update(struct.pack("<II", len(self.steps), len(self.tables)))
        for op, kind, args, immediate in self.steps:
            hasher.update(struct.pack(f"<BBB{len(args)}IQ", op.value, kind.value, len(args), *args, immediate))
        for table in self.tables:
            hasher.update(struct.pack("<BI", table.kind.value, len(table.entries)))
            hasher.update(struct.pack(f"<{len(table.entries)}Q", *table.entries))
        return hasher.digest()

    @cached_property
    def structure(self) -> Region:
        """Returns the steps in an order of evaluation in which either arm of a select can be skipped.

        A step that reaches the result only through one arm of a select belongs to that arm; evaluating all arms
        always gives the same result as skipping those that no lane needs.
        """
        members: dict[Place, list[int]] = {}
        for index, place in enumerate(innermost(self.steps, lambda select: select)):
            members.setdefault(place, []).append(index)

        def region(place: Place) -> Region:
            # Program order within a region is a valid order: values that an arm reads from outside precede its select.
            return tuple(
                Branch(i, region((*place, (i, 1))), region((*place, (i, 2)))) if self.steps[i].op is Op.SELECT else i
                for i in members.get(place, ())
            )

        return region(ROOT)


Place: TypeAlias = "tuple[tuple[int, int], ...]"
"""The path from a whole program to an arm: selects, each with the position (1 or 2) of the operand chosen."""
ROOT: Final[Place] = ()


def innermost(steps: tuple[F64Step, ...], name: Callable[[int], int]) -> list[Place]:
    """Returns for each step the innermost arm that contains all its uses.

    ``name`` gives the number that stands in paths for the select that is a step; selects of one number share arms.
    """
    places: list[Place | None] = [None] * len(steps)
    places[-1] = ROOT
    for index in range(len(steps) - 1, -1, -1):
        place, step = places[index], steps[index]
        assert place is not None, "the writer keeps no unused step"
        for position, arg in enumerate(step.args):
            use = (*place, (name(index), position)) if step.op is Op.SELECT and position else place
            seen = places[arg]
            places[arg] = use if seen is None else _common(seen, use)
    return [place for place in places if place is not None]


def _common(a: Place, b: Place) -> Place:
    length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:length]


def f32_bits(value: float) -> int:
    """Returns the bit pattern of the f32 nearest to ``value``."""
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits


def f64_bits(value: float) -> int:
    """Returns the bit pattern of a binary64 value."""
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


class Term:
    """A value in a program being written.  Operators follow its kind; Python numbers become constants of it."""

    __slots__ = ("index", "kind", "writer")

    def __init__(self, writer: Writer, index: int, kind: Kind) -> None:
        self.writer: Writer = writer
        self.index: int = index
        self.kind: Kind = kind

    def _emit(self, op: Op, kind: Kind, *others: Term | float, immediate: int = 0, swap: bool = False) -> Term:
        operands = [self, *(self.writer.lift(other, self.kind) for other in others)]
        return self.writer.emit(op, kind, *(reversed(operands) if swap else operands), immediate=immediate)

    def _arithmetic(self, other: Term | float, on_f64: Op, on_words: Op, *, swap: bool = False) -> Term:
        return self._emit(on_f64 if self.kind is Kind.F64 else on_words, self.kind, other, swap=swap)

    def __add__(self, other: Term | float) -> Term:
        return self._arithmetic(other, Op.ADD, Op.IADD)

    def __radd__(self, other: float) -> Term:
        return self._arithmetic(other, Op.ADD, Op.IADD, swap=True)

    def __sub__(self, other: Term | float) -> Term:
        return self._arithmetic(other, Op.SUB, Op.ISUB)

    def __rsub__(self, other: float) -> Term:
        return self._arithmetic(other, Op.SUB, Op.ISUB, swap=True)

    def __mul__(self, other: Term | float) -> Term:
        return self._emit(Op.MUL, Kind.F64, other)

    def __rmul__(self, other: float) -> Term:
        return self._emit(Op.MUL, Kind.F64, other, swap=True)

    def __truediv__(self, other: Term | float) -> Term:
        return self._emit(Op.DIV, Kind.F64, other)

    def __rtruediv__(self, other: float) -> Term:
        return self._emit(Op.DIV, Kind.F64, other, swap=True)

    def __and__(self, other: Term | int) -> Term:
        return self._emit(Op.IAND, Kind.I32, other)

    def __or__(self, other: Term | int) -> Term:
        return self._emit(Op.IOR, Kind.I32, other)

    def __xor__(self, other: Term | int) -> Term:
        return self._emit(Op.IXOR, Kind.I32, other)

    def __lshift__(self, count: int) -> Term:
        return self._emit(Op.ISHL, self.kind, immediate=count)

    def __rshift__(self, count: int) -> Term:
        """Returns the words shifted right by ``count`` bits, filled with zeros."""
        return self._emit(Op.ISHR, self.kind, immediate=count)

    def shift_arithmetic(self, count: int) -> Term:
        """Returns an I32 shifted right by ``count`` bits, filled with copies of the sign bit."""
        return self._emit(Op.ISAR, self.kind, immediate=count)

    def equals(self, other: Term | int) -> Term:
        """Returns the predicate ``self == other``."""
        return self._emit(Op.IEQ, Kind.PREDICATE, other)

    def below(self, other: Term | int) -> Term:
        """Returns the predicate ``self < other`` of unsigned words."""
        return self._emit(Op.ILT, Kind.PREDICATE, other)

    def above(self, other: Term | int) -> Term:
        """Returns the predicate ``self > other`` of unsigned words."""
        return self._emit(Op.ILT, Kind.PREDICATE, other, swap=True)

    def sqrt(self) -> Term:
        """Returns the square root of an F64, rounded to nearest even."""
        return self._emit(Op.SQRT, Kind.F64)

    def bits(self) -> Term:
        """Returns the bit pattern of an F32 as an I32."""
        return self._emit(Op.BITS, Kind.I32)

    def from_bits(self) -> Term:
        """Returns the F32 with this bit pattern."""
        return self._emit(Op.FROM_BITS, Kind.F32)

    def widen(self) -> Term:
        """Returns an F32 as an F64, exactly."""
        return self._emit(Op.WIDEN, Kind.F64)

    def narrow(self) -> Term:
        """Returns an F64 as an F32, rounded to nearest even."""
        return self._emit(Op.NARROW, Kind.F32)

    def signed_to_f64(self) -> Term:
        """Returns an I32, read as a signed integer, as an F64, exactly."""
        return self._emit(Op.FROM_INT, Kind.F64)

    def low_word(self) -> Term:
        """Returns the low 32-bit word of an F64 or I64."""
        return self._emit(Op.LO32, Kind.I32)

    def high_word(self) -> Term:
        """Returns the high 32-bit word of an F64 or I64."""
        return self._emit(Op.HI32, Kind.I32)

    def multiply_wide(self, other: Term) -> Term:
        """Returns the product of two unsigned I32 as an I64."""
        return self._emit(Op.IMUL_WIDE, Kind.I64, other)

    def choose(self, when_true: Term, when_false: Term) -> Term:
        """Returns ``when_true`` where this predicate holds, else ``when_false``."""
        return self.writer.emit(Op.SELECT, when_true.kind, self, when_true, when_false)


class Writer:
    """Writes a program; identical steps are shared, steps that the result does not need are dropped."""

    def __init__(self) -> None:
        self._steps: list[F64Step] = []
        self._known: dict[F64Step, int] = {}
        self._tables: list[Table] = []
        self.input: Final = self.emit(Op.INPUT, Kind.F32)

    def emit(self, op: Op, kind: Kind, *operands: Term, immediate: int = 0) -> Term:
        """Returns the value of a step; an identical earlier step is reused."""
        step = F64Step(op, kind, tuple(operand.index for operand in operands), immediate)
        index = self._known.setdefault(step, len(self._steps))
        if index == len(self._steps):
            self._steps.append(step)
        return Term(self, index, kind)

    def lift(self, value: Term | float, kind: Kind) -> Term:
        """Returns ``value`` as a term; numbers become constants of ``kind`` (words may be written signed)."""
        if isinstance(value, Term):
            return value
        if kind is Kind.F64:
            return self.emit(Op.CONST, kind, immediate=f64_bits(value))
        if kind is Kind.F32:
            return self.emit(Op.CONST, kind, immediate=f32_bits(value))
        return self.emit(Op.CONST, kind, immediate=int(value) & 0xFFFF_FFFF)

    def f32_pattern(self, bits: int) -> Term:
        """Returns an f32 constant by its bits."""
        return self.emit(Op.CONST, Kind.F32, immediate=bits)

    def f64(self, value: float) -> Term:
        """Returns an F64 constant."""
        return self.lift(value, Kind.F64)

    def word(self, value: int) -> Term:
        """Returns an I32 constant."""
        return self.lift(value, Kind.I32)

    def pack(self, low: Term | int, high: Term | int) -> Term:
        """Returns the F64 that consists of these words."""
        return self.emit(Op.PACK, Kind.F64, self.lift(low, Kind.I32), self.lift(high, Kind.I32))

    def funnel(self, high: Term, low: Term, count: Term | int) -> Term:
        """Returns the high word of ``(high:low) << (count & 31)``."""
        return self.emit(Op.FUNNEL, Kind.I32, high, low, self.lift(count, Kind.I32))

    def lookup(self, table: Table, index: Term) -> Term:
        """Returns the entry of a table; the index must be in range."""
        if table not in self._tables:
            self._tables.append(table)
        return self.emit(Op.TABLE, table.kind, index, immediate=self._tables.index(table))

    def finish(self, name: str, result: Term) -> F64Program:
        """Returns the program that yields ``result`` (of kind F32)."""
        needed = {result.index}
        for index in range(result.index, -1, -1):
            if index in needed:
                needed.update(self._steps[index].args)
        renumbered = {old: new for new, old in enumerate(sorted(needed))}
        steps = (self._steps[old] for old in renumbered)
        return F64Program(
            name,
            tuple(step._replace(args=tuple(renumbered[arg] for arg in step.args)) for step in steps),
            tuple(self._tables),
        )
