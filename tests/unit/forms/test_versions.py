"""The versions of the binary form and of JSON: programs of the first one keep their bytes and digests."""

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

from support.form_corpus import (
    CORPUS,
    FIRST_CORPUS,
    FOURTH_CORPUS,
    LATER_CORPUS,
    THIRD_CORPUS,
    else_if,
    grid_loop,
    lit,
    program,
    storage,
    store,
    switch,
)
from vyre.domain.errors import InvalidProgram, MalformedJson, MalformedWire
from vyre.domain.identity import body_digest, names_digest
from vyre.domain.ir import wire_format as w
from vyre.domain.ir.expr import Literal, Narrow, Pack, Unary, Unpack, Var, WrapCast
from vyre.domain.ir.limits import form_version
from vyre.domain.ir.operators import UnaryOp
from vyre.domain.ir.program import Access, Buffer, MemoryKind, Program
from vyre.domain.ir.stmt import Arm, Block, If, Let, Return, Stmt, Switch, if_chain
from vyre.domain.ir.types import ReservedType, ScalarType, u32
from vyre.domain.ir.wire_encoder import encode_sections, uleb
from vyre.domain.validation.report import Report
from vyre.domain.validation.validator import validate

RECORDED: Final = json.loads(
    lzma.decompress((Path(__file__).parents[2] / "data" / "first-version-forms.json.xz").read_bytes())
)
"""Written before there was a second version: name, digest, and the three forms of hand-made and random programs."""
YES: Final = Literal(ScalarType.BOOL, 1)


def resealed(written: Program, version: int) -> bytes:
    """The program's file with another number of the version and fitting digests."""
    body, names = encode_sections(written)
    header = w.MAGIC + bytes((version,)) + body_digest(body) + names_digest(names)
    return header + uleb(len(body)) + body + names


@pytest.mark.parametrize("record", RECORDED, ids=lambda record: record["name"])
def test_files_of_the_first_version_keep_bytes_and_digest(record: dict[str, Any]) -> None:
    wire = base64.b64decode(record["wire"])
    found = Program.from_wire(wire)
    assert found.digest.hex() == record["digest"]
    assert found == Program.from_json(record["json"]) == Program.from_text(record["text"])
    assert found.to_wire() == wire
    assert found.to_json() == record["json"]
    assert found.to_text() == record["text"]


def test_the_record_holds_enough() -> None:
    assert len(RECORDED) == 99
    assert {record["json"]["format"] for record in RECORDED} == {"vyre-program/1"}


@pytest.mark.parametrize("name", CORPUS)
def test_the_oldest_version_that_holds_a_program_is_written(name: str) -> None:
    later = (LATER_CORPUS, THIRD_CORPUS, FOURTH_CORPUS)
    version = next((number for number, corpus in enumerate(later, 2) if name in corpus), 1)
    assert CORPUS[name].to_wire()[len(w.MAGIC)] == version
    assert CORPUS[name].to_json()["format"] == f"vyre-program/{version}"


LATER: Final[dict[str, Program]] = {
    "narrow": program(store(Narrow(ScalarType.U8, lit(1)))),
    "pack": program(store(Pack(ScalarType.U8, lit(1)))),
    "unpack": program(store(Unpack(ScalarType.U8, lit(1)))),
    "wrap_cast": program(store(WrapCast(u32, Literal.of(ScalarType.F32, 1.0)))),
    "round_even": program(store(Unary(UnaryOp.ROUND_EVEN, Literal.of(ScalarType.F32, 1.0)))),
    "bool8": program(buffers=(storage("y", 0, ScalarType.BOOL8),)),
    "vector of bool8": program(buffers=(storage("y", 0, ReservedType("vec", (ScalarType.BOOL8, 2))),)),
    "private access": program(buffers=(storage("y", 0, access=Access.PRIVATE, kind=MemoryKind.LOCAL, count=1),)),
    "private kind": program(buffers=(Buffer("y", 0, Access.READ_WRITE, u32, 1, kind=MemoryKind.PRIVATE),)),
    "switch": program(Switch(lit(1), ())),
    "switch inside": program(If(YES, (Block((Switch(lit(1), (Arm((lit(1),), ()),)),)),))),
    "long chain": program(Let("n", lit(0)), else_if(66)),
}


@pytest.mark.parametrize("name", LATER)
def test_the_first_version_refuses_what_it_lacks(name: str) -> None:
    later = LATER[name]
    assert Program.from_wire(later.to_wire()) == Program.from_json(later.to_json()) == later
    with pytest.raises(MalformedWire) as wire_error:
        Program.from_wire(resealed(later, 1))
    with pytest.raises(MalformedJson) as json_error:
        Program.from_json(later.to_json() | {"format": "vyre-program/1"})
    assert "Fix: " in str(wire_error.value) and "Fix: " in str(json_error.value)
    assert json_error.value.path != "$"


