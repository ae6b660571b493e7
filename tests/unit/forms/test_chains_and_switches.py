"""The written forms: recorded programs keep their bytes and digests, and chains and switches their limits."""

from __future__ import annotations

import base64
import copy
import json
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from support.fuzzing.form_corpus import (
    else_if,
    grid_loop,
    lit,
    program,
    storage,
    store,
    switch,
)
from vyre.domain.errors import MalformedJson, MalformedWire
from vyre.domain.identity import body_digest, names_digest
from vyre.domain.ir import wire_format as w
from vyre.domain.ir.expr import Literal, Var
from vyre.domain.ir.program import Program
from vyre.domain.ir.stmt import Arm, Block, Let, Return, Stmt, Switch, if_chain
from vyre.domain.ir.types import ScalarType, u32
from vyre.domain.ir.wire_encoder import uleb
from vyre.domain.program_report import InvalidProgram, Report
from vyre.domain.validation.validator import validate

RECORDED: Final = json.loads(
    lzma.decompress((Path(__file__).parents[2] / "data" / "written-forms.json.xz").read_bytes())
)
"""Name, digest and the three forms of hand-made and random programs."""


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: record["name"])
def test_recorded_programs_keep_bytes_and_digest(record: dict[str, Any]) -> None:
    wire = base64.b64decode(record["wire"])
    found = Program.from_wire(wire)
    assert found.digest.hex() == record["digest"]
    assert found == Program.from_json(record["json"]) == Program.from_text(record["text"])
    assert found.to_wire() == wire
    assert found.to_json() == record["json"]
    assert found.to_text() == record["text"]


def test_the_record_holds_enough() -> None:
    assert len(RECORDED) == 99
    assert {record["json"]["format"] for record in RECORDED} == {"vyre-program/5"}


def test_a_grid_loop_declares_its_rounds_behind_its_body() -> None:
    """The name may be used in the body for something else, which the wire form numbers before it."""
    inside = program(Let("n", lit(1)), grid_loop(Let("rounds", lit(1))), buffers=(storage("flag", 0),))
    behind = program(Let("n", lit(1)), grid_loop(), Let("t", Var("rounds")), buffers=(storage("flag", 0),))
    for form in FORMS.values():
        assert form(inside) == inside
        assert form(behind) == behind
    with pytest.raises(InvalidProgram, match="no local `rounds` is visible"):
        program(Let("n", lit(1)), grid_loop(Let("t", Var("rounds"))), buffers=(storage("flag", 0),)).to_wire()


def chained(links: int, around: int = 0) -> Program:
    body: tuple[Stmt, ...] = (else_if(links, (store(lit(9)),)),)
    for _ in range(around):
        body = (Block(body),)
    return program(Let("n", lit(0)), *body)


FORMS: Final[dict[str, Callable[[Program], Program]]] = {
    "text": lambda p: Program.from_text(p.to_text()),
    "wire": lambda p: Program.from_wire(p.to_wire()),
    "json": lambda p: Program.from_json(json.loads(json.dumps(p.to_json()))),
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "copy": copy.deepcopy,
}


@pytest.mark.parametrize("around", [0, 63])
@pytest.mark.parametrize("links", [256, 10_000])
@pytest.mark.parametrize("form", FORMS)
def test_chains_have_no_depth(form: str, links: int, around: int) -> None:
    before = chained(links, around)
    after = FORMS[form](before)
    assert after == before and hash(after) == hash(before) and after.digest == before.digest
    inner: Any = after.body[1]
    while isinstance(inner, Block):
        (inner,) = inner.body
    found, last = if_chain(inner)
    assert len(found) == links and last == (store(lit(9)),)


@pytest.mark.parametrize("write", [Program.to_text, Program.to_wire, Program.to_json, lambda p: p.digest])
def test_the_bodies_of_a_chain_have_depth(write: Callable[[Program], object]) -> None:
    with pytest.raises(InvalidProgram, match="65 bodies deep; the limit is 64"):
        write(chained(3, 64))
    with pytest.raises(InvalidProgram, match="65 bodies deep"):
        body: tuple[Stmt, ...] = (store(lit(1)),)
        for _ in range(65):
            body = (Switch(lit(1), (Arm((lit(1),), body),)),)
        write(program(*body))


def nested_switches(levels: int) -> dict[str, Any]:
    body: list[Any] = [["return"]]
    for _ in range(levels):
        body = [["switch", ["u32", 1], [], [["u32", 1]], body]]
    return {"format": "vyre-program/5", "workgroup_size": [1, 1, 1], "buffers": [], "entry": body}


