"""A walk that knows when each local and each buffer last changed on the way to a statement (``FlowRewriter``).

The locals and buffers on which the value of an expression depends are found once for each node, operands first.

A fact that was found at one statement holds at a later one if nothing on which it depends has changed on any path
between them.  Times are numbers of changes.  A body of a branch starts from the times before the branch, and what any
of the bodies changed counts as changed after it.  A loop changes at its head, and again at its end, all that its body
changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.expr import CHILDREN, IMPURE, LEAVES, Expr, Load, Var
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Assign, walk_statements
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.purity import containing
from vyre.domain.optimize.walking import Rewriter

Key: TypeAlias = str | tuple[str] | None
"""A change: a local by its name, a buffer by a tuple of its name, or ``FENCE``."""
FENCE: Final = None
"""What changes where other lanes may have written: at barriers, atomics and asynchronous copies."""
_FENCES: Final = (ir.Barrier, ir.AsyncLoad, ir.AsyncStore, ir.AsyncWait, ir.GridLoop)


class FlowRewriter(Rewriter):
    """A walk over a program in which every local has a name of its own."""

    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self.times: dict[Key, int] = {}
        """When what has changed last did; what is missing has not changed."""
        self.clock: int = 0
        self._atomics = containing(program, ir.ATOMICS)
        self._log: list[tuple[Key, int]] = []
        self._joined: list[dict[Key, None]] = []
        self._changes: list[Key] = []
        self._spans: dict[int, tuple[int, int]] = {}
        """The part of ``_changes`` that belongs to each loop, by identity."""
        self._collect(program.body)

    # ---- changes
    def time(self, key: Key) -> int:
        """Returns when something last changed; 0: not yet."""
        return self.times.get(key, 0)

    def touch(self, key: Key) -> None:
        """Notes that something changes."""
        self.clock += 1
        self._log.append((key, self.times.get(key, 0)))
        self.times[key] = self.clock

    def is_unchanged(self, keys: Iterable[Key], since: int) -> bool:
        """Returns whether none of these has changed after a time."""
        times = self.times
        return all(times.get(key, 0) <= since for key in keys)

    def has_atomic(self, stmt: ir.Stmt) -> bool:
        """Returns whether an operand of a statement of the source contains an atomic."""
        return bool(self._atomics) and any(id(expr) in self._atomics for expr in ir.OPERANDS[type(stmt)](stmt))

    def _collect(self, body: ir.Body) -> None:
        """Lists the changes of a body and its parts in program order."""
        for stmt in body:
            if isinstance(stmt, ir.If):
                links, last = ir.if_chain(stmt)
                for link in links:
                    self._note(link)
                    self._collect(link.then)
                self._collect(last)
                continue
            self._note(stmt)
            start = len(self._changes)
            for inner in ir.bodies(stmt):
                self._collect(inner)
            if isinstance(stmt, ir.Loop | ir.GridLoop):
                self._spans[id(stmt)] = start, len(self._changes)

    def _note(self, stmt: ir.Stmt) -> None:
        key = changed_by(stmt)
        if key is not FENCE or isinstance(stmt, _FENCES):
            self._changes.append(key)
        if self.has_atomic(stmt):
            self._changes.append(FENCE)

    # ---- flow
    def begin_branches(self) -> None:
        self._joined.append({})

    def branch(self, body: ir.Body) -> ir.Body:
        mark = len(self._log)
        rewritten = self.body(body)
        changed = self._joined[-1]
        for key, old in reversed(self._log[mark:]):
            self.times[key] = old
            changed[key] = None
        del self._log[mark:]
        return rewritten

    def end_branches(self) -> None:
        for key in self._joined.pop():
            self.touch(key)

    def repeated(self, stmt: ir.Loop | ir.GridLoop) -> ir.Body:
        start, end = self._spans[id(stmt)]
        changed = dict.fromkeys(self._changes[start:end])
        if isinstance(stmt, ir.GridLoop):
            changed[FENCE] = None
        for key in changed:
            self.touch(key)
        mark = len(self._log)
        rewritten = self.loop_body(stmt)
        del self._log[mark:]
        for key in changed:
            self.touch(key)
        return rewritten

    def loop_body(self, stmt: ir.Loop | ir.GridLoop) -> ir.Body:
        """Returns what the body of a loop becomes, whose changes have been noted."""
        return self.body(stmt.body)

    # ---- statements
    def evaluated(self, stmt: ir.Stmt) -> None:
        if self.has_atomic(stmt):
            self.touch(FENCE)

    def plain(self, stmt: ir.Stmt) -> None:
        super().plain(stmt)
        key = changed_by(stmt)
        if key is not FENCE or isinstance(stmt, _FENCES):
            self.touch(key)

    def link(self, link: ir.If) -> ir.Expr:
        condition = super().link(link)
        self.evaluated(link)
        return condition


def changed_by(stmt: ir.Stmt) -> Key:
    """Returns what a statement without a body changes: the local or the buffer that it writes."""
    if isinstance(stmt, ir.Assign):
        return stmt.name
    return (stmt.buffer,) if isinstance(stmt, ir.Store) else FENCE


_NOTHING: Final[frozenset[Key]] = frozenset()
_MOST: Final = 16
"""An expression that depends on more changing things than these is never moved, so that the sets stay small."""


class Dependences(NamedTuple):
    """Facts about an expression.

    ``changing``: the locals, buffers and fences on which its value depends; None: it is not to be moved.  ``height`` is
    0 for an expression without operands.  ``loads``: it reads memory.
    """

    changing: frozenset[Key] | None
    height: int
    loads: bool


_LEAF: Final = Dependences(_NOTHING, 0, False)


_CONSTANT: Final[frozenset[type]] = (LEAVES - {Var}) | {type(None)}
"""Operands that depend on nothing; None is the absent one of an atomic."""


def _union(a: frozenset[Key] | None, b: frozenset[Key] | None) -> frozenset[Key] | None:
    if a is None or b is None:
        return None
    joined = a | b
    return joined if len(joined) <= _MOST else None


class DependenceFacts:
    """The dependences of expressions of one program in which every local has a name of its own."""

    def __init__(self, program: Program) -> None:
        self.assigned: frozenset[str] = frozenset(
            stmt.name for stmt in walk_statements(program.body) if type(stmt) is Assign
        )
        """The locals that the program assigns."""
        self._buffers = program.buffers_by_name
        self._written = written_buffers(program)
        self._memory: dict[str, frozenset[Key]] = {}
        self._known: dict[int, tuple[Expr, Dependences]] = {}

    def of(self, expr: Expr) -> Dependences:
        """Returns the facts of an expression; its operands must have been asked for before."""
        entry = self._known.get(id(expr))
        if entry is not None:
            return entry[1]
        kind = type(expr)
        if kind in LEAVES:
            if kind is not Var or expr.name not in self.assigned:  # type: ignore[union-attr]
                return _LEAF
            facts = Dependences(frozenset((expr.name,)), 0, False)  # type: ignore[union-attr]
        else:
            facts = self._found(expr)
        self._known[id(expr)] = expr, facts
        return facts

    def _found(self, expr: Expr) -> Dependences:
        changing: frozenset[Key] | None = _NOTHING
        kind = type(expr)
        height, loads = 0, kind is Load
        for operand in CHILDREN[kind](expr):
            if type(operand) in _CONSTANT:
                continue
            below = self.of(operand)
            if below is _LEAF:
                continue
            if below.changing is not changing:
                changing = _union(changing, below.changing)
            if below.height > height:
                height = below.height
            loads = loads or below.loads
        if type(expr) is Load:
            if expr.buffer in self._written:
                changing = _union(changing, self.memory(expr.buffer))
        elif kind in IMPURE:
            changing = None
        return Dependences(changing, height + 1, loads)

    def memory(self, buffer: str) -> frozenset[Key]:
        """Returns the changes on which an element of a buffer depends; none if the program does not write it."""
        keys = self._memory.get(buffer)
        if keys is None:
            keys = _NOTHING
            if buffer in self._written:
                private = self._buffers[buffer].is_private
                keys = frozenset(((buffer,),)) if private else frozenset(((buffer,), FENCE))
            self._memory[buffer] = keys
        return keys


def written_buffers(program: Program) -> frozenset[str]:
    """Returns the names of the buffers to which any statement of a program may write."""
    return frozenset(
        use.buffer for stmt in walk_statements(program.body) for use in accesses(stmt) if use.touch is not Touch.READ
    )
