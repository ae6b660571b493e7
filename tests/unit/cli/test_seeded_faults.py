"""A fault in any pass of the optimizer is found by ``vyre optimize --check``: for each pass, faults and a program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from support.registry import registered
from vyre import Dialect, Operation
from vyre.app.cli import main
from vyre.domain.ir.definitions import Version
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.operators import COMMUTING, OPPOSITE, BinaryOp
from vyre.domain.ir.text_parser import parse_definition
from vyre.domain.optimize import dead_code, dialect_laws, folding, forwarding, narrowing, numbering, strength
from vyre.domain.optimize.branches import KnownConditions, _Branches
from vyre.domain.optimize.copies import _Copies
from vyre.domain.optimize.hoisting import _Hoisting
from vyre.domain.optimize.inlining import _Inlining
from vyre.domain.optimize.pass_list import PASSES
from vyre.domain.optimize.strength import SubgroupRules

HEAD: Final = """workgroup_size 32, 1, 1
buffer x @0 read u32[64]
buffer y @1 read_write u32[64]
buffer p @- private u32[8]
body {{
  let i = gid.x
{}
}}
"""


class Fault(NamedTuple):
    """A part of a pass, what it is replaced by, and statements on which that goes wrong."""

    optimizer: str
    where: Any
    name: str
    wrong: Any
    body: str


def _nothing(*_: Any) -> None:
    return None


def _true(*_: Any) -> bool:
    return True


def _zero(*_: Any) -> int:
    return 0


FAULTS: Final = (
    Fault("copies", _Copies, "touch", _nothing, "let a = x[i]\nlet b = a\na := a + 1u\ny[i] = a * b"),
    Fault("copies", _Copies, "_is_current", _true, "let a = x[i]\nlet b = a\na := a + 1u\ny[i] = a * b"),
    Fault("folding", folding, "neutral", lambda op, dtype: 1, "y[i] = x[i] + 1u"),
    Fault("folding", folding, "_is_same", _true, "y[i] = select(x[i] == 0u, 3u, x[i])"),
    Fault("dead_code", dead_code._Reads, "of", _zero, "let a = 0u\nif x[i] > 3u {\na := 1u\n}\ny[i] = a"),
    Fault("dead_code", dead_code, "_unseen_buffers", lambda program: {"p"}, "p[0u] = x[i]\ny[i] = p[0u]"),
    Fault("inlining", _Inlining, "_may_move", _true, "let a = y[i]\ny[i] = 5u\ny[i + 32u] = a"),
    Fault(
        "numbering",
        numbering,
        "COMMUTING",
        COMMUTING | {BinaryOp.SUB},
        "let a = x[i]\ny[i] = a * 3u - a * 5u\ny[i + 32u] = a * 5u - a * 3u",
    ),
    Fault(
        "numbering",
        numbering._Numbering,
        "touch",
        _nothing,
        "let a = y[i] * 3u + 7u\ny[i] = a + 1u\ny[i + 32u] = y[i] * 3u + 7u",
    ),
    Fault(
        "branches",
        KnownConditions,
        "forget",
        _nothing,
        "let a = x[i]\nif a < 5u {\ny[i] = 1u\n}\nif a < 5u {\ny[i + 32u] = 2u\n}",
    ),
    Fault("branches", _Branches, "_truth", _true, "let a = x[i]\nif a < 5u {\ny[i] = a\n}"),
    Fault(
        "narrowing",
        narrowing,
        "_fits",
        _true,
        "let a = cast<u64>(x[i])\ny[i] = cast<u32>(a * a >> 7u)",
    ),
    Fault(
        "strength",
        strength,
        "OPPOSITE",
        {**OPPOSITE, BinaryOp.LT: BinaryOp.GT},
        "y[i] = select(not (x[i] < 5u), 1u, 2u)",
    ),
    Fault(
        "strength",
        strength._Strength,
        "_is_undone",
        _true,
        "y[i] = cast<u32>(trunc(cast<f32>(x[i])))\ny[i + 32u] = cast<u32>(cast<f32>(x[i]))",
    ),
    Fault(
        "strength",
        SubgroupRules,
        "_is_uniform",
        _true,
        "y[i] = subgroup_shuffle(x[i], 0u)",
    ),
    Fault(
        "forwarding",
        forwarding,
        "_are_apart",
        _true,
        "p[x[i] & 7u] = 1u\np[x[i + 32u] & 7u] = 2u\ny[i] = p[x[i] & 7u]",
    ),
    Fault(
        "forwarding",
        forwarding,
        "_zero",
        lambda element, loc: Literal(element, 1),
        "p[0u] = x[i]\nif x[i] > 3u {\np[1u] = 4u\n}\ny[i] = p[1u]",
    ),
    Fault(
        "hoisting",
        _Hoisting,
        "_level_of",
        _zero,
        "let a = x[i]\nfor k in 0u .. 4u {\na := a * 3u + a\n}\ny[i] = a",
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.optimizer}-{fault.name.strip('_')}")
def test_the_check_finds_a_fault_of_a_pass(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target = tmp_path / "program.vyre", tmp_path / "smaller.vyre"
    path.write_text(HEAD.format(fault.body))
    words = ["optimize", str(path), "-o", str(target), "--check", "--passes", fault.optimizer]
    assert main(words) == 0, capsys.readouterr().err
    target.unlink()
    monkeypatch.setattr(fault.where, fault.name, fault.wrong)
    capsys.readouterr()
    assert main(words) == 1
    told = capsys.readouterr().err
    assert "differ" in told or "the optimized program is invalid" in told
    assert not target.exists()


@pytest.fixture
def believed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dialect that states a law that does not hold, and an optimizer that believes laws."""
    text = "define acme.third version 1.0.0 (x: u32) -> u32 {\nresult x / 3u\n}"
    operation = Operation.of(parse_definition(text, "a test", 0), law_texts=("acme.third(x) == x >> 2",))
    monkeypatch.setattr(dialect_laws, "is_trusted", _true)
    with registered(Dialect("acme", Version(1), (operation,))):
        yield


def test_the_check_finds_a_false_law_that_was_believed(
    believed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "program.vyre"
    path.write_text(HEAD.format("y[i] = acme.third(x[i])"))
    words = ["optimize", str(path), "--check", "--passes", "saturation"]
    assert main(words) == 1
    told = capsys.readouterr()
    assert "differ" in told.err and not told.out
    monkeypatch.undo()
    assert main(words) == 0


def test_every_pass_has_a_fault() -> None:
    assert {fault.optimizer for fault in FAULTS} | {"saturation"} == set(PASSES)
