"""Resident memory of the reference backends below the session: ranges, bindings and sequences of launches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from vyre.adapters.discovery import load_catalog
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import DeviceOutOfMemory, InvalidInput, InvalidResource, TrapError
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import validate
from vyre.ports.backend import Backend
from vyre.ports.execution import ResidentMemory
from vyre.ports.requests import Readback, ResidentSequence, ResidentStep, Resource, Upload
from vyre.ports.resident_buffer import ResidentBuffer


def program(text: str) -> Program:
    parsed = Program.from_text(text)
    validate(parsed).raise_if_invalid()
    return parsed


ADD = program("""
workgroup_size 4, 1, 1
param a @0 u32
buffer x @1 read_write u32[runtime]
body { x[gid.x] = x[gid.x] + a }
""")
COPY = program("""
workgroup_size 4, 1, 1
buffer x @0 read u32[runtime]
buffer y @1 write u32[runtime] like x
body { if gid.x < 2u { y[gid.x] = x[gid.x] + len(x) * 100u + len(y) * 1000u } }
""")
THREE = program("""
workgroup_size 4, 1, 1
buffer x @0 read u32[3]
buffer y @1 write u32[3]
body { y[gid.x] = x[gid.x] + len(x) }
""")


def words(*values: int) -> memoryview:
    return memoryview(np.array(values, np.uint32).tobytes())


class Bench:
    """A backend, buffers that are closed at the end, and short ways to fill, run and read."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.memory: ResidentMemory = backend.require_memory()
        self.open: list[ResidentBuffer] = []

    def allocate(self, nbytes: int) -> ResidentBuffer:
        buffer = self.memory.allocate(nbytes)
        self.open.append(buffer)
        return buffer

    def holding(self, *values: int) -> ResidentBuffer:
        data = words(*values)
        buffer = self.allocate(data.nbytes)
        self.memory.upload([Upload(buffer, data)])
        return buffer

    def read(self, buffer: ResidentBuffer) -> list[int]:
        into = bytearray(buffer.nbytes)
        self.memory.download([Readback(buffer, memoryview(into))])
        return list(np.frombuffer(into, np.uint32))

    def run(self, program: Program, *resources: Resource, config: DispatchConfig | None = None) -> None:
        step = ResidentStep(program, resources, config or DispatchConfig())
        self.backend.require_resident_executor().run(ResidentSequence(prefix=(step,)))


