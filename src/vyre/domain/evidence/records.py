"""The manifest of an evidence bundle: what was run or measured, where, by which source, and the digest of every file.

Records are written by ``value_json``, so that reading refuses everything that writing does not give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from vyre.domain.evidence.provenance import SourceState
from vyre.domain.frozen import frozen

FORM: Final = 2
"""Version of the written form."""
DISPATCH: Final = "dispatch"
PERSISTENT: Final = "persistent"


@frozen
class Content:
    """A file of the bundle: its path in it, its size in bytes, and its BLAKE3 digest in hexadecimal."""

    path: str
    nbytes: int
    blake3: str


@frozen
class Environment:
    """The machine and the versions: ``cores`` counts processors, ``packages`` maps distributions to versions."""

    python: str
    system: str
    processor: str
    cores: int
    packages: Mapping[str, str]


@frozen
class Device:
    """A backend and the device that it ran on.

    ``name`` and ``driver`` are what the backend calls its device and its driver; ``signature`` is the id of the known
    family of the device, None for others.  ``toolchain`` names everything that makes code, ``facts`` holds what the
    backend says about the device, by topic.  ``profile`` holds the numbers of the device's profile that are known, by
    name; those in ``of_family`` are not the driver's, but what the table says of the family.
    """

    backend: str
    version: str
    name: str
    driver: str
    signature: str | None
    toolchain: str
    facts: Mapping[str, str]
    profile: Mapping[str, int]
    of_family: tuple[str, ...]


@frozen
class BufferContent:
    """The content of a buffer: its name, the type of its elements as text, and the file of its bytes."""

    name: str
    element: str
    content: Content


@frozen
class RunTiming:
    """The durations of one run in nanoseconds, as in ``DispatchTiming``; None means not measured."""

    wall_ns: int
    device_ns: int | None
    enqueue_ns: int | None
    wait_ns: int | None


@frozen
class Answer:
    """The outcome of a run, and who ran it: the id of a backend, or another name.

    ``slots`` holds the returned buffers in binding order.  ``error`` is the file of the error of the program in which
    the run ended (``failures.Failure``), and None if it did not; a run that ended in an error has returned nothing.
    """

    by: str
    slots: tuple[BufferContent, ...]
    error: Content | None


@frozen
class RecordedRun:
    """A program with its inputs, in binding order, and what came out.

    ``resident`` maps each buffer that was bound to resident memory to the byte of the allocation at which its part
    began.  ``inputs`` holds what the caller passed, and of those buffers the content before the run, also of outputs;
    the answers hold the content of all that is returned after it, of resident memory the whole part that was bound.

    ``digest`` is that of the program, ``inputs_digest`` that of ``inputs`` and ``resident`` together; ``config`` holds
    the fields of the ``DispatchConfig`` that differ from the default.  ``got`` is the answer of the backend;
    ``expected`` is another answer that the backend should have given, None where nobody gave one.  ``decisions`` is the
    journal, and ``dropped`` the number of decisions that it no longer held.  ``way`` says what ran the program: a
    dispatch, or a job of a program that is kept running.
    """

    name: str | None
    digest: str
    program: Content
    inputs_digest: str
    inputs: tuple[BufferContent, ...]
    resident: Mapping[str, int]
    config: tuple[tuple[str, object], ...]
    got: Answer
    expected: Answer | None
    timings: tuple[RunTiming, ...]
    decisions: Content | None
    dropped: int
    way: str = DISPATCH

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers: that of the backend, and the other one if there is one."""
        return (self.got,) if self.expected is None else (self.got, self.expected)

    @property
    def due(self) -> Answer:
        """The answer that a replay must give: what the backend should have given, or else what it gave."""
        return self.got if self.expected is None else self.expected


@frozen
class MemoryPart:
    """``nbytes`` bytes of a recorded memory, which its number names, from byte ``begin`` of its content on."""

    memory: int
    begin: int
    nbytes: int


@frozen
class RecordedMemory:
    """A memory of steps: resident memory, a temporary array without ``before``, or data of the host without ``place``.

    ``before`` is the content before the run, of resident memory the bytes of an allocation from the first to the last
    one that is bound; ``place`` is the byte of the allocation at which they begin.
    """

    nbytes: int
    before: BufferContent | None = None
    place: int | None = None


@frozen
class RecordedStep:
    """A launch: the number of its program, the fields of its config, what each buffer is bound to, and the places of
    those steps of its part that are stated to run before it.

    ``counted`` is what messages call a step that finds its grid in memory; the last buffer of its program takes the
    workgroups that are more than ``most``.
    """

    program: int
    config: tuple[tuple[str, object], ...]
    bound: Mapping[str, MemoryPart]
    after: tuple[int, ...]
    counted: str | None = None
    most: tuple[int, int, int] = (0, 0, 0)


