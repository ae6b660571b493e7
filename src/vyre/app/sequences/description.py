"""The description of work that is planned and run: steps bound to memory, their accesses and their order.

The one description serves every mode: launches one by one, a list of launches, joined programs, and what is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from vyre.app.lease import BackendLease
from vyre.app.resident_dispatch import BoundWork
from vyre.app.sequences.host_steps import HostCall, host_work, name_of
from vyre.app.sequences.steps import HostStep, Listed, ListedPart, Step
from vyre.app.sequences.temporary import TemporaryBuffer
from vyre.domain.arguments import expect, items_of
from vyre.domain.binding import plan_bindings
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import InvalidInput, VyreError
from vyre.domain.frozen import frozen
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.record import U64_MAX
from vyre.policies.concurrency.hazards import Access, AccessMode, HazardGraph, HazardInputs, hazard_graph
from vyre.policies.journal import DecisionSink, decide
from vyre.ports.requests import ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer

WRITTEN: Final = 4096
"""The most launches of the steps that run once."""


@frozen
class WorkStep:
    """A launch: its ``place`` in the list of the caller, its memory and sizes, and its accesses to resident memory.

    ``number`` counts all steps of the graph in the order in which they are run.
    """

    number: int
    place: str
    work: BoundWork
    accesses: tuple[Access, ...]

    @property
    def step(self) -> ResidentStep:
        """Returns the launch as a backend takes it, with handles of temporary arrays."""
        return self.work.step

    @property
    def name(self) -> str:
        """Returns the name of the program, or of the host step."""
        return name_of(self.step)

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all memory that the launch binds: what it reads and writes, at most."""
        return sum(self.work.launch.nbytes)

    @property
    def kernels(self) -> int:
        """Returns the number of launches that the config asks for; 0 for a host step."""
        return 0 if isinstance(self.step, HostCall) else self.step.config.launches


@frozen
class WorkPart:
    """Steps that run ``times`` times in each round, in this order; ``order`` is what their memory requires.

    ``stated`` holds, for each step, the places in this part of those that the caller wants before it.
    """

    steps: tuple[WorkStep, ...]
    times: int
    order: HazardGraph
    stated: tuple[tuple[int, ...], ...]


class TemporaryUse(NamedTuple):
    """A temporary array of the graph: the steps that use it, and whether no content is older than a round.

    ``fresh``: the first step that uses it in a run replaces all that others read, and all of them are in one part.
    """

    buffer: TemporaryBuffer
    steps: tuple[int, ...]
    fresh: bool


@frozen
class Work:
    """A sequence: ``first`` runs once, then each round runs ``parts``; ``temporaries`` are by identity.

    The first ``cleared`` steps fill temporary arrays with zeros.
    """

    first: WorkPart
    parts: tuple[WorkPart, ...]
    temporaries: dict[int, TemporaryUse] = field(default_factory=dict)
    cleared: int = 0

    @property
    def steps(self) -> Iterator[WorkStep]:
        """Yields all steps in order."""
        yield from self.first.steps
        for part in self.parts:
            yield from part.steps

    @property
    def has_host_steps(self) -> bool:
        """Returns whether some step is a function of the host."""
        return any(isinstance(step.step, HostCall) for step in self.steps)


