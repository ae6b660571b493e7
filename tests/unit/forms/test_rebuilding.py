"""Trees in which nodes have been replaced: the rest stays the same objects, and parts come from left to right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any, Final

import pytest

from support.fuzzing.form_corpus import CORPUS
from support.limits import LIMIT_S
from vyre.domain.ir.expr import Atomic, Binary, Call, Expr, Literal, Load, Var, children
from vyre.domain.ir.forms import OPERANDS, PARTS
from vyre.domain.ir.node import Node
from vyre.domain.ir.operators import AtomicOp, BinaryOp
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt, rebuilt_from, same_statements, with_body, with_branches, with_operands
from vyre.domain.ir.stmt import Arm, Block, Break, If, Let, Region, Store, Switch, walk_statements
from vyre.domain.ir.types import ScalarType
from vyre.domain.ir.walk import unique_expressions
from vyre.domain.source_location import SourceLocation

ONE, TWO = Literal(ScalarType.U32, 1), Literal(ScalarType.U32, 2)
HERE = SourceLocation("a.vyre", 3)


def _sum(left: Expr, right: Expr) -> Binary:
    return Binary(BinaryOp.ADD, left, right, loc=HERE)


@pytest.mark.parametrize("program", CORPUS.values(), ids=list(CORPUS))
def test_what_does_not_change_stays_the_same_object(program: Program) -> None:
    assert rebuilt(program.body, lambda node: node) is program.body


@pytest.mark.parametrize("program", CORPUS.values(), ids=list(CORPUS))
def test_nodes_are_built_with_other_parts_as_dataclasses_do(program: Program) -> None:
    for node in (*unique_expressions(program), *walk_statements(program.body)):
        names = [name for name in OPERANDS[type(node)].names if getattr(node, name) is not None]
        if not names or type(node) is Call:
            continue
        changed: Any = dict.fromkeys(names, TWO)
        expected = replace(node, **changed)
        operands = [None if operand is None else TWO for operand in OPERANDS[type(node)].of(node)]
        found = with_operands(node, operands)
        assert (found, found.loc) == (expected, node.loc)


def test_arguments_and_an_absent_operand() -> None:
    call = Call("a.f", (ONE, Var("x")), loc=HERE)
    assert with_operands(call, [TWO, Var("x")]) == Call("a.f", (TWO, Var("x")))
    assert with_operands(call, children(call)) is call
    add = Atomic(AtomicOp.ADD, "b", ONE, None, ONE)
    assert rebuilt(add, lambda node: TWO if node is ONE else node) == Atomic(AtomicOp.ADD, "b", TWO, None, TWO)


def test_parts_come_from_left_to_right_and_shared_ones_once() -> None:
    seen: list[Node] = []
    shared = _sum(Var("a"), Var("b"))
    root = (Store("o", _sum(shared, Var("c")), shared), Let("d", Var("e")))

    def change(node: Any) -> Any:
        seen.append(node)
        return replace(node, name=node.name * 2) if type(node) is Var else node

    (store, let) = rebuilt(root, change)
    assert [node.name for node in seen if isinstance(node, Var)] == ["a", "b", "c", "e"]
    assert let == Let("d", Var("ee")) and isinstance(store, Store)
    assert isinstance(store.index, Binary) and store.index.left is store.value
    assert store.index.loc == HERE


def test_the_old_node_is_seen_beside_the_new_one() -> None:
    pairs: list[tuple[Node, Node]] = []
    inner = _sum(ONE, ONE)

    def change(old: Any, new: Any) -> Any:
        pairs.append((old, new))
        return TWO if old is ONE else new

    assert rebuilt_from(Load("b", inner), change) == Load("b", _sum(TWO, TWO))
    assert pairs == [(ONE, ONE), (inner, _sum(TWO, TWO)), (Load("b", inner), Load("b", _sum(TWO, TWO)))]


def test_what_is_no_node_and_what_is_no_part_is_left_alone() -> None:
    label = Literal(ScalarType.U32, 7)
    foreign: Any = (Let("a", "no expression"), Switch(ONE, (Arm((label,), (Break(),)),)))  # type: ignore[arg-type]
    changed = rebuilt(foreign, lambda node: TWO if type(node) is Literal else node)
    assert changed == (foreign[0], Switch(TWO, (Arm((label,), (Break(),)),)))
    assert changed[0] is foreign[0]


def test_a_memo_is_used_and_filled() -> None:
    expr = _sum(Var("a"), ONE)
    memo: dict[int, Any] = {id(expr.left): TWO}
    assert rebuilt(expr, lambda node: node, memo) == _sum(TWO, ONE)
    assert memo[id(expr)] == _sum(TWO, ONE)


def test_long_and_deep_trees_need_no_recursion() -> None:
    expr: Expr = ONE
    for _ in range(5_000):
        expr = _sum(expr, ONE)
    body = tuple(Let(f"x{i}", expr) for i in range(1_000))
    changed = rebuilt((Block(body),), lambda node: TWO if node is ONE else node)
    assert isinstance(changed[0], Block) and len(changed[0].body) == 1_000
    last = changed[0].body[-1]
    assert isinstance(last, Let) and isinstance(last.value, Binary) and last.value.right is TWO


def test_bodies() -> None:
    region, body = Region("g", (Break(),), "s", loc=HERE), (Break(), Break())
    assert with_body(region, region.body) is region
    assert with_body(region, body) == Region("g", body, "s") and with_body(region, body).loc == HERE
    switch = Switch(ONE, (Arm((ONE,), (), loc=HERE),))
    assert with_branches(switch, [()], ()) is switch
    changed = with_branches(switch, [body], ())
    assert changed == Switch(ONE, (Arm((ONE,), body),)) and changed.arms[0].loc == HERE
    assert same_statements(body, [*body]) is body
    assert same_statements(body, [body[0]]) == (body[0],)
    assert PARTS[If].names == ("condition", "then", "otherwise")


LATE: Final = """
from vyre.domain.ir.rebuilding import rebuilt
from vyre.domain.ir.definitions import Definition, Parameter, Version
from vyre.domain.ir.expr import Var
from vyre.domain.ir.types import ScalarType
old, new = Var("x"), Var("y")
definition = Definition("acme.f", Version(1, 0, 0), (Parameter("x", ScalarType.U32),), ScalarType.U32, (), old)
print(rebuilt(definition, lambda node: new if node is old else node).result.name)
"""


def test_nodes_that_are_declared_after_the_rewriter_have_parts() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], check=True, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout == "y\n"
