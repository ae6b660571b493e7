"""The version of the written forms that a program needs: the oldest one that holds it.

Version 1 has no narrow values, wrapping casts, private memory, one-byte bools, ``round_even`` or ``switch``, and counts
every link of a chain of ``else if`` as one level of nesting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vyre.domain.ir.buffers import Access, MemoryKind
from vyre.domain.ir.expr import Bitcast, Cast, Narrow, Pack, Unary, Unpack, WrapCast
from vyre.domain.ir.limits import MAX_STATEMENT_DEPTH
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.stmt import Body, Switch, bodies
from vyre.domain.ir.types import ReservedType, ScalarType
from vyre.domain.ir.walk import unique_expressions

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

FIRST: Final = 1
SECOND: Final = 2

LATER_EXPRESSIONS: Final = (Narrow, Pack, Unpack, WrapCast)
"""The expressions that version 1 does not have."""
LATER_OPERATORS: Final = frozenset({UnaryOp.ROUND_EVEN})
LATER_TYPES: Final = frozenset({ScalarType.BOOL8})
LATER_ACCESSES: Final = frozenset({Access.PRIVATE})
LATER_KINDS: Final = frozenset({MemoryKind.PRIVATE})
_CACHED: Final = "form version"


def form_version(program: Program) -> int:
    """Returns the version of the wire and JSON forms in which a program is written.

    The program must be within the structural limits (``check_writable``).  The answer is cached on the program.
    """
    found = program._cache.get(_CACHED)
    if not isinstance(found, int):
        found = program._cache[_CACHED] = SECOND if _needs_second(program) else FIRST
    return found


def _needs_second(program: Program) -> bool:
    for buffer in program.buffers:
        if buffer.access in LATER_ACCESSES or buffer.kind in LATER_KINDS or has_later_type(buffer.element):
            return True
    pending: list[tuple[Body, int]] = [(program.body, 0)]
    while pending:
        body, depth = pending.pop()
        if body and depth > MAX_STATEMENT_DEPTH:
            return True
        for stmt in body:
            if type(stmt) is Switch:
                return True
            pending += [(nested, depth + 1) for nested in bodies(stmt)]
    for node in unique_expressions(program):
        if isinstance(node, LATER_EXPRESSIONS):
            return True
        if isinstance(node, Unary) and node.op in LATER_OPERATORS:
            return True
        if isinstance(node, Cast | Bitcast) and node.dtype in LATER_TYPES:
            return True
    return False


def has_later_type(found: object) -> bool:
    """Returns whether version 1 lacks a type or one inside it; ``MAX_TYPE_DEPTH`` bounds the nesting."""
    if isinstance(found, ReservedType):
        return any(map(has_later_type, found.args))
    return isinstance(found, ScalarType) and found in LATER_TYPES
