"""Cases of ``ResidentExecutor`` and ``ResidentBinder``: launches on device memory, in order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, NamedTuple

from vyre.domain.errors import InvalidInput, InvalidResource, TrapError, UnsupportedFeature, VyreError
from vyre.domain.indirect_grids import with_indirect_grid
from vyre.domain.specialization import SpecMap
from vyre.ports.requests import Readback, Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.backend_contract.bench import (
    ADD,
    DOUBLE,
    SUM,
    TRAP,
    Bench,
    at_once,
    equal,
    holds,
    refusal,
    u32s,
    view,
    words,
)
from vyre.testing.backend_contract.case import Group

RESIDENT: Final = Group("resident", "memory", "resident_executor")
BINDER: Final = Group("binder", "memory", "resident_executor", "resident_binder")

_COPY: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { if gid.x < 2u { y[gid.x] = x[gid.x] + len(x) * 100u + len(y) * 1000u } }
    """
_THREE: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[3]
    buffer y @1 write u32[3]
    body { y[gid.x] = x[gid.x] + len(x) }
    """
_UNSIZED: Final = "workgroup_size 1, 1, 1 buffer y @0 write u32[runtime] body { if gid.x == 0u { y[0u] = len(y) } }"
_NEXT: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[4]
    buffer y @1 write u32[4]
    body { y[gid.x] = x[(gid.x + 1u) % 4u] * 3u + 1u }
    """


def _read(buffer: ResidentBuffer, into: bytearray, offset: int = 0) -> Readback:
    return Readback(buffer, memoryview(into), offset)


# ---------------------------------------------------------------- one launch
@RESIDENT.case()
def what_a_launch_writes_stays(bench: Bench) -> None:
    """An updated buffer is changed in place."""
    x = bench.holding(1, 2, 3)
    timing = bench.launch(ADD, words(10), x)
    equal(bench.content(x), [11, 12, 13])
    holds(timing.wall_ns >= 0, f"a launch took {timing.wall_ns} ns")


@RESIDENT.case()
def a_launch_is_a_part_of_submitting_them(bench: Bench) -> None:
    """The reported time of a launch, times the number of launches, is at most the time before the wait."""
    x = bench.holding(1, 2, 3)
    for _ in range(5):  # some of them may be replays
        timing = bench.launch(DOUBLE, x, fixpoint_iterations=64)
        holds((timing.launches or 0) >= 0, f"a count is negative: {timing}")
        if timing.launch_ns is not None:
            holds(bool(timing.launches) and timing.launch_ns >= 0, f"a launch is timed that was none: {timing}")
            holds(
                timing.enqueue_ns is not None and timing.launch_ns * (timing.launches or 0) <= timing.enqueue_ns,
                f"launching takes longer than submitting: {timing}",
            )


@RESIDENT.case()
def inputs_are_not_changed(bench: Bench) -> None:
    """A buffer that is only read keeps its content."""
    x, y = bench.holding(5, 6, 7), bench.allocate(12)
    bench.launch(_THREE, x, y)
    equal((bench.content(x), bench.content(y)), ([5, 6, 7], [8, 9, 10]))


@RESIDENT.case()
def outputs_are_zeroed_as_far_as_the_program_sees(bench: Bench) -> None:
    """An output starts as zeros; memory beyond what the program needs is not written."""
    x, y = bench.holding(1, 2, 3), bench.holding(7, 7, 7, 7)
    bench.launch(_COPY, x, y)
    equal(bench.content(y), [3301, 3302, 0, 7])


@RESIDENT.case()
def longer_memory_does_not_show(bench: Bench) -> None:
    """A buffer of a static count sees that many elements of longer memory."""
    x, y = bench.holding(1, 2, 3, 4), bench.holding(9, 9, 9, 9, 9)
    bench.launch(_THREE, x, y)
    equal(bench.content(y), [4, 5, 6, 9, 9])


