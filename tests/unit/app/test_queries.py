"""Queries: results, plans, budgets, what is not batched, counters, and arguments that do not fit."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pytest

import vyre
from vyre import DispatchConfig, ProgramBuilder, u32
from vyre.domain.errors import InvalidConfig, InvalidInput, InvalidResource, PlanError, TrapError, UnknownOutput
from vyre.domain.upload_reuse import UploadReuse

N: Final = 100
COUNT: Final = 8
SOURCES: Final = np.roll(np.arange(N, dtype=np.uint32), 7)
STARTS: Final = np.arange(COUNT * N, dtype=np.uint32).reshape(COUNT, N)
BACKENDS: Final = ["reference", "reference-scalar", "cpu", "cuda-machine"]
NAMES: Final = {
    "cpu": ("uploaded_bytes", "downloaded_bytes", "resident_allocations", "list_kernels", "resident_runs"),
    "cuda-machine": ("uploaded_bytes", "downloaded_bytes", "resident_bytes", "kernel_launches", "sync_points"),
}
"""The counters of bytes to the device and from it, of allocations, launches and waits."""


def hop() -> vyre.Program:
    """``reached = start[source] + k``, over a graph of one edge into each node."""
    with ProgramBuilder("hop", workgroup=32) as p:
        sources = p.input("sources", u32)
        start = p.input("start", u32)
        k = p.param("k", u32)
        reached = p.output("reached", u32, like="start")
        i = p.global_id()
        with p.if_(i < start.length):
            reached[i] = start[sources[i]] + k
    return p.build()


def counted() -> vyre.Program:
    """Adds each element to a total that all queries share, and to the query's own ``y``."""
    with ProgramBuilder("counted", workgroup=32) as p:
        x = p.input("x", u32)
        y = p.inout("y", u32)
        total = p.inout("total", u32, 1)
        i = p.global_id()
        with p.if_(i < y.length):
            total.atomic_add(0, y[i])
            y[i] = y[i] + x[i]
    return p.build()


def trapping() -> vyre.Program:
    with ProgramBuilder("trapping", workgroup=32) as p:
        sources = p.input("sources", u32)
        y = p.inout("y", u32)
        i = p.global_id()
        with p.if_(i < y.length):
            with p.if_(y[i] == 13):
                p.trap(i, "unlucky")
            y[i] = sources[i]
    return p.build()


HOP: Final = hop()
RIGHT: Final = STARTS[:, SOURCES] + np.arange(COUNT, dtype=np.uint32)[:, None]
COLUMNS: Final[Mapping[str, Any]] = {"start": STARTS, "k": np.arange(COUNT, dtype=np.uint32)}
FRONTIER: Final = 4 * N + 4
GRAPH: Final = 4 * N


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


@pytest.fixture(params=["cpu", "cuda-machine"])
def counting(request: pytest.FixtureRequest) -> Iterator[vyre.Session]:
    with vyre.open(request.param, cache=False) as opened:
        yield opened


class Seen:
    """Differences of the counters of a session since the last look."""

    def __init__(self, session: vyre.Session) -> None:
        self._session = session
        self._names = NAMES[session.backend]
        self._last = self._now()

    def _now(self) -> list[int]:
        found = self._session.metrics()
        return [found[name] for name in self._names]

    def look(self) -> tuple[int, ...]:
        now, last = self._now(), self._last
        self._last = now
        return tuple(one - other for one, other in zip(now, last, strict=True))


# ---- results
def test_each_row_is_a_run_of_its_own(session: vyre.Session) -> None:
    with session.resident(SOURCES) as sources, session.queries(HOP, {"sources": sources}) as queries:
        for _ in range(2):
            results = queries(COLUMNS)
            assert np.array_equal(results["reached"], RIGHT)
        assert (results.plan.is_batched, results.plan.launches, list(results), len(results)) == (
            *(True, 1, ["reached"], 1),
        )
        assert results.wall_ns > 0
    assert np.array_equal(results["reached"], RIGHT)  # they own their memory
    with pytest.raises(UnknownOutput, match="no output 'y'"):
        results["y"]