@frozen
class RecordedPart:
    """Steps that run ``times`` times together."""

    steps: tuple[RecordedStep, ...]
    times: int


@frozen
class SequenceCall:
    """The call of a sequence: its rounds, and the modes that force what the run did."""

    rounds: int
    modes: Mapping[str, bool]


@frozen
class FixedPointCall:
    """The call of a fixed point: its flag, its most rounds, and what repeated them."""

    changed: MemoryPart
    limit: int
    early_exit: bool
    executor: str


@frozen
class QueueCall:
    """The call of a work queue, whose only step binds what is not the queue's own; ``initial`` are its first items."""

    items: str
    pushed: str
    count: str
    capacity: int
    items_per_launch: int | None
    total_items: int | None
    discipline: str
    initial: MemoryPart


@frozen
class SpeculationCall:
    """The call of a speculation, whose steps are prefilter, confirmer and commit: its flags, and the way it took."""

    passed: MemoryPart
    confirmed: MemoryPart
    way: str


Call: TypeAlias = SequenceCall | FixedPointCall | QueueCall | SpeculationCall
_COUNTED: Final[Mapping[type[Call], tuple[str, ...]]] = {
    FixedPointCall: ("iterations", "converged"),
    QueueCall: ("processed", "pushed"),
    SpeculationCall: ("passed", "confirmed", "committed"),
}


def counted(call: Call, ended: object) -> dict[str, int]:
    """Returns the numbers in what a call returned that any other run must count, too."""
    return {name: int(getattr(ended, name)) for name in _COUNTED.get(type(call), ())}


@frozen
class RecordedWork:
    """Steps on resident memory that ran together, as ``call`` says, and what came of it.

    ``first`` ran once, before ``parts``.  The slots of ``got`` are the memory that steps write, as it is after the run;
    ``counters`` are what the run counted and any other must count too.  ``digest`` is that of all other fields.
    ``timings``, ``decisions`` and ``dropped`` as in ``RecordedRun``.
    """

    programs: tuple[Content, ...]
    memory: tuple[RecordedMemory, ...]
    first: tuple[RecordedPart, ...]
    parts: tuple[RecordedPart, ...]
    call: Call
    got: Answer
    counters: Mapping[str, int]
    timings: tuple[RunTiming, ...]
    decisions: Content | None
    dropped: int
    digest: str

    @property
    def expected(self) -> None:
        """No answer but that of the backend."""

    @property
    def due(self) -> Answer:
        """The answer that a replay must give."""
        return self.got


@frozen
class Side:
    """One of the things that were measured in turn, on ``device``; ``samples`` are in the order of the rounds."""

    name: str
    device: str
    samples: tuple[float, ...]


@frozen
class Measurement:
    """A quantity that was measured in one run for one side or several, and what was cached.

    ``scale`` turns a sample, or the ratio of two, into ``unit``.  ``run`` names the run of the program that measured;
    only samples of one run may be compared.
    """

    name: str
    unit: str
    scale: float
    state: str
    run: str
    sides: tuple[Side, ...]


@frozen
class SpeedClaim:
    """The claim that ``faster`` takes at most 1 / ``factor`` of the time of ``slower`` in a measurement."""

    measurement: str
    faster: str
    slower: str
    factor: float


@frozen
class Evidence:
    """The manifest.  ``made_at`` is in the form of ISO 8601; a bundle holds a run or work, measurements, or both."""

    form: int
    made_at: str
    source: SourceState
    environment: Environment
    device: Device | None
    run: RecordedRun | None
    measurements: tuple[Measurement, ...]
    claims: tuple[SpeedClaim, ...]
    work: RecordedWork | None = None

    def contents(self) -> Iterator[Content]:
        """Yields every file that the manifest names, in the order in which the bundle holds them."""
        if (run := self.run) is not None:
            yield run.program
            yield from (buffer.content for buffer in run.inputs)
            yield from _ending(run.answers, run.decisions)
        if (work := self.work) is not None:
            yield from work.programs
            yield from (each.before.content for each in work.memory if each.before is not None)
            yield from _ending((work.got,), work.decisions)


def _ending(answers: tuple[Answer, ...], decisions: Content | None) -> Iterator[Content]:
    for answer in answers:
        yield from (buffer.content for buffer in answer.slots)
        if answer.error is not None:
            yield answer.error
    if decisions is not None:
        yield decisions
