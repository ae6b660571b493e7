"""The digest covers every field that can change a result and no other: each field of each class is decided here."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from enum import Enum
from typing import Any, Final

import pytest
from blake3 import blake3

from support.fuzzing.form_corpus import CORPUS, RESERVED_ELEMENTS
from vyre.domain.identity import DEFINED_DOMAIN, DIGEST_DOMAIN, program_digest
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import EXPR_TYPES, Atomic, Literal, Native
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import AtomicOp
from vyre.domain.ir.program import Buffer, BufferHints, CacheLocality, Program
from vyre.domain.ir.stmt import STMT_TYPES, Arm
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.wire_encoder import encode_body
from vyre.domain.program_report import InvalidProgram
from vyre.domain.source_location import SourceLocation
from vyre.testing.program_edits import Path, at, replaced, sites

OUTSIDE: Final = {
    "*": {"loc"},
    "Program": {"name", "non_composable", "sizes", "_cache"},
    "Buffer": {"name", "binding", "hints"},
    "Let": {"name"},
    "Loop": {"var"},
    "GridLoop": {"name"},
    "Region": {"generator", "source"},
    "AsyncLoad": {"tag"},
    "AsyncStore": {"tag"},
    "AsyncWait": {"tag"},
    "Parameter": {"name"},
}
"""Fields whose content is not in the digest.  A declaration's name, or a tag, changes alone without a trace only
as long as nothing refers to it; a binding while the order stays."""
INSIDE: Final = {
    "Program": {"workgroup_size"},
    "Definition": {"id", "version", "result_type"},
    "Parameter": {"dtype", "is_attribute"},
    "Call": {"op"},
    "Buffer": {"access", "element", "count", "is_output", "kind", "like", "output_range"},
    "Literal": {"dtype", "bits"},
    "Var": {"name"},
    "Load": {"buffer"},
    "BufferLength": {"buffer"},
    "LaunchId": {"kind", "axis"},
    "Binary": {"op"},
    "Unary": {"op"},
    "Cast": {"dtype"},
    "Bitcast": {"dtype"},
    "Narrow": {"dtype"},
    "Pack": {"dtype"},
    "Unpack": {"dtype"},
    "WrapCast": {"dtype"},
    "Atomic": {"op", "buffer", "ordering"},
    "SubgroupReduce": {"op"},
    "SpecConst": {"name", "default"},
    "Assign": {"name"},
    "Store": {"buffer"},
    "GridLoop": {"flag"},
    "Barrier": {"ordering"},
    "AsyncLoad": {"source", "destination"},
    "AsyncStore": {"source", "destination"},
    "Trap": {"tag"},
    "IndirectDispatch": {"buffer", "offset"},
}
"""Fields whose content is in the digest; references to locals and buffers by what they refer to."""
CHILDREN: Final = {
    "Program": {"buffers", "body", "definitions"},
    "Definition": {"parameters", "body", "result"},
    "Call": {"args"},
    "Load": {"index"},
    "Binary": {"left", "right"},
    "Unary": {"operand"},
    "Select": {"condition", "on_true", "on_false"},
    "Cast": {"operand"},
    "Bitcast": {"operand"},
    "Narrow": {"operand"},
    "Pack": {"operand"},
    "Unpack": {"operand"},
    "WrapCast": {"operand"},
    "Fma": {"a", "b", "c"},
    "Atomic": {"index", "expected", "value"},
    "SubgroupReduce": {"value"},
    "SubgroupBallot": {"condition"},
    "SubgroupShuffle": {"value", "lane"},
    "Let": {"value"},
    "Assign": {"value"},
    "Store": {"index", "value"},
    "If": {"condition", "then", "otherwise"},
    "Switch": {"selector", "arms", "default"},
    "Arm": {"labels", "body"},
    "Loop": {"start", "stop", "step", "body"},
    "GridLoop": {"limit", "body"},
    "Block": {"body"},
    "Region": {"body"},
    "AsyncLoad": {"offset", "size"},
    "AsyncStore": {"offset", "size"},
    "Trap": {"address"},
}
"""Fields that hold nodes, which are decided themselves."""
CLASSES: Final = (Program, Buffer, Definition, Parameter, Arm, *[c for c in EXPR_TYPES if c is not Native], *STMT_TYPES)
"""``Native`` is of no file; ``tests/unit/dialects/test_native.py`` has its digest."""
PROGRAMS: Final = [
    each for name, each in CORPUS.items() if name not in ("empty", "literals", "operators", "deep", "reserved elements")
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_field_is_decided_once(kind: type[Node]) -> None:
    name = kind.__name__
    decided = [*OUTSIDE["*"], *(f for table in (OUTSIDE, INSIDE, CHILDREN) for f in table.get(name, ()))]
    assert sorted(decided) == sorted(field.name for field in fields(kind))


def test_the_definition() -> None:
    for one in PROGRAMS:
        definitions = [each.digest for each in one.definitions]
        count = len(definitions).to_bytes(4, "little")
        domain = b"".join((DEFINED_DOMAIN, count, *definitions)) if definitions else DIGEST_DOMAIN
        assert one.digest == blake3(domain + encode_body(one)).digest() == program_digest(one)
        assert len(one.digest) == 32


def alternatives(value: Any, program: Program) -> list[Any]:
    """Other values of the kind of ``value``."""
    match value:
        case bool():
            return [not value]
        case ScalarType():
            return [member for member in ScalarType if member is not value]
        case Enum():
            return [member for member in type(value) if member is not value]
        case Version(major, minor, patch):
            return [
                Version(major + 1, minor, patch),
                Version(major, minor + 1, patch),
                Version(major, minor, patch + 1),
            ]
        case int():
            return [value ^ 1, value + 2]
        case str():
            visible = [v for _, v in sites(program) if isinstance(v, str) and v != value]
            return [value + "'", *dict.fromkeys(visible)]
        case tuple():
            return [tuple(n + 1 for n in value)]
        case None:
            return ["let!", "in", "late"]
        case _:
            return []


def digest_or_none(program: Program) -> bytes | None:
    """None for a program that has no digest: the new value is out of range, or a name does not resolve."""
    try:
        return program.digest
    except InvalidProgram:
        return None


def sites_of(table: dict[str, set[str]]) -> list[tuple[Program, Path, str, str]]:
    """Occurrences of the fields of the table: at most sixty of each in a program."""
    found = [
        (program, (*path, field), type(node).__name__, field)
        for program in PROGRAMS
        for path, node in [((), program), *sites(program)]
        if isinstance(node, Node)
        for field in (*table.get(type(node).__name__, ()), *table.get("*", ()))
        if field != "_cache"
    ]
    seen: Counter[tuple[int, str, str]] = Counter()
    kept = []
    for site in found:
        key = (id(site[0]), site[2], site[3])
        seen[key] += 1
        if seen[key] <= 60:
            kept.append(site)
    return kept


def test_what_is_inside_changes_the_digest() -> None:
    changed: set[tuple[str, str]] = set()
    for program, path, kind, field in sites_of(INSIDE):
        old = at(program, path)
        news = [*RESERVED_ELEMENTS, *alternatives(old, program)] if field == "element" else alternatives(old, program)
        if field == "output_range" and old is None:
            news = [(0, 4)]
        if (kind, field) == ("SpecConst", "default"):
            news = [replace(old, bits=old.bits ^ 1)]
        if (kind, field) == ("Atomic", "op"):
            atomic = at(program, path[:-1])
            assert isinstance(atomic, Atomic)
            news = [op for op in news if AtomicOp.COMPARE_EXCHANGE not in (op, atomic.op)]
        for new in news[:6]:
            try:
                other = replaced(program, path, new)
            except ValueError:  # a literal without such bits
                continue
            digest = digest_or_none(other)
            if digest is not None:
                assert digest != program.digest, (kind, field, old, new)
                changed.add((kind, field))
    assert changed == {(kind, field) for kind, names in INSIDE.items() for field in names}


def test_what_is_outside_does_not() -> None:
    kept: set[tuple[str, str]] = set()
    for program, path, kind, field in sites_of(OUTSIDE):
        old = at(program, path)
        new: Any
        match field:
            case "loc":
                new = SourceLocation("kernel.py", 3, 9)
            case "hints":
                new = BufferHints(7, 4096, CacheLocality.STREAMING)
            case "binding":
                new = old + 1000 if old == max(b.binding for b in program.buffers) else old
                new = 77 if not at(program, path[:-1]).is_bound else new
            case "non_composable":
                new = not old
            case _:
                new = f"{old} renamed"
        digest = digest_or_none(replaced(program, path, new))
        if digest is not None:
            if (
                kind in ("Let", "Loop", "AsyncLoad", "AsyncStore", "AsyncWait", "Parameter")
                and digest != program.digest
            ):
                continue  # something refers to it
            assert digest == program.digest, (kind, field, old, new)
            kept.add((kind, field))
    assert kept >= {(kind, field) for kind, names in OUTSIDE.items() if kind != "*" for field in names - {"_cache"}} - {
        ("AsyncLoad", "tag"),
        ("AsyncStore", "tag"),
        ("AsyncWait", "tag"),
    }
    assert {kind for kind, field in kept if field == "loc"} >= {kind.__name__ for kind in STMT_TYPES}


def test_children_change_the_digest() -> None:
    changed: set[tuple[str, str]] = set()
    for program, path, kind, field in sites_of(CHILDREN):
        old = at(program, path)
        if not old:
            continue
        news = (old[1:], old[:-1]) if isinstance(old, tuple) else (Literal(ScalarType.U32, 0xC0FFEE),)
        for new in news:
            digest = digest_or_none(replaced(program, path, new))
            if digest is not None:
                assert digest != program.digest, (kind, field)
                changed.add((kind, field))
    assert changed == {(kind, field) for kind, names in CHILDREN.items() for field in names}
