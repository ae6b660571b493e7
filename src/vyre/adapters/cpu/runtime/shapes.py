"""A pipeline at certain input lengths: its launch, the variant of its code, and how it is spread over threads."""

from __future__ import annotations

from math import prod
from typing import Final

from vyre.adapters.cpu.decisions.private_atomics import AtomicBuffer, PrivateInputs, private_atomics
from vyre.adapters.cpu.decisions.thread_plan import ThreadInputs, thread_plan
from vyre.adapters.cpu.pool.commands import Private, PrivateTable
from vyre.adapters.cpu.runtime.kernels import KernelModule
from vyre.adapters.cpu.runtime.launch import FRAME_HEAD, Placement
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


class Estimate:
    """The measured time of a launch.  ``due`` is the run whose time is used next: the 1st, 2nd, 4th and so on.

    ``least_ns`` is the least processor time of a workgroup in any run; a busy machine makes most of them longer.
    """

    __slots__ = ("due", "group_ns", "least_ns", "runs")

    def __init__(self) -> None:
        self.group_ns: int | None = None
        self.least_ns: float | None = None
        self.runs: int = 0
        self.due: int = 1

    def took(self, processor_ns: int, groups: int) -> bool:
        """Records a run; returns whether launches should be planned anew."""
        self.runs += 1
        each = processor_ns / max(1, groups)
        if self.least_ns is None or each < self.least_ns:
            self.least_ns = each
        if self.runs < self.due:
            return False
        self.due = 2 * self.runs
        found, before = processor_ns // max(1, groups), self.group_ns
        self.group_ns = found
        return before is None or not before // 2 <= found <= 2 * before


def steps_at_most(module: KernelModule, launch: Launch, iterations: int) -> int | None:
    """Returns a bound of the expressions, times the lanes that evaluate them, of a launch; None where none is proved.

    It is proved where all loops end after a known number of rounds.
    """
    rounds = 0
    for kernel in module.loaded.kernels:
        if kernel.bounded is None:
            return None
        rounds += max(1, kernel.bounded)
    groups, lanes = prod(launch.grid), prod(launch.workgroup)
    vectors = -(-lanes // module.loaded.lanes) * module.loaded.lanes
    return module.nodes * rounds * groups * vectors * iterations


def is_short(steps: int | None) -> bool:
    """Returns whether launches of so many steps (see ``steps_at_most``) are proved to take little time."""
    return steps is not None and steps <= SHORT_STEPS


def place(
    module: KernelModule,
    launch: Launch,
    *,
    threads: int,
    group_ns: int | None,
    order_sensitive: bool,
    sink: DecisionSink | None,
    handoff_ns: int | None = None,
) -> Placement:
    """Returns how a launch of ``module`` is spread over at most ``threads`` threads, without private buffers.

    ``group_ns`` is the measured time of a workgroup, and ``handoff_ns`` that of handing work to a thread; None if there
    is none.
    """
    groups, lanes = prod(launch.grid), prod(launch.workgroup)
    rounds = 0
    for kernel in module.loaded.kernels:
        rounds = rounds if kernel.bounded is None else max(rounds, kernel.bounded)
    known = all(kernel.bounded is not None for kernel in module.loaded.kernels)
    inputs = ThreadInputs(
        groups=groups,
        group_ns=group_ns,
        handoff_ns=HANDOFF_NS if handoff_ns is None else handoff_ns,
        threads=threads,
        group_nodes=module.nodes * -(-lanes // module.loaded.lanes),
        rounds=min(max(1, rounds), U32_MAX) if known else None,
        order_sensitive=order_sensitive,
    )
    found = decide(sink, thread_plan, inputs)
    return Placement(found.threads, found.grain)


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
