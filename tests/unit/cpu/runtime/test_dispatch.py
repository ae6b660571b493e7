"""Dispatches of the native CPU backend: memory is used in place, errors name lane and segment, endless work stops."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.cpu.backends import ADD, ENDLESS, CountedTools, backend_of
from support.limits import LIMIT_S
from vyre.adapters.cpu.native.features import host
from vyre.adapters.cpu.native.stack_frames import MOST_FRAME
from vyre.adapters.cpu.registration import cpu_catalog
from vyre.adapters.cpu.runtime.addresses import AddressReader, writable_address
from vyre.adapters.cpu.runtime.launch import Placement
from vyre.adapters.cpu.runtime.options import CpuOptions
from vyre.adapters.cpu.runtime.pipeline import CpuPipeline
from vyre.adapters.cpu.runtime.shapes import SHORT_NS
from vyre.adapters.cpu.runtime.tools import native_tools
from vyre.domain.dispatch import DispatchConfig, OutputArena
from vyre.domain.errors import (
    DispatchFailed,
    DispatchTimeout,
    InvalidConfig,
    InvalidField,
    StepBudgetExceeded,
    TrapError,
    UnsupportedFeature,
)
from vyre.ports.backend import Backend
from vyre.ports.requests import DispatchRequest
from vyre.testing.backend_contract.bench import Bench, Subject, parsed, u32s, words
from vyre.testing.execution import find_backend
from vyre.testing.fakes import MemoryArtifactStore

SEGMENTS: Final = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[8]
    body { x[gid.x] = x[gid.x] + 1u barrier(grid_sync) x[gid.x] = x[gid.x] * 2u }
    """)
"""Two kernels."""


@pytest.fixture
def backend() -> Iterator[Backend]:
    with backend_of(CountedTools().tools, threads=2) as found:
        yield found


def run(backend: Backend, program: Any, *inputs: bytes, **config: Any) -> tuple[bytes, ...]:
    arena = OutputArena()
    backend.executor.execute(DispatchRequest(program, tuple(map(memoryview, inputs)), DispatchConfig(**config)), arena)
    return arena.to_bytes()


def metric(backend: Backend, name: str) -> int:
    assert backend.metric_source is not None
    return backend.metric_source.metrics()[name]


def eventually(holds: Callable[[], bool]) -> None:
    """Waits until something holds, and fails if it does not for long."""
    pause = threading.Event()
    for _ in range(LIMIT_S * 1000):
        if holds():
            return
        pause.wait(0.001)
    raise AssertionError("it does not happen")


# ---------------------------------------------------------------- memory
def test_addresses_are_those_of_numpy() -> None:
    read = AddressReader()
    data = np.arange(10, dtype=np.uint32)
    start = data.__array_interface__["data"][0]
    assert read(data.data.cast("B").toreadonly()[4:]) == start + 4
    assert writable_address(data.data.cast("B")[8:]) == start + 8
    assert writable_address(memoryview(bytearray())) == 0
    with pytest.raises(BufferError):
        read(memoryview(bytes(8))[::2])


def test_inputs_are_read_in_place_unless_they_are_not_aligned(backend: Backend) -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read u32[runtime]
        buffer y @1 write u32[runtime] like x
        body { y[gid.x] = x[gid.x] }
        """)
    data = bytes(4) + words(*range(8))
    base = np.frombuffer(data, np.uint8)
    assert base.__array_interface__["data"][0] % 4 == 0
    assert run(backend, program, data[4:]) == (words(*range(8)),)
    before = metric(backend, "copied_bytes")
    arena = OutputArena()
    for offset, copied in ((4, 0), (3, 32), (4, 32)):
        view = memoryview(data)[offset : offset + 32]
        backend.executor.execute(DispatchRequest(program, (view,)), arena)
        assert arena.to_bytes() == (bytes(view),)
        assert metric(backend, "copied_bytes") - before == copied


class _Given:
    """``OutputStorage`` in memory that a test holds."""

    def __init__(self, *views: memoryview) -> None:
        self.views = views

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        return self.views

    def clear(self) -> None:
        raise AssertionError("a dispatch failed")


def test_memory_that_is_updated_is_that_of_the_output_only_where_both_are_the_whole_of_one_array(
    backend: Backend,
) -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[runtime]
        body { x[gid.x] = x[gid.x] + 1u }
        """)
    assert backend.compiler is not None
    pipeline = backend.compiler.compile(program, DispatchConfig()).pipeline
    for _ in range(3):
        whole = np.arange(8, dtype=np.uint32)
        view = whole.data.cast("B")
        pipeline.dispatch([view.toreadonly()], _Given(view))
        assert whole.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
        parts = np.arange(16, dtype=np.uint32)
        view = parts.data.cast("B")
        pipeline.dispatch([view[:32].toreadonly()], _Given(view[32:]))
        assert parts.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7, 8]


