"""The declarations of nodes: complete, without two of a name, and with effects and results of the language."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any, Final

import pytest

from vyre.domain.ir import expr as x
from vyre.domain.ir import json_form, wire_decoder, wire_encoder
from vyre.domain.ir import stmt as s
from vyre.domain.ir.expr import Expr
from vyre.domain.ir.forms import FORMS, OPERANDS, PARTS, Effect, with_effects
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.types import ScalarType
from vyre.domain.op_ids import ALL_OPS
from vyre.domain.optimize.static_types import StaticTypes
from vyre.domain.validation.typing import ExpressionTyper
from vyre.domain.validation.validator import validate
from vyre.testing.operations import operations

OTHERS: Final = """workgroup_size 32, 1, 1
buffer y @0 read_write u32[runtime]
body {
  let a = spec(n, 3u) + subgroup_lane() + subgroup_size() + len(y)
  y[gid.x] = a
}
"""
"""A program with the expressions that no operation of the conformance programs is."""
EFFECTS: Final[dict[Effect, set[type[Node]]]] = {
    Effect.DISPATCH: {x.BufferLength, x.SubgroupSize, x.SpecConst},
    Effect.LANE: {x.LaunchId, x.SubgroupLane},
    Effect.READS: {x.Load},
    Effect.EXCHANGES: {x.SubgroupReduce, x.SubgroupBallot, x.SubgroupShuffle},
    Effect.ATOMIC: {x.Atomic},
}


def test_every_expression_is_declared() -> None:
    assert tuple(FORMS) == x.EXPR_TYPES
    assert {cls for cls in PARTS if cls.__module__ == s.__name__} == {*s.STMT_TYPES, s.Arm}


@pytest.mark.parametrize("name", ("word", "opcode", "tag"))
def test_no_two_expressions_share_a_name(name: str) -> None:
    names = Counter(value for form in FORMS.values() if (value := getattr(form, name)) is not None)
    assert set(names.values()) == {1}


def test_effects_are_those_of_the_language() -> None:
    declared = {effect: set(with_effects(effect)) for effect in Effect}
    assert {effect: classes for effect, classes in declared.items() if effect is not Effect.NONE} == EFFECTS
    assert {*x.EXPR_TYPES} == set.union(*declared.values())
    assert EFFECTS[Effect.READS] | EFFECTS[Effect.EXCHANGES] | EFFECTS[Effect.ATOMIC] == x.ORDERED
    assert x.IMPURE == x.ORDERED - {x.Load} == x.EXCHANGING | x.ATOMICS
    assert {cls for cls in x.EXPR_TYPES if "Subgroup" in cls.__name__} == x.OF_SUBGROUP


def test_every_form_is_written_and_read() -> None:
    """The tables of the written forms have each class, as no type checker sees."""
    hot = {x.Binary, x.Var, x.Load, x.LaunchId}
    assert {*wire_encoder._EMIT} | hot == {*x.EXPR_TYPES}
    assert {*json_form._WRITERS} == {*x.EXPR_TYPES}
    assert {*json_form._REGULAR_STATEMENTS} | {s.Switch, s.Loop, s.Region} == {*s.STMT_TYPES}
    opcodes = {form.opcode for cls, form in FORMS.items() if cls not in (x.Binary, x.Unary)} - {None}
    read = {opcode for opcode, handler in enumerate(wire_decoder._HANDLERS) if handler is not None}
    assert opcodes - read == {FORMS[x.Native].opcode}  # native text is of no file: only digests are made of it
    assert len(ALL_OPS) >= len(x.EXPR_TYPES) + len(s.STMT_TYPES) - 2


@pytest.mark.parametrize("cls", [*x.EXPR_TYPES, *s.STMT_TYPES, s.Arm], ids=lambda cls: cls.__name__)
def test_nodes_are_frozen_and_hold_nothing_else(cls: type[Node]) -> None:
    assert {field.name for field in fields(cls)} == {*cls.__match_args__, "loc"}
    made: Any = cls(*cls.__match_args__) if cls is not x.Literal else x.Literal(ScalarType.U32, 1)
    for name in ("loc", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(made, name, None)
    assert not hasattr(made, "__dict__")
    assert set(OPERANDS[cls].names) <= set(PARTS[cls].names) <= set(cls.__match_args__)


def test_declared_results_are_those_of_the_validator(monkeypatch: pytest.MonkeyPatch) -> None:
    typed: list[tuple[Expr, ScalarType | None]] = []
    type_of = ExpressionTyper.type_of

    def recording(typer: ExpressionTyper, expr: Expr) -> ScalarType | None:
        typed.append((expr, type_of(typer, expr)))
        return typed[-1][1]

    monkeypatch.setattr(ExpressionTyper, "type_of", recording)
    compared: set[type[Node]] = set()
    for program in (Program.from_text(OTHERS), *[operation.program(64) for operation in operations()]):
        typed.clear()
        assert validate(program).ok
        types = StaticTypes(program)
        types.declare_all(s.walk_statements(program.body))
        for expr, dtype in typed:
            assert types.of(expr) is dtype
            compared.add(type(expr))
    assert compared | {x.Literal, x.Call, x.Native} == {*x.EXPR_TYPES}
