"""What are the launch decisions of one dispatch together?

Evaluates persistent execution, arm independence, copy overlap, command reuse, resource table and speculative
compilation on one set of inputs.  Audit events are returned, never emitted.  O(accesses).

vyre-driver checks the copy against one arm only, although both may be running; ``copy_beside_both_arms`` checks it
against either arm.
"""

from __future__ import annotations

from typing import NamedTuple

from vectors.seeds.arm_independence import ArmAccess
from vectors.seeds.arm_verdicts import ArmVerdict, can_dispatch_concurrently
from vectors.seeds.async_copy_overlap import CopyOverlapVerdict, Serialize, judge_copy
from vectors.seeds.bindless import Bindless, BindlessInputs, BindlessThresholds, BindlessVerdict, decide_bindless
from vectors.seeds.dispatch_policy import PrimaryMode, select_primary_execution_mode
from vectors.seeds.intervals import check_intervals
from vyre.policies.concurrency.hazards import Interval
from vyre.policies.launching.command_reuse import (
    CommandReuseInputs,
    CommandReuseThresholds,
    CommandReuseVerdict,
    RecordAndReplay,
    decide_command_reuse,
)
from vyre.policies.launching.persistent_kernel import (
    PersistentKernel,
    PersistentKernelInputs,
    PersistentKernelThresholds,
    PersistentKernelVerdict,
    decide_persistent_kernel,
)
from vyre.policies.prediction.trace_jit import (
    Speculate,
    TraceJitInputs,
    TraceJitThresholds,
    TraceJitVerdict,
    decide_trace_jit_speculation,
)
from vyre.policies.record import U32, record, verdict


@record
class DispatchPolicyInputs:
    """Inputs of the six decisions; ``copy_dst_slot`` is None when no copy is pending.

    ``copy_bytes`` are the bytes of the slot that the copy writes, None for all.  ``copy_beside_both_arms`` checks the
    copy against ``arm_b``, too; without it, as in vyre-driver, only against ``arm_a``.
    """

    persistent: PersistentKernelInputs
    arm_a: ArmAccess
    arm_b: ArmAccess
    copy_dst_slot: U32 | None
    graph: CommandReuseInputs
    bindless: BindlessInputs
    trace_jit: TraceJitInputs
    copy_bytes: Interval | None = None
    copy_beside_both_arms: bool = False

    def __post_init__(self) -> None:
        if self.copy_bytes is not None:
            check_intervals("DispatchPolicyInputs", "copy_bytes", (self.copy_bytes,))


@record
class DispatchPolicyThresholds:
    """The thresholds of the decisions that have any."""

    persistent: PersistentKernelThresholds = PersistentKernelThresholds()
    graph: CommandReuseThresholds = CommandReuseThresholds()
    bindless: BindlessThresholds = BindlessThresholds()
    trace_jit: TraceJitThresholds = TraceJitThresholds()


class AuditEvent(NamedTuple):
    """A positive verdict, for the application to record."""

    substrate: str
    action: str
    saved_ns: int
    detail: str


@verdict
class DispatchDecisions:
    """Every verdict; ``copy_overlap`` is None without a pending copy, and by default judged against ``arm_a``."""

    persistent: PersistentKernelVerdict
    arm_independence: ArmVerdict
    copy_overlap: CopyOverlapVerdict | None
    command_reuse: CommandReuseVerdict
    bindless: BindlessVerdict
    trace_jit: TraceJitVerdict
    primary_execution_mode: PrimaryMode
    audit_events: tuple[AuditEvent, ...]


DEFAULT_THRESHOLDS = DispatchPolicyThresholds()


def evaluate_dispatch_policy(
    inputs: DispatchPolicyInputs, thresholds: DispatchPolicyThresholds = DEFAULT_THRESHOLDS
) -> DispatchDecisions:
    """Returns all verdicts, the primary mode, and one audit event for each positive verdict, in a fixed order."""
    persistent = decide_persistent_kernel(inputs.persistent, thresholds.persistent)
    reuse = decide_command_reuse(inputs.graph, thresholds.graph)
    table = decide_bindless(inputs.bindless, thresholds.bindless)
    speculate = decide_trace_jit_speculation(inputs.trace_jit, thresholds.trace_jit)
    overlap = _copy_overlap(inputs)
    events: list[AuditEvent] = []
    if isinstance(persistent, PersistentKernel):
        events.append(AuditEvent("persistent_kernel", "queue_batch", persistent.savings_ns, "launch_overhead"))
    if isinstance(reuse, RecordAndReplay):
        events.append(AuditEvent("command_reuse", "record_and_replay", reuse.savings_ns, "repeat_shape"))
    if isinstance(table, Bindless):
        events.append(AuditEvent("bindless", "descriptor_array", 0, "resource_count_threshold"))
    if isinstance(speculate, Speculate):
        events.append(AuditEvent("trace_jit", "speculate", speculate.expected_savings_ns, "predicted_shape"))
    return DispatchDecisions(
        persistent,
        can_dispatch_concurrently(inputs.arm_a, inputs.arm_b),
        overlap,
        reuse,
        table,
        speculate,
        select_primary_execution_mode(persistent, reuse),
        tuple(events),
    )


def _copy_overlap(inputs: DispatchPolicyInputs) -> CopyOverlapVerdict | None:
    if inputs.copy_dst_slot is None:
        return None
    first = judge_copy(inputs.copy_dst_slot, inputs.arm_a, inputs.copy_bytes)
    if isinstance(first, Serialize) or not inputs.copy_beside_both_arms:
        return first
    return judge_copy(inputs.copy_dst_slot, inputs.arm_b, inputs.copy_bytes)