def test_calls_may_differ_in_their_queries_lengths_and_numbers(session: vyre.Session) -> None:
    with session.queries(HOP, {"sources": SOURCES}) as queries:
        for rows in (STARTS, STARTS[:3], STARTS[:, :40].copy(), STARTS):
            found = queries({"start": rows, "k": 5})["reached"]
            padded = np.zeros((len(rows), N), np.uint32)
            padded[:, : rows.shape[1]] = rows
            assert np.array_equal(found, padded[:, SOURCES[: rows.shape[1]]] + np.uint32(5))
        assert np.array_equal(queries(COLUMNS)["reached"], RIGHT)


def test_rows_keep_their_shape_where_they_are_updated(session: vyre.Session) -> None:
    with ProgramBuilder("flip", workgroup=32) as p:
        mask, y = p.input("mask", vyre.bool_), p.inout("y", vyre.bool_)
        with p.if_(p.global_id() < y.length):
            y[p.global_id()] = y[p.global_id()] ^ mask[p.global_id()]
    rows = (STARTS % 3 == 0).reshape(COUNT, 10, 10)
    mask = SOURCES % 2 == 0
    with session.queries(p.build(), {"mask": mask}) as queries:
        found = queries({"y": rows})["y"]
    assert found.dtype == np.bool_
    assert np.array_equal(found, rows ^ mask.reshape(10, 10))


def test_a_kernel_in_python_is_a_program_too(session: vyre.Session) -> None:
    with session.queries(scaled, {"table": SOURCES}) as queries:
        found = queries({"k": COLUMNS["k"], "y": STARTS})["y"]
    assert np.array_equal(found, STARTS + SOURCES * COLUMNS["k"][:, None])


