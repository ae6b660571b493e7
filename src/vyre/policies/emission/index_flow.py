"""One walk over a program that says, for every access, which element it touches and whether that is certainly there.

Locals are followed as versions: a name that is assigned somewhere has a new, unknown value after every branch and loop
that assigns it.  Values are made only when a proof asks for one, so what no index and no condition needs costs
nothing.  A condition is learnt in the branch it guards, and behind a branch that does not come back.

Cost: linear in the program, with an upper bound on the effort of evaluation and proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

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
    children,
)
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import BINARY, UNARY, BinaryOp, Result, UnaryOp
from vyre.domain.ir.program import Buffer, Dim3, Program
from vyre.domain.ir.stmt import (
    Assign,
    Block,
    Body,
    Break,
    Continue,
    If,
    Let,
    Loop,
    Region,
    Return,
    Store,
    Trap,
    bodies,
    operands,
)
from vyre.domain.ir.types import ScalarType
from vyre.policies.emission.index_proofs import Fact, Proofs
from vyre.policies.emission.index_values import U32_MAX, Value, Values

Access: TypeAlias = Load | Store | Atomic
_U32: Final = ScalarType.U32
_BOOL: Final = ScalarType.BOOL
_SUBGROUP: Final = 32
_DEPTH: Final = 40
"""Operators that a value is followed through; beyond that it is unknown."""
_SMALL: Final = 64
"""Operators up to which an expression counts as small."""
_EVALUATIONS: Final = 6_000
_CONDITIONS: Final = 64
"""Terms of a condition that are looked at."""


class Step(Enum):
    """What happens in a straight run of statements, as far as memory is concerned."""

    LOAD = "load"
    STORE = "store"
    ASSIGN = "assign"
    """Locals change; consecutive ones count as one."""

    __hash__ = object.__hash__


class Event(NamedTuple):
    """``at`` (the index) and ``proven`` belong to loads and stores."""

    step: Step
    node: Load | Store | Assign
    at: Value | None
    proven: bool


_Scan: TypeAlias = tuple[tuple[Load | Atomic, ...], tuple[str, ...], bool]
"""What is inside an expression: accesses, assigned names, and whether an access is atomic."""
_EMPTY_SCAN: Final[_Scan] = ((), (), False)


class Bounds(NamedTuple):
    """A loop's bounds, and its variable in one of its iterations."""

    start: Value
    stop: Value
    step: Value
    counter: Value


class IndexFlow:
    """What the walk found; nodes are keyed by identity."""

    __slots__ = ("indices", "local_ids", "loops", "proven", "runs", "scans")

    def __init__(self) -> None:
        self.proven: dict[int, bool] = {}
        """Accesses: are all their occurrences certainly in range?"""
        self.indices: dict[int, Value | None] = {}
        """Accesses: their indices; None for nodes that occur several times."""
        self.loops: dict[int, Bounds | None] = {}
        """Loops; None for nodes that occur several times."""
        self.runs: list[list[Event]] = []
        """What happens in each stretch of one body without branches, barriers and atomics."""
        self.scans: dict[int, _Scan] = {}
        """Expressions that statements evaluate: the accesses in them.  Those that are not here have none."""
        self.local_ids: dict[int, Value] = {}
        """Local ids by axis, as far as they occur."""


def index_flow(
    program: Program, *, workgroup: Dim3 | None = None, in_range: Iterable[str] = (), same_length: bool = False
) -> IndexFlow:
    """The facts of a valid program; cached on it.

    ``workgroup`` replaces the program's.  ``in_range``: buffers of which each lane's first global id is an element.
    ``same_length``: a buffer declared ``like`` another one has as many elements.
    """
    size = workgroup or program.workgroup_size
    key = (size, frozenset(in_range), same_length)
    cached = program._cache.get(_CACHED)
    if isinstance(cached, tuple) and cached[0] == key:
        found: IndexFlow = cached[1]
        return found
    flow = _Walk(program, *key).result
    program._cache[_CACHED] = (key, flow)
    return flow


def length_model(buffers: Mapping[str, Buffer], name: str) -> str:
    """The buffer whose length a buffer takes over, directly or through others; itself if none."""
    passed: set[str] = set()
    while name not in passed:
        passed.add(name)
        buffer = buffers[name]
        if not buffer.count and buffer.like is not None and buffer.like in buffers:
            name = buffer.like
    return name


_CACHED: Final = "index flow"


