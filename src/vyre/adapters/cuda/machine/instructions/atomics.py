"""``atom`` and ``red``: read-modify-write, lane after lane in the order of the frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from vyre.adapters.cuda.machine.access import LOCATE
from vyre.adapters.cuda.machine.instructions.lanewise import Step, full, reader, writer
from vyre.adapters.cuda.machine.instructions.memory import SCOPES, by_allocation, check_known, effective_address, put
from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, unsigned
from vyre.adapters.cuda.machine.launch import Awaited, Frame
from vyre.adapters.cuda.machine.races import Elements
from vyre.adapters.lanes.types import Dense, Lanes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vyre.adapters.cuda.machine.memory import Index, Region
    from vyre.adapters.cuda.machine.operands import Operands

_SEMANTICS: Final = ("relaxed", "acquire", "release", "acq_rel")
_ORDERED_TYPES: Final = ("u32", "s32", "u64", "s64")
_WORD_TYPES: Final = ("b32", "b64")

Combine: TypeAlias = Callable[[Lanes, Lanes], Lanes]


class Kind(NamedTuple):
    """An atomic operation, and the types that it takes.

    ``combine`` is associative, so that lanes at one address become a scan.  ``advance`` takes (old, operands) as Python
    numbers; it is for operations that are not associative.
    """

    types: tuple[str, ...]
    combine: Combine | None
    advance: Callable[..., int] | None = None


def _last(a: Lanes, b: Lanes) -> Lanes:
    """Exchange: returns the later value."""
    return np.broadcast_to(b, np.broadcast_shapes(np.shape(a), np.shape(b)))


KINDS: Final[dict[str, Kind]] = {
    "add": Kind(_ORDERED_TYPES, np.add),
    "min": Kind(_ORDERED_TYPES, np.minimum),
    "max": Kind(_ORDERED_TYPES, np.maximum),
    "and": Kind(_WORD_TYPES, np.bitwise_and),
    "or": Kind(_WORD_TYPES, np.bitwise_or),
    "xor": Kind(_WORD_TYPES, np.bitwise_xor),
    "exch": Kind(_WORD_TYPES, _last),
    "cas": Kind(_WORD_TYPES, None, lambda old, expected, new: new if old == expected else old),
    "inc": Kind(("u32",), None, lambda old, limit: 0 if old >= limit else old + 1),
    "dec": Kind(("u32",), None, lambda old, limit: limit if old == 0 or old > limit else old - 1),
}


class _Form(NamedTuple):
    space: str
    operation: str
    kind: str
    semantics: str
    scope: str


def _form(ops: Operands) -> _Form:
    name, *modifiers = ops.instruction.opcode.split(".")

    def one_of(words: tuple[str, ...], default: str) -> str:
        return next((word for word in modifiers if word in words), default)

    semantics, scope = one_of(_SEMANTICS, "relaxed"), one_of(SCOPES, "gpu")
    space, operation, kind = one_of(("global", "shared"), ""), one_of(tuple(KINDS), ""), modifiers[-1]
    known = {semantics, scope, space, operation, kind}
    red = name == "red"
    legal = (
        space
        and operation
        and kind in KINDS[operation].types
        and set(modifiers) <= known
        and not (red and (operation in ("exch", "cas") or semantics in ("acquire", "acq_rel")))
    )
    if not legal:
        raise ops.error("unknown instruction")
    return _Form(space, operation, kind, semantics, scope)


def build_atomic(ops: Operands) -> Step:
    """Returns the step of an ``atom`` or ``red`` instruction.  Raises ``PtxError`` for a form that PTX does not
    have.
    """
    form = _form(ops)
    instruction = ops.instruction
    returns = instruction.opcode.startswith("atom")
    count = 2 if form.operation == "cas" else 1
    operands = ops.expect(1 + count + returns)
    place = ops.destination(operands[0], form.kind) if returns else None
    back = None if place is None else writer(ops, place, form.kind)
    address = ops.address(operands[returns], form.space)
    inputs = [ops.source(operand, form.kind) for operand in operands[returns + 1 :]]
    sources = [(one, reader(ops, one, form.kind)) for one in inputs]
    reads, writes = list(ops.reads), list(ops.writes)
    kind = KINDS[form.operation]
    dtype, word = LANE_DTYPE[form.kind], unsigned(form.kind)
    locate = LOCATE[form.space]
    acquire, release = (form.semantics in (one, "acq_rel") for one in ("acquire", "release"))
    block_only = form.scope == "cta"

    def step(frame: Frame) -> None:
        where = effective_address(frame, address)
        located = locate(frame, instruction, where, dtype.itemsize)
        if located is None:
            by_allocation(frame, instruction, step, where, dtype.itemsize, reads, writes)
            return
        region, index = located
        launch = frame.launch
        races = launch.races
        if not region.complete and launch.options.check_uninitialised:
            check_known(region, index, dtype.itemsize, frame, instruction)
        if races is not None:
            if acquire or release:
                races.order(frame, acquire=acquire, release=release, block_only=block_only)
            races.write(Elements(region, index, dtype.itemsize, frame, instruction), plain=False, same=None)
        values = [frame.registers[one] if view is None else view(frame.registers[one]) for one, view in sources]
        launch.atomics += frame.size
        old, changed = _apply(kind, region, index, values, dtype, frame)
        launch.writes += changed
        if not changed:
            launch.attempts += 1
            launch.awaited = Awaited(instruction, frame, region, index, dtype.itemsize, launch.instructions)
        if not region.complete:
            launch.touched.add(region)
            put(region, index, region.typed(word)[0][index], word)
        if place is not None:
            frame.registers[place] = old if back is None else back(old)

    return step


def _apply(
    kind: Kind, region: Region, index: Index, values: list[Dense], dtype: np.dtype[Any], frame: Frame
) -> tuple[Lanes, bool]:
    """Returns the old value for each lane, and whether memory changed."""
    data = region.typed(dtype)[0]
    if isinstance(index, int):
        return _apply_at(kind, data, index, values, frame)
    places = np.arange(index.start, index.stop) if isinstance(index, slice) else index
    operands = [full(value, frame) for value in values]
    if isinstance(index, slice):
        order, starts = None, None
    else:
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        starts = np.empty(len(ordered), np.bool_)
        starts[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
        if starts.all():
            order = None
    if order is None or starts is None:
        old = data[places]
        new = _new_values(kind, old, operands)
        data[places] = new
        return old, bool((new != old).any())
    sorted_operands = [operand[order] for operand in operands]
    if kind.combine is not None:
        sorted_old, new = _scan(kind.combine, data[ordered], sorted_operands[0], starts)
    else:
        sorted_old, new = _one_by_one(kind, data[ordered], sorted_operands, starts)
    last = np.append(starts[1:], True)
    targets = ordered[last]
    changed = bool((data[targets] != new[last]).any())
    data[targets] = new[last]
    old = np.empty_like(sorted_old)
    old[order] = sorted_old
    return old, changed


def _new_values(kind: Kind, old: Lanes, operands: list[Lanes]) -> Lanes:
    """Returns the results if every lane has an address of its own."""
    if kind.combine is not None:
        return kind.combine(old, operands[0])
    if len(operands) == 2:
        return np.where(old == operands[0], operands[1], old)
    assert kind.advance is not None
    steps = [kind.advance(a, b) for a, b in zip(old.tolist(), operands[0].tolist(), strict=True)]
    return np.array(steps, old.dtype)


def _apply_at(kind: Kind, data: Lanes, index: int, sources: list[Dense], frame: Frame) -> tuple[Lanes, bool]:
    """Applies the operation of all lanes to one element."""
    before = data[index]
    operands = [full(value, frame) for value in sources]
    starts = np.zeros(frame.size, np.bool_)
    starts[0] = True
    same = np.full(frame.size, before)
    if kind.combine is not None:
        old, new = _scan(kind.combine, same, operands[0], starts)
    else:
        old, new = _one_by_one(kind, same, operands, starts)
    data[index] = new[-1]
    return old, bool(new[-1] != before)


def _scan(combine: Combine, memory: Lanes, operand: Lanes, starts: NDArray[np.bool_]) -> tuple[Lanes, Lanes]:
    """Returns (old, new) of lanes sorted by address.  ``starts`` marks the first lane of each address, ``memory`` is
    the address's value.
    """
    new = operand.copy()
    new[starts] = combine(memory[starts], operand[starts])
    reached = starts.copy()  # the lanes whose value includes all earlier ones at the address
    distance = 1
    while not reached.all():
        open_lanes = np.flatnonzero(~reached[distance:]) + distance
        new[open_lanes] = combine(new[open_lanes - distance], new[open_lanes])
        reached[open_lanes] = reached[open_lanes - distance]
        distance *= 2
    old = np.empty_like(new)
    old[1:] = new[:-1]
    old[starts] = memory[starts]
    return old, new


def _one_by_one(kind: Kind, memory: Lanes, operands: list[Lanes], starts: NDArray[np.bool_]) -> tuple[Lanes, Lanes]:
    assert kind.advance is not None
    old, new = [], []
    value = 0
    for first, before, *inputs in zip(
        starts.tolist(), memory.tolist(), *[operand.tolist() for operand in operands], strict=True
    ):
        if first:
            value = before
        old.append(value)
        value = kind.advance(value, *inputs)
        new.append(value)
    return np.array(old, memory.dtype), np.array(new, memory.dtype)
