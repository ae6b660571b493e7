"""The kernels that close an e-graph under congruence on a device.

A round of the closure is three passes.  ``compress`` finds the representative of every class.  ``rekey`` rewrites the
children of the rows to representatives, and signs and files anew every row whose children moved.  ``match`` compares
each filed row with the row that leads its slot of the table, and unites the classes of two that are equal.  All arrays
start as zeros, and the rounds end when a round changes nothing.

* **Classes** are a union-find forest.  ``drop[c]`` is the distance from class c down to its parent, so that memory of
  zeros makes every class its own.  Only roots are hooked, always to a smaller class, by an atomic maximum of the
  drop: of two hooks the farther one remains, and the row that lost tries again in the next round.  Classes are
  therefore never torn apart, and the smallest class of a set represents it.
* **The table** has open addressing with linear probing.  A slot is ``EMPTY``, or holds a row that bids for it, the row
  that leads it, or ``GONE`` after its leader was filed elsewhere.  These are ordered ``GONE`` < leader < bid <
  ``EMPTY``, so that an atomic minimum lets a leader stay, chooses the smallest of several bidders, and needs no
  returned value.  Slots are not used twice, so that equal rows, which walk through the same slots, always meet.  The
  table is cleared and all leaders are filed anew when too many slots are ``GONE``.
* **Equal signatures are never taken for equal rows**: operators, arities and children are compared.  A row that is
  equal to a leader needs no more work after their classes are one, since its children move as the leader's do.

No result depends on the order of the lanes: rounds, representatives and leaders are the same on every backend.
Every kernel takes its place among several launches of a pass, ``first``.
"""

from __future__ import annotations

from typing import Final

import vyre
from vyre import In, InOut, u32

LANES: Final = 256
SIGNATURE_SEED: Final = 0xA24B_AED4
SIGNATURE_ADDEND: Final = 0x9E37_79B9
SIGNATURE_FACTOR: Final = 0x85EB_CA6B
SIGNATURE_TURN: Final = 13
"""The numbers of the signature of a row, which are those of vyre-driver."""
JUMPS: Final = 16
"""The parents that a lane follows in one round; a longer path is shortened by the next rounds."""

# Slots of the table: GONE, leading row + 1, bidding row + 1 + BID, EMPTY.
GONE: Final = 0
BID: Final = 0x8000_0000
NO_BID: Final = 0x7FFF_FFFF
EMPTY: Final = 0xFFFF_FFFF

# States of rows; those of equalities are SEEKING until they are DONE.
SEEKING: Final = 0
"""The row bids for the slot ``slot``."""
WON: Final = 1
"""The row's bid was the smallest; it leads the slot from the next round on."""
LEADER: Final = 2
JOINING: Final = 3
"""The row is equal to a leader, and their classes are to be united."""
DONE: Final = 4


@vyre.function
def mixed(state: u32, value: u32) -> u32:
    """Returns a signature with one more value in it."""
    total = value + SIGNATURE_ADDEND + (state << 6) + (state >> 2)
    turned: u32 = vyre.rotl(state ^ total, u32(SIGNATURE_TURN))
    return turned * SIGNATURE_FACTOR


@vyre.kernel(workgroup=LANES)
def compress(
    first: u32,
    drop: In[u32],
    root: InOut[u32],
    table: InOut[u32],
    gone: In[u32],
    forgotten: In[u32],
    filed: In[u32],
    full: In[u32],
    renewed: InOut[u32],
    counted: InOut[u32],
    most_gone: u32,
    changed: InOut[u32],
) -> None:
    """Follows the parents of every class, and clears the table where it is to be renewed.

    ``root`` has one element more than there are classes: whether a row found no slot.
    """
    node = first + vyre.global_id()
    if node < len(drop):
        ancestor = node - drop[node]
        below = drop[ancestor]
        jumps = 0
        while below != 0 and jumps < JUMPS:
            ancestor -= below
            below = drop[ancestor]
            jumps += 1
        root[node] = ancestor
        if below != 0:
            changed[0] = 1
    renew = filed[0] == 0 or gone[0] - forgotten[0] > most_gone
    if renew:
        place = node
        while place < len(table):
            table[place] = EMPTY
            place += vyre.num_groups() * LANES
    if node == 0:
        renewed[0] = u32(renew)
        counted[0] = gone[0]
        root[len(drop)] = full[0]


