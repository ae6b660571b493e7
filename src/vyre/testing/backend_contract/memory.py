"""Cases of ``ResidentMemory``: allocations, uploads, downloads and refusals; and of ``GatheredReads``, which reads
ranges of several buffers as one operation.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Sequence
from typing import Final, NamedTuple

from vyre.domain.errors import DeviceOutOfMemory, InvalidResource
from vyre.domain.ir.program import BackendId
from vyre.ports.gathering import BoundGather, Ranges
from vyre.ports.requests import Readback, Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.backend_contract.bench import Bench, at_once, equal, holds, refusal, view, words
from vyre.testing.backend_contract.case import Group

MEMORY: Final = Group("memory", "memory")
SIZES: Final = {str(n): n for n in (0, 1, 3, 4, 8, 255, 256, 257, 4096, 1_000_003)}


class _Foreign(ResidentBuffer):
    """A buffer of a backend that does not exist."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(backend_id=BackendId("somebody-else"), nbytes=4, epoch=0)

    def _release(self) -> None:
        return None


def _read(bench: Bench, buffer: ResidentBuffer, offset: int, nbytes: int) -> bytes:
    into = bytearray(nbytes)
    bench.memory.download([Readback(buffer, memoryview(into), offset)])
    return bytes(into)


# ---------------------------------------------------------------- allocations
@MEMORY.table(SIZES)
def an_allocation_has_the_size_asked_for(bench: Bench, nbytes: int) -> None:
    """A buffer has the requested size and label, and its backend's id and epoch."""
    buffer = bench.allocate(nbytes, label="mine")
    equal(
        (buffer.nbytes, buffer.label, buffer.backend_id, buffer.epoch, buffer.closed),
        (nbytes, "mine", bench.backend.id, bench.backend.lifecycle.epoch, False),
    )


@MEMORY.table(SIZES)
def bytes_come_back_as_they_went(bench: Bench, nbytes: int) -> None:
    """A download returns the uploaded bytes."""
    data = bytes((7 * i + (i >> 8)) & 0xFF for i in range(nbytes))
    buffer = bench.allocate(nbytes)
    bench.memory.upload([Upload(buffer, view(data))])
    equal(_read(bench, buffer, 0, nbytes), data)


@MEMORY.table(SIZES)
def memory_starts_as_zeros(bench: Bench, nbytes: int) -> None:
    """An allocation is zero, also where memory was used before."""
    before = bench.memory.allocate(nbytes)
    bench.memory.upload([Upload(before, view(b"\xff" * nbytes))])
    before.close()
    equal(_read(bench, bench.allocate(nbytes), 0, nbytes), bytes(nbytes))


@MEMORY.case()
def a_label_is_optional(bench: Bench) -> None:
    """A buffer without a label has none."""
    equal(bench.allocate(4).label, None)


@MEMORY.case()
def a_negative_size_is_refused(bench: Bench) -> None:
    """An allocation of a negative size is an invalid resource."""
    refusal(InvalidResource, lambda: bench.memory.allocate(-1))


@MEMORY.table({"2_to_50": 1 << 50, "2_to_63": 1 << 63, "2_to_80": 1 << 80})
def memory_that_does_not_exist_is_a_typed_error(bench: Bench, nbytes: int) -> None:
    """An allocation larger than any memory raises ``DeviceOutOfMemory``, which states the requested size."""
    error = refusal(DeviceOutOfMemory, lambda: bench.memory.allocate(nbytes))
    equal(error.requested, nbytes, "the bytes requested")
    equal(bench.content(bench.holding(5)), [5], "memory allocated after the failure")


@MEMORY.case()
def buffers_do_not_share_memory(bench: Bench) -> None:
    """Writing one buffer changes no other."""
    buffers = [bench.holding(*[number] * (number + 1)) for number in range(20)]
    for number, buffer in enumerate(buffers):
        equal(bench.content(buffer), [number] * (number + 1), f"buffer {number}")


@MEMORY.case()
def memory_is_reused_safely(bench: Bench) -> None:
    """Closing and allocating alternately keeps the content of open buffers."""
    kept = bench.holding(*range(64))
    for value in range(30):
        with bench.memory.allocate(256) as buffer:
            bench.memory.upload([Upload(buffer, view(words(*[value] * 64)))])
            equal(bench.content(buffer), [value] * 64)
    equal(bench.content(kept), list(range(64)), "the buffer that stayed open")


# ---------------------------------------------------------------- ranges
class _Range(NamedTuple):
    offset: int
    nbytes: int


