"""``ValueTable``: numbers, types and ranges for the values of a program's expressions.

Two expressions whose values are the same *stable* ``Value`` object give the same value wherever both can be evaluated
by one lane in the same round of the loops around them.  Values that depend on memory that is written, on locals that
are assigned, on atomics or on the active lanes are not stable: each expression object has one of its own, of which only
the type and the range are of use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.bits import value_bits
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.operators import BINARY, COMMUTING, UNARY, BinaryOp, Element, Result, UnaryOp
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import operands_first
from vyre.domain.numerics.ranges import LIMITS, Range, binary_range, equal, less, unary_range

_U32: Final = ScalarType.U32
_BOOL: Final = ScalarType.BOOL
_GRID_LIMIT: Final = 1 << 32


class Value:
    """A value: its type, its range, and the operation on other values that gives it.

    ``op`` is an operator or the class of an expression; a literal has the class ``Literal`` and one part, its bits.
    Nothing is known of the range of a float.
    """

    __slots__ = ("dtype", "high", "low", "number", "op", "parts", "stable")

    def __init__(
        self, number: int, dtype: ScalarType, limits: Range, op: object, parts: tuple[Any, ...], stable: bool
    ) -> None:
        self.number: int = number
        self.dtype: ScalarType = dtype
        self.low: int = limits[0]
        self.high: int = limits[1]
        self.op: object = op
        self.parts: tuple[Any, ...] = parts
        self.stable: bool = stable

    @property
    def limits(self) -> Range:
        """Returns the least and the greatest value."""
        return self.low, self.high

    @property
    def is_literal(self) -> bool:
        """Returns whether the value is a constant."""
        return self.op is ir.Literal

    @property
    def is_integer(self) -> bool:
        """Returns whether the type is an integer type."""
        return self.dtype.is_integer


class ValueTable:
    """The values of the expressions of a valid program whose locals have names of their own."""

    def __init__(self, program: Program) -> None:
        self._buffers = program.buffers_by_name
        self._size = program.workgroup_size
        self._interned: dict[tuple[Any, ...], Value] = {}
        self._of: dict[int, Value] = {}
        self._count = 0
        self.locals: dict[str, Value] = {}
        """The values of all locals that are in scope at the statements walked so far."""
        self.assigned: frozenset[str]
        """The locals that are assigned somewhere."""
        self.false: Value = self.literal(_BOOL, 0)
        self.true: Value = self.literal(_BOOL, 1)
        self._walk(program)

    def of(self, expr: ir.Expr) -> Value:
        """Returns the value of an expression of the program."""
        value = self._of.get(id(expr))
        return self._computed(expr) if value is None else value

    # ---- the walk
    def _walk(self, program: Program) -> None:
        statements = list(ir.walk_statements(program.body))
        self.assigned = frozenset([stmt.name for stmt in statements if type(stmt) is ir.Assign])
        for stmt in statements:
            kind = type(stmt)
            if kind is ir.Let:
                self._declare(stmt)  # type: ignore[arg-type]
            elif kind is ir.Loop:
                self._declare_counter(stmt)  # type: ignore[arg-type]
            elif kind is ir.GridLoop:
                self._declare_rounds(stmt)  # type: ignore[arg-type]

    def _declare(self, stmt: ir.Let) -> None:
        value = self.of(stmt.value)
        if stmt.name in self.assigned:
            self.locals[stmt.name] = self._fresh(value.dtype, LIMITS[value.dtype], False)
        elif value.stable:
            self.locals[stmt.name] = value
        else:
            self.locals[stmt.name] = self._fresh(value.dtype, value.limits, True)

    def _declare_counter(self, stmt: ir.Loop) -> None:
        start, stop, step = self.of(stmt.start), self.of(stmt.stop), self.of(stmt.step)
        low, high = LIMITS[start.dtype]
        if step.low >= 0:
            low, high = start.low, max(stop.high - 1, start.low)
        elif step.high <= 0:
            low, high = min(stop.low + 1, start.high), start.high
        self.locals[stmt.var] = self._fresh(start.dtype, (low, high), True)

    def _declare_rounds(self, stmt: ir.GridLoop) -> None:
        self.locals[stmt.name] = self._fresh(_U32, (0, self.of(stmt.limit).high), True)

    # ---- making values
    def _fresh(self, dtype: ScalarType, limits: Range, stable: bool) -> Value:
        self._count += 1
        return Value(self._count, dtype, limits, None, (), stable)

    def literal(self, dtype: ScalarType, bits: int) -> Value:
        """Returns the value of a literal."""
        key = (ir.Literal, dtype, bits)
        literal = self._interned.get(key)
        if literal is None:
            self._count += 1
            value = 0
            if not dtype.is_float:
                value = bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits
            literal = self._interned[key] = Value(self._count, dtype, (value, value), ir.Literal, (bits,), True)
        return literal

    def _made(self, op: object, dtype: ScalarType, limits: Range, parts: tuple[Value, ...], *extra: object) -> Value:
        """Returns the value of an operation without effects on other values."""
        low, high = limits
        if low == high and not dtype.is_float:
            return self.literal(dtype, value_bits(dtype, low))
        for part in parts:
            if not part.stable:
                self._count += 1
                return Value(self._count, dtype, limits, op, parts, False)
        key = (op, dtype, *[part.number for part in parts], *extra)
        value = self._interned.get(key)
        if value is None:
            self._count += 1
            value = self._interned[key] = Value(self._count, dtype, limits, op, parts, True)
        return value

    # ---- expressions
    def _computed(self, root: ir.Expr) -> Value:
        of = self._of
        for expr in operands_first(root, of):
            of[id(expr)] = _RULES[type(expr)](self, expr, *[of[id(part)] for part in ir.children(expr)])
        return of[id(root)]

    def negated(self, value: Value) -> Value:
        """Returns the logical negation of a bool."""
        if value.op is UnaryOp.LOGICAL_NOT:
            return value.parts[0]  # type: ignore[no-any-return]
        if value.is_literal:
            return self.false if value.low else self.true
        return self._made(UnaryOp.LOGICAL_NOT, _BOOL, (0, 1), (value,))

    def _truth(self, decided: bool) -> Value:
        return self.true if decided else self.false

    def less_than(self, left: Value, right: Value) -> Value:
        """Returns the value of ``left < right``."""
        if not left.dtype.is_float:
            decided = False if left is right and left.stable else less(left.limits, right.limits)
            if decided is not None:
                return self._truth(decided)
        return self._made(BinaryOp.LT, _BOOL, (0, 1), (left, right))

    def _at_most(self, left: Value, right: Value) -> Value:
        if left.dtype.is_float:
            return self._made(BinaryOp.LE, _BOOL, (0, 1), (left, right))
        return self.negated(self.less_than(right, left))

    def equal_to(self, left: Value, right: Value) -> Value:
        """Returns the value of ``left == right``."""
        if not left.dtype.is_float:
            decided = True if left is right and left.stable else equal(left.limits, right.limits)
            if decided is not None:
                return self._truth(decided)
            if left.dtype is _BOOL and (left.is_literal or right.is_literal):
                literal, other = (left, right) if left.is_literal else (right, left)
                return other if literal.low else self.negated(other)
        if left.number > right.number:
            left, right = right, left
        return self._made(BinaryOp.EQ, _BOOL, (0, 1), (left, right))

    def _binary(self, expr: ir.Binary, left: Value, right: Value) -> Value:
        op = expr.op
        compare = _COMPARISONS.get(op)
        if compare is not None:
            return compare(self, left, right)
        dtype = left.dtype
        if dtype is _BOOL:
            return self._connective(op, left, right)
        if dtype.is_float:
            return self._made(op, dtype, (0, 0), (left, right))
        if _is_left(op, left, right):
            return left
        if _is_left(op, right, left) and op in COMMUTING:
            return right
        return self._made(op, dtype, binary_range(op, dtype, left.limits, right.limits), (left, right))

    def _connective(self, op: BinaryOp, left: Value, right: Value) -> Value:
        absorbing = self._truth(BINARY[op].absorbing is Element.ONE)
        if left is absorbing or right is absorbing:
            return absorbing
        if left.is_literal or (left is right and left.stable):
            return right
        return left if right.is_literal else self._made(op, _BOOL, (0, 1), (left, right))

    def _unary(self, expr: ir.Unary, operand: Value) -> Value:
        op, dtype = expr.op, operand.dtype
        if op is UnaryOp.LOGICAL_NOT:
            return self.negated(operand)
        if UNARY[op].result is Result.BOOL:
            return self._made(op, _BOOL, (0, 1), (operand,))
        return self._made(op, dtype, (0, 0) if dtype.is_float else unary_range(op, dtype, operand.limits), (operand,))

    def _select(self, expr: ir.Select, condition: Value, on_true: Value, on_false: Value) -> Value:
        if condition.is_literal:
            return on_true if condition.low else on_false
        if on_true is on_false:
            return on_true
        limits = min(on_true.low, on_false.low), max(on_true.high, on_false.high)
        return self._made(ir.Select, on_true.dtype, limits, (condition, on_true, on_false))

    def _cast(self, expr: ir.Cast, operand: Value) -> Value:
        return self.converted(expr.dtype, operand)

    def converted(self, dtype: ScalarType, operand: Value) -> Value:
        """Returns the value cast to a type; casts that another one undoes or repeats are left out."""
        if operand.dtype is dtype:
            return operand
        if dtype is _BOOL:
            return self.negated(self.equal_to(operand, self.literal(operand.dtype, 0)))
        limits = LIMITS[dtype]
        if dtype.is_integer and not operand.dtype.is_float:
            if operand.op is ir.Cast and operand.is_integer:
                inner: Value = operand.parts[0]
                if not inner.dtype.is_float and (operand.dtype.bits >= dtype.bits or operand.limits == inner.limits):
                    return self.converted(dtype, inner)
            if limits[0] <= operand.low and operand.high <= limits[1]:
                limits = operand.limits
        return self._made(ir.Cast, dtype, limits, (operand,))

    def _bitcast(self, expr: ir.Bitcast, operand: Value) -> Value:
        if expr.dtype.is_integer and operand.is_integer:
            return self.converted(expr.dtype, operand)
        return self._made(ir.Bitcast, expr.dtype, LIMITS[expr.dtype], (operand,))

    def _narrow(self, expr: ir.Narrow, operand: Value) -> Value:
        low, high = LIMITS[expr.dtype]
        if operand.is_integer and low <= operand.low and operand.high <= high:
            return operand
        return self._made(ir.Narrow, operand.dtype, (low, high), (operand,), expr.dtype)

    def _pack(self, expr: ir.Pack, operand: Value) -> Value:
        return self._made(ir.Pack, _U32, (0, (1 << expr.dtype.bits) - 1), (operand,), expr.dtype)

    def _unpack(self, expr: ir.Unpack, operand: Value) -> Value:
        return self._made(ir.Unpack, expr.dtype.widened, LIMITS[expr.dtype], (operand,), expr.dtype)

    def _wrap_cast(self, expr: ir.WrapCast, operand: Value) -> Value:
        return self._made(ir.WrapCast, expr.dtype, LIMITS[expr.dtype], (operand,))

    def _fma(self, expr: ir.Fma, a: Value, b: Value, c: Value) -> Value:
        return self._made(ir.Fma, a.dtype, (0, 0), (a, b, c))

    def _native(self, expr: ir.Native, *parts: Value) -> Value:
        return self._made(ir.Native, expr.dtype, LIMITS[expr.dtype], parts, expr.language, expr.text)

    def _of_literal(self, expr: ir.Literal) -> Value:
        return self.literal(expr.dtype, expr.bits)

    def _of_local(self, expr: ir.Var) -> Value:
        return self.locals[expr.name]

    def _load(self, expr: ir.Load, index: Value) -> Value:
        buffer = self._buffers[expr.buffer]
        element = element_of(buffer)
        if not buffer.is_writable:
            return self._made(ir.Load, element.widened, LIMITS[element], (index,), expr.buffer)
        return self._fresh(element.widened, LIMITS[element], False)

    def _length(self, expr: ir.BufferLength) -> Value:
        count = self._buffers[expr.buffer].count
        return self._made(ir.BufferLength, _U32, (count, count) if count else LIMITS[_U32], (), expr.buffer)

    def _id(self, expr: ir.LaunchId) -> Value:
        size = max(self._size[expr.axis], 1)
        low, high = 0, _GRID_LIMIT - 1
        if expr.kind is ir.IdKind.LOCAL:
            high = size - 1
        elif expr.kind is ir.IdKind.GROUP:
            high = _GRID_LIMIT // size - 1
        elif expr.kind is ir.IdKind.NUM_GROUPS:
            low, high = 1, min(_GRID_LIMIT // size, high)
        return self._made(ir.LaunchId, _U32, (low, high), (), expr.kind, expr.axis)

    def local_id(self, axis: int) -> Value:
        """Returns the local id along an axis."""
        return self._id(ir.LaunchId(ir.IdKind.LOCAL, axis))

    def _lane(self, expr: ir.SubgroupLane) -> Value:
        return self._made(ir.SubgroupLane, _U32, (0, 31), ())

    def _lanes(self, expr: ir.SubgroupSize) -> Value:
        return self.literal(_U32, 32)

    def _spec(self, expr: ir.SpecConst) -> Value:
        dtype = expr.default.dtype
        return self._made(ir.SpecConst, dtype, LIMITS[dtype], (), expr.name)

    def _atomic(self, expr: ir.Atomic, *parts: Value) -> Value:
        return self._fresh(parts[-1].dtype, LIMITS[parts[-1].dtype], False)

    def _exchanged(self, expr: ir.Expr, *parts: Value) -> Value:
        dtype = ir.result_type(expr, *[part.dtype for part in parts])
        return self._fresh(dtype, LIMITS[dtype], False)


def _is_left(op: BinaryOp, left: Value, right: Value) -> bool:
    """Returns whether the ranges of integers show that an operation gives its left operand."""
    match op:
        case BinaryOp.MOD:
            return left.low >= 0 and left.high < right.low
        case BinaryOp.MIN:
            return left.high <= right.low
        case BinaryOp.MAX:
            return left.low >= right.high
        case BinaryOp.BIT_AND:
            mask = right.low
            return mask == right.high and mask & (mask + 1) == 0 and left.low >= 0 and left.high <= mask
    return False


@kept_with_program("value_table")
def value_table(program: Program) -> ValueTable:
    """Returns the values of a valid program whose locals have names of their own; cached on it.  O(nodes)."""
    return ValueTable(program)


_COMPARISONS: Final[dict[BinaryOp, Callable[[ValueTable, Value, Value], Value]]] = {
    BinaryOp.EQ: ValueTable.equal_to,
    BinaryOp.NE: lambda table, a, b: table.negated(table.equal_to(a, b)),
    BinaryOp.LT: ValueTable.less_than,
    BinaryOp.GT: lambda table, a, b: table.less_than(b, a),
    BinaryOp.LE: ValueTable._at_most,
    BinaryOp.GE: lambda table, a, b: table._at_most(b, a),
}
assert all((row.result is Result.BOOL) == (op in _COMPARISONS) for op, row in BINARY.items())

_RULES: Final[dict[type, Callable[..., Value]]] = {
    ir.Literal: ValueTable._of_literal,
    ir.Var: ValueTable._of_local,
    ir.Load: ValueTable._load,
    ir.BufferLength: ValueTable._length,
    ir.LaunchId: ValueTable._id,
    ir.SubgroupLane: ValueTable._lane,
    ir.SubgroupSize: ValueTable._lanes,
    ir.Binary: ValueTable._binary,
    ir.Unary: ValueTable._unary,
    ir.Select: ValueTable._select,
    ir.Cast: ValueTable._cast,
    ir.Bitcast: ValueTable._bitcast,
    ir.Narrow: ValueTable._narrow,
    ir.Pack: ValueTable._pack,
    ir.Unpack: ValueTable._unpack,
    ir.WrapCast: ValueTable._wrap_cast,
    ir.Fma: ValueTable._fma,
    ir.Native: ValueTable._native,
    ir.Atomic: ValueTable._atomic,
    **dict.fromkeys(ir.EXCHANGING, ValueTable._exchanged),
    ir.SpecConst: ValueTable._spec,
}