class _Version:
    """A value of a local: what it was set to, and the versions of assigned names at that point."""

    __slots__ = ("captured", "dtype", "expr", "value")

    def __init__(
        self, expr: Expr | None, captured: _Captured, dtype: ScalarType | None = None, value: Value | None = None
    ) -> None:
        self.expr, self.captured, self.dtype, self.value = expr, captured, dtype, value


_Captured: TypeAlias = dict[str, _Version] | None
_Memo: TypeAlias = dict[int, Value]


_LEAVES: Final = frozenset({Literal, LaunchId, BufferLength, SpecConst, SubgroupLane, SubgroupSize})


class _Walk:
    def __init__(self, program: Program, size: Dim3, in_range: frozenset[str], same_length: bool) -> None:
        self._buffers = program.buffers_by_name
        self._size = tuple(max(axis, 1) for axis in size)
        self._same_length = same_length
        self._values = Values()
        self._proofs = Proofs(self._values)
        self._assigned = _assigned_names(program.body)
        self._env: dict[str, _Version] = {}
        self._undo: list[tuple[str, _Version | None]] = []
        self._memo: _Memo = {}
        self._evaluations = _EVALUATIONS
        self._lengths: dict[str, Value] = {}
        self._ids: dict[tuple[IdKind, int], Value] = {}
        self._run: list[Event] = []
        self.result: Final = IndexFlow()
        for name in in_range:
            self._proofs.learn(Fact(self._launch_id(IdKind.GLOBAL, 0), self._length(name), 1))
        self._body(program.body)
        self._end_run()
        self.result.local_ids = {axis: found for (kind, axis), found in self._ids.items() if kind is IdKind.LOCAL}

    # ---- accesses
    def _scan(self, root: Expr) -> _Scan:
        """Accesses and assigned names in an expression; large ones with shared nodes are walked in linear time."""
        if type(root) in _LEAVES:
            return _EMPTY_SCAN
        found = self.result.scans.get(id(root))
        if found is not None:
            return found
        accesses: list[Load | Atomic] = []
        names: list[str] = []
        has_atomic = False
        few = _SMALL
        seen: set[int] = set()
        assigned = self._assigned
        stack: list[Expr] = [root]
        while stack:
            node: Any = stack.pop()
            kind = type(node)
            if kind in _LEAVES:
                continue
            if kind is Var:
                if node.name in assigned:
                    names.append(node.name)
                continue
            if few:  # as long as it is small, a node that is met again costs less than looking for it
                few -= 1
            else:
                key = id(node)
                if key in seen:
                    continue
                seen.add(key)
            if kind is Binary:
                stack.append(node.right)
                stack.append(node.left)
            elif kind is Load:
                accesses.append(node)
                stack.append(node.index)
            else:
                if kind is Atomic:
                    accesses.append(node)
                    has_atomic = True
                stack += children(node)
        found = (tuple(accesses), tuple(names), has_atomic) if accesses or names else _EMPTY_SCAN
        if accesses or seen:
            self.result.scans[id(root)] = found
        return found

    def _visit(self, *roots: Expr) -> tuple[str, ...]:
        """Notes the accesses of a statement's own expressions; returns the assigned names in them."""
        self._memo = {}
        names: tuple[str, ...] = ()
        noted: set[int] | None = None
        for root in roots:
            if type(root) in _LEAVES:
                continue
            scan = self._scan(root)
            if scan is _EMPTY_SCAN:
                continue
            accesses, read, _ = scan
            names += read
            if not accesses:
                continue
            if noted is None:
                noted = set()
                fence = any(self._scan(other)[2] for other in roots)
                if fence:
                    self._end_run()
            for access in accesses:
                if id(access) not in noted:
                    noted.add(id(access))
                    self._access(access, None if fence else Step.LOAD)
        return names

    def _access(self, access: Access, step: Step | None) -> None:
        buffer = self._buffers[access.buffer]
        key, result = id(access), self.result
        if buffer.is_push:
            result.proven[key] = True
            return
        index = self._evaluate(access.index, None, self._memo, _DEPTH)
        proven = self._proofs.is_below(index, self._length(access.buffer))
        if key in result.proven:
            result.proven[key] = proven and result.proven[key]
            result.indices[key] = None
        else:
            result.proven[key] = proven
            result.indices[key] = index
        if step is not None:
            self._run.append(Event(step, access, index, proven))  # type: ignore[arg-type]

    def _length(self, name: str) -> Value:
        found = self._lengths.get(name)
        if found is None:
            model = length_model(self._buffers, name) if self._same_length else name
            count = self._buffers[model].count
            found = self._values.constant(count) if count else self._values.named(("length", model))
            self._lengths[name] = found
        return found

    def _end_run(self) -> None:
        if len(self._run) > 1:
            self.result.runs.append(self._run)
        self._run = []

    # ---- values
    def _evaluate(self, expr: Expr, captured: _Captured, memo: _Memo, depth: int) -> Value:
        """The value of an expression of type u32."""
        kind = type(expr)
        if kind is Literal:
            return self._values.constant(expr.bits)  # type: ignore[union-attr]
        if kind is Var:
            return self._local(self._version(expr.name, captured), depth)  # type: ignore[union-attr]
        found = memo.get(id(expr))
        if found is None:
            self._evaluations -= 1
            rule = _EVALUATE.get(kind)
            if rule is None or depth == 0 or self._evaluations < 0:
                found = self._values.fresh()
            else:
                found = rule(self, expr, captured, memo, depth - 1)
            memo[id(expr)] = found
        return found

    def _version(self, name: str, captured: _Captured) -> _Version:
        if captured is not None and name in captured:
            return captured[name]
        return self._env[name]

    def _local(self, version: _Version, depth: int) -> Value:
        if version.value is None:
            if version.expr is None:
                version.value = self._values.fresh()
            else:
                version.value = self._evaluate(version.expr, version.captured, {}, depth)
        return version.value

    def _dtype(self, expr: Expr, captured: _Captured) -> ScalarType | None:
        """The static type, found along first operands."""
        passed: list[_Version] = []
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

    def _binary(self, expr: Binary, captured: _Captured, memo: _Memo, depth: int) -> Value:
        left = self._evaluate(expr.left, captured, memo, depth)
        return self._values.binary(expr.op, left, self._evaluate(expr.right, captured, memo, depth))

    def _unary(self, expr: Unary, captured: _Captured, memo: _Memo, depth: int) -> Value:
        return self._values.unary(expr.op, self._evaluate(expr.operand, captured, memo, depth))

    def _select(self, expr: Select, captured: _Captured, memo: _Memo, depth: int) -> Value:
        on_true = self._evaluate(expr.on_true, captured, memo, depth)
        return self._values.select(on_true, self._evaluate(expr.on_false, captured, memo, depth))

    def _cast(self, expr: Cast, captured: _Captured, memo: _Memo, depth: int) -> Value:
        source = self._dtype(expr.operand, captured)
        if source is _U32:
            return self._evaluate(expr.operand, captured, memo, depth)
        return self._values.fresh(0, 1 if source is _BOOL else U32_MAX)

    def _load(self, expr: Load, captured: _Captured, memo: _Memo, depth: int) -> Value:
        buffer = self._buffers[expr.buffer]
        if buffer.is_push:
            return self._values.named(("parameter", expr.buffer))
        bits = buffer.element.size * 8 if isinstance(buffer.element, ScalarType) else 32
        return self._values.fresh(0, (1 << min(bits, 32)) - 1)

    def _buffer_length(self, expr: BufferLength, captured: _Captured, memo: _Memo, depth: int) -> Value:
        return self._length(expr.buffer)

    def _id(self, expr: LaunchId, captured: _Captured, memo: _Memo, depth: int) -> Value:
        return self._launch_id(expr.kind, expr.axis)

    def _launch_id(self, kind: IdKind, axis: int) -> Value:
        """Ids, in a grid of at most 2**32 lanes along each axis."""
        found = self._ids.get((kind, axis))
        return self._new_id(kind, axis) if found is None else found

    def _new_id(self, kind: IdKind, axis: int) -> Value:
        values, ids, size = self._values, self._ids, self._size[axis]
        most_groups = (1 << 32) // size
        if kind is IdKind.NUM_GROUPS:
            found = values.fresh(1, min(most_groups, U32_MAX))
        elif kind is IdKind.LOCAL:
            found = values.fresh(0, size - 1)
        elif kind is IdKind.GROUP or size > 1:
            found = values.fresh(0, (most_groups if kind is IdKind.GROUP else most_groups * size) - 1)
        else:
            found = self._launch_id(IdKind.GROUP, axis)
        ids[kind, axis] = found
        group, local = ids.get((IdKind.GROUP, axis)), ids.get((IdKind.LOCAL, axis))
        if size > 1 and kind in (IdKind.GROUP, IdKind.LOCAL) and group is not None and local is not None:
            values.identify(group, size, local, self._launch_id(IdKind.GLOBAL, axis))
        return found

    def _lane(self, expr: SubgroupLane, captured: _Captured, memo: _Memo, depth: int) -> Value:
        return self._values.named("lane", 0, _SUBGROUP - 1)

    def _lanes_of_subgroup(self, expr: SubgroupSize, captured: _Captured, memo: _Memo, depth: int) -> Value:
        return self._values.constant(_SUBGROUP)

    def _spec(self, expr: SpecConst, captured: _Captured, memo: _Memo, depth: int) -> Value:
        return self._values.named(("constant", expr.name))

    # ---- conditions
    def _facts(self, condition: Expr, holds: bool) -> list[Fact]:
        """What follows from a condition, or from its opposite."""
        facts: list[Fact] = []
        seen: set[tuple[int, bool]] = set()
        stack: list[tuple[Expr, bool, _Captured, _Memo]] = [(condition, holds, None, self._memo)]
        while stack and len(seen) < _CONDITIONS:
            expr, positive, captured, memo = stack.pop()
            if (id(expr), positive) in seen:
                continue
            seen.add((id(expr), positive))
            if isinstance(expr, Var):
                version = self._version(expr.name, captured)
                if version.expr is not None:
                    stack.append((version.expr, positive, version.captured, {}))
            elif isinstance(expr, Unary) and expr.op is UnaryOp.LOGICAL_NOT:
                stack.append((expr.operand, not positive, captured, memo))
            elif isinstance(expr, Binary):
                if expr.op is (BinaryOp.AND if positive else BinaryOp.OR):
                    stack += ((expr.left, positive, captured, memo), (expr.right, positive, captured, memo))
                else:
                    facts += self._comparison(expr, positive, captured, memo)
        return facts

    def _comparison(self, expr: Binary, positive: bool, captured: _Captured, memo: _Memo) -> list[Fact]:
        op = expr.op if positive else _OPPOSITE.get(expr.op)
        if op not in _OPPOSITE or self._dtype(expr.left, captured) is not _U32:
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
        # Different: that says something where one of them is the least that the other can be.
        return [Fact(low, other, 1) for low, other in ((a, b), (b, a)) if low.high <= other.low]

    # ---- bodies
    def _body(self, body: Body) -> bool:
        """Walks a body; whether its end is reached."""
        alive = True
        for stmt in body:
            handler = _HANDLERS.get(type(stmt))
            if handler is not None:
                alive = handler(self, stmt) and alive
            else:
                self._visit(*operands(stmt))
                self._end_run()
        return alive

    def _branch(self, body: Body, facts: list[Fact]) -> tuple[set[str], bool]:
        """Walks a body under facts and takes back what it did; what outer names it assigned, is its end reached?"""
        mark, learnt = len(self._undo), self._proofs.mark
        for fact in facts:
            self._proofs.learn(fact)
        alive = self._body(body)
        self._end_run()
        self._proofs.forget(learnt)
        return self._rewind(mark), alive

    def _set(self, name: str, version: _Version) -> None:
        self._undo.append((name, self._env.get(name)))
        self._env[name] = version

    def _rewind(self, mark: int) -> set[str]:
        """Leaves a scope: names declared in it end, others get the version back that they had before it.

        Returns those others, which have been assigned.
        """
        declared: set[str] = set()
        changed: set[str] = set()
        for name, old in reversed(self._undo[mark:]):
            if old is None:
                del self._env[name]
                declared.add(name)
            else:
                self._env[name] = old
                changed.add(name)
        del self._undo[mark:]
        return changed - declared

    def _blur(self, names: Iterable[str]) -> None:
        """These locals have values that are not followed."""
        for name in names:
            old = self._env.get(name)
            if old is not None:
                self._set(name, _Version(None, None, self._dtype(Var(name), None)))

    # ---- statements; each says whether the next one is reached
    def _let(self, stmt: Let) -> bool:
        self._set(stmt.name, self._new_version(stmt.value))
        return True

    def _assign(self, stmt: Assign) -> bool:
        version = self._new_version(stmt.value)
        if self._run and self._run[-1].step is not Step.ASSIGN:
            self._run.append(Event(Step.ASSIGN, stmt, None, False))
        if stmt.name in self._env:
            self._set(stmt.name, version)
        return True

    def _new_version(self, value: Expr) -> _Version:
        names = self._visit(value)
        captured = {name: self._env[name] for name in names if name in self._env} if names else None
        return _Version(value, captured)

    def _store(self, stmt: Store) -> bool:
        self._visit(stmt.index, stmt.value)
        self._access(stmt, Step.STORE)
        return True

    def _if(self, stmt: If) -> bool:
        self._visit(stmt.condition)
        self._end_run()
        holds, fails = self._facts(stmt.condition, True), self._facts(stmt.condition, False)
        then_changed, then_alive = self._branch(stmt.then, holds)
        else_changed, else_alive = self._branch(stmt.otherwise, fails)
        self._blur(sorted((then_changed if then_alive else set()) | (else_changed if else_alive else set())))
        if then_alive is not else_alive:  # only one of them comes back
            for fact in holds if then_alive else fails:
                self._proofs.learn(fact)
        return then_alive or else_alive

    def _loop(self, stmt: Loop) -> bool:
        self._visit(stmt.start, stmt.stop, stmt.step)
        self._end_run()
        start, stop, step = (
            self._evaluate(bound, None, self._memo, _DEPTH) for bound in (stmt.start, stmt.stop, stmt.step)
        )
        counter = self._counter(start, stop, step)
        loops, key = self.result.loops, id(stmt)
        loops[key] = None if key in loops else Bounds(start, stop, step, counter)
        changed: list[str] = []
        if self._assigned:
            changed = sorted(name for name in _assigned_names(stmt.body) if name in self._env)
        self._blur(changed)
        mark = len(self._undo)
        self._set(stmt.var, _Version(None, None, _U32, counter))
        self._branch(stmt.body, [Fact(counter, stop, 1), Fact(start, counter, 0)])
        self._rewind(mark)
        self._blur(changed)
        return True

    def _counter(self, start: Value, stop: Value, step: Value) -> Value:
        """The variable of a loop in one of its iterations."""
        values = self._values
        last = max(stop.high - 1, start.low)
        if not step.is_constant or step.constant == 0:
            return values.fresh(start.low, last, min(start.align, step.align))
        if start.is_constant and step.constant > 1:
            rounds = values.fresh(0, (last - start.constant) // step.constant)
            return values.plus(values.scaled(rounds, step.constant), start.constant)
        return values.fresh(start.low, last, min(start.align, step.align))

    def _scope(self, stmt: Block | Region) -> bool:
        self._end_run()
        mark = len(self._undo)
        alive = self._body(stmt.body)
        self._end_run()
        self._blur(sorted(self._rewind(mark)))
        return alive

    def _leave(self, stmt: Break | Continue | Return | Trap) -> bool:
        self._visit(*operands(stmt))
        self._end_run()
        return False


def _assigned_names(body: Body) -> set[str]:
    names: set[str] = set()
    pending: list[Body] = [body]
    while pending:
        for stmt in pending.pop():
            kind = type(stmt)
            if kind is Assign:
                names.add(stmt.name)  # type: ignore[union-attr]
            elif kind in _NESTED:
                pending += bodies(stmt)
    return names


def _type_or_operand(node: Expr, buffers: Mapping[str, Buffer]) -> tuple[ScalarType | None, Expr | None]:
    """The type of an expression, or the operand that has the same type."""
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
            return (element.widened if isinstance(element, ScalarType) else None), None
    return _U32, None


_NESTED: Final = frozenset({If, Loop, Block, Region})
_OPPOSITE: Final = {
    BinaryOp.LT: BinaryOp.GE,
    BinaryOp.GE: BinaryOp.LT,
    BinaryOp.GT: BinaryOp.LE,
    BinaryOp.LE: BinaryOp.GT,
    BinaryOp.EQ: BinaryOp.NE,
    BinaryOp.NE: BinaryOp.EQ,
}
_EVALUATE: Final[dict[type[Node], Callable[[_Walk, Any, _Captured, _Memo, int], Value]]] = {
    Binary: _Walk._binary,
    Unary: _Walk._unary,
    Select: _Walk._select,
    Cast: _Walk._cast,
    Load: _Walk._load,
    BufferLength: _Walk._buffer_length,
    LaunchId: _Walk._id,
    SubgroupLane: _Walk._lane,
    SubgroupSize: _Walk._lanes_of_subgroup,
    SpecConst: _Walk._spec,
}
"""What is not listed has an unknown value."""
_HANDLERS: Final[dict[type[Node], Callable[[_Walk, Any], bool]]] = {
    Let: _Walk._let,
    Assign: _Walk._assign,
    Store: _Walk._store,
    If: _Walk._if,
    Loop: _Walk._loop,
    Break: _Walk._leave,
    Continue: _Walk._leave,
    Return: _Walk._leave,
    Trap: _Walk._leave,
    Block: _Walk._scope,
    Region: _Walk._scope,
}
