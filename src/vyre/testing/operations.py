"""The catalogue: every operation at every type, as an expression of its operands, with values to try it on.

The backend contract, the operator matrix, ``vyre conform`` and the random programs read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.dialects.laws.evaluation import SCALARS, evaluated
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import (
    ATOMIC_ELEMENTS,
    BINARY,
    SUBGROUP,
    UNARY,
    AtomicOp,
    BinaryOp,
    SubgroupOp,
    UnaryOp,
    binary_result,
    bitcast_is_legal,
    cast_is_legal,
    narrow_is_legal,
    unary_result,
    wrap_cast_is_legal,
)
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType, bool_, f32, f64, u32
from vyre.domain.numerics import scalar
from vyre.testing.samples import FUSED_TERMS, samples, wide_samples, words_with

Row: TypeAlias = tuple[int, ...]
"""A bit pattern for each operand."""
LANE: Final = ir.LaunchId(ir.IdKind.GLOBAL, 0)
A, B, C = OPERANDS = (ir.Var("a"), ir.Var("b"), ir.Var("c"))
_LOADED: Final = {operand.name: ir.Load(f"x{k}", LANE) for k, operand in enumerate(OPERANDS)}


class Operation(NamedTuple):
    """An operation at its types.

    ``value`` is an expression of ``OPERANDS``.  ``kind`` groups operations, and ``key`` tells apart those of a kind.
    ``separate``: no lane sees what another one does, so that any row can be run alone.
    """

    kind: str
    key: str
    name: str
    operands: tuple[ScalarType, ...]
    result: ScalarType
    value: ir.Expr
    separate: bool = True
    stored: ScalarType | None = None
    """The narrow type whose stores are checked, if that is the operation."""
    rounds: bool = False
    """Operand 0 is converted to a float type that may not hold it."""

    @property
    def updated(self) -> bool:
        """Whether operand 0 is memory that the operation changes."""
        return type(self.value) is ir.Atomic

    def program(self, count: int) -> Program:
        """Returns the program for ``count`` rows: buffers ``x0``, ``x1`` ... and ``y``, with a lane for each row."""
        buffers = [
            Buffer.make(f"x{k}", k, Access.READ_WRITE if self.updated and k == 0 else Access.READ_ONLY, dtype, count)
            for k, dtype in enumerate(self.operands)
        ]
        like = None if count else "x0"  # without rows, all sizes are those of the dispatch
        buffers.append(Buffer.make("y", len(buffers), Access.READ_WRITE, self.result, count, is_output=True, like=like))
        value = with_operands(self.value, _LOADED)
        body: ir.Body = (ir.Store("y", LANE, value),)
        if self.updated or not self.separate:
            local = "old" if self.updated else "v"
            body = (ir.Let(local, value), ir.Store("y", LANE, ir.Var(local)))
        return Program(tuple(buffers), (64, 1, 1), body, name=self.name)

    def inputs(self, rows: Sequence[Row]) -> dict[str, bytes]:
        """Returns the content of the buffers by name."""
        return operand_columns(rows, self.operands)

    def expected(self, row: Row) -> bytes:
        """Returns the element that a lane stores, by the scalar rules; its value depends on the row alone."""
        names = [operand.name for operand in OPERANDS[: len(row)]]
        types = {name: dtype.widened for name, dtype in zip(names, self.operands, strict=True)}
        values = [
            scalar.load_element(dtype, bits.to_bytes(dtype.size, "little"))
            for dtype, bits in zip(self.operands, row, strict=True)
        ]
        bits = evaluated(self.value, types, dict(zip(names, values, strict=True)), SCALARS)
        return scalar.store_element(self.result, bits)

    def samples(self) -> tuple[Row, ...]:
        """Returns rows at which the rules of the operation differ, few enough to try them all on any backend."""
        dtype = self.operands[-1]
        match self.kind:
            case "select":
                pairs = zip(samples(dtype), samples(dtype)[::-1], strict=True)
                return tuple((c, a, b) for (a, b), c in product(pairs, (0, 1)))
            case "fma" | "products_and_sums_are_not_contracted":
                return tuple(product(FUSED_TERMS[dtype], repeat=3))
            case "narrow" | "pack":
                return rows_of(wide_samples(dtype))
            case "unpack":
                assert isinstance(self.value, ir.Unpack)
                return rows_of(words_with(self.value.dtype))
            case "wrap_cast":
                return rows_of((*wide_samples(dtype), *(x ^ 1 << (dtype.bits - 1) for x in wide_samples(dtype))))
        return tuple(product(*map(samples, self.operands)))


def rows_of(values: Sequence[int]) -> tuple[Row, ...]:
    """Returns a row for each value of a single operand."""
    return tuple((bits,) for bits in values)


def with_operands(value: ir.Expr, operands: dict[str, ir.Load] | dict[str, ir.Expr]) -> ir.Expr:
    """Returns an expression of ``OPERANDS`` with others in their place."""
    return rebuilt(value, lambda node: operands[node.name] if type(node) is ir.Var else node)


def operand_columns(rows: Sequence[Row], types: Sequence[ScalarType]) -> dict[str, bytes]:
    """Returns the bytes of buffers ``x0``, ``x1`` and so on, one for each operand of these types.

    The values of a buffer are in the order of the rows.
    """
    return {f"x{k}": b"".join([row[k].to_bytes(dtype.size, "little") for row in rows]) for k, dtype in enumerate(types)}


@cache
def operations() -> tuple[Operation, ...]:
    """Returns every operation at every type, in the order of the language's tables; the names are all different."""
    return (*_operators(), *_conversions(), *_memory(), *_atomics(), *_subgroups())


