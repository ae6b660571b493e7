"""Dispatches on resident memory that were checked before: the same results, and the same errors, as the first time."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import vyre
from support.limits import LIMIT_S
from support.small_programs import saxpy_program
from vyre import ProgramBuilder, u32
from vyre.adapters.cpu.runtime.resident import CpuMemory
from vyre.app import resident_dispatch
from vyre.app.resident_plans import LARGEST_DATA, PLANS
from vyre.domain.errors import InvalidInput, InvalidResource, TrapError
from vyre.domain.ir.program import Program
from vyre.ports.resident_buffer import ResidentBuffer

X = np.arange(8, dtype=np.float32)
Y = np.ones(8, dtype=np.float32)
SAXPY = saxpy_program()


@pytest.fixture(params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param) as opened:
        yield opened


class Checks:
    """Counts the dispatches and bound launches that are checked in full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        check = resident_dispatch.check_residents

        def counted(*arguments: object, **named: object) -> None:
            self.count += 1
            check(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(resident_dispatch, "check_residents", counted)


def add_program() -> Program:
    """``total[0] += n`` once."""
    with ProgramBuilder("add", workgroup=1) as p:
        n, total = p.param("n", u32), p.inout("total", u32)
        total.atomic_add(0, n)
    return p.build()


def test_a_repeated_dispatch_is_checked_once(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Checks(monkeypatch)
    with session.resident(X) as x, session.resident(Y) as y:
        wanted = Y
        for a in (2.0, 2.0, np.float32(3.0), 0.5, -0.0):
            result = session.dispatch(SAXPY, {"a": a, "x": x, "y": y})
            assert (len(result), result.resident, result.launch.grid) == (0, {"y": y}, (1, 1, 1))
            wanted = np.float32(a) * X + wanted
            assert np.array_equal(y.download(), wanted)
        assert checks.count == 1
        session.dispatch(SAXPY, (1.0, x, y))
        session.dispatch(SAXPY, [1.0, x, y])
        assert np.array_equal(y.download(), 2 * X + wanted)
        assert checks.count == 1


def test_other_arguments_are_checked_anew(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Checks(monkeypatch)
    with session.resident(X) as x, session.resident(Y) as y, session.resident(X[:4]) as short:
        session.dispatch(SAXPY, {"a": 1.0, "x": x, "y": y})
        session.dispatch(SAXPY, {"a": 1.0, "x": y, "y": x})
        assert np.array_equal(y.download(), X + Y) and np.array_equal(x.download(), 2 * X + Y)
        assert checks.count == 2
        session.dispatch(SAXPY, {"a": 1.0, "x": short, "y": y})
        session.dispatch(SAXPY, {"a": 1.0, "x": X, "y": y})
        assert checks.count == 4
        wanted = 2 * X + Y
        wanted[:4] += X[:4]
        assert np.array_equal(y.download(), wanted)


@pytest.mark.parametrize(("count", "checked"), [(LARGEST_DATA // 4, 1), (LARGEST_DATA // 4 + 1, 4)])
def test_host_data_beside_resident_memory_are_those_of_each_call(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch, count: int, checked: int
) -> None:
    checks = Checks(monkeypatch)
    x = np.arange(count, dtype=np.float32)
    wanted = np.zeros(count, np.float32)
    with session.resident(wanted) as y:
        for given in (np.asarray, np.asarray, np.copy, np.ndarray.tobytes):
            session.dispatch(SAXPY, {"a": 2.0, "x": given(x), "y": y})
            wanted += 2 * x
            x += 1  # the same array with other content
        assert np.array_equal(y.download(), wanted)
    assert checks.count == checked


def parts_program() -> Program:
    """``y[i] += x[i]``, and ``z[i] = x[i]`` where that is odd; a 99 in ``x`` traps."""
    with ProgramBuilder("parts", workgroup=8) as p:
        x, y, z = p.input("x", u32), p.inout("y", u32), p.output("z", u32, like="x")
        i = p.let(p.global_id())
        with p.if_(i < x.length):
            with p.if_(x[i] == 99):
                p.trap(i, "ninety-nine")
            y[i] = y[i] + x[i]
            with p.if_((x[i] & 1) == 1):
                z[i] = x[i]
    return p.build()


def scratch_of(session: vyre.Session, program: Program) -> list[ResidentBuffer]:
    plans = session.compile(program)._resident_plans._plans.values()
    return [each.held for plan in plans for each in plan.scratch]


def test_written_host_data_beside_resident_memory_is_that_of_each_call(
    session: vyre.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, program = Checks(monkeypatch), parts_program()
    results = []
    with session.resident(np.arange(6, dtype=np.uint32)) as x:
        for number in range(4):
            y = np.full(6, 10 * number, np.uint32)
            x.upload(np.arange(number, number + 6, dtype=np.uint32))
            results.append(session.dispatch(program, {"x": x, "y": y if number % 2 else y.reshape(2, 3)}))
            assert y.tolist() == [10 * number] * 6
        assert checks.count == 1
        longer = session.dispatch(program, {"x": x, "y": np.zeros(9, np.uint32)})
        assert (longer["y"].size, checks.count) == (9, 2)
    for number, result in enumerate(results):  # none of them is memory that a later call has written
        given = np.arange(number, number + 6, dtype=np.uint32)
        assert result["y"].shape == ((6,) if number % 2 else (2, 3))
        assert result["y"].reshape(-1).tolist() == (given + 10 * number).tolist()
        assert result["z"].tolist() == np.where(given & 1, given, 0).tolist()


def test_memory_of_a_plan_goes_with_it(session: vyre.Session) -> None:
    program, y = parts_program(), np.zeros(6, np.uint32)
    x = session.resident(np.arange(6, dtype=np.uint32))
    session.dispatch(program, {"x": x, "y": y})
    known = [weakref.ref(held) for held in scratch_of(session, program)]
    assert len(known) == 2
    x.close()
    del x
    gc.collect()
    assert [one() for one in known] == [None, None]


def test_a_dispatch_that_fails_leaves_no_plan(session: vyre.Session) -> None:
    program, y = parts_program(), np.zeros(6, np.uint32)
    with session.resident(np.arange(6, dtype=np.uint32)) as x:
        session.dispatch(program, {"x": x, "y": y})
        held = scratch_of(session, program)
        x.upload(np.full(6, 99, np.uint32))
        with pytest.raises(TrapError):
            session.dispatch(program, {"x": x, "y": y})
        assert all(each.closed for each in held)
        assert scratch_of(session, program) == []
        x.upload(np.full(6, 3, np.uint32))
        assert session.dispatch(program, {"x": x, "y": y})["z"].tolist() == [3] * 6


def test_large_memory_and_that_of_a_budget_is_given_back_after_each_call() -> None:
    program = parts_program()
    count = LARGEST_DATA // 4 + 1
    for budget, size in ((None, count), (1 << 20, 6)):
        with vyre.open("cpu", resident_budget=budget) as session, session.resident(np.ones(size, np.uint32)) as x:
            for number in range(3):
                result = session.dispatch(program, {"x": x, "y": np.full(size, number, np.uint32)})
                assert (result["y"] == number + 1).all() and (result["z"] == 1).all()
            assert scratch_of(session, program) == []


def test_threads_do_not_share_the_memory_of_a_plan(session: vyre.Session) -> None:
    program, start = parts_program(), threading.Barrier(4)
    wrong: list[int] = []

    def run(number: int) -> None:
        start.wait(LIMIT_S)
        for turn in range(15):
            y = np.full(6, 100 * number + turn, np.uint32)
            if session.dispatch(program, {"x": x, "y": y})["y"].tolist() != (y + np.arange(6)).tolist():
                wrong.append(number)

    with session.resident(np.arange(6, dtype=np.uint32)) as x:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
    assert wrong == []


def test_wrong_arguments_get_the_same_error_as_the_first_time(session: vyre.Session) -> None:
    x, y = session.resident(X), session.resident(Y)
    with vyre.open(session.backend) as other, ExitStack() as stack:
        foreign = stack.enter_context(other.resident(X))
        wrong: list[dict[str, object]] = [
            {"a": "2", "x": x, "y": y},
            {"a": X, "x": x, "y": y},
            {"a": x, "x": x, "y": y},
            {"a": 2.0, "x": foreign, "y": y},
            {"a": 2.0, "x": y, "y": y},
            {"a": 2.0, "x": x},
            {"a": 2.0, "x": x, "y": y, "z": 1},
        ]
        before = [told(session, each) for each in wrong]
        session.dispatch(SAXPY, {"a": 2.0, "x": x, "y": y})
        session.bind_resident(SAXPY, {"a": 2.0, "x": x, "y": y}).close()
        assert [told(session, each) for each in wrong] == before
    session.dispatch(SAXPY, {"a": 2.0, "x": x, "y": y})
    x.close()
    good: dict[str, Any] = {"a": 2.0, "x": x, "y": y}
    for run in (session.dispatch, session.bind_resident):
        with pytest.raises(InvalidResource, match=r"`x` is bound to .*closed.*Fix: keep it open"):
            run(SAXPY, good)
    good["x"] = session.resident(3 * X)  # perhaps where the closed one was
    y.upload(Y)
    session.dispatch(SAXPY, good)
    assert np.array_equal(y.download(), 6 * X + Y)
    good["x"].close()
    y.close()


def told(session: vyre.Session, arguments: dict[str, object]) -> list[str]:
    found = []
    for run in (session.dispatch, session.bind_resident):
        with pytest.raises((InvalidInput, InvalidResource)) as error:
            run(SAXPY, arguments)  # type: ignore[arg-type]
        found.append(str(error.value))
    return found


def test_arrays_that_nobody_holds_are_gone_with_their_plans(session: vyre.Session) -> None:
    y = session.resident(Y)
    pipeline = session.compile(SAXPY)
    known = []
    for _ in range(PLANS + 3):
        x = session.resident(X)
        known.append(weakref.ref(x))
        pipeline({"a": 1.0, "x": x, "y": y})
        pipeline.bind_resident({"a": 1.0, "x": x, "y": y}).close()
        x.close()
    del x
    gc.collect()
    assert [one() for one in known] == [None] * len(known)
    y.close()
    assert not pipeline._resident_plans._plans and not pipeline._resident_plans._bound


def test_a_pipeline_keeps_few_plans(session: vyre.Session) -> None:
    pipeline = session.compile(SAXPY)
    plans = pipeline._resident_plans
    with ExitStack() as stack:
        for _ in range(PLANS + 3):
            x, y = (stack.enter_context(session.resident(data)) for data in (X, Y))
            pipeline({"a": 1.0, "x": x, "y": y})
            pipeline.bind_resident({"a": 1.0, "x": x, "y": y}).close()
        assert (len(plans._plans), len(plans._bound)) == (PLANS, PLANS if session._lease.backend.resident_binder else 0)


def test_threads_that_share_arrays_do_not_share_host_data(session: vyre.Session) -> None:
    total, start = session.resident(np.zeros(1, np.uint32)), threading.Barrier(4)
    program = add_program()

    def run(n: int) -> None:
        start.wait(LIMIT_S)
        for _ in range(25):
            session.dispatch(program, {"n": n, "total": total})

    threads = [threading.Thread(target=run, args=(n,)) for n in (1, 100, 10_000, 1_000_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert int(total.download()[0]) == 25 * 1_010_101
    total.close()


def test_a_launch_that_is_bound_again_is_prepared_once(session: vyre.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = Checks(monkeypatch)
    total, program = session.resident(np.zeros(1, np.uint32)), add_program()
    for _ in range(3):
        with session.bind_resident(program, {"n": 5, "total": total}) as bound:
            bound()
    if session._lease.backend.resident_binder is not None:
        assert checks.count == 1
    with session.bind_resident(program, {"n": 7, "total": total}) as bound:
        bound()
    assert int(total.download()[0]) == 22
    total.close()


def test_a_closed_launch_stays_closed_when_it_is_bound_again(session: vyre.Session) -> None:
    total, program = session.resident(np.zeros(1, np.uint32)), add_program()
    first = session.bind_resident(program, {"n": 1, "total": total})
    first()
    first.close()
    with (
        session.bind_resident(program, {"n": 1, "total": total}) as second,
        session.bind_resident(program, {"n": 1, "total": total}) as third,
    ):
        first.close()
        with pytest.raises(InvalidResource, match="is closed"):
            first()
        second()
        third()
        second()
    assert int(total.download()[0]) == 4
    total.close()


def test_the_processor_prepares_a_repeated_step_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, prepare = [], CpuMemory.prepare_step

    def counted(memory: CpuMemory, step: object, *, copy: bool) -> object:
        prepared.append(copy)
        return prepare(memory, step, copy=copy)  # type: ignore[arg-type]

    monkeypatch.setattr(CpuMemory, "prepare_step", counted)
    with vyre.open("cpu") as session:
        total, program = session.resident(np.zeros(1, np.uint32)), add_program()
        for n in range(5):
            session.dispatch(program, {"n": n, "total": total})
        assert prepared == [False]
        for _ in range(3):
            launch = session.bind_resident(program, {"n": 2, "total": total})
            launch()
            launch.close()
            with pytest.raises(InvalidResource, match="was closed"):
                launch.launch()
        assert prepared == [False, True]
        assert int(total.download()[0]) == 16
        total.close()


def test_the_processor_keeps_no_memory_of_closed_launches() -> None:
    with vyre.open("cpu") as session:
        total = session.resident(np.zeros(1, np.uint32))
        bytes_of = weakref.ref(total.buffer)
        session.bind_resident(add_program(), {"n": 2, "total": total}).close()
        total.close()
        del total
        session.resident(8).close()
        gc.collect()
        assert bytes_of() is None
