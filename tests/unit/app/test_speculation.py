"""Speculation: what is committed and counted in both ways, what is undone, and what is refused."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import vyre
from support.fixed_points import keep_resident_arrays, keeping_session
from support.llvm import NEEDS_LLVM
from support.speculations import BAD, Case, bound
from vyre import (
    ConfirmWay,
    DispatchConfig,
    DispatchTimeout,
    InvalidInput,
    InvalidResource,
    Program,
    Session,
    SpeculationMode,
    Step,
    TrapError,
    UnsupportedFeature,
)
from vyre.adapters.cuda.machine.fault_plan import Fault, FaultPlan
from vyre.domain.errors import BackendError
from vyre.testing import cuda_machine

BACKENDS = ["reference", "reference-scalar", pytest.param("cpu", marks=NEEDS_LLVM), "cuda-machine"]
FORCE, DISABLE = SpeculationMode.FORCE, SpeculationMode.DISABLE
CASE = Case(tiles=12, width=4)
Y = np.full((12, 4), 100, np.uint32)


@pytest.fixture(scope="module", params=BACKENDS)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with keeping_session(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def reference() -> Iterator[Session]:
    with keeping_session("reference") as opened:
        yield opened


# ---------------------------------------------------------------- what is committed, and counted
def test_both_ways_commit_the_same_tiles_and_count_them(session: Session) -> None:
    x = CASE.x()
    after, passed, committed = CASE.expected(x, Y)
    assert 0 < committed.sum() < passed.sum() < 12
    confirmed = int((x[:, 0] % 2 < 1).sum())
    for mode, way, of_confirmer, worked in (
        (FORCE, ConfirmWay.EVERY, confirmed, 12),
        (DISABLE, ConfirmWay.PASSED, committed.sum(), passed.sum()),
    ):
        held = bound(session, CASE, x, Y, mode)
        result = held()
        np.testing.assert_array_equal(held.y.download(), after)
        np.testing.assert_array_equal(held.passed.download() != 0, passed)
        np.testing.assert_array_equal(held.confirmed.download(), committed)
        assert result[:5] == (12, passed.sum(), of_confirmer, committed.sum(), way)
        assert result.rolled_back == worked - committed.sum()
        held()
        np.testing.assert_array_equal(held.y.download(), CASE.expected(x, after)[0])


def test_the_session_tries_both_ways_and_records_why(reference: Session) -> None:
    journal = vyre.DecisionJournal()
    with vyre.open("reference", journal=journal) as session:
        held = bound(session, CASE, CASE.x(), Y)
        ways = [held().way.value for _ in range(7)]
        assert ways[:6] == ["passed"] * 3 + ["every"] * 3
        taken = [decision for decision in journal.decisions if decision.name == "choose_way"]
        assert [each.verdict.way.value for each in taken] == ways  # type: ignore[attr-defined]
        assert "ns for every tile" in str(taken[6].verdict.why)  # type: ignore[attr-defined]
        held.run.close()


def test_parts_and_views_of_odd_sizes() -> None:
    """The flags are views, and the commit writes bytes that are no whole words."""
    case = Case(tiles=7, width=3)
    x = case.x()
    with vyre.open("reference") as session:
        flags, whole = session.resident(np.zeros(16, np.uint32)), session.resident(np.arange(24, dtype=np.uint8))
        passed, confirmed, y = flags[1:8], flags[8:15], whole[2:23]
        found = session.temporary(vyre.u32, 21)
        prefilter, confirm, _ = case.programs()
        commit = Program.from_text("""
            workgroup_size 3, 1, 1
            buffer found @0 read u32[runtime]
            buffer y @1 read_write u8[runtime]
            body { y[gid.x] = found[gid.x] + 1u  if found[gid.x] > 200000u { trap(0u, "much") } }
            """)
        values = session.resident(x)
        run = session.speculate(
            Step(prefilter, {"x": values, "passed": passed}, extent=7),
            Step(confirm, {"x": values, "found": found, "confirmed": confirmed}),
            Step(commit, {"found": found, "y": y}),
            passed=passed,
            confirmed=confirmed,
        )
        assert run().committed == case.expected(x, Y[:7, :3])[2].sum() > 0
        expected = np.arange(24, dtype=np.uint8)
        for tile in np.flatnonzero(case.expected(x, Y[:7, :3])[2]):
            expected[2 + 3 * tile : 5 + 3 * tile] = (x[tile] * 5 + tile + 2).astype(np.uint8)
        np.testing.assert_array_equal(whole.download(), expected)
        x[int(np.flatnonzero(case.expected(x, Y[:7, :3])[2])[-1]), 2] = 60_000
        values.upload(x)
        with pytest.raises(TrapError, match="much"):
            run()
        np.testing.assert_array_equal(whole.download(), expected)
        run.close()


# ---------------------------------------------------------------- what is undone
@pytest.mark.parametrize("role", ["prefilter", "confirm", "commit"])
def test_after_a_trap_the_arrays_of_the_commit_are_as_before(session: Session, role: str) -> None:
    case = CASE._replace(trap=role, pass_modulus=1, confirm_modulus=1)
    x = case.x() & 0xFFF
    held = bound(session, case, x, Y, DISABLE)
    x[11, 0] = BAD
    held.x.upload(x)
    with pytest.raises(TrapError, match=role) as found:
        held()
    assert ("undone" in str(getattr(found.value, "__notes__", ()))) == (role == "commit")
    np.testing.assert_array_equal(held.y.download(), Y)
    x[11, 0] = 6
    held.x.upload(x)
    assert held().committed == 12
    np.testing.assert_array_equal(held.y.download(), case.expected(x, Y)[0])


def test_a_confirmer_that_traps_never_sees_a_tile_that_did_not_pass(session: Session) -> None:
    case = CASE._replace(trap="confirm")
    x = case.x()
    x[5, :2] = 1, BAD  # which does not pass
    held = bound(session, case, x, Y)
    result = held()
    assert (result.way, result.why) == (ConfirmWay.PASSED, "the confirmer could fail on a tile that did not pass")
    np.testing.assert_array_equal(held.y.download(), case.expected(x, Y)[0])
    with pytest.raises(InvalidInput, match="could fail there"):
        bound(session, case, x, Y, FORCE)


@NEEDS_LLVM
def test_an_interrupt_comes_when_the_commit_has_ended() -> None:
    prefilter, confirm, _ = CASE.programs()
    commit = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer found @0 read u32[runtime]
        buffer y @1 read_write u32[runtime]
        body {
          let a = found[gid.x]
          for k in 0u..100000000u { a := (a * 1664525u + 1013904223u) ^ (a >> 7u) }
          y[gid.x] = y[gid.x] + 1u + (a & 1u)
        }
        """)
    with keeping_session("cpu", threads=1) as session:
        values, y = np.zeros((2, 4), np.uint32), np.full((2, 4), 100, np.uint32)
        x, target, passed, confirmed = map(session.resident, (values, y, *np.zeros((2, 2), np.uint32)))
        found = session.temporary(vyre.u32, 8)
        run = session.speculate(
            Step(prefilter, {"x": x, "passed": passed}, extent=2),
            Step(confirm, {"x": x, "found": found, "confirmed": confirmed}),
            Step(commit, {"found": found, "y": target}),
            passed=passed,
            confirmed=confirmed,
        )
        began = run._commit

        def interrupted() -> Any:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            return began()

        def raises(*_: object) -> None:
            raise KeyboardInterrupt

        run._commit = interrupted  # type: ignore[assignment]
        old = signal.signal(signal.SIGALRM, raises)
        try:
            with pytest.raises(KeyboardInterrupt):
                run()
        finally:
            signal.signal(signal.SIGALRM, old)
        run._commit = began
        assert set(target.download().ravel().tolist()) <= {101, 102}
        run.close()


