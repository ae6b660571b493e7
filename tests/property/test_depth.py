"""Deep and shared trees: whatever the depth, an answer or a typed error, and never a RecursionError."""

from __future__ import annotations

import copy
import json
import linecache
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre
from vyre.domain.errors import MalformedJson, MalformedText, VyreError
from vyre.domain.ir.expr import Binary, Expr, Literal, Load, Unary, Var
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_STATEMENT_DEPTH
from vyre.domain.ir.operators import BinaryOp, UnaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Arm, Block, Body, If, Let, Loop, Stmt, Store, Switch, if_chain
from vyre.domain.ir.types import ScalarType
from vyre.domain.program_report import InvalidProgram
from vyre.domain.validation.validator import validate

U32 = ScalarType.U32
ZERO, ONE = Literal(U32, 0), Literal(U32, 1)
TRUE = Literal(ScalarType.BOOL, 1)
BUFFER = Buffer.make("y", 0, Access.READ_WRITE, U32, 4)


def expression(depth: int, shape: str) -> Expr:
    """An expression of that depth: a comb to the left, to the right, or through an index."""
    node: Expr = ZERO
    for _ in range(depth):
        match shape:
            case "left":
                node = Binary(BinaryOp.ADD, node, ONE)
            case "right":
                node = Binary(BinaryOp.SUB, ONE, node)
            case "unary":
                node = Unary(UnaryOp.BIT_NOT, node)
            case _:
                node = Load("y", node)
    return node


def statements(depth: int, shape: str, innermost: Stmt) -> Body:
    """A statement inside that many bodies."""
    stmt = innermost
    for level in range(depth):
        match shape:
            case "if":
                stmt = If(TRUE, (stmt,))
            case "else":
                stmt = If(TRUE, (), (Store("y", ZERO, ONE), stmt))
            case "switch":
                stmt = Switch(ZERO, (Arm((ONE,), (Store("y", ZERO, ONE),)), Arm((ZERO,), (stmt,))))
            case "default":
                stmt = Switch(ZERO, (Arm((ONE,), ()),), (stmt,))
            case "loop":
                stmt = Loop(f"k{level}", ZERO, ONE, ONE, (stmt,))
            case _:
                stmt = Block((stmt,))
    return (stmt,)


def program(statement_depth: int, expression_depth: int, shapes: tuple[str, str] = ("if", "left")) -> Program:
    store = Store("y", ZERO, expression(expression_depth, shapes[1]))
    return Program((BUFFER,), (1, 1, 1), statements(statement_depth, shapes[0], store))


SHAPES = [
    (s, e) for s in ("if", "else", "loop", "block", "switch", "default") for e in ("left", "right", "unary", "load")
]


@pytest.mark.parametrize("shapes", SHAPES, ids="-".join)
def test_the_deepest_legal_program_has_every_form(shapes: tuple[str, str]) -> None:
    deep = program(MAX_STATEMENT_DEPTH, MAX_EXPRESSION_DEPTH, shapes)
    assert validate(deep).ok, validate(deep).render()
    assert Program.from_text(deep.to_text()) == deep
    assert Program.from_wire(deep.to_wire()) == deep
    assert Program.from_json(deep.to_json()) == deep
    again = pickle.loads(pickle.dumps(deep))
    assert again == deep and hash(again) == hash(deep) and again.digest == deep.digest
    assert repr(deep.body[0])


