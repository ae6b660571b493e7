"""Sampled dispatches: a wrong backend is found, named at the right place, and its programs run other code."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.seeded_backends import SEEDED, with_backend
from support.shadowed_programs import (
    LOST_UPDATE,
    RIGHT,
    ULP,
    WAIT_S,
    histogram,
    numbers,
    roots,
    roots_in_place,
    settled,
    shadowed,
)
from vyre import Shadow, ShadowStatus
from vyre.adapters.discovery import load_catalog
from vyre.app.dialects.lowered import LoweredProgram
from vyre.app.evidence.bundle import read_evidence
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.ir.program import Program
from vyre.domain.validation.validator import without_calls
from vyre.ports.backend import Backend, BackendServices
from vyre.ports.execution import CacheCounters, CompileResult, PipelineCompiler
from vyre.testing.recording_telemetry import RecordingTelemetry


@pytest.mark.parametrize("base", ["cpu", "reference", "cuda-machine"])
def test_an_operation_that_is_an_ulp_off_is_named_and_its_program_runs_right_code_afterwards(
    base: str, tmp_path: Path
) -> None:
    telemetry = RecordingTelemetry()
    x = numbers(above=7)
    expected = np.where(x > 1, np.sqrt(x), x)
    program = roots()
    with shadowed(ULP, tmp_path, base, telemetry) as session:
        first = session.dispatch(program, {"x": x})
        state = settled(first)
        assert state.status is ShadowStatus.DIFFERS
        found = state.difference
        assert found is not None
        assert (found.slot, found.buffer, found.element, found.byte) == (1, "y", 7, 28)
        assert int(found.expected, 16) == expected[7].view(np.uint32) == int(found.found, 16) - 1
        assert (first["y"] != expected).any()

        second = session.dispatch(program, {"x": x})
        assert second["y"].tobytes() == expected.tobytes()
        assert settled(second).status is ShadowStatus.AGREED
        assert session.dispatch(program, {"x": x}, extent=100)["y"].tobytes() == expected.tobytes()
        assert "`y`[7] (slot 1, byte 28)" in str(session.explain())
        assert "code without optimizations now, which gives the right bytes" in str(session.explain())
        assert "in quarantine: `roots`: `y`[7] (slot 1, byte 28)" in str(session.explain(program))
        assert "quarantine" not in str(session.explain(histogram()))
    (event,) = [each for each in telemetry.events if each.name == "vyre.shadow.differs"]
    assert event.level == "error" and event.fields["element"] == 7 and event.fields["backend"] == "seeded"


def test_a_lost_update_is_found(tmp_path: Path) -> None:
    x = np.arange(103, dtype=np.uint32)
    with shadowed(LOST_UPDATE, tmp_path) as session:
        program = histogram()
        found = settled(session.dispatch(program, {"x": x})).difference
        assert found is not None and (found.slot, found.buffer, found.element, found.byte) == (1, "counts", 0, 0)
        assert (int(found.expected, 16), int(found.found, 16)) == (26, 1)
        assert session.dispatch(program, {"x": x})["counts"].tolist() == [26, 26, 26, 25]


def test_what_was_updated_in_place_is_compared_with_what_it_was_before(tmp_path: Path) -> None:
    with shadowed(ULP, tmp_path) as session:
        x = numbers(above=9)
        before = x.copy()
        found = settled(session.dispatch(roots_in_place(), {"x": x}, out={"x": x}))
        assert found.difference is not None and found.difference.element == 9
        assert found.evidence is not None
        assert read_evidence(found.evidence).files["inputs/0.bin"] == before.tobytes()


def test_the_evidence_is_a_bundle_that_can_be_replayed(tmp_path: Path) -> None:
    x = numbers()
    with shadowed(ULP, tmp_path) as session:
        result = session.dispatch(roots(), {"x": x}, extent=100)
        state = settled(result)
    assert state.evidence is not None and state.evidence.parent == tmp_path
    bundle = read_evidence(state.evidence)
    run, device = bundle.run, bundle.evidence.device
    assert bundle.program.digest == roots().digest and bundle.config == DispatchConfig(extent=100)
    assert device is not None and device.backend == run.got.by == "seeded"
    assert run.expected is not None and run.expected.by == "reference"
    assert [each.policy for each in bundle.decisions] == ["admit_sample"]
    assert bundle.bytes_of(run.inputs[0]) == x.tobytes()
    assert bundle.bytes_of(run.got.slots[0]) == result["y"].tobytes()
    assert bundle.bytes_of(run.expected.slots[0]) == np.where(x > 1, np.sqrt(x), x).tobytes()
    found = vyre.replay_evidence(state.evidence, "reference")
    assert (found.ok, found.as_recorded) == (True, False)


def test_code_that_is_wrong_without_optimizations_too_is_called_so(tmp_path: Path) -> None:
    with shadowed(ULP, tmp_path, always=True) as session:
        program = roots()
        assert settled(session.dispatch(program, {"x": numbers()})).status is ShadowStatus.DIFFERS
        assert settled(session.dispatch(program, {"x": numbers()})).status is ShadowStatus.DIFFERS
        report = session.shadow()
    assert report is not None and len(report.quarantined) == 1 and report.differs == 2
    assert "differs from the shadow for these inputs, too" in report.quarantined[0].fallback


def test_a_right_backend_agrees_and_counts(tmp_path: Path) -> None:
    with shadowed(RIGHT, tmp_path) as session:
        pipeline = session.compile(roots())
        bound = session.bind(pipeline.program, {"x": numbers()})
        results = [bound(), pipeline({"x": numbers()}), session.dispatch(pipeline.program, {"x": numbers()})]
        assert [settled(each).status for each in results] == [ShadowStatus.AGREED] * 3
        report = session.shadow(wait_s=WAIT_S)
    assert report is not None
    assert (report.sampled, report.agreed, report.pending, report.copied_bytes) == (3, 3, 0, 3 * 400)
    assert report.spent_ns > 0 and not report.dropped and not report.quarantined
    assert not list(tmp_path.iterdir())


def test_without_a_shadow_nothing_is_sampled() -> None:
    with vyre.open("reference") as session:
        result = session.dispatch(roots(), {"x": numbers()})
        assert result.shadow.status is ShadowStatus.NOT_SAMPLED
        assert session.shadow() is None


class Stale:
    """A compiler that takes two programs of one name for the same."""

    def __init__(self, inner: PipelineCompiler) -> None:
        self.inner = inner
        self.made: dict[str, tuple[bytes, CompileResult]] = {}

    def compile(self, program: Program, config: DispatchConfig, /) -> CompileResult:
        if program.name not in self.made:
            self.made[program.name or ""] = program.digest, self.inner.compile(program, config)
        return self.made[program.name or ""][1]

    def cache_counters(self) -> CacheCounters:
        return self.inner.cache_counters()

    def forget(self, programs: Collection[bytes] | None, /) -> int:
        self.made.clear()
        return self.inner.forget(programs)


def test_code_of_another_program_out_of_a_cache_is_found_and_forgotten(tmp_path: Path) -> None:
    catalog = load_catalog()
    base = catalog.get("cpu")
    assert base is not None

    def make(services: BackendServices) -> Backend:
        backend = base.make(services)
        assert backend.compiler is not None
        return replace(backend, id=SEEDED, compiler=Stale(backend.compiler))

    with vyre.open(
        SEEDED, catalog=with_backend(catalog, base, make), shadow=Shadow(1.0, None, directory=tmp_path)
    ) as session:
        x = numbers(above=3)
        tripled = [scaled(3.0), scaled(4.0)]
        assert settled(session.dispatch(tripled[0], {"x": x})).status is ShadowStatus.AGREED
        found = settled(session.dispatch(tripled[1], {"x": x}))
        assert found.difference is not None and found.difference[:4] == (1, "y", 0, 2)
        again = session.dispatch(tripled[1], {"x": x})
        assert again["y"].tobytes() == (x * np.float32(4)).tobytes()
        assert settled(again).status is ShadowStatus.AGREED


def scaled(by: float) -> Program:
    with vyre.ProgramBuilder("scaled", workgroup=64) as p:
        x = p.input("x", vyre.f32)
        y = p.output("y", vyre.f32, like=x)
        i = p.global_id()
        with p.if_(i < x.length):
            y[i] = x[i] * by
    return p.build()


def test_values_that_are_no_numbers_and_signs_of_zeros_are_compared_bit_for_bit(tmp_path: Path) -> None:
    def other_zero(program: Program) -> Program:
        return scaled(-0.0) if program.name == "scaled" else program

    with shadowed(other_zero, tmp_path) as session:
        state = settled(session.dispatch(scaled(0.0), {"x": np.ones(5, np.float32)}))
        assert state.difference is not None and state.difference[2:] == (0, 3, "00000000", "80000000")


CALLS = """workgroup_size 64, 1, 1
buffer y @0 read_write f32[runtime]
define acme.square version 1.2.0 (a: f32) -> f32 {
  result a * a
}
body {
  let i = gid.x
  y[i] = acme.square(y[i])
}
"""


def test_a_wrong_lowering_is_compared_with_the_definition_and_left_out_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program.from_text(CALLS)
    wrong = Program.from_text(CALLS.replace("a * a", "a + a"))
    lowered = LoweredProgram(without_calls(wrong), ())
    x = np.arange(64, dtype=np.float32) + 2
    with vyre.open("cpu", shadow=Shadow(1.0, None, directory=tmp_path)) as session:
        monkeypatch.setattr(session, "_lowered", lambda program, config: lowered)
        state = settled(session.dispatch(program, {"y": x}))
        assert state.difference is not None and state.difference[1:3] == ("y", 1)  # 2 + 2 is 2 * 2
        assert state.evidence is not None
        assert read_evidence(state.evidence).program.digest == without_calls(program).digest != lowered.program.digest
        again = session.dispatch(program, {"y": x})
        assert again["y"].tobytes() == (x * x).tobytes()
        assert settled(again).status is ShadowStatus.AGREED
