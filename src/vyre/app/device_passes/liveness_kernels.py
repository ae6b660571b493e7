"""The kernel that finds the rows of a flattened program which nobody can see, as ``vyre.domain.optimize.dead_code``.

Whether a row is kept depends on later rows only, so that a walk against the order of the program finds it in one round.
``settle`` gives such walks to several lanes, each over some rows.  A lane knows what it has found for the rows of its
own, and takes those of others from the last round.  The answer is the one state that no further round changes.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Literal

from vyre.app.device_passes.pass_kernel import pass_function, pass_kernel
from vyre.app.device_passes.reach_kernels import END, KIND, LINK, OPENER, OWNER
from vyre.domain.frontend.annotations import In, InOut
from vyre.domain.frontend.intrinsics import global_id
from vyre.domain.ir.types import u32, u64
from vyre.domain.optimize.flat_program import Row

LOOP, LOCAL, BUFFER, FLAGS, INDEX, READS, LOADS, INDEX_READS = range(6, 14)
"""Further lines of ``rows``: the innermost loop around a row; the local and the buffer that it writes; its ``Fact``;
the number of the index of a store, equal for equal ones; where the locals that a row reads begin, the buffers, and the
locals that the index reads.  Lists end where those of the next row begin.
"""
ASSIGNED, READERS, WRITERS = range(3)
"""The lines of ``names``: whether a local is assigned, and where the rows that read it begin, and those that write."""


class Fact(IntFlag):
    """The facts about a row, as bits."""

    IMPURE = 1
    """The row evaluates atomics or subgroup operations."""
    EFFECT = 2
    """A loop around it does something."""
    UNSEEN = 4
    """The row stores to a buffer that nobody reads."""
    LOADED_INDEX = 8
    """The row stores at an index that memory decides."""
    HAS_ELSE = 16
    """The row is an ``if`` with an ``ELSE``."""


class Verdict(IntEnum):
    """The fate of a row of the program."""

    KEPT = 0
    UNREAD = 1
    """Nothing reads the local."""
    DECLARED = 2
    """An assignment becomes the declaration of the local."""
    UNREAD_ASSIGNMENT = 3
    UNREAD_STORE = 4
    OVERWRITTEN = 5
    EMPTY = 6
    """Nothing is left in the branch or loop."""


@pass_function
def lists(items, starts, line, row, wanted):  # type: ignore[no-untyped-def]
    """Returns whether a list has an item."""
    has_item = False
    index = starts[line, row]
    while index < starts[line, row + 1] and not has_item:
        has_item = items[index] == wanted
        index += 1
    return has_item


@pass_function
def is_kept(verdicts, known, stop, row):  # type: ignore[no-untyped-def]
    """Returns whether a row stays, by what this round has found, else by what the last one had."""
    return (verdicts[row] if row < stop else known[row]) == Verdict.KEPT


@pass_function
def has_kept(rows, verdicts, known, stop, marker):  # type: ignore[no-untyped-def]
    """Returns whether a statement of the body that a row begins stays."""
    kept = False
    row = marker + 1
    while row < rows[LINK, marker] and not kept:
        kept = is_kept(verdicts, known, stop, row)
        row = rows[END, row] + 1
    return kept


@pass_function
def branch_verdict(rows, verdicts, known, stop, marker):  # type: ignore[no-untyped-def]
    """Returns the verdict on the body that a row begins."""
    verdict = u32(Verdict.EMPTY)
    if has_kept(rows, verdicts, known, stop, marker):
        verdict = u32(Verdict.KEPT)
    return verdict


@pass_function
def is_read_in(names, items, local, loop, end):  # type: ignore[no-untyped-def]
    """Returns whether a row of a loop reads a local, whether it stays or not."""
    reads = False
    index = names[READERS, local]
    while index < names[READERS, local + 1] and not reads:
        reader = items[index]
        reads = loop < reader and reader < end
        index += 1
    return reads


@pass_function
def is_live(rows, names, items, verdicts, known, stop, start):  # type: ignore[no-untyped-def]
    """Returns whether a row that stays may read the value that a row writes, on any path.

    The walk goes forward.  ``depth`` counts the branches that it has entered, ``fell`` has a bit for each: whether a
    lane comes from one of its bodies to its end.  ``left``: whether a lane leaves the loop around the walk.
    """
    local = rows[LOCAL, start]
    loop = rows[LOOP, start]
    row = start + 1
    depth = u32(0)
    fell = u64(0)
    left = False
    live = False
    walks = True
    while walks:
        kind = rows[KIND, row]
        ends = False
        reads = False
        after = row + 1
        if kind == Row.LET or kind == Row.ASSIGN:
            if is_kept(verdicts, known, stop, row):
                reads = lists(items, rows, READS, row, local)
                ends = rows[LOCAL, row] == local
        elif kind == Row.IF or kind == Row.SWITCH:
            if is_kept(verdicts, known, stop, row):
                reads = lists(items, rows, READS, row, local)
                fell = fell & ~(u64(1) << u64(depth))
                depth += 1
                if kind == Row.SWITCH:
                    after = rows[LINK, row] + 1
            else:
                after = rows[END, row] + 1
        elif kind == Row.LOOP or kind == Row.GRID_LOOP:
            after = rows[END, row] + 1
            if is_kept(verdicts, known, stop, row):
                reads = lists(items, rows, READS, row, local)
                if not reads:
                    reads = is_read_in(names, items, local, row, after)
        elif kind == Row.ELIF or kind == Row.ELSE or kind == Row.ARM or kind == Row.DEFAULT:
            if depth == 0:
                after = rows[END, rows[OPENER, row]] + 1
            else:
                fell = fell | u64(1) << u64(depth - 1)
                if kind == Row.ELIF and is_kept(verdicts, known, stop, row):
                    reads = lists(items, rows, READS, row, local)
        elif kind == Row.END:
            opener = rows[OPENER, row]
            what = rows[KIND, opener]
            if what == Row.PROGRAM:
                ends = True
            elif what == Row.LOOP or what == Row.GRID_LOOP:
                reads = is_read_in(names, items, local, opener, row)
                loop = rows[LOOP, opener]
                left = False
            elif what != Row.REGION and depth > 0:
                depth -= 1
        elif kind == Row.RETURN or kind == Row.TRAP:
            reads = lists(items, rows, READS, row, local)
            ends = True
        elif kind == Row.BREAK or kind == Row.CONTINUE:
            if kind == Row.CONTINUE:
                reads = is_read_in(names, items, local, loop, rows[END, loop])
            left = True
            ends = True
        elif kind != Row.REGION and is_kept(verdicts, known, stop, row):
            reads = lists(items, rows, READS, row, local)
        if reads:
            live = True
            walks = False
        elif ends:  # the next row to which a lane comes
            walks = False
            reader = row
            while not walks and depth > 0:
                owner = rows[OWNER, reader]
                reader = rows[LINK, owner]
                if rows[KIND, rows[OPENER, reader]] != Row.REGION:
                    if rows[KIND, reader] == Row.END:
                        depth -= 1
                        is_open = (rows[FLAGS, rows[OPENER, reader]] & Fact.HAS_ELSE) == 0
                        walks = is_open or (fell >> u64(depth) & 1) != 0
                    else:
                        walks = True
                        if rows[KIND, reader] == Row.ELIF and is_kept(verdicts, known, stop, reader):
                            live = lists(items, rows, READS, reader, local)
                    after = reader + 1
            if live:
                walks = False
            elif not walks and left:
                walks = True
                after = rows[END, loop] + 1
                loop = rows[LOOP, loop]
                left = False
        row = after
    return live


@pass_function
def is_overwritten(rows, items, verdicts, known, stop, start):  # type: ignore[no-untyped-def]
    """Returns whether the lane stores again at the same index before anybody can read what a row stores."""
    buffer = rows[BUFFER, start]
    over = False
    row = start + 1
    walks = True
    while walks:
        kind = rows[KIND, row]
        is_store = kind == Row.STORE
        is_region = kind == Row.REGION or (kind == Row.END and rows[KIND, rows[OPENER, row]] == Row.REGION)
        if kind == Row.LET or kind == Row.ASSIGN or is_store:
            if is_kept(verdicts, known, stop, row):
                walks = (rows[FLAGS, row] & Fact.IMPURE) == 0
                if walks:
                    walks = not lists(items, rows, LOADS, row, buffer)
                if kind == Row.ASSIGN and walks:
                    walks = not lists(items, rows, INDEX_READS, start, rows[LOCAL, row])
                if is_store and walks and rows[BUFFER, row] == buffer:
                    walks = False
                    over = rows[INDEX, row] == rows[INDEX, start] and (rows[FLAGS, row] & Fact.LOADED_INDEX) == 0
        else:
            walks = is_region
        row += 1
    return over


@pass_kernel
def settle(
    rows: In[u32, Literal[2]],
    names: In[u32, Literal[2]],
    items: In[u32],
    known: In[u32],
    verdicts: InOut[u32],
    first_write: InOut[u32],
    changed: InOut[u32],
    span: u32,
) -> None:
    """Finds the ``Verdict`` of each row of a lane, the last row first; ``changed`` tells whether one is a new one.

    A lane has ``span`` rows.  ``first_write``: the assignment that becomes the declaration, for a row that goes for it.
    """
    first = global_id() * span
    count = rows.shape[1] - 1
    if first < count:
        stop = min(first + span, count)
        row = stop
        while row > first:
            row -= 1
            kind = rows[KIND, row]
            flags = rows[FLAGS, row]
            verdict = u32(Verdict.KEPT)
            if (flags & Fact.IMPURE) == 0:
                if kind == Row.LET:
                    local = rows[LOCAL, row]
                    if names[ASSIGNED, local] == 0:
                        verdict = u32(Verdict.UNREAD)
                        index = names[READERS, local]
                        while index < names[READERS, local + 1] and verdict != Verdict.KEPT:
                            if is_kept(verdicts, known, stop, items[index]):
                                verdict = u32(Verdict.KEPT)
                            index += 1
                    elif not is_live(rows, names, items, verdicts, known, stop, row):
                        verdict = u32(Verdict.UNREAD)
                        index = names[WRITERS, local]
                        while index < names[WRITERS, local + 1]:
                            writer = items[index]
                            if rows[KIND, writer] == Row.ASSIGN and is_kept(verdicts, known, stop, writer):
                                verdict = u32(Verdict.KEPT)
                                if rows[OWNER, writer] == rows[OWNER, row]:
                                    verdict = u32(Verdict.DECLARED)
                                    first_write[row] = writer
                                break
                            index += 1
                elif kind == Row.ASSIGN:
                    if not is_live(rows, names, items, verdicts, known, stop, row):
                        verdict = u32(Verdict.UNREAD_ASSIGNMENT)
                elif kind == Row.STORE:
                    if (flags & Fact.UNSEEN) != 0:
                        verdict = u32(Verdict.UNREAD_STORE)
                    elif is_overwritten(rows, items, verdicts, known, stop, row):
                        verdict = u32(Verdict.OVERWRITTEN)
                elif kind == Row.IF or kind == Row.ELIF:
                    verdict = u32(Verdict.EMPTY)
                    other = rows[LINK, row]
                    what = rows[KIND, other]
                    if has_kept(rows, verdicts, known, stop, row) or (
                        what == Row.ELIF and is_kept(verdicts, known, stop, other)
                    ):
                        verdict = u32(Verdict.KEPT)
                    elif what == Row.ELSE:
                        verdict = branch_verdict(rows, verdicts, known, stop, other)
                elif kind == Row.SWITCH:
                    verdict = u32(Verdict.EMPTY)
                    marker = rows[LINK, row]
                    while marker != rows[END, row]:
                        if has_kept(rows, verdicts, known, stop, marker):
                            verdict = u32(Verdict.KEPT)
                        marker = rows[LINK, marker]
                elif kind == Row.ARM:
                    verdict = branch_verdict(rows, verdicts, known, stop, row)
                    marker = rows[LINK, row]
                    while rows[KIND, marker] == Row.ARM:
                        marker = rows[LINK, marker]
                    if has_kept(rows, verdicts, known, stop, marker):
                        verdict = u32(Verdict.KEPT)
                elif kind == Row.REGION:
                    verdict = branch_verdict(rows, verdicts, known, stop, row)
                elif kind == Row.LOOP:
                    verdict = u32(Verdict.EMPTY)
                    index = row + 1
                    while index < rows[END, row] and verdict != Verdict.KEPT:
                        if (rows[FLAGS, index] & Fact.EFFECT) != 0 and is_kept(verdicts, known, stop, index):
                            verdict = u32(Verdict.KEPT)
                        index += 1
            verdicts[row] = verdict
            if verdict != known[row]:
                changed[0] = 1
