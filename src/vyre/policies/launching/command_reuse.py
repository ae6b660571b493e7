"""Is a command sequence recorded once and replayed, or launched plainly each time?

Units: nanoseconds.  Rule: ``S = repeat * (per_launch - replay) - record``; replay when S > 0.  O(1).

vyre-driver has the same rule with a launch cost that is serial, as in ``persistent_kernel``; pass costs net of the time
that asynchronous execution hides.  It also charges for recording even when a recording exists; pass 0 then.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.policies.record import U32, Nanoseconds, Reason, record, verdict, why_field


@record
class CommandReuseInputs:
    """``repeat_count`` runs of one sequence; costs in ns of launching, recording and replaying it once."""

    repeat_count: U32
    per_launch_overhead_ns: Nanoseconds
    record_overhead_ns: Nanoseconds
    replay_overhead_ns: Nanoseconds


@record
class CommandReuseThresholds:
    """``min_repeats``: fewer runs than this are launched plainly, whatever the costs."""

    min_repeats: U32 = 2


@verdict
class PlainLaunches:
    """Each run is launched plainly."""

    why: Reason = why_field()


@verdict
class RecordAndReplay:
    """The sequence is recorded and replayed; ``savings_ns`` is positive and may exceed 64 bits."""

    savings_ns: int
    why: Reason = why_field()


CommandReuseVerdict: TypeAlias = PlainLaunches | RecordAndReplay
DEFAULT_THRESHOLDS = CommandReuseThresholds()


def decide_command_reuse(
    inputs: CommandReuseInputs, thresholds: CommandReuseThresholds = DEFAULT_THRESHOLDS
) -> CommandReuseVerdict:
    """Returns ``RecordAndReplay`` iff replaying is cheaper in total, recording included; a tie launches plainly."""
    repeats, launch, replay = inputs.repeat_count, inputs.per_launch_overhead_ns, inputs.replay_overhead_ns
    if repeats < thresholds.min_repeats:
        return PlainLaunches(Reason("{} run(s) are below the minimum of {}", (repeats, thresholds.min_repeats)))
    if launch <= replay:
        return PlainLaunches(Reason("a launch of {} ns is no dearer than a replay of {} ns", (launch, replay)))
    savings = repeats * (launch - replay) - inputs.record_overhead_ns
    if savings > 0:
        return RecordAndReplay(
            savings,
            Reason("{} replays save {} ns after recording for {} ns", (repeats, savings, inputs.record_overhead_ns)),
        )
    return PlainLaunches(
        Reason(
            "{} replays save {} ns, no more than recording costs ({} ns)",
            (repeats, savings + inputs.record_overhead_ns, inputs.record_overhead_ns),
        )
    )
