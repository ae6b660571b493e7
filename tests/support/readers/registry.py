"""The readers by name, and what several of them are given."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from support.fuzzing.mutations import Draw
from support.programs import Order, generate
from support.small_programs import saxpy_program
from vyre.domain.errors import VyreError
from vyre.domain.ir.program import Program

TESTS: Final = Path(__file__).parents[2]


class Reader(NamedTuple):
    """``refusals`` are the errors by which it may refuse an input; a slow one gets one of ``every`` seeds."""

    name: str
    draw: Draw
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (VyreError,)
    every: int = 1


READERS: Final[dict[str, Callable[[], Reader]]] = {}
"""By name; a reader's valid inputs are made when it is first used."""


def reader(make: Callable[[], Reader]) -> Callable[[], Reader]:
    once = cache(make)
    READERS[make.__name__.strip("_")] = once
    return once


@cache
def programs() -> list[Program]:
    drawn = [generate(seed, order=order, work=1500, traps=True) for seed in range(4) for order in Order]
    return [saxpy_program(), *(case.program for case in drawn)]


@cache
def scratch() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="vyre-readers-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: Final[list[object]] = []


def chosen(names: Iterable[str]) -> list[Reader]:
    """Returns readers by name; all of them for none."""
    return [READERS[name]() for name in names] or [make() for make in READERS.values()]
