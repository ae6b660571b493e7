"""A small share of the soak of persistent engines, which ``make soak`` runs in full; and its record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S
from support.llvm import NEEDS_LLVM
from support.storms import persistent_soak

RECORD: Final = Path(__file__).parents[2] / "benchmarks" / "results" / "persistent-soak.json"


@NEEDS_LLVM
def test_jobs_wrap_round_the_ring_and_none_is_lost() -> None:
    found = persistent_soak.run_jobs(2_000, 7)
    assert found["jobs"] == 2_000 and found["wraps"] >= 5


@NEEDS_LLVM
def test_engines_are_closed_at_random_moments() -> None:
    found = persistent_soak.run_stops(10, 7)
    assert found["ended"] > 10 and found["stopped"] > 10


@NEEDS_LLVM
@pytest.mark.parametrize(("part", "count"), [("run_interrupts", 3), ("run_crashes", 1)])
def test_interrupts_and_crashes_at_random_moments(part: str, count: int) -> None:
    script = f"from support.storms import persistent_soak as soak; print(soak.{part}({count}, 7))"
    paths = [str(Path(persistent_soak.__file__).parents[1]), *sys.path]
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )
    assert ran.returncode == 0, ran.stderr
    assert str(count) in ran.stdout


def test_jobs_on_an_emulated_device() -> None:
    found = persistent_soak.run_jobs(200, 7, persistent_soak.MACHINE)
    assert found["jobs"] == 200 and found["launches"] < 20


def test_engines_of_an_emulated_device_are_closed_at_random_moments() -> None:
    found = persistent_soak.run_stops(4, 7, persistent_soak.MACHINE)
    assert found["ended"] > 2 and found["stopped"] > 2


def test_emulated_devices_are_lost_at_random_moments() -> None:
    found = persistent_soak.run_losses(5, 7)
    assert found["right"] > 10 and found["lost"] > 10


def test_the_record_is_of_the_whole_soak() -> None:
    record = json.loads(RECORD.read_text("utf-8"))
    assert not [part for part in record.values() if isinstance(part, dict) and "failure" in part]
    assert record["jobs"]["jobs"] >= 1_000_000 and record["jobs"]["wraps"] >= 1_000
    assert record["stops"]["engines"] >= 1_000
    assert record["interrupts"]["interrupts"] >= 100 and record["crashes"]["processes"] >= 20
    assert record["machine_jobs"]["jobs"] >= 100_000
    assert record["machine_stops"]["engines"] >= 100 and record["machine_losses"]["devices"] >= 100
