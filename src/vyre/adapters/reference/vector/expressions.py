"""Expressions as closures that take the chunk and the active lanes; ``values`` describes their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from vyre.adapters import lanes
from vyre.adapters.lanes.types import Dense, InPlaceRule, Lanes, LaneScalar, UnaryRule, lane_scalar
from vyre.adapters.reference.vector.affine import Affine, Split, Value
from vyre.adapters.reference.vector.chunk import Chunk, Local
from vyre.adapters.reference.vector.integers import (
    INT_RULES,
    bool_binary,
    has_affine_values,
    index_words,
    integer_binary,
    integer_cast,
    word_binary,
    word_with_constant,
)
from vyre.adapters.reference.vector.lanes_context import Context, restrict
from vyre.adapters.reference.vector.values import BOOL, U32, Compiled, Evaluate, Into, dense, full, mask_of, simplest
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import (
    COMPARISONS,
    MERGEABLE,
    SUBGROUP,
    BinaryOp,
    Span,
    SubgroupRow,
    UnaryOp,
    binary_result,
    unary_result,
)
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import operands_first
from vyre.domain.scoped_names import ScopedNames

WIDTH: Final = 32


def _spread(values: Lanes, ctx: Context, missing: LaneScalar | int = 0) -> tuple[Lanes, int]:
    """Returns values as (workgroups, subgroups, 32), ``missing`` without a lane; and the lanes of a workgroup."""
    grid = ctx.grid
    size = grid.lanes // grid.dims[0]
    padded = -(-size // WIDTH) * WIDTH
    table = np.full((grid.dims[0], padded), missing, values.dtype)
    numbers = ctx.numbers
    table[numbers // size, numbers % size] = values.reshape(-1)
    return table.reshape(grid.dims[0], padded // WIDTH, WIDTH), size


def _collect(table: Lanes, ctx: Context, size: int) -> Lanes:
    """Returns the lanes of the context from (workgroups, subgroups, 32)."""
    numbers = ctx.numbers
    flat = table.reshape(table.shape[0], -1)
    return flat[numbers // size, numbers % size].reshape(ctx.shape)


def subgroup_reduce(row: SubgroupRow, dtype: ScalarType, values: Lanes, ctx: Context) -> Lanes:
    """Returns the values of each subgroup, folded in ascending lanes; what a fold begins with changes none later."""
    fold, start = lanes.binary(row.operator, dtype), lane_scalar(dtype, row.start(dtype))
    table, size = _spread(values, ctx, start)
    total: Dense = np.full(table.shape[:2], start, values.dtype)
    results = np.empty_like(table)
    for lane in range(WIDTH):
        before, total = total, fold(total, table[:, :, lane])
        results[:, :, lane] = before if row.span is Span.EXCLUSIVE else total
    if row.span is Span.ALL:
        results[:] = results[:, :, WIDTH - 1 :]
    return _collect(results, ctx, size)


def subgroup_ballot(votes: Lanes, ctx: Context) -> Lanes:
    """Returns a u32 whose bit k is the vote of lane k."""
    table, size = _spread(votes, ctx)
    bits = np.where(table, np.uint32(1) << np.arange(WIDTH, dtype=np.uint32), np.uint32(0))
    total = np.bitwise_or.reduce(bits, axis=2)
    return _collect(np.broadcast_to(total[:, :, None], table.shape), ctx, size)


def subgroup_shuffle(values: Lanes, sources: Lanes, ctx: Context) -> Lanes:
    """Returns the value of the source lane; 0 if the subgroup has no such lane."""
    table, size = _spread(values, ctx)
    wanted, _ = _spread(sources, ctx)
    groups = np.arange(table.shape[1])[None, :, None]
    present = np.minimum(size - groups * WIDTH, WIDTH)
    exists = wanted < present
    moved = np.take_along_axis(table, np.where(exists, wanted, 0).astype(np.intp), axis=2)
    return _collect(np.where(exists, moved, np.zeros(1, values.dtype)), ctx, size)


def _constant_of(expr: ir.Expr, spec: Mapping[str, ir.Literal]) -> int | None:
    """Returns the bits of a literal or specialization constant, else None."""
    match expr:
        case ir.Literal(_, bits):
            return bits
        case ir.SpecConst(name, default):
            return spec.get(name, default).bits
        case _:
            return None


class ExpressionCompiler:
    """Compiles expressions; ``types`` and ``slots`` describe the locals visible now."""

    def __init__(
        self, elements: Mapping[str, ScalarType], written: frozenset[str], spec: Mapping[str, ir.Literal]
    ) -> None:
        self.elements = elements
        self.written = written
        self.spec = spec
        self.types: ScopedNames[ScalarType] = ScopedNames()
        self.slots: ScopedNames[int] = ScopedNames()
        self.loop: Invariants | None = None

    def compile(self, expr: ir.Expr) -> Compiled:
        """Compiles the expression; inside a loop, values that are invariant are kept from the first round."""
        loop = self.loop
        if loop is None or not loop.keeps(expr):
            return self._compile(expr)
        self.loop = None  # the whole value is kept, so its parts need not be
        evaluate, dtype, _, _ = self._compile(expr)
        self.loop = loop
        return Compiled(_kept(evaluate, loop.new_slot()), dtype)

    def _compile(self, expr: ir.Expr) -> Compiled:
        match expr:
            case ir.Literal(dtype, bits):
                return _constant(dtype, bits)
            case ir.SpecConst(name, default):
                chosen = self.spec.get(name, default)
                return _constant(chosen.dtype, chosen.bits)
            case ir.Var(name):
                return Compiled(_local(self.slots[name]), self.types[name])
            case ir.Load(buffer, index):
                words, dtype = index_words(self.compile(index)), self.elements[buffer].widened
                return Compiled(lambda chunk, ctx: chunk.buffers[buffer].load(ctx, words(chunk, ctx)), dtype)
            case ir.BufferLength(buffer):
                return Compiled(lambda chunk, ctx: chunk.buffers[buffer].count, U32)
            case ir.LaunchId(kind, axis):
                return Compiled(_launch_id(kind, axis), U32)
            case ir.SubgroupLane():
                return Compiled(_subgroup_lane, U32)
            case ir.SubgroupSize():
                return Compiled(lambda chunk, ctx: 32, U32)
            case ir.Binary(op, left, right):
                return self._binary(op, left, right)
            case ir.Unary(op, operand):
                return self._unary(op, operand)
            case ir.Select(condition, on_true, on_false):
                return self._select(condition, on_true, on_false)
            case ir.Cast(target, operand):
                return self._cast(target, operand)
            case ir.Bitcast() | ir.Narrow() | ir.Pack() | ir.Unpack() | ir.WrapCast():
                inner, source, _, _ = self.compile(expr.operand)
                rule = _CONVERSIONS[type(expr)](source, expr.dtype)
                return Compiled(_apply_one(rule, inner, source), ir.result_type(expr, source))
            case ir.Fma(a, b, c):
                return self._fma(a, b, c)
            case ir.Atomic():
                return self._atomic(expr)
            case ir.SubgroupReduce(subgroup, value):
                inner, dtype, _, _ = self.compile(value)
                row = SUBGROUP[subgroup]
                return Compiled(
                    lambda chunk, ctx: subgroup_reduce(row, dtype, full(inner(chunk, ctx), ctx, dtype), ctx), dtype
                )
            case ir.SubgroupBallot(condition):
                inner = self.compile(condition).evaluate
                return Compiled(lambda chunk, ctx: subgroup_ballot(full(inner(chunk, ctx), ctx, BOOL), ctx), U32)
            case ir.SubgroupShuffle(value, lane):
                return self._shuffle(value, lane)
            case ir.Call() | ir.Native():
                raise AssertionError("calls are expanded before, and native text is none of the reference's")

    def held(self, expr: ir.Expr) -> Compiled:
        """As ``compile``, for a value that outlives its statement: never a view of memory that may be written."""
        compiled = self.compile(expr)
        if not self._may_view_written(expr):
            return compiled
        evaluate = compiled.evaluate

        def hold(chunk: Chunk, ctx: Context) -> Value:
            value = evaluate(chunk, ctx)
            return np.array(value) if isinstance(value, np.ndarray) and value.base is not None else value

        return Compiled(hold, compiled.dtype)

    def _may_view_written(self, expr: ir.Expr) -> bool:
        """Returns whether the value may be a view of memory that the program writes; operators that may return their
        operand unchanged are looked through.
        """
        stack = [expr]
        while stack:
            node = stack.pop()
            match node:
                case ir.Load(buffer, _):
                    if buffer in self.written:
                        return True
                case ir.Cast() | ir.Bitcast() | ir.Unary() | ir.Select():
                    stack.extend(ir.children(node))
                case _:
                    pass
        return False

    def reads(self, expr: ir.Expr, buffer: str) -> bool:
        """Returns whether evaluating the expression reads the content of a buffer."""
        return any(isinstance(e, ir.Load | ir.Atomic) and e.buffer == buffer for e in ir.walk(expr))

    def _binary(self, op: BinaryOp, left: ir.Expr, right: ir.Expr) -> Compiled:
        first = self.held(left) if _has_atomic(right) else self.compile(left)
        second = self.compile(right)
        a, dtype, reusable, _ = first
        b, other, _, _ = second
        result = binary_result(op, dtype, other)
        assert result is not None
        rule = lanes.binary(op, dtype)
        if dtype is BOOL:
            return Compiled(bool_binary(op, rule, first.truths, second.truths), result)
        in_place: InPlaceRule | None = rule if isinstance(rule, np.ufunc) else None
        fresh = in_place is not None
        reuse = in_place if reusable and result is dtype else None
        into = _into(in_place, first, second) if in_place is not None and result is not BOOL else None
        if dtype is U32 and other is U32 and op in INT_RULES:
            constant = _constant_of(right, self.spec)
            if constant is not None and op not in COMPARISONS:
                return Compiled(word_with_constant(op, rule, first.words, constant, reuse=reuse), result, fresh, into)
            return Compiled(word_binary(op, rule, first.words, second.words, reuse=reuse), result, fresh, into)
        if has_affine_values(dtype):
            return Compiled(integer_binary(op, dtype, rule, a, b, other, reuse=reuse), result, fresh, into)

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            x = a(chunk, ctx)
            y = dense(b(chunk, ctx), ctx, other)
            if reuse is not None and type(x) is np.ndarray and x.shape == ctx.shape:
                return reuse(x, y, out=x)
            return simplest(rule(dense(x, ctx, dtype), y))

        return Compiled(evaluate, result, fresh, into)

    def _unary(self, op: UnaryOp, operand: ir.Expr) -> Compiled:
        inner, dtype, _, _ = compiled = self.compile(operand)
        result = unary_result(op, dtype)
        assert result is not None
        if op is not UnaryOp.LOGICAL_NOT:
            return Compiled(_apply_one(lanes.unary(op, dtype), inner, dtype), result)
        truth = compiled.truths

        def negate(chunk: Chunk, ctx: Context) -> Value:
            value = truth(chunk, ctx)
            if isinstance(value, bool):
                return not value
            return Split(value.false, value.true) if isinstance(value, Split) else ~value

        return Compiled(negate, result)

    def _select(self, condition: ir.Expr, on_true: ir.Expr, on_false: ir.Expr) -> Compiled:
        choose = self.compile(condition).truths
        compile_branch = self.held if _has_atomic(on_false) or _has_atomic(on_true) else self.compile
        a, dtype, _, _ = compile_branch(on_true)
        b = compile_branch(on_false).evaluate

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            c, x, y = choose(chunk, ctx), a(chunk, ctx), b(chunk, ctx)
            if isinstance(c, bool):
                return x if c else y
            return np.where(dense(c, ctx, BOOL), dense(x, ctx, dtype), dense(y, ctx, dtype))

        return Compiled(evaluate, dtype)

    def _cast(self, target: ScalarType, operand: ir.Expr) -> Compiled:
        inner, source, _, _ = compiled = self.compile(operand)
        if source is target:
            return compiled
        rule = lanes.cast(source, target)
        if source.is_integer and target.is_integer:
            return Compiled(integer_cast(source, target, rule, inner), target)
        return Compiled(_apply_one(rule, inner, source), target)

    def _fma(self, a: ir.Expr, b: ir.Expr, c: ir.Expr) -> Compiled:
        compile_part = self.held if _has_atomic(c) or _has_atomic(b) else self.compile
        compiled = [compile_part(e) for e in (a, b, c)]
        parts = [part.evaluate for part in compiled]
        dtype = compiled[0].dtype
        rule = lanes.fma(dtype)

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            x, y, z = (dense(part(chunk, ctx), ctx, dtype) for part in parts)
            return simplest(rule(x, y, z))

        return Compiled(evaluate, dtype)

    def _shuffle(self, value: ir.Expr, lane: ir.Expr) -> Compiled:
        (inner, dtype, _, _), source = self.compile(value), self.compile(lane).evaluate

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            moved = full(inner(chunk, ctx), ctx, dtype)
            return subgroup_shuffle(moved, full(source(chunk, ctx), ctx, U32), ctx)

        return Compiled(evaluate, dtype)

    def _atomic(self, node: ir.Atomic) -> Compiled:
        name, op, dtype = node.buffer, node.op, self.elements[node.buffer]
        index = index_words(self.held(node.index))
        expected = self.held(node.expected).evaluate if node.expected is not None else None
        value = self.held(node.value).evaluate

        def evaluate(chunk: Chunk, ctx: Context) -> Value:
            indices = index(chunk, ctx)
            wanted = None if expected is None else dense(expected(chunk, ctx), ctx, dtype)
            operand = dense(value(chunk, ctx), ctx, dtype)
            return chunk.buffers[name].fetch(ctx, op, indices, operand, operand if wanted is None else wanted)

        return Compiled(evaluate, dtype)

    def unused_atomic(self, node: ir.Atomic) -> Callable[[Chunk, Context], None] | None:
        """Compiles the atomic for its effect alone, if it commutes."""
        name, op, dtype = node.buffer, node.op, self.elements[node.buffer]
        if op not in MERGEABLE:
            return None
        index, value = index_words(self.held(node.index)), self.held(node.value).evaluate

        def execute(chunk: Chunk, ctx: Context) -> None:
            indices = index(chunk, ctx)
            chunk.buffers[name].update(ctx, op, indices, dense(value(chunk, ctx), ctx, dtype))

        return execute


_CONVERSIONS: Final[dict[type, Callable[[ScalarType, ScalarType], UnaryRule]]] = {
    ir.Bitcast: lambda source, target: lanes.bitcast(source, target),
    ir.Narrow: lambda source, target: lanes.narrow(target),
    ir.Pack: lambda source, target: lanes.pack(target),
    ir.Unpack: lambda source, target: lanes.unpack(target),
    ir.WrapCast: lambda source, target: lanes.wrap_cast(source, target),
}
_WORTH_KEEPING: Final = (ir.Binary, ir.Unary, ir.Cast, ir.Fma, ir.Load, ir.Narrow, ir.Pack, ir.Unpack, ir.WrapCast)


class Invariants:
    """The loop-invariant values of a loop, and the slots that keep them.

    ``varying``: locals that the loop declares or assigns.  Kept values are dropped when the loop is entered.
    """

    def __init__(self, varying: frozenset[str], written: frozenset[str], new_slot: Callable[[], int]) -> None:
        self.varying = varying
        self.written = written
        self.slots: list[int] = []
        self._make_slot = new_slot
        self._known: dict[int, bool] = {}

    def new_slot(self) -> int:
        """Returns a new slot."""
        slot = self._make_slot()
        self.slots.append(slot)
        return slot

    def keeps(self, expr: ir.Expr) -> bool:
        """Returns whether an operation is worth keeping and has the same value in every round."""
        return isinstance(expr, _WORTH_KEEPING) and self._same(expr)

    def _same(self, root: ir.Expr) -> bool:
        known = self._known
        for node in operands_first(root, known):
            known[id(node)] = all(known[id(below)] for below in ir.children(node)) and self._stays(node)
        return known[id(root)]

    def _stays(self, node: ir.Expr) -> bool:
        match node:
            case ir.Var(name):
                return name not in self.varying
            case ir.Load(buffer, _):
                return buffer not in self.written
            case _:
                return type(node) not in ir.IMPURE


def _kept(evaluate: Evaluate, slot: int) -> Evaluate:
    """Returns the value of the first round, as long as the same lanes request it."""

    def again(chunk: Chunk, ctx: Context) -> Value:
        kept = chunk.locals[slot]
        if kept is not None and kept.home is ctx:
            return kept.value
        value = evaluate(chunk, ctx)
        chunk.locals[slot] = Local(value, ctx)
        return value

    return again


def _into(rule: InPlaceRule, left: Compiled, right: Compiled) -> Into:
    a, dtype, _, left_into = left
    b, other, _, _ = right
    worked_out_there = left_into if dtype.is_float else None

    def write(chunk: Chunk, ctx: Context, out: Lanes, unread: bool) -> None:
        if unread and worked_out_there is not None:
            worked_out_there(chunk, ctx, out, True)
            rule(out, dense(b(chunk, ctx), ctx, other), out=out)
        else:
            x = dense(a(chunk, ctx), ctx, dtype)
            rule(x, dense(b(chunk, ctx), ctx, other), out=out)

    return write


def _has_atomic(expr: ir.Expr) -> bool:
    return any(isinstance(e, ir.Atomic) for e in ir.walk(expr))


def _constant(dtype: ScalarType, bits: int) -> Compiled:
    value: Value
    if dtype is U32:
        value = bits
    elif dtype is BOOL:
        value = bits != 0
    else:
        value = lane_scalar(dtype, bits)
    return Compiled(lambda chunk, ctx: value, dtype)


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


def _launch_id(kind: ir.IdKind, axis: int) -> Evaluate:
    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        if kind is ir.IdKind.NUM_GROUPS:
            return chunk.launch.grid[axis]
        size = chunk.launch.workgroup[axis]
        group = chunk.group[axis]
        local = 1 if kind is not ir.IdKind.GROUP and size > 1 else 0
        base = {ir.IdKind.GLOBAL: group * size, ir.IdKind.GROUP: group}.get(kind, 0)
        along_w = 0
        if axis == chunk.along and chunk.grid.dims[0] > 1:
            along_w = {ir.IdKind.GLOBAL: size, ir.IdKind.GROUP: 1}.get(kind, 0)
        if not (local or along_w):
            return base
        c = (along_w, local if axis == 2 else 0, local if axis == 1 else 0, local if axis == 0 else 0)
        return Affine(base, c)

    return evaluate


def _subgroup_lane(chunk: Chunk, ctx: Context) -> Value:
    in_group = ctx.numbers % (chunk.grid.lanes // chunk.grid.dims[0])
    return (in_group % 32).astype(np.uint32).reshape(ctx.shape)


def _apply_one(rule: UnaryRule, inner: Evaluate, dtype: ScalarType) -> Evaluate:
    def evaluate(chunk: Chunk, ctx: Context) -> Value:
        return simplest(rule(dense(inner(chunk, ctx), ctx, dtype)))

    return evaluate