@RESIDENT.case()
def out_of_range_ends_where_the_program_ends(bench: Bench) -> None:
    """Past the static count longer memory reads as zero, and stores are dropped."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer x @0 read u32[2]
    buffer y @1 read_write u32[3]
    body { y[gid.x] = x[gid.x] + 1u }
    """
    x, y = bench.holding(5, 6, 7, 8), bench.holding(0, 0, 0, 9, 9)
    bench.launch(kernel, x, y)
    equal(bench.content(y), [6, 7, 1, 9, 9])


@RESIDENT.table({"11_bytes": (11, 2), "3_bytes": (3, 0), "12_bytes": (12, 3)})
def memory_ends_with_a_whole_element(bench: Bench, row: tuple[int, int]) -> None:
    """A buffer sized at run time has as many elements as fit its memory."""
    nbytes, count = row
    x, y = bench.allocate(nbytes), bench.allocate(12)
    bench.launch(_COPY, x, y)
    equal(bench.content(y)[:2], [count * 1100 if k < count else 0 for k in range(2)])


@RESIDENT.case()
def an_output_takes_the_size_of_its_memory(bench: Bench) -> None:
    """Without ``like`` and count an output has the size of its memory, or the count in the config."""
    y = bench.allocate(20)
    bench.launch(_UNSIZED, y)
    equal(bench.content(y)[0], 5)
    bench.launch(_UNSIZED, y, output_counts={"y": 3})
    equal(bench.content(y)[0], 3)
    refusal(InvalidResource, lambda: bench.launch(_UNSIZED, y, output_counts={"y": 6}))


@RESIDENT.case()
def one_memory_may_be_read_twice(bench: Bench) -> None:
    """Reading one buffer through two bindings is legal."""
    x, y = bench.holding(1, 2, 3), bench.allocate(12)
    bench.launch(SUM, x, x, y)
    equal(bench.content(y), [2, 4, 6])


@RESIDENT.case()
def host_bytes_serve_what_is_read(bench: Bench) -> None:
    """Read-only buffers may be bound to host bytes, which need no alignment."""
    y = bench.allocate(12)
    bench.launch(SUM, words(1, 2, 3), memoryview(b"\xff" + words(10, 20, 30))[1:], y)
    equal(bench.content(y), [11, 22, 33])


@RESIDENT.case()
def host_bytes_are_taken_at_the_call(bench: Bench) -> None:
    """Host bytes that change after the run do not change its result."""
    data = bytearray(words(*range(512)))
    x, y = bench.holding(*[1] * 512), bench.allocate(2048)
    bench.launch(SUM, x, view(data), y)
    data[:] = b"\xff" * len(data)
    equal(bench.content(y), [k + 1 for k in range(512)])


@RESIDENT.table({"read": "read", "uniform": "uniform"})
def host_bytes_of_every_access(bench: Bench, access: str) -> None:
    """Storage and uniform buffers take host bytes, of different lengths from run to run."""
    kernel = f"""
    workgroup_size 4, 1, 1
    buffer x @0 {access} u32[runtime]
    buffer y @1 read_write u32[runtime]
    body {{ y[gid.x] = x[gid.x] * 10u + len(x) }}
    """
    y = bench.allocate(12)
    for size in (3, 1, 0, 2):
        bench.launch(kernel, words(*range(1, size + 1)), y)
        equal(bench.content(y), [(k + 1) * 10 + size if k < size else size for k in range(3)])


class _Configured(NamedTuple):
    config: dict[str, Any]
    wanted: list[int]


@RESIDENT.table(
    {
        "nothing": _Configured({}, [0, 1, 2]),
        "workgroup": _Configured({"workgroup": (2, 1, 1)}, [0, 1, 100]),
        "grid": _Configured({"workgroup": (1, 1, 1), "grid": (2, 1, 1)}, [0, 100, 9]),
        "extent": _Configured({"workgroup": (1, 1, 1), "extent": (1,)}, [0, 9, 9]),
        "spec": _Configured({"spec": SpecMap({"base": 7})}, [7, 8, 9]),
        "fixpoint": _Configured({"fixpoint_iterations": 2}, [0, 1, 2]),
    }
)
def a_step_has_a_config(bench: Bench, row: _Configured) -> None:
    """Geometry and constants of a step are honoured."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer y @0 read_write u32[3]
    body { y[gid.x] = wid.x * 100u + lid.x + spec(base, 0u) }
    """
    y = bench.holding(9, 9, 9)
    bench.launch(kernel, y, **row.config)
    equal(bench.content(y), row.wanted)


