"""What the reference backends do around an engine: repeat, time out, fail cleanly, cache, cut at grid barriers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count as naturals
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from vyre.adapters import pipelines
from vyre.adapters.reference import executor as executor_module
from vyre.adapters.reference.engine import Engine
from vyre.adapters.reference.executor import ReferenceExecutor
from vyre.adapters.reference.scalar_oracle import ScalarKernel
from vyre.adapters.reference.vector.engine import VectorKernel
from vyre.domain.dispatch import DispatchConfig, OutputArena, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import (
    DataRaceError,
    DeviceOutOfMemory,
    DispatchTimeout,
    InvalidConfig,
    InvalidInput,
    StepBudgetExceeded,
    TrapError,
    UnsupportedFeature,
)
from vyre.domain.geometry import LaunchLimits
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import validate
from vyre.ports.execution import CacheCounters, CacheOutcome
from vyre.ports.requests import DispatchRequest

ENGINES: dict[str, Engine] = {"reference": VectorKernel, "reference-scalar": ScalarKernel}


@pytest.fixture(params=ENGINES)
def executor(request: pytest.FixtureRequest) -> ReferenceExecutor:
    return ReferenceExecutor(LaunchLimits(request.param), ENGINES[request.param])


def program(text: str) -> Program:
    parsed = Program.from_text(text)
    validate(parsed).raise_if_invalid()
    return parsed


def words(*values: int) -> memoryview:
    return memoryview(np.array(values, np.uint32).tobytes())


def run(
    executor: ReferenceExecutor, program: Program, *inputs: memoryview, **fields: Any
) -> list[npt.NDArray[np.uint32]]:
    arena = OutputArena()
    executor.execute(DispatchRequest(program, inputs, DispatchConfig(**fields)), arena)
    return [np.frombuffer(data, np.uint32) for data in arena.to_bytes()]


INCREMENT = program("""
workgroup_size 4, 1, 1
buffer x @0 read_write u32[runtime]
buffer y @1 write u32[runtime] like x
body { x[gid.x] = x[gid.x] + 1u  y[gid.x] = y[gid.x] + x[gid.x] }
""")
FOREVER = program("""
workgroup_size 4, 1, 1
buffer y @0 write u32[4]
body { y[gid.x] = 7u for i in 0u..0xffffffffu { y[gid.x] = i } }
""")
TRAP = program("""
workgroup_size 4, 1, 1
buffer x @0 read_write u32[runtime]
body { x[gid.x] = 9u if x[gid.x] == 9u { if gid.x >= 2u { trap(gid.x + 100u, "too far") } } }
""")
TWO_LOOPS = program("""
workgroup_size 2, 1, 1
buffer n @0 read u32[2]
buffer y @1 write u32[2]
body {
  for i in 0u..n[0u] { y[gid.x] = y[gid.x] + 1u }
  barrier(grid_sync)
  for i in 0u..n[1u] { y[gid.x] = y[gid.x] + 1u }
}
""")


# ---------------------------------------------------------------- repetition
@pytest.mark.parametrize("times", [1, 2, 5])
def test_fixpoint_iterations_launch_again_on_what_the_last_launch_left(executor: ReferenceExecutor, times: int) -> None:
    x, y = run(executor, INCREMENT, words(10, 20, 30), fixpoint_iterations=times)
    assert x.tolist() == [10 + times, 20 + times, 30 + times]
    assert y.tolist() == [sum(start + k for k in range(1, times + 1)) for start in (10, 20, 30)]


def test_inputs_that_come_back_changed_are_not_changed_in_place(executor: ReferenceExecutor) -> None:
    given = np.array([1, 2, 3], np.uint32)
    x, _ = run(executor, INCREMENT, given.data.cast("B"))
    assert x.tolist() == [2, 3, 4]
    assert given.tolist() == [1, 2, 3]


def test_output_storage_that_is_used_again_starts_from_zero(executor: ReferenceExecutor) -> None:
    arena = OutputArena()
    for size in (4, 2, 3):
        request = DispatchRequest(INCREMENT, (words(*range(size)),))
        executor.execute(request, arena)
        assert np.frombuffer(arena[1], np.uint32).tolist() == list(range(1, size + 1))


# ---------------------------------------------------------------- failures
@pytest.mark.parametrize(
    ("kernel", "inputs", "fields", "error"),
    [
        (TRAP, (words(0, 0, 0, 0),), {}, TrapError),
        (FOREVER, (), {"step_budget": 10}, StepBudgetExceeded),
        (FOREVER, (), {"timeout_s": 0.05}, DispatchTimeout),
        (INCREMENT, (words(1),), {"max_output_bytes": 7}, InvalidConfig),
        (INCREMENT, (), {}, InvalidInput),
        (INCREMENT, (words(1), words(1)), {}, InvalidInput),
        (INCREMENT, (memoryview(bytes(5)),), {}, InvalidInput),
    ],
)
def test_a_failed_dispatch_leaves_no_new_outputs(
    executor: ReferenceExecutor,
    kernel: Program,
    inputs: tuple[memoryview, ...],
    fields: dict[str, Any],
    error: type[Exception],
) -> None:
    arena = OutputArena()
    with pytest.raises(error):
        executor.execute(DispatchRequest(kernel, inputs, DispatchConfig(**fields)), arena)
    assert len(arena) == 0


def test_a_trap_names_its_lane_and_forgets_the_outputs_of_before(executor: ReferenceExecutor) -> None:
    arena = OutputArena()
    executor.execute(DispatchRequest(INCREMENT, (words(1),)), arena)
    with pytest.raises(TrapError) as caught:
        executor.execute(DispatchRequest(TRAP, (words(0, 0, 0, 0),)), arena)
    assert (caught.value.tag, caught.value.address, caught.value.global_id) == ("too far", 102, (2, 0, 0))
    assert not hasattr(caught.value, "__notes__")
    assert len(arena) == 0


@pytest.mark.parametrize("kernel", [FOREVER, INCREMENT], ids=["inside a loop", "between workgroups"])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_deadline_stops_a_dispatch_soon_after_it_passed(engine: str, kernel: Program) -> None:
    """A second passes whenever the clock is read, and it is read no more once the deadline has passed."""
    inputs, read = (words(1),) if kernel is INCREMENT else (), naturals()
    executor = ReferenceExecutor(LaunchLimits(engine), ENGINES[engine], now_ns=lambda: next(read) * 10**9)
    by_caching, by_starting = 2, 1
    with pytest.raises(DispatchTimeout, match="deadline"):
        run(executor, kernel, *inputs, timeout_s=10.5, grid=(1, 2**20, 2**20))
    assert next(read) == by_caching + by_starting + 12


def test_a_deadline_that_does_not_pass_changes_nothing(executor: ReferenceExecutor) -> None:
    assert run(executor, INCREMENT, words(5), timeout_s=3600.0)[0].tolist() == [6]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 2.0**32])
def test_a_timeout_is_a_time(seconds: float) -> None:
    with pytest.raises(InvalidConfig, match="timeout_s"):
        DispatchConfig(timeout_s=seconds)


def test_memory_that_does_not_exist_is_a_typed_error(executor: ReferenceExecutor) -> None:
    kernel = program("workgroup_size 1, 1, 1 buffer y @0 write u64[runtime] body { y[gid.x] = 7u64 }")

    class Exhausted(OutputArena):
        def begin(self, sizes: tuple[int, ...]) -> tuple[memoryview, ...]:
            raise MemoryError

    request = DispatchRequest(kernel, (), DispatchConfig(output_counts={"y": 1000}))
    with pytest.raises(DeviceOutOfMemory, match="8000 bytes requested") as caught:
        executor.execute(request, Exhausted())
    assert (caught.value.requested, caught.value.available) == (8000, None)


def test_step_counts_of_more_lanes_than_memory_can_hold_are_a_typed_error(executor: ReferenceExecutor) -> None:
    with pytest.raises(DeviceOutOfMemory):
        run(executor, TWO_LOOPS, words(1, 1), step_budget=1, grid=(1, 2**31, 2**31))


# ---------------------------------------------------------------- config
@pytest.mark.parametrize(
    ("fields", "feature"),
    [
        ({"cooperative": True}, "cooperative launches"),
        ({"speculation": SpeculationMode.FORCE}, "speculation"),
        ({"persistent_thread": PersistentThreadMode.FORCE}, "persistent threads"),
        ({"profile": "sm_90a"}, "profile 'sm_90a'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(executor: ReferenceExecutor, fields: dict[str, Any], feature: str) -> None:
    with pytest.raises(UnsupportedFeature, match="does not support") as caught:
        run(executor, INCREMENT, words(1), **fields)
    assert caught.value.feature == feature
    with pytest.raises(UnsupportedFeature):
        executor.compile(INCREMENT, DispatchConfig(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"speculation": SpeculationMode.AUTO},
        {"speculation": SpeculationMode.DISABLE},
        {"persistent_thread": PersistentThreadMode.AUTO},
        {"persistent_thread": PersistentThreadMode.DISABLE},
        {"ulp_budget": 4},
        {"label": "named"},
        {"chunk_workgroups": 1},
        {"race_check": True},
    ],
)
def test_what_asks_for_no_more_than_exact_answers_is_accepted(
    executor: ReferenceExecutor, fields: dict[str, Any]
) -> None:
    assert run(executor, INCREMENT, words(1, 2), **fields)[0].tolist() == [2, 3]


def test_only_the_vectorised_engine_runs_several_workgroups_at_once() -> None:
    chunked = DispatchConfig(chunk_workgroups=3)
    inputs = (words(*range(20)),)
    vector, scalar = (ReferenceExecutor(LaunchLimits(name), engine) for name, engine in ENGINES.items())
    arena = OutputArena()
    vector.execute(DispatchRequest(INCREMENT, inputs, chunked), arena)
    assert np.frombuffer(arena[0], np.uint32).tolist() == list(range(1, 21))
    with pytest.raises(UnsupportedFeature, match="several workgroups at once"):
        scalar.execute(DispatchRequest(INCREMENT, inputs, chunked), arena)


def test_race_checks_run_on_either_backend(executor: ReferenceExecutor) -> None:
    racy = program("workgroup_size 4, 1, 1 buffer y @0 write u32[1] body { y[0u] = gid.x }")
    assert run(executor, racy, grid=(2, 1, 1))[0].tolist() == [7]
    with pytest.raises(DataRaceError) as error:
        run(executor, racy, grid=(2, 1, 1), race_check=True)
    assert str(error.value).startswith(
        "data race: y[0]: store by lane 0 (workgroup 0,0,0, local 0,0,0) at <text>:1:56, "
        "store by lane 1 (workgroup 0,0,0, local 1,0,0) at <text>:1:56. Fix: "
    )


# ---------------------------------------------------------------- inputs as they come
def test_inputs_need_no_alignment(executor: ReferenceExecutor) -> None:
    kernel = program(
        "workgroup_size 1, 1, 1 buffer x @0 read u64[2] buffer y @1 write u64[2] body { y[gid.x] = x[gid.x] }"
    )
    data = bytes(range(1, 17))
    for offset in range(8):
        arena = OutputArena()
        view = memoryview(bytes(offset) + data)[offset:]
        executor.execute(DispatchRequest(kernel, (view,)), arena)
        assert arena.to_bytes() == (data,)


def test_empty_buffers_are_read_as_zero_and_swallow_stores(executor: ReferenceExecutor) -> None:
    kernel = program("""
    workgroup_size 2, 1, 1
    buffer none @0 read u32[runtime]
    buffer kept @1 read_write u32[runtime]
    buffer y @2 write u32[2]
    body { kept[gid.x] = 5u  y[gid.x] = none[gid.x] + len(none) + len(kept) + 1u }
    """)
    kept, y = run(executor, kernel, memoryview(b""), memoryview(b""))
    assert kept.tolist() == []
    assert y.tolist() == [1, 1]


def test_a_range_of_an_output_comes_back_to_the_byte(executor: ReferenceExecutor) -> None:
    kernel = program("workgroup_size 2, 1, 1 buffer y @0 write u32[2] range 3..6 body { y[gid.x] = 0x04030201u }")
    arena = OutputArena()
    executor.execute(DispatchRequest(kernel, ()), arena)
    assert arena.to_bytes() == (bytes((4, 1, 2)),)


# ---------------------------------------------------------------- the pipeline cache
def test_programs_are_prepared_once_per_digest_and_config(executor: ReferenceExecutor) -> None:
    twin = program(INCREMENT.to_text())
    run(executor, INCREMENT, words(1))
    run(executor, INCREMENT, words(1, 2))
    run(executor, twin, words(1))
    assert executor.cache_counters() == CacheCounters(hits=2, misses=1)
    assert executor.compile(twin, DispatchConfig()).cache is CacheOutcome.HIT
    assert executor.compile(twin, DispatchConfig(max_output_bytes=99)).cache is CacheOutcome.MISS
    assert executor.cache_counters() == CacheCounters(hits=3, misses=2)


def test_labels_do_not_keep_dispatches_apart(executor: ReferenceExecutor) -> None:
    executor.compile(INCREMENT, DispatchConfig(label="first"))
    assert executor.compile(INCREMENT, DispatchConfig(label="second")).cache is CacheOutcome.HIT


def test_output_counts_are_part_of_the_config(executor: ReferenceExecutor) -> None:
    kernel = program("workgroup_size 1, 1, 1 buffer y @0 write u32[runtime] body { y[gid.x] = 1u }")
    for count in (1, 3, 1):
        assert run(executor, kernel, output_counts={"y": count})[0].tolist() == [1] * count
    assert executor.cache_counters() == CacheCounters(hits=1, misses=2)


def test_names_are_interface_and_keep_programs_apart(executor: ReferenceExecutor) -> None:
    text = "workgroup_size 1, 1, 1 buffer {0} @0 write u32[runtime] body {{ {0}[gid.x] = 1u }}"
    first, second = program(text.format("y")), program(text.format("z"))
    assert first.digest == second.digest
    assert run(executor, first, output_counts={"y": 1})[0].tolist() == [1]
    assert run(executor, second, output_counts={"z": 2})[0].tolist() == [1, 1]
    with pytest.raises(InvalidConfig, match="`y`"):
        run(executor, second, output_counts={"y": 2})


def test_refused_programs_are_not_cached(executor: ReferenceExecutor) -> None:
    for _ in range(2):
        with pytest.raises(UnsupportedFeature):
            executor.compile(INCREMENT, DispatchConfig(cooperative=True))
    assert executor.cache_counters() == CacheCounters(hits=0, misses=0)


def test_no_more_pipelines_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "PIPELINES", 2)
    small = ReferenceExecutor(LaunchLimits("reference"), VectorKernel)
    configs = [DispatchConfig(max_output_bytes=n) for n in (100, 200, 300)]
    held = [small.compile(INCREMENT, config).cache for config in configs * 2]
    assert held[:3] == [CacheOutcome.MISS] * 3
    assert CacheOutcome.MISS in held[3:]


def test_a_miss_tells_its_reason(executor: ReferenceExecutor) -> None:
    def reason(kernel: Program = INCREMENT, **config: Any) -> str:
        return executor.compile(kernel, DispatchConfig(**config)).reason

    assert reason() == "the program is new here"
    assert reason() == ""
    assert reason(max_output_bytes=7) == "the program is known, but with another max_output_bytes"
    assert reason(max_output_bytes=7, step_budget=9) == "the program is known, but with another step_budget"
    assert reason(output_counts={"z": 1}) == "the program is known, but with another output_counts"
    text = "workgroup_size 1, 1, 1 buffer {0} @0 write u32[1] body {{ {0}[gid.x] = 1u }}"
    assert reason(program(text.format("y"))) == "the program is new here"
    assert reason(program(text.format("z"))) == "the program is known, but with another interface"


def test_a_pipeline_that_was_evicted_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "PIPELINES", 1)
    small = ReferenceExecutor(LaunchLimits("reference"), VectorKernel)
    configs = [DispatchConfig(max_output_bytes=n) for n in (100, 200)]
    reasons = [small.compile(INCREMENT, config).reason for config in configs * 2]
    assert reasons[2:] == ["it had been evicted"] * 2


def test_a_program_that_was_invalidated_is_said_to_be(executor: ReferenceExecutor) -> None:
    configs = [DispatchConfig(max_output_bytes=n) for n in (100, 200)]
    other = program("workgroup_size 1, 1, 1 buffer y @0 write u32[1] body { y[0u] = 1u }")
    for kernel in (INCREMENT, other):
        for config in configs:
            executor.compile(kernel, config)
    assert executor.forget(frozenset({INCREMENT.digest})) == 2
    reasons = [executor.compile(INCREMENT, config).reason for config in configs]
    assert reasons == [
        "the program was invalidated",
        "the program is known, but with another max_output_bytes",
    ]
    assert executor.compile(other, configs[0]).cache is CacheOutcome.HIT
    assert executor.forget(None) == 4
    assert executor.compile(other, configs[0]).reason == "the program was invalidated"


def test_a_miss_tells_what_it_took(executor: ReferenceExecutor) -> None:
    missed, hit = (executor.compile(INCREMENT, DispatchConfig()) for _ in range(2))
    assert [name for name, _ in missed.phases] == ["compile"]
    assert missed.phases[0][1] > 0
    assert hit.phases == ()


def test_launches_are_forgotten_but_not_wrong(executor: ReferenceExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "LAUNCHES", 2)
    for size in (1, 2, 3, 4, 1, 2, 9):
        assert run(executor, INCREMENT, words(*range(size)))[0].tolist() == list(range(1, size + 1))


def test_one_pipeline_serves_many_threads(executor: ReferenceExecutor) -> None:
    pipeline = executor.compile(INCREMENT, DispatchConfig()).pipeline

    def once(start: int) -> bool:
        arena = OutputArena()
        for size in (1, 5, 9):
            pipeline.dispatch((words(*range(start, start + size)),), arena)
            if np.frombuffer(arena[0], np.uint32).tolist() != list(range(start + 1, start + size + 1)):
                return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(once, range(0, 400, 20)))


# ---------------------------------------------------------------- grid barriers
def test_segments_share_geometry_specialization_and_memory(executor: ReferenceExecutor) -> None:
    kernel = program("""
    workgroup_size 2, 2, 1
    buffer a @0 write u32[24]
    buffer b @1 write u32[24]
    body {
      let lane = gid.y * 6u + gid.x
      a[lane] = num_groups.x * 100u + num_groups.y * 10u + len(a)
      barrier(grid_sync)
      b[lane] = a[23u - lane] * 1000u + num_groups.x * 100u + num_groups.y * 10u + spec(bias, 0u)
    }
    """)
    a, b = run(executor, kernel, extent=(6, 4))
    assert a.tolist() == [344] * 24
    assert b.tolist() == [344_320] * 24


def test_lanes_of_a_later_segment_see_stores_of_every_workgroup(executor: ReferenceExecutor) -> None:
    kernel = program("""
    workgroup_size 2, 1, 1
    buffer x @0 read u32[runtime]
    buffer mid @1 write u32[runtime] like x
    buffer y @2 write u32[runtime] like x
    body {
      let i = gid.x
      mid[i] = x[i] * 2u
      barrier(grid_sync)
      y[i] = mid[len(x) - 1u - i] + 1u
    }
    """)
    _, y = run(executor, kernel, words(*range(10)))
    assert y.tolist() == [2 * k + 1 for k in reversed(range(10))]


@pytest.mark.parametrize(
    ("loops", "budget", "segment"),
    [((3, 3), 4, None), ((4, 1), 2, 1), ((3, 4), 4, 2), ((1, 6), 4, 2), ((1, 1), 0, None)],
)
def test_the_step_budget_of_a_lane_holds_for_all_segments_together(
    executor: ReferenceExecutor, loops: tuple[int, int], budget: int, segment: int | None
) -> None:
    if segment is None:
        assert run(executor, TWO_LOOPS, words(*loops), step_budget=budget)[0].tolist() == [sum(loops)] * 2
        return
    with pytest.raises(StepBudgetExceeded) as caught:
        run(executor, TWO_LOOPS, words(*loops), step_budget=budget)
    assert (caught.value.budget, caught.value.global_id) == (budget, (0, 0, 0))
    assert caught.value.__notes__ == [f"segment {segment} of 2, cut at grid barriers"]


def test_the_step_budget_holds_for_all_iterations_together(executor: ReferenceExecutor) -> None:
    kernel = program("""
    workgroup_size 1, 1, 1
    buffer y @0 write u32[2]
    body { for i in 0u..gid.x + 3u { y[gid.x] = y[gid.x] + 1u } }
    """)  # lane k takes k + 2 steps a launch
    fields = {"fixpoint_iterations": 3, "grid": (2, 1, 1)}
    assert run(executor, kernel, step_budget=9, **fields)[0].tolist() == [9, 12]
    with pytest.raises(StepBudgetExceeded) as caught:
        run(executor, kernel, step_budget=8, **fields)
    assert caught.value.global_id == (1, 0, 0)


def test_a_budget_belongs_to_one_dispatch(executor: ReferenceExecutor) -> None:
    config = DispatchConfig(step_budget=4)
    pipeline = executor.compile(TWO_LOOPS, config).pipeline
    arena = OutputArena()
    for _ in range(3):
        pipeline.dispatch((words(3, 3),), arena)
    assert executor.compile(TWO_LOOPS, replace(config, step_budget=5)).pipeline is not pipeline


def test_a_trap_in_a_segment_says_which_and_later_segments_do_not_run(executor: ReferenceExecutor) -> None:
    kernel = program("""
    workgroup_size 2, 1, 1
    buffer y @0 write u32[4]
    body {
      y[gid.x] = 1u
      barrier(grid_sync)
      if gid.x == 3u { trap(0u, "second") }
    }
    """)
    with pytest.raises(TrapError, match="second") as caught:
        run(executor, kernel)
    assert caught.value.__notes__ == ["segment 2 of 2, cut at grid barriers"]
