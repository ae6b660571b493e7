"""The command line in-process: what is printed, what is written, and the exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.command_line import Vyre, vyre_command
from support.small_programs import saxpy_program, square_program
from vyre.adapters.program_files import ProgramForm, parse_program_file, render_program
from vyre.app.demo import DemoRow
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import i32, u8, u32
from vyre.domain.validation.validator import validate

SCALAR = ("--backend", "reference-scalar")
EXTENSIONS = {"vyre": ProgramForm.TEXT, "vyrb": ProgramForm.WIRE, "json": ProgramForm.JSON}


@pytest.fixture
def vyre(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Vyre:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VYRE_BACKEND", raising=False)

    return vyre_command(capsys)


def saved(program: Program, path: str, form: ProgramForm = ProgramForm.TEXT) -> Path:
    Path(path).write_bytes(render_program(program, form))
    return Path(path)


# ---------------------------------------------------------------- run
@pytest.mark.parametrize(("extension", "form"), EXTENSIONS.items())
@pytest.mark.parametrize("named", [True, False])
def test_run_reads_every_form_by_extension_or_content(
    vyre: Vyre, extension: str, form: ProgramForm, named: bool
) -> None:
    path = saved(saxpy_program(), f"p.{extension}" if named else "p", form)
    found = vyre("run", path, "--in", "a=2", "--in", "x=1,2,3", "--in", "y=0.5,0,-1", *SCALAR)
    assert found.code == 0
    assert "y: float32[3] 2.5 4.0 5.0" in found.out
    assert "asked for by name" in found.out


def test_run_on_files_and_back(vyre: Vyre) -> None:
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    np.save("x.npy", x)
    Path("y.bin").write_bytes(y.tobytes())
    program = saved(saxpy_program(), "p.vyre")
    arguments = ("run", program, "--in", "a=3", "--in", "x=@x.npy", "--in", "y=@y.bin", *SCALAR)
    assert vyre(*arguments, "--out", "y=r.npy").code == 0
    assert vyre(*arguments, "--out", "y=r.bin").code == 0
    np.testing.assert_array_equal(np.load("r.npy"), 3 * x + y)
    assert Path("r.bin").read_bytes() == (3 * x + y).tobytes()
    assert sorted(p.name for p in Path().iterdir()) == ["p.vyre", "r.bin", "r.npy", "x.npy", "y.bin"]


def test_run_for_machines(vyre: Vyre) -> None:
    program = saved(square_program(), "p.vyre")
    found = vyre("run", program, "--in", "x=" + ",".join(map(str, range(20))), "--json", *SCALAR)
    (output,) = found.json["outputs"]
    assert output == {"name": "y", "dtype": "uint32", "count": 20, "first": [k * k for k in range(8)], "file": None}
    assert found.json["backend"] == "reference-scalar"
    assert found.json["wall_ns"] > 0


def test_run_shows_shapes_and_the_launch(vyre: Vyre) -> None:
    with ProgramBuilder("flags", workgroup=(2, 2)) as p:
        y = p.inout("y", u32)
        y[p.global_id(1) * 2 + p.global_id(0)] = 7
    program = saved(p.build(), "flags.vyre")
    np.save("y.npy", np.arange(12, dtype=np.uint32).reshape(6, 2))
    arguments = ("run", program, "--in", "y=@y.npy", "--extent", "2,6", *SCALAR)
    assert vyre(*arguments).out.startswith("y: uint32[6, 2] 7 7 7 7 7 7 7 7 ...\n")
    found = vyre(*arguments, "--json")
    (output,) = found.json["outputs"]
    assert (output["count"], output["shape"], output["first"]) == (12, [6, 2], [7] * 8)
    assert found.json["launch"] == {"grid": [1, 3, 1], "workgroup": [2, 2, 1], "extent": [2, 6], "rule": "given_extent"}
    assert vyre(*arguments, "--out", "y=z.npy").code == 0
    assert np.load("z.npy").shape == (6, 2)


def test_json_has_no_nan(vyre: Vyre) -> None:
    program = saved(saxpy_program(), "p.vyre")
    found = vyre("run", program, "--in", "a=inf", "--in", "x=0,1", "--in", "y=0,0", "--json", *SCALAR)
    assert found.json["outputs"][0]["first"] == ["nan", "inf"]


def _shaped() -> Program:
    with ProgramBuilder("shaped", workgroup=(2, 2)) as p:
        text = p.input("text", u8)
        y = p.output("y", i32)
        n = p.spec("n", i32(5))
        with p.if_((p.global_id() == 0) & (p.global_id(1) == 0)):
            y[0] = n
            y[1] = text[1].cast(i32)
            y[2] = p.num_groups(0).cast(i32)
            y[3] = p.num_groups(1).cast(i32)
    return p.build()


def test_run_takes_shapes_constants_sizes_and_strings(vyre: Vyre) -> None:
    program = saved(_shaped(), "p.vyre")
    common = ("run", program, "--in", 'text="héllo"', "--size", "y=4", "--json", *SCALAR)
    by_grid = vyre(*common, "--grid", "3,2", "--spec", "n=-7")
    assert by_grid.json["outputs"][0]["first"] == [-7, 0xC3, 3, 2]
    by_extent = vyre(*common, "--extent", "5,0x3")
    assert by_extent.json["outputs"][0]["first"] == [5, 0xC3, 3, 2]


BAD_RUNS: dict[str, tuple[list[str], int, str]] = {
    "no such file": (["--in", "x=@nope.npy"], 2, "cannot read nope.npy"),
    "not name=value": (["--in", "x"], 2, "'x' is not name=value"),
    "given twice": (["--in", "x=1", "--in", "x=2"], 2, "gives `x` twice"),
    "unknown input": (["--in", "z=1"], 2, "`z` is no input"),
    "unknown output": (["--in", "x=1", "--out", "z=f"], 2, "`z` is no output"),
    "no number": (["--in", "x=1,two"], 2, "'two' is no number"),
    "fraction for u32": (["--in", "x=1.5"], 2, "1.5 is no integer"),
    "out of range": (["--in", "x=4294967296"], 2, "does not fit u32"),
    "missing input": ([], 2, "`x` is missing"),
    "bad grid": (["--in", "x=1", "--grid", "a"], 2, "'a' is no shape"),
    "zero grid": (["--in", "x=1", "--grid", "0"], 2, "grid.x=0"),
    "four axes": (["--in", "x=1", "--grid", "1,1,1,1"], 2, "4 axes"),
    "grid and extent": (["--in", "x=1", "--grid", "1", "--extent", "1"], 2, "both grid and extent"),
    "unknown constant": (["--in", "x=1", "--spec", "k=1"], 2, "no specialization constant 'k'"),
    "size of no output": (["--in", "x=1", "--size", "q=1"], 2, "output_counts"),
    "fractional size": (["--in", "x=1", "--size", "y=1.5"], 2, "y=1.5 is no count"),
    "a string for u32": (["--in", 'x="abc"'], 2, "a string is data for u8"),
    "wrong dtype": (["--in", "x=@f64.npy"], 2, "`x` holds u32"),
    "broken npy": (["--in", "x=@broken.npy"], 2, "broken.npy is no readable .npy"),
    "half an element": (["--in", "x=@three.bin"], 2, "multiple of its element size"),
    "unknown backend": (["--in", "x=1", "--backend", "nope"], 3, "no backend `nope`"),
    "no directory": (["--in", "x=1", "--out", "y=no/such/dir/f"], 2, "cannot write"),
    "a directory": (["--in", "x=1", "--out", "y=folder"], 2, "cannot write folder"),
}


@pytest.mark.parametrize(("options", "code", "message"), BAD_RUNS.values(), ids=BAD_RUNS)
@pytest.mark.parametrize("machine", [False, True])
def test_bad_runs(vyre: Vyre, options: list[str], code: int, message: str, machine: bool) -> None:
    program = saved(square_program(), "p.vyre")
    np.save("f64.npy", np.zeros(2))
    Path("broken.npy").write_bytes(b"\x93NUMPY\x01\x00garbage")
    Path("three.bin").write_bytes(b"abc")
    Path("folder").mkdir()
    before = sorted(Path().rglob("*"))
    backend = () if "--backend" in options else SCALAR
    found = vyre("run", program, *options, *backend, *(["--json"] * machine))
    assert found.code == code
    if machine:
        error = found.json["error"]
        assert message in error["message"]
        assert error["suggested_fix"]
    else:
        assert message in found.err
        assert "Fix: " in found.err
        assert found.out == ""
    assert sorted(Path().rglob("*")) == before


def test_output_files_appear_together_or_not_at_all(vyre: Vyre) -> None:
    with ProgramBuilder("two", workgroup=1) as p:
        p.output("a", u32, 1)[0] = 1
        p.output("b", u32, 1)[0] = 2
    program = saved(p.build(), "p.vyre")
    Path("a.npy").write_bytes(b"old")
    assert vyre("run", program, "--out", "a=a.npy", "--out", "b=missing/b.npy", *SCALAR).code == 2
    assert Path("a.npy").read_bytes() == b"old"
    assert sorted(q.name for q in Path().iterdir()) == ["a.npy", "p.vyre"]
    same = vyre("run", program, "--out", "a=a.npy", "--out", "b=./a.npy", *SCALAR)
    assert (same.code, "one file for two outputs" in same.err) == (2, True)


def test_a_trap_is_a_failed_execution(vyre: Vyre) -> None:
    with ProgramBuilder("trapping", workgroup=1) as p:
        p.output("y", u32, 1)
        p.trap(p.global_id() + 7, "boom")
    found = vyre("run", saved(p.build(), "p.vyre"), "--out", "y=y.npy", *SCALAR)
    assert found.code == 4
    assert "boom" in found.err
    assert not Path("y.npy").exists()


# ---------------------------------------------------------------- show, validate
RACY = """\
workgroup_size 4, 1, 1
buffer y @0 read_write u32[runtime]
body {
  y[gid.x] = y[gid.x + 1u]
}
"""


@pytest.mark.parametrize("backend", ["reference", "reference-scalar", "cuda-machine"])
def test_run_looks_for_races_where_it_is_asked_to(vyre: Vyre, backend: str) -> None:
    Path("p.vyre").write_text(RACY, "utf-8")
    arguments = ("run", "p.vyre", "--in", "y=1,2", "--out", "y=y.npy", "--backend", backend)
    assert vyre(*arguments).code == 0
    assert vyre("run", "p.vyre", "--in", "y=1", "--check", "races", "--backend", backend).code == 0
    Path("y.npy").unlink()
    found = vyre(*arguments, "--check", "races")
    told = " ".join(found.err.split())
    assert found.code == 4
    assert "y[1]: load by lane 0 (workgroup 0,0,0, local 0,0,0) at p.vyre:4:14, store by lane 1" in told
    assert "at p.vyre:4:3" in told
    assert "Fix: put a workgroup barrier between the two accesses, make both of them atomic" in told
    assert not Path("y.npy").exists()
    (race,) = json.loads(vyre(*arguments, "--check", "races", "--json").out)["error"]["races"]
    assert (race["buffer"], race["element"], race["second"]["global_id"]) == ("y", 1, [1, 0, 0])
    assert race["first"]["loc"] == {"file": "p.vyre", "line": 4, "column": 14}


def test_a_check_that_does_not_exist_is_refused(vyre: Vyre) -> None:
    Path("p.vyre").write_text(RACY, "utf-8")
    found = vyre("run", "p.vyre", "--in", "y=1,2", "--check", "leaks")
    assert (found.code, "Fix: use --check races." in found.err) == (2, True)


def test_show_forms_are_read_back(vyre: Vyre) -> None:
    program = saxpy_program()
    source = saved(program, "p.vyre")
    assert vyre("show", source).out == Path("p.vyre").read_text()
    for extension, form in EXTENSIONS.items():
        assert vyre("show", source, "--as", form.value, "--out", f"copy.{extension}").code == 0
        copy = Path(f"copy.{extension}")
        read = parse_program_file(copy.read_bytes(), copy).program
        assert (read, read.digest) == (program, program.digest)
    assert bytes.fromhex(vyre("show", source, "--as", "wire").out) == Path("copy.vyrb").read_bytes()
    assert json.loads(vyre("show", source, "--as", "json").out) == json.loads(Path("copy.json").read_text())


def test_show_summary(vyre: Vyre) -> None:
    program = saxpy_program()
    path = saved(program, "p.vyre")
    text = vyre("show", path, "--as", "summary").out
    for part in (program.digest.hex(), "64 x 1 x 1", "y: f32[run time] read_write (in, out)", "1 Store"):
        assert part in text
    facts = vyre("show", path, "--as", "summary", "--json").json
    assert facts["digest"] == program.digest.hex()
    assert [b["name"] for b in facts["buffers"]] == ["a", "x", "y"]
    assert vyre("show", path, "--as", "pdf").code == 2


def test_validate_prints_lints_as_notes_and_accepts_the_program(vyre: Vyre) -> None:
    text = saxpy_program().to_text().replace("gid.x < len(x)", "gid.x < len(x) and gid.x >= 0u")
    path = Path("noted.vyre")
    path.write_text(text)
    found = vyre("validate", path)
    assert found.code == 0
    assert "note[L001]: `>=` with 0 is always true for u32" in found.out
    assert "the program is valid: 1 note" in found.out
    assert found.out == f"{path}: {validate(Program.from_text(text, 'noted.vyre')).render(text)}\n"
    (report,) = vyre("validate", path, "--json").json
    assert report["ok"] and [lint["code"] for lint in report["lints"]] == ["L001"]


def test_validate_underlines_the_line(vyre: Vyre) -> None:
    good = saved(saxpy_program(), "good.vyre")
    text = good.read_text()
    Path("bad.vyre").write_text(text.replace("x[gid.x]", "q[gid.x]"))
    Path("worse.vyre").write_text(text.replace("body {", "body {{"))
    assert vyre("validate", good).code == 0
    found = vyre("validate", good, "bad.vyre", "worse.vyre")
    assert found.code == 1
    line = next(n for n, t in enumerate(text.splitlines(), 1) if "x[gid.x]" in t)
    assert f"bad.vyre:{line}:" in found.out
    assert "^" in found.out
    assert "good.vyre: the program is valid" in found.out
    reports = vyre("validate", good, "bad.vyre", "worse.vyre", "--json").json
    assert [r["ok"] for r in reports] == [True, False, False]
    assert all(e["suggested_fix"] for r in reports for e in r["errors"])


@pytest.mark.parametrize("command", ["run", "show", "validate"])
def test_programs_that_cannot_be_read(vyre: Vyre, command: str) -> None:
    Path("binary.vyre").write_bytes(b"\xff\xfe\x00")
    Path("cut.vyrb").write_bytes(render_program(saxpy_program(), ProgramForm.WIRE)[:-3])
    Path("no.json").write_text('{"format": "vyre-program/5", ')
    Path("deep.json").write_text("[" * 100_000)
    for name in ("binary.vyre", "cut.vyrb", "no.json", "deep.json"):
        found = vyre(command, name)
        assert found.code == 1, name
        assert "Fix" in found.err or "help" in found.out
    assert vyre(command, "missing.vyre").code == 2
    assert vyre(command, ".").code == 2


def test_running_an_invalid_program_shows_its_diagnostics(vyre: Vyre) -> None:
    program = replace(square_program(), workgroup_size=(0, 1, 1))
    found = vyre("run", saved(program, "p.vyrb", ProgramForm.WIRE), "--in", "x=1", *SCALAR)
    assert found.code == 1
    assert "the program is invalid" in found.err
    assert "Fix: " in found.err


# ---------------------------------------------------------------- backends, doctor, usage
def test_backends_lists_every_candidate(vyre: Vyre) -> None:
    found = vyre("backends", *SCALAR)
    assert found.code == 0
    assert "*  reference-scalar" in found.out
    report = vyre("backends", *SCALAR, "--json").json
    assert {c["id"] for c in report["candidates"]} >= {"reference", "reference-scalar"}
    assert report["chosen"] == "reference-scalar"
    assert all(c["reason"] for c in report["candidates"])
    (scalar,) = [c for c in report["candidates"] if c["id"] == "reference-scalar"]
    assert (scalar["profile"]["max_workgroup_size"], scalar["profile"]["timing_quality"]) == ([32768] * 3, "host_only")
    assert scalar["lacks"] == ["vyre.node.indirect_dispatch"]
    assert "vyre.subgroup_shuffle" in scalar["operations"]
    assert vyre("backends", "--backend", "nope").code == 3


def test_doctor_runs_a_kernel_on_every_backend(vyre: Vyre) -> None:
    findings = {f["check"]: f for f in vyre("doctor", "--json").json}
    assert "self-test passed" in findings["backend reference-scalar"]["found"]
    assert {"python", "vyre", "numpy", "auto"} <= set(findings)
    assert "max_workgroup_size [32768, 32768, 32768]" in findings["reference-scalar profile"]["found"]
    assert findings["reference-scalar operations"]["found"].endswith("without vyre.node.indirect_dispatch")
    assert "backend reference-scalar" in vyre("doctor").out


def test_demo_checks_every_answer_and_writes_its_pictures(vyre: Vyre) -> None:
    rows = vyre("demo", "--out", "pictures", "--json").json
    assert rows
    assert all(row["ok"] for row in rows)
    pictures = [Path(row["picture"]) for row in rows if row["picture"]]
    assert pictures
    assert sorted(Path("pictures").iterdir()) == sorted(pictures)


def test_a_wrong_answer_in_the_demo_is_exit_code_1(vyre: Vyre, monkeypatch: pytest.MonkeyPatch) -> None:
    row = DemoRow("scan", "1 byte", 0.001, "re", False, "reference", "asked for", "1 of 1 values differ from re")
    monkeypatch.setattr("vyre.app.demo.run_demo", lambda session, out, report: report(row) or [row])
    found = vyre("demo")
    assert found.code == 1
    assert "!!  scan" in found.out
    assert "0 of 1 answers agree" in found.out


@pytest.mark.parametrize("arguments", [["bogus"], ["run"], ["run", "--nope"], ["show", "a", "b"], ["run", "--in"]])
def test_usage_errors(vyre: Vyre, arguments: list[str]) -> None:
    found = vyre(*arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("error[E1105]: ")
    assert "\nFix: " in found.err
    assert vyre(*arguments, "--json").json["error"]["type"] == "InvalidConfig"


@pytest.mark.parametrize("arguments", [[], ["cache"]])
def test_a_command_without_its_subcommand_shows_the_help(vyre: Vyre, arguments: list[str]) -> None:
    found = vyre(*arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("Usage: vyre")


@pytest.mark.parametrize("command", ["demo", "run", "show", "validate", "backends", "doctor"])
def test_every_command_has_help_and_json(vyre: Vyre, command: str) -> None:
    found = vyre(command, "--help")
    assert found.code == 0
    assert "--json" in found.out


# ---------------------------------------------------------------- help
def test_help_names_every_command(vyre: Vyre) -> None:
    listed = vyre("--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    names = [line.split()[0] for line in listed]
    assert {"run", "validate", "backends", "explain", "cache"} <= set(names)
    for name in names:
        found = vyre(name, "--help")
        assert (found.code, found.err) == (0, "")
        assert found.out.startswith(f"Usage: vyre {name} ")
