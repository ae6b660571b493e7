"""The scalar oracle: its schedule, watched from outside, and what ends a run early."""

from __future__ import annotations

import threading
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.profiles import examples
from vyre.adapters.reference.engine import NO_OPTIONS, RunOptions
from vyre.adapters.reference.scalar_oracle import ScalarKernel
from vyre.adapters.reference.scalar_state import Location, Workgroup
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import DispatchTimeout, StepBudgetExceeded, TrapError, UnsupportedFeature
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Dim3, Program
from vyre.domain.launch import Launch
from vyre.testing.execution import execute, open_backend

U32_MAX = 2**32 - 1
Event = tuple[object, ...]


class Recorder:
    """A tracer that writes down what it sees."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ids: list[Dim3] = []

    def workgroup(self, workgroup: Workgroup, /) -> None:
        self.events.append(("workgroup", workgroup.group))
        self.ids += [workgroup.global_id(lane) for lane in range(workgroup.size)]

    def barrier(self) -> None:
        self.events.append(("barrier",))

    def load(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        self.events.append(("load", buffer, start, nbytes, lane))

    def store(self, buffer: str, start: int, data: bytes, lane: int, loc: Location, /) -> None:
        self.events.append(("store", buffer, start, data, lane))

    def atomic(self, buffer: str, start: int, nbytes: int, lane: int, loc: Location, /) -> None:
        self.events.append(("atomic", buffer, start, nbytes, lane))


def prepared(text: str) -> tuple[Program, ScalarKernel]:
    program = Program.from_text(text)
    return program, ScalarKernel(program, {})


def launch_of(program: Program, sizes: tuple[int, ...] = (), **config: object) -> Launch:
    return resolve_launch(program, sizes, DispatchConfig(**config), LaunchLimits("test"))  # type: ignore[arg-type]


def test_a_statement_is_executed_in_phases() -> None:
    """Node by node for all lanes, then its store for all lanes; an atomic in the order of its operands."""
    program, kernel = prepared(
        """
        workgroup_size 2, 1, 1
        buffer a @0 read_write u32[4]
        buffer b @1 read_write u32[2]
        body {
          a[gid.x + 2u] = a[gid.x] + atomic_add(b, gid.x, a[1u])
          barrier(seq_cst)
          if gid.x == 1u {
            a[9u] = a[0u]
          } else {
            a[1u] = 7u
          }
        }
        """
    )
    recorder = Recorder()
    memory = {"a": np.array([5, 6, 0, 0], np.uint32).view(np.uint8), "b": np.zeros(8, np.uint8)}
    kernel.run(memory, launch_of(program, (16, 8), grid=(1, 1, 1)), NO_OPTIONS, recorder)
    assert recorder.events == [
        ("workgroup", (0, 0, 0)),
        *[("load", "a", 0, 4, 0), ("load", "a", 4, 4, 1)],
        *[("load", "a", 4, 4, 0), ("load", "a", 4, 4, 1)],
        *[("atomic", "b", 0, 4, 0), ("atomic", "b", 4, 4, 1)],
        *[("store", "a", 8, b"\5\0\0\0", 0), ("store", "a", 12, b"\6\0\0\0", 1)],
        ("barrier",),
        ("load", "a", 0, 4, 1),  # `then` first; its store is out of range and so no access
        ("store", "a", 4, b"\7\0\0\0", 0),
    ]


def test_workgroups_run_in_ascending_order_with_x_fastest() -> None:
    program, kernel = prepared("workgroup_size 2, 1, 3 buffer y @0 write u32[1] body { y[0u] = 1u }")
    recorder = Recorder()
    kernel.run({"y": np.zeros(4, np.uint8)}, launch_of(program, grid=(2, 2, 1)), NO_OPTIONS, recorder)
    groups = [event[1] for event in recorder.events if event[0] == "workgroup"]
    assert groups == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
    assert recorder.ids[:6] == [(x, 0, z) for z, x in product(range(3), range(2))]
    assert recorder.ids[-1] == (3, 1, 2)


LOOP = Program.from_text(
    """
    workgroup_size 1, 1, 1
    buffer bounds @0 read u32[3]
    buffer rounds @1 write u32[1]
    buffer last @2 write u32[1]
    body {
      let n = 0u
      let seen = 0u
      for k in bounds[0u] .. bounds[1u] step bounds[2u] {
        n := n + 1u
        seen := k
        if n == 40u {
          break
        }
      }
      rounds[0u] = n
      last[0u] = seen
    }
    """
)
edges = st.sampled_from([0, 1, 2, 7, 2**31 - 1, 2**31, U32_MAX - 1, U32_MAX]) | st.integers(0, 50)


@examples(150)
@given(start=edges, stop=edges, step=edges)
@example(0, U32_MAX, 2**31)
@example(U32_MAX - 1, U32_MAX, U32_MAX)
def test_loops_count_as_python_does(start: int, stop: int, step: int) -> None:
    expected = list(range(start, stop, step)[:40]) if step else []
    bounds = np.array([start, stop, step], np.uint32).tobytes()
    for engine in ("reference", "reference-scalar"):
        found = execute(open_backend(engine), LOOP, {"bounds": bounds})
        assert np.frombuffer(found["rounds"], np.uint32)[0] == len(expected)
        assert np.frombuffer(found["last"], np.uint32)[0] == (expected[-1] if expected else 0)


FAILURES = """
    workgroup_size 2, 1, 1
    buffer mode @0 read u32[4]
    buffer y @1 write u32[4]
    body {
      if mode[gid.x] == 1u {
        trap(gid.x, "trap")
      }
      for k in 0u .. 9u {
        if mode[gid.x] == 0u {
          break
        }
      }
      y[gid.x] = 1u
    }
