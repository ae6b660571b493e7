"""Work on device memory: each way to run it is sampled, its wrong step is named, and right code runs afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vyre
from support.shadowed_programs import ULP, WAIT_S, histogram, numbers, roots, roots_in_place, settled, shadowed
from vyre import ShadowStatus, Step
from vyre.app.evidence.bundle import read_evidence
from vyre.domain.ir.program import Program

BASES = ["cpu", "reference", "cuda-machine"]


def right(x: Any) -> Any:
    return np.where(x > 1, np.sqrt(x), x)


def doubled() -> Program:
    with vyre.ProgramBuilder("doubled", workgroup=64) as p:
        x = p.inout("x", vyre.f32)
        i = p.global_id()
        with p.if_(i < x.length):
            x[i] = x[i] + x[i]
    return p.build()


def found_in(session: vyre.Session) -> Any:
    """The difference of the one program in quarantine."""
    report = session.shadow(wait_s=WAIT_S)
    assert report is not None
    (entry,) = report.quarantined
    assert "gives the right bytes" in entry.fallback, entry
    return entry.difference


@pytest.mark.parametrize("base", BASES)
def test_a_dispatch_on_resident_memory(base: str, tmp_path: Path) -> None:
    x = numbers(above=5)
    with shadowed(ULP, tmp_path, base) as session, session.resident(x) as held:
        program = roots_in_place()
        state = settled(session.dispatch(program, {"x": held}))
        assert state.status is ShadowStatus.DIFFERS and state.difference is not None
        assert state.difference[:4] == (0, "x", 5, 20)
        assert state.evidence is not None
        assert read_evidence(state.evidence).files["inputs/0.bin"] == x.tobytes()
        held.upload(x)
        assert settled(session.dispatch(program, {"x": held})).status is ShadowStatus.AGREED
        assert held.download().tobytes() == right(x).tobytes()
        assert session.dispatch(program, {"x": x})["x"].tobytes() == right(x).tobytes()


@pytest.mark.parametrize("base", BASES)
def test_a_launch_that_is_bound_once(base: str, tmp_path: Path) -> None:
    x = numbers(above=5)
    with (
        shadowed(ULP, tmp_path, base) as session,
        session.resident(x) as held,
        session.bind_resident(roots_in_place(), {"x": held}) as launch,
    ):
        launch()
        assert found_in(session)[:4] == (0, "x", 5, 20)
        held.upload(x)
        launch()
        assert held.download().tobytes() == right(x).tobytes()
        report = session.shadow(wait_s=WAIT_S)
        assert report is not None and (report.sampled, report.agreed, report.differs) == (2, 1, 1)


def run_sequence(session: vyre.Session, steps: list[Step], modes: Any) -> Callable[[], Any]:
    graph = session.sequence(steps, modes=modes)
    return lambda: graph(rounds=2)


@pytest.mark.parametrize(
    ("base", "modes"),
    [
        *((base, modes) for base in BASES for modes in (None, {"plain": True})),
        ("cpu", {"persistent": True}),
        ("cuda-machine", {"graph": True}),
    ],
)
def test_a_sequence_names_the_step_that_is_wrong(base: str, modes: Any, tmp_path: Path) -> None:
    x = numbers(above=5)
    expected = x
    for _ in range(2):
        expected = right(expected + expected)
    with shadowed(ULP, tmp_path, base) as session, session.resident(x) as held:
        steps = [Step(doubled(), {"x": held}), Step(roots_in_place(), {"x": held})]
        run = run_sequence(session, steps, modes)
        first = run()
        session.shadow(wait_s=WAIT_S)
        assert found_in(session)[:4] == (0, "x", 5, 20)
        if modes != {"plain": True}:  # there every launch is sampled by itself
            assert settled(first).status is ShadowStatus.DIFFERS
        held.upload(x)
        run()
        assert held.download().tobytes() == expected.tobytes()


def test_a_part_of_an_allocation_and_an_output_that_is_bound(tmp_path: Path) -> None:
    x = numbers(above=5)
    with (
        shadowed(ULP, tmp_path) as session,
        session.resident(np.concatenate([x, x])) as held,
        session.resident(np.zeros(100, np.float32)) as y,
    ):
        session.dispatch(roots(), {"x": held[100:], "y": y})
        assert found_in(session)[:4] == (1, "y", 5, 20)
        session.dispatch(roots(), {"x": held[100:], "y": y})
        assert y.download().tobytes() == right(x).tobytes()


def test_a_fixed_point(tmp_path: Path) -> None:
    with vyre.ProgramBuilder("shrink", workgroup=64) as p:
        x = p.inout("x", vyre.f32)
        changed = p.inout("changed", vyre.u32)
        i = p.global_id()
        with p.if_((i < x.length) & (x[i] > 2.0)):
            x[i] = vyre.sqrt(x[i])
            changed[0] = 1
    shrink = p.build()
    expected = numbers(above=5)
    while (expected > 2).any():
        expected = np.where(expected > 2, np.sqrt(expected), expected)
    with (
        shadowed(ULP, tmp_path) as session,
        session.resident(numbers(above=5)) as held,
        session.resident(np.zeros(1, np.uint32)) as flag,
    ):
        loop = session.fixpoint([Step(shrink, {"x": held, "changed": flag})], changed=flag, limit=20)
        assert settled(loop()).status is ShadowStatus.DIFFERS
        assert found_in(session)[:2] == (0, "x")
        held.upload(numbers(above=5))
        result = loop()
        assert result.converged and held.download().tobytes() == expected.tobytes()
        assert settled(result).status is ShadowStatus.AGREED


def test_submitted_resident_work(tmp_path: Path) -> None:
    x = numbers(above=5)
    with shadowed(ULP, tmp_path) as session, session.resident(x) as held:
        assert settled(session.submit(roots_in_place(), {"x": held}).result(WAIT_S)).status is ShadowStatus.DIFFERS
        held.upload(x)
        session.submit(roots_in_place(), {"x": held}).result(WAIT_S)
        assert held.download().tobytes() == right(x).tobytes()


def test_memory_of_more_bytes_than_may_be_copied_is_dropped_and_counted(tmp_path: Path) -> None:
    with shadowed(ULP, tmp_path, most_bytes=399) as session, session.resident(numbers()) as held:
        state = session.dispatch(roots_in_place(), {"x": held}).shadow
        assert state.status is ShadowStatus.DROPPED and "400 bytes would be copied" in state.reason
        report = session.shadow()
    assert report is not None and report.dropped == {"size": 1} and report.copied_bytes == 0


def test_an_order_sensitive_program_is_skipped_in_a_sequence_too(tmp_path: Path) -> None:
    with vyre.ProgramBuilder("tickets", workgroup=64) as p:
        n = p.inout("n", vyre.u32)
        y = p.output("y", vyre.u32, 64)
        y[p.global_id()] = n.atomic_add(0, 1)
    tickets = p.build()
    with (
        shadowed(ULP, tmp_path) as session,
        session.resident(np.zeros(1, np.uint32)) as number,
        session.resident(np.zeros(64, np.uint32)) as taken,
    ):
        graph = session.sequence([Step(tickets, {"n": number, "y": taken}, extent=64)])
        assert settled(graph()).status is ShadowStatus.SKIPPED
        assert settled(graph()).status is ShadowStatus.SKIPPED
        report = session.shadow()
    assert report is not None and report.skipped == 2
    assert report.skipped_programs == {"tickets": "its results depend on the order of atomics"}


def test_a_histogram_on_resident_memory_agrees(tmp_path: Path) -> None:
    x = np.arange(100, dtype=np.uint32)
    with (
        shadowed(ULP, tmp_path) as session,
        session.resident(x) as held,
        session.resident(np.zeros(4, np.uint32)) as counts,
    ):
        result = session.dispatch(histogram(), {"x": held, "counts": counts})
        assert settled(result).status is ShadowStatus.AGREED
        assert counts.download().tolist() == [25] * 4
