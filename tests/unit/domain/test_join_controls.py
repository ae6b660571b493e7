"""What the legality rules of joining are for: without them, bytes are wrong.  Each test breaks one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import vyre
from support.optimizer.stage_chains import Array, Chain, call, run
from vyre.domain.fusion.dependences import Dependences
from vyre.domain.fusion.indices import Indices
from vyre.domain.fusion.joining import join_stages
from vyre.domain.fusion.stages import JoinedStages, StageBarrier
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Barrier
from vyre.domain.ir.types import ScalarType

S = ScalarType
N = 512
A, B, C = (Array(name, 4, 4 * N) for name in "abc")


def doubled() -> Program:
    with ProgramBuilder("doubled", workgroup=64) as p:
        x, y = p.input("x", S.U32), p.inout("y", S.U32)
        i = p.let(p.global_id(), "i")
        with p.if_(i < y.length):
            y[i] = x[i] * 2
    return p.build()


def neighbours() -> Program:
    with ProgramBuilder("neighbours", workgroup=64) as p:
        x, y = p.input("x", S.U32), p.inout("y", S.U32)
        i = p.let(p.global_id(), "i")
        with p.if_(i < y.length):
            y[i] = x[i + 1]
    return p.build()


def reversed_in_groups() -> Program:
    with ProgramBuilder("reversed", workgroup=64) as p:
        x, y = p.input("x", S.U32), p.inout("y", S.U32)
        y[p.global_id()] = x[p.group_id() * 64 + (63 - p.local_id())]
    return p.build()


def chain(second: Program, temporary: frozenset[str] = frozenset()) -> Chain:
    return Chain((A, B, C), (call(doubled(), [A, B], grid=8), call(second, [B, C], grid=8)), temporary)


def joined(found: Chain) -> JoinedStages:
    result = join_stages(found.stages, found.temporary)
    assert isinstance(result, JoinedStages)
    return result


@pytest.fixture(scope="module")
def cpu() -> Iterator[vyre.Session]:
    pytest.importorskip("llvmlite")
    with vyre.open("cpu") as session:
        yield session


def without_barriers(stages: JoinedStages) -> JoinedStages:
    body = tuple(stmt for stmt in stages.program.body if not isinstance(stmt, Barrier))
    assert len(body) < len(stages.program.body)
    return replace(stages, program=replace(stages.program, body=body))


@pytest.mark.parametrize(
    ("second", "barrier"), [(neighbours(), StageBarrier.GRID), (reversed_in_groups(), StageBarrier.WORKGROUP)]
)
def test_without_its_barrier_a_joined_program_is_wrong(
    cpu: vyre.Session, second: Program, barrier: StageBarrier
) -> None:
    work = chain(second)
    right = joined(work)
    assert right.barriers == (barrier,)
    apart = run(cpu, work, None, 1)
    assert run(cpu, work, right, 1) == apart
    assert run(cpu, work, without_barriers(right), 1)["c"] != apart["c"]


@pytest.mark.parametrize("temporary", [frozenset(), frozenset("b")])
def test_a_neighbour_reading_stage_taken_for_element_wise_is_wrong(
    cpu: vyre.Session, monkeypatch: pytest.MonkeyPatch, temporary: frozenset[str]
) -> None:
    work = chain(neighbours(), temporary)
    apart = run(cpu, work, None, 1)
    monkeypatch.setattr(Dependences, "_relation", lambda *_: StageBarrier.NONE)
    monkeypatch.setattr(Dependences, "is_pointwise", lambda *_: True)
    wrong = joined(work)
    assert wrong.barriers == (StageBarrier.NONE,)
    assert run(cpu, work, wrong, 1)["c"] != apart["c"]


def test_lengths_taken_for_equal_are_wrong(cpu: vyre.Session) -> None:
    """A lane without an element of the first stage must not take its value for the element."""
    half = Array("b", 4, 2 * N)
    with ProgramBuilder("copied", workgroup=64) as p:
        x, y = p.input("x", S.U32), p.inout("y", S.U32)
        y[p.global_id()] = x[p.global_id()] + 1
    work = Chain((A, half, C), (call(p.build(), [A, half], grid=8), call(p.build(), [half, C], grid=8)), frozenset("b"))
    right = joined(work)
    assert "select(" in right.program.to_text() and right.unallocated == {"b"}
    apart = run(cpu, work, None, 1)
    assert run(cpu, work, right, 1) == apart
    # The same program for stages whose arrays have equal lengths needs no bound of its own.
    text = right.program.to_text().replace(f"{N // 2}u", f"{N}u")
    wrong = replace(right, program=Program.from_text(text))
    assert run(cpu, work, wrong, 1)["c"] != apart["c"]


def test_lanes_taken_apart_by_an_index_that_repeats_are_wrong(
    cpu: vyre.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProgramBuilder("folded", workgroup=64) as p:
        x, y = p.input("x", S.U32), p.inout("y", S.U32)
        y[p.local_id()] = x[p.global_id()]
    with ProgramBuilder("unfolded", workgroup=64) as q:
        x, y = q.input("x", S.U32), q.inout("y", S.U32)
        y[q.global_id()] = x[q.local_id()]
    work = Chain((A, B, C), (call(p.build(), [A, B], grid=8), call(q.build(), [B, C], grid=8)), frozenset())
    apart = run(cpu, work, None, 1)
    right = joined(work)
    assert right.barriers == (StageBarrier.GRID,)
    assert run(cpu, work, right, 1) == apart
    monkeypatch.setattr(Indices, "tells_lanes_apart", lambda *_: True)
    assert run(cpu, work, joined(work), 1)["c"] != apart["c"]
