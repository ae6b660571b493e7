"""How often a program with grid loops runs its kernels, as its plan tells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vyre.adapters.cpu.runtime.shapes import place, steps_at_most
from vyre.adapters.kernel_plan import KernelLoop, KernelPlan, KernelRuns, kernel_runs
from vyre.domain.grid_sync import Rounds, plan_grid_sync
from vyre.domain.ir.program import Program

NESTED = KernelPlan((0, KernelLoop(1, (2, KernelLoop(3, (4,), 5, 3, most=10)), 6, 0, most=2)), 6)
ENDLESS = KernelPlan((KernelLoop(0, (1,), 2, 0),), 3)


def test_rounds_of_loops_multiply() -> None:
    assert kernel_runs(NESTED, 7) == KernelRuns({0: 1, 2: 2, 4: 20}, 3 + 22)
    assert kernel_runs(None, 3) == KernelRuns({0: 1, 1: 1, 2: 1}, 0)
    assert kernel_runs(ENDLESS, 3) is None


@pytest.mark.parametrize(
    ("limit", "loop", "most"),
    [("5u", "0u .. 7u step 2u", (5, 4)), ("len(x)", "0u .. 7u step 1u", (None, 7)), ("5u", "0u .. len(x)", (5, None))],
)
def test_plans_tell_rounds_between_literals(limit: str, loop: str, most: tuple[int | None, int | None]) -> None:
    program = Program.from_text(f"""
        workgroup_size 8, 1, 1
        buffer x @0 read_write u32[runtime]
        buffer f @1 read_write u32[1]
        body {{
          let n = grid_loop({limit}, f) {{
            for k in {loop} {{ x[gid.x] = x[gid.x] + k barrier(grid_sync) x[gid.x + 8u] = x[gid.x] }}
          }}
        }}
    """)
    (outer,) = (step for step in plan_grid_sync(program) if isinstance(step, Rounds))
    (inner,) = (step for step in outer.body if isinstance(step, Rounds))
    assert (outer.most, inner.most) == most


def test_work_and_threads_are_those_of_a_round() -> None:
    """Loops of kernels that begin and end rounds do not count, and what a launch takes is that of one kernel."""
    bounds = [1, None, 3, None, 1, None, None]
    kernels = tuple(SimpleNamespace(bounded=bound) for bound in bounds)
    module: Any = SimpleNamespace(nodes=30, loaded=SimpleNamespace(kernels=kernels, lanes=8))
    launch: Any = SimpleNamespace(grid=(4, 1, 1), workgroup=(8, 1, 1))
    assert steps_at_most(module, launch, 1, NESTED) == 30 * (1 + 2 * 3 + 20 + 25) * 4 * 8
    assert steps_at_most(module, launch, 1, ENDLESS) is None
    # 4 workgroups of 10 us: for one kernel that is worth four threads, for a round of 1 000 of them it is not.
    options: Any = {"threads": 4, "order_sensitive": False, "sink": None, "handoff_ns": 10_000}
    assert place(module, launch, group_ns=10_000, plan=NESTED, **options).threads == 4
    assert place(module, launch, group_ns=10, plan=NESTED, **options).threads == 1