@vyre.kernel(workgroup=LANES)
def rekey(
    first: u32,
    root: In[u32],
    drop: InOut[u32],
    operator: In[u32],
    offset: In[u32],
    child: InOut[u32],
    signature: InOut[u32],
    slot: InOut[u32],
    state: InOut[u32],
    table: InOut[u32],
    renewed: In[u32],
    counted: In[u32],
    gone: InOut[u32],
    forgotten: InOut[u32],
    filed: InOut[u32],
    mask: u32,
    changed: InOut[u32],
) -> None:
    """Rewrites children to representatives, and files the rows whose children moved, or all where the table is new.

    ``mask`` says which bits of a signature count: all of them, but where collisions are forced.
    """
    row = first + vyre.global_id()
    if row < len(drop):
        drop[row] = row - root[row]
    renew = renewed[0] != 0
    if row == 0:
        filed[0] = 1
        if renew:
            forgotten[0] = counted[0]
    was = u32(DONE)
    if row < len(operator):
        was = state[row]
    if was != DONE:
        begin = offset[row]
        end = offset[row + 1]
        moved = renew
        for place in range(begin, end):
            old = child[place]
            new = root[old]
            if new != old:
                child[place] = new
                moved = True
        if moved:
            signed = mixed(mixed(u32(SIGNATURE_SEED), operator[row]), end - begin)
            for place in range(begin, end):
                signed = mixed(signed, child[place])
            signed = signed & mask
            if not renew and was in (WON, LEADER):
                table.atomic_min(slot[row], GONE)
                gone.atomic_add(0, 1)
            home = vyre.mulhi(signed, len(table))
            signature[row] = signed
            slot[row] = home
            state[row] = SEEKING
            changed[0] = 1
            table.atomic_min(home, row + 1 | BID)
        elif was == WON:
            table.atomic_min(slot[row], row + 1)
            state[row] = LEADER
        elif was == SEEKING:
            table.atomic_min(slot[row], row + 1 | BID)


@vyre.kernel(workgroup=LANES)
def match(
    first: u32,
    root: In[u32],
    drop: InOut[u32],
    operator: In[u32],
    offset: In[u32],
    child: In[u32],
    signature: In[u32],
    near: In[u32],
    far: InOut[u32],
    slot: InOut[u32],
    state: InOut[u32],
    table: In[u32],
    gone: In[u32],
    forgotten: In[u32],
    filed: InOut[u32],
    full: InOut[u32],
    changed: InOut[u32],
) -> None:
    """Looks for the leader of every filed row, and unites the classes of rows that have one, and of equalities.

    The elements of ``near``, ``far`` and ``state`` are the rows, and behind them the equalities.  ``near`` is the class
    of a row, and one class of an equality; ``far`` is the class of the leader, and the other class.
    """
    row = first + vyre.global_id()
    now = u32(DONE)
    if row < len(state):
        now = state[row]
    if row >= len(operator) and now == SEEKING:
        now = u32(JOINING)
    if now == SEEKING:
        entry = slot[row]
        own = signature[row]
        begin = offset[row]
        arity = offset[row + 1] - begin
        left = len(table)
        while left > 0:
            seen = table[entry]
            if seen == EMPTY:
                break
            if seen == (row + 1 | BID):
                now = u32(WON)
                break
            if seen != GONE:
                leader = (seen & NO_BID) - 1
                other = offset[leader]
                if (
                    signature[leader] == own
                    and operator[leader] == operator[row]
                    and offset[leader + 1] - other == arity
                ):
                    same = u32(0)
                    while same < arity and child[begin + same] == child[other + same]:
                        same += 1
                    if same == arity:
                        now = u32(JOINING)
                        far[row] = near[leader]
                        break
            entry += 1
            if entry == len(table):
                entry = 0
            left -= 1
        if left == 0:
            if gone[0] == forgotten[0]:
                now = u32(DONE)
                full[0] = 1
            else:
                filed[0] = 0
        slot[row] = entry
        state[row] = now
        changed[0] = 1
    if now == JOINING:
        one = root[near[row]]
        two = root[far[row]]
        if one == two:
            state[row] = DONE
        else:
            high = max(one, two)
            if root[high] == high:
                drop.atomic_max(high, high - min(one, two))
            changed[0] = 1
