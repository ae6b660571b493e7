"""Kernels that are kept running: each job, and each item of a batch, is planned as a dispatch of its inputs is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.small_programs import saxpy_program
from vyre import In, InOut, InvalidInput, InvalidResource, Out, Static, f32, i32, u32

pytestmark = NEEDS_LLVM
T = TypeVar("T", f32, i32)
EXAMPLE: dict[str, Any] = {"x": np.zeros(50, np.int32), "k": 1, "times": 1}


@pytest.fixture(scope="module", params=["cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


@vyre.kernel
def running_sums(x: In[f32, Literal[2]], lanes: InOut[u32], y: Annotated[Out[f32, Literal[2]], vyre.like("x")]) -> None:
    """Sums along rows, one lane a row; and counts the lanes that run."""
    row = vyre.global_id(0)
    lanes.atomic_add(0, u32(1))
    if row < x.shape[0]:
        total = f32(0)
        for column in range(x.shape[1]):
            total += x[row, column]
            y[row, column] = total


@vyre.kernel
def scaled(x: In[T], k: T, times: Static[int], y: Annotated[Out[T], vyre.like("x")]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i]
        for _ in range(times):
            y[i] = y[i] * k


def rows(count: int, columns: int) -> dict[str, Any]:
    x = np.arange(count * columns, dtype=np.float32).reshape(count, columns)
    return {"x": x, "lanes": np.zeros(1, np.uint32)}


def test_a_job_of_a_kernel_is_a_dispatch_of_it(session: vyre.Session) -> None:
    with session.persistent(running_sums) as jobs:
        for count, columns in ((700, 3), (3, 700), (1, 5), (700, 3)):
            inputs = rows(count, columns)
            dispatched = session.dispatch(running_sums, inputs)
            job = jobs.submit(inputs).result(LIMIT_S)
            np.testing.assert_array_equal(job["y"], np.cumsum(inputs["x"], axis=1, dtype=np.float32))
            assert job["lanes"].tolist() == dispatched["lanes"].tolist()
            assert job.launch == dispatched.launch
        assert jobs.counters()["jobs"] == 4


def test_types_and_static_values_follow_from_the_arguments(session: vyre.Session) -> None:
    whole = np.arange(50, dtype=np.int32)
    real = whole.astype(np.float32)
    with session.persistent(scaled, {"x": real, "k": 2.0, "times": 3}) as jobs:
        np.testing.assert_array_equal(jobs.submit({"x": real, "k": 2.0, "times": 3}).result(LIMIT_S)["y"], real * 8)
        np.testing.assert_array_equal(jobs.submit({"x": whole, "k": 3, "times": 2}).result(LIMIT_S)["y"], whole * 9)
        np.testing.assert_array_equal(jobs.submit([whole, 5, 1]).result(LIMIT_S)["y"], whole * 5)


def test_columns_have_one_axis_more_than_the_parameter(session: vyre.Session) -> None:
    with session.persistent(running_sums) as jobs, session.persistent(scaled.over(50), EXAMPLE) as others:
        x = np.arange(4 * 6 * 2, dtype=np.float32).reshape(4, 6, 2)
        batch = jobs.submit_many({"x": x, "lanes": np.zeros(1, np.uint32)})
        found = batch.result(LIMIT_S)
        np.testing.assert_array_equal(found["y"].reshape(x.shape), np.cumsum(x, axis=2, dtype=np.float32))
        shared = jobs.submit_many({"x": x[0], "lanes": np.zeros((3, 1), np.uint32)}).result(LIMIT_S)
        np.testing.assert_array_equal(shared["y"].reshape(3, 6, 2), np.stack([np.cumsum(x[0], 1, np.float32)] * 3))
        k = np.arange(5, dtype=np.int32)
        found = others.submit_many({"x": np.arange(50, dtype=np.int32), "k": k, "times": 1}).result(LIMIT_S)
        np.testing.assert_array_equal(found["y"], np.outer(k, np.arange(50)))
        assert len(jobs.submit_many({"x": x[:0], "lanes": np.zeros(1, np.uint32)})) == 0


def test_what_a_dispatch_refuses_is_refused(session: vyre.Session) -> None:
    with session.persistent(running_sums) as jobs:
        for inputs in ({"x": 3.0, "lanes": np.zeros(1, np.uint32)}, {"x": np.zeros((2, 2), np.float32)}, [1]):
            with pytest.raises(InvalidInput, match="Fix:"):
                jobs.submit(inputs)  # type: ignore[arg-type]
        for columns in range(1, 9):
            jobs.submit(rows(2, columns)).result(LIMIT_S)
        with pytest.raises(InvalidInput, match=r"after 8 kinds of shapes.*Fix:"):
            jobs.submit(rows(2, 9))
        ticket = jobs.submit(rows(2, 1))
        ticket.result(LIMIT_S)
    with pytest.raises(InvalidResource, match=r"used after close\(\)"):
        jobs.submit(rows(2, 1))
    with session.persistent(running_sums) as unused:
        pass
    with pytest.raises(InvalidResource, match=r"used after close\(\)"):
        unused.submit(rows(2, 1))
    assert unused.closed and unused.engines == ()


@pytest.mark.parametrize("kept", [True, False])
def test_many_dispatches_of_a_kernel_have_the_shapes_of_one(
    session: vyre.Session, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(session), "_keeps", lambda *_: kept)
    batch = [rows(20, 3)] * 20
    for result in session.dispatch_many(running_sums, batch):
        np.testing.assert_array_equal(result["y"], np.cumsum(batch[0]["x"], axis=1, dtype=np.float32))
        assert result["lanes"].tolist() == session.dispatch(running_sums, batch[0])["lanes"].tolist()
    mixed = [rows(20, 3), rows(3, 20)] * 10
    for inputs, result in zip(mixed, session.dispatch_many(running_sums, mixed), strict=True):
        np.testing.assert_array_equal(result["y"], np.cumsum(inputs["x"], axis=1, dtype=np.float32))


def test_resident_arrays_are_dispatched_whatever_is_predicted(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine takes host data only, so that no prediction may choose one for an item with resident memory."""
    monkeypatch.setattr(type(session), "_keeps", lambda *_: True)
    x, program = np.arange(30, dtype=np.float32), saxpy_program()
    with session.resident(x) as resident:
        batch: list[dict[str, Any]] = [{"a": 2.0, "x": x, "y": x}] * 19 + [{"a": 2.0, "x": resident, "y": x}]
        for result in session.dispatch_many(program, batch):
            np.testing.assert_array_equal(result["y"], 3 * x)
