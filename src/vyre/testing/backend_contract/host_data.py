"""Cases of host data: inputs, output storage, sizes and ranges of outputs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from vyre.domain.dispatch import OutputArena
from vyre.domain.errors import InvalidConfig, InvalidInput, TrapError, UnsupportedFeature, VyreError
from vyre.domain.program_report import InvalidProgram
from vyre.ports.requests import DispatchRequest
from vyre.testing.backend_contract.bench import INCREMENT, SUM, Bench, Storage, equal, holds, refusal, u32s, view, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.programs import add_programs

INPUTS: Final = Group("inputs")
add_programs(INPUTS)
OUTPUTS: Final = Group("outputs")
add_programs(OUTPUTS)

_FIXED: Final = """
    workgroup_size 8, 1, 1
    buffer a @0 read u32[4]
    param k @1 u32
    buffer x @2 read_write u16[4]
    body { x[gid.x] = x[gid.x] + a[gid.x] * k }
    """
_NOTHING_IN: Final = "workgroup_size 4, 1, 1 buffer y @0 write u32[3] body { y[gid.x] = gid.x + 1u }"


# ---------------------------------------------------------------- inputs
@INPUTS.table({"none": (), "one_of_two": (words(1),), "three_for_two": (words(1), words(1), words(1))})
def the_wrong_number_is_refused(bench: Bench, inputs: tuple[bytes, ...]) -> None:
    """A dispatch takes as many inputs as buffers that take one; the message says which."""
    error = bench.refuses(InvalidInput, SUM, *inputs)
    holds("`a`" in error.fix or "`a`" in error.message, f"the buffers are not named: {error}")


@INPUTS.case()
def an_input_too_many_is_refused_where_none_is_taken(bench: Bench) -> None:
    """A program without inputs refuses every input."""
    bench.refuses(InvalidInput, _NOTHING_IN, words(1))


_WHOLE: Final = (words(1, 2, 3, 4), words(5), bytes(8))


@INPUTS.table(
    {
        "static_too_short": (0, words(1, 2, 3), "`a`"),
        "static_too_long": (0, words(1, 2, 3, 4, 5), "`a`"),
        "static_empty": (0, b"", "`a`"),
        "static_one_byte_more": (0, words(1, 2, 3, 4) + b"\0", "`a`"),
        "parameter_too_short": (1, b"\1\0", "`k`"),
        "parameter_too_long": (1, words(5, 6), "`k`"),
        "parameter_empty": (1, b"", "`k`"),
        "updated_too_short": (2, bytes(6), "`x`"),
        "updated_too_long": (2, bytes(10), "`x`"),
    }
)
def a_length_that_does_not_fit_is_refused(bench: Bench, row: tuple[int, bytes, str]) -> None:
    """Buffers of a static count take exactly their bytes; the message names the buffer and the lengths."""
    position, data, name = row
    inputs = [*_WHOLE]
    inputs[position] = data
    error = bench.refuses(InvalidInput, _FIXED, *inputs)
    holds(name in error.message and f"{len(data)} bytes" in error.message, f"name or length is missing: {error}")


@INPUTS.table({"1": 1, "2": 2, "3": 3, "5": 5, "7": 7})
def inputs_need_no_alignment(bench: Bench, offset: int) -> None:
    """Host bytes may start at any address."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read u64[3]
    buffer z @1 read_write u32[3]
    buffer y @2 write u64[3]
    body { y[gid.x] = x[gid.x] z[gid.x] = z[gid.x] + 1u }
    """
    data, more = bytes(range(1, 25)), words(4, 5, 6)
    outputs = bench.run(kernel, memoryview(bytes(offset) + data)[offset:], memoryview(bytes(offset) + more)[offset:])
    equal(outputs, (words(5, 6, 7), data))


@INPUTS.case()
def inputs_are_not_changed(bench: Bench) -> None:
    """Inputs that the program reads or updates stay unchanged in the caller's memory."""
    read, updated = bytearray(words(1, 2, 3, 4)), bytearray(bytes(8))
    equal(bench.run(_FIXED, read, words(5), updated), (b"\5\0\12\0\17\0\24\0",))
    equal((bytes(read), bytes(updated)), (words(1, 2, 3, 4), bytes(8)), "the caller's memory")


@INPUTS.case()
def inputs_are_not_changed_by_a_failure(bench: Bench) -> None:
    """A dispatch that traps after a store leaves the caller's memory unchanged."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[4]
    body { x[gid.x] = 9u if x[gid.x] == 9u { trap(gid.x, "stop") } }
    """
    data = bytearray(words(1, 2, 3, 4))
    bench.refuses(TrapError, kernel, data)
    equal(bytes(data), words(1, 2, 3, 4), "the caller's memory")


