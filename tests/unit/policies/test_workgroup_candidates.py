"""Which sizes may replace the declared one, and that whatever may gives the same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

import pytest

from support.programs import Case, Order, generate
from support.running import oracle
from vyre import BufferHandle, ProgramBuilder, Value, u32
from vyre.app.tuning.launches import TunedLaunch, tuned_launch
from vyre.domain.analysis.lane_facts import LaneFacts, lane_facts
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.geometry import LaunchLimits
from vyre.domain.ir.program import Program
from vyre.domain.tuning import Candidate
from vyre.policies.tuning.workgroup_candidates import (
    CandidateThresholds,
    LaunchFacts,
    RefusedSize,
    Shortlist,
    ShortlistThresholds,
    SizeOccupancy,
    WorkgroupCandidates,
    obstacle,
    shortlist,
    workgroup_candidates,
)

NO_LIMITS: Final = LaunchLimits("test")
SIZES: Final = CandidateThresholds(sizes=(1, 2, 3, 4, 7, 8, 16, 33, 64))
Body = Callable[[ProgramBuilder], None]


def program(body: Body, workgroup: int = 64) -> Program:
    with ProgramBuilder("p", workgroup=workgroup) as p:
        body(p)
    return p.build()


def guarded(p: ProgramBuilder) -> None:
    x, y = p.input("x", u32), p.inout("y", u32)
    i = p.global_id()
    with p.if_(i < x.length):
        y[i] = x[i] + y[i]


def returning_early(p: ProgramBuilder) -> None:
    x, y = p.input("x", u32), p.inout("y", u32)
    i = p.let(p.global_id())
    with p.if_(i >= x.length):
        p.return_()
    y.atomic_add(0, x[i])


def unguarded_store(p: ProgramBuilder) -> None:
    x, y = p.input("x", u32), p.inout("y", u32)
    y[p.global_id() * 2 + 1] = x[p.global_id()]


def counting_lanes(p: ProgramBuilder) -> None:
    p.inout("y", u32).atomic_add(0, 1)


def guarded_by_a_literal(p: ProgramBuilder) -> None:
    y = p.inout("y", u32)
    with p.if_(p.global_id() < 10):
        y.atomic_add(0, 1)


def looping(p: ProgramBuilder) -> None:
    x, y = p.input("x", u32), p.inout("y", u32)
    i = p.global_id()
    total = p.var(0)
    with p.for_(0, x[i]) as k:
        total.assign(total + k)
    y[i] = total


def ids(p: ProgramBuilder) -> None:
    p.inout("y", u32)[p.global_id()] = p.local_id()


def groups(p: ProgramBuilder) -> None:
    p.inout("y", u32)[p.global_id()] = p.num_groups()


def meeting(p: ProgramBuilder) -> None:
    x, y = p.input("x", u32), p.inout("y", u32)
    y[x[p.global_id()]] = p.global_id()


def neighbours(p: ProgramBuilder) -> None:
    y = p.inout("y", u32)
    y[p.global_id()] = y[p.global_id() + 1]


def in_workgroup_memory(p: ProgramBuilder) -> None:
    y, s = p.inout("y", u32), p.workgroup("s", u32, 64)
    s[0] = 1
    y[p.global_id()] = s[0]


def with_a_barrier(p: ProgramBuilder) -> None:
    p.barrier()
    p.inout("y", u32)[p.global_id()] = 1


def with_a_subgroup(p: ProgramBuilder) -> None:
    p.inout("y", u32)[p.global_id()] = p.subgroup_lane()


def trapping(p: ProgramBuilder) -> None:
    y = p.inout("y", u32)
    with p.if_(p.global_id() == 3):
        p.trap(p.global_id(), "three")
    y[p.global_id()] = 1


def ordered(p: ProgramBuilder) -> None:
    y, z = p.inout("y", u32), p.inout("z", u32)
    z[p.global_id()] = y.atomic_add(0, 1)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (ids, "it uses ids of workgroups, or of lanes in them"),
        (groups, "it uses the number of workgroups"),
        (in_workgroup_memory, "it has workgroup memory"),
        (with_a_barrier, "it has barriers"),
        (with_a_subgroup, "it has subgroup operations"),
        (trapping, "it can trap"),
        (ordered, "it depends on the order of atomics"),
        (meeting, "lanes may meet in `y`, which is written"),
        (neighbours, "lanes may meet in `y`, which is written"),
    ],
)
def test_what_ties_a_program_to_its_size(body: Body, why: str) -> None:
    found = workgroup_candidates(lane_facts(program(body)), LaunchFacts((64, 1, 1), 1024))
    assert found == WorkgroupCandidates((64,))
    assert str(found.why) == why


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (LaneFacts(), None),
        (LaneFacts(async_copies=True), "it copies asynchronously"),
        (LaneFacts(indirect=True), "it takes its grid from memory"),
        (LaneFacts(barriers=True, order_sensitive=True), "it has barriers"),  # the first that applies
        (LaneFacts(traps=True, shared_writes=("b", "a")), "it can trap"),
        (LaneFacts(shared_writes=("b", "a")), "lanes may meet in `b`, which is written"),
    ],
)
def test_obstacles(facts: LaneFacts, why: str | None) -> None:
    found = obstacle(facts, LaunchFacts((64, 1, 1), 1024))
    assert (found if found is None else str(found)) == why


@pytest.mark.parametrize(
    "launch",
    [
        LaunchFacts((8, 8, 1), 64),
        LaunchFacts((8, 1, 8), 64),
        LaunchFacts((64, 1, 1), 64, one_dimension=False),
    ],
)
def test_one_dimension_only(launch: LaunchFacts) -> None:
    assert str(obstacle(LaneFacts(barriers=True), launch)) == "the launch has more than one dimension"


WRAPS_AT_THREE: Final = LaneFacts(stride=2**31)
"""Two lanes have indices below 2^32, and three have not."""


@pytest.mark.parametrize(
    ("declared", "size", "lanes", "facts", "more", "why"),
    [
        # the device
        (4, 8, 8, LaneFacts(), {}, None),
        (4, 9, 9, LaneFacts(), {}, "a workgroup of the device has at most 8 lanes"),
        # indices, of the larger launch
        (1, 2, 2, WRAPS_AT_THREE, {}, None),
        (1, 3, 2, WRAPS_AT_THREE, {"active_lanes": 0}, "the indices of 3 lanes wrap"),
        (3, 2, 2, WRAPS_AT_THREE, {"active_lanes": 0}, "the indices of 3 lanes wrap"),
        # as many lanes as before: nobody can tell
        (4, 8, 5, LaneFacts(), {"counts_steps": True}, None),
        (4, 2, 4, LaneFacts(), {"counts_steps": True}, None),
        # more lanes, or fewer, down to one workgroup
        (4, 8, 4, LaneFacts(), {}, "it launches 8 lanes, not 4, and each may have an effect"),
        (8, 4, 4, LaneFacts(), {}, "it launches 4 lanes, not 8, and each may have an effect"),
        (4, 8, 0, LaneFacts(), {}, "it launches 8 lanes, not 4, and each may have an effect"),
        # the lanes that only one of the launches has do nothing
        (4, 8, 4, LaneFacts(), {"active_lanes": 4}, None),
        (4, 8, 4, LaneFacts(), {"active_lanes": 5}, "it launches 8 lanes, not 4, and 5 may have an effect"),
        (8, 4, 4, LaneFacts(), {"active_lanes": 4}, None),
        (8, 4, 4, LaneFacts(), {"active_lanes": 5}, "it launches 4 lanes, not 8, and 5 may have an effect"),
        # unless somebody counts that
        (
            *(4, 8, 4, LaneFacts()),
            {"active_lanes": 4, "counts_steps": True},
            "it launches 8 lanes, not 4, and their steps count",
        ),
    ],
)
def test_which_sizes_are_refused(
    declared: int, size: int, lanes: int, facts: LaneFacts, more: dict[str, Any], why: str | None
) -> None:
    launch = LaunchFacts((declared, 1, 1), lanes, **more)
    found = workgroup_candidates(facts, launch, CandidateThresholds((size,), max_lanes=8))
    if why is None:
        assert found == WorkgroupCandidates((declared, size))
    else:
        assert found == WorkgroupCandidates((declared,), (RefusedSize(size),))
        assert str(found.refused[0].why) == why
    assert str(found.why) == f"{int(why is None)} sizes give the same bytes as {declared}"


def test_candidates_ascend_behind_the_declared_size() -> None:
    launch = LaunchFacts((16, 1, 1), 64)
    found = workgroup_candidates(LaneFacts(), launch, CandidateThresholds((64, 48, 16, 2000, 4, 8, 4)))
    assert found == WorkgroupCandidates((16, 4, 8, 64), (RefusedSize(48), RefusedSize(2000)))
    assert str(found.why) == "3 sizes give the same bytes as 16"


def sizes_of(body: Body, elements: int, config: DispatchConfig | None = None) -> tuple[int, ...]:
    config = config or DispatchConfig()
    made = program(body)
    nbytes = tuple(4 * elements for b in made.abi_buffers if b.takes_input)
    return tuned_launch(made, nbytes, config, NO_LIMITS).sizes().sizes


ALL: Final = (64, 32, 128, 256, 512, 1024)


@pytest.mark.parametrize(
    ("body", "elements", "expected"),
    [
        (guarded, 1000, ALL),
        (returning_early, 1000, ALL),
        (unguarded_store, 1000, ALL),  # stores out of range have no effect
        (counting_lanes, 2048, ALL),  # every size launches 2048 lanes
        (counting_lanes, 1000, ALL),  # so does it here: 1024
        (counting_lanes, 2049, (64,)),
        (guarded_by_a_literal, 1, ALL),
        (looping, 2048, ALL),
        (looping, 2049, (64,)),  # what a lane without an element takes for its bound is anybody's guess
    ],
)
def test_lanes_that_rounding_adds(body: Body, elements: int, expected: tuple[int, ...]) -> None:
    assert sizes_of(body, elements) == expected


def test_a_bound_beyond_the_lanes_of_some_size_refuses_it() -> None:
    """Ten lanes count; a launch of one element has 32, but one of a size below ten would not have them."""
    made = lane_facts(program(guarded_by_a_literal))
    launch = LaunchFacts((64, 1, 1), 1, active_lanes=made.active_lanes({"y": 1}))
    found = workgroup_candidates(made, launch, CandidateThresholds(sizes=(4, 8, 16)))
    assert found.sizes == (64, 16)
    assert "10 may have an effect" in str(found.refused[0].why)


def test_steps_that_are_counted_forbid_more_lanes() -> None:
    launch = LaunchFacts((64, 1, 1), 1000, active_lanes=0, counts_steps=True)
    found = workgroup_candidates(LaneFacts(), launch, CandidateThresholds(sizes=(7,)))
    assert found.sizes == (64,)


def test_indices_that_wrap_forbid() -> None:
    launch = LaunchFacts((64, 1, 1), 2**31, active_lanes=0)
    assert workgroup_candidates(LaneFacts(stride=2), launch).sizes == ALL
    assert workgroup_candidates(LaneFacts(stride=3), launch).sizes == (64,)


def test_an_explicit_grid_keeps_its_lanes() -> None:
    made, config = program(guarded), DispatchConfig(grid=(3, 1, 1))
    launch = tuned_launch(made, (400, 400), config, NO_LIMITS)
    assert launch.facts.lanes == launch.lanes == 192
    assert launch.config_of(Candidate(64)) is config
    assert launch.config_of(Candidate(128)) == DispatchConfig(grid=(2, 1, 1), workgroup=(128, 1, 1))
    assert launch.config_of(Candidate(64, "fast")) == replace(config, profile="fast")
    assert sizes_of(guarded, 100, config) == ALL
    # 192 lanes for 400 elements: each has an effect, and so would the 64 that 256 adds
    assert sizes_of(guarded, 400, config) == (64, 32)


def candidates(case: Case) -> tuple[WorkgroupCandidates, TunedLaunch]:
    nbytes = tuple(len(case.inputs[b.name]) for b in case.program.abi_buffers if b.takes_input)
    launch = tuned_launch(case.program, nbytes, case.config, NO_LIMITS)
    return workgroup_candidates(lane_facts(case.program), launch.facts, SIZES), launch


GUARDS: Final[tuple[Callable[[ProgramBuilder, Value, BufferHandle, int], AbstractContextManager[None]], ...]] = (
    lambda p, i, x, n: nullcontext(),
    lambda p, i, x, n: p.if_(i < x.length),
    lambda p, i, x, n: p.if_(i < n),
    lambda p, i, x, n: p.if_(n > i),
    lambda p, i, x, n: p.if_(i > n),
    lambda p, i, x, n: p.if_(i <= n),
    lambda p, i, x, n: p.if_((x[i] < 100) & (i < n)),
    lambda p, i, x, n: p.if_((x[i] < 100) | (i < n)),
)


def elementwise(draw: random.Random) -> Case:
    """A program of guards, returns, strided stores, atomics and loops, right and wrong ones."""
    with ProgramBuilder("p", workgroup=draw.choice((1, 2, 4, 8, 32))) as p:
        x, y, z = p.input("x", u32), p.inout("y", u32), p.inout("z", u32)
        i = p.let(p.global_id())
        if draw.random() < 0.3:
            with p.if_(draw.choice((i >= x.length, i >= draw.randrange(40), i < draw.randrange(3)))):
                p.return_()
        for _ in range(draw.randint(1, 2)):
            with draw.choice(GUARDS)(p, i, x, draw.randrange(50)):
                stride, offset = draw.choice(((1, 0), (1, 0), (2, 1), (3, 2), (4, 0), (1, 1), (2, 3)))
                match draw.randrange(5):
                    case 0 | 1:
                        y[i * stride + offset] = x[i] * 3 + draw.choice((0, y[i * stride + offset]))
                    case 2:
                        z.atomic_add(draw.choice((p.let(u32(0)), i * stride + offset)), 1)
                    case 3:
                        y[x[i] % 8] = draw.choice((u32(7), i))
                    case 4:
                        total = p.var(u32(0))
                        with p.for_(0, draw.choice((u32(3), x[i] % 5))) as k:
                            total.assign(total + k + i)
                        y[i] = total
    made = p.build()
    lengths = {name: draw.choice((1, 2, 3, 5, 8, 16, 31, 32, 33, 40)) for name in "xyz"}
    inputs = {n: b"".join(draw.randrange(200).to_bytes(4, "little") for _ in range(k)) for n, k in lengths.items()}
    config = draw.choice(
        (DispatchConfig(), DispatchConfig(extent=(draw.randint(1, 60),)), DispatchConfig(grid=(3, 1, 1)))
    )
    return Case(made, inputs, config, Order.RACY)


def disagreements(cases: Iterator[Case]) -> tuple[int, int]:
    """Sizes tried of all cases, and cases that allowed none but the declared one."""
    tried = tied = 0
    for number, case in enumerate(cases):
        found, launch = candidates(case)
        tied += len(found.sizes) == 1
        for size in found.sizes[1:]:
            tried += 1
            other = replace(case, config=launch.config_of(Candidate(size)))
            assert oracle(other) == oracle(case), f"case {number}, size {size}: {case}"
    return tried, tied


def test_whatever_is_a_candidate_gives_the_same_bytes() -> None:
    tried, tied = disagreements(elementwise(random.Random(seed)) for seed in range(400))
    assert tried > 500 and tied > 50, "the cases tell nothing"


def test_no_rich_program_is_changed_by_a_candidate() -> None:
    disagreements(generate(seed, order=order, traps=True) for seed in range(150) for order in Order)


@pytest.mark.parametrize(
    ("sizes", "thresholds", "kept", "refused"),
    [
        ((), {}, (), {}),
        (((64, 0),), {}, (64,), {}),  # the first always
        (((64, None), (32, None), (128, None)), {}, (64, 32, 128), {}),
        # half of the best is enough, anything less is not
        (
            ((64, 1_000), (32, 4_999), (16, 5_000), (128, 10_000)),
            {},
            (64, 128, 16),
            {32: "it keeps 4999 bps of the warps resident, the best 10000"},
        ),
        (
            ((64, 9_999), (32, 5_000)),
            {"worst_bps": 5_001},
            (64,),
            {32: "it keeps 5000 bps of the warps resident, the best 9999"},
        ),
        (((64, 0), (32, 1)), {}, (64, 32), {}),
        # nothing resident is never enough; what nobody knows may be
        (((64, 0), (32, 0)), {}, (64,), {32: "it keeps 0 bps of the warps resident, the best 0"}),
        (
            ((64, 8), (32, None), (16, 0)),
            {"worst_bps": 0},
            (64, 32),
            {16: "it keeps 0 bps of the warps resident, the best 8"},
        ),
        # the highest first, ties to the smaller, the unknown last
        (((64, 1), (32, 8), (128, 7), (16, 8)), {}, (64, 16, 32, 128), {}),
        (((64, None), (128, 1), (32, None)), {}, (64, 128, 32), {}),
        # not too many
        (
            ((1, 1), (8, 8), (10, 10), (9, 9)),
            {"most": 2},
            (1, 10),
            {9: "2 sizes are enough", 8: "2 sizes are enough"},
        ),
        (((64, 8), (32, 8)), {"most": 0}, (64,), {32: "0 sizes are enough"}),
    ],
)
def test_shortlists(
    sizes: tuple[tuple[int, int | None], ...],
    thresholds: dict[str, int],
    kept: tuple[int, ...],
    refused: dict[int, str],
) -> None:
    found = shortlist(tuple(SizeOccupancy(*each) for each in sizes), ShortlistThresholds(**thresholds))
    assert found == Shortlist(kept, tuple(map(RefusedSize, refused)))
    assert {each.size: str(each.why) for each in found.refused} == refused
