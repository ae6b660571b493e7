"""The evidence beside a record of measurements: all samples, no claim that they do not support, and the revision."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from gpu_runs.bench.goals import FASTER
from gpu_runs.bench.timing import spread
from gpu_runs.command import main
from gpu_runs.evidence import bundle_of, claims_of, device_name, write_evidence
from gpu_runs.findings import Fact, Tally
from gpu_runs.provenance import StatedRevision, repository
from gpu_runs.samples import Sampled, sampled
from vyre.app.evidence.bundle import read_evidence
from vyre.domain.evidence.provenance import source_state
from vyre.domain.evidence.records import SpeedClaim

ROOT: Final = Path(__file__).resolve().parents[3]
JOINED: Final = next(goal for goal in FASTER if "8 maps" in goal)
"""8 maps as one launch are to take at most a sixth of the time."""


def test_every_number_keeps_its_samples() -> None:
    rate = spread([3.0, 1.0, 2.0], unit="GB/s", registers=7)
    assert (rate["median"], rate["registers"], rate["unit"], rate["samples"]) == (2.0, 7, "GB/s", 3)
    assert list(sampled("rates", {"copy": rate})) == [Sampled("rates", "GB/s", {"copy": (3.0, 1.0, 2.0)})]
    both = {"ours_us": spread([1e-6, 3e-6], 1e6), "theirs_us": spread([2e-6, 4e-6], 1e6), "speedup": 2.0}
    (pair,) = sampled("pairs", {"a pair": both})
    assert (pair.name, pair.unit, list(pair.sides)) == ("pairs, a pair", "us", ["ours", "theirs"])
    assert pair.sides["theirs"] == pytest.approx((2.0, 4.0))
    assert list(sampled("wall_us", spread([1.0, 2.0]))) == [Sampled("wall_us", "us", {"ours": (1.0, 2.0)})]
    assert not list(sampled("device", {"name": "a", "sizes": [1, 2]}))


def test_a_fact_that_is_told_again_replaces_its_samples() -> None:
    tally = Tally()
    for count in (2, 3):
        tally.add(Fact("wall_us", spread([1.0] * count)))
    (found,) = tally.to_json()["samples"]
    assert found["sides"] == {"ours": (1.0,) * 3} and tally.to_json()["run"]


def test_a_rehearsal_writes_all_samples_and_claims_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "rehearsal-bench-cuda-machine.json"
    bundle_of(record).write_bytes(b"the evidence of another run")
    arguments = ["bench", "--out", str(tmp_path), "--backend", "cuda-machine", "--budget", "200"]
    assert main([*arguments, "--only", "joined", "--only", "launch"]) == 0, capsys.readouterr().out
    written = json.loads(record.read_text())
    assert written["evidence"] == bundle_of(record).name and written["refused_claims"] == []
    assert not any("samples" in group for group in written["groups"])
    evidence = read_evidence(bundle_of(record)).evidence
    assert [each.name for each in evidence.measurements] == ["launch: launch_us", "joined: pairs, 8 maps"]
    assert evidence.claims == () and {each.state for each in evidence.measurements} == {
        "EMULATED: the times mean nothing"
    }
    pair = evidence.measurements[1]
    assert {side.device for side in pair.sides} == {f"{written['device']['name']}, on `cuda-machine`"}
    joined = next(group for group in written["groups"] if group["name"] == "joined")["facts"]["pairs"]["8 maps"]
    for side in pair.sides:
        assert median(side.samples) == pytest.approx(joined[f"{side.name}_us"]["median"])
    assert len({each.run for each in evidence.measurements}) == 2, "a group is a process of its own"
    assert evidence.source.git is not None


def test_a_run_without_samples_leaves_no_bundle(tmp_path: Path) -> None:
    for command in ("bench", "check"):
        record = tmp_path / f"rehearsal-{command}-reference.json"
        bundle_of(record).write_bytes(b"the evidence of another run")
        arguments = [command, "--out", str(tmp_path), "--backend", "reference", "--budget", "200"]
        main([*arguments, "--only", "waves"])
        assert "evidence" not in json.loads(record.read_text())
        assert bundle_of(record).exists() is (command == "check"), "only measurements have evidence"


# ---------------------------------------------------------------- claims
def group(ours: list[float], theirs: list[float]) -> dict[str, Any]:
    return {
        "samples": [{"name": f"pairs, {JOINED[2]}", "unit": "us", "sides": {"ours": ours, "theirs": theirs}}],
        "run": "r",
    }


def goals(*, met: bool | None) -> list[dict[str, Any]]:
    return [{"goal": name, "met": met if name == JOINED[0] else None} for name, *_ in FASTER]


def test_goals_that_are_met_are_claimed_if_the_samples_support_them(tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    claim = SpeedClaim(f"joined: pairs, {JOINED[2]}", "ours", "theirs", JOINED[3])
    assert list(claims_of(goals(met=True))) == [claim]
    assert not list(claims_of(goals(met=False))) and not list(claims_of(goals(met=None)))
    options: dict[str, Any] = {"device": "a GPU", "emulated": False, "revision": None}
    steady = {"joined": group([1.0] * 9, [7.0] * 9)}
    (judged,) = write_evidence(path, steady, goals(met=True), **options)
    assert judged.verdict.supported and read_evidence(path).evidence.claims == (claim,)
    noisy = {"joined": group([1.0] * 9, [1.0] * 4 + [7.0] * 5)}
    (judged,) = write_evidence(path, noisy, goals(met=True), **options)
    assert not judged.verdict.supported and read_evidence(path).evidence.claims == ()


def test_a_device_has_a_name() -> None:
    assert device_name({"name": "NVIDIA H100"}, "cuda") == "NVIDIA H100, on `cuda`"
    assert device_name(None, "reference") == "the device of `reference`"


# ---------------------------------------------------------------- the revision
def package(folder: Path) -> Path:
    """A package outside a repository."""
    made = folder / "vyre"
    (made / "part" / "__pycache__").mkdir(parents=True)
    (made / "__init__.py").write_text("pass\n")
    (made / "part" / "module.py").write_text("x = 1\n")
    (made / "part" / "__pycache__" / "module.pyc").write_bytes(b"made")
    return made


def test_outside_a_repository_the_kit_says_the_revision(tmp_path: Path) -> None:
    made, kit = package(tmp_path), tmp_path / "revision"
    assert repository(None, made, kit).working_tree() is None
    kit.write_text("0123456789ab\n")
    state = source_state("vyre", "1", repository(None, made, kit).working_tree())
    assert state.git is not None and (state.git.commit, state.git.dirty) == ("0123456789ab", None)
    assert state.fingerprint == "git:0123456789ab:dirty=unknown" and state.tree.startswith("tree-v1:")
    stated = repository("ba9876543210", made, kit).working_tree()
    assert stated is not None and stated.commit == "ba9876543210", "what is said on the command line comes first"
    assert [file.path for file in stated.files] == ["__init__.py", "part/module.py"]
    (made / "part" / "module.py").write_text("x = 2\n")
    changed = source_state("vyre", "1", repository(None, made, kit).working_tree())
    assert changed.tree != state.tree, "the files are those that lie here"


@pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="needs a checkout and Git")
def test_a_repository_knows_better_than_anybody_says(tmp_path: Path) -> None:
    kit = tmp_path / "revision"
    kit.write_text("0123456789ab\n")
    found = repository("ba9876543210", kit=kit)
    assert not isinstance(found, StatedRevision)
    tree = found.working_tree()
    assert tree is not None and len(tree.commit) == 40