@RESIDENT.case()
def a_step_is_repeated_by_its_config(bench: Bench) -> None:
    """``fixpoint_iterations`` launches a step again on the buffers that it left."""
    x = bench.holding(1, 2)
    bench.launch(DOUBLE, x, fixpoint_iterations=3)
    equal(bench.content(x), [8, 16])


@RESIDENT.case()
def a_config_that_cannot_be_honoured_is_refused(bench: Bench) -> None:
    """A step refuses a config that a dispatch refuses."""
    x = bench.holding(1)
    refusal(UnsupportedFeature, lambda: bench.launch(DOUBLE, x, profile="no such profile"))
    equal(bench.content(x), [1])


@RESIDENT.case()
def empty_memory(bench: Bench) -> None:
    """Launches on memory of no bytes do nothing."""
    empty = bench.allocate(0)
    bench.launch(DOUBLE, empty)
    bench.launch(_COPY, empty, bench.allocate(0))
    equal(bench.content(empty), [])


@RESIDENT.case()
def it_equals_a_dispatch(bench: Bench) -> None:
    """The same program on the same bytes returns the same bytes, resident or not."""
    kernel = """
    workgroup_size 32, 1, 1
    buffer x @0 read f32[runtime]
    buffer y @1 write f32[runtime] like x
    body { y[gid.x] = sin(x[gid.x]) / (x[gid.x] + 0.5f) }
    """
    data = words(*[0x3F00_0000 + k * 0x0001_2345 for k in range(100)])
    x, y = bench.allocate(400), bench.allocate(400)
    bench.memory.upload([Upload(x, view(data))])
    bench.launch(kernel, x, y)
    (wanted,) = bench.run(kernel, data)
    equal(bench.content(y), u32s(wanted))


# ---------------------------------------------------------------- refusals
class _Bad(NamedTuple):
    error: type[VyreError]
    run: Callable[[Bench], object]


@RESIDENT.table(
    {
        "no_resources": _Bad(InvalidInput, lambda b: b.launch(_THREE)),
        "one_of_two": _Bad(InvalidInput, lambda b: b.launch(_THREE, b.allocate(12))),
        "one_too_many": _Bad(InvalidInput, lambda b: b.launch(_THREE, *(b.allocate(12) for _ in range(3)))),
        "input_too_short": _Bad(InvalidResource, lambda b: b.launch(_THREE, b.allocate(8), b.allocate(12))),
        "output_too_short": _Bad(InvalidResource, lambda b: b.launch(_THREE, b.allocate(12), b.allocate(8))),
        "shorter_than_like": _Bad(InvalidResource, lambda b: b.launch(_COPY, b.allocate(12), b.allocate(8))),
        "host_bytes_written": _Bad(InvalidResource, lambda b: b.launch(_THREE, b.allocate(12), words(1, 2, 3))),
        "host_bytes_updated": _Bad(InvalidResource, lambda b: b.launch(DOUBLE, words(1, 2, 3))),
        "host_bytes_too_short": _Bad(InvalidInput, lambda b: b.launch(_THREE, words(1, 2), b.allocate(12))),
        "host_bytes_too_long": _Bad(InvalidInput, lambda b: b.launch(_THREE, words(1, 2, 3, 4), b.allocate(12))),
        "host_bytes_of_half_an_element": _Bad(InvalidInput, lambda b: b.launch(_COPY, b"12345", b.allocate(12))),
        "parameter_too_short": _Bad(InvalidInput, lambda b: b.launch(ADD, b"12", b.allocate(12))),
        "parameter_in_memory": _Bad(InvalidResource, lambda b: b.launch(ADD, b.holding(10), b.allocate(12))),
    }
)
def what_does_not_fit_is_refused(bench: Bench, bad: _Bad) -> None:
    """Every non-workgroup buffer needs memory of a fitting size."""
    refusal(bad.error, lambda: bad.run(bench))
    x = bench.holding(1)
    bench.launch(DOUBLE, x)
    equal(bench.content(x), [2], "a launch after the refusal")


