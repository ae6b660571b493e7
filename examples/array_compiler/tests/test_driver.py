"""Tests of the compiler's use of vyre: memory, plans, caches, tuning, bundles, metrics, adapters and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from dependency_injector import providers
from random_expressions import Array

import vyre
from array_compiler import Executable, RunError
from array_compiler.__main__ import main
from vyre.container import Container
from vyre.ports import Artifact, ArtifactKey, ArtifactStore, BackendCatalog, StoredEntry, StoreStats
from vyre.testing import Fault, FaultPlan, RecordingTelemetry, cuda_machine, failing, load_catalog, registration_of

HEAT: Final = """in x: f32[8, 8]
state heat: f32[8, 8]
let around = shift(heat, 1, 0) + shift(heat, -1, 0) + shift(heat, 0, 1) + shift(heat, 0, -1)
next heat = heat + (around - heat * 4.0) * 0.25 + x
out warmest = greatest(heat)
out coldest = least(heat, 1)
"""
SUMS: Final = """in k: i32[64]
state total: i32[64]
let odd = k * 2 + 1
out bins = histogram(odd & 7, 8)
next total = total + odd
"""
X: Final = np.eye(8, dtype=np.float32)
K: Final = np.arange(64, dtype=np.int32)


def heat_after(steps: int) -> Array:
    heat: Array = np.zeros((8, 8), np.float32)
    for _ in range(steps):
        wide = np.pad(heat, 1)
        around = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]
        heat = heat + (around - heat * np.float32(4)) * np.float32(0.25) + X
    return heat


# ---------------------------------------------------------------- memory and plans
def test_only_what_is_asked_for_crosses_between_host_and_device() -> None:
    telemetry = vyre.PrometheusTelemetry()
    with vyre.open("cpu", telemetry=telemetry) as session, Executable(session, HEAT) as compiled:
        compiled.run({"x": X}, steps=10)
        before = Counter(session.metrics())
        result = compiled.run({"x": X}, steps=90)
        after = Counter(session.metrics())
        page = session.metrics_text()
        assert compiled.last_run is not None and compiled.last_run.kernels == 90 * len(compiled.kernels)
    assert np.array_equal(result["heat"], heat_after(100))
    assert after["uploaded_bytes"] - before["uploaded_bytes"] == X.nbytes
    assert after["downloaded_bytes"] - before["downloaded_bytes"] == 4 * (1 + 8 + 64)
    assert after["resident_allocations"] == before["resident_allocations"]
    assert 'vyre_dispatches_total{backend="cpu",program="(sequence)",way="resident"} 2' in page


def test_what_vyre_did_can_be_logged() -> None:
    telemetry = RecordingTelemetry()
    with vyre.open("cuda-machine", telemetry=telemetry) as session, Executable(session, HEAT) as compiled:
        compiled.run({"x": X})
        plan = str(compiled.last_run and compiled.last_run.plan)
    events = Counter(event.name for event in telemetry.events)
    assert events["vyre.pipeline.prepared"] == len(compiled.kernels)
    assert all(f"{kernel.program.name}: " in plan for kernel in compiled.kernels), plan


# ---------------------------------------------------------------- code that is kept
@pytest.mark.parametrize("backend", ["cpu", "cuda-machine"])
def test_the_disk_cache_serves_the_next_process(backend: str, tmp_path: Path) -> None:
    for is_kept in (False, True):
        with vyre.open(backend, cache=tmp_path) as session, Executable(session, HEAT) as compiled:
            result = compiled.run({"x": X}, steps=3)
            assert session.metrics()["emits"] == (0 if is_kept else len(compiled.kernels))
        assert np.array_equal(result["heat"], heat_after(3))


def test_a_bundle_runs_without_compiling(tmp_path: Path) -> None:
    with vyre.open("cpu", cache=False) as session, Executable(session, HEAT) as compiled:
        written = compiled.write_bundle(tmp_path / "heat.vyrz")
    bundle = vyre.load_bundle(written.path, expect=written.digest)
    with vyre.open("cpu", cache=False) as session, Executable(session, HEAT, bundle=bundle) as compiled:
        result = compiled.run({"x": X}, steps=20)
        assert session.metrics()["compiles"] == session.metrics()["emits"] == 0
    assert np.array_equal(result["heat"], heat_after(20))


def test_tuning_changes_no_bit_and_is_remembered(tmp_path: Path) -> None:
    for source in (vyre.TuningSource.RUN, vyre.TuningSource.STORE):
        with vyre.open("reference", cache=tmp_path) as session, Executable(session, HEAT) as compiled:
            assert [report.source for report in compiled.tune()] == [source] * len(compiled.kernels)
            assert np.array_equal(compiled.run({"x": X}, steps=4)["heat"], heat_after(4))


# ---------------------------------------------------------------- adapters of an application
class Shelf(ArtifactStore):
    """A store of compiled code of one's own: a dictionary that outlives sessions."""

    def __init__(self) -> None:
        self.code = dict[ArtifactKey, Artifact]()
        self.counts = Counter[str]()

    def get(self, key: ArtifactKey, /) -> Artifact | None:
        self.counts["hits" if key in self.code else "misses"] += 1
        return self.code.get(key)

    def put(self, key: ArtifactKey, artifact: Artifact, /) -> bool:
        self.code[key] = artifact
        return True

    def neighbours(self, key: ArtifactKey, /) -> Sequence[ArtifactKey]:
        return ()

    def entries(self) -> Iterator[StoredEntry]:
        return (StoredEntry(key, len(artifact.code)) for key, artifact in self.code.items())

    def remove(self, key: ArtifactKey, /) -> bool:
        return self.code.pop(key, None) is not None

    def stats(self) -> StoreStats:
        return StoreStats(len(self.code), 0, hits=self.counts["hits"], misses=self.counts["misses"], puts=0)

    def close(self) -> None:
        """Does nothing: the dictionary outlives the session."""


