"""``vyre tune``, in-process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from support.command_line import Outcome, Vyre, vyre_command
from support.cuda.tuned_device import TunedDevice
from support.small_programs import square_program
from vyre import ProgramBuilder, u32
from vyre.adapters.program_files import ProgramForm, render_program
from vyre.app.services import USUAL, wired
from vyre.app.tuning.sources import load_pins
from vyre.domain.tuning import Candidate, TimeKind


@pytest.fixture
def device() -> Iterator[TunedDevice]:
    """The only production backend there is; 256 lanes are fast on it."""
    found = TunedDevice(lambda size, profile: 900_000 if size == 256 else 1_000_000)
    with wired(USUAL._replace(catalog=lambda: found.catalog)):
        yield found


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vyre:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VYRE_BACKEND", raising=False)
    monkeypatch.delenv("VYRE_CACHE_DISABLE", raising=False)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    Path("square.vyre").write_bytes(render_program(square_program(), ProgramForm.TEXT))
    np.save("x.npy", np.arange(1000, dtype=np.uint32))

    return vyre_command(capsys, "tune", "square.vyre", "--in", "x=@x.npy")


def table(found: Outcome) -> list[str]:
    """The lines before the words."""
    return found.out.partition("\n\nIn words: ")[0].splitlines()


def words(found: Outcome) -> str:
    return found.out.partition("\n\nIn words: ")[2]


def test_a_winner_in_words(vyre: Vyre, device: TunedDevice) -> None:
    now = words(vyre())
    assert now.startswith("6 ways to launch this program were timed now.\n")
    assert "The best is workgroup 256, in 10% less time than the declared one (workgroup 64)." in now
    assert "tune=True" in now
    assert words(vyre()).startswith("6 ways to launch this program were timed earlier.\n")


def test_other_outcomes_in_words(vyre: Vyre, device: TunedDevice) -> None:
    device.cost_ns = lambda size, profile: 1_000_000
    assert "None is proven faster than the declared one (workgroup 64)" in words(vyre())
    device.kind, device.jitter_ns = TimeKind.ESTIMATED, (0,)
    device.cost_ns = lambda size, profile: 900_000 if size == 256 else 1_000_000
    estimated = words(vyre("--again"))
    assert "were estimated by a model, without a device.\n" in estimated
    assert "in 10% less work than" in estimated
    assert "tune=True" not in estimated


def test_the_table_tells_candidates_and_the_winner(vyre: Vyre, device: TunedDevice) -> None:
    found = vyre()
    assert found.code == 0
    title, *rows, verdict = table(found)
    assert title.split() == ["lanes", "profile", "median", "saves", "samples"]
    assert [row.split()[:2] for row in rows] == [
        ["0", "64"], ["1", "32"], ["2", "128"], ["3", "256"], ["4", "512"], ["5", "1024"],
    ]  # fmt: skip
    assert rows[0].split()[2:] == ["(declared)", "-", "1000.50", "us", "+0.0%", "35"]
    assert rows[3].split()[2:] == ["-", "900.50", "us", "+10.0%", "35"]
    assert verdict.startswith("winner workgroup 256: workgroup 256 wins: gain ")


def test_without_a_winner_it_says_why(vyre: Vyre, device: TunedDevice) -> None:
    device.cost_ns = lambda size, profile: 1_000_000
    assert table(vyre())[-1].startswith("no winner: workgroup 32 is not proven faster")


def test_what_was_rejected_is_listed(vyre: Vyre, device: TunedDevice) -> None:
    device.wrong, device.failing = frozenset((256,)), frozenset((32,))
    lines = vyre().out.splitlines()
    assert "rejected workgroup 32: no 32 lanes today" in lines
    assert "rejected workgroup 256: its bytes are not those of the reference" in lines


def test_json_has_it_all(vyre: Vyre, device: TunedDevice) -> None:
    found = vyre("--json").json
    assert found["key"]["program"] == square_program().digest.hex()
    assert found["key"]["declared"] == [64, 1, 1]
    assert (found["times"], found["measured"], found["source"]) == ("device", True, "run")
    assert [each["size"] for each in found["candidates"]] == [64, 32, 128, 256, 512, 1024]
    assert all(len(each["samples"]) >= 5 for each in found["candidates"])
    assert found["winner"] == {"size": 256, "profile": ""}
    assert found["config"] == {"workgroup": [256, 1, 1], "grid": None, "profile": None, "pad_grid": False}
    assert found["rejected"] == []
    assert "exported" not in found


def test_what_is_remembered_is_not_launched_again_unless_asked(vyre: Vyre, device: TunedDevice) -> None:
    assert vyre("--json").json["source"] == "run"
    device.launched.clear()
    again = vyre()
    assert device.launched == []
    assert "remembered: nothing was launched" in again.out.splitlines()
    assert vyre("--json").json["source"] == "store"
    assert vyre("--json", "--again").json["source"] == "run"
    assert vyre("--json", "--store", "other").json["source"] == "run"
    assert list(Path("other").glob("tuning-v1/*/*.jsonl"))


def test_winners_are_exported_and_pinned(vyre: Vyre, device: TunedDevice) -> None:
    assert vyre("--export", "pins.json").out.splitlines()[-1] == "wrote 1 pins to pins.json"
    pins = load_pins("pins.json")
    assert pins is not None
    (pin,) = pins.by_key.values()
    assert (pin.candidate, pin.kind) == (Candidate(256), TimeKind.DEVICE)
    device.launched.clear()
    pinned = vyre("--pin", "pins.json", "--again")
    assert device.launched == []
    assert words(pinned) == "a pin fixes how this is launched: workgroup 256. Nothing was launched.\n"
    assert table(pinned)[-1].startswith("winner workgroup 256: workgroup 256 is pinned")
    assert vyre("--export", "all.json", "--json").json["exported"] == 1
    assert Path("all.json").read_bytes() == Path("pins.json").read_bytes()


def test_an_estimate_says_so(vyre: Vyre, device: TunedDevice) -> None:
    device.kind, device.jitter_ns = TimeKind.ESTIMATED, (0,)
    lines = vyre().out.splitlines()
    assert lines[0].split() == ["lanes", "profile", "work", "saves", "samples"]
    assert lines[4].split() == ["3", "256", "-", "900000", "+10.0%", "1"]
    assert "nothing was measured: these are estimates of a model" in lines
    assert vyre("--json").json["measured"] is False


def test_options_of_the_launch_are_those_of_run(vyre: Vyre, device: TunedDevice) -> None:
    assert vyre("--extent", "300", "--json").json["key"]["bucket"] == 9
    assert vyre("--grid", "40", "--json").json["config"] == {
        "workgroup": [256, 1, 1],
        "grid": [10, 1, 1],
        "profile": None,
        "pad_grid": False,
    }
    assert {config.grid for config in device.launched} >= {(40, 1, 1), (10, 1, 1)}


def test_constants_and_sizes_reach_the_launch(device: TunedDevice, vyre: Vyre) -> None:
    with ProgramBuilder("open", workgroup=64) as p:
        factor = p.spec("factor", u32(1))
        x = p.input("x", u32)
        y = p.output("y", u32)
        i = p.global_id()
        with p.if_((i < x.length) & (i < y.length)):
            y[i] = x[i] * x[i] * factor
    Path("square.vyre").write_bytes(render_program(p.build(), ProgramForm.TEXT))
    found = vyre("--spec", "factor=1", "--size", "y=1000", "--json")
    assert found.code == 0, found.err
    assert found.json["key"]["spec"] != ""
    assert device.launched[0].output_counts == {"y": 1000}


def test_ways_of_generating_code_are_candidates_unless_left_out(vyre: Vyre, device: TunedDevice) -> None:
    device.names = ("fast",)
    assert len(vyre("--json").json["candidates"]) == 12
    assert len(vyre("--json", "--again", "--sizes-only").json["candidates"]) == 6


def test_a_budget_ends_it(vyre: Vyre, device: TunedDevice) -> None:
    found = vyre("--budget", "1e-9")
    assert table(found)[-1].startswith("no winner: ")
    refused = vyre("--budget", "0")
    assert (refused.code, "no time" in refused.err) == (2, True)


def test_without_a_cache_it_measures_and_exports_nothing(
    vyre: Vyre, device: TunedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VYRE_CACHE_DISABLE", "1")
    assert [vyre("--json").json["source"] for _ in range(2)] == ["run", "run"]
    refused = vyre("--export", "pins.json")
    assert (refused.code, "cache is turned off" in refused.err) == (2, True)


def test_pins_that_are_none_are_refused(vyre: Vyre, device: TunedDevice) -> None:
    Path("pins.json").write_text("{}")
    assert (vyre("--pin", "pins.json").code, vyre("--pin", "nowhere.json").code) == (1, 2)
    assert "no file of pins" in vyre("--pin", "pins.json").err


def test_a_real_backend(vyre: Vyre) -> None:
    found = vyre("--backend", "cuda-machine", "--sizes-only")
    assert found.code == 0, found.err
    assert "nothing was measured" in found.out
