"""Detection of names that a block binds to another value and that are read after it.

    best = a
    with p.if_(b > a):
        best = b  # Python binds the name, whatever the lanes do
    y[i] = best  # always b

Values that are made inside a block remember it (``scopes``); ``b`` was made before, so only the name reveals the
mistake.  The names of the function that opens a block are noted when it starts and compared when it has ended; later
reads of a name are found in the function's bytecode, in the order of the code.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Final, NamedTuple

from vyre.domain.ir.foreign_use import ForeignBufferUse
from vyre.domain.ir.numpy_scalars import is_numpy
from vyre.domain.ir.value import Value

_NOT_NAMES: Final = ("ATTR", "METHOD", "CONST", "ITEM", "SLICE", "SUBSCR", "BUILD", "CLEAR")


class Rebinding(NamedTuple):
    """A name that a block binds, with the lines that bind it and that read it."""

    name: str
    bound_at: int
    read_at: int


class Bindings:
    """The values of the names of one frame when a block starts."""

    __slots__ = ("_code", "_values")

    def __init__(self, frame: FrameType) -> None:
        self._code: CodeType = frame.f_code
        self._values: Mapping[str, object] = {
            name: value
            for name, value in frame.f_locals.items()
            if isinstance(value, Value | ForeignBufferUse | int | float) or is_numpy(value)
        }

    def rebound(self, frame: FrameType) -> Rebinding | None:
        """Returns the first name that ``frame`` reads after the block, and that has another value since, or None.

        Numbers that replace numbers are ignored: they are plain Python, such as counters of recorded statements.
        """
        if frame.f_code is not self._code:
            return None
        now = frame.f_locals
        for name, value in self._values.items():
            new = now.get(name, value)
            if new is not value and _is_lost(value, new) and (rebinding := _read_later(frame, name)):
                return rebinding
        return None


def _is_lost(old: object, new: object) -> bool:
    if isinstance(new, Value) and new.scope is not None and new.scope.ended:
        return False  # the use of such a value is refused elsewhere
    things = (Value, ForeignBufferUse)
    is_operand = isinstance(new, (*things, int, float)) or is_numpy(new)
    return is_operand and (isinstance(old, things) or isinstance(new, things))


def _read_later(frame: FrameType, name: str) -> Rebinding | None:
    bound_at = line = frame.f_lineno
    for instruction in dis.get_instructions(frame.f_code):
        line = (instruction.positions.lineno if instruction.positions else None) or line
        for action, used in _names(instruction):
            if used != name:
                continue
            if instruction.offset <= frame.f_lasti:
                bound_at = line if action == "STORE" else bound_at
            else:
                return Rebinding(name, bound_at, line) if action == "LOAD" else None
    return None


def _names(instruction: dis.Instruction) -> Iterator[tuple[str, str]]:
    """Yields LOAD, STORE or DELETE with the names concerned; some instructions do two of these at once."""
    if any(word in instruction.opname for word in _NOT_NAMES):
        return
    actions = [word for word in instruction.opname.split("_") if word in ("LOAD", "STORE", "DELETE")]
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    yield from ((action, name) for action, name in zip(actions, names, strict=False) if isinstance(name, str))