FORMS: dict[str, Callable[[Program], object]] = {
    "text": Program.to_text,
    "wire": Program.to_wire,
    "json": Program.to_json,
    "digest": lambda p: p.digest,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shapes", SHAPES, ids="-".join)
@pytest.mark.parametrize(
    "depths",
    [(MAX_STATEMENT_DEPTH + 1, 0), (0, MAX_EXPRESSION_DEPTH + 1), (5_000, 0), (0, 20_000), (2_000, 2_000)],
    ids=str,
)
def test_a_deeper_program_is_refused(depths: tuple[int, int], shapes: tuple[str, str], form: str) -> None:
    deep = program(*depths, shapes)
    assert not validate(deep).ok
    with pytest.raises(InvalidProgram):
        FORMS[form](deep)


def chain(links: int, around: int) -> Program:
    body: Body = ()
    for _ in range(links):
        body = (If(TRUE, (Store("y", ZERO, ONE),), body),)
    (stmt,) = body
    return Program((BUFFER,), (1, 1, 1), statements(around, "block", stmt))


@pytest.mark.parametrize("links", [256, 10_000])
def test_a_chain_of_else_if_has_no_depth(links: int) -> None:
    found = chain(links, MAX_STATEMENT_DEPTH - 1)
    assert validate(found).ok, validate(found).render()
    for again in (
        Program.from_text(found.to_text()),
        Program.from_wire(found.to_wire()),
        Program.from_json(json.loads(json.dumps(found.to_json()))),
        pickle.loads(pickle.dumps(found)),
        copy.deepcopy(found),
    ):
        assert again == found and hash(again) == hash(found) and again.digest == found.digest
    assert len(if_chain(chain(links, 0).body[0])[0]) == links  # type: ignore[arg-type]
    for form in FORMS.values():
        with pytest.raises(InvalidProgram):
            form(chain(links, MAX_STATEMENT_DEPTH))


@pytest.mark.parametrize("shapes", SHAPES[:4], ids="-".join)
def test_deep_programs_compare_hash_and_print(shapes: tuple[str, str]) -> None:
    deep, same, other = program(900, 20_000, shapes), program(900, 20_000, shapes), program(900, 20_001, shapes)
    assert deep == same and hash(deep) == hash(same) and deep != other
    assert len(repr(deep.body[0])) < 10_000


def shared(levels: int) -> Expr:
    """An expression whose tree has 2 ** levels leaves, and whose graph has ``levels`` nodes."""
    node: Expr = Var("x")
    for _ in range(levels):
        node = Binary(BinaryOp.ADD, node, node)
    return node


def with_value(value: Expr) -> Program:
    return Program((BUFFER,), (1, 1, 1), (Let("x", ONE), Store("y", ZERO, value)))


def test_a_shared_graph_is_no_exponential_tree() -> None:
    graph, same = with_value(shared(100)), with_value(shared(100))
    report = validate(graph)
    for form in FORMS.values():
        with pytest.raises(InvalidProgram):
            form(graph)
    assert not report.ok
    assert graph == same and hash(graph) == hash(same)
    assert graph != with_value(shared(99))
    assert repr(graph.body[1])
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert copy.deepcopy(graph) == graph


def test_a_small_shared_graph_is_written_out() -> None:
    graph = with_value(shared(8))
    assert validate(graph).ok
    for again in (
        Program.from_text(graph.to_text()),
        Program.from_wire(graph.to_wire()),
        Program.from_json(graph.to_json()),
    ):
        assert again == graph and again.digest == graph.digest


def nested_lists(depth: int) -> Any:
    value: Any = ["u32", 0]
    for _ in range(depth):
        value = ["un", "BitNot", value]
    return value


@pytest.mark.parametrize("depth", [MAX_EXPRESSION_DEPTH + 1, 1_000, 50_000])
def test_deep_json_is_refused(depth: int) -> None:
    value = program(0, 0).to_json()
    value["entry"][0][3] = nested_lists(depth)
    with pytest.raises(MalformedJson):
        Program.from_json(value)


@pytest.mark.parametrize("opener", ["(", "-", "~", "y[", "min(1u, ", "not ", "if true {", "{", "u32(", "cast<u32>("])
@pytest.mark.parametrize("count", [200, 20_000])
def test_deep_text_is_refused(opener: str, count: int) -> None:
    text = program(0, 0).to_text()
    for broken in (text.replace("y[0", "y[" + opener * count), text + opener * count, opener * count):
        with pytest.raises(MalformedText):
            Program.from_text(broken)


def test_errors_of_deep_programs_print() -> None:
    report = validate(program(5_000, 5_000))
    assert len(report.render()) < 100_000
    with pytest.raises(VyreError):
        report.raise_if_invalid()


# ---------------------------------------------------------------- kernels in Python, and callers deep in a recursion
IN, OR, ADD = ", ".join(map(str, range(900))), " or ".join(["x[0]"] * 900), " + ".join(["x[0]"] * 900)
CHAINS = {
    "elif": "    if x[0] == 900:\n        r = 1\n"
    + "".join(f"    elif x[0] == {n}:\n        r = {n}\n" for n in range(400))
    + "    else:\n        r = 7\n    y[0] = r\n",
    "returns": "    y[0] = returning(x[0])\n",
    "known": f"    y[0] = {' + '.join(['1'] * 900)}\n",
    "assignments": "    t = x[0]\n" + "    t = t + 1\n" * 900 + "    y[0] = t\n",
}
TOO_DEEP = {
    "sum": f"    y[0] = {ADD}\n",
    "or": f"    y[0] = 1 if {OR} else 0\n",
    "comparison": f"    y[0] = 1 if {ADD.replace('+', '<')} else 0\n",
    "in": f"    y[0] = 1 if x[0] in ({IN}) else 0\n",
    "choice": "    y[0] = " + "".join(f"{n} if x[0] == {n} else " for n in range(300)) + "7\n",
    "minus": f"    y[0] = {'- ' * 190}x[0]\n",
    "calls": f"    y[0] = {'min(9, ' * 190}x[0]{')' * 190}\n",
    "indices": f"    y[0] = {'x[' * 190}0{']' * 190}\n",
    "right": f"    y[0] = {'(1 + ' * 190}x[0]{')' * 190}\n",
    "attributes": f"    y[0] = vyre{'.f' * 900}\n",
    "functions": "    y[0] = f40(x[0])\n",
    "sequence": "    y[0] = leaving(x[0])\n",
}
FUNCTIONS = (
    "@vyre.function\ndef returning(v):\n    if v == 900:\n        return 1\n"
    + "".join(f"    elif v == {n}:\n        return {n}\n" for n in range(300))
    + "    return 7\n@vyre.function\ndef leaving(v):\n"
    + "".join(f"    if v == {n}:\n        return {n}\n" for n in range(300))
    + "    return 7\n@vyre.function\ndef f0(v):\n    return v\n"
    + "".join(f"@vyre.function\ndef f{n}(v):\n    return f{n - 1}(v) + 1\n" for n in range(1, 41))
)


def function_of(body: str) -> Any:
    """A function with these statements, whose text Python keeps."""
    name, names = f"<chain {len(linecache.cache)}>", {"vyre": vyre, "In": vyre.In, "Out": vyre.Out, "u32": vyre.u32}
    text = FUNCTIONS + f"def k(x: In[u32], y: Out[u32, (1,)]):\n{body}"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)
    return names["k"]


