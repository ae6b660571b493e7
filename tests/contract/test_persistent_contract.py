"""The cases of persistent engines fail on engines that break one rule each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.registration import CPU
from vyre.domain.errors import InvalidInput, TrapError
from vyre.ports.backend import Backend
from vyre.testing.backend_contract import CASES, Subject, run_cases
from vyre.testing.outcomes import Verdict

pytestmark = NEEDS_LLVM


class Wrapped:
    """An engine that passes everything on."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class TakesTheResultOfTheSlot(Wrapped):
    """It completes jobs by slot: a late reader gets the job that has the slot now."""

    def wait(self, ticket: int, /, *, timeout: float | None = None) -> Any:
        last, number = self.inner._head.value - 1, ticket >> 16
        found = self.inner.wait(ticket, timeout=timeout)
        while number + self.inner.capacity <= last:
            number += self.inner.capacity
        if number in self.inner._jobs:
            self.inner.wait(number << 16, timeout=timeout)
            mine, later = self.inner._jobs[ticket >> 16], self.inner._jobs[number]
            for view, data in zip(mine.outputs, later.outputs, strict=True):
                view[:] = data
        return found


class SharesMemory(Wrapped):
    """It gives all jobs the same memory."""

    def memory(self) -> Any:
        self.one = vars(self).get("one") or self.inner.memory()
        return self.one


class SwallowsErrors(Wrapped):
    """A failed job has outputs."""

    def wait(self, ticket: int, /, *, timeout: float | None = None) -> Any:
        try:
            return self.inner.wait(ticket, timeout=timeout)
        except TrapError:
            return None


class HidesFailedRows(Wrapped):
    """A batch tells of no failure."""

    def wait_many(self, first: int, jobs: int, /, *, timeout: float | None = None) -> Any:
        return self.inner.wait_many(first, jobs, timeout=timeout)._replace(failed=())


class SwapsRows(Wrapped):
    """The first row of a batch is the last one."""

    def submit_many(self, columns: Sequence[Any], jobs: int, into: Sequence[memoryview], /) -> Any:
        self.into, self.jobs = into, jobs
        return self.inner.submit_many(columns, jobs, into)

    def wait_many(self, first: int, jobs: int, /, *, timeout: float | None = None) -> Any:
        ended = self.inner.wait_many(first, jobs, timeout=timeout)
        for view in self.into:
            size = view.nbytes // self.jobs
            view[:size] = bytes(view[-size:])
        return ended


class NeverFull(Wrapped):
    """It takes jobs into a full queue, under a ticket that was given before."""

    def submit(self, memory: Any, /) -> Any:
        found = self.inner.submit(memory)
        return 0 if found is None else found


class CountsLaunches(Wrapped):
    """It launches a kernel for each job."""

    def counters(self) -> Any:
        return {**self.inner.counters(), "launches": self.inner.counters()["jobs"]}


class NeverDone(Wrapped):
    """It says of no job that it has ended."""

    def done(self, ticket: int, /) -> bool:
        return ticket < 0


class TakesAnyLength(Wrapped):
    """It fills up what is missing."""

    def submit_many(self, columns: Sequence[Any], jobs: int, into: Sequence[memoryview], /) -> Any:
        try:
            return self.inner.submit_many(columns, jobs, into)
        except InvalidInput:
            return 0


DEFECTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "completed by slot": (TakesTheResultOfTheSlot, "results_wait_for_their_readers"),
    "shared memory": (SharesMemory, "inputs_are_taken_at_submit"),
    "swallowed errors": (SwallowsErrors, "an_error_is_that_of_its_ticket"),
    "hidden rows": (HidesFailedRows, "an_error_is_that_of_its_ticket"),
    "swapped rows": (SwapsRows, "a_batch_equals_its_jobs"),
    "never full": (NeverFull, "a_full_queue_is_told_and_closing_ends_every_job"),
    "a launch each": (CountsLaunches, "jobs_are_counted"),
    "never done": (NeverDone, "a_job_equals_execute"),
    "any length": (TakesAnyLength, "wrong_inputs_are_refused"),
}


class Opens:
    """``PersistentExecutor`` of broken engines."""

    def __init__(self, inner: Any, wrap: Callable[[Any], Any]) -> None:
        self._inner, self._wrap = inner, wrap

    def open(self, *arguments: Any) -> Any:
        return self._wrap(self._inner.open(*arguments))


