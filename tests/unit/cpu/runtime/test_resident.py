"""Launches of the native CPU backend on resident memory: lists are kept while their memory is, and no longer."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Final

import pytest

from support.cpu.backends import ADD, ENDLESS, CountedTools, backend_of
from vyre.adapters.cpu.runtime.resident import PREPARED, UNROLLED, CpuMemory
from vyre.adapters.cpu.runtime.shapes import SHORT_NS
from vyre.domain.errors import DispatchTimeout, InvalidResource, StepBudgetExceeded, TrapError
from vyre.ports.backend import Backend
from vyre.ports.requests import ResidentSequence, ResidentStep
from vyre.testing.backend_contract.bench import Bench, Subject, parsed, words
from vyre.testing.execution import find_backend

SUM = parsed("""
    workgroup_size 4, 1, 1
    param a @0 u32
    buffer x @1 read_write u32[runtime]
    body { x[gid.x] = x[gid.x] + a }
    """)

LEAVES: Final = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { for k in 0u..4194304u { x[gid.x] = x[gid.x] + 1u if k == 2u { break } } }
    """)
"""It adds 3; how soon the loop ends is not proved, only that it does."""


@pytest.fixture
def backend() -> Iterator[Backend]:
    with backend_of(CountedTools().tools) as found:
        yield found


@pytest.fixture
def bench(backend: Backend) -> Iterator[Bench]:
    found = Bench(Subject(find_backend("cpu")), backend)
    yield found
    found.close()


def runner(bench: Bench) -> CpuMemory:
    found = bench.backend.memory
    assert isinstance(found, CpuMemory)
    return found


def test_memory_is_aligned_and_zeroed(bench: Bench) -> None:
    for nbytes in (0, 1, 63, 64, 100_000):
        buffer = bench.allocate(nbytes)
        assert runner(bench).own(buffer).address % 64 == 0
        assert bytes(runner(bench).own(buffer).data) == bytes(nbytes)


def test_closing_a_buffer_frees_its_memory(bench: Bench) -> None:
    buffer = runner(bench).own(bench.memory.allocate(1 << 20))
    base = buffer.data.base
    assert base is not None
    dead = weakref.ref(base)
    del base
    buffer.close()
    gc.collect()
    assert dead() is None


def test_a_sequence_that_is_run_again_is_prepared_once(bench: Bench) -> None:
    x = bench.holding(1, 2)
    data = bytearray(words(10))
    steps = (ResidentStep(SUM, (memoryview(data).toreadonly(), x)), ResidentStep(ADD, (x,)))
    for rounds in (1, 3, 0, 2):
        runner(bench).run(ResidentSequence(prefix=steps[:1], repeated=steps, repeat_count=rounds))
    assert len(runner(bench)._prepared) == 1
    total = 4 * 10 + 6 * 11
    assert bench.content(x) == [1 + total, 2 + total]
    data[:] = words(100)  # host bytes are read in place, at each run
    runner(bench).run(ResidentSequence(prefix=steps[:1], repeated=steps, repeat_count=0))
    assert bench.content(x) == [101 + total, 102 + total]


def test_a_sequence_on_a_part_of_an_array_is_prepared_once_too(bench: Bench) -> None:
    whole = bench.holding(1, 2, 3, 4)
    part = whole.view(4, 8)
    sequence = ResidentSequence(prefix=(ResidentStep(ADD, (part,)),))
    runner(bench).run(sequence)
    (prepared,) = runner(bench)._prepared.values()
    runner(bench).run(sequence)
    assert list(runner(bench)._prepared.values()) == [prepared]
    assert bench.content(whole) == [1, 4, 5, 4]
    part.close()
    with pytest.raises(InvalidResource, match="after close"):
        runner(bench).run(sequence)


def test_few_sequences_are_kept(bench: Bench) -> None:
    x = bench.holding(0)
    sequences = [ResidentSequence(prefix=(ResidentStep(ADD, (x,)),)) for _ in range(PREPARED + 10)]
    for sequence in sequences:
        runner(bench).run(sequence)
    assert len(runner(bench)._prepared) == PREPARED
    assert bench.content(x) == [PREPARED + 10]


