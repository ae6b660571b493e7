"""What the commands print: no byte of it commands a terminal, every encoding takes it, and streams may fail."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.command_line import Vyre, vyre_command
from support.limits import LIMIT_S
from vectors import runner as vectors
from vyre.adapters.program_files import ProgramForm, render_program
from vyre.adapters.terminal import OUTPUT_FAILED, READER_GONE, Outgoing, OutputLost, command, put
from vyre.app.bundle import load_bundle
from vyre.app.opening import open as open_session
from vyre.domain.diagnostics import Diagnostic, Severity
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Var
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Let, Store
from vyre.domain.ir.text_format import name_text, quoted
from vyre.domain.ir.types import u8, u32
from vyre.domain.printable import indented, one_line, printable
from vyre.domain.source_location import SourceLocation
from vyre.testing import conformance, filetests
from vyre.testing.backend_contract import __main__ as contract

NASTY = "n\u00e4\u4e2d\x1b[31m\x9b1m\r\n0 errors\u202e\ud800\x07[red]"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
HEADLESS = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
HELPLESS = {
    "C locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1:strict"},
}
VALID, INVALID = "p\x1b[31m\n\u00e9.vyre", "q\x1b[31m\n\u00e9.vyre"


def nasty_program() -> Program:
    """A valid program all of whose names are nasty."""
    with ProgramBuilder(NASTY, workgroup=1) as p:
        x = p.input("x" + NASTY, u32, 1)
        y = p.output("y" + NASTY, u32, 1)
        with p.region("r" + NASTY):
            y[0] = p.let(x[0] + p.spec("c" + NASTY, 1), "l" + NASTY)
    return p.build()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a valid and an invalid program of nasty names."""
    program = nasty_program()
    invalid = replace(program, body=(Let(NASTY, Var("missing" + NASTY)), Store("y" + NASTY, Var(NASTY), Var("n\n"))))
    for name, content in ((VALID, program), (INVALID, invalid)):
        (tmp_path / name).write_bytes(render_program(content, ProgramForm.TEXT))
    (tmp_path / "broken.vyre").write_bytes(b'program "\x1b[31m" workgroup_size 1,1,1 body { \x1b[31m }')
    (tmp_path / "broken.json").write_text(json.dumps({"format": "vyre-program/5", NASTY: 1}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str]) -> Vyre:
    return vyre_command(capsys)


# ---------------------------------------------------------------- escapes
def test_escapes() -> None:
    assert one_line(NASTY) == r"n" + "\u00e4\u4e2d" + r"\u{1b}[31m\u{9b}1m\u{d}\n0 errors\u{202e}\u{d800}\u{7}[red]"
    assert printable("a\tb\nc\x1b") == "a\tb\nc\\u{1b}"
    assert indented("a\nb") == "a\n    b"


NAMED = ("--in", f"x{NASTY}=7")
COMMANDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "validate": (0, ("validate", VALID)),
    "invalid": (1, ("validate", INVALID, VALID)),
    "broken": (1, ("validate", "broken.vyre", "broken.json")),
    "show": (0, ("show", VALID)),
    "show a broken one": (1, ("show", "broken.vyre")),
    "summary": (0, ("show", VALID, "--as", "summary")),
    "json": (0, ("show", VALID, "--as", "json")),
    "no form": (2, ("show", VALID, "--as", NASTY)),
    "run": (0, ("run", VALID, *NAMED, "--backend", "reference-scalar")),
    "run to a file": (0, ("run", VALID, *NAMED, "--out", f"y{NASTY}=\x1b.bin", "--backend", "reference-scalar")),
    "run an invalid one": (1, ("run", INVALID)),
    "no such input": (2, ("run", VALID, "--in", f"{NASTY}=1")),
    "no number": (2, ("run", VALID, "--in", f"x{NASTY}={NASTY}")),
    "no such file": (2, ("run", NASTY.replace("\ud800", ""))),
    "no such backend": (3, ("backends", "--backend", NASTY)),
    "no such option": (2, ("show", VALID, f"--{NASTY}")),
    "no such command": (2, (NASTY,)),
    "emit": (0, ("emit", VALID)),
    "emit for nothing": (2, ("emit", VALID, "--target", NASTY)),
    "key": (0, ("cache", "key", VALID, "--spec", f"c{NASTY}=3")),
    "aot": (0, ("aot", VALID, "--ptx-only", "--target", "sm_90", "--out", "\x1b.vyrz")),
    "explain": (0, ("explain", VALID, "--backend", "reference")),
    "no journal": (2, ("explain", "--replay", "\x1b\n")),
    "stats": (0, ("cache", "stats", "--dir", "\x1b\nd")),
    "invalidate": (0, ("cache", "invalidate", "--dir", "\x1b\nd", "--tool", NASTY)),
    "no program": (2, ("cache", "invalidate", "--dir", "\x1b\nd", "--program", NASTY.replace("\ud800", "") + ".vyre")),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_printed_commands_a_terminal(name: str, folder: Path, vyre: Vyre) -> None:
    code, arguments = COMMANDS[name]
    found = vyre(*arguments)
    assert "internal error" not in found.err
    assert found.code == code, found.err
    for printed in (found.out, found.err):
        assert not FORBIDDEN.search(printed)
        assert "\n0 errors" not in printed  # a line of its own that a name made up


