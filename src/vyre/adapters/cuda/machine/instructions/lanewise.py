"""Steps of the instructions that have a rule: they read places, apply the rule, and write a place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre.adapters.cuda.machine.instructions.operation import LANE_DTYPE, Noise, Operation, Rule
from vyre.adapters.cuda.machine.ptx_syntax import Negated, Operand, Pair
from vyre.adapters.lanes.types import Dense, Lanes

if TYPE_CHECKING:
    from vyre.adapters.cuda.machine.launch import Frame
    from vyre.adapters.cuda.machine.operands import Operands

Step: TypeAlias = "Callable[[Frame], None]"


def lanewise(operation: Operation, ops: Operands, *, wider: bool = False) -> Step:
    """Returns the step of an operation.

    ``wider``: registers may be wider than the operation's types, as ``cvt`` allows.
    """
    target, *origins = ops.expect(1 + len(operation.sources))
    sources: list[tuple[int, Rule | None]] = []
    for operand, kind in zip(origins, operation.sources, strict=True):
        if kind == "pred" and isinstance(operand, Negated):
            sources.append((ops.source(operand.positive, kind, wider=wider), np.logical_not))
        else:
            place = ops.source(operand, kind, wider=wider)
            sources.append((place, reader(ops, place, kind)))
    inverse = None
    if isinstance(target, Pair):
        target, inverse = target.parts
    result = ops.destination(target, operation.result, wider=wider)
    if inverse is not None:
        return _with_inverse(operation, ops, result, inverse, sources)
    if result is None:
        raise ops.error("a result is expected")
    return _step(operation.rule, result, sources, writer(ops, result, operation.result), operation.noise)


def reader(ops: Operands, place: int, kind: str) -> Rule | None:
    """Returns a rule that turns the content of a place into lanes of a type; None if it needs no conversion."""
    stored, wanted = ops.held[place], LANE_DTYPE[kind]
    return None if stored is wanted else _reading(stored, wanted)


def writer(ops: Operands, place: int, kind: str) -> Rule | None:
    """Returns a rule that turns lanes of a type into the content of a register; None if it needs no conversion.

    Narrow signed integers are sign-extended.
    """
    stored, lanes = ops.held[place], LANE_DTYPE[kind]
    return None if stored is lanes else _writing(stored, lanes)


@cache
def _reading(stored: np.dtype[Any], wanted: np.dtype[Any]) -> Rule | None:
    if stored == wanted:
        return None
    if stored.itemsize == wanted.itemsize:
        return lambda x: x.view(wanted)
    narrow = np.dtype(f"u{wanted.itemsize}")
    return lambda x: x.astype(narrow).view(wanted)


@cache
def _writing(stored: np.dtype[Any], lanes: np.dtype[Any]) -> Rule | None:
    if stored == lanes:
        return None
    if stored.itemsize == lanes.itemsize:
        return lambda x: x.view(stored)
    wide = np.dtype(f"{'i' if lanes.kind == 'i' else 'u'}{stored.itemsize}")
    return lambda x: x.astype(wide).view(stored)


def _step(rule: Rule, target: int, sources: list[tuple[int, Rule | None]], back: Rule | None, noise: Noise) -> Step:
    if back is None and noise is Noise.NONE:
        match sources:
            case [(a, None)]:

                def unary(frame: Frame) -> None:
                    registers = frame.registers
                    registers[target] = rule(registers[a])

                return unary
            case [(a, None), (b, None)]:

                def binary(frame: Frame) -> None:
                    registers = frame.registers
                    registers[target] = rule(registers[a], registers[b])

                return binary
            case [(a, None), (b, None), (c, None)]:

                def ternary(frame: Frame) -> None:
                    registers = frame.registers
                    registers[target] = rule(registers[a], registers[b], registers[c])

                return ternary

    def general(frame: Frame) -> None:
        registers = frame.registers
        result = rule(*[registers[p] if adapt is None else adapt(registers[p]) for p, adapt in sources])
        if noise is Noise.NAN:
            result = frame.launch.nan_noise(result)
        elif noise is Noise.BFLOAT_NAN:
            wide = np.left_shift(result, 16, dtype=np.uint32).view(np.float32)
            result = (frame.launch.nan_noise(wide).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        elif noise is Noise.APPROXIMATE:
            result = frame.launch.approximation_noise(result)
        registers[target] = result if back is None else back(result)

    return general


def _with_inverse(
    operation: Operation, ops: Operands, target: int | None, inverse: Operand, sources: list[tuple[int, Rule | None]]
) -> Step:
    """Returns the step of an instruction with the result ``p|q``, where q is the negation of p."""
    if operation.result != "pred" or len(operation.sources) != 2:
        raise ops.error("only a plain setp has two results")
    other = ops.destination(inverse, "pred")
    rule = operation.rule

    def step(frame: Frame) -> None:
        registers = frame.registers
        result = rule(*[registers[p] if adapt is None else adapt(registers[p]) for p, adapt in sources])
        if target is not None:
            registers[target] = result
        if other is not None:
            registers[other] = np.logical_not(result)

    return step


def guarded(step: Step, guard: int, negated: bool, reads: list[int], writes: list[int]) -> Step:
    """Returns a step for ``@p``: it runs ``step`` for the lanes where the predicate holds."""
    reads = [*reads, *writes]

    def run(frame: Frame) -> None:
        condition = frame.registers[guard]
        if condition.ndim == 0:
            if bool(condition) != negated:
                step(frame)
            return
        where = np.flatnonzero(np.logical_not(condition) if negated else condition)
        if len(where) == frame.size:
            step(frame)
        elif len(where):
            subset = frame.subset(where, reads)
            step(subset)
            frame.merge(subset, where, writes)

    return run


def full(value: Dense, frame: Frame) -> Lanes:
    """Returns one element per lane."""
    return value if isinstance(value, np.ndarray) and value.ndim else np.full(frame.size, value)
