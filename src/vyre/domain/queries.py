"""One program run on many inputs that share some memory, as one launch.

Each run is a *query*.  A buffer that every query has for itself becomes a *slab*, in which the buffers of all queries
lie one behind the other; a scalar parameter that differs from query to query becomes a slab of its values.  All other
buffers are shared.  The queries are the workgroups of the slowest axis of the grid, so that one workgroup belongs to
one query, and workgroups keep the order that they have in launches one after the other.

An access to element ``index`` of a query's own buffer becomes one to element ``[query, index]`` of the slab seen as
rows: beyond the query's own elements it is out of range, as it was.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final, NamedTuple

from vyre.domain.analysis.lane_facts import lane_facts
from vyre.domain.frozen import frozen
from vyre.domain.fusion.indices import Indices
from vyre.domain.grid_sync import fresh_names, has_grid_loops
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt_from
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.views import checked_index, view_index
from vyre.domain.names import Dim3
from vyre.domain.record import U32_MAX
from vyre.domain.validation.validator import check_rules

_U32: Final = ScalarType.U32
_U64: Final = ScalarType.U64
_Y, _Z = 1, 2


@frozen
class QueryLaunch:
    """The launch of one query.

    ``grid`` counts workgroups and ``workgroup`` lanes, along x, y and z.  ``counts`` holds the elements of each bound
    buffer in binding order, 1 for a parameter.  ``shared`` names the buffers and parameters that all queries have in
    common.
    """

    program: Program
    grid: Dim3
    workgroup: Dim3
    counts: tuple[int, ...]
    shared: frozenset[str]


@frozen
class BatchedQueries:
    """A valid program that runs any number of queries, up to ``most``.

    Its buffers have the names and binding numbers of the query's.  Those that are not shared are slabs, of as many
    elements as all queries have together, and none is a scalar parameter.
    """

    program: Program
    launch: QueryLaunch
    axis: int
    most: int

    def grid(self, queries: int) -> Dim3:
        """Returns the workgroups to launch for so many queries."""
        x, y, z = self.launch.grid
        return (x, y * queries, z) if self.axis == _Y else (x, y, z * queries)


class CannotBatch(NamedTuple):
    """Says that the queries are launches of their own, for ``reason``, which completes "because"."""

    reason: str


def batch_queries(launch: QueryLaunch, max_grid: Dim3 | None = None) -> BatchedQueries | CannotBatch:
    """Returns one program for many queries, or why there is none.

    ``max_grid``: the most workgroups along each axis, as far as the backend has a limit.  The program must be valid
    (``InvalidProgram``).
    """
    check_rules(launch.program).raise_if_invalid()
    reason = _reason(launch)
    if reason is not None:
        return CannotBatch(reason)
    axis = _Y if launch.grid[_Y] == launch.grid[_Z] == 1 else _Z
    most = _most(launch, axis, max_grid)
    if most < 1:
        return CannotBatch("the grid of two queries would be larger than the backend allows")
    batched = _Batching(launch, axis).program()
    if isinstance(batched, CannotBatch):
        return batched
    error = next(iter(check_rules(batched).errors), None)
    if error is not None:
        return CannotBatch(f"the queries together are no valid program: [{error.code}] {error.message}")
    return BatchedQueries(batched, launch, axis, most)


def _reason(launch: QueryLaunch) -> str | None:
    program, shared = launch.program, launch.shared
    facts = lane_facts(program)
    written = _written(program, shared)
    if written:
        return f"they all write to `{written[0]}`, one after the other"
    if facts.traps:
        return "the program may trap, which ends one query and not those before it"
    if facts.indirect:
        return "the program asks for a grid at run time"
    if program.non_composable:
        return "the program is marked as not composable"
    if has_grid_loops(program):
        return "the program has a grid loop, whose rounds each query counts for itself"
    copied = _copied(program, shared)
    if copied is not None:
        return f"an asynchronous copy accesses `{copied}`, and cannot stop at the end of a query's own elements"
    return None


def _written(program: Program, shared: Collection[str]) -> list[str]:
    """Returns the shared buffers that a launch writes, in binding order."""
    touched = {
        use.buffer for stmt in ir.walk_statements(program.body) for use in accesses(stmt) if use.touch is not Touch.READ
    }
    touched |= {buffer.name for buffer in program.abi_buffers if buffer.is_output}  # a launch zeroes them
    return [buffer.name for buffer in program.abi_buffers if buffer.name in shared and buffer.name in touched]


def _copied(program: Program, shared: Collection[str]) -> str | None:
    own = {buffer.name for buffer in program.abi_buffers} - set(shared)
    for stmt in ir.walk_statements(program.body):
        if isinstance(stmt, ir.AsyncLoad | ir.AsyncStore):
            for name in (stmt.source, stmt.destination):
                if name in own:
                    return name
    return None


def _most(launch: QueryLaunch, axis: int, max_grid: Dim3 | None) -> int:
    """Returns the most queries whose ids and elements have numbers of 32 bits, and whose grid the backend allows."""
    groups = launch.grid[axis]
    most = (U32_MAX + 1) // (groups * launch.workgroup[axis])
    if max_grid is not None:
        most = min(most, max_grid[axis] // groups)
    for buffer, count in zip(launch.program.abi_buffers, launch.counts, strict=True):
        if buffer.name not in launch.shared and count:
            most = min(most, U32_MAX // count)
    return most


class _Batching:
    def __init__(self, launch: QueryLaunch, axis: int) -> None:
        self._launch = launch
        self._axis = axis
        program = launch.program
        self._program = replace(program, workgroup_size=launch.workgroup)
        self._counts = dict(zip([b.name for b in program.abi_buffers], launch.counts, strict=True))
        self._own = self._counts.keys() - launch.shared
        self._pushed = {b.name for b in program.abi_buffers if b.is_push and b.name in self._own}
        arrays = {b.name: self._counts[b.name] for b in program.abi_buffers if not b.is_push}
        self._indices = Indices(self._program, launch.grid, arrays, {})
        (name,) = fresh_names(program, "query")
        self._query = ir.Var(name)
        self._stuck: str | None = None

    def program(self) -> Program | CannotBatch:
        """Returns the program, which may break rules of the language."""
        groups = self._launch.grid[self._axis]
        group: ir.Expr = ir.LaunchId(ir.IdKind.GROUP, self._axis)
        query = group if groups == 1 else ir.Binary(BinaryOp.DIV, group, _u32(groups))
        body = rebuilt_from(self._program.body, self._changed)
        if self._stuck is not None:
            return CannotBatch(f"the index of an access to `{self._stuck}` has an atomic, and would be evaluated twice")
        buffers = tuple(self._slab(buffer) if buffer.name in self._own else buffer for buffer in self._program.buffers)
        return replace(self._program, buffers=buffers, body=(ir.Let(self._query.name, query), *body))

    def _slab(self, buffer: Buffer) -> Buffer:
        if buffer.is_push:
            return Buffer.make(buffer.name, buffer.binding, Access.READ_ONLY, buffer.element, loc=buffer.loc)
        return replace(buffer, count=0, like=None, output_range=None)

    def _changed(self, old: Any, node: Any) -> Any:
        match node:
            case ir.BufferLength() if node.buffer in self._own:
                return _u32(self._counts[node.buffer])
            case ir.LaunchId(axis=self._axis):
                return self._id(node.kind)
            case ir.Load() if node.buffer in self._pushed:
                return replace(node, index=self._query)
            case ir.Load() | ir.Store() | ir.Atomic() if node.buffer in self._own:
                return replace(node, index=self._element(old, node))
            case _:
                return node

    def _id(self, kind: ir.IdKind) -> ir.Expr:
        """Returns an id along the axis of the queries as one query has it."""
        groups, lanes = self._launch.grid[self._axis], self._launch.workgroup[self._axis]
        local: ir.Expr = ir.LaunchId(ir.IdKind.LOCAL, self._axis)
        group: ir.Expr = _u32(0)
        if groups > 1:
            group = ir.Binary(BinaryOp.MOD, ir.LaunchId(ir.IdKind.GROUP, self._axis), _u32(groups))
        match kind:
            case ir.IdKind.NUM_GROUPS:
                return _u32(groups)
            case ir.IdKind.LOCAL:
                return local
            case ir.IdKind.GROUP:
                return group
            case ir.IdKind.GLOBAL:
                if lanes == 1:
                    return group
                if groups == 1:
                    return local
                return ir.Binary(BinaryOp.ADD, ir.Binary(BinaryOp.MUL, group, _u32(lanes)), local)

    def _element(self, old: Any, node: ir.Load | ir.Store | ir.Atomic) -> ir.Expr:
        """Returns the place of an element in the slab."""
        count = self._counts[node.buffer]
        access = self._indices.accesses.get(id(old))
        if access is None or access.dtype is None:
            return self._checked(node, view_index(self._query, node.index, sizes=(_u32(count),), loc=node.loc))
        if access.dtype is _U32:
            place = ir.Binary(BinaryOp.ADD, ir.Binary(BinaryOp.MUL, self._query, _u32(count)), node.index)
            if access.proven:
                return place
            inside = ir.Binary(BinaryOp.LT, node.index, _u32(count))
            return self._checked(node, ir.Select(inside, place, _u32(U32_MAX), loc=node.loc))  # beyond every slab
        if access.proven:
            first = ir.Binary(BinaryOp.MUL, ir.Cast(_U64, self._query), ir.Literal(_U64, count))
            return ir.Binary(BinaryOp.ADD, first, node.index if access.dtype is _U64 else ir.Cast(_U64, node.index))
        where: list[tuple[ir.Expr, ScalarType]] = [(self._query, _U32), (node.index, access.dtype)]
        return self._checked(node, checked_index(where, (_u32(count),), node.loc))

    def _checked(self, node: ir.Load | ir.Store | ir.Atomic, index: ir.Expr) -> ir.Expr:
        """Returns a place in which the index of an access stands twice."""
        if any(isinstance(each, ir.Atomic) for each in ir.walk(node.index)):
            self._stuck = self._stuck or node.buffer
        return index


def _u32(value: int) -> ir.Literal:
    return ir.Literal(_U32, value)
