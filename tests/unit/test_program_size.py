"""What is done for a program grows with its nodes and no faster, counted in steps of Python, for many shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest
from benchmarks.program_shapes import BUILT, SHAPES

from support.counting import steps_of
from vyre.adapters.cpu.llvm import emit as cpu
from vyre.adapters.cpu.llvm.options import EmitOptions as CpuOptions
from vyre.adapters.cuda.machine.module import load_module
from vyre.adapters.cuda.ptx.emit import emit
from vyre.adapters.cuda.ptx.kernel import Assumption
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.adapters.reference.scalar_oracle import ScalarKernel
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.ir.program import Program
from vyre.domain.lints.checker import find_lints
from vyre.domain.validation.validator import check_rules, validate
from vyre.ir import MAX_PROGRAM_NODES, operands, walk, walk_statements

SMALL, LARGE = 300, 1200
"""Nodes of the two programs."""
TOLERANCE = 1.15
"""How much faster than the nodes the steps may grow: a program of twice the nodes has longer names, for example."""
WRITTEN_TWICE = "CPU emission with step budgets"
"""The phase that writes what follows the first loop twice, which is more of a large program than of a small one: its
steps are compared with the lines that it writes, which are at most twice as many.
"""
ASSUMED = EmitOptions(assume=frozenset(Assumption))


def _validated(program: Program) -> Program:
    """Returns a copy without the facts that other phases have left behind, except those of validation."""
    copy = replace(program)
    check_rules(copy).raise_if_invalid()
    return copy


def _phases(program: Program) -> Mapping[str, Callable[[], object]]:
    valid = [_validated(program) for _ in range(8)]
    text, wire, json, ptx = program.to_text(), program.to_wire(), program.to_json(), emit(program).ptx
    return {
        "rules": lambda: check_rules(replace(program)),
        "lints": lambda: find_lints(valid[0]),
        "digest": lambda: valid[1].digest,
        "to_text": lambda: valid[2].to_text(),
        "from_text": lambda: Program.from_text(text),
        "to_wire": lambda: valid[3].to_wire(),
        "from_wire": lambda: Program.from_wire(wire),
        "to_json": lambda: valid[4].to_json(),
        "from_json": lambda: Program.from_json(json),
        "vectorised engine": lambda: VectorKernel(valid[5], {}),
        "scalar oracle": lambda: ScalarKernel(valid[6], {}),
        "emission": lambda: emit(valid[7]),
        "CPU emission": lambda: cpu.emit(_validated(program)),
        WRITTEN_TWICE: lambda: cpu.emit(_validated(program), CpuOptions(counting=True)),
        "emission with assumptions": lambda: emit(_validated(program), ASSUMED),
        "emulated device": lambda: load_module.__wrapped__(ptx),
    }


def _nodes(program: Program) -> int:
    statements = list(walk_statements(program.body))
    return len(statements) + sum(1 for stmt in statements for root in operands(stmt) for _ in walk(root))


@pytest.mark.parametrize("shape", SHAPES)
def test_no_phase_takes_more_than_linear_steps(shape: str) -> None:
    for work in _phases(SHAPES[shape](64)).values():
        work()  # the first call imports modules and fills tables
    programs = SHAPES[shape](SMALL), SHAPES[shape](LARGE)
    most = TOLERANCE * _nodes(programs[1]) / _nodes(programs[0])
    small, large = map(_phases, programs)
    steps = {name: (steps_of(small[name]), steps_of(large[name])) for name in small}
    assert {name: few for name, (few, _) in steps.items() if few == 0} == {}
    growth = {name: many / few for name, (few, many) in steps.items()}
    lines, counted_lines = (
        [len(cpu.emit(_validated(each), CpuOptions(counting=counting)).text.splitlines()) for each in programs]
        for counting in (False, True)
    )
    twice = (counted_lines[1] / counted_lines[0]) / (lines[1] / lines[0])
    assert twice < 2
    growth[WRITTEN_TWICE] /= max(1, twice)
    assert {name: found for name, found in growth.items() if found > most} == {}


@pytest.mark.parametrize("shape", BUILT)
def test_tracing_takes_linear_steps(shape: str) -> None:
    BUILT[shape](64)
    few, many = (steps_of(partial(BUILT[shape], nodes)) for nodes in (SMALL, LARGE))
    assert few < many < TOLERANCE * LARGE / SMALL * few


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shapes_have_nearly_as_many_nodes_as_wanted(shape: str) -> None:
    wanted = 1 << 12
    assert 0.8 * wanted < _nodes(SHAPES[shape](wanted)) <= wanted


def test_a_program_of_the_largest_size_is_valid_and_one_more_statement_is_too_much() -> None:
    program = SHAPES["stores"](MAX_PROGRAM_NODES)
    spare = MAX_PROGRAM_NODES - 5 * len(program.body)
    assert spare < 5
    assert check_rules(program).ok
    longer = replace(program, body=(*program.body, program.body[0]))
    assert [found.code for found in validate(longer).errors] == ["V019"]