def test_a_number_that_is_passed_again_is_read_anew_where_it_may_have_changed(backend: Backend) -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer n @0 read u32[1]
        buffer y @1 write u32[4]
        body { y[gid.x] = n[0u] }
        """)
    assert backend.compiler is not None
    pipeline = backend.compiler.compile(program, DispatchConfig()).pipeline
    one, two, changing = words(1), words(2), bytearray(words(3))
    out = np.zeros(4, np.uint32)
    for data, expected in ((one, 1), (one, 1), (two, 2), (changing, 3), (one, 1), (one, 1), (changing, 4)):
        changing[:] = words(max(expected, 3))
        pipeline.dispatch([memoryview(data).toreadonly()], _Given(out.data.cast("B")))
        assert out.tolist() == [expected] * 4


def test_one_native_call_runs_a_dispatch_from_the_run_that_the_options_name() -> None:
    with backend_of(CountedTools().tools, threads=1, list_after=3, recompile=False) as backend:
        for _ in range(20):
            assert run(backend, SEGMENTS, words(*range(8))) == (words(*(2 * (k + 1) for k in range(8))),)
        assert metric(backend, "kernel_launches") == 3 * 2
        assert metric(backend, "list_launches") == 17
        assert metric(backend, "list_kernels") == 17 * 2


@pytest.mark.parametrize(("list_after", "listed"), [(0, 20), (None, 0)])
def test_one_native_call_runs_every_dispatch_or_none_where_the_options_say_so(
    list_after: int | None, listed: int
) -> None:
    with backend_of(CountedTools().tools, threads=1, list_after=list_after, recompile=False) as backend:
        for _ in range(20):
            assert run(backend, ADD, words(*range(8))) == (words(*range(1, 9)),)
        assert metric(backend, "list_launches") == listed
        assert metric(backend, "kernel_launches") == 20 - listed


def test_one_native_call_runs_the_first_dispatch_where_the_options_say_nothing(backend: Backend) -> None:
    assert run(backend, ADD, words(*range(8))) == (words(*range(1, 9)),)
    assert (metric(backend, "list_launches"), metric(backend, "kernel_launches")) == (1, 0)


def test_launches_are_counted_once_whatever_the_times_decide() -> None:
    with backend_of(CountedTools().tools, threads=1, list_after="costs", recompile=False) as backend:
        for _ in range(20):
            assert run(backend, ADD, words(*range(8))) == (words(*range(1, 9)),)
        assert metric(backend, "kernel_launches") + metric(backend, "list_kernels") == 20


@pytest.mark.parametrize(
    ("options", "config", "launches"),
    [
        ({}, {}, [2, 2, 2]),
        ({"list_after": 0}, {"fixpoint_iterations": 3}, [6, 6, 6]),
        ({"list_after": None}, {}, [2, 2, 2]),
        ({"list_after": 1}, {}, [2, 0, 0]),
        ({"list_after": "costs"}, {"timeout_s": 600.0}, [2, 2, 2]),
    ],
)
def test_a_dispatch_tells_the_kernels_that_were_launched_and_not_replayed(
    options: dict[str, Any], config: dict[str, Any], launches: list[int]
) -> None:
    """A list is a replay where each of its kernels could have been launched by itself, and was before."""
    with backend_of(CountedTools().tools, threads=1, recompile=False, **options) as backend:
        told = []
        for _ in range(3):
            request = DispatchRequest(SEGMENTS, (memoryview(words(*range(8))),), DispatchConfig(**config))
            told.append(backend.executor.execute(request, OutputArena()))
        assert [timing.launches for timing in told] == launches
        apart = metric(backend, "kernel_launches")
        assert apart + metric(backend, "list_kernels") == 3 * max(launches)
        # Only the time of kernels that were launched by themselves contains that many launches.
        assert sum(timing.enqueue_ns is not None for timing in told) * 2 == apart


# ---------------------------------------------------------------- errors
def test_an_error_in_a_later_segment_names_it() -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[8]
        body { x[gid.x] = x[7u - gid.x] barrier(grid_sync) if x[gid.x] == 3u { trap(gid.x * 10u, "three") } }
        """)
    with backend_of(CountedTools().tools, list_after=10, recompile=False) as backend:
        for _ in range(20):  # launched one by one at first, then as a list
            with pytest.raises(TrapError, match="three") as caught:
                run(backend, program, words(7, 6, 5, 4, 3, 2, 1, 0))
            assert (caught.value.address, caught.value.global_id) == (30, (3, 0, 0))
            assert caught.value.__notes__ == ["segment 2 of 2, cut at grid barriers"]
        assert metric(backend, "traps") == 20