_INSIDE: Final = {
    "start": _Range(0, 3),
    "middle": _Range(5, 6),
    "unaligned": _Range(1, 7),
    "end": _Range(12, 4),
    "whole": _Range(0, 16),
    "empty_at_start": _Range(0, 0),
    "empty_at_end": _Range(16, 0),
}
_OUTSIDE: Final = {
    "before": _Range(-1, 1),
    "empty_before": _Range(-1, 0),
    "after": _Range(16, 1),
    "across_the_end": _Range(13, 4),
    "too_long": _Range(0, 17),
    "empty_after": _Range(17, 0),
    "far_away": _Range(1 << 40, 4),
}


@MEMORY.table(_INSIDE)
def an_upload_changes_its_range_only(bench: Bench, part: _Range) -> None:
    """Bytes outside the range keep their values."""
    before = bytes(range(100, 116))
    buffer = bench.allocate(16)
    bench.memory.upload([Upload(buffer, view(before))])
    data = bytes(range(1, part.nbytes + 1))
    bench.memory.upload([Upload(buffer, view(data), part.offset)])
    equal(_read(bench, buffer, 0, 16), before[: part.offset] + data + before[part.offset + part.nbytes :])


@MEMORY.table(_INSIDE)
def a_download_reads_its_range_only(bench: Bench, part: _Range) -> None:
    """A download returns the bytes of its range, and writes nothing beside them."""
    data = bytes(range(100, 116))
    buffer = bench.allocate(16)
    bench.memory.upload([Upload(buffer, view(data))])
    into = bytearray(b"\xee" * (part.nbytes + 2))
    bench.memory.download([Readback(buffer, memoryview(into)[1 : part.nbytes + 1], part.offset)])
    equal(bytes(into), b"\xee" + data[part.offset : part.offset + part.nbytes] + b"\xee")


@MEMORY.table(_OUTSIDE)
def upload_checks_every_range_before_moving(bench: Bench, part: _Range) -> None:
    """A batch with one range outside its buffer moves nothing."""
    buffer = bench.holding(1, 2, 3, 4)
    good, bad = Upload(buffer, view(words(9))), Upload(buffer, view(bytes(part.nbytes)), part.offset)
    for batch in ([good, bad], [bad, good]):
        refusal(InvalidResource, lambda batch=batch: bench.memory.upload(batch))  # type: ignore[misc]
        equal(bench.content(buffer), [1, 2, 3, 4], "the buffer after a refused batch")


@MEMORY.table(_OUTSIDE)
def download_checks_every_range_before_moving(bench: Bench, part: _Range) -> None:
    """A batch with one range outside its buffer reads nothing."""
    buffer, into = bench.holding(1, 2, 3, 4), bytearray(b"\xee" * 4)
    bad = Readback(buffer, memoryview(bytearray(part.nbytes)), part.offset)
    refusal(InvalidResource, lambda: bench.memory.download([Readback(buffer, memoryview(into)), bad]))
    equal(bytes(into), b"\xee" * 4, "the target of a refused batch")


# ---------------------------------------------------------------- batches
@MEMORY.case()
def an_empty_batch_does_nothing(bench: Bench) -> None:
    """Batches without uploads and downloads are legal."""
    bench.memory.upload([])
    bench.memory.download([])


@MEMORY.case()
def a_batch_fills_many_buffers(bench: Bench) -> None:
    """Each upload of a batch goes to its own buffer, each read comes from its own."""
    buffers = [bench.allocate(4 * (k + 1)) for k in range(12)]
    bench.memory.upload([Upload(b, view(words(*range(k, 2 * k + 1)))) for k, b in enumerate(buffers)])
    into = [bytearray(b.nbytes) for b in buffers]
    bench.memory.download([Readback(b, memoryview(i)) for b, i in zip(buffers, into, strict=True)])
    for k, data in enumerate(into):
        equal(bytes(data), words(*range(k, 2 * k + 1)), f"buffer {k}")


@MEMORY.case()
def overlapping_uploads_go_in_order(bench: Bench) -> None:
    """Where ranges of one batch overlap, the later upload wins."""
    buffer = bench.allocate(12)
    batch = [
        Upload(buffer, view(words(1, 1, 1))),
        Upload(buffer, view(words(2, 2)), 4),
        Upload(buffer, view(words(3)), 4),
    ]
    bench.memory.upload(batch)
    equal(bench.content(buffer), [1, 3, 2])


