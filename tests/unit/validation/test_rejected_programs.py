"""Programs that the reference system refuses, or accepts by mistake: which of them are legal here."""

from __future__ import annotations

import pytest

from support.kernels import (
    BARRIER,
    LID,
    TRUE,
    add,
    equal,
    kernel,
    less,
    lit,
    load,
    loop,
    op,
    store,
    var,
    when,
)
from vyre.domain.ir.expr import Atomic, Cast, Fma, Select, SubgroupReduce
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, SubgroupOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Assign, AsyncLoad, AsyncWait, Barrier, Let, Region, Return, Stmt, Trap
from vyre.domain.ir.types import ScalarType, f32, i32, u8, u32
from vyre.domain.validation.validator import validate


def _atomic_add(buffer: str) -> Let:
    return Let("o", Atomic(AtomicOp.ADD, buffer, lit(0), None, lit(1)))


def _with(element: ScalarType, access: Access, *body: Stmt) -> Program:
    return kernel(*body, buffers=(Buffer.make("b", 0, access, element, 4),))


_TWO_OUTPUTS = tuple(Buffer.make(f"o{i}", i, Access.READ_WRITE, u32, 4, is_output=True) for i in range(2))
_N = var("n")

REFUSED = {
    "N01 barrier under a lane condition": (kernel(when(less(LID, lit(2)), BARRIER)), ["V010"]),
    "N02 relaxed barrier": (kernel(Barrier(Ordering.RELAXED)), ["V043"]),
    "N03 undeclared local": (kernel(store(var("x"))), ["V107"]),
    "N04 two lets in one scope": (kernel(Let("x", lit(1)), Let("x", lit(2))), ["V032"]),
    "N05 loop variable shadows": (kernel(Let("k", lit(5)), loop("k", lit(3))), ["V008"]),
    "N06 loop variable assigned": (kernel(loop("k", lit(3), Assign("k", lit(1)))), ["V011"]),
    "N07 a region is a scope": (kernel(Region("g", (Let("x", lit(5)),)), store(var("x"))), ["V107"]),
    "N08 f32 into u32": (kernel(store(lit(1.0, f32))), ["V113"]),
    "N09 store past the count": (_with(u32, Access.READ_WRITE, store(lit(1), "b", lit(4))), ["V036"]),
    "N13 atomic after a load": (kernel(Let("x", load("out", lit(0))), _atomic_add("out")), ["V123"]),
    "N15 u32 + f32": (kernel(Let("z", add(lit(1), lit(1.0, f32)))), ["V130"]),
    "N16 bool == u32": (kernel(Let("z", equal(TRUE, lit(1)))), ["V130"]),
    "N17 store after return": (kernel(Return(), store(lit(1))), ["V119"]),
    "N18 integer fma": (kernel(Let("z", Fma(lit(1), lit(2), lit(3)))), ["V028"] * 3),
    "N19 select of two types": (kernel(Let("z", Select(TRUE, lit(1), lit(1.0, f32)))), ["V029"]),
    "N20 i32 loop bounds with a u32 step": (kernel(loop("k", lit(2, i32), start=lit(0, i32))), ["V116"]),
    "N21 f32 condition": (kernel(when(lit(1.0, f32))), ["V115"]),
    "N22 empty workgroup": (kernel(workgroup=(0, 1, 1)), ["V102"]),
    "N23 self-exclusive regions": (kernel(*(Region("p#self-exclusive", ()),) * 2), ["V124"]),
    "N27 assignment in a divergent branch": (
        kernel(
            Let("n", lit(0)),
            when(less(LID, lit(2)), Assign("n", lit(5))),
            when(equal(_N, lit(5)), BARRIER),
        ),
        ["V010"],
    ),
    "N28 divergence carried round a loop": (
        kernel(
            Let("n", lit(0)),
            loop("k", lit(2), when(equal(_N, lit(1)), BARRIER), Assign("n", LID)),
        ),
        ["V010"],
    ),
    "N29 undeclared names in trap and copy": (
        kernel(AsyncLoad("zz", "out", lit(0), lit(4), "t"), AsyncWait("t"), Trap(var("nope"), "t")),
        ["V108", "V107"],
    ),
}
ACCEPTED = {
    "N10 a zero divisor under a float cast": kernel(Let("r", op(BinaryOp.MOD, lit(3), Cast(u32, lit(0.0, f32))))),
    "N11 atomic on workgroup memory": kernel(_atomic_add("sh")),
    "N12 atomic on i32": _with(i32, Access.READ_WRITE, Let("o", Atomic(AtomicOp.ADD, "b", lit(0), None, lit(1, i32)))),
    "N14 two outputs": kernel(buffers=_TWO_OUTPUTS),
    "N20 i32 loop bounds": kernel(loop("k", lit(2, i32), store(lit(1)), start=lit(0, i32), step=lit(1, i32))),
    "N25 subgroup sum": kernel(Let("x", SubgroupReduce(SubgroupOp.ADD, lit(1)))),
    "N26 no root region": kernel(store(lit(1))),
    "N30 sum of narrow loads": _with(u8, Access.READ_ONLY, Let("a", add(load("b"), load("b")))),
}


@pytest.mark.parametrize(("program", "codes"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(program: Program, codes: list[str]) -> None:
    assert [found.code for found in validate(program).errors] == codes


def test_a_written_zero_divisor_is_noted_and_the_program_is_valid() -> None:
    """The reference system refuses N10; here integer division by zero has a value."""
    report = validate(kernel(Let("q", op(BinaryOp.DIV, lit(1), lit(0))), Let("r", op(BinaryOp.MOD, lit(1), lit(0)))))
    assert report.ok
    assert [lint.code for lint in report.lints] == ["L013", "L013"]


@pytest.mark.parametrize("program", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(program: Program) -> None:
    assert validate(program).diagnostics == ()


def test_a_mistake_is_reported_once_and_in_program_order() -> None:
    wrong = add(var("nope"), lit(1.0, f32))
    program = kernel(
        Let("x", wrong),
        Let("y", add(var("x"), lit(1))),
        when(less(LID, lit(1)), store(lit(1.0, f32))),
        store(var("y"), index=wrong),
    )
    assert [(found.code, found.message) for found in validate(program).errors] == [
        ("V107", "no local `nope` is visible here"),
        ("V113", "a store to `out` takes u32, got f32"),
        ("V107", "no local `nope` is visible here"),
    ]


def test_equal_programs_have_equal_reports_however_they_share_nodes() -> None:
    body = (loop("k", lit(2), BARRIER),)
    shared = kernel(when(less(LID, lit(2)), *body), *body)
    again = kernel(when(less(LID, lit(2)), loop("k", lit(2), BARRIER)), loop("k", lit(2), BARRIER))
    assert shared == again
    assert validate(shared) == validate(again)
    assert [found.code for found in validate(shared).errors] == ["V010"]


def test_the_report_is_cached_on_the_program() -> None:
    program = kernel(store(lit(1)))
    assert validate(program) is validate(program)
