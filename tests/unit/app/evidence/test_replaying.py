"""Replaying evidence: the same bytes on every backend, and the first difference of one that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import vyre
from support.conform_defects import DEFECTS, Defect, defective
from support.evidence import INPUTS, scale, words, write
from vyre.app.evidence.bundle import EvidenceBundle, read_evidence
from vyre.app.evidence.replaying import EvidenceReplay, replay_on
from vyre.domain.byte_differences import first_difference
from vyre.domain.errors import BackendUnavailable
from vyre.domain.evidence.differences import OutputDifference, Returned, differences
from vyre.domain.ir.expr import Binary, Literal
from vyre.domain.ir.operators import BinaryOp
from vyre.ports.backend import BackendCatalog
from vyre.testing.execution import find_backend

BACKENDS = ("reference", "cpu", "cuda-machine")


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_gives_the_bytes_again(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "e.zip"
    write(path, backend=backend)
    assert vyre.replay_evidence(path) == EvidenceReplay(backend, backend, backend, (), True)
    for other in BACKENDS:
        found = vyre.replay_evidence(path, other)
        assert (found.ok, found.backend, found.recorded) == (True, other, backend)


def replayed(bundle: EvidenceBundle, defect: Defect) -> EvidenceReplay:
    """Replays on the reference with a defect."""
    registration = replace(find_backend("reference"), factory=lambda services: defective(defect))
    with vyre.open("reference", catalog=BackendCatalog((registration,))) as session:
        return replay_on(session, bundle)


def test_a_wrong_backend_is_found_with_slot_element_and_byte(tmp_path: Path) -> None:
    write(tmp_path / "e.zip")
    wrong = Defect("a product of 9 is one too large", _wrong_nine)
    found = replayed(read_evidence(tmp_path / "e.zip"), wrong)
    assert found.differences == (OutputDifference(1, "y", 2, 8, "00000027", "00000028"),)
    assert (found.ok, found.as_recorded) == (False, False)
    assert str(found.differences[0]) == "`y`[2] (slot 1, byte 8) is 0x00000028, expected was 0x00000027"


def _wrong_nine(node: object, types: object) -> object:
    if isinstance(node, Binary) and node.op is BinaryOp.MUL:
        nine = Binary(BinaryOp.EQ, node, Literal(vyre.u32, 9))
        return Binary(BinaryOp.ADD, node, vyre.ir.Select(nine, Literal(vyre.u32, 1), Literal(vyre.u32, 0)))
    return node


def test_a_seeded_defect_is_found(tmp_path: Path) -> None:
    """Of the defects that conformance checks seed, the one that concerns this program."""
    defect = next(each for each in DEFECTS if each.name == "u32 addition saturates")
    path = tmp_path / "e.zip"
    with vyre.open("reference") as session:
        inputs: dict[str, bytes | int] = {"x": INPUTS["x"], "y": words(0xFFFF_FFFF, 0, 0, 0, 0), "a": 3}
        session.write_evidence(path, scale(), inputs)
    assert vyre.replay_evidence(path).ok
    found = replayed(read_evidence(path), defect)
    assert [(each.buffer, each.element, each.found) for each in found.differences] == [("y", 0, "ffffffff")]


def test_a_bundle_of_a_wrong_answer_compares_with_the_right_one(tmp_path: Path) -> None:
    """As shadow execution writes it: the backend gave one answer, the reference another."""
    right = words(13, 26, 39, 52, 65)
    write(tmp_path / "e.zip", got={"y": words(13, 26, 39, 53, 65)}, expected={"y": right})
    now_right = vyre.replay_evidence(tmp_path / "e.zip")
    assert (now_right.ok, now_right.as_recorded, now_right.expected_by) == (True, False, "reference")
    write(tmp_path / "f.zip", got={"y": right}, expected={"y": words(13, 26, 39, 53, 65)}, expected_by="cpu")
    still_wrong = vyre.replay_evidence(tmp_path / "f.zip")
    assert (still_wrong.ok, still_wrong.as_recorded, still_wrong.expected_by) == (False, True, "cpu")
    assert still_wrong.differences[0].byte == 12


def test_an_unknown_backend_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "e.zip")
    with pytest.raises(BackendUnavailable, match="nobody"):
        vyre.replay_evidence(tmp_path / "e.zip", "nobody")


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 63])
def test_the_first_difference_is_the_first(length: int) -> None:
    right = bytes(range(length))
    assert first_difference(right, right) == length
    assert first_difference(right, right + b"!") == length
    for at in range(length):
        wrong = bytearray(right)
        wrong[at:] = b"\xff" * (length - at)
        assert first_difference(right, bytes(wrong)) == at


def test_a_result_that_ends_early_differs_where_it_ends() -> None:
    found = differences((Returned(1, "y", 4, words(1, 2)),), (Returned(1, "y", 4, words(1)),))
    assert list(found) == [OutputDifference(1, "y", 1, 4, "00000002", "")]
