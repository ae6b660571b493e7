"""What is out of use is told at the line that calls it, and stored programs are moved on when they are read."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import vyre
from support.registry import registered
from vyre import Deprecation, Dialect, In, InOut, Migration, MigrationFailed, Operation, OperationVersion, Program, u32
from vyre.app.cli import main
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.dialects.manifests import read_manifest
from vyre.ir import Binary, BinaryOp, Definition, EventBuilder, Expr, Literal, Parameter, ScalarType, Var, Version


def times(name: str, version: int, *more: Parameter) -> Definition:
    by: Expr = Var(more[0].name) if more else Literal.of(ScalarType.U32, 2)
    parameters = (Parameter("x", ScalarType.U32), *more)
    return Definition(name, Version(version), parameters, ScalarType.U32, (), Binary(BinaryOp.MUL, Var("x"), by))


OLD: Final = times("acme.twice", 1)
NEW: Final = times("acme.times", 2, Parameter("by", ScalarType.U32))
TEXT: Final = """workgroup_size 1, 1, 1
buffer y @0 read_write u32[2]
define acme.twice version 1.0.0 (x: u32) -> u32 {
  result x * 2u
}
body {
  y[0u] = acme.twice(acme.twice(y[0u]))
  y[1u] = acme.twice(y[1u])
}
"""


@pytest.fixture
def registry() -> Iterator[DialectRegistry]:
    with registered(Dialect("acme", Version(2), (Operation.of(OLD), Operation.of(NEW)))) as found:
        yield found


def out_of_use(registry: DialectRegistry) -> None:
    registry.register(deprecations=[Deprecation("acme.twice", Version(1), "call acme.times(x, 2).")])


def moves(registry: DialectRegistry, version: int = 2) -> None:
    source, target = OperationVersion("acme.twice", Version(1)), OperationVersion("acme.times", Version(version))
    two = Literal.of(ScalarType.U32, 2)
    registry.register(migrations=[Migration(source, target, lambda given: (*given, two))])


def test_builders_and_kernels_warn_once_at_the_line_that_calls(registry: DialectRegistry) -> None:
    out_of_use(registry)

    def build(called: Definition | str) -> int:
        with vyre.ProgramBuilder("p", workgroup=1) as p:
            y = p.inout("y", u32)
            y[0] = p.call(called, y[0])
            y[1] = p.call("acme.times", y[1], 3)
        return sys._getframe().f_lineno - 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        line = build(OLD)
        build("acme.twice")
    (told,) = caught  # the second call is on the same line
    assert (told.filename, told.lineno, told.category) == (__file__, line, FutureWarning)
    assert str(told.message) == (
        "[W-OP-DEPRECATED] `acme.twice` is out of use since version 1.0.0. Fix: call acme.times(x, 2)."
    )

    @vyre.kernel
    def twice(x: In[u32], y: InOut[u32]) -> None:
        i = vyre.global_id()
        if i < len(y):
            y[i] = vyre.call("acme.twice", x[i])

    line = twice.__wrapped__.__code__.co_firstlineno + 4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        found = vyre.validate(twice)
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, line)]
    (warning,) = found.warnings
    assert warning.code == "W-OP-DEPRECATED" and warning.loc is not None and found.ok
    assert (warning.loc.file, warning.loc.line) == (__file__, line)


def test_an_event_builder_warns_where_it_takes_the_operation(registry: DialectRegistry) -> None:
    out_of_use(registry)
    events = EventBuilder("p", workgroup=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        events.define("acme.twice")
        events.define(NEW)
    (told,) = caught
    assert (told.filename, told.lineno) == (__file__, sys._getframe().f_lineno - 3)


def test_validation_warns_of_each_line_from_the_deprecation_on(registry: DialectRegistry) -> None:
    program = Program.from_text(TEXT, "p.vyre")
    assert vyre.validate(program).warnings == ()
    out_of_use(registry)
    report = vyre.validate(program)
    assert [str(each.loc).rsplit(":", 1)[0] for each in report.warnings] == ["p.vyre:7", "p.vyre:8"]
    assert report.ok and {each.code for each in report.warnings} == {"W-OP-DEPRECATED"}


@pytest.mark.parametrize("form", ["p.vyre", "p.vyrb", "p.json"])
def test_stored_programs_are_moved_when_they_are_read(registry: DialectRegistry, tmp_path: Path, form: str) -> None:
    stored = Program.from_text(TEXT)
    path = tmp_path / form
    assert main(["show", str(written(tmp_path)), "--as", form[2:].replace("vyre", "text").replace("vyrb", "wire"),
                 "--out", str(path)]) == 0  # fmt: skip
    assert vyre.read_program(path).program == stored and vyre.read_program(path).moved == ()
    out_of_use(registry)
    assert len(vyre.read_program(path).warnings) == (2 if form == "p.vyre" else 1)
    moves(registry)
    read = vyre.read_program(str(path))
    (moved,) = read.moved
    assert (str(moved.source), str(moved.target), moved.calls) == ("`acme.twice` 1.0.0", "`acme.times` 2.0.0", 3)
    assert [place.line for place in moved.places] == ([7, 7, 8] if form == "p.vyre" else [])
    assert read.warnings == () and [each.id for each in read.program.definitions] == ["acme.times"]
    assert vyre.read_program(path, migrate=False).program == stored
    y = np.array([3, 5], np.uint32)
    with vyre.open("reference") as session:
        assert session.dispatch(read.program, [y])["y"].tolist() == [12, 10]


def written(folder: Path) -> Path:
    path = folder / "stored.vyre"
    path.write_text(TEXT)
    return path


def test_commands_tell_what_is_out_of_use_and_what_moved(
    registry: DialectRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(written(tmp_path))
    out_of_use(registry)
    assert main(["validate", path]) == 0
    assert f"{path}:7" in (text := capsys.readouterr().out) and "warning[W-OP-DEPRECATED]" in text
    assert main(["run", path, "--in", "y=1,1", "--backend", "reference"]) == 0
    assert "warning[W-OP-DEPRECATED]" in capsys.readouterr().err
    assert main(["dialects", "list", "acme"]) == 0
    assert "out of use: call acme.times" in " ".join(capsys.readouterr().out.split())
    moves(registry)
    assert main(["run", path, "--in", "y=1,1", "--backend", "reference"]) == 0
    assert "note: `acme.twice` 1.0.0 became `acme.times` 2.0.0 (3 calls, " in (text := capsys.readouterr().err)
    assert "W-OP-DEPRECATED" not in text
    assert main(["show", path]) == 0
    assert "acme.times(y[1u], 2u)" in capsys.readouterr().out


def test_a_migration_that_leads_nowhere_is_told(registry: DialectRegistry, tmp_path: Path) -> None:
    moves(registry, version=3)
    with pytest.raises(MigrationFailed, match=r"leads to `acme\.times` 3\.0\.0, registered is `acme\.times` 2\.0\.0"):
        vyre.read_program(written(tmp_path))


def test_a_manifest_says_what_is_out_of_use(registry: DialectRegistry) -> None:
    text = (
        'dialect = "own"\nversion = "1.1.0"\n[[ops]]\nid = "own.one"\ncategory = "A"\ninputs = [["x", "u32"]]\n'
        'outputs = [["y", "u32"]]\nbody = "result x + 1u"\ndeprecated = "add 1."\n'
    )
    read = read_manifest(text.encode(), "own.toml")
    assert read.manifest is not None and read.diagnostics == ()
    registry.add_manifests([read.manifest])
    with vyre.ProgramBuilder("p", workgroup=1) as p, pytest.warns(FutureWarning, match=r"since version 1\.1\.0.*add 1"):
        y = p.inout("y", u32)
        y[0] = p.call("own.one", y[0])
    (warning,) = vyre.validate(p.build()).warnings
    assert (warning.code, warning.fix) == ("W-OP-DEPRECATED", "add 1.")
    registry.register(deprecations=[Deprecation("own.one", Version(2), "wait.")])
    assert vyre.validate(p.build()).warnings == (), "code knows it better"
    wrong = read_manifest(text.replace('"add 1."', "true").encode(), "own.toml")
    assert [each.code for each in wrong.diagnostics] == ["E-TOML-PARSE"]
