"""Random programs, emitted and interpreted, against the reference: same bytes, same traps, under every schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from support.cuda.ptx_runs import SCHEDULES
from support.machine.engine import MachineEngine
from support.programs import Case, Order, generate
from support.running import Outcome, run
from vyre.adapters.cuda.machine.faults import FaultKind, KernelFault
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx.options import ALL_OFF, EmitOptions
from vyre.adapters.reference import executor
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.errors import UnsupportedFeature
from vyre.domain.grid_sync import plan_grid_sync
from vyre.domain.ir.program import Program

SEEDS: Final = range(40)


def machine(case: Case, options: RunOptions, emission: EmitOptions, chunk: int | None = None) -> Outcome | None:
    """The outcome on the interpreter, None for what the CUDA backend refuses.  Step budgets do not exist there."""
    unlimited = replace(case, config=replace(case.config, step_budget=None))
    try:
        return run(MachineEngine(options, emission), unlimited, chunk)
    except UnsupportedFeature:
        return None


def reference(case: Case) -> Outcome:
    return run(VectorKernel, replace(case, config=replace(case.config, step_budget=None)), 1)


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: f"{o.schedule}{o.seed}")
def test_order_independent_programs_agree_under_every_schedule(options: RunOptions) -> None:
    compared = 0
    for seed in SEEDS:
        case = generate(seed, order=Order.INDEPENDENT, traps=True)
        found = machine(case, options, EmitOptions())
        compared += found is not None
        assert found is None or found == reference(case), f"seed {seed}"
    assert compared > len(SEEDS) // 2


def test_order_sensitive_programs_agree_in_lockstep() -> None:
    for seed in SEEDS:
        case = generate(seed, order=Order.ATOMIC, traps=True)
        found = machine(case, RunOptions(), EmitOptions())
        assert found is None or found == reference(case), f"seed {seed}"


@pytest.mark.parametrize("target", [75, 90])
@pytest.mark.parametrize("table", [False, True])
def test_other_forms_of_the_same_program_agree(target: int, table: bool) -> None:
    emission = EmitOptions(target=target, pointer_table=table, switches=ALL_OFF)
    for seed in range(100, 125):
        case = generate(seed, order=Order.INDEPENDENT, traps=True)
        found = machine(case, RunOptions(), emission)
        assert found is None or found == reference(case), f"seed {seed}"


@pytest.mark.parametrize("options", SCHEDULES[::2], ids=lambda o: o.schedule)
def test_grid_barriers_inside_one_kernel(options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(program: Program) -> tuple[Program, ...]:
        return (program,)

    compared = 0
    for seed in range(120):
        case = generate(seed, order=Order.INDEPENDENT, traps=False)
        if len(plan_grid_sync(case.program)) == 1:
            continue
        expected = reference(case)
        with monkeypatch.context() as patch:
            patch.setattr(executor, "plan_grid_sync", whole)
            found = machine(case, options, EmitOptions())
        compared += found is not None
        assert found is None or found == expected, f"seed {seed}"
    assert compared > 10


def test_racy_programs_are_caught() -> None:
    kinds = set()
    for seed in SEEDS:
        try:
            machine(generate(seed, order=Order.RACY, traps=False), RunOptions(), EmitOptions())
        except KernelFault as fault:
            kinds.add(fault.kind)
    assert kinds == {FaultKind.RACE}
