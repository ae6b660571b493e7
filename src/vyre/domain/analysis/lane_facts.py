"""The dependence of a program on the grouping of its lanes, and the lanes that can have an effect.

The facts are found without running the program.  Every fact errs on one side: constructs that are not recognised
count as dependence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_expressions, unique_nodes
from vyre.domain.record import U32_MAX, IntRange, record
from vyre.domain.validation.validator import check_rules


@record
class LaneBound:
    """A number from which on lanes have no effect: ``ceil(length of buffer / stride)``, or ``lanes`` without a
    buffer.
    """

    buffer: str = ""
    stride: Annotated[int, IntRange(1, U32_MAX)] = 1
    lanes: Annotated[int, IntRange(0, U32_MAX)] = 0

    def resolve(self, lengths: Mapping[str, int]) -> int:
        """Returns the number of lanes that may have an effect, given the elements of every buffer."""
        return -(-lengths[self.buffer] // self.stride) if self.buffer else self.lanes


@record
class LaneFacts:
    """The dependence of a program on its lanes and their groups.

    ``group_ids``: ids of lanes in their workgroup, or of workgroups, are used.
    ``group_count``: the number of workgroups is used.
    ``traps``: the program may trap.
    ``order_sensitive``: results depend on the order of atomics.
    ``shared_writes``: written buffers in which lanes may access the same element other than by atomics.
    ``stride``: the largest factor of a lane's id in an index that keeps lanes apart.
    ``bounds``: each effect of a lane is behind one of them, unless ``unbounded``.  A store to private memory is none.
    ``unbounded``: a lane may have an effect, or a loop of unforeseeable length, whatever its id.
    """

    group_ids: bool = False
    group_count: bool = False
    workgroup_memory: bool = False
    barriers: bool = False
    subgroup_operations: bool = False
    async_copies: bool = False
    indirect: bool = False
    traps: bool = False
    order_sensitive: bool = False
    shared_writes: tuple[str, ...] = ()
    stride: Annotated[int, IntRange(1, U32_MAX)] = 1
    bounds: tuple[LaneBound, ...] = ()
    unbounded: bool = False

    def active_lanes(self, lengths: Mapping[str, int]) -> int | None:
        """Returns a number such that only lanes below it have an effect; None if all may have one."""
        return None if self.unbounded else max((bound.resolve(lengths) for bound in self.bounds), default=0)


_ASYNC: Final = (ir.AsyncLoad, ir.AsyncStore, ir.AsyncWait)
_LESS: Final = {BinaryOp.LT: False, BinaryOp.GT: True}
"""Operators that mean left < right, and whether only after the operands are swapped."""
_NOT_LESS: Final = {BinaryOp.GE: False, BinaryOp.LE: True}


@kept_with_program("lane_facts")
def lane_facts(program: Program) -> LaneFacts:
    """Returns the facts of a valid program; cached on it.  Linear in its distinct nodes."""
    expressions = list(unique_expressions(program))
    statements = list(ir.walk_statements(program.body))
    kinds = {e.kind for e in expressions if isinstance(e, ir.LaunchId)}
    scan = _Scan(program, statements, expressions)
    scan.body(program.body)
    return LaneFacts(
        group_ids=bool(kinds & {ir.IdKind.LOCAL, ir.IdKind.GROUP}),
        group_count=ir.IdKind.NUM_GROUPS in kinds,
        workgroup_memory=any(buffer.is_workgroup for buffer in program.buffers),
        barriers=_any(statements, ir.Barrier),
        subgroup_operations=any(type(e) in ir.OF_SUBGROUP for e in expressions),
        async_copies=_any(statements, *_ASYNC),
        indirect=_any(statements, ir.IndirectDispatch),
        traps=_any(statements, ir.Trap),
        order_sensitive=check_rules(program).order_sensitive,
        shared_writes=scan.shared_writes(),
        stride=scan.stride,
        bounds=tuple(sorted(scan.bounds, key=lambda bound: (bound.buffer, bound.stride, bound.lanes))),
        unbounded=scan.unbounded,
    )


def _any(statements: Iterable[ir.Stmt], *types: type) -> bool:
    return any(isinstance(stmt, types) for stmt in statements)


class _Affine(NamedTuple):
    """``stride * gid + offset`` with ``offset < stride``: different for any two lanes, unless it wraps."""

    stride: int
    offset: int

    def times(self, factor: int) -> _Affine | None:
        return self._checked(self.stride * factor, self.offset * factor)

    def plus(self, offset: int) -> _Affine | None:
        return self._checked(self.stride, self.offset + offset)

    @staticmethod
    def _checked(stride: int, offset: int) -> _Affine | None:
        return _Affine(stride, offset) if 0 < stride <= U32_MAX and offset <= U32_MAX else None

    @property
    def apart(self) -> bool:
        return self.offset < self.stride


_Guard: TypeAlias = LaneBound | None
"""The bound from which on lanes do not reach a statement; None if any lane may."""


class _Scan:
    """One pass over the statements, with the bound that guards each."""

    def __init__(self, program: Program, statements: list[ir.Stmt], expressions: list[ir.Expr]) -> None:
        self.bounds: set[LaneBound] = set()
        self.stride = 1
        self.unbounded = False
        self._locals = _constant_locals(statements)
        self._atomics = {e.buffer for e in expressions if isinstance(e, ir.Atomic)}
        stored = {stmt.buffer for stmt in statements if isinstance(stmt, ir.Store)}
        self._written = stored | self._atomics
        self._private = {buffer.name: buffer.count for buffer in program.buffers if buffer.is_private}
        self._indices: dict[str, set[_Affine | None]] = {
            name: set() for name in self._written if name not in self._private
        }
        for expr in expressions:
            if isinstance(expr, ir.Load) and expr.buffer in self._indices:
                self._indices[expr.buffer].add(self._affine(expr.index))
        for stmt in statements:
            if isinstance(stmt, ir.Store) and stmt.buffer in self._indices:
                self._indices[stmt.buffer].add(self._affine(stmt.index))

    def shared_writes(self) -> tuple[str, ...]:
        """Returns the written buffers in which several lanes may access one element."""
        shared = []
        for name, indices in sorted(self._indices.items()):
            if name in self._atomics:
                if indices:  # plain accesses besides atomics
                    shared.append(name)
                continue
            strides = {index.stride for index in indices if index is not None and index.apart}
            if len(strides) == 1 and all(index is not None and index.apart for index in indices):
                self.stride = max(self.stride, *strides)
            else:
                shared.append(name)
        return tuple(shared)

    def body(self, body: tuple[ir.Stmt, ...]) -> None:
        stack: list[tuple[tuple[ir.Stmt, ...], int, _Guard]] = [(body, 0, None)]
        while stack:
            statements, index, guard = stack.pop()
            while index < len(statements):
                stmt = statements[index]
                index += 1
                self._effects(stmt, guard)
                if isinstance(stmt, ir.Switch):
                    stack += ((body, 0, guard) for body in ir.bodies(stmt))
                elif isinstance(stmt, ir.If):
                    inside, behind = self._guards(stmt, guard)
                    stack.append((stmt.then, 0, inside))
                    stack.append((stmt.otherwise, 0, behind))
                    if len(stmt.then) == 1 and isinstance(stmt.then[0], ir.Return):
                        guard = behind
                elif isinstance(stmt, ir.Loop | ir.GridLoop | ir.Block | ir.Region):
                    stack.append((stmt.body, 0, guard))

    # ---- effects
    def _effects(self, stmt: ir.Stmt, guard: _Guard) -> None:
        if isinstance(stmt, ir.Store):
            if stmt.buffer not in self._private:
                self._effect(stmt.buffer, stmt.index, guard)
        elif isinstance(stmt, ir.Loop) and not all(map(self._is_uniform, (stmt.start, stmt.stop, stmt.step))):
            self._bounded(guard)  # a lane without an element may read arbitrary bounds
        for node in unique_nodes(ir.operands(stmt)):
            if isinstance(node, ir.Atomic):
                self._effect(node.buffer, node.index, guard)

    def _effect(self, buffer: str, index: ir.Expr, guard: _Guard) -> None:
        """Notes an effect; out of range it does not happen, so an index that grows with the lane is a guard of its
        own.
        """
        affine = self._affine(index)
        if affine is not None and affine.apart:
            self.stride = max(self.stride, affine.stride)
            guard = LaneBound(buffer, affine.stride)
        self._bounded(guard)

    def _bounded(self, guard: _Guard) -> None:
        if guard is None:
            self.unbounded = True
        else:
            self.bounds.add(guard)

    # ---- conditions
    def _guards(self, stmt: ir.If, guard: _Guard) -> tuple[_Guard, _Guard]:
        """Returns the guards of both branches."""
        condition = self._resolved(stmt.condition)
        if not isinstance(condition, ir.Binary):
            return guard, guard
        if condition.op is BinaryOp.AND:  # either half guards the branch
            halves = (self._resolved(condition.left), self._resolved(condition.right))
            bounds = [self._bound(half, _LESS) for half in halves if isinstance(half, ir.Binary)]
            return next((bound for bound in bounds if bound is not None), guard), guard
        return self._bound(condition, _LESS) or guard, self._bound(condition, _NOT_LESS) or guard

    def _bound(self, condition: ir.Binary, operators: Mapping[BinaryOp, bool]) -> _Guard:
        """Returns ``gid < bound`` (for the other table: its negation) as a bound of lanes."""
        if condition.op not in operators:
            return None
        low, high = condition.left, condition.right
        if operators[condition.op]:
            low, high = high, low
        if self._affine(low) != _GID:
            return None
        limit = self._resolved(high)
        if isinstance(limit, ir.BufferLength):
            count = self._private.get(limit.buffer)
            return LaneBound(limit.buffer) if count is None else LaneBound(lanes=count)
        return LaneBound(lanes=limit.bits) if isinstance(limit, ir.Literal) else None

    # ---- expressions
    def _resolved(self, expr: ir.Expr) -> ir.Expr:
        for _ in range(_DEPTH):
            if not isinstance(expr, ir.Var) or expr.name not in self._locals:
                break
            expr = self._locals[expr.name]
        return expr

    def _affine(self, expr: ir.Expr, depth: int = 0) -> _Affine | None:
        expr = self._resolved(expr)
        if isinstance(expr, ir.LaunchId):
            return _GID if expr.kind is ir.IdKind.GLOBAL and expr.axis == 0 else None
        if not isinstance(expr, ir.Binary) or depth == _DEPTH:
            return None
        left, right = self._resolved(expr.left), self._resolved(expr.right)
        if isinstance(left, ir.Literal) and expr.op in (BinaryOp.ADD, BinaryOp.MUL):
            left, right = right, left
        if not isinstance(right, ir.Literal) or right.dtype is not ScalarType.U32:
            return None
        inner = self._affine(left, depth + 1)
        if inner is None:
            return None
        if expr.op is BinaryOp.ADD:
            return inner.plus(right.bits)
        if expr.op is BinaryOp.SHL:
            return inner.times(1 << right.bits) if right.bits < 32 else None
        return inner.times(right.bits) if expr.op is BinaryOp.MUL else None

    def _is_uniform(self, root: ir.Expr) -> bool:
        """Returns whether the expression is recognised as equal in every lane."""
        seen: set[int] = set()
        stack = [root]
        while stack:
            expr = self._resolved(stack.pop())
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            if type(expr) in _OF_A_LANE or (isinstance(expr, ir.Load) and expr.buffer in self._written):
                return False
            stack.extend(ir.children(expr))
        return True


_GID: Final = _Affine(1, 0)
_DEPTH: Final = 32
_OF_A_LANE: Final = frozenset({ir.LaunchId, ir.Var, ir.Atomic}) | ir.OF_SUBGROUP
"""Expressions that may differ between lanes; a ``Var`` among them has an unknown value."""


def _constant_locals(statements: Iterable[ir.Stmt]) -> dict[str, ir.Expr]:
    """Returns the values of locals that are declared once and never assigned."""
    values: dict[str, ir.Expr] = {}
    changing: set[str] = set()
    for stmt in statements:
        if isinstance(stmt, ir.Let) and stmt.name not in values:
            values[stmt.name] = stmt.value
        elif isinstance(stmt, ir.Let | ir.Assign | ir.GridLoop):
            changing.add(stmt.name)
        elif isinstance(stmt, ir.Loop):
            changing.add(stmt.var)
    return {name: value for name, value in values.items() if name not in changing}
