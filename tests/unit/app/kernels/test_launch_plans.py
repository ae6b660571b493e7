"""Plans that a session keeps of kernels which are passed where it takes a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import pytest

import vyre
from vyre import In, InOut, Out, Static, f32, like, u32
from vyre.app import preparing
from vyre.domain.errors import InvalidConfig, InvalidInput

T = TypeVar("T")
FACTOR = 3


@vyre.kernel(workgroup=32)
def added(x: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = y[i] + x[i]


@vyre.kernel(workgroup=32)
def scaled(x: In[T], by: Static[int], y: Out[T, like("x")]) -> None:
    i = vyre.global_id()
    if i < len(x):
        y[i] = x[i] * by


@vyre.kernel(workgroup=32)
def counted(y: Out[u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = i + 1


@vyre.kernel(workgroup=(8, 4))
def turned(x: In[f32, 2], y: Out[f32, 2, (4, 8)]) -> None:
    column, row = vyre.global_id(), vyre.global_id(1)
    if row < 4 and column < 8:
        y[row, column] = x[row, column] * 2.0


@vyre.kernel(workgroup=32)
def multiplied(x: InOut[u32]) -> None:
    i = vyre.global_id()
    if i < len(x):
        x[i] = x[i] * FACTOR


@pytest.fixture
def session() -> Iterator[vyre.Session]:
    with vyre.open("cpu", cache=False) as opened:
        yield opened


def _plans(session: vyre.Session) -> int:
    return len(session._pipelines.launches)


def test_a_kind_of_inputs_is_planned_once(session: vyre.Session) -> None:
    for number in range(4):
        x, y = np.full(64, number, np.uint32), np.arange(64, dtype=np.uint32)
        assert session.dispatch(added, {"x": x, "y": y})["y"].tolist() == (y + number).tolist()
        assert y.tolist() == list(range(64))
    assert _plans(session) == 1
    assert session.submit(added, {"x": x, "y": y}).result()["y"][5] == 8
    assert session.bind(added, {"x": x, "y": y})()["y"][5] == 8
    assert _plans(session) == 1


def test_shapes_types_and_static_values_are_kinds(session: vyre.Session) -> None:
    for dtype in (np.uint32, np.float32, np.uint32):
        for shape in ((6,), (2, 3), (5, 7)):
            for by in (2, 3, 2):
                x = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
                y = session.dispatch(scaled, {"x": x, "by": by})["y"]
                assert y.dtype == x.dtype
                assert y.shape == shape
                assert y.tolist() == (x * by).tolist()
    assert _plans(session) == 2 * 3 * 2


def test_a_static_value_in_an_array_is_no_other_value(session: vyre.Session) -> None:
    x = np.arange(4, dtype=np.uint32)
    for by in (np.array(2), np.array(5), np.int64(5), 5):
        assert session.dispatch(scaled, {"x": x, "by": by})["y"].tolist() == (x * int(by)).tolist()


def test_the_size_of_an_output_is_part_of_a_kind(session: vyre.Session) -> None:
    for count in (3, 9, 3):
        assert session.dispatch(counted, output_counts={"y": count})["y"].tolist() == list(range(1, count + 1))
        array = np.zeros(count + 1, np.uint32)
        session.dispatch(counted, {}, out={"y": array})
        assert array.tolist() == list(range(1, count + 2))
    config = vyre.DispatchConfig(output_counts={"y": 7})
    assert len(session.dispatch(counted, {}, config)["y"]) == 7
    assert len(session.dispatch(counted, {}, vyre.DispatchConfig(output_counts={"y": 8}))["y"]) == 8


def test_an_array_of_several_axes_gives_its_sizes(session: vyre.Session) -> None:
    for _ in range(2):
        for columns in (8, 11):
            x = np.arange(4 * columns, dtype=np.float32).reshape(4, columns)
            found = session.dispatch(turned, {"x": x})["y"]
            assert found.tolist() == (2 * x[:, :8]).tolist()


def test_a_number_of_workgroups_is_part_of_a_kind(session: vyre.Session) -> None:
    y = np.zeros(128, np.uint32)
    x = np.ones(128, np.uint32)
    for groups in (1, 2, 1, 4):
        for found in (
            session.dispatch(added[groups], {"x": x, "y": y}),
            session.dispatch(added, {"x": x, "y": y}, grid=groups),
            session.dispatch(added.over(32 * groups), {"x": x, "y": y}),
        ):
            assert found["y"].sum() == 32 * groups
    with pytest.raises(InvalidConfig):
        session.dispatch(added[2], {"x": x, "y": y}, grid=2)


def test_a_captured_constant_may_change(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(5, dtype=np.uint32)
    assert session.dispatch(multiplied, {"x": x})["x"].tolist() == (3 * x).tolist()
    monkeypatch.setitem(globals(), "FACTOR", 7)
    assert session.dispatch(multiplied, {"x": x})["x"].tolist() == (7 * x).tolist()


def test_arguments_that_are_converted_first_get_no_plan(session: vyre.Session) -> None:
    y = np.arange(3, dtype=np.uint32)
    for x in ([1, 2, 3], [4, 5, 6], memoryview(np.array([7, 8, 9], np.uint32))):
        assert session.dispatch(added, {"x": x, "y": y})["y"].tolist() == (np.asarray(x) + y).tolist()
    assert session.dispatch(added, [y, y])["y"].tolist() == (2 * y).tolist()
    assert _plans(session) == 0


@pytest.mark.parametrize(
    "inputs", [{"x": None}, {"x": 1.0}, {"z": np.zeros(4, np.uint32)}, {"x": np.zeros(4, np.float32)}, {"x": "text"}]
)
def test_a_plan_refuses_what_a_first_launch_refuses(session: vyre.Session, inputs: dict[str, Any]) -> None:
    given = {"x": np.ones(4, np.uint32), "y": np.ones(4, np.uint32)}
    wrong = given | inputs
    with pytest.raises(InvalidInput) as first:
        session.dispatch(added, wrong)
    session.dispatch(added, given)
    with pytest.raises(InvalidInput) as later:
        session.dispatch(added, wrong)
    assert str(first.value) == str(later.value)


def test_resident_memory_is_a_kind_of_its_own_shape(session: vyre.Session) -> None:
    x = np.arange(8, dtype=np.uint32)
    with session.resident(x) as held:
        for _ in range(3):
            assert session.dispatch(added, {"x": held, "y": x.reshape(2, 4)})["y"].tolist() == (
                (2 * x).reshape(2, 4).tolist()
            )


def test_plans_are_bounded_and_forgotten(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "PREPARED", 4)
    for count in range(1, 12):
        x = np.ones(count, np.uint32)
        assert session.dispatch(added, {"x": x, "y": x})["y"].tolist() == [2] * count
        assert _plans(session) <= 4
    session.invalidate(added.program)
    assert _plans(session) == 0
