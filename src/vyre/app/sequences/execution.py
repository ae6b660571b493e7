"""The executors of a sequence: launches one by one, and lists of launches that are submitted together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

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


class Launches:
    """``first`` runs once, then each round runs ``parts``; what a run of them sums up to is counted once."""

    __slots__ = ("_first", "_round", "first", "parts")

    def __init__(self, first: tuple[Launch, ...], parts: tuple[LaunchPart, ...]) -> None:
        self.first: Final = first
        self.parts: Final = parts
        self._first = _counts((launch, 1) for launch in first)
        self._round = _counts((launch, part.times) for part in parts for launch in part.launches)

    def kernels(self, rounds: int) -> int:
        """Returns the number of kernels of a run."""
        return self._first[0] + rounds * self._round[0]

    def nbytes(self, rounds: int) -> int:
        """Returns the bytes that all launches of a run bind."""
        return self._first[1] + rounds * self._round[1]

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


def _counts(launches: Iterable[tuple[Launch, int]]) -> tuple[int, int]:
    """Returns the kernels of launches that run so many times each, and the bytes that they bind."""
    kernels = nbytes = 0
    for launch, times in launches:
        kernels += times * launch.kernels
        nbytes += times * launch.kernels * launch.nbytes
    return kernels, nbytes


class Ran(NamedTuple):
    """The times of a run, and the calls with which the host submitted it."""

    timing: DispatchTiming
    submissions: int


class WorkExecutor(Protocol):
    """Runs launches with all their memory."""

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Runs ``first`` once, unless it is left out, and the parts ``rounds`` times, and waits."""
        ...

    def close(self) -> None:
        """Releases what was prepared; idempotent."""
        ...


class AsLists:
    """Submits all launches of a run as one sequence, or in pieces where its loops are too long to write out.

    ``replayed`` is that of ``ResidentSequence``.
    """

    def __init__(self, backend: Backend, launches: Launches, replayed: bool | None = None) -> None:
        self._replayed = replayed
        self._executor = backend.require_resident_executor()
        self._first = tuple(launch.step for launch in launches.first)
        self._parts = tuple((tuple(one.step for one in part.launches), part.times) for part in launches.parts)
        self._sequences: dict[tuple[bool, int, int], ResidentSequence] = {}
        if sum(len(steps) * times for steps, times in self._parts) <= UNROLLED or self._is_flat:
            self._body: tuple[ResidentStep, ...] | None = tuple(
                chain.from_iterable(steps * times for steps, times in self._parts)
            )
        else:
            self._body = None

    @property
    def _is_flat(self) -> bool:
        return all(times == 1 for _, times in self._parts)

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Implements ``WorkExecutor.run``."""
        prefix = self._first if first else ()
        if self._body is not None:
            sequence = self._sequences.get((bool(prefix), id(self._body), rounds))  # without another call
            return Ran(self._executor.run(sequence or self._sequence(prefix, self._body, rounds)), 1)
        if len(self._parts) == 1:
            steps, times = self._parts[0]
            return self._submitted(prefix, steps, times * rounds)
        pieces: list[Ran] = []
        for _ in range(rounds):
            for steps, times in self._parts:
                pieces.append(self._submitted(prefix, steps, times))
                prefix = ()
        if prefix:
            pieces.append(self._submitted(prefix, (), 0))
        return total(pieces)

    def _submitted(self, prefix: tuple[ResidentStep, ...], steps: tuple[ResidentStep, ...], times: int) -> Ran:
        return Ran(self._executor.run(self._sequence(prefix, steps, times)), 1)

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
            self._first = tuple(self._bind(launch.step) for launch in launches.first)
            self._parts = tuple(
                (tuple(self._bind(one.step) for one in part.launches), part.times) for part in launches.parts
            )
            self._each = sum(len(steps) * times for steps, times in self._parts)
            written = self._each <= UNROLLED
            self._body = tuple(chain.from_iterable(steps * times for steps, times in self._parts)) if written else None
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
        once = self._first if first else ()
        for launch in once:
            launch()
        for launches in (self._body,) if rounds == 1 and self._body is not None else self._rounds(rounds):
            for launch in launches:
                launch()
        ended = self._now_ns()
        return Ran(DispatchTiming(ended - began), len(once) + rounds * self._each)

    def _rounds(self, rounds: int) -> Iterator[Sequence[Callable[[], object]]]:
        """Yields the launches of all rounds, many at once."""
        if self._body is None:
            for steps, times in chain.from_iterable(self._parts for _ in range(rounds)):
                yield from repeat(steps, times)
            return
        at_once = max(1, UNROLLED // max(1, len(self._body)))
        many, rest = divmod(rounds, at_once)
        if many:
            written = self._body * at_once
            for _ in range(many):
                yield written
        yield self._body * rest

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
        self._times: Final = tuple(times for _, times in parts)
        self._kept: Final[KeptSteps] = workers.keep([first, *(steps for steps, _ in parts)])

    def run(self, rounds: int, *, first: bool = True) -> Ran:
        """Implements ``WorkExecutor.run``."""
        pieces: list[Ran] = []
        if first and self._has_first:
            pieces.append(Ran(*self._kept.run(0, 1)))
        if len(self._times) == 1:
            pieces.append(Ran(*self._kept.run(1, rounds * self._times[0])))
        else:
            for _ in range(rounds):
                for part, times in enumerate(self._times):
                    pieces.append(Ran(*self._kept.run(1 + part, times)))
        return pieces[0] if len(pieces) == 1 else total(pieces)

    def close(self) -> None:
        """Releases the workers."""
        self._kept.close()


def total(pieces: Sequence[Ran]) -> Ran:
    """Returns the sums of the times of pieces that ran one after the other; what one of them lacks is unknown."""

    def sums(values: Sequence[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if known and len(known) == len(values) else None

    timings = [piece.timing for piece in pieces]
    timing = DispatchTiming(
        sum(one.wall_ns for one in timings),
        sums([one.device_ns for one in timings]),
        sums([one.enqueue_ns for one in timings]),
        sums([one.wait_ns for one in timings]),
        sums([one.launches for one in timings]),
    )
    return Ran(timing, sum(piece.submissions for piece in pieces))
