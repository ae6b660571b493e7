"""The index values of a program's expressions at the current position of a traversal.

Locals are followed as versions: a name that is assigned somewhere has a new version after every assignment, and an
unknown one where paths join.  Values are computed on demand.  The cost is described in ``index_flow``.

The value of an expression of type u32 or i32 is its bit pattern, so sums, differences and products need no type; of
i32 it is the number itself only below 2**31, and operations that differ for negative numbers have unknown values
unless both operands are below it.  An expression of type u64 or i64 has a value only where its number certainly is
in 0..2**32-1, which is found by ranges without any wrap-around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from vyre.domain.analysis.index_proofs import Fact
from vyre.domain.analysis.index_values import COUNTS_BITS, U32_MAX, Atom, Value, Values
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import EQUALITIES, OPPOSITE, BinaryOp, UnaryOp
from vyre.domain.ir.program import Buffer, Dim3
from vyre.domain.ir.types import ScalarType
from vyre.domain.numerics import scalar
from vyre.domain.optimize.static_types import type_or_operand

_SUBGROUP: Final = 32
_U32: Final = ScalarType.U32
_I32: Final = ScalarType.I32
_BOOL: Final = ScalarType.BOOL
_AND: Final = BinaryOp.BIT_AND
WIDE_TYPES: Final = frozenset({ScalarType.U64, ScalarType.I64})
_INTEGERS: Final = WIDE_TYPES | {_U32, _I32}
HALF: Final = 1 << 31
"""The bit pattern of the least negative i32, and the number of patterns that are no negative number."""
_SATURATING: Final = frozenset({BinaryOp.SATURATING_ADD, BinaryOp.SATURATING_SUB, BinaryOp.SATURATING_MUL})
SIGN_MATTERS: Final = _SATURATING | {
    BinaryOp.DIV,
    BinaryOp.MOD,
    BinaryOp.SHR,
    BinaryOp.ABS_DIFF,
    BinaryOp.MIN,
    BinaryOp.MAX,
    BinaryOp.MUL_HIGH,
}
"""Operators that give u32 and i32 operands of the same bits different results."""
_SHIFTS: Final = frozenset({BinaryOp.SHL, BinaryOp.SHR})
_WIDE_OPERATORS: Final = frozenset(
    {
        BinaryOp.ADD,
        BinaryOp.MUL,
        BinaryOp.DIV,
        BinaryOp.MOD,
        BinaryOp.BIT_AND,
        BinaryOp.BIT_OR,
        BinaryOp.BIT_XOR,
        BinaryOp.ABS_DIFF,
        BinaryOp.MIN,
        BinaryOp.MAX,
    }
)
"""Operators with the same results for u64 as for u32 operands, if these are below 2**32; sums and products must be,
too."""
_DEPTH: Final = 40
"""The largest depth of operators through which a value is followed; beyond it the value is unknown."""
_EVALUATIONS: Final = 6_000
"""The largest number of operators that are evaluated for one program; later values are unknown."""
_UNIFORM: Final = frozenset({"length", "parameter", "constant"})
_CONDITIONS: Final = 64
"""The largest number of terms of a condition that are examined."""


class Version:
    """A value of a local: the expression that it was set to, and the versions of assigned names at that point.

    ``has_atomic`` tells whether the expression contains an atomic.  ``is_known`` tells whether ``value`` is final,
    which for a type of 64 bits may be None.
    """

    __slots__ = ("captured", "dtype", "expr", "has_atomic", "is_known", "value")

    def __init__(
        self,
        expr: ir.Expr | None,
        captured: Captured,
        dtype: ScalarType | None = None,
        value: Value | None = None,
        *,
        has_atomic: bool = False,
    ) -> None:
        self.expr: ir.Expr | None = expr
        self.captured: Captured = captured
        self.dtype: ScalarType | None = dtype
        self.value: Value | None = value
        self.has_atomic: bool = has_atomic
        self.is_known: bool = value is not None

    def memo(self) -> Memo:
        """Returns an empty memo for the expression, or None if it contains an atomic."""
        return None if self.has_atomic else {}


Captured: TypeAlias = dict[str, Version] | None
Memo: TypeAlias = dict[int, Value | None] | None
"""Values of the expression objects of one statement.

