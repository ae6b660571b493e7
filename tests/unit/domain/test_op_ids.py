from __future__ import annotations

from support.small_programs import saxpy_program
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.types import u32
from vyre.domain.op_ids import ALL_OPS, required_ops

CORE = {
    *(f"vyre.node.{name}" for name in ("let", "assign", "store", "if", "loop", "return", "block", "barrier")),
    *(f"vyre.node.{name}" for name in ("indirect_dispatch", "async_load", "async_wait", "region", "trap")),
    *(f"vyre.lit_{name}" for name in ("u32", "i32", "f32", "bool")),
    *(f"vyre.{name}" for name in ("var", "bin_op", "un_op", "load")),
}


def test_the_shared_ids_keep_their_spelling() -> None:
    assert CORE <= ALL_OPS


def test_a_program_needs_what_it_contains() -> None:
    needed = required_ops(saxpy_program())
    assert {"vyre.node.if", "vyre.node.store", "vyre.bin_op", "vyre.load", "vyre.buffer_length"} <= needed
    assert needed <= ALL_OPS
    assert not needed & {"vyre.node.loop", "vyre.atomic"}


def test_a_shared_expression_is_visited_once() -> None:
    with ProgramBuilder("dag", workgroup=1) as p:
        y = p.output("y", u32, 1)
        total = p.global_id()
        for _ in range(60):  # a tree of 2**60 nodes, a graph of 61
            total = total + total
        y[0] = total
    assert "vyre.bin_op" in required_ops(p.build(check=False))
