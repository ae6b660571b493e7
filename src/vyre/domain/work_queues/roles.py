"""The parts that buffers of a program play in a work queue, and what a program must be to drain one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.frozen import frozen
from vyre.domain.ir import nodes as ir
from vyre.domain.ir.accesses import Touch, accesses
from vyre.domain.ir.buffers import Access, Buffer
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_nodes

_STATEMENTS: Final = (
    ir.Let,
    ir.Assign,
    ir.Store,
    ir.If,
    ir.Switch,
    ir.Loop,
    ir.Break,
    ir.Continue,
    ir.Return,
    ir.Block,
    ir.Region,
)


@frozen
class QueueRoles:
    """The names of the buffers of a step program that belong to its queue.

    ``items`` holds the items of a launch, of which lane i takes element i.  ``pushed`` takes the items that the lanes
    add, at places that they reserve by adding to element 0 of ``count``.  All three hold u32.
    """

    items: str
    pushed: str
    count: str


@frozen
class CannotDrain:
    """A program drains no work queue, for ``reason``; ``fix`` says what to write instead."""

    reason: str
    fix: str


def is_item_number(node: object) -> bool:
    """Returns whether a node is the number of the lane along x, which is that of its item."""
    return isinstance(node, ir.LaunchId) and node.kind is ir.IdKind.GLOBAL and node.axis == 0


def item_numbers(program: Program) -> frozenset[str]:
    """Returns the locals that always hold the number of the item: those bound to it and never assigned."""
    lets: dict[str, bool] = {}
    for stmt in ir.walk_statements(program.body):
        if isinstance(stmt, ir.Let):
            lets[stmt.name] = lets.get(stmt.name, True) and is_item_number(stmt.value)
        elif isinstance(stmt, ir.Assign):
            lets[stmt.name] = False
        elif isinstance(stmt, ir.Loop):
            lets[stmt.var] = False
    return frozenset(name for name, only in lets.items() if only)


def obstacle(program: Program, roles: QueueRoles) -> CannotDrain | None:
    """Returns why a valid program cannot drain a queue with these buffers, or None.  Linear in its nodes."""
    return next(_obstacles(program, roles), None)


def _obstacles(program: Program, roles: QueueRoles) -> Iterator[CannotDrain]:
    yield from _declarations(program, roles)
    numbers = item_numbers(program)
    for stmt in ir.walk_statements(program.body):
        if isinstance(stmt, ir.Barrier):
            yield CannotDrain("it has barriers", "let each lane handle its item by itself.")
        elif not isinstance(stmt, _STATEMENTS):
            yield CannotDrain(
                f"it has a statement of the kind {type(stmt).__name__}", "use branches, loops, stores and atomics."
            )
        yield from _uses(stmt, roles)
        for node in unique_nodes(ir.operands(stmt)):
            if type(node) in ir.OF_SUBGROUP:
                yield CannotDrain("it has subgroup operations", "let each lane handle its item by itself.")
            elif isinstance(node, ir.LaunchId) and not is_item_number(node):
                yield CannotDrain("it uses the place of a lane in the grid", "use the global id along x alone.")
            elif isinstance(node, ir.Load) and node.buffer == roles.items:
                known = is_item_number(node.index) or (isinstance(node.index, ir.Var) and node.index.name in numbers)
                if not known:
                    yield CannotDrain(
                        f"it loads other elements of `{roles.items}` than that of its global id",
                        f"load {roles.items}[vyre.global_id()] only.",
                    )


def _declarations(program: Program, roles: QueueRoles) -> Iterator[CannotDrain]:
    if len({roles.items, roles.pushed, roles.count}) < 3:
        yield CannotDrain("its items, pushed items and their count are not three buffers", "name three buffers.")
    if program.workgroup_size[1:] != (1, 1):
        yield CannotDrain(f"its workgroups are {program.workgroup_size} lanes", "use workgroups along x alone.")
    for name in (roles.items, roles.pushed, roles.count):
        buffer = program.buffers_by_name.get(name)
        if buffer is None or not buffer.is_bound or buffer.is_push:
            yield CannotDrain(f"it has no buffer `{name}`", "name buffers of the program.")
            continue
        access = Access.READ_ONLY if name == roles.items else Access.READ_WRITE
        most = 1 if name == roles.count else 0
        if buffer.element is not ScalarType.U32 or buffer.access is not access or buffer.count > most:
            what = "In[u32]" if name == roles.items else "InOut[u32]"
            yield CannotDrain(f"`{name}` is {_told(buffer)}", f"declare it as {what}.")
    for buffer in program.buffers:
        if not buffer.is_bound:
            yield CannotDrain(f"`{buffer.name}` is memory of a workgroup or a lane", "keep values in locals.")
        elif buffer.is_output:
            yield CannotDrain(
                f"`{buffer.name}` is an output, which each launch zeroes", "declare it as InOut and bind an array."
            )


def _told(buffer: Buffer) -> str:
    many = f"{buffer.count} elements" if buffer.count else "an array"
    return f"{buffer.access.name.lower()} memory, {many} of {buffer.element.text}"


def _uses(stmt: object, roles: QueueRoles) -> Iterator[CannotDrain]:
    """Yields what a statement does with the buffers of the queue that it may not do."""
    allowed = {roles.items: Touch.READ, roles.pushed: Touch.WRITE, roles.count: Touch.ATOMIC}
    what = {roles.items: "loaded", roles.pushed: "stored to", roles.count: "updated by atomics"}
    for use in accesses(stmt):  # type: ignore[arg-type]
        if use.buffer in allowed and use.touch is not allowed[use.buffer]:
            yield CannotDrain(f"`{use.buffer}` is not only {what[use.buffer]}", "use another buffer for that.")
    for node in unique_nodes(ir.operands(stmt)):  # type: ignore[arg-type]
        if isinstance(node, ir.Atomic) and node.buffer == roles.count:
            first = isinstance(node.index, ir.Literal) and node.index.bits == 0
            if node.op is not AtomicOp.ADD or not first:
                yield CannotDrain(
                    f"`{roles.count}` is updated otherwise than by adding to its element 0",
                    f"reserve places with {roles.count}.atomic_add(0, n).",
                )
