"""The memory of single jobs of a persistent engine: what is handed to the ring, how a job ended, and its buffers."""

from __future__ import annotations

from ctypes import Array, c_int64
from typing import TYPE_CHECKING, Final

from vyre.adapters.cpu.pool import layout as at
from vyre.adapters.host.memory import allocate_aligned
from vyre.domain.binding import BindingPlan
from vyre.domain.launch import Launch
from vyre.ports.persistent import JobMemory

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

_LINE: Final = 64
STATUS_WORDS: Final = at.Status.BYTES // 8
"""The words of the status of a job."""
STATE: Final = at.Submission.BYTES // 8
"""The position of the first word of the status among the words of a job's memory."""
ELAPSED: Final = STATE + at.Status.ns // 8
"""The position of the time that it took, in ns."""
_TABLE: Final = STATE + STATUS_WORDS


class RingMemory(JobMemory):
    """The memory of one job on the host: what is handed to the ring, how the job ended, and its buffers."""

    __slots__ = ("address", "words")

    def __init__(
        self, inputs: tuple[memoryview, ...], outputs: tuple[memoryview, ...], address: int, words: Array[c_int64]
    ) -> None:
        super().__init__(inputs, outputs)
        self.address: Final = address
        self.words: Final = words

    @property
    def has_ended(self) -> bool:
        """Whether a word says that the job has ended."""
        return self.words[STATE] != 0


class RingMemories:
    """Makes memory for jobs of a launch, several at once."""

    __slots__ = ("_door", "_launch", "_places", "_plan", "_type", "stride")

    def __init__(self, plan: BindingPlan, launch: Launch, door: int) -> None:
        self._plan, self._launch, self._door = plan, launch, door
        words = _TABLE + 2 * len(launch.nbytes)
        self._type: Final = c_int64 * words
        self._places: list[int] = []
        nbytes = _lines(8 * words)
        for each in launch.nbytes:
            self._places.append(nbytes)
            nbytes += _lines(each)
        self.stride: Final = nbytes

    def made(self, count: int) -> list[RingMemory]:
        """Returns so many.  Raises ``DeviceOutOfMemory``."""
        data, address = allocate_aligned(count * self.stride)
        starts = range(0, count * self.stride, self.stride)
        return [self._at(data[start : start + self.stride], address + start) for start in starts]

    def _at(self, data: Bytes, address: int) -> RingMemory:
        plan, launch, words = self._plan, self._launch, self._type.from_address(address)
        words[at.Submission.door // 8] = self._door
        words[at.Submission.rows // 8] = 1
        words[at.Submission.status // 8] = address + at.Submission.BYTES
        words[at.Submission.table // 8] = address + 8 * _TABLE
        words[_TABLE:] = [word for place in self._places for word in (address + place, 0)]
        bytes_of = [data[place : place + n] for place, n in zip(self._places, launch.nbytes, strict=True)]
        return RingMemory(
            tuple([bytes_of[slot].data for slot in plan.inputs]),
            tuple(
                [
                    bytes_of[slot][start:end].data
                    for slot, (start, end) in zip(plan.outputs, launch.output_ranges, strict=True)
                ]
            ),
            address,
            words,
        )


def _lines(nbytes: int) -> int:
    return -(-nbytes // _LINE) * _LINE
