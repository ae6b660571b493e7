"""Invariants of the decisions of the native CPU backend."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from support.records import records
from vyre.adapters.cpu.decisions.effort_choice import (
    EffortInputs,
    FullEffort,
    LightEffort,
    TextInputs,
    compiler_effort,
    first_effort,
)
from vyre.adapters.cpu.decisions.private_atomics import (
    AtomicBuffer,
    PrivateInputs,
    PrivateThresholds,
    private_atomics,
)
from vyre.adapters.cpu.decisions.thread_plan import ThreadInputs, thread_plan
from vyre.adapters.cpu.decisions.vector_width import VectorInputs, vector_width
from vyre.domain.analysis.atomic_uses import AtomicUse
from vyre.domain.analysis.lane_chains import LaneChains
from vyre.domain.ir.operators import MERGEABLE, AtomicOp
from vyre.domain.ir.types import ScalarType


@given(st.sampled_from((0, 64, 128, 256, 512, 1024)), st.integers(1, 1024))
def test_a_vector_is_no_wider_than_its_register_or_its_workgroup_needs(bits: int, lanes: int) -> None:
    found = vector_width(VectorInputs(bits, lanes))
    assert found.lanes in (4, 8, 16) and found.lanes * 32 <= max(bits, 128)
    assert found.lanes == 4 or found.lanes // 2 < lanes
    assert found.candidates[0] == found.lanes and 4 in found.candidates
    assert len(set(found.candidates)) == len(found.candidates)
    assert all(width == 4 or width // 2 < lanes for width in found.candidates)


@given(records(VectorInputs))
def test_two_registers_hold_full_vectors_and_no_rows_that_loops_access(inputs: VectorInputs) -> None:
    found = vector_width(inputs)
    plain = vector_width(replace(inputs, chains=LaneChains()))
    chains = inputs.chains
    if found.lanes == 1 and inputs.forced is None:
        assert inputs.slow_gathers and chains.ragged_loops and chains.scattered and not inputs.in_step
        return
    if found.lanes < plain.lanes:
        assert (found.lanes, plain.lanes) == (8, 16) and chains.ragged_loops and chains.carried_words
        return
    assert found.lanes in (plain.lanes, 2 * plain.lanes)
    if found.lanes != plain.lanes:
        assert inputs.workgroup_lanes % found.lanes == 0
        assert inputs.row_lanes % found.lanes == 0 or not inputs.chains.loops_access_memory
        assert not inputs.chains.ragged_loops and not inputs.subgroup_operations and inputs.forced is None


USES = st.builds(
    AtomicUse,
    st.just(""),
    st.sampled_from((ScalarType.U32, ScalarType.I32, ScalarType.U64)),
    st.frozensets(st.sampled_from(AtomicOp), min_size=1, max_size=2),
    st.booleans(),
    st.booleans(),
    st.integers(1, 100),
)
BUFFERS = st.lists(st.builds(AtomicBuffer, USES, st.integers(0, 3_000)), max_size=6).map(
    lambda found: tuple(replace(each, use=replace(each.use, buffer=f"b{i}")) for i, each in enumerate(found))
)
LAUNCHES = st.builds(PrivateInputs, BUFFERS, st.integers(0, 8), st.integers(0, 10_000), st.booleans())


@given(LAUNCHES, st.integers(0, 10_000))
def test_copies_are_made_only_where_they_give_the_same_bytes_and_fit(inputs: PrivateInputs, limit: int) -> None:
    found = private_atomics(inputs, PrivateThresholds(bytes_per_thread=limit))
    named = {buffer.use.buffer: buffer for buffer in inputs.buffers}
    copies = [named[name] for name in found.buffers]
    assert found.bytes_per_thread == sum(buffer.nbytes for buffer in copies) <= limit
    for buffer in copies:
        assert inputs.threads > 1 and not inputs.order_sensitive
        assert len(buffer.use.ops) == 1 and buffer.use.ops <= MERGEABLE
        assert not (buffer.use.plain or buffer.use.results_used) and buffer.nbytes
    assert not (found.buffers and found.shared)
    if found.shared:
        assert sorted((*found.buffers, *(each.buffer for each in found.shared))) == sorted(named)


@given(LAUNCHES)
def test_more_work_takes_no_copy_away(inputs: PrivateInputs) -> None:
    limit = PrivateThresholds(bytes_per_thread=2**40)
    more = replace(inputs, lanes=inputs.lanes * 2)
    assert set(private_atomics(inputs, limit).buffers) <= set(private_atomics(more, limit).buffers)


@given(records(EffortInputs), st.integers(0, 2**32))
def test_a_kernel_that_ran_longer_keeps_its_full_code(inputs: EffortInputs, more: int) -> None:
    later = replace(
        inputs, launches=min(inputs.launches + 1, 2**64 - 1), spent_ns=min(inputs.spent_ns + more, 2**64 - 1)
    )
    if isinstance(compiler_effort(inputs), FullEffort):
        assert isinstance(compiler_effort(later), FullEffort)


@given(records(TextInputs), st.integers(0, 2**32), st.integers(0, 2**32))
def test_the_light_pipeline_of_a_text_is_that_of_every_shorter_one(inputs: TextInputs, blocks: int, lines: int) -> None:
    shorter = TextInputs(max(0, inputs.blocks - blocks), max(0, inputs.lines - lines))
    if isinstance(first_effort(inputs), LightEffort):
        assert isinstance(first_effort(shorter), LightEffort)


TIMES = st.integers(0, 10**7)
THREADS = st.builds(ThreadInputs, st.integers(0, 10**6), TIMES | st.none(), TIMES, st.integers(1, 64), TIMES)


@given(THREADS)
def test_every_thread_of_a_plan_gets_a_piece(inputs: ThreadInputs) -> None:
    plan = thread_plan(inputs)
    assert 1 <= plan.threads <= inputs.threads and plan.grain >= 1
    assert plan.threads == 1 or plan.threads <= inputs.groups
    assert (plan.threads - 1) * plan.grain < max(inputs.groups, 1)
    if plan.threads > 1 and inputs.group_ns is not None:
        assert inputs.groups * inputs.group_ns >= plan.threads * inputs.handoff_ns


@given(THREADS)
def test_order_sensitive_programs_have_one_thread(inputs: ThreadInputs) -> None:
    plan = thread_plan(replace(inputs, order_sensitive=True))
    assert (plan.threads, plan.grain) == (1, max(inputs.groups, 1))


@given(THREADS, st.integers(0, 64))
def test_more_threads_never_reduce_a_plan(inputs: ThreadInputs, more: int) -> None:
    assert thread_plan(replace(inputs, threads=inputs.threads + more)).threads >= thread_plan(inputs).threads
