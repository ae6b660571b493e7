"""The phases of statements: the accesses to memory that all lanes of a workgroup make before the next one begins.

A loop over the vectors of lanes may run several phases of each vector before it turns to the next vector, as long as
no buffer that one of them writes is touched by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import with_bodies, with_children, with_operands
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import operands_first

_U32: Final = ScalarType.U32
_MANY: Final = 2
"""The number of phases from which on their exact number does not matter."""


class Accesses:
    """The number of phases that touch each buffer, and the buffers that are written."""

    __slots__ = ("counts", "written")

    def __init__(self) -> None:
        self.counts: Final[dict[str, int]] = {}
        self.written: Final[set[str]] = set()

    def touch(self, buffer: str, *, writes: bool) -> None:
        """Adds a phase."""
        self.counts[buffer] = min(_MANY, self.counts.get(buffer, 0) + 1)
        if writes:
            self.written.add(buffer)

    def add(self, other: Accesses, times: int = 1) -> None:
        """Adds the phases of another part of the program, which runs so many times."""
        for buffer, count in other.counts.items():
            self.counts[buffer] = min(_MANY, self.counts.get(buffer, 0) + times * count)
        self.written.update(other.written)

    @property
    def conflicts(self) -> frozenset[str]:
        """Returns the buffers for which it matters that every phase ends before the next one begins."""
        return frozenset(buffer for buffer in self.written if self.counts[buffer] > 1)

    def clashes(self, other: Accesses) -> bool:
        """Returns whether a buffer that one of two parts writes is touched by the other."""
        return any(buffer in other.counts for buffer in self.written) or any(
            buffer in self.counts for buffer in other.written
        )


class Phases:
    """The accesses of the statements of a program, and the ends of lanes in them."""

    def __init__(self, program: Program, *, counting: bool) -> None:
        self._private: Final = frozenset(b.name for b in program.buffers if b.is_private)
        statements = tuple(ir.walk_statements(program.body))
        touched = (use for stmt in statements for use in accesses(stmt) if use.touch is not Touch.READ)
        self._written: Final = {use.buffer for use in touched} - self._private
        self._copies: Final[dict[str, list[ir.AsyncLoad | ir.AsyncStore]]] = {}
        for stmt in statements:
            if isinstance(stmt, ir.AsyncLoad | ir.AsyncStore):
                self._copies.setdefault(stmt.tag, []).append(stmt)
        self._of: Final[dict[int, Accesses]] = {}
        self._ended: Final[set[int]] = set()
        self._left: Final[set[int]] = set()
        for stmt in reversed(statements):
            self._collect(stmt, counting=counting)

    def of(self, stmt: ir.Stmt) -> Accesses:
        """Returns the phases of a statement, those of the statements in it included."""
        return self._of[id(stmt)]

    def head(self, stmt: ir.Stmt) -> Accesses:
        """Returns the phases of the expressions of a statement."""
        return self.read(ir.operands(stmt))

    def own(self, stmt: ir.Stmt) -> Accesses:
        """Returns the phases of the statement itself, those of its expressions left out."""
        touched = Accesses()
        match stmt:
            case ir.Store(buffer):
                self._touch(touched, buffer, writes=True)
            case ir.AsyncLoad() | ir.AsyncStore():
                self._touch(touched, stmt.source, writes=False)
            case ir.AsyncWait(tag):
                for copy in self._copies.get(tag, ()):
                    self._touch(touched, copy.source, writes=False)
                    self._touch(touched, copy.destination, writes=True)
        return touched

    def read(self, roots: Iterable[ir.Expr]) -> Accesses:
        """Returns the phases of expressions; what is shared counts at every use."""
        touched, known = Accesses(), dict[int, Accesses]()
        for root in roots:
            for expr in operands_first(root, known):
                known[id(expr)] = self._node(expr, known)
            touched.add(known[id(root)])
        return touched

    def ends_lanes(self, stmt: ir.Stmt) -> bool:
        """Returns whether lanes may end in a statement."""
        return id(stmt) in self._ended

    def loses_lanes(self, body: ir.Body) -> bool:
        """Returns whether fewer lanes may reach the end of a body than its start."""
        return any(id(stmt) in self._ended or id(stmt) in self._left for stmt in body)

    def _node(self, expr: ir.Expr, known: dict[int, Accesses]) -> Accesses:
        touched = Accesses()
        for child in ir.children(expr):
            touched.add(known[id(child)])
        if isinstance(expr, ir.Load | ir.Atomic):
            self._touch(touched, expr.buffer, writes=isinstance(expr, ir.Atomic))
        return touched

    def _touch(self, touched: Accesses, buffer: str, *, writes: bool) -> None:
        if buffer in self._written:
            touched.touch(buffer, writes=writes)

    def _collect(self, stmt: ir.Stmt, *, counting: bool) -> None:
        touched = self.own(stmt)
        touched.add(self.read(ir.operands(stmt)))
        is_loop = isinstance(stmt, ir.Loop)
        ends = isinstance(stmt, ir.Return | ir.Trap) or (is_loop and counting)
        leaves = isinstance(stmt, ir.Break | ir.Continue)
        for body in ir.bodies(stmt):
            for inner in body:
                touched.add(self._of[id(inner)], _MANY if is_loop else 1)
                ends = ends or id(inner) in self._ended
                leaves = leaves or (not is_loop and id(inner) in self._left)
        self._of[id(stmt)] = touched
        if ends:
            self._ended.add(id(stmt))
        if leaves:
            self._left.add(id(stmt))


def split(program: Program) -> Program:
    """Returns the program with statements of which no phase must wait for another of the same statement.

    Loads and atomics that must are locals of their own, in the order of evaluation.
    """
    return replace(program, body=_Splitter(program).body(program.body))


class _Splitter:
    def __init__(self, program: Program) -> None:
        self._phases: Final = Phases(program, counting=False)
        self._names: Final = {
            stmt.var if isinstance(stmt, ir.Loop) else stmt.name
            for stmt in ir.walk_statements(program.body)
            if isinstance(stmt, ir.Let | ir.Loop)
        }
        self._count = 0

    def body(self, body: ir.Body) -> ir.Body:
        return tuple(part for stmt in body for part in self._statement(stmt))

    def _name(self) -> str:
        while True:
            self._count += 1
            name = f"phase {self._count}"
            if name not in self._names:
                return name

    def _statement(self, stmt: ir.Stmt) -> list[ir.Stmt]:
        if isinstance(stmt, ir.If):
            return self._if(stmt)
        before, parts = self._split(stmt, ir.operands(stmt))
        return [*before, with_bodies(with_operands(stmt, parts), self.body)]

    def _if(self, stmt: ir.If) -> list[ir.Stmt]:
        links, otherwise = ir.if_chain(stmt)
        if any(self._phases.read((link.condition,)).conflicts for link in links[1:]):
            return [self._numbered(links, otherwise)]
        before, (condition,) = self._split(stmt, (stmt.condition,))
        rest = self.body(otherwise)
        for link in reversed(links[1:]):
            rest = (replace(link, then=self.body(link.then), otherwise=rest),)
        return [*before, replace(stmt, condition=condition, then=self.body(stmt.then), otherwise=rest)]

    def _numbered(self, links: tuple[ir.If, ...], otherwise: ir.Body) -> ir.Stmt:
        """Returns a chain as a sequence: a local tells the lanes' link, and is 0 for those that have none yet."""
        name = self._name()

        def chosen(number: int) -> ir.Expr:
            return ir.Binary(BinaryOp.EQ, ir.Var(name), ir.Literal(_U32, number))

        parts: list[ir.Stmt] = [ir.Let(name, ir.Literal(_U32, 0))]
        for number, link in enumerate(links, 1):
            before, (condition,) = self._split(link, (link.condition,))
            value = ir.Select(condition, ir.Literal(_U32, number), ir.Literal(_U32, 0))
            parts.append(ir.If(chosen(0), (*before, ir.Assign(name, value)), loc=link.loc))
            parts.append(ir.If(chosen(number), self.body(link.then), loc=link.loc))
        parts.append(ir.If(chosen(0), self.body(otherwise)))
        return ir.Block(tuple(parts))

    def _split(self, stmt: ir.Stmt, roots: tuple[ir.Expr, ...]) -> tuple[list[ir.Stmt], tuple[ir.Expr, ...]]:
        """Returns locals for the accesses in a statement's expressions that must be apart, and the new expressions."""
        accesses = self._phases.own(stmt)
        accesses.add(self._phases.read(roots))
        apart = accesses.conflicts
        if not apart:
            return [], roots
        locals_: list[ir.Stmt] = []
        known: dict[int, ir.Expr] = {}
        atomics = 0

        def new(expr: ir.Expr, *, is_root: bool = False) -> ir.Expr:
            nonlocal atomics
            done = known.get(id(expr))
            if done is not None:
                return done
            earlier = atomics
            rewritten = with_children(expr, list(map(new, ir.children(expr))))
            if isinstance(expr, ir.Atomic):
                known.clear()
                atomics += 1
            if isinstance(expr, ir.Load | ir.Atomic) and expr.buffer in apart and not is_root:
                name = self._name()
                locals_.append(ir.Let(name, rewritten, loc=stmt.loc))
                rewritten = ir.Var(name)
            if atomics == earlier:
                known[id(expr)] = rewritten
            return rewritten

        keeps_root = isinstance(stmt, ir.Let | ir.Assign)
        return locals_, tuple(new(root, is_root=keeps_root) for root in roots)
