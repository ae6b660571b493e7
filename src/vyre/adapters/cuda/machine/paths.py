"""The control flow of an entry: which groups of lanes may still meet another one.

The order of an entry's blocks is that of its text.  A later block may follow an earlier one along the edges forward, or
after a loop around the earlier one has been left; another round of a loop around both does not count.

Small entries keep a set of later blocks for each block.  In large ones these sets would take memory with the square of
the number of blocks, so there each question is answered by a search, whose findings are kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Protocol, TypeAlias

Edges: TypeAlias = tuple[tuple[int, ...], ...]
"""The blocks that may follow each block; a negative number is the end of the lanes."""
FEW_BLOCKS: Final = 2048
"""The largest number of blocks for which sets are kept."""
_FINDINGS: Final = 1 << 18
"""The number of findings that are kept."""


class Front(Protocol):
    """Some blocks, in ascending order."""

    def add(self, block: int, /) -> None:
        """Adds a block."""

    def may_reach(self, block: int, /) -> bool:
        """Returns whether a later block may follow one of those that were added."""


class Paths(Protocol):
    """The control flow between the blocks of an entry; ``loops`` maps each header to the last block of its loop."""

    @property
    def loops(self) -> dict[int, int]:
        """Returns the last block that jumps back, by header."""

    def front(self) -> Front:
        """Returns a front without blocks."""


def paths(edges: Edges) -> Paths:
    """Returns the control flow of an entry with these edges."""
    return _small(edges) if len(edges) <= FEW_BLOCKS else SearchPaths(edges)


def _loops(edges: Edges) -> dict[int, int]:
    loops: dict[int, int] = {}
    for number, targets in enumerate(edges):
        loops |= {target: number for target in targets if 0 <= target <= number}
    return loops


class SetPaths:
    """Keeps for each block the set of later blocks that may follow it, as the bits of an integer."""

    def __init__(self, edges: Edges) -> None:
        reachable = [0] * len(edges)
        for number in range(len(edges) - 1, -1, -1):
            bits = 0
            for target in edges[number]:
                if target > number:
                    bits |= 1 << target | reachable[target]
            reachable[number] = bits
        self.loops: Final = _loops(edges)
        for header, last in self.loops.items():
            beyond = reachable[header] >> last + 1 << last + 1
            for number in range(header, last + 1):
                reachable[number] |= beyond
        self._reachable = reachable

    def front(self) -> Front:
        """Implements ``Paths.front``."""
        return _SetFront(self._reachable)


class _SetFront:
    __slots__ = ("_behind", "_reachable")

    def __init__(self, reachable: list[int]) -> None:
        self._reachable = reachable
        self._behind = 0

    def add(self, block: int) -> None:
        self._behind |= self._reachable[block]

    def may_reach(self, block: int) -> bool:
        return bool(self._behind >> block & 1)


@lru_cache(maxsize=256)
def _small(edges: Edges) -> Paths:
    return SetPaths(edges)


_Around: TypeAlias = tuple[tuple[int, int], ...]
"""Loops around a block: header and last block of each, outermost first."""


class SearchPaths:
    """Searches forward from a block for another one, and keeps what it finds on the way."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self.loops: Final = _loops(edges)
        self._around = _around(len(edges), self.loops)
        self._known: dict[int, dict[int, bool]] = {}
        """By later block, and then by block: whether the former may follow the latter along edges forward."""
        self._kept = 0

    def front(self) -> Front:
        """Implements ``Paths.front``."""
        return _SearchFront(self)

    def may_follow(self, block: int, later: int) -> bool:
        """Returns whether ``later`` may follow ``block``."""
        if self._is_ahead(block, later):
            return True
        return any(last < later and self._is_ahead(header, later) for header, last in self._around[block])

    def _is_ahead(self, block: int, later: int) -> bool:
        if self._kept > _FINDINGS:
            self._known.clear()
            self._kept = 0
        known = self._known.setdefault(later, {later: True})
        before = len(known)
        stack = [block]
        while stack:
            number = stack[-1]
            if number in known:
                stack.pop()
                continue
            # The farthest target first: it leaves out the branches in between.
            ahead = sorted((target for target in self._edges[number] if number < target <= later), reverse=True)
            unknown = None
            for target in ahead:
                is_ahead = known.get(target)
                if is_ahead:
                    known[number] = True
                    break
                if is_ahead is None and unknown is None:
                    unknown = target
            else:
                if unknown is None:
                    known[number] = False
                else:
                    stack.append(unknown)
        self._kept += len(known) - before
        return known[block]


class _SearchFront:
    __slots__ = ("_blocks", "_paths")

    def __init__(self, paths: SearchPaths) -> None:
        self._paths = paths
        self._blocks: list[int] = []

    def add(self, block: int) -> None:
        # What follows a block also follows the blocks that it may follow.
        if not self.may_reach(block):
            self._blocks.append(block)

    def may_reach(self, block: int) -> bool:
        return any(self._paths.may_follow(earlier, block) for earlier in reversed(self._blocks))


def _around(count: int, loops: dict[int, int]) -> list[_Around]:
    around_blocks: list[_Around] = []
    around: _Around = ()
    ends: set[int] = set()
    for number in range(count):
        if number - 1 in ends:
            around = tuple(loop for loop in around if loop[1] >= number)
        if number in loops:
            around = (*around, (number, loops[number]))
            ends.add(loops[number])
        around_blocks.append(around)
    return around_blocks
