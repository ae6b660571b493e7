"""The digest: every change of what can change a result changes it, and no other change does."""

from __future__ import annotations

import random
from dataclasses import replace
from enum import Enum
from typing import Any, Final

from hypothesis import assume, given
from hypothesis import strategies as st

from support.edited_fields import field_of
from support.profiles import examples
from support.programs import any_cases
from vyre.domain.ir.expr import Expr, Literal, Var
from vyre.domain.ir.program import Access, Buffer, BufferHints, CacheLocality, Program
from vyre.domain.ir.stmt import STMT_TYPES, Block, Let, Loop, Region, Store, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.program_report import InvalidProgram
from vyre.domain.source_location import SourceLocation
from vyre.testing.program_edits import Path, at, renamed, replaced, sites, spliced

# Fields whose values are names or notes: renaming them consistently changes nothing.
LOCAL_FIELDS: Final = frozenset({("Let", "name"), ("Assign", "name"), ("Loop", "var"), ("Var", "name")})
TAG_FIELDS: Final = frozenset({("AsyncLoad", "tag"), ("AsyncStore", "tag"), ("AsyncWait", "tag")})
BUFFER_FIELDS: Final = frozenset(
    {
        *(("Buffer", "name"), ("Buffer", "like"), ("Load", "buffer"), ("BufferLength", "buffer"), ("Atomic", "buffer")),
        *(("Store", "buffer"), ("AsyncLoad", "source"), ("AsyncLoad", "destination"), ("AsyncStore", "source")),
        *(("AsyncStore", "destination"), ("IndirectDispatch", "buffer")),
    }
)
NOTES: Final = frozenset(
    {
        ("Region", "generator"),
        ("Region", "source"),
        ("Buffer", "hints"),
        ("Program", "name"),
        ("Program", "non_composable"),
    }
)
# A declaration renamed alone may be a consistent renaming; a binding alone may keep the order.
AMBIGUOUS: Final = frozenset({("Let", "name"), ("Loop", "var"), ("Buffer", "name"), ("Buffer", "binding")}) | TAG_FIELDS
seeds = st.integers(0, 1 << 32)


def changed(source: random.Random, program: Program, where: tuple[str, str], value: Any) -> Any:
    """Another value that the field could have."""
    match value:
        case bool():
            return not value
        case Enum():
            return source.choice([other for other in type(value) if other is not value])
        case int() if where == ("Literal", "bits"):
            return value ^ 1
        case int():
            return (value + source.choice((1, 2))) % 3 if where[1] == "axis" else value + source.choice((1, 4))
        case str() if where in BUFFER_FIELDS:
            return source.choice([b.name for b in program.buffers if b.name != value] or [value])
        case str() if where in LOCAL_FIELDS:
            names = {stmt.name for stmt in walk_statements(program.body) if isinstance(stmt, Let)}
            return source.choice(sorted(names - {value}) or [value])
        case str():
            return value + "'"
        case None if where == ("Buffer", "output_range"):
            return 0, 4
        case None if where == ("Buffer", "like"):
            return source.choice(program.buffers).name
        case _:
            return value


def inside_sites(program: Program) -> list[tuple[Path, Any]]:
    """Leaves of the program that are in its semantic body."""
    return [
        (path, value)
        for path, value in sites(program)
        if field_of(program, path) not in NOTES | AMBIGUOUS
        and (isinstance(value, bool | int | str | Enum) or (value is None and path[0] == "buffers"))
    ]


def digest_or_none(program: Program) -> bytes | None:
    """None where a changed name does not resolve: such a program has no digest."""
    try:
        return program.digest
    except InvalidProgram:
        return None


@examples(150)
@given(case=any_cases(work=1500), seed=seeds)
def test_every_field_of_the_body_is_in_the_digest(case: Any, seed: int) -> None:
    source = random.Random(seed)
    program: Program = case.program
    path, value = source.choice(inside_sites(program))
    new = changed(source, program, field_of(program, path), value)
    assume(new != value or type(new) is not type(value))
    try:
        other = replaced(program, path, new)
    except ValueError:  # bits that the literal's type does not have
        return
    digest = digest_or_none(other)
    assume(digest is not None)
    assert digest != program.digest, f"{field_of(program, path)}: {value!r} -> {new!r}"


@examples(75)
@given(case=any_cases(work=1500), seed=seeds)
def test_statements_are_in_the_digest(case: Any, seed: int) -> None:
    source = random.Random(seed)
    program: Program = case.program
    elements = [p for p, v in sites(program) if isinstance(p[-1], int) and p[0] == "body"]
    assume(elements)
    path = source.choice(elements)
    stmt = at(program, path)
    changes = [(), (stmt, stmt)]
    if isinstance(stmt, STMT_TYPES):
        changes.append((Block((stmt,)),))  # type: ignore[arg-type]
    for new in changes:
        digest = digest_or_none(spliced(program, path, new))
        assert digest is None or digest != program.digest


def renaming(program: Program, fields: frozenset[tuple[str, str]], source: random.Random) -> dict[str, str]:
    """A random bijection from the names in those fields to new ones."""
    names = sorted(
        {value for path, value in sites(program) if field_of(program, path) in fields and isinstance(value, str)}
    )
    new = [f"renamed {k}" for k in range(len(names))]
    source.shuffle(new)
    return dict(zip(names, new, strict=True))


@examples(75)
@given(case=any_cases(work=1500), seed=seeds)
def test_nothing_else_is_in_the_digest(case: Any, seed: int) -> None:
    source = random.Random(seed)
    program: Program = case.program
    other = program
    for fields in (LOCAL_FIELDS, TAG_FIELDS, BUFFER_FIELDS):
        other = renamed(other, renaming(other, fields, source), fields)
    for path, value in list(sites(other)):
        if isinstance(value, Region) and source.random() < 0.5:
            other = replaced(other, path, replace(value, generator="else", source="where"))
    other = replaced(other, ("buffers",), tuple(_unimportant(source, b) for b in _shuffled(source, other.buffers)))
    other = replace(other, name="renamed", non_composable=not other.non_composable)
    for path, value in source.choices(list(sites(other)), k=4):
        if hasattr(value, "loc"):
            other = replaced(other, path, replace(value, loc=SourceLocation("file.py", 3, 1)))
    assert other.digest == program.digest


def _unimportant(source: random.Random, buffer: Buffer) -> Buffer:
    hints = BufferHints(source.choice((None, 0, 2)), source.choice((0, 32)), source.choice(list(CacheLocality)))
    binding = buffer.binding if not buffer.is_bound else 2 * buffer.binding + 5
    return replace(buffer, hints=hints, binding=binding)


def _shuffled(source: random.Random, buffers: tuple[Buffer, ...]) -> list[Buffer]:
    return source.sample(buffers, len(buffers))


@examples(30)
@given(case=any_cases(work=1500))
def test_a_region_means_what_a_block_means(case: Any) -> None:
    program: Program = case.program
    for path, value in reversed(list(sites(program))):
        if isinstance(value, Region):
            program = replaced(program, path, Block(at(program, path).body))
    assert program.digest == case.program.digest


def test_a_loop_variable_is_a_local_like_any_other() -> None:
    def program(var: str, index: Expr) -> Program:
        zero, four, one = (Literal(ScalarType.U32, n) for n in (0, 4, 1))
        buffer = Buffer.make("y", 0, Access.READ_WRITE, ScalarType.U32)
        return Program((buffer,), (1, 1, 1), (Loop(var, zero, four, one, (Store("y", index, index),)),))

    assert program("k", Var("k")).digest == program("j", Var("j")).digest