def describe(
    lease: BackendLease,
    bind: Callable[[Step], BoundWork],
    first: Sequence[ListedPart],
    parts: Sequence[ListedPart],
    sink: DecisionSink | None = None,
) -> Work:
    """Returns the description of steps in parts; ``bind`` binds the memory of a step.

    Raises what ``bind`` raises, with the place of the step as a note, and ``InvalidInput`` for stated dependencies that
    cannot be kept.
    """
    written = sum(part.times * len(part.steps) for part in first)
    if written > WRITTEN:
        raise InvalidInput(
            f"first has {written} launches, which are written out, and the most are {WRITTEN}",
            fix="run a long loop as a sequence of its own before this one.",
        )
    known: list[Step | HostStep] = []
    told: list[tuple[ListedPart, list[BoundWork], list[tuple[int, ...]]]] = []
    for part in (*first, *parts):
        listed, stated = _ordered(part.steps, known)
        known.extend(one.step for one in listed)
        told.append((ListedPart(listed, part.times), [bound_step(lease, one, bind) for one in listed], stated))
    once_told = [one for one in told[: len(first)] if one[0].times]
    told = [one for one in told[len(first) :] if one[0].times]
    cleared = _to_clear([work for _, works, _ in (*once_told, *told) for work in works])
    numbers: dict[int, int] = {}
    places = count()
    clearing = [zeroing(lease, buffer) for buffer in cleared]
    once, works_once = [listed for listed, _ in clearing], [work for _, work in clearing]
    stated_once: list[tuple[int, ...]] = [()] * len(once)
    for part, works, stated in once_told:
        for _ in range(part.times):
            shift = len(once)
            once.extend(part.steps)
            works_once.extend(works)
            stated_once.extend(tuple(place + shift for place in before) for before in stated)
    described = [_part(ListedPart(tuple(once)), works_once, stated_once, numbers, places, sink)]
    described += [_part(part, works, stated, numbers, places, sink) for part, works, stated in told]
    return Work(described[0], tuple(described[1:]), _temporaries(described), len(clearing))


def bound_step(lease: BackendLease, listed: Listed, bind: Callable[[Step], BoundWork]) -> BoundWork:
    """Returns a step with its memory bound.  Raises what ``bind`` raises, with the place of the step as a note."""
    place, step = listed
    try:
        return host_work(lease, place, step) if isinstance(step, HostStep) else bind(step)
    except VyreError as error:
        error.add_note(listed.place)
        raise


def _part(
    part: ListedPart,
    works: Sequence[BoundWork],
    stated: Sequence[tuple[int, ...]],
    numbers: dict[int, int],
    places: Iterator[int],
    sink: DecisionSink | None,
) -> WorkPart:
    steps = [
        WorkStep(next(places), listed.place, work, accesses_of(work.step, work.launch.nbytes, numbers))
        for listed, work in zip(part.steps, works, strict=True)
    ]
    order = decide(sink, hazard_graph, HazardInputs(tuple(step.accesses for step in steps)))
    return WorkPart(tuple(steps), part.times, order, tuple(stated))


def accesses_of(step: ResidentStep, sizes: Sequence[int], numbers: dict[int, int]) -> tuple[Access, ...]:
    """Returns the accesses of a step that sees so many bytes of its memory, as ranges of bytes of whole allocations:
    its memory may be a part of one.  ``numbers`` numbers the allocations by identity.

    A launch overwrites all of an output that takes no input, because it zeroes it first.
    """
    accesses: dict[tuple[int, int], Access] = {}
    for binding, resource, nbytes in zip(plan_bindings(step.program).bindings, step.resources, sizes, strict=True):
        if not isinstance(resource, ResidentBuffer) or not nbytes:
            continue
        mode = AccessMode.READ
        if binding.buffer.is_writable:
            mode = AccessMode.WRITE if binding.input_index is None else AccessMode.READ_WRITE
        number, start = numbers.setdefault(id(resource.root), len(numbers)), resource.offset
        stop = min(start + nbytes, U64_MAX)
        earlier = accesses.get((number, start))
        if earlier is None or earlier.intervals[0][1] < stop:  # bound twice: both only read
            accesses[number, start] = Access(number, mode, ((start, stop),))
    return tuple(accesses.values())


