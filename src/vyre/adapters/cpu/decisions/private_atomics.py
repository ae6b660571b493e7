"""Which buffers get a copy for each thread, so that their atomics need no lock?

A copy starts with the neutral element of the operator, its thread changes it by plain operations, and all copies are
merged into the buffer afterwards.  That gives the same bytes only where no result of an atomic is used, nothing else
accesses the elements, and one operator, whose operands may be taken in any order, is used on all of them.

Units: ns, bytes.  Rule: a copy is made if the locked operations that it saves take longer than preparing and merging
it, and if all copies of a thread fit its share of the cache; small buffers first.  O(n log n).
"""

from __future__ import annotations

from typing import Final

from vyre.domain.analysis.atomic_uses import MERGEABLE, AtomicUse
from vyre.domain.ir.operators import ATOMIC_TEXT
from vyre.policies.record import U32, U64, Nanoseconds, Reason, record, verdict, why_field


@record
class AtomicBuffer:
    """A buffer of a launch: its atomics, and its length in bytes.

    ``aliased`` says that another binding of the launch shares memory with it.
    """

    use: AtomicUse
    nbytes: U64
    aliased: bool = False


@record
class PrivateInputs:
    """A launch: ``threads`` run it, ``lanes`` in all, each of which may reach the atomics on every buffer."""

    buffers: tuple[AtomicBuffer, ...]
    threads: U32
    lanes: U64
    order_sensitive: bool = False


@record
class PrivateThresholds:
    """The cost of a locked and of a plain operation, and of preparing and merging an element; the bytes of a thread."""

    locked_ns: Nanoseconds = 11
    plain_ns: Nanoseconds = 2
    element_ns: Nanoseconds = 1
    bytes_per_thread: U64 = 1 << 20


@verdict
class SharedAtomics:
    """A buffer that all threads change together, and why."""

    buffer: str
    why: Reason = why_field()


@verdict
class PrivateAtomics:
    """The buffers that get copies, in the order of ``PrivateInputs``, and the bytes of all copies of one thread."""

    buffers: tuple[str, ...]
    bytes_per_thread: int = 0
    shared: tuple[SharedAtomics, ...] = ()
    why: Reason = why_field()

    @property
    def label(self) -> str:
        """Whether there are copies, for telemetry."""
        return "copies" if self.buffers else "no copies"


DEFAULT_THRESHOLDS: Final = PrivateThresholds()


def private_atomics(inputs: PrivateInputs, thresholds: PrivateThresholds = DEFAULT_THRESHOLDS) -> PrivateAtomics:
    """Returns the buffers that get a copy for each thread, and why the others get none."""
    if inputs.order_sensitive:
        return PrivateAtomics((), why=Reason("the program depends on the order of atomics, and one thread runs it"))
    if inputs.threads < 2:
        return PrivateAtomics((), why=Reason("one thread runs it, and needs no lock"))
    chosen: dict[int, int] = {}
    shared: dict[int, Reason] = {}
    left = thresholds.bytes_per_thread
    for place, buffer in sorted(enumerate(inputs.buffers), key=lambda item: (item[1].nbytes, item[0])):
        why = _refusal(buffer, inputs, thresholds)
        if why is None and buffer.nbytes > left:
            why = Reason("{} bytes exceed the {} left to a thread", (buffer.nbytes, left))
        if why is None:
            chosen[place] = buffer.nbytes
            left -= buffer.nbytes
        else:
            shared[place] = why
    names = [buffer.use.buffer for buffer in inputs.buffers]
    return PrivateAtomics(
        tuple(names[place] for place in sorted(chosen)),
        sum(chosen.values()),
        tuple(SharedAtomics(names[place], shared[place]) for place in sorted(shared)),
        _why(chosen, {names[place]: why for place, why in shared.items()}, inputs.threads),
    )


def _why(chosen: dict[int, int], shared: dict[str, Reason], threads: int) -> Reason:
    if chosen:
        return Reason(
            "copies of {} bytes for each of {} threads save more than they cost", (sum(chosen.values()), threads)
        )
    if shared:
        name, why = min(shared.items())
        return Reason("`{}`: {}", (name, why))
    return Reason("it has no atomics on buffers")


def _refusal(buffer: AtomicBuffer, inputs: PrivateInputs, thresholds: PrivateThresholds) -> Reason | None:
    use = buffer.use
    others = use.ops - MERGEABLE
    if use.results_used:
        return Reason("the old value that an atomic returns is used")
    if use.plain:
        return Reason("its elements are accessed otherwise than by atomics")
    if buffer.aliased:
        return Reason("another binding shares its memory")
    if others:
        return Reason("the results of {} cannot be merged", (min(ATOMIC_TEXT[op] for op in others),))
    if len(use.ops) != 1:
        return Reason("it has {} different operators", (len(use.ops),))
    elements = -(-buffer.nbytes // use.element.size)
    if not elements:
        return Reason("it has no elements")
    operations = inputs.lanes * use.rounds
    saved = operations * max(thresholds.locked_ns - thresholds.plain_ns, 0)
    spent = elements * inputs.threads * thresholds.element_ns
    if saved <= spent:
        return Reason(
            "{} operations save {} ns, and copies of {} elements cost {} ns", (operations, saved, elements, spent)
        )
    return None
