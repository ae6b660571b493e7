"""One traversal of a program that finds, for every access, its element and whether the access is certainly in range.

A condition is learnt in the branch it guards, and behind a branch that does not return to the common path.  A name
that is assigned somewhere has an unknown value behind every branch and around every loop that assigns it.
Expressions that no index and no condition needs are not evaluated.

Cost: linear in the program, with an upper bound on the effort of evaluation and proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from vyre.domain.analysis.index_meanings import HALF, Meanings, Version
from vyre.domain.analysis.index_proofs import Fact, Proofs
from vyre.domain.analysis.index_values import U32_MAX, Atom, Value
from vyre.domain.identity_enum import IdentityEnum
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.branches import branches
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.ir.types import ScalarType

Access: TypeAlias = ir.Load | ir.Store | ir.Atomic
_SMALL: Final = 64
"""The largest number of operators of an expression that counts as small."""


class Step(IdentityEnum):
    """The effect on memory of one event in a straight run of statements."""

    LOAD = "load"
    STORE = "store"
    ASSIGN = "assign"
    """Locals change; consecutive assignments count as one event."""


class Event(NamedTuple):
    """One event of a run; ``at`` (the index) and ``proven`` belong to loads and stores."""

    step: Step
    node: ir.Load | ir.Store | ir.Assign
    at: Value | None
    proven: bool


_Scan: TypeAlias = tuple[tuple[ir.Load | ir.Atomic, ...], tuple[str, ...], bool]
"""The accesses in an expression, the assigned names in it, and whether an access is atomic."""
_EMPTY_SCAN: Final[_Scan] = ((), (), False)


class Bounds(NamedTuple):
    """A loop's bounds, and its variable in one of its iterations."""

    start: Value
    stop: Value
    step: Value
    counter: Value


class IndexFlow:
    """The results of the traversal; nodes are keyed by identity."""

    __slots__ = ("absent", "ids", "indices", "local_ids", "loops", "proven", "runs", "scans", "uniform")

    def __init__(self) -> None:
        self.absent: dict[int, bool] = {}
        """By access, for a survey: whether all its occurrences are certainly out of range."""
        self.ids: dict[tuple[ir.IdKind, int], Value] = {}
        """Launch ids by kind and axis that a survey encountered."""
        self.uniform: frozenset[Atom] = frozenset()
        """Atoms that a survey encountered and on which all lanes of a launch agree."""
        self.proven: dict[int, bool] = {}
        """By access: whether all its occurrences are certainly in range."""
        self.indices: dict[int, Value | None] = {}
        """By access: its index; None for nodes that occur several times."""
        self.loops: dict[int, Bounds | None] = {}
        """By loop: its bounds; None for nodes that occur several times."""
        self.runs: list[list[Event]] = []
        """The events of each stretch of one body without branches, barriers and atomics."""
        self.scans: dict[int, _Scan] = {}
        """By expression that a statement evaluates: the accesses in it.  Expressions without accesses are absent."""
        self.local_ids: dict[int, Value] = {}
        """Local ids by axis, for the axes that occur."""


def index_flow(
    program: Program, *, workgroup: Dim3 | None = None, in_range: Iterable[str] = (), same_length: bool = False
) -> IndexFlow:
    """Returns the facts of a valid program; cached on it.

    ``workgroup`` replaces the program's workgroup size.  ``in_range`` names buffers of which each lane's first global
    id is an element.  ``same_length`` means that a buffer declared ``like`` another one has as many elements.
    """
    size = workgroup or program.workgroup_size
    key = (size, frozenset(in_range), same_length)
    cached = program._cache.get(_CACHED)
    if isinstance(cached, tuple) and cached[0] == key:
        cached_flow: IndexFlow = cached[1]
        return cached_flow
    flow = Walk(program, *key).result
    program._cache[_CACHED] = (key, flow)
    return flow


def survey(program: Program) -> IndexFlow:
    """Returns the facts of ``index_flow`` and those that only lints need; not cached."""
    return Survey(program, program.workgroup_size, frozenset(), same_length=False).result


_CACHED: Final = "index flow"
_LEAVES: Final = ir.LEAVES - {ir.Var}


