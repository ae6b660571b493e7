"""Kernels that find the rows of a flattened program which can run, as ``vyre.domain.optimize.dead_code`` does.

In ``rows`` each column of a flattened program is a line.  A launch has one lane for each row, except for ``find_ends``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Literal

from vyre.app.device_passes.pass_kernel import pass_function, pass_kernel
from vyre.domain.frontend.annotations import In, InOut
from vyre.domain.frontend.intrinsics import global_id
from vyre.domain.ir.types import i32, i64, u32, u64
from vyre.domain.optimize.flat_program import LITERAL, NONE, Row

KIND, OWNER, OPENER, LINK, END, ROOTS = range(6)
"""The lines of ``rows``: ``row_kind``, the columns of ``Links``, and where the roots of a row begin."""
I32_TAG: Final = 0x02
I64_TAG: Final = 0x12


class Fate(IntEnum):
    """The fate of a row of the program."""

    STAYS = 0
    GOES = 1
    """The row goes, with the body that it begins."""
    OPENS = 2
    """The row goes, and the body that it begins becomes a part of the body around it."""
    IF = 3
    """The row stays, as an ``IF``."""
    ELSE = 4
    """The row stays, as an ``ELSE``."""
    CUT = 5
    """The row is a statement behind the end of a path."""
    TRIMMED = 6
    """The row ends a path that ends there by itself."""


@pass_function
def is_literal(rows, roots, nodes, row, place):  # type: ignore[no-untyped-def]
    """Returns whether a root of a row is a literal."""
    return nodes[0, roots[rows[ROOTS, row] + place]] == LITERAL


@pass_function
def never_runs(rows, roots, nodes, bits, row):  # type: ignore[no-untyped-def]
    """Returns whether literal bounds leave a loop without a round."""
    none = False
    if (
        is_literal(rows, roots, nodes, row, 0)
        and is_literal(rows, roots, nodes, row, 1)
        and is_literal(rows, roots, nodes, row, 2)
    ):
        first = rows[ROOTS, row]
        tag = nodes[1, roots[first]]
        start, stop, step = bits[roots[first]], bits[roots[first + 1]], bits[roots[first + 2]]
        if tag in (I32_TAG, I64_TAG):
            a, b, by = i64(start), i64(stop), i64(step)
            if tag == I32_TAG:
                a, b, by = i64(i32(start)), i64(i32(stop)), i64(i32(step))
            none = a <= b if by < 0 else a >= b
        else:
            none = start >= stop
    return none


@pass_kernel
def decide_branches(
    rows: In[u32, Literal[2]],
    roots: In[u32],
    nodes: In[u32, Literal[2]],
    bits: In[u64],
    labels_start: In[u32],
    labels: In[u64],
    fate: InOut[u32],
    decided: InOut[u32],
) -> None:
    """Decides the branches on literals.

    ``nodes`` has the class and the tag of each node, ``bits`` the bits of literals, ``labels`` those of the labels of
    each arm.  ``decided`` counts the decisions of each statement.
    """
    row = global_id()
    if row < rows.shape[1]:
        kind = rows[KIND, row]
        if kind == Row.BLOCK:
            fate[row] = Fate.OPENS
            fate[rows[END, row]] = Fate.OPENS
        elif kind == Row.LOOP:
            if never_runs(rows, roots, nodes, bits, row):
                fate[row] = Fate.GOES
                fate[rows[END, row]] = Fate.GOES
                decided[row] = 1
        elif kind == Row.SWITCH:
            if is_literal(rows, roots, nodes, row, 0):
                chosen = False
                decided[row] = 1
                fate[row] = Fate.OPENS
                fate[rows[END, row]] = Fate.OPENS
                marker = rows[LINK, row]
                value = bits[roots[rows[ROOTS, row]]]
                while marker != rows[END, row]:
                    is_taken = rows[KIND, marker] == Row.DEFAULT
                    for label in range(labels_start[marker], labels_start[marker + 1]):
                        is_taken = is_taken or labels[label] == value
                    fate[marker] = Fate.OPENS if is_taken and not chosen else Fate.GOES
                    chosen = chosen or is_taken
                    marker = rows[LINK, marker]
        elif kind == Row.IF:
            open_links = False
            taken = False
            count = u32(0)
            marker = row
            while marker != rows[END, row]:
                is_else = rows[KIND, marker] == Row.ELSE
                if taken:
                    fate[marker] = Fate.GOES
                elif is_else or is_literal(rows, roots, nodes, marker, 0):
                    holds = True
                    if not is_else:
                        count += 1
                        holds = bits[roots[rows[ROOTS, marker]]] != 0
                    if not holds:
                        fate[marker] = Fate.GOES
                    elif open_links:
                        fate[marker] = Fate.ELSE
                    else:
                        fate[marker] = Fate.OPENS
                    taken = holds
                else:
                    fate[marker] = Fate.STAYS if open_links else Fate.IF
                    open_links = True
                marker = rows[LINK, marker]
            decided[row] = count
            fate[marker] = Fate.STAYS if open_links else Fate.OPENS


@pass_kernel
def find_ends(
    rows: In[u32, Literal[2]], fate: In[u32], known: In[u32], ends_at: InOut[u32], changed: InOut[u32], span: u32
) -> None:
    """Finds the first statement of each body whose end no lane reaches; ``NONE`` for a body without one.

    A lane finds the bodies that begin in ``span`` rows, the last one first.  It takes those of other lanes from
    ``known``, which is what the last launch found, and tells in ``changed`` whether it found anything else.
    """
    lane = global_id()
    first = lane * span
    count = rows.shape[1]
    if first < count:
        stop = min(first + span, count)
        row = stop
        while row > first:
            row -= 1
            if rows[LINK, row] != NONE:
                end = u32(NONE)
                stmt = row + 1
                while stmt < rows[LINK, row]:
                    kind = rows[KIND, stmt]
                    is_end = kind == Row.RETURN or kind == Row.BREAK or kind == Row.CONTINUE or kind == Row.TRAP
                    if kind == Row.BLOCK or kind == Row.REGION or kind == Row.IF or kind == Row.SWITCH:
                        is_end = kind == Row.BLOCK or kind == Row.REGION
                        all_end = True
                        marker = stmt
                        if kind == Row.SWITCH:
                            marker = rows[LINK, stmt]
                        while marker != rows[END, stmt]:
                            what = rows[KIND, marker]
                            becomes = fate[marker]
                            if becomes != Fate.GOES:
                                inner = ends_at[marker] if marker < stop else known[marker]
                                all_end = all_end and inner != NONE
                                is_last = what == Row.ELSE or what == Row.DEFAULT
                                is_end = is_end or is_last or becomes == Fate.ELSE or becomes == Fate.OPENS
                            marker = rows[LINK, marker]
                        is_end = is_end and all_end
                    if is_end:
                        end = u32(stmt)
                        break
                    stmt = rows[END, stmt] + 1
                ends_at[row] = end
                if end != known[row]:
                    changed[0] = 1


@pass_kernel
def cut_rows(rows: In[u32, Literal[2]], fate: In[u32], ends_at: In[u32], last: InOut[u32], reached: InOut[u32]) -> None:
    """Finds the ``last`` fate of each row, and whether the statement that it belongs to is ``reached`` at all."""
    row = global_id()
    if row < rows.shape[1]:
        becomes = fate[row]
        opener = rows[OPENER, row]
        owner = rows[OWNER, opener]
        is_cut = False
        if owner != NONE:
            is_cut = opener > ends_at[owner]
        is_reached = True
        while owner != NONE and is_reached:
            around = rows[OPENER, owner]
            above = rows[OWNER, around]
            is_reached = fate[owner] != Fate.GOES
            if above != NONE:
                is_reached = is_reached and around <= ends_at[above]
            owner = above
        reached[row] = 1 if is_reached and not is_cut else 0
        if not is_reached:
            last[row] = Fate.GOES
        elif is_cut:
            last[row] = Fate.CUT if row == opener else Fate.GOES
        else:
            last[row] = becomes


@pass_kernel
def trim_ends(rows: In[u32, Literal[2]], fate: In[u32], ends_at: In[u32], reached: In[u32], last: InOut[u32]) -> None:
    """Drops the ``continue`` at the end of each loop, and the ``return`` at the end of the program."""
    row = global_id()
    if row < rows.shape[1]:
        kind = rows[KIND, row]
        if (kind == Row.LOOP or kind == Row.PROGRAM) and reached[row] == 1 and fate[row] != Fate.GOES:
            end = ends_at[row]
            looks = end != NONE
            while looks:
                looks = False
                inner = rows[KIND, end]
                if (kind == Row.LOOP and inner == Row.CONTINUE) or (kind == Row.PROGRAM and inner == Row.RETURN):
                    last[end] = Fate.TRIMMED
                elif fate[rows[END, end]] == Fate.OPENS:
                    marker = end
                    while (fate[marker] != Fate.OPENS or rows[KIND, marker] == Row.SWITCH) and marker != rows[END, end]:
                        marker = rows[LINK, marker]
                    if marker != rows[END, end]:
                        end = ends_at[marker]
                        looks = end != NONE
