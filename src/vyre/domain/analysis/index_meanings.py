"""The index values of a program's expressions at the current position of a traversal.

Locals are followed as versions: a name that is assigned somewhere has a new version after every assignment, and an
unknown one where paths join.  Values are computed on demand.  The cost is described in ``index_flow``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from vyre.domain.analysis.index_proofs import Fact
from vyre.domain.analysis.index_values import U32_MAX, Atom, Value, Values
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
    SubgroupLane,
    SubgroupShuffle,
    SubgroupSize,
    Unary,
    Var,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BINARY, UNARY, BinaryOp, Result, UnaryOp
from vyre.domain.ir.program import Buffer, Dim3
from vyre.domain.ir.types import ScalarType

_SUBGROUP: Final = 32
_U32: Final = ScalarType.U32
_BOOL: Final = ScalarType.BOOL
_DEPTH: Final = 40
"""The largest depth of operators through which a value is followed; beyond it the value is unknown."""
_EVALUATIONS: Final = 6_000
"""The largest number of operators that are evaluated for one program; later values are unknown."""
_UNIFORM: Final = frozenset({"length", "parameter", "constant"})
_CONDITIONS: Final = 64
"""The largest number of terms of a condition that are examined."""


class Version:
    """A value of a local: the expression that it was set to, and the versions of assigned names at that point.

    ``has_atomic`` tells whether the expression contains an atomic.
    """

    __slots__ = ("captured", "dtype", "expr", "has_atomic", "value")

    def __init__(
        self,
        expr: Expr | None,
        captured: Captured,
        dtype: ScalarType | None = None,
        value: Value | None = None,
        *,
        has_atomic: bool = False,
    ) -> None:
        self.expr: Expr | None = expr
        self.captured: Captured = captured
        self.dtype: ScalarType | None = dtype
        self.value: Value | None = value
        self.has_atomic: bool = has_atomic

    def memo(self) -> Memo:
        """Returns an empty memo for the expression, or None if it contains an atomic."""
        return None if self.has_atomic else {}


Captured: TypeAlias = dict[str, Version] | None
Memo: TypeAlias = dict[int, Value] | None
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

    def __init__(self, buffers: Mapping[str, Buffer], size: Dim3, same_length: bool) -> None:
        self.values: Final = Values()
        self.env: dict[str, Version] = {}
        self.memo: Memo = {}
        self._buffers = buffers
        self._size = tuple(max(axis, 1) for axis in size)
        self._same_length = same_length
        self._evaluations = _EVALUATIONS
        self._ids: dict[tuple[IdKind, int], Value] = {}

    def local_ids(self) -> dict[int, Value]:
        """Returns the local ids that were evaluated, by axis."""
        return {axis: found for (kind, axis), found in self._ids.items() if kind is IdKind.LOCAL}

    def ids(self) -> dict[tuple[IdKind, int], Value]:
        """Returns the launch ids that were evaluated, by kind and axis."""
        return dict(self._ids)

    def uniform_atoms(self) -> frozenset[Atom]:
        """Returns the lengths, parameters and constants that were evaluated."""
        atoms = (found.atom for key, found in self.values.named_values() if key[0] in _UNIFORM)
        return frozenset(atom for atom in atoms if atom is not None)

    def value(self, expr: Expr) -> Value:
        """Returns the value of an expression (u32) of the current statement."""
        return self._evaluate(expr, None, self.memo, _DEPTH)

    def length(self, name: str) -> Value:
        """Returns the element count of a buffer."""
        model = length_model(self._buffers, name) if self._same_length else name
        count = self._buffers[model].count
        return self.values.constant(count) if count else self.values.named(("length", model))

    # ---- values
    def _evaluate(self, expr: Expr, captured: Captured, memo: Memo, depth: int) -> Value:
        """Returns the value of an expression of type u32."""
        kind = type(expr)
        if kind is Literal:
            return self.values.constant(expr.bits)  # type: ignore[union-attr]
        if kind is Var:
            return self._local(self._version(expr.name, captured), depth)  # type: ignore[union-attr]
        if memo is not None and id(expr) in memo:
            return memo[id(expr)]
        self._evaluations -= 1
        rule = _EVALUATE.get(kind)
        if rule is None or depth == 0 or self._evaluations < 0:
            found = self.values.fresh()
        else:
            found = rule(self, expr, captured, memo, depth - 1)
        if memo is not None:
            memo[id(expr)] = found
        return found

    def _version(self, name: str, captured: Captured) -> Version:
        if captured is not None and name in captured:
            return captured[name]
        return self.env[name]

    def _local(self, version: Version, depth: int) -> Value:
        if version.value is None:
            if version.expr is None:
                version.value = self.values.fresh()
            else:
                version.value = self._evaluate(version.expr, version.captured, version.memo(), depth)
        return version.value

    def dtype(self, expr: Expr, captured: Captured) -> ScalarType | None:
        """Returns the static type, found along first operands."""
        passed: list[Version] = []
        found: ScalarType | None = None
        node: Expr | None = expr
        while node is not None:
            if isinstance(node, Var):
                version = self._version(node.name, captured)
                if version.dtype is not None or version.expr is None:
                    found = version.dtype
                    break
                passed.append(version)
                node, captured = version.expr, version.captured
                continue
            found, node = _type_or_operand(node, self._buffers)
        for version in passed:
            version.dtype = found
        return found

    def _binary(self, expr: Binary, captured: Captured, memo: Memo, depth: int) -> Value:
        left = self._evaluate(expr.left, captured, memo, depth)
        return self.values.binary(expr.op, left, self._evaluate(expr.right, captured, memo, depth))

    def _unary(self, expr: Unary, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.unary(expr.op, self._evaluate(expr.operand, captured, memo, depth))

    def _select(self, expr: Select, captured: Captured, memo: Memo, depth: int) -> Value:
        on_true = self._evaluate(expr.on_true, captured, memo, depth)
        return self.values.select(on_true, self._evaluate(expr.on_false, captured, memo, depth))

    def _cast(self, expr: Cast, captured: Captured, memo: Memo, depth: int) -> Value:
        source = self.dtype(expr.operand, captured)
        if source is _U32:
            return self._evaluate(expr.operand, captured, memo, depth)
        return self.values.fresh(0, 1 if source is _BOOL else U32_MAX)

    def _load(self, expr: Load, captured: Captured, memo: Memo, depth: int) -> Value:
        buffer = self._buffers[expr.buffer]
        if buffer.is_push:
            return self.values.named(("parameter", expr.buffer))
        assert isinstance(buffer.element, ScalarType)
        return self.values.fresh(0, (1 << 8 * buffer.element.size) - 1)

    def _buffer_length(self, expr: BufferLength, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.length(expr.buffer)

    def _id(self, expr: LaunchId, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.launch_id(expr.kind, expr.axis)

    def launch_id(self, kind: IdKind, axis: int) -> Value:
        """Returns a launch id, in a grid of at most 2**32 lanes along each axis."""
        found = self._ids.get((kind, axis))
        return self._new_id(kind, axis) if found is None else found

    def _new_id(self, kind: IdKind, axis: int) -> Value:
        values, ids, size = self.values, self._ids, self._size[axis]
        most_groups = (1 << 32) // size
        if kind is IdKind.NUM_GROUPS:
            found = values.fresh(1, min(most_groups, U32_MAX))
        elif kind is IdKind.LOCAL:
            found = values.fresh(0, size - 1)
        elif kind is IdKind.GROUP or size > 1:
            found = values.fresh(0, (most_groups if kind is IdKind.GROUP else most_groups * size) - 1)
        else:
            found = self.launch_id(IdKind.GROUP, axis)
        ids[kind, axis] = found
        group, local = ids.get((IdKind.GROUP, axis)), ids.get((IdKind.LOCAL, axis))
        if size > 1 and kind in (IdKind.GROUP, IdKind.LOCAL) and group is not None and local is not None:
            values.identify(group, size, local, self.launch_id(IdKind.GLOBAL, axis))
        return found

    def _lane(self, expr: SubgroupLane, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.named("lane", 0, _SUBGROUP - 1)

    def _lanes_of_subgroup(self, expr: SubgroupSize, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.constant(_SUBGROUP)

    def _spec(self, expr: SpecConst, captured: Captured, memo: Memo, depth: int) -> Value:
        return self.values.named(("constant", expr.name))

    # ---- conditions
    def facts(self, condition: Expr, holds: bool) -> list[Fact]:
        """Returns the facts that follow from a condition, or from its negation."""
        facts: list[Fact] = []
        seen: set[tuple[int, bool]] = set()
        stack: list[tuple[Expr, bool, Captured, Memo]] = [(condition, holds, None, self.memo)]
        while stack and len(seen) < _CONDITIONS:
            expr, positive, captured, memo = stack.pop()
            if (id(expr), positive) in seen:
                continue
            seen.add((id(expr), positive))
            if isinstance(expr, Var):
                version = self._version(expr.name, captured)
                if version.expr is not None:
                    stack.append((version.expr, positive, version.captured, version.memo()))
            elif isinstance(expr, Unary) and expr.op is UnaryOp.LOGICAL_NOT:
                stack.append((expr.operand, not positive, captured, memo))
            elif isinstance(expr, Binary):
                if expr.op is (BinaryOp.AND if positive else BinaryOp.OR):
                    stack += ((expr.left, positive, captured, memo), (expr.right, positive, captured, memo))
                else:
                    facts += self._comparison(expr, positive, captured, memo)
        return facts

    def _comparison(self, expr: Binary, positive: bool, captured: Captured, memo: Memo) -> list[Fact]:
        op = expr.op if positive else _OPPOSITE.get(expr.op)
        if op not in _OPPOSITE or self.dtype(expr.left, captured) is not _U32:
            return []
        a = self._evaluate(expr.left, captured, memo, _DEPTH)
        b = self._evaluate(expr.right, captured, memo, _DEPTH)
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


def _type_or_operand(node: Expr, buffers: Mapping[str, Buffer]) -> tuple[ScalarType | None, Expr | None]:
    """Returns the type of an expression, or the operand that has the same type."""
    match node:
        case Literal(dtype) | Cast(dtype) | Bitcast(dtype):
            return dtype, None
        case SpecConst(_, default):
            return default.dtype, None
        case Binary(op, left):
            return (_BOOL, None) if BINARY[op].result is Result.BOOL else (None, left)
        case Unary(op, operand):
            return (_BOOL, None) if UNARY[op].result is Result.BOOL else (None, operand)
        case Select(_, on_true):
            return None, on_true
        case Fma(a):
            return None, a
        case SubgroupAdd(value) | SubgroupShuffle(value):
            return None, value
        case Load(buffer) | Atomic(_, buffer):
            element = buffers[buffer].element
            assert isinstance(element, ScalarType)
            return element.widened, None
    return _U32, None


_OPPOSITE: Final = {
    BinaryOp.LT: BinaryOp.GE,
    BinaryOp.GE: BinaryOp.LT,
    BinaryOp.GT: BinaryOp.LE,
    BinaryOp.LE: BinaryOp.GT,
    BinaryOp.EQ: BinaryOp.NE,
    BinaryOp.NE: BinaryOp.EQ,
}
_EVALUATE: Final[dict[type[Node], Callable[[Meanings, Any, Captured, Memo, int], Value]]] = {
    Binary: Meanings._binary,
    Unary: Meanings._unary,
    Select: Meanings._select,
    Cast: Meanings._cast,
    Load: Meanings._load,
    BufferLength: Meanings._buffer_length,
    LaunchId: Meanings._id,
    SubgroupLane: Meanings._lane,
    SubgroupSize: Meanings._lanes_of_subgroup,
    SpecConst: Meanings._spec,
}
"""Expressions that are not listed have unknown values."""