class Walk:
    """The traversal; ``result`` holds what it found."""

    def __init__(
        self, program: Program, size: Dim3, in_range: frozenset[str], same_length: bool, grid: Dim3 | None = None
    ) -> None:
        self._buffers = program.buffers_by_name
        self._meanings = Meanings(self._buffers, size, same_length, grid)
        self._half = self._meanings.values.constant(HALF)
        self._proofs = Proofs(self._meanings.values)
        self._meanings.is_below = self._proofs.is_below
        self._assigned = _assigned_names(program.body)
        self._undo: list[tuple[str, Version | None]] = []
        self._run: list[Event] = []
        self.result: Final = IndexFlow()
        for name in in_range:
            lane = self._meanings.launch_id(ir.IdKind.GLOBAL, 0)
            self._proofs.learn(Fact(lane, self._meanings.length(name), 1))
        self._prepare()
        self._body(program.body)
        self._finish()

    def _prepare(self) -> None:
        """Runs before the traversal; a traversal that knows more facts learns them here."""

    def _finish(self) -> None:
        """Runs after the traversal, and takes over the values that it has met."""
        self._end_run()
        self.result.local_ids = self._meanings.local_ids()

    def _tested(self, stmt: ir.If) -> None:
        """Runs where the condition of an ``if`` has been evaluated; for traversals that need conditions."""

    # ---- accesses
    def _scan(self, root: ir.Expr) -> _Scan:
        """Returns accesses and assigned names in an expression; walks large ones with shared nodes in linear time."""
        if type(root) in _LEAVES:
            return _EMPTY_SCAN
        scan = self.result.scans.get(id(root))
        if scan is not None:
            return scan
        accesses: list[ir.Load | ir.Atomic] = []
        names: list[str] = []
        has_atomic = False
        few = _SMALL
        seen: set[int] = set()
        assigned = self._assigned
        stack: list[ir.Expr] = [root]
        while stack:
            node: Any = stack.pop()
            kind = type(node)
            if kind in _LEAVES:
                continue
            if kind is ir.Var:
                if node.name in assigned:
                    names.append(node.name)
                continue
            if few:  # in a small expression, visiting a shared node again costs less than looking it up
                few -= 1
            else:
                key = id(node)
                if key in seen:
                    continue
                seen.add(key)
            if kind is ir.Binary:
                stack.append(node.right)
                stack.append(node.left)
            elif kind is ir.Load:
                accesses.append(node)
                stack.append(node.index)
            else:
                if kind is ir.Atomic:
                    accesses.append(node)
                    has_atomic = True
                stack += ir.children(node)
        scan = (tuple(accesses), tuple(names), has_atomic) if accesses or names else _EMPTY_SCAN
        if accesses or seen:
            self.result.scans[id(root)] = scan
        return scan

    def _visit(self, *roots: ir.Expr) -> tuple[str, ...]:
        """Notes the accesses of a statement's own expressions; returns the assigned names in them."""
        self._meanings.memo = {}
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
                    self._meanings.memo = None
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
        index = self._meanings.number(access.index)
        proven = index is not None and self._is_in_range(access, index)
        if key in result.proven:
            result.proven[key] = proven and result.proven[key]
            result.indices[key] = None
        else:
            result.proven[key] = proven
            result.indices[key] = index
        if step is not None:
            self._run.append(Event(step, access, index, proven))  # type: ignore[arg-type]

    def _is_in_range(self, access: Access, index: Value) -> bool:
        length = self._meanings.length(access.buffer)
        if not self._proofs.is_below(index, length):
            return False
        # The bit pattern of a negative i32 is beyond every shorter buffer.
        return length.high <= HALF or not self._is_i32(access.index) or self._proofs.is_below(index, self._half)

    def _is_i32(self, expr: ir.Expr) -> bool:
        return self._meanings.dtype(expr, None) is ScalarType.I32

    def _end_run(self) -> None:
        if len(self._run) > 1:
            self.result.runs.append(self._run)
        self._run = []

    # ---- bodies
    def _body(self, body: ir.Body) -> bool:
        """Walks a body and returns whether its end is reached."""
        alive = True
        for stmt in body:
            handler = _HANDLERS.get(type(stmt))
            if handler is not None:
                alive = handler(self, stmt) and alive
            else:
                self._visit(*ir.operands(stmt))
                self._end_run()
        return alive

    def _branch(self, body: ir.Body, facts: list[Fact]) -> tuple[set[str], bool]:
        """Walks a body under facts and undoes its effects; returns the outer names it assigned and whether its end is
        reached.
        """
        mark, learnt = len(self._undo), self._proofs.mark
        for fact in facts:
            self._proofs.learn(fact)
        alive = self._body(body)
        self._end_run()
        self._proofs.forget(learnt)
        return self._rewind(mark), alive

    def _set(self, name: str, version: Version) -> None:
        self._undo.append((name, self._meanings.env.get(name)))
        self._meanings.env[name] = version

    def _rewind(self, mark: int) -> set[str]:
        """Leaves a scope: names declared in it end, others get back the version that they had before it.

        Returns the names of the latter, which have been assigned.
        """
        declared: set[str] = set()
        changed: set[str] = set()
        for name, old in reversed(self._undo[mark:]):
            if old is None:
                del self._meanings.env[name]
                declared.add(name)
            else:
                self._meanings.env[name] = old
                changed.add(name)
        del self._undo[mark:]
        return changed - declared

    def _blur(self, names: Iterable[str]) -> None:
        """Gives these locals unknown values."""
        for name in names:
            self._set(name, Version(None, None, self._meanings.dtype(ir.Var(name), None)))

    # ---- statements; each returns whether the next one is reached
    def _let(self, stmt: ir.Let) -> bool:
        self._set(stmt.name, self._new_version(stmt.value))
        return True

    def _assign(self, stmt: ir.Assign) -> bool:
        version = self._new_version(stmt.value)
        if self._run and self._run[-1].step is not Step.ASSIGN:
            self._run.append(Event(Step.ASSIGN, stmt, None, False))
        self._set(stmt.name, version)
        return True

    def _new_version(self, value: ir.Expr) -> Version:
        names = self._visit(value)
        captured = {name: self._meanings.env[name] for name in names if name in self._meanings.env} if names else None
        return Version(value, captured, has_atomic=self._meanings.memo is None)

    def _store(self, stmt: ir.Store) -> bool:
        self._visit(stmt.index, stmt.value)
        self._access(stmt, Step.STORE)
        return True

    def _if(self, stmt: ir.If) -> bool:
        """Walks a chain of ``else if``, each body under the facts of its condition and of those that failed before."""
        learnt = self._proofs.mark
        changed: set[str] = set()
        passed: list[Fact] = []
        certain: list[Fact] = []
        """Facts that hold behind the statement, at the end of every body that has one."""
        ends = before = 0
        for body, number, link in branches(stmt):
            test = stmt if number == 0 else link
            holds: list[Fact] = []
            fails: list[Fact] = []
            if test is not None:
                self._visit(test.condition)
                self._end_run()
                self._tested(test)
                holds, fails = self._meanings.facts(test.condition, True), self._meanings.facts(test.condition, False)
            assigned, alive = self._branch(body, holds)
            if alive:
                ends += 1
                changed |= assigned
                if ends == 1:
                    before, certain = len(passed), [*passed, *holds]
                elif ends == 2:
                    certain = passed[:before]
            passed += fails
            for fact in fails:
                self._proofs.learn(fact)
        self._proofs.forget(learnt)
        self._blur(sorted(changed))
        for fact in certain:
            self._proofs.learn(fact)
        return ends > 0

    def _switch(self, stmt: ir.Switch) -> bool:
        self._visit(stmt.selector)
        self._end_run()
        changed: set[str] = set()
        ends = 0
        for branch in branches(stmt):
            assigned, alive = self._branch(branch.body, [])
            if alive:
                ends += 1
                changed |= assigned
        self._blur(sorted(changed))
        return ends > 0

    def _loop(self, stmt: ir.Loop) -> bool:
        self._visit(stmt.start, stmt.stop, stmt.step)
        self._end_run()
        dtype = self._meanings.dtype(stmt.start, None)
        counter, facts, bounds = self._rounds(stmt, dtype)
        loops, key = self.result.loops, id(stmt)
        loops[key] = None if key in loops else bounds
        changed: list[str] = []
        if self._assigned:
            changed = sorted(name for name in _assigned_names(stmt.body) if name in self._meanings.env)
        self._blur(changed)
        mark = len(self._undo)
        self._set(stmt.var, Version(None, None, dtype, counter))
        self._branch(stmt.body, facts)
        self._rewind(mark)
        self._blur(changed)
        return True

    def _rounds(self, stmt: ir.Loop, dtype: ScalarType | None) -> tuple[Value | None, list[Fact], Bounds | None]:
        """Returns the variable of a loop in one of its iterations, facts about it there, and the bounds of a loop that
        counts up without negative numbers.
        """
        start, stop, step = map(self._meanings.number, (stmt.start, stmt.stop, stmt.step))
        if dtype is ScalarType.I32:
            return self._rounds_of_i32(start, stop, step)
        if dtype is ScalarType.I64 and isinstance(stmt.step, ir.Literal) and stmt.step.value < 0:
            return self._rounds_down(start, None if _is_minus_one(stmt.stop) else stop, _is_minus_one(stmt.stop))
        if start is None or stop is None or step is None:
            return None, [], None
        counter = self._counter(start, stop.high, step)
        return counter, [Fact(counter, stop, 1), Fact(start, counter, 0)], Bounds(start, stop, step, counter)

    def _rounds_of_i32(
        self, start: Value | None, stop: Value | None, step: Value | None
    ) -> tuple[Value | None, list[Fact], Bounds | None]:
        assert start is not None and stop is not None and step is not None
        if step.is_constant and step.constant >= HALF:
            is_to_zero = stop.is_constant and stop.constant == U32_MAX
            known = None if is_to_zero or stop.high >= HALF else stop
            counter, facts, _ = self._rounds_down(start, known, is_to_zero, HALF - 1)
            return counter, [*facts, Fact(start, self._half, 1)] if facts else [], None
        if start.high >= HALF or step.high >= HALF:
            return None, [], None
        counter = self._counter(start, min(stop.high, HALF), step)
        facts = [Fact(counter, stop, 1), Fact(start, counter, 0)]
        if stop.high >= HALF:  # in an iteration it is above a number that is not negative
            return counter, [*facts, Fact(stop, self._half, 1)], None
        return counter, facts, Bounds(start, stop, step, counter)

    def _rounds_down(
        self, start: Value | None, stop: Value | None, is_to_zero: bool, most: int = U32_MAX
    ) -> tuple[Value | None, list[Fact], None]:
        """Handles a loop over a signed type with a negative step, whose variable is above a stop of -1 or more and at
        most ``most``.
        """
        if start is None or (stop is None and not is_to_zero):
            return None, [], None
        low = 0 if stop is None else min(stop.low + 1, most)
        counter = self._meanings.values.fresh(low, max(min(start.high, most), low))
        return counter, [Fact(counter, start, 0), *([] if stop is None else [Fact(stop, counter, 1)])], None

    def _counter(self, start: Value, stop: int, step: Value) -> Value:
        """Returns the variable of a loop that counts up to below ``stop`` in one of its iterations."""
        values = self._meanings.values
        last = max(stop - 1, start.low)
        if start.is_constant and step.is_constant and step.constant > 1:
            rounds = values.fresh(0, (last - start.constant) // step.constant)
            return values.plus(values.scaled(rounds, step.constant), start.constant)
        return values.fresh(start.low, last, min(start.align, step.align))

    def _scope(self, stmt: ir.Block | ir.Region) -> bool:
        self._end_run()
        mark = len(self._undo)
        alive = self._body(stmt.body)
        self._end_run()
        self._blur(sorted(self._rewind(mark)))
        return alive

    def _grid_loop(self, stmt: ir.GridLoop) -> bool:
        """Walks the body once: no local that a round changes lives into the next one."""
        self._visit(stmt.limit)
        self._end_run()
        assigned, _ = self._branch(stmt.body, [])
        self._blur(sorted(assigned))
        self._set(stmt.name, Version(None, None, ScalarType.U32))
        return True

    def _leave(self, stmt: ir.Break | ir.Continue | ir.Return | ir.Trap) -> bool:
        self._visit(*ir.operands(stmt))
        self._end_run()
        return False


class Survey(Walk):
    """Finds accesses out of range, too, and keeps the values of ids and lengths."""

    def _finish(self) -> None:
        super()._finish()
        self.result.ids = self._meanings.ids()
        self.result.uniform = self._meanings.uniform_atoms()

    def _access(self, access: Access, step: Step | None) -> None:
        if not self._buffers[access.buffer].is_push:
            index, length = self._meanings.number(access.index), self._meanings.length(access.buffer)
            if index is None:
                absent = isinstance(access.index, ir.Literal)
            else:
                # A negative i32 is out of range whatever the length is.
                absent = self._proofs.is_at_least(index, length) or (index.low >= HALF and self._is_i32(access.index))
            self.result.absent[id(access)] = absent and self.result.absent.get(id(access), True)
        super()._access(access, step)


def _is_minus_one(expr: ir.Expr) -> bool:
    return isinstance(expr, ir.Literal) and expr.value == -1


def _assigned_names(body: ir.Body) -> set[str]:
    names: set[str] = set()
    pending: list[ir.Body] = [body]
    while pending:
        for stmt in pending.pop():
            kind = type(stmt)
            if kind is ir.Assign:
                names.add(stmt.name)  # type: ignore[union-attr]
            elif kind in _NESTED:
                pending += ir.bodies(stmt)
    return names


_NESTED: Final = frozenset({ir.If, ir.Switch, ir.Loop, ir.GridLoop, ir.Block, ir.Region})
_HANDLERS: Final[dict[type[Node], Callable[[Walk, Any], bool]]] = {
    ir.Let: Walk._let,
    ir.Assign: Walk._assign,
    ir.Store: Walk._store,
    ir.If: Walk._if,
    ir.Switch: Walk._switch,
    ir.Loop: Walk._loop,
    ir.GridLoop: Walk._grid_loop,
    ir.Break: Walk._leave,
    ir.Continue: Walk._leave,
    ir.Return: Walk._leave,
    ir.Trap: Walk._leave,
    ir.Block: Walk._scope,
    ir.Region: Walk._scope,
}
