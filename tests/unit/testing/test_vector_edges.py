"""Refusals and empty cases as the golden vectors record them: which error, with which fields, before which other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from vectors.runner import Tally, run_file

U32: Final = 2**32


def said_about(path: Path, stem: str, *lines: dict[str, Any]) -> list[object]:
    """What the runner says about ``lines``, in a file of that name, if they fail."""
    file = path / f"{stem}.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    said: list[object] = []
    tally = Tally(said.append)
    run_file(file, tally)
    assert tally.passed + tally.failed == len(lines)
    return said


def node(id: int) -> dict[str, Any]:
    return {"id": id, "domain": "Parser", "active_items": 1}


@pytest.mark.parametrize(
    ("nodes", "dependencies", "unscheduled"),
    [((4,), ((4, 4),), 1), ((1, 2, 3, 4), ((1, 2), (2, 3), (3, 2), (3, 4)), 3)],
)
def test_a_cycle_of_typed_nodes_counts_the_nodes_that_never_run(
    tmp_path: Path, nodes: tuple[int, ...], dependencies: tuple[tuple[int, int], ...], unscheduled: int
) -> None:
    given = {"nodes": list(map(node, nodes)), "dependencies": dependencies}
    refused = {"err": {"kind": "Cycle", "unscheduled_nodes": unscheduled}}
    line = {"fn": "plan_frontier_typed_ir", "in": given, "out": refused}
    assert said_about(tmp_path, "frontier_typed_ir", line) == []


DEVICE: Final = {
    "sm_major": 9,
    "sm_minor": 0,
    "max_threads_per_block": 1,
    "shared_memory_per_block_bytes": 0,
    "supports_cooperative_launch": False,
    "supports_tensor_cores": False,
}


@pytest.mark.parametrize(
    ("grid", "block"),
    [((U32 - 1,) * 3, (1, 1, 1)), ((1, 1, 1), (2**16, 2**16, 1)), ((U32 - 1,) * 3, (U32 - 1,) * 3)],
)
def test_a_launch_shape_that_overflows_is_refused_before_anything_is_counted(
    tmp_path: Path, grid: tuple[int, ...], block: tuple[int, ...]
) -> None:
    shape = {"grid": grid, "block": block, "dynamic_shared_memory_bytes": 1, "cooperative": True}
    given = {"kernel": "k", "device": DEVICE, "shape": {**shape, "requires_tensor_cores": True}}
    line = {
        "fn": "diagnose_cuda_kernel_launch_shape",
        "in": {**given, "cooperative_resident_block_limit": 0},
        "out": {"err": {"kind": "DimensionOverflow"}},
    }
    assert said_about(tmp_path, "kernel_failure_diagnostics", line) == []


UNKNOWN_WAVES: Final = [(0, U32), (U32, 0), (U32 + 1, U32 + 1), (2**64 - 1, 2**64 - 1)]
ENVELOPE: Final = {"frontier_bytes": 1, "scratch_bytes": 1, "output_bytes": 1}


@pytest.mark.parametrize(("before", "after"), UNKNOWN_WAVES)
def test_an_index_beyond_32_bits_is_that_of_an_unknown_wave(tmp_path: Path, before: int, after: int) -> None:
    refused = {"kind": "InvalidWave", "wave_count": 1, "before": before, "after": after}
    barriers = {
        "fn": "plan_megakernel_barriers",
        "in": {"wave_count": 1, "dependencies": [[before, after]]},
        "out": {"err": refused},
    }
    sizes = {"resident_graph_bytes": 1, "budget_bytes": 0, "readback_bytes": 0}
    memory = {
        "fn": "plan_megakernel_frontier_memory",
        "in": {"waves": [[1, 1, 1]], "dependencies": [[before, after]], **sizes},
        "out": {"err": {"kind": "Barrier", "source": refused}},
    }
    assert said_about(tmp_path, "megakernel_barrier", barriers) == []
    assert said_about(tmp_path, "megakernel_frontier", memory) == []


SAMPLE: Final = {
    "backend_id": "cuda",
    "device_ordinal": U32,
    "device_memory_bytes": 2**35,
    "compute_capability_major": 9,
    "compute_capability_minor": 0,
    "graph_nodes": 10_000,
    "graph_edges": 80_000,
    "repetitions": 64,
    "host_orchestrated_ns": 64000.0,
    "resident_megakernel_ns": 6400.0,
    "setup_ns": 10.0,
    "timed_graph_uploads": 0,
    "timed_host_allocations": 0,
    "timed_host_syncs": 0,
    "resident_borrowed_fallback_dispatches": 0,
}
MANY: Final = SAMPLE | {"repetitions": 2**63}


def rows(*samples: dict[str, Any]) -> str:
    return "{HEADER}\n" + "".join(",".join(map(str, sample.values())) + "\n" for sample in samples)


@pytest.mark.parametrize(
    ("samples", "refused"),
    [
        ([MANY, MANY], {"kind": "RepetitionCountOverflow", "index": 1}),
        ([MANY, SAMPLE, MANY, {**SAMPLE, "repetitions": 0}], {"kind": "RepetitionCountOverflow", "index": 2}),
        ([MANY, {**MANY, "repetitions": 1}, MANY], {"kind": "NotRepeatedFixedGraph", "index": 1}),
        ([SAMPLE], {"kind": "InsufficientSampleCount", "sample_count": 1}),
    ],
)
def test_evidence_is_refused_alike_as_samples_and_as_a_file(
    tmp_path: Path, samples: list[dict[str, Any]], refused: dict[str, Any]
) -> None:
    out = {"err": refused}
    asked = {"samples": samples, "required_speedup_x": 4.0}
    read = {"csv": rows(*samples), "required_speedup_x": 4.0}
    lines = [
        {"fn": "validate_cuda_megakernel_speedup_gate", "in": asked, "out": out},
        {"fn": "format_validated_cuda_megakernel_speedup_evidence_csv", "in": asked, "out": out},
        {"fn": "validate_cuda_megakernel_speedup_evidence_csv", "in": read, "out": out},
    ]
    assert said_about(tmp_path, "megakernel_speedup_gate", *lines) == []


@pytest.mark.parametrize(
    ("csv", "refused"),
    [
        ("{HEADER}\n", {"kind": "InsufficientSampleCount", "sample_count": 0}),
        ("\n {HEADER}\n\n", {"kind": "InsufficientSampleCount", "sample_count": 0}),
        ("\n \n", {"kind": "EmptySamples"}),
        ("\n nodes,edges \n", {"kind": "InvalidEvidenceHeader", "observed": " nodes,edges "}),
        (rows(MANY, MANY) + "cuda,0\n", {"kind": "RepetitionCountOverflow", "index": 1}),
        (rows(MANY) + "cuda,0\n" + rows(MANY), {"kind": "InvalidEvidenceRow", "line": 3}),
    ],
)
def test_a_file_of_evidence_is_judged_row_by_row(tmp_path: Path, csv: str, refused: dict[str, Any]) -> None:
    given = {"csv": csv, "required_speedup_x": 4.0}
    line = {"fn": "validate_cuda_megakernel_speedup_evidence_csv", "in": given, "out": {"err": refused}}
    assert said_about(tmp_path, "megakernel_speedup_gate", line) == []


TOKEN_FACT: Final = {
    "device": {
        "sm_major": 9,
        "sm_minor": 0,
        "warp_size": 32,
        "supports_grid_sync": True,
        "supports_tensor_cores": True,
        "max_workgroup_size": 1024,
    },
    "sample": {"dispatch_cost_ns": 1000.0, "frontier_density": 0.1, "readback_bytes": 5000},
    "graph_layout": {
        "graph_shape": {"node_count": 1, "edge_count": 0},
        "max_out_degree": 0,
        "top_out_degree_prefix_sums": [0] * 16,
        "node_record_bytes": 4,
        "edge_record_bytes": 4,
        "node_bytes": 4,
        "edge_bytes": 0,
        "payload_bytes": 0,
        "resident_bytes": 4,
    },
    "graph_residency": "WarmResident",
    "launch_overhead_ns": 200.0,
    "fusion_pressure": 0.9,
}
HUGE: Final = {**ENVELOPE, "scratch_bytes": 2**63}


@pytest.mark.parametrize(
    ("waves", "items", "dependencies", "refused"),
    [
        ([HUGE], [0], [], {"kind": "FrontierPlan", "source": {"kind": "ByteCountOverflow"}}),
        ([HUGE, HUGE], [2**64 - 1, 1], [], {"kind": "ByteCountOverflow"}),
        (
            [ENVELOPE],
            [0],
            [{"before": 0, "after": U32}],
            {
                "kind": "FrontierPlan",
                "source": {
                    "kind": "Barrier",
                    "source": {"kind": "InvalidWave", "wave_count": 1, "before": 0, "after": U32},
                },
            },
        ),
    ],
)
def test_what_the_planner_of_waves_refuses_is_the_source_of_a_frontier_plan(
    tmp_path: Path, waves: list[Any], items: list[int], dependencies: list[Any], refused: dict[str, Any]
) -> None:
    frontier = {"waves": waves, "active_items": items, "dependencies": dependencies}
    line = {
        "fn": "plan_cuda_token_fact_frontier_execution_envelope",
        "in": {**TOKEN_FACT, "frontier_input": frontier, "budget_bytes": 10_000},
        "out": {"err": refused},
    }
    assert said_about(tmp_path, "token_fact_frontier_execution", line) == []


@pytest.mark.parametrize("recorded", ["error", None, {"err": {}}, {"error": True}, {"error_code": None}])
@pytest.mark.parametrize(("size", "refused"), [(2**31, False), (2**31 + 1, True), (U32 - 1, True)])
def test_a_size_that_cannot_be_reduced_is_refused_without_a_code(
    tmp_path: Path, size: int, refused: bool, recorded: Any
) -> None:
    offsets = {"fn": "reduction_offsets", "in": {"subgroup_size": size}, "out": recorded}
    assert (said_about(tmp_path, "subgroup", offsets) == []) == refused
    refusals: list[Any] = [{"error_code": 1}, {"ok": []}]
    for pinned in refusals:
        assert said_about(tmp_path, "subgroup", {**offsets, "out": pinned}) != []
    claimed = {**offsets, "out": {"ok": [2**step for step in reversed(range(31))]}}
    assert (said_about(tmp_path, "subgroup", claimed) == []) != refused


@pytest.mark.parametrize(
    ("elements", "checked", "lenient"),
    [
        (0, [0, 0], [0, 0]),
        (1, [1, 0], [1, 0]),
        (3, [4, 1], [4, 1]),
        (2**31, [2**31, 0], [2**31, 0]),
        (2**31 + 1, None, [2**31 + 1, 0]),
    ],
)
def test_no_elements_are_padded_with_none(
    tmp_path: Path, elements: int, checked: list[int] | None, lenient: list[int]
) -> None:
    line = {"kind": "pow2_tail", "in": elements, "out": {"checked": checked, "lenient": lenient}}
    assert said_about(tmp_path, "oracle-driver-policies", line) == []


QUEUE: Final = {"control_bytes": 0, "budget_bytes": 100, "host_sync": "HostParticipates"}


@pytest.mark.parametrize(
    ("initial", "expansion", "entry", "kind"),
    [
        (0, 0, 0, "ZeroCapacity"),
        (0, 0, 4, "ZeroCapacity"),
        (1, 0, 0, "ZeroEntryBytes"),
        (0, 1, 0, "ZeroEntryBytes"),
        (1, 0, 4, "HostParticipationRejected"),
        (2**64 - 1, 1, 0, "ByteCountOverflow"),
    ],
)
def test_a_queue_that_grows_is_refused_in_the_order_of_one_that_does_not(
    tmp_path: Path, initial: int, expansion: int, entry: int, kind: str
) -> None:
    given = {"initial_items": initial, "expansion_items": expansion, "entry_bytes": entry, **QUEUE}
    line = {"fn": "plan_device_work_queue_with_expansion", "in": given, "out": {"err": {"kind": kind}}}
    assert said_about(tmp_path, "device_work_queue", line) == []


@pytest.mark.parametrize("graphs", [(1, 1, 1), (1, 2, 3)], ids=["avoided uploads", "uploads"])
def test_totals_of_a_batch_that_overflow_are_bytes(tmp_path: Path, graphs: tuple[int, ...]) -> None:
    queries = [
        {
            "query": place,
            "graph_layout_hash": graph,
            "traversal_key": place + 1,
            "graph_upload_bytes": 2**64 - 1,
            "frontier_bytes": 0,
            "scratch_bytes": 0,
            "output_bytes": 0,
        }
        for place, graph in enumerate(graphs)
    ]
    line = {
        "fn": "plan_multi_query_execution",
        "in": {"queries": queries, "budget_bytes": 2**64 - 1},
        "out": {"err": {"kind": "ByteCountOverflow"}},
    }
    assert said_about(tmp_path, "multi_query_execution", line) == []


def test_no_class_has_no_best_term(tmp_path: Path) -> None:
    device = {"supports_tensor_cores": False, "supports_f16": False, "hot": True}
    given: dict[str, Any] = {"classes": [], **device, "autotune": None, "trace_jit": None}
    assert said_about(tmp_path, "device_extraction", {"fn": "extract_best_for_device", "in": given, "out": None}) == []
