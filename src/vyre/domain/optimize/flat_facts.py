"""Columns that tell what the rows of a flattened program read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from vyre.domain.ir.expr import IMPURE, Atomic, Load, Var
from vyre.domain.optimize.flat_program import NODE_KINDS, NONE, FlatProgram, Lists, Row
from vyre.domain.optimize.static_types import StaticTypes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.domain.optimize.flat_program import Column

_IMPURE: Final = tuple(NODE_KINDS[kind] for kind in IMPURE)
"""The numbers of the classes of expressions that are never dropped."""


class Uses(NamedTuple):
    """The pairs of a row and a node that it evaluates, in ascending order of rows and of nodes in a row."""

    row: Column
    node: Column


def uses(flat: FlatProgram, roots: Lists) -> Uses:
    """Returns the nodes of the expressions that rows have as roots, each once for a row.  O(nodes) for each row that
    shares them.
    """
    import numpy as np

    count = np.uint64(max(1, len(flat.node_kind)))
    start, items = flat.operands
    below = (start[1:] - start[:-1]).astype(np.int64)
    keys = np.unique(
        np.repeat(np.arange(len(roots.start) - 1, dtype=np.uint64), np.diff(roots.start)) * count + roots.items
    )
    seen = keys
    while len(keys):
        node = (keys % count).astype(np.int64)
        sizes = below[node]
        first = np.repeat(start[node].astype(np.int64) - np.cumsum(sizes) + sizes, sizes)
        operands = items[first + np.arange(int(sizes.sum()))]
        rows = np.repeat(keys // count, sizes)
        keep = operands != NONE
        keys = np.unique(rows[keep] * count + operands[keep])
        keys = keys[~_among(keys, seen)]
        seen = np.union1d(seen, keys)
    return Uses((seen // count).astype(np.uint32), (seen % count).astype(np.uint32))


def _among(keys: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    import numpy as np

    place = np.minimum(np.searchsorted(known, keys), max(0, len(known) - 1))
    is_known: npt.NDArray[np.bool_] = known[place] == keys
    return is_known


def grouped(key: Column, item: Column, groups: int) -> Lists:
    """Returns the items of each key, each item once and in ascending order."""
    import numpy as np

    pairs = np.unique(key.astype(np.uint64) << np.uint64(32) | item)
    key = (pairs >> np.uint64(32)).astype(np.int64)
    start = np.zeros(groups + 1, np.uint32)
    np.cumsum(np.bincount(key, minlength=groups), out=start[1:])
    return Lists(start, (pairs & np.uint64(0xFFFF_FFFF)).astype(np.uint32))


def innermost_loops(flat: FlatProgram) -> Column:
    """Returns the innermost loop around each row; of a loop and its ``END`` the one around them."""
    import numpy as np

    innermost = [NONE] * flat.rows
    loops: list[int] = []
    for row, kind in enumerate(flat.row_kind.tolist()):
        is_end = kind == Row.END and flat.row_kind[flat.links.opener[row]] in (Row.LOOP, Row.GRID_LOOP)
        if is_end:
            loops.pop()
        if loops:
            innermost[row] = loops[-1]
        if kind in (Row.LOOP, Row.GRID_LOOP):
            loops.append(row)
    return np.array(innermost, np.uint32)


def levels(flat: FlatProgram) -> Lists:
    """Returns the nodes of each level: those without operands, and then those whose operands are below."""
    import numpy as np

    start, items = flat.operands.start.tolist(), flat.operands.items.tolist()
    level: list[int] = []
    for node in range(len(flat.exprs)):
        below = [level[operand] for operand in items[start[node] : start[node + 1]] if operand != NONE]
        level.append(max(below) + 1 if below else 0)
    order = np.argsort(level, kind="stable").astype(np.uint32)
    starts = np.zeros(max(level, default=-1) + 2, np.uint32)
    np.cumsum(np.bincount(level), out=starts[1:])
    return Lists(starts, order)


def node_types(flat: FlatProgram) -> Column:
    """Returns the tags of the types of the values of nodes."""
    import numpy as np

    types = StaticTypes(flat.program)
    types.declare_all(flat.objects)
    return np.array([types.of(expr).value for expr in flat.exprs], np.uint32)


def padded(items: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array that is not empty, as buffers must not be."""
    import numpy as np

    return items if items.size else np.zeros((*items.shape[:-1], 1), items.dtype)


def classes(flat: FlatProgram, wanted: Column) -> Column:
    """Returns a number for each of these nodes, the same for equal expressions; wherever they stand in the source."""
    import numpy as np

    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(flat.exprs[node], len(numbers)) for node in wanted.tolist()], np.uint32)


def is_impure(flat: FlatProgram, used: Uses) -> npt.NDArray[np.bool_]:
    """Returns of each row whether it evaluates an atomic or a subgroup operation."""
    import numpy as np

    impure = np.zeros(flat.rows, np.bool_)
    impure[used.row[np.isin(flat.node_kind[used.node], _IMPURE)]] = True
    return impure


VAR: Final = NODE_KINDS[Var]
LOAD: Final = NODE_KINDS[Load]
ATOMIC: Final = NODE_KINDS[Atomic]