@pytest.fixture(params=["reference", "reference-scalar"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    registration = load_catalog().get(request.param)
    assert registration is not None
    bench = Bench(registration.make())
    yield bench
    for buffer in bench.open:
        buffer.close()


# ---------------------------------------------------------------- memory
def test_memory_starts_as_zeros_and_remembers(bench: Bench) -> None:
    buffer = bench.allocate(12)
    assert bench.read(buffer) == [0, 0, 0]
    bench.memory.upload([Upload(buffer, words(7), 4), Upload(buffer, words(9), 8)])
    assert bench.read(buffer) == [0, 7, 9]
    into = bytearray(5)
    bench.memory.download([Readback(buffer, memoryview(into)[:2], 4), Readback(buffer, memoryview(into)[2:], 8)])
    assert into == bytes((7, 0, 9, 0, 0))


def test_memory_of_no_bytes(bench: Bench) -> None:
    buffer = bench.allocate(0)
    bench.memory.upload([Upload(buffer, memoryview(b""))])
    assert bench.read(buffer) == []


@pytest.mark.parametrize(
    ("nbytes", "error"), [(-1, InvalidResource), (2**63, DeviceOutOfMemory), (2**80, DeviceOutOfMemory)]
)
def test_memory_that_cannot_be_had(bench: Bench, nbytes: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        bench.memory.allocate(nbytes)


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (8, 1), (5, 4), (9, 0), (0, 9)])
def test_ranges_outside_are_refused_before_anything_moves(bench: Bench, offset: int, size: int) -> None:
    buffer = bench.holding(1, 2)
    data, into = memoryview(bytes([255] * size)), memoryview(bytearray(size))
    with pytest.raises(InvalidResource, match="stay within its 8 bytes"):
        bench.memory.upload([Upload(buffer, words(5)), Upload(buffer, data, offset)])
    with pytest.raises(InvalidResource, match="stay within its 8 bytes"):
        bench.memory.download([Readback(buffer, into, offset)])
    assert bench.read(buffer) == [1, 2]


def test_closed_and_foreign_buffers_are_refused(bench: Bench) -> None:
    closed = bench.holding(1)
    closed.close()
    other = load_catalog().get("reference-scalar" if bench.backend.id == "reference" else "reference")
    assert other is not None
    with other.make().require_memory().allocate(4) as foreign:
        for buffer, reason in ((closed, "after close"), (foreign, "belongs to backend")):
            with pytest.raises(InvalidResource, match=reason):
                bench.memory.upload([Upload(buffer, words(1))])
            with pytest.raises(InvalidResource, match=reason):
                bench.run(ADD, words(1), buffer)


# ---------------------------------------------------------------- launches
def test_what_a_launch_writes_stays_on_the_device(bench: Bench) -> None:
    x = bench.holding(1, 2, 3)
    bench.run(ADD, words(10), x)
    assert bench.read(x) == [11, 12, 13]


def test_a_sequence_runs_in_order_and_repeats(bench: Bench) -> None:
    x, y = bench.holding(1, 2), bench.allocate(8)
    into = bytearray(8)
    once = ResidentStep(ADD, (words(1), x))
    again = (ResidentStep(ADD, (words(10), x)), ResidentStep(COPY, (x, y)))
    reads = (Readback(y, memoryview(into)),)
    sequence = ResidentSequence(prefix=(once,), repeated=again, repeat_count=3, reads=reads)
    bench.backend.require_resident_executor().run(sequence)
    assert bench.read(x) == [32, 33]
    assert np.frombuffer(into, np.uint32).tolist() == [2232, 2233]


def test_a_step_may_be_repeated_no_times(bench: Bench) -> None:
    x = bench.holding(1)
    bench.backend.require_resident_executor().run(ResidentSequence(repeated=(ResidentStep(ADD, (words(1), x)),)))
    assert bench.read(x) == [1]


def test_outputs_are_zeroed_as_far_as_the_program_sees_them(bench: Bench) -> None:
    x, y = bench.holding(1, 2, 3), bench.holding(7, 7, 7, 7)
    bench.run(COPY, x, y)
    assert bench.read(y) == [3301, 3302, 0, 7]


def test_longer_memory_does_not_change_what_the_program_sees(bench: Bench) -> None:
    x, y = bench.holding(1, 2, 3, 4), bench.holding(9, 9, 9, 9, 9)
    bench.run(THREE, x, y)
    assert bench.read(y) == [4, 5, 6, 9, 9]


def test_memory_that_ends_within_an_element_ends_before_it(bench: Bench) -> None:
    x, y = bench.allocate(11), bench.allocate(8)
    bench.run(COPY, x, y)
    assert bench.read(y) == [2200, 2200]


@pytest.mark.parametrize(("x_nbytes", "y_nbytes", "name"), [(8, 12, "x"), (12, 8, "y")])
def test_memory_that_is_too_short_is_refused(bench: Bench, x_nbytes: int, y_nbytes: int, name: str) -> None:
    with pytest.raises(InvalidResource, match=rf"`{name}` needs 12 bytes, its memory has 8"):
        bench.run(THREE, bench.allocate(x_nbytes), bench.allocate(y_nbytes))


def test_an_output_must_be_as_long_as_what_it_is_like(bench: Bench) -> None:
    with pytest.raises(InvalidResource, match="`y` needs 12 bytes, its memory has 8"):
        bench.run(COPY, bench.allocate(12), bench.allocate(8))


@pytest.mark.parametrize("data", [words(1, 2), words(1, 2, 3, 4), memoryview(bytes(11))])
def test_host_bytes_must_fit_exactly(bench: Bench, data: memoryview) -> None:
    with pytest.raises(InvalidInput, match="`x` got"):
        bench.run(THREE, data, bench.allocate(12))
    if data.nbytes % 4:
        with pytest.raises(InvalidInput, match="`x` got"):
            bench.run(COPY, data, bench.allocate(12))


def test_host_bytes_need_no_alignment(bench: Bench) -> None:
    y = bench.allocate(12)
    bench.run(THREE, memoryview(b"\xff" + words(1, 2, 3).tobytes())[1:], y)
    assert bench.read(y) == [4, 5, 6]


def test_what_is_written_must_be_resident(bench: Bench) -> None:
    with pytest.raises(InvalidResource, match="`y` is written, but bound to host bytes"):
        bench.run(THREE, bench.allocate(12), words(1, 2, 3))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_every_buffer_needs_a_resource(bench: Bench, count: int) -> None:
    with pytest.raises(InvalidInput, match=rf"{count} resources for 2 buffers"):
        bench.run(THREE, *(bench.allocate(12) for _ in range(count)))


def test_one_memory_bound_twice_and_written_is_refused_in_either_order(bench: Bench) -> None:
    both = bench.holding(1, 2, 3)
    turned = program("""
    workgroup_size 4, 1, 1
    buffer y @0 write u32[3]
    buffer x @1 read u32[3]
    body { y[gid.x] = x[gid.x] }
    """)
    for kernel, message in ((THREE, "`x` and `y`"), (turned, "`y` and `x`")):
        with pytest.raises(InvalidResource, match=message):
            bench.run(kernel, both, both)
    assert bench.read(both) == [1, 2, 3]


def test_one_memory_may_be_read_twice(bench: Bench) -> None:
    sum_of_two = program("""
    workgroup_size 4, 1, 1
    buffer a @0 read u32[runtime]
    buffer b @1 read u32[runtime]
    buffer y @2 write u32[runtime] like a
    body { y[gid.x] = a[gid.x] + b[gid.x] }
    """)
    x, y = bench.holding(1, 2, 3), bench.allocate(12)
    bench.run(sum_of_two, x, x, y)
    assert bench.read(y) == [2, 4, 6]


def test_an_output_sized_at_run_time_takes_the_size_of_its_memory_or_of_the_config(bench: Bench) -> None:
    kernel = program("workgroup_size 1, 1, 1 buffer y @0 write u32[runtime] body { if gid.x == 0u { y[0u] = len(y) } }")
    y = bench.allocate(20)
    bench.run(kernel, y)
    assert bench.read(y)[0] == 5
    bench.run(kernel, y, config=DispatchConfig(output_counts={"y": 3}))
    assert bench.read(y)[0] == 3
    with pytest.raises(InvalidResource, match="`y` needs 24 bytes, its memory has 20"):
        bench.run(kernel, y, config=DispatchConfig(output_counts={"y": 6}))


def test_a_trap_leaves_the_backend_usable(bench: Bench) -> None:
    trap = program('workgroup_size 1, 1, 1 buffer x @0 read_write u32[1] body { x[0u] = 5u trap(3u, "stop") }')
    x = bench.holding(1)
    with pytest.raises(TrapError, match="stop"):
        bench.run(trap, x)
    bench.memory.upload([Upload(x, words(1))])
    bench.run(ADD, words(1), x)
    assert bench.read(x) == [2]
