"""The jobs of the benchmark suite ``cpu`` at small sizes: vyre's programs and those of C give the expected answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.cpu.contenders import BACKEND_VARIABLE, JOBS, SOLUTIONS
from benchmarks.cpu.job import WrongAnswer, aligned, check
from benchmarks.cpu_rows import ROWS
from benchmarks.harness import Metric, NotMeasured, Row, Samples, evaluate

import vyre
from support.limits import LIMIT_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", JOBS)
def test_the_programs_of_a_job_give_the_expected_answer(name: str) -> None:
    job = JOBS[name]
    data = job.data(**job.tiny)
    with vyre.open("reference") as session:
        side = job.ours(session, data)
        for _ in range(2):  # the second run finds the memory as the first has left it
            side.run()
            check(job, "vyre", side.answer(), job.expected(data))
        side.close()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine: C is a peer of the benchmarks alone")
def test_c_gives_the_expected_answers() -> None:
    from benchmarks.cpu.peers.c import SIDES

    for name, make in SIDES.items():
        job = JOBS[name]
        data = job.data(**job.tiny)
        side = make(data)
        side.run()
        check(job, "C", side.answer(), job.expected(data))


def test_a_wrong_answer_is_told() -> None:
    job = JOBS["histogram-1e6"]
    expected = job.expected(job.data(**job.tiny))
    with pytest.raises(WrongAnswer, match=r"1 of 256 elements of numba are wrong, first \[7\]"):
        check(job, "numba", expected + (np.arange(256) == 7).astype(np.uint32), expected)
    with pytest.raises(WrongAnswer, match=r"int64\(256,\), not uint32\(256,\)"):
        check(job, "numba", expected.astype(np.int64), expected)


def test_an_error_within_the_tolerance_of_a_contender_is_right_for_it_alone() -> None:
    job = JOBS["sin-1e6"]
    expected = job.expected(job.data(**job.tiny))
    off = np.nextafter(expected, np.float32(2))
    check(job, "C", off, expected)
    with pytest.raises(WrongAnswer, match="elements of vyre are wrong"):
        check(job, "vyre", off, expected)


def test_a_worker_prepares_and_times_a_job_and_tells_what_it_cannot_do() -> None:
    commands = [
        {"job": "saxpy-1e6", "size": "tiny"},
        {"sample": 2},
        {"job": "blake3-1MiB", "size": "tiny"},
    ]
    command = [sys.executable, "-m", "benchmarks.cpu.worker", "NumPy"]
    text = "".join(json.dumps(line) + "\n" for line in commands)
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    version, prepared, sample, missing = map(json.loads, done.stdout.splitlines())
    assert version == {"version": f"numpy {np.__version__}"}
    assert prepared["repeat"] >= 1
    assert sample["processor_s"] > 0 and sample["wall_s"] > 0
    assert missing == {"missing": "NumPy has no kernel of its own for this job"}


@pytest.mark.parametrize("contender", SOLUTIONS)
def test_a_worker_runs_vyre_with_and_without_the_widest_vectors(contender: str) -> None:
    pytest.importorskip("llvmlite")
    command = [sys.executable, "-m", "benchmarks.cpu.worker", contender]
    text = json.dumps({"job": "fnv1a", "size": "tiny"}) + "\n"
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    version, prepared = map(json.loads, done.stdout.splitlines())
    assert version["version"].startswith("vyre ")
    assert prepared["repeat"] >= 1


def test_a_worker_of_a_backend_that_is_not_here_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BACKEND_VARIABLE, "no-such-backend")
    command = [sys.executable, "-m", "benchmarks.cpu.worker", "vyre"]
    done = subprocess.run(command, cwd=ROOT, input="", capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert "no-such-backend" in json.loads(done.stdout)["missing"]


def test_a_row_that_cannot_be_measured_is_no_miss() -> None:
    def measure(rounds: int) -> Samples:
        raise NotMeasured("taichi is not installed")

    outcome = evaluate(Row("job/Taichi", Metric.RATIO, "x Taichi", 1.0, 0.6, measure, ""), 9)
    assert outcome.verdict == "not measured"
    assert outcome.as_json()["reason"] == "taichi is not installed"


def test_a_row_without_a_required_number_is_a_record() -> None:
    row = Row(
        "job/NumPy", Metric.RATIO, "x NumPy", None, None, lambda rounds: Samples([2.0] * rounds, [1.0] * rounds), ""
    )
    assert evaluate(row, 9).verdict == "record"


def test_every_row_belongs_to_a_job_and_every_job_has_rows() -> None:
    assert {row.name.partition("/")[0] for row in ROWS} == set(JOBS)
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_memory_is_aligned() -> None:
    for count in (1, 7, 1000):
        array = aligned(np.arange(count, dtype=np.uint8))
        assert array.ctypes.data % 64 == 0
        assert np.array_equal(array, np.arange(count, dtype=np.uint8))
