"""Operands of parsed PTX: the kind of each is its type, and what it is made of is classified too."""

from __future__ import annotations

import pytest

from vyre.adapters.cuda.machine.ptx_syntax import (
    Elements,
    Memory,
    Negated,
    Operand,
    Pair,
    RegisterName,
    Word,
    operand,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("%r1", RegisterName),
        ("%tid.x", RegisterName),
        ("!%p1", Negated),
        ("%p1|%p2", Pair),
        ("_|%p2", Pair),
        ("{%r1, %r2}", Elements),
        ("[%rd1+8]", Memory),
        ("0x7FFF", Word),
        ("-1", Word),
        ("smem", Word),
        ("_", Word),
    ],
)
def test_the_kind_of_an_operand_is_its_type_and_its_text_stays(text: str, kind: type[Operand]) -> None:
    found = operand(text)
    assert type(found) is kind
    assert found == text


def test_the_parts_of_an_operand_are_operands() -> None:
    assert Negated("!%p1").positive == RegisterName("%p1")
    assert [type(part) for part in Pair("_|%p2").parts] == [Word, RegisterName]
    assert [type(member) for member in Elements("{ %r1, 7 }").members] == [RegisterName, Word]
