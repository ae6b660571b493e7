"""The hazard graph against its definition by brute force, and the decisions that rest on it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.arm_verdicts import Independent, SerializeRequired, can_dispatch_concurrently
from vectors.seeds.async_copy_overlap import CopyOverlapInputs, Overlap, can_overlap_copy_with_kernel
from vectors.seeds.pipeline_segments import FusionPlanInputs, plan_cross_pipeline_fusion
from vyre.policies.concurrency.hazards import (
    WHOLE,
    Access,
    AccessMode,
    ConflictReason,
    HazardInputs,
    Interval,
    conflicts,
    first_conflict,
    hazard_graph,
)

BYTES = 12
Operation = tuple[Access, ...]


@st.composite
def intervals(draw: st.DrawFn) -> tuple[Interval, ...]:
    """Up to three intervals of a few bytes, some of which touch; or the whole resource."""
    ends = sorted(draw(st.lists(st.integers(0, BYTES), max_size=6, unique=True)))
    pairs = list(zip(ends[::2], ends[1::2], strict=False)) if draw(st.booleans()) else list(pairwise(ends))[:3]
    return WHOLE if draw(st.integers(0, 5)) == 0 else tuple(pairs)


ACCESSES = st.builds(Access, st.integers(0, 2), st.sampled_from(AccessMode), intervals())
OPERATIONS = st.lists(ACCESSES, max_size=3).map(tuple)
PROGRAMS = st.lists(OPERATIONS, max_size=9)
ARMS = st.builds(
    ArmAccess,
    reads=st.frozensets(st.integers(0, 2), max_size=2),
    writes=st.frozensets(st.integers(0, 2), max_size=2),
    ranges=st.lists(ACCESSES, max_size=3).map(tuple),
)


def bytes_of(operation: Operation, *modes: AccessMode) -> set[tuple[int, int]]:
    """What an operation touches in one of ``modes``, byte by byte."""
    return {
        (a.resource, byte)
        for a in operation
        if a.mode in modes
        for byte in range(BYTES + 1)
        if any(start <= byte < stop for start, stop in a.intervals)
    }


def brute_conflict(earlier: Operation, later: Operation) -> bool:
    writes, everything = (AccessMode.WRITE, AccessMode.READ_WRITE), tuple(AccessMode)
    return bool(
        bytes_of(earlier, *writes) & bytes_of(later, *everything)
        or bytes_of(earlier, *everything) & bytes_of(later, *writes)
    )


def reachable(predecessors: tuple[tuple[int, ...], ...]) -> set[tuple[int, int]]:
    """Pairs that a path joins."""
    before: list[set[int]] = []
    for found in predecessors:
        before.append(set(found).union(*(before[i] for i in found)))
    return {(i, j) for j, found in enumerate(before) for i in found}


def closure(pairs: set[tuple[int, int]], count: int) -> set[tuple[int, int]]:
    """The transitive closure of a relation that only points forward."""
    found = set(pairs)
    for middle in range(count):
        found |= {(i, j) for i, m in found if m == middle for n, j in found if n == middle}
    return found


@given(PROGRAMS)
def test_edges_are_conflicts_and_conflicts_are_paths(program: list[Operation]) -> None:
    graph = hazard_graph(HazardInputs(tuple(program)))
    brute = {(i, j) for (i, a), (j, b) in combinations(enumerate(program), 2) if brute_conflict(a, b)}
    assert set(graph.edges) <= brute
    assert reachable(graph.predecessors) == closure(brute, len(program))
    assert all(list(found) == sorted(set(found)) for found in graph.predecessors)


@given(st.lists(ACCESSES, max_size=9))
def test_no_edge_can_be_left_out(accesses: list[Access]) -> None:
    graph = hazard_graph(HazardInputs(tuple((access,) for access in accesses)))
    paths = reachable(graph.predecessors)
    for before, after in graph.edges:
        assert not any((before, k) in paths and (k, after) in paths for k in range(len(accesses)))


@given(PROGRAMS, st.permutations(range(3)), st.integers(1, 2**40))
def test_names_and_scale_of_resources_do_not_matter(program: list[Operation], names: list[int], scale: int) -> None:
    def renamed(access: Access) -> Access:
        scaled = access.intervals
        if scaled != WHOLE:
            scaled = tuple((start * scale, stop * scale) for start, stop in scaled)
        return Access(names[access.resource], access.mode, scaled)

    other = tuple(tuple(map(renamed, operation)) for operation in program)
    assert hazard_graph(HazardInputs(other)) == hazard_graph(HazardInputs(tuple(program)))


@given(OPERATIONS, OPERATIONS)
def test_pairs(a: Operation, b: Operation) -> None:
    found = list(conflicts(a, b))
    assert bool(found) == brute_conflict(a, b) == bool(first_conflict(a, b))
    assert bool(hazard_graph(HazardInputs((a, b))).predecessors[1]) == bool(found)
    assert {(c.later, c.earlier) for c in found} == {(c.earlier, c.later) for c in conflicts(b, a)}
    first = first_conflict(a, b)
    if first is not None:
        order = list(ConflictReason)
        assert first.reason is min((c.reason for c in found), key=order.index)
        assert (first.reason is ConflictReason.WRITE_WRITE) == bool(
            bytes_of(a, AccessMode.WRITE, AccessMode.READ_WRITE) & bytes_of(b, AccessMode.WRITE, AccessMode.READ_WRITE)
        )


@given(ARMS, ARMS)
def test_slots_are_whole_resources(a: ArmAccess, b: ArmAccess) -> None:
    verdict = can_dispatch_concurrently(a, b)
    assert isinstance(verdict, Independent) == (not brute_conflict(a.accesses, b.accesses))
    whole = tuple(replace(arm, ranges=()) for arm in (a, b))
    spelled = tuple(ArmAccess(frozenset(), frozenset(), arm.accesses) for arm in whole)
    assert can_dispatch_concurrently(*spelled) == can_dispatch_concurrently(*whole)
    if isinstance(can_dispatch_concurrently(*whole), SerializeRequired):
        assert isinstance(verdict, SerializeRequired)


@given(st.integers(0, 2), ARMS, st.none() | st.tuples(st.integers(0, 5), st.integers(6, BYTES)))
def test_a_copy_is_an_arm_that_writes(slot: int, kernel: ArmAccess, part: Interval | None) -> None:
    copied = Access(slot, AccessMode.WRITE, WHOLE if part is None else (part,))
    verdict = can_overlap_copy_with_kernel(CopyOverlapInputs(slot, kernel, part))
    assert isinstance(verdict, Overlap) == (not brute_conflict((copied,), kernel.accesses))


@given(st.lists(ARMS, max_size=7))
def test_segments_by_bytes_are_independent_and_maximal(arms: list[ArmAccess]) -> None:
    plan = plan_cross_pipeline_fusion(FusionPlanInputs(tuple(arms)))
    assert [i for start, end in plan.segments for i in range(start, end)] == list(range(len(arms)))
    apart = {
        (i, j): not brute_conflict(arms[i].accesses, arms[j].accesses) for i, j in combinations(range(len(arms)), 2)
    }
    for start, end in plan.segments:
        assert all(apart[pair] for pair in combinations(range(start, end), 2))
        assert end == len(arms) or not all(apart[i, end] for i in range(start, end))
    for later, reason in ((b.later, b.reason) for b in plan.breaks):
        neighbour = first_conflict(arms[later - 1].accesses, arms[later].accesses)
        assert neighbour is None or neighbour.reason is reason
