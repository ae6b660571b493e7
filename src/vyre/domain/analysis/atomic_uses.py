"""The atomics of a program by buffer: their operators, whether their results are used, and how often they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.buffers import element_of
from vyre.domain.ir.expr import Atomic, Var
from vyre.domain.ir.node_facts import node_facts
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Program, kept_with_program
from vyre.domain.ir.stmt import Assign, Body, IndirectDispatch, Let, Loop, Stmt, bodies, literal_rounds, operands
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.record import U64_MAX, IntRange, record


@record
class AtomicUse:
    """The atomics of a program on one buffer that a caller binds.

    ``results_used``: an old value that an atomic returns may be used.  ``plain``: elements are also accessed otherwise
    than by atomics.  ``rounds``: how often a lane that takes every branch runs these atomics, where a loop whose bounds
    are not literals counts as one round.
    """

    buffer: str
    element: ScalarType
    ops: frozenset[AtomicOp]
    results_used: bool = False
    plain: bool = False
    rounds: Annotated[int, IntRange(1, U64_MAX)] = 1


@kept_with_program("atomic_uses")
def atomic_uses(program: Program) -> tuple[AtomicUse, ...]:
    """Returns the uses of a valid program, sorted by buffer; cached on it.  Linear in its nodes.

    Buffers in workgroup and private memory are left out.  A result counts as used if a local of the name to which it is
    bound is read anywhere.
    """
    return tuple(_uses(program)) if Atomic in node_facts(program).types else ()


def _uses(program: Program) -> Iterator[AtomicUse]:
    bound = {buffer.name: buffer for buffer in program.buffers if buffer.is_bound}
    ops: dict[str, set[AtomicOp]] = {}
    rounds: dict[str, int] = {}
    results: list[tuple[str, str]] = []
    used: set[str] = set()
    plain: set[str] = set()
    read: set[str] = set()
    for stmt, times in _statements(program.body):
        plain.update(use.buffer for use in accesses(stmt) if use.touch is not Touch.ATOMIC)
        if isinstance(stmt, IndirectDispatch):
            plain.add(stmt.buffer)
        for node in unique_nodes(operands(stmt)):
            if isinstance(node, Var):
                read.add(node.name)
            elif isinstance(node, Atomic):
                ops.setdefault(node.buffer, set()).add(node.op)
                rounds[node.buffer] = min(rounds.get(node.buffer, 0) + times, U64_MAX)
                if isinstance(stmt, Let | Assign) and node is stmt.value:
                    results.append((stmt.name, node.buffer))
                else:
                    used.add(node.buffer)
    used.update(buffer for local, buffer in results if local in read)
    for name in sorted(ops.keys() & bound.keys()):
        yield AtomicUse(name, element_of(bound[name]), frozenset(ops[name]), name in used, name in plain, rounds[name])


def _statements(body: Body) -> Iterator[tuple[Stmt, int]]:
    """Yields every statement with the number of times that a lane runs it; does not recurse."""
    stack = [(body, 1)]
    while stack:
        statements, times = stack.pop()
        for stmt in statements:
            yield stmt, times
            inside = min(times * (literal_rounds(stmt) or 1), U64_MAX) if isinstance(stmt, Loop) else times
            stack += ((nested, inside) for nested in bodies(stmt))
