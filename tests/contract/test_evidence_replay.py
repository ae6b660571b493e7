"""Whole kernels and random programs as evidence: written on one backend, run again on others, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

import vyre
from support.conform_defects import DEFECTS, defective
from support.evidence import FakeRepository
from vyre.app.evidence.bundle import EvidenceBundle, read_evidence
from vyre.app.evidence.replaying import replay_on
from vyre.app.evidence.writing import Outcome, write_bundle
from vyre.domain.evidence.failures import PROGRAM_ERRORS, failure_of
from vyre.ports.backend import Backend, BackendCatalog, BackendRegistration, BackendServices
from vyre.testing.conform.cases import Cases, ConformCase, Group
from vyre.testing.execution import execute, find_backend, open_backend

CASES: Final = Cases(21)
GALLERY: Final = {case.key: case for case in CASES.group(Group.GALLERY)}
RANDOM_PROGRAMS: Final = 24


def written(case: ConformCase, backend: Backend, path: Path) -> EvidenceBundle:
    """Writes one run of a case, and reads it back."""
    program, config = case.case.program, case.case.config
    got: Outcome | None
    try:
        got = execute(backend, program, case.case.inputs, config)
    except PROGRAM_ERRORS as error:
        got = failure_of(error)
        assert got is not None
    inputs = {b.name: case.case.inputs[b.name] for b in program.abi_buffers if b.takes_input}
    write_bundle(path, program, inputs, got, config=config, backend=backend, repository=FakeRepository())
    found = read_evidence(path)
    assert (found.program, found.config) == (program, config)
    return found


@pytest.mark.parametrize("key", GALLERY)
def test_kernels_of_the_gallery_give_their_bytes_again(key: str, tmp_path: Path) -> None:
    bundle = written(GALLERY[key], open_backend("cpu"), tmp_path / "e.zip")
    others = ("cpu", "reference", "cuda-machine") if list(GALLERY).index(key) % 8 == 0 else ("cpu",)
    for backend in others:
        with vyre.open(backend) as session:
            assert replay_on(session, bundle).differences == ()


def test_random_programs_give_their_bytes_again(tmp_path: Path) -> None:
    """Some of them end in a trap, which comes again, too."""
    reference, failed = open_backend("reference"), 0
    with vyre.open("cpu") as cpu, vyre.open("reference") as again:
        for case in islice(CASES.group(Group.RANDOM), RANDOM_PROGRAMS):
            bundle = written(case, reference, tmp_path / "e.zip")
            assert replay_on(again, bundle).ok
            assert replay_on(cpu, bundle).ok
            failed += bundle.run.got.error is not None
    assert failed < RANDOM_PROGRAMS // 2


def registered(backend: Backend) -> BackendRegistration:
    def make(services: BackendServices) -> Backend:
        return backend

    return BackendRegistration(
        id=backend.id, rank=1, role=find_backend("reference").role, factory=make, probe=lambda: backend.profile
    )


def operations_of(*names: str) -> Iterator[ConformCase]:
    yield from (case for case in CASES.group(Group.OPERATIONS) if any(name in case.key for name in names))


@pytest.mark.parametrize(
    ("defect", "operation"),
    [("u32 addition saturates", "add"), ("f32 sqrt is one unit off", "sqrt"), ("i32 < is unsigned", "lt")],
)
def test_a_replay_finds_seeded_defects(defect: str, operation: str, tmp_path: Path) -> None:
    """Recorded on the faithful reference, replayed on one that has the defect."""
    wrong = defective(next(each for each in DEFECTS if each.name == defect))
    reference, found = open_backend("reference"), []
    with vyre.open("reference", catalog=BackendCatalog((registered(wrong),))) as session:
        for case in operations_of(operation):
            replay = replay_on(session, written(case, reference, tmp_path / "e.zip"))
            found += list(replay.differences)
    assert found, f"no operation with {operation!r} in its name shows the defect"
    for each in found:
        assert each.expected != each.found and each.byte // (len(each.expected) // 2) == each.element