"""


@pytest.mark.parametrize(
    ("modes", "error", "lane"),
    [
        ([0, 1, 2, 1], TrapError, 1),
        ([0, 0, 2, 1], StepBudgetExceeded, 2),
        ([2, 1, 1, 1], StepBudgetExceeded, 0),
        ([0, 0, 0, 1], TrapError, 3),
    ],
)
def test_of_several_failures_the_lowest_lane_is_named(modes: list[int], error: type[Exception], lane: int) -> None:
    program = Program.from_text(FAILURES)
    inputs = {"mode": np.array(modes, np.uint32).tobytes()}
    for engine in ("reference", "reference-scalar"):
        with pytest.raises(error) as info:
            execute(open_backend(engine), program, inputs, DispatchConfig(step_budget=5))
        assert getattr(info.value, "global_id", None) == (lane, 0, 0)


ENDLESS = """
    workgroup_size 1, 1, 1
    buffer y @0 write u32[1]
    body {
      for k in 0u .. 0xffffffffu {
      }
    }
"""


def test_a_deadline_ends_a_loop() -> None:
    program, kernel = prepared(ENDLESS)
    options = RunOptions(is_late=iter([False] * 200 + [True]).__next__)
    with pytest.raises(DispatchTimeout, match="Fix:"):
        kernel.run({"y": np.zeros(4, np.uint8)}, launch_of(program), options)


def test_a_deadline_ends_a_grid() -> None:
    program, kernel = prepared("workgroup_size 1, 1, 1 buffer y @0 write u32[1] body { y[0u] = 1u }")
    options = RunOptions(is_late=lambda: True)
    with pytest.raises(DispatchTimeout, match="after 1 of 5 workgroups"):
        kernel.run({"y": np.zeros(4, np.uint8)}, launch_of(program, grid=(5, 1, 1)), options)


def test_steps_are_carried_by_global_lane() -> None:
    program, kernel = prepared(
        """
        workgroup_size 2, 1, 1
        buffer y @0 write u32[4]
        body {
          for k in 0u .. gid.x + 1u {
            y[gid.x] = k
          }
        }
        """
    )
    used = np.zeros(4, np.uint64)
    memory = {"y": np.zeros(16, np.uint8)}
    options = RunOptions(step_budget=5, steps_used=used)
    kernel.run(memory, launch_of(program), options)
    assert used.tolist() == [0, 1, 2, 3]
    with pytest.raises(StepBudgetExceeded) as info:
        kernel.run(memory, launch_of(program), options)
    assert info.value.global_id == (3, 0, 0)


def test_what_the_oracle_does_not_do_it_refuses() -> None:
    program, kernel = prepared(ENDLESS)
    with pytest.raises(UnsupportedFeature, match="several workgroups at once"):
        kernel.run({"y": np.zeros(4, np.uint8)}, launch_of(program), RunOptions(chunk_workgroups=2))
    indirect = Program.from_text("workgroup_size 1, 1, 1 buffer n @0 read u32[3] body { indirect_dispatch(n, 0) }")
    with pytest.raises(UnsupportedFeature, match="indirect dispatch"):
        ScalarKernel(indirect, {})


def test_one_kernel_runs_in_many_threads() -> None:
    program, kernel = prepared(
        """
        workgroup_size 8, 1, 1
        buffer y @0 read_write u32[64]
        buffer sh @- workgroup u32[8]
        body {
          sh[lid.x] = y[gid.x]
          barrier(seq_cst)
          let sum = 0u
          for k in 0u .. 8u {
            sum := sum + sh[k]
          }
          y[gid.x] = sum
        }
        """
    )
    launch = launch_of(program, (256,))
    memories = [np.full(64, seed, np.uint32) for seed in range(8)]
    threads = [
        threading.Thread(target=kernel.run, args=({"y": memory.view(np.uint8)}, launch, NO_OPTIONS))
        for memory in memories
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, memory in enumerate(memories):
        assert memory.tolist() == [8 * seed] * 64
