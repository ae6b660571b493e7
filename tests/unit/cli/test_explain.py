"""``vyre explain``: the table, what is said aloud, and recorded decisions taken again."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from support.command_line import Vyre, vyre_command
from support.launch_costs import launch_costs, shorten_calibrations
from support.small_programs import saxpy_program
from vyre.adapters.program_files import ProgramForm, render_program
from vyre.domain.launch_costs import ASSUMED, LaunchCosts, from_text, to_text
from vyre.gallery.registry import load

MACHINE = ("--backend", "cuda-machine")


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vyre:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VYRE_BACKEND", raising=False)
    shorten_calibrations(monkeypatch)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    Path("p.vyre").write_bytes(render_program(saxpy_program(), ProgramForm.TEXT))
    Path("barrier.vyre").write_bytes(render_program(load("basics.p24_grid_sync").program(), ProgramForm.TEXT))

    return vyre_command(capsys)


# ---- a program
def test_the_table_has_every_mode_with_its_time_or_the_reason_why_not(vyre: Vyre) -> None:
    found = vyre("explain", "p.vyre", "--batch", "32", "--kernel-time-ns", "1000", "--costs", "assumed", *MACHINE)
    assert found.code == 0
    lines = [re.sub(" +", " ", line).strip() for line in found.out.splitlines()]
    assert lines[0] == "saxpy on cuda-machine: 1 x 32 runs of one launch and 2 copies or fills each"
    assert lines[1] == "mode predicted a run costs made of"
    assert re.fullmatch(r"plain 300 us 9\.3\d us assumed 1 x round_trip 4 us \+ .* \+ 96 x launch 3\.08 us", lines[2])
    assert lines[3].startswith("* graph 1")
    assert "1 x graph_record 20 us" in lines[3]
    assert any(re.match(r"persistent [0-9.]+ ", line) and "session.persistent" in line for line in lines)
    assert [line for line in lines if "unavailable" in line] == [
        "fused - - - unavailable: one program has no steps that could be joined (session.sequence(steps) joins steps)",
    ]
    (verdict,) = [line for line in lines if line.startswith("graph: ")]
    assert re.fullmatch(r"graph: graph is cheapest, (\d+) ns below plain launches \(gain \1 ns, margin 0 ns\)", verdict)
    assert "workgroup sizes" in found.out and "addresses of buffers" in found.out
    assert "note: launch costs are assumed, as asked for" in found.err


def test_for_machines(vyre: Vyre) -> None:
    found = vyre("explain", "p.vyre", "--batch", "1000", "--costs", "assumed", "--json", *MACHINE).json
    assert (found["program"], found["backend"], found["mode"]) == ("saxpy", "cuda-machine", "graph")
    plain, graph, persistent, fused = found["modes"]
    assert plain["predicted_ns"] == sum(term["times"] * term["each_ns"] for term in plain["terms"])
    assert graph["predicted_ns"] < plain["predicted_ns"] and graph["provenance"] == "assumed"
    assert persistent["unavailable"] == fused["unavailable"] == "the backend does not execute it"
    assert found["inputs"]["workload"]["batch"] == 1000
    assert [note[:26] for note in found["notes"]] == [
        "nobody timed the kernel: 5",
        "launch costs are assumed, ",
        "sizes are left open: 64 el",
    ]
    assert (found["launches"], found["operations"]) == (1, 3)


def test_how_grid_barriers_run_is_told(vyre: Vyre) -> None:
    found = vyre("explain", "barrier.vyre", "--json", *MACHINE).json
    assert [row["verdict"] for row in found["decisions"] if row["topic"] == "grid barriers"] == ["native"]
    assert (found["launches"], found["inputs"]["workload"]["nodes"]) == (1, 4)


def test_a_session_whose_passes_run_on_the_device_is_explained(vyre: Vyre) -> None:
    asked = ("explain", "p.vyre", "--backend", "reference", "--json")
    answers = [vyre(*asked, "--optimizer", place).json["decisions"] for place in ("host", "device")]
    assert answers[0] == answers[1] and "optimizer" in {row["topic"] for row in answers[1]}


def test_passes_run_at_no_other_place(vyre: Vyre) -> None:
    found = vyre("explain", "p.vyre", "--optimizer", "gpu")
    assert found.code != 0 and 'write optimizer="host" or "device"' in found.err


def test_costs_that_nobody_measured_are_assumed_aloud(vyre: Vyre) -> None:
    found = vyre("explain", "p.vyre", *MACHINE)
    assert found.code == 0
    assert "launch costs are assumed: no launch costs are known of cuda-machine" in found.err


def test_costs_of_a_file(vyre: Vyre) -> None:
    assert vyre("calibrate", "--rounds", "5", "--out", "costs.json", *MACHINE).code == 0
    for costs in ("costs.json", "measured"):
        found = vyre("explain", "p.vyre", "--costs", costs, "--kernel-time-ns", "2000", *MACHINE)
        assert found.code == 0
        assert "launch costs are emulated" in found.err


REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "missing costs": (("--costs", "measured"), 2, "no launch costs are known"),
    "a missing file": (("--costs", "nope.json"), 2, "cannot read nope.json"),
    "foreign costs": (("--costs", "foreign.json"), 2, "launch costs of cuda on a device"),
    "assumed costs as a file": (("--costs", "assumed.json"), 2, "no device in particular"),
    "no costs": (("--costs", "p.vyre"), 1, "not launch costs"),
    "no batch": (("--batch", "0"), 2, "Workload.batch = 0"),
    "a batch too large": (("--batch", str(2**32)), 2, "Workload.batch"),
    "no time": (("--kernel-time-ns", "-1"), 2, "Measured.median_ns = -1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_an_error(vyre: Vyre, case: str) -> None:
    Path("foreign.json").write_text(to_text(launch_costs()), "utf-8")
    Path("assumed.json").write_text(to_text(ASSUMED), "utf-8")
    arguments, code, message = REFUSED[case]
    found = vyre("explain", "p.vyre", *arguments, *MACHINE)
    assert (found.code, found.out) == (code, "")
    assert message in found.err and "Fix: " in found.err


def test_stale_costs_are_an_error(vyre: Vyre) -> None:
    assert vyre("calibrate", "--rounds", "5", "--out", "costs.json", *MACHINE).code == 0
    old = from_text(Path("costs.json").read_text("utf-8").strip())
    Path("old.json").write_text(to_text(LaunchCosts(old.source, 1_000)), "utf-8")
    found = vyre("explain", "p.vyre", "--costs", "old.json", *MACHINE)
    assert found.code == 2
    assert "s old, at most" in found.err


def test_a_terminal_gets_a_chart(vyre: Vyre, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("explain", "p.vyre", "--batch", "8", "--repeats", "9", "--costs", "assumed", *MACHINE)
    assert "predicted time of a run" not in vyre(*arguments).out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    chart = vyre(*arguments).out.split("predicted time of a run\n")[1].splitlines()
    assert len(chart) == 13 and max(map(len, chart)) <= 60
    assert chart[-1].strip() == "p plain  g graph"
    assert chart[-2].split() == ["1", "batch", "32"]
    monkeypatch.setenv("COLUMNS", "20")
    assert "predicted time of a run" not in vyre(*arguments).out


# ---- recorded decisions
def recorded(vyre: Vyre) -> list[dict[str, Any]]:
    found = vyre("explain", "barrier.vyre", "--batch", "8", "--costs", "assumed", "--record", "d.jsonl", *MACHINE)
    assert found.code == 0 and found.out.endswith("wrote d.jsonl\n")
    return [json.loads(line) for line in Path("d.jsonl").read_text("utf-8").splitlines()]


def write(records: list[dict[str, Any]]) -> None:
    Path("d.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records), "utf-8")


def test_recorded_decisions_are_the_same_again(vyre: Vyre) -> None:
    assert recorded(vyre)[-1]["policy"] == "plan_execution"
    found = vyre("explain", "--replay", "d.jsonl")
    assert found.code == 0
    assert found.out == "5 same verdict, 0 different verdict, 0 changed policy version, 0 unknown policy\n"


def test_a_tampered_verdict_is_told(vyre: Vyre) -> None:
    records = recorded(vyre)
    records[-1]["verdict"]["mode"] = "FUSED"
    write(records)
    found = vyre("explain", "--replay", "d.jsonl")
    assert found.code == 1
    assert found.out.splitlines() == [
        "decision 5: plan_execution: different verdict",
        '  $.mode: "FUSED" -> "PLAIN"',
        "4 same verdict, 1 different verdict, 0 changed policy version, 0 unknown policy",
    ]


def test_a_changed_policy_is_told(vyre: Vyre) -> None:
    records = recorded(vyre)
    now = records[0]["version"]
    records[0]["version"] = "0123456789abcdef"
    write(records)
    found = vyre("explain", "--replay", "d.jsonl")
    assert found.code == 0  # it still comes to the same verdict
    assert found.out.splitlines()[0] == (
        "decision 1: choose_grid_sync: changed policy version "
        f"(version 0123456789abcdef then, {now} now); the verdict is the same"
    )
    records[0]["verdict"]["possible"] = False
    write(records)
    assert vyre("explain", "--replay", "d.jsonl").code == 1


def test_an_unknown_policy_is_told(vyre: Vyre) -> None:
    records = recorded(vyre)
    records[1]["policy"] = "magic.decide"
    write(records)
    found = vyre("explain", "--replay", "d.jsonl", "--json")
    assert found.code == 1
    assert found.json["outcomes"]["unknown policy"] == 1
    (differing,) = found.json["differing"]
    assert differing == {
        "decision": 2,
        "policy": "magic.decide",
        "outcome": "unknown policy",
        "reproduced": False,
        "why": "there is no policy `magic.decide`",
        "differences": [],
    }


def test_a_hostile_journal_makes_up_no_lines(vyre: Vyre) -> None:
    records = recorded(vyre)
    records[1]["policy"] = "magic\x1b[2J\n9 same verdict"
    write(records)
    found = vyre("explain", "--replay", "d.jsonl")
    assert (found.code, len(found.out.splitlines())) == (1, 2)
    assert "\x1b" not in found.out


@pytest.mark.parametrize("deep", [math.nan, 1e999, [[[]]] * 3])
def test_values_that_no_verdict_has_differ(vyre: Vyre, deep: object) -> None:
    records = recorded(vyre)
    records[-1]["verdict"]["gain_ns"] = deep
    write(records)
    found = vyre("explain", "--replay", "d.jsonl")
    assert found.code == 1
    assert "internal error" not in found.err


@pytest.mark.parametrize(
    ("content", "code"), [(b"\xff", 1), (b"{}\n", 1), (b"[\n", 1), (b"NaN\n", 1), (b"[" * 900 + b"]" * 900, 1)]
)
def test_what_is_no_journal_is_an_error(vyre: Vyre, content: bytes, code: int) -> None:
    Path("d.jsonl").write_bytes(content)
    found = vyre("explain", "--replay", "d.jsonl")
    assert (found.code, found.out) == (1, "")
    assert "Fix: use the journal as it was written" in found.err


@pytest.mark.parametrize("arguments", [(), ("p.vyre", "--replay", "d.jsonl")])
def test_it_takes_a_program_or_a_journal(vyre: Vyre, arguments: tuple[str, ...]) -> None:
    found = vyre("explain", *arguments)
    assert found.code == 2
    assert "Fix: give one of them" in found.err