def test_the_steps_of_all_segments_and_launches_count_together(backend: Backend) -> None:
    program = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[4]
        body {
          for k in 0u..4u { x[gid.x] = x[gid.x] + 1u }
          barrier(grid_sync)
          for k in 0u..4u { x[gid.x] = x[gid.x] + 1u }
        }
        """)
    assert run(backend, program, bytes(16), step_budget=6) == (words(8, 8, 8, 8),)
    assert run(backend, program, bytes(16), step_budget=12, fixpoint_iterations=2) == (words(16, 16, 16, 16),)
    for config in ({"step_budget": 5}, {"step_budget": 11, "fixpoint_iterations": 2}):
        with pytest.raises(StepBudgetExceeded) as caught:
            run(backend, program, bytes(16), **config)
        assert caught.value.global_id == (0, 0, 0)


def test_a_step_budget_ends_an_endless_kernel(backend: Backend) -> None:
    with pytest.raises(StepBudgetExceeded):
        run(backend, ENDLESS, bytes(64), step_budget=1000)


def test_a_timeout_ends_an_endless_kernel(backend: Backend) -> None:
    for _ in range(3):
        with pytest.raises(DispatchTimeout, match=r"did not finish on backend `cpu` within 0.05 s"):
            run(backend, ENDLESS, bytes(64), timeout_s=0.05, label="too long")
    assert run(backend, ADD, words(1)) == (words(2),)
    assert metric(backend, "timeouts") == 3


def test_closing_ends_an_endless_kernel() -> None:
    with backend_of(CountedTools().tools) as backend:
        run(backend, ADD, words(1))
        assert backend.compiler is not None
        pipeline = backend.compiler.compile(ENDLESS, DispatchConfig()).pipeline
        errors: list[BaseException] = []

        def work() -> None:
            try:
                pipeline.dispatch((memoryview(bytes(64)),), OutputArena())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        eventually(lambda: metric(backend, "worker_runs") > 0)
        backend.lifecycle.close()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
        (error,) = errors
        assert isinstance(error, DispatchFailed)
        assert "closed" in error.message
        with pytest.raises(DispatchFailed, match="backend `cpu` is closed"):
            run(backend, ADD, words(1))


INTERRUPTED = """
import os, signal, sys, threading, time
sys.path.insert(0, {tests!r})
from support.cpu.backends import ADD, ENDLESS, CountedTools, backend_of
from vyre.domain.dispatch import OutputArena
from vyre.ports.requests import DispatchRequest
with backend_of(CountedTools().tools) as backend:
    arena = OutputArena()
    backend.executor.execute(DispatchRequest(ADD, (memoryview(bytes(4)),)), arena)
    backend.compiler.compile(ENDLESS, DispatchRequest(ADD, ()).config)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        backend.executor.execute(DispatchRequest(ENDLESS, (memoryview(bytes(64)),)), OutputArena())
    except KeyboardInterrupt:
        print("interrupted", backend.metric_source.metrics()["interrupts"])
    backend.executor.execute(DispatchRequest(ADD, (memoryview(bytes(4)),)), arena)
    print(arena.to_bytes())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this platform has no such signal")
