"""What a config, a constant and the places for results take."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.small_programs import saxpy_program
from vyre import DispatchConfig, SpecMap, SpecValue
from vyre.domain.errors import InvalidConfig, InvalidInput
from vyre.domain.printable import shown

SAXPY: Final = saxpy_program()
X: Final = np.arange(8, dtype=np.float32)


def constants_program() -> vyre.Program:
    """A parameter and a constant of each type: ``y = a`` and ``z = k``."""
    with vyre.ProgramBuilder("constants", workgroup=1) as p:
        for dtype, default in ((vyre.u32, 1), (vyre.i32, 1), (vyre.f32, 1.0), (vyre.bool_, True)):
            y = p.output(f"y_{dtype.text}", dtype, 2)
            y[0] = p.param(f"a_{dtype.text}", dtype)
            y[1] = p.spec(f"k_{dtype.text}", dtype(default))
    return p.build()


CONSTANTS: Final = constants_program()
PARAMETERS: Final[dict[str, Any]] = {"a_u32": 1, "a_i32": 1, "a_f32": 1.0, "a_bool": True}


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


@pytest.mark.parametrize("type_name", ["u32", "i32", "f32", "bool"])
@pytest.mark.parametrize(
    "value",
    [
        True, np.True_, 1, 2.0, 0.5, -0.0, 1e39, 3.4028235e38, float("inf"), float("nan"), -1, 2**32, 10**400, 10**5000,
        np.int64(3), np.uint8(3), np.float32(0.1), np.float64(1e39), np.array(4), np.array(4.0), np.array([4]),
        np.array(True), np.array("4"), np.array(4, object), np.ma.masked, np.ma.masked_array(1.0),
        np.timedelta64(1, "s"),
        np.datetime64(1, "ns"), np.complex64(1), "7", b"7", Decimal(1), Fraction(1, 2), 1j, None, [1], (1,), {}, int,
    ],
    ids=shown,
)  # fmt: skip
def test_a_constant_takes_what_a_parameter_takes(session: vyre.Session, type_name: str, value: Any) -> None:
    """But for raw bytes, which only memory has."""
    name = f"a_{type_name}"
    constant = {f"k_{type_name}": value}
    try:
        if isinstance(value, bytes):
            raise InvalidInput("bytes")
        result = session.dispatch(CONSTANTS, PARAMETERS | {name: value})[f"y_{type_name}"]
    except InvalidInput:
        with pytest.raises(InvalidConfig, match=rf"constant 'k_{type_name}'.*Fix: "):
            session.dispatch(CONSTANTS, PARAMETERS, spec=constant)
    else:
        same = session.dispatch(CONSTANTS, PARAMETERS, spec=constant)[f"y_{type_name}"]
        assert same[1:].tobytes() == result[:1].tobytes()


@pytest.mark.parametrize(
    ("make", "value"),
    [("u32", True), ("f32", "7"), ("f32", 1e39), ("i32", 1.0), ("bool_", 1), ("of", None), ("of", 1j)],
)
def test_a_value_that_is_typed_by_the_caller_follows_the_same_rule(make: str, value: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"Fix: "):
        getattr(SpecValue, make)(value)


def test_the_plain_rule_knows_the_numbers_of_numpy() -> None:
    plain = {"a": np.int64(3), "b": np.float32(0.5), "c": np.True_, "d": np.array(2)}
    assert SpecMap(plain) == SpecMap({"a": 3, "b": 0.5, "c": True, "d": 2})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["grid", "workgroup"])
@pytest.mark.parametrize(("given", "held"), [(4, (4, 1, 1)), ((4,), (4, 1, 1)), ((4, 2), (4, 2, 1)), ((4, 2, 3),) * 2])
def test_a_config_takes_axes_as_the_keywords_do(name: str, given: Any, held: tuple[int, ...]) -> None:
    assert getattr(DispatchConfig(**{name: given}), name) == held


def test_an_extent_keeps_its_axes() -> None:
    assert DispatchConfig(extent=4).extent == DispatchConfig(extent=(4,)).extent == (4,)
    assert DispatchConfig(extent=(4, 2)).extent == (4, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"grid": [4]}, {"grid": 4.0}, {"grid": True}, {"grid": (4, True)}, {"grid": ()}, {"grid": 0},
        {"workgroup": "64"},
        {"workgroup": (1, 1, 1, 1)}, {"timeout_s": "1"}, {"timeout_s": True},
        {"timeout_s": 1j}, {"timeout_s": float("nan")}, {"race_check": "x"}, {"race_check": 1}, {"race_check": None},
        {"cooperative": "no"}, {"label": 5}, {"profile": b"x"}, {"speculation": "force"}, {"persistent_thread": True},
        {"output_counts": ["y"]}, {"output_counts": {"y": 1.0}}, {"output_counts": {1: 1}},
        {"output_counts": {"y": None}},
        {"spec": ["k"]}, {"spec": [("k", 1)]}, {"spec": {"k": None}}, {"spec": {1: 1}},
    ],
    ids=str,
)  # fmt: skip
def test_a_config_refuses_what_cannot_be_meant(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=rf"{next(iter(wrong))}|constant|name in.*Fix: "):
        DispatchConfig(**wrong)


def test_a_config_does_not_follow_what_its_caller_changes_later(session: vyre.Session) -> None:
    with vyre.ProgramBuilder("count", workgroup=1) as p:
        y = p.output("y", vyre.u32)
        y[p.global_id()] = p.spec("k", 1)
    program, counts, spec = p.build(), {"y": 2}, {"k": 5}
    config = DispatchConfig(output_counts=counts, spec=spec, grid=1)
    for _ in range(2):
        assert session.dispatch(program, config=config)["y"].tolist() == [5, 0]
        counts["y"], spec["k"] = 3, 6
        hash(config)
    assert config == DispatchConfig(output_counts={"y": 2}, spec=SpecMap({"k": 5}), grid=(1, 1, 1))


@pytest.mark.parametrize(
    "keywords", [{"grid": [1]}, {"grid": ([1],)}, {"spec": ["k"]}, {"output_counts": ["y"]}], ids=str
)
def test_the_keywords_refuse_it_too(session: vyre.Session, keywords: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=rf"{next(iter(keywords))}.*Fix: "):
        session.dispatch(SAXPY, [2.0, X, X], **keywords)


@pytest.mark.parametrize("wrong", [["y"], "y", 1, (X,), {"x": X}, {"y": X.tolist()}, {"y": None}], ids=str)
def test_results_go_by_name(session: vyre.Session, wrong: Any) -> None:
    for run in (session.compile(SAXPY), session.specialize(SAXPY)):
        with pytest.raises(InvalidInput, match=r"out.*Fix: "):
            run([2.0, X, X], out=wrong)


@pytest.mark.parametrize("wrong", [1, "y", {"y": X}, [], vyre.OutputArena], ids=str)
def test_an_arena_is_one(session: vyre.Session, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"outputs.*Fix: "):
        session.dispatch(SAXPY, [2.0, X, X], outputs=wrong)
