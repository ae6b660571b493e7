"""The filetest runner: values read back, directives are checked, and every kind of expectation can fail."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from support.fuzzing.reproducer import filetest
from support.profiles import examples
from support.programs import Case, Order, cases
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import ErrorCode, InvalidConfig, MalformedText
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_lexer import END, tokenize
from vyre.domain.ir.types import ScalarType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from vyre.testing.execution import open_backend
from vyre.testing.filetest_syntax import ExpectedError, filetest_text, parse_filetest
from vyre.testing.filetest_values import Room, take_values, values_text
from vyre.testing.filetests import load_filetests, main, run_filetest
from vyre.testing.outcomes import Verdict

BACKEND = open_backend("reference-scalar")


def value(element: ScalarType, text: str) -> bytes:
    cursor = Cursor(tokenize(text, "value"))
    data = take_values(cursor, element, Room())
    assert cursor.kind == END
    return data


@pytest.mark.parametrize("text", ["iota(1048577)", "0*1048577", "[0*1048576, 0*1]", "rnd(1, 999999999999)"])
def test_a_few_letters_make_no_gigabytes(text: str) -> None:
    with pytest.raises(MalformedText, match="a number of elements is"):
        value(u8, text)


@pytest.mark.parametrize(
    ("element", "text", "data"),
    [
        (u32, "[1, 2u, 0x1f]", "01000000020000001f000000"),
        (i32, "-1", "ffffffff"),
        (u64, "[0xffffffffffffffff, 1u64]", "ffffffffffffffff0100000000000000"),
        (i64, "-9223372036854775808i64", "0000000000000080"),
        (u8, "[0, 255, 7*3]", "00ff070707"),
        (i8, "[-128, 127]", "807f"),
        (u16, "0xffff", "ffff"),
        (i16, "-2", "feff"),
        (f32, "[1, 1.5f, -0.0, inf, -inf, nan]", "0000803f0000c03f000000800000807f000080ff0000c07f"),
        (f32, "f32(0x7fc00001)", "0100c07f"),
        (f32, "1e-45", "01000000"),
        (f64, "[0.1, nan]", "9a9999999999b93f000000000000f87f"),
        (f16, "[1, 65504, inf, f16(0x7c01)]", "003cff7b007c017c"),
        (bf16, "[1, nan]", "803fc07f"),
        (bool_, "[true, false, 1, bool(0x80)]", "01000000000000000100000080000000"),
        (u8, "iota(4)", "00010203"),
        (i32, "iota(3, 5, -4)", "0500000001000000fdffffff"),
        (f32, "[iota(2), 9]", "000000000000803f00001041"),
        (u16, 'hex("010203")', "010203"),
        (u32, "[]", ""),
        (u32, "5*0", ""),
    ],
)
def test_values(element: ScalarType, text: str, data: str) -> None:
    assert value(element, text).hex() == data


def test_random_values_are_pinned() -> None:
    """They are part of the tests that use them, so they never change."""
    stream = blake3(b"vyre.filetest.rnd\0" + (5).to_bytes(8, "little"))
    assert value(u16, "rnd(5, 8)") == stream.digest(length=16)
    words = stream.digest(length=24)
    expected = [int.from_bytes(words[k : k + 8], "little") % 7 - 3 for k in (0, 8, 16)]
    assert value(i8, "rnd(5, 3, -3..3)") == bytes(n & 0xFF for n in expected)
    assert set(value(bool_, "rnd(1, 64)")) == {0, 1}


@pytest.mark.parametrize(
    ("element", "text"),
    [
        (u8, "256"),
        (u32, "-1"),
        (u32, "1i"),
        (u32, "1.5"),
        (i32, "2147483648"),
        (f32, "1u"),
        (f32, "0x3f800000"),
        (f32, "f64(0x0)"),
        (f16, "0.1"),
        (bool_, "2"),
        (u32, "true"),
        (u32, "inf"),
        (u32, 'hex("0")'),
        (u32, "rnd(1, 2, 3..1)"),
        (u8, "iota(257)"),
        (u32, "nobody(1)"),
        (u32, "[1, 2"),
        (u32, ""),
    ],
)
def test_what_is_no_value_is_refused(element: ScalarType, text: str) -> None:
    with pytest.raises(MalformedText, match=r"value:1:\d+: .*Fix: "):
        value(element, text)


@examples(200)
@given(element=st.sampled_from(list(ScalarType)), data=st.binary(max_size=40))
def test_any_bytes_can_be_written_as_a_value(element: ScalarType, data: bytes) -> None:
    assert value(element, values_text(element, data)) == data


@examples(60)
@given(case=cases(order=Order.RACY, traps=True))
def test_a_random_case_is_a_filetest_that_passes(case: Case) -> None:
    test = parse_filetest(filetest(case), "case.vyre")
    assert test.program == case.program
    (run,) = test.runs
    assert run.inputs == case.inputs
    config = case.config
    assert run.config(case.program) == replace(
        config, output_counts=config.output_counts or None, spec=config.spec or None
    )
    assert [o for o in run_filetest(test, BACKEND) if o.verdict is not Verdict.PASSED] == []


# ---------------------------------------------------------------- directives
KERNEL = """
workgroup_size 1, 1, 1
buffer x @0 read_write u32[2]
buffer grid @1 uniform f32[1]
body {
  x[0u] = x[1u] + spec(n, 1u)
  if grid[0u] > 1.0f {
    trap(5u, "stop")
  }
}
"""


def outcomes(directives: str, kernel: str = KERNEL) -> list[tuple[Verdict, str]]:
    test = parse_filetest(directives + kernel, "test.vyre")
    return [(o.verdict, o.reason) for o in run_filetest(test, BACKEND)]


PASSED = (Verdict.PASSED, "")


@pytest.mark.parametrize(
    "directive",
    [
        '; run: x=[1, 2] "grid"=0 grid=1 -> x=[3, 2]',
        '; run: x=[1, 2] "grid"=0 grid=1,1,1 spec.n=5 -> x=[7, 2]',
        '; run: x=[1, 2] "grid"=0 grid=1 -> x=blake3("' + blake3(value(u32, "[3, 2]")).hexdigest(8) + '")',
        '; run: x=[1, 2] \\\n;   "grid"=0 grid=1 \\\n;   -> x=[3, 2]',
        '; run: x=[1, 2] "grid"=0 grid=1 -> ; nothing is compared',
        '; run: x=[1, 2] "grid"=2 grid=1 -> error TRAP',
        '; run: x=[1, 2] "grid"=2 grid=1 -> error TRAP "stop" tag="stop" address=5 global_id=0,0,0',
        '; run: x=[1] "grid"=2 -> error INVALID_INPUT "`x` got 4 bytes"',
        "; run: x=[1, 2] -> error INVALID_INPUT",
        '; run: x=[1, 2] "grid"=0 grid=0 -> error INVALID_CONFIG',
        '; run: x=[1, 2] "grid"=0 spec.m=1 -> error INVALID_CONFIG',
    ],
)
def test_what_holds_passes(directive: str) -> None:
    assert outcomes(directive) == [PASSED, PASSED]


@pytest.mark.parametrize(
    ("directive", "reason"),
    [
        ('; run: x=[1, 2] "grid"=0 grid=1 -> x=[3, 3]', "`x` is [3, 2], expected [3, 3] (first at element 1)"),
        ('; run: x=[1, 2] "grid"=0 grid=1 -> x=[3]', "`x` is [3, 2], expected [3]"),
        ('; run: x=[1, 2] "grid"=0 grid=1 -> x=blake3("01234567")', '`x` is [3, 2], expected blake3("01234567")'),
        ('; run: x=[1, 2] "grid"=0 grid=1 -> error TRAP', "it runs; expected the error TRAP"),
        ('; run: x=[1, 2] "grid"=2 grid=1 -> x=[3, 2]', "TrapError: trap `stop`"),
        ('; run: x=[1, 2] "grid"=2 grid=1 -> error INVALID_INPUT', "TRAP (trap `stop`"),
        ('; run: x=[1, 2] "grid"=2 grid=1 -> error TRAP address=6', "TRAP has address=5; expected 6"),
        ('; run: x=[1, 2] "grid"=2 grid=1 -> error TRAP nothing=6', "TRAP has nothing=None; expected 6"),
        ('; run: x=[1, 2] "grid"=2 grid=1 -> error TRAP "halt"', "expected 'halt' in it"),
    ],
)
def test_what_does_not_hold_fails_and_says_why(directive: str, reason: str) -> None:
    first, (verdict, why) = outcomes(directive)
    assert first == PASSED
    assert verdict is Verdict.FAILED
    assert reason in why


@pytest.mark.parametrize("expected", ["x=[3, 2]", "x=[0, 0]", "error TRAP"])
def test_what_the_backend_does_not_offer_is_skipped(expected: str) -> None:
    directive = f'; run: x=[1, 2] "grid"=0 grid=1 chunk=2 -> {expected}'
    first, (verdict, why) = outcomes(directive)
    assert (first, verdict) == (PASSED, Verdict.SKIPPED)
    assert why == "backend `reference-scalar` does not support `several workgroups at once`"


def test_a_refusal_may_be_expected() -> None:
    directive = '; run: x=[1, 2] "grid"=0 grid=1 chunk=2 -> error UNSUPPORTED_FEATURE'
    assert outcomes(directive) == [PASSED, PASSED]


BROKEN = """
workgroup_size 1, 1, 1
buffer x @0 read_write u32[2]
body {
  x[0u] = y
  x[0u] = cast<u32>(1u64)
}
"""


@pytest.mark.parametrize(
    ("directives", "body", "verdict"),
    [
        ("; error: V107", BROKEN, Verdict.PASSED),
        ("", BROKEN.replace("= y", "= y ; error: V107"), Verdict.PASSED),
        ("; warning: V035 \n; error: V107", BROKEN, Verdict.PASSED),
        ("; error: V107 V107", BROKEN, Verdict.FAILED),
        ("; error: V108", BROKEN, Verdict.FAILED),
        ("", BROKEN.replace("body {", "body { ; error: V107"), Verdict.FAILED),
        ("; warning: V036\n; error: V107", BROKEN, Verdict.FAILED),
        ("; error: MALFORMED_TEXT", BROKEN.replace("= y", "="), Verdict.PASSED),
        ("; error: MALFORMED_TEXT V107", BROKEN.replace("= y", "="), Verdict.FAILED),
        ("; error: MALFORMED_TEXT", BROKEN, Verdict.FAILED),
    ],
)
def test_diagnostics_are_compared(directives: str, body: str, verdict: Verdict) -> None:
    ((found, _),) = outcomes(directives, body)
    assert found is verdict


def test_an_invalid_program_does_not_run() -> None:
    assert [verdict for verdict, _ in outcomes("; run: x=[1, 2] ->", BROKEN)] == [Verdict.FAILED] * 2


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("; just a comment", r"test.vyre:1:1: the text has no directive"),
        ("; run: y=[1] ->", r"test.vyre:1:8: `y` is no input and no option.*the inputs are x, grid"),
        ("; run: x=[1] x=[1] ->", r"test.vyre:1:14: `x` is given twice"),
        ("; run: x=[1]", r"test.vyre:1:13: expected an input, an option or `->`, found the end"),
        ("; run: -> z=[1]", r"test.vyre:1:11: `z` is no output and no option.*the outputs are x"),
        ("; run: -> x=[1] grid=1", r"`grid` is no output"),
        ("; run: -> error NOBODY", r"NOBODY is no error code.*TRAP"),
        ('; run: -> x=blake3("0123")', r"a digest of less than 8 digits"),
        ("; run: race_check=1 ->", r"test.vyre:1:19: expected `true`"),
        ("; error: 12", r"expected a diagnostic code"),
        ("; error: trap", r"expected a diagnostic code"),
        ("; error: V1", r"V1 is no diagnostic code"),
        ("; error:", r"expected a diagnostic code"),
    ],
)
def test_a_directive_that_does_not_parse_is_refused_with_its_place(directive: str, message: str) -> None:
    with pytest.raises(MalformedText, match=message):
        outcomes(directive)


def test_text_that_does_not_parse_is_refused_unless_expected() -> None:
    with pytest.raises(MalformedText, match=r"test.vyre:6:9: expected a statement"):
        outcomes("; run: x=[1] ->", BROKEN.replace("= y", "="))


def test_an_error_is_written_with_its_attributes() -> None:
    expected = ExpectedError(ErrorCode.TRAP, "stop", {"tag": "stop", "global_id": (0, 0, 0)})
    program = Program.from_text(KERNEL)
    text = filetest_text(
        program, {"x": bytes(8), "grid": bytes(4)}, DispatchConfig(grid=(1, 1, 1)), expected, note="a\nb"
    )
    assert text.startswith(
        '; a\n; b\n; run: x=[0, 0] "grid"=[0.0] grid=1,1,1 -> error TRAP "stop" tag="stop" global_id=0,0,0\n'
    )
    assert parse_filetest(text, "x").runs[0].expected == expected


def test_what_directives_cannot_say_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="timeout_s"):
        filetest_text(Program.from_text(KERNEL), {}, DispatchConfig(timeout_s=1.0), {})


def test_the_example_of_the_documentation_passes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "filetests.md").read_text()
    test = parse_filetest(page.split("```")[1], "docs/filetests.md")
    assert len(test.runs) == 3
    assert [o for o in run_filetest(test, BACKEND) if o.verdict is not Verdict.PASSED] == []


@pytest.mark.parametrize(("name", "sensitive"), [("returned_values", True), ("histogram", False)])
def test_order_sensitive_runs_are_skipped_out_of_order(name: str, sensitive: bool) -> None:
    (test,) = load_filetests([Path(__file__).parents[2] / "filetests" / "atomics" / f"{name}.vyre"])
    _, *runs = run_filetest(test, BACKEND, canonical_order=False)
    assert {o.verdict for o in runs} == {Verdict.SKIPPED if sensitive else Verdict.PASSED}


# ---------------------------------------------------------------- command
def test_the_command_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.vyre").write_text(f'; run: x=[1, 2] "grid"=0 grid=1 -> x=[3, 2]\n{KERNEL}')
    (tmp_path / "bad.vyre").write_text(f'; run: x=[1, 2] "grid"=0 grid=1 -> x=[0, 0]\n{KERNEL}')
    assert main([str(tmp_path)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"FAIL {tmp_path / 'bad.vyre'}:1: `x` is [3, 2]")
    assert last == "3 passed, 1 failed, 0 skipped"
    assert main([str(tmp_path), "--backend", "reference-scalar", "-k", "*good*", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["verdict"] for line in lines[:-1]] == ["passed", "passed"]


def test_what_the_command_cannot_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.vyre").write_text("no program")
    (tmp_path / "binary.vyre").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").mkdir()
    for arguments in (
        [str(tmp_path / "text.vyre")],
        [str(tmp_path / "binary.vyre")],
        [str(tmp_path / "missing.vyre")],
        [str(tmp_path / "empty")],
        [str(tmp_path / "text.vyre"), "--backend", "nobody"],
    ):
        assert main(arguments) == 2
        assert "Fix: " in capsys.readouterr().err
