"""The launches that a sequence becomes: every step by itself, or with steps joined."""

from __future__ import annotations

from typing import NamedTuple

from vyre.app.sequences.description import Work, WorkPart, WorkStep
from vyre.app.sequences.execution import Launch, Launches, LaunchPart
from vyre.app.sequences.host_steps import HOST_STEP, HostCall
from vyre.app.sequences.temporary import TemporaryBuffer
from vyre.domain.analysis.moved_bytes import moved_nbytes
from vyre.domain.frozen import frozen
from vyre.domain.record import U64_MAX
from vyre.domain.traffic import Traffic
from vyre.ports.resident_buffer import ResidentBuffer


class Unit(NamedTuple):
    """A launch with the steps that it runs.

    ``why``: the reason why it is apart from the launch before, or its steps are joined.  ``sizes``: the bytes that it
    sees of each of its bindings.  ``unallocated``: the identities of temporary arrays that need no memory because of
    it.  ``runs``: how many launches it replaces, if some step runs several times in it.
    """

    launch: Launch
    places: tuple[str, ...]
    why: str
    sizes: tuple[int, ...]
    unallocated: frozenset[int] = frozenset()
    runs: int = 0

    @property
    def is_joined(self) -> bool:
        """Returns whether it stands for more than one launch."""
        return self.replaces > 1

    @property
    def replaces(self) -> int:
        """Returns the number of launches of steps that it stands for."""
        return self.runs or len(self.places)


@frozen(eq=False)
class Structure:
    """The launches of a graph in order: ``first``, and the parts of a round with how often each runs.

    ``needed``: the temporary arrays that some launch binds, by identity.  ``launches``: the launches alone, with
    handles in place of the memory of temporary arrays.
    """

    first: tuple[Unit, ...]
    parts: tuple[tuple[tuple[Unit, ...], int], ...]
    needed: dict[int, TemporaryBuffer]
    launches: Launches

    @property
    def units(self) -> tuple[Unit, ...]:
        """Returns all launches in order."""
        return (*self.first, *(unit for units, _ in self.parts for unit in units))

    @property
    def temporary_bytes(self) -> int:
        """Returns the memory of the temporary arrays that some launch binds."""
        return sum(buffer.nbytes for buffer in self.needed.values())

    @property
    def traffic(self) -> Traffic:
        """Returns the bytes that the launches of a round read and write, and those of the memory that they bind."""
        moved, memory = 0, dict[int, int]()
        for units, times in self.parts:
            for unit in units:
                step = unit.launch.step
                moved += times * unit.launch.kernels * moved_nbytes(step.program, unit.sizes)
                memory |= {
                    id(resource): size
                    for resource, size in zip(step.resources, unit.sizes, strict=True)
                    if isinstance(resource, ResidentBuffer)
                }
        return Traffic(min(moved, U64_MAX), sum(memory.values()))


def apart(work: Work) -> Structure:
    """Returns the structure in which every step is a launch."""
    return structure_of(
        tuple(map(alone, work.first.steps)), [(tuple(map(alone, part.steps)), part) for part in work.parts]
    )


def structure_of(first: tuple[Unit, ...], parts: list[tuple[tuple[Unit, ...], WorkPart]]) -> Structure:
    """Returns the structure of these launches."""
    launched = tuple((units, part.times) for units, part in parts)
    needed: dict[int, TemporaryBuffer] = {}
    for unit in (*first, *(unit for units, _ in launched for unit in units)):
        for resource in unit.launch.step.resources:
            if isinstance(resource, TemporaryBuffer):
                needed[id(resource)] = resource
    launches = Launches(
        tuple(unit.launch for unit in first),
        tuple(LaunchPart(tuple(unit.launch for unit in units), times) for units, times in launched),
    )
    return Structure(first, launched, needed, launches)


def alone(step: WorkStep, why: str = "a launch of its own") -> Unit:
    """Returns the launch of one step."""
    why = HOST_STEP if isinstance(step.step, HostCall) else why
    return Unit(Launch(step.step, step.kernels, step.nbytes), (step.place,), why, step.work.launch.nbytes)
