"""The grid of decisions against the clock: work of four families, and the programs that it runs."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

import vyre
from vyre import ProgramBuilder, f32

SIZES: Final = (64, 512, 4096, 16384, 65536, 262144)
CHAINS: Final = (1, 2, 4, 8, 16)
BATCHES: Final = (1, 4, 16, 64, 256)
REPEATS: Final = (1, 6)
MOST_LANES: Final = 1 << 22
"""The lanes of all launches of a cell, times the weight of the program, beyond which it is left out."""


class Kind(NamedTuple):
    """A program: ``y`` from ``x``; ``weight`` is about the time of an element in that of the lightest."""

    name: str
    program: vyre.Program
    weight: int


def _map(name: str, steps: int) -> vyre.Program:
    with ProgramBuilder(name, workgroup=64) as p:
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            value = x[i]
            for _ in range(steps):
                value = p.let(value * 0.96875 + 0.25)
            y[i] = value
    return p.build()


def _neighbours() -> vyre.Program:
    """``y[i] = x[i] + x[i + 1]``: a later launch reads what other workgroups wrote, so no two are joined."""
    with ProgramBuilder("neighbours", workgroup=64) as p:
        x = p.input("x", f32)
        y = p.output("y", f32, like=x)
        i = p.global_id()
        with p.if_(i + 1 < x.length):
            y[i] = (x[i] + x[i + 1]) * 0.5
    return p.build()


@cache
def kinds() -> tuple[Kind, ...]:
    """Returns the programs: little and much arithmetic for each element, and one whose launches cannot be joined."""
    return Kind("map", _map("map", 1), 1), Kind("steps", _map("steps", 24), 6), Kind("near", _neighbours(), 1)


class Family(Enum):
    """The kinds of work.

    ``RUNS`` of sequences that were run before, on one thread, and on ``THREADS``.  ``FIRST``: runs of sequences that
    are new, the first of which prepares them; programs are compiled.  ``JOBS``: one program over many inputs.
    """

    RUNS = "runs"
    THREADS = "two threads"
    FIRST = "first runs"
    JOBS = "jobs"


class Shape(NamedTuple):
    """Work but for its batch and repeats, by the number of its program."""

    family: Family
    kind: int
    size: int
    chain: int

    @property
    def threads(self) -> int:
        """The threads of a launch."""
        return 2 if self.family is Family.THREADS else 1


class Cell(NamedTuple):
    """Work: ``batch`` rounds of a chain in each run, or so many jobs, and ``repeats`` runs."""

    shape: Shape
    batch: int
    repeats: int

    @property
    def name(self) -> str:
        """Says what the cell is."""
        family, kind, size, chain = self.shape
        before = "" if family is Family.RUNS else f"{family.value}: "
        return f"{before}{kinds()[kind].name} {size} x{chain} batch {self.batch} repeats {self.repeats}"

    def as_json(self) -> dict[str, Any]:
        """Returns what the cell is, for the record."""
        family, kind, size, chain = self.shape
        work = {"family": family.value, "kind": kinds()[kind].name, "size": size, "chain": chain}
        return work | {"batch": self.batch, "repeats": self.repeats}


def grid() -> list[Cell]:
    """Returns all cells, those of one shape after each other."""
    return [*_runs(), *_threads(), *_first(), *_jobs()]


def _runs() -> Iterator[Cell]:
    for kind, size, chain in product(range(len(kinds())), SIZES, CHAINS):
        for batch, repeats in product(BATCHES, REPEATS):
            lanes = kinds()[kind].weight * size * chain * batch * repeats
            if lanes <= MOST_LANES or batch == repeats == 1:
                yield Cell(Shape(Family.RUNS, kind, size, chain), batch, repeats)


def _threads() -> Iterator[Cell]:
    for kind, size, chain, batch in product((0, 1), (4096, 65536), (1, 4), (1, 16)):
        yield Cell(Shape(Family.THREADS, kind, size, chain), batch, 1)


def _first() -> Iterator[Cell]:
    for kind, size, chain in product((0, 2), (64, 4096), (1, 4, 16)):
        for batch, repeats in ((1, 1), (1, 6), (64, 6)):
            yield Cell(Shape(Family.FIRST, kind, size, chain), batch, repeats)


def _jobs() -> Iterator[Cell]:
    for kind, size, batch in product((0, 1), (64, 4096), (16, 64, 256, 1024)):
        yield Cell(Shape(Family.JOBS, kind, size, 1), batch, 1)