def _ordered(
    listed: Sequence[Listed], before: Sequence[Step | HostStep]
) -> tuple[tuple[Listed, ...], list[tuple[int, ...]]]:
    """Returns the steps of a part in an order that keeps the stated dependencies, and these by place.

    The order is that of the list where nothing else is stated.
    """
    places = {id(one.step): place for place, one in enumerate(listed)}
    earlier = {id(step) for step in before}
    wanted: list[tuple[int, ...]] = []
    for one in listed:
        behind = []
        for step in items_of(f"{one.place}.after", one.step.after):
            expect(f"{one.place}.after", step, (Step, HostStep), "steps of the same sequence", InvalidInput)
            if id(step) in places:
                behind.append(places[id(step)])
            elif id(step) not in earlier:
                raise InvalidInput(
                    f"{one.place} is to run after a step that is not listed before it or beside it",
                    fix="list that step in the same sequence, in this repeated part or an earlier one.",
                )
        wanted.append(tuple(behind))
    if not any(wanted):
        return tuple(listed), wanted
    waiting = [len(set(behind)) for behind in wanted]
    followers: dict[int, list[int]] = {}
    for place, before_it in enumerate(wanted):
        for one_before in set(before_it):
            followers.setdefault(one_before, []).append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        place = heappop(ready)
        order.append(place)
        for follower in followers.get(place, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, follower)
    if len(order) != len(listed):
        stuck = next(one.place for place, one in enumerate(listed) if waiting[place])
        raise InvalidInput(f"{stuck} is to run after itself", fix="state dependencies without a circle.")
    new = {place: number for number, place in enumerate(order)}
    return tuple(listed[place] for place in order), [tuple(new[number] for number in wanted[place]) for place in order]


# ---------------------------------------------------------------- temporary arrays
def _uses(work: BoundWork) -> Iterator[tuple[TemporaryBuffer, int, bool]]:
    """Yields the temporary arrays of a step with the bytes that it accesses, and whether it overwrites them."""
    bindings = plan_bindings(work.step.program).bindings
    for binding, resource, nbytes in zip(bindings, work.step.resources, work.launch.nbytes, strict=True):
        if isinstance(resource, TemporaryBuffer):
            yield resource, nbytes, binding.buffer.is_writable and binding.input_index is None


def _to_clear(works: Iterable[BoundWork]) -> list[TemporaryBuffer]:
    """Returns the temporary arrays of which a step may see bytes that no step of the run has written: those that the
    first step does not overwrite as far as any step uses them.
    """
    buffers: dict[int, TemporaryBuffer] = {}
    covered: dict[int, int] = {}
    needed: dict[int, int] = {}
    for buffer, nbytes, overwrites in (use for work in works for use in _uses(work)):
        key = id(buffer)
        buffers[key] = buffer
        covered.setdefault(key, nbytes if overwrites else 0)
        needed[key] = max(nbytes, needed.get(key, 0))
    return [buffer for key, buffer in buffers.items() if covered[key] < needed[key]]


def _temporaries(parts: Sequence[WorkPart]) -> dict[int, TemporaryUse]:
    """Returns the temporary arrays of all parts, which clear those that their first step does not overwrite."""
    uses: dict[int, tuple[TemporaryBuffer, dict[int, None], set[int]]] = {}
    for number, part in enumerate(parts):
        for step in part.steps:
            for buffer, _, _ in _uses(step.work):
                _, steps, places = uses.setdefault(id(buffer), (buffer, {}, set()))
                steps[step.number] = None
                places.add(number)
    return {key: TemporaryUse(buffer, tuple(steps), len(places) == 1) for key, (buffer, steps, places) in uses.items()}


_ZEROS: Final = "zeros"


@cache
def _zeros(kind: ScalarType) -> Program:
    """Returns the program whose output is zero, because a launch zeroes its outputs and this one writes nothing."""
    from vyre.domain.ir.builder import ProgramBuilder

    with ProgramBuilder(_ZEROS, workgroup=1) as p:
        p.output(_ZEROS, kind)
    return p.build()


def zeroing(lease: BackendLease, buffer: ResidentBuffer) -> tuple[Listed, BoundWork]:
    """Returns the step that fills memory with zeros."""
    kind = ScalarType.U8 if (buffer.nbytes | buffer.offset) % ScalarType.U64.size else ScalarType.U64
    program = _zeros(kind)
    config = DispatchConfig(grid=1, output_counts={_ZEROS: buffer.nbytes // kind.size})
    launch = resolve_launch(program, (), config, LaunchLimits(str(lease.backend.id)))
    listed = Listed(f"zeros of {buffer.label or 'an array'}", Step(program))
    return listed, BoundWork(ResidentStep(program, (buffer,), config), launch, config)
