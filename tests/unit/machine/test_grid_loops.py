"""Grid loops in one cooperative kernel: one launch, the reference's bytes, and what goes wrong without a barrier."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.ptx import barriers, statements
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.opening import open as open_session
from vyre.domain import native_rounds
from vyre.domain.errors import BackendError
from vyre.domain.ir.program import Program
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.testing.machine import CudaMachine, cuda_machine

LENGTH: Final = 64
SPREAD: Final = """workgroup_size 8, 1, 1
    buffer x @0 read_write u32[64]
    buffer flag @1 read_write u32[1]
    buffer y @2 read_write u32[64] output
    buffer n @3 write u32[1]
    body {
      let i = 63u - gid.x
      let rounds = grid_loop(500u, flag) {
        y[i] = x[i]
        if i > 0u { y[i] = min(x[i], x[i - 1u] + 1u) }
        barrier(grid_sync)
        if y[i] != x[i] {
          x[i] = y[i]
          flag[0u] = 1u
        }
      }
      if i == 0u { n[0u] = rounds }
    }"""
"""Distances along a path, from the far end, so that a workgroup that runs ahead finds nothing to do."""
SCHEDULES: Final = [RunOptions("lockstep", 0), RunOptions("reverse", 0), RunOptions("shuffled", 3)]


def inputs() -> dict[str, Any]:
    x = np.full(LENGTH, 1000, np.uint32)
    x[0] = 0
    return {"x": x, "flag": np.array([5], np.uint32)}


def outputs(machine: CudaMachine) -> dict[str, list[int]]:
    with machine.open() as session:
        found = session.dispatch(Program.from_text(SPREAD), inputs())
        return {name: found[name].tolist() for name in ("x", "flag", "y", "n")}


def wanted() -> dict[str, list[int]]:
    with open_session("reference") as session:
        found = session.dispatch(Program.from_text(SPREAD), inputs())
        return {name: found[name].tolist() for name in ("x", "flag", "y", "n")}


def test_the_reference_counts_a_round_for_each_element() -> None:
    assert wanted() == {"x": [*range(LENGTH)], "flag": [0], "y": [*range(LENGTH)], "n": [LENGTH]}


def launches(machine: CudaMachine) -> int:
    assert machine.backend.metric_source is not None
    return machine.backend.metric_source.metrics()["kernel_launches"]


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: o.schedule)
def test_all_rounds_are_one_launch(options: RunOptions) -> None:
    machine = cuda_machine(kernels=options)
    assert outputs(machine) == wanted()
    assert not machine.driver.violations
    assert launches(machine) == 1


def differs(machine: CudaMachine) -> bool:
    """Whether the machine does not return the reference's bytes: other bytes, or a fault."""
    try:
        return outputs(machine) != wanted()
    except BackendError:
        return True


def test_without_barriers_of_the_grid_the_bytes_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def workgroup_only(k: Kernel) -> None:
        barriers.workgroup(k)

    monkeypatch.setattr(statements.barriers, "grid", workgroup_only)
    assert differs(cuda_machine(kernels=RunOptions(check_races=False, workgroups_at_once=1)))


@pytest.mark.parametrize(
    ("ahead", "what"), [(3, "the flag that lanes are reading is cleared"), (99, "no flag is cleared")]
)
def test_clearing_another_flag_is_noticed(ahead: int, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is a race, the second makes the loop run to its limit."""
    usual = native_rounds._Rounds._turn

    def another(rounds: Any, word: int, before: int) -> Any:
        return usual(rounds, word if before < 2 or ahead < 4 else 99, before if before < 2 else ahead)

    monkeypatch.setattr(native_rounds._Rounds, "_turn", another)
    assert differs(cuda_machine()), what


def test_a_forced_native_loop_needs_every_workgroup_at_once() -> None:
    machine = cuda_machine(CudaOptions(grid_sync=GridSyncMode.NATIVE))
    assert outputs(machine) == wanted()
