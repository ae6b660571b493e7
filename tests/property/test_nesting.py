"""The bounds on nesting that spare readers of JSON and TOML the recursion limit, held against those readers."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyre.domain.dialects.manifests import read_manifest
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_STATEMENT_DEPTH
from vyre.domain.ir.program import Program
from vyre.domain.nesting import is_json_nested_beyond, is_toml_nested_beyond
from vyre.domain.strict_json import MAX_DEPTH, MAX_PROGRAM_DEPTH, NotStrictJson, parse

TROUBLE = "[]{}\"'\\#=,. \n\tab"
"""Characters that confuse a scan which reads strings and comments wrongly."""
TEXTS = st.text(TROUBLE, max_size=12)


def depth_of(value: object) -> int:
    """Returns how many lists and dictionaries enclose the innermost place in a value."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


VALUES = st.recursive(
    st.one_of(st.integers(-9, 9), st.booleans(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=12,
)


def basic(text: str) -> str:
    return json.dumps(text)  # an escape of JSON is one of TOML's


@st.composite
def toml_string(draw: Any, text: str) -> str:
    """Returns a TOML string that stands for the text, in one of the four forms that can."""
    multi = '"""' + text.replace("\\", "\\\\").replace('"""', '""\\"').replace("\t", "\\t") + '"""'
    forms = [basic(text)]
    if not text.startswith("\n") and not text.endswith('"'):
        forms.append(multi)
    if "'" not in text and "\n" not in text:
        forms.append(f"'{text}'")
    if "'''" not in text and not text.startswith("\n") and not text.endswith("'"):
        forms.append(f"'''{text}'''")
    form: str = draw(st.sampled_from(forms))
    return form


@st.composite
def toml_value(draw: Any, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text: str = draw(toml_string(value))
        return text
    if isinstance(value, list):
        gap = draw(st.sampled_from(["", " ", "\n", "# [{'\"\n"]))
        return f"[{gap}{','.join(draw(toml_value(each)) + gap for each in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{basic(key)} = {draw(toml_value(each))}" for key, each in value.items()) + "}"
    return str(value)


@given(st.data(), VALUES)
def test_the_scan_of_toml_counts_what_its_reader_nests(data: Any, value: object) -> None:
    text = f"# {{[\na = {data.draw(toml_value(value))} # ]\n"
    assert tomllib.loads(text) == {"a": value}
    depth = depth_of(value)
    assert not is_toml_nested_beyond(text, depth)
    assert depth == 0 or is_toml_nested_beyond(text, depth - 1)


@given(VALUES)
def test_the_scan_of_json_counts_what_its_reader_nests(value: object) -> None:
    text, depth = json.dumps(value), depth_of(value)
    assert not is_json_nested_beyond(text, depth)
    assert depth == 0 or is_json_nested_beyond(text, depth - 1)
    assert parse(text, depth=depth) == parse(text.encode(), depth=depth) == value


@given(st.text(TROUBLE, max_size=40))
def test_the_scan_never_nests_less_than_the_reader_of_toml_accepts(text: str) -> None:
    """Names of tables, arrays of tables and dotted names nest values without brackets, so only ``a = ...`` counts."""
    try:
        value = tomllib.loads(f"a = {text}")["a"]
    except (ValueError, KeyError):
        return
    nested = isinstance(value, list) and depth_of([each for each in value if not isinstance(each, dict)])
    assert nested <= 1 or is_toml_nested_beyond(f"a = {text}", nested - 1)


@pytest.mark.parametrize("opened", ['"', '"""', "'''", "[", '"""\\"', "{a=", "# ", '"\\', "'\n"])
def test_hostile_text_is_scanned_once(opened: str) -> None:
    """A text that opens strings and never ends them would take minutes if each were looked at again."""
    text = f"a = {opened * (900_000 // len(opened))}"
    is_toml_nested_beyond("[" * MAX_DEPTH + text, MAX_DEPTH)
    is_json_nested_beyond("[" * MAX_DEPTH + text, MAX_DEPTH)


@pytest.mark.parametrize(("nested", "is_refused"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True), (100_000, True)])
def test_a_manifest_is_refused_before_its_reader_recurses(nested: int, is_refused: bool) -> None:
    reading = read_manifest(b'dialect = "acme"\nversion = "1.0.0"\nops = ' + b"[" * nested + b"]" * nested, "a.toml")
    (found,) = reading.diagnostics
    assert found.code == "E-TOML-PARSE"
    assert ("nested more than 64 deep" in found.message) is is_refused


def test_the_deepest_programs_are_read_and_deeper_text_is_not() -> None:
    inner = MAX_EXPRESSION_DEPTH - 1
    body = f"y[0u] = {'neg(' * inner}y[0u]{')' * inner}"
    for _ in range(MAX_STATEMENT_DEPTH):
        body = f"if y[0u] == 0u {{\n{body}\n}}"
    program = Program.from_text(f"workgroup_size 1, 1, 1\nbuffer y @0 read_write u32[1]\nbody {{\n{body}\n}}\n")
    text = json.dumps(program.to_json())
    assert Program.from_json(parse(text, depth=MAX_PROGRAM_DEPTH)) == program
    with pytest.raises(NotStrictJson, match="nested more than 640 deep"):
        parse("[" * (MAX_PROGRAM_DEPTH + 1) + "]" * (MAX_PROGRAM_DEPTH + 1), depth=MAX_PROGRAM_DEPTH)