@RESIDENT.table(
    {
        "read_then_written": "buffer x @0 read u32[3] buffer y @1 write u32[3]",
        "written_then_read": "buffer y @0 write u32[3] buffer x @1 read u32[3]",
        "read_and_updated": "buffer x @0 read u32[3] buffer y @1 read_write u32[3]",
        "written_twice": "buffer x @0 read_write u32[3] buffer y @1 read_write u32[3]",
        "uniform_and_written": "buffer x @0 uniform u32[3] buffer y @1 write u32[3]",
    }
)
def aliases_are_refused(bench: Bench, buffers: str) -> None:
    """Memory that is bound twice and written through one of the bindings is refused, and stays unchanged."""
    both = bench.holding(1, 2, 3)
    kernel = f"workgroup_size 4, 1, 1 {buffers} body {{ y[gid.x] = x[gid.x] + 1u }}"
    error = refusal(InvalidResource, lambda: bench.launch(kernel, both, both))
    holds("`x`" in error.message and "`y`" in error.message, f"the bindings are not named: {error}")
    equal(bench.content(both), [1, 2, 3])


@RESIDENT.case()
def a_closed_buffer_is_refused(bench: Bench) -> None:
    """A closed buffer cannot be bound, wherever it stands in the sequence."""
    x, closed = bench.holding(1), bench.holding(2)
    closed.close()
    refusal(InvalidResource, lambda: bench.launch(DOUBLE, closed))
    steps = (bench.step(DOUBLE, closed),)
    refusal(InvalidResource, lambda: bench.sequence(repeated=steps, repeat_count=1))
    refusal(InvalidResource, lambda: bench.sequence(reads=(_read(closed, bytearray(4)),)))
    bench.launch(DOUBLE, x)
    equal(bench.content(x), [2])


@RESIDENT.table({"after": (4, 4), "before": (-1, 4), "too_long": (0, 8)})
def a_read_outside_is_refused(bench: Bench, row: tuple[int, int]) -> None:
    """Reads of a sequence must stay inside their buffers."""
    offset, nbytes = row
    x, into = bench.holding(1), bytearray(b"\xee" * nbytes)
    refusal(InvalidResource, lambda: bench.sequence(reads=(_read(x, into, offset),)))
    equal(bytes(into), b"\xee" * nbytes, "the target of a refused read")


# ---------------------------------------------------------------- sequences
@RESIDENT.case()
def an_empty_sequence(bench: Bench) -> None:
    """A sequence without steps and reads is legal."""
    holds(bench.sequence().wall_ns >= 0, "it has no time")


@RESIDENT.case()
def reads_alone(bench: Bench) -> None:
    """A sequence may consist of reads alone."""
    x, into = bench.holding(1, 2, 3), bytearray(8)
    bench.sequence(reads=(_read(x, into, 4),))
    equal(u32s(into), [2, 3])


@RESIDENT.table({"0": 0, "1": 1, "2": 2, "7": 7})
def prefix_repeat_reads(bench: Bench, times: int) -> None:
    """The prefix runs once, then the repeated steps the given number of times, then the reads."""
    x, y, into = bench.holding(1, 2), bench.holding(5, 5), bytearray(8)
    bench.sequence(
        prefix=(bench.step(ADD, words(1), x),),
        repeated=(bench.step(ADD, words(10), x), bench.step(_COPY, x, y)),
        repeat_count=times,
        reads=(_read(y, into),),
    )
    wanted = [2 + 10 * times, 3 + 10 * times]
    equal(bench.content(x), wanted)
    equal(u32s(into), [v + 2200 for v in wanted] if times else [5, 5])