@NEEDS_LLVM
def test_after_a_timeout_of_the_confirmer_the_arrays_of_the_commit_are_as_before() -> None:
    prefilter, _, commit = CASE.programs()
    confirm = Program.from_text("""
        workgroup_size 4, 1, 1
        buffer x @0 read u32[runtime]
        buffer found @1 read_write u32[runtime]
        buffer confirmed @2 read_write u32[runtime]
        body {
          let a = 1u
          for k in 0u..x[gid.x] { a := (a * 1664525u + 1013904223u) ^ (a >> 7u) }
          found[gid.x] = a
          if lid.x == 0u { confirmed[wid.x] = 1u }
        }
        """)
    with keeping_session("cpu", threads=1) as session:
        values = np.zeros((12, 4), np.uint32)
        values[11, 3] = 1 << 27
        x, y, passed, confirmed = map(session.resident, (values, Y, *np.zeros((2, 12), np.uint32)))
        found = session.temporary(vyre.u32, 48)
        run = session.speculate(
            Step(prefilter, {"x": x, "passed": passed}, extent=12),
            Step(confirm, {"x": x, "found": found, "confirmed": confirmed}, DispatchConfig(timeout_s=0.05)),
            Step(commit, {"x": x, "found": found, "y": y}),
            passed=passed,
            confirmed=confirmed,
        )
        with pytest.raises(DispatchTimeout):
            run()
        np.testing.assert_array_equal(y.download(), Y)
        x.upload(np.zeros_like(values))
        assert run().committed == 12
        np.testing.assert_array_equal(y.download(), Y + 2)
        run.close()


