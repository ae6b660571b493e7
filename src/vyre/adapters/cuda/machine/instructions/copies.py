"""``cp.async``: copies from global to shared memory that complete when their group is waited for.

The bytes are read when the copy is issued.  Until the lane waits, the target is poison and counts as uninitialised, so
that a missing wait shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vyre.adapters.cuda.machine.access import locate_global, locate_shared
from vyre.adapters.cuda.machine.instructions.lanewise import Step
from vyre.adapters.cuda.machine.instructions.memory import (
    by_allocation,
    check_known,
    effective_address,
    elements,
    store_checked,
)
from vyre.adapters.cuda.machine.launch import Frame, PendingCopy
from vyre.adapters.cuda.machine.memory import FRESH
from vyre.adapters.cuda.machine.races import Elements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.operands import Operands

_SIZES: Final = {"ca": (4, 8, 16), "cg": (16,)}
_WORD: Final = np.dtype(np.uint32)
_POISON: Final = np.uint32(FRESH * 0x0101_0101)


def build_copy(ops: Operands) -> Step:
    """Returns the step of a ``cp.async`` instruction.  Raises ``PtxError`` for a form that PTX does not have."""
    opcode = ops.instruction.opcode
    if opcode == "cp.async.commit_group":
        ops.expect(0)
        return _commit
    if opcode == "cp.async.wait_all":
        ops.expect(0)
        return lambda frame: _wait(frame, None)
    if opcode == "cp.async.wait_group":
        (operand,) = ops.expect(1)
        pending = ops.integer(operand)
        if pending < 0:
            raise ops.error(f"{operand} is no number of groups")
        return lambda frame: _wait(frame, pending)
    return _issue(ops)


def _issue(ops: Operands) -> Step:
    """Returns the step of ``cp.async.{ca,cg}.shared.global [to], [from], bytes``."""
    instruction = ops.instruction
    parts = instruction.opcode.split(".")
    if parts[:2] != ["cp", "async"] or parts[2:] not in (["ca", "shared", "global"], ["cg", "shared", "global"]):
        raise ops.error("unknown instruction")
    target, source, size = ops.expect(3)
    to, origin = ops.address(target, "shared"), ops.address(source, "global")
    nbytes = ops.integer(size)
    if nbytes not in _SIZES[parts[2]]:
        raise ops.error(f"{size} bytes cannot be copied so")
    reads = list(ops.reads)
    words = nbytes // _WORD.itemsize

    def step(frame: Frame) -> None:
        where = effective_address(frame, origin)
        located = locate_global(frame, instruction, where, nbytes)
        if located is None:
            by_allocation(frame, instruction, step, where, nbytes, reads, [])
            return
        region, first = located
        shared, target_index = locate_shared(frame, instruction, effective_address(frame, to), nbytes)
        launch = frame.launch
        copies = frame.strand.copies
        for number in range(words):
            index = elements(first, words, number)
            if not region.complete and launch.options.check_uninitialised:
                check_known(region, index, _WORD.itemsize, frame, instruction)
            if launch.races is not None:
                read = Elements(region, index, _WORD.itemsize, frame, instruction)
                launch.races.read(read, plain=True, nc=False)
            value = np.broadcast_to(region.typed(_WORD)[0][index], (frame.size,)).copy()
            place = np.broadcast_to(elements(target_index, words, number), (frame.size,)).astype(np.int64)
            if launch.races is not None:
                store_checked(shared, place, value, frame, instruction, plain=True)
            data, known = shared.typed(_WORD)
            data[place] = _POISON
            known[place] = 0
            shared.complete = False
            copies.pending.append(PendingCopy(lanes_of(frame), place, value, copies.group[lanes_of(frame)]))

    return step


def lanes_of(frame: Frame) -> NDArray[np.int64]:
    """Returns the positions of the frame's lanes in the strand."""
    return np.arange(frame.size) if frame.positions is None else frame.positions


def _commit(frame: Frame) -> None:
    frame.strand.copies.group[lanes_of(frame)] += 1


def _wait(frame: Frame, pending: int | None) -> None:
    """Completes all copies except those of the ``pending`` latest groups; None: all copies, committed or not."""
    copies = frame.strand.copies
    waits = np.zeros(frame.strand.size, np.bool_)
    waits[lanes_of(frame)] = True
    shared = frame.strand.batch.shared
    data, known = shared.typed(_WORD)
    rest: list[PendingCopy] = []
    for lanes, place, value, group in copies.pending:
        lands = waits[lanes] if pending is None else waits[lanes] & (group < copies.group[lanes] - pending)
        data[place[lands]] = value[lands]
        known[place[lands]] = 0xFFFF_FFFF
        if not lands.all():
            rest.append(PendingCopy(lanes[~lands], place[~lands], value[~lands], group[~lands]))
    copies.pending = rest
