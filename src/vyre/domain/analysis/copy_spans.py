"""``CopySpans`` finds the statements that touch a buffer between the start of an asynchronous copy and its wait.

Statements are numbered in program order, once for each place where they stand, and the numbers of those that touch a
buffer are kept in order.  A question about one copy then costs a search in such a list, so that the answers for all
copies of a program cost little more than one walk through it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, AsyncWait, Body, Stmt, bodies

AsyncCopy: TypeAlias = AsyncLoad | AsyncStore


@kept_with_program("copy_spans")
def copy_spans(program: Program) -> CopySpans:
    """Returns the copies of a valid program; cached on it."""
    return CopySpans(program.body)


class _Start:
    """A place where a copy starts, and that of the next wait for its tag in the same body, or None."""

    __slots__ = ("place", "wait")

    def __init__(self, place: int) -> None:
        self.place: int = place
        self.wait: int | None = None


class CopySpans:
    """The copies of one program, and the statements around them."""

    def __init__(self, program: Body) -> None:
        self.by_tag: Final[dict[str, list[AsyncCopy]]] = {}
        """The different copies under each tag, in program order."""
        self._sole: dict[int, AsyncCopy | None] = {}
        """By wait: the copy for which it certainly waits, or None."""
        self._starts: dict[int, list[_Start]] = {}
        """By copy."""
        self._touches: dict[tuple[str, Touch], list[int]] = {}
        """The places of the statements that touch a buffer."""
        self._own: Counter[tuple[int, str, Touch]] = Counter()
        """How many of these touches each copy makes itself."""
        self._waits: dict[str, list[tuple[int, str]]] = {}
        """The place and tag of each wait that writes to a buffer."""
        self._waits_for: Counter[str] = Counter()
        self._writers: Counter[tuple[str, str]] = Counter()
        """The number of different copies by destination and tag."""
        waits = self._walk(program)
        destinations: dict[str, list[str]] = {}
        for name, tag in self._writers:
            destinations.setdefault(tag, []).append(name)
        for place, tag in waits:
            self._waits_for[tag] += 1
            for name in destinations.get(tag, ()):
                self._waits.setdefault(name, []).append((place, tag))

    def _walk(self, program: Body) -> list[tuple[int, str]]:
        """Numbers the statements; returns the place and tag of every wait."""
        waits: list[tuple[int, str]] = []
        latest: dict[str, tuple[_Start, AsyncCopy]] = {}
        """By tag: the last statement with the tag, unless it is a wait."""
        open_bodies: list[tuple[Iterator[Stmt], dict[str, list[_Start]]]] = [(iter(program), {})]
        place = 0
        while open_bodies:
            rest, started = open_bodies[-1]
            stmt = next(rest, None)
            if stmt is None:
                open_bodies.pop()
                continue
            uses = accesses(stmt)
            for use in uses:
                self._touches.setdefault(use, []).append(place)
            if isinstance(stmt, AsyncLoad | AsyncStore):
                start = _Start(place)
                latest[stmt.tag] = start, stmt
                started.setdefault(stmt.tag, []).append(start)
                if id(stmt) not in self._starts:
                    self.by_tag.setdefault(stmt.tag, []).append(stmt)
                    self._writers[stmt.destination, stmt.tag] += 1
                self._starts.setdefault(id(stmt), []).append(start)
                self._own.update((id(stmt), use.buffer, use.touch) for use in uses)
            elif isinstance(stmt, AsyncWait):
                waits.append((place, stmt.tag))
                last, here = latest.pop(stmt.tag, None), started.pop(stmt.tag, None)
                sole = last[1] if last is not None and here is not None and here[-1] is last[0] else None
                self._sole[id(stmt)] = sole if self._sole.get(id(stmt), sole) is sole else None
                for start in here or ():
                    start.wait = place
            open_bodies += [(iter(nested), {}) for nested in reversed(bodies(stmt))]
            place += 1
        return waits

    def sole(self, stmt: AsyncWait) -> AsyncCopy | None:
        """Returns the copy for which a wait of the program certainly waits; None if it depends on the path.

        It is certain where the last statement with the tag, in program order, is a start in the same body.
        """
        return self._sole[id(stmt)]

    def left_alone(self, stmt: AsyncCopy, name: str, touches: tuple[Touch, ...]) -> bool:
        """Returns whether a buffer is free of these accesses from the start of a copy of the program to its wait.

        That holds if no other statement of the program makes one, or if, wherever the copy is started, its wait follows
        in the same body with no such statement in between.  All lanes run the same text, so accesses of other lanes in
        between that a barrier orders appear there too; unordered ones are races anyway.
        """
        places = [(self._touches.get((name, touch), []), self._own[id(stmt), name, touch]) for touch in touches]
        waits = self._waits.get(name, [])
        # The wait for this copy is no other statement, unless another copy to the buffer has the tag too.
        own_tag = stmt.tag if stmt.destination == name and self._writers[name, stmt.tag] == 1 else None
        own_waits = 0 if own_tag is None else self._waits_for[own_tag]
        if len(waits) == own_waits and all(len(listed) == own for listed, own in places):
            return True
        for start in self._starts[id(stmt)]:
            if start.wait is None or any(_between(listed, start.place, start.wait) for listed, _ in places):
                return False
            index = bisect_right(waits, start.place, key=_place)
            while index < len(waits) and waits[index][0] < start.wait:
                if waits[index][1] != own_tag:
                    return False
                index += 1
        return True


def _place(wait: tuple[int, str]) -> int:
    return wait[0]


def _between(places: list[int], after: int, before: int) -> bool:
    """Returns whether a place lies between two others."""
    index = bisect_right(places, after)
    return index < len(places) and places[index] < before
