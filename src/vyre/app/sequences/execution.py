"""The executors of a sequence: launches one by one, and lists of launches that are submitted together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from sys import maxsize
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from vyre.app.resident_dispatch import repeated_step
from vyre.domain.dispatch import DispatchTiming
from vyre.ports.execution import BoundResidentStep
from vyre.ports.requests import ResidentSequence, ResidentStep
from vyre.ports.resident_buffer import ResidentBuffer

if TYPE_CHECKING:
    from vyre.ports.backend import Backend
    from vyre.ports.persistent import KeptSteps, PersistentSteps

Waves: TypeAlias = tuple[tuple[int, ...], ...]
"""Launches of a part by position, wave after wave."""
T = TypeVar("T")
UNROLLED: Final = 1024
"""The launches of a round that are written out; a round with more is submitted in pieces."""
MOST_SEQUENCES: Final = 64
"""The most sequences that are kept of one graph, each for other pieces or other numbers of rounds."""


class Launch(NamedTuple):
    """One launch as a backend takes it; ``kernels`` counts the iterations of its config, ``nbytes`` what it binds."""

    step: ResidentStep
    kernels: int
    nbytes: int


class LaunchPart(NamedTuple):
    """Launches that run ``times`` times together."""

    launches: tuple[Launch, ...]
    times: int = 1


class Counts(NamedTuple):
    """The kernels of launches, and the bytes that all of them bind."""

    kernels: int
    nbytes: int


class Launches:
    """``first`` runs once, then each round runs ``parts``; what these come to is counted once: ``once``, ``each``."""

    __slots__ = ("each", "first", "once", "parts")

    def __init__(self, first: tuple[Launch, ...], parts: tuple[LaunchPart, ...]) -> None:
        self.first: Final = first
        self.parts: Final = parts
        self.once: Final = _counts((launch, 1) for launch in first)
        self.each: Final = _counts((launch, part.times) for part in parts for launch in part.launches)

    def with_memory(self, memory: Mapping[int, ResidentBuffer]) -> Launches:
        """Returns the launches with memory in place of handles; ``memory`` is by the identity of the handles."""
        if not memory:
            return self

        def held(launch: Launch) -> Launch:
            resources = tuple(memory.get(id(resource), resource) for resource in launch.step.resources)
            return launch._replace(step=replace(launch.step, resources=resources))

        each_part = [part.launches for part in self.parts]
        launches: dict[int, Launch] = {id(launch): held(launch) for launch in chain(self.first, *each_part)}
        return Launches(
            tuple(launches[id(launch)] for launch in self.first),
            tuple(LaunchPart(tuple(launches[id(one)] for one in part.launches), part.times) for part in self.parts),
        )


def _counts(launches: Iterable[tuple[Launch, int]]) -> Counts:
    """Returns what launches that run so many times each come to."""
    each = [(times * launch.kernels, times * launch.kernels * launch.nbytes) for launch, times in launches]
    return Counts(sum(kernels for kernels, _ in each), sum(nbytes for _, nbytes in each))


class Ran(NamedTuple):
    """The times of a run, and the calls with which the host submitted it.

    ``host_ns``: the time of host steps in it, which is no part of ``timing``.
    """

    timing: DispatchTiming
    submissions: int
    host_ns: int = 0


class WorkExecutor(Protocol):
    """Runs launches with all their memory."""

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Runs ``first`` once, unless it is left out, and the parts ``rounds`` times, and waits."""
        ...

    def close(self) -> None:
        """Releases what was prepared; idempotent."""
        ...


class Parts(NamedTuple, Generic[T]):
    """The first part, which runs once, and the parts of a round, each with the number of its repetitions."""

    first: T
    round: Sequence[tuple[T, int]]

    def turns(self, rounds: int) -> Iterator[tuple[T, int]]:
        """Yields the parts of so many rounds in order, with how often each runs; one that is alone at once."""
        if len(self.round) == 1:
            part, times = self.round[0]
            yield part, rounds * times
        else:
            for _ in range(rounds):
                yield from self.round


def written_out(launches: Launches, prepare: Callable[[ResidentStep], T]) -> Parts[tuple[T, ...]]:
    """Returns what ``prepare`` makes of launches; a round that is not long, or repeats nothing, is one part."""
    parts = [(tuple(prepare(one.step) for one in part.launches), part.times) for part in launches.parts]
    is_flat = all(times == 1 for _, times in parts)
    if is_flat or sum(len(steps) * times for steps, times in parts) <= UNROLLED:
        parts = [(tuple(chain.from_iterable(steps * times for steps, times in parts)), 1)]
    return Parts(tuple(prepare(launch.step) for launch in launches.first), parts)


