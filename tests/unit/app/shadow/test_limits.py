"""Budget, queue and end of a shadow; nothing that fails on its side reaches the caller."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import numpy as np
import pytest

import vyre
from support.seeded_backends import SEEDED, seeded, with_backend
from support.shadowed_programs import RIGHT, ULP, WAIT_S, numbers, roots, roots_in_place, settled, shadowed
from vyre import Shadow, ShadowStatus
from vyre.adapters.discovery import load_catalog
from vyre.app.container import Container
from vyre.app.selection import BackendSelector
from vyre.app.session import Session
from vyre.app.shadow.opening import with_shadow
from vyre.app.shadow.service import Clock
from vyre.domain.dispatch import DispatchConfig, DispatchTiming
from vyre.domain.errors import BackendUnavailable, InvalidConfig, InvalidField
from vyre.domain.ir.program import Program
from vyre.domain.names import BackendId
from vyre.policies.evidence.shadow import ShadowAction, ShadowVerdict
from vyre.policies.journal import Decision
from vyre.ports.backend import Backend, BackendCatalog, BackendServices
from vyre.ports.execution import CompileResult, PipelineCompiler, ProgramExecutor
from vyre.ports.requests import DispatchRequest, OutputStorage
from vyre.ports.support import SILENT
from vyre.testing.recording_telemetry import RecordingTelemetry


class Hands:
    """Clocks that stand still but for what a test does: ``run_ns`` is what each run of the shadow takes."""

    def __init__(self, run_ns: int) -> None:
        self.now, self.run_ns, self._computed = 0, run_ns, 0

    def passing(self) -> int:
        return self.now

    def computing(self) -> int:
        self._computed += self.run_ns
        return self._computed


def timed(clock: Clock, **settings: Any) -> Session:
    selection = BackendSelector(load_catalog(), SILENT).select("cpu")
    return Session(with_shadow(selection, Shadow(**settings), load_catalog(), SILENT, clock), SILENT)


def test_the_budget_is_kept_over_a_long_time_and_what_it_drops_is_counted() -> None:
    hands = Hands(run_ns=1_000_000)
    with timed(Clock(hands.passing, hands.computing), rate=1.0, budget=0.02) as session:
        program, x = roots(), numbers()
        states = []
        for _ in range(200):
            state = session.dispatch(program, {"x": x}).shadow
            assert state.wait(WAIT_S)
            states.append(state.status)
            hands.now += 10_040_000
        report = session.shadow(wait_s=WAIT_S)
    assert report is not None
    # A run takes 1 ms, and each dispatch 750 ns for being counted, which 50.19 ms pay back: every fifth dispatch.
    assert states == [ShadowStatus.AGREED, *[ShadowStatus.DROPPED] * 4] * 40
    assert report.dropped == {"budget": 160} and report.agreed == 40
    assert report.spent_ns == 40 * 1_000_000 <= 0.02 * hands.now


def test_until_a_debt_is_paid_back_samples_are_refused_without_another_decision() -> None:
    asked: list[ShadowVerdict] = []

    class Sink:
        keeps = True

        def note(self, decision: Decision, /) -> None:
            if isinstance(decision.verdict, ShadowVerdict):
                asked.append(decision.verdict)

    hands, telemetry = Hands(run_ns=1_000_000), RecordingTelemetry()
    selection = BackendSelector(load_catalog(), SILENT).select("cpu")
    selection = replace(selection, services=replace(selection.services, decisions=Sink()))
    clock = Clock(hands.passing, hands.computing)
    shadow = Shadow(rate=1.0, budget=0.02)
    with Session(with_shadow(selection, shadow, load_catalog(), telemetry, clock), telemetry) as session:
        program, x = roots(), numbers()
        settled(session.dispatch(program, {"x": x}))
        states = []
        for _ in range(100):
            states.append(session.dispatch(program, {"x": x}).shadow)
            hands.now += 400_000
        report = session.shadow()
        assert report is not None and (report.sampled, report.dropped) == (101, {"budget": 100})
        # The first of them is decided, and says that nothing is admitted for 50 ms.
        assert [each.action for each in asked] == [ShadowAction.RUN, ShadowAction.OVER_BUDGET]
        assert asked[1].refused_ns == 50_000_000
        assert {each.status for each in states} == {ShadowStatus.DROPPED}
        assert {each.reason for each in states} == {"1000000 ns are owed to the budget of 0.02 of a core"}
        hands.now += 20_000_000  # what the dispatches are charged is owed as well
        settled(session.dispatch(program, {"x": x}))
    assert telemetry.counts[("vyre.shadow.dropped", (("reason", "budget"),))] == 100


def test_many_threads_lose_no_sample_that_is_refused() -> None:
    hands = Hands(run_ns=10**12)
    with timed(Clock(hands.passing, hands.computing), rate=0.5, budget=0.02) as session:
        pipeline = session.compile(roots())
        while pipeline({"x": numbers()}).shadow.status is ShadowStatus.NOT_SAMPLED:
            pass
        before = session.shadow(wait_s=WAIT_S)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: pipeline({"x": numbers()}).shadow.status, range(2_000)))
        report = session.shadow()
    assert before is not None and report is not None
    assert (before.sampled, before.agreed, before.dropped) == (1, 1, {})
    assert set(found) == {ShadowStatus.NOT_SAMPLED, ShadowStatus.DROPPED}
    assert (
        report.dropped == {"budget": found.count(ShadowStatus.DROPPED)}
        and report.sampled == 1 + report.dropped["budget"]
    )


def test_copies_on_the_threads_of_callers_are_paid_from_the_budget() -> None:
    caller = get_ident()

    class Slow(Hands):
        def passing(self) -> int:
            self.now += 500_000 * (get_ident() == caller)  # the shadow's own thread reads the clock too, at any moment
            return self.now

    hands = Slow(run_ns=0)
    with timed(Clock(hands.passing, hands.computing), rate=1.0, budget=1.0) as session:
        settled(session.dispatch(roots(), {"x": numbers()}))
        report = session.shadow()
    assert report is not None and report.spent_ns == 2 * 500_000  # of the inputs, and of the outputs
    assert report.copied_bytes == 400


class Held:
    """An executor that waits to be let go, or fails."""

    def __init__(self, inner: ProgramExecutor, act: Callable[[], object]) -> None:
        self.inner, self.act = inner, act

    def execute(self, request: DispatchRequest, outputs: OutputStorage, /) -> DispatchTiming:
        self.act()
        return self.inner.execute(request, outputs)


def checked_by(act: Callable[[], object]) -> BackendCatalog:
    """The installed backends, and a reference that calls ``act`` first."""
    catalog = load_catalog()
    base = catalog.get("reference")
    assert base is not None

    def make(services: BackendServices) -> Backend:
        made = base.make(services)
        return replace(made, id=SEEDED, executor=Held(made.executor, act), compiler=None)

    return with_backend(catalog, base, make)


def opened_with(act: Callable[[], object], telemetry: Any = None, **settings: Any) -> Session:
    shadow = Shadow(**{"rate": 1.0, "budget": None, "on": SEEDED} | settings)
    return vyre.open("cpu", catalog=checked_by(act), shadow=shadow, telemetry=telemetry)


def test_a_full_queue_drops_and_counts() -> None:
    go, began = Event(), Event()

    def act() -> None:
        began.set()
        assert go.wait(WAIT_S)

    with opened_with(act, most_waiting=2) as session:
        program = roots()
        states = [session.dispatch(program, {"x": numbers()}).shadow for _ in range(5)]
        assert [each.status for each in states[2:]] == [ShadowStatus.DROPPED] * 3
        assert "2 samples wait" in states[4].reason
        go.set()
        assert all(each.wait(WAIT_S) for each in states)
        report = session.shadow()
    assert report is not None and report.dropped == {"queue": 3} and report.agreed == 2


def test_closing_ends_what_runs_and_drops_what_waits() -> None:
    go, began = Event(), Event()

    def act() -> None:
        began.set()
        assert go.wait(WAIT_S)

    session = opened_with(act)
    program = roots()
    states = [session.dispatch(program, {"x": numbers()}).shadow for _ in range(3)]
    assert began.wait(WAIT_S)
    go.set()
    session.close()
    assert [each.is_pending for each in states] == [False] * 3
    assert states[0].status in (ShadowStatus.AGREED, ShadowStatus.DROPPED)
    dropped = [each for each in states if each.status is ShadowStatus.DROPPED]
    assert all(each.reason == "the end of the session" for each in dropped)


def test_closing_does_not_wait_for_a_run_that_does_not_end() -> None:
    never, began = Event(), Event()

    def act() -> None:
        began.set()
        never.wait(WAIT_S)

    session = opened_with(act, timeout_s=0.05)
    state = session.dispatch(roots(), {"x": numbers()}).shadow
    assert began.wait(WAIT_S)
    session.close()
    assert state.status is ShadowStatus.DROPPED and not never.is_set()
    never.set()


@pytest.mark.parametrize("error", [RuntimeError("broken"), MemoryError(), vyre.DispatchFailed("lost")])
def test_no_failure_of_the_shadow_reaches_the_caller(error: Exception) -> None:
    def act() -> None:
        raise error

    telemetry = RecordingTelemetry()
    with opened_with(act, telemetry) as session:
        result = session.dispatch(roots(), {"x": numbers()})
        assert result["y"].tobytes() == np.where(numbers() > 1, np.sqrt(numbers()), numbers()).tobytes()
        state = settled(result)
        report = session.shadow(wait_s=WAIT_S)
    assert state.status is ShadowStatus.DROPPED and type(error).__name__ in state.reason
    assert report is not None and report.dropped == {"a failure": 1}
    (event,) = [each for each in telemetry.events if each.name == "vyre.shadow.failed"]
    assert event.level == "warning" and type(error).__name__ in str(event.fields["error"])


def test_a_backend_that_cannot_be_opened_is_a_failure_of_the_shadow_only() -> None:
    catalog = load_catalog()
    base = catalog.get("reference")
    assert base is not None

    def make(services: BackendServices) -> Backend:
        raise BackendUnavailable("no room")

    with vyre.open("cpu", catalog=with_backend(catalog, base, make), shadow=Shadow(1.0, None, on=SEEDED)) as session:
        state = settled(session.dispatch(roots(), {"x": numbers()}))
    assert state.status is ShadowStatus.DROPPED and "no room" in state.reason


def test_evidence_that_cannot_be_written_leaves_the_difference(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("in the way", "utf-8")
    telemetry = RecordingTelemetry()
    with shadowed(ULP, place, telemetry=telemetry) as session:
        state = settled(session.dispatch(roots(), {"x": numbers()}))
        assert state.status is ShadowStatus.DIFFERS and state.evidence is None and state.difference is not None
    told = [each.name for each in telemetry.events if each.name.startswith("vyre.shadow.")]
    assert told == ["vyre.shadow.no_evidence", "vyre.shadow.differs"]
    assert place.read_text("utf-8") == "in the way"


def test_an_error_of_the_dispatch_is_raised_as_it_is_and_its_sample_dropped(tmp_path: Path) -> None:
    with vyre.ProgramBuilder("trapped", workgroup=64) as p:
        x = p.inout("x", vyre.u32, 1)
        p.trap(0, "always")
        x[0] = 1
    with shadowed(RIGHT, tmp_path) as session:
        with pytest.raises(vyre.TrapError):
            session.dispatch(p.build(), {"x": np.zeros(1, np.uint32)}, grid=1)
        report = session.shadow(wait_s=WAIT_S)
    assert report is not None and report.dropped == {"an error of the dispatch": 1} and report.pending == 0


def test_what_may_differ_is_skipped_by_name(tmp_path: Path) -> None:
    with vyre.ProgramBuilder("tickets", workgroup=64) as p:
        n = p.inout("n", vyre.u32, 1)
        y = p.output("y", vyre.u32, 64)
        y[p.global_id()] = n.atomic_add(0, 1)
    telemetry = RecordingTelemetry()
    with shadowed(ULP, tmp_path, telemetry=telemetry) as session:
        for _ in range(3):
            state = settled(session.dispatch(p.build(), {"n": np.zeros(1, np.uint32)}, extent=64))
            assert state.status is ShadowStatus.SKIPPED and "order of atomics" in state.reason
        config = vyre.DispatchConfig(ulp_budget=2)
        state = settled(session.dispatch(roots(), {"x": numbers()}, config))
        assert state.status is ShadowStatus.SKIPPED and "ulp_budget=2" in state.reason
        report = session.shadow()
    assert report is not None and report.skipped == 4 and not report.quarantined
    assert sorted(report.skipped_programs) == ["roots", "tickets"]
    assert report.copied_bytes == 4 + 400  # of the first of each
    assert [each.name for each in telemetry.events].count("vyre.shadow.skipped") == 2


def test_as_many_dispatches_are_sampled_as_the_rate_says_and_the_same_ones_again(tmp_path: Path) -> None:
    def sampled(seed: int) -> list[int]:
        with shadowed(RIGHT, tmp_path, rate=0.1, seed=seed, most_waiting=1000) as session:
            program, x = roots(), numbers()
            results = [session.dispatch(program, {"x": x}) for _ in range(300)]
        return [at for at, each in enumerate(results) if each.shadow.status is not ShadowStatus.NOT_SAMPLED]

    one = sampled(1)
    assert one == sampled(1) != sampled(2) and 10 < len(one) < 60


@pytest.mark.parametrize(
    "settings",
    [{"rate": 0.0}, {"rate": 2.0}, {"budget": 0.0}, {"budget": 1.5}, {"most_waiting": 0}, {"timeout_s": 0.0}],
)
def test_settings_outside_their_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        Shadow(**settings)


def test_other_things_than_settings_and_backends_that_are_no_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="shadow"):
        vyre.open("reference", shadow=0.01)  # type: ignore[arg-type]
    with pytest.raises(BackendUnavailable, match=r"`reference` cannot have its shadow on `reference`.*Shadow\(on="):
        vyre.open("reference", shadow=Shadow(on="reference"))
    reference = load_catalog().get("reference")
    assert reference is not None
    with pytest.raises(BackendUnavailable, match="no other backend than `reference`"):
        vyre.open("reference", catalog=BackendCatalog((reference,)), shadow=Shadow())


def test_a_session_off_the_processor_is_checked_on_it_and_one_on_it_on_the_reference() -> None:
    for name, checker in (("cuda-machine", "cpu"), ("reference", "cpu"), ("cpu", "reference")):
        with vyre.open(name, shadow=Shadow()) as session:
            report = session.shadow()
            assert report is not None and report.checked_on == checker


def test_the_shadow_of_a_seeded_backend_is_opened_with_its_first_sample_only() -> None:
    with vyre.open(BackendId(SEEDED), catalog=seeded(RIGHT), shadow=Shadow(rate=1e-9)) as session:
        assert session.dispatch(roots(), {"x": numbers()}).shadow.status is ShadowStatus.NOT_SAMPLED
        report = session.shadow()
    assert report is not None and report.sampled == 0 and report.spent_ns == 0


class OnlyOptimized:
    """A compiler that has no code without optimizations."""

    def __init__(self, inner: PipelineCompiler) -> None:
        self.inner = inner
        self.cache_counters, self.forget = inner.cache_counters, inner.forget

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        if not config.optimize:
            raise vyre.KernelCompileFailed(backend=SEEDED, compiler_log="too large")
        return self.inner.compile(ULP(program), config)


def test_a_program_without_other_code_runs_on_and_the_report_says_so(tmp_path: Path) -> None:
    catalog = load_catalog()
    base = catalog.get("cpu")
    assert base is not None

    def make(services: BackendServices) -> Backend:
        backend = base.make(services)
        assert backend.compiler is not None
        return replace(backend, id=SEEDED, compiler=OnlyOptimized(backend.compiler))

    shadow = Shadow(1.0, None, directory=tmp_path)
    telemetry = RecordingTelemetry()
    with vyre.open(SEEDED, catalog=with_backend(catalog, base, make), shadow=shadow, telemetry=telemetry) as session:
        first = session.dispatch(roots(), {"x": numbers()})
        assert settled(first).status is ShadowStatus.DIFFERS
        again = session.dispatch(roots(), {"x": numbers()})
        assert again["y"].tobytes() == first["y"].tobytes()
        assert "there is no other code for it" in str(session.explain())
    assert "vyre.shadow.failed" in [each.name for each in telemetry.events]


def test_a_container_opens_sessions_with_a_shadow() -> None:
    container = Container(backend_name="reference", shadow=Shadow(1.0, None))
    with container.session() as session:
        assert settled(session.dispatch(roots(), {"x": numbers()})).status is ShadowStatus.AGREED


def test_memory_within_a_budget_of_the_session_is_sampled_too(tmp_path: Path) -> None:
    shadow = Shadow(1.0, None, on="reference", directory=tmp_path)
    with (
        vyre.open(SEEDED, catalog=seeded(ULP), shadow=shadow, resident_budget=4096) as session,
        session.resident(numbers()) as held,
    ):
        assert settled(session.dispatch(roots_in_place(), {"x": held})).status is ShadowStatus.DIFFERS
        held.upload(numbers())
        assert settled(session.dispatch(roots_in_place(), {"x": held})).status is ShadowStatus.AGREED


def test_dispatches_of_many_threads_are_sampled_once_each(tmp_path: Path) -> None:
    with shadowed(RIGHT, tmp_path, most_waiting=10_000) as session:
        pipeline = session.compile(roots())
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda _: pipeline({"x": numbers()}), range(200)))
        taken = [settled(each).status for each in results]
        report = session.shadow(wait_s=WAIT_S)
    assert report is not None and report.sampled == 200 - taken.count(ShadowStatus.NOT_SAMPLED)
    assert report.agreed == taken.count(ShadowStatus.AGREED) == report.sampled > 0


def test_a_child_process_leaves_the_shadow_of_its_parent_alone(tmp_path: Path) -> None:
    with shadowed(RIGHT, tmp_path) as session:
        settled(session.dispatch(roots(), {"x": numbers()}))
        child = os.fork()
        if child == 0:
            try:
                session.dispatch(roots(), {"x": numbers()})
            except vyre.DispatchFailed:
                session.close()
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert settled(session.dispatch(roots(), {"x": numbers()})).status is ShadowStatus.AGREED
