"""The facet of backends that keep a program running, and feed it jobs through a queue.

An *engine* serves one program under one config, with inputs of certain lengths.  It is launched once; afterwards a job
costs a hand-over and no launch.  Every job has a *ticket*: a number below 2^63 that no other job of the engine has, and
that grows with every job.  Jobs begin in the order of their tickets and may end in any other.

Rules
    * A job has the bytes and the errors that a dispatch of the same program, config and inputs has.  An error is that
      of its ticket alone; the engine goes on.
    * A job has memory of the engine (``JobMemory``), into which the caller writes the inputs.
    * No thread of Python takes part in the end of a job.
    * Every method may be called from any thread.  ``done`` reads one word, and asks the device how it is if that says
      that the job has not ended.
    * A full queue is told by None, at once.
    * Closing takes a bounded time, whatever the jobs do.  Jobs that have not ended by then end with
      ``DispatchFailed``; the results of the others can still be collected.

Another facet keeps *steps* running: launches on resident memory, which are bound once.  Then a job is a step by its
place, and nothing is copied.  The steps are in *parts*, and those of a part in *waves*, which the caller makes: the
steps of a wave may run at once and in any order, and a wave begins when all steps of the one before have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from vyre.domain.errors import DispatchFailed

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig, DispatchTiming
    from vyre.domain.ir.program import Program
    from vyre.ports.requests import HostBytes, ResidentStep

MOST_CAPACITY: Final = 1 << 20
"""The most submissions of an engine that may be under way at once."""


class EndedJobs(NamedTuple):
    """Jobs that have ended: their device time in ns in all, and the tickets of those that failed, ascending."""

    device_ns: int
    failed: tuple[int, ...]


class JobMemory:
    """The memory of one job at a time: writable bytes of each input, and the bytes of each output.

    It belongs to who was given it by ``PersistentEngine.memory``, until that calls ``give_back``, or ``forget`` of the
    job.  Inputs and outputs of a buffer that is passed in and returned are the same bytes.  ``held`` is None at first,
    and then whatever the caller wants to find with the memory when it is given out again.
    """

    __slots__ = ("held", "inputs", "outputs")

    def __init__(self, inputs: tuple[memoryview, ...], outputs: tuple[memoryview, ...]) -> None:
        self.inputs: Final = inputs
        self.outputs: Final = outputs
        self.held: Any = None

    @property
    def has_ended(self) -> bool:
        """Whether a word says that the job has ended; False where only a device could tell."""
        return False


class PersistentEngine(Protocol):
    """A program that is kept running."""

    @property
    def capacity(self) -> int:
        """Returns how many submissions may be under way at once, at least 2; ``submit_many`` makes one submission."""

    @property
    def most_jobs(self) -> int:
        """Returns the most jobs of one ``submit_many``, at least 1."""

    @property
    def output_nbytes(self) -> tuple[int, ...]:
        """Returns the bytes of each output of a job."""

    def memory(self) -> JobMemory:
        """Returns memory for a job, which nobody else has.  Raises ``DeviceOutOfMemory``."""

    def give_back(self, memory: JobMemory, /) -> None:
        """Takes back memory of which no job was queued."""

    def take_back(self, memory: JobMemory, /) -> None:
        """Takes back memory whose submission did not return: a job of it may have been queued, and nobody wants it."""

    def submit(self, memory: JobMemory, /) -> int | None:
        """Queues a job with the inputs in its memory; returns its ticket, or None if the queue is full.

        With None the memory is the caller's as before.  Else it is that of the job until it has ended, and then holds
        the outputs.  Raises ``InvalidResource`` or ``DispatchFailed`` if the engine is closed; the memory is not used
        again after an error.
        """

    def submit_many(self, columns: Sequence[HostBytes], jobs: int, into: Sequence[memoryview], /) -> int | None:
        """Queues ``jobs`` jobs, and returns the first of their tickets, which are consecutive; None if it is full.

        Every column holds the input of all jobs, one after the other, or one input that all jobs share.  ``into`` holds
        writable, C-contiguous memory for each output of all jobs; it is filled until the jobs have ended, and what a
        failed job leaves there is undefined.  The engine keeps the memory until then.
        """

    def done(self, ticket: int, /) -> bool:
        """Returns whether a job has ended, with or without an error."""

    def wait(self, ticket: int, /, *, timeout: float | None = None) -> DispatchTiming:
        """Waits for a job, and returns the measured times.

        The outputs are in its memory until the ticket is forgotten.  Raises the error of the job, ``TimeoutError``
        after ``timeout`` seconds, and what a signal handler raises: the job goes on.
        """

    def wait_many(self, first: int, jobs: int, /, *, timeout: float | None = None) -> EndedJobs:
        """Waits for all jobs of a ``submit_many``.  Raises ``TimeoutError``, and what a signal handler raises."""

    def wait_room(self, timeout: float | None = None, /) -> bool:
        """Waits until the queue is not full; returns whether it is not.  Raises what a signal handler raises."""

    def forget(self, ticket: int, /) -> None:
        """Says that nobody asks for this ticket and its memory, or those of its ``submit_many``, any longer."""

    def subscribe(self) -> int:
        """Returns a descriptor that becomes readable when a job ends.  Raises ``UnsupportedFeature`` without one.

        Whoever reads it calls ``rearm``, and then looks at ``done`` of what it waits for.
        """

    def unsubscribe(self, descriptor: int, /) -> None:
        """Closes a descriptor of ``subscribe``.  Closing the engine leaves it open, and writes nothing to it."""

    def rearm(self, descriptor: int, /) -> None:
        """Empties a descriptor, so that it becomes readable again with the next end of a job."""

    def drain(self, timeout: float | None = None, /) -> bool:
        """Waits until all jobs that were submitted before have ended; returns whether they have."""

    def counters(self) -> Mapping[str, int]:
        """Returns counts since the engine was opened.

        ``launches``: launches of kernels that serve it; ``jobs``: jobs that have ended; ``submissions``; ``waits``:
        calls that had to sleep; ``wakes``: how often sleeping callers were woken; ``full``: refusals.
        """

    def close(self) -> None:
        """Ends the engine; idempotent."""


class PersistentExecutor(Protocol):
    """Opens persistent engines."""

    def open(
        self, program: Program, config: DispatchConfig, input_nbytes: tuple[int, ...], capacity: int, /
    ) -> PersistentEngine:
        """Returns an engine for inputs of these lengths in bytes.

        ``capacity`` is at least 2; the engine may have a greater one.  Raises what compiling and dispatching raise
        before a launch.
        """


class StepsRan(NamedTuple):
    """A run of kept steps: its times, in which nothing was launched, and the submissions that it took."""

    timing: DispatchTiming
    submissions: int


class KeptSteps(Protocol):
    """Steps on resident memory that resident workers run.  One thread at a time may use it; it must be closed."""

    def run(self, part: int, times: int, /) -> StepsRan:
        """Runs the part of this number so many times, one after the other, and waits for the end.

        The bytes and the errors are those of ``ResidentExecutor.run`` of the steps in order, but that a timeout bounds
        its own step, from its begin.  After a failure no step of a later wave has run.  What a signal handler raises
        stops the run, waits for its end and is raised.
        """

    def counters(self) -> Mapping[str, int]:
        """Returns counts since the steps were kept.

        ``launches``: launches of kernels that serve them; ``jobs``: steps that have ended; ``submissions``; ``waits``:
        calls that waited for a submission.
        """

    def close(self) -> None:
        """Releases the workers; idempotent.  A run under way in another thread ends with ``DispatchFailed`` soon."""


class PersistentSteps(Protocol):
    """Keeps steps running."""

    @property
    def workers(self) -> int:
        """Returns how many steps run at once, at most."""

    @property
    def most_steps(self) -> int:
        """Returns the most steps of one part, at least 1."""

    def keep(self, parts: Sequence[Sequence[Sequence[ResidentStep]]], /) -> KeptSteps:
        """Returns these steps, checked and prepared once: for each part its waves, none of which is empty.

        Host bytes in them are read during this call only; their buffers must stay open until they are closed.  Raises
        what ``ResidentBinder.bind`` raises.
        """


def no_descriptor(what: str, error: OSError) -> DispatchFailed:
    """Returns the error for something that the system gives no file descriptor, because there are too many."""
    return DispatchFailed(
        f"{what} needs a file descriptor: {error}",
        native_code=error.errno,
        fix="close files, or raise the limit of open files (`ulimit -n`).",
    )
