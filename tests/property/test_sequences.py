"""Random sequences leave the reference's bytes and errors in every mode that is forced on or off."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import vyre
from support.fuzzing.sequences import (
    MOST_STEPS,
    TEMPLATES,
    Campaign,
    check,
    graph_of,
    opened,
    reduced,
    templates,
)
from vyre.app import fusing
from vyre.app.sequences import joining
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.stages import JoinedStages, StageBarrier, StageCall
from vyre.domain.ir.operators import Ordering
from vyre.domain.ir.stmt import Barrier

RESULTS: Final = Path(__file__).parents[2] / "benchmarks" / "results"
PARTS: Final = 3
GRAPHS: Final = {"cpu,reference": 36, "cuda-machine": 36}


@pytest.fixture(params=GRAPHS)
def backends(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sessions(backends: str) -> Iterator[dict[str, vyre.Session]]:
    with ExitStack() as stack:
        yield opened(stack, backends.split(","))


@pytest.mark.parametrize("part", range(PARTS))
def test_seeded_graphs_agree(backends: str, sessions: dict[str, vyre.Session], part: int) -> None:
    share = GRAPHS[backends] // PARTS
    campaign = Campaign(backends.split(","), 100_000 + part * share)
    campaign.run(share, sessions)
    assert not campaign.failures, campaign.failures
    counts = campaign.counts
    assert counts["graphs"] == share
    assert counts["sequences"] >= 3 * share and counts["compared bytes"] > 1_000 * share
    assert counts["joined groups"] > share and counts["bytes not allocated"] > 0


def test_graphs_follow_from_the_seed_and_few_templates() -> None:
    assert graph_of(7) == graph_of(7)
    assert len(templates()) == TEMPLATES <= 200
    graphs = [graph_of(seed) for seed in range(300)]
    assert max(len(graph.calls) for graph in graphs) == MOST_STEPS
    assert any(held.temporary for graph in graphs for held in graph.memory)
    assert any(part.times not in (None, 0, 1) for graph in graphs for part in graph.parts)
    assert any(call.after for graph in graphs for call in graph.calls)


# ---------------------------------------------------------------- negative controls
def without_barriers(found: JoinedStages) -> JoinedStages:
    body = tuple(stmt for stmt in found.program.body if not isinstance(stmt, Barrier))
    return replace(found, program=replace(found.program, body=body))


def without_grid_barriers(found: JoinedStages) -> JoinedStages:
    body = tuple(
        stmt for stmt in found.program.body if not (isinstance(stmt, Barrier) and stmt.ordering is Ordering.GRID_SYNC)
    )
    return replace(found, program=replace(found.program, body=body))


def in_too_few_groups(found: JoinedStages) -> JoinedStages:
    return replace(found, grid=(max(1, found.grid[0] - 1), 1, 1))


BROKEN: Final = {
    "barriers are lost": without_barriers,
    "barriers of the grid are lost": without_grid_barriers,
    "a workgroup is lost": in_too_few_groups,
}


def first_failure(sessions: dict[str, vyre.Session], seeds: range) -> str:
    return next((found for seed in seeds if (found := check(sessions, graph_of(seed), Counter()))), "")


@pytest.mark.parametrize("case", BROKEN)
def test_wrongly_joined_steps_are_noticed(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    join = join_stages

    def wrong(*arguments: Any, **limits: Any) -> Any:
        found = join(*arguments, **limits)
        return BROKEN[case](found) if isinstance(found, JoinedStages) and len(arguments[0]) > 1 else found

    monkeypatch.setattr(fusing, "join_stages", wrong)
    with ExitStack() as stack:
        sessions = opened(stack, ["cpu"])
        found = first_failure(sessions, range(60))
        assert "differs" in found or (case == "a workgroup is lost" and "GridOverflow" in found)


def test_a_temporary_array_that_others_read_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All arrays are declared temporary, so that what the group leaves is lost."""
    join = join_stages

    def wrong(stages: list[StageCall], _: Any, **limits: Any) -> Any:
        return join(stages, {identity for stage in stages for identity in stage.buffers}, **limits)

    monkeypatch.setattr(fusing, "join_stages", wrong)
    with ExitStack() as stack:
        sessions = opened(stack, ["reference"])
        assert first_failure(sessions, range(20))


def test_steps_that_are_gathered_in_any_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that memory requires is ignored."""
    monkeypatch.setattr(joining, "_gathered", lambda part: list(reversed(range(len(part.steps)))))
    with ExitStack() as stack:
        sessions = opened(stack, ["reference"])
        assert first_failure(sessions, range(60))


def test_a_failure_is_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    join = join_stages

    def wrong(*arguments: Any, **limits: Any) -> Any:
        found = join(*arguments, **limits)
        return in_too_few_groups(found) if isinstance(found, JoinedStages) else found

    monkeypatch.setattr(fusing, "join_stages", wrong)
    with ExitStack() as stack:
        sessions = opened(stack, ["reference"])
        graph = next(graph for seed in range(60) if check(sessions, graph := graph_of(seed), Counter()))
        small = reduced(sessions, graph)
        used = [*small.first, *(number for part in small.parts for number in part.calls)]
        assert 1 <= len(used) <= 4 and check(sessions, small, Counter())


@pytest.mark.parametrize(("name", "graphs"), [("sequences", 2_000), ("sequences-machine", 500)])
def test_the_recorded_campaign_found_nothing(name: str, graphs: int) -> None:
    record = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    assert record["failures"] == {}
    assert record["counts"]["graphs"] >= graphs
    assert record["counts"]["joined groups"] > record["counts"]["graphs"]
    assert record["counts"]["trapped"] and record["counts"]["bytes not allocated"]


def test_barriers_have_an_order() -> None:
    assert [barrier.value for barrier in StageBarrier] == [0, 1, 2], "the widest is told by its value"
