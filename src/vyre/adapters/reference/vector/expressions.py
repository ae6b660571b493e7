"""Expressions as closures over whole contexts of lanes.

A closure takes the chunk and the active lanes and returns the value in the cheapest form that is exact:

* u32: a Python int when all lanes agree, ``Affine`` when the value follows from the position, else an array;
* bool: a Python bool, a ``Split`` of the (box) context into boxes, or an array;
* other types: a NumPy scalar when all lanes agree, else an array.

Arrays have the shape of the context.  Uniform control flow needs no analysis: it is a condition that came out as a
bool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from vyre.adapters.reference import lanes
from vyre.adapters.reference.vector.affine import LIMIT, Affine, Extent, Split, compare_with_zero
from vyre.adapters.reference.vector.chunk import Chunk
from vyre.adapters.reference.vector.lanes_context import Box, Context, restrict
from vyre.adapters.reference.vector.storage import COMMUTATIVE
from vyre.adapters.reference.vector.subgroups import subgroup_add, subgroup_ballot, subgroup_shuffle
from vyre.domain.ir.expr import (
    Atomic,
    Binary,
    Bitcast,
    BufferLength,
    Cast,
    Expr,
    Fma,
    IdKind,
    LaunchId,
    Literal,
    Load,
    Select,
    SpecConst,
    SubgroupAdd,
    SubgroupBallot,
    SubgroupLane,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
    Var,
)
from vyre.domain.ir.operators import BinaryOp, UnaryOp, binary_result, unary_result
from vyre.domain.ir.types import ScalarType

Value: TypeAlias = Any
Evaluate: TypeAlias = Callable[[Chunk, Context], Value]
U32, BOOL = ScalarType.U32, ScalarType.BOOL
MASK: Final = LIMIT - 1
LANE_DTYPE: Final = lanes.types.LANE_DTYPE

_COMPARISONS: Final = frozenset({BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE})
_INT_RULES: Final[dict[BinaryOp, Callable[[int, int], Any]]] = {
    BinaryOp.ADD: lambda a, b: (a + b) & MASK,
    BinaryOp.SUB: lambda a, b: (a - b) & MASK,
    BinaryOp.MUL: lambda a, b: (a * b) & MASK,
    BinaryOp.BIT_AND: lambda a, b: a & b,
    BinaryOp.BIT_OR: lambda a, b: a | b,
    BinaryOp.BIT_XOR: lambda a, b: a ^ b,
    BinaryOp.SHL: lambda a, b: (a << (b & 31)) & MASK,
    BinaryOp.SHR: lambda a, b: a >> (b & 31),
    BinaryOp.EQ: lambda a, b: a == b,
    BinaryOp.NE: lambda a, b: a != b,
    BinaryOp.LT: lambda a, b: a < b,
    BinaryOp.LE: lambda a, b: a <= b,
    BinaryOp.GT: lambda a, b: a > b,
    BinaryOp.GE: lambda a, b: a >= b,
}


def dense(value: Value, ctx: Context, dtype: ScalarType) -> Any:
    """The value as an array of the context or a NumPy scalar, which is what lane rules take."""
    kind = type(value)
    if kind is np.ndarray:
        return value
    if kind is Affine:
        return ctx.materialise(value)
    if kind is Split:
        return mask_of(value, ctx)
    return LANE_DTYPE[dtype].type(value) if kind is int or kind is bool else value


def full(value: Value, ctx: Context, dtype: ScalarType) -> Any:
    """The value as an array of the context."""
    found = dense(value, ctx, dtype)
    return found if isinstance(found, np.ndarray) else np.full(ctx.shape, found)


def mask_of(split: Split, ctx: Context) -> Any:
    assert isinstance(ctx, Box)
    mask = np.zeros(ctx.shape, np.bool_)
    lo = ctx.extent.lo
    for box in split.true:
        mask[tuple(slice(a - o, b - o) for a, b, o in zip(box.lo, box.hi, lo, strict=True))] = True
    return mask


def simplest(result: Any) -> Value:
    """What a lane rule returned, in canonical form."""
    if isinstance(result, np.ndarray):
        if result.ndim:
            return result
        result = result[()]
    if isinstance(result, np.uint32):
        return int(result)
    return bool(result) if isinstance(result, np.bool_) else result


class ExpressionCompiler:
    """Compiles expressions; ``types`` and ``slots`` describe the locals visible now."""

    def __init__(
        self, elements: Mapping[str, ScalarType], written: frozenset[str], spec: Mapping[str, Literal]
    ) -> None:
        self.elements = elements
        self.written = written
        self.spec = spec
        self.types: dict[str, ScalarType] = {}
        self.slots: dict[str, int] = {}

    def compile(self, expr: Expr) -> tuple[Evaluate, ScalarType]:
        match expr:
            case Literal(dtype, bits):
                return _constant(dtype, bits)
            case SpecConst(name, default):
                chosen = self.spec.get(name, default)
                return _constant(chosen.dtype, chosen.bits)
            case Var(name):
                return _local(self.slots[name]), self.types[name]
            case Load(buffer, index):
                return _load(buffer, self.compile(index)[0]), self.elements[buffer].widened
            case BufferLength(buffer):
                return (lambda chunk, ctx: chunk.buffers[buffer].count), U32
            case LaunchId(kind, axis):
                return _launch_id(kind, axis), U32
            case SubgroupLane():
                return _subgroup_lane, U32
            case SubgroupSize():
                return (lambda chunk, ctx: 32), U32
            case Binary(op, left, right):
                return self._binary(op, left, right)
            case Unary(op, operand):
                return self._unary(op, operand)
            case Select(condition, on_true, on_false):
                return self._select(condition, on_true, on_false)
            case Cast(target, operand):
                return self._cast(target, operand)
            case Bitcast(target, operand):
                inner, source = self.compile(operand)
                return _apply_one(lanes.bitcast(source, target), inner, source), target
            case Fma(a, b, c):
                return self._fma(a, b, c)
            case Atomic():
                return self._atomic(expr)
            case SubgroupAdd(value):
                inner, dtype = self.compile(value)
                return (lambda chunk, ctx: subgroup_add(full(inner(chunk, ctx), ctx, dtype), ctx)), dtype
            case SubgroupBallot(condition):
                inner = self.compile(condition)[0]
                return (lambda chunk, ctx: subgroup_ballot(full(inner(chunk, ctx), ctx, BOOL), ctx)), U32
            case SubgroupShuffle(value, lane):
                return self._shuffle(value, lane)

    def held(self, expr: Expr) -> tuple[Evaluate, ScalarType]:
        """Like ``compile`` for a value that outlives its statement: never a view of memory that may be written."""
        evaluate, dtype = self.compile(expr)
        if not self._may_view_written(expr):
            return evaluate, dtype

        def hold(chunk: Chunk, ctx: Context) -> Value:
            value = evaluate(chunk, ctx)
            return np.array(value) if isinstance(value, np.ndarray) and value.base is not None else value

        return hold, dtype

    def _may_view_written(self, expr: Expr) -> bool:
        while isinstance(expr, Cast):
            expr = expr.operand
        return isinstance(expr, Load) and expr.buffer in self.written

    def _binary(self, op: BinaryOp, left: Expr, right: Expr) -> tuple[Evaluate, ScalarType]:
        (a, dtype), (b, other) = self.compile(left), self.compile(right)
        if _has_atomic(right):
            a = self.held(left)[0]
        result = binary_result(op, dtype, other)
        assert result is not None
        rule = lanes.binary(op, dtype)
        if dtype is U32 and other is U32 and op in _INT_RULES:
            return _u32_binary(op, rule, a, b), result
        if dtype is BOOL:
            return _bool_binary(op, rule, a, b), result

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            x, y = a(chunk, ctx), b(chunk, ctx)
            return simplest(rule(dense(x, ctx, dtype), dense(y, ctx, other)))

        return evaluate, result

    def _unary(self, op: UnaryOp, operand: Expr) -> tuple[Evaluate, ScalarType]:
        inner, dtype = self.compile(operand)
        result = unary_result(op, dtype)
        assert result is not None
        general = _apply_one(lanes.unary(op, dtype), inner, dtype)
        if op is not UnaryOp.LOGICAL_NOT:
            return general, result

        def negate(chunk: Chunk, ctx: Context) -> Value:
            value = inner(chunk, ctx)
            if isinstance(value, bool):
                return not value
            return Split(value.false, value.true) if isinstance(value, Split) else ~value

        return negate, result

    def _select(self, condition: Expr, on_true: Expr, on_false: Expr) -> tuple[Evaluate, ScalarType]:
        choose = self.compile(condition)[0]
        held = _has_atomic(on_false) or _has_atomic(on_true)
        a, dtype = self.held(on_true) if held else self.compile(on_true)
        b = (self.held(on_false) if held else self.compile(on_false))[0]

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            c, x, y = choose(chunk, ctx), a(chunk, ctx), b(chunk, ctx)
            if isinstance(c, bool):
                return x if c else y
            return np.where(dense(c, ctx, BOOL), dense(x, ctx, dtype), dense(y, ctx, dtype))

        return evaluate, dtype

    def _cast(self, target: ScalarType, operand: Expr) -> tuple[Evaluate, ScalarType]:
        inner, source = self.compile(operand)
        if source is target:
            return inner, target
        return _apply_one(lanes.cast(source, target), inner, source), target

    def _fma(self, a: Expr, b: Expr, c: Expr) -> tuple[Evaluate, ScalarType]:
        parts = [self.held(e)[0] if _has_atomic(c) or _has_atomic(b) else self.compile(e)[0] for e in (a, b, c)]
        dtype = self.compile(a)[1]
        rule = lanes.fma(dtype)

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            x, y, z = (dense(part(chunk, ctx), ctx, dtype) for part in parts)
            return simplest(rule(x, y, z))

        return evaluate, dtype

    def _shuffle(self, value: Expr, lane: Expr) -> tuple[Evaluate, ScalarType]:
        (inner, dtype), source = self.compile(value), self.compile(lane)[0]

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            moved = full(inner(chunk, ctx), ctx, dtype)
            return subgroup_shuffle(moved, full(source(chunk, ctx), ctx, U32), ctx)

        return evaluate, dtype

    def _atomic(self, node: Atomic) -> tuple[Evaluate, ScalarType]:
        name, op, dtype = node.buffer, node.op, self.elements[node.buffer]
        index = self.held(node.index)[0]
        expected = self.held(node.expected)[0] if node.expected is not None else None
        value = self.held(node.value)[0]

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            at = index(chunk, ctx)
            wanted = 0 if expected is None else dense(expected(chunk, ctx), ctx, dtype)
            operand = dense(value(chunk, ctx), ctx, dtype)
            return chunk.buffers[name].exchange(ctx, op, at, operand, wanted)

        return evaluate, dtype

    def unused_atomic(self, node: Atomic) -> Callable[[Chunk, Context], None] | None:
        """The atomic for its effect alone, if it commutes."""
        name, op, dtype = node.buffer, node.op, self.elements[node.buffer]
        if op not in COMMUTATIVE:
            return None
        index, value = self.held(node.index)[0], self.held(node.value)[0]

        def execute(chunk: Chunk, ctx: Context) -> None:
            at = index(chunk, ctx)
            chunk.buffers[name].update(ctx, op, at, dense(value(chunk, ctx), ctx, dtype))

        return execute


def _has_atomic(expr: Expr) -> bool:
    from vyre.domain.ir.expr import walk

    return any(isinstance(e, Atomic) for e in walk(expr))


def _constant(dtype: ScalarType, bits: int) -> tuple[Evaluate, ScalarType]:
    value: Value
    if dtype is U32:
        value = bits
    elif dtype is BOOL:
        value = bits != 0
    else:
        raw = bits.to_bytes(dtype.size, "little")
        value = np.frombuffer(raw, LANE_DTYPE[dtype])[0]
    return (lambda chunk, ctx: value), dtype


def _local(slot: int) -> Evaluate:
    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        local = chunk.locals[slot]
        assert local is not None
        value = local.value
        if local.home is ctx or type(value) is not np.ndarray:
            if type(value) is not Split:
                return value
            value = mask_of(value, local.home)
        return restrict(value, local.home, ctx)

    return evaluate


def _load(name: str, index: Evaluate) -> Evaluate:
    return lambda chunk, ctx: chunk.buffers[name].load(ctx, index(chunk, ctx))


def _launch_id(kind: IdKind, axis: int) -> Evaluate:
    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        if kind is IdKind.NUM_GROUPS:
            return chunk.launch.grid[axis]
        size = chunk.launch.workgroup[axis]
        group = chunk.group[axis]
        local = 1 if kind is not IdKind.GROUP and size > 1 else 0
        base = {IdKind.GLOBAL: group * size, IdKind.GROUP: group}.get(kind, 0)
        along_w = 0
        if axis == 0 and chunk.grid.dims[0] > 1:
            along_w = {IdKind.GLOBAL: size, IdKind.GROUP: 1}.get(kind, 0)
        if not (local or along_w):
            return base
        c = (along_w, local if axis == 2 else 0, local if axis == 1 else 0, local if axis == 0 else 0)
        return Affine(base, c)

    return evaluate


def _subgroup_lane(chunk: Chunk, ctx: Context) -> Value:
    in_group = ctx.numbers % (chunk.grid.lanes // chunk.grid.dims[0])
    return (in_group % 32).astype(np.uint32).reshape(ctx.shape)


def _apply_one(rule: Any, inner: Evaluate, dtype: ScalarType) -> Evaluate:
    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        return simplest(rule(dense(inner(chunk, ctx), ctx, dtype)))

    return evaluate


def _u32_binary(op: BinaryOp, rule: Any, a: Evaluate, b: Evaluate) -> Evaluate:
    on_ints = _INT_RULES[op]
    comparison = op in _COMPARISONS

    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x, y = a(chunk, ctx), b(chunk, ctx)
        kx, ky = type(x), type(y)
        if kx is int and ky is int:
            return on_ints(x, y)
        if (kx is Affine or ky is Affine) and kx is not np.ndarray and ky is not np.ndarray:
            found = _compare_affine(op, x, y, ctx) if comparison else _affine(op, x, y, ctx)
            if found is not None:
                return found
        return rule(dense(x, ctx, U32), dense(y, ctx, U32))

    return evaluate


def _affine(op: BinaryOp, x: Affine | int, y: Affine | int, ctx: Context) -> Affine | None:
    """The operation on affine values, if it does not wrap."""
    found: Affine
    match op:
        case BinaryOp.ADD:
            found = x.plus(y) if isinstance(x, Affine) else y.plus(x)  # type: ignore[union-attr]
        case BinaryOp.SUB:
            found = x.plus(y, -1) if isinstance(x, Affine) else y.times(-1).plus(x)  # type: ignore[union-attr]
        case BinaryOp.MUL:
            if isinstance(x, Affine) and isinstance(y, Affine):
                return None
            found = x.times(y) if isinstance(x, Affine) else y.times(x)  # type: ignore[arg-type, union-attr]
        case BinaryOp.SHL if isinstance(y, int) and isinstance(x, Affine):
            found = x.times(1 << (y & 31))
        case _:
            return None
    least, greatest = ctx.bounds(found)
    return found if least >= 0 and greatest < LIMIT else None


def _compare_affine(op: BinaryOp, x: Affine | int, y: Affine | int, ctx: Context) -> Value | None:
    if not isinstance(ctx, Box):
        return None
    difference = x.plus(y, -1) if isinstance(x, Affine) else y.times(-1).plus(x)  # type: ignore[union-attr]
    return compare_with_zero(op, difference, ctx.extent, ctx.grid.dims)


def _bool_binary(op: BinaryOp, rule: Any, a: Evaluate, b: Evaluate) -> Evaluate:
    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        x, y = a(chunk, ctx), b(chunk, ctx)
        if isinstance(x, bool) and isinstance(y, bool):
            return bool(rule(np.bool_(x), np.bool_(y)))
        if op is BinaryOp.AND:
            if isinstance(x, bool):
                return y if x else False
            if isinstance(y, bool):
                return x if y else False
            if isinstance(x, Split) and isinstance(y, Split):
                return _both(x, y)
        elif op is BinaryOp.OR:
            if isinstance(x, bool):
                return True if x else y
            if isinstance(y, bool):
                return True if y else x
            if isinstance(x, Split) and isinstance(y, Split):
                neither = _both(Split(x.false, x.true), Split(y.false, y.true))
                return not neither if isinstance(neither, bool) else Split(neither.false, neither.true)
        return rule(dense(x, ctx, BOOL), dense(y, ctx, BOOL))

    return evaluate


def _both(x: Split, y: Split) -> Split | bool:
    true = _meet(x.true, y.true)
    if not true:
        return False
    return Split(true, x.false + _meet(x.true, y.false))


def _meet(a: tuple[Extent, ...], b: tuple[Extent, ...]) -> tuple[Extent, ...]:
    return tuple(found for p in a for q in b if (found := p.intersect(q)) is not None)
