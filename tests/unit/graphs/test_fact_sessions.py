"""Frontiers and components of resident graphs give what plain Python gives, on every backend and in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

import vyre
from support.fact_graphs import FAR, SHAPES, Edges, components, distances, random_graph
from support.llvm import NEEDS_LLVM
from vyre import (
    DecisionJournal,
    FixpointExecutor,
    InvalidConfig,
    InvalidInput,
    InvalidResource,
    Kernel,
    PlanError,
    RunOptions,
    Session,
)
from vyre.graphs import UNREACHED, EdgeKind, FactSession, FrontierDomain, FrontierQuery, fact_graph
from vyre.graphs import token_fact_kernels as kernels
from vyre.graphs.token_fact_session import CONTROL_BYTES, DISTANCE_BYTES, FRONTIER_BYTES
from vyre.testing import cuda_machine
from vyre.testing.races import races

BACKENDS = ["reference", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
ORDERS = [("reverse", 0), ("shuffled", 1), ("shuffled", 2)]


@pytest.fixture(params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param) as made:
        yield made


def sources_of(graph: Edges, seed: int = 3) -> list[int]:
    return Random(seed).sample(range(graph.nodes), min(graph.nodes, 2))


def check_everything(session: Session, graph: Edges) -> None:
    sources = sources_of(graph)
    with FactSession(session, fact_graph(*graph.columns)) as facts:
        for kinds in (None, [0], [1, 2], [5]):
            wanted = distances(graph, sources, kinds)
            found = facts.reach(sources, kinds)
            assert found.distances.tolist() == wanted
            assert found.run is not None and found.run.converged
            levels = max((level for level in wanted if level != FAR), default=0)
            assert found.run.iterations == levels + 1
            assert facts.components(kinds).labels.tolist() == components(graph, kinds)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_gives_what_plain_python_gives(session: Session, name: str) -> None:
    check_everything(session, SHAPES[name])


@pytest.mark.parametrize("name", ["a path", "a star", "two blocks", "random 65/100"])
@pytest.mark.parametrize(("schedule", "seed"), ORDERS)
def test_no_order_of_lanes_changes_a_byte_or_races(name: str, schedule: Any, seed: int) -> None:
    machine = cuda_machine(kernels=RunOptions(schedule=schedule, seed=seed))
    with machine.open() as session:
        check_everything(session, SHAPES[name])
    assert not machine.driver.violations


@pytest.mark.parametrize("executor", list(FixpointExecutor))
def test_every_executor_gives_the_same_levels(session: Session, executor: FixpointExecutor) -> None:
    graph = SHAPES["random 65/100"]
    with FactSession(session, fact_graph(*graph.columns)) as facts:
        try:
            analysis = facts.analysis([FrontierQuery("all"), FrontierQuery("some", [1])], executor=executor)
        except PlanError as refused:
            assert refused.kind == "ExecutorUnavailable"
            return
        found = analysis({"all": [4], "some": [4, 9]})
        assert found.runs[0].executor is executor
        assert found.distances["all"].tolist() == distances(graph, [4])
        assert found.distances["some"].tolist() == distances(graph, [4, 9], [1])


def test_a_graph_without_nodes_is_answered_without_a_launch(session: Session) -> None:
    with FactSession(session, fact_graph(0, [], [])) as facts:
        assert facts.reach([]).distances.size == 0
        assert facts.components().labels.size == 0 and facts.components().number == 0
        with pytest.raises(InvalidInput, match="sources of reach holds 0"):
            facts.reach([0])
        with pytest.raises(InvalidInput, match="without nodes"):
            facts.analysis([FrontierQuery("a")]).resident("a")


def test_ids_need_not_be_places(session: Session) -> None:
    graph = fact_graph([900, 7, 40, 41], [900, 40, 41], [40, 7, 41], [EdgeKind.TOKEN_FLOW] * 3)
    with FactSession(session, graph) as facts:
        assert facts.reach([900]).distances.tolist() == [2, 1, UNREACHED, 0]
        labels = facts.components()
        assert labels.labels.tolist() == [7, 7, 41, 7] and labels.number == 2


def test_levels_end_a_search(session: Session) -> None:
    graph = SHAPES["a path"]
    with FactSession(session, fact_graph(*graph.columns)) as facts:
        for most in (0, 1, 7, 200):
            assert facts.reach([3], levels=most).distances.tolist() == distances(graph, [3], most=most)


def test_queries_start_where_others_ended(session: Session) -> None:
    """Names lead to definitions by edges of kind 0, and from what those reach calls go on by edges of kind 1."""
    graph = random_graph(8, 150, 260)
    queries = [
        FrontierQuery("facts", [2], after=["names", "calls"], domain=FrontierDomain.DIAGNOSTIC),
        FrontierQuery("names", [0], domain=FrontierDomain.PARSER),
        FrontierQuery("calls", [1], after=["names"], domain=FrontierDomain.SEMANTIC),
        FrontierQuery("alone", None),
    ]
    with FactSession(session, fact_graph(*graph.columns)) as facts:
        analysis = facts.analysis(queries)
        for sources in ({"names": [5]}, {"names": [7, 8], "facts": [1], "alone": [2]}):
            names = distances(graph, sources["names"], [0])
            reached = [node for node, level in enumerate(names) if level != FAR]
            calls = distances(graph, reached, [1])
            all_reached = {*reached, *(node for node, level in enumerate(calls) if level != FAR)}
            last = distances(graph, [*all_reached, *sources.get("facts", [])], [2])
            found = analysis(sources)
            assert found.distances["names"].tolist() == names
            assert found.distances["calls"].tolist() == calls
            assert found.distances["facts"].tolist() == last
            assert found.distances["alone"].tolist() == distances(graph, sources.get("alone", []))
        assert len(found.runs) == 3
        assert analysis.plan is not None and analysis.waves is not None
        groups = analysis.plan.groups
        assert [sorted(group) for group in groups] == [[1, 3], [2], [0]]
        assert [wave.node_ids for wave in analysis.waves.waves] == [(1, 3), (2,), (0,)]
        assert list(analysis({}, read=["alone"]).distances) == ["alone"]
        assert analysis.resident("calls").download().tolist() == [UNREACHED] * 150


def test_the_plan_refuses_what_cannot_be_ordered() -> None:
    with vyre.open("reference") as session, FactSession(session, fact_graph(3, [0], [1])) as facts:
        for queries, kind in (
            ([FrontierQuery("a", after=["a"])], "Cycle"),
            ([FrontierQuery("a", after=["b"]), FrontierQuery("b", after=["a"])], "Cycle"),
            ([FrontierQuery("a", after=["c"])], "UnknownDependencyNode"),
            ([FrontierQuery("a"), FrontierQuery("a")], "DuplicateNode"),
        ):
            with pytest.raises(PlanError) as refused:
                facts.analysis(queries)
            assert refused.value.kind == kind


def test_the_budget_holds_graph_columns_and_the_widest_group_and_one_byte_less_does_not() -> None:
    graph = fact_graph(*SHAPES["two blocks"].columns)
    queries = [FrontierQuery("a"), FrontierQuery("b", [0]), FrontierQuery("c", [1], after=["a", "b"])]
    frontier = FRONTIER_BYTES * graph.nodes + CONTROL_BYTES
    alone = graph.nbytes + 3 * DISTANCE_BYTES * graph.nodes + frontier
    with vyre.open("reference") as session:
        with FactSession(session, graph, budget=alone) as facts:
            narrow = facts.analysis(queries)
            assert narrow.plan is not None and len(narrow.plan.groups) == 3
            assert narrow.plan.required_bytes <= alone
            slow = narrow({"a": [1], "b": [2]})
        with FactSession(session, graph, budget=alone + frontier) as facts:
            wide = facts.analysis(queries)
            assert wide.plan is not None and len(wide.plan.groups) == 2
            quick = wide({"a": [1], "b": [2]})
        assert all((slow.distances[name] == quick.distances[name]).all() for name in "abc")
        with FactSession(session, graph, budget=alone - 1) as facts, pytest.raises(PlanError) as refused:
            facts.analysis(queries)
        assert refused.value.kind == "OverBudget"
        components_need = graph.nbytes + 2 * DISTANCE_BYTES * graph.nodes + 8
        with FactSession(session, graph, budget=components_need) as facts:
            facts.components()
        with FactSession(session, graph, budget=components_need - 1) as facts, pytest.raises(PlanError) as over:
            facts.components()
        assert over.value.kind == "OverBudget"


def test_the_plan_counts_all_memory_that_is_allocated() -> None:
    machine = cuda_machine()
    graph = fact_graph(*SHAPES["two blocks"].columns)
    with machine.open() as session, FactSession(session, graph) as facts:
        before = session.metrics()["resident_bytes"]
        analysis = facts.analysis([FrontierQuery("a"), FrontierQuery("b", [0]), FrontierQuery("c", after=["a"])])
        asked = session.metrics()["resident_bytes"] - before
        assert analysis.plan is not None
        assert asked <= analysis.plan.required_bytes - graph.nbytes


def test_the_graph_is_uploaded_once_and_a_call_reads_back_eight_bytes_and_its_columns() -> None:
    graph = fact_graph(*random_graph(5, 300, 900).columns)
    machine = cuda_machine()
    with machine.open() as session:
        counted: dict[str, int] = {}

        def counts() -> dict[str, int]:
            now = dict(session.metrics())
            since = {name: now[name] - counted.get(name, 0) for name in now}
            counted.update(now)
            return since

        counts()
        with FactSession(session, graph) as facts:
            assert counts()["uploaded_bytes"] == graph.nbytes
            analysis = facts.analysis([FrontierQuery("a"), FrontierQuery("b", [1])])
            counts()
            for name, read in (("first", []), ("again", []), ("one", ["a"]), ("both", ["a", "b"])):
                analysis({"a": [1, 2, 3], "b": [4]}, read=read)
                since = counts()
                assert since["uploaded_bytes"] == 4 * (3 + 3) + 4 * (3 + 1), name
                assert since["downloaded_bytes"] == 8 + 4 * 300 * len(read), name
                assert since["resident_bytes"] == 0
                assert since["graph_launches"] == 1
            uploads = facts.counters
            assert (uploads.cold_uploads, uploads.upload_bytes) == (1, graph.nbytes)
            assert (uploads.warm_reuses, uploads.avoided_upload_bytes) == (4, 4 * graph.nbytes)
            facts.components()
            counts()
            facts.components()
            since = counts()
            assert (since["uploaded_bytes"], since["downloaded_bytes"]) == (0, 8 + 4 * 300)
    assert not any(machine.driver.live().values())


def test_kernels_have_no_races() -> None:
    """Stores of equal values that nobody reads in the same launch are none."""
    graph = fact_graph(*random_graph(4, 40, 120).columns)
    words = np.zeros(40, np.uint32)
    edges = {"rows": graph.rows.rows, "targets": graph.rows.targets, "edge_kinds": graph.rows.kinds}
    blocks, one = np.ones(1, np.uint32), np.zeros(1, np.uint32)
    request = np.array([2, 3, 9, 1, 5, *[0] * 38], np.uint32)
    frontier = {"marks": np.arange(40, dtype=np.uint8) % 2, "live": blocks, "woken": blocks, "fresh": blocks}
    given: dict[str, Any] = {
        **edges,
        **frontier,
        "request": request,
        "depth": one,
        "changed": one,
        "kinds": np.array([3], np.uint32),
    }
    given |= {"distances": words, "earlier": words, "pointers": words, "lower": np.arange(40, dtype=np.uint32)}
    tested: list[Kernel[...]] = [
        kernels.clear,
        kernels.seed,
        kernels.seed_reached,
        kernels.settle,
        kernels.advance,
        kernels.shorten,
    ]
    tested += [kernels.point_to_itself, kernels.take_over]
    tested += [
        make(typed) for make in (kernels.expand_along, kernels.pull_along, kernels.hook_along) for typed in (0, 1)
    ]
    for kernel in tested:
        program = kernel.program
        assert vyre.validate(program).ok
        assert not races(program, {b.name: given[b.name] for b in program.abi_buffers if b.takes_input}).races


def test_decisions_are_asked_and_recorded() -> None:
    journal = DecisionJournal()
    with vyre.open("reference", journal=journal) as session, FactSession(session, fact_graph(3, [0], [1])) as facts:
        facts.reach([0])
        facts.components()
        asked = {decision.policy.__name__ for decision in journal.decisions}
        assert "plan_frontier_ir" in asked


def test_wrong_calls_are_refused_and_change_nothing() -> None:
    graph = fact_graph(3, [0, 1], [1, 2])
    with vyre.open("reference") as session:
        for budget in (0, -1, 2**64):
            with pytest.raises(InvalidConfig, match="Fix: pass a number of bytes"):
                FactSession(session, graph, budget=budget)
        with pytest.raises(InvalidConfig, match="budget"):
            FactSession(session, graph, budget="big")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="fact_graph"):
            FactSession(session, [[0, 1]])  # type: ignore[arg-type]
        facts: Any = FactSession(session, graph)  # for calls that no type checker allows
        analysis = facts.analysis([FrontierQuery("a")])
        refused: list[tuple[Callable[[], object], str]] = [
            (lambda: facts.reach([3]), "sources of reach holds 3"),
            (lambda: facts.reach([0.5]), "float64"),
            (lambda: facts.reach([0], []), "names no kind"),
            (lambda: facts.reach([0], 32), "along holds 32"),
            (lambda: facts.reach([0], "calls"), "pass a list"),
            (lambda: facts.reach([0], ["calls"]), "along holds 'calls'"),
            (lambda: facts.reach([0], levels=-1), "levels=-1"),
            (lambda: facts.reach([0], levels=1.5), "levels=1.5"),
            (lambda: facts.components([77]), "along holds 77"),
            (lambda: facts.analysis([]), "without queries"),
            (lambda: facts.analysis(["a"]), "FrontierQuery"),
            (lambda: analysis({"b": [0]}), "sources names 'b'"),
            (lambda: analysis([0]), "a mapping"),
            (lambda: analysis({"a": [0]}, read=["x"]), "read names 'x'"),
            (lambda: analysis.resident("x"), "name names 'x'"),
        ]
        for call, message in refused:
            with pytest.raises(InvalidInput, match=message):
                call()
        assert analysis({"a": [0]}).distances["a"].tolist() == [0, 1, 2]
        analysis.close()
        with pytest.raises(InvalidResource, match="the analysis is closed"):
            analysis({"a": [0]})
        facts.close()
        facts.close()
        for late in (lambda: facts.reach([0]), facts.components, lambda: facts.analysis([FrontierQuery("a")])):
            with pytest.raises(InvalidResource, match="the session of this graph is closed"):
                late()
