"""E-graph images, and invariants of the plans over them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectors.seeds.egraph_image import (
    EGraphSnapshot,
    ENodeRow,
    ImageShape,
    KernelViewInputs,
    kernel_view,
    pack_device_image,
    row_signature,
)
from vectors.seeds.egraph_plans import (
    Bucket,
    BucketInputs,
    FixedPointInputs,
    LaunchConfig,
    StructuralInputs,
    UnionInputs,
    WorkInputs,
    pair_of,
    pair_rows,
    plan_signature_buckets,
    plan_structural_equivalences,
    plan_union_compaction,
    plan_work,
    structural_fixed_point,
)
from vyre.domain.errors import PlanError
from vyre.domain.record import U32_MAX
from vyre.policies.egraphs.egraph_kernels import (
    ClosureInputs,
    ClosureThresholds,
    KernelPass,
    plan_closure,
)

CLASSES = st.integers(0, 5)
CONFIGS = st.builds(LaunchConfig, st.integers(1, 5), st.integers(1, 3))


@st.composite
def snapshots(draw: st.DrawFn) -> EGraphSnapshot:
    """E-graphs in which every child class has a row."""
    rows = draw(
        st.lists(
            st.builds(ENodeRow, CLASSES, st.sampled_from("fg"), st.lists(CLASSES, max_size=2).map(tuple)), max_size=10
        )
    )
    present = {row.eclass_id for row in rows}
    return EGraphSnapshot(tuple(replace(r, children=tuple(c for c in r.children if c in present)) for r in rows))


@given(snapshots())
def test_an_image_holds_every_row(snapshot: EGraphSnapshot) -> None:
    image = pack_device_image(snapshot)
    assert len(image.words) == image.shape.word_count
    offsets, lengths = image.column("row_children_offsets"), image.column("row_children_lens")
    children = image.column("children")
    assert image.column("row_eclass_ids") == tuple(row.eclass_id for row in snapshot.rows)
    assert [children[o : o + n] for o, n in zip(offsets, lengths, strict=True)] == [r.children for r in snapshot.rows]
    starts, members = image.column("group_offsets"), image.column("group_rows")
    for index, eclass in enumerate(image.column("group_eclass_ids")):
        rows = members[starts[index] : starts[index + 1]]
        assert list(rows) == [i for i, row in enumerate(snapshot.rows) if row.eclass_id == eclass]
    view = kernel_view(KernelViewInputs(4096, image.shape))
    assert view.byte_len == 4 * len(image.words)
    assert [(p - 4096) // 4 for p in view.pointers] == [span.offset for span in image.shape.spans]


def test_an_image_stays_inside_the_address_space() -> None:
    with pytest.raises(PlanError, match="address overflow"):
        kernel_view(KernelViewInputs(2**64 - 4, ImageShape(1, 0, 1)))


def test_signatures_tell_operators_arity_and_order_apart() -> None:
    seen = {row_signature(*key) for key in ((0, ()), (1, ()), (0, (0,)), (0, (0, 1)), (0, (1, 0)))}
    assert len(seen) == 5


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), CONFIGS)
def test_waves_cover_every_item_once(rows: int, children: int, groups: int, config: LaunchConfig) -> None:
    plan = plan_work(WorkInputs(rows, children, groups, config))
    seen = [(w.kernel_pass, i) for w in plan.waves for i in range(w.first_item, w.first_item + w.item_count)]
    assert len(seen) == len(set(seen)) == plan.total_items == rows + children + groups
    for wave in plan.waves:
        assert 0 < wave.blocks <= config.max_blocks_per_launch
        assert wave.item_count <= wave.blocks * wave.threads_per_block < wave.item_count + wave.threads_per_block


@pytest.mark.parametrize(
    ("config", "kind"),
    [(LaunchConfig(0, 1), "ZeroThreadsPerBlock"), (LaunchConfig(1, 0), "ZeroMaxBlocksPerLaunch")],
)
def test_configurations_that_launch_nothing(config: LaunchConfig, kind: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_union_compaction(UnionInputs((), config))
    assert error.value.kind == kind


@pytest.mark.parametrize("count", [2, 3, 4, 7, 30])
def test_pairs_are_the_upper_triangle_row_by_row(count: int) -> None:
    assert [pair_of(o, count) for o in range(count * (count - 1) // 2)] == list(combinations(range(count), 2))


def test_pairs_of_huge_buckets() -> None:
    count = 2**32 - 1
    assert pair_of(0, count) == (0, 1)
    assert pair_of(count * (count - 1) // 2 - 1, count) == (count - 2, count - 1)


@given(st.lists(st.integers(0, 4), max_size=15).map(tuple), CONFIGS)
def test_buckets_hold_all_pairs_of_equal_signature(signatures: tuple[int, ...], config: LaunchConfig) -> None:
    plan = plan_signature_buckets(BucketInputs(signatures, config))
    found = [pair_rows(plan, w.bucket_index, w.first_pair + i) for w in plan.pair_waves for i in range(w.pair_count)]
    expected = [p for p in combinations(range(len(signatures)), 2) if signatures[p[0]] == signatures[p[1]]]
    assert sorted(found) == expected
    assert plan.candidate_pair_count == len(expected)
    assert all(b.words()[3] + (b.words()[4] << 32) == b.candidate_pair_count for b in plan.buckets)


@given(snapshots())
def test_equivalences_are_the_classes_of_equal_rows(snapshot: EGraphSnapshot) -> None:
    rows = snapshot.rows
    equal = [(a, b) for a, b in combinations(rows, 2) if (a.op, a.children) == (b.op, b.children)]
    found = plan_structural_equivalences(StructuralInputs(snapshot))
    pairs = {tuple(sorted((a.eclass_id, b.eclass_id))) for a, b in equal if a.eclass_id != b.eclass_id}
    assert found.equivalences == tuple(sorted(pairs))
    assert found.exact_pair_count == len(equal)
    assert found.redundant_pair_count == sum(a.eclass_id == b.eclass_id for a, b in equal)
    assert found.rejected_candidate_pair_count == 0
    leaders = plan_structural_equivalences(StructuralInputs(snapshot, leaders_only=True))
    assert set(leaders.equivalences) <= set(found.equivalences)
    unions = [plan_union_compaction(UnionInputs(e.equivalences)).canonical_rewrites for e in (leaders, found)]
    assert unions[0] == unions[1]


@given(st.lists(st.tuples(CLASSES, CLASSES), max_size=12), CONFIGS)
def test_unions(pairs: list[tuple[int, int]], config: LaunchConfig) -> None:
    plan = plan_union_compaction(UnionInputs(tuple(pairs), config))
    assert len(plan.canonical_pairs) + plan.ignored_self_pair_count + plan.duplicate_pair_count == len(pairs)
    root = dict(plan.canonical_rewrites)
    sets = {c: {c} for c in range(6)}
    for a, b in pairs:
        merged = sets[a] | sets[b]
        sets |= dict.fromkeys(merged, merged)
    assert all(root.get(c, c) == min(sets[c]) for c in range(6))
    backwards = tuple((b, a) for a, b in reversed(pairs))
    assert plan_union_compaction(UnionInputs(backwards, config)) == plan


@given(snapshots())
def test_the_fixed_point_is_fixed(snapshot: EGraphSnapshot) -> None:
    found = structural_fixed_point(FixedPointInputs(snapshot))
    assert found.converged
    assert not found.rewrites_per_round[-1]
    assert not plan_structural_equivalences(StructuralInputs(found.snapshot)).equivalences
    assert len(found.rewrites_per_round) <= len({row.eclass_id for row in snapshot.rows}) + 1
    capped = structural_fixed_point(FixedPointInputs(snapshot, max_rounds=1))
    assert capped.rewrites_per_round == found.rewrites_per_round[:1]
    assert capped.converged == (not capped.rewrites_per_round[0])
    rest = structural_fixed_point(FixedPointInputs(capped.snapshot))
    assert rest.rewrites_per_round == found.rewrites_per_round[not capped.converged :]


def test_pair_counts_take_two_words() -> None:
    assert Bucket(1, 2, 3, 0x6_0000_0005).words() == (1, 2, 3, 5, 6)


def test_leaders_are_paired_with_the_others_only() -> None:
    snapshot = EGraphSnapshot(tuple(ENodeRow(eclass, "f", ()) for eclass in (3, 1, 2)))
    leaders = plan_structural_equivalences(StructuralInputs(snapshot, leaders_only=True))
    assert leaders.equivalences == ((1, 2), (1, 3))
    assert plan_structural_equivalences(StructuralInputs(snapshot)).equivalences == ((1, 2), (1, 3), (2, 3))


# ---------------------------------------------------------------- closure on a device
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(1, 15))
def test_a_round_covers_classes_rows_and_equalities(rows: int, classes: int, equalities: int, most_items: int) -> None:
    plan = plan_closure(ClosureInputs(rows, classes, equalities, most_items))
    items = {kind: [w for w in plan.waves if w.kernel_pass is kind] for kind in KernelPass}
    covered = {kind: [w.first_item + i for w in waves for i in range(w.item_count)] for kind, waves in items.items()}
    assert covered[KernelPass.CLASS_COMPRESSION] == list(range(classes))
    assert covered[KernelPass.ROW_REKEYING] == list(range(max(rows, classes)))
    assert covered[KernelPass.ROW_MATCHING] == list(range(rows + equalities))
    assert [w.kernel_pass for w in plan.waves] == sorted(
        (w.kernel_pass for w in plan.waves), key=list(KernelPass).index
    )
    assert all(w.item_count <= most_items for w in plan.waves)
    assert plan.readback_bytes == 8 + 4 * (classes + 1)


def test_the_table_of_a_closure() -> None:
    assert plan_closure(ClosureInputs(1000, 1000, 5, U32_MAX)).slots == 4000
    assert plan_closure(ClosureInputs(1000, 1000, 5, U32_MAX)).most_gone == 1000
    assert plan_closure(ClosureInputs(0, 0, 0, U32_MAX)).slots == 1
    given_slots = plan_closure(ClosureInputs(1000, 1000, 5, U32_MAX, slots=7))
    assert (given_slots.slots, given_slots.most_gone) == (7, 1)
    roomy = ClosureThresholds(slots_per_row=8, most_gone_bps=5_000)
    plan = plan_closure(ClosureInputs(10, 10, 0, U32_MAX), roomy)
    assert (plan.slots, plan.most_gone) == (80, 40)


def test_the_host_looks_after_as_many_rounds_as_there_may_be_unions() -> None:
    assert plan_closure(ClosureInputs(10, 10, 3, U32_MAX)).round_limit == 1_024
    assert plan_closure(ClosureInputs(2_000, 2_000, 3, U32_MAX)).round_limit == 2_003


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (ClosureInputs(2**31 - 2, 1, 0, U32_MAX, slots=5), "TooManyRows"),
        (ClosureInputs(2**31 - 4, 1, 2, U32_MAX, slots=5), "TooManyRows"),
        (ClosureInputs(2**30, 1, 0, U32_MAX), "TooManyRows"),
        (ClosureInputs(5, 5, 0, U32_MAX, slots=0), "NoSlots"),
        (ClosureInputs(5, 5, 0, 0), "NoLanes"),
    ],
)
def test_closures_that_cannot_be_planned(inputs: ClosureInputs, kind: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_closure(inputs)
    assert error.value.kind == kind
    assert plan_closure(ClosureInputs(2**31 - 4, 1, 1, U32_MAX, slots=5)).slots == 5
    assert plan_closure(ClosureInputs(2**30 - 1, 1, 0, U32_MAX)).slots == 2**32 - 4
