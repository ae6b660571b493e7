"""Launch fusion: which stages become one launch, and why the next one does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vectors.seeds.chain_fusion import ChainInputs, ChainStage, plan_launch_fusion
from vyre.domain.errors import PlanError
from vyre.policies.concurrency.hazards import AccessMode
from vyre.policies.stage_fusion.launch_fusion import (
    AccessRelation,
    BufferUse,
    DataflowInputs,
    DataflowPlan,
    DataflowStage,
    GroupDataflow,
    LaunchFusionPlan,
    LaunchGroup,
    StageBuffer,
    plan_dataflow,
)

TOP = 2**64 - 1
READ, WRITE, UPDATE = AccessMode.READ, AccessMode.WRITE, AccessMode.READ_WRITE
POINTWISE, WORKGROUP, GLOBAL = AccessRelation.POINTWISE, AccessRelation.WORKGROUP, AccessRelation.GLOBAL


def chain(*sizes: tuple[int, int, int], budget: int = 1000, layouts: str = "", host: int | None = None) -> ChainInputs:
    """Stages 0, 1, ... of (input, output, scratch) bytes; ``host`` names one whose inputs come through the host."""
    stages = (
        ChainStage(i, ord((layouts or "a" * len(sizes))[i]), scratch, i == host, read, written)
        for i, (read, written, scratch) in enumerate(sizes)
    )
    return ChainInputs(tuple(stages), budget)


def test_a_chain_needs_its_first_input_and_every_output_and_scratch() -> None:
    found = plan_launch_fusion(chain((10, 20, 3), (20, 30, 4), (30, 5, 0)))
    assert found == LaunchFusionPlan((LaunchGroup((0, 1, 2), ord("a"), 10 + 20 + 3 + 30 + 4 + 5, 20 + 30),), 1, 2, 50)


def test_inputs_through_the_host_part_a_stage_from_the_one_before_and_not_from_the_one_behind() -> None:
    found = plan_launch_fusion(chain((1, 1, 1), (1, 1, 1), (1, 1, 1), host=1))
    assert [g.stage_ids for g in found.groups] == [(0,), (1, 2)]
    assert [str(g.why) for g in found.groups] == ["the first stage", "the inputs of stage 1 come through the host"]


def test_the_first_stage_may_take_its_inputs_from_the_host() -> None:
    assert plan_launch_fusion(chain((1, 1, 1), (1, 1, 1), host=0)).launch_count == 1


def test_layouts_are_compared_with_that_of_the_launch() -> None:
    found = plan_launch_fusion(chain((1, 1, 1), (1, 1, 1), (1, 1, 1), layouts="aba"))
    assert [(g.stage_ids, g.layout_hash) for g in found.groups] == [((0,), 97), ((1,), 98), ((2,), 97)]
    assert str(found.groups[1].why) == "stage 1 has another layout"


def test_a_launch_may_fill_its_budget() -> None:
    sizes = (10, 20, 3), (20, 30, 4)
    assert plan_launch_fusion(chain(*sizes, budget=67)).launch_count == 1
    found = plan_launch_fusion(chain(*sizes, budget=66))
    assert [g.required_bytes for g in found.groups] == [33, 54]
    assert str(found.groups[1].why) == "with stage 1 the launch would need 67 of 66 bytes"
    assert (found.avoided_launches, found.avoided_intermediate_bytes) == (0, 0)


def test_a_stage_may_fill_its_budget() -> None:
    assert plan_launch_fusion(chain((1, 2, 3), budget=6)).groups[0].required_bytes == 6


def test_no_stages() -> None:
    assert plan_launch_fusion(ChainInputs((), 1)) == LaunchFusionPlan((), 0, 0, 0)
    assert plan_dataflow(DataflowInputs((), (), 1)) == DataflowPlan(LaunchFusionPlan((), 0, 0, 0), (), 0)


ONE = chain((1, 2, 3))


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        (ChainInputs((), 0), "zero budget"),
        (ChainInputs(ONE.stages * 2, 9), "duplicate stage: id = 0"),
        (replace(ONE, max_group_bytes=5), "stage over budget: id = 0, required_bytes = 6, budget_bytes = 5"),
        (chain((TOP, 1, 0), budget=TOP), "byte count overflow: field = stage bytes"),
        (chain((1, 1, 1), (1, TOP, 1), budget=TOP), "byte count overflow: field = fused bytes"),
    ],
)
def test_refused_chains(inputs: ChainInputs, text: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_launch_fusion(inputs)
    assert str(error.value) == f"{text}. Fix: change the values named, or plan for less."


def test_avoided_bytes_of_all_launches_never_wrap() -> None:
    half = (0, 2**63, 0), (0, 0, 0)
    with pytest.raises(PlanError) as error:
        plan_launch_fusion(chain(*half, *half, layouts="aabb", budget=TOP))
    assert error.value.fields == {"field": "avoided intermediate bytes"}


def read(resource: int, relation: AccessRelation = GLOBAL) -> BufferUse:
    return BufferUse(resource, READ, relation)


def write(resource: int, relation: AccessRelation = GLOBAL) -> BufferUse:
    return BufferUse(resource, WRITE, relation)


def flow(*uses: tuple[BufferUse, ...], sizes: dict[int, int], kept: int | None = None, **others: Any) -> DataflowInputs:
    """Stages 0, 1, ... with these uses and 1 byte of scratch each; ``kept`` is read after the last."""
    stages = tuple(DataflowStage(i, 7, 1, False, each) for i, each in enumerate(uses))
    buffers = tuple(StageBuffer(resource, size, resource == kept) for resource, size in sizes.items())
    return DataflowInputs(stages, buffers, **{"max_group_bytes": 1000, **others})


SIZES = {1: 100, 2: 20, 3: 30, 4: 40}
MAPS = flow(
    (read(1), write(2)),
    (read(2, POINTWISE), write(3)),
    (read(3, POINTWISE), write(4)),
    sizes=SIZES,
    kept=4,
)


def test_pointwise_stages_keep_their_intermediates_in_registers() -> None:
    found = plan_dataflow(MAPS)
    assert found.launches == LaunchFusionPlan((LaunchGroup((0, 1, 2), 7, 100 + 40 + 3, 20 + 30),), 1, 2, 50)
    assert found.dataflow == (GroupDataflow((POINTWISE, POINTWISE), (2, 3)),)
    assert found.peak_bytes == 143


def test_every_input_is_counted_and_each_buffer_once() -> None:
    """The second stage reads more than the first wrote, and the first input again."""
    found = plan_dataflow(flow((read(1), write(2)), (read(2, POINTWISE), read(3), read(1), write(4)), sizes=SIZES))
    assert found.launches.groups[0].required_bytes == 100 + 30 + 40 + 2
    assert found.dataflow[0].unallocated == (2,)


@pytest.mark.parametrize(
    ("first", "second", "kept", "unallocated"),
    [
        (write(2), read(2, POINTWISE), None, (2,)),
        (write(2), BufferUse(2, UPDATE, POINTWISE), None, (2,)),
        (write(2), read(2, POINTWISE), 2, ()),
        (write(2), read(2, WORKGROUP), None, ()),
        (BufferUse(2, UPDATE), read(2, POINTWISE), None, ()),
        (read(2), write(2, POINTWISE), None, ()),
    ],
    ids=["read", "updated", "kept", "other lanes read it", "old content counts", "read before it is written"],
)
def test_which_buffers_need_no_memory(
    first: BufferUse, second: BufferUse, kept: int | None, unallocated: tuple[int, ...]
) -> None:
    found = plan_dataflow(flow((first,), (second,), sizes=SIZES, kept=kept))
    assert found.dataflow == (GroupDataflow((second.relation,), unallocated),)
    assert found.launches.groups[0].required_bytes == (2 if unallocated else 22)


def test_one_use_by_another_lane_is_enough_to_need_memory() -> None:
    uses = (write(2),), (read(2, WORKGROUP),), (read(2, POINTWISE),)
    found = plan_dataflow(flow(*uses, sizes=SIZES))
    assert [launch.unallocated for launch in found.dataflow] == [()]


def test_unallocated_buffers_ascend() -> None:
    uses = (write(3),), (read(3, POINTWISE), write(2)), (read(2, POINTWISE),)
    assert plan_dataflow(flow(*uses, sizes=SIZES)).dataflow[0].unallocated == (2, 3)


def test_what_nobody_said_counts_as_unordered_and_dropped() -> None:
    assert BufferUse(1, READ) == read(1, GLOBAL)
    assert StageBuffer(1, 2) == StageBuffer(1, 2, kept=False)
    assert not DataflowInputs((), (), 1).cooperative


def test_what_a_later_launch_reads_is_written() -> None:
    uses = (read(1), write(2)), (read(2, POINTWISE), write(3)), (read(2), write(4))
    found = plan_dataflow(flow(*uses, sizes=SIZES))
    assert [g.stage_ids for g in found.launches.groups] == [(0, 1), (2,)]
    assert found.launches.groups[0].required_bytes == 100 + 20 + 30 + 2
    assert found.launches.groups[0].avoided_intermediate_bytes == 0
    assert str(found.launches.groups[1].why) == "stage 2 shares buffer 2 between workgroups"


def test_a_result_nobody_reads_is_still_written() -> None:
    found = plan_dataflow(flow((write(2),), sizes=SIZES))
    assert found.launches.groups[0].required_bytes == 21


def test_a_stencil_needs_a_barrier_of_the_whole_launch() -> None:
    uses = (read(1), write(2)), (read(2), write(3))
    apart = plan_dataflow(flow(*uses, sizes=SIZES))
    assert apart.launches.launch_count == 2
    together = plan_dataflow(flow(*uses, sizes=SIZES, cooperative=True))
    assert together.dataflow == (GroupDataflow((GLOBAL,), ()),)


@pytest.mark.parametrize(
    ("earlier", "later"), [(READ, WRITE), (WRITE, READ), (WRITE, WRITE), (UPDATE, READ), (READ, UPDATE)]
)
def test_whoever_writes_conflicts(earlier: AccessMode, later: AccessMode) -> None:
    uses = (BufferUse(1, earlier),), (BufferUse(1, later),)
    assert plan_dataflow(flow(*uses, sizes=SIZES)).launches.launch_count == 2


def test_readers_of_one_buffer_need_no_order() -> None:
    found = plan_dataflow(flow((read(1), write(2)), (read(1), write(3)), sizes=SIZES))
    assert found.dataflow == (GroupDataflow((POINTWISE,), ()),)


def test_a_barrier_orders_all_that_stands_before_it() -> None:
    """Stage 1 waits for its workgroup, so stage 2 may read what stage 0 wrote; stage 3 reads what stage 2 wrote."""
    uses = (
        (write(1), write(2)),
        (read(1, WORKGROUP),),
        (read(2, WORKGROUP), write(3)),
        (read(3, WORKGROUP),),
    )
    found = plan_dataflow(flow(*uses, sizes=SIZES))
    assert found.dataflow[0].barriers == (WORKGROUP, POINTWISE, WORKGROUP)


def test_a_barrier_of_the_launch_is_one_of_each_workgroup_but_not_the_other_way_round() -> None:
    uses = (write(1), write(2)), (read(1),), (read(2, WORKGROUP),)
    assert plan_dataflow(flow(*uses, sizes=SIZES, cooperative=True)).dataflow[0].barriers == (GLOBAL, POINTWISE)
    uses = (write(1), write(2)), (read(1, WORKGROUP),), (read(2),)
    assert plan_dataflow(flow(*uses, sizes=SIZES, cooperative=True)).dataflow[0].barriers == (WORKGROUP, GLOBAL)


def test_the_widest_conflict_decides() -> None:
    uses = (write(1), write(2), write(3)), (read(3, POINTWISE), read(1), read(2, WORKGROUP))
    assert plan_dataflow(flow(*uses, sizes=SIZES, cooperative=True)).dataflow[0].barriers == (GLOBAL,)


def test_barriers_are_counted_anew_in_every_launch() -> None:
    uses = (write(1),), (read(1, WORKGROUP),), (write(2),), (read(2, WORKGROUP),)
    inputs = flow(*uses, sizes=SIZES)
    stages = (*inputs.stages[:2], replace(inputs.stages[2], layout_hash=8), replace(inputs.stages[3], layout_hash=8))
    found = plan_dataflow(replace(inputs, stages=stages))
    assert found.dataflow == (GroupDataflow((WORKGROUP,), ()), GroupDataflow((WORKGROUP,), ()))


def test_the_budget_holds_for_what_a_launch_binds() -> None:
    assert plan_dataflow(replace(MAPS, max_group_bytes=143)).launches.launch_count == 1
    assert plan_dataflow(replace(MAPS, max_group_bytes=142)).launches.launch_count == 2
    with pytest.raises(PlanError) as error:
        plan_dataflow(replace(MAPS, max_group_bytes=120))
    assert error.value.fields == {"id": 0, "required_bytes": 121, "budget_bytes": 120}


def test_stages_join_one_by_one() -> None:
    """All three would bind 104 bytes, but the first two 132: their intermediate is not known to end yet."""
    inputs = replace(MAPS, buffers=(*MAPS.buffers[:3], StageBuffer(4, 1, kept=True)))
    assert plan_dataflow(inputs).launches.groups[0].required_bytes == 104
    assert plan_dataflow(replace(inputs, max_group_bytes=132)).launches.launch_count == 1
    assert plan_dataflow(replace(inputs, max_group_bytes=131)).launches.launch_count == 2


def test_the_peak_counts_what_waits_for_later_launches() -> None:
    """Three launches: 1 is older and dies after the first, 2 waits for the last, 3 is kept."""
    uses = (read(1), write(2)), (write(3),), (read(2), write(4))
    inputs = flow(*uses, sizes=SIZES, kept=3)
    stages = tuple(replace(stage, layout_hash=i, scratch_bytes=2**i) for i, stage in enumerate(inputs.stages))
    inputs = replace(inputs, stages=stages)
    assert plan_dataflow(inputs).peak_bytes == 100 + 20 + 1
    smaller = (replace(inputs.buffers[0], byte_len=10), *inputs.buffers[1:])
    assert plan_dataflow(replace(inputs, buffers=smaller)).peak_bytes == 20 + 30 + 40 + 4
    forgotten = tuple(replace(buffer, kept=False) for buffer in smaller)
    assert plan_dataflow(replace(inputs, buffers=forgotten)).peak_bytes == 20 + 40 + 4


def test_older_content_is_alive_from_the_start() -> None:
    inputs = flow((write(1),), (read(2),), sizes=SIZES)
    stages = (inputs.stages[0], replace(inputs.stages[1], layout_hash=8))
    assert plan_dataflow(replace(inputs, stages=stages)).peak_bytes == 121


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"buffers": MAPS.buffers * 2}, "duplicate buffer: resource = 1"),
        ({"buffers": MAPS.buffers[:1]}, "unknown buffer: id = 0, resource = 2"),
        ({"stages": (DataflowStage(5, 7, 1, False, (read(1), write(1))),)}, "duplicate use: id = 5, resource = 1"),
        ({"stages": MAPS.stages[:1] * 2}, "duplicate stage: id = 0"),
        ({"max_group_bytes": 0}, "zero budget"),
        ({"stages": (replace(MAPS.stages[0], scratch_bytes=TOP),)}, "byte count overflow: field = stage bytes"),
        (
            {"stages": (MAPS.stages[0], replace(MAPS.stages[1], scratch_bytes=TOP)), "max_group_bytes": TOP},
            "byte count overflow: field = fused bytes",
        ),
    ],
)
def test_refused_dataflows(change: dict[str, Any], text: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_dataflow(replace(MAPS, **change))
    assert str(error.value) == f"{text}. Fix: change the values named, or plan for less."


def test_the_peak_never_wraps() -> None:
    inputs = flow((write(1),), (read(2),), sizes={1: 2**63, 2: 2**63}, max_group_bytes=TOP)
    stages = (inputs.stages[0], replace(inputs.stages[1], layout_hash=8))
    with pytest.raises(PlanError) as error:
        plan_dataflow(replace(inputs, stages=stages))
    assert error.value.fields == {"field": "peak bytes"}
