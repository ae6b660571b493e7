"""What is known before a kernel is written, and what is recorded while it is."""

from __future__ import annotations

from typing import Any, Final

import pytest

from vyre import Program, ProgramBuilder, u32
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.facts import Assumptions
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.memory import Certain, in_range
from vyre.adapters.cuda.ptx.operands import Register
from vyre.adapters.cuda.ptx.options import EmitOptions, Switches
from vyre.adapters.cuda.ptx.values import Value, literal
from vyre.domain.ir.expr import Load
from vyre.domain.ir.stmt import Store
from vyre.domain.ir.types import ScalarType

ALL: Final = frozenset(Assumption)


def copy_program(count: int | None = None) -> Program:
    """``y[gid] = x[gid]``, of as many elements as are passed or of ``count``."""
    with ProgramBuilder(workgroup=64) as p:
        x, y = p.input("x", u32, count), p.output("y", u32, count, like=None if count else "x")
        i = p.global_id()
        y[i] = x[i]
    return p.build()


def parts_of(program: Program) -> tuple[Store, Load]:
    (stmt,) = program.body
    assert isinstance(stmt, Store) and isinstance(stmt.value, Load)
    return stmt, stmt.value


def kernel(program: Program, **options: Any) -> Kernel:
    return Kernel("k", program, EmitOptions(**options), {}, None)


@pytest.mark.parametrize(("bits", "expected"), [(0, Certain.INSIDE), (7, Certain.INSIDE), (8, Certain.OUTSIDE)])
def test_a_known_index_is_inside_or_outside_of_a_static_buffer(bits: int, expected: Certain) -> None:
    k = kernel(copy_program(8))
    _, load = parts_of(k.program)
    assert in_range(k, load, literal(ScalarType.U32, bits)) is expected
    assert k.w.body == []


def test_an_index_that_nobody_knows_takes_a_predicate() -> None:
    k = kernel(copy_program())
    _, load = parts_of(k.program)
    guard = in_range(k, load, Value(Register("%r1"), ScalarType.U32))
    assert isinstance(guard, Register)
    assert f"setp.lt.u32 {guard}," in "\n".join(k.w.body)
    assert k.assumptions.made == ()


@pytest.mark.parametrize(
    ("permitted", "switches", "grounds"),
    [
        (frozenset(), Switches(), None),
        (ALL, Switches(), frozenset({Assumption.EXACT_GRID})),
        (ALL - {Assumption.EXACT_GRID}, Switches(), None),
        (ALL, Switches(bounds_checks=False), None),
    ],
)
def test_asking_tells_the_grounds_and_records_nothing(
    permitted: frozenset[Assumption], switches: Switches, grounds: frozenset[Assumption] | None
) -> None:
    k = kernel(copy_program(), assume=permitted, switches=switches)
    for access in parts_of(k.program):
        for _ in range(2):
            assert k.facts.proven(access) == grounds
        k.facts.wide(access)
        assert k.facts.rests_on(access) <= permitted
    assert k.assumptions.made == ()


def test_an_access_that_is_written_records_what_it_rests_on() -> None:
    k = kernel(copy_program(), assume=ALL)
    store, _ = parts_of(k.program)
    assert in_range(k, store, Value(Register("%r1"), ScalarType.U32)) is Certain.INSIDE
    assert k.assumptions.made == (Assumption.EXACT_GRID,)


@pytest.mark.parametrize("permitted", [frozenset(), frozenset({Assumption.NOALIAS}), ALL])
def test_no_assumption_is_made_that_is_not_permitted(permitted: frozenset[Assumption]) -> None:
    assumptions = Assumptions(permitted)
    assert assumptions.make(*Assumption) == (permitted == ALL)
    assert frozenset(assumptions.made) == (ALL if permitted == ALL else frozenset())
    assert assumptions.make(Assumption.NOALIAS) == (Assumption.NOALIAS in permitted)
    assert frozenset(assumptions.made) == permitted
    (written,) = emit(copy_program(), EmitOptions(assume=permitted)).kernels
    assert frozenset(written.assumes) <= permitted