@INPUTS.case()
def read_only_memory_may_be_passed_for_an_update(bench: Bench) -> None:
    """An updated buffer is returned as an output; the memory passed for it may be read-only."""
    equal(bench.words(INCREMENT, words(1, 2)), [2, 3])


@INPUTS.case()
def one_memory_may_be_passed_twice(bench: Bench) -> None:
    """Inputs may share memory."""
    data = words(1, 2, 3)
    equal(bench.words(SUM, data, data), [2, 4, 6])


@INPUTS.case()
def one_memory_may_be_read_and_updated(bench: Bench) -> None:
    """An update is a copy, so host memory passed twice is not aliased."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer a @0 read u32[4]
    buffer b @1 read_write u32[4]
    body { b[gid.x] = a[3u - gid.x] + b[gid.x] }
    """
    data = bytearray(words(1, 2, 3, 4))
    equal((bench.words(kernel, data, data), u32s(data)), ([5, 5, 5, 5], [1, 2, 3, 4]))


class _InPlace(Storage):
    """Storage whose first view is the caller's memory."""

    def __init__(self, memory: memoryview) -> None:
        super().__init__()
        self._memory = memory

    def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
        self.views = (self._memory, *super().begin(sizes)[1:])
        return self.views


@INPUTS.table({"aligned": 0, "for_its_elements": 4})
def an_update_in_place(bench: Bench, start: int) -> None:
    """The view of an updated buffer may be the memory of its input: it holds the input, and then the result."""
    kernel = """
    workgroup_size 4, 1, 1
    buffer a @0 read u32[runtime]
    buffer x @1 read_write u32[runtime]
    buffer y @2 write u32[runtime] like x
    body { y[gid.x] = x[gid.x]  x[gid.x] = x[gid.x] * 2u + a[gid.x] }
    """
    data = bytearray(16)
    memory = memoryview(data)[start : start + 12]
    memory[:] = words(1, 2, 3)
    for _ in range(3):  # a backend may replay what it ran before
        before = u32s(memory)
        storage = _InPlace(memory)
        bench.execute(storage, kernel, words(10, 20, 30), memory.toreadonly())
        equal(u32s(memory), [2 * x + a for x, a in zip(before, (10, 20, 30), strict=True)])
        equal(u32s(storage.outputs[1]), before)
    equal(bytes(data[:start]) + bytes(data[start + 12 :]), bytes(4), "what is around the memory")


@INPUTS.case()
def overlapping_inputs_are_read_alike(bench: Bench) -> None:
    """Inputs may be overlapping parts of one memory."""
    data = memoryview(words(1, 2, 3, 4))
    equal(bench.words(SUM, data[:12], data[4:]), [3, 5, 7])


@INPUTS.table({"ascending": (0, 1, 2), "descending": (2, 1, 0), "sparse": (900, 3, 77)})
def inputs_follow_binding_numbers(bench: Bench, bindings: tuple[int, int, int]) -> None:
    """Inputs and outputs are in ascending binding number, wherever they are declared."""
    a, b, y = bindings
    kernel = f"""
    workgroup_size 4, 1, 1
    buffer a @{a} read_write u32[2]
    buffer y @{y} write u32[2]
    buffer b @{b} read_write u32[2]
    body {{ y[gid.x] = a[gid.x] - b[gid.x] a[gid.x] = 1u b[gid.x] = 2u }}
    """
    values = {a: words(50, 60), b: words(7, 8), y: words(43, 52)}
    after = {a: words(1, 1), b: words(2, 2), y: values[y]}
    inputs = [values[k] for k in sorted((a, b))]
    equal(bench.run(kernel, *inputs), tuple(after[k] for k in sorted(after)))


@INPUTS.table({"1": 1, "8": 8, "30": 30, "60": 60})
def many_buffers(bench: Bench, count: int) -> None:
    """A program may have many buffers."""
    declared = "\n".join(f"buffer x{k} @{k} read u32[runtime]" for k in range(count))
    total = " + ".join(f"x{k}[gid.x]" for k in range(count))
    kernel = f"""
    workgroup_size 4, 1, 1
    {declared}
    buffer y @{count} write u32[3]
    body {{ y[gid.x] = {total} }}
    """
    inputs = [words(k, k * k, 1) for k in range(count)]
    wanted = [sum(range(count)), sum(k * k for k in range(count)), count]
    equal(bench.words(kernel, *inputs), wanted)


