"""Refusals and empty cases as the golden vectors record them: which error, with which fields, before which other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from vyre.testing.vectors import Tally, run_file

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
