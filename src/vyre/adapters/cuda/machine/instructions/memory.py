"""Loads and stores of all spaces, scalar and vector, plain and strong."""

from __future__ import annotations

from operator import add
from typing import Any, Final, NamedTuple, TypeAlias, overload

import numpy as np

from vyre.adapters.cuda.machine.access import LOCATE, Addresses, partition
from vyre.adapters.cuda.machine.faults import FaultKind
from vyre.adapters.cuda.machine.instructions.lanewise import Step, reader, writer
from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, Rule, unsigned
from vyre.adapters.cuda.machine.launch import Awaited, Frame, Poll
from vyre.adapters.cuda.machine.memory import Index, Places, Region
from vyre.adapters.cuda.machine.operands import Address, Operands
from vyre.adapters.cuda.machine.ptx_syntax import SIZE_OF, Instruction
from vyre.adapters.cuda.machine.races import Elements
from vyre.adapters.lanes.types import Dense

SCOPES: Final = ("cta", "gpu", "sys")
_STRENGTHS: Final = {"ld": ("weak", "volatile", "relaxed", "acquire"), "st": ("weak", "volatile", "relaxed", "release")}
_SPACES: Final = {"ld": ("global", "shared", "param", "const", "local"), "st": ("global", "shared", "local")}
_CACHING: Final = frozenset(
    {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::no_allocate", "L1::evict_last", "L1::evict_first"}
)
_WORDS: Final = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
_KNOWN: Final = {size: np.dtype(f"u{size}").type((1 << 8 * size) - 1) for size in (1, 2, 4, 8)}


class Form(NamedTuple):
    """The parts of the opcode of a load or store."""

    space: str
    kind: str
    elements: int
    strength: str
    scope: str
    noncoherent: bool

    @property
    def plain(self) -> bool:
        """Whether the access is weak, so that it synchronises with no other lane."""
        return self.strength == "weak"


def _form(ops: Operands) -> Form:
    name, *modifiers = ops.instruction.opcode.split(".")
    space = next((word for word in modifiers if word in _SPACES[name]), "")
    strength = next((word for word in modifiers if word in _STRENGTHS[name]), "weak")
    scope = next((word for word in modifiers if word in SCOPES), "")
    count = next((int(word[1]) for word in modifiers if word in ("v2", "v4")), 1)
    kind = modifiers[-1]
    used = {space, strength, scope, f"v{count}", kind, "nc"} | _CACHING
    strong = strength in ("relaxed", "acquire", "release")
    nc = "nc" in modifiers
    legal = (
        space
        and kind in SIZE_OF
        and "bf" not in kind
        and kind != "f16"
        and set(modifiers) <= used
        and strong == bool(scope)
        and not (nc and (space != "global" or name == "st" or strength != "weak"))
        and (strength == "weak" or space in ("global", "shared"))
        and count * SIZE_OF[kind] <= 16
    )
    if not legal:
        raise ops.error("unknown instruction")
    return Form(space, kind, count, strength, scope, nc)


def effective_address(frame: Frame, address: Address) -> Addresses:
    """Returns the address of each lane; one scalar if they agree."""
    value = frame.registers[address.place]
    if address.offset:
        dtype = value.dtype
        moved: Addresses = add(value, dtype.type(address.offset & (1 << 8 * dtype.itemsize) - 1))
        return moved
    return value


def by_allocation(
    frame: Frame,
    instruction: Instruction,
    step: Step,
    where: Addresses,
    nbytes: int,
    reads: list[int],
    writes: list[int],
) -> None:
    """Runs a step once per allocation that the lanes access."""
    for lanes in partition(frame, instruction, np.atleast_1d(where), nbytes):
        subset = frame.subset(lanes, reads)
        step(subset)
        frame.merge(subset, lanes, writes)


@overload
def elements(index: Places, count: int, number: int) -> Places: ...


@overload
def elements(index: Index, count: int, number: int) -> Index: ...


def elements(index: Index, count: int, number: int) -> Index:
    """Returns the index of element ``number`` of vectors of ``count`` elements at ``index``."""
    if count == 1:
        return index
    if isinstance(index, slice):
        return slice(index.start * count + number, (index.stop - 1) * count + number + 1, count)
    return index * count + number


def check_known(region: Region, index: Index, size: int, frame: Frame, instruction: Instruction) -> None:
    """Raises ``KernelFault`` unless every byte that is read was written before."""
    known = region.typed(_WORDS[size])[1][index] == _KNOWN[size]
    if not known.all():
        where = 0 if known.ndim == 0 else int(np.flatnonzero(~known)[0])
        address = frame.address(region, size * at(index, where))
        raise frame.fault(FaultKind.UNINITIALISED, instruction, where, address, f"{size} bytes")


def at(index: Index, where: int) -> int:
    """Returns the index of the element that lane ``where`` accesses."""
    if isinstance(index, slice):
        return int(index.start + where * (index.step or 1))
    return int(index if isinstance(index, int) else index[where])


# ------------------------------------------------------------------------------ loads


def build_load(ops: Operands) -> Step:
    """Returns the step of a load.  Raises ``PtxError`` for a form that PTX does not have."""
    form = _form(ops)
    instruction = ops.instruction
    operands = ops.expect(2)
    address = ops.address(operands[1], form.space)
    names = ops.elements(operands[0], form.elements)
    places = [ops.destination(name, form.kind, wider=True) for name in names]
    targets = [
        (number, place, writer(ops, place, form.kind)) for number, place in enumerate(places) if place is not None
    ]
    if form.space == "param" and address.place not in ops.reads:
        return _parameter_load(ops, form, address, targets)
    return _load(instruction, form, address, targets, list(ops.reads), list(ops.writes))


Targets: TypeAlias = "list[tuple[int, int, Rule | None]]"
"""For each element that has a destination: its number, its place, and the conversion to the place's dtype."""


def _parameter_load(ops: Operands, form: Form, address: Address, targets: Targets) -> Step:
    """Returns the step of a load of a parameter at a fixed offset: the same scalar for all lanes."""
    dtype = LANE_DTYPE[form.kind]
    start = int(ops.values[address.place])
    if start % (dtype.itemsize * form.elements):
        raise ops.error("misaligned parameter")
    if start + dtype.itemsize * form.elements > ops.parameter_bytes:
        raise ops.error(f"past the {ops.parameter_bytes} bytes of parameters")

    def step(frame: Frame) -> None:
        values = frame.launch.parameters.typed(dtype)[0]
        for number, place, back in targets:
            value = values[start // dtype.itemsize + number]
            frame.registers[place] = value if back is None else back(value)

    return step


def _load(
    instruction: Instruction, form: Form, address: Address, targets: Targets, reads: list[int], writes: list[int]
) -> Step:
    dtype = LANE_DTYPE[form.kind]
    size, count = dtype.itemsize, form.elements
    nbytes = size * count
    locate = LOCATE[form.space]
    plain, noncoherent = form.plain, form.noncoherent
    raced = form.space in ("global", "shared")
    acquires = form.strength == "acquire"

    def step(frame: Frame) -> None:
        where = effective_address(frame, address)
        launch = frame.launch
        located = locate(frame, instruction, where, nbytes)
        if located is None:
            by_allocation(frame, instruction, step, where, nbytes, reads, writes)
            return
        region, first = located
        races = launch.races if raced else None
        if not plain:
            launch.polls += 1
            launch.awaited = Awaited(instruction, frame, region, elements(first, count, 0), size, launch.instructions)
            launch.host_polls += region.shared
            if acquires and races is not None:
                races.order(frame, acquire=True, release=False, block_only=form.scope == "cta")
        values = region.typed(dtype)[0]
        for number, place, back in targets:
            index = elements(first, count, number)
            if not region.complete and launch.options.check_uninitialised:
                check_known(region, index, size, frame, instruction)
            if races is not None:
                races.read(Elements(region, index, size, frame, instruction), plain=plain, nc=noncoherent)
            value = values[index]
            if not plain and launch.seen is not None:
                launch.seen.append(Poll(values, index, value.copy()))
            if back is not None:
                value = back(value)
            frame.registers[place] = value.copy() if isinstance(index, slice) else value

    return step


# ------------------------------------------------------------------------------ stores


def build_store(ops: Operands) -> Step:
    """Returns the step of a store.  Raises ``PtxError`` for a form that PTX does not have."""
    form = _form(ops)
    instruction = ops.instruction
    operands = ops.expect(2)
    address = ops.address(operands[0], form.space)
    places = [ops.source(name, form.kind, wider=True) for name in ops.elements(operands[1], form.elements)]
    # Stores move bits, so values are compared and written as unsigned words.
    bits = f"b{8 * SIZE_OF[form.kind]}"
    sources = [(place, reader(ops, place, bits)) for place in places]
    return _store(instruction, form, address, sources, list(ops.reads))


def _store(
    instruction: Instruction, form: Form, address: Address, sources: list[tuple[int, Rule | None]], reads: list[int]
) -> Step:
    word = unsigned(form.kind)
    size, count = word.itemsize, form.elements
    nbytes = size * count
    locate = LOCATE[form.space]
    plain = form.plain
    raced = form.space != "local"
    releases = form.strength == "release"

    def step(frame: Frame) -> None:
        where = effective_address(frame, address)
        located = locate(frame, instruction, where, nbytes)
        if located is None:
            by_allocation(frame, instruction, step, where, nbytes, reads, [])
            return
        region, first = located
        launch = frame.launch
        races = launch.races if raced else None
        if raced:
            launch.writes += 1
        if releases and races is not None:
            races.order(frame, acquire=False, release=True, block_only=form.scope == "cta")
        for number, (place, view) in enumerate(sources):
            value = frame.registers[place]
            if view is not None:
                value = view(value)
            index = elements(first, count, number)
            if races is not None:
                store_checked(region, index, value, frame, instruction, plain=plain)
            else:
                put(region, index, value, word)
        if raced and not region.complete:  # local memory ends with its lanes
            launch.touched.add(region)

    return step


def put(region: Region, index: Index, value: Dense, word: np.dtype[Any]) -> None:
    """Writes words; if lanes write the same element, the last one wins."""
    data, known = region.typed(word)
    data[index] = value[-1] if isinstance(index, int) and isinstance(value, np.ndarray) and value.ndim else value
    if not region.complete:
        known[index] = _KNOWN[word.itemsize]


def store_checked(
    region: Region, index: Any, value: Any, frame: Frame, instruction: Instruction, *, plain: bool
) -> None:
    """Writes words under the race checker."""
    races = frame.launch.races
    assert races is not None
    word = value.dtype
    data = region.typed(word)[0]
    written = Elements(region, index, word.itemsize, frame, instruction)
    races.write(written, plain=plain, same=lambda: data[index] == value)
    put(region, index, value, word)
    if plain and not isinstance(index, slice) and frame.size > 1 and value.ndim:
        differs = np.flatnonzero(data[index] != value)
        if len(differs):
            where = int(differs[0])
            places = np.broadcast_to(index, (frame.size,))
            last = int(np.flatnonzero(places == places[where])[-1])
            address = frame.address(region, word.itemsize * at(index, where))
            earlier = frame.access(instruction, where)
            detail = "lanes of one store write different bits"
            raise frame.fault(FaultKind.RACE, instruction, last, address, detail, earlier)
