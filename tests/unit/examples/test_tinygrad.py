"""tinygrad runs on vyre: what ``examples/tinygrad`` promises, in processes of its own."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from support.limits import LIMIT_S

ROOT: Final = Path(__file__).parents[3]
EXAMPLE: Final = ROOT / "examples" / "tinygrad"
RESULTS: Final = ROOT / "benchmarks" / "results"
WITH_TINYGRAD: Final = pytest.mark.skipif(
    find_spec("tinygrad") is None, reason="tinygrad is not installed: it is in the dependency group tinygrad"
)

MEMORY: Final = """
import vyre_device
vyre_device.register()
import numpy as np
from tinygrad import Device, Tensor, TinyJit

allocator = Device["VYRE"].allocator
allocator.free(allocator.alloc(64), 64)
assert sum(map(len, allocator.cache.values())) == 1
try:
    allocator.alloc(1 << 50)
except MemoryError as full:
    assert "Fix:" in str(full)
else:
    raise SystemExit("there is no such memory")
assert not sum(map(len, allocator.cache.values()))  # what was kept is given up

there = (Tensor([1.0, 2.0, 3.0], device="VYRE") + 1).to("VYRE:1")
assert Device["VYRE"].session is not Device["VYRE:1"].session
assert (there * 2).tolist() == [4.0, 6.0, 8.0]

@TinyJit
def step(x):
    return ((x + 1).contiguous() * 2).realize()

for number in range(6):  # with an input of its own each time: the graph runs on all of them
    assert step(Tensor([number], device="VYRE").realize()).tolist() == [2 * number + 2]
assert any(isinstance(item.prg, vyre_device.VyreGraph) for item in step.jit_cache)
"""


def ran(command: list[str], backend: str, folder: Path) -> str:
    """Returns what a script prints that runs in the folder of the example."""
    environment = os.environ | {"DEV": "VYRE", "VYRE_BACKEND": backend, "CACHEDB": str(folder / "tinygrad.db")}
    done = subprocess.run(
        [sys.executable, *command], cwd=EXAMPLE, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_device_has_at_most_400_lines() -> None:
    lines = [(EXAMPLE / name).read_text().count("\n") for name in ("vyre_device.py", "lowering.py")]
    assert sum(lines) <= 400


@WITH_TINYGRAD
def test_the_installed_release_is_the_pinned_one() -> None:
    assert f'"tinygrad=={version("tinygrad")}"' in (ROOT / "pyproject.toml").read_text()


@WITH_TINYGRAD
@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
def test_a_network_learns_as_in_numpy(backend: str, tmp_path: Path) -> None:
    printed = ran(["mlp.py", "--epochs", "2" if backend == "cpu" else "1"], backend, tmp_path)
    assert f"VYRE on {backend}" in printed
    assert "epoch  0: loss " in printed


@WITH_TINYGRAD
def test_memory_is_given_up_when_there_is_no_more_and_goes_from_device_to_device(tmp_path: Path) -> None:
    ran(["-c", MEMORY], "reference", tmp_path)


def test_the_page_shows_what_is_recorded() -> None:
    page = (EXAMPLE / "README.md").read_text()
    tests = json.loads((RESULTS / "tinygrad-tests.json").read_text())
    assert runpy.run_path(str(EXAMPLE / "run_tests.py"))["table"](tests) in page
    assert f'"tinygrad=={tests["tinygrad"]}"' in (ROOT / "pyproject.toml").read_text()
    assert tests["beside_CPU"]["cpu"]["share"] >= 0.97
    assert not any(each["failed"] for each in tests["beside_CPU"].values())
    for row in json.loads((RESULTS / "tinygrad.json").read_text())["rows"]:
        assert f"| `{row['name']}` | {row['value']:.3g} {row['unit']} | {row['required']:g} |" in page


def test_own_tests_are_compared_test_by_test() -> None:
    compared = runpy.run_path(str(EXAMPLE / "run_tests.py"))["compared"]
    passed, failed = ("passed", ""), ("failed", "1 is not 2")
    theirs = {"a": passed, "b": passed, "c": ("skipped", "other devices"), "d": failed, "e": passed, "f": passed}
    ours = {"a": passed, "b": failed, "c": failed, "d": failed, "e": ("skipped", "no PTX"), "g": passed}
    found = compared({"CPU": {"test_ops": theirs}, "cpu": {"test_ops": ours}}, "cpu")
    assert (found["passing_there"], found["passing_here"]) == (3, 1)  # f did not run here
    assert found["share"] == pytest.approx(1 / 3)
    assert found["others"] == {"b": "failed: 1 is not 2", "e": "skipped: no PTX"}
    assert found["failed"] == ["b", "c"]  # d fails there too


def test_a_backend_that_ran_alone_has_a_table_too() -> None:
    example = runpy.run_path(str(EXAMPLE / "run_tests.py"))
    kept = {"cpu": {"test_ops": {"a": ("passed", "")}}}
    alone = example["compared"](kept, "cpu")
    table = example["table"]({"outcomes": {"cpu": {"test_ops": {"passed": 1}}}, "beside_CPU": {"cpu": alone}})
    assert alone["share"] is None and "| `test_ops` | not run | 1 passed |" in table
