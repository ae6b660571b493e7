"""The validator on programs that nobody would write: always a report, never another exception."""

from __future__ import annotations

import json
import random
from enum import Enum
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.edited_fields import field_of
from support.profiles import SOAK, examples
from support.programs import Case, Order, any_cases, generate
from vyre.domain.ir.expr import EXPR_TYPES, Atomic, Literal
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import STMT_TYPES
from vyre.domain.ir.types import EXECUTABLE_TYPES, ReservedType, ScalarType
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.validator import validate
from vyre.testing.program_edits import at, replaced, sites, spliced

SEEDS: Final = 20_000 if SOAK else 80


@pytest.mark.parametrize("order", Order)
def test_every_random_program_is_valid(order: Order) -> None:
    for seed in range(SEEDS):
        case = generate(seed, order=order, traps=True, indirect=True)
        report = validate(case.program)
        assert report.ok, f"seed {seed}: {report.render()}"
        assert report.order_sensitive or not _has_ordered_atomics(case)


def _has_ordered_atomics(case: Case) -> bool:
    ordered = (AtomicOp.EXCHANGE, AtomicOp.COMPARE_EXCHANGE)
    return any(isinstance(value, Atomic) and value.op in ordered for _, value in sites(case.program))


def broken(source: random.Random, program: Program, donor: Program) -> Program:
    """One arbitrary change: a node of the same family from anywhere, another name, type, number or shape."""
    path, value = source.choice(list(sites(program)))
    others = [other for _, other in sites(donor)]
    match value:
        case Node() if isinstance(value, EXPR_TYPES):
            return replaced(program, path, source.choice([o for o in others if isinstance(o, EXPR_TYPES)] or [value]))
        case Node() if isinstance(value, STMT_TYPES):
            donated = source.choice([o for o in others if isinstance(o, STMT_TYPES)] or [value])
            return spliced(program, path, source.choice(((), (donated,), (donated, value), (value, value))))
        case Node():
            donated = source.choice([o for o in others if type(o) is type(value)] or [value])
            return spliced(program, path, source.choice(((), (donated,), (donated, value), (value, value))))
        case tuple() if value and isinstance(value[0], Node):
            return replaced(program, path, source.choice(((), value * 2, value[::-1])))
        case ScalarType() if field_of(program, path) == ("Buffer", "element"):
            return replaced(program, path, source.choice((*ScalarType, ReservedType("tensor"), ReservedType("i4"))))
        case ScalarType():
            return _with_new(program, path, source.choice(EXECUTABLE_TYPES))
        case bool():
            return replaced(program, path, not value)
        case Enum():
            return replaced(program, path, source.choice(list(type(value))))
        case int():
            return _with_new(program, path, source.choice((0, 1, 2, 3, 4, 7, 1 << 31, (1 << 32) - 1, 1 << 32)))
        case str():
            names = [o for o in others if isinstance(o, str)]
            return replaced(program, path, source.choice((*names, "", "nowhere")))
        case None if field_of(program, path) == ("Atomic", "expected"):
            return replaced(program, path, Literal(ScalarType.U32, 1))
        case None if field_of(program, path) == ("Buffer", "output_range"):
            return replaced(program, path, source.choice(((0, 4), (8, 4), (0, 1 << 40))))
        case None if field_of(program, path) == ("Buffer", "like"):
            return replaced(program, path, source.choice(program.buffers).name)
    return program


def _with_new(program: Program, path: Any, value: Any) -> Program:
    try:
        return replaced(program, path, value)
    except ValueError:  # literals check their own bits
        return program


@examples(200)
@given(case=any_cases(work=1500), donor=st.integers(0, 500), seed=st.integers(0, 1 << 32))
def test_a_broken_program_gets_a_report(case: Case, donor: int, seed: int) -> None:
    source = random.Random(seed)
    other = generate(donor, order=Order.RACY, work=1500, traps=True, indirect=True).program
    program = case.program
    for _ in range(source.randrange(1, 4)):
        program = broken(source, program, other)
    report = validate(program)
    assert isinstance(report.render(), str)
    for finding in (*report.errors, *report.warnings, *report.notes):
        assert finding.code and finding.message and finding.fix
    if not report.ok:
        with pytest.raises(InvalidProgram) as caught:
            report.raise_if_invalid()
        assert caught.value.report is report


@examples(50)
@given(case=any_cases(work=1500))
def test_a_report_belongs_to_the_meaning_not_to_the_object(case: Case) -> None:
    report = validate(case.program)
    again = validate(Program.from_wire(case.program.to_wire()))
    assert again.ok is report.ok and again.order_sensitive is report.order_sensitive
    assert validate(case.program) is report
    assert json.dumps([d.code for d in report.warnings]) == json.dumps([d.code for d in again.warnings])
    assert at(case.program, ("body",)) is case.program.body
