"""Values that pass from a store to later loads of the lane's own element without memory.

A buffer takes part if every access to it, in all stages, is to the one element that belongs to the lane.  Then nothing
that another lane does can change the element, and a load behind a store in the same flow gives the stored value: as a
narrow type keeps it, and zero where the index is out of range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from vyre.domain.fusion.elements import as_stored, zero
from vyre.domain.fusion.indices import Indices
from vyre.domain.fusion.rewriting import map_body, mapped_operands
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.rebuilding import rebuilt, with_bodies
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.ir.walk import unique_nodes


class Forwarding:
    """Replaces loads by stored values; ``elements`` holds the buffers that take part, with their element types."""

    def __init__(self, indices: Indices, elements: Mapping[str, ScalarType], names: UniqueNames) -> None:
        self._indices = indices
        self._elements = elements
        self._names = names
        self._values: dict[str, ir.Expr] = {}
        """The stored values by the locals that hold what a load gives after the store."""

    def body(self, body: ir.Body, known: dict[str, ir.Expr]) -> ir.Body:
        """Returns a body whose loads are replaced where ``known``, which it updates, has the element's value."""
        statements: list[ir.Stmt] = []
        for stmt in body:
            statements += self._statement(stmt, known)
        return tuple(statements)

    def _statement(self, stmt: ir.Stmt, known: dict[str, ir.Expr]) -> list[ir.Stmt]:
        match stmt:
            case ir.Store() if stmt.buffer in self._elements:
                return self._store(stmt, known)
            case ir.Barrier():
                known.clear()
                return [stmt]
            case ir.If():
                return [self._if(stmt, known)]
            case ir.Switch() | ir.Block() | ir.Region():
                rewritten = self._with_bodies(self._with_loads(stmt, known), known)
                _forget(known, (stmt,))
                return [rewritten]
            case ir.Loop():
                started = self._with_loads(stmt, known)
                _forget(known, (stmt,))
                return [self._with_bodies(started, known)]
            case _:
                return [self._with_loads(stmt, known)]

    def _with_bodies(self, stmt: ir.Stmt, known: Mapping[str, ir.Expr]) -> ir.Stmt:
        return with_bodies(stmt, lambda body: self.body(body, {**known}))

    def _if(self, stmt: ir.If, known: dict[str, ir.Expr]) -> ir.If:
        links, otherwise = ir.if_chain(stmt)
        rest = self.body(otherwise, {**known})
        for link in reversed(links):
            tested = self._with_loads(link, known)
            assert isinstance(tested, ir.If)
            rest = (replace(tested, then=self.body(link.then, {**known}), otherwise=rest),)
        _forget(known, (stmt,))
        chain = rest[0]
        assert isinstance(chain, ir.If)
        return chain

    def _with_loads(self, stmt: ir.Stmt, known: Mapping[str, ir.Expr]) -> ir.Stmt:
        values: dict[int, ir.Expr] = {}
        if known:
            for node in unique_nodes(ir.operands(stmt)):
                if isinstance(node, ir.Load) and node.buffer in known:
                    access = self._indices.accesses[id(node)]
                    if access.is_unsigned or access.proven:
                        values[id(node)] = known[node.buffer]
        if not values:
            return stmt
        return mapped_operands(stmt, lambda expr, _: rebuilt(expr, lambda node: node, values))

    def _store(self, stmt: ir.Store, known: dict[str, ir.Expr]) -> list[ir.Stmt]:
        access = self._indices.accesses[id(stmt)]
        store = self._with_loads(stmt, known)
        assert isinstance(store, ir.Store)
        known.pop(stmt.buffer, None)
        if not (access.is_unsigned or access.proven):
            return [store]
        element = self._elements[stmt.buffer]
        value = as_stored(element, store.value)
        if not access.proven:
            length: ir.Expr = ir.BufferLength(stmt.buffer)
            if access.dtype is not ScalarType.U32:
                length = ir.Cast(ScalarType.U64, length)
            inside = ir.Binary(BinaryOp.LT, store.index, length)
            value = ir.Select(inside, value, zero(element))
        local = self._names.unique(stmt.buffer)
        self._values[local] = store.value
        known[stmt.buffer] = ir.Var(local)
        return [ir.Let(local, value, loc=stmt.loc), replace(store, value=ir.Var(local))]

    def cleaned(self, body: ir.Body) -> ir.Body:
        """Returns a body without the locals that nothing needs: the store of such a one takes the value itself."""
        uses: Counter[str] = Counter()
        stored: Counter[str] = Counter()
        for stmt in ir.walk_statements(body):
            uses.update(node.name for root in ir.operands(stmt) for node in ir.walk(root) if isinstance(node, ir.Var))
            if isinstance(stmt, ir.Store) and isinstance(stmt.value, ir.Var):
                stored[stmt.value.name] += 1
        unused = {name for name in self._values if uses[name] == stored[name] <= 1}

        def replaced(stmt: ir.Stmt) -> ir.Stmt | None:
            if isinstance(stmt, ir.Store) and isinstance(stmt.value, ir.Var) and stmt.value.name in unused:
                return replace(stmt, value=self._values[stmt.value.name])
            if isinstance(stmt, ir.Let) and stmt.name in unused and (stored[stmt.name] or not _has_atomic(stmt.value)):
                return None
            return stmt

        return map_body(body, lambda expr, _: expr, replaced) if unused else body


