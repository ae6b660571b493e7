"""Which buffers get a copy for each thread, so that their atomics need no lock?

A copy starts with the neutral element of the operator, its thread changes it by plain operations, and all copies are
merged into the buffer afterwards.  That gives the same bytes only where no result of an atomic is used, nothing else
accesses the elements, and one operator, whose operands may be taken in any order, is used on all of them.

Units: ns, bytes.  Rule: a copy pays if the locked operations that it saves take longer than preparing and merging it,
and if all copies of a thread fit its share of the cache; small buffers first.  The code of a kernel locks all of its
atomics or none, so copies are made only if they pay for every buffer with atomics.  O(n log n).
"""

from __future__ import annotations

from typing import Final

from vyre.domain.analysis.atomic_uses import AtomicUse
from vyre.domain.ir.operators import ATOMIC_TEXT, MERGEABLE
from vyre.policies.record import U32, U64, Nanoseconds, Reason, record, verdict, why_field


@record
class AtomicBuffer:
    """A buffer of a launch, which shares memory with no other: its atomics, and its length in bytes."""

    use: AtomicUse
    nbytes: U64


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
    """Returns the buffers that get a copy for each thread: all with atomics, or none, and why."""
    if inputs.order_sensitive:
        return PrivateAtomics((), why=Reason("the program depends on the order of atomics, and one thread runs it"))
    if inputs.threads < 2:
        return PrivateAtomics((), why=Reason("one thread runs it, and needs no lock"))
    shared: dict[int, Reason] = {}
    left = thresholds.bytes_per_thread
    for place, buffer in sorted(enumerate(inputs.buffers), key=lambda item: (item[1].nbytes, item[0])):
        why = _refusal(buffer, inputs, thresholds)
        if why is None and buffer.nbytes > left:
            why = Reason("{} bytes exceed the {} left to a thread", (buffer.nbytes, left))
        if why is None:
            left -= buffer.nbytes
        else:
            shared[place] = why
    names = [buffer.use.buffer for buffer in inputs.buffers]
    if not names:
        return PrivateAtomics((), why=Reason("it has no atomics on buffers"))
    if shared:
        first = min(shared, key=names.__getitem__)
        name, refused = names[first], shared[first]
        also = Reason("the atomics on `{}` need a lock, and code locks all or none", (name,))
        kept = tuple(SharedAtomics(each, shared.get(place, also)) for place, each in enumerate(names))
        return PrivateAtomics((), 0, kept, Reason("`{}`: {}", (name, refused)))
    nbytes = thresholds.bytes_per_thread - left
    figures = (nbytes, inputs.threads)
    why = Reason("copies of {} bytes for each of {} threads save more than they cost", figures)
    return PrivateAtomics(tuple(names), nbytes, (), why)


def _refusal(buffer: AtomicBuffer, inputs: PrivateInputs, thresholds: PrivateThresholds) -> Reason | None:
    use = buffer.use
    others = use.ops - MERGEABLE
    if use.results_used:
        return Reason("the old value that an atomic returns is used")
    if use.plain:
        return Reason("its elements are accessed otherwise than by atomics")
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
