"""Every kernel of the gallery is valid, survives every written form, and gives the independent answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import vyre
from vyre import Program, Session
from vyre.gallery import __main__ as command
from vyre.gallery.example import Array, Case, mismatches
from vyre.gallery.registry import APPLICATIONS, BASICS, MODULES, examples, load


@pytest.fixture(scope="module", params=["reference", "reference-scalar"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with vyre.open(request.param) as opened:
        yield opened


@pytest.mark.parametrize("module", MODULES)
def test_it_is_valid(module: str) -> None:
    report = vyre.validate(load(module).program())
    assert report.ok, report.render()


@pytest.mark.parametrize("module", MODULES)
def test_it_survives_every_written_form(module: str) -> None:
    program = load(module).program()
    assert Program.from_text(program.to_text()) == program
    assert Program.from_wire(program.to_wire()) == program
    assert Program.from_json(program.to_json()) == program


@pytest.mark.parametrize("module", MODULES)
def test_it_gives_the_independent_answer(module: str, session: Session) -> None:
    example = load(module)
    case = example.case()
    assert mismatches(case, example.run(session, example.program(), case)) == []


def test_names_and_kernels_are_unique() -> None:
    assert len(examples()) == len(MODULES) == len(BASICS) + len(APPLICATIONS)
    digests = {example.program().digest for example in examples().values()}
    assert len(digests) == len(MODULES)


def test_every_file_of_the_gallery_is_registered() -> None:
    root = Path(command.__file__).parent
    found = {f"{path.parent.name}.{path.stem}" for path in root.glob("*/p*.py")}
    found |= {f"applications.{path.stem}" for path in (root / "applications").glob("[!_]*.py")}
    assert found - {"applications.graphs", "applications.queues"} == set(MODULES)


def test_the_command_checks_the_named_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["P01", "sobel"]) == 0
    out = capsys.readouterr().out
    assert "equals exact fractions" in out and "edges of a picture" in out


def test_the_command_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["sobble"]) == 2
    assert "no example named sobble. Fix: choose from P01" in capsys.readouterr().err


def f32s(*values: float) -> Array:
    return np.array(values, np.float32)


DIFFERENCES: list[tuple[Case, Array, str]] = [
    (Case({}, {"y": f32s(1, 2)}), f32s(1, 3), "y: 1 of 2 elements differ, first [1]"),
    (Case({}, {"y": f32s(1, 2)}), f32s(1), "y: (1,) elements, expected (2,)"),
    (Case({}, {"y": f32s(1)}), np.array([1.0]), "y: float64, expected float32"),
    (Case({}, {"y": f32s(0.0)}), f32s(-0.0), "y: 1 of 1 elements differ"),
    (Case({}, {"y": f32s(np.nan)}), np.array([0x7FC00001], np.uint32).view(np.float32), "y: 1 of 1 elements differ"),
    (Case({}, {"y": f32s(1)}, tolerance_ulp=1), f32s(1 + 2**-22), "y: 1 of 1 elements differ"),
    (Case({}, {"y": f32s(np.nan)}, tolerance_ulp=1), f32s(np.inf), "y: 1 of 1 elements differ"),
]


@pytest.mark.parametrize(("case", "got", "message"), DIFFERENCES)
def test_a_wrong_answer_is_noticed(case: Case, got: Array, message: str) -> None:
    (line,) = mismatches(case, {"y": got})
    assert message in line


@pytest.mark.parametrize("got", [f32s(1), f32s(1 + 2**-23), f32s(1 - 2**-24)])
def test_the_tolerance_is_counted_in_representable_numbers(got: Array) -> None:
    assert mismatches(Case({}, {"y": f32s(1)}, tolerance_ulp=1), {"y": got}) == []


def test_the_tolerance_reaches_across_zero() -> None:
    tiny = np.array([1], np.uint32).view(np.float32)
    assert mismatches(Case({}, {"y": f32s(-0.0)}, tolerance_ulp=1), {"y": tiny}) == []