It is None if the statement contains an atomic: a shared atomic runs at each occurrence, and loads may give another
value after it, so that one object may have several values."""


def length_model(buffers: Mapping[str, Buffer], name: str) -> str:
    """Returns the buffer whose length a buffer takes over, directly or through others; the buffer itself if there is
    none.
    """
    passed: set[str] = set()
    while name not in passed:
        passed.add(name)
        buffer = buffers[name]
        if not buffer.count and buffer.like is not None and buffer.like in buffers:
            name = buffer.like
    return name


class Meanings:
    """Values of expressions, and facts from conditions.

    ``env`` holds the visible locals, ``memo`` the values of the current statement.
    """

    def __init__(self, buffers: Mapping[str, Buffer], size: Dim3, same_length: bool, grid: Dim3 | None = None) -> None:
        self.values: Final = Values()
        self.env: dict[str, Version] = {}
        self.memo: Memo = {}
        self._buffers = buffers
        self._size: Final = tuple(max(axis, 1) for axis in size)
        self._most_groups = grid or tuple((1 << 32) // axis for axis in self._size)
        self._same_length = same_length
        self._evaluations = _EVALUATIONS
        self._ids: dict[tuple[ir.IdKind, int], Value] = {}
        self.is_below: Callable[[Value, Value], bool] = lambda value, limit: value.high < limit.low
        """Tells whether the first value is certainly below the second one at the current position."""

    def local_ids(self) -> dict[int, Value]:
        """Returns the local ids that were evaluated, by axis."""
        return {axis: value for (kind, axis), value in self._ids.items() if kind is ir.IdKind.LOCAL}

    def ids(self) -> dict[tuple[ir.IdKind, int], Value]:
        """Returns the launch ids that were evaluated, by kind and axis."""
        return dict(self._ids)

    def uniform_atoms(self) -> frozenset[Atom]:
        """Returns the lengths, parameters and constants that were evaluated."""
        atoms = (value.atom for key, value in self.values.named_values() if key[0] in _UNIFORM)
        return frozenset(atom for atom in atoms if atom is not None)

    def value(self, expr: ir.Expr) -> Value:
        """Returns the value of an expression (u32 or i32) of the current statement."""
        return self._evaluate(expr, None, self.memo, _DEPTH)

    def number(self, expr: ir.Expr) -> Value | None:
        """Returns the value of an expression of any integer type; None if it may be beyond 32 bits or negative.

        Of an i32 it is the bit pattern.
        """
        return self._number(expr, self.dtype(expr, None), None, self.memo, _DEPTH)

    def length(self, name: str) -> Value:
        """Returns the element count of a buffer."""
        model = length_model(self._buffers, name) if self._same_length else name
        count = self._buffers[model].count
        return self.values.constant(count) if count else self.values.named(("length", model))

    # ---- values
    def _evaluate(self, expr: ir.Expr, captured: Captured, memo: Memo, depth: int) -> Value:
        """Returns the value of an expression of type u32 or i32."""
        kind = type(expr)
        if kind is ir.Literal:
            return self.values.constant(expr.bits)  # type: ignore[union-attr]
        if kind is ir.Var:
            return self._local(self._version(expr.name, captured), depth)  # type: ignore[union-attr]
        if memo is not None:
            known = memo.get(id(expr))
            if known is not None:
                return known
        self._evaluations -= 1
        rule = _EVALUATE.get(kind)
        if rule is None or depth == 0 or self._evaluations < 0:
            value = self.values.fresh()
        else:
            value = rule(self, expr, captured, memo, depth - 1)
        if memo is not None:
            memo[id(expr)] = value
        return value

    def _version(self, name: str, captured: Captured) -> Version:
        if captured is not None and name in captured:
            return captured[name]
        return self.env[name]

    def _local(self, version: Version, depth: int) -> Value:
        version, passed = self._renamed(version)
        if version.value is None:
            if version.expr is None:
                version.value = self.values.fresh()
            else:
                version.value = self._evaluate(version.expr, version.captured, version.memo(), depth)
        for other in passed:
            other.value = version.value
        return version.value

    def _renamed(self, version: Version) -> tuple[Version, list[Version]]:
        """Returns the version behind a chain of locals that are set to other locals, and those of the chain."""
        passed: list[Version] = []
        while version.value is None and not version.is_known and isinstance(version.expr, ir.Var):
            passed.append(version)
            version = self._version(version.expr.name, version.captured)
        return version, passed

    def _number(
        self, expr: ir.Expr, dtype: ScalarType | None, captured: Captured, memo: Memo, depth: int
    ) -> Value | None:
        if dtype is _U32 or dtype is _I32:
            return self._evaluate(expr, captured, memo, depth)
        if isinstance(expr, ir.Literal):
            return self.values.constant(expr.bits) if expr.bits <= U32_MAX and dtype in WIDE_TYPES else None
        if isinstance(expr, ir.Var):
            version, passed = self._renamed(self._version(expr.name, captured))
            if not version.is_known and version.expr is not None:
                version.value = self._number(version.expr, dtype, version.captured, version.memo(), depth)
                version.is_known = True
            for other in passed:
                other.value, other.is_known = version.value, version.is_known
            return version.value
        if memo is not None and id(expr) in memo:
            return memo[id(expr)]
        self._evaluations -= 1
        rule = _WIDE.get(type(expr))
        value = None
        if rule is not None and depth > 0 and self._evaluations >= 0:
            value = rule(self, expr, captured, memo, depth - 1)
        if memo is not None:
            memo[id(expr)] = value
        return value

    def dtype(self, expr: ir.Expr, captured: Captured) -> ScalarType | None:
        """Returns the static type, found along first operands."""
        passed: list[Version] = []
        static: ScalarType | None = None
        node: ir.Expr | None = expr
        while node is not None:
            if isinstance(node, ir.Var):
                version = self._version(node.name, captured)
                if version.dtype is not None or version.expr is None:
                    static = version.dtype
                    break
                passed.append(version)
                node, captured = version.expr, version.captured
                continue
            static, node = (None, None) if type(node) is ir.Call else type_or_operand(node, self._buffers)
        for version in passed:
            version.dtype = static
        return static

    def _binary(self, expr: ir.Binary, captured: Captured, memo: Memo, depth: int) -> Value:
        left = self._evaluate(expr.left, captured, memo, depth)
        right = self._evaluate(expr.right, captured, memo, depth)
        if expr.op in SIGN_MATTERS and self.dtype(expr.left, captured) is not _U32:
            if left.is_constant and right.is_constant:
                return self.values.constant(scalar.binary(expr.op, _I32, left.constant, right.constant))
            least_right = 1 if expr.op is BinaryOp.DIV else 0
            if expr.op in _SATURATING or max(left.high, right.high) >= HALF or right.low < least_right:
                return self.values.fresh()
        return self.values.binary(expr.op, left, right)

    def _unary(self, expr: ir.Unary, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.unary(expr.op, self._evaluate(expr.operand, captured, memo, depth))

    def _select(self, expr: ir.Select, captured: Captured, memo: Memo, depth: int) -> Value:
        on_true = self._evaluate(expr.on_true, captured, memo, depth)
        return self.values.select(on_true, self._evaluate(expr.on_false, captured, memo, depth))

    def _cast(self, expr: ir.Cast, captured: Captured, memo: Memo, depth: int) -> Value:
        source = self.dtype(expr.operand, captured)
        if source is _BOOL:
            return self._flag(expr.operand, captured, memo, depth)
        number = self._number(expr.operand, source, captured, memo, depth) if source in _INTEGERS else None
        return self.values.fresh() if number is None else number

    def _flag(self, condition: ir.Expr, captured: Captured, memo: Memo, depth: int) -> Value:
        """Returns the number of a truth value; comparisons of the same integers are the same number."""
        if isinstance(condition, ir.Binary) and condition.op in OPPOSITE:
            dtype = self.dtype(condition.left, captured)
            if dtype in _INTEGERS:
                left = self._number(condition.left, dtype, captured, memo, depth)
                right = self._number(condition.right, dtype, captured, memo, depth)
                if left is not None and right is not None:
                    return self.values.named(("flag", condition.op, dtype, id(left), id(right)), 0, 1)
        return self.values.fresh(0, 1)

    def _bitcast(self, expr: ir.Bitcast, captured: Captured, memo: Memo, depth: int) -> Value:
        source = self.dtype(expr.operand, captured)
        if source is _U32 or source is _I32:
            return self._evaluate(expr.operand, captured, memo, depth)
        return self.values.fresh()

    def _narrow(self, expr: ir.Narrow, captured: Captured, memo: Memo, depth: int) -> Value:
        """Handles ``narrow`` of an integer: the value stays the same if it fits, and is not negative if unsigned."""
        most = (1 << expr.dtype.bits - expr.dtype.is_signed) - 1
        value = self._evaluate(expr.operand, captured, memo, depth)
        if value.high <= most:
            return value
        return self.values.fresh() if expr.dtype.is_signed else self.values.binary(_AND, value, self._constant(most))

    def _pack(self, expr: ir.Pack, captured: Captured, memo: Memo, depth: int) -> Value:
        most = (1 << expr.dtype.bits) - 1
        if expr.dtype.is_float:
            return self.values.fresh(0, most)
        return self.values.binary(_AND, self._evaluate(expr.operand, captured, memo, depth), self._constant(most))

    def _unpack(self, expr: ir.Unpack, captured: Captured, memo: Memo, depth: int) -> Value:
        if expr.dtype.is_signed:
            return self.values.fresh()
        most = self._constant((1 << expr.dtype.bits) - 1)
        return self.values.binary(_AND, self._evaluate(expr.operand, captured, memo, depth), most)

    def _constant(self, number: int) -> Value:
        return self.values.constant(number)

    def _load(self, expr: ir.Load, captured: Captured, memo: Memo, depth: int) -> Value:
        buffer = self._buffers[expr.buffer]
        if buffer.is_push:
            return self.values.named(("parameter", expr.buffer))
        assert isinstance(buffer.element, ScalarType)
        return self.values.fresh(0, U32_MAX if buffer.element.is_signed else (1 << 8 * buffer.element.size) - 1)

    def _buffer_length(self, expr: ir.BufferLength, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.length(expr.buffer)

    def _id(self, expr: ir.LaunchId, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.launch_id(expr.kind, expr.axis)

    def launch_id(self, kind: ir.IdKind, axis: int) -> Value:
        """Returns a launch id, in the given grid or one of at most 2**32 lanes along each axis."""
        value = self._ids.get((kind, axis))
        return self._new_id(kind, axis) if value is None else value

    def _new_id(self, kind: ir.IdKind, axis: int) -> Value:
        values, ids, size = self.values, self._ids, self._size[axis]
        most_groups = self._most_groups[axis]
        if kind is ir.IdKind.NUM_GROUPS:
            value = values.fresh(1, min(most_groups, U32_MAX))
        elif kind is ir.IdKind.LOCAL:
            value = values.fresh(0, size - 1)
        elif kind is ir.IdKind.GLOBAL and size > 1 and most_groups == 1:
            value = self.launch_id(ir.IdKind.LOCAL, axis)
        elif kind is ir.IdKind.GROUP or size > 1:
            value = values.fresh(0, (most_groups if kind is ir.IdKind.GROUP else most_groups * size) - 1)
        else:
            value = self.launch_id(ir.IdKind.GROUP, axis)
        ids[kind, axis] = value
        group, local = ids.get((ir.IdKind.GROUP, axis)), ids.get((ir.IdKind.LOCAL, axis))
        if (
            most_groups > 1 < size
            and kind in (ir.IdKind.GROUP, ir.IdKind.LOCAL)
            and group is not None
            and local is not None
        ):
            values.identify(group, size, local, self.launch_id(ir.IdKind.GLOBAL, axis))
        return value

    def _lane(self, expr: ir.SubgroupLane, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.named("lane", 0, _SUBGROUP - 1)

    def _lanes_of_subgroup(self, expr: ir.SubgroupSize, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.constant(_SUBGROUP)

    def _spec(self, expr: ir.SpecConst, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.named(("constant", expr.name))

    # ---- values of 64-bit types; each is None if the number may be outside 0..2**32-1
    def _wide_cast(self, expr: ir.Cast, captured: Captured, memo: Memo, depth: int) -> Value | None:
        source = self.dtype(expr.operand, captured)
        if source is _BOOL:
            return self.values.fresh(0, 1)
        if source not in _INTEGERS:
            return None
        number = self._number(expr.operand, source, captured, memo, depth)
        return None if source is _I32 and number is not None and number.high >= HALF else number

    def _wide_bitcast(self, expr: ir.Bitcast, captured: Captured, memo: Memo, depth: int) -> Value | None:
        source = self.dtype(expr.operand, captured)
        return self._number(expr.operand, source, captured, memo, depth) if source in WIDE_TYPES else None

    def _wide_binary(self, expr: ir.Binary, captured: Captured, memo: Memo, depth: int) -> Value | None:
        op, values, dtype = expr.op, self.values, self.dtype(expr.left, captured)
        if dtype not in WIDE_TYPES:
            return None
        a = self._number(expr.left, dtype, captured, memo, depth)
        if op in _SHIFTS:
            count = expr.right.bits & 63 if isinstance(expr.right, ir.Literal) else None
            if a is None or count is None:
                return None
            if op is BinaryOp.SHR:
                return values.binary(op, a, values.constant(count)) if count < 32 else values.constant(0)
            return values.scaled(a, 1 << count) if a.high << count <= U32_MAX else None
        b = self._number(expr.right, dtype, captured, memo, depth)
        if op is BinaryOp.BIT_AND and (a is None) is not (b is None):
            return values.fresh(0, (a or b).high)  # type: ignore[union-attr]
        if a is None or b is None:
            return None
        if op is BinaryOp.SUB:
            return values.subtract(a, b) if a.low >= b.high else None
        most = {BinaryOp.ADD: a.high + b.high, BinaryOp.MUL: a.high * b.high}.get(op, 0)
        if op not in _WIDE_OPERATORS or most > U32_MAX or (op is BinaryOp.DIV and b.low == 0):
            return None
        return values.binary(op, a, b)

    def _wide_unary(self, expr: ir.Unary, captured: Captured, memo: Memo, depth: int) -> Value | None:
        return self.values.fresh(0, 64) if expr.op in COUNTS_BITS else None

    def _wide_select(self, expr: ir.Select, captured: Captured, memo: Memo, depth: int) -> Value | None:
        dtype = self.dtype(expr, captured)
        on_true = self._number(expr.on_true, dtype, captured, memo, depth)
        on_false = self._number(expr.on_false, dtype, captured, memo, depth)
        return None if on_true is None or on_false is None else self.values.select(on_true, on_false)

    # ---- conditions
    def facts(self, condition: ir.Expr, holds: bool) -> list[Fact]:
        """Returns the facts that follow from a condition, or from its negation."""
        facts: list[Fact] = []
        signed: list[Fact] = []
        seen: set[tuple[int, bool]] = set()
        stack: list[tuple[ir.Expr, bool, Captured, Memo]] = [(condition, holds, None, self.memo)]
        while stack and len(seen) < _CONDITIONS:
            expr, positive, captured, memo = stack.pop()
            if (id(expr), positive) in seen:
                continue
            seen.add((id(expr), positive))
            if isinstance(expr, ir.Var):
                version = self._version(expr.name, captured)
                if version.expr is not None:
                    stack.append((version.expr, positive, version.captured, version.memo()))
            elif isinstance(expr, ir.Unary) and expr.op is UnaryOp.LOGICAL_NOT:
                stack.append((expr.operand, not positive, captured, memo))
            elif isinstance(expr, ir.Binary):
                if expr.op is (BinaryOp.AND if positive else BinaryOp.OR):
                    stack += ((expr.left, positive, captured, memo), (expr.right, positive, captured, memo))
                else:
                    op = expr.op if positive else OPPOSITE.get(expr.op)
                    dtype = self.dtype(expr.left, captured) if op in OPPOSITE else None
                    if op is None or dtype not in _INTEGERS:
                        continue
                    a = self._number(expr.left, dtype, captured, memo, _DEPTH)
                    b = self._number(expr.right, dtype, captured, memo, _DEPTH)
                    if a is not None and b is not None:
                        is_ordered = dtype is _I32 and op not in EQUALITIES
                        (signed if is_ordered else facts).extend(self._comparison(op, a, b))
        return facts + self._of_signed(signed) if signed else facts

    def _of_signed(self, signed: list[Fact]) -> list[Fact]:
        """Returns the facts about bit patterns that follow from facts about i32 numbers.

        Where the lower side is not negative, the upper one is not either, and both patterns are the numbers.
        """
        half = self.values.constant(HALF)
        facts: list[Fact] = []
        positive: set[Value] = set()
        waiting = [self._from_zero(fact) for fact in signed]
        while True:
            rest: list[Fact] = []
            for fact in waiting:
                if fact.lower in positive or fact.lower.high < HALF or self.is_below(fact.lower, half):
                    facts += (fact, Fact(fact.upper, half, 1))
                    positive.add(fact.upper)
                else:
                    rest.append(fact)
            if len(rest) == len(waiting):
                return facts
            waiting = rest

    def _from_zero(self, fact: Fact) -> Fact:
        """Returns a fact such as ``-1 + 1 <= x`` as ``0 <= x``."""
        lower, upper, gap = fact
        if lower.is_constant and lower.constant >= HALF and lower.constant + gap > U32_MAX:
            return Fact(self.values.constant(lower.constant + gap - U32_MAX - 1), upper, 0)
        return fact

    @staticmethod
    def _comparison(op: BinaryOp, a: Value, b: Value) -> list[Fact]:
        match op:
            case BinaryOp.LT:
                return [Fact(a, b, 1)]
            case BinaryOp.LE:
                return [Fact(a, b, 0)]
            case BinaryOp.GT:
                return [Fact(b, a, 1)]
            case BinaryOp.GE:
                return [Fact(b, a, 0)]
            case BinaryOp.EQ:
                return [Fact(a, b, 0), Fact(b, a, 0)]
        # An inequality gives a fact where one side is the least value that the other can have.
        return [Fact(low, other, 1) for low, other in ((a, b), (b, a)) if low.high <= other.low]


_EVALUATE: Final[dict[type[Node], Callable[[Meanings, Any, Captured, Memo, int], Value]]] = {
    ir.Binary: Meanings._binary,
    ir.Unary: Meanings._unary,
    ir.Select: Meanings._select,
    ir.Cast: Meanings._cast,
    ir.Load: Meanings._load,
    ir.BufferLength: Meanings._buffer_length,
    ir.LaunchId: Meanings._id,
    ir.SubgroupLane: Meanings._lane,
    ir.SubgroupSize: Meanings._lanes_of_subgroup,
    ir.SpecConst: Meanings._spec,
    ir.Bitcast: Meanings._bitcast,
    ir.Narrow: Meanings._narrow,
    ir.Pack: Meanings._pack,
    ir.Unpack: Meanings._unpack,
}
"""Expressions that are not listed have unknown values."""
_WIDE: Final[dict[type[Node], Callable[[Meanings, Any, Captured, Memo, int], Value | None]]] = {
    ir.Binary: Meanings._wide_binary,
    ir.Unary: Meanings._wide_unary,
    ir.Select: Meanings._wide_select,
    ir.Cast: Meanings._wide_cast,
    ir.Bitcast: Meanings._wide_bitcast,
}