@pytest.mark.parametrize("name", ["run", "json", "invalid", "broken", "emit", "key", "explain"])
def test_json_is_ascii(name: str, folder: Path, vyre: Vyre) -> None:
    code, arguments = COMMANDS[name]
    found = vyre(*arguments, *(["--json"] if name != "json" else []))
    assert found.code == code
    assert found.out.isascii()
    assert found.json is not None


@pytest.mark.parametrize("text", ['"\\ud800"', '"' + "[" * 3, "[" * 100_000])
def test_a_string_that_is_no_data_is_refused(text: str, folder: Path, vyre: Vyre) -> None:
    with ProgramBuilder("bytes", workgroup=1) as p:
        x, y = p.input("x", u8), p.output("y", u32, 1)
        y[0] = x[0]
    Path("bytes.vyre").write_bytes(render_program(p.build(), ProgramForm.TEXT))
    found = vyre("run", "bytes.vyre", "--in", f"x={text}")
    assert (found.code, found.out) == (2, "")
    assert "Fix: " in found.err


def test_a_bundle_of_a_program_with_nasty_names_loads(folder: Path, vyre: Vyre) -> None:
    assert vyre(*COMMANDS["aot"][1]).code == 0
    (program,) = load_bundle(Path("\x1b.vyrz")).values()
    with open_session("cuda-machine") as session:
        found = session.dispatch(program, {"x" + NASTY: np.array([6], np.uint32)})
    assert found["y" + NASTY].tolist() == [7]


def test_summaries_name_things_as_program_text_does(folder: Path, vyre: Vyre) -> None:
    found = vyre("show", VALID, "--as", "summary")
    assert f"program    {name_text(NASTY)}\n" in found.out
    assert f"constants  {name_text('c' + NASTY)}: u32\n" in found.out
    assert f"  {name_text('x' + NASTY)}: u32[1]" in found.out


def test_a_mark_stands_below_what_it_means_in_a_line_with_escapes() -> None:
    lines = Diagnostic(Severity.ERROR, "E1", "m", loc=SourceLocation("f", 1, 3)).render("\x1b =b").splitlines()
    assert lines[-2:] == ["  1 | \\u{1b} =b".replace("  1", " 1"), "   |        ^"]


def test_a_long_line_is_shown_around_its_place() -> None:
    source = "a" * 100_000 + "?" + "b" * 100_000
    rendered = Diagnostic(Severity.ERROR, "E1", "m", loc=SourceLocation("f", 1, 100_001)).render(source)
    assert len(rendered) < 1000
    *_, line, mark = rendered.splitlines()
    assert line[mark.index("^")] == "?"


# ---------------------------------------------------------------- runners
RUNNERS: dict[str, tuple[Callable[[Sequence[str]], int], tuple[str, ...]]] = {
    "filetests": (filetests.main, (VALID,)),
    "no filetests": (filetests.main, ("\x1b\n",)),
    "failing filetests": (filetests.main, ("f\x1b.vyre",)),
    "vectors": (vectors.main, ("\x1b\n",)),
    "conformance": (conformance.main, ("\x1b\n", "--backend", "reference")),
    "contract": (contract.main, (NASTY,)),
}


