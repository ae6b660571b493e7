"""``ShadowService``: samples dispatches, runs them again in the background, and keeps programs in quarantine."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from vyre.adapters.forks import process_lock
from vyre.app.background import BackgroundCompiler
from vyre.app.gated import Gate
from vyre.app.shadow.checker import Incomparable, checking_config, open_checker, unoptimized
from vyre.app.shadow.state import Quarantined, ShadowedTiming, ShadowReport, ShadowState, ShadowStatus
from vyre.domain.identity import program_digest
from vyre.domain.printable import one_line
from vyre.domain.validation.validator import without_calls
from vyre.policies.evidence.shadow import SampleDraw, ShadowAction, ShadowLoad, admit_sample, next_sample
from vyre.policies.journal import Decision, DecisionSink, decide
from vyre.ports.interrupts import sealed

if TYPE_CHECKING:
    from pathlib import Path

    from vyre.app.explain.explanation import Explanation
    from vyre.app.shadow.comparing import Mismatch
    from vyre.app.shadow.settings import Shadow
    from vyre.domain.dispatch import DispatchConfig, DispatchTiming
    from vyre.domain.ir.program import Program
    from vyre.ports.backend import Backend, BackendRegistration
    from vyre.ports.support import Telemetry

T = TypeVar("T")
NAMED: Final = 256
"""Programs that are named because they were skipped, at most."""
REMEMBERED: Final = 4096
DRAWN: Final = 64
"""Samples that are drawn at once."""
FALLBACK: Final = (
    "its dispatches run code without optimizations now, which differs from the shadow for these inputs, too",
    "its dispatches run code without optimizations now, which gives the right bytes for these inputs",
)


class Clock(NamedTuple):
    """The clocks of a shadow in ns: time that passes, and time that the calling thread computes."""

    passing: Callable[[], int] = time.monotonic_ns
    computing: Callable[[], int] = time.thread_time_ns


class Found(NamedTuple):
    """The result of a comparison: programs whose code is wrong, or may be, and a mismatch of one.

    ``agrees`` returns whether code without optimizations gives the right bytes.
    """

    programs: tuple[Program, ...]
    mismatch: Mismatch
    agrees: Callable[[], bool]


class Check(Protocol):
    """A comparison that waits to be made: runs on the thread of the shadow."""

    def __call__(self, checker: Backend, /) -> Found | None:
        """Returns None if the bytes are equal.  Raises ``Incomparable``, and anything, which is counted."""


class _Noted:
    """A ``DecisionSink`` that collects decisions."""

    keeps: Final = True

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def note(self, decision: Decision, /) -> None:
        self.decisions.append(decision)


class ShadowService:
    """The shadow of one session.  Nothing that it does raises to the caller; every method may be called by any thread.

    A facet takes ``next(service.numbers)`` for each dispatch, and asks ``sample`` if that is at least ``service.at``.
    """

    def __init__(
        self,
        settings: Shadow,
        checked_on: BackendRegistration,
        usual: Backend,
        telemetry: Telemetry,
        sink: DecisionSink | None = None,
        clock: Clock = Clock(),  # noqa: B008  # immutable
        clean: Callable[[Program], None] = lambda program: None,
    ) -> None:
        """``clean`` removes all code of a program, in memory and stored."""
        self.settings: Final = settings
        self._limits: Final = settings.limits
        self.usual: Final = usual
        self.numbers: Final[Iterator[int]] = count()
        self.quarantined: Final[dict[bytes, Quarantined]] = {}
        self.generation: int = 0
        """Changes with every program that comes into quarantine."""
        self.within: Callable[[], AbstractContextManager[None]] = nullcontext
        """Opens a context in which the adapters of the session are used."""
        self._checked_on = checked_on
        self._telemetry, self._sink, self._clock, self._clean = telemetry, sink, clock, clean
        self._checker: Backend | None = None
        self._background = BackgroundCompiler(telemetry, settings.most_waiting, "vyre-shadow", daemon=True)
        self._lock = process_lock()
        self._pending: dict[ShadowState, ShadowLoad] = {}
        self._outcomes: Counter[ShadowStatus] = Counter()
        self._dropped: Counter[str] = Counter()
        self._skipped: dict[str, str] = {}
        self._incomparable: dict[bytes, str] = {}
        self._written: dict[bytes, Program] = {}
        self._sampled = self._samples = self._copied = self._spent = self._ran = self._running_ns = 0
        self._gaps: deque[int] = deque()
        self._owed, self._owed_at, self._owed_number = 0, clock.passing(), 0
        self._refused_until, self._refused_uncounted = self._owed_at, 0
        self._refusal = ShadowState(ShadowStatus.DROPPED)
        """The state of all samples that are drawn until ``_refused_until``."""
        self._closed = False
        self.at: int = self._draw() - 1
        self.gate: Gate = Gate(self.at, self.numbers)
        """The gate of pipelines; it is replaced, and closed for good, when a program comes into quarantine."""

    # ------------------------------------------------------------ on the threads of callers
    def sample(self, number: int, programs: Sequence[Program], nbytes: int) -> ShadowState | None:
        """Returns the state of a dispatch of this number, which is pending if its ``nbytes`` bytes are to be copied.

        ``programs``: those that it runs.  Returns None if another thread took the sample in the meantime.
        """
        try:
            with self._lock, sealed:
                self._fill()
            refused = self.refused(number)
            return self._sample(number, programs, nbytes) if refused is None else refused
        except Exception as error:
            told = self._failed(programs[0].name or "unnamed", error)
            with self._lock, sealed:
                self.at = self.gate.at = max(self.at, number + 1)
                self._sampled += 1
                return self._drop("a failure", ShadowState(ShadowStatus.DROPPED, f"a failure ({told})"))

    def refused(self, number: int) -> ShadowState | None:
        """Returns the state of a dispatch that is drawn while every sample is refused, and counts it.

        Returns None for any other dispatch; ``sample`` decides about it.  Most samples end here, and find this code in
        no cache: it is short.
        """
        with self._lock, sealed:
            if number < self.at or not self._gaps or self._clock.passing() >= self._refused_until:
                return None
            self.at = self.gate.at = number + self._gaps.popleft()
            self._refused_uncounted += 1
            return self._refusal

    def _sample(self, number: int, programs: Sequence[Program], nbytes: int) -> ShadowState | None:
        with self._lock, sealed:
            if number < self.at:
                return None
            self.at = self.gate.at = number + self._draw()
            now = self._clock.passing()
            self._count_refused()
            expected = self._running_ns // (self._ran or 1)
            since, dispatches = max(0, now - self._owed_at), number - self._owed_number
            load = ShadowLoad(self._owed, since, dispatches, len(self._pending), expected, nbytes)
            verdict = decide(self._sink, admit_sample, load, self._limits)
            self._owed, self._owed_at, self._owed_number = verdict.owed_ns, now, number
            self._sampled += 1
            if self._closed:
                return self._drop("the end of the session", ShadowState(ShadowStatus.DROPPED))
            if verdict.refused_ns:
                self._refused_until = now + verdict.refused_ns
                self._refusal = ShadowState(ShadowStatus.DROPPED, verdict.why)
                return self._drop(verdict.action.value, self._refusal)
            for program in programs if self._incomparable else ():
                if (why := self._incomparable.get(program_digest(program))) is not None:
                    self._outcomes[ShadowStatus.SKIPPED] += 1
                    return ShadowState(ShadowStatus.SKIPPED, why)
            if verdict.action is not ShadowAction.RUN:
                return self._drop(verdict.action.value, ShadowState(ShadowStatus.DROPPED, verdict.why))
            state = ShadowState(ShadowStatus.PENDING)
            self._pending[state] = load
            self._copied += nbytes
            return state

    @contextmanager
    def copying(self, state: ShadowState) -> Iterator[None]:
        """Charges the time of the block to the budget; an exception of the block drops the sample, and ends here."""
        started = self._clock.passing()
        try:
            yield
        except Exception as error:
            self.drop(state, f"a failure ({self._failed('', error)})")
        finally:
            self._charge(self._clock.passing() - started)

    def drop(self, state: ShadowState, why: str) -> None:
        """Drops a sample that was pending."""
        with self._lock, sealed:
            if self._ended(state):
                self._drop(why.partition(" (")[0], state)
                state.settle(ShadowStatus.DROPPED, why)

    def _skip(self, state: ShadowState, error: Incomparable) -> None:
        """Skips a sample that was pending, and names its program once."""
        name, why = error.program.name or "unnamed", error.why
        with self._lock, sealed:
            if not self._ended(state):
                return
            self._outcomes[ShadowStatus.SKIPPED] += 1
            first = name not in self._skipped and len(self._skipped) < NAMED
            if first:
                self._skipped[name] = why
            if error.always and len(self._incomparable) < REMEMBERED:
                self._incomparable[program_digest(error.program)] = why
        state.settle(ShadowStatus.SKIPPED, why)
        if first:
            self._telemetry.event("vyre.shadow.skipped", program=name, reason=why)

    def queue(self, state: ShadowState, check: Check, name: str) -> None:
        """Has a sample compared in the background."""
        if state.status is ShadowStatus.PENDING and not self._background.wish(
            state, lambda: self._run(state, check, name)
        ):
            self.drop(state, "the end of the session")

    def attempt(self, program: Program, make: Callable[[], T]) -> T | None:
        """Returns what ``make`` makes for a program in quarantine; None if it fails, and then the event says so."""
        try:
            return make()
        except Exception as error:
            self._failed(program.name or "unnamed", error)
            return None

    def timing(self, timing: DispatchTiming, state: ShadowState) -> DispatchTiming:
        """Returns the times of a sampled dispatch, by which its result finds its state."""
        return ShadowedTiming.of(timing, state)

    # ------------------------------------------------------------ on the thread of the shadow
    def _run(self, state: ShadowState, check: Check, name: str) -> None:
        """Makes a comparison; its time is charged before the state is final, so that whoever waits finds it charged."""
        started = self._clock.computing()
        ended: Callable[[], None]
        try:
            if self._checker is None:
                self._checker = open_checker(self._checked_on, self._clock.passing)
            wrong = check(self._checker)
            ended = partial(self._settle, state, ShadowStatus.AGREED) if wrong is None else self._differs(state, wrong)
        except Incomparable as error:
            ended = partial(self._skip, state, error)
        except Exception as error:  # the shadow has no caller to raise to
            ended = partial(self.drop, state, f"a failure ({self._failed(name, error)})")
        spent = self._clock.computing() - started
        self._charge(spent)
        with self._lock, sealed:
            self._ran += 1
            self._running_ns += max(0, spent)
        ended()

    def _differs(self, state: ShadowState, finding: Found) -> Callable[[], None]:
        """Puts what was found in quarantine, tells of it, and returns what makes the state final."""
        noted, load = _Noted(), self._pending.get(state)
        if load is not None:
            decide(noted, admit_sample, load, self._limits)  # as it was decided before
        program_name, difference = finding.mismatch.program.name or "unnamed", finding.mismatch.difference
        place: Path | None = None
        try:
            with self.within():
                place = finding.mismatch.write(self.settings.directory, noted.decisions)
        except Exception as error:
            told = one_line(f"{type(error).__name__}: {error}")
            self._telemetry.event("vyre.shadow.no_evidence", level="warning", error=told)
        entry = Quarantined(program_name, difference, place, "code without optimizations is being made for it")
        for program in finding.programs:
            self.attempt(program, partial(self._clean, program))  # before anything is compiled in its place
        digests = [program_digest(program) for program in finding.programs]
        entries = {digest: self.quarantined.setdefault(digest, entry) for digest in digests}
        with self._lock, sealed:
            self.generation += 1
            old, self.gate = self.gate, Gate(self.at, self.numbers)
            old.at = -1
        try:
            fallback = FALLBACK[finding.agrees()]
        except Exception as error:
            fallback = f"there is no other code for it ({one_line(f'{type(error).__name__}: {error}')})"
        self.quarantined.update({digest: first._replace(fallback=fallback) for digest, first in entries.items()})
        state.difference, state.evidence = difference, place
        self._telemetry.event(
            "vyre.shadow.differs",
            level="error",
            backend=str(self.usual.id),
            shadow=str(self._checked_on.id),
            program=program_name,
            **difference._asdict(),
            evidence=str(place or ""),
            fallback=fallback,
        )
        return partial(self._settle, state, ShadowStatus.DIFFERS, str(difference))

    # ------------------------------------------------------------ for reports
    def keep_written(self, ran: Program, written: Program) -> None:
        """Remembers that ``ran`` runs in the place of ``written``, because lowerings of its operations were chosen."""
        written = without_calls(written)
        if program_digest(ran) != program_digest(written):
            self._written[program_digest(ran)] = written

    def written(self, program: Program) -> Program:
        """Returns the program that the caller wrote, in the place of which ``program`` runs."""
        return self._written.get(program_digest(program), program) if self._written else program

    def fallback_of(self, program: Program, config: DispatchConfig) -> tuple[Program, DispatchConfig]:
        """Returns what runs with every optimization off."""
        return self.written(program), unoptimized(config)

    def current(self, program: Program, config: DispatchConfig) -> tuple[Program, DispatchConfig]:
        """Returns what runs for a program now: it, or if it is in quarantine, what runs with every optimization off."""
        if not self.quarantined or self.quarantine_of(program) is None:
            return program, config
        return self.fallback_of(program, config)

    def checked(self, program: Program, config: DispatchConfig) -> tuple[Program, DispatchConfig]:
        """Returns what the shadow runs for a program."""
        return self.written(program), checking_config(config, self.settings.timeout_s)

    def quarantine_of(self, program: Program) -> Quarantined | None:
        """Returns the entry of a program that is in quarantine, or None."""
        return self.quarantined.get(program_digest(program)) if self.quarantined else None

    def explained(self, explanation: Explanation, program: Program) -> Explanation:
        """Returns an explanation of a program that says so if it is in quarantine."""
        quarantine = self.quarantine_of(program)
        return (
            explanation
            if quarantine is None
            else replace(explanation, notes=(*explanation.notes, f"in quarantine: {quarantine}"))
        )

    def report(self, wait_s: float = 0.0) -> ShadowReport:
        """Returns the counts, after waiting for pending samples for at most ``wait_s`` seconds."""
        end = time.monotonic() + wait_s
        for state in tuple(self._pending):
            state.wait(max(0.0, end - time.monotonic()))
        with self._lock, sealed:
            self._count_refused()
            return ShadowReport(
                str(self._checked_on.id),
                self._sampled,
                len(self._pending),
                self._outcomes[ShadowStatus.AGREED],
                self._outcomes[ShadowStatus.DIFFERS],
                dict(self._dropped),
                self._outcomes[ShadowStatus.SKIPPED],
                dict(self._skipped),
                self._copied,
                self._spent,
                tuple(self.quarantined.values()),
            )

    def close(self) -> None:
        """Waits for the sample that is run, at most ``timeout_s``, drops the others, and closes the other backend."""
        with self._lock, sealed:
            self._closed = True
            self._refused_until = self._owed_at
            self._count_refused()
        ended = self._background.close(self.settings.timeout_s)
        for state in tuple(self._pending):
            self.drop(state, "the end of the session")
        checker, self._checker = self._checker, None
        if checker is not None and ended:  # else its thread, which ends with the process, is still using it
            checker.lifecycle.close()

    # ------------------------------------------------------------ details
    def _failed(self, name: str, error: Exception) -> str:
        """Tells of a failure of the shadow itself, and returns it in words."""
        told = one_line(f"{type(error).__name__}: {error}")
        self._telemetry.event("vyre.shadow.failed", level="warning", program=name, error=told)
        return told

    def _ended(self, state: ShadowState) -> bool:
        """Returns whether a sample was pending, which it is no longer.  Call with the lock held."""
        was_pending = state in self._pending
        self._pending.pop(state, None)
        return was_pending

    def _draw(self) -> int:
        """Returns the distance to the next sample."""
        self._fill()
        return self._gaps.popleft()

    def _fill(self) -> None:
        """Draws distances if none is left; many are drawn at once, which takes each of them less time."""
        if not self._gaps:
            seed, rate = self.settings.seed, self.settings.rate
            for sample in range(self._samples, self._samples + DRAWN):
                self._gaps.append(decide(self._sink, next_sample, SampleDraw(seed, sample, rate)))
            self._samples += DRAWN

    def _charge(self, ns: int) -> None:
        with self._lock, sealed:
            self._owed += max(0, ns)
            self._spent += max(0, ns)

    def _drop(self, why: str, state: ShadowState) -> ShadowState:
        self._count_dropped(why, 1)
        return state

    def _count_refused(self) -> None:
        """Counts the samples that were refused since this was last called.  Call with the lock held."""
        refused, self._refused_uncounted = self._refused_uncounted, 0
        if refused:
            self._sampled += refused
            self._count_dropped(ShadowAction.OVER_BUDGET.value, refused)

    def _count_dropped(self, why: str, samples: int) -> None:
        self._dropped[why] += samples
        self._outcomes[ShadowStatus.DROPPED] += samples
        self._telemetry.count("vyre.shadow.dropped", samples, reason=why)

    def _settle(self, state: ShadowState, status: ShadowStatus, reason: str = "") -> None:
        with self._lock, sealed:
            if not self._ended(state):
                return
            self._outcomes[status] += 1
        self._telemetry.count("vyre.shadow.compared", outcome=status.value)
        state.settle(status, reason)
