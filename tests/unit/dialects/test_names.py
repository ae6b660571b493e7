"""Operations that are called by name alone: kernels, files, the optimizer and the code that is emitted find them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.registry import registered
from vyre import Dialect, InOut, Operation, f32, u32
from vyre.app.cli import main
from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.errors import KernelSourceError
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_parser import parse_definition
from vyre.domain.program_report import InvalidProgram

TEXT = """workgroup_size 64, 1, 1
buffer y @0 read_write f32[runtime]
body {
  y[gid.x] = acme.leaky(y[gid.x], 0.125f)
}
"""
SCALED = parse_definition("define acme.scaled version 1.0.0 (x: f32, slope: f32) -> f32 {\nresult x * slope\n}", "a", 0)
LEAKY = parse_definition(
    "define acme.leaky version 1.2.0 (x: f32, slope: f32) -> f32 {\n"
    "result select(x < 0.0f, acme.scaled(x, slope), x)\n}",
    "a",
    0,
)


@pytest.fixture
def registry() -> Iterator[DialectRegistry]:
    with registered(Dialect("acme", LEAKY.version, (Operation.of(SCALED), Operation.of(LEAKY)))) as found:
        yield found


@vyre.kernel
def by_name(y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = vyre.call("acme.leaky", y[i], 0.125)


@vyre.kernel
def by_definition(y: InOut[f32]) -> None:
    i = vyre.global_id()
    if i < len(y):
        y[i] = vyre.call(SCALED, y[i], 0.5) + vyre.call(SCALED, y[i], 0.5)


@vyre.kernel
def unknown(y: InOut[f32]) -> None:
    y[0] = vyre.call("acme.nothing", y[0])


@vyre.kernel
def too_few(y: InOut[f32]) -> None:
    y[0] = vyre.call("acme.leaky", y[0])


@vyre.kernel
def another_type(y: InOut[u32]) -> None:
    y[0] = u32(vyre.call("acme.leaky", y[0], 0.5))


@vyre.kernel
def no_name(y: InOut[f32]) -> None:
    y[0] = vyre.call(3, y[0])  # type: ignore[arg-type]


def test_kernels_find_operations_by_name(registry: DialectRegistry) -> None:
    with vyre.open("reference"):
        values = np.array([-8.0, 4.0], np.float32)
        by_name[1](values)
        assert values.tolist() == [-1.0, 4.0]
    assert [each.id for each in by_name.program.definitions] == ["acme.scaled", "acme.leaky"]


def test_kernels_call_definitions_without_a_registry() -> None:
    with vyre.open("reference"):
        values = np.array([-8.0, 4.0], np.float32)
        by_definition[1](values)
        assert values.tolist() == [-8.0, 4.0]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (unknown, "acme.nothing"),
        (too_few, "`acme.leaky` takes 2 arguments, got 1"),
        (another_type, "argument `x` of acme.leaky"),
        (no_name, "names no operation"),
    ],
)
def test_kernels_tell_what_is_wrong_with_a_call(
    registry: DialectRegistry, kernel: vyre.Kernel[...], message: str
) -> None:
    with pytest.raises(KernelSourceError, match=message) as caught:
        kernel.program  # noqa: B018
    assert caught.value.fix and caught.value.loc is not None


def test_call_is_for_kernels() -> None:
    with pytest.raises(vyre.UnsupportedUse):
        vyre.call("acme.leaky", 1.0)


def test_the_optimizer_and_emission_find_them(registry: DialectRegistry) -> None:
    program = Program.from_text(TEXT)
    found = vyre.optimize(program)
    assert not found.program.definitions and "select" in found.program.to_text()
    assert vyre.emit(program).text
    with vyre.open("reference") as session:
        assert session.explain(program).program


def test_what_is_not_registered_is_refused() -> None:
    program = Program.from_text(TEXT)
    for ask in (vyre.optimize, vyre.emit):
        with pytest.raises(InvalidProgram, match=r"`acme\.leaky`") as caught:
            ask(program)
        assert caught.value.report is not None and all(each.fix for each in caught.value.report.errors)


@pytest.mark.parametrize(
    "command",
    [
        ["validate", "{}"],
        ["run", "{}", "--in", "y=1,2", "--backend", "reference"],
        ["optimize", "{}", "--check"],
        ["emit", "{}"],
        ["explain", "{}", "--backend", "reference"],
        ["aot", "{}", "-o", "{}.vyrz", "--ptx-only"],
        ["cache", "key", "{}"],
    ],
    ids=lambda command: str(command[0]),
)
def test_commands_find_them_in_files(
    command: list[str], registry: DialectRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "leaky.vyre"
    path.write_text(TEXT)
    words = [word.format(path) for word in command]
    assert main(words) == 0, capsys.readouterr()
    registry.install(DialectRegistry().snapshot)
    assert main(words) != 0
    told = capsys.readouterr()
    assert "acme.leaky" in told.out + told.err


def test_showing_a_file_adds_nothing(
    registry: DialectRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "leaky.vyre"
    path.write_text(TEXT)
    assert main(["show", str(path)]) == 0
    assert capsys.readouterr().out == TEXT
