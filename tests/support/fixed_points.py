"""Graph algorithms as fixed points, and their answers and rounds by plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import vyre
from vyre import FixedPoint, Program, ProgramBuilder, Session, Step, select, u32

if TYPE_CHECKING:
    import pytest  # a machine for GPU runs may have none

Words: TypeAlias = "npt.NDArray[np.uint32]"
FAR: Final = 0xFFFF_FFFF


def _relax(name: str, *, counts: bool) -> Program:
    """Each node takes the least of its value and those of its neighbours, plus 1 (below ``FAR``) if it ``counts``."""
    with ProgramBuilder(name, workgroup=32) as p:
        first = p.input("first", u32)
        other = p.input("other", u32)
        now = p.input("now", u32)
        following = p.inout("next", u32)
        changed = p.inout("changed", u32, count=1)
        node = p.global_id()
        with p.if_(node < now.length):
            best = p.var(now[node])
            with p.for_(first[node], first[node + 1]) as e:
                value = p.let(now[other[e]])
                if counts:
                    value = p.let(select(value < FAR, value + 1, FAR))
                with p.if_(value < best):
                    best.assign(value)
            following[node] = best
            with p.if_(best != now[node]):
                changed.atomic_or(0, 1)
    return p.build()


def _copy() -> Program:
    with ProgramBuilder("take_over", workgroup=32) as p:
        following = p.input("next", u32)
        now = p.inout("now", u32)
        node = p.global_id()
        with p.if_(node < now.length):
            now[node] = following[node]
    return p.build()


LABELS: Final = _relax("labels", counts=False)
DISTANCES: Final = _relax("distances", counts=True)
TAKE_OVER: Final = _copy()


class Graph(NamedTuple):
    """An undirected graph as rows of neighbours."""

    nodes: int
    first: Words
    other: Words

    @classmethod
    def of(cls, nodes: int, edges: Iterable[tuple[int, int]]) -> Graph:
        """Returns the graph of these edges."""
        rows: list[list[int]] = [[] for _ in range(nodes)]
        for a, b in edges:
            rows[a].append(b)
            rows[b].append(a)
        first = np.cumsum([0, *map(len, rows)]).astype(np.uint32)
        other = np.array([each for row in rows for each in row] or [0], np.uint32)
        return cls(nodes, first, other)

    @classmethod
    def chain(cls, nodes: int) -> Graph:
        """Returns a path, whose diameter is one less than its nodes."""
        return cls.of(nodes, ((k, k + 1) for k in range(nodes - 1)))

    @classmethod
    def star(cls, nodes: int) -> Graph:
        """Returns node 0 connected with all others."""
        return cls.of(nodes, ((0, k) for k in range(1, nodes)))

    def start(self, program: Program) -> Words:
        """Returns the values before the first round: labels, or distances from node 0."""
        if program is LABELS:
            return np.arange(self.nodes, dtype=np.uint32)
        return np.array([0, *[FAR] * (self.nodes - 1)], np.uint32)

    def answer(self, program: Program, limit: int) -> tuple[Words, int, bool]:
        """Returns the values, the rounds and whether they converged, by plain Python."""
        now, rounds = [int(k) for k in self.start(program)], 0
        step = 0 if program is LABELS else 1
        while rounds < limit:
            rounds += 1
            following = [
                min([now[v], *(min(FAR, now[u] + step) for u in self.other[self.first[v] : self.first[v + 1]])])
                for v in range(self.nodes)
            ]
            if following == now:
                return np.array(now, np.uint32), rounds, True
            now = following
        return np.array(now, np.uint32), rounds, False


def keep_resident_arrays(patch: pytest.MonkeyPatch) -> None:
    """Keeps resident arrays until their session closes them."""
    kept: list[Any] = []
    resident = Session.resident

    def keeping(session: Session, *arguments: Any, **options: Any) -> Any:
        kept.append(resident(session, *arguments, **options))
        return kept[-1]

    patch.setattr(Session, "resident", keeping)


@contextmanager
def keeping_session(backend: str, **options: Any) -> Iterator[Session]:
    """Opens a session that keeps resident arrays until it is closed, which closes them."""
    import pytest

    with pytest.MonkeyPatch.context() as patch, vyre.open(backend, **options) as session:
        keep_resident_arrays(patch)
        yield session


class Bound(NamedTuple):
    """A fixed point in a session: ``run`` is it, ``values`` what it changes; ``held`` keeps its arrays open."""

    run: FixedPoint
    values: Words
    found: object
    held: object

    def content(self) -> Words:
        """Returns the present values."""
        found: Words = self.found.download()  # type: ignore[attr-defined]
        return found


def bound(session: Session, graph: Graph, program: Program, limit: int, **options: object) -> Bound:
    """Returns a fixed point of a program on a graph."""
    start = graph.start(program)
    first, other = session.resident(graph.first), session.resident(graph.other)
    now, following = session.resident(start), session.resident(np.zeros_like(start))
    changed = session.resident(np.full(1, 9, np.uint32))
    relax = Step(program, {"first": first, "other": other, "now": now, "next": following, "changed": changed})
    back = Step(TAKE_OVER, {"next": following, "now": now})
    run = session.fixpoint([relax, back], changed=changed, limit=limit, **options)  # type: ignore[arg-type]
    return Bound(run, start, now, (first, other, following, changed))