class AsLists:
    """Submits all launches of a run as one sequence, or in pieces where its loops are too long to write out.

    ``replayed`` is that of ``ResidentSequence``.
    """

    def __init__(self, backend: Backend, launches: Launches, replayed: bool | None = None) -> None:
        self._replayed = replayed
        self._executor = backend.require_resident_executor()
        self._parts = written_out(launches, lambda step: step)
        self._sequences: dict[tuple[bool, int, int], ResidentSequence] = {}

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Implements ``WorkExecutor.run``."""
        prefix, parts = self._parts
        prefix = prefix if first else ()
        if len(parts) == 1:
            steps, times = parts[0]
            sequence = self._sequences.get((bool(prefix), id(steps), times * rounds))  # without another call
            return Ran(self._executor.run(sequence or self._sequence(prefix, steps, times * rounds)), 1)
        pieces: list[Ran] = []
        for steps, times in self._parts.turns(rounds) if rounds else [((), 0)]:
            pieces.append(Ran(self._executor.run(self._sequence(prefix, steps, times)), 1))
            prefix = ()
        return total(pieces)

    def _sequence(
        self, prefix: tuple[ResidentStep, ...], steps: tuple[ResidentStep, ...], times: int
    ) -> ResidentSequence:
        """Returns the same object for the same run, for which a backend soon finds what it prepared."""
        key = bool(prefix), id(steps), times
        sequence = self._sequences.get(key)
        if sequence is None:
            if len(self._sequences) >= MOST_SEQUENCES:
                self._sequences = {}
            sequence = ResidentSequence(prefix=prefix, repeated=steps, repeat_count=times, replayed=self._replayed)
            self._sequences[key] = sequence
        return sequence

    def close(self) -> None:
        """Does nothing: a sequence owns nothing."""


class OneByOne:
    """Launches every step by itself and waits for it; one thread at a time may run it."""

    def __init__(self, backend: Backend, launches: Launches, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._bound: list[BoundResidentStep] = []
        self._backend = backend
        try:
            self._parts = written_out(launches, self._bind)
        except BaseException:
            self.close()
            raise

    def _bind(self, step: ResidentStep) -> Callable[[], object]:
        bound = repeated_step(self._backend, step)
        self._bound.append(bound)
        return bound

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Implements ``WorkExecutor.run``."""
        began = self._now_ns()
        submissions = 0
        for launches, times in chain([(self._parts.first, int(first))], self._parts.turns(rounds)):
            for launch in chain.from_iterable(repeat(launches, min(times, maxsize))):
                launch()
            submissions += len(launches) * times
        return Ran(DispatchTiming(self._now_ns() - began), submissions)

    def close(self) -> None:
        """Releases the bound launches."""
        bound, self._bound = self._bound, []
        for step in bound:
            step.close()


class ByWorkers:
    """Hands each part of a run to resident workers, as few submissions, and waits; one thread at a time may run it.

    ``waves`` are those of ``first`` and of the parts.
    """

    def __init__(self, workers: PersistentSteps, launches: Launches, waves: Sequence[Waves]) -> None:
        def steps_of(part: Sequence[Launch], wave_list: Waves) -> list[list[ResidentStep]]:
            return [[part[place].step for place in wave] for wave in wave_list]

        first = steps_of(launches.first, waves[0])
        listed = zip(launches.parts, waves[1:], strict=True)
        parts = [(steps_of(part.launches, wave_list), part.times) for part, wave_list in listed]
        if sum(len(part.launches) * part.times for part in launches.parts) <= min(UNROLLED, workers.most_steps):
            parts = [([wave for steps, times in parts for wave in steps * times], 1)]
        self._has_first = bool(first)
        self._parts = Parts(0, [(1 + number, times) for number, (_, times) in enumerate(parts)])
        self._kept: Final[KeptSteps] = workers.keep([first, *(steps for steps, _ in parts)])

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Implements ``WorkExecutor.run``."""
        once = [(0, 1)] if first and self._has_first else []
        return total([Ran(*self._kept.run(part, times)) for part, times in (*once, *self._parts.turns(rounds))])

    def close(self) -> None:
        """Releases the workers."""
        self._kept.close()


def total(pieces: Sequence[Ran]) -> Ran:
    """Returns the sums of the times of pieces that ran one after the other; what one of them lacks is unknown."""
    if len(pieces) == 1:
        return pieces[0]

    def sums(values: Sequence[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if known and len(known) == len(values) else None

    timings = [piece.timing for piece in pieces if piece.submissions or not piece.host_ns]
    timing = DispatchTiming(
        sum(one.wall_ns for one in timings),
        sums([one.device_ns for one in timings]),
        sums([one.enqueue_ns for one in timings]),
        sums([one.wait_ns for one in timings]),
        sums([one.launches for one in timings]),
    )
    return Ran(timing, sum(piece.submissions for piece in pieces), sum(piece.host_ns for piece in pieces))
