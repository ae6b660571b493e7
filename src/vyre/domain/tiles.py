"""Programs of which the workgroups with one number along x are a tile, and those around them in a speculation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Final

from vyre.domain.errors import InvalidInput
from vyre.domain.grid_sync import fresh_names, has_grid_barriers
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.stmt import walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.validation.validator import check_rules

COUNTS: Final = ("passed", "confirmed", "committed")
"""The numbers of tiles that ``judging`` counts."""
_TILE: Final = ir.LaunchId(ir.IdKind.GROUP, 0)
_OUTSIDE: Final = ir.Literal(ScalarType.U64, 2**64 - 1)


def of_tiles(program: Program, parts: Mapping[str, int], *, guarded: bool) -> Program:
    """Returns the program in which tiles see nothing of each other.

    ``parts`` holds, by buffer, the elements of the part that belongs to a tile: an element of another part is out of
    range.  ``guarded``: a buffer of u32 stands behind the others, one element for each tile, and a tile whose element
    is 0 does nothing.

    Raises ``InvalidInput`` for barriers of the grid, and for accesses to parts by asynchronous copies or at an index
    that an atomic returns, and ``InvalidProgram`` where the guarded program is not valid.
    """
    if has_grid_barriers(program):
        raise InvalidInput("a program of tiles has a barrier of the grid", fix="let tiles be independent.")
    copies = (s for s in walk_statements(program.body) if isinstance(s, ir.AsyncLoad | ir.AsyncStore))
    for name in {name for copy in copies for name in (copy.source, copy.destination)} & parts.keys():
        raise InvalidInput(f"a part of `{name}` is copied asynchronously", fix="load and store its elements.")

    def confined(node: ir.Expr | ir.Stmt) -> ir.Expr | ir.Stmt:
        if not isinstance(node, ir.Load | ir.Store | ir.Atomic) or node.buffer not in parts:
            return node
        if any(isinstance(each, ir.Atomic) for each in unique_nodes([node.index])):
            raise InvalidInput(f"an atomic returns an index of `{node.buffer}`", fix="keep the parts of tiles apart.")
        inside = _inside(node.index, parts[node.buffer])
        if isinstance(node, ir.Load):
            element = program.buffers_by_name[node.buffer].element
            assert isinstance(element, ScalarType), "a reserved type has no size, and so no parts"
            return ir.Select(inside, node, ir.Literal(element.widened, 0))
        if isinstance(node, ir.Store):
            return ir.If(inside, (node,), loc=node.loc)
        return replace(node, index=ir.Select(inside, ir.Cast(ScalarType.U64, node.index), _OUTSIDE))

    body = rebuilt(program.body, confined) if parts else program.body
    buffers = program.buffers
    if guarded:
        (name,) = fresh_names(program, "tile_flags")
        binding = 1 + max((buffer.binding for buffer in program.abi_buffers), default=-1)
        buffers = (*buffers, Buffer.make(name, binding, Access.READ_ONLY, ScalarType.U32))
        body = (ir.If(ir.Binary(BinaryOp.NE, ir.Load(name, _TILE), ir.Literal(ScalarType.U32, 0)), body),)
    isolated = replace(program, buffers=buffers, body=body)
    check_rules(isolated).raise_if_invalid()
    return isolated


def _inside(index: ir.Expr, part: int) -> ir.Expr:
    """Returns whether an index of any integer type lies in the part of the tile."""
    size = ir.Literal(ScalarType.U64, part)
    start = ir.Binary(BinaryOp.MUL, ir.Cast(ScalarType.U64, _TILE), size)
    return ir.Binary(BinaryOp.LT, ir.Binary(BinaryOp.SUB, ir.Cast(ScalarType.U64, index), start), size)


def may_fail(program: Program) -> bool:
    """Returns whether a lane of the program may trap."""
    return any(isinstance(stmt, ir.Trap) for stmt in walk_statements(program.body))


@cache
def judging() -> Program:
    """Returns the program that counts ``COUNTS``, and leaves 1 in ``confirmed`` for tiles to commit, 0 for others."""
    return Program.from_text("""
        program speculation_judge
        workgroup_size 64, 1, 1
        buffer passed @0 read u32[runtime]
        buffer confirmed @1 read_write u32[runtime]
        buffer counts @2 read_write u32[3]
        body {
          let tile = gid.x
          if tile < len(passed) {
            let p = passed[tile] != 0u
            let c = confirmed[tile] != 0u
            if p { let of_passed = atomic_add(counts, 0u, 1u) }
            if c { let of_confirmed = atomic_add(counts, 1u, 1u) }
            if p and c { let of_committed = atomic_add(counts, 2u, 1u) }
            confirmed[tile] = select(p and c, 1u, 0u)
          }
        }
        """)


@cache
def copying(kind: ScalarType) -> Program:
    """Returns the program that copies ``source`` to ``target``, of equal lengths."""
    return Program.from_text(f"""
        program speculation_copy
        workgroup_size 64, 1, 1
        buffer source @0 read {kind.text}[runtime]
        buffer target @1 read_write {kind.text}[runtime]
        body {{ if gid.x < len(source) {{ target[gid.x] = source[gid.x] }} }}
        """)
