"""Every written form, pickling and copying give back an equal program, at the limits of nesting, too."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from support.fuzzing.form_corpus import CORPUS, conformance_programs, deep_program, lit, oracle_programs, program, store
from vyre.domain.errors import UnsupportedFeature, VyreError
from vyre.domain.identity import program_digest
from vyre.domain.ir.expr import EXPR_TYPES, Binary, Expr, IdKind, LaunchId, Native, Var
from vyre.domain.ir.operators import AtomicOp, BinaryOp, Ordering, UnaryOp
from vyre.domain.ir.program import Access, CacheLocality, MemoryKind, Program
from vyre.domain.ir.stmt import STMT_TYPES, Arm, Break, Let
from vyre.domain.ir.upstream import import_upstream
from vyre.domain.program_report import InvalidProgram
from vyre.domain.source_location import SourceLocation
from vyre.testing.program_edits import sites


def via_text(value: Program) -> Program:
    return Program.from_text(value.to_text())


def via_wire(value: Program) -> Program:
    return Program.from_wire(value.to_wire())


def via_json(value: Program) -> Program:
    return Program.from_json(json.loads(json.dumps(value.to_json())))


def via_pickle(value: Program) -> Program:
    again = pickle.loads(pickle.dumps(value))
    assert isinstance(again, Program)
    return again


WRITTEN = (via_text, via_wire, via_json)
FORMS = (*WRITTEN, via_pickle, copy.deepcopy)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(form: Callable[[Program], Program], name: str) -> None:
    before = CORPUS[name]
    after = form(before)
    assert after == before
    assert hash(after) == hash(before)
    assert after.digest == before.digest


def importable() -> list[Program]:
    found: list[Program] = []
    for record in (*oracle_programs(), *conformance_programs()):
        try:
            found.append(import_upstream(record["program"]).program)
        except (UnsupportedFeature, InvalidProgram):
            assert record.get("status") != "ok"
    return found


def test_imported_programs() -> None:
    compared = 0
    for before in importable():
        try:
            before.digest  # noqa: B018
        except InvalidProgram:  # undeclared names, an axis of 3: refused by every form that needs them
            continue
        compared += 1
        for form in WRITTEN:
            assert form(before) == before
        assert via_wire(before).to_wire() == before.to_wire()
    assert compared > 150


def test_the_corpus_holds_every_kind_of_value() -> None:
    values: list[Any] = [value for one in CORPUS.values() for _, value in sites(one)]
    types = {type(value) for value in values}
    assert types >= {*EXPR_TYPES, *STMT_TYPES, Arm} - {Native}  # which no form reads
    members = {value for value in values if isinstance(value, Enum)}
    localities = {b.hints.locality for one in CORPUS.values() for b in one.buffers}
    assert localities == set(CacheLocality)
    for family in (BinaryOp, UnaryOp, AtomicOp, Ordering, IdKind, Access, MemoryKind):
        assert members >= set(family)


def at_depth(frames: int, call: Callable[[], object]) -> None:
    if frames:
        at_depth(frames - 1, call)
    else:
        call()


@pytest.mark.parametrize("frames", [0, 300])
def test_the_deepest_legal_program_needs_no_deep_stack(frames: int) -> None:
    deep, again = deep_program(), deep_program()

    def use() -> None:
        assert deep == again and hash(deep) == hash(again) and deep.digest == again.digest
        for form in FORMS:
            assert form(deep) == deep
        repr(deep)

    at_depth(frames, use)


@pytest.mark.parametrize(("statements", "operators"), [(65, 0), (0, 129), (2000, 0), (0, 5000)])
def test_deeper_programs_are_refused_by_every_written_form(statements: int, operators: int) -> None:
    too_deep = deep_program(statements, operators)
    for write in (Program.to_text, Program.to_wire, Program.to_json, program_digest):
        with pytest.raises(InvalidProgram, match="deep; the limit is"):
            write(too_deep)
    assert via_pickle(too_deep) == too_deep


def doubled(times: int) -> Program:
    value: Expr = lit(1)
    for _ in range(times):
        value = Binary(BinaryOp.ADD, value, value)
    return program(store(value))


def test_shared_expressions_are_written_out_where_that_is_small() -> None:
    for form in FORMS:
        assert form(doubled(10)) == doubled(10)


def test_shared_expressions_that_would_explode_are_refused() -> None:
    for write in (Program.to_text, Program.to_wire, Program.to_json):
        with pytest.raises(InvalidProgram, match="nodes"):
            write(doubled(100))
    again = via_pickle(doubled(100))
    assert again.body[0] is not None and len(pickle.dumps(again)) < 20_000


@pytest.mark.parametrize(
    "wrong",
    [
        program(store(LaunchId(IdKind.GLOBAL, 3))),
        Program((), (-1, 1, 1), ()),
        Program((), (1, 1, 1 << 32), ()),
    ],
)
def test_fields_out_of_range_have_no_written_form(wrong: Program) -> None:
    for write in (Program.to_text, Program.to_wire, Program.to_json):
        with pytest.raises(InvalidProgram, match="Fix: use an integer in"):
            write(wrong)


def test_text_and_json_do_not_need_names_to_resolve() -> None:
    unresolved = program(store(Var("nowhere")), Break(), Let("a", lit(1)), Let("a", lit(2)))
    assert via_text(unresolved) == unresolved
    assert via_json(unresolved) == unresolved
    with pytest.raises(InvalidProgram, match="no local `nowhere`"):
        unresolved.to_wire()


def test_source_locations_survive_pickling_and_are_not_compared() -> None:
    located = program(Let("a", lit(1), loc=SourceLocation("kernel.py", 7)))
    again = via_pickle(located)
    assert again == program(Let("a", lit(1)))
    assert again.body[0].loc == SourceLocation("kernel.py", 7)


@pytest.mark.parametrize(
    "read",
    [lambda: Program.from_text("x"), lambda: Program.from_wire(b"x"), lambda: Program.from_json([])],
    ids=["text", "wire", "json"],
)
def test_errors_of_the_forms_pickle(read: Callable[[], Program]) -> None:
    with pytest.raises(VyreError) as caught:
        read()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))
    assert "Fix: " in str(again)