@RESIDENT.case()
def steps_go_in_order(bench: Bench) -> None:
    """Each step sees the writes of the one before it."""
    x = bench.holding(1)
    add, double = bench.step(ADD, words(3), x), bench.step(DOUBLE, x)
    bench.sequence(prefix=(add, double, double, add, double), repeated=(double, add), repeat_count=3)
    value = (((1 + 3) * 4) + 3) * 2
    for _ in range(3):
        value = value * 2 + 3
    equal(bench.content(x), [value])


@RESIDENT.case()
def ping_pong(bench: Bench) -> None:
    """Two buffers may alternate as input and output."""
    a, b, into = bench.holding(1, 2, 3, 4), bench.allocate(16), bytearray(16)
    steps = (bench.step(_NEXT, a, b), bench.step(_NEXT, b, a))
    bench.sequence(repeated=steps, repeat_count=10, reads=(_read(a, into),))
    values = [1, 2, 3, 4]
    for _ in range(20):
        values = [(values[(k + 1) % 4] * 3 + 1) & 0xFFFF_FFFF for k in range(4)]
    equal(u32s(into), values)


_MARK: Final = """
    workgroup_size 2, 2, 1
    buffer y @0 read_write u32[24]
    body { if num_groups.z == 1u { y[gid.x + gid.y * 6u] = num_groups.x * 10u + num_groups.y } }
    """


class _Counted(NamedTuple):
    """Counts that an earlier step stores, and what a launch of at most three by two workgroups leaves with them."""

    counts: tuple[int, int, int]
    marked: list[int]
    excess: tuple[int, int, int] = (0, 0, 0)


@RESIDENT.table(
    {
        "some": _Counted((2, 1, 1), [21, 21, 21, 21, 0, 0] * 2 + [0] * 12),
        "all": _Counted((3, 2, 1), [32] * 24),
        "none": _Counted((3, 0, 1), [0] * 24),
        "too_many": _Counted((3, 3, 1), [0] * 24, (3, 3, 1)),
        "far_too_many": _Counted((1, 1, 0xFFFF_FFFF), [0] * 24, (1, 1, 0xFFFF_FFFF)),
    }
)
def a_grid_from_memory(bench: Bench, row: _Counted) -> None:
    """A program whose grid is read from memory runs the counts that a step before it stored; too many run nothing."""
    summed, counts, y, excess = bench.holding(*row.counts), bench.allocate(12), bench.allocate(96), bench.allocate(12)
    store = bench.step(SUM, summed, words(0, 0, 0), counts)
    mark = bench.step(with_indirect_grid(bench.program(_MARK)), y, counts, excess, grid=(3, 2, 1))
    bench.sequence(prefix=(store, mark))
    equal((bench.content(y), bench.content(excess)), (row.marked, [*row.excess]))


@RESIDENT.case()
def host_bytes_of_each_step(bench: Bench) -> None:
    """Steps of one program with different host bytes keep them apart."""
    x, y = bench.holding(100, 200), bench.allocate(8)
    outputs = [bench.allocate(8) for _ in range(5)]
    bench.sequence(prefix=tuple(bench.step(SUM, x, words(k, 2 * k), out) for k, out in enumerate(outputs)))
    for k, out in enumerate(outputs):
        equal(bench.content(out), [100 + k, 200 + 2 * k], f"step {k}")
    bench.sequence(prefix=tuple(bench.step(ADD, words(k), x) for k in range(10)))
    equal((bench.content(x), bench.content(y)), ([145, 245], [0, 0]))


@RESIDENT.case()
def outputs_are_zeroed_in_each_round(bench: Bench) -> None:
    """A repeated step does not see its previous output."""
    kernel = "workgroup_size 4, 1, 1 buffer y @0 read_write u32[4] output body { y[gid.x] = y[gid.x] + gid.x + 1u }"
    y = bench.holding(9, 9, 9, 9)
    bench.sequence(repeated=(bench.step(kernel, y),), repeat_count=5)
    equal(bench.content(y), [1, 2, 3, 4])


