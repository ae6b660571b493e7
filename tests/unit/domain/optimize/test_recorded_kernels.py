"""The passes on kernels that another compiler lowered: the same bytes from a third of the statements."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from support.recorded_kernels import NAMES, kernel, kernel_case
from support.running import run
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import walk_statements
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES
from vyre.domain.optimize.passes import run_passes
from vyre.domain.validation.validator import validate


def optimized(program: Program) -> Program:
    return run_passes(program, [PASSES[name] for name in DEFAULT_ORDER]).program


def statements(program: Program) -> int:
    return sum(1 for _ in walk_statements(program.body))


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_keeps_its_bytes(name: str) -> None:
    case = kernel_case(name)
    made = optimized(case.program)
    validate(made).raise_if_invalid()
    assert made.abi_buffers == case.program.abi_buffers
    engine = VectorKernel
    assert run(engine, replace(case, program=made)) == run(engine, case)


def test_a_third_of_the_statements_is_left() -> None:
    assert len(NAMES) == 24
    pairs = [(program, optimized(program)) for program in map(kernel, NAMES)]
    assert median(statements(old) / statements(new) for old, new in pairs) >= 3.0
    assert median(node_facts(old).nodes / node_facts(new).nodes for old, new in pairs) >= 1.7
    assert all(statements(old) >= 2 * statements(new) for old, new in pairs)
