"""The versions of the written forms, and what the first one lacks; ``limits.form_version`` tells which a program needs.

Version 3 has no definitions and calls.  Version 2 has no grid loops either.  Version 1 has no narrow values, no
wrapping casts, private memory, one-byte bools, ``round_even`` or ``switch`` either, and counts every link of a chain of
``else if`` as one level of nesting.
"""

from __future__ import annotations

from typing import Final

from vyre.domain.ir.buffers import Access, MemoryKind
from vyre.domain.ir.expr import Narrow, Pack, Unpack, WrapCast
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.types import ReservedType, ScalarType

FIRST: Final = 1
SECOND: Final = 2
THIRD: Final = 3
FOURTH: Final = 4

LATER_EXPRESSIONS: Final = (Narrow, Pack, Unpack, WrapCast)
"""The expressions that version 1 does not have."""
LATER_OPERATORS: Final = frozenset({UnaryOp.ROUND_EVEN})
LATER_TYPES: Final = frozenset({ScalarType.BOOL8})
LATER_ACCESSES: Final = frozenset({Access.PRIVATE})
LATER_KINDS: Final = frozenset({MemoryKind.PRIVATE})


def has_later_type(found: object) -> bool:
    """Returns whether version 1 lacks a type or one inside it; ``MAX_TYPE_DEPTH`` bounds the nesting."""
    if isinstance(found, ReservedType):
        return any(map(has_later_type, found.args))
    return isinstance(found, ScalarType) and found in LATER_TYPES
