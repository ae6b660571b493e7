"""Evidence of dispatches on resident memory: what was in it before, what is in it afterwards, and both again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import vyre
from support.evidence import INPUTS, scale, trapping, words, write, write_resident
from vyre import bool_, u32
from vyre.adapters.evidence_files import read_bundle
from vyre.app.evidence.bundle import checked, read_evidence
from vyre.app.evidence.replaying import replay_on
from vyre.app.evidence.writing import inputs_digest
from vyre.domain.dispatch import DispatchTiming
from vyre.domain.errors import InvalidInput, InvalidResource, MalformedBundle, UnsupportedFeature
from vyre.domain.evidence.differences import OutputDifference
from vyre.domain.evidence.failures import Failure, Trapped
from vyre.domain.ir.program import Program
from vyre.ports.backend import Backend, BackendCatalog, BackendServices
from vyre.ports.requests import ResidentSequence, Upload
from vyre.ports.resident_buffer import ResidentBuffer
from vyre.testing.execution import find_backend

BACKENDS: Final = ("reference", "cpu", "cuda-machine")


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_of_resident_memory_are_recorded_and_give_their_bytes_again(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "e.zip"
    write_resident(path, backend)
    found = read_evidence(path)
    assert found.run.resident == {"x": 12, "y": 4}, "the bytes of their allocations at which the parts begin"
    assert {slot.name: found.bytes_of(slot) for slot in found.run.inputs} == INPUTS
    assert found.outcome(found.run.got) == {"y": words(13, 26, 39, 52, 65)}
    for other in BACKENDS:
        again = vyre.replay_evidence(path, other)
        assert (again.ok, again.as_recorded, again.backend) == (True, True, other)


def everything() -> Program:
    """Two updated buffers, one of them of truth values, and two outputs; lane 1 writes nothing."""
    with vyre.ProgramBuilder("everything", workgroup=4) as p:
        x, y, flags = p.input("x", u32), p.inout("y", u32), p.inout("flags", bool_)
        z, w = p.output("z", u32, like="x"), p.output("w", u32, like="x")
        i = p.global_id()
        with p.if_((i < x.length) & (i != 1)):
            z[i] = x[i] + y[i]
            w[i] = x[i]
            y[i] = y[i] + 1
            flags[i] = x[i] == 2
    return p.build()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("runs", [1, 3])
def test_host_and_resident_buffers_in_one_dispatch(tmp_path: Path, backend: str, runs: int) -> None:
    """``y`` and ``w`` are read back; ``flags`` and ``z`` stay, and ``z`` is longer than the program needs."""
    path, y = tmp_path / "e.zip", np.array([5, 6, 7], np.uint32)
    with vyre.open(backend) as session:
        z = session.resident(np.array([90, 91, 92, 93], np.uint32))
        flags = session.resident(np.array([True, True, False]))
        given: dict[str, Any] = {"x": np.array([1, 2, 2], np.uint32), "y": y, "flags": flags, "z": z}
        evidence = session.write_evidence(path, everything(), given, runs=runs)
        assert z.download().tolist() == [6, 0, 9, 93] and flags.download().tolist() == [False, True, True]
    assert y.tolist() == [5, 6, 7], "the caller's array is not written"
    found = read_evidence(path)
    assert found.evidence == evidence and len(found.run.timings) == runs
    assert found.run.resident == {"flags": 0, "z": 0}
    before = {slot.name: found.bytes_of(slot) for slot in found.run.inputs}
    assert before == {
        "x": words(1, 2, 2), "y": words(5, 6, 7), "flags": words(1, 1, 0), "z": words(90, 91, 92, 93)
    }  # fmt: skip
    assert found.outcome(found.run.got) == {
        "y": words(6, 6, 8), "flags": words(0, 1, 1), "z": words(6, 0, 9, 93), "w": words(1, 0, 2)
    }  # fmt: skip
    for other in BACKENDS:
        assert vyre.replay_evidence(path, other).ok


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trap_on_resident_memory_is_recorded(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "e.zip"
    with vyre.open(backend) as session:
        x, y = session.resident(words(1, 2, 7)), session.resident(12)
        session.write_evidence(path, trapping(), {"x": x, "y": y}, runs=2)
    found = read_evidence(path)
    failure = found.outcome(found.run.got)
    assert isinstance(failure, Failure) and failure.cause == Trapped("too large", 7, (2, 0, 0))
    assert [found.bytes_of(slot) for slot in found.run.inputs] == [words(1, 2, 7), bytes(12)]
    for other in BACKENDS:
        assert vyre.replay_evidence(path, other).ok


class LosesUpdates:
    """``ResidentExecutor`` that leaves 0 in the third element of what it updates."""

    def __init__(self, backend: Backend) -> None:
        self._inner, self._memory = backend.require_resident_executor(), backend.require_memory()

    def run(self, sequence: ResidentSequence, /) -> DispatchTiming:
        timing = self._inner.run(sequence)
        for step in sequence.prefix:
            for buffer, resource in zip(step.program.abi_buffers, step.resources, strict=True):
                if buffer.is_writable and isinstance(resource, ResidentBuffer):
                    self._memory.upload([Upload(resource, memoryview(bytes(4)), 8)])
        return timing


def test_a_lost_update_is_found_with_its_place_in_the_part(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write_resident(path)

    def wrong(services: BackendServices) -> Backend:
        backend = find_backend("reference").factory(services)
        return replace(backend, resident_executor=LosesUpdates(backend), resident_binder=None)

    registration = replace(find_backend("reference"), factory=wrong)
    with vyre.open("reference", catalog=BackendCatalog((registration,))) as session:
        found = replay_on(session, read_evidence(path))
    assert found.differences == (OutputDifference(1, "y", 2, 8, "00000027", "00000000"),) and not found.ok


def test_all_of_a_resident_buffer_is_compared_whatever_a_dispatch_returns(tmp_path: Path) -> None:
    """The program returns bytes 4 to 8 to the host; of resident memory all bytes count, from the first on."""
    program = scale()
    cut = replace(program, buffers=tuple(
        replace(buffer, output_range=(4, 8)) if buffer.name == "y" else buffer for buffer in program.buffers
    ))  # fmt: skip
    path = tmp_path / "e.zip"
    with vyre.open("reference") as session:
        y = session.resident(INPUTS["y"])
        session.write_evidence(path, cut, {"a": 3, "x": INPUTS["x"], "y": y})
    stored = read_bundle(path)
    assert stored.files["outputs/0.bin"] == words(13, 26, 39, 52, 65)
    assert vyre.replay_evidence(path, "cpu").ok


def test_temporary_arrays_are_refused(tmp_path: Path) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidResource, match="no memory outside of a sequence"):
        session.write_evidence(tmp_path / "e.zip", scale(), {"a": 3, "x": INPUTS["x"], "y": session.temporary(u32, 5)})
    assert not list(tmp_path.iterdir())


def test_a_sequence_is_refused(tmp_path: Path) -> None:
    with vyre.open("reference") as session:
        y = session.resident(INPUTS["y"])
        sequence: Any = session.sequence([vyre.Step(scale(), {"a": 3, "x": INPUTS["x"], "y": y})])
        with pytest.raises(InvalidInput, match="is a StepSequence"):
            session.write_evidence(tmp_path / "e.zip", sequence)
    assert not list(tmp_path.iterdir())


def test_a_backend_without_resident_memory_says_so(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write_resident(path)

    def host_only(services: BackendServices) -> Backend:
        made = find_backend("reference").factory(services)
        return replace(made, memory=None, resident_executor=None, resident_binder=None, foreign_memory=None)

    registration = replace(find_backend("reference"), factory=host_only)
    catalog, refused = BackendCatalog((registration,)), pytest.raises(UnsupportedFeature, match="resident buffers")
    with vyre.open("reference", catalog=catalog) as session, refused:
        replay_on(session, read_evidence(path))


def test_what_was_resident_is_covered_by_the_digest_of_the_inputs(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write_resident(path)
    stored = read_bundle(path)
    run = stored.evidence.run
    assert run is not None
    for wrong, said in (
        ({"x": 8, "y": 4}, "digest of the inputs"),
        ({"x": 12}, "digest of the inputs"),
        ({"a": 0, "x": 12, "y": 4}, "no buffers of the program"),
        ({"x": 12, "y": -4}, "no buffers of the program"),
        ({"x": 12, "y": 4, "z": 0}, "no buffers of the program"),
    ):
        with pytest.raises(MalformedBundle, match=said):
            checked(stored._replace(evidence=replace(stored.evidence, run=replace(run, resident=wrong))), "e.zip")
    write(path)
    host = read_bundle(path).evidence.run
    assert host is not None
    assert inputs_digest(host.inputs, {}) == host.inputs_digest != inputs_digest(host.inputs, {"x": 0})