def _operators() -> Iterator[Operation]:
    for binary, row in BINARY.items():
        for left in EXECUTABLE_TYPES:
            for right in EXECUTABLE_TYPES if left in row.operands else ():
                result = binary_result(binary, left, right)
                if result is not None:
                    kind = "binary" if left is right else "counts_may_be_u32"
                    key, name = f"{_text(binary)}_{left.text}", f"{_text(binary)} {left.text} {right.text}"
                    yield Operation(kind, key, name, (left, right), result, ir.Binary(binary, A, B))
    for unary in UNARY:
        for dtype in EXECUTABLE_TYPES:
            result = unary_result(unary, dtype)
            if result is not None:
                key, name = f"{_text(unary)}_{dtype.text}", f"{_text(unary)} {dtype.text}"
                yield Operation("unary", key, name, (dtype,), result, ir.Unary(unary, A))
    for dtype in EXECUTABLE_TYPES:
        text = dtype.text
        yield Operation("select", text, f"select {text}", (bool_, dtype, dtype), dtype, ir.Select(A, B, C))
        if dtype in (f32, f64):
            yield Operation("fma", text, f"fma {text}", (dtype,) * 3, dtype, ir.Fma(A, B, C))
            apart = ir.Binary(BinaryOp.ADD, ir.Binary(BinaryOp.MUL, A, B), C)
            kind = "products_and_sums_are_not_contracted"
            yield Operation(kind, text, f"multiply, then add {text}", (dtype,) * 3, dtype, apart)


def _conversions() -> Iterator[Operation]:
    for source in EXECUTABLE_TYPES:
        for target in EXECUTABLE_TYPES:
            key, words = f"{source.text}_to_{target.text}", f"{source.text} to {target.text}"
            if cast_is_legal(source, target):
                rounds = target.is_float and source.bits > 8
                yield Operation("cast", key, f"cast {words}", (source,), target, ir.Cast(target, A), rounds=rounds)
            if bitcast_is_legal(source, target):
                yield Operation("bitcast", key, f"bitcast {words}", (source,), target, ir.Bitcast(target, A))
            if wrap_cast_is_legal(source, target):
                yield Operation("wrap_cast", key, f"wrap_cast {words}", (source,), target, ir.WrapCast(target, A))
    for dtype in NARROW_TYPES:
        wide, text = dtype.widened, dtype.text
        if narrow_is_legal(dtype):
            yield Operation("narrow", text, f"narrow {text}", (wide,), wide, ir.Narrow(dtype, A), stored=dtype)
        yield Operation("pack", text, f"pack {text}", (wide,), u32, ir.Pack(dtype, A), stored=dtype)
        yield Operation("unpack", text, f"unpack {text}", (u32,), wide, ir.Unpack(dtype, A))


def _memory() -> Iterator[Operation]:
    for dtype in NARROW_TYPES:
        wide, text = dtype.widened, dtype.text
        yield Operation("load", text, f"load {text}", (dtype,), wide, A)
        yield Operation("store", text, f"store {text}", (wide,), dtype, A, stored=dtype)
    for dtype in EXECUTABLE_TYPES:
        yield Operation("copy", dtype.text, f"copy {dtype.text}", (dtype,), dtype, A)


def _atomics() -> Iterator[Operation]:
    """Each lane updates an element of its own and returns the old value, so that both are determined."""
    for dtype in sorted(ATOMIC_ELEMENTS, key=lambda each: each.text):
        for op in AtomicOp:
            compares = op is AtomicOp.COMPARE_EXCHANGE
            update = ir.Atomic(op, "x0", LANE, C if compares else None, B)
            key, name = f"{_text(op)}_{dtype.text}", f"atomic {_text(op)} {dtype.text}"
            yield Operation("atomic", key, name, (dtype,) * (3 if compares else 2), dtype, update)


def _subgroups() -> Iterator[Operation]:
    for dtype in EXECUTABLE_TYPES:
        shuffle = ir.SubgroupShuffle(A, B)
        yield _together(f"shuffle {dtype.text}", (dtype, u32), dtype, shuffle)
        if dtype is bool_:
            yield _together("ballot", (bool_, u32), u32, ir.SubgroupBallot(A))
        for op, row in SUBGROUP.items():
            if dtype in row.operands:
                words = f"{_text(op).replace('_', ' ')} {dtype.text}"
                yield _together(words, (dtype,), dtype, ir.SubgroupReduce(op, A))


def _together(words: str, operands: tuple[ScalarType, ...], result: ScalarType, value: ir.Expr) -> Operation:
    return Operation("subgroup", words, f"subgroup {words}", operands, result, value, separate=False)


def _text(op: BinaryOp | UnaryOp | AtomicOp | SubgroupOp) -> str:
    return op.name.lower()