def failures(wrap: Callable[[Any], Any]) -> set[str]:
    def broken(backend: Backend) -> Backend:
        return replace(backend, persistent=Opens(backend.persistent, wrap))

    registration = replace(CPU, factory=lambda services: broken(CPU.factory(services)))
    with Subject(registration) as subject:
        outcomes = list(run_cases(CASES, subject, "persistent.*"))
    assert all(outcome.verdict is not Verdict.SKIPPED for outcome in outcomes)
    return {outcome.name for outcome in outcomes if outcome.verdict is Verdict.FAILED}


def test_engines_that_pass_everything_on_keep_the_contract() -> None:
    assert failures(Wrapped) == set()


@pytest.mark.parametrize("defect", DEFECTS)
def test_broken_engines_are_found(defect: str) -> None:
    wrap, case = DEFECTS[defect]
    assert f"persistent.{case}" in failures(wrap)


# ---------------------------------------------------------------- kept steps
class Reversed(Wrapped):
    """It runs the waves backwards."""

    def keep(self, parts: Any, /) -> Any:
        return self.inner.keep([tuple(reversed(waves)) for waves in parts])


class OnePart(Wrapped):
    """It knows the first part only."""

    def keep(self, parts: Any, /) -> Any:
        return Runs(self.inner.keep(parts), lambda inner, _, times: inner.run(0, times))


class ReadsLate(Wrapped):
    """It prepares the steps when they are first run."""

    def keep(self, parts: Any, /) -> Any:
        made: list[Any] = []

        def run(inner: Any, part: int, times: int) -> Any:
            if not made:
                made.append(self.inner.keep(parts))
            return made[0].run(part, times)

        return Runs(self.inner.keep(parts), run)


class GoesOn(Wrapped):
    """Steps after one that failed run nevertheless."""

    def keep(self, parts: Any, /) -> Any:
        singles = self.inner.keep([[wave] for waves in parts for wave in waves])

        def run(inner: Any, part: int, times: int) -> Any:
            first, failure = sum(len(waves) for waves in parts[:part]), None
            for number in range(first, first + len(parts[part])):
                try:
                    ran = singles.run(number, times)
                except TrapError as error:
                    failure = error
            if failure is not None:
                raise failure
            return ran

        return Runs(self.inner.keep(parts), run)


class Launches(Wrapped):
    """It says that it has launched something for every run."""

    def keep(self, parts: Any, /) -> Any:
        def run(inner: Any, part: int, times: int) -> Any:
            ran = inner.run(part, times)
            return ran._replace(timing=ran.timing._replace(launches=1))

        return Runs(self.inner.keep(parts), run)


class NeverCloses(Wrapped):
    """Closed steps run on."""

    def keep(self, parts: Any, /) -> Any:
        return NotClosed(self.inner.keep(parts))


class Runs(Wrapped):
    """Kept steps that are run in another way."""

    def __init__(self, inner: Any, run: Callable[[Any, int, int], Any]) -> None:
        super().__init__(inner)
        self._run = run

    def run(self, part: int, times: int, /) -> Any:
        return self._run(self.inner, part, times)


class NotClosed(Wrapped):
    def close(self) -> None:
        """Does nothing."""


STEP_DEFECTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "waves backwards": (Reversed, "waves_and_rounds_run_in_order"),
    "one part": (OnePart, "parts_are_run_by_number"),
    "late bytes": (ReadsLate, "host_bytes_are_read_once"),
    "no end at a failure": (GoesOn, "a_failure_keeps_later_waves_from_running"),
    "a launch each": (Launches, "nothing_is_launched_for_a_run"),
    "never closed": (NeverCloses, "closed_steps_are_refused"),
}


def step_failures(wrap: Callable[[Any], Any]) -> set[str]:
    def factory(services: Any) -> Backend:
        backend = CPU.factory(services)
        return replace(backend, persistent_steps=wrap(backend.persistent_steps))

    with Subject(replace(CPU, factory=factory)) as subject:
        outcomes = list(run_cases(CASES, subject, "kept_steps.*"))
    assert outcomes and all(outcome.verdict is not Verdict.SKIPPED for outcome in outcomes)
    return {outcome.name for outcome in outcomes if outcome.verdict is Verdict.FAILED}


def test_kept_steps_that_pass_everything_on_keep_the_contract() -> None:
    assert step_failures(Wrapped) == set()


@pytest.mark.parametrize("defect", STEP_DEFECTS)
def test_broken_kept_steps_are_found(defect: str) -> None:
    wrap, case = STEP_DEFECTS[defect]
    assert f"kept_steps.{case}" in step_failures(wrap)
