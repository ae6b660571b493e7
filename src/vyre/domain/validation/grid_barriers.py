"""Rules on values that live across a grid barrier, which let a program be split there into launches."""

from __future__ import annotations

from typing import Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.branches import branches
from vyre.domain.ir.node import Node
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Access, Program
from vyre.domain.ir.walk import containers, of_this_loop, unique_nodes
from vyre.domain.scoped_names import ScopedNames
from vyre.domain.validation.findings import Findings, Path

_MEMORY: Final = {Access.WORKGROUP: "workgroup memory", Access.PRIVATE: "private memory"}


def is_grid_barrier(stmt: ir.Stmt) -> bool:
    """Returns whether a statement is a barrier of the whole grid."""
    return isinstance(stmt, ir.Barrier) and stmt.ordering is Ordering.GRID_SYNC


def splits_grid(stmt: ir.Stmt) -> bool:
    """Returns whether a statement is a barrier of the whole grid, or a grid loop, which has such barriers."""
    return isinstance(stmt, ir.GridLoop) or is_grid_barrier(stmt)


def check_grid_barriers(program: Program, findings: Findings) -> None:
    """Reports grid barriers, grid loops, locals, and workgroup and private memory that prevent splitting the
    program.
    """
    kinds = node_facts(program).types
    if ir.GridLoop in kinds or (ir.Barrier in kinds and any(map(is_grid_barrier, ir.walk_statements(program.body)))):
        _GridBarriers(program, findings)


class _Declaration:
    """A local of a scope that grid barriers can split."""

    __slots__ = ("is_assigned", "name", "needs", "path", "segment", "stmt", "survives", "unstable")

    def __init__(self, stmt: ir.Let | ir.GridLoop | ir.Loop, segment: int, path: Path) -> None:
        self.stmt = stmt
        self.name = stmt.var if isinstance(stmt, ir.Loop) else stmt.name
        self.segment = segment
        self.path = path
        self.needs: list[_Declaration] = []
        self.survives = False
        """Whether it is used in a later segment."""
        self.is_assigned = False
        self.unstable: str | None = None
        """The reason why it cannot be computed again, or None."""