def _has_atomic(expr: ir.Expr) -> bool:
    return any(isinstance(node, ir.Atomic) for node in ir.walk(expr))


def _forget(known: dict[str, ir.Expr], body: ir.Body) -> None:
    for stmt in ir.walk_statements(body):
        if isinstance(stmt, ir.Store):
            known.pop(stmt.buffer, None)
        elif isinstance(stmt, ir.Barrier):
            known.clear()


def without_overwritten(body: ir.Body, pointwise: Collection[str]) -> ir.Body:
    """Returns a body without stores whose element the same lane certainly overwrites before it is read."""
    return _Overwritten(pointwise).body(body, set())


class _Overwritten:
    def __init__(self, pointwise: Collection[str]) -> None:
        self._pointwise = pointwise

    def body(self, body: ir.Body, overwritten: set[str]) -> ir.Body:
        """Goes through a body from its end; ``overwritten`` are the buffers that are stored again behind it."""
        kept: list[ir.Stmt] = []
        for stmt in reversed(body):
            if isinstance(stmt, ir.Store) and stmt.buffer in self._pointwise:
                if stmt.buffer in overwritten and isinstance(stmt.value, ir.Var):
                    continue
                overwritten.add(stmt.buffer)
                overwritten -= _loaded((stmt,))
            elif any(isinstance(inner, ir.Break | ir.Continue | ir.Barrier) for inner in ir.walk_statements((stmt,))):
                overwritten.clear()
            else:
                stmt = self._nested(stmt, overwritten)
                overwritten -= _loaded((stmt,))
            kept.append(stmt)
        return tuple(reversed(kept))

    def _nested(self, stmt: ir.Stmt, overwritten: set[str]) -> ir.Stmt:
        if isinstance(stmt, ir.Block | ir.Region) or (isinstance(stmt, ir.If) and len(ir.if_chain(stmt)[0]) == 1):
            return with_bodies(stmt, lambda body: self.body(body, {*overwritten}))
        return stmt


def _loaded(body: ir.Body) -> set[str]:
    return {
        node.buffer
        for stmt in ir.walk_statements(body)
        for node in unique_nodes(ir.operands(stmt))
        if isinstance(node, ir.Load)
    }


def read_buffers(body: ir.Body) -> set[str]:
    """Returns the names of the buffers of which an element is read, updated atomically or copied."""
    names: set[str] = set()
    for stmt in ir.walk_statements(body):
        if isinstance(stmt, ir.AsyncLoad | ir.AsyncStore):
            names |= {stmt.source, stmt.destination}
        names |= {node.buffer for node in unique_nodes(ir.operands(stmt)) if isinstance(node, ir.Load | ir.Atomic)}
    return names


def without_stores(body: ir.Body, buffers: Collection[str]) -> ir.Body:
    """Returns a body without the stores to these buffers."""
    if not buffers:
        return body

    def replaced(stmt: ir.Stmt) -> ir.Stmt | None:
        return None if isinstance(stmt, ir.Store) and stmt.buffer in buffers else stmt

    return map_body(body, lambda expr, _: expr, replaced)