def test_where_the_device_is_lost_the_error_says_that_nothing_was_undone() -> None:
    machine = cuda_machine()
    with pytest.MonkeyPatch.context() as patch, machine.open() as session:
        keep_resident_arrays(patch)
        held = bound(session, CASE, CASE.x(), Y)
        commit = held.run._commit

        def lost() -> Any:
            machine.driver.inject(FaultPlan(calls=(Fault(code=700, nth=2),)))
            return commit()

        held.run._commit = lost  # type: ignore[assignment]
        with pytest.raises(BackendError, match="Fix: ") as found:
            held()
        assert "could not be undone" in str(found.value.__notes__)
        session.recover()


# ---------------------------------------------------------------- what is refused
X = CASE.x()
Change = Callable[[Session, dict[str, Any]], dict[str, Any]]


def bound_to(role: str, name: str, make: Callable[[Session], Any]) -> Change:
    def change(session: Session, given: dict[str, Any]) -> dict[str, Any]:
        step = given[role]
        return given | {role: replace(step, inputs=dict(step.inputs) | {name: make(session)})}

    return change


def with_(role: str, **fields: Any) -> Change:
    return lambda _, given: given | {role: replace(given[role], **fields)}


def resident(count: int) -> Callable[[Session], Any]:
    return lambda session: session.resident(np.zeros(count, np.uint32))