@pytest.mark.parametrize("backend", ["reference", "cpu", "cuda-machine"])
@pytest.mark.parametrize(("name", "result"), [("elif", 5), ("returns", 5), ("known", 900), ("assignments", 905)])
def test_long_chains_compile(name: str, result: int, backend: str) -> None:
    with vyre.open(backend, cache=False):
        assert vyre.kernel(function_of(CHAINS[name]))(np.array([5], np.uint32)).tolist() == [result]


@pytest.mark.parametrize("name", TOO_DEEP)
def test_what_is_too_deep_for_a_program_is_told(name: str) -> None:
    with pytest.raises(VyreError):
        vyre.kernel(function_of(TOO_DEEP[name])).program  # noqa: B018


def called_at(depth: int, function: Callable[[], Any]) -> Any:
    """The result of a function that is called from so deep in a recursion; None for an error of vyre's."""
    if depth:
        return called_at(depth - 1, function)
    try:
        return function()
    except VyreError:
        return None


@pytest.mark.parametrize("form", [*FORMS, "optimize", "emit", "reference", "cpu", "cuda-machine"])
def test_callers_deep_in_a_recursion_get_an_answer_or_a_typed_error(form: str) -> None:
    deep = program(MAX_STATEMENT_DEPTH, MAX_EXPRESSION_DEPTH, ("else", "right"))

    def run() -> object:
        fresh = Program(deep.buffers, deep.workgroup_size, deep.body)
        if form in FORMS:
            return FORMS[form](fresh)
        if form in ("optimize", "emit"):
            return getattr(vyre, form)(fresh)
        return session.dispatch(fresh, {"y": np.zeros(4, np.uint32)}, grid=1)

    with vyre.open(form if form in ("cpu", "cuda-machine") else "reference", cache=False) as session:
        found = [called_at(depth, run) is not None for depth in (0, 300, 450, 600, 700)]
    assert found[0] and found == sorted(found, reverse=True)


@pytest.mark.parametrize("depth", [300, 500, 700])
def test_kernels_are_made_or_refused_deep_in_a_recursion(depth: int) -> None:
    simple = function_of("    y[0] = x[0] + 1\n")
    assert called_at(300, lambda: vyre.kernel(simple).program) is not None
    for body in (CHAINS["elif"], TOO_DEEP["right"].replace("x[0]", "x[0] + 1"), TOO_DEEP["calls"]):
        function = function_of(body)
        called_at(depth, lambda function=function: vyre.kernel(function).program)  # type: ignore[misc]