class _GridBarriers:
    """One traversal in program order that counts grid barriers."""

    def __init__(self, program: Program, findings: Findings) -> None:
        self._findings = findings
        self._written = {
            buffer
            for stmt in ir.walk_statements(program.body)
            for buffer, touch in accesses(stmt)
            if touch is not Touch.READ
        }
        self._unbound = {buffer.name: _MEMORY[buffer.access] for buffer in program.buffers if not buffer.is_bound}
        """The kinds of memory, in words, of the buffers that start at zero in every segment."""
        self._home: dict[str, int] = {}
        """The segment in which each of these buffers was first accessed."""
        self._segment = 0
        self._ended: ir.Stmt | None = None
        self._flag: str | None = None
        """The flag of the grid loop around the statement."""
        self._split = containers(program.body, splits_grid)
        self._branching = False
        """Whether a branch with grid barriers is around the statement."""
        self._visible: ScopedNames[_Declaration] = ScopedNames()
        self._declarations: list[_Declaration] = []
        self._path: list[int] = []
        self._scope(program.body)
        self._report_unstable()

    def _error(self, code: str, message: str, stmt: Node) -> None:
        self._findings.add(code, message, stmt, path=tuple(self._path))

    def _scope(self, body: ir.Body, branch: int = 0) -> None:
        """Checks a body that grid barriers may split."""
        mark = self._visible.mark
        self._path += (branch, 0)
        for index, stmt in enumerate(body):
            self._path[-1] = index
            self._use(stmt)
            match stmt:
                case ir.Let():
                    self._declare(stmt)
                case ir.Block(nested) | ir.Region(body=nested):
                    self._scope(nested)
                case ir.GridLoop():
                    self._grid_loop(stmt)
                case ir.If() | ir.Switch() if self._flag is not None and id(stmt) in self._split:
                    self._split_branches(stmt)
                case ir.If() | ir.Switch():
                    self._branches(stmt)
                case ir.Loop() if self._flag is not None and id(stmt) in self._split and not self._branching:
                    self._split_loop(stmt)
                case ir.Loop(body=nested):
                    self._inside(nested, 0)
                case ir.Barrier(Ordering.GRID_SYNC):
                    self._cut(stmt)
                case _:
                    pass
        del self._path[-2:]
        self._visible.leave(mark)

    def _split_loop(self, stmt: ir.Loop) -> None:
        """Checks a loop with grid barriers, of which all lanes of the grid run the same rounds.

        Its bounds are evaluated in every segment, and its variable is computed from them.
        """
        self._cut(stmt)
        self._use(stmt)
        self._segment += 1
        if any(isinstance(inner, ir.Break | ir.Continue) for inner in of_this_loop(stmt.body)):
            self._error("V207", "a loop with grid barriers has a `break` or `continue`", stmt)
        for inner in ir.walk_statements(stmt.body):
            memory = {use.buffer for use in accesses(inner)} & self._unbound.keys()
            for buffer in sorted(memory):
                kind = self._unbound[buffer]
                self._error("V209", f"{kind} `{buffer}` is accessed in a loop with grid barriers", stmt)
        mark = self._visible.mark
        variable = _Declaration(stmt, self._segment, tuple(self._path))
        names = [node.name for node in unique_nodes((stmt.start, stmt.step)) if isinstance(node, ir.Var)]
        variable.needs += (self._visible[name] for name in names if name in self._visible)
        self._visible.declare(stmt.var, variable)
        self._declarations.append(variable)
        self._scope(stmt.body)
        self._visible.leave(mark)
        self._cut(stmt)
        self._use(stmt)
        self._segment += 1

    def _grid_loop(self, stmt: ir.GridLoop) -> None:
        """Checks a grid loop, whose limit is evaluated in a segment of its own."""
        if self._flag is not None:
            self._error("V207", "grid loop inside a grid loop", stmt)
        self._cut(stmt)
        self._use(stmt)
        self._segment += 1
        around, self._flag = self._flag, stmt.flag
        self._scope(stmt.body)
        self._flag = around
        self._cut(stmt)
        self._declare(stmt)

    def _split_branches(self, stmt: ir.If | ir.Switch) -> None:
        """Checks branches in which all lanes of the grid go the same way, and of which one has a grid barrier.

        The parts of all branches up to their first barriers form one segment, those up to the second ones the next.
        The conditions are evaluated in each of them.
        """
        first = last = self._segment
        around, self._branching = self._branching, True
        for body, number, link in branches(stmt):
            if link is not None:
                self._use(link)
            self._segment = first
            self._scope(body, number)
            last = max(last, self._segment)
        self._branching = around
        self._segment = last
        self._use(stmt)
        for _, _, link in branches(stmt):
            if link is not None:
                self._use(link)

    def _inside(self, body: ir.Body, branch: int) -> None:
        """Checks a body under an ``if``, a ``switch`` or a loop, where no grid barrier is allowed."""
        self._path += (branch, 0)
        for index, stmt in enumerate(body):
            self._path[-1] = index
            self._use(stmt)
            if is_grid_barrier(stmt):
                self._error("V207", "grid barrier inside an `if`, a `switch` or a loop", stmt)
            match stmt:
                case ir.If() | ir.Switch():
                    self._branches(stmt)
                case ir.GridLoop(body=nested):
                    self._error("V207", "grid loop inside an `if`, a `switch` or a loop", stmt)
                    self._inside(nested, 0)
                case ir.Loop(body=nested) | ir.Block(nested) | ir.Region(body=nested):
                    self._inside(nested, 0)
                case _:
                    pass
        del self._path[-2:]

    def _branches(self, stmt: ir.If | ir.Switch) -> None:
        for body, number, link in branches(stmt):
            if link is not None:
                self._path.append(number - 1)
                self._use(link)
                self._path.pop()
            self._inside(body, number)

    def _cut(self, stmt: ir.Barrier | ir.GridLoop | ir.Loop) -> None:
        self._segment += 1
        if self._ended is not None:
            word = "return" if isinstance(self._ended, ir.Return) else "trap"
            what = "grid barrier" if isinstance(stmt, ir.Barrier) else "the barriers of a grid loop"
            self._error("V210", f"{what} after a {word}", stmt)

    def _declare(self, stmt: ir.Let | ir.GridLoop) -> None:
        declaration = _Declaration(stmt, self._segment, tuple(self._path))
        for node in unique_nodes((stmt.value,) if isinstance(stmt, ir.Let) else ()):
            if isinstance(node, ir.Var) and node.name in self._visible:
                declaration.needs.append(self._visible[node.name])
            elif declaration.unstable is None:
                declaration.unstable = self._instability(node)
        self._visible.declare(stmt.name, declaration)
        self._declarations.append(declaration)

    def _instability(self, node: Node) -> str | None:
        if isinstance(node, ir.Atomic):
            return f"it depends on an atomic on `{node.buffer}`"
        if type(node) in ir.EXCHANGING:
            return "it depends on a subgroup operation"
        if isinstance(node, ir.Load) and node.buffer in self._unbound:
            return f"it depends on {self._unbound[node.buffer]} `{node.buffer}`"
        if isinstance(node, ir.Load) and node.buffer in self._written:
            return f"it depends on `{node.buffer}`, which the program writes"
        return None

    def _use(self, stmt: ir.Stmt) -> None:
        """Notes the locals and the memory that the statement itself uses."""
        names = [node.name for node in unique_nodes(ir.operands(stmt)) if isinstance(node, ir.Var)]
        if isinstance(stmt, ir.Assign):
            names.append(stmt.name)
        elif isinstance(stmt, ir.Return | ir.Trap):
            self._ended = stmt
        for name in names:
            declaration = self._visible.get(name)
            if declaration is not None:
                declaration.survives |= declaration.segment < self._segment
                declaration.is_assigned |= isinstance(stmt, ir.Assign) and name == stmt.name
        for buffer, touch in () if isinstance(stmt, ir.GridLoop) else accesses(stmt):
            if buffer == self._flag and not self._may_touch_flag(stmt, touch):
                self._error("V222", f"the body of a grid loop reads or copies its flag `{buffer}`", stmt)
            if buffer in self._unbound and self._home.setdefault(buffer, self._segment) != self._segment:
                message = f"{self._unbound[buffer]} `{buffer}` is accessed before and after a grid barrier"
                self._error("V209", message, stmt)
                self._home[buffer] = self._segment

    def _may_touch_flag(self, stmt: ir.Stmt, touch: Touch) -> bool:
        return touch is Touch.ATOMIC or (touch is Touch.WRITE and isinstance(stmt, ir.Store))

    def _report_unstable(self) -> None:
        for declaration in self._declarations:
            name, reason = declaration.name, declaration.unstable
            if declaration.is_assigned:
                reason = "it is assigned"
            for needed in declaration.needs:
                if reason is None and needed.unstable is not None:
                    reason = f"it depends on `{needed.name}`, which cannot either"
            declaration.unstable = reason
            if declaration.survives and reason is not None:
                message = f"local `{name}` is used after a grid barrier but cannot be computed again: {reason}"
                self._findings.add("V208", message, declaration.stmt, path=declaration.path)
