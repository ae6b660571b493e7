"""The JSON form: any JSON value gives a program or ``MalformedJson`` with a path."""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pytest

from support.fuzzing.form_corpus import CORPUS, lit, program, storage, store
from vyre.domain.errors import MalformedJson
from vyre.domain.ir import json_tree
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.json_form import FORMAT, to_json
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Loop
from vyre.domain.ir.types import ScalarType, f64

from_json: Final = Program.from_json
JUNK: Final[tuple[Any, ...]] = (None, True, -1, 1 << 40, 1 << 20_000, 0.5, "junk", "\ud800", [], [[]], {}, {"a": 1})


def test_the_shape() -> None:
    value = to_json(
        program(store(Literal(f64, 0x3FF8_0000_0000_0000)), Loop("k", lit(0), lit(4), lit(1), ()), name="tiny")
    )
    assert value == {
        "format": "vyre-program/5",
        "entry_op_id": "tiny",
        "non_composable_with_self": False,
        "workgroup_size": [64, 1, 1],
        "buffers": [
            {
                "name": "y",
                "binding": 0,
                "access": "ReadWrite",
                "kind": "Global",
                "dtype": "u32",
                "count": 0,
                "is_output": False,
            }
        ],
        "entry": [
            ["store", "y", ["u32", 0], ["f64", "3ff8000000000000"]],
            ["loop", "k", ["u32", 0], ["u32", 4], []],
        ],
    }


def test_optional_keys() -> None:
    small = {"format": FORMAT, "workgroup_size": [1, 1, 1], "buffers": [], "entry": []}
    assert from_json(small).name is None
    buffer = {**to_json(program(buffers=(storage("y", 0),)))["buffers"][0], "like": None, "output_byte_range": None}
    assert from_json({**small, "buffers": [buffer]}).buffers == (storage("y", 0),)


def with_entry(*entry: object) -> dict[str, Any]:
    return {"format": FORMAT, "workgroup_size": [1, 1, 1], "buffers": [], "entry": list(entry)}


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ([], "$", "no program of format"),
        ({"workgroup_size": [1, 1, 1], "buffers": [], "entry": []}, "$", "import programs of vyre-driver"),
        *(
            ({**with_entry(), "format": other}, "$", f"it has the format {other!r}, this vyre reads 'vyre-program/5'")
            for other in ("vyre-program/1", "vyre-program/2", "vyre-program/3", "vyre-program/4", "vyre-program/6")
        ),
        *(
            ({**with_entry(), "format": other}, "$", "it has the format ")
            for other in (np.zeros(2), np.array([FORMAT]), np.array(FORMAT), 5, [FORMAT], "")
        ),
        ({**with_entry(), "extra": 1}, "$", "unknown key 'extra'"),
        ({"format": FORMAT}, "$", "missing key"),
        ({**with_entry(), "workgroup_size": [1, 1]}, "$.workgroup_size", "three integers"),
        ({**with_entry(), "buffers": {}}, "$.buffers", "expected a list"),
        ({**with_entry(), "buffers": [1]}, "$.buffers[0]", "expected an object, found 1"),
        ({**with_entry(), "entry": "return"}, "$.entry", "expected a list of statements"),
        (with_entry(["nope"]), "$.entry[0]", "unknown statement tag 'nope'"),
        (with_entry(["return"], ["return", 1]), "$.entry[1]", "takes 0 fields, found 1"),
        (with_entry(["let", "a", ["u32", True]]), "$.entry[0][2][1]", "expected an integer"),
        (with_entry(["let", "a", ["u32", 1.0]]), "$.entry[0][2][1]", "expected an integer"),
        (with_entry(["let", "a", ["u32", 1 << 32]]), "$.entry[0][2][1]", "in 0..4294967295"),
        (with_entry(["let", "a", ["f32", "3F800000"]]), "$.entry[0][2][1]", "lower-case hexadecimal"),
        (with_entry(["let", "a", ["gid", 3]]), "$.entry[0][2][1]", "in 0..2"),
        (with_entry(["let", "a", ["spec", "T", ["var", "x"]]]), "$.entry[0][2]", "is a literal"),
        (with_entry(["if", ["bool", True], [], [["let", 1, ["u32", 1]]]]), "$.entry[0][3][0][1]", "a string"),
        (with_entry(["let", "a", ["un", "Sqroot", ["u32", 1]]]), "$.entry[0][2][1]", "expected a unary operator"),
    ],
)
def test_errors_name_the_path(value: object, path: str, message: str) -> None:
    with pytest.raises(MalformedJson) as caught:
        from_json(value)
    assert caught.value.path == path
    assert message in str(caught.value)
    assert "Fix: " in str(caught.value)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        item = stack.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            found.append((item, key))
            stack.append(item[key])
    return found


@pytest.mark.parametrize("name", ["expressions", "statements", "reserved elements", "empty"])
def test_every_value_replaced(name: str) -> None:
    value = json.loads(json.dumps(to_json(CORPUS[name])))
    refused = 0
    for container, key in places(value):
        old = container[key]
        for junk in JUNK:
            container[key] = junk
            try:
                from_json(value)
            except MalformedJson as error:
                refused += 1
                assert error.path.startswith("$") and "Fix: " in str(error)
        container[key] = old
    assert refused > 20
    assert from_json(value) == CORPUS[name]


def test_nesting_is_bounded_without_recursion() -> None:
    deep_expression: list[Any] = ["u32", 1]
    for _ in range(100_000):
        deep_expression = ["un", "BitNot", deep_expression]
    deep_body: list[Any] = []
    for _ in range(100_000):
        deep_body = [["block", deep_body]]
    cycle: list[Any] = ["un", "BitNot"]
    cycle.append(cycle)
    deep_type: Any = "f32"
    for _ in range(100_000):
        deep_type = ["vec", deep_type, 2]
    buffer = to_json(program())["buffers"][0] | {"dtype": deep_type}
    for value, message in (
        (with_entry(["let", "a", deep_expression]), "more than 128 deep"),
        (with_entry(*deep_body), "more than 64 deep"),
        (with_entry(["let", "a", cycle]), "more than 128 deep"),
        (with_entry() | {"buffers": [buffer]}, "more than 64 deep"),
    ):
        with pytest.raises(MalformedJson, match=message):
            from_json(value)
    while isinstance(deep_type, list):  # taken apart by hand: nested lists are freed recursively
        deep_type = deep_type[1]


def test_shared_lists_do_not_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_tree, "MAX_NODES", 1000)
    value: list[Any] = ["u32", 1]
    for _ in range(60):
        value = ["bin", "Add", value, value]
    with pytest.raises(MalformedJson, match="more than 1000 nodes"):
        from_json(with_entry(["let", "a", value]))


def test_narrow_types_are_legal_in_casts() -> None:
    value = from_json(with_entry(["let", "a", ["cast", "u8", ["u32", 300]]]))
    assert to_json(value)["entry"] == [["let", "a", ["cast", "u8", ["u32", 300]]]]
    assert ScalarType.U8.text == "u8"