@INPUTS.table({"1": 1, "16": 16, "64": 64})
def many_parameters(bench: Bench, count: int) -> None:
    """Scalar parameters may take up to 256 bytes together."""
    declared = "\n".join(f"param p{k} @{k} u32" for k in range(count))
    stores = " ".join(f"y[{k}u] = p{k}" for k in range(count))
    kernel = f"workgroup_size 1, 1, 1\n{declared}\nbuffer y @{count} write u32[{count}]\nbody {{ {stores} }}"
    values = [k * 77 + 1 for k in range(count)]
    equal(bench.words(kernel, *map(words, values), grid=(1, 1, 1)), values)


@INPUTS.case()
def a_large_input(bench: Bench) -> None:
    """Inputs and outputs may be a few megabytes large."""
    data = bytes(range(256)) * 8192
    (output,) = bench.run(
        """workgroup_size 64, 1, 1
        buffer x @0 read_write u32[runtime]
        body { if gid.x == 5u { x[gid.x] = 0u } }""",
        data,
        grid=(1, 1, 1),
    )
    holds(output == data[:20] + bytes(4) + data[24:], "a large buffer came back changed")


# ---------------------------------------------------------------- the storage of outputs
@OUTPUTS.table(
    {
        "one": (_NOTHING_IN, (), (12,)),
        "updated": (INCREMENT, (words(1, 2),), (8,)),
        "sized_like_an_input": (SUM, (words(1, 2, 3), words(1)), (12,)),
        "empty": (INCREMENT, (b"",), (0,)),
        "none": ("workgroup_size 4, 1, 1 buffer x @0 read u32[2] body {}", (words(1, 2),), ()),
        "several": (
            """workgroup_size 4, 1, 1
            buffer a @0 write u8[5]
            buffer b @1 read u32[1]
            buffer c @2 read_write u64[2]
            buffer d @3 write f16[3]
            body { a[gid.x] = 1u }""",
            (words(1), bytes(16)),
            (5, 16, 6),
        ),
    }
)
def begin_is_called_once_with_the_sizes(bench: Bench, row: tuple[str, tuple[bytes, ...], tuple[int, ...]]) -> None:
    """The storage is begun once, with the right size for each output; a success clears nothing."""
    kernel, inputs, sizes = row
    storage = Storage()
    timing = bench.execute(storage, kernel, *inputs)
    equal((storage.begun, storage.clears), ([sizes], 0), "the calls of the storage")
    holds(timing.wall_ns >= 0, f"a dispatch took {timing.wall_ns} ns")


class _Refusal(NamedTuple):
    kernel: str
    inputs: tuple[bytes, ...]
    error: type[VyreError]
    config: dict[str, Any]


_REFUSALS: Final = {
    "trap": _Refusal(
        'workgroup_size 4, 1, 1 buffer y @0 write u32[4] body { y[gid.x] = 1u trap(0u, "t") }', (), TrapError, {}
    ),
    "missing_input": _Refusal(SUM, (words(1),), InvalidInput, {}),
    "wrong_length": _Refusal(INCREMENT, (b"123",), InvalidInput, {}),
    "too_many_output_bytes": _Refusal(INCREMENT, (words(1, 2),), InvalidConfig, {"max_output_bytes": 7}),
    "unsized_output": _Refusal(
        "workgroup_size 4, 1, 1 buffer y @0 write u32[runtime] body { y[gid.x] = 1u }", (), InvalidProgram, {}
    ),
    "unsupported": _Refusal(INCREMENT, (words(1),), UnsupportedFeature, {"profile": "no such profile"}),
}


@OUTPUTS.table(_REFUSALS)
def a_failure_leaves_no_outputs(bench: Bench, row: _Refusal) -> None:
    """After a failure no output of this dispatch, nor of the one before in the same storage, can be read."""
    arena = OutputArena()
    bench.backend.executor.execute(DispatchRequest(bench.program(_NOTHING_IN), ()), arena)
    equal(len(arena), 1, "the outputs of the dispatch before")
    bench.refuses(row.error, row.kernel, *row.inputs, **row.config)


@OUTPUTS.case()
def a_storage_that_fails_is_cleared(bench: Bench) -> None:
    """An error of the storage itself is raised, and the backend keeps working."""

    class Broken(Storage):
        def begin(self, sizes: tuple[int, ...], /) -> tuple[memoryview, ...]:
            raise KeyError("no room")

    try:
        bench.execute(Broken(), INCREMENT, words(1))
    except (KeyError, VyreError):
        pass
    else:
        holds(False, "an error of the storage is swallowed")
    equal(bench.words(INCREMENT, words(1)), [2])