ZEROED = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[runtime] like x
    body { y[gid.x] = x[gid.x] }
    """
ACROSS = """
    workgroup_size 4, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 read_write u32[runtime]
    body { y[gid.x] = x[gid.x] barrier(grid_sync) y[gid.x] = y[gid.x] + y[0u] }
    """
STRAY = """
    workgroup_size 4, 1, 1
    buffer found @0 read_write u32[runtime]
    buffer confirmed @1 read_write u32[runtime]
    body { found[atomic_add(confirmed, wid.x, 1u)] = 1u }
    """
REFUSED: dict[str, tuple[Change, str]] = {
    "no array": (lambda _, given: given | {"passed": X}, "not a resident array"),
    "flags that are no u32": (
        lambda session, given: given | {"passed": session.resident(np.zeros(12, np.float32))}, "passed is",
    ),
    "temporary flags": (lambda session, given: given | {"passed": session.temporary(vyre.u32, 12)}, "passed is"),
    "no tiles": (lambda session, given: given | {"confirmed": session.resident(np.zeros(0, np.uint32))}, "confirmed"),
    "another number": (lambda session, given: given | {"confirmed": resident(11)(session)}, "one element for each"),
    "the same flags": (lambda _, given: given | {"confirmed": given["passed"]}, "two arrays"),
    "no step": (lambda _, given: given | {"commit": 5}, "commit"),
    "a prefilter of other flags": (bound_to("prefilter", "passed", resident(12)), "the prefilter does not write"),
    "a confirmer of other flags": (bound_to("confirm", "confirmed", resident(12)), "the confirmer does not write"),
    "results that stay": (bound_to("confirm", "found", resident(48)), "lasts longer than the run"),
    "no whole parts": (
        bound_to("confirm", "found", lambda session: session.temporary(vyre.u32, 49)), "no whole parts for 12 tiles",
    ),
    "a temporary result": (
        bound_to("commit", "y", lambda session: session.temporary(vyre.u32, 48)), "temporary or written before it",
    ),
    "a commit that is zeroed": (with_("commit", program=Program.from_text(ZEROED)), "sets to zero for all tiles"),
    "a timeout of the commit": (with_("commit", config=DispatchConfig(timeout_s=1.0)), "has a timeout"),
    "another order": (with_("commit", after=(Step(CASE.programs()[0]),)), "commit is to run after other steps"),
    "another grid": (with_("confirm", grid=7), "7 workgroups along x for 12 tiles"),
    "a grid in memory": (
        lambda session, given: with_("commit", grid=vyre.Indirect(resident(3)(session), 1))(session, given),
        "found in memory",
    ),
    "a barrier of the grid": (with_("commit", program=Program.from_text(ACROSS)), "a barrier of the grid"),
    "an index of an atomic": (with_("confirm", program=Program.from_text(STRAY)), "an atomic returns an index"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_together_is_refused(reference: Session, name: str) -> None:
    prefilter, confirm, commit = CASE.programs()
    flags = np.zeros(12, np.uint32)
    x, y, passed, confirmed = map(reference.resident, (X, Y, flags, flags))
    found = reference.temporary(vyre.u32, 48)
    given: dict[str, Any] = {
        "prefilter": Step(prefilter, {"x": x, "passed": passed}, extent=12),
        "confirm": Step(confirm, {"x": x, "found": found, "confirmed": confirmed}),
        "commit": Step(commit, {"x": x, "found": found, "y": y}),
        "passed": passed,
        "confirmed": confirmed,
    }
    change, message = REFUSED[name]
    if name == "an index of an atomic":
        given["confirm"] = replace(given["confirm"], inputs={"found": found, "confirmed": confirmed})
    if "zeroed" in name or "barrier" in name:
        given["commit"] = replace(given["commit"], inputs={"x": x, "y": y})
    with pytest.raises(InvalidInput, match=message) as error:
        reference.speculate(**change(reference, given))
    assert "Fix: " in str(error.value)


def test_the_commit_writes_nothing_that_others_write(reference: Session) -> None:
    held = bound(reference, CASE, X, Y)
    prefilter, confirm, commit = CASE.programs()
    found = reference.temporary(vyre.u32, 48)
    with pytest.raises(InvalidInput, match="written before it"):
        reference.speculate(
            Step(prefilter, {"x": held.x, "passed": held.passed}, extent=12),
            Step(confirm, {"x": held.x, "found": found, "confirmed": held.confirmed}),
            Step(commit, {"x": held.x, "found": found, "y": held.confirmed}),
            passed=held.passed,
            confirmed=held.confirmed,
        )


def test_closed_memory_is_refused_and_changes_nothing() -> None:
    with vyre.open("reference") as session:
        held = bound(session, CASE, X, Y)
        held.x.close()
        with pytest.raises(InvalidResource):
            held()
        np.testing.assert_array_equal(held.y.download(), Y)
        other = bound(session, CASE, X, Y)
        other.run.close()
        other.run.close()
        with pytest.raises(InvalidResource):
            other()
    with pytest.raises(InvalidResource):
        held()


def test_a_dispatch_by_itself_says_what_forces_it(reference: Session) -> None:
    commit = Program.from_text(ZEROED)
    with pytest.raises(UnsupportedFeature, match=r"session\.speculate"):
        reference.dispatch(commit, {"x": X}, DispatchConfig(speculation=FORCE))
