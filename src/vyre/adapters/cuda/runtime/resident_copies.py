"""Host bytes of a run on resident memory: those of a step are copied while the steps before it run.

They go through pinned memory, so that only the kernels that read them wait for them.  Bytes whose destination no
earlier step touches are copied on a second stream, and an event makes the stream of the run wait; all others are copied
on the stream of the launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, TypeAlias

from vyre.adapters.cuda.runtime.chunks import Piece, PinnedChunks
from vyre.adapters.cuda.runtime.device import release_all
from vyre.adapters.cuda.runtime.resident_launch import Step, StepLaunch
from vyre.adapters.cuda.runtime.slot import Resources
from vyre.adapters.cuda.runtime.streams import StreamLease
from vyre.adapters.cuda.seam import Stream
from vyre.policies.concurrency.hazards import Access, AccessMode, first_conflict

MOST_ACCESSES: Final = 256
"""The number of earlier accesses that a copy is compared with; after more, it is queued on the stream of the
launches.
"""

Pieces: TypeAlias = "Mapping[int, Sequence[Piece]]"
"""Copies by the number of their step."""


class HostCopies:
    """The copies of one run, each queued just before its step.  Not for two threads at once.

    ``copy_stream`` makes the stream for the steps in ``overlapped``.  ``behind_launches`` tells whether copies are
    queued after some launches.
    """

    __slots__ = (
        "_chunks",
        "_copy_lease",
        "_deadline_ns",
        "_lease",
        "_overlapped",
        "_pieces",
        "_resources",
        "behind_launches",
    )

    def __init__(
        self,
        resources: Resources,
        lease: StreamLease,
        copy_stream: Callable[[], StreamLease],
        pieces: Pieces,
        overlapped: Iterable[int],
        behind_launches: bool,
        deadline_ns: int | None,
    ) -> None:
        """Makes the second stream wait for the work that is queued on ``lease``, such as its allocations; queues no
        copy.
        """
        self._resources, self._lease, self._deadline_ns = resources, lease, deadline_ns
        self._pieces = dict(pieces)
        self._overlapped: Final = frozenset(overlapped)
        self.behind_launches: Final = behind_launches
        self._chunks: dict[Stream, PinnedChunks] = {}
        self._copy_lease = lease
        if self._overlapped:
            self._copy_lease, driver = copy_stream(), resources.device.driver
            driver.event_record(self._copy_lease.started, lease.stream)
            driver.stream_wait_event(self._copy_lease.stream, self._copy_lease.started)

    def send(self, number: int) -> None:
        """Queues the copies for the step that is queued next; its bytes have been read when this returns.

        Does nothing for a step without host bytes, or whose bytes were sent.  Raises ``CudaCallError`` and
        ``DeadlinePassed``.
        """
        pieces = self._pieces.pop(number, None)
        if pieces is None:
            return
        lease = self._copy_lease if number in self._overlapped else self._lease
        self._chunks_on(lease.stream, number, pieces).send(pieces, self._deadline_ns)
        if lease is not self._lease:
            driver = self._resources.device.driver
            driver.event_record(lease.done, lease.stream)
            driver.stream_wait_event(self._lease.stream, lease.done)

    def release(self, *, idle: bool) -> None:
        """Returns pinned memory, whose copies are done.  ``idle``: it may be used again."""
        chunks, self._chunks = list(self._chunks.values()), {}
        release_all([partial(each.release, idle=idle) for each in chunks])

    def _chunks_on(self, stream: Stream, number: int, pieces: Sequence[Piece]) -> PinnedChunks:
        """Returns chunks that fit for all copies that are still to come on that stream."""
        chunks = self._chunks.get(stream)
        if chunks is None:
            later = [
                each for n, each in self._pieces.items() if (n in self._overlapped) is (number in self._overlapped)
            ]
            every = chain(pieces, *later)
            chunks = PinnedChunks.to_send(self._resources.device, self._resources.pinned, stream, every)
            self._chunks[stream] = chunks
        return chunks


def overlapped_steps(prepared: Sequence[tuple[StepLaunch, Step]]) -> frozenset[int]:
    """Returns the numbers of the steps whose host bytes may be copied while any step before them runs."""
    earlier: dict[Access, None] = {}
    overlapped = set()
    for launch, step in prepared:
        pieces = launch.host_pieces(step)
        if pieces and 0 < len(earlier) <= MOST_ACCESSES:
            kernels = tuple(earlier)
            targets = ((piece.address, piece.address + piece.host.nbytes) for piece in pieces)
            if not any(first_conflict((Access(0, AccessMode.WRITE, (target,)),), kernels) for target in targets):
                overlapped.add(step.number)
        earlier.update(dict.fromkeys(launch.accesses(step)))
    return frozenset(overlapped)
