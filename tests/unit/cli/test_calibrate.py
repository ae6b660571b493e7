"""``vyre calibrate``, in-process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cuda.timed_device import TimedDevice
from vyre.adapters.disk.measurement_stores import costs_of_file
from vyre.app.cli import main
from vyre.app.services import USUAL, wired
from vyre.domain.launch_costs import COSTS
from vyre.domain.tuning import TimeKind
from vyre.ports.cost_probe import CostExperiment

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def device() -> Iterator[TimedDevice]:
    found = TimedDevice()
    with wired(USUAL._replace(catalog=found.catalog)):
        yield found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VYRE_BACKEND", raising=False)
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["calibrate", "--backend", "reference", *map(str, arguments)])
        return code, *capsys.readouterr()

    return call


def test_the_table_tells_every_cost(run: Run, device: TimedDevice) -> None:
    code, out, _ = run()
    title, *rows, why = out.splitlines()
    assert code == 0
    assert title.split() == ["cost", "median", "spread", "error", "samples", "provenance"]
    assert [row.split()[0] for row in rows] == list(COSTS)
    assert rows[1].split() == ["launch", "3.000", "us", "0.000", "us", "0.000", "us", "15", "measured"]
    assert why == "measured now on reference on a device, driver 13.0, in 15 rounds"


def test_what_is_unknown_is_said(run: Run, device: TimedDevice) -> None:
    del device.true_ns[CostExperiment.PERSISTENT]
    rows = run()[1].splitlines()
    assert "persistent_poll -  -  -  0  unknown" in [
        " ".join(row.split()).replace(" - - - 0", " -  -  -  0 ") for row in rows
    ]


def test_an_emulated_device_measures_nothing(run: Run, device: TimedDevice) -> None:
    device.kind = TimeKind.ESTIMATED
    lines = run()[1].splitlines()
    assert lines[-2] == "nothing was measured: these are times of an emulator, which say nothing about a GPU"
    assert not any(line.endswith("measured") for line in lines[:-2])


def test_json_and_file_agree(run: Run, device: TimedDevice) -> None:
    code, out, _ = run("--json", "--rounds", 7, "-o", "costs.json")
    found = json.loads(out)
    assert code == 0
    assert found["costs"]["launch"] == {
        "median_ns": 3_000,
        "spread_ns": 0,
        "standard_error_ns": 0,
        "count": 7,
        "provenance": "measured",
    }
    assert (found["provenance"], found["kept"], found["corrected"]) == ("measured", True, [])
    launch = costs_of_file(Path("costs.json")).launch
    assert launch is not None and launch.count == 7


def test_a_change_is_said(run: Run, device: TimedDevice) -> None:
    run()
    device.true_ns[CostExperiment.LAUNCHES] = (0, 300_000)
    out = run()[1]
    assert "changed: launch is 300000 ns, not 3000 ns: 15 samples, 297000 ns off, more than 750 ns" in out.splitlines()
    device.true_ns[CostExperiment.LAUNCHES] = (0, 3_000)
    (why,) = json.loads(run("--json")[1])["corrected"]
    assert why.startswith("launch is 3000 ns, not 300000 ns")


def test_what_was_written_is_named(run: Run, device: TimedDevice) -> None:
    assert run("-o", "costs.json")[1].splitlines()[-1] == "wrote costs.json"


@pytest.mark.parametrize("rounds", ["4", "0"])
def test_too_few_rounds_are_a_usage_error(rounds: str, run: Run, device: TimedDevice) -> None:
    code, _, err = run("--rounds", rounds)
    assert code != 0
    assert "is not an int in 5..100000" in err and "Fix:" in err