@RESIDENT.case()
def many_reads(bench: Bench) -> None:
    """Reads of many ranges, also overlapping ones, each arrive at their destination."""
    x = bench.holding(*range(64))
    into = [bytearray(8) for _ in range(20)]
    bench.sequence(prefix=(bench.step(DOUBLE, x),), reads=tuple(_read(x, data, 4 * k) for k, data in enumerate(into)))
    equal([u32s(data) for data in into], [[2 * k, 2 * k + 2] for k in range(20)])


@RESIDENT.case()
def a_long_sequence(bench: Bench) -> None:
    """A sequence may have hundreds of launches."""
    x = bench.holding(0, 1)
    bench.sequence(repeated=(bench.step(ADD, words(1), x),), repeat_count=200)
    equal(bench.content(x), [200, 201])


@RESIDENT.case()
def a_grid_barrier_on_resident_memory(bench: Bench) -> None:
    """Programs with grid barriers run on device memory as in a dispatch."""
    if not bench.backend.profile.allows_host_grid_sync_split:
        bench.need("supports_grid_sync")
    kernel = """
    workgroup_size 2, 1, 1
    buffer x @0 read_write u32[6]
    buffer y @1 write u32[6]
    body { x[gid.x] = x[gid.x] + 1u barrier(grid_sync) y[gid.x] = x[5u - gid.x] }
    """
    x, y = bench.holding(*range(6)), bench.allocate(24)
    bench.sequence(repeated=(bench.step(kernel, x, y),), repeat_count=2)
    equal((bench.content(x), bench.content(y)), ([2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2]))


# ---------------------------------------------------------------- traps


@RESIDENT.case("supports_trap_propagation")
def a_trap_is_raised(bench: Bench) -> None:
    """A launch that traps raises, and the backend keeps working."""
    x = bench.holding(1, 9, 9)
    error = refusal(TrapError, lambda: bench.launch(TRAP, x))
    equal((error.tag, error.address, error.global_id), ("nine", 1, (1, 0, 0)))
    bench.memory.upload([Upload(x, view(words(1, 2, 3)))])
    bench.launch(TRAP, x)
    equal(bench.content(x), [2, 3, 4])


@RESIDENT.case("supports_trap_propagation")
def nothing_runs_behind_a_trap(bench: Bench) -> None:
    """Steps after a trap do not run, and nothing is read."""
    x, y, into = bench.holding(9), bench.holding(5), bytearray(b"\xee" * 4)
    steps = (bench.step(TRAP, x), bench.step(DOUBLE, y))
    refusal(TrapError, lambda: bench.sequence(prefix=steps, reads=(_read(y, into),)))
    equal((bench.content(y), bytes(into)), ([5], b"\xee" * 4))


@RESIDENT.case("supports_trap_propagation")
def a_trap_in_a_later_round(bench: Bench) -> None:
    """A repeated step that traps in its third round has run twice."""
    x, y = bench.holding(7), bench.holding(1)
    steps = (bench.step(TRAP, x), bench.step(DOUBLE, y))
    refusal(TrapError, lambda: bench.sequence(repeated=steps, repeat_count=10))
    equal(bench.content(y), [4])


# ---------------------------------------------------------------- threads
@RESIDENT.case()
def threads_run_sequences_at_once(bench: Bench) -> None:
    """Concurrent sequences on different memory are independent."""
    buffers = [bench.holding(*range(k, k + 10)) for k in range(6)]

    def work(number: int) -> None:
        into = bytearray(40)
        for round_ in range(1, 5):
            bench.sequence(
                prefix=(bench.step(ADD, words(number), buffers[number]),), reads=(_read(buffers[number], into),)
            )
            equal(u32s(into), [number * (round_ + 1) + k for k in range(10)], f"thread {number}, round {round_}")

    at_once(6, work)