def test_the_command_runs_on_adapters_of_the_application(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "heat.arr").write_text(HEAT)
    np.save(tmp_path / "x.npy", X)
    shelf, telemetry = Shelf(), RecordingTelemetry()
    container = Container(
        backend_name="cuda-machine",
        artifact_store=providers.Object(shelf),
        telemetry=providers.Object(telemetry),
    )
    arguments = [str(tmp_path / "heat.arr"), "--in", f"x={tmp_path / 'x.npy'}", "--steps", "5", "--metrics"]
    assert main(arguments, container) == 0
    first = capsys.readouterr().out
    assert f"warmest =\n{heat_after(4).max()}" in first and "vyre_backend_emits" in first
    assert shelf.code and not shelf.counts["hits"]
    assert main(arguments, container) == 0
    assert shelf.counts["hits"] >= 4
    assert {"vyre.session.opened", "vyre.session.closed"} <= {event.name for event in telemetry.events}


def test_the_command_prints_errors_with_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wrong.arr").write_text("in x: f32[4]\nout y = x + z\n")
    assert main([str(tmp_path / "wrong.arr")], Container(backend_name="reference", cache=False)) == 1
    printed = capsys.readouterr().err
    assert printed == "wrong.arr:2:13: `z` is not defined above\n    out y = x + z\n                ^\n"


# ---------------------------------------------------------------- failures
@pytest.mark.parametrize(
    ("allocation", "line"), [(1, 1), (2, 4), (3, 2)], ids=["an input", "an output of a kernel", "a state"]
)
def test_out_of_memory_names_the_array_and_a_later_run_works(allocation: int, line: int) -> None:
    machine = cuda_machine()
    with machine.open() as session, Executable(session, SUMS) as compiled:
        twice = (allocation, allocation + 1)  # vyre frees what it can, and tries once more
        plan = FaultPlan(calls=tuple(Fault(method="mem_alloc_async", code=2, nth=nth) for nth in twice))
        machine.driver.inject(plan)
        with pytest.raises(RunError, match="DeviceOutOfMemory: device memory exhausted") as caught:
            compiled.run({"k": K})
        plan.assert_fired()
        assert isinstance(caught.value.__cause__, vyre.DeviceOutOfMemory)
        assert caught.value.place.line == line
        assert np.array_equal(compiled.run({"k": K}, steps=2)["total"], 2 * (2 * K + 1))


def test_a_lost_device_names_the_lines_that_ran_and_comes_back() -> None:
    machine = cuda_machine()
    with machine.open() as session, Executable(session, SUMS) as compiled:
        compiled.run({"k": K}, steps=3)
        plan = FaultPlan(runs=(Fault(method="launch", code=700),))
        machine.driver.inject(plan)
        with pytest.raises(RunError, match=r"DeviceLost: .*\(lines 4, 5 were running\)") as caught:
            compiled.run({"k": K})
        plan.assert_fired()
        assert isinstance(caught.value.__cause__, vyre.DeviceLost)
        assert caught.value.place.file == "prog.arr" and session.device_lost
        session.recover()
        compiled.close()  # its arrays were lost with the device: states begin with zeros
        result = compiled.run({"k": K})
    assert np.array_equal(result["total"], 2 * K + 1)
    assert np.array_equal(result["bins"], np.bincount((2 * K + 1) & 7, minlength=8))


def test_any_backend_can_be_made_to_fail() -> None:
    registration = load_catalog().get("cpu")
    assert registration is not None
    backend = failing(registration.make(), 2, vyre.DeviceLost("the cable was pulled"), prefix="resident_executor.")
    catalog = BackendCatalog((registration_of(backend),))
    with vyre.open("auto", catalog=catalog) as session, Executable(session, SUMS) as compiled:
        compiled.run({"k": K})
        with pytest.raises(RunError, match="the cable was pulled") as caught:
            compiled.run({"k": K})
        assert str(caught.value).startswith("prog.arr:") and isinstance(caught.value.__cause__, vyre.DeviceLost)
        assert np.array_equal(compiled.run({"k": K})["total"], 2 * (2 * K + 1))
