"""The rules about single modes, asked about the prices of a plan: costs net of the time that kernels hide."""

from __future__ import annotations

from vyre.policies.launching.command_reuse import (
    CommandReuseInputs,
    CommandReuseThresholds,
    CommandReuseVerdict,
    decide_command_reuse,
)
from vyre.policies.launching.execution_prices import Price
from vyre.policies.launching.persistent_kernel import (
    PersistentKernelInputs,
    PersistentKernelThresholds,
    PersistentKernelVerdict,
    decide_persistent_kernel,
)
from vyre.policies.record import U64_MAX


def resident_rule(plain: Price, resident: Price, kernel_ns: int) -> PersistentKernelVerdict:
    """Judges one batch, with the cost of a launch net of the cost of an item of the resident kernel.

    A price shows that a single launch does not pay for a setup, so the minimum is 1.
    """
    net = max(0, plain.step_ns - resident.step_ns)
    setup = resident.start_ns - plain.start_ns
    inputs = PersistentKernelInputs(plain.steps, _field(net), kernel_ns, _field(setup))
    return decide_persistent_kernel(inputs, PersistentKernelThresholds(min_batch=1))


def replay_rule(plain: Price, replayed: Price, repeats: int, kernel_ns: int) -> CommandReuseVerdict:
    """Judges all repeats, with costs net of the kernels, which take as long either way.

    Where launches were timed with their kernels, a batch may have taken less time than its kernels in lists: then no
    more than that is taken off both.
    """
    hidden = min(plain.steps * kernel_ns, plain.batch_ns, replayed.batch_ns)
    launch, replay = plain.batch_ns - hidden, replayed.batch_ns - hidden
    inputs = CommandReuseInputs(repeats, _field(launch), _field(replayed.once_ns), _field(replay))
    return decide_command_reuse(inputs, CommandReuseThresholds(min_repeats=1))


def _field(ns: int) -> int:
    """Returns ``ns`` as a field of 64 bits holds it."""
    return min(ns, U64_MAX)
