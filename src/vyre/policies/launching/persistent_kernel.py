"""Does one resident kernel poll a queue, or is there one launch per item?

Units: nanoseconds.  Rule: with N items, keeping a kernel resident saves ``N * per_launch - setup``; it is chosen when
that is positive.  O(1).

vyre-driver has the same rule, which prices launches as if they were serial.  Launches are asynchronous, so a launch is
hidden behind any kernel that runs longer than it.  With ``per_launch_overhead_ns`` net of that (``max(0, launch -
kernel)``) the same rule is right.  ``per_item_kernel_ns`` cancels in the comparison; it is in the record because
callers need it to compute the net cost.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.policies.record import U32, Nanoseconds, Reason, record, verdict, why_field


@record
class PersistentKernelInputs:
    """``batch_size`` items; costs in ns of one launch, one item's kernel, and setting up the resident kernel."""

    batch_size: U32
    per_launch_overhead_ns: Nanoseconds
    per_item_kernel_ns: Nanoseconds
    persistent_setup_overhead_ns: Nanoseconds


@record
class PersistentKernelThresholds:
    """``min_batch``: batches below it are launched plainly, whatever the costs."""

    min_batch: U32 = 2


@verdict
class StandardLaunches:
    """Each item is launched plainly."""

    why: Reason = why_field()


@verdict
class PersistentKernel:
    """A resident kernel runs the items; ``savings_ns`` is the predicted gain over plain launches, which is positive."""

    savings_ns: int
    why: Reason = why_field()


PersistentKernelVerdict: TypeAlias = StandardLaunches | PersistentKernel
DEFAULT_THRESHOLDS = PersistentKernelThresholds()


def decide_persistent_kernel(
    inputs: PersistentKernelInputs, thresholds: PersistentKernelThresholds = DEFAULT_THRESHOLDS
) -> PersistentKernelVerdict:
    """Returns ``PersistentKernel`` iff the batch is large enough and ``N * launch > setup``; a tie launches plainly."""
    batch, launch = inputs.batch_size, inputs.per_launch_overhead_ns
    if batch < thresholds.min_batch:
        return StandardLaunches(Reason("a batch of {} is below the minimum of {}", (batch, thresholds.min_batch)))
    setup = inputs.persistent_setup_overhead_ns
    savings = batch * launch - setup
    if savings > 0:
        return PersistentKernel(
            savings,
            Reason("{} launches of {} ns cost {} ns more than a setup of {} ns", (batch, launch, savings, setup)),
        )
    return StandardLaunches(Reason("{} launches of {} ns cost no more than a setup of {} ns", (batch, launch, setup)))
