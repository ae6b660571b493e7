"""Laws that dialects state: how they are read, checked, told and used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.registry import registered
from vyre import Dialect, Operation
from vyre.app.cli import main
from vyre.app.dialects.loading import load_manifests
from vyre.app.dialects.registry import DialectRegistry
from vyre.app.dialects.trusted_laws import trusted_laws
from vyre.app.dialects.verification import REFUTED, StatedReport, verify_laws
from vyre.app.optimizer_check import check_runs
from vyre.domain.dialects.laws.checker import check_all
from vyre.domain.dialects.laws.evaluation import SCALARS, evaluated
from vyre.domain.dialects.laws.stated import MAX_LAW_CHARACTERS, StatedLaw, stated_law, without_calls_in
from vyre.domain.dialects.manifests import MAX_LAWS, read_manifest
from vyre.domain.errors import InvalidDialect, MalformedText
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.expr import Call, Literal
from vyre.domain.ir.program import Program
from vyre.domain.ir.text_parser import parse_definition
from vyre.domain.ir.types import ScalarType
from vyre.domain.optimize.saturation import SATURATION, with_laws

U32, F32 = ScalarType.U32, ScalarType.F32


def defined(head: str, body: str) -> Definition:
    return parse_definition(f"define {head} {{\n{body}\n}}", "a test", 0)


SQUARE = defined("acme.square version 1.0.0 (x: f32) -> f32", "result x * x")
MIX = defined("acme.mix version 1.0.0 (x: u32, y: u32) -> u32", "let a = x * 5u\nlet b = y * 5u\nresult a + b")
RELU = defined(
    "acme.relu version 1.0.0 (x: f32) -> f32",
    "let y = x\nif x < 0.0f { y := 0.0f } else if x == 2.0f { y := acme.square(x) }\nresult y",
)
STEPS = defined("acme.steps version 1.0.0 (x: u32) -> u32", "let y = x\nfor k in 0u .. 3u { y := y + k }\nresult y")
KNOWN = (SQUARE, MIX, RELU, STEPS)


def law(text: str) -> StatedLaw:
    return stated_law(text, "acme.square", 1, KNOWN)


@pytest.mark.parametrize(
    ("text", "sides", "types"),
    [
        ("acme.square(neg(x)) == acme.square(x)", ("neg(x) * neg(x)", "x * x"), {F32}),
        ("acme.mix(x, y) == acme.mix(y, x)", ("x * 5u + y * 5u", "y * 5u + x * 5u"), {U32}),
        ("acme.mix(x + 0, y) == acme.mix(x, y)", ("(x + 0u) * 5u + y * 5u", "x * 5u + y * 5u"), {U32}),
        ("(acme.square(x) < 0.0) == false", ("x * x < 0.0f", "false"), {F32}),
    ],
)
def test_calls_become_what_they_compute(text: str, sides: tuple[str, str], types: set[ScalarType]) -> None:
    (found,) = law(text).laws
    assert (found.before, found.after) == sides and found.types == types


def test_a_law_of_operators_holds_at_each_type_that_fits() -> None:
    found = law("x + y == y + x").laws
    assert {dtype.text for each in found for dtype in each.types} == {"u32", "i32", "u64", "i64", "f32", "f64"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acme.square(x)", "it is no equation"),
        ("x == y or y == x", "it is no equation"),
        ("acme.square(x) == true", "the sides have different types"),
        ("acme.square(x) == acme.nothing(x)", "`acme.nothing` has no definition here"),
        ("acme.square(x, y) == x", "have no type that fits"),
        ("acme.mix(x, y) == acme.square(x)", "is an argument of type"),
        ("acme.mix(x, y) == gid.x", "no operator on values"),
        ("acme.square(X) == X", "no name in lower case"),
        ("acme.square(x) == x)", "the end of the law"),
        ("acme.square(x) ==", "expected an expression"),
        ("", "expected an expression"),
        ("x == y", "is no hole"),
        ("x == " + "x + " * MAX_LAW_CHARACTERS + "x", "characters"),
    ],
)
def test_what_is_no_law_is_refused(text: str, message: str) -> None:
    with pytest.raises(MalformedText, match=message) as caught:
        law(text)
    assert caught.value.fix


def test_branches_become_selects_with_the_values_of_the_body() -> None:
    """The expression of a body is compared with what the reference computes by running it."""
    program = Program.from_text(
        "workgroup_size 64, 1, 1\nbuffer y @0 read_write f32[runtime]\nbody {\n  y[gid.x] = acme.relu(y[gid.x])\n}\n"
    )
    program = replace(program, definitions=(SQUARE, RELU))
    values = np.array([-1.0, -0.0, 0.0, 1.0, 2.0, 3.5, np.inf, -np.inf, np.nan], np.float32)
    with vyre.open("reference") as session:
        expected = session.dispatch(program, {"y": values})["y"].view(np.uint32).tolist()
    known = {each.id: each for each in KNOWN}
    for bits, wanted in zip(values.view(np.uint32).tolist(), expected, strict=True):
        made = without_calls_in(Call("acme.relu", (Literal(F32, bits),)), known)
        assert evaluated(made, {}, {}, SCALARS) == wanted


def test_a_body_that_loops_leaves_its_laws_unchecked() -> None:
    found = law("acme.steps(x) == x + 3u")
    assert found.laws == () and "has a loop" in found.unchecked


def test_bodies_that_grow_without_bound_are_refused() -> None:
    twice = "let a = x\n" + "a := a + a\n" * 60 + "result a"
    grown = defined("acme.grown version 1.0.0 (x: u32) -> u32", twice)
    found = stated_law("acme.grown(x) == acme.grown(x)", "acme.grown", 1, [grown])
    assert found.laws == () and "2000 nodes" in found.unchecked


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("acme.square(neg(x)) == acme.square(x)", True),
        ("acme.square(x) == x", False),
        ("acme.square(x + y) == acme.square(x) + acme.square(y)", False),
        ("acme.relu(acme.relu(x)) == acme.relu(x)", True),
        ("acme.mix(x, y) == acme.mix(y, x)", True),
        ("acme.mix(x, y) == (x + y) * 5", True),
        ("acme.mix(x, y) == (x + y) * 6", False),
        ("acme.square(x) - acme.square(x) == 0.0", False),
    ],
)
def test_laws_are_checked_like_those_of_the_language(text: str, holds: bool) -> None:
    (found,) = law(text).laws
    report = StatedReport(law(text), tuple(verify_laws([found])))
    assert report.is_refused is not holds and report.rewrites is holds
    if not holds:
        assert report.diagnostic is not None and report.diagnostic.code == REFUTED and report.diagnostic.fix
        assert " is not " in report.diagnostic.message


def test_a_law_whose_model_is_sampled_does_not_rewrite() -> None:
    """A law that is false for one value in 2^32, which no sample meets."""
    (found,) = law("select(x == 305419896u, 1u, 0u) == 0u").laws
    (verdict,) = check_all(found)
    assert verdict.is_accepted and not verdict.is_trusted


# ------------------------------------------------------------------------------ registries and manifests

MANIFEST = """dialect = "acme"
version = "1.0.0"

