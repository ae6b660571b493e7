"""Forwarding through private and workgroup memory: what a lane stored is not loaded again.

A private buffer all of whose indices are literals becomes locals, one for each element.  Elsewhere a load gives way to
the value that the same lane stored last, where nothing can have changed the element: in private memory until a store to
an index that may be the same one, in workgroup memory, at the lane's own index only, until a barrier, an atomic or any
other store to the buffer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.rebuilding import rebuilt_from
from vyre.domain.ir.types import NARROW_TYPES, ScalarType
from vyre.domain.ir.walk import operands_first, unique_expressions
from vyre.domain.optimize.passes import Counts, Pass
from vyre.domain.optimize.purity import containing
from vyre.domain.optimize.value_table import Value, value_table
from vyre.domain.optimize.walking import Rewriter, names_of, with_unique_locals
from vyre.domain.source_location import SourceLocation

_MOST_ELEMENTS: Final = 64
"""The largest number of elements of one buffer that become locals."""
_NEAR: Final = frozenset({Access.PRIVATE, Access.WORKGROUP})


def _stored(element: ScalarType, value: ir.Expr) -> ir.Expr:
    """Returns what a load gives after a store of a value.

    The bits of a NaN may differ from those in memory, where nothing can see them.
    """
    return ir.Narrow(element, value, loc=value.loc) if element in NARROW_TYPES else value


def _zero(element: ScalarType, loc: SourceLocation | None) -> ir.Literal:
    return ir.Literal(element.widened, 0, loc=loc)


# ---- private buffers that become locals


class _Accesses(NamedTuple):
    """Private buffers, by name: the elements that become locals, and the statements that access them themselves."""

    elements: dict[str, set[int]]
    users: dict[str, set[int]]


def _literal_accesses(program: Program) -> _Accesses:
    """Returns the private buffers all of whose indices are known elements."""
    private = {b.name: b for b in program.buffers if b.access is Access.PRIVATE and type(b.element) is ScalarType}
    elements: dict[str, set[int]] = {name: set() for name in private}
    users: dict[str, set[int]] = {name: set() for name in private}
    loaded: dict[int, frozenset[str]] = {}
    for stmt in ir.walk_statements(program.body) if private else ():
        for root in ir.operands(stmt):
            for name in _loaded(root, loaded, private, elements):
                users[name].add(id(stmt))
        if type(stmt) is ir.Store and stmt.buffer in private:
            users[stmt.buffer].add(id(stmt))
            _note_element(private[stmt.buffer], stmt.index, elements)
    for buffer in private.values():
        if buffer.name in elements and not 0 < len(elements[buffer.name]) <= _MOST_ELEMENTS:
            del elements[buffer.name]
    return _Accesses(elements, users)


def _loaded(
    root: ir.Expr, loaded: dict[int, frozenset[str]], private: dict[str, Buffer], elements: dict[str, set[int]]
) -> frozenset[str]:
    """Returns the private buffers from which an expression loads; notes the elements of each load once."""
    for node in operands_first(root, loaded):
        parts = () if type(node) in ir.LEAVES else ir.children(node)
        names = frozenset[str]().union(*[loaded[id(part)] for part in parts]) if parts else frozenset[str]()
        if type(node) is ir.Load and node.buffer in private:
            names |= {node.buffer}
            _note_element(private[node.buffer], node.index, elements)
        loaded[id(node)] = names
    return loaded[id(root)]


def _note_element(buffer: Buffer, index: ir.Expr, elements: dict[str, set[int]]) -> None:
    if buffer.name not in elements:
        return
    if type(index) is ir.Literal and 0 <= index.value < buffer.count:
        elements[buffer.name].add(int(index.value))
    else:
        del elements[buffer.name]


class _Placing:
    """Finds, for each private buffer, the statement before which its locals are declared."""

    def __init__(self, program: Program, accesses: _Accesses) -> None:
        self._accesses = accesses
        self._below: dict[int, set[str]] = {}
        self._has_barrier: set[int] = set()
        self._collect(program.body)
        self.places: dict[int, list[str]] = {}
        for name in list(accesses.elements):
            place = self._place(program.body, name)
            if place is None:
                del accesses.elements[name]
            else:
                self.places.setdefault(id(place), []).append(name)

    def _collect(self, body: ir.Body) -> None:
        """Notes which statements contain accesses, by a walk that leaves bodies before what contains them."""
        users: dict[int, set[str]] = {}
        for name in self._accesses.elements:
            for user in self._accesses.users[name]:
                users.setdefault(user, set()).add(name)
        for stmt in reversed(list(ir.walk_statements(body))):
            names = users.get(id(stmt), set())
            is_barrier = type(stmt) is ir.GridLoop or (type(stmt) is ir.Barrier and stmt.ordering is Ordering.GRID_SYNC)
            for inner in ir.bodies(stmt):
                for nested in inner:
                    if id(nested) in self._below:
                        names = names | self._below[id(nested)]
                    is_barrier = is_barrier or id(nested) in self._has_barrier
            if names:
                self._below[id(stmt)] = names
            if is_barrier:
                self._has_barrier.add(id(stmt))

    def _place(self, body: ir.Body, name: str) -> ir.Stmt | None:
        while True:
            users = [stmt for stmt in body if name in self._below.get(id(stmt), ())]
            if len(users) == 1 and isinstance(users[0], ir.Block | ir.Region | ir.GridLoop):
                body = users[0].body
                continue
            if not users or any(id(stmt) in self._has_barrier for stmt in users):
                return None
            return users[0]


class _Scalars(Rewriter):
    """The walk that writes locals for the elements of private buffers."""

    def __init__(self, program: Program, counts: Counts, accesses: _Accesses, places: dict[int, list[str]]) -> None:
        super().__init__(program, counts)
        self._elements = accesses.elements
        self._places = places
        self._memo: dict[int, ir.Expr] = {}
        names = names_of(program)
        self._names = {
            (buffer, element): names.unique(f"{buffer}_{element}")
            for buffer, elements in accesses.elements.items()
            for element in sorted(elements)
        }

    def _element(self, buffer: str) -> ScalarType:
        return element_of(self.source.buffers_by_name[buffer])

    def expression(self, expr: ir.Expr) -> ir.Expr:
        return rebuilt_from(expr, self._replaced, self._memo)

    def _replaced(self, old: Any, new: ir.Expr) -> ir.Expr:
        if type(old) is not ir.Load or old.buffer not in self._elements:
            return new
        self.counts["loads"] += 1
        index = old.index
        assert type(index) is ir.Literal
        return ir.Var(self._names[old.buffer, int(index.value)], loc=old.loc)

    def visit(self, stmt: ir.Stmt) -> None:
        for buffer in self._places.pop(id(stmt), ()):  # a statement object may occur again
            for element in sorted(self._elements[buffer]):
                self.out.append(
                    ir.Let(self._names[buffer, element], _zero(self._element(buffer), stmt.loc), loc=stmt.loc)
                )
        super().visit(stmt)

    def plain(self, stmt: ir.Stmt) -> None:
        if type(stmt) is not ir.Store or stmt.buffer not in self._elements:
            super().plain(stmt)
            return
        self.counts["stores"] += 1
        assert type(stmt.index) is ir.Literal
        value = _stored(self._element(stmt.buffer), self.expression(stmt.value))
        self.out.append(ir.Assign(self._names[stmt.buffer, int(stmt.index.value)], value, loc=stmt.loc))


def _with_scalars(program: Program, counts: Counts) -> Program:
    accesses = _literal_accesses(program)
    if not accesses.elements:
        return program
    places = _Placing(program, accesses).places
    if not accesses.elements:
        return program
    body = _Scalars(program, counts, accesses, places).body(program.body)
    counts["buffers"] += len(accesses.elements)
    measured = {node.buffer for node in unique_expressions(program) if type(node) is ir.BufferLength}
    gone = accesses.elements.keys() - measured - {buffer.like for buffer in program.buffers}
    return replace(program, body=body, buffers=tuple([b for b in program.buffers if b.name not in gone]))


# ---- loads of what was stored before


class _Known:
    """What an element holds: a value that stays the same; or that of a store, in whose place before it (``slot`` of
    ``out``) a local for the value can be declared.
    """

    __slots__ = ("element", "out", "slot", "value")

    def __init__(self, element: Value, value: ir.Expr, out: list[ir.Stmt | None], slot: int | None) -> None:
        self.element: Value = element
        self.value: ir.Expr = value
        self.out: list[ir.Stmt | None] = out
        self.slot: int | None = slot


class _Forwarding(Rewriter):
    """The walk that replaces loads.  ``_known`` maps buffers to what elements hold, by the numbers of their indices."""

    def __init__(self, program: Program, counts: Counts) -> None:
        super().__init__(program, counts)
        self._table = value_table(program)
        self._near = {b.name: b for b in program.buffers if b.access in _NEAR and type(b.element) is ScalarType}
        self._shared = frozenset([name for name, buffer in self._near.items() if buffer.access is Access.WORKGROUP])
        self._known: dict[str, dict[int, _Known]] = {}
        self._memo: dict[int, ir.Expr] = {}
        self._names = names_of(program)
        self._loading = containing(program, frozenset({ir.Load}))
        self._atomic = containing(program, ir.ATOMICS)
        self._written = self._written_below(program.body)

    def _written_below(self, body: ir.Body) -> dict[int, frozenset[str]]:
        """Returns the buffers that statements, or what is below them, may change or let other lanes change."""
        written: dict[int, frozenset[str]] = {}
        none = frozenset[str]()
        for stmt in reversed(list(ir.walk_statements(body))):
            names = self._written_by(stmt)
            for inner in ir.bodies(stmt):
                for nested in inner:
                    names |= written.get(id(nested), none)
            if names:
                written[id(stmt)] = names
        return written

    def _written_by(self, stmt: ir.Stmt) -> frozenset[str]:
        if isinstance(stmt, ir.GridLoop):
            return frozenset(self._near)
        written = self._shared if isinstance(stmt, ir.Barrier | ir.AsyncWait) else frozenset()
        if type(stmt) is ir.Store and stmt.buffer in self._near:
            written |= {stmt.buffer}
        if any(id(root) in self._atomic for root in ir.operands(stmt)):
            written |= self._shared
        return written

    # ---- what is known
    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            if self._known.pop(name, None):
                self._memo = {}

    def body(self, body: ir.Body) -> ir.Body:
        around = {name: dict(known) for name, known in self._known.items()}
        rewritten = super().body(body)
        self._known = around
        self._memo = {}
        return rewritten

    def begin_branches(self) -> None:
        self._forget(self._written.get(id(self.current), ()))

    def repeated(self, stmt: ir.Loop | ir.GridLoop) -> ir.Body:
        self._forget(self._written.get(id(stmt), ()))
        return self.body(stmt.body)

    def visit_block(self, stmt: ir.Block | ir.Region) -> None:
        super().visit_block(stmt)
        self._forget(self._written.get(id(stmt), ()))

    # ---- statements
    def expression(self, expr: ir.Expr) -> ir.Expr:
        if id(expr) not in self._loading or not self._known or id(expr) in self._atomic:
            return expr
        return rebuilt_from(expr, self._replaced, self._memo)

    def _replaced(self, old: Any, new: ir.Expr) -> ir.Expr:
        if type(old) is not ir.Load or old.buffer not in self._known:
            return new
        index = self._table.of(old.index)
        stored = self._known[old.buffer].get(index.number)
        if stored is None or not index.stable:
            return new
        self.counts["forwarded"] += 1
        if stored.slot is not None:
            self._declare(old.buffer, stored)
        return _stored(element_of(self._near[old.buffer]), stored.value)

    def _declare(self, buffer: str, known: _Known) -> None:
        """Declares a local for the value of a store, and lets the store take it from there."""
        assert known.slot is not None
        store = known.out[known.slot + 1]
        assert type(store) is ir.Store
        name = self._names.unique(f"{buffer}_stored")
        known.out[known.slot] = ir.Let(name, known.value, loc=store.loc)
        known.value = ir.Var(name, loc=store.value.loc)
        known.out[known.slot + 1] = ir.Store(buffer, store.index, known.value, loc=store.loc)
        known.slot = None

    def plain(self, stmt: ir.Stmt) -> None:
        slot = None
        if type(stmt) is ir.Store and stmt.buffer in self._near:
            self.out.append(None)
            slot = len(self.out) - 1
        super().plain(stmt)
        if slot is None:
            self._forget(self._written.get(id(stmt), ()))
            return
        assert type(stmt) is ir.Store
        store = self.out[-1]
        assert type(store) is ir.Store
        if id(stmt.value) in self._atomic or id(stmt.index) in self._atomic:
            self._forget(self._shared)
            self._forget((stmt.buffer,))
            return
        self._note(stmt.buffer, self._table.of(stmt.index), store, slot)

    def _note(self, buffer: str, index: Value, store: ir.Store, slot: int) -> None:
        """Notes what a store leaves, and forgets what it may overwrite."""
        known = {} if buffer in self._shared else self._known.get(buffer, {})
        kept = {number: old for number, old in known.items() if _are_apart(old.element, index)}
        is_known = index.stable and index.low >= 0 and index.high < self._near[buffer].count
        if is_known and (buffer not in self._shared or self._is_own(index)) and len(kept) < _MOST_ELEMENTS:
            is_fixed = type(store.value) is ir.Literal
            if type(store.value) is ir.Var:
                name, table = store.value.name, self._table
                is_fixed = name in table.locals and name not in table.assigned
            kept[index.number] = _Known(index, store.value, self.out, None if is_fixed else slot)
        self._known[buffer] = kept
        self._memo = {}

    def _is_own(self, index: Value) -> bool:
        """Returns whether no two lanes of a workgroup have the same index."""
        _, rows, planes = self.source.workgroup_size
        return rows == planes == 1 and index is self._table.local_id(0)


def _are_apart(one: Value, other: Value) -> bool:
    return one.high < other.low or other.high < one.low


def _run(program: Program, counts: Counts) -> Program:
    unique = with_unique_locals(program)
    if not any(buffer.access in _NEAR for buffer in unique.buffers):
        return program
    rewritten = _with_scalars(unique, counts)
    if any(buffer.access in _NEAR for buffer in rewritten.buffers):
        body = _Forwarding(rewritten, counts).body(rewritten.body)
        rewritten = rewritten if body is rewritten.body else replace(rewritten, body=body)
    return program if rewritten is unique else rewritten


FORWARDING: Final = Pass("forwarding", 1, _run)
"""Forwards what is stored in private and workgroup memory to the loads of the same lane."""
