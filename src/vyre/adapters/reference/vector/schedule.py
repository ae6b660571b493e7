"""Decides which programs may run several workgroups at once and still return the canonical bytes."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from vyre.domain.ir.expr import Atomic, Load, walk
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import AsyncLoad, AsyncStore, Loop, Store, operands, walk_statements


def touches_written_buffers_once(program: Program) -> bool:
    """Returns whether every buffer that is written is accessed in one place only, outside loops.

    Its lanes then access it in the canonical order in any chunk of consecutive workgroups.
    """
    touched: Counter[str] = Counter()
    written: set[str] = set()
    apart = {b.name for b in program.buffers if not b.is_bound}
    loops = [stmt for stmt in walk_statements(program.body) if isinstance(stmt, Loop)]
    repeated = {id(stmt) for loop in loops for stmt in walk_statements(loop.body)}
    for stmt in walk_statements(program.body):
        weight = 2 if id(stmt) in repeated else 1
        match stmt:
            case Store(buffer, _, _):
                touched[buffer] += weight
                written.add(buffer)
            case AsyncLoad(source, destination) | AsyncStore(source, destination):
                touched.update((source, destination))
                written.add(destination)
            case _:
                pass
        for expr in chain.from_iterable(map(walk, operands(stmt))):  # what is shared counts at every use
            if isinstance(expr, Load | Atomic):
                touched[expr.buffer] += weight
                if isinstance(expr, Atomic):
                    written.add(expr.buffer)
    return all(touched[name] == 1 for name in written - apart)
