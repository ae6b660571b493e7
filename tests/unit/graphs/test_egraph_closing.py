"""Closures on all backends: classes equal to those of closures on the host, rounds and counters as they are told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from benchmarks.egraph_rivals import Egglog, optimizer_classes, rows_of
from benchmarks.egraph_rows import of_terms
from benchmarks.egraph_shapes import chain

import vyre
from support.egraphs.closures import naive_classes, planned_classes, random_egraph, snapshot_of
from support.llvm import NEEDS_LLVM
from vectors.seeds.egraph_image import EGraphSnapshot, pack_device_image, row_signature
from vyre import FixpointExecutor, PlanError, Session
from vyre.adapters.cuda.machine.options import RunOptions, Schedule
from vyre.domain.validation.known import order_sensitive
from vyre.egraph import ClosedEGraph, EGraph
from vyre.graphs import egraph_closing as closing
from vyre.graphs import egraph_kernels as kernels
from vyre.graphs.egraph_closing import close
from vyre.policies.egraphs.egraph_kernels import plan_closure
from vyre.testing import CudaMachine, cuda_machine
from vyre.testing.packed_files import unpacked

BACKENDS: Final = ["reference", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
VECTORS: Final = Path(__file__).parents[2] / "data" / "vectors"


def _vectors(stem: str, function: str) -> list[tuple[Any, Any]]:
    lines = map(json.loads, unpacked(VECTORS / f"{stem}.jsonl.xz").decode().splitlines())
    return [(line["in"], line["out"]) for line in lines if line["fn"] == function]


FIXED_POINTS: Final = [(given["rows"], out) for given, out in _vectors("egraph_kernel_plan", "structural_fixed_point")]


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(backend=request.param) as made:
        yield made


def require_closed(graph: EGraph, found: ClosedEGraph) -> None:
    """The rows are those that differ after children are rewritten to representatives, of equal ones one."""
    classes = found.classes.tolist()
    keys = [(op, tuple(classes[child] for child in children)) for op, children in rows_of(graph)]
    rows = found.rows
    ends = [tuple(part.tolist()) for part in np.split(rows.children, rows.offsets[1:-1])] if len(rows.terms) else []
    kept = list(zip(rows.operators.tolist(), ends, strict=True))
    assert len(set(kept)) == len(kept) and set(kept) == set(keys)
    assert [keys[term] for term in rows.terms.tolist()] == kept
    assert rows.classes.tolist() == [classes[term] for term in rows.terms.tolist()]


# ---------------------------------------------------------------- classes
@pytest.mark.parametrize("seed", range(25))
def test_classes_are_those_of_the_host(session: Session, seed: int) -> None:
    graph = random_egraph(seed)
    found = graph.close(session)
    for closure in (naive_classes, optimizer_classes, planned_classes):
        np.testing.assert_array_equal(found.classes, closure(graph))
    require_closed(graph, found)


@pytest.mark.parametrize("mask", [0, 1, 0x8000_0000])
@pytest.mark.parametrize("seed", range(100, 108))
def test_colliding_signatures_change_nothing_but_rounds(session: Session, seed: int, mask: int) -> None:
    graph = random_egraph(seed, 40)
    found = close(graph, session, signature_mask=mask)
    np.testing.assert_array_equal(found.classes, naive_classes(graph))
    require_closed(graph, found)
    if mask == 0 and len(found.rows.terms) > 20:
        assert found.rounds > graph.close(session).rounds


def test_a_chain_takes_a_round_for_every_union(session: Session) -> None:
    graph = chain(40)
    found = graph.close(session)
    assert found.class_count == 41 and found.rounds <= 45
    np.testing.assert_array_equal(found.classes, naive_classes(graph))


def test_long_paths_are_shortened(session: Session) -> None:
    """Of equalities 1 = 0, 2 = 1, ... each hooks a class to the one before it, in one round."""
    graph = EGraph.from_columns(np.arange(500), np.zeros(501, np.uint32), (), [(i + 1, i) for i in range(499)])
    found = graph.close(session)
    assert found.class_count == 1 and found.rounds < 30


def test_terms_may_contain_themselves(session: Session) -> None:
    graph = EGraph.from_columns([0, 0, 1], [0, 1, 2, 2], [0, 1], [(1, 2)])
    assert graph.close(session).classes.tolist() == [0, 1, 1]
    loop = EGraph()
    x = loop.add("x")
    fx = loop.add("f", x)
    ffx = loop.add("f", fx)
    loop.equate(x, fx)
    assert loop.close(session).members(x).tolist() == [x, fx, ffx]


def test_rows_of_one_class_and_classes_of_any_number(session: Session) -> None:
    """Two terms are given one class; the children name classes, not terms."""
    graph = EGraph.from_columns([0, 1, 2, 2], [0, 0, 0, 1, 2], [7, 4_000_000_000], classes=[7, 7, 9, 4_000_000_000])
    assert graph.close(session).classes.tolist() == [7, 7, 9, 4_000_000_000]
    graph.equate(0, 3)
    found = graph.close(session)
    assert found.classes.tolist() == [7, 7, 7, 7] and len(found.rows.terms) == 3
    np.testing.assert_array_equal(found.classes, planned_classes(graph))


def test_an_e_graph_without_terms_is_closed(session: Session) -> None:
    found = EGraph().close(session)
    assert len(found) == found.rounds == found.class_count == 0 and len(found.rows.terms) == 0


def test_it_is_closed_again_after_more_was_said(session: Session) -> None:
    graph = EGraph()
    a, b, c = (graph.add(name) for name in "abc")
    fa, fb, fc = (graph.add("f", x) for x in (a, b, c))
    graph.equate(a, b)
    first = graph.close(session)
    graph.equate(b, c)
    second = graph.close(session)
    assert (first.same(fa, fb), first.same(fa, fc), second.same(fa, fc)) == (True, False, True)


@pytest.mark.parametrize("line", range(len(FIXED_POINTS)))
def test_vectors_of_fixed_points(session: Session, line: int) -> None:
    """The golden e-graphs: their classes, children and signatures after the closure."""
    rows, wanted = FIXED_POINTS[line]
    names = list(dict.fromkeys(row["op"] for row in rows))
    offsets = np.cumsum([0, *(len(row["children"]) for row in rows)])
    children = [child for row in rows for child in row["children"]]
    graph = EGraph.from_columns(
        [names.index(row["op"]) for row in rows],
        offsets,
        children,
        classes=[row["eclass_id"] for row in rows],
        names=names,
    )
    found = graph.close(session)
    assert found.classes.tolist() == wanted["final_row_eclass_ids"]
    kept = found.rows
    for row, term in enumerate(kept.terms.tolist()):
        below = tuple(kept.children[kept.offsets[row] : kept.offsets[row + 1]].tolist())
        assert list(below) == wanted["final_children"][offsets[term] : offsets[term + 1]]
        assert row_signature(int(kept.operators[row]), below) == wanted["final_row_signatures"][term]


def test_signatures_are_those_of_the_images(session: Session) -> None:
    """The kernel signs rows as ``row_signature`` does, which the vectors of images hold in place."""
    vectors = _vectors("egraph_device_image", "row_signature")
    arities = [len(given["children"]) for given, _ in vectors]
    children = np.array([child for given, _ in vectors for child in given["children"]], np.uint32)
    count, classes = len(vectors), int(children.max()) + 1
    used = np.unique(children)
    root = np.zeros(len(used), np.uint32)
    assert classes > len(used), "classes of the vectors are renumbered, and the root of each is the class itself"
    root[:] = used
    result = session.dispatch(
        kernels.rekey.over(count),
        {
            "first": 0,
            "root": root,
            "drop": np.zeros(1, np.uint32),
            "operator": np.array([given["language_op_id"] for given, _ in vectors], np.uint32),
            "offset": np.cumsum([0, *arities]).astype(np.uint32),
            "child": np.searchsorted(used, children).astype(np.uint32),
            **{name: np.zeros(count, np.uint32) for name in ("signature", "slot", "state")},
            "table": np.full(4 * count, kernels.EMPTY, np.uint32),
            "renewed": np.ones(1, np.uint32),
            **{name: np.zeros(1, np.uint32) for name in ("counted", "gone", "forgotten", "filed", "changed")},
            "mask": 0xFFFF_FFFF,
        },
    )
    assert result["signature"].tolist() == [signature for _, signature in vectors]


def test_the_columns_are_those_of_a_packed_image() -> None:
    for seed in range(20):
        graph = random_egraph(seed)
        columns, packed = (
            closing.image_of(graph),
            pack_device_image(EGraphSnapshot(snapshot_of(graph).rows[: len(graph)])),
        )
        assert packed.column("row_eclass_ids") == tuple(columns.near[: len(graph)].tolist())
        assert packed.column("row_children_offsets") == tuple(columns.offset[:-1].tolist())
        assert packed.column("row_children_lens") == tuple(np.diff(columns.offset).tolist())
        assert packed.column("children") == tuple(columns.child.tolist())
        interned = zip(packed.column("row_language_op_ids"), columns.operator.tolist(), strict=True)
        assert len(set(interned)) == len(set(columns.operator.tolist()))


LARGE: Final = {"reference": 20_000, "cpu": 100_000, "cuda-machine": 20_000}


def test_many_terms(session: Session) -> None:
    """``support.egraphs.soak`` goes on to a million."""
    graph = of_terms(LARGE[session.backend])
    found = graph.close(session)
    np.testing.assert_array_equal(found.classes, naive_classes(graph))


def test_egglog_finds_as_many_classes_and_rows(session: Session, tmp_path: Path) -> None:
    pytest.importorskip("egglog", reason="egglog is not installed; other closures are compared all the same")
    for seed in range(300, 310):
        graph = random_egraph(seed)
        rival = Egglog(tmp_path)
        rival.close(graph)
        found = graph.close(session)
        assert rival.sizes() == (found.class_count, len(found.rows.terms))


# ---------------------------------------------------------------- capacity
def test_a_table_one_slot_short_raises(session: Session) -> None:
    """Ten different terms need ten slots."""
    graph = EGraph()
    leaves = [graph.add(name) for name in "abcdefghi"]
    graph.add("f", *leaves)
    assert graph.close(session, slots=10).class_count == 10
    with pytest.raises(PlanError, match="table full: slots = 9, terms = 10") as error:
        graph.close(session, slots=9)
    assert error.value.kind == "TableFull" and "Fix: give more slots" in str(error.value)


@pytest.mark.parametrize("seed", range(8))
def test_as_many_slots_as_terms_suffice(session: Session, seed: int) -> None:
    """The table is renewed again and again, since rows leave slots behind when their children move."""
    graph = random_egraph(seed)
    found = graph.close(session, slots=len(graph))
    np.testing.assert_array_equal(found.classes, naive_classes(graph))
    require_closed(graph, found)


def test_a_table_of_a_chain_is_renewed_many_times(session: Session) -> None:
    graph = chain(30)
    found = graph.close(session, slots=62)
    assert found.class_count == 31
    require_closed(graph, found)


# ---------------------------------------------------------------- how it runs
@pytest.mark.parametrize("executor", FixpointExecutor)
def test_every_executor_finds_the_same_in_as_many_rounds(session: Session, executor: FixpointExecutor) -> None:
    graph = random_egraph(3)
    try:
        found = graph.close(session, executor=executor)
    except PlanError as error:
        assert error.kind == "ExecutorUnavailable"
        return
    assert found.fixed_point is not None and found.fixed_point.executor is executor
    np.testing.assert_array_equal(found.classes, naive_classes(graph))
    assert found.rounds == graph.close(session).rounds


def test_rounds_are_the_same_on_all_backends() -> None:
    found = []
    for backend in ("reference", "cuda-machine"):
        with vyre.open(backend=backend) as session:
            found.append([random_egraph(seed).close(session).rounds for seed in range(10)])
    assert found[0] == found[1]


@pytest.mark.parametrize("kernel", [kernels.compress, kernels.rekey, kernels.match])
def test_no_kernel_uses_what_an_atomic_returns(kernel: vyre.Kernel[...]) -> None:
    assert not order_sensitive(kernel.program)


@pytest.mark.parametrize("schedule", ["lockstep", "reverse", "shuffled"])
@pytest.mark.parametrize("executor", [None, FixpointExecutor.COOPERATIVE, FixpointExecutor.POLLED])
def test_schedules_of_the_machine_change_nothing(schedule: Schedule, executor: FixpointExecutor | None) -> None:
    """The machine looks for races as it runs."""
    machine = cuda_machine(kernels=RunOptions(schedule=schedule, seed=5))
    with machine.open() as session:
        for seed in range(4):
            graph = random_egraph(seed)
            found = graph.close(session, executor=executor)
            np.testing.assert_array_equal(found.classes, naive_classes(graph))
            found = close(graph, session, slots=len(graph), executor=executor, signature_mask=3)
            np.testing.assert_array_equal(found.classes, naive_classes(graph))
    assert not machine.driver.kernel_faults


def test_no_kernel_has_a_race_on_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch of a closure is run again lane by lane, and looked at."""
    fixpoint, seen = Session.fixpoint, list[str]()

    def checked(session: Session, steps: list[vyre.Step], **options: Any) -> Any:
        again = [replace(step, race_check=True) for step in steps]
        seen.extend(str(step.program) for step in steps)
        return fixpoint(session, again, **options)

    monkeypatch.setattr(Session, "fixpoint", checked)
    with vyre.open(backend="reference") as session:
        for seed in range(4):
            graph = random_egraph(seed, 30)
            found = close(graph, session, slots=len(graph), signature_mask=7)
            np.testing.assert_array_equal(found.classes, naive_classes(graph))
    assert len(seen) == 12


