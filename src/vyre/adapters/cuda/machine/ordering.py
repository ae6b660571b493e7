"""The order of operations by streams, events and waits of the host, and races between unordered ones.

A vector clock counts the operations of each stream.  An operation comes after those of its own stream, after those that
its awaited events had recorded, and after those that the host had seen finish when it enqueued it.  Two unordered
operations *race* if they access the same bytes and one writes.  All host threads count as one, so a race between
threads that do not synchronise can be missed; every reported race is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

VectorClock: TypeAlias = dict[int, int]

_PRUNE_ABOVE: Final = 64


class Access(NamedTuple):
    """Bytes ``[low, high)`` of the allocation at ``base`` that an operation accessed."""

    base: int
    low: int
    high: int
    writes: bool


class _Record(NamedTuple):
    access: Access
    stream: int
    epoch: int
    name: str

    def before(self, clock: VectorClock) -> bool:
        """Returns whether an operation at ``clock`` comes after this one."""
        return self.epoch <= clock.get(self.stream, 0)


def join(*clocks: VectorClock) -> VectorClock:
    """Returns the least clock that is after all of ``clocks``."""
    joined: VectorClock = dict(clocks[0]) if clocks else {}
    for clock in clocks[1:]:
        for stream, count in clock.items():
            if count > joined.get(stream, 0):
                joined[stream] = count
    return joined


class RaceDetector:
    """Remembers, by allocation, the accesses since all streams were last ordered."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._records: dict[int, list[_Record]] = {}
        self._prune_above = _PRUNE_ABOVE

    def check(self, access: Access, stream: int, clock: VectorClock, name: str) -> None:
        """Records that operation ``name`` of ``stream``, at ``clock``, ran now with ``access``, and reports its
        races.
        """
        records = self._records.setdefault(access.base, [])
        kept = []
        for record in records:
            other = record.access
            if access.low < other.high and other.low < access.high and (access.writes or other.writes):
                if not record.before(clock):
                    self._report(_describe(record, access, stream, name))
                newer = access.writes or (record.stream == stream and not other.writes)
                if newer and access.low <= other.low and other.high <= access.high:
                    continue  # a later operation that races with that record also races with this one
            kept.append(record)
        kept.append(_Record(access, stream, clock[stream], name))
        self._records[access.base] = kept

    def prune(self, floors: Callable[[], Iterable[VectorClock]]) -> None:
        """Drops the records that come before all operations still to run: each of them comes after one of
        ``floors``.
        """
        if self._size() <= self._prune_above:
            return
        lowest = list(floors())
        kept = {
            base: [r for r in records if not all(r.before(floor) for floor in lowest)]
            for base, records in self._records.items()
        }
        self._records = {base: records for base, records in kept.items() if records}
        self._prune_above = max(_PRUNE_ABOVE, 2 * self._size())

    def _size(self) -> int:
        return sum(map(len, self._records.values()))


def _describe(record: _Record, access: Access, stream: int, name: str) -> str:
    other = record.access
    low, high = max(access.low, other.low), min(access.high, other.high)
    return (
        f"{name} on stream {stream:#x} {_verb(access)} bytes {low:#x}..{high:#x} that {record.name} on stream "
        f"{record.stream:#x} {_verb(other)}, with no event, wait or stream order between them"
    )


def _verb(access: Access) -> str:
    return "writes" if access.writes else "reads"
