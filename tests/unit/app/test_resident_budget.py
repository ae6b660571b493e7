"""The limit of a session on resident memory: what is refused, what moves to the host for others, and what is told."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import ProgramBuilder, u32
from vyre.app.residency import ResidencyReport
from vyre.domain.errors import DeviceOutOfMemory, InvalidConfig, PlanError
from vyre.policies.caching.cache_eviction import select_retention_set

N: Final = 256
NBYTES: Final = 4 * N


def doubling() -> vyre.Program:
    with ProgramBuilder("doubling", workgroup=64) as p:
        y = p.inout("y", u32)
        with p.if_(p.global_id() < y.length):
            y[p.global_id()] = y[p.global_id()] * 2 + 1
    return p.build()


def adding() -> vyre.Program:
    with ProgramBuilder("adding", workgroup=64) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        with p.if_(p.global_id() < y.length):
            y[p.global_id()] = y[p.global_id()] + x[p.global_id()]
    return p.build()


DOUBLING: Final = doubling()
ADDING: Final = adding()


def words(value: int, count: int = N) -> Any:
    return np.full(count, value, np.uint32)


@pytest.fixture(params=["reference", "cpu", "cuda-machine"])
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False, resident_budget=3 * NBYTES) as opened:
        yield opened


def test_what_exceeds_the_budget_is_refused_until_something_is_closed(session: vyre.Session) -> None:
    with session.resident(words(1)) as a, session.resident(2 * NBYTES):
        with pytest.raises(DeviceOutOfMemory) as found:
            session.resident(4)
        assert (found.value.requested, found.value.available) == (4, 0)
        assert session.residency() == ResidencyReport(3 * NBYTES, 3 * NBYTES, ())
        a.close()
        assert session.residency().resident_bytes == 2 * NBYTES
        with session.resident(words(2)) as again:
            assert again.download()[0] == 2
    assert session.residency().resident_bytes == 0


def test_cached_arrays_move_to_the_host_for_others_and_come_back(session: vyre.Session) -> None:
    with session.resident_cache() as cache:
        assert cache.budget == 3 * NBYTES
        for name in ("often", "once"):
            cache.add(name, words(1))
        for name in ("often", "once", "often"):
            with cache.use(name) as array:
                session.dispatch(DOUBLING, {"y": array})
        with session.resident(words(5)), session.resident(words(6), label="other"):
            (left,) = session.residency().evictions
            assert (left.name, left.nbytes, left.copied_bytes) == ("once", NBYTES, NBYTES)
            assert f"it made room for {NBYTES} bytes of `other`" in left.why
            assert cache.evictions == (left,)
            text = str(session.residency())
            assert f"{3 * NBYTES} of {3 * NBYTES} bytes are resident; 1 arrays left" in text and left.why in text
            with cache.use("once") as array:  # for which the other cached array leaves
                assert array.download()[0] == 3
            assert [each.name for each in session.residency().evictions] == ["once", "often"]
        assert np.array_equal(cache.remove("often"), words(7))


def test_arrays_of_two_caches_leave_for_each_other(session: vyre.Session) -> None:
    with session.resident_cache() as one, session.resident_cache(2 * NBYTES) as other:
        one.add("a", words(1, 2 * N))
        other.add("b", words(2, 2 * N))
        with one.use("a"), pytest.raises(DeviceOutOfMemory), other.use("b"):
            pass  # what a block uses stays
        with other.use("b") as array:
            assert array.download()[0] == 2
        assert [each.name for each in one.evictions] == ["a"]
        assert session.residency().resident_bytes == 2 * NBYTES


def test_the_memory_of_queries_keeps_to_the_budget(session: vyre.Session) -> None:
    rows = np.arange(8 * N, dtype=np.uint32).reshape(8, N)
    with session.queries(ADDING, {"x": words(3)}) as queries:
        results = queries({"y": rows})
        assert results.plan.launches == 4  # beside the shared array there is room for two rows
        assert session.residency().resident_bytes <= 3 * NBYTES
        assert np.array_equal(results["y"], rows + np.uint32(3))


def test_rounds_are_planned_in_the_budget_as_one_resident_session() -> None:
    journal = vyre.DecisionJournal()
    with (
        vyre.open("reference", cache=False, resident_budget=2 * NBYTES, journal=journal) as session,
        session.resident(words(1)) as y,
    ):
        step = vyre.Step(ADDING, {"x": words(2), "y": y})
        with session.sequence([step]) as sequence:
            held = sequence.plan(10).residency
            assert held is not None
            assert (held.peak_resident_bytes, held.avoided_upload_bytes) == (2 * NBYTES, 9 * NBYTES)
            assert held.rounds * held.refresh_bytes == 10 * NBYTES
            assert f"memory: {2 * NBYTES} bytes at once" in str(sequence.plan(10))
            sequence(10)
            assert y.download()[0] == 21
        with (
            session.resident(words(0)) as z,
            session.sequence([step, vyre.Step(ADDING, {"x": words(1), "y": z})]) as both,
        ):
            with pytest.raises(PlanError, match="over budget"):
                both.plan(1)
            with pytest.raises(PlanError, match="over budget"):
                both(1)
            assert y.download()[0] == 21  # nothing ran


def test_what_leaves_is_decided_once_and_can_be_decided_again() -> None:
    journal = vyre.DecisionJournal()
    with (
        vyre.open("reference", cache=False, resident_budget=4 * NBYTES, journal=journal) as session,
        session.resident_cache() as cache,
    ):
        for k, name in enumerate("abcd"):
            cache.add(name, words(k))
            with cache.use(name):
                pass
        with session.resident(2 * NBYTES):
            assert [each.name for each in session.residency().evictions] == ["a", "b"]
    (found,) = [each for each in journal.decisions if each.policy is select_retention_set]
    assert found.verdict == select_retention_set(*found.arguments) == (False, False, True, True)  # type: ignore[arg-type]


def test_arrays_that_an_operation_uses_leave_after_it() -> None:
    async def work(session: vyre.Session) -> None:
        with session.resident_cache() as cache:
            cache.add("a", words(1))
            cache.add("b", words(2))
            with cache.use("a") as array:
                running = session.submit(DOUBLING, {"y": array})
            with cache.use("b"):
                assert running.done()
                assert [each.name for each in cache.evictions] == ["a"]
            assert np.array_equal(cache.remove("a"), words(3))

    with vyre.open("cpu", cache=False, resident_budget=NBYTES) as session:
        asyncio.run(work(session))


@pytest.mark.parametrize("budget", [0, -1, 1 << 64, True, 1.5])
def test_a_budget_is_a_number_of_bytes(budget: Any) -> None:
    with pytest.raises(InvalidConfig, match="resident_budget"):
        vyre.open("reference", resident_budget=budget)


def test_a_session_without_a_limit_says_so() -> None:
    with vyre.open("reference") as session:
        with pytest.raises(InvalidConfig, match="resident_budget"):
            session.residency()
        with pytest.raises(InvalidConfig, match="resident_budget"):
            session.resident_cache()