def test_a_kept_sequence_ends_with_the_first_of_its_steps(bench: Bench) -> None:
    x = bench.holding(0)
    steps = [ResidentStep(ADD, (x,)), ResidentStep(ADD, (x,))]
    for _ in range(2):
        sequence = ResidentSequence(prefix=tuple(steps))
        runner(bench).run(sequence)
        assert len(runner(bench)._prepared) == len(runner(bench)._by_steps) == len(runner(bench)._by_sequence) == 1
        del sequence
    assert len(runner(bench)._prepared) == 1, "its steps live"
    assert not runner(bench)._by_sequence
    del steps[0]
    assert not runner(bench)._prepared and not runner(bench)._by_steps
    assert bench.content(x) == [4]


def test_a_sequence_never_runs_as_one_that_had_its_place_in_memory(bench: Bench) -> None:
    buffers = [bench.holding(0) for _ in range(5)]
    places = set[int]()
    for number in range(100):
        sequence = ResidentSequence(prefix=(ResidentStep(ADD, (buffers[number % 5],)),))
        places.add(id(sequence))
        runner(bench).run(sequence)
        del sequence
    assert len(places) < 100, "no place was used again"
    assert [bench.content(buffer) for buffer in buffers] == [[20]] * 5


def test_a_kept_sequence_does_not_outlive_its_memory(bench: Bench) -> None:
    x = bench.holding(1)
    sequence = ResidentSequence(prefix=(ResidentStep(ADD, (x,)),))
    runner(bench).run(sequence)
    x.close()
    with pytest.raises(InvalidResource, match="after close"):
        runner(bench).run(sequence)


def test_host_bytes_that_are_not_aligned_are_read_at_each_run(bench: Bench) -> None:
    x, data = bench.holding(1), bytearray(b"\xff" + words(10))
    sequence = ResidentSequence(prefix=(ResidentStep(SUM, (memoryview(data)[1:].toreadonly(), x)),))
    runner(bench).run(sequence)
    data[1:] = words(100)
    runner(bench).run(sequence)
    assert bench.content(x) == [111]


@pytest.mark.parametrize("iterations", [1, UNROLLED, UNROLLED + 1, 1000])
def test_steps_of_many_iterations(bench: Bench, iterations: int) -> None:
    x = bench.holding(0)
    bench.sequence(
        prefix=(bench.step(ADD, x, fixpoint_iterations=iterations),),
        repeated=(bench.step(ADD, x), bench.step(SUM, words(10), x, fixpoint_iterations=iterations)),
        repeat_count=2,
    )
    assert bench.content(x) == [iterations + 2 * (1 + 10 * iterations)]


def test_the_step_that_traps_is_told_apart(bench: Bench) -> None:
    trap = parsed("""
        workgroup_size 4, 1, 1
        param tag @0 u32
        buffer x @1 read_write u32[4]
        body { if x[gid.x] == tag { if tag == 2u { trap(gid.x, "two") } trap(gid.x, "other") } x[gid.x] = tag }
        """)
    x = bench.holding(5, 6, 7, 8)
    steps = tuple(bench.step(trap, words(tag), x) for tag in (1, 2, 3, 3))
    with pytest.raises(TrapError) as caught:
        bench.sequence(prefix=steps[:1], repeated=steps[1:], repeat_count=4)
    assert (caught.value.tag, caught.value.global_id) == ("other", (0, 0, 0))
    assert bench.content(x) == [3, 3, 3, 3]


def test_a_timeout_and_a_budget_end_a_sequence(bench: Bench) -> None:
    x = bench.allocate(64)
    add = bench.step(ADD, x)
    with pytest.raises(DispatchTimeout):
        bench.sequence(prefix=(add, bench.step(ENDLESS, x, timeout_s=0.05)))
    with pytest.raises(StepBudgetExceeded):
        bench.sequence(prefix=(add, bench.step(ENDLESS, x, step_budget=100)))


# ---------------------------------------------------------------- bound steps
def test_a_bound_step_runs_by_one_call_each(bench: Bench) -> None:
    binder = bench.backend.resident_binder
    assert binder is not None
    x, data = bench.holding(1), bytearray(words(10))
    bound = binder.bind(ResidentStep(SUM, (memoryview(data).toreadonly(), x)))
    data[:] = words(1000)  # host bytes were read when it was bound
    for _ in range(5):
        bound()
    assert bench.content(x) == [51]
    bound.close()
    bound.close()
    with pytest.raises(InvalidResource, match="was closed"):
        bound()


