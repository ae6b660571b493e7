"""Rows of token/fact graphs, e-graph images and kernels, and device signatures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vectors.codec import Json, PlanCodec, Row, camel_case, snake_case
from vectors.seeds.egraph_image import (
    WORD_BYTES,
    Columns,
    EGraphSnapshot,
    ENodeRow,
    ImageShape,
    KernelViewInputs,
    intern_operators,
    kernel_view,
    pack_device_image,
    row_signature,
)
from vectors.seeds.egraph_plans import (
    BucketInputs,
    FixedPointInputs,
    LaunchConfig,
    StructuralInputs,
    UnionInputs,
    Wave,
    WorkInputs,
    output_sizing,
    pair_rows,
    plan_signature_buckets,
    plan_structural_equivalences,
    plan_union_compaction,
    plan_work,
    structural_fixed_point,
)
from vectors.seeds.token_fact_graph import Edge, Node, pack_token_fact_graph, token_fact_layout
from vyre.domain.device_signature import DeviceSignature
from vyre.domain.errors import PlanError
from vyre.domain.graphs.token_fact import EdgeKind, NodeKind


def _node(raw: dict[str, Any]) -> Node:
    return Node(raw["id"], NodeKind(snake_case(raw["kind"])), raw["payload_offset"], raw["payload_bytes"])


def _edge(raw: dict[str, Any]) -> Edge:
    return Edge(raw["from"], raw["to"], EdgeKind(snake_case(raw["kind"])))


CODEC: Final = PlanCodec({Node: _node, Edge: _edge})


def _image(rows: tuple[ENodeRow, ...]) -> dict[str, Json]:
    image = pack_device_image(EGraphSnapshot(rows))
    return {
        "words": list(image.words),
        "row_count": image.shape.row_count,
        "child_count": image.shape.child_count,
        "eclass_group_count": image.shape.eclass_group_count,
        "word_spans": {name: list(span) for name, span in image.shape.spans._asdict().items()},
    }


def _view(base_ptr: int, row_count: int, child_count: int, eclass_group_count: int) -> dict[str, int]:
    shape = ImageShape(row_count, child_count, eclass_group_count)
    view = kernel_view(KernelViewInputs(base_ptr, shape))
    pointers = {f"{name}_ptr": pointer for name, pointer in zip(Columns._fields, view.pointers, strict=True)}
    counts = {"row_count": row_count, "child_count": child_count, "eclass_group_count": eclass_group_count}
    return {"base_ptr": view.base_ptr, "byte_len": view.byte_len} | counts | pointers


def _waves(waves: tuple[Wave, ...]) -> list[dict[str, Json]]:
    return [
        {
            "pass": camel_case(wave.kernel_pass.value),
            "first_item": wave.first_item,
            "item_count": wave.item_count,
            "blocks": wave.blocks,
            "threads_per_block": wave.threads_per_block,
        }
        for wave in waves
    ]


def _work(inputs: WorkInputs) -> dict[str, Json]:
    plan = plan_work(inputs)
    return {"waves": _waves(plan.waves), "total_items": plan.total_items, "total_blocks": plan.total_blocks}


def _buckets(inputs: BucketInputs) -> Json:
    """The plan is the result; what is derived from it stands beside it."""
    try:
        plan = plan_signature_buckets(inputs)
    except PlanError as error:
        return CODEC.failure(error)
    sizing = output_sizing(plan)
    return {
        "ok": {
            "buckets": [bucket._asdict() for bucket in plan.buckets],
            "bucket_rows": list(plan.bucket_rows),
            "pair_waves": [wave._asdict() for wave in plan.pair_waves],
            "candidate_pair_count": plan.candidate_pair_count,
            "total_blocks": plan.total_blocks,
        },
        "pair_rows": [
            [index, ordinal, *pair_rows(plan, index, ordinal)]
            for index, bucket in enumerate(plan.buckets)
            for ordinal in range(bucket.candidate_pair_count)
        ],
        "bucket_words": [word for bucket in plan.buckets for word in bucket.words()],
        "output": {
            "max_equivalences": sizing.max_equivalences,
            "output_pair_words": sizing.pair_bytes // WORD_BYTES,
            "output_pair_bytes": sizing.pair_bytes,
            "output_counter_words": sizing.counter_bytes // WORD_BYTES,
            "output_counter_bytes": sizing.counter_bytes,
        },
    }


def _equivalences(rows: tuple[ENodeRow, ...]) -> dict[str, Json]:
    found = plan_structural_equivalences(StructuralInputs(EGraphSnapshot(rows)))
    return {
        "equivalences": [list(pair) for pair in found.equivalences],
        "exact_pair_count": found.exact_pair_count,
        "redundant_pair_count": found.redundant_pair_count,
        "rejected_candidate_pair_count": found.rejected_candidate_pair_count,
        "equivalence_output_words": 2 * len(found.equivalences),
    }


def _unions(equivalences: tuple[tuple[int, int], ...], config: LaunchConfig) -> dict[str, Json]:
    plan = plan_union_compaction(UnionInputs(equivalences, config))
    return {
        "canonical_pairs": [{"left": left, "right": right} for left, right in plan.canonical_pairs],
        "affected_eclasses": list(plan.affected_eclasses),
        "canonical_rewrites": [rewrite._asdict() for rewrite in plan.canonical_rewrites],
        "waves": _waves(plan.waves),
        "ignored_self_pair_count": plan.ignored_self_pair_count,
        "duplicate_pair_count": plan.duplicate_pair_count,
        "total_items": plan.total_items,
        "total_blocks": plan.total_blocks,
    }


def _fixed_point(rows: tuple[ENodeRow, ...]) -> dict[str, Json]:
    found = structural_fixed_point(FixedPointInputs(EGraphSnapshot(rows)))
    last = found.snapshot
    return {
        "rounds": len(found.rewrites_per_round),
        "rewrites_per_round": [[list(rewrite) for rewrite in rewrites] for rewrites in found.rewrites_per_round],
        "final_row_eclass_ids": [row.eclass_id for row in last.rows],
        "final_children": [child for row in last.rows for child in row.children],
        "final_row_signatures": [
            row_signature(op, row.children) for op, row in zip(intern_operators(last), last.rows, strict=True)
        ],
    }


def _generation(id: str, architecture_generation: int | None, generation: int) -> bool:
    """The declared generation, or the number after the last ``_`` of the id; a bare ``_`` counts as 0."""
    _, found, tail = id.rpartition("_")
    named = int(tail or 0) if found and (tail.isdecimal() or not tail) else None
    return generation in (architecture_generation, named)


def _device_name(device_name_contains: tuple[str, ...], device_name: str) -> bool:
    return DeviceSignature("any", "any", device_name_contains=device_name_contains).matches_name(device_name)


FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "token_fact_graph": {
        "plan_device_resident_token_fact_graph": Row(pack_token_fact_graph, fallible=True),
        "adapt_token_fact_graph_to_cuda_layout": Row(token_fact_layout, fallible=True),
    },
    "egraph_device_image": {
        "row_signature": Row(row_signature),
        "pack_device_image": Row(_image, fallible=True),
        "kernel_view": Row(_view),
    },
    "egraph_kernel_plan": {
        "plan_cuda_egraph_kernel_work": Row(_work, fallible=True),
        "plan_cuda_egraph_signature_buckets": Row(_buckets),
        "plan_cuda_egraph_structural_equivalences": Row(_equivalences),
        "plan_cuda_egraph_union_compaction": Row(_unions, fallible=True),
        "structural_fixed_point": Row(_fixed_point),
    },
    "device_signature_match": {
        "matches_architecture_generation": Row(_generation),
        "matches_device_name": Row(_device_name),
    },
}
