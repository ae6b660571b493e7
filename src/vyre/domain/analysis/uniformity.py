"""Uniformity analysis: the sets of lanes that provably agree on a value, a condition, a point of the program.

A value is a node of a graph whose edges point to the nodes on which it depends; four nodes represent the levels
themselves, and a value is as divergent as the worst level it reaches.  One traversal builds the graph: locals get a
version per assignment, joined after branches and at loop heads, so the result is that of a fixpoint over all paths
while the cost stays linear in the graph.

Sources: literals, parameters, specialization constants, lengths, the grid size and the numbers of rounds of grid loops
agree in the whole grid, workgroup ids in a workgroup, ballots and reductions in a subgroup.  Of the ids of lanes those
agree in a subgroup that the shape of the workgroup proves to, and quotients of others by enough lanes.  A load from
memory that the program cannot write agrees where its index does.  All other sources differ from lane to lane.  An
assignment depends on every condition between it and the declaration; a break or continue makes its loop depend on the
conditions around it.  A lane that has ended no longer counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from math import prod
from typing import Any, Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.branches import branches
from vyre.domain.ir.forms import FORMS
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import BinaryOp, Ordering
from vyre.domain.ir.program import Program, kept_with_program


class Uniformity(IntEnum):
    """The widest set of lanes in which all lanes that reach a point agree."""

    GRID = 0
    WORKGROUP = 1
    SUBGROUP = 2
    LANE = 3


class UniformityFacts:
    """Facts about the conditions of a program; cached on it, keyed by statement objects.

    For a statement object that occurs several times, the facts hold at all its occurrences.
    """

    __slots__ = ("_conditions", "_iterations", "_rounds")

    def __init__(
        self, conditions: dict[int, Uniformity], iterations: dict[int, Uniformity], rounds: dict[int, Uniformity]
    ) -> None:
        self._conditions = conditions
        self._iterations = iterations
        self._rounds = rounds

    def condition(self, stmt: ir.If | ir.Switch | ir.Loop | ir.GridLoop) -> Uniformity:
        """Returns which of the lanes that reach the statement agree on its condition or selector, or on all bounds, or
        on its limit.

        An ``else if`` is reached by the lanes that took no earlier link of the chain.
        """
        return self._conditions[id(stmt)]

    def iterations(self, stmt: ir.Loop) -> Uniformity:
        """Returns which of the lanes that enter the loop run the same iterations, considering breaks and continues."""
        return self._iterations[id(stmt)]

    def rounds(self, stmt: ir.Loop) -> Uniformity:
        """Returns the widest set of lanes all of which, or none, come to the end of each round of the loop.

        A lane that may have ended before counts as one that does not come.
        """
        return self._rounds[id(stmt)]


_CACHED: Final = "uniformity"


@kept_with_program(_CACHED)
def uniformity(program: Program) -> UniformityFacts:
    """Returns facts about every ``If``, ``Switch``, ``Loop`` and ``GridLoop`` of a program within the depth limits."""
    return _Analysis(program).facts()


def unmet_needs(program: Program) -> Iterator[UnmetNeed]:
    """Yields barriers and subgroup operations that the lanes concerned may not all reach together, in program order.

    The facts found on the way are cached on the program.
    """
    if _NEEDING.isdisjoint(node_facts(program).types):
        return
    analysis = _Analysis(program)
    program._cache[_CACHED] = analysis.facts()
    for need in analysis.needs:
        if analysis.level(need.flow) > need.most:
            yield UnmetNeed(need, after_end=False)
        elif analysis.level(need.ended) > need.most:
            yield UnmetNeed(need, after_end=True)


_NEEDING: Final = ir.EXCHANGING | {ir.Barrier, ir.GridLoop}
"""Statements and expressions that lanes must reach together."""
_FIXED: Final = ir.EXCHANGING | {ir.SubgroupLane, ir.Atomic}
"""Expressions whose level does not depend on the values of their operands."""
_SUBGROUP_LANES: Final = 32
_BY_BLOCKS: Final = frozenset({BinaryOp.DIV, BinaryOp.SHR, BinaryOp.BIT_AND, BinaryOp.LT, BinaryOp.GE})
"""Operators that give all numbers of a block one result, for a right side that is a multiple of its size."""


class _Graph:
    """Dependencies between versions.  The first nodes are the levels, in order."""

    def __init__(self) -> None:
        self._dependencies: list[set[int]] = [set() for _ in Uniformity]

    def node(self, dependencies: Iterable[int]) -> int:
        """Returns a node as divergent as the worst of ``dependencies``; an existing one where that is possible."""
        needed = set(dependencies)
        needed.discard(Uniformity.GRID)
        if not needed:
            return Uniformity.GRID
        if Uniformity.LANE in needed:
            return Uniformity.LANE
        return needed.pop() if len(needed) == 1 else self.open(needed)

    def open(self, dependencies: Iterable[int]) -> int:
        """Returns a node to which dependencies can be added."""
        self._dependencies.append(set(dependencies))
        return len(self._dependencies) - 1

    def add(self, node: int, dependencies: Iterable[int]) -> None:
        self._dependencies[node].update(dependencies)

    def levels(self) -> list[Uniformity]:
        """Returns the level of every node: the worst that it reaches."""
        dependents: list[list[int]] = [[] for _ in self._dependencies]
        for node, needed in enumerate(self._dependencies):
            for dependency in needed:
                dependents[dependency].append(node)
        levels = [Uniformity.GRID] * len(dependents)
        for level in (Uniformity.LANE, Uniformity.SUBGROUP, Uniformity.WORKGROUP):
            stack: list[int] = [level]
            while stack:
                node = stack.pop()
                if levels[node] is Uniformity.GRID:
                    levels[node] = level
                    stack += dependents[node]
        return levels


class Need(NamedTuple):
    """An operation that lanes must reach together: ``flow`` and ``ended`` may be no worse than ``most``.

    ``path`` is the position of its statement in the program.  ``is_value`` means that ``flow`` stands for a value on
    which the lanes must agree.
    """

    what: str
    most: Uniformity
    flow: int
    ended: int
    nodes: tuple[Node, ...]
    path: tuple[int, ...]
    is_value: bool = False


class UnmetNeed(NamedTuple):
    """A need that is not met.

    ``after_end`` means that the flow is uniform, but lanes may have ended before by a return or a trap.
    """

    need: Need
    after_end: bool


class _Version(NamedTuple):
    """The current value of a local, and the number of conditions around its declaration."""

    node: int
    depth: int


class _Exits:
    """The versions of some locals at the points where lanes leave a loop, or a round of it."""

    __slots__ = ("changed", "nodes")

    def __init__(self, names: Iterable[str]) -> None:
        self.nodes: dict[str, set[int]] = {name: set() for name in names}
        self.changed: set[str] = set(self.nodes)
        """The locals that have been changed since the last of these points."""

    def note(self, env: dict[str, _Version]) -> None:
        """Notes the versions at a point; costs as much as was changed since the last one."""
        for name in self.changed:
            self.nodes[name].add(env[name].node)
        self.changed.clear()


class _LoopState(NamedTuple):
    """A loop being walked: its depth among the conditions, and the versions of the locals that it assigns at its
    exits.
    """

    depth: int
    breaks: _Exits
    continues: _Exits


class _End(NamedTuple):
    """The end of a branch: the versions changed in it, whether it is reached, and the lanes that have ended by then."""

    changed: dict[str, int]
    alive: bool
    ended: int


class _Analysis:
    def __init__(self, program: Program) -> None:
        self._graph = _Graph()
        self._size = program.workgroup_size
        self._assigned = {s.name for s in ir.walk_statements(program.body) if isinstance(s, ir.Assign)}
        self._ids: dict[str, ir.Expr] = {}
        """Locals that are ids, and are not assigned."""
        self._constant = {b.name for b in program.buffers_by_name.values() if not b.is_writable}
        self._env: dict[str, _Version] = {}
        self._undo: list[tuple[str, _Version | None]] = []
        self._conditions: list[int] = []
        """One node per enclosing branch or loop."""
        self._flows: list[int] = [Uniformity.GRID]
        """One node per enclosing branch or loop, joined with those around it."""
        self._ended: int = Uniformity.GRID
        self._loops: list[_LoopState] = []
        self._in_grid_loop = False
        self._path: list[int] = []
        self._condition_of: dict[int, list[int]] = {}
        self._iterations_of: dict[int, list[int]] = {}
        self._rounds_of: dict[int, list[int]] = {}
        self.needs: list[Need] = []
        self._body(program.body, 0)
        self._levels = self._graph.levels()

    def level(self, node: int) -> Uniformity:
        return self._levels[node]

    def facts(self) -> UniformityFacts:
        def worst(nodes_of: dict[int, list[int]]) -> dict[int, Uniformity]:
            return {key: max(map(self.level, nodes)) for key, nodes in nodes_of.items()}

        return UniformityFacts(worst(self._condition_of), worst(self._iterations_of), worst(self._rounds_of))

    # Expressions.

    def _evaluate(self, stmt: ir.Stmt, roots: Iterable[ir.Expr]) -> set[int]:
        """Returns the nodes on which the expressions depend, and notes subgroup operations in them."""
        needed: set[int] = set()
        seen: set[tuple[int, bool]] = set()
        stack = [(root, True) for root in roots]
        while stack:
            expr, counts = stack.pop()
            if (id(expr), counts) in seen:
                continue
            seen.add((id(expr), counts))
            kind = type(expr)
            if kind in ir.EXCHANGING:
                self._need(f"`{FORMS[kind].word_of(expr)}`", Uniformity.SUBGROUP, expr, stmt)
            if counts:
                own = self._own_level(expr)
                if own is not None:
                    needed.add(own)
                    counts = kind not in _FIXED and kind is not ir.Load and kind is not ir.Binary
            stack += [(child, counts) for child in ir.children(expr)]
        return needed

    def _own_level(self, expr: ir.Expr) -> int | None:
        """Returns the level or version that the expression has besides its operands."""
        if isinstance(expr, ir.Var):
            version = self._env.get(expr.name)
            return None if version is None else version.node
        if isinstance(expr, ir.LaunchId):
            return self._id_level(expr)
        if isinstance(expr, ir.Binary):
            return Uniformity.SUBGROUP if self._is_by_blocks(expr) else None
        if isinstance(expr, ir.Load):
            return None if expr.buffer in self._constant else Uniformity.LANE
        if type(expr) not in _FIXED:
            return None
        return Uniformity.SUBGROUP if type(expr) in ir.EXCHANGING and ir.is_common(expr) else Uniformity.LANE

    def _has_axis(self, expr: ir.LaunchId) -> bool:
        return expr.axis in range(len(self._size))  # others are refused elsewhere

    def _id_level(self, expr: ir.LaunchId) -> Uniformity:
        if not self._has_axis(expr):
            return Uniformity.LANE
        if expr.kind in (ir.IdKind.NUM_GROUPS, ir.IdKind.GROUP) or self._size[expr.axis] == 1:
            return Uniformity.WORKGROUP if expr.kind in (ir.IdKind.GROUP, ir.IdKind.GLOBAL) else Uniformity.GRID
        return Uniformity.SUBGROUP if self._block(expr) == 1 else Uniformity.LANE

    def _block(self, expr: ir.LaunchId) -> int:
        """Returns the size of the aligned blocks of numbers, one of which the ids of a subgroup are in; 0: none."""
        size, before = self._size[expr.axis], prod(self._size[: expr.axis])
        if before % _SUBGROUP_LANES == 0:
            return 1
        block, rest = divmod(_SUBGROUP_LANES, before)
        is_last = expr.kind is ir.IdKind.LOCAL and prod(self._size[expr.axis + 1 :]) == 1
        return block if not rest and (size % block == 0 or is_last) else 0

    def _is_by_blocks(self, expr: ir.Binary) -> bool:
        """Returns whether an operation has one result for all ids of a subgroup, such as ``local_id // 32``."""
        left, right = expr.left, expr.right
        if isinstance(left, ir.Var):
            left = self._ids.get(left.name, left)
        if expr.op not in _BY_BLOCKS or not isinstance(left, ir.LaunchId) or not isinstance(right, ir.Literal):
            return False
        if not self._has_axis(left) or self._id_level(left) is not Uniformity.LANE:
            return False
        lanes, block = 1 << (right.bits & 31) if expr.op is BinaryOp.SHR else right.bits, self._block(left)
        return block > 0 and lanes % block == 0

    def _need(self, what: str, most: Uniformity, *nodes: Node) -> None:
        self.needs.append(Need(what, most, self._flows[-1], self._ended, nodes, tuple(self._path)))

    # Bodies.

    def _body(self, body: ir.Body, branch: int) -> bool:
        """Walks a body and returns whether its end is reached."""
        alive = True
        self._path += (branch, 0)
        for index, stmt in enumerate(body):
            self._path[-1] = index
            handler = _HANDLERS.get(type(stmt))
            if handler is not None:
                alive = handler(self, stmt) and alive
            else:
                self._evaluate(stmt, ir.operands(stmt))
        del self._path[-2:]
        return alive

    def _branch(self, body: ir.Body, branch: int, condition: int) -> _End:
        """Walks a body under a condition and undoes its effects on the locals."""
        mark, ended = len(self._undo), self._ended
        self._enter(condition)
        alive = self._body(body, branch)
        self._leave()
        declared = self._declared_since(mark)
        changed = {name: self._env[name].node for name, _ in self._undo[mark:] if name not in declared}
        result = _End(changed, alive, self._ended)
        self._rewind(mark)
        self._ended = ended
        return result

    def _enter(self, condition: int) -> None:
        self._conditions.append(condition)
        self._flows.append(self._graph.node((self._flows[-1], condition)))

    def _leave(self) -> None:
        self._conditions.pop()
        self._flows.pop()

    def _set(self, name: str, version: _Version) -> None:
        self._undo.append((name, self._env.get(name)))
        self._env[name] = version
        if self._loops:
            self._note_change(name)

    def _note_change(self, name: str) -> None:
        state = self._loops[-1]
        if name in state.breaks.nodes:
            state.breaks.changed.add(name)
            state.continues.changed.add(name)

    def _update(self, name: str, node: int) -> None:
        self._set(name, _Version(node, self._env[name].depth))

    def _declared_since(self, mark: int) -> set[str]:
        return {name for name, old in self._undo[mark:] if old is None}

    def _rewind(self, mark: int) -> None:
        for name, old in reversed(self._undo[mark:]):
            if old is None:
                del self._env[name]
            else:
                self._env[name] = old
                if self._loops:
                    self._note_change(name)
        del self._undo[mark:]

    # Statements; each returns whether the next one is reached.

    def _let(self, stmt: ir.Let) -> bool:
        node = self._graph.node(self._evaluate(stmt, (stmt.value,)))
        if stmt.name not in self._assigned:
            self._ids[stmt.name] = (
                self._ids.get(stmt.value.name, stmt.value) if isinstance(stmt.value, ir.Var) else stmt.value
            )
        self._set(stmt.name, _Version(node, len(self._conditions)))
        return True

    def _assign(self, stmt: ir.Assign) -> bool:
        needed = self._evaluate(stmt, (stmt.value,))
        version = self._env.get(stmt.name)
        if version is not None:
            self._update(stmt.name, self._graph.node(needed.union(self._conditions[version.depth :])))
        return True

    def _select(self, stmt: ir.If | ir.Switch) -> bool:
        """Walks all bodies of a branching statement; ``passed`` stands for all conditions evaluated so far."""
        passed = self._condition(stmt)
        ends: list[_End] = []
        for body, number, link in branches(stmt):
            if link is not None:
                self._path.append(number - 1)
                self._enter(passed)
                condition = self._condition(link)
                self._leave()
                self._path.pop()
                passed = self._graph.node((passed, condition))
            ends.append(self._branch(body, number, passed))
        self._ended = self._graph.node(end.ended for end in ends)
        open_ends = [end.changed for end in ends if end.alive]
        versions: dict[str, list[int]] = {}
        for changed in open_ends:
            for name, node in changed.items():
                versions.setdefault(name, []).append(node)
        for name, nodes in versions.items():
            if len(nodes) < len(open_ends):
                nodes.append(self._env[name].node)
            self._update(name, self._graph.node(nodes))
        return bool(open_ends)

    def _condition(self, stmt: ir.If | ir.Switch) -> int:
        condition = self._graph.node(self._evaluate(stmt, ir.operands(stmt)))
        self._condition_of.setdefault(id(stmt), []).append(condition)
        return condition

    def _loop(self, stmt: ir.Loop) -> bool:
        graph = self._graph
        bounds = graph.node(self._evaluate(stmt, (stmt.start, stmt.stop, stmt.step)))
        counter = graph.node(self._evaluate(stmt, (stmt.start, stmt.step)))
        iterations = graph.open((bounds,))
        self._condition_of.setdefault(id(stmt), []).append(bounds)
        self._iterations_of.setdefault(id(stmt), []).append(iterations)
        assigned = {s.name for s in ir.walk_statements(stmt.body) if isinstance(s, ir.Assign)}
        names = tuple(sorted(name for name in assigned if name in self._env))
        ended = graph.open((self._ended,))
        self._ended = ended
        heads = {name: graph.open((self._env[name].node,)) for name in names}
        for name, node in heads.items():
            self._update(name, node)
        mark = len(self._undo)
        state = _LoopState(len(self._conditions), _Exits(names), _Exits(names))
        self._loops.append(state)
        self._enter(iterations)
        self._set(stmt.var, _Version(counter, len(self._conditions)))
        if self._body(stmt.body, 0):
            state.continues.note(self._env)
        self._rounds_of.setdefault(id(stmt), []).extend((self._flows[-1], ended))
        self._leave()
        self._loops.pop()
        self._rewind(mark)
        for name, node in heads.items():
            graph.add(node, state.continues.nodes[name])
            self._update(name, graph.node((node, *state.breaks.nodes[name])))
        graph.add(ended, (self._ended,))
        self._ended = ended
        return True

    def _break(self, stmt: ir.Break | ir.Continue) -> bool:
        if self._loops:
            state = self._loops[-1]
            exits = state.breaks if isinstance(stmt, ir.Break) else state.continues
            exits.note(self._env)
            self._graph.add(self._conditions[state.depth], self._conditions[state.depth + 1 :])
        return False

    def _end(self, stmt: ir.Return | ir.Trap) -> bool:
        self._evaluate(stmt, ir.operands(stmt))
        self._ended = self._graph.node((self._ended, self._flows[-1]))
        return False

    def _scope(self, stmt: ir.Block | ir.Region | ir.GridLoop) -> bool:
        mark = len(self._undo)
        alive = self._body(stmt.body, 0)
        declared = self._declared_since(mark)
        for name in declared:
            del self._env[name]
        self._undo[mark:] = [entry for entry in self._undo[mark:] if entry[0] not in declared]
        return alive

    def _barrier(self, stmt: ir.Barrier) -> bool:
        if stmt.ordering is not Ordering.GRID_SYNC:
            self._need("barrier", Uniformity.WORKGROUP, stmt)
        elif self._in_grid_loop:
            self._need("grid barrier", Uniformity.GRID, stmt)
        return True

    def _grid_loop(self, stmt: ir.GridLoop) -> bool:
        """Walks the body once: no local that a round changes lives into the next one."""
        limit = self._graph.node(self._evaluate(stmt, (stmt.limit,)))
        self._condition_of.setdefault(id(stmt), []).append(limit)
        self.needs.append(
            Need(
                "limit of a grid loop",
                Uniformity.GRID,
                limit,
                Uniformity.GRID,
                (stmt,),
                tuple(self._path),
                is_value=True,
            )
        )
        around, self._in_grid_loop = self._in_grid_loop, True
        self._scope(stmt)
        self._in_grid_loop = around
        self._set(stmt.name, _Version(Uniformity.GRID, len(self._conditions)))
        return True


_HANDLERS: Final[dict[type[Node], Callable[[_Analysis, Any], bool]]] = {
    ir.Let: _Analysis._let,
    ir.Assign: _Analysis._assign,
    ir.If: _Analysis._select,
    ir.Switch: _Analysis._select,
    ir.Loop: _Analysis._loop,
    ir.Break: _Analysis._break,
    ir.Continue: _Analysis._break,
    ir.Return: _Analysis._end,
    ir.Trap: _Analysis._end,
    ir.Block: _Analysis._scope,
    ir.Region: _Analysis._scope,
    ir.Barrier: _Analysis._barrier,
    ir.GridLoop: _Analysis._grid_loop,
}