[[ops]]
id = "acme.blend"
category = "A"
inputs = [["x", "u32"], ["y", "u32"]]
outputs = [["z", "u32"]]
laws = [{laws}]
body = "let a = x * 5u\\nlet b = y * 5u\\nresult a + b"
"""


def manifest(*laws: str) -> bytes:
    return MANIFEST.format(laws=", ".join(map(json.dumps, laws))).encode()


@pytest.mark.parametrize(
    ("laws", "codes"),
    [
        (("acme.blend(x, y) == (x + y) * 5",), []),
        (("acme.blend(x) == x",), ["E-TOML-BAD-LAW", "E-TOML-MANIFEST-REJECTED"]),
        (("acme.blend(x, y) == acme.none(x)",), ["E-TOML-BAD-LAW", "E-TOML-MANIFEST-REJECTED"]),
        (("acme.blend(",), ["E-TOML-BAD-LAW", "E-TOML-MANIFEST-REJECTED"]),
        (("x == x",) * (MAX_LAWS + 1), ["E-TOML-PARSE"]),
    ],
)
def test_manifests_tell_of_laws_that_are_none(laws: tuple[str, ...], codes: list[str]) -> None:
    reading = read_manifest(manifest(*laws), "acme.toml")
    assert [each.code for each in reading.diagnostics] == codes
    assert (reading.manifest is None) is bool(codes)


def test_laws_of_operations_without_a_body_are_noted() -> None:
    text = manifest("acme.blend(x, y) == acme.blend(y, x)").replace(b"body = ", b"summary = ")
    reading = read_manifest(text, "acme.toml")
    assert reading.manifest is not None
    assert [each.code for each in reading.diagnostics] == ["N-TOML-LAW-UNCHECKED"]


@pytest.fixture
def registry() -> Iterator[DialectRegistry]:
    with registered() as found:
        yield found


def test_python_states_laws_in_the_same_way(registry: DialectRegistry) -> None:
    with pytest.raises(InvalidDialect, match=r"`acme.mix` states no law: .* no equation"):
        registry.register(Dialect("acme", MIX.version, (Operation.of(MIX, law_texts=("acme.mix(x, y)",)),)))
    registry.register(Dialect("acme", MIX.version, (Operation.of(MIX, law_texts=("acme.mix(x, x) == x * 10",)),)))
    (found,) = registry.snapshot.laws_of("acme.mix")
    assert found.name == "dialect.acme.mix.1" and found.laws[0].after == "x * 10u"
    assert registry.snapshot.laws_of("acme.mix")[0] is found
    assert registry.snapshot.laws_of("acme.unknown") == ()


def test_the_command_lists_and_verifies(
    registry: DialectRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "acme.toml").write_bytes(manifest("acme.blend(x, y) == (x + y) * 5", "acme.blend(x, y) == x"))
    load_manifests(registry, str(tmp_path))
    assert main(["dialects", "list", "acme", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["operations"][0]["laws"][1] == "acme.blend(x, y) == x"
    assert main(["dialects", "verify", "acme"]) == 1
    told = capsys.readouterr()
    assert "acme.blend(x, y) == (x + y) * 5: the optimizer uses it" in told.out
    assert "E-LAW-REFUTED" in told.err and "does not hold" in told.err
    assert main(["dialects", "verify", "acme.blend", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)["stated"]
    assert first["rewrites"] and not first["refused"] and first["diagnostic"] is None
    assert second["refused"] and not second["rewrites"] and second["diagnostic"]["code"] == "E-LAW-REFUTED"
    assert main(["dialects", "verify", "nothing.like.it"]) != 0


PROGRAM = """workgroup_size 64, 1, 1
buffer x @0 read u32[runtime]
buffer y @1 read_write u32[runtime]
body {
  let i = gid.x
  y[i] = acme.guarded(x[i], y[i])
}
"""


def test_laws_of_operations_that_are_not_called_take_no_part(registry: DialectRegistry) -> None:
    registry.register(Dialect("acme", MIX.version, (Operation.of(MIX, law_texts=("acme.mix(x, x) == x * 10",)),)))
    unrelated = Program.from_text(PROGRAM.replace("acme.guarded(x[i], y[i])", "x[i] * 5u + x[i] * 5u"))
    assert trusted_laws(unrelated, registry.snapshot) == ()


def test_a_trusted_law_changes_what_the_pass_finds(registry: DialectRegistry) -> None:
    """``x / d * d + x % d`` is x where d is never 0, which no law of the language says of a divisor that varies."""
    guarded = defined("acme.guarded version 1.0.0 (x: u32, y: u32) -> u32", "let d = y | 1u\nresult x / d * d + x % d")
    texts = ("acme.guarded(x, y) == x",)
    registry.register(Dialect("acme", guarded.version, (Operation.of(guarded, law_texts=texts),)))
    # Loads of a buffer that is only read may be computed anew, so that a rule sees what a local was made of.
    text = PROGRAM.replace("@1 read_write", "@1 read").replace("body", "buffer z @2 read_write u32[runtime]\nbody")
    program = registry.snapshot.resolved(Program.from_text(text.replace("y[i] =", "z[i] =")))
    (found,) = trusted_laws(program, registry.snapshot)
    with_it = vyre.optimize(program)
    registry.install(type(registry.snapshot)())
    without = vyre.optimize(program)
    assert with_it.laws == (found,) and without.laws == ()
    assert "/" in without.program.to_text() and "/" not in with_it.program.to_text()
    assert any("dialect.acme.guarded.1" in rewrite for rewrite in with_it.rewrites())
    assert check_runs(program, with_it.program).ok
    assert with_laws(()) is SATURATION
