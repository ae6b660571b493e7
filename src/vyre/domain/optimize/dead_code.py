"""Dead code: what no lane runs, and what no lane and no caller can see, is left out.

That is: statements that cannot be reached, where branches on literals are decided; locals that nothing reads, and
assignments that are overwritten before they are read, on every path; stores to private or workgroup memory that nothing
reads; stores that the same lane overwrites at the same index before any load, barrier, atomic, copy or end of the lane;
branches and loops in which nothing is left.  Atomics and subgroup operations are never left out.  A first assignment
that nothing precedes becomes the declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import same_statements, with_body, with_branches
from vyre.domain.ir.walk import operands_first
from vyre.domain.optimize.passes import Counts, Pass
from vyre.domain.optimize.purity import containing
from vyre.domain.optimize.walking import linked, with_unique_locals


class Reached(NamedTuple):
    """Statements, and whether no lane comes to their end."""

    body: ir.Body
    ends: bool


def reached(body: ir.Body, counts: Counts) -> ir.Body:
    """Returns the body of a program without statements that never run, and without blocks.

    Locals must have names of their own.  Counts ``unreachable`` statements, ``decided`` branches and ``opened`` blocks.
    """
    rest = _Reach(counts).body(body).body
    return rest[:-1] if rest and type(rest[-1]) is ir.Return else rest


class _Reach:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def body(self, body: ir.Body) -> Reached:
        out: list[ir.Stmt] = []
        for index, stmt in enumerate(body):
            if type(stmt) in ir.LEAVING:
                out.append(stmt)
                ends = True
            else:
                ends = self._statement(stmt, out)
            if ends:
                self._counts["unreachable"] += len(body) - index - 1
                return Reached(same_statements(body, out), True)
        return Reached(same_statements(body, out), False)

    def _statement(self, stmt: ir.Stmt, out: list[ir.Stmt]) -> bool:
        """Adds what a statement becomes to ``out``; returns whether no lane comes to its end."""
        match stmt:
            case ir.If():
                return self._if(stmt, out)
            case ir.Switch():
                return self._switch(stmt, out)
            case ir.Block():
                self._counts["opened"] += 1
                return self._splice(self.body(stmt.body), out)
            case ir.Region():
                inner = self.body(stmt.body)
                out.append(with_body(stmt, inner.body))
                return inner.ends
            case ir.Loop():
                self._loop(stmt, out)
            case ir.GridLoop():
                out.append(with_body(stmt, self.body(stmt.body).body))
            case _:
                out.append(stmt)
        return False

    def _splice(self, inner: Reached, out: list[ir.Stmt]) -> bool:
        out += inner.body
        return inner.ends

    def _if(self, stmt: ir.If, out: list[ir.Stmt]) -> bool:
        links, last = ir.if_chain(stmt)
        kept: list[tuple[ir.If, Reached]] = []
        for link in links:
            if type(link.condition) is not ir.Literal:
                kept.append((link, self.body(link.then)))
                continue
            self._counts["decided"] += 1
            if link.condition.bits:
                last = link.then
                break
        rest = self.body(last)
        if not kept:
            return self._splice(rest, out)
        ends = rest.ends and all(then.ends for _, then in kept)
        otherwise = rest.body
        for link, then in reversed(kept):
            otherwise = (linked(link, link.condition, then.body, otherwise),)
        out += otherwise
        return ends

    def _switch(self, stmt: ir.Switch, out: list[ir.Stmt]) -> bool:
        selector = stmt.selector
        if type(selector) is ir.Literal:
            self._counts["decided"] += 1
            chosen = [arm.body for arm in stmt.arms if any(label.bits == selector.bits for label in arm.labels)]
            return self._splice(self.body(chosen[0] if chosen else stmt.default), out)
        arms = [self.body(arm.body) for arm in stmt.arms]
        default = self.body(stmt.default)
        out.append(with_branches(stmt, [arm.body for arm in arms], default.body))
        return default.ends and all(arm.ends for arm in arms)

    def _loop(self, stmt: ir.Loop, out: list[ir.Stmt]) -> None:
        if ir.literal_rounds(stmt) == 0:
            self._counts["decided"] += 1
            return
        body = self.body(stmt.body).body
        while body and type(body[-1]) is ir.Continue:
            body = body[:-1]
            self._counts["unreachable"] += 1
        out.append(with_body(stmt, body))


def remove_dead_code(program: Program, counts: Counts) -> Program:
    """Returns the program without dead code.

    Counts what ``reached`` does, ``unread`` locals, ``unread_assignments``, ``unread_stores``, ``overwritten`` stores,
    ``empty`` branches and loops, and ``declared`` assignments that became declarations.
    """
    unique = with_unique_locals(program)
    body = reached(unique.body, counts)
    live = _Liveness(replace(unique, body=body) if body is not unique.body else unique, counts)
    remaining = live.body(body)
    return program if remaining is unique.body else replace(unique, body=remaining)


DEAD_CODE: Final = Pass("dead_code", 1, remove_dead_code)


class _Reads:
    """The locals that are assigned somewhere, and the buffers, that expressions read: sets of bits of an int."""

    def __init__(self, program: Program) -> None:
        names = dict.fromkeys(stmt.name for stmt in ir.walk_statements(program.body) if type(stmt) is ir.Assign)
        self.locals: dict[str, int] = {name: 1 << bit for bit, name in enumerate(names)}
        self.buffers: dict[str, int] = {
            buffer.name: 1 << (len(names) + bit) for bit, buffer in enumerate(program.buffers)
        }
        self.buffer_of: dict[int, str] = {bit: name for name, bit in self.buffers.items()}
        self.first_buffer: int = 1 << len(names)
        """The least of the bits of buffers; those of locals are below."""
        self._known: dict[int, int] = {}

    def of(self, root: ir.Expr) -> int:
        """Returns what an expression reads."""
        known = self._known
        for node in operands_first(root, known):
            if type(node) in ir.LEAVES:
                read = self.locals.get(node.name, 0) if type(node) is ir.Var else 0
            else:
                read = self.buffers[node.buffer] if type(node) is ir.Load else 0
                for operand in ir.children(node):
                    read |= known[id(operand)]
            known[id(node)] = read
        return known[id(root)]

    def of_statement(self, stmt: ir.Stmt) -> int:
        """Returns what the operands of a statement read."""
        read = 0
        for expr in ir.OPERANDS[type(stmt)](stmt):
            read |= self.of(expr)
        return read


class _Liveness:
    """One walk against the order in which a program runs.  The statements of a body are collected in reverse."""

    def __init__(self, program: Program, counts: Counts) -> None:
        self._program = program
        self._counts = counts
        self._impure = containing(program, ir.IMPURE)
        self._reads = _Reads(program)
        self._in_loops: dict[int, int] = {}
        """The reads of the bodies of loops, by the identity of the loop."""
        self._of_body(program.body)
        self._unseen = _unseen_buffers(program)
        self._live = 0
        """The assigned locals whose values may still be read."""
        self._used: set[str] = set()
        """The other locals that kept statements read."""
        self._marked: dict[int, ir.Expr] = {}
        self._assigned: dict[str, tuple[list[ir.Stmt], int]] = {}
        """The place of the earliest assignment of each local that is kept so far."""
        self._overwritten: dict[str, tuple[ir.Expr, int]] = {}
        """Indices at which buffers are stored to before they can be read, with the locals that the indices read."""
        self._watched = 0
        """The bits of these buffers, and maybe of some that are not among them any more."""
        self._out: list[ir.Stmt] = []
        self._has_effect = False
        self._behind_loop = 0
        self._at_head = 0

    # ---- reads
    def _of_body(self, body: ir.Body) -> int:
        read = 0
        for stmt in body:
            if isinstance(stmt, ir.If):
                links, last = ir.if_chain(stmt)
                for link in links:
                    read |= self._reads.of(link.condition) | self._of_body(link.then)
                read |= self._of_body(last)
                continue
            inside = 0
            for inner in ir.bodies(stmt):
                inside |= self._of_body(inner)
            if isinstance(stmt, ir.Loop | ir.GridLoop):
                self._in_loops[id(stmt)] = inside
            read |= inside | self._reads.of_statement(stmt)
        return read

    def _is_pure(self, *exprs: ir.Expr) -> bool:
        return not self._impure or not any(id(expr) in self._impure for expr in exprs)

    def _read(self, *exprs: ir.Expr) -> None:
        """Notes that a statement that is kept evaluates these."""
        for expr in exprs:
            self._mark(expr)
            read = self._reads.of(expr)
            self._live |= read
            seen = read & self._watched
            while seen:
                bit = seen & -seen
                seen ^= bit
                self._overwritten.pop(self._reads.buffer_of[bit], None)
            self._watched &= ~read
        if not self._is_pure(*exprs):
            self._overwritten.clear()
            self._has_effect = True

    def _mark(self, root: ir.Expr) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            if id(node) in self._marked:
                continue
            self._marked[id(node)] = node
            if type(node) is ir.Var:
                self._used.add(node.name)
            elif type(node) not in ir.LEAVES:
                stack += [operand for operand in ir.CHILDREN[type(node)](node) if operand is not None]

    # ---- bodies
    def body(self, body: ir.Body) -> ir.Body:
        """Returns what is left of a body behind which ``_live`` is read."""
        around, self._out = self._out, []
        for stmt in reversed(body):
            _RULES.get(type(stmt), _Liveness._effect)(self, stmt)
        remaining, self._out = self._out, around
        return same_statements(body, remaining[::-1])

    def _apart(self, body: ir.Body, live: int) -> ir.Body:
        """Returns what is left of a body that lanes may skip or repeat."""
        self._live = live
        self._overwritten = {}
        remaining = self.body(body)
        self._overwritten = {}
        return remaining

    # ---- statements
    def _effect(self, stmt: ir.Stmt) -> None:
        self._overwritten.clear()
        self._has_effect = True
        self._read(*ir.OPERANDS[type(stmt)](stmt))
        self._overwritten.clear()
        self._out.append(stmt)

    def _end(self, stmt: ir.Return | ir.Trap) -> None:
        self._live = 0
        self._effect(stmt)

    def _leave(self, stmt: ir.Break | ir.Continue) -> None:
        self._live = self._behind_loop if type(stmt) is ir.Break else self._at_head
        self._overwritten.clear()
        self._out.append(stmt)

    def _let(self, stmt: ir.Let) -> None:
        bit = self._reads.locals.get(stmt.name)
        if bit is None:
            if stmt.name not in self._used and self._is_pure(stmt.value):
                self._counts["unread"] += 1
                return
        elif self._is_pure(stmt.value) and not self._live & bit and self._is_replaced(stmt):
            return
        else:
            self._live &= ~bit
        self._read(stmt.value)
        self._out.append(stmt)

    def _is_replaced(self, stmt: ir.Let) -> bool:
        """Returns whether the declaration of a local whose first value is not read goes; makes another one for it."""
        place = self._assigned.get(stmt.name)
        if place is None:
            self._counts["unread"] += 1
            return True
        out, index = place
        if out is not self._out:
            return False
        first = out[index]
        assert type(first) is ir.Assign
        out[index] = ir.Let(stmt.name, first.value, loc=first.loc)
        self._counts["declared"] += 1
        return True

    def _assign(self, stmt: ir.Assign) -> None:
        bit = self._reads.locals[stmt.name]
        if not self._live & bit and self._is_pure(stmt.value):
            self._counts["unread_assignments"] += 1
            return
        self._live &= ~bit
        for name in [name for name, (_, read) in self._overwritten.items() if read & bit]:
            del self._overwritten[name]
        self._read(stmt.value)
        self._has_effect = True
        self._assigned[stmt.name] = self._out, len(self._out)
        self._out.append(stmt)

    def _store(self, stmt: ir.Store) -> None:
        if self._is_pure(stmt.index, stmt.value):
            if stmt.buffer in self._unseen:
                self._counts["unread_stores"] += 1
                return
            later = self._overwritten.get(stmt.buffer)
            if later is not None and later[0] == stmt.index:
                self._counts["overwritten"] += 1
                return
        self._has_effect = True
        read = self._reads.of(stmt.index)
        if read < self._reads.first_buffer:
            self._overwritten[stmt.buffer] = stmt.index, read
            self._watched |= self._reads.buffers[stmt.buffer]
        else:  # the element that decides the index may change in between
            self._overwritten.pop(stmt.buffer, None)
        self._read(stmt.index, stmt.value)
        self._out.append(stmt)

    def _region(self, stmt: ir.Region) -> None:
        body = self.body(stmt.body)
        if body:
            self._out.append(with_body(stmt, body))

    def _if(self, stmt: ir.If) -> None:
        links, last = ir.if_chain(stmt)
        behind = self._live
        otherwise = self._apart(last, behind)
        before = self._live
        for link in reversed(links):
            then = self._apart(link.then, behind)
            if not then and not otherwise and self._is_pure(link.condition):
                self._counts["empty"] += 1
                self._live = before = behind
                continue
            self._live |= before
            self._read(link.condition)
            before = self._live
            otherwise = (linked(link, link.condition, then, otherwise),)
        self._live = before
        self._overwritten = {}
        self._out += otherwise

    def _switch(self, stmt: ir.Switch) -> None:
        behind = self._live
        default = self._apart(stmt.default, behind)
        before = self._live
        arms: list[ir.Body] = []
        for arm in reversed(stmt.arms):
            arms.append(self._apart(arm.body, behind))
            before |= self._live
        self._live = before
        kept = [(arm, body) for arm, body in zip(stmt.arms, reversed(arms), strict=True) if body or default]
        if not kept and not default and self._is_pure(stmt.selector):
            self._counts["empty"] += 1
            return
        self._read(stmt.selector)
        changed = default is not stmt.default or any(body is not arm.body for arm, body in kept)
        if changed or len(kept) < len(stmt.arms):
            new = tuple([ir.Arm(arm.labels, body, loc=arm.loc) for arm, body in kept])
            stmt = ir.Switch(stmt.selector, new, default, loc=stmt.loc)
        self._out.append(stmt)

    def _loop(self, stmt: ir.Loop | ir.GridLoop) -> None:
        around = self._behind_loop, self._at_head, self._has_effect
        behind = self._live
        self._behind_loop, self._at_head, self._has_effect = behind, behind | self._in_loops[id(stmt)], False
        body = self._apart(stmt.body, self._at_head)
        bounds = ir.OPERANDS[type(stmt)](stmt)
        is_empty = type(stmt) is ir.Loop and not self._has_effect and self._is_pure(*bounds)
        head = self._at_head | self._live
        self._behind_loop, self._at_head, has_effect = around
        if is_empty:
            self._counts["empty"] += 1
            self._live, self._has_effect = behind, has_effect
            return
        self._live, self._has_effect = head, True
        self._read(*bounds)
        self._out.append(with_body(stmt, body))


_RULES: Final[dict[type[Node], Callable[[_Liveness, Any], None]]] = {
    ir.Let: _Liveness._let,
    ir.Assign: _Liveness._assign,
    ir.Store: _Liveness._store,
    ir.If: _Liveness._if,
    ir.Switch: _Liveness._switch,
    ir.Loop: _Liveness._loop,
    ir.GridLoop: _Liveness._loop,
    ir.Region: _Liveness._region,
    ir.Return: _Liveness._end,
    ir.Trap: _Liveness._end,
    ir.Break: _Liveness._leave,
    ir.Continue: _Liveness._leave,
    **dict.fromkeys((ir.Barrier, ir.AsyncLoad, ir.AsyncStore, ir.AsyncWait, ir.IndirectDispatch), _Liveness._effect),
}


def _unseen_buffers(program: Program) -> frozenset[str]:
    """Returns the names of buffers in private and workgroup memory that no statement reads."""
    own = {buffer.name for buffer in program.buffers if not buffer.is_bound}
    if not own:
        return frozenset()
    seen = {
        use.buffer
        for stmt in ir.walk_statements(program.body)
        for use in accesses(stmt)
        if use.touch is not Touch.WRITE
    }
    return frozenset(own - seen)
