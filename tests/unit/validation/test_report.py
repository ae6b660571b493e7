"""The report: verdict, text, JSON, error."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

import vyre
from support.kernels import LID, kernel, lit, located, store, var
from vyre.adapters.program_files import ProgramForm, render_program
from vyre.app.cli import main
from vyre.domain.diagnostics import Diagnostic
from vyre.domain.ir.expr import Atomic, Cast, Var
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Block, Let
from vyre.domain.ir.text import parse_program
from vyre.domain.ir.types import f32, u32, u64
from vyre.domain.program_report import InvalidProgram, Report
from vyre.domain.validation.known import order_sensitive
from vyre.domain.validation.validator import validate

_TEXT = """workgroup_size 64, 1, 1
buffer out @0 read_write u32[runtime]
body {
    if lid.x < 2u {
        barrier(seq_cst)
    }
}
"""


def test_errors_warnings_and_notes_are_told_apart() -> None:
    exchange = Atomic(AtomicOp.EXCHANGE, "out", lit(0), None, lit(1))
    report = validate(kernel(Let("n", Cast(u32, lit(1, u64))), Let("o", exchange), store(var("x"), "sh")))
    assert [found.code for found in report.errors] == ["V107"]
    assert [found.code for found in report.warnings] == ["V035"]
    assert [found.code for found in report.notes] == ["V218"]
    assert report.diagnostics == report.errors + report.warnings + report.notes
    assert report.order_sensitive
    assert not report.ok
    assert report.render().endswith("the program is invalid: 1 error, 1 warning, 1 note")


def test_a_printed_report_is_what_the_command_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    refused = Program((), (1, 1, 1), (Let("n\x1b[2J\n", Var("missing")),))
    accepted = kernel(store(LID))
    for name, program in (("refused", refused), ("accepted", accepted)):
        path = tmp_path / f"{name}.json"
        path.write_bytes(render_program(program, ProgramForm.JSON))
        assert main(["validate", str(path)]) == (0 if program is accepted else 1)
        assert capsys.readouterr().out == f"{path}: {vyre.validate(program)}\n"
    assert str(vyre.validate(accepted)) == "the program is valid: nothing to report"
    assert "\x1b" not in str(vyre.validate(refused))


def test_a_clean_report() -> None:
    report = validate(kernel(store(LID)))
    assert report == Report()
    assert report.ok
    assert report.render() == "the program is valid: nothing to report"
    report.raise_if_invalid()


def test_the_error_names_place_code_and_remedy_and_carries_the_report() -> None:
    report = validate(located(kernel(store(var("x")), store(lit(1.0, f32)))))
    with pytest.raises(InvalidProgram) as raised:
        report.raise_if_invalid()
    assert raised.value.report == report
    assert raised.value.message.startswith("kernel.vyre:")
    assert raised.value.message.endswith("[V107] no local `x` is visible here (and 1 more error)")
    assert raised.value.fix == report.errors[0].fix
    assert pickle.loads(pickle.dumps(raised.value)).report == report


def test_text_programs_are_shown_with_the_line_underlined() -> None:
    report = validate(parse_program(_TEXT, "a.vyre"))
    assert [found.code for found in report.errors] == ["V010"]
    lines = report.render(_TEXT).split("\n")
    assert lines[0].startswith("error[V010]: barrier ")
    assert lines[1].startswith("  --> a.vyre:5")
    assert lines[3:5] == [" 5 |         barrier(seq_cst)", "   |         ^^^^^^^"]
    assert lines[5].startswith("  = help: ")


def test_json_lists_every_diagnostic() -> None:
    report = validate(located(kernel(store(var("x")))))
    found = json.loads(json.dumps(report.to_json()))
    assert (found["ok"], found["order_sensitive"]) == (False, False)
    assert tuple(map(Diagnostic.from_json, found["errors"])) == report.errors
    assert found["warnings"] == found["notes"] == []


@pytest.mark.parametrize(
    ("operator", "reads", "expected"),
    [
        (AtomicOp.ADD, False, False),
        (AtomicOp.ADD, True, True),
        (AtomicOp.MAX, False, False),
        (AtomicOp.EXCHANGE, False, True),
        (AtomicOp.COMPARE_EXCHANGE, False, True),
        (AtomicOp.FETCH_NAND, False, True),
    ],
)
def test_order_sensitivity(operator: AtomicOp, reads: bool, expected: bool) -> None:
    compared = lit(0) if operator is AtomicOp.COMPARE_EXCHANGE else None
    old = Let("old", Atomic(operator, "out", lit(0), compared, lit(1)))
    program = kernel(old, store(var("old") if reads else LID, "sh"))
    assert validate(program).ok
    assert order_sensitive(program) is expected


def test_a_name_read_in_another_scope_is_another_local() -> None:
    add = Let("old", Atomic(AtomicOp.ADD, "out", lit(0), None, lit(1)))
    elsewhere = Block((Let("old", LID), store(var("old"), "sh")))
    assert not order_sensitive(kernel(Block((add,)), elsewhere))
