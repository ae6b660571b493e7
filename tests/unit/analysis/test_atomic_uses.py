"""The atomics of a program by buffer."""

from __future__ import annotations

import pytest

from vyre.domain.analysis.atomic_uses import AtomicUse, atomic_uses
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.text import parse_program
from vyre.domain.ir.types import ScalarType

U32, U64 = ScalarType.U32, ScalarType.U64
ADD = frozenset({AtomicOp.ADD})


def program(body: str) -> Program:
    return parse_program(
        f"""workgroup_size 64, 1, 1
        buffer x @0 read u32[runtime]
        buffer a @1 read_write u32[16]
        buffer b @2 read_write u64[16]
        buffer shared @- workgroup u32[4]
        body {{ {body} }}"""
    )


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        ("", ()),
        ("let o = atomic_add(a, gid.x, 1u)", (AtomicUse("a", U32, ADD),)),
        (
            "let o = atomic_add(b, 0u, 1u64) let q = atomic_max(a, 0u, 1u)",
            (AtomicUse("a", U32, frozenset({AtomicOp.MAX})), AtomicUse("b", U64, ADD)),
        ),
        ("let o = atomic_add(shared, 0u, 1u)", ()),
        (
            "let o = atomic_add(a, 0u, 1u) let q = atomic_or(a, 1u, 1u)",
            (AtomicUse("a", U32, frozenset({AtomicOp.ADD, AtomicOp.OR}), rounds=2),),
        ),
        # Results.
        ("let o = atomic_add(a, 0u, 1u) let q = o", (AtomicUse("a", U32, ADD, results_used=True),)),
        ("let o = 0u o := atomic_add(a, 0u, 1u)", (AtomicUse("a", U32, ADD),)),
        ("let o = 0u o := atomic_add(a, 0u, 1u) let q = o", (AtomicUse("a", U32, ADD, results_used=True),)),
        ("let o = atomic_add(a, 0u, 1u) + 1u", (AtomicUse("a", U32, ADD, results_used=True),)),
        (
            "if atomic_add(a, 0u, 1u) == 0u { let o = atomic_add(b, 0u, 1u64) }",
            (AtomicUse("a", U32, ADD, results_used=True), AtomicUse("b", U64, ADD)),
        ),
        # Plain accesses.
        ("let o = atomic_add(a, 0u, x[0u])", (AtomicUse("a", U32, ADD),)),
        ("let o = atomic_add(a, 0u, len(a))", (AtomicUse("a", U32, ADD),)),
        ("let o = atomic_add(a, 0u, a[1u])", (AtomicUse("a", U32, ADD, plain=True),)),
        ("let o = atomic_add(a, 0u, 1u) if gid.x == 9u { a[0u] = 1u }", (AtomicUse("a", U32, ADD, plain=True),)),
        ("let o = atomic_add(a, 0u, 1u) indirect_dispatch(a, 0)", (AtomicUse("a", U32, ADD, plain=True),)),
        # Rounds.
        ("for k in 0u..10u { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD, rounds=10),)),
        ("for k in 1u..10u step 4u { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD, rounds=3),)),
        ("for k in 1u..9u step 4u { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD, rounds=2),)),
        ("for k in 9i..-1i step -3i { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD, rounds=4),)),
        ("for k in 9u..2u { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD),)),
        ("for k in 0u..9u step 0u { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD),)),
        ("for k in 0u..x[0u] { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD),)),
        ("for k in x[0u]..9u { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD),)),
        ("for k in 0u..9u step x[0u] { let o = atomic_add(a, k, 1u) }", (AtomicUse("a", U32, ADD),)),
        (
            "for k in 0u..5u { for j in 0u..3u { let o = atomic_add(a, k, 1u) } let q = atomic_add(a, k, 1u) }",
            (AtomicUse("a", U32, ADD, rounds=20),),
        ),
        (
            "for k in 0u64..0xffffffffffffffffu64 { for j in 0u..3u { let o = atomic_add(a, k, 1u) }"
            " let q = atomic_add(a, k, 1u) }",
            (AtomicUse("a", U32, ADD, rounds=2**64 - 1),),
        ),
        ("block { let o = atomic_add(a, 0u, 1u) }", (AtomicUse("a", U32, ADD),)),
    ],
)
def test_uses(body: str, uses: tuple[AtomicUse, ...]) -> None:
    tested = program(body)
    assert atomic_uses(tested) == uses
    assert atomic_uses(tested) is atomic_uses(tested)
