"""The pass ``numbering`` with equal expressions found on a device: the same program and counts as on the host."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from vyre.app.device_passes import numbering_kernels as kernels
from vyre.app.device_passes.numbering_kernels import How
from vyre.domain.ir.expr import IMPURE, LEAVES, Binary, Load, Var
from vyre.domain.ir.operators import COMMUTING
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import IndirectDispatch
from vyre.domain.ir.walk import containers
from vyre.domain.optimize.flat_facts import ATOMIC, padded, uses
from vyre.domain.optimize.flat_program import NODE_KINDS, NONE, FlatProgram, Lists, Row, flatten
from vyre.domain.optimize.flow import DependenceFacts
from vyre.domain.optimize.numbering import LEAF_KEYS, First, Sharing
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.walking import rewritten_by, with_unique_locals
from vyre.domain.validation.grid_barriers import splits_grid

if TYPE_CHECKING:
    from vyre.app.device_passes.rounds import Rounds, Words

_COMMUTING: Final = tuple(op.value for op in COMMUTING)
_IMPURE: Final = tuple(NODE_KINDS[kind] for kind in IMPURE)
_VAR, _LOAD, _BINARY = NODE_KINDS[Var], NODE_KINDS[Load], NODE_KINDS[Binary]


def share(program: Program, counts: Counts, rounds: Rounds) -> Program:
    """Returns what ``vyre.domain.optimize.numbering`` returns, and counts the same."""
    flat = flatten(with_unique_locals(program))
    firsts = _found(flat, rounds) if len(flat.roots.items) else []
    return rewritten_by(partial(Sharing, firsts=firsts), program, counts)


def _found(flat: FlatProgram, rounds: Rounds) -> list[First]:
    """Returns the first expressions that have later ones, in the order in which the second ones stand."""
    places = len(flat.roots.items)
    evaluated = uses(flat, Lists(np.arange(places + 1, dtype=np.uint32), flat.roots.items))
    uses_start = np.searchsorted(evaluated.row, np.arange(places + 1)).astype(np.uint32)
    atomic_places = evaluated.row[flat.node_kind[evaluated.node] == ATOMIC]
    rows, nodes = _rows(flat, atomic_places), _nodes(flat)
    room, slots = _room(flat, len(evaluated.node), rows)
    inputs = {
        "rows": rows,
        "nodes": nodes,
        "places": np.stack([np.append(flat.roots.items, np.uint32(0)), uses_start]),
        "uses": padded(evaluated.node),
        **room,
        "buffers_at": np.uint32(len(flat.locals)),
        "mask": np.uint32(slots - 1),
    }
    result = rounds.once(kernels.number_rows.program, 1, inputs)
    firsts, matches = result["firsts"], result["matches"]
    names = list(flat.locals)
    by_number: dict[int, First] = {}
    for match in range(int(result["totals"][1])):
        number = int(matches[kernels.OF_FIRST, match])
        first = by_number.get(number)
        if first is None:
            node, place, _, local = (int(line) for line in firsts[:, number])
            name = None if local == NONE else names[local]
            first = by_number[number] = First(flat.exprs[node], place + 1, 0, name)
        later = flat.exprs[int(matches[kernels.LATER, match])]
        first.later.append((int(matches[kernels.LATER_AT, match]) + 1, later))
    return list(by_number.values())


def _rows(flat: FlatProgram, atomic_places: Words) -> Words:
    """Returns the matrix of the rows."""
    buffers_at, fence = len(flat.locals), len(flat.locals) + len(flat.program.buffers)
    kind = flat.row_kind
    change = np.full(flat.rows, NONE, np.uint32)
    assigns, stores = kind == Row.ASSIGN, kind == Row.STORE
    assigned = np.zeros(len(flat.locals) + 1, np.bool_)
    assigned[flat.row_local[assigns]] = True
    change[assigns] = flat.row_local[assigns]
    change[stores] = flat.row_buffer[stores] + np.uint32(buffers_at)
    fences = (kind == Row.OTHER) & np.array([type(stmt) is not IndirectDispatch for stmt in flat.objects])
    change[fences | (kind == Row.GRID_LOOP)] = fence
    around = containers(flat.program.body, splits_grid)
    splits = [stmt is not None and (id(stmt) in around or splits_grid(stmt)) for stmt in flat.objects]
    place = flat.roots.start
    atomic = np.zeros(flat.rows, np.uint32)
    atomic[np.searchsorted(place, atomic_places, side="right") - 1] = 1
    lets = kind == Row.LET
    local = flat.row_local.copy()
    local[lets & assigned[np.minimum(local, len(flat.locals))]] = NONE
    return np.stack([kind, flat.links.opener, local, change, atomic, np.array(splits, np.uint32), place[:-1]])


def _nodes(flat: FlatProgram) -> Words:
    """Returns the matrix of the nodes."""
    facts = DependenceFacts(flat.program)
    classes: dict[object, int] = {}
    matrix = np.full((6, len(flat.exprs)), NONE, np.uint32)
    how, kind = matrix[kernels.HOW], flat.node_kind
    columns = zip(flat.exprs, kind.tolist(), flat.node_tag.tolist(), flat.node_name.tolist(), strict=True)
    keys: list[object] = [
        LEAF_KEYS[type(expr)](expr) if type(expr) in LEAVES and number != _VAR else (number, tag, name)
        for expr, number, tag, name in columns
    ]
    matrix[kernels.CLASS] = [classes.setdefault(key, len(classes)) for key in keys]
    matrix[kernels.NAME] = flat.node_name
    start, items = flat.operands
    for place, line in enumerate((kernels.A, kernels.B, kernels.C)):
        has = np.diff(start) > place
        matrix[line, has] = items[start[:-1][has] + place]
    how[:] = np.where(np.diff(start) > 0, How.OPERATOR, How.LEAF)
    assigned = np.array([name in facts.assigned for name in flat.locals], np.bool_)
    variables, loads = kind == _VAR, kind == _LOAD
    how[variables] = np.where(assigned[flat.node_name[variables]], How.ASSIGNED, How.FIXED)
    how[(kind == _BINARY) & np.isin(flat.node_tag, _COMMUTING)] = How.COMMUTING
    by_changes = (How.OPERATOR, How.LOAD, How.SHARED_LOAD)
    memory = np.array([by_changes[len(facts.memory(buffer.name))] for buffer in flat.program.buffers], np.uint32)
    how[loads] = memory[flat.node_name[loads]]
    how[np.isin(kind, _IMPURE)] = How.IMPURE
    return matrix


def _room(flat: FlatProgram, evaluated: int, rows: Words) -> tuple[dict[str, Words], int]:
    """Returns the arrays in which the walk keeps its state, and the number of slots of its table."""
    slots = 1 << (2 * evaluated + 2).bit_length()
    edges = int(np.diff(flat.operands.start).max(initial=0)) * evaluated + len(flat.roots.items) + 1
    changes = np.concatenate([[0], np.cumsum((rows[kernels.CHANGE] != NONE) + rows[kernels.ATOMIC].astype(np.int64))])
    loops = np.flatnonzero(np.isin(flat.row_kind, (Row.LOOP, Row.GRID_LOOP)))
    in_loops = int((changes[flat.links.end[loops]] - changes[loops] + 2).sum())
    logs = 2 * in_loops + int(changes[-1]) + 1
    shapes = {
        "times": len(flat.locals) + len(flat.program.buffers) + 1,
        "locals_": len(flat.locals) + 1,
        "numbers": len(flat.exprs),
        "expanded": len(flat.exprs),
        "table": slots,
        "keys": (6, slots),
        "log": (2, logs),
        "joined": logs,
        "scopes": (3, flat.rows),
        "firsts_of": evaluated + flat.rows + 1,
        "firsts": (4, evaluated + 1),
        "trail": (2, evaluated + 1),
        "stack": edges,
        "matches": (3, edges),
        "totals": 2,
    }
    return {name: np.zeros(shape, np.uint32) for name, shape in shapes.items()}, slots
