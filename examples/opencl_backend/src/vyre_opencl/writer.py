"""The C of one kernel while it is written: lines, names, and what the program says about its buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vyre import UnsupportedFeature
from vyre.ir import AsyncLoad, AsyncStore, Buffer, Program, ScalarType
from vyre.lowering import ScopedNames
from vyre_opencl.types import ELEMENT, VALUE, Value

NAME: Final = "opencl"
"""The id of the backend."""


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer in C: its name, its number of elements as an expression, and its address space."""

    buffer: Buffer
    element: ScalarType
    name: str
    count: str
    space: str

    @property
    def pointer(self) -> str:
        """The C type of a pointer to an element of it, through which atomics act."""
        return f"volatile {self.space} {ELEMENT[self.element]}*"


@dataclass(slots=True)
class Copies:
    """The asynchronous copies of one tag, by the identity of the statement that starts each."""

    number: int
    started: dict[int, tuple[int, AsyncLoad | AsyncStore]]


class Writer:
    """Collects the body of a kernel.

    ``counts_steps``: loops count the back-edges of their lane.  ``top`` holds declarations for the whole kernel,
    ``traps`` the tags of the sites that may trap, in the order of their words of status, and ``captured_nbytes`` the
    bytes that a lane keeps for asynchronous copies.
    """

    def __init__(self, program: Program, *, counts_steps: bool) -> None:
        self.program: Final = program
        self.counts_steps: Final = counts_steps
        self.lines: Final[list[str]] = []
        self.top: Final[list[str]] = []
        self.locals: Final[ScopedNames[Value]] = ScopedNames()
        self.functions: Final[dict[str, str]] = {}
        self.traps: Final[list[str]] = []
        self.copies: Final[dict[str, Copies]] = {}
        self.captured_nbytes: int = 0
        self.places: Final = {b.name: _place(b, number) for number, b in enumerate(program.buffers)}
        self._names = 0

    def line(self, text: str) -> None:
        """Adds a line."""
        self.lines.append(text)

    def name(self, letter: str) -> str:
        """Returns a new name."""
        self._names += 1
        return f"{letter}{self._names}"

    def keep(self, text: str, dtype: ScalarType) -> Value:
        """Evaluates a C expression now, and returns its value."""
        name = self.name("t")
        self.line(f"{VALUE[dtype]} {name} = {text};")
        return Value(name, dtype)


def unsupported(feature: str, fix: str | None = None) -> UnsupportedFeature:
    """Returns the error for something that this backend does not offer."""
    return UnsupportedFeature(feature=feature, backend=NAME, fix=fix)


def _place(buffer: Buffer, number: int) -> Place:
    element = buffer.element
    assert isinstance(element, ScalarType)
    if buffer.is_bound:
        return Place(buffer, element, f"b{number}", f"n{number}", "__global")
    return Place(buffer, element, f"b{number}", f"{buffer.count}u", "__local" if buffer.is_workgroup else "__private")
