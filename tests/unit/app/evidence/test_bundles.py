"""Evidence bundles: what was written is read, and says what was run, where and by which source."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3

import vyre
from support.evidence import INPUTS, TREE, FakeRepository, encoded, measured, scale, words, write
from vyre.adapters.evidence_files import decode, encode, read_bundle
from vyre.app.evidence.bundle import checked, read_evidence
from vyre.app.evidence.claims import judge_speed_claim
from vyre.app.evidence.measuring import write_measurements
from vyre.app.evidence.provenance import empty_evidence
from vyre.domain.dispatch import DispatchConfig, DispatchTiming, PersistentThreadMode, SpeculationMode
from vyre.domain.errors import InvalidConfig, InvalidInput, MalformedBundle, UnreadableFile
from vyre.domain.evidence.config_fields import config_fields, config_of
from vyre.domain.evidence.records import SpeedClaim
from vyre.policies.evidence.claims import ClaimRefusal


def test_a_bundle_holds_all_that_went_in_and_came_out(tmp_path: Path) -> None:
    config = DispatchConfig(extent=5, label="a run", speculation=SpeculationMode.DISABLE)
    timing = DispatchTiming(wall_ns=12, device_ns=None, enqueue_ns=3, wait_ns=4)
    evidence = write(tmp_path / "e.zip", config=config, timings=(timing,), expected={"y": words(1, 2, 3, 4, 5)})
    found = read_evidence(tmp_path / "e.zip")
    assert found.evidence == evidence
    assert (found.program, found.config, found.decisions) == (scale(), config, ())
    assert {slot.name: found.bytes_of(slot) for slot in found.run.inputs} == INPUTS
    assert found.bytes_of(found.run.got.slots[0]) == words(13, 26, 39, 52, 65)
    assert found.run.expected is not None
    assert (found.run.expected.by, found.bytes_of(found.run.expected.slots[0])) == ("reference", words(1, 2, 3, 4, 5))
    assert found.run.digest == scale().digest.hex()
    assert [(t.wall_ns, t.device_ns, t.enqueue_ns, t.wait_ns) for t in found.run.timings] == [(12, None, 3, 4)]


def test_a_bundle_names_source_machine_and_device(tmp_path: Path) -> None:
    evidence = write(tmp_path / "e.zip", backend="cuda-machine")
    assert evidence.source.fingerprint == f"git:{TREE.commit}:dirty=false"
    assert evidence.source.git is not None and evidence.source.git.dirty is False
    assert evidence.environment.packages["vyre"] == vyre.__version__
    assert evidence.device is not None
    assert (evidence.device.backend, evidence.device.signature) == ("cuda-machine", "hopper_90")
    assert evidence.device.name.startswith("Emulated H200 ")
    assert evidence.device.profile["compute_units"] == 132, "as the driver says"
    assert evidence.device.profile["l1_cache_bytes"] == 256 * 1024, "as the table of families says"
    assert "l1_cache_bytes" in evidence.device.of_family and "compute_units" not in evidence.device.of_family
    host = write(tmp_path / "h.zip", repository=FakeRepository(None))
    assert host.source.fingerprint == f"package:vyre:{vyre.__version__}"
    assert host.source.git is None
    assert host.device is not None and (host.device.signature, host.device.of_family) == (None, ())


def test_any_tool_opens_a_bundle(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    write(path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.comment.decode() == blake3(data[:-64]).hexdigest()
        manifest = json.loads(archive.read("manifest.json"))
        for slot in manifest["run"]["inputs"]:
            content = slot["content"]
            assert blake3(archive.read(content["path"])).hexdigest() == content["blake3"]
        (tmp_path / "program.vyre").write_bytes(archive.read("program.vyre"))
    assert vyre.Program.from_text((tmp_path / "program.vyre").read_text("utf-8")) == scale()


def test_the_same_evidence_has_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.zip")
    first = read_bundle(tmp_path / "a.zip")
    assert encode(first.evidence, first.files) == (tmp_path / "a.zip").read_bytes()


def test_a_session_records_its_decisions_and_every_run(tmp_path: Path) -> None:
    x, y = np.arange(100, dtype=np.uint32), np.ones(100, np.uint32)
    with vyre.open("cpu", journal=vyre.DecisionJournal()) as session:
        evidence = session.write_evidence(tmp_path / "e.zip", scale(), {"x": x, "y": y, "a": 3}, runs=4)
    found = read_evidence(tmp_path / "e.zip")
    assert len(found.run.timings) == 4 and found.decisions
    assert evidence.device is not None and evidence.device.facts
    assert np.array_equal(np.frombuffer(found.bytes_of(found.run.got.slots[0]), np.uint32), 3 * x + y)
    assert np.array_equal(y, np.ones(100, np.uint32)), "the caller's array is not written"


@pytest.mark.parametrize("runs", [0, -1, 10_001, 2.0, True])
def test_a_number_of_runs_is_checked(tmp_path: Path, runs: int) -> None:
    with vyre.open("reference") as session, pytest.raises(InvalidConfig, match="runs="):
        session.write_evidence(tmp_path / "e.zip", scale(), INPUTS, runs=runs)
    assert not list(tmp_path.iterdir())


def test_constants_and_counts_of_a_config_come_back(tmp_path: Path) -> None:
    config = DispatchConfig(
        grid=(2, 1, 1), spec={"n": 3, "f": 0.5, "on": True}, output_counts={"y": 4, "a": 2}, step_budget=9,
        persistent_thread=PersistentThreadMode.FORCE,
    )  # fmt: skip
    assert config_of(config_fields(config)) == config
    assert config_fields(DispatchConfig()) == ()
    for wrong in ((("grid", "x"),), (("nothing", 1),), (("label", "a"), ("label", "b")), (("spec", 3),)):
        with pytest.raises(InvalidConfig):
            config_of(wrong)


def test_buffers_must_be_those_of_the_program(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="outputs has"):
        write(tmp_path / "e.zip", got={"z": b""})
    assert not list(tmp_path.iterdir())


def test_a_bundle_of_another_program_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "e.zip")
    stored = read_bundle(tmp_path / "e.zip")
    run = stored.evidence.run
    assert run is not None
    for wrong, said in (
        (replace(run, digest="0" * 64), "another program"),
        (replace(run, inputs=run.inputs[:-1]), "the inputs are not those"),
        (replace(run, inputs_digest="0" * 64), "digest of the inputs"),
        (replace(run, got=replace(run.got, by="cpu")), "does not describe the backend"),
        (replace(run, config=(("grid", "x"),)), "config is refused"),
    ):
        with pytest.raises(MalformedBundle, match=said):
            checked(stored._replace(evidence=replace(stored.evidence, run=wrong)), "e.zip")


@pytest.mark.parametrize("form", [1, 3])
def test_another_form_is_named(form: int) -> None:
    evidence = replace(empty_evidence((), FakeRepository()), form=form)
    with pytest.raises(MalformedBundle, match=rf"form has version {form}.*Fix: read it with the vyre that wrote it"):
        decode(encoded(evidence))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"nowhere\.zip"):
        read_evidence(tmp_path / "nowhere.zip")


def test_a_session_writes_claims_of_what_was_measured_on_its_device(tmp_path: Path) -> None:
    path, samples = tmp_path / "m.zip", {"ours": [1.0] * 9, "theirs": [2.0] * 9}
    with vyre.open("reference") as session:
        judged = session.write_claim(path, "row", samples, faster="ours", slower="theirs", factor=1.9)
        assert judged.verdict.supported and str(judged).startswith(
            "`row`: theirs takes at least 1.9 times as long as ours"
        )
        evidence = read_evidence(path).evidence
        assert evidence.claims == (SpeedClaim("row", "ours", "theirs", 1.9),)
        assert evidence.device is not None and evidence.device.backend == "reference"
        assert {side.device for side in evidence.measurements[0].sides} == {evidence.device.name}
        bold = session.write_claim(path, "row", samples, faster="theirs", slower="ours")
        assert not bold.verdict.supported and not read_evidence(path).evidence.claims
        few = session.write_claim(path, "row", {"a": [1.0], "b": [9.0, 9.0]}, faster="a", slower="b")
        assert few.verdict.refusal is ClaimRefusal.UNPAIRED
        wrongs: tuple[Any, ...] = ({"ours": ["?"], "theirs": [1.0]}, {"ours": [-1.0]}, {1: [1.0]}, {"ours": 1}, 3)
        for wrong in wrongs:
            with pytest.raises((InvalidInput, InvalidConfig)):
                session.write_claim(path, "row", wrong, faster="ours", slower="theirs")


def test_a_bundle_claims_only_what_its_samples_support(tmp_path: Path) -> None:
    good, bold = SpeedClaim("row", "ours", "theirs", 1.9), SpeedClaim("row", "ours", "theirs", 2.0)
    strangers = SpeedClaim("row", "ours", "somebody", 1.1)
    nowhere = SpeedClaim("another", "ours", "theirs", 1.1)
    held = measured().measurements
    path = tmp_path / "m.zip"
    judged = write_measurements(path, held, (good, bold, strangers, nowhere), repository=FakeRepository())
    assert [each.verdict.supported for each in judged] == [True, False, False, False]
    assert read_evidence(path).evidence.claims == (good,)
    assert judge_speed_claim(held, nowhere).verdict.refusal is ClaimRefusal.NOT_MEASURED
    for wrong in (measured(bold), measured(good, strangers), measured(nowhere), measured(good, count=5)):
        path.write_bytes(encoded(wrong))
        with pytest.raises(MalformedBundle, match="claims what was not measured"):
            read_evidence(path)
    with pytest.raises(MalformedBundle, match="holds no run"):
        _ = checked(decode(encoded(measured(good))), "m.zip").program
