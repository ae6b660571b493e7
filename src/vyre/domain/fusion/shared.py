"""Temporaries that pass values between the lanes of one workgroup: they live in workgroup memory.

An array takes part if each workgroup accesses only the ``k`` elements from ``k * group`` on.  Its first stage zeroes it
or stores to every element, and workgroup memory starts at zero, so that an element holds the same either way.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from vyre.domain.fusion.elements import zero
from vyre.domain.fusion.indices import Found, Indices
from vyre.domain.fusion.memory import Joined, JoinedMemory
from vyre.domain.fusion.rewriting import map_body
from vyre.domain.fusion.stages import StageBarrier
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.expr import Atomic, Binary, BufferLength, Expr, IdKind, LaunchId, Literal, Load, Select
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, Body, If, Stmt, Store, operands, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.unique_names import UniqueNames
from vyre.domain.ir.walk import unique_nodes

_U32: Final = ScalarType.U32


class SharedArray(NamedTuple):
    """An array that lives in workgroup memory: ``held`` has ``block`` elements for each workgroup."""

    joined: Joined
    held: Buffer
    block: int


def shared_arrays(
    memory: JoinedMemory,
    bodies: Sequence[Body],
    barriers: Sequence[StageBarrier],
    indices: Indices,
    temporary: Collection[Hashable],
    names: UniqueNames,
    nbytes: int,
) -> dict[str, SharedArray]:
    """Returns the temporaries that can live in ``nbytes`` of workgroup memory, by their names in the joined program.

    Only those take part that pass values from one stage to another of the same stretch without a barrier of the grid.
    """
    if all(barrier is not StageBarrier.WORKGROUP for barrier in barriers):
        return {}
    excluded = _otherwise_used(bodies, indices)
    arrays: dict[str, SharedArray] = {}
    for joined in memory.all:
        if joined.identity not in temporary or joined.is_parameter or joined.name in excluded:
            continue
        uses = [use.stage for use in joined.uses]
        if StageBarrier.GRID in barriers[min(uses) : max(uses)] or not joined.first.buffer.is_output:
            continue
        accesses = [access for access in indices.accesses.values() if access.buffer == joined.name]
        block = _block(accesses, indices)
        if block is None or block * joined.element.size > nbytes:
            continue
        nbytes -= block * joined.element.size
        buffer = Buffer.make(names.unique(joined.name), 0, Access.WORKGROUP, joined.element, block)
        arrays[joined.name] = SharedArray(joined, buffer, block)
    return arrays


def _otherwise_used(bodies: Sequence[Body], indices: Indices) -> set[str]:
    """Returns the names of buffers with asynchronous copies, and those accessed beside atomics or below accesses."""
    names: set[str] = set()
    for body in bodies:
        for stmt in walk_statements(body):
            if isinstance(stmt, AsyncLoad | AsyncStore):
                names |= {stmt.source, stmt.destination}
            nodes = list(unique_nodes(operands(stmt)))
            accessed = {node.buffer for node in nodes if isinstance(node, Load | Atomic)}
            if any(isinstance(node, Atomic) for node in nodes):
                names |= accessed | ({stmt.buffer} if isinstance(stmt, Store) else set())
            inner = (node.index for node in nodes if isinstance(node, Load))
            below = (stmt.index,) if isinstance(stmt, Store) else ()
            names |= {node.buffer for node in unique_nodes((*inner, *below)) if isinstance(node, Load)}
    return names


def _block(accesses: Sequence[Found], indices: Indices) -> int | None:
    """Returns the number of elements of a workgroup if all accesses agree on it."""
    blocks: set[int | None] = set()
    for access in accesses:
        plain = access.at is not None and access.dtype is _U32 and access.atomic is None
        blocks.add(indices.elements_of_a_workgroup(access.at) if plain and access.at is not None else None)
    return blocks.pop() if len(blocks) == 1 else None


def in_workgroup_memory(body: Body, shared: Mapping[str, SharedArray], indices: Indices) -> Body:
    """Returns a body that keeps these arrays in workgroup memory."""
    return _Moved(shared, indices).body(body)


class _Moved:
    def __init__(self, shared: Mapping[str, SharedArray], indices: Indices) -> None:
        self._shared = shared
        self._indices = indices

    def body(self, body: Body) -> Body:
        loads: dict[int, Expr] = {}
        proven: dict[int, bool] = {}
        for stmt in walk_statements(body):
            for node in unique_nodes(operands(stmt)):
                if isinstance(node, Load) and node.buffer in self._shared:
                    loads[id(node)] = self._load(node)
            if isinstance(stmt, Store) and stmt.buffer in self._shared:
                # The index object survives all replacements, because it contains no load of these arrays.
                proven[id(stmt.index)] = self._indices.accesses[id(stmt)].proven and proven.get(id(stmt.index), True)

        def expression(expr: Expr, memo: dict[int, Expr]) -> Expr:
            memo.update((key, value) for key, value in loads.items() if key not in memo)
            return rebuilt(expr, lambda node: node, memo)

        def statement(stmt: Stmt) -> Stmt:
            if not (isinstance(stmt, Store) and stmt.buffer in self._shared):
                return stmt
            array = self._shared[stmt.buffer]
            moved = replace(stmt, buffer=array.held.name, index=_within(stmt.index, array.block))
            if proven.get(id(stmt.index), False):
                return moved
            return If(_inside(stmt.index, stmt.buffer), (moved,), loc=stmt.loc)

        return map_body(body, expression, statement) if loads or proven else body

    def _load(self, node: Load) -> Expr:
        array = self._shared[node.buffer]
        loaded = replace(node, buffer=array.held.name, index=_within(node.index, array.block))
        if self._indices.accesses[id(node)].proven:
            return loaded
        return Select(_inside(node.index, node.buffer), loaded, zero(array.joined.element), loc=node.loc)


def _within(index: Expr, block: int) -> Expr:
    start: Expr = LaunchId(IdKind.GROUP, 0)
    if block != 1:
        start = Binary(BinaryOp.MUL, start, Literal(_U32, block))
    return Binary(BinaryOp.SUB, index, start)


def _inside(index: Expr, buffer: str) -> Expr:
    return Binary(BinaryOp.LT, index, BufferLength(buffer))
