"""Which operations must stay in order, judged by resource and byte interval?

Two accesses conflict when they share a byte and at least one of them writes it.  ``conflicts`` and ``first_conflict``
compare two operations: O(pairs of accesses to one resource * intervals).  ``hazard_graph`` orders a whole sequence.  Of
the conflicts on a resource it keeps the transitive reduction: an edge joins two operations that conflict unless
operations between them order the two already.  So every edge is a conflict and every conflict a path.  There may still
be many edges: if n operations read what n others wrote, there are n^2 of them, and no smaller graph orders these
operations.

Method: cut each resource at the ends of its intervals and sweep over the pieces with one int whose bits are the
accesses that cover a piece, which finds all overlaps in O(intervals) operations on such ints.  Then walk the conflicts
of each access from the latest back, keep an edge and drop the conflicts that it orders.  O(intervals * log(intervals))
comparisons and O(intervals + accesses + edges) operations on ints of as many bits as a resource has accesses.

Unlike vyre-driver, which compares numbers of binding slots pair by pair, this identifies buffers and bytes.  Slots are
per program, two of them may be one buffer, and two operations on different halves of a buffer do not conflict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from vyre.domain.errors import InvalidField
from vyre.domain.identity_enum import IdentityEnum
from vyre.policies.record import U64, U64_MAX, record, verdict

Interval: TypeAlias = tuple[U64, U64]
"""The first byte of a range and the first byte after it; never empty."""

WHOLE: Final[tuple[Interval, ...]] = ((0, U64_MAX),)
"""Every byte that a resource can have."""


class AccessMode(IdentityEnum):
    """How an operation accesses bytes."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"


class ConflictReason(IdentityEnum):
    """Why two operations must stay in order.  Where several reasons apply, the first member is reported."""

    WRITE_WRITE = "write_write"
    READ_AFTER_WRITE = "read_after_write"
    WRITE_AFTER_READ = "write_after_read"


@record
class Access:
    """An access to the buffer ``resource``; ``intervals`` of bytes are ascending and do not overlap."""

    resource: U64
    mode: AccessMode
    intervals: tuple[Interval, ...] = WHOLE

    def __post_init__(self) -> None:
        end = 0
        for start, stop in self.intervals:
            if not end <= start < stop:
                expected = f"an interval of at least one byte that starts at {end} or later"
                raise InvalidField(record="Access", field="intervals", value=(start, stop), expected=expected)
            end = stop


class Conflict(NamedTuple):
    """Two accesses that conflict, by their positions among the accesses of their operations."""

    reason: ConflictReason
    earlier: int
    later: int
    resource: int


def conflicts(earlier: Sequence[Access], later: Sequence[Access]) -> Iterator[Conflict]:
    """Yields every pair of conflicting accesses, one of each operation."""
    by_resource: defaultdict[int, list[int]] = defaultdict(list)
    for j, access in enumerate(later):
        by_resource[access.resource].append(j)
    for i, first in enumerate(earlier):
        for j in by_resource.get(first.resource, ()):
            reason = _reason(first.mode, later[j].mode)
            if reason is not None and _overlap(first.intervals, later[j].intervals):
                yield Conflict(reason, i, j, first.resource)


_PRECEDENCE: Final = {reason: place for place, reason in enumerate(ConflictReason)}


def first_conflict(earlier: Sequence[Access], later: Sequence[Access]) -> Conflict | None:
    """Returns the conflict whose reason comes first, or None if the operations are independent."""
    return min(conflicts(earlier, later), key=lambda c: _PRECEDENCE[c.reason], default=None)


def _reason(earlier: AccessMode, later: AccessMode) -> ConflictReason | None:
    if earlier is AccessMode.READ:
        return None if later is AccessMode.READ else ConflictReason.WRITE_AFTER_READ
    return ConflictReason.READ_AFTER_WRITE if later is AccessMode.READ else ConflictReason.WRITE_WRITE


def _overlap(left: tuple[Interval, ...], right: tuple[Interval, ...]) -> bool:
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i][1] <= right[j][0]:
            i += 1
        elif right[j][1] <= left[i][0]:
            j += 1
        else:
            return True
    return False


@record
class HazardInputs:
    """The accesses of each operation, in program order."""

    operations: tuple[tuple[Access, ...], ...]


@verdict
class HazardGraph:
    """``predecessors`` holds for each operation the operations that must come before it, ascending."""

    predecessors: tuple[tuple[int, ...], ...]

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """Pairs (before, after) of operations."""
        return ((before, after) for after, operations in enumerate(self.predecessors) for before in operations)

    @property
    def label(self) -> str:
        """Whether some operation waits for another, for telemetry."""
        return "some wait" if any(self.predecessors) else "none waits"


def hazard_graph(inputs: HazardInputs) -> HazardGraph:
    """Returns the order that the operations must keep; operations that no path joins may run at the same time."""
    by_resource: defaultdict[int, list[tuple[int, Access]]] = defaultdict(list)
    for operation, accesses in enumerate(inputs.operations):
        for access in accesses:
            by_resource[access.resource].append((operation, access))
    predecessors: list[list[int]] = [[] for _ in inputs.operations]
    for members in by_resource.values():
        if len(members) > 1:
            _order(members, predecessors)
    return HazardGraph(tuple(tuple(sorted(set(before))) for before in predecessors))


def _order(members: list[tuple[int, Access]], predecessors: list[list[int]]) -> None:
    """Adds the edges of one resource to ``predecessors``; bit k of a mask stands for the k-th member."""
    overlaps = _overlaps([access for _, access in members])
    writers = sum(1 << k for k, (_, access) in enumerate(members) if access.mode is not AccessMode.READ)
    ordered_by: list[int] = []  # masks of the member itself and all members with a path to it
    for k, (operation, access) in enumerate(members):
        itself = 1 << k
        left = overlaps[k] & (itself - 1)
        if access.mode is AccessMode.READ:
            left &= writers
        before = itself
        while left:
            latest = left.bit_length() - 1
            if members[latest][0] != operation:
                predecessors[operation].append(members[latest][0])
            before |= ordered_by[latest]
            left &= ~ordered_by[latest]
        ordered_by.append(before)


def _overlaps(accesses: list[Access]) -> list[int]:
    """Returns for each access a mask of the accesses that share a byte with it."""
    changes: dict[int, int] = {}
    bit = 1
    for access in accesses:
        for start, stop in access.intervals:
            changes[start] = changes.get(start, 0) ^ bit  # adjacent intervals cancel out
            changes[stop] = changes.get(stop, 0) ^ bit
        bit <<= 1
    seen = [0] * len(accesses)  # accesses that cover the first byte of one of its intervals
    covering = 0
    for position in sorted(changes):
        change = changes[position]
        covering ^= change
        opened = covering & change
        while opened:
            k = opened.bit_length() - 1
            opened ^= 1 << k
            seen[k] |= covering
    # Of two overlapping intervals, one covers the first byte of the other.
    return [one | other for one, other in zip(seen, _transposed(seen), strict=True)]


def _transposed(rows: list[int]) -> list[int]:
    """Returns the bit matrix with rows and columns swapped."""
    size = len(rows)
    cells = "".join([format(row, f"0{size}b") for row in reversed(rows)])
    return [int(cells[size - 1 - column :: size], 2) for column in range(size)]
