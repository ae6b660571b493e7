"""One program for each operation at each type, whose lanes apply it to a row of witnesses each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Bitcast,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Load,
    Narrow,
    Pack,
    Select,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupShuffle,
    Unary,
    Unpack,
    Var,
    WrapCast,
)
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    BINARY,
    UNARY,
    AtomicOp,
    BinaryOp,
    UnaryOp,
    binary_result,
    bitcast_is_legal,
    cast_is_legal,
    narrow_is_legal,
    unary_result,
    wrap_cast_is_legal,
)
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Body, Let, Store
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType, bool_, f32, f64, u32
from vyre.testing.conform.witness_rows import Row, halfway_rows, rounding_rows, witness_rows
from vyre.testing.operand_columns import operand_columns

_LANE: Final = LaunchId(IdKind.GLOBAL, 0)
_SUBGROUP: Final = 32
_OPERANDS: Final = tuple(Load(f"x{k}", _LANE) for k in range(3))
_A, _B, _C = _OPERANDS


class Operation(NamedTuple):
    """An operation at its types.

    ``body`` computes the result ``y`` of the lane.  ``separate``: no lane sees what another one does, so that any row
    can be run alone.  ``updated``: operand 0 is memory that the operation changes.
    """

    name: str
    operands: tuple[ScalarType, ...]
    result: ScalarType
    body: Body
    separate: bool = True
    updated: bool = False
    stored: ScalarType | None = None
    """The narrow type whose stores are checked, if that is the operation."""
    rounds: bool = False
    """Operand 0 is converted to a float type that may not hold it."""

    def rows(self, seed: int) -> tuple[Row, ...]:
        """Returns the operands of every lane."""
        source = f"{seed} {self.name}"
        if self.stored is not None:
            return rounding_rows(self.stored, source)
        rows = witness_rows(self.operands, source)
        if self.rounds:
            return (*rows, *halfway_rows(self.operands[0], self.result, source))
        return rows if self.separate else (*rows, *rows[: -len(rows) % _SUBGROUP])

    def program(self, count: int) -> Program:
        """Returns the program for ``count`` rows: buffers ``x0``, ``x1`` ... and ``y``."""
        buffers = [
            Buffer.make(f"x{k}", k, Access.READ_WRITE if self.updated and k == 0 else Access.READ_ONLY, dtype, count)
            for k, dtype in enumerate(self.operands)
        ]
        buffers.append(Buffer.make("y", len(buffers), Access.READ_WRITE, self.result, count, is_output=True))
        return Program(tuple(buffers), (64, 1, 1), self.body, name=self.name)

    def inputs(self, rows: Sequence[Row]) -> dict[str, bytes]:
        """Returns the content of the buffers by name."""
        return operand_columns(rows, self.operands)


def operations() -> Iterator[Operation]:
    """Yields every operation at every type, in the order of the language's tables; the names are all different."""
    for binary, row in BINARY.items():
        for left in EXECUTABLE_TYPES:
            for right in EXECUTABLE_TYPES if left in row.operands else ():
                result = binary_result(binary, left, right)
                if result is not None:
                    yield _pure(f"{_text(binary)} {left.text} {right.text}", (left, right), result, _binary(binary))
    for unary in UNARY:
        for dtype in EXECUTABLE_TYPES:
            result = unary_result(unary, dtype)
            if result is not None:
                yield _pure(f"{_text(unary)} {dtype.text}", (dtype,), result, Unary(unary, _A))
    for dtype in EXECUTABLE_TYPES:
        yield _pure(f"select {dtype.text}", (bool_, dtype, dtype), dtype, Select(_A, _B, _C))
        if dtype in (f32, f64):
            yield _pure(f"fma {dtype.text}", (dtype,) * 3, dtype, Fma(_A, _B, _C))
            apart = Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, _A, _B), _C)
            yield _pure(f"multiply, then add {dtype.text}", (dtype,) * 3, dtype, apart)
    yield from _conversions()
    yield from _memory()
    yield from _atomics()
    yield from _subgroups()


def _conversions() -> Iterator[Operation]:
    for source in EXECUTABLE_TYPES:
        for target in EXECUTABLE_TYPES:
            if cast_is_legal(source, target):
                name = f"cast {source.text} to {target.text}"
                rounds = target.is_float and source.bits > 8
                yield _pure(name, (source,), target, Cast(target, _A))._replace(rounds=rounds)
            if bitcast_is_legal(source, target):
                yield _pure(f"bitcast {source.text} to {target.text}", (source,), target, Bitcast(target, _A))
            if wrap_cast_is_legal(source, target):
                yield _pure(f"wrap_cast {source.text} to {target.text}", (source,), target, WrapCast(target, _A))
    for dtype in NARROW_TYPES:
        wide = dtype.widened
        if narrow_is_legal(dtype):
            yield _rounding(f"narrow {dtype.text}", wide, wide, Narrow(dtype, _A), dtype)
        yield _rounding(f"pack {dtype.text}", wide, u32, Pack(dtype, _A), dtype)
        yield _pure(f"unpack {dtype.text}", (u32,), wide, Unpack(dtype, _A))


def _memory() -> Iterator[Operation]:
    for dtype in NARROW_TYPES:
        yield _pure(f"load {dtype.text}", (dtype,), dtype.widened, _A)
        yield _rounding(f"store {dtype.text}", dtype.widened, dtype, _A, dtype)
    for dtype in EXECUTABLE_TYPES:
        yield _pure(f"copy {dtype.text}", (dtype,), dtype, _A)


def _atomics() -> Iterator[Operation]:
    """Each lane updates an element of its own and returns the old value, so that both are determined."""
    for dtype in sorted(ATOMIC_ELEMENTS, key=lambda each: each.text):
        for op in AtomicOp:
            compares = op is AtomicOp.COMPARE_EXCHANGE
            operands = (dtype,) * (3 if compares else 2)
            update = Atomic(op, "x0", _LANE, _C if compares else None, _B)
            body = (Let("old", update), Store("y", _LANE, Var("old")))
            yield Operation(f"atomic {_text(op)} {dtype.text}", operands, dtype, body, updated=True)


def _subgroups() -> Iterator[Operation]:
    for dtype in EXECUTABLE_TYPES:
        yield _together(f"subgroup shuffle {dtype.text}", (dtype, u32), dtype, SubgroupShuffle(_A, _B))
        if dtype is bool_:
            yield _together("subgroup ballot", (bool_, u32), u32, SubgroupBallot(_A))
        else:
            yield _together(f"subgroup add {dtype.text}", (dtype,), dtype, SubgroupAdd(_A))


def _text(op: BinaryOp | UnaryOp | AtomicOp) -> str:
    return op.name.lower()


def _binary(op: BinaryOp) -> Expr:
    return Binary(op, _A, _B)


def _pure(name: str, operands: tuple[ScalarType, ...], result: ScalarType, value: Expr) -> Operation:
    return Operation(name, operands, result, (Store("y", _LANE, value),))


def _rounding(name: str, operand: ScalarType, result: ScalarType, value: Expr, stored: ScalarType) -> Operation:
    return Operation(name, (operand,), result, (Store("y", _LANE, value),), stored=stored)


def _together(name: str, operands: tuple[ScalarType, ...], result: ScalarType, value: Expr) -> Operation:
    return Operation(name, operands, result, (Let("v", value), Store("y", _LANE, Var("v"))), separate=False)
