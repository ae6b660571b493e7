"""Recorded programs and operator tables on both reference engines, and that the runner can fail."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from vyre.domain.ir.upstream import import_upstream
from vyre.domain.validation.validator import validate
from vyre.testing.conformance import main, read_cases, run_cases
from vyre.testing.execution import SCHEDULES, find_scheduled, open_backend
from vyre.testing.outcomes import Verdict

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
PROGRAMS = VECTORS / "oracle-programs.jsonl.xz"
KERNELS = VECTORS / "ir-conformance.json.xz"
TABLES = VECTORS / "oracle-scalar-ops.jsonl.xz"
ENGINES = ("reference", "reference-scalar", "cpu")

# Recorded as `ok`, refused here: a lane may have ended before a barrier; a subgroup operation under divergence.
REFUSED_HERE = {"barrier_after_partial_return": "V210", "subgroup_in_divergent_branch": "V203"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", [KERNELS, PROGRAMS, TABLES], ids=lambda p: p.name.split(".")[0])
def test_nothing_fails(path: Path, engine: str) -> None:
    outcomes = list(run_cases(read_cases(path), open_backend(engine)))
    assert outcomes
    assert [o for o in outcomes if o.verdict is Verdict.FAILED] == []


def test_every_kernel_runs() -> None:
    outcomes = list(run_cases(read_cases(KERNELS), open_backend("reference")))
    assert [o.verdict for o in outcomes] == [Verdict.PASSED] * 26


@pytest.mark.parametrize("path", [KERNELS, PROGRAMS, TABLES], ids=lambda p: p.name.split(".")[0])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_nothing_fails_on_an_emulated_device_in_any_order(path: Path, schedule: str) -> None:
    registration, canonical_order = find_scheduled("cuda-machine", schedule, 3)
    outcomes = list(run_cases(read_cases(path), registration.make(), canonical_order=canonical_order))
    assert outcomes
    assert [o for o in outcomes if o.verdict is Verdict.FAILED] == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_exactly_the_order_sensitive_programs_are_left_out_of_other_orders(schedule: str) -> None:
    registration, canonical_order = find_scheduled("cuda-machine", schedule)
    outcomes = run_cases(read_cases(KERNELS), registration.make(), canonical_order=canonical_order)
    sensitive = {
        record["id"]
        for record in json.loads(lzma.decompress(KERNELS.read_bytes()))["programs"]
        if validate(import_upstream(record["program"]).program).order_sensitive
    }
    assert sensitive
    left_out = {o.name: o.reason for o in outcomes if o.verdict is Verdict.SKIPPED}
    assert left_out.keys() == (set() if schedule == "lockstep" else sensitive)
    assert all("order-sensitive" in reason for reason in left_out.values())


def test_at_most_three_percent_of_what_runs_is_skipped_each_by_a_named_rule() -> None:
    ran = {r["name"] for r in _records(PROGRAMS) if r["status"] == "ok"}
    outcomes = run_cases(read_cases(PROGRAMS), open_backend("reference"))
    skipped = {o.name: o.reason for o in outcomes if o.verdict is Verdict.SKIPPED and o.name in ran}
    assert skipped.keys() == REFUSED_HERE.keys()
    assert all(code in skipped[name] for name, code in REFUSED_HERE.items())
    assert len(skipped) <= 0.03 * len(ran)


def test_a_program_refused_only_for_a_written_zero_divisor_must_be_accepted(tmp_path: Path) -> None:
    """The recorded system refuses it as V044, which is a lint here."""
    (record,) = (r for r in _records(PROGRAMS) if r["name"] == "inv_static_zero_div")
    assert record["validation"]["error_codes"] == ["V044"]
    report = validate(import_upstream(record["program"]).program)
    assert report.ok and [lint.code for lint in report.lints] == ["L013"]

    def verdict(**changes: Any) -> Verdict:
        path = tmp_path / "one.jsonl"
        path.write_text(json.dumps(record | changes))
        (outcome,) = run_cases(read_cases(path), open_backend("reference"))
        return outcome.verdict

    assert verdict() is Verdict.PASSED
    assert verdict(validation={"ok": False, "error_codes": ["V044", "V010"]}) is Verdict.FAILED
    assert verdict(validation={"ok": False, "error_codes": ["V010"]}) is Verdict.FAILED
    store = record["program"]["entry"][0][3][0]
    broken = record["program"] | {"entry": [["store", "nowhere", *store[2:]]]}
    assert verdict(program=broken) is Verdict.FAILED


def test_only_lru_update_is_left_out_of_the_tables() -> None:
    outcomes = run_cases(read_cases(TABLES), open_backend("reference"))
    assert [o.name for o in outcomes if o.verdict is Verdict.SKIPPED] == ["atomic-LruUpdate-u32"]


def test_a_wrong_expectation_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = next(r for r in _records(PROGRAMS) if r["status"] == "ok" and r["outputs"] and r["outputs"][0])
    first = record["outputs"][0]
    record["outputs"][0] = f"{int(first[:2], 16) ^ 1:02x}{first[2:]}"
    path = tmp_path / "programs.jsonl"
    path.write_text(json.dumps(record))
    assert main([str(path), "--backend", "reference"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"FAIL {record['name']}: ")
    assert lines[-1] == "0 passed, 1 failed, 0 skipped"


def test_a_program_that_must_be_refused_fails_when_it_is_accepted(tmp_path: Path) -> None:
    record = next(r for r in _records(PROGRAMS) if r["status"] == "ok" and not r["tags"].count("legal_here"))
    record["tags"] = [*record["tags"], "invalid"]
    path = tmp_path / "programs.jsonl"
    path.write_text(json.dumps(record))
    assert main([str(path), "--backend", "reference"]) == 1


def test_an_operator_table_can_fail(tmp_path: Path) -> None:
    table = next(t for t in _records(TABLES) if (t["kind"], t["op"], t["type"]) == ("binary", "Add", "u32"))
    table["rows"][0][2] = f"{int(table['rows'][0][2], 16) ^ 1:08x}"
    path = tmp_path / "tables.jsonl"
    path.write_text(json.dumps(table))
    assert main([str(path), "--backend", "reference"]) == 1


def test_a_glob_chooses_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(KERNELS), "--backend", "reference", "-k", "P0[12]", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["name"] for line in lines[:-1]] == ["P01", "P02"]
    assert lines[-1] == "2 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    "arguments",
    [
        [str(KERNELS), "--backend", "nobody"],
        ["no-such-file.json", "--backend", "reference"],
        [__file__, "--backend", "reference"],
        [str(KERNELS), "--backend", "reference", "--schedule", "reverse"],
        [str(KERNELS), "--backend", "reference", "--seed", "1"],
    ],
    ids=["backend", "missing", "format", "schedule", "seed"],
)
def test_what_cannot_be_run_is_said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Fix: " in capsys.readouterr().err


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lzma.decompress(path.read_bytes()).splitlines()]


NO_RESULT = {"binary": 2, "unary": 1, "cast": 1, "truthiness": 1, "fma": 3, "atomic": 3}
"""Place of the result in a row, by kind of table."""


@pytest.mark.parametrize("backend", [*ENGINES, "cuda-machine"])
@pytest.mark.parametrize("refused_rows", [0, 2])
def test_a_table_without_a_single_result_needs_no_count(tmp_path: Path, backend: str, refused_rows: int) -> None:
    tables = {
        (kind := table["kind"], table["op"]): {**table, "rows": [[*["1"] * NO_RESULT[kind], None]] * refused_rows}
        for table in map(json.loads, lzma.decompress(TABLES.read_bytes()).splitlines())
    }
    path = tmp_path / "tables.jsonl"
    path.write_text("\n".join(map(json.dumps, tables.values())))
    outcomes = list(run_cases(read_cases(path), open_backend(backend)))
    assert {o.verdict for o in outcomes} == {Verdict.PASSED, Verdict.SKIPPED}
    assert {o.name.split("-")[0] for o in outcomes if o.verdict is Verdict.PASSED} == NO_RESULT.keys()