@RESIDENT.case()
def threads_share_what_they_read(bench: Bench) -> None:
    """Launches of many threads may read one buffer at once."""
    x = bench.holding(*range(50))

    def work(number: int) -> None:
        with bench.memory.allocate(200) as y:
            bench.launch(SUM, x, words(*[number] * 50), y)
            equal(bench.content(y), [number + k for k in range(50)])

    at_once(6, work)


# ---------------------------------------------------------------- bound steps
def _bound(bench: Bench, kernel: str, *resources: Any, **config: Any) -> Any:
    binder = bench.backend.resident_binder
    assert binder is not None
    return binder.bind(bench.step(kernel, *resources, **config))


@BINDER.case()
def a_bound_step_runs_when_called(bench: Bench) -> None:
    """Binding does not launch; every call does, and returns after the launch has ended."""
    x = bench.holding(1, 2)
    with closing(_bound(bench, ADD, words(10), x)) as step:
        equal(bench.content(x), [1, 2], "the memory after binding")
        for round_ in range(1, 4):
            step()
            equal(bench.content(x), [1 + 10 * round_, 2 + 10 * round_])


@BINDER.case()
def host_bytes_are_taken_at_the_bind(bench: Bench) -> None:
    """Host bytes of a bound step are copied when it is bound."""
    data = bytearray(words(1, 2))
    x, y = bench.holding(10, 20), bench.allocate(8)
    with closing(_bound(bench, SUM, x, view(data), y)) as step:
        data[:] = bytes(8)
        step()
        equal(bench.content(y), [11, 22])


@BINDER.case()
def a_bound_output_is_zeroed_in_each_call(bench: Bench) -> None:
    """A bound step does not see its previous output."""
    kernel = "workgroup_size 4, 1, 1 buffer y @0 read_write u32[4] output body { y[gid.x] = y[gid.x] + gid.x + 1u }"
    y = bench.holding(9, 9, 9, 9)
    with closing(_bound(bench, kernel, y)) as step:
        for _ in range(3):
            step()
        equal(bench.content(y), [1, 2, 3, 4])


@BINDER.case("supports_trap_propagation")
def a_bound_step_traps_each_time(bench: Bench) -> None:
    """A trap is raised by the call that caused it, and the step can be called again."""
    x = bench.holding(9)
    with closing(_bound(bench, TRAP, x)) as step:
        for _ in range(2):
            equal(refusal(TrapError, step).tag, "nine")
        bench.memory.upload([Upload(x, view(words(1)))])
        step()
        equal(bench.content(x), [2])


@BINDER.case()
def a_bound_step_closes_twice(bench: Bench) -> None:
    """``close`` is idempotent; the step's memory stays, and it does not run any more."""
    x = bench.holding(1)
    step = _bound(bench, DOUBLE, x)
    step()
    step.close()
    step.close()
    refusal(InvalidResource, step)
    equal(bench.content(x), [2])


@BINDER.case()
def bound_steps_of_an_older_epoch_are_refused(bench: Bench) -> None:
    """A step that was bound before recovery does not run, and closing it raises nothing; new steps work."""
    with bench.elsewhere() as other:
        step = _bound(other, DOUBLE, other.holding(1))
        step()
        other.recover()
        refusal(InvalidResource, step)
        step.close()
        x = other.holding(3)
        again = _bound(other, DOUBLE, x)
        again()
        again.close()
        equal(other.content(x), [6])


@BINDER.table(
    {
        "too_short": _Bad(InvalidResource, lambda b: _bound(b, _THREE, b.allocate(8), b.allocate(12))),
        "too_few": _Bad(InvalidInput, lambda b: _bound(b, _THREE, b.allocate(12))),
        "written_host_bytes": _Bad(InvalidResource, lambda b: _bound(b, DOUBLE, words(1))),
        "unsupported": _Bad(UnsupportedFeature, lambda b: _bound(b, DOUBLE, b.holding(1), profile="none")),
    }
)
def a_step_that_does_not_fit_is_refused(bench: Bench, bad: _Bad) -> None:
    """Binding checks everything that running checks."""
    refusal(bad.error, lambda: bad.run(bench))