def test_a_bound_step_takes_better_code_when_it_is_there(bench: Bench) -> None:
    binder, tools = bench.backend.resident_binder, CountedTools()
    assert binder is not None
    x = bench.holding(1)
    bound = binder.bind(ResidentStep(ADD, (x,)))
    bound()
    pipeline, _ = runner(bench)._executor.pipeline(ADD, ResidentStep(ADD, (x,)).config)
    module = pipeline.shape((4,)).choice.module
    module._recompile()
    assert module.loaded.effort.value == "full"
    bound()
    assert bench.content(x) == [3]
    assert tools.compiled == 0


def threads_of_runs(bench: Bench) -> tuple[int, int]:
    """Returns how many runs a worker had, and how many the calling thread."""
    assert bench.backend.metric_source is not None
    found = bench.backend.metric_source.metrics()
    return found["worker_runs"], found["caller_runs"]


@pytest.mark.parametrize("way", ["bound", "list"])
def test_what_was_measured_to_take_little_time_runs_on_the_calling_thread(bench: Bench, way: str) -> None:
    x = bench.holding(1)
    step = ResidentStep(LEAVES, (x,))
    assert bench.backend.resident_binder is not None
    bound, sequence = bench.backend.resident_binder.bind(step), ResidentSequence(prefix=(step,))
    for _ in range(4):
        if way == "bound":
            bound()
        else:
            runner(bench).run(sequence)
    assert threads_of_runs(bench)[0] == 1, "only the first run, whose time nobody knew, is a worker's"
    assert bench.content(x) == [1 + 4 * 3]
    bound.close()


@pytest.mark.parametrize("way", ["bound", "list"])
def test_what_takes_long_or_may_time_out_is_left_to_workers(
    bench: Bench, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = bench.holding(1)
    assert bench.backend.resident_binder is not None
    long, timed = bench.step(LEAVES, x), bench.step(LEAVES, x, timeout_s=60)
    for step, most_ns in ((timed, SHORT_NS), (long, -1)):
        monkeypatch.setattr("vyre.adapters.cpu.runtime.shapes.SHORT_NS", most_ns)
        bound, sequence = bench.backend.resident_binder.bind(step), ResidentSequence(prefix=(step,))
        for _ in range(4):
            if way == "bound":
                bound()
            else:
                runner(bench).run(sequence)
        bound.close()
    assert threads_of_runs(bench) == (8, 0)


def test_a_closed_buffer_of_a_list_is_noticed_at_the_next_run(bench: Bench) -> None:
    x, y = bench.holding(1), bench.holding(1)
    sequence = ResidentSequence(prefix=(ResidentStep(ADD, (x,)), ResidentStep(ADD, (y,))))
    runner(bench).run(sequence)
    y.close()
    with pytest.raises(InvalidResource, match="after close"):
        runner(bench).run(sequence)
    assert bench.content(x) == [2], "no step ran"


def test_a_bound_step_is_refused_after_close() -> None:
    with backend_of(CountedTools().tools) as backend:
        bench = Bench(Subject(find_backend("cpu")), backend)
        assert backend.resident_binder is not None
        x = bench.holding(1)
        bound = backend.resident_binder.bind(ResidentStep(ADD, (x,)))
        backend.lifecycle.close()
        with pytest.raises(Exception, match="backend `cpu` is closed"):
            bound()
        bench.close()


def test_every_run_of_a_bound_launch_is_counted_at_once(bench: Bench) -> None:
    counted = bench.backend.metric_source
    assert counted is not None
    names = ("bound_runs", "list_launches", "list_kernels", "kernel_launches")

    def told() -> list[int]:
        return [counted.metrics()[name] for name in names]

    x, step = bench.holding(0, 0, 0, 0), None
    for closed in range(2):
        step = runner(bench).bind(bench.step(SUM, words(1), x, fixpoint_iterations=3))
        for runs in range(1, 200):
            step()
            ran = runs + 199 * closed
            assert told() == [ran, ran, 3 * ran, 0]
        step.close()
        step.close()
        assert told() == [ran, ran, 3 * ran, 0]


def test_a_sequence_is_counted_as_a_list(bench: Bench) -> None:
    x = bench.holding(0, 0, 0, 0)
    step = bench.step(SUM, words(1), x)
    timing = runner(bench).run(ResidentSequence(prefix=(step,), repeated=(step, step), repeat_count=4))
    assert bench.backend.metric_source is not None
    found = bench.backend.metric_source.metrics()
    assert (timing.launches, found["list_kernels"], found["list_launches"], found["resident_runs"]) == (9, 9, 1, 1)
