"""The pass ``dead_code`` with its decisions made on a device: the same program and counts as on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vyre.app.device_passes import liveness_kernels as liveness
from vyre.app.device_passes import reach_kernels as reach
from vyre.app.device_passes.liveness_kernels import Fact, Verdict
from vyre.app.device_passes.reach_kernels import Fate
from vyre.domain.ir.program import Program
from vyre.domain.optimize.flat_facts import (
    ATOMIC,
    LOAD,
    VAR,
    classes,
    grouped,
    innermost_loops,
    is_impure,
    padded,
    uses,
)
from vyre.domain.optimize.flat_program import NONE, FlatProgram, Lists, Row, flatten, selected, unflatten
from vyre.domain.optimize.passes import Counts
from vyre.domain.optimize.walking import with_unique_locals

if TYPE_CHECKING:
    from vyre.app.device_passes.rounds import Rounds, Words

_EFFECTS: Final = (Row.ASSIGN, Row.STORE, Row.LOOP, Row.GRID_LOOP, Row.RETURN, Row.TRAP, Row.OTHER)
_COUNTED: Final = {
    Verdict.UNREAD: "unread",
    Verdict.DECLARED: "declared",
    Verdict.UNREAD_ASSIGNMENT: "unread_assignments",
    Verdict.UNREAD_STORE: "unread_stores",
    Verdict.OVERWRITTEN: "overwritten",
}


def remove_dead_code(program: Program, counts: Counts, rounds: Rounds) -> Program:
    """Returns what ``vyre.domain.optimize.dead_code`` returns, and counts the same."""
    flat = flatten(with_unique_locals(program))
    left = _live(_reached(flat, counts, rounds), counts, rounds)
    return program if left is flat else unflatten(left)


def _reached(flat: FlatProgram, counts: Counts, rounds: Rounds) -> FlatProgram:
    """Returns the rows that can run, with branches on literals decided and blocks opened."""
    count = flat.rows
    rows = np.stack([flat.row_kind, *flat.links, flat.roots.start[:-1]])
    labels = _labels(flat)
    literals = {
        "roots": padded(flat.roots.items),
        "nodes": padded(np.stack([flat.node_kind, flat.node_tag])),
        "bits": padded(flat.node_bits),
        "labels_start": labels[0],
        "labels": labels[1],
    }
    zeros = np.zeros(count, np.uint32)
    decided = rounds.once(
        reach.decide_branches.program, count, {"rows": rows, **literals, "fate": zeros, "decided": zeros}
    )
    inputs = {"rows": rows, "fate": decided["fate"]}
    inputs["ends_at"] = rounds.settled(reach.find_ends, count, inputs, "ends_at")["ends_at"]
    cut = rounds.once(reach.cut_rows.program, count, {**inputs, "last": zeros, "reached": zeros})
    fates = rounds.once(reach.trim_ends.program, count, {**inputs, **cut})["last"]
    is_reached = cut["reached"] == 1
    trimmed = (fates == Fate.TRIMMED) & (flat.row_kind == Row.CONTINUE)
    _count(counts, "unreachable", np.count_nonzero(fates == Fate.CUT) + np.count_nonzero(trimmed))
    _count(counts, "decided", decided["decided"][is_reached].sum())
    _count(counts, "opened", np.count_nonzero(is_reached & (flat.row_kind == Row.BLOCK)))
    stays = (fates == Fate.STAYS) | (fates == Fate.IF) | (fates == Fate.ELSE)
    kind = np.where(fates == Fate.IF, Row.IF, np.where(fates == Fate.ELSE, Row.ELSE, flat.row_kind)).astype(np.uint32)
    return flat if stays.all() and (kind == flat.row_kind).all() else selected(flat, stays, kind)


def _live(flat: FlatProgram, counts: Counts, rounds: Rounds) -> FlatProgram:
    """Returns the rows of a program without unreachable ones that somebody can see."""
    links, count = flat.links, flat.rows
    used = uses(flat, flat.roots)
    kinds, names = flat.node_kind[used.node], flat.node_name[used.node]
    reads = grouped(used.row[kinds == VAR], names[kinds == VAR], count)
    loads = grouped(used.row[kinds == LOAD], names[kinds == LOAD], count)
    stores = flat.row_kind == Row.STORE
    index = np.full(count, NONE, np.uint32)
    first = np.where(stores, flat.roots.start[:-1], 0)
    index[stores] = classes(flat, flat.roots.items[first[stores]])
    index_start = np.zeros(count + 1, np.uint32)
    np.cumsum(stores, out=index_start[1:])
    in_index = uses(flat, Lists(index_start, flat.roots.items[first[stores]]))
    index_kinds = flat.node_kind[in_index.node]
    is_local = index_kinds == VAR
    index_reads = grouped(in_index.row[is_local], flat.node_name[in_index.node][is_local], count)

    flags = np.zeros(count, np.uint32)
    impure = is_impure(flat, used)
    flags[impure] |= np.uint32(Fact.IMPURE | Fact.EFFECT)
    flags[np.isin(flat.row_kind, _EFFECTS)] |= np.uint32(Fact.EFFECT)
    flags[stores & np.isin(flat.row_buffer, _unseen(flat, names, kinds))] |= np.uint32(Fact.UNSEEN)
    flags[in_index.row[index_kinds == LOAD]] |= np.uint32(Fact.LOADED_INDEX)
    flags[links.opener[flat.row_kind == Row.ELSE]] |= np.uint32(Fact.HAS_ELSE)

    locals_ = len(flat.locals)
    writes = np.isin(flat.row_kind, (Row.LET, Row.ASSIGN))
    row_numbers = np.arange(count, dtype=np.uint32)
    readers = grouped(names[kinds == VAR], used.row[kinds == VAR], locals_)
    writers = grouped(flat.row_local[writes], row_numbers[writes], locals_)
    assigned = np.zeros(locals_ + 1, np.uint32)
    assigned[flat.row_local[flat.row_kind == Row.ASSIGN]] = 1

    items, starts = _joined(reads, loads, index_reads, readers, writers)
    rows = np.stack(
        [
            *(flat.row_kind, *links, flat.roots.start[:-1]),
            *(innermost_loops(flat), flat.row_local, flat.row_buffer, flags, index),
            *[start[:-1] for start in starts[:3]],
        ]
    )
    verdicts = rounds.settled(
        liveness.settle,
        count,
        {"rows": rows, "names": np.stack([assigned, starts[3], starts[4]]), "items": padded(items)},
        "verdicts",
        ("first_write",),
    )
    return _without(flat, verdicts["verdicts"], verdicts["first_write"], counts)


def _without(flat: FlatProgram, verdicts: Words, first_write: Words, counts: Counts) -> FlatProgram:
    for verdict, name in _COUNTED.items():
        _count(counts, name, np.count_nonzero(verdicts == verdict))
    empty = verdicts == Verdict.EMPTY
    _count(counts, "empty", np.count_nonzero(empty & np.isin(flat.row_kind, (Row.IF, Row.ELIF, Row.SWITCH, Row.LOOP))))
    if not verdicts.any():
        return flat
    kind = flat.row_kind.copy()
    kind[first_write[verdicts == Verdict.DECLARED]] = Row.LET
    stays = verdicts == Verdict.KEPT
    links = flat.links
    for row in np.flatnonzero(empty):
        last = links.end[row] if flat.row_kind[row] not in (Row.ELIF, Row.ARM) else links.link[row] - 1
        stays[row : last + 1] = False
    return selected(flat, stays, kind)


def _unseen(flat: FlatProgram, names: Words, kinds: Words) -> Words:
    """Returns the buffers in private and workgroup memory that no row reads."""
    own = [place for place, buffer in enumerate(flat.program.buffers) if not buffer.is_bound]
    seen = np.union1d(flat.row_source, names[np.isin(kinds, (LOAD, ATOMIC))])
    return np.setdiff1d(np.array(own, np.uint32), seen)


def _labels(flat: FlatProgram) -> tuple[Words, Words]:
    """Returns the bits of the labels of each arm."""
    arms = [
        [label.bits for label in flat.objects[row].labels] if kind == Row.ARM else []
        for row, kind in enumerate(flat.row_kind)
    ]
    start = np.zeros(len(arms) + 1, np.uint32)
    np.cumsum([len(labels) for labels in arms], out=start[1:])
    return start, padded(np.array([bits for labels in arms for bits in labels], np.uint64))


def _joined(*lists: Lists) -> tuple[Words, list[Words]]:
    """Returns the items of several columns of lists in one, and where the lists of each begin in it."""
    starts, before = [], 0
    for columns in lists:
        starts.append(columns.start + np.uint32(before))
        before += len(columns.items)
    return np.concatenate([column.items for column in lists]), starts


def _count(counts: Counts, name: str, number: Any) -> None:
    if number:
        counts[name] += int(number)
