"""``mov``, ``cvta``, special registers, and instructions that only pass time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from vyre.adapters.cuda.machine.instructions.lanewise import Step, reader, writer
from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, bits_of
from vyre.adapters.cuda.machine.ptx_syntax import SIZE_OF, Elements, Operand
from vyre.adapters.lanes.types import Dense

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.launch import Frame
    from vyre.adapters.cuda.machine.operands import Operands

Special: TypeAlias = "Callable[[Frame], Dense]"


def _thread(axis: int) -> Special:
    def value(frame: Frame) -> Dense:
        x, y, z = frame.launch.shape.block
        if (x, y, z)[axis] == 1:
            return np.uint32(0)
        linear = frame.own(frame.strand.threads)
        component = (linear if y == z == 1 else linear % x, linear // x % y, linear // (x * y))[axis]
        return component.astype(np.uint32)

    return value


def _block(axis: int) -> Special:
    def value(frame: Frame) -> Dense:
        x, y, _ = frame.launch.shape.grid
        linear = frame.own(frame.strand.blocks)
        return (linear % x, linear // x % y, linear // (x * y))[axis].astype(np.uint32)

    return value


def _shape(part: str, axis: int) -> Special:
    return lambda frame: np.uint32(getattr(frame.launch.shape, part)[axis])


def _lane(frame: Frame) -> Dense:
    return (frame.own(frame.strand.threads) % 32).astype(np.uint32)


def _warp(frame: Frame) -> Dense:
    return (frame.own(frame.strand.threads) // 32).astype(np.uint32)


def _time(dtype: type[np.unsignedinteger[Any]]) -> Special:
    def value(frame: Frame) -> Dense:
        frame.launch.polls += 1
        frame.launch.clock_reads += 1
        now = frame.launch.nanoseconds + frame.launch.instructions
        return dtype(now & int(np.iinfo(dtype).max))

    return value


SPECIAL: Final[dict[str, tuple[str, Special]]] = {
    **{f"%tid.{axis}": ("u32", _thread(number)) for number, axis in enumerate("xyz")},
    **{f"%ctaid.{axis}": ("u32", _block(number)) for number, axis in enumerate("xyz")},
    **{f"%ntid.{axis}": ("u32", _shape("block", number)) for number, axis in enumerate("xyz")},
    **{f"%nctaid.{axis}": ("u32", _shape("grid", number)) for number, axis in enumerate("xyz")},
    "%laneid": ("u32", _lane),
    "%warpid": ("u32", _warp),
    "%globaltimer": ("u64", _time(np.uint64)),
    "%clock64": ("u64", _time(np.uint64)),
    "%clock": ("u32", _time(np.uint32)),
}
"""Special registers: their type, and a function that returns their value for the lanes of a frame."""


def build_mov(ops: Operands) -> Step:
    """Returns the step of ``mov.T d, a``.

    ``a`` is a register, a literal, a variable's address, a special register or a list of parts.
    """
    kind = ops.instruction.opcode.removeprefix("mov.")
    if kind not in LANE_DTYPE:
        raise ops.error("unknown instruction")
    target, source = ops.expect(2)
    if source in SPECIAL:
        return _special(ops, kind, target, source)
    if isinstance(source, Elements):
        return _pack(ops, kind, target, source)
    if isinstance(target, Elements):
        return _unpack(ops, kind, target, source)
    return _copy(ops, kind, target, source)


def _copy(ops: Operands, kind: str, target: Operand, source: Operand) -> Step:
    origin = ops.source(source, kind)
    place = ops.result(target, kind)
    stored, lanes = ops.held[place], ops.held[origin]

    def same(frame: Frame) -> None:
        registers = frame.registers
        registers[place] = registers[origin].copy()

    def viewed(frame: Frame) -> None:
        registers = frame.registers
        registers[place] = registers[origin].copy().view(stored)

    return same if stored == lanes else viewed


def _special(ops: Operands, kind: str, target: Operand, source: Operand) -> Step:
    own_kind, value = SPECIAL[source]
    if SIZE_OF.get(kind) != SIZE_OF[own_kind]:
        raise ops.error(f"{source} has type .{own_kind}")
    place = ops.result(target, kind)

    def step(frame: Frame) -> None:
        frame.registers[place] = value(frame)

    return step


def _part(ops: Operands, kind: str, count: int) -> str:
    bits = bits_of(kind) // count if kind in ("b32", "b64") else 0
    if bits not in (16, 32):
        raise ops.error(f"no {count} parts in .{kind}")
    return f"b{bits}"


def _pack(ops: Operands, kind: str, target: Operand, source: Elements) -> Step:
    count = len(source.members)
    part = _part(ops, kind, count)
    bits = bits_of(part)
    places = [ops.source(name, part) for name in ops.elements(source, count)]
    views = [reader(ops, place, part) for place in places]
    place = ops.result(target, kind)
    dtype, stored = LANE_DTYPE[kind], ops.held[place]

    def step(frame: Frame) -> None:
        registers = frame.registers
        total = dtype.type(0)
        for number, (one, view) in enumerate(zip(places, views, strict=True)):
            word = registers[one] if view is None else view(registers[one])
            total = total | word.astype(dtype) << dtype.type(bits * number)
        registers[place] = total.view(stored)

    return step


def _unpack(ops: Operands, kind: str, target: Elements, source: Operand) -> Step:
    count = len(target.members)
    part = _part(ops, kind, count)
    bits = bits_of(part)
    origin = ops.source(source, kind)
    view = reader(ops, origin, kind)
    places = [ops.destination(name, part) for name in ops.elements(target, count)]
    dtype, narrow = LANE_DTYPE[kind], LANE_DTYPE[part]
    backs = [None if place is None else writer(ops, place, part) for place in places]

    def step(frame: Frame) -> None:
        registers = frame.registers
        whole = registers[origin] if view is None else view(registers[origin])
        for number, (place, back) in enumerate(zip(places, backs, strict=True)):
            if place is not None:
                word = (whole >> dtype.type(bits * number)).astype(narrow)
                registers[place] = word if back is None else back(word)

    return step


def build_cvta(ops: Operands) -> Step:
    """Returns the step of ``cvta``.

    Addresses of a space and generic addresses are the same number here; there are no generic accesses.
    """
    modifiers = ops.instruction.opcode.split(".")[1:]
    spaces = [word for word in modifiers if word in ("global", "shared", "const", "local")]
    if modifiers[-1] != "u64" or len(spaces) != 1 or set(modifiers) - {"to", "u64", spaces[0]}:
        raise ops.error("unknown instruction")
    target, source = ops.expect(2)
    return _copy(ops, "u64", target, source)


def build_nanosleep(ops: Operands) -> Step:
    """Returns the step of ``nanosleep``, which advances the launch's clock by the longest of the lanes' times."""
    (operand,) = ops.expect(1)
    place = ops.source(operand, "u32")

    def step(frame: Frame) -> None:
        frame.launch.nanoseconds += int(frame.registers[place].max())
        frame.launch.polls += 1

    return step


def build_fence(ops: Operands) -> Step:
    """Returns the step of ``fence.{sc,acq_rel}.scope`` or ``membar.level``, which order the lanes' earlier accesses."""
    ops.expect(0)
    scope = ops.instruction.opcode.split(".")[-1]
    names = {f"fence{kind}.{s}" for kind in ("", ".sc", ".acq_rel") for s in ("cta", "gpu", "sys")}
    if ops.instruction.opcode not in names | {"membar.cta", "membar.gl", "membar.sys"}:
        raise ops.error("unknown instruction")

    def step(frame: Frame) -> None:
        races = frame.launch.races
        if races is not None:
            races.order(frame, acquire=True, release=True, block_only=scope == "cta")

    return step