@MEMORY.case()
def overlapping_reads_are_independent(bench: Bench) -> None:
    """Two reads of one range return the same bytes."""
    buffer = bench.holding(1, 2, 3)
    one, two = bytearray(8), bytearray(8)
    bench.memory.download([Readback(buffer, memoryview(one)), Readback(buffer, memoryview(two), 4)])
    equal((bytes(one), bytes(two)), (words(1, 2), words(2, 3)))


@MEMORY.case()
def an_upload_takes_a_snapshot(bench: Bench) -> None:
    """Memory that the host changes after the upload does not reach the device."""
    data = bytearray(words(*range(1024)))
    buffer = bench.allocate(len(data))
    bench.memory.upload([Upload(buffer, view(data))])
    data[:] = b"\xff" * len(data)
    equal(bench.content(buffer), list(range(1024)))


@MEMORY.case()
def a_download_is_complete_when_it_returns(bench: Bench) -> None:
    """Downloaded bytes do not change later, whatever happens to the buffer."""
    buffer = bench.holding(*range(1024))
    into = bytearray(4096)
    bench.memory.download([Readback(buffer, memoryview(into))])
    copy = bytes(into)
    bench.memory.upload([Upload(buffer, view(bytes(4096)))])
    equal((bytes(into), copy), (words(*range(1024)), words(*range(1024))))


@MEMORY.case()
def a_download_does_not_change_the_buffer(bench: Bench) -> None:
    """Reading twice returns the same bytes."""
    buffer = bench.holding(3, 1, 4)
    equal((bench.content(buffer), bench.content(buffer)), ([3, 1, 4], [3, 1, 4]))


