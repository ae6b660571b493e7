"""Loads of consecutive elements: which are grouped, and which must not be."""

from __future__ import annotations

from typing import Final

from support.kernels import BARRIER, GID, add, kernel, lit, loop, op
from vyre.domain.analysis.adjacent_loads import LONGEST, adjacent_loads
from vyre.domain.analysis.bounds_checks import bounds_facts
from vyre.domain.ir.expr import Expr, Load
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Buffer
from vyre.domain.ir.stmt import Body, Let, Stmt, Store, operands, walk_statements
from vyre.domain.ir.types import u32
from vyre.domain.ir.walk import unique_nodes

BUFFERS: Final = (
    Buffer.make("a", 0, Access.READ_ONLY, u32),
    Buffer.make("c", 1, Access.READ_ONLY, u32),
    Buffer.make("b", 2, Access.READ_WRITE, u32),
)
ROW: Final = op(BinaryOp.MUL, GID, lit(5))


def loads(base: Expr, *offsets: int, buffer: str = "a") -> list[Stmt]:
    return [Let(f"{buffer}{k}_{offset}", Load(buffer, add(base, lit(offset)))) for k, offset in enumerate(offsets)]


def groups(*body: Stmt) -> list[list[int]]:
    """The places in their groups of all loads, and -1 where there is none, for each group in the order of loads."""
    program = kernel(*body, buffers=BUFFERS)
    facts = adjacent_loads(program, bounds_facts(program).flow)
    found: dict[int, list[int]] = {}
    for stmt in walk_statements(program.body):
        for node in unique_nodes(operands(stmt)):
            if isinstance(node, Load):
                member = facts.of(node)
                found.setdefault(-1 if member is None else member.group.number, []).append(
                    -1 if member is None else member.place
                )
                assert member is None or member.place < len(member.group.nodes)
    return list(found.values())


def test_consecutive_elements_in_any_order() -> None:
    assert groups(*loads(ROW, 0, 1, 2, 3)) == [[0, 1, 2, 3]]
    assert groups(*loads(ROW, 9, 7, 8, 6)) == [[3, 1, 2, 0]]
    assert groups(*loads(ROW, 0, 1, 1, 2, 3)) == [[0, 1, 1, 2, 3]]


def test_groups_have_whole_rows() -> None:
    assert groups(*loads(ROW, *range(7))) == [[0, 1, 2, 3], [-1, -1, -1]]
    assert groups(*loads(ROW, *range(3))) == [[-1, -1, -1]]
    assert groups(*loads(ROW, 0, 1, 2, 4, 5, 6)) == [[-1] * 6]
    many = groups(*loads(ROW, *range(LONGEST + 4)))
    assert many == [list(range(LONGEST)), [0, 1, 2, 3]]


def test_bases_and_buffers_are_apart() -> None:
    mixed = [*loads(ROW, 0, 1), *loads(ROW, 2, 3, buffer="c"), *loads(GID, 2, 3)]
    assert groups(*mixed) == [[-1] * 6]
    assert groups(*loads(ROW, 0, 1), *loads(ROW, 0, 1, 2, 3, buffer="c"), *loads(ROW, 2, 3)) == [
        [0, 1, 2, 3],
        [0, 1, 2, 3],
    ]


def test_written_buffers_are_not_grouped() -> None:
    assert groups(*loads(ROW, 0, 1, 2, 3, buffer="b")) == [[-1] * 4]


def test_stores_to_other_buffers_do_not_part_a_group() -> None:
    body: Body = (*loads(ROW, 0, 1), Store("b", GID, lit(1)), *loads(ROW, 2, 3))
    assert groups(*body) == [[0, 1, 2, 3]]


def test_barriers_and_bodies_part_groups() -> None:
    assert groups(*loads(ROW, 0, 1), BARRIER, *loads(ROW, 2, 3)) == [[-1] * 4]
    inner = loop("k", lit(4), *loads(ROW, 2, 3))
    assert groups(*loads(ROW, 0, 1), inner) == [[-1] * 4]


def test_expressions_that_occur_twice_are_in_no_group() -> None:
    shared = Load("a", add(ROW, lit(0)))
    assert groups(Let("x", shared), Let("y", shared), *loads(ROW, 1, 2, 3)) == [[-1] * 5]
