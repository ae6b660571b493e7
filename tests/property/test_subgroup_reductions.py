"""Reductions and scans of a subgroup give on every engine what plain Python makes of the values of its lanes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import pytest

from support.machine.engine import MachineEngine
from support.ptx_interpreter.backend import interpreter
from support.reference.bit_patterns import patterns
from support.running import Outputs, run
from vyre.adapters.cuda.ptx.options import EmitOptions
from vyre.domain.dispatch import DEFAULT_CONFIG
from vyre.domain.ir.expr import Expr, IdKind, LaunchId, Literal, Load, SubgroupReduce, SubgroupShuffle, Var
from vyre.domain.ir.operators import SUBGROUP, BinaryOp, SubgroupOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Let, Store
from vyre.domain.ir.types import EXECUTABLE_TYPES, ScalarType, bool_, u32
from vyre.domain.numerics import scalar
from vyre.testing.execution import execute, open_backend
from vyre.testing.random_programs.generator import Case
from vyre.testing.random_programs.memory import Order

GROUPS: Final = 24
SEEDS: Final = 4
SIZES: Final = (1, 31, 40, 64)
BROADCAST: Final = 3
LANE: Final = LaunchId(IdKind.GLOBAL, 0)
ENGINES: Final = ("reference", "reference-scalar", "cpu", "cuda-machine")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", EXECUTABLE_TYPES, ids=lambda dtype: dtype.text)
def test_every_engine_folds_the_values_of_the_lanes(dtype: ScalarType, size: int) -> None:
    ops = [op for op in SubgroupOp if dtype in SUBGROUP[op].operands]
    program = folds(dtype, size, ops)
    values = [value for seed in range(SEEDS) for value in drawn(dtype, GROUPS // SEEDS * size, seed)]
    inputs = {"x": b"".join(value.to_bytes(dtype.size, "little") for value in values)}
    wanted = {op.name: stored(dtype, expected(op, dtype, values, size)) for op in ops}
    wanted["broadcast"] = stored(dtype, broadcast(values, size))
    for name in ENGINES:
        assert execute(open_backend(name), program, inputs) == wanted, name
    without_reductions = Case(program, inputs, DEFAULT_CONFIG, Order.INDEPENDENT)
    assert run(MachineEngine(emission=EmitOptions(target=75)), without_reductions) == Outputs(wanted)


@pytest.mark.parametrize("dtype", (ScalarType.I32, ScalarType.F64, bool_), ids=lambda dtype: dtype.text)
def test_a_second_interpreter_of_ptx_agrees(dtype: ScalarType) -> None:
    ops = [op for op in SubgroupOp if dtype in SUBGROUP[op].operands]
    program, values = folds(dtype, 40, ops), drawn(dtype, GROUPS * 40, 1)
    inputs = {"x": b"".join(value.to_bytes(dtype.size, "little") for value in values)}
    wanted = execute(open_backend("reference"), program, inputs)
    for target in (75, 90):
        assert execute(interpreter(options=EmitOptions(target=target)), program, inputs) == wanted


def folds(dtype: ScalarType, size: int, ops: Sequence[SubgroupOp]) -> Program:
    """Returns a program that stores the reductions and scans of ``x``, and one lane's value."""
    x = Buffer.make("x", 0, Access.READ_ONLY, dtype, GROUPS * size)
    values = {op.name: SubgroupReduce(op, Load("x", LANE)) for op in ops}
    all_values: dict[str, Expr] = {**values, "broadcast": SubgroupShuffle(Load("x", LANE), Literal(u32, BROADCAST))}
    outputs = [
        Buffer.make(name, number, Access.READ_WRITE, dtype, GROUPS * size, is_output=True)
        for number, name in enumerate(all_values, 1)
    ]
    body = [
        stmt
        for name, value in all_values.items()
        for stmt in (Let(f"{name} of x", value), Store(name, LANE, Var(f"{name} of x")))
    ]
    return Program((x, *outputs), (size, 1, 1), tuple(body), name=f"folds of {dtype.text}")


def drawn(dtype: ScalarType, count: int, seed: int) -> list[int]:
    """Returns values, in some seeds few different ones, so that whole subgroups have no number, or only zeros."""
    source = random.Random(f"{dtype.text} {count} {seed}")
    choices = patterns(dtype, 40, seed)
    if dtype.is_float and seed % 2:
        form = scalar.float_format(dtype)
        nan, zero = form.quiet_nan, form.sign
        kinds = ((nan, nan + 1, nan | form.sign), (0, zero), (zero,), (nan, zero), (form.infinity, nan), choices)
        return [source.choice(kinds[number * len(kinds) // count]) for number in range(count)]
    if dtype is bool_:
        return [int(source.random() < (0.02, 0.5, 0.98, 1)[seed]) for _ in range(count)]
    return [source.choice(choices) for _ in range(count)]


def subgroups(count: int, size: int) -> list[range]:
    starts = [group + lane for group in range(0, count, size) for lane in range(0, size, 32)]
    return [range(start, min(start + 32, start - start % size + size)) for start in starts]


def broadcast(values: Sequence[int], size: int) -> list[int]:
    result = []
    for lanes in subgroups(len(values), size):
        result += [values[lanes[BROADCAST]] if len(lanes) > BROADCAST else 0] * len(lanes)
    return result


def expected(op: SubgroupOp, dtype: ScalarType, values: Sequence[int], size: int) -> list[int]:
    scan, _, name = op.name.rpartition("_")
    result = []
    for lanes in subgroups(len(values), size):
        for lane in lanes:
            last = {"": lanes.stop, "INCLUSIVE": lane + 1, "EXCLUSIVE": lane}[scan]
            result.append(folded(name, dtype, values[lanes.start : last]))
    return result


def folded(name: str, dtype: ScalarType, values: Sequence[int]) -> int:
    ones = 1 if dtype is bool_ else (1 << dtype.bits) - 1
    total = 0
    match name:
        case "ADD" if dtype.is_float:
            for value in values:
                total = scalar.binary(BinaryOp.ADD, dtype, total, value)
            return total
        case "ADD":
            return sum(values) & ones
        case "MIN" | "MAX":
            return extreme(dtype, values, greatest=name == "MAX")
        case "AND" | "ALL":
            total = ones
            for value in values:
                total &= value
            return total
        case "XOR":
            for value in values:
                total ^= value
            return total
        case _:
            for value in values:
                total |= value
            return total


def extreme(dtype: ScalarType, values: Sequence[int], *, greatest: bool) -> int:
    """Returns the least or greatest of numbers by their order on a line, on which -0 stands before +0."""
    sign = 1 << (dtype.bits - 1)
    if dtype.is_float:
        form = scalar.float_format(dtype)
        values = [value for value in values if value & (sign - 1) <= form.infinity]
        order = {value: -(value ^ sign) - 1 if value & sign else value for value in values}
        none = form.quiet_nan
    else:
        order = {value: value - 2 * sign if dtype.is_signed and value & sign else value for value in values}
        high, low = (sign - 1, sign) if dtype.is_signed else (2 * sign - 1, 0)
        none = low if greatest else high
    return (max if greatest else min)(values, key=order.__getitem__, default=none)


def stored(dtype: ScalarType, values: Sequence[int]) -> bytes:
    return b"".join(scalar.store_element(dtype, value) for value in values)
