"""Grid loops in one cooperative kernel: one launch, the reference's bytes, and what goes wrong without a barrier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import build_bundle, load_bundle
from vyre.adapters.cuda.machine.options import RunOptions
from vyre.adapters.cuda.machine.presets import H200
from vyre.adapters.cuda.ptx import barriers
from vyre.adapters.cuda.ptx.context import Kernel
from vyre.adapters.cuda.ptx.module_form import decode_layout
from vyre.adapters.cuda.runtime.device import CudaOptions
from vyre.app.opening import open as open_session
from vyre.domain import native_rounds
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import BackendError, DispatchTimeout
from vyre.domain.ir.program import Program
from vyre.policies.launching.grid_sync_mode import GridSyncMode
from vyre.ports.bundles import bundled_code
from vyre.testing.machine import CudaMachine, cuda_machine

LENGTH: Final = 24
SPREAD: Final = """workgroup_size 8, 1, 1
    buffer x @0 read_write u32[24]
    buffer flag @1 read_write u32[1]
    buffer y @2 read_write u32[24] output
    buffer n @3 write u32[1]
    body {
      let i = 23u - gid.x
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
SPLIT: Final = CudaOptions(grid_sync=GridSyncMode.SPLIT)
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

    monkeypatch.setattr(barriers, "grid", workgroup_only)
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


# Rounds that the host starts, for grids of which not all workgroups are resident at once.


@pytest.mark.parametrize("options", SCHEDULES, ids=lambda o: o.schedule)
def test_split_rounds_have_the_same_bytes(options: RunOptions) -> None:
    machine = cuda_machine(SPLIT, kernels=options)
    assert outputs(machine) == wanted()
    assert not machine.driver.violations
    assert launches(machine) == 1 + 3 * LENGTH + 1, "the start, three kernels a round, and what follows"


def test_rounds_are_split_where_no_kernel_can_hold_them() -> None:
    machine = cuda_machine(preset=replace(H200, cooperative=False))
    assert outputs(machine) == wanted()
    assert launches(machine) > LENGTH


def test_split_rounds_wait_once_each() -> None:
    machine = cuda_machine(SPLIT)
    outputs(machine)
    assert machine.backend.metric_source is not None
    metrics = machine.backend.metric_source.metrics()
    assert LENGTH + 2 <= metrics["sync_points"] <= LENGTH + 3, "before the first round, in each, at the end, closing"


@pytest.mark.parametrize("limit", [0.02])
def test_a_timeout_ends_split_rounds(limit: float) -> None:
    endless = Program.from_text(
        """workgroup_size 8, 1, 1
        buffer flag @0 read_write u32[1]
        body { let rounds = grid_loop(0xffffffffu, flag) { flag[0u] = 1u } }"""
    )
    machine = cuda_machine(SPLIT)
    with machine.open() as session, pytest.raises(DispatchTimeout):
        session.dispatch(endless, {"flag": np.zeros(1, np.uint32)}, DispatchConfig(timeout_s=limit, grid=(1, 1, 1)))


def test_resident_and_bound_rounds() -> None:
    """Sequences and bound launches look after each round, too."""
    for runtime in (CudaOptions(), SPLIT):
        machine = cuda_machine(runtime)
        with machine.open() as session:
            program = Program.from_text(SPREAD)
            given = inputs()
            x = session.resident(given["x"])
            flag, y, n = (session.resident(np.zeros(k, np.uint32)) for k in (1, LENGTH, 1))
            with session.bind_resident(program, {"x": x, "flag": flag, "y": y, "n": n}) as launch:
                launch()
                launch()
            assert n.download().tolist() == [1], "the second run changes nothing"
            assert x.download().tolist() == [*range(LENGTH)]


@pytest.mark.parametrize("graph_after", [1, None])
def test_graphs_repeat_native_rounds_only(graph_after: int | None) -> None:
    for runtime in (CudaOptions(graph_after=graph_after), replace(SPLIT, graph_after=graph_after)):
        machine = cuda_machine(runtime)
        with machine.open() as session:
            program = Program.from_text(SPREAD)
            for _ in range(4):
                found = session.dispatch(program, inputs())
                assert found["n"].tolist() == [LENGTH]
                assert found["x"].tolist() == [*range(LENGTH)]


def test_a_bundle_holds_cooperative_kernels_which_run_rounds(tmp_path: Path) -> None:
    written = build_bundle(Program.from_text(SPREAD), tmp_path / "spread.vyrz", targets=["sm_90"])
    (spread,) = load_bundle(written.path).values()
    codes = list(bundled_code(spread.digest))
    kernels = [kernel for code in codes for kernel in decode_layout(code.artifact.metadata).kernels]
    assert len(kernels) == len(codes) and all(kernel.cooperative for kernel in kernels)
    with vyre.open("cuda-machine", cache=False) as session:
        for _ in range(2):
            found = session.dispatch(spread, inputs())
            assert {name: found[name].tolist() for name in ("x", "flag", "y", "n")} == wanted()
        assert session.metrics()["emits"] == 0