def test_readers_bound_the_depth_of_chains_and_switches() -> None:
    assert Program.from_json(nested_switches(64)).body
    with pytest.raises(MalformedJson, match="more than 64 deep"):
        Program.from_json(nested_switches(65))
    one, true = bytes((w.LITERAL[u32], 1)), bytes((w.LITERAL[ScalarType.BOOL], 1))
    arm = one + bytes((w.SWITCH, w.ARM, 0))
    nested = [
        (arm * 65 + bytes((w.RETURN,)) + bytes((w.END,)) * 65),
        ((true + bytes((w.IF,))) * 100_000 + bytes((w.RETURN,)) + bytes((w.END,)) * 100_000),
        ((true + bytes((w.IF, w.RETURN, w.ELSE, w.RETURN))) * 65 + bytes((w.RETURN,)) + bytes((w.END,)) * 65),
    ]
    for statements in nested:
        body, names = b"\1\1\1\0" + statements, b"\0" * 4
        header = w.MAGIC + bytes((w.VERSION,)) + body_digest(body) + names_digest(names)
        data = header + uleb(0) + uleb(len(body)) + body + names
        with pytest.raises(MalformedWire, match="more than 64 deep"):
            Program.from_wire(data)


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        (["switch", ["u32", 1], [], [["var", "a"]], []], "$.entry[0][3][0]", "unknown literal tag 'var'"),
        (["switch", ["u32", 1], [], [["u32", -1]], []], "$.entry[0][3][0][1]", "expected an integer in 0..4294967295"),
        (["switch", ["u32", 1], [], ["u32", 1], []], "$.entry[0][3][0]", "expected literal as"),
        (["switch", ["u32", 1], [], {}, []], "$.entry[0][3]", "expected a list of literals"),
        (["switch", ["u32", 1], [], [["u32", 1]]], "$.entry[0]", "takes 2 fields and groups of 2, found 3"),
        (["switch", ["u32", 1]], "$.entry[0]", "takes 2 fields and groups of 2, found 1"),
        (["if_chain", [], ["bool", True]], "$.entry[0]", "takes 1 fields and groups of 2, found 2"),
        (["if_chain", []], "$.entry[0]", "no condition"),
        (["let", "a", ["narrow", "f17", ["u32", 1]]], "$.entry[0][2][1]", "expected a scalar type"),
    ],
)
def test_errors_in_json_of_chains_and_switches(entry: list[Any], path: str, message: str) -> None:
    value = {"format": "vyre-program/5", "workgroup_size": [1, 1, 1], "buffers": [], "entry": [entry]}
    with pytest.raises(MalformedJson, match=message) as caught:
        Program.from_json(value)
    assert caught.value.path == path


def test_many_labels_and_arms() -> None:
    labels = tuple(lit(i) for i in range(20_000))
    wide = program(
        Switch(lit(1), (Arm(labels, (store(lit(1)),)), Arm((), ()))), switch(300), buffers=(storage("y", 0),)
    )
    wide = program(Let("n", lit(0)), *wide.body)
    for form in FORMS.values():
        assert form(wide) == wide


def changed_switches(before: Switch) -> list[Switch]:
    """The switch with one part of it changed."""
    first, second = before.arms
    return [
        Switch(lit(2), before.arms, before.default),
        Switch(Literal.of(ScalarType.I32, 1), before.arms, before.default),
        Switch(before.selector, (second, first), before.default),
        Switch(before.selector, (first,), before.default),
        Switch(before.selector, before.arms, ()),
        Switch(before.selector, (*before.arms, Arm((), before.default))),
        Switch(before.selector, (*before.arms, Arm((), ())), before.default),
        Switch(before.selector, (Arm(first.labels[:1], first.body), second), before.default),
        Switch(before.selector, (Arm(first.labels[::-1], first.body), second), before.default),
        Switch(before.selector, (Arm((*first.labels, *second.labels), first.body), Arm((), second.body))),
        Switch(
            before.selector, (Arm(first.labels, ()), Arm(second.labels, (*first.body, *second.body))), before.default
        ),
        Switch(before.selector, (Arm((lit(1), Literal.of(ScalarType.I32, 3)), first.body), second), before.default),
    ]


def test_every_part_of_a_switch_is_in_the_digest() -> None:
    before = Switch(
        lit(1), (Arm((lit(1), lit(3)), (store(lit(1)),)), Arm((lit(2),), (store(lit(2)),))), (store(lit(3)),)
    )
    digests = {program(each).digest for each in (before, *changed_switches(before))}
    assert len(digests) == 1 + len(changed_switches(before))


@pytest.mark.parametrize("write", [Program.to_text, Program.to_wire, Program.to_json, lambda p: p.digest, validate])
@pytest.mark.parametrize(
    "wrong",
    [Switch(lit(1), (Arm((Var("a"),), ()),)), Switch(lit(1), (Return(),)), Switch(lit(1), (), (Arm((), ()),))],  # type: ignore[arg-type]
    ids=["label", "arm", "statement"],
)
def test_what_is_no_part_of_a_switch_is_refused(wrong: Switch, write: Callable[[Program], object]) -> None:
    with pytest.raises(InvalidProgram, match="Fix: "):
        found = write(program(wrong))
        assert isinstance(found, Report)
        found.raise_if_invalid()


@pytest.mark.parametrize("word", ["switch", "case", "narrow", "pack", "unpack", "wrap_cast", "round_even", "private"])
def test_words_of_statements_and_functions_are_not_reserved(word: str) -> None:
    text = (
        f"program {word}\nworkgroup_size 1, 1, 1\nbuffer {word} @0 read_write u32[4]\nbody {{\n  let {word} = 1u\n"
        f"  {word} := {word} + 1u\n  {word}[{word}] = {word}[{word}]\n"
        f"  if {word} < {word} {{\n    {word} := 2u\n  }}\n  for i in {word} .. {word} {{\n  }}\n}}\n"
    )
    found = Program.from_text(text)
    assert found.to_text() == text
    assert found.body[0] == Let(word, lit(1))
    assert Var(word) in [getattr(stmt, "index", None) for stmt in found.body]
