"""Attributes of operations: constants that calls pass, in every form, in the digest, and in checks of lowerings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.registry import registered
from vyre import Dialect, InOut, Lowering, Operation, Program, u32
from vyre.app.cli import main
from vyre.domain.dialects.expansion import expanded
from vyre.domain.dialects.manifests import read_manifest
from vyre.domain.ir.definitions import Parameter
from vyre.domain.ir.text_parser import parse_definition

CALL = "workgroup_size 1, 1, 1 buffer y @0 read_write u32[4] {} body {{ y[0u] = acme.pick(y[0u], {}) }}"
PICK = "define acme.pick version 1.0.0 (x: u32, by: {} const) -> u32 {{ result x + cast<u32>(by) }}"
BYTE = "define acme.byte version 1.0.0 (x: u32, at: u32 const) -> u32 {{ result {} & 255u }}"
MANIFEST = """dialect = "acme"
version = "1.2.0"
[[ops]]
id = "acme.byte"
category = "A"
inputs = [["x", "u32"], ["at", "u32", "const"]]
outputs = [["y", "u32"]]
body = "result (x >> at) & 255u"
"""


def test_attributes_are_kept_by_every_form_and_part_of_the_digest() -> None:
    one, other = (Program.from_text(CALL.format(PICK.format("i32"), by)) for by in ("-2i", "7i"))
    assert one.digest != other.digest
    for form in (Program.from_text(one.to_text()), Program.from_wire(one.to_wire()), Program.from_json(one.to_json())):
        assert form == one and form.digest == one.digest
    (definition,) = one.definitions
    assert [each.is_attribute for each in definition.parameters] == [False, True]
    plain = replace(definition, parameters=(definition.parameters[0], Parameter("by", definition.parameters[1].dtype)))
    assert plain.digest != definition.digest
    assert "cast<u32>(-2i)" in expanded(one).to_text()


@pytest.mark.parametrize(("passed", "codes"), [("3u", []), ("y[0u]", ["V224"]), ("1.0f", ["V224"])])
def test_an_attribute_is_a_literal_of_its_type(passed: str, codes: list[str]) -> None:
    report = vyre.validate(Program.from_text(CALL.format(PICK.format("u32"), passed)))
    assert [error.code for error in report.errors] == codes


def test_kernels_in_python_pass_attributes() -> None:
    definition = parse_definition(BYTE.format("(x >> at)"), "a test")
    given = np.arange(512, dtype=np.uint32)
    with registered(Dialect("acme", definition.version, (Operation.of(definition),))):

        @vyre.kernel(workgroup=64)
        def bytes_of(y: InOut[u32]) -> None:
            i = vyre.global_id()
            if i < len(y):
                y[i] = vyre.call("acme.byte", y[i], 8)

        with vyre.open("reference") as session:
            found = session.dispatch(bytes_of, {"y": given})["y"]
    assert np.array_equal(found, given >> 8)


@pytest.mark.parametrize(("other", "code"), [("(x / (1u << at))", 0), ("(x >> (at & 7u))", 1)])
def test_a_lowering_is_checked_with_attributes(
    other: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path))
    definition, better = (parse_definition(BYTE.format(text), "a test") for text in ("(x >> at)", other))
    operation = Operation.of(definition, lowerings={"reference": Lowering.of(definition, better)})
    with registered(Dialect("acme", definition.version, (operation,))):
        assert main(["dialects", "verify", "acme"]) == code
    told = capsys.readouterr().out
    assert ("refused: " if code else "samples only") in told


def test_a_manifest_states_attributes() -> None:
    manifest, notes = read_manifest(MANIFEST.encode(), "acme.toml")
    assert manifest is not None and not notes
    (operation,) = manifest.dialect.operations
    assert operation.definition is not None and operation.definition.parameters[1].is_attribute
    assert str(operation.signature) == "(x: u32, at: u32 const) -> u32"