@MEMORY.table({"1_mib": 1 << 20, "5_mib_and_1": (5 << 20) + 1})
def large_copies_are_whole(bench: Bench, nbytes: int) -> None:
    """Copies that are split into pieces arrive complete."""
    data = bytes(range(251)) * (nbytes // 251 + 1)
    buffer = bench.allocate(nbytes)
    bench.memory.upload([Upload(buffer, view(data[:nbytes]))])
    holds(_read(bench, buffer, 0, nbytes) == data[:nbytes], "a large copy came back changed")


# ---------------------------------------------------------------- handles
@MEMORY.case()
def a_closed_buffer_is_refused(bench: Bench) -> None:
    """Uploads to and downloads from a closed buffer are invalid."""
    buffer, other = bench.holding(1), bench.holding(2)
    buffer.close()
    holds(buffer.closed, "a closed buffer does not say so")
    upload = [Upload(other, view(words(9))), Upload(buffer, view(words(1)))]
    refusal(InvalidResource, lambda: bench.memory.upload(upload))
    refusal(InvalidResource, lambda: bench.memory.download([Readback(buffer, memoryview(bytearray(4)))]))
    equal(bench.content(other), [2], "the other buffer of the refused batch")


@MEMORY.case()
def closing_twice_does_nothing(bench: Bench) -> None:
    """``close`` is idempotent, and does not free memory that was allocated again since."""
    first = bench.holding(1, 2)
    first.close()
    second = bench.holding(3, 4)
    first.close()
    equal(bench.content(second), [3, 4])


@MEMORY.case()
def a_with_block_closes(bench: Bench) -> None:
    """A buffer is a context manager, which also closes it when the block fails."""
    with bench.memory.allocate(4) as buffer:
        holds(not buffer.closed, "it is closed inside the block")
    holds(buffer.closed, "it is open after the block")
    failed = bench.allocate(4)
    try:
        with failed:
            raise KeyError
    except KeyError:
        pass
    holds(failed.closed, "it is open after a block that failed")


@MEMORY.case()
def a_foreign_buffer_is_refused(bench: Bench) -> None:
    """A buffer of another backend is an invalid resource; the error names the buffer and its owner."""
    with _Foreign() as foreign:
        error = refusal(InvalidResource, lambda: bench.memory.upload([Upload(foreign, view(words(1)))]))
        holds("somebody-else" in error.message, f"the owner is not named: {error}")
        refusal(InvalidResource, lambda: bench.memory.download([Readback(foreign, memoryview(bytearray(4)))]))


@MEMORY.case()
def a_leaked_buffer_warns(bench: Bench) -> None:
    """A buffer that is dropped open raises a ``ResourceWarning`` that names it."""
    leaked = bench.memory.allocate(4, label="forgotten")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del leaked
        gc.collect()
    texts = [str(w.message) for w in caught if issubclass(w.category, ResourceWarning)]
    holds(any("forgotten" in text for text in texts), f"no warning names the buffer: {texts}")


@MEMORY.case()
def a_closed_buffer_does_not_warn(bench: Bench) -> None:
    """A buffer that was closed raises no warning."""
    closed = bench.memory.allocate(4)
    closed.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del closed
        gc.collect()
    equal([str(w.message) for w in caught if issubclass(w.category, ResourceWarning)], [])


@MEMORY.case()
def a_buffer_describes_itself(bench: Bench) -> None:
    """``repr`` shows label, size, backend and state."""
    buffer = bench.allocate(12, label="weights")
    for part in ("weights", "12 bytes", str(bench.backend.id), "open"):
        holds(part in repr(buffer), f"{part!r} is not in {buffer!r}")
    buffer.close()
    holds("closed" in repr(buffer), f"a closed buffer is {buffer!r}")


# ---------------------------------------------------------------- threads
@MEMORY.case()
def threads_have_memory_of_their_own(bench: Bench) -> None:
    """Concurrent allocations, uploads, downloads and closes do not interfere."""

    def work(number: int) -> None:
        for round_ in range(5):
            values = [number * 100 + round_] * (number + 1)
            with bench.memory.allocate(4 * len(values)) as buffer:
                bench.memory.upload([Upload(buffer, view(words(*values)))])
                equal(bench.content(buffer), values, f"the buffer of thread {number}")

    at_once(6, work)


@MEMORY.case()
def one_buffer_is_closed_once_by_many_threads(bench: Bench) -> None:
    """Closing from several threads at once releases the memory once."""
    buffer = bench.allocate(64)
    at_once(6, lambda _: buffer.close())
    holds(buffer.closed, "it is still open")
    equal(bench.content(bench.holding(7)), [7])


GATHERING: Final = Group("gathering", "memory", "gathering")


def _bound(bench: Bench, buffers: Sequence[ResidentBuffer], *rows: tuple[int, int, int, int]) -> BoundGather:
    """Binds rows of buffer number, offset, bytes and place."""
    import numpy as np

    columns = np.array(rows, np.int64).reshape(-1, 4).T
    facet = bench.backend.gathering
    assert facet is not None
    return facet.bind(buffers, Ranges(*(np.ascontiguousarray(column) for column in columns)))


@GATHERING.case()
def ranges_go_to_their_places(bench: Bench) -> None:
    """Each range has the present content of its buffer, at its place; the bytes between the places stay."""
    first, second = bench.holding(1, 2, 3), bench.holding(4, 5)
    gather = _bound(bench, (first, second), (0, 4, 8, 12), (1, 0, 4, 4), (0, 0, 0, 0))
    into = bytearray(words(7, 7, 7, 7, 7, 7))
    gather(memoryview(into))
    equal(bytes(into), words(7, 4, 7, 2, 3, 7))
    bench.launch("workgroup_size 1, 1, 1 buffer x @0 read_write u32[runtime] body { x[gid.x] = 9u }", second)
    gather(memoryview(into))
    equal(bytes(into), words(7, 9, 7, 2, 3, 7))


@GATHERING.table(
    {
        "behind_its_buffer": (0, 8, 8, 0),
        "before_its_buffer": (0, -4, 4, 0),
        "of_a_negative_length": (0, 4, -4, 0),
        "at_a_negative_place": (0, 0, 4, -4),
    }
)
def a_wrong_range_is_refused(bench: Bench, row: tuple[int, int, int, int]) -> None:
    """A range outside its buffer, of a negative length or at a negative place is an invalid resource."""
    buffer = bench.holding(1, 2, 3)
    refusal(InvalidResource, lambda: _bound(bench, (buffer,), (0, 0, 4, 8), row))


@GATHERING.case()
def short_memory_and_closed_buffers_are_refused(bench: Bench) -> None:
    """Host memory that does not hold every place, and a buffer that is closed, are invalid; nothing is copied."""
    first, second = bench.holding(1), bench.holding(2)
    gather = _bound(bench, (first, second), (0, 0, 4, 0), (1, 0, 4, 4))
    into = bytearray(words(7, 7))
    refusal(InvalidResource, lambda: gather(memoryview(into)[:4]))
    second.close()
    refusal(InvalidResource, lambda: gather(memoryview(into)))
    equal(bytes(into), words(7, 7))
    refusal(InvalidResource, lambda: _bound(bench, (first, second), (0, 0, 4, 0)))
