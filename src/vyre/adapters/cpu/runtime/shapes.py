"""A pipeline at certain input lengths: its launch, the variant of its code, and how it is spread over threads."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from vyre.adapters.cpu.decisions.private_atomics import AtomicBuffer, PrivateInputs, private_atomics
from vyre.adapters.cpu.decisions.thread_plan import ThreadInputs, thread_plan
from vyre.adapters.cpu.pool.commands import Private, PrivateTable
from vyre.adapters.cpu.runtime.kernels import KernelModule
from vyre.adapters.cpu.runtime.launch import FRAME_HEAD, Placement
from vyre.adapters.kernel_plan import KernelPlan, kernel_runs
from vyre.domain.analysis.atomic_uses import atomic_uses
from vyre.domain.binding import BindingPlan
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch
from vyre.domain.record import U32_MAX, U64_MAX
from vyre.policies.journal import DecisionSink, decide

HANDOFF_NS: Final = 6_000
"""The assumed time from handing work to a sleeping thread until it runs, where it was not measured."""
SHORT_STEPS: Final = 1 << 24
"""The expressions, times the lanes that evaluate them, below which a launch runs on the calling thread.

They take some ten milliseconds at most, for which an interrupt may wait.
"""
SHORT_LAUNCHES: Final = 1 << 14
"""The launches of a run up to which it is short: they take a few milliseconds besides their work."""
BOUNDED_STEPS: Final = 1 << 30
"""The expressions, times lanes, up to which measured times may say that a run takes little time."""
SHORT_NS: Final = 4_000_000
"""The time that such a run is expected to take at most, in nanoseconds."""
REACHED_S: Final = 0.1
"""A timeout below this many seconds may pass before the end of a run that is proved to take little time."""


class Estimate:
    """The measured time of a launch.  ``due`` is the run after which it is used next: the 1st, 2nd, 4th and so on.

    ``group_ns`` is then the middle one of the processor times of a workgroup in the last three runs, without the first
    run, which is slow; one run that the machine interrupts would otherwise plan as many later ones as there were.
    ``least_ns`` is the least such time in any run; a busy machine makes most of them longer.
    """

    __slots__ = ("_last", "_last_but_one", "due", "group_ns", "least_ns", "runs")

    def __init__(self) -> None:
        self.group_ns: int | None = None
        self.least_ns: float | None = None
        self.runs: int = 0
        self.due: int = 1
        self._last = self._last_but_one = 0.0

    def took(self, processor_ns: int, groups: int) -> bool:
        """Records a run; returns whether launches should be planned anew."""
        self.runs += 1
        each = processor_ns / max(1, groups)
        if self.least_ns is None or each < self.least_ns:
            self.least_ns = each
        earlier, self._last_but_one, self._last = self._last_but_one, self._last, each
        if self.runs < self.due:
            return False
        self.due = 2 * self.runs
        middle = each if self.runs < 4 else sorted((earlier, self._last_but_one, each))[1]
        median, before = int(middle), self.group_ns
        self.group_ns = median
        return before is None or not before // 2 <= median <= 2 * before


def steps_at_most(module: KernelModule, launch: Launch, iterations: int, plan: KernelPlan | None = None) -> int | None:
    """Returns a bound of the expressions, times the lanes that evaluate them, of a launch; None where none is proved.

    It is proved where all loops end after a known number of rounds.  ``plan``: that of grid loops, if there are some.
    """
    runs = kernel_runs(plan, len(module.loaded.kernels))
    if runs is None:
        return None
    rounds = runs.single
    for number, times in runs.whole.items():
        bounded = module.loaded.kernels[number].bounded
        if bounded is None:
            return None
        rounds += max(1, bounded) * times
    groups, lanes = prod(launch.grid), prod(launch.workgroup)
    vectors = -(-lanes // module.loaded.lanes) * module.loaded.lanes
    return module.nodes * rounds * groups * vectors * iterations


def is_short(steps: int | None) -> bool:
    """Returns whether launches of so many steps (see ``steps_at_most``) are proved to take little time."""
    return steps is not None and steps <= SHORT_STEPS


def runs_here(steps: int | None, launches: int, timeout_s: float | None, expected_ns: Callable[[], float]) -> bool:
    """Returns whether a run takes so little time that the calling thread may run it, which nothing can interrupt.

    ``steps`` bounds its work (see ``steps_at_most``), ``launches`` counts its kernels, and ``expected_ns`` returns its
    time as earlier runs tell it.  It is asked only for what is not proved, and what is not proved may reach a timeout.
    """
    if steps is None or launches > SHORT_LAUNCHES:
        return False
    if is_short(steps):
        return timeout_s is None or timeout_s >= REACHED_S
    return timeout_s is None and steps <= BOUNDED_STEPS and expected_ns() <= SHORT_NS


def place(
    module: KernelModule,
    launch: Launch,
    *,
    threads: int,
    group_ns: int | None,
    order_sensitive: bool,
    sink: DecisionSink | None,
    handoff_ns: int | None = None,
    plan: KernelPlan | None = None,
) -> Placement:
    """Returns how each kernel of a launch of ``module`` is spread over at most ``threads`` threads, without private
    buffers.

    ``group_ns`` is the measured time of a workgroup in a kernel, and ``handoff_ns`` that of handing work to a thread;
    None if there is none.  ``plan``: that of grid loops, if there are some.
    """
    groups, lanes = prod(launch.grid), prod(launch.workgroup)
    rounds, known = 1, True
    kernels = module.loaded.kernels
    runs = kernel_runs(plan, len(kernels))
    whole = kernels if runs is None else [kernels[number] for number in runs.whole]
    for kernel in whole:
        if kernel.bounded is None:
            known = False
        elif kernel.bounded > rounds:
            rounds = kernel.bounded
    parts = 1 if plan is None else max(1, len(whole))
    inputs = ThreadInputs(
        groups=groups,
        group_ns=group_ns,
        handoff_ns=HANDOFF_NS if handoff_ns is None else handoff_ns,
        threads=threads,
        group_nodes=-(-module.nodes // parts) * -(-lanes // module.loaded.lanes),
        rounds=min(rounds, U32_MAX) if known else None,
        order_sensitive=order_sensitive,
    )
    decision = decide(sink, thread_plan, inputs)
    return Placement(decision.threads, decision.grain)


def private_buffers(
    program: Program,
    plan: BindingPlan,
    launch: Launch,
    threads: int,
    *,
    order_sensitive: bool,
    sink: DecisionSink | None,
    hidden: bool = False,
) -> PrivateTable | None:
    """Returns the table of the buffers of which each thread gets a copy; None if threads share them all.

    ``hidden``: frames have a hidden buffer behind those of the plan.
    """
    uses = atomic_uses(program)
    if not uses and sink is None:
        return None  # as it would be decided
    nbytes = {b.buffer.name: n for b, n in zip(plan.bindings, launch.nbytes, strict=True)}
    buffers = tuple(AtomicBuffer(use=use, nbytes=nbytes[use.buffer]) for use in uses)
    lanes = min(prod(launch.grid) * prod(launch.workgroup), U64_MAX)
    inputs = PrivateInputs(buffers=buffers, threads=threads, lanes=lanes, order_sensitive=order_sensitive)
    if not decide(sink, private_atomics, inputs).buffers:
        return None
    slots = {binding.buffer.name: slot for slot, binding in enumerate(plan.bindings)}
    entries = [
        Private(slots[use.buffer], nbytes[use.buffer], use.element.text, next(iter(use.ops)).name.lower())
        for use in uses
    ]
    return PrivateTable(FRAME_HEAD + 2 * (len(plan.bindings) + hidden), entries)
