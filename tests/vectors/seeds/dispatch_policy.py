"""Which execution mode is primary, given the verdicts on a resident kernel and on replaying?

``plan_execution`` prices all modes for one workload, and returns this verdict beside its own.  O(1).

vyre-driver decides by this verdict alone, and compares two savings that come from different counts and baselines.
"""

from __future__ import annotations

from typing import TypeAlias

from vyre.policies.launching.command_reuse import (
    CommandReuseVerdict,
    RecordAndReplay,
)
from vyre.policies.launching.persistent_kernel import (
    PersistentKernel,
    PersistentKernelVerdict,
)
from vyre.policies.record import Reason, verdict, why_field


@verdict
class RunPlainLaunches:
    """Plain launches are the primary mode."""

    why: Reason = why_field()


@verdict
class RunCommandReuse:
    """Replaying is the primary mode; ``savings_ns`` is its gain over plain launches."""

    savings_ns: int
    why: Reason = why_field()


@verdict
class RunPersistentKernel:
    """A resident kernel is the primary mode; ``savings_ns`` is its gain over plain launches."""

    savings_ns: int
    why: Reason = why_field()


PrimaryMode: TypeAlias = RunPlainLaunches | RunCommandReuse | RunPersistentKernel


def select_primary_execution_mode(
    persistent: PersistentKernelVerdict, command_reuse: CommandReuseVerdict
) -> PrimaryMode:
    """Returns the mode with the larger savings; a tie replays, and plain launches are used if neither saves time."""
    keep = persistent.savings_ns if isinstance(persistent, PersistentKernel) else 0
    replay = command_reuse.savings_ns if isinstance(command_reuse, RecordAndReplay) else 0
    if keep > replay:
        return RunPersistentKernel(keep, Reason("a resident kernel saves {} ns, replaying {} ns", (keep, replay)))
    if isinstance(command_reuse, RecordAndReplay):
        return RunCommandReuse(replay, Reason("replaying saves {} ns, a resident kernel {} ns", (replay, keep)))
    return RunPlainLaunches(Reason("neither a resident kernel nor replaying saves time"))
