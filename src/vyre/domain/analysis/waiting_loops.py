"""The loops that end when memory changes: a lane that spins there for another lane may wait for ever."""

from __future__ import annotations

from itertools import chain

from vyre.domain.ir import expr as e
from vyre.domain.ir import stmt as s
from vyre.domain.ir.program import Program


def waiting_loops(program: Program) -> tuple[str, ...]:
    """Returns what each loop of a program waits for that is left by a condition on writable memory, with its line."""
    writable = {buffer.name for buffer in program.buffers if buffer.is_writable}
    lines = []
    for loop in s.walk_statements(program.body):
        if isinstance(loop, s.Loop) and (names := sorted(_awaited(loop.body) & writable)):
            where = "a loop" if loop.loc is None else f"the loop at {loop.loc}"
            lines.append(f"{where} waits until `{'` or `'.join(names)}` changes")
    return tuple(lines)


def _awaited(body: s.Body) -> set[str]:
    """Returns the buffers that decide whether the body of a loop breaks."""
    values = {each.name: each.value for each in s.walk_statements(body) if isinstance(each, s.Let | s.Assign)}
    awaited: set[str] = set()
    waiting = [each.condition for each in s.walk_statements(body) if isinstance(each, s.If) and _breaks(each)]
    while waiting:
        for node in e.walk(waiting.pop()):
            if isinstance(node, e.Load | e.Atomic):
                awaited.add(node.buffer)
            elif isinstance(node, e.Var) and node.name in values:
                waiting.append(values.pop(node.name))
    return awaited


def _breaks(branch: s.If) -> bool:
    return any(isinstance(each, s.Break | s.Return) for each in chain(branch.then, branch.otherwise))
