"""How is an e-graph closed on a device: launches of a round, slots of the table, rounds without the host?

A launch covers as many items as its grid may have lanes; more items take more launches ("waves").

vyre-driver compares pairs of rows with equal signature, which it enumerates on the host between two launches.  Here a
closure stays on the device: a table of signatures finds equal rows, and a union-find forest that the device itself
keeps joins their classes.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from vyre.domain.errors import PlanError
from vyre.domain.record import U32_MAX
from vyre.policies import arith
from vyre.policies.record import U32, BasisPoints, record, verdict

MOST_CLOSED: Final = 2**31 - 3
"""The rows and equalities of a closure, whose numbers share a word with a mark."""
ENDING_BYTES: Final = 8
"""Bytes that tell how the rounds of a fixed point ended."""
LEAST_ROUNDS: Final = 1_024
"""The rounds that a closure may always run without the host."""


class KernelPass(Enum):
    """Passes of a round of the closure, in launch order."""

    CLASS_COMPRESSION = "class_compression"
    ROW_REKEYING = "row_rekeying"
    ROW_MATCHING = "row_matching"


class Wave(NamedTuple):
    """One launch of a pass."""

    kernel_pass: KernelPass
    first_item: int
    item_count: int


@record
class ClosureInputs:
    """The sizes of an e-graph that is to be closed under congruence.

    ``most_items`` is the number of lanes that a launch on the device may have.  ``slots`` is the number of slots of the
    table that finds equal rows, None for as many as ``ClosureThresholds`` says.
    """

    row_count: U32
    eclass_count: U32
    equality_count: U32
    most_items: U32
    slots: U32 | None = None


@record
class ClosureThresholds:
    """The slots of the table for each row, and the share of slots whose rows moved away that renews the table."""

    slots_per_row: U32 = 4
    most_gone_bps: BasisPoints = 2_500


DEFAULT_CLOSURE: Final = ClosureThresholds()


@verdict
class ClosurePlan:
    """The launches of one round of the closure, and the sizes of what it needs.

    The table has ``slots`` slots, and is renewed once more than ``most_gone`` of them were left by their rows.
    ``round_limit`` is the number of rounds after which the host looks whether to go on, and ``readback_bytes`` is what
    it then reads: how the rounds ended, whether a row found no slot, and the representative of every class.
    """

    waves: tuple[Wave, ...]
    slots: int
    most_gone: int
    round_limit: int
    readback_bytes: int


def plan_closure(inputs: ClosureInputs, thresholds: ClosureThresholds = DEFAULT_CLOSURE) -> ClosurePlan:
    """Returns how an e-graph is closed: every row is compared with the leaders of its slots instead of with all others.

    Raises ``PlanError``: ``TooManyRows`` where the rows or the slots have no 32-bit numbers, ``NoSlots`` for a table
    of no slots, ``NoLanes`` for launches without lanes.  O(launches).
    """
    most = inputs.most_items
    if most == 0:
        raise PlanError("NoLanes", fix="take a device whose grids have lanes.", most_items=0)
    rows, classes, equalities = inputs.row_count, inputs.eclass_count, inputs.equality_count
    slots = max(rows * thresholds.slots_per_row, 1) if inputs.slots is None else inputs.slots
    if rows + equalities > MOST_CLOSED or slots > U32_MAX:
        raise PlanError("TooManyRows", rows=rows, equalities=equalities, slots=slots, most=MOST_CLOSED)
    if slots == 0:
        raise PlanError("NoSlots", fix="give the table a slot for every row that differs from all others.", slots=0)
    matched = rows + equalities
    passes = (
        (KernelPass.CLASS_COMPRESSION, classes),
        (KernelPass.ROW_REKEYING, max(rows, classes)),
        (KernelPass.ROW_MATCHING, matched),
    )
    return ClosurePlan(
        waves=tuple(
            Wave(kind, first, min(most, items - first)) for kind, items in passes for first in range(0, items, most)
        ),
        slots=slots,
        most_gone=arith.weighted(slots, thresholds.most_gone_bps),
        round_limit=max(matched, LEAST_ROUNDS),
        readback_bytes=ENDING_BYTES + 4 * (classes + 1),
    )
