"""Rows of launch fusion, transfer fusion and read-back packing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from vectors.codec import Json, PlanCodec, Row
from vectors.seeds.chain_fusion import plan_launch_fusion
from vectors.seeds.diagnostics import plan_diagnostics
from vyre.domain.errors import PlanError
from vyre.policies.transfer.readback import plan_results
from vyre.policies.transfer.transfers import ReadInputs, ReadPlan, Write, WriteInputs, fuse_reads, fuse_writes

T = TypeVar("T")

CODEC: Final = PlanCodec({Write: lambda v: Write(v["handle_id"], v["dst_ptr"], bytes.fromhex(v["hex"]))})


def _reads(given: ReadInputs) -> ReadPlan:
    return _with_reference_errors(lambda: fuse_reads(given))


def _writes(given: WriteInputs) -> dict[str, Json]:
    plan = _with_reference_errors(lambda: fuse_writes(given))
    return {
        "copies": [
            {"handle_id": c.handle_id, "dst_ptr": c.dst_ptr, "hex": c.data.hex(), "owned": c.owned} for c in plan.copies
        ],
        "uploaded_bytes": plan.uploaded_bytes,
        "requested_bytes": plan.requested_bytes,
    }


def _with_reference_errors(plan: Callable[[], T]) -> T:
    """The reference has one error for all transfers that it refuses."""
    try:
        return plan()
    except PlanError as error:
        raise PlanError("InvalidProgram") from error


FILES: Final[Mapping[str, Mapping[str, Row]]] = {
    "launch_fusion": {"plan_launch_fusion": Row(plan_launch_fusion, fallible=True)},
    "resident_transfer_fusion": {
        "fuse_resident_transfer_intervals": Row(_reads, fallible=True),
        "fuse_resident_upload_copies": Row(_writes, fallible=True),
    },
    "result_compaction": {"plan_result_compaction": Row(plan_results, fallible=True)},
    "device_diagnostic_aggregation": {"plan_device_diagnostic_aggregation": Row(plan_diagnostics, fallible=True)},
}
