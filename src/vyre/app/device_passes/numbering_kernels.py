"""The kernel that finds equal expressions in a flattened program, as ``vyre.domain.optimize.numbering`` does.

One lane walks over the rows in program order, since a number depends on all numbers before it.  A *place* is one
evaluation of an expression by a row.  Numbers, times and indices of firsts begin at 1; 0 stands for none.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from vyre.app.device_passes.pass_kernel import pass_function, pass_kernel
from vyre.domain.frontend.annotations import In, InOut
from vyre.domain.frontend.intrinsics import global_id
from vyre.domain.ir.types import u32
from vyre.domain.optimize.flat_program import NONE, Row

KIND, OPENER, LOCAL, CHANGE, ATOMIC, SPLITS, PLACE = range(7)
"""The lines of ``rows``.  ``LOCAL`` is ``NONE`` for the declaration of a local that is assigned.  ``CHANGE``: what a
row changes, a number of ``times`` or ``NONE``.  ``ATOMIC``, ``SPLITS``: whether it evaluates an atomic, and whether it
is or has a barrier of the grid.  ``PLACE``: where its places begin.
"""
HOW, CLASS, NAME, A, B, C = range(6)
"""The lines of ``nodes``.  ``HOW`` is a ``How``; ``CLASS`` a number, the same for expressions that differ only in their
operands; ``NAME`` the local of a variable, else the buffer.
"""
FIRST, USES = range(2)
"""The lines of ``places``: the expression, and where the list of all its nodes begins, which has operands first."""
NODE, AT, SEGMENT, OF = range(4)
"""The lines of ``firsts``: the first expression with a number, its place, its segment of the program, and the local
that holds it or ``NONE``.
"""
OF_FIRST, LATER_AT, LATER = range(3)
"""The lines of ``matches``: a first, and the place and node of an equal expression."""
TRAIL, LOGGED, JOINED = range(3)
"""The lines of ``scopes``: how long lists were when a body began; ``JOINED``: when the first of its statement did."""


class How(IntEnum):
    """The way in which a node gets its number."""

    LEAF = 0
    """The class of the node tells the number."""
    FIXED = 1
    """The node reads a local that is never assigned, and has the number of the local."""
    ASSIGNED = 2
    """The node reads another local: its class and the time of the last change of the local tell the number."""
    OPERATOR = 3
    """The class of the node and the numbers of its operands tell the number.  All that follow have operands."""
    COMMUTING = 4
    """The number is that of an operator whose operands stand in any order."""
    LOAD = 5
    """The number depends on the operands and on the time of the last change of the buffer."""
    SHARED_LOAD = 6
    """The number depends on what it does for a load, and on the time at which other lanes may have written."""
    IMPURE = 7
    """The node has a number of its own."""


@pass_function
def touch(times, log, key, clock, logged):  # type: ignore[no-untyped-def]
    """Notes that something changes; returns the clock and the length of the log."""
    log[0, logged] = key
    log[1, logged] = times[key]
    times[key] = clock + 1
    return clock + 1, logged + 1


@pass_function
def touch_loop(rows, times, log, fence, loop, clock, logged):  # type: ignore[no-untyped-def]
    """Notes that all changes that the rows of a loop make; returns the clock and the length of the log."""
    since, now, length = clock, clock, logged
    row = loop + 1
    if rows[KIND, loop] == Row.GRID_LOOP:
        now, length = touch(times, log, fence, now, length)
    while rows[KIND, row] != Row.END or rows[OPENER, row] != loop:
        key = rows[CHANGE, row]
        if key != NONE and times[key] <= since:
            now, length = touch(times, log, key, now, length)
        if rows[ATOMIC, row] != 0 and times[fence] <= since:
            now, length = touch(times, log, fence, now, length)
        row += 1
    return now, length


@pass_function
def interned(table, keys, mask, numbered, w0, w1, w2, w3, w4, w5):  # type: ignore[no-untyped-def]
    """Returns the number of a key, and how many numbers there are then."""
    hash_value = w0 * u32(0x9E3779B1) ^ w1 * u32(0x85EBCA77) ^ w2 * u32(0xC2B2AE3D)
    hash_value = hash_value ^ w3 * u32(0x27D4EB2F) ^ w4 * u32(0x165667B1) ^ w5 * u32(0xD6E8FEB9)
    slot = (hash_value ^ hash_value >> 15) & mask
    number = u32(0)
    count = numbered
    while number == 0:
        entry = table[slot]
        if entry == 0:
            count += 1
            number = count
            table[slot] = number
            keys[0, slot] = w0
            keys[1, slot] = w1
            keys[2, slot] = w2
            keys[3, slot] = w3
            keys[4, slot] = w4
            keys[5, slot] = w5
        elif (
            keys[0, slot] == w0
            and keys[1, slot] == w1
            and keys[2, slot] == w2
            and keys[3, slot] == w3
            and keys[4, slot] == w4
            and keys[5, slot] == w5
        ):
            number = entry
        else:
            slot = (slot + 1) & mask
    return number, count


@pass_function
def number_of(numbers, node):  # type: ignore[no-untyped-def]
    """Returns the number of an operand, 0 for none."""
    number = u32(0)
    if node != NONE:
        number = numbers[node]
    return number


@pass_kernel
def number_rows(
    rows: In[u32, Literal[2]],
    nodes: In[u32, Literal[2]],
    places: In[u32, Literal[2]],
    uses: In[u32],
    times: InOut[u32],
    locals_: InOut[u32],
    numbers: InOut[u32],
    expanded: InOut[u32],
    table: InOut[u32],
    keys: InOut[u32, Literal[2]],
    log: InOut[u32, Literal[2]],
    joined: InOut[u32],
    scopes: InOut[u32, Literal[2]],
    firsts_of: InOut[u32],
    firsts: InOut[u32, Literal[2]],
    trail: InOut[u32, Literal[2]],
    stack: InOut[u32],
    matches: InOut[u32, Literal[2]],
    totals: InOut[u32],
    buffers_at: u32,
    mask: u32,
) -> None:
    """Finds the firsts and the matches; ``totals`` gets how many there are.

    ``times``: of locals, of buffers, which begin at ``buffers_at``, and of what other lanes write.  ``table`` and
    ``keys`` have ``mask + 1`` slots.  The other arrays are room for the walk; all begin as zeros.
    """
    if global_id() == 0:
        fence = u32(len(times)) - 1
        clock = u32(0)
        numbered = u32(0)
        segment = u32(0)
        trailed = u32(0)
        logged = u32(0)
        joins = u32(0)
        depth = u32(0)
        firsts_count = u32(0)
        matched = u32(0)
        row = u32(0)
        while row < rows.shape[1]:
            kind = rows[KIND, row]
            opener = rows[OPENER, row]
            what = rows[KIND, opener]
            is_marker = kind == Row.ELIF or kind == Row.ELSE or kind == Row.ARM or kind == Row.DEFAULT
            base = joins
            if is_marker or kind == Row.END:
                depth -= 1
                while trailed > scopes[TRAIL, depth]:
                    trailed -= 1
                    firsts_of[trail[0, trailed]] = trail[1, trailed]
                if what == Row.IF or what == Row.SWITCH:
                    base = scopes[JOINED, depth]
                    while logged > scopes[LOGGED, depth]:
                        logged -= 1
                        times[log[0, logged]] = log[1, logged]
                        joined[joins] = log[0, logged]
                        joins += 1
                    if kind == Row.END:
                        while joins > base:
                            joins -= 1
                            clock, logged = touch(times, log, joined[joins], clock, logged)
                elif what == Row.LOOP or what == Row.GRID_LOOP:
                    logged = scopes[LOGGED, depth]
                    clock, logged = touch_loop(rows, times, log, fence, opener, clock, logged)
                    if what == Row.GRID_LOOP:
                        numbered += 1
                        locals_[rows[LOCAL, opener]] = numbered
                if kind == Row.END:
                    segment += rows[SPLITS, opener]
            else:
                segment += rows[SPLITS, row]
            place = rows[PLACE, row]
            while place < rows[PLACE, row + 1]:
                use = places[USES, place]
                while use < places[USES, place + 1]:
                    node = uses[use]
                    use += 1
                    how = nodes[HOW, node]
                    if how == How.FIXED:
                        numbers[node] = locals_[nodes[NAME, node]]
                    elif how == How.IMPURE or ((how == How.LOAD or how == How.SHARED_LOAD) and rows[ATOMIC, row] != 0):
                        numbered += 1
                        numbers[node] = numbered
                    else:
                        w1, w2 = number_of(numbers, nodes[A, node]), number_of(numbers, nodes[B, node])
                        w3 = number_of(numbers, nodes[C, node])
                        w4, w5 = u32(0), u32(0)
                        if how == How.COMMUTING:
                            w1, w2 = min(w1, w2), max(w1, w2)
                        elif how == How.ASSIGNED:
                            w4 = times[nodes[NAME, node]]
                        elif how == How.LOAD or how == How.SHARED_LOAD:
                            w4 = times[buffers_at + nodes[NAME, node]]
                            if how == How.SHARED_LOAD:
                                w5 = times[fence]
                        value, numbered = interned(table, keys, mask, numbered, nodes[CLASS, node], w1, w2, w3, w4, w5)
                        numbers[node] = value
                root = places[FIRST, place]
                local = u32(NONE)
                if kind == Row.LET:
                    local = rows[LOCAL, row]
                    locals_[local] = numbers[root]
                top = u32(1)
                stack[0] = root
                while top > 0:
                    top -= 1
                    node = stack[top]
                    how = nodes[HOW, node]
                    if how >= How.OPERATOR and expanded[node] != place + 1:
                        number = numbers[node]
                        known_first = firsts_of[number]
                        is_known = False
                        if known_first != 0:
                            is_known = firsts[SEGMENT, known_first - 1] == segment
                        if is_known:
                            if firsts[NODE, known_first - 1] != node or firsts[AT, known_first - 1] != place:
                                matches[OF_FIRST, matched] = known_first - 1
                                matches[LATER_AT, matched] = place
                                matches[LATER, matched] = node
                                matched += 1
                        else:
                            if how == How.IMPURE or kind == Row.ELIF:
                                expanded[node] = place + 1
                            else:
                                firsts[NODE, firsts_count] = node
                                firsts[AT, firsts_count] = place
                                firsts[SEGMENT, firsts_count] = segment
                                firsts[OF, firsts_count] = local if node == root else u32(NONE)
                                firsts_count += 1
                                trail[0, trailed] = number
                                trail[1, trailed] = known_first
                                trailed += 1
                                firsts_of[number] = firsts_count
                            if nodes[C, node] != NONE:
                                stack[top] = nodes[C, node]
                                top += 1
                            if nodes[B, node] != NONE:
                                stack[top] = nodes[B, node]
                                top += 1
                            if nodes[A, node] != NONE:
                                stack[top] = nodes[A, node]
                                top += 1
                place += 1
            if rows[ATOMIC, row] != 0:
                clock, logged = touch(times, log, fence, clock, logged)
            if rows[CHANGE, row] != NONE and kind != Row.GRID_LOOP:
                clock, logged = touch(times, log, rows[CHANGE, row], clock, logged)
            is_loop = kind == Row.LOOP or kind == Row.GRID_LOOP
            is_branch = kind == Row.IF or kind == Row.SWITCH
            if is_loop:
                clock, logged = touch_loop(rows, times, log, fence, row, clock, logged)
                segment += rows[SPLITS, row]
                if kind == Row.LOOP:
                    numbered += 1
                    locals_[rows[LOCAL, row]] = numbered
            if is_loop or is_branch or is_marker or kind == Row.PROGRAM or kind == Row.BLOCK or kind == Row.REGION:
                scopes[TRAIL, depth] = trailed
                scopes[LOGGED, depth] = logged
                scopes[JOINED, depth] = base
                depth += 1
            elif kind != Row.END:
                segment += rows[SPLITS, row]
            row += 1
        totals[0] = firsts_count
        totals[1] = matched