def test_an_interrupt_ends_an_endless_kernel_and_nothing_else() -> None:
    assert signal.SIGINT
    tests = str(__import__("pathlib").Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(tests=tests)], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.stdout.split("\n")[:2] == ["interrupted 1", "(b'\\x01\\x00\\x00\\x00',)"], done.stderr


# ---------------------------------------------------------------- where it runs
def test_only_what_is_proved_short_runs_on_the_calling_thread(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded = parsed("workgroup_size 4, 1, 1 buffer x @0 read_write u32[4] body { for k in 0u..9u { x[gid.x] = k } }")
    unbounded = parsed("""
        workgroup_size 4, 1, 1
        buffer x @0 read_write u32[4]
        body { for k in 0u..x[gid.x] { x[gid.x] = k } }
        """)
    run(backend, bounded, bytes(16))
    assert (metric(backend, "worker_runs"), metric(backend, "caller_runs") > 0) == (0, True)
    before = metric(backend, "caller_runs")
    run(backend, unbounded, bytes(16))
    assert (metric(backend, "worker_runs") > 0, metric(backend, "caller_runs")) == (True, before)
    for name in ("SHORT_STEPS", "BOUNDED_STEPS"):
        monkeypatch.setattr(f"vyre.adapters.cpu.runtime.shapes.{name}", 1 << 14)
    run(backend, bounded, bytes(16), extent=1 << 12)
    assert metric(backend, "caller_runs") == before


LEAVES: Final = parsed("""
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body { for k in 0u..4194304u { x[gid.x] = x[gid.x] + 1u if k == 2u { break } } }
    """)
"""It adds 3; how soon the loop ends is not proved, only that it does."""


def test_what_was_measured_to_take_little_time_runs_on_the_calling_thread(backend: Backend) -> None:
    assert run(backend, LEAVES, words(7)) == (words(10),)
    first = metric(backend, "worker_runs")
    assert (first > 0, metric(backend, "caller_runs")) == (True, 0), "nobody knew its time"
    for _ in range(3):
        assert run(backend, LEAVES, words(7)) == (words(10),)
    assert (metric(backend, "worker_runs"), metric(backend, "caller_runs") > 0) == (first, True)


@pytest.mark.parametrize(("most_ns", "config"), [(-1, {}), (SHORT_NS, {"timeout_s": 60.0})])
def test_what_takes_long_or_may_time_out_is_left_to_workers(
    backend: Backend, most_ns: int, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre.adapters.cpu.runtime.shapes.SHORT_NS", most_ns)
    for _ in range(4):
        run(backend, LEAVES, words(7), **config)
    assert (metric(backend, "worker_runs") >= 4, metric(backend, "caller_runs")) == (True, 0)


def test_what_several_threads_share_is_left_to_them(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    several = Placement(2, 1)
    monkeypatch.setattr("vyre.adapters.cpu.runtime.pipeline.place", lambda *_, **__: several)
    for _ in range(4):
        run(backend, LEAVES, words(7))
    assert (metric(backend, "worker_runs") >= 4, metric(backend, "caller_runs")) == (True, 0)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 32])
def test_threads_and_lanes_change_no_byte(threads: int, lanes: int) -> None:
    program = parsed("""
        workgroup_size 64, 1, 1
        buffer x @0 read u32[runtime]
        buffer y @1 write u32[runtime] like x
        buffer n @2 read_write u32[3]
        buffer s @- workgroup u32[64]
        body {
          s[lid.x] = x[gid.x] * 7u
          barrier(seq_cst)
          y[gid.x] = s[63u - lid.x] + wid.x
          let a = atomic_add(n, x[gid.x] % 3u, 1u)
        }
        """)
    values = list(range(3, 64 * 500, 2))
    given = words(*values)
    with backend_of(CountedTools().tools, threads=threads, lanes=lanes) as backend:
        for _ in range(3):
            found, counts = run(backend, program, given, bytes(12))
            ends = [values[w * 64 : w * 64 + 64] for w in range(-(-len(values) // 64))]
            ends[-1] += [0] * (64 - len(ends[-1]))
            wanted = [(7 * v + w) & 0xFFFF_FFFF for w, end in enumerate(ends) for v in reversed(end)]
            assert u32s(found) == wanted[: len(values)]
            residues = [sum(1 for v in (e for end in ends for e in end) if v % 3 == k) for k in range(3)]
            assert u32s(counts) == residues


def test_code_uses_no_vectors_wider_than_the_option_says() -> None:
    program = parsed("""
        workgroup_size 64, 1, 1
        buffer x @0 read_write u32[runtime]
        body { x[gid.x] = x[gid.x] * 3u }""")
    for bits in (128, 256, 300, 512):
        options = CpuOptions(vector_bits=bits)
        assert native_tools(options.vector_bits).features == host().at_most(bits)
        with vyre.open("cpu", catalog=cpu_catalog(options), cache=False) as session:
            found = session.dispatch(program, {"x": np.arange(64, dtype=np.uint32)})["x"]
        assert np.array_equal(found, np.arange(64, dtype=np.uint32) * 3)
    for bits in (64, 1024):
        with pytest.raises(InvalidField, match="vector_bits"):
            CpuOptions(vector_bits=bits)


def test_lanes_are_a_width() -> None:
    with pytest.raises(InvalidConfig, match="lanes=5"), backend_of(CountedTools().tools, lanes=5):
        pass


def test_hot_kernels_are_compiled_again_and_give_the_same_bytes() -> None:
    program = parsed("""
        workgroup_size 64, 1, 1
        buffer x @0 read_write u32[runtime]
        body { for k in 0u..4000u { x[gid.x] = x[gid.x] * 1664525u + 1013904223u } }
        """)
    store, tools = MemoryArtifactStore(), CountedTools()
    with backend_of(tools.tools, store) as backend:
        wanted = run(backend, program, bytes(4096))
        eventually(lambda: run(backend, program, bytes(4096)) != wanted or tools.compiled_apart > 0)
        eventually(lambda: metric(backend, "swaps") > 0)
        assert (tools.compiled_apart, metric(backend, "swaps")) == (1, 1)
        assert run(backend, program, bytes(4096)) == wanted
    with backend_of(CountedTools(None).tools, store) as backend:
        assert run(backend, program, bytes(4096)) == wanted
        assert backend.compiler is not None
        pipeline = backend.compiler.compile(program, DispatchConfig()).pipeline
        assert isinstance(pipeline, CpuPipeline)
        assert pipeline.shape((4096,)).choice.module.loaded.effort.value == "full"


def test_pending_dispatches_are_ended_by_closing() -> None:
    with Subject(find_backend("cpu")) as subject, subject.fresh() as backend:
        bench = Bench(subject, backend)
        pending = [
            bench.asynchronous.submit(DispatchRequest(ENDLESS, (memoryview(bytes(64)),), DispatchConfig()))
            for _ in range(5)
        ]
        called = threading.Event()
        pending[-1].add_done_callback(called.set)
        backend.lifecycle.close()
        assert called.wait(LIMIT_S)
        for each in pending:
            assert each.done()
            with pytest.raises(DispatchFailed):
                each.wait(OutputArena(), timeout=LIMIT_S)


def test_a_program_that_takes_too_much_of_the_stack_is_refused(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vyre.adapters.cpu.runtime.kernels.frame_bytes", lambda _: MOST_FRAME + 1)
    with pytest.raises(UnsupportedFeature, match=r"bytes at once.*Fix: divide the program"):
        run(backend, ADD, words(1))
