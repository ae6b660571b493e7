"""The host's side of a mailbox: its words in mapped memory, and the rows of jobs.

The owner calls everything under its lock, and drops it all before the memory is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_uint64
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from vyre.adapters.cuda.ptx.mailbox_layout import Descriptor, Entry, Head, Row, State
from vyre.adapters.cuda.runtime.arena import Arena, Range
from vyre.adapters.cuda.seam import CudaDriver, DeviceAddress, HostBlock

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_LINE: Final = 64
_CHUNK: Final = 16
_FEW_ROWS: Final = 8
_MANY_BYTES: Final = 1 << 20


class RowLayout:
    """The bytes of a row: a head, then those of the arena that are uploaded or read back."""

    def __init__(self, arena: Arena) -> None:
        outputs = [r for r in arena.outputs if r.nbytes]
        start = min((r.start for r in outputs), default=0) // _CHUNK * _CHUNK
        self.read: Final = Range(start, max((_aligned(r.end, _CHUNK) for r in outputs), default=start))
        self.upload_end: Final = _aligned(arena.upload.end, _CHUNK) if arena.inputs else 0
        self.nbytes: Final = _aligned(Row.BODY + max(self.upload_end, self.read.end), _LINE)
        self.inputs: Final = arena.inputs
        self.outputs: Final = arena.outputs


class Rows:
    """The rows of one entry in mapped memory, as an array of shape (rows, bytes), and their address for kernels."""

    __slots__ = ("address", "bytes", "states")

    def __init__(self, data: Bytes, address: DeviceAddress) -> None:
        self.bytes: Final = data
        self.address: Final = address
        self.states: Final[npt.NDArray[np.uint32]] = data[:, :4].view("<u4")[:, 0]
        """The header of each row, which the kernel writes last."""


class Submission:
    """The jobs of one submission.

    ``before`` is the number of jobs before them.  ``rows`` is their memory, until they have been settled: then
    ``heads`` holds how they ended, and ``into``, where the caller wants the outputs, what they computed.
    """

    __slots__ = ("before", "count", "heads", "into", "is_wanted", "number", "rows")

    def __init__(self, number: int, before: int, rows: Rows, into: Sequence[memoryview]) -> None:
        self.number: Final = number
        self.before: Final = before
        self.count: Final = len(rows.bytes)
        self.rows: Rows | None = rows
        self.into: Final = into
        self.heads: Bytes | None = None
        self.is_wanted: bool = True

    def state(self, row: int) -> State:
        """Returns how a job has ended, or that it has not."""
        if self.rows is not None:
            return State(int(self.rows.states[row]))
        assert self.heads is not None
        return State(int(self.heads[row, Row.STATE]))


class _Block(NamedTuple):
    host: HostBlock
    data: Bytes
    address: DeviceAddress


class RowMemory:
    """Mapped memory for rows, which is kept until the engine ends."""

    def __init__(self, layout: RowLayout) -> None:
        self._nbytes: Final = layout.nbytes
        self._blocks: list[_Block] = []
        self._single: list[Rows] = []
        self._free: list[_Block] = []
        """Blocks for entries of several rows that no entry uses."""
        self._used: dict[int, _Block] = {}

    @property
    def has_single(self) -> bool:
        """Whether there is memory for an entry of one job."""
        return bool(self._single)

    def take(self, rows: int) -> Rows | None:
        """Returns memory for an entry, None if there is none."""
        if rows == 1:
            if not self._single:
                return None
            # One statement without a call, in which no signal is handled: no memory gets lost.
            single, self._single[:1] = self._single[0], ()
            return single
        fitting = [block for block in self._free if block.data.nbytes >= rows * self._nbytes]
        if not fitting:
            return None
        block = min(fitting, key=lambda each: each.data.nbytes)
        self._used[block.address] = block
        self._free.remove(block)
        return self._rows(block, 0, rows)

    def provide(self, rows: int, driver: CudaDriver) -> None:
        """Allocates memory for an entry."""
        if rows == 1:
            count = max(_FEW_ROWS, min(len(self._blocks) * _FEW_ROWS, _MANY_BYTES // self._nbytes))
            block = self._more(count * self._nbytes, driver)
            self._single += [self._rows(block, number, 1) for number in range(count)]
        else:
            self._free.append(self._more(rows * self._nbytes, driver))

    def give_back(self, entry: Submission) -> None:
        """Takes the memory of an entry, if it has some, for another one."""
        rows = entry.rows
        if rows is not None:
            block = self._used.get(rows.address)
            if block is None:
                entry.rows, self._single[:0] = None, (rows,)  # one statement without a call
            else:
                entry.rows, self._free[:0] = None, (block,)
                self._used.pop(rows.address, None)

    def drop(self) -> list[HostBlock]:
        """Forgets all memory, and returns the blocks to be freed."""
        blocks, self._blocks = self._blocks, []
        self._single, self._free = [], []
        self._used.clear()
        return [block.host for block in blocks]

    def _more(self, nbytes: int, driver: CudaDriver) -> _Block:
        import numpy as np

        host = driver.host_alloc(nbytes, mapped=True)
        block = _Block(host, np.frombuffer(host.view, np.uint8), driver.host_device_address(host))
        self._blocks.append(block)
        return block

    def _rows(self, block: _Block, number: int, rows: int) -> Rows:
        start = number * self._nbytes
        data = block.data[start : start + rows * self._nbytes].reshape(rows, self._nbytes)
        return Rows(data, block.address + start)


class Words:
    """The words of a mailbox in mapped memory: its head, its entries and their ends."""

    def __init__(self, capacity: int, driver: CudaDriver) -> None:
        entries = Head.NBYTES
        ends = entries + capacity * Entry.NBYTES
        self._description = ends + 8 * capacity
        nbytes = self._description + Descriptor.NBYTES
        self.block: Final = driver.host_alloc(nbytes, mapped=True)
        self.block.view[:] = bytes(nbytes)
        base = driver.host_device_address(self.block)
        self.places: Final = {Descriptor.HEAD: base, Descriptor.ENTRIES: base + entries, Descriptor.ENDS: base + ends}
        start = self.block.address
        # A store to a word is one store of the processor, and no earlier one is seen after it.
        self.tail: Final = c_uint64.from_address(start + Head.TAIL)
        """The number of entries that the kernel knows of."""
        self._stop = c_uint64.from_address(start + Head.STOP)
        self._left = c_uint64.from_address(start + Head.LEFT)
        self._entries = (c_uint64 * (2 * capacity)).from_address(start + entries)
        self._ends = (c_uint64 * capacity).from_address(start + ends)

    def describe(self, fields: dict[int, int]) -> tuple[int, int]:
        """Writes a description; returns its host address and its length in bytes, for a copy."""
        where = self.block.address + self._description
        words = (c_uint64 * (Descriptor.NBYTES // 8)).from_address(where)
        for field, value in (self.places | fields).items():
            words[field // 8] = value
        return where, Descriptor.NBYTES

    def describe_entry(self, place: int, rows: Rows) -> None:
        """Describes the entry at a place, which ``tail`` makes known to the kernel."""
        self._entries[2 * place] = rows.address
        self._entries[2 * place + 1] = len(rows.bytes)

    def end_of(self, place: int) -> int:
        """Returns the number of the last entry at a place that has ended, plus 1."""
        return self._ends[place]

    def stop(self) -> None:
        """Tells the kernel to leave."""
        self._stop.value = 1

    @property
    def left(self) -> int:
        """Returns how many launches have left because there was nothing to do."""
        return self._left.value


def write_inputs(layout: RowLayout, rows: Rows, columns: Sequence[memoryview]) -> None:
    """Copies the inputs of all rows, each one after the other in its column, or one that all rows share."""
    import numpy as np

    for source, offset, nbytes in layout.inputs:
        start = Row.BODY + offset
        rows.bytes[:, start : start + nbytes] = np.frombuffer(columns[source], np.uint8).reshape(-1, nbytes)
    rows.bytes[:, : Row.BODY] = 0


def read_outputs(layout: RowLayout, rows: Rows, into: Sequence[memoryview], chosen: slice) -> None:
    """Copies the outputs of the chosen rows to their places in ``into``, which has those of all rows."""
    import numpy as np

    for place, target in zip(layout.outputs, into, strict=True):
        if place.nbytes:
            start = Row.BODY + place.start
            rows_of = np.frombuffer(target, np.uint8).reshape(len(rows.bytes), place.nbytes)
            rows_of[chosen] = rows.bytes[chosen, start : start + place.nbytes]


def frees(driver: CudaDriver, blocks: Sequence[HostBlock]) -> list[Callable[[], None]]:
    """Returns the calls that free blocks."""
    return [partial(driver.host_free, block) for block in blocks]


def _aligned(nbytes: int, to: int) -> int:
    return -(-nbytes // to) * to