@OUTPUTS.case()
def an_arena_is_used_again(bench: Bench) -> None:
    """Results of different sizes in one arena replace each other."""
    arena = OutputArena()
    for size in (4, 1, 9, 0, 3):
        bench.backend.executor.execute(DispatchRequest(bench.program(INCREMENT), (view(words(*range(size))),)), arena)
        equal(u32s(arena[0]), list(range(1, size + 1)), f"{size} elements")


@OUTPUTS.case()
def a_trap_forgets_the_outputs_of_before(bench: Bench) -> None:
    """An arena that held a result holds none after a dispatch that began and failed."""
    arena = OutputArena()
    bench.backend.executor.execute(DispatchRequest(bench.program(INCREMENT), (view(words(1)),)), arena)
    trap = _REFUSALS["trap"]
    refusal(TrapError, lambda: bench.backend.executor.execute(DispatchRequest(bench.program(trap.kernel), ()), arena))
    equal(len(arena), 0, "outputs after a failure")


@OUTPUTS.case()
def unaligned_sizes(bench: Bench) -> None:
    """Outputs whose size is not a multiple of a word are returned to the byte, and nothing beside them changes."""
    kernel = """
    workgroup_size 8, 1, 1
    buffer x @0 read_write u8[runtime]
    body { x[gid.x] = x[gid.x] + 1u }
    """
    for size in (1, 2, 3, 5, 7, 13):
        equal(bench.run(kernel, bytes(range(size))), (bytes(range(1, size + 1)),))


# ---------------------------------------------------------------- ranges
@OUTPUTS.table(
    {
        "whole": (0, 8),
        "first_half": (0, 4),
        "last_half": (4, 8),
        "bytes": (3, 6),
        "one_byte": (7, 8),
        "empty": (4, 4),
        "empty_at_the_end": (8, 8),
    }
)
def a_range_of_an_output(bench: Bench, part: tuple[int, int]) -> None:
    """A declared range is returned to the byte, of outputs and of updated buffers."""
    start, end = part
    whole = bytes((4, 3, 2, 1, 8, 7, 6, 5))
    for access in ("write", "read_write"):
        kernel = f"""
        workgroup_size 2, 1, 1
        buffer y @0 {access} u32[2] range {start}..{end}
        body {{ y[gid.x] = 0x01020304u + gid.x * 0x04040404u }}
        """
        inputs = (bytes(8),) if access == "read_write" else ()
        storage = Storage()
        bench.execute(storage, kernel, *inputs)
        equal((storage.outputs, storage.begun), ((whole[start:end],), [(end - start,)]))


# ---------------------------------------------------------------- sizes


_UNSIZED: Final = """
    workgroup_size 4, 1, 1
    buffer y @0 write u32[runtime]
    buffer z @1 write u8[runtime] like y
    body { y[gid.x] = len(y) * 10u + gid.x z[gid.x] = 7u }
    """


@OUTPUTS.table(
    {"unknown": {"w": 1, "y": 1}, "sized_by_the_caller": {"y": 1, "x": 1}, "sized_like_another": {"y": 1, "z": 1}}
)
def stray_output_counts_are_refused(bench: Bench, counts: dict[str, int]) -> None:
    """Counts may name only outputs whose size is not determined otherwise."""
    kernel = _UNSIZED.replace("buffer z", "buffer x @2 read u32[runtime]\n    buffer z")
    bench.refuses(InvalidConfig, kernel, words(1), output_counts=counts)


@OUTPUTS.table({"exact": (20, True), "more": (21, True), "one_less": (19, False), "zero": (0, False)})
def max_output_bytes(bench: Bench, row: tuple[int, bool]) -> None:
    """The sum of returned bytes may equal the bound, not exceed it; the message has both numbers."""
    limit, fits = row
    kernel = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[3]
    buffer y @1 write u32[4] range 4..12
    body { y[gid.x] = 1u }
    """
    if fits:
        equal(len(bench.run(kernel, bytes(12), max_output_bytes=limit)), 2)
        return
    error = bench.refuses(InvalidConfig, kernel, bytes(12), max_output_bytes=limit)
    holds("20" in error.message and str(limit) in error.message, f"a number is missing: {error}")


@OUTPUTS.case()
def the_same_bytes_each_time(bench: Bench) -> None:
    """Repeating a dispatch returns the same bytes."""
    first = bench.run(SUM, words(*range(100)), words(*range(5, 105)))
    for _ in range(4):
        equal(bench.run(SUM, words(*range(100)), words(*range(5, 105))), first)