@pytest.mark.parametrize("name", RUNNERS)
def test_runners_print_nothing_that_commands_a_terminal(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = f"; run: {quoted('x' + NASTY)}=1 -> {quoted('y' + NASTY)}=7\n".encode()
    (folder / "f\x1b.vyre").write_bytes(failing + (folder / VALID).read_bytes())
    main, arguments = RUNNERS[name]
    assert main(arguments) in (1, 2)
    out, err = capsys.readouterr()
    assert out + err
    assert not FORBIDDEN.search(out + err)


# ---------------------------------------------------------------- streams
def process(
    *arguments: str,
    environment: dict[str, str] | None = None,
    shell: str = "",
    run: tuple[str, str] = ("-m", "vyre"),
) -> subprocess.CompletedProcess[bytes]:
    """The command as a process; ``shell`` may send its streams elsewhere."""
    environment = {**HEADLESS, "LC_ALL": "C.UTF-8", **(environment or {})}
    line = ["bash", "-c", f'exec "$@" {shell}', "bash", sys.executable, *run, *arguments]
    return subprocess.run(line, capture_output=True, env=environment, timeout=LIMIT_S, check=False)


def with_closed_pipe(module: str, *arguments: str, both: bool = False) -> subprocess.CompletedProcess[bytes]:
    """A command whose output nobody reads, nor its errors with ``both``."""
    reader, writer = os.pipe()
    os.close(reader)
    errors = writer if both else subprocess.PIPE
    try:
        line = [sys.executable, "-m", module, *arguments]
        return subprocess.run(line, stdout=writer, stderr=errors, timeout=LIMIT_S, check=False)
    finally:
        os.close(writer)


SEVERAL = """
import itertools, sys
from vyre.app.cli import main
commands = [list(words) for between, words in itertools.groupby(sys.argv[1:], "+".__eq__) if not between]
print([main(command) for command in commands], file=sys.stderr)
"""
"""Runs the commands between arguments ``+`` one after another, and prints their exit codes last."""


@pytest.mark.parametrize("encoding", HELPLESS)
def test_poor_encodings_get_escapes(encoding: str, folder: Path) -> None:
    (folder / "f.vyre").write_bytes(render_program(nasty_program(), ProgramForm.TEXT))
    commands = (
        *("show", "f.vyre", "+", "show", "f.vyre", "--as", "summary", "+"),
        *("cache", "key", "f.vyre", "+", "validate", INVALID),
    )
    found = process(*commands, environment=HELPLESS[encoding], run=("-c", SEVERAL))
    assert found.returncode == 0, found.stderr
    assert found.stderr.endswith(b"[0, 0, 0, 1]\n"), found.stderr
    assert found.stdout.count(b"program ") >= 2
    printed = found.stdout + found.stderr
    assert b"internal error" not in printed
    assert b"\x1b" not in printed
    if encoding != "latin-1":
        assert printed.isascii()


@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a POSIX shell")
@pytest.mark.parametrize("arguments", [("show", VALID), ("--help",), ("backends",)])
def test_streams_that_fail(arguments: tuple[str, ...], folder: Path) -> None:
    closed = process(*arguments, shell=">&-")
    assert (closed.returncode, closed.stderr.count(b"\n")) == (OUTPUT_FAILED, 1), closed.stderr
    assert b"standard output is closed. Fix: " in closed.stderr
    if Path("/dev/full").exists():
        full = process(*arguments, shell=">/dev/full")
        assert (full.returncode, full.stderr.count(b"\n")) == (OUTPUT_FAILED, 1), full.stderr
        assert b"No space left on device. Fix: " in full.stderr


@pytest.mark.skipif(os.name != "posix", reason="a closed pipe is a POSIX thing")
@pytest.mark.parametrize("both", [False, True], ids=["output", "output and errors"])
@pytest.mark.parametrize("arguments", [("show", VALID), ("--help",), ("cache", "stats", "--dir", "d")])
def test_a_closed_pipe_is_quiet(arguments: tuple[str, ...], both: bool, folder: Path) -> None:
    found = with_closed_pipe("vyre", *arguments, both=both)
    assert found.returncode == READER_GONE
    assert not found.stderr


@pytest.mark.parametrize("shell", ["2>&-", "2>/dev/full"])
def test_without_standard_error_the_exit_code_says_it(shell: str, folder: Path) -> None:
    for arguments, code in ((("--nope",), 2), (("run", INVALID), 1), (("show", VALID), 0)):
        found = process(*arguments, shell=shell)
        assert found.returncode == code
        assert bool(found.stdout) is (code == 0)


def test_runners_are_quiet_about_a_closed_pipe(folder: Path) -> None:
    found = with_closed_pipe("vyre.testing.filetests", "broken.vyre", VALID)
    assert found.returncode == 2
    assert b"Traceback" not in found.stderr
    assert b"\x1b" not in found.stderr


class Failing(io.StringIO):
    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_what_is_lost_when_flushed_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @command
    def main() -> int:
        put("hello")
        return 0

    monkeypatch.setattr(sys, "stdout", Failing())
    assert main() == OUTPUT_FAILED
    assert capsys.readouterr().err == (
        "cannot write the output: No space left on device. Fix: free space, or send it somewhere else.\n"
    )


def test_a_closed_stream_takes_nothing_and_loses_errors() -> None:
    with pytest.raises(OutputLost, match="closed"):
        Outgoing(None).write("x")
    assert Outgoing(None).write("") == 0
    assert Outgoing(None, may_be_lost=True).write("x") == 1
    assert not Outgoing(None).isatty()
    with pytest.raises(OSError, match="closed"):
        Outgoing(None).fileno()


def test_a_stream_may_be_closed_before_what_writes_to_it_is_finalized() -> None:
    stream = io.StringIO()
    out = Outgoing(stream)
    out.write("text")
    stream.close()
    out.flush()
    out.close()
