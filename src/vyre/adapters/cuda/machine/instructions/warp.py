"""Instructions of a warp: shuffles, votes, matches and reductions over the lanes of a member mask.

Every lane in the mask must execute the instruction at the same time, and every lane that executes it must be in the
mask; otherwise it is a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import and_
from typing import TYPE_CHECKING, Final

import numpy as np

from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.instructions.integer import poison
from vyre.adapters.cuda.machine.instructions.lanewise import Step, full, reader, writer
from vyre.adapters.cuda.machine.launch import WARP, Frame
from vyre.adapters.cuda.machine.ptx_syntax import Instruction, Negated, Pair
from vyre.adapters.lanes.types import Lanes, LaneScalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.operands import Operands
    from vyre.adapters.cuda.machine.registers import Numbers

_BIT: Final = np.left_shift(np.uint32(1), np.arange(WARP, dtype=np.uint32))


class Warps:
    """The warps of a frame's lanes as a table with one row per warp of the batch.

    ``row`` and ``lane`` are the place of each of the frame's lanes in it; ``present`` has a bit for each lane that
    takes part.
    """

    __slots__ = ("_places", "_rows", "lane", "present", "row")

    def __init__(self, frame: Frame) -> None:
        places = frame.own(frame.strand.warp_places)
        self._places = places
        self._rows = frame.strand.batch.count * frame.launch.warps
        self.row: NDArray[np.int64] = places // WARP
        self.lane: NDArray[np.int64] = places % WARP
        self.present: NDArray[np.uint32] = self.ballot(np.ones(frame.size, np.bool_))

    def table(self, values: Lanes, missing: LaneScalar | int) -> Lanes:
        """Returns the values of the lanes in their places, with ``missing`` elsewhere."""
        table = np.full(self._rows * WARP, missing, values.dtype)
        table[self._places] = values
        return table.reshape(self._rows, WARP)

    def ballot(self, condition: NDArray[np.bool_]) -> NDArray[np.uint32]:
        """Returns, per warp, the bits of the lanes where the condition holds."""
        votes = np.where(self.table(condition, np.False_), _BIT, np.uint32(0))
        bits: NDArray[np.uint32] = np.bitwise_or.reduce(votes, axis=1)
        return bits

    def check_mask(self, mask: NDArray[np.uint32], frame: Frame, instruction: Instruction) -> None:
        """Raises ``KernelFault`` if a mask names a lane that is not here, or leaves out the lane itself."""
        present = self.present[self.row]
        own = np.left_shift(np.uint32(1), self.lane.astype(np.uint32))
        bad = ((mask & ~present) != 0) | ((mask & own) == 0)
        if bad.any():
            where = int(np.flatnonzero(bad)[0])
            asked = int(mask[where])
            detail = f"mask {asked:#010x}, lanes here {int(present[where]):#010x}"
            raise frame.fault(FaultKind.BAD_MASK, instruction, where, detail=detail)


def _prepared(frame: Frame, instruction: Instruction, mask_place: int) -> tuple[Warps, NDArray[np.uint32]]:
    warps = Warps(frame)
    mask = full(frame.registers[mask_place], frame)
    warps.check_mask(mask, frame, instruction)
    return warps, mask


_SHUFFLES: Final[dict[str, Callable[[Lanes, Numbers, Lanes], Lanes]]] = {
    "up": lambda lane, b, low: lane - b,
    "down": lambda lane, b, low: lane + b,
    "bfly": lambda lane, b, low: lane ^ b,
    "idx": lambda lane, b, low: low | b,
}
"""The lane from which each lane takes the value; ``low`` is the first one of its segment."""


def build_shuffle(ops: Operands) -> Step:
    """Returns the step of ``shfl.sync.mode.b32 d|p, a, b, c, mask``; a lane that does not take part gives poison."""
    instruction = ops.instruction
    _, *modifiers = instruction.opcode.split(".")
    if len(modifiers) != 3 or modifiers[0] != "sync" or modifiers[1] not in _SHUFFLES or modifiers[2] != "b32":
        raise ops.error("unknown instruction")
    operands = ops.expect(5)
    target, predicate = operands[0], None
    if isinstance(target, Pair):
        target, predicate = target.parts
    place = ops.destination(target, "b32")
    in_range = None if predicate is None else ops.destination(predicate, "pred")
    a, b, c, mask_place = (ops.source(operand, "b32") for operand in operands[1:])
    view = reader(ops, a, "b32")
    back = None if place is None else writer(ops, place, "b32")
    mode = modifiers[1]
    choose = _SHUFFLES[mode]
    unknown = poison("b32")

    def step(frame: Frame) -> None:
        registers = frame.registers
        warps, mask = _prepared(frame, instruction, mask_place)
        value = full(registers[a] if view is None else view(registers[a]), frame)
        control = registers[c].astype(np.int64)
        segment, clamp = control >> np.int64(8) & np.int64(31), control & np.int64(31)
        lane = warps.lane
        low = lane & segment
        high = low | (clamp & ~segment)
        operand: Numbers = and_(registers[b].astype(np.int64), np.int64(31))
        if mode == "idx":
            operand = and_(operand, ~segment)
        j = choose(lane, operand, low)
        valid = j >= high if mode == "up" else j <= high
        j = np.where(valid, j, lane)
        result = warps.table(value, unknown)[warps.row, j]
        outside = (mask >> j.astype(np.uint32) & np.uint32(1)) == 0
        result = np.where(outside, unknown, result)
        if place is not None:
            registers[place] = result if back is None else back(result)
        if in_range is not None:
            registers[in_range] = valid

    return step


_VOTES: Final[dict[str, Callable[[Lanes, Lanes], Lanes]]] = {
    "all.pred": lambda votes, mask: votes == mask,
    "any.pred": lambda votes, mask: votes != 0,
    "uni.pred": lambda votes, mask: (votes == 0) | (votes == mask),
    "ballot.b32": lambda votes, mask: votes.copy(),
}


def build_vote(ops: Operands) -> Step:
    """Returns the step of ``vote.sync.{all,any,uni}.pred p, q, mask`` or ``vote.sync.ballot.b32 d, q, mask``."""
    instruction = ops.instruction
    mode = instruction.opcode.removeprefix("vote.sync.")
    if mode not in _VOTES or not instruction.opcode.startswith("vote.sync."):
        raise ops.error("unknown instruction")
    target, source, members = ops.expect(3)
    place = ops.destination(target, mode.split(".")[1])
    negated = isinstance(source, Negated)
    condition = ops.source(source.positive if isinstance(source, Negated) else source, "pred")
    mask_place = ops.source(members, "b32")
    decide = _VOTES[mode]

    def step(frame: Frame) -> None:
        warps, mask = _prepared(frame, instruction, mask_place)
        value = full(frame.registers[condition], frame)
        votes = warps.ballot(~value if negated else value)[warps.row] & mask
        if place is not None:
            frame.registers[place] = decide(votes, mask)

    return step


def build_match(ops: Operands) -> Step:
    """Returns the step of ``match.sync.any.{b32,b64} d, a, mask``, which gives the members that hold the same bits."""
    instruction = ops.instruction
    *name, kind = instruction.opcode.split(".")
    if name != ["match", "sync", "any"] or kind not in ("b32", "b64"):
        raise ops.error("unknown instruction")
    target, source, members = ops.expect(3)
    place = ops.destination(target, "b32")
    a, mask_place = ops.source(source, kind), ops.source(members, "b32")
    view = reader(ops, a, kind)

    def step(frame: Frame) -> None:
        registers = frame.registers
        warps, mask = _prepared(frame, instruction, mask_place)
        value = full(registers[a] if view is None else view(registers[a]), frame)
        rows = warps.table(value, 0)[warps.row]
        same = np.bitwise_or.reduce(np.where(rows == value[:, None], _BIT, np.uint32(0)), axis=1)
        if place is not None:
            registers[place] = same & mask

    return step


_REDUCTIONS: Final[dict[str, tuple[np.ufunc, tuple[str, ...]]]] = {
    "add": (np.add, ("u32", "s32")),
    "min": (np.minimum, ("u32", "s32")),
    "max": (np.maximum, ("u32", "s32")),
    "and": (np.bitwise_and, ("b32",)),
    "or": (np.bitwise_or, ("b32",)),
    "xor": (np.bitwise_xor, ("b32",)),
}


def build_reduction(ops: Operands) -> Step:
    """Returns the step of ``redux.sync.op.T d, a, mask``."""
    instruction = ops.instruction
    parts = instruction.opcode.split(".")
    if len(parts) != 4 or parts[1] != "sync" or parts[3] not in _REDUCTIONS.get(parts[2], (None, ()))[1]:
        raise ops.error("unknown instruction")
    target, source, members = ops.expect(3)
    kind = parts[3]
    place = ops.destination(target, kind)
    a, mask_place = ops.source(source, kind), ops.source(members, "b32")
    view = reader(ops, a, kind)
    back = None if place is None else writer(ops, place, kind)
    ufunc = _REDUCTIONS[parts[2]][0]

    def step(frame: Frame) -> None:
        registers = frame.registers
        warps, mask = _prepared(frame, instruction, mask_place)
        value = full(registers[a] if view is None else view(registers[a]), frame)
        rows = warps.table(value, 0)[warps.row]
        # A lane outside the mask counts as the lane's own value, or as 0 for add and xor, which are not idempotent.
        neutral = value.dtype.type(0) if ufunc in (np.add, np.bitwise_xor) else value[:, None]
        members_only = np.where((mask[:, None] & _BIT) != 0, rows, neutral)
        result = ufunc.reduce(members_only, axis=1, dtype=value.dtype)
        if place is not None:
            registers[place] = result if back is None else back(result)

    return step


def build_activemask(ops: Operands) -> Step:
    """Returns the step of ``activemask``: the lanes that the scheduler happens to execute together."""
    if ops.instruction.opcode != "activemask.b32":
        raise ops.error("unknown instruction")
    (target,) = ops.expect(1)
    place = ops.result(target, "b32")

    def step(frame: Frame) -> None:
        warps = Warps(frame)
        frame.registers[place] = warps.present[warps.row]

    return step