def test_a_short_chain_is_flat_in_the_second_version_only() -> None:
    chain = else_if(2)
    first, second = program(Let("n", lit(0)), chain), program(Let("n", lit(0)), chain, Switch(lit(1), ()))
    assert (first.to_json()["entry"][1][0], second.to_json()["entry"][1][0]) == ("if", "if_chain")
    as_first = {**second.to_json(), "format": "vyre-program/1", "entry": second.to_json()["entry"][:2]}
    with pytest.raises(MalformedJson, match="unknown statement tag 'if_chain'"):
        Program.from_json(as_first)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", THIRD_CORPUS)
def test_earlier_versions_have_no_grid_loops(name: str, version: int) -> None:
    later = THIRD_CORPUS[name]
    with pytest.raises(MalformedWire, match=f"unknown opcode {w.GRID_LOOP:#04x}"):
        Program.from_wire(resealed(later, version))
    with pytest.raises(MalformedJson, match="unknown statement tag 'grid_loop'"):
        Program.from_json(later.to_json() | {"format": f"vyre-program/{version}"})


@pytest.mark.parametrize("name", [*FIRST_CORPUS, *LATER_CORPUS])
def test_the_third_version_refuses_what_an_earlier_one_holds(name: str) -> None:
    with pytest.raises(MalformedWire, match=r"version 3 of the format, for a program that version [12] holds"):
        Program.from_wire(resealed(CORPUS[name], 3))


def test_a_grid_loop_declares_its_rounds_behind_its_body() -> None:
    """The name may be used in the body for something else, which the wire form numbers before it."""
    inside = program(Let("n", lit(1)), grid_loop(Let("rounds", lit(1))), buffers=(storage("flag", 0),))
    behind = program(Let("n", lit(1)), grid_loop(), Let("t", Var("rounds")), buffers=(storage("flag", 0),))
    for form in FORMS.values():
        assert form(inside) == inside
        assert form(behind) == behind
    with pytest.raises(InvalidProgram, match="no local `rounds` is visible"):
        program(Let("n", lit(1)), grid_loop(Let("t", Var("rounds"))), buffers=(storage("flag", 0),)).to_wire()


@pytest.mark.parametrize("name", FIRST_CORPUS)
def test_the_second_version_of_the_binary_form_refuses_what_the_first_one_holds(name: str) -> None:
    with pytest.raises(MalformedWire, match="version 2 of the format, for a program that version 1 holds"):
        Program.from_wire(resealed(CORPUS[name], 2))


def chained(links: int, around: int = 0) -> Program:
    body: tuple[Stmt, ...] = (else_if(links, (store(lit(9)),)),)
    for _ in range(around):
        body = (Block(body),)
    return program(Let("n", lit(0)), *body)


@pytest.mark.parametrize(("links", "around", "version"), [(64, 0, 1), (65, 0, 2), (1, 63, 1), (2, 62, 1), (2, 63, 2)])
def test_the_depth_from_which_a_chain_needs_the_second_version(links: int, around: int, version: int) -> None:
    """In the first version every link is a level, and the last ``else`` one more."""
    found = chained(links, around)
    assert form_version(found) == version
    assert found.to_wire()[len(w.MAGIC)] == version
    assert Program.from_wire(found.to_wire()) == Program.from_json(found.to_json()) == found


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
    return {"format": "vyre-program/2", "workgroup_size": [1, 1, 1], "buffers": [], "entry": body}


def test_readers_bound_the_depth_of_the_second_version() -> None:
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
        data = w.MAGIC + b"\2" + body_digest(body) + names_digest(names) + uleb(len(body)) + body + names
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
def test_errors_in_json_of_the_second_version(entry: list[Any], path: str, message: str) -> None:
    value = {"format": "vyre-program/2", "workgroup_size": [1, 1, 1], "buffers": [], "entry": [entry]}
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
def test_words_of_the_second_version_are_no_reserved_words(word: str) -> None:
    text = (
        f"program {word}\nworkgroup_size 1, 1, 1\nbuffer {word} @0 read_write u32[4]\nbody {{\n  let {word} = 1u\n"
        f"  {word} := {word} + 1u\n  {word}[{word}] = {word}[{word}]\n"
        f"  if {word} < {word} {{\n    {word} := 2u\n  }}\n  for i in {word} .. {word} {{\n  }}\n}}\n"
    )
    found = Program.from_text(text)
    assert found.to_text() == text
    assert found.body[0] == Let(word, lit(1))
    assert Var(word) in [getattr(stmt, "index", None) for stmt in found.body]
