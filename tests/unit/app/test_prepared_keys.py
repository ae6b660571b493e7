"""What a session takes for the same dispatch: arguments that mean the same, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre.domain.errors import InvalidConfig


def constant_program(dtype: vyre.ScalarType, default: float) -> vyre.Program:
    """``y[0] = k``, a specialization constant."""
    with vyre.ProgramBuilder("constant", workgroup=1) as p:
        y = p.output("y", dtype, 1)
        y[0] = p.spec("k", dtype(default))
    return p.build()


def lanes_program() -> vyre.Program:
    """Every lane writes 1."""
    with vyre.ProgramBuilder("lanes", workgroup=1) as p:
        y = p.output("y", vyre.u32)
        y[p.global_id()] = 1
    return p.build()


F32: Final = constant_program(vyre.f32, 0.5)
LANES: Final = lanes_program()


@pytest.fixture(params=["reference", "reference-scalar", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


def bits(session: vyre.Session, value: Any) -> int:
    """Of the constant that a dispatch with this value ran with."""
    result = session.dispatch(F32, spec={"k": value}, grid=1)["y"]
    return int(result.view(np.uint32)[0])


# Groups of values that print alike, are equal or hash alike, or that have the same bytes as other types.
ALIKE: Final = {
    "digits that numpy does not print": [np.array(0.00123457), np.array(0.001234574), np.float64(0.0012345741)],
    "narrow digits": [np.array(1.0), np.array(1.0000001192092896), np.float32(1.0000002)],
    "signs of zero": [0.0, -0.0, np.float32(0.0), np.float32(-0.0), np.array(-0.0), 0],
    "ones": [1, 1.0, np.float32(1.0), np.int8(1), np.array(1, np.uint64)],
    "bytes": [np.array(1, np.int32), np.array(1e-45, np.float32), np.array(1, "<i2"), np.array(1, ">i2")],
    "not a number": [float("nan"), np.float32("nan"), float("inf"), np.float64("inf")],
}


@pytest.mark.parametrize("values", ALIKE.values(), ids=list(ALIKE))
def test_a_constant_has_the_bits_of_its_own_value_whatever_ran_before(session: vyre.Session, values: list[Any]) -> None:
    for first, second in permutations(values, 2):
        for value in (first, second):
            assert bits(session, value) == int(np.array([value], np.float32).view(np.uint32)[0]), (first, second)


def test_printing_options_decide_about_no_constant(session: vyre.Session) -> None:
    with np.printoptions(precision=2):
        found = {bits(session, np.array(value)) for value in (0.123, 0.124)}
    assert len(found) == 2


@pytest.mark.parametrize("name", ["grid", "extent"])
@pytest.mark.parametrize("wrong", [1.0, True, (1.0,), (1, True), (1, 1.0, 1)])
def test_a_wrong_type_is_refused_although_an_equal_number_ran(session: vyre.Session, name: str, wrong: Any) -> None:
    axes = wrong if isinstance(wrong, tuple) else (wrong,)
    right = tuple(map(int, axes))
    given: Any
    for given in (right, right[0]):
        session.dispatch(LANES, output_counts={"y": 4}, **{name: given})
    with pytest.raises(InvalidConfig, match=name):
        session.dispatch(LANES, output_counts={"y": 4}, **{name: wrong})


@pytest.mark.parametrize("wrong", [1.0, True])
def test_a_wrong_count_is_refused_although_an_equal_number_ran(session: vyre.Session, wrong: Any) -> None:
    session.dispatch(LANES, grid=1, output_counts={"y": 1})
    with pytest.raises(InvalidConfig, match="output_counts"):
        session.dispatch(LANES, grid=1, output_counts={"y": wrong})


@pytest.mark.parametrize("value", [2.5, float("nan"), np.float32(2.5), np.array(2.5), vyre.SpecValue.f32(2.5)])
def test_arguments_that_mean_the_same_share_a_pipeline(value: Any) -> None:
    with vyre.open("reference", cache=False) as session:
        for make in (dict, vyre.SpecMap):
            first, again = (session.compile(F32, spec=make({"k": value}), grid=(1, 1)) for _ in range(2))
            assert first is again