@vyre.kernel
def scaled(k: vyre.u32, table: vyre.In[vyre.u32], y: vyre.InOut[vyre.u32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = y[i] + k * table[i]


# ---- counters
def test_one_launch_one_wait_no_allocation_and_the_bytes_of_the_plan(counting: vyre.Session) -> None:
    seen = Seen(counting)
    with counting.queries(HOP, {"sources": SOURCES}) as queries:
        plan = queries(COLUMNS).plan
        uploaded, read, allocated, *_ = seen.look()
        assert uploaded == plan.reuse.upload_bytes + plan.upload_bytes == GRAPH + COUNT * FRONTIER
        assert read == COUNT * 4 * N
        assert allocated
        for _ in range(3):
            queries(COLUMNS)
            assert seen.look() == (COUNT * FRONTIER, COUNT * 4 * N, 0, 1, 1)
        saved = UploadReuse(1, 4 * COUNT - 1, GRAPH, (4 * COUNT - 1) * GRAPH)
        assert queries.reuse == saved
    assert plan.peak_resident_bytes == GRAPH + COUNT * (FRONTIER + 4 * N)


def test_what_is_allocated_stays_below_the_planned_peak(counting: vyre.Session) -> None:
    before = counting.metrics()["resident_bytes"]
    budget = GRAPH + 3 * (FRONTIER + 4 * N) + 1
    with counting.queries(HOP, {"sources": SOURCES}, budget=budget) as queries:
        plan = queries(COLUMNS).plan
        queries(COLUMNS)
    assert counting.metrics()["resident_bytes"] - before == plan.peak_resident_bytes == budget - 1


def test_uploading_the_graph_for_each_query_costs_the_avoided_bytes(counting: vyre.Session) -> None:
    """The control: what the plan says is avoided is what uploading anew takes."""
    seen = Seen(counting)
    with counting.queries(HOP, {"sources": SOURCES}) as queries:
        plan = queries(COLUMNS).plan
    resident, _, _, launches, waits = seen.look()
    for row, k in zip(STARTS, COLUMNS["k"], strict=True):
        with counting.resident(SOURCES) as sources, counting.resident(np.append(row, k)) as own:  # as much as a query's
            counting.dispatch(HOP, {"sources": sources, "start": own[:N], "k": k})
    anew, _, _, more_launches, more_waits = seen.look()
    assert anew - resident == plan.reuse.avoided_upload_bytes == (COUNT - 1) * GRAPH
    assert (launches, plan.avoided_launches) == (1, COUNT - 1)
    assert more_launches - launches == plan.avoided_launches
    assert more_waits - waits == plan.avoided_launches


# ---- budgets
@pytest.mark.parametrize("held", [1, 3, COUNT - 1, COUNT])
def test_a_budget_divides_queries_into_groups(counting: vyre.Session, held: int) -> None:
    budget = GRAPH + held * (FRONTIER + 4 * N)
    seen = Seen(counting)
    with counting.queries(HOP, {"sources": SOURCES}, budget=budget) as queries:
        queries(COLUMNS)
        seen.look()
        results = queries(COLUMNS)
        uploaded, _, allocated, launches, waits = seen.look()
    groups = -(-COUNT // held)
    assert np.array_equal(results["reached"], RIGHT)
    assert (uploaded, allocated, launches, waits) == (COUNT * FRONTIER, 0, groups, groups)
    assert results.plan.launches == len(results.plan.groups) == groups
    assert results.plan.peak_resident_bytes <= budget
    assert f"{COUNT} queries, {groups} launches in {groups} groups" in str(results.plan)


def test_a_budget_that_holds_no_query_is_refused(session: vyre.Session) -> None:
    budget = GRAPH + FRONTIER + 4 * N - 1
    with session.queries(HOP, {"sources": SOURCES}, budget=budget) as queries:
        for run in (queries, queries.plan):
            with pytest.raises(PlanError, match="over budget"):
                run(COLUMNS)
    with session.queries(HOP, {"sources": SOURCES}, budget=0) as queries, pytest.raises(PlanError, match="over budget"):
        queries(COLUMNS)


# ---- what is not batched
def test_what_all_queries_write_is_written_by_one_after_the_other(session: vyre.Session) -> None:
    program, first = counted(), np.array([5], np.uint32)
    with session.resident(first) as total, session.queries(program, {"x": SOURCES, "total": total}) as queries:
        results = queries({"y": STARTS})
        assert np.array_equal(results["y"], STARTS + SOURCES)
        assert total.download()[0] == 5 + STARTS.sum()
        assert (results.plan.is_batched, results.plan.launches) == (False, COUNT)
        assert "because they all write to `total`" in results.plan.why
    with session.queries(program, {"x": SOURCES}) as queries:
        results = queries({"y": STARTS, "total": np.zeros((COUNT, 1), np.uint32)})
        assert np.array_equal(results["total"][:, 0], STARTS.sum(1))
        assert results.plan.is_batched


def test_a_trap_is_that_of_its_query(session: vyre.Session) -> None:
    rows = STARTS + np.uint32(20)
    with session.queries(trapping(), {"sources": SOURCES}) as queries:
        assert np.array_equal(queries({"y": rows})["y"], np.tile(SOURCES, (COUNT, 1)))
        rows[5, 17] = 13
        with pytest.raises(TrapError) as found:
            queries({"y": rows})
        assert (found.value.tag, found.value.address, found.value.global_id) == ("unlucky", 17, (17, 0, 0))
        assert f"query 5 of {COUNT}" in found.value.__notes__
        rows[5, 17] = 0
        assert np.array_equal(queries({"y": rows})["y"], np.tile(SOURCES, (COUNT, 1)))


@pytest.mark.parametrize(
    ("config", "reason"),
    [(DispatchConfig(step_budget=1000), "the budget of steps"), (DispatchConfig(timeout_s=60.0), "the timeout")],
)
def test_limits_of_a_launch_are_those_of_a_query(config: DispatchConfig, reason: str) -> None:
    with vyre.open("reference") as session, session.queries(HOP, {"sources": SOURCES}, config) as queries:
        results = queries(COLUMNS)
        assert np.array_equal(results["reached"], RIGHT)
        assert reason in results.plan.why and results.plan.launches == COUNT


# ---- lifetime
def test_close_frees_what_was_made_and_leaves_what_was_passed(session: vyre.Session) -> None:
    with session.resident(SOURCES) as sources:
        queries = session.queries(HOP, {"sources": sources})
        queries(COLUMNS)
        queries.close()
        queries.close()
        assert (queries.closed, sources.closed) == (True, False)
        with pytest.raises(InvalidResource, match="used after close"):
            queries(COLUMNS)
        with pytest.raises(InvalidResource, match="used after close"), queries:
            pass


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_dropped_queries_free_their_memory(session: vyre.Session) -> None:
    session.queries(HOP, {"sources": SOURCES})(COLUMNS)
    gc.collect()


def test_a_closed_session_closes_its_queries() -> None:
    with vyre.open("reference") as session:
        queries = session.queries(HOP, {"sources": SOURCES})
        queries(COLUMNS)
    assert queries.closed
    with pytest.raises(InvalidResource, match="session is closed"):
        queries(COLUMNS)


def test_a_shared_array_that_was_closed_is_refused(session: vyre.Session) -> None:
    with session.resident(SOURCES) as sources:
        queries = session.queries(HOP, {"sources": sources})
        assert np.array_equal(queries(COLUMNS)["reached"], RIGHT)
    with pytest.raises(InvalidResource):
        queries(COLUMNS)
    queries.close()


# ---- arguments
@pytest.mark.parametrize(
    ("shared", "columns", "message"),
    [
        ({"sources": SOURCES}, {"start": STARTS}, "input `k` is missing"),
        ({"sources": SOURCES}, {"start": STARTS, "k": 1, "sources": STARTS}, "'sources' is shared"),
        ({"sources": SOURCES}, {"start": STARTS[0], "k": 1}, "`start` has no row for each query"),
        ({"sources": SOURCES}, {"start": STARTS.tolist(), "k": 1}, "`start` has no row for each query"),
        ({"sources": SOURCES}, {"start": STARTS, "k": np.arange(3, dtype=np.uint32)}, "`k` has 3 rows, and `start` 8"),
        ({"sources": SOURCES}, {"start": STARTS[:0], "k": 1}, "`start` has no row"),
        ({"sources": SOURCES}, {"start": STARTS.astype(np.float32), "k": 1}, "`start` holds u32"),
        ({"sources": SOURCES, "start": STARTS[0]}, {"k": 1}, "no column has a row"),
        ({"edges": SOURCES}, {}, "'edges' is no buffer"),
        ({"k": 1}, {}, "share no memory"),
        ({"sources": SOURCES[:0]}, {}, "share no memory"),
        ({"sources": SOURCES, "reached": SOURCES}, {}, "output `reached` is no resident array"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(shared: Any, columns: Any, message: str) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidInput, match=message):
        session.queries(HOP, shared)(columns)


def test_arrays_of_the_device_are_no_rows() -> None:
    with (
        vyre.open("reference") as session,
        session.resident(STARTS) as rows,
        session.queries(HOP, {"sources": SOURCES}) as queries,
        pytest.raises(InvalidInput, match="pass an array of the host"),
    ):
        queries({"start": rows, "k": 1})


def test_arrays_of_other_sessions_are_not_shared(session: vyre.Session) -> None:
    with (
        vyre.open("reference") as other,
        other.resident(SOURCES) as theirs,
        pytest.raises(InvalidResource, match="of another session"),
    ):
        session.queries(HOP, {"sources": theirs})


@pytest.mark.parametrize("budget", [-1, 1 << 64, True, 1.5])
def test_a_budget_is_a_number_of_bytes(budget: Any) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidConfig, match="budget"):
        session.queries(HOP, {"sources": SOURCES}, budget=budget)
