"""The reference engines, and the emulated device, give the same bytes on every operation of every type."""

from __future__ import annotations

import pytest

from vyre.domain.ir.operators import ATOMIC_ELEMENTS, BINARY, INTEGERS, UNARY, AtomicOp
from vyre.domain.ir.types import EXECUTABLE_TYPES, NARROW_TYPES, ScalarType
from vyre.testing.execution import execute, open_backend
from vyre.testing.operator_matrix import operator_matrix
from vyre.testing.operator_programs import OperatorCase


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in operator_matrix()])
def test_all_engines_agree(case: OperatorCase) -> None:
    wanted = execute(open_backend("reference-scalar"), case.program, case.inputs)
    for name in ("reference", "cuda-machine"):
        assert execute(open_backend(name), case.program, case.inputs) == wanted, name


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