@pytest.mark.parametrize("executor", [FixpointExecutor.WHILE_GRAPH, FixpointExecutor.COOPERATIVE])
def test_one_launch_and_the_columns_that_were_asked_for(executor: FixpointExecutor) -> None:
    """Whatever the rounds are: one launch or one launch of a graph, 8 bytes, and the columns."""
    machine = cuda_machine()
    with machine.open() as session:
        for graph in (chain(3), chain(30)):
            graph.close(session, executor=executor)
            before = metrics(machine)
            found = graph.close(session, executor=executor, rows=False)
            spent = {name: value - before[name] for name, value in metrics(machine).items()}
            assert spent["downloaded_bytes"] == found.plan.readback_bytes == 8 + 4 * (len(graph) + 1)
            launched = ("kernel_launches", "graph_launches")
            assert sum(spent[name] for name in launched) == 1
            before = metrics(machine)
            graph.close(session, executor=executor)
            both = {name: value - before[name] for name, value in metrics(machine).items()}
            rows = 4 * (len(graph) + len(graph.children))
            assert both["downloaded_bytes"] - spent["downloaded_bytes"] == rows


def metrics(machine: CudaMachine) -> dict[str, int]:
    assert machine.backend.metric_source is not None
    return dict(machine.backend.metric_source.metrics())


def test_rows_that_were_not_asked_for_are_refused() -> None:
    with vyre.open(backend="reference") as session:
        found = chain(2).close(session, rows=False)
    with pytest.raises(vyre.InvalidInput, match="Fix: close the e-graph with rows=True"):
        found.rows  # noqa: B018


def test_many_launches_of_a_pass_are_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few blocks a launch, as where an e-graph is larger than a grid may be."""
    monkeypatch.setattr(closing, "plan_closure", lambda inputs: plan_closure(replace(inputs, most_items=256)))
    graph = chain(300)
    with vyre.open(backend="reference") as session:
        found = graph.close(session)
    assert len(found.plan.waves) == 9 and found.class_count == 301


def test_the_plan_is_in_the_journal() -> None:
    journal = vyre.DecisionJournal()
    with vyre.open(backend="reference", journal=journal) as session:
        chain(2).close(session)
    asked = [decision.policy for decision in journal.decisions]
    assert plan_closure in asked
