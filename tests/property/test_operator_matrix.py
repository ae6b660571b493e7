"""The reference engines, and the emulated device, give the same bytes on every operation of every type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import pytest

from vyre.domain.ir.operators import ATOMIC_ELEMENTS, BINARY, INTEGERS, SUBGROUP, UNARY, AtomicOp, BinaryOp
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType, bool_
from vyre.domain.numerics import scalar
from vyre.domain.validation.validator import check_rules
from vyre.ports.backend import Backend
from vyre.testing.execution import execute, open_backend
from vyre.testing.operator_matrix import operator_matrix
from vyre.testing.operator_programs import OperatorCase

BY_LITERALS = re.compile(r"(left|right|literal|narrow|pack)\d+|(div|mod)_\w+")
"""Outputs whose form has a literal operand, which alone may decide the result."""
TOGETHER = [case for case in operator_matrix() if case.name.endswith("common") or case.name.startswith("subgroup")]
"""Cases whose lanes share their results."""


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in operator_matrix()])
def test_all_engines_agree(case: OperatorCase) -> None:
    check_rules(case.program).raise_if_invalid()
    wanted = execute(engine("reference-scalar"), case.program, case.inputs)
    assert usual_outputs(case.name) == wanted
    assert execute(engine("cuda-machine"), case.program, case.inputs) == wanted


def test_names_and_programs_are_all_different() -> None:
    assert len({case.name for case in operator_matrix()}) == len(operator_matrix())
    assert len({case.program.digest for case in operator_matrix()}) == len(operator_matrix())


def test_nothing_of_the_language_is_left_out() -> None:
    names = {case.name for case in operator_matrix()}
    for dtype in EXECUTABLE_TYPES:
        assert {f"{op.name.lower()} {dtype.text}" for op, row in UNARY.items() if dtype in row.operands} <= names
        binary = {f"{op.name.lower()} {dtype.text} {dtype.text}" for op, row in BINARY.items() if dtype in row.operands}
        assert binary <= names
        assert f"subgroup shuffle {dtype.text} of 64" in names
        folds = {op.name.lower().replace("_", " ") for op, row in SUBGROUP.items() if dtype in row.operands}
        assert {f"subgroup {fold} {dtype.text} of {size}" for fold in folds for size in (64, 40)} <= names
    for dtype in ScalarType:
        if not dtype.is_executable:
            assert {f"load {dtype.text}", f"store {dtype.text}"} <= names
    for dtype in INTEGERS:
        assert f"quotients of {dtype.text} by zero" in names
    for dtype in NARROW_TYPES:
        assert {f"narrow {dtype.text}", f"unpack {dtype.text}", f"narrow {dtype.text} literals"} <= names
    assert {"wrapping casts of f32", "wrapping casts of f64", "add f16 loaded", "sub bf16 unpacked"} <= names
    for dtype in ATOMIC_ELEMENTS:
        for space in ("storage", "workgroup"):
            assert {f"{op.name.lower()} {dtype.text} {space} own" for op in AtomicOp} <= names


def outputs_of(case: OperatorCase, inputs: Mapping[str, bytes]) -> dict[str, bytes]:
    return execute(engine("reference"), case.program, inputs)


@cache
def engine(name: str) -> Backend:
    return open_backend(name)


@cache
def usual_outputs(name: str) -> dict[str, bytes]:
    """The outputs of a case for its own inputs."""
    case = next(case for case in operator_matrix() if case.name == name)
    return outputs_of(case, case.inputs)


def element_of(case: OperatorCase, name: str) -> ScalarType:
    element = next(buffer.element for buffer in case.program.buffers if buffer.name == name)
    assert isinstance(element, ScalarType)
    return element


def elements(dtype: ScalarType, data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + dtype.size], "little") for at in range(0, len(data), dtype.size)]


def is_nan(dtype: ScalarType, bits: int) -> bool:
    return dtype.is_float and not scalar.binary(BinaryOp.EQ, dtype, bits, bits)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in operator_matrix()])
def test_a_wrong_result_would_show(case: OperatorCase) -> None:
    """No output is one value throughout, which an engine could return that computes nothing."""
    for name, data in usual_outputs(case.name).items():
        found = elements(element_of(case, name), data)
        if len(found) > 1 and not BY_LITERALS.fullmatch(name):
            assert len(set(found)) > 1, name


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TOGETHER if "NaN" not in case.name])
def test_every_lane_shows_in_what_lanes_share(case: OperatorCase) -> None:
    """The value of each lane can change an output.

    A shuffle reads the value of some lanes only, nobody is above the last lane of a subgroup, and one condition decides
    for its subgroup.
    """
    name = "value" if "value" in case.inputs else "x"
    dtype = element_of(case, name)
    lanes = len(case.inputs[name]) // dtype.size
    shown = len(shown_lanes(case, name))
    if "shuffle" in case.name or "any" in case.name or "all" in case.name:
        assert lanes // 2 < shown
    else:
        size = case.program.workgroup_size[0]
        assert shown == lanes - (lanes // size * -(-size // 32) if "exclusive" in case.name else 0)


def shown_lanes(case: OperatorCase, name: str) -> set[int]:
    """The lanes of which another value changes an output; one lane of each part is changed at a time."""
    dtype, wanted = element_of(case, name), usual_outputs(case.name)
    values = elements(dtype, case.inputs[name])
    parts, shown = parts_of(case, len(values)), set[int]()
    for place in range(max(map(len, parts))):
        lanes = [part[place] for part in parts if place < len(part)]
        choices = {lane: other_values(case.name, dtype, values[lane]) for lane in lanes}
        for number in range(max(map(len, choices.values()))):
            changed = values.copy()
            for lane in choices.keys() - shown:
                changed[lane] = choices[lane][number]
            data = b"".join(bits.to_bytes(dtype.size, "little") for bits in changed)
            found = outputs_of(case, {**case.inputs, name: data})
            shown |= {part[place] for part in parts if place < len(part) and differ(found, wanted, part, len(values))}
            if shown >= choices.keys():
                break
    return shown


def parts_of(case: OperatorCase, lanes: int) -> list[range]:
    """The subgroups where no lane sees those of another one, else all lanes as one part."""
    size = case.program.workgroup_size[0]
    if not case.name.startswith("subgroup"):
        return [range(lanes)]
    return [
        range(group + at, group + min(at + 32, size)) for group in range(0, lanes, size) for at in range(0, size, 32)
    ]


def differ(found: Mapping[str, bytes], wanted: Mapping[str, bytes], part: range, lanes: int) -> bool:
    """Whether outputs differ: those of some lanes, which have as many elements each, or all of them."""
    for name, data in wanted.items():
        width = len(data) // lanes
        own = slice(None) if len(part) == lanes else slice(part.start * width, part.stop * width)
        if found[name][own] != data[own]:
            return True
    return False


def other_values(name: str, dtype: ScalarType, bits: int) -> Sequence[int]:
    if dtype is bool_:
        return (1 - bits,)
    sign = 1 << (dtype.bits - 1)
    if not dtype.is_float:
        return (0, sign - 1, sign, 2 * sign - 1)
    infinity = scalar.float_format(dtype).infinity
    return (infinity, sign | infinity) if "min" in name or "max" in name else (bits ^ sign,)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in TOGETHER if "subgroup add f" in case.name]
)
def test_sums_of_floats_show_their_order(case: OperatorCase) -> None:
    """Every subgroup has a sum of its own, which additions in pairs and in descending lanes give otherwise."""
    dtype, size = element_of(case, "x"), case.program.workgroup_size[0]
    values, sums = elements(dtype, case.inputs["x"]), elements(dtype, usual_outputs(case.name)["y"])
    subgroups = [
        slice(group + at, min(group + at + 32, group + size))
        for group in range(0, len(values), size)
        for at in range(0, size, 32)
    ]
    if "NaN" in case.name:
        nans = [is_nan(dtype, sums[lanes.start]) for lanes in subgroups]
        assert any(nans) and len({sums[lanes.start] for lanes in subgroups}) >= 4
        return
    for lanes in subgroups:
        ascending, total = values[lanes], sums[lanes.start]
        assert not is_nan(dtype, total)
        assert in_order(dtype, ascending) == total
        assert in_order(dtype, ascending[::-1]) != total
        assert in_pairs(dtype, ascending) != total


def in_order(dtype: ScalarType, values: Sequence[int]) -> int:
    total = 0
    for bits in values:
        total = scalar.binary(BinaryOp.ADD, dtype, total, bits)
    return total


def in_pairs(dtype: ScalarType, values: Sequence[int]) -> int:
    """Adds the way a butterfly of shuffles does."""
    while len(values) > 1:
        half = len(values) // 2
        values = [scalar.binary(BinaryOp.ADD, dtype, values[k], values[k + half]) for k in range(half)]
    return values[0]
