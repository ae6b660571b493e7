"""Branches, loops and exits: lanes that part ways do what each would have done alone."""

from __future__ import annotations

import numpy as np
import pytest

from support.reference.agreement import ANY_CHUNK, CANONICAL, agreed, agreed_failure, ramp, words
from vyre.domain.errors import StepBudgetExceeded, TrapError
from vyre.domain.ir.builder import ProgramBuilder
from vyre.domain.ir.expr import Binary, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.limits import MAX_EXPRESSION_DEPTH, MAX_STATEMENT_DEPTH
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Assign, Block, Break, Continue, If, Let, Loop, Stmt, Store
from vyre.domain.ir.types import u32

LANES = 40

_KERNEL = """
program flow
workgroup_size 8, 1, 1
buffer x @0 read u32[runtime]
buffer y @1 read_write u32[{lanes}] output
body {{
  let x0 = x[gid.x]
  let v = 1u
  {body}
  y[gid.x] = v
}}
"""


def _kernel(body: str) -> str:
    return _KERNEL.format(lanes=LANES, body=body)


_INPUT = {"x": ramp(LANES) % np.uint32(11)}

_BODIES = {
    "uniform branch": "if len(x) > 3u { v := 5u } else { v := 6u }",
    "uniform branch not taken": "if len(x) < 3u { v := 5u }",
    "workgroup branch": "if wid.x == 2u { v := v + gid.x } else { v := 7u }",
    "lane branch": "if lid.x < 3u { v := v + gid.x } else { v := x0 }",
    "data branch": "if x0 > 4u { v := v + gid.x } else { v := x0 * 2u }",
    "data branch without else": "if x0 > 4u { v := v + gid.x }",
    "nested": "if x0 > 4u { if lid.x < 4u { v := 9u } else { v := v + 1u } v := v * 3u }",
    "empty branches": "if x0 > 4u { } else { }",
    "let in both": "if x0 > 4u { let w = x0\n v := w } else { let w = 3u\n v := w }",
    "return for some": "if x0 > 6u { y[gid.x] = 77u\n return }\n v := v + x0",
    "return at the end": "if x0 > 6u { y[gid.x] = 77u\n return } else { v := 8u }",
    "return past the guard": "if gid.x >= 37u { return }\n v := 4u",
    "return in two places": "if x0 > 6u { return }\n if lid.x == 1u { return }\n v := v + 5u",
    "all return": "if x0 < 100u { return }\n v := 3u",
    "uniform loop": "for k in 0u .. 5u { v := v * 3u + k }",
    "uniform loop with a step": "for k in 3u .. 17u step 4u { v := v * 3u + k }",
    "loop without rounds": "for k in 5u .. 5u { v := 99u }",
    "step 0": "for k in 0u .. 5u step (x0 * 0u) { v := 99u }",
    "lane bounds": "for k in 0u .. x0 { v := v * 3u + k }",
    "lane start": "for k in lid.x .. 6u { v := v * 3u + k }",
    "lane step": "for k in 1u .. 30u step (x0 % 4u) { v := v * 3u + k }",
    "workgroup bounds": "for k in 0u .. wid.x { v := v * 3u + k }",
    "end of the range": "for k in 0xFFFFFFF0u .. 0xFFFFFFFFu step 7u { v := v + k }",
    "lane end of the range": "for k in 0xFFFFFFF0u + x0 .. 0xFFFFFFFFu step (x0 + 1u) { v := v + k }",
    "huge step": "for k in x0 .. 0xFFFFFFFFu step 0xF0000000u { v := v + k }",
    "break for all": "for k in 0u .. 9u { if k == 4u { break }\n v := v + k }",
    "break for some": "for k in 0u .. 9u { if k == x0 { break }\n v := v + k }",
    "break at once": "for k in 0u .. 9u { break }",
    "break in a nest": "for k in 0u .. 9u { if lid.x < 5u { if k == x0 { break }\n v := v + 1u } v := v + k }",
    "continue for some": "for k in 0u .. 9u { if k % 3u == x0 % 3u { continue }\n v := v * 2u + k }",
    "continue for all": "for k in 0u .. 9u { if k % 2u == 0u { continue }\n v := v * 2u + k }",
    "continue and break": "for k in 0u .. 9u { if k == x0 { continue }\n if k > x0 + 2u { break }\n v := v * 2u + k }",
    "break of the inner loop": "for k in 0u .. 4u { for j in 0u .. 5u { if j == x0 { break }\n v := v + 1u } }",
    "loop in a branch": "if x0 > 3u { for k in 0u .. x0 { v := v + k } } else { for k in 0u .. 2u { v := v * 5u } }",
    "return in a loop": "for k in 0u .. 9u { if k == x0 { y[gid.x] = k\n return }\n v := v + k }",
    "return in an inner loop": "for k in 0u .. 3u { for j in 0u .. 5u { if k * j == x0 { return }\n v := v + 1u } }",
    "two variables swapped": "let w = x0\n for k in 0u .. 5u { let t = v\n v := w\n w := t + k }",
    "while with data": "for k in 0u .. 0xFFFFFFFFu { if v > 500u { break }\n v := v * (x0 + 2u) }",
    "bounds read once": "let n = x0\n for k in 0u .. n { n := 0u\n v := v + k }\n v := v + n",
    "counter outlives nothing": "for k in 0u .. 3u { v := v + k }\n for k in 0u .. x0 { v := v * 2u + k }",
    "masked variable of a loop": "let w = 0u\n for k in 0u .. 6u { if k < x0 { w := k } v := v + w }",
}


@pytest.mark.parametrize("body", _BODIES.values(), ids=_BODIES.keys())
def test_flow(body: str) -> None:
    agreed(_kernel(body), _INPUT, grid=(LANES // 8, 1, 1))


@pytest.mark.parametrize(
    "condition",
    ["lid.x != 3u", "lid.x == 3u", "lid.x < 2u or lid.x > 5u", "lid.x >= 2u and lid.x < 5u", "x0 % 3u == 1u"],
)
def test_lanes_of_a_workgroup_stay_in_phase(condition: str) -> None:
    """Lanes read what lanes on the other side of a gap have written in the statement before."""
    text = f"""
        program phases
        workgroup_size 8, 1, 1
        buffer x @0 read u32[runtime]
        buffer a @1 read_write u32[{LANES}]
        buffer y @2 read_write u32[{LANES}] output
        body {{
          let x0 = x[gid.x]
          if {condition} {{
            a[gid.x - 2u] = gid.x + 100u
            y[gid.x] = a[gid.x]
          }} else {{
            a[gid.x - 3u] = gid.x + 200u
            y[gid.x] = a[gid.x]
          }}
        }}
    """
    agreed(text, _INPUT | {"a": ramp(LANES)}, grid=(LANES // 8, 1, 1), chunks=CANONICAL)


@pytest.mark.parametrize("condition", ["wid.x == 3u or wid.x == 1u", "wid.x != 2u", "gid.x < 13u or gid.x > 30u"])
def test_workgroups_of_an_order_sensitive_program_stay_in_order(condition: str) -> None:
    text = f"""
        program order
        workgroup_size 8, 1, 1
        buffer next @0 read_write u32[1] output
        buffer y @1 read_write u32[{LANES}] output
        body {{
          if {condition} {{
            let ticket = atomic_add(next, 0u, 1u)
            y[gid.x] = ticket + 1u
          }}
        }}
    """
    agreed(text, {}, grid=(LANES // 8, 1, 1), chunks=(1, None))


@pytest.mark.parametrize("grid", [(1, 9, 1), (1, 1, 9), (2, 9, 1), (2, 3, 4), (3, 1, 5)])
def test_chunks_run_along_the_longest_axis(grid: tuple[int, int, int]) -> None:
    text = """
        program axes
        workgroup_size 3, 2, 1
        buffer x @0 read u32[runtime]
        buffer y @1 read_write u32[WORDS] output
        buffer n @2 read_write u32[4] output
        body {
          let i = (gid.z * num_groups.y * 2u + gid.y) * num_groups.x * 3u + gid.x
          let count = atomic_add(n, wid.y % 4u, gid.z + 1u)
          if gid.x < 5u and gid.y < 17u and gid.z < 8u {
            y[i] = x[i] + wid.x * 7u + wid.y * 11u + wid.z * 13u + lid.y
          } else {
            y[i] = 5u
          }
        }
    """
    lanes = 6 * grid[0] * grid[1] * grid[2]
    agreed(text.replace("WORDS", str(lanes)), {"x": ramp(lanes)}, grid=grid)


def test_collatz() -> None:
    """A while loop whose trip count depends on data, checked against plain Python."""
    with ProgramBuilder("collatz", workgroup=16) as p:
        n = p.input("n", u32)
        steps = p.output("steps", u32, like=n)
        i = p.global_id()
        with p.if_(i < n.length):
            v = p.var(n[i])
            count = p.var(u32(0))
            with p.while_(v > 1):
                with p.if_(v % 2 == 0):
                    v.assign(v // 2)
                with p.else_():
                    v.assign(v * 3 + 1)
                count += 1
            steps[i] = count

    def by_hand(value: int) -> int:
        rounds = 0
        while value > 1:
            value, rounds = value // 2 if value % 2 == 0 else value * 3 + 1, rounds + 1
        return rounds

    inputs = np.arange(100, dtype=np.uint32)
    found = agreed(p.build(), {"n": inputs})["steps"]
    assert found.tolist() == [by_hand(value) for value in inputs.tolist()]


@pytest.mark.parametrize(
    "body",
    [
        'if x0 > 7u { trap(gid.x + 100u, "late") }',
        'if gid.x > 5u { if x0 < 8u { trap(x0, "inner") } }\n v := 3u',
        'for k in 0u .. 9u { if k > x0 { trap(k, "loop") } }',
        'if gid.x == 39u { trap(1u, "last") }',
        'trap(gid.x, "all")',
    ],
)
def test_traps_name_the_lowest_lane(body: str) -> None:
    assert agreed_failure(_kernel(body), _INPUT, grid=(LANES // 8, 1, 1)).kind is TrapError


def test_traps_are_ordered_by_global_id_not_by_workgroup() -> None:
    text = """
        program rows
        workgroup_size 2, 2, 1
        buffer y @0 read_write u32[64] output
        body {
          if gid.y == 1u or gid.x == 3u { trap(gid.x + gid.y * 10u, "row") }
        }
    """
    assert agreed_failure(text, {}, grid=(2, 2, 1)).facts == ("row", 3, (3, 0, 0))


@pytest.mark.parametrize("budget", [0, 1, 4, 5, 7, 10])
@pytest.mark.parametrize(
    "body",
    [
        "for k in 0u .. 6u { v := v + k }",
        "for k in 0u .. x0 { v := v + k }",
        "for k in 0u .. 2u { for j in 0u .. x0 { v := v + k } }",
        "for k in 0u .. 0xFFFFFFFFu { if k == x0 + 2u { break } v := v + 1u }",
        "for k in 0u .. 6u { if k == x0 { continue }\n v := v + k }",
        "if x0 > 5u { for k in 0u .. 0xFFFFFFFFu { v := v + k } }",
    ],
)
def test_step_budgets(body: str, budget: int) -> None:
    kernel = _kernel(body)
    taken = _most_back_edges(body)
    if taken <= budget:
        agreed(kernel, _INPUT, grid=(LANES // 8, 1, 1), step_budget=budget)
    else:
        failure = agreed_failure(kernel, _INPUT, grid=(LANES // 8, 1, 1), step_budget=budget)
        assert failure.kind is StepBudgetExceeded


def _most_back_edges(body: str) -> float:
    """The most back-edges any lane takes; the largest ``x0`` is 10."""
    return {
        "for k in 0u .. 6u { v := v + k }": 5,
        "for k in 0u .. x0 { v := v + k }": 9,
        "for k in 0u .. 2u { for j in 0u .. x0 { v := v + k } }": 19,
        "for k in 0u .. 0xFFFFFFFFu { if k == x0 + 2u { break } v := v + 1u }": 12,
        "for k in 0u .. 6u { if k == x0 { continue }\n v := v + k }": 5,
    }.get(body, float("inf"))


def _buffers() -> tuple[Buffer, ...]:
    return (
        Buffer.make("x", 0, Access.READ_ONLY, u32),
        Buffer.make("y", 1, Access.READ_WRITE, u32, 8, is_output=True),
    )


def _lit(value: int) -> Literal:
    return Literal.of(u32, value)


_GID = LaunchId(IdKind.GLOBAL, 0)
_DATA = Load("x", _GID)


def _less(value: int) -> Binary:
    return Binary(BinaryOp.LT, _DATA, _lit(value))


@pytest.mark.parametrize("shape", ["data branches", "position branches", "uniform loops", "data loops", "mixture"])
def test_the_deepest_nesting(shape: str) -> None:
    """64 bodies around a statement; Python itself allows 20 loops and 100 indents."""
    body: tuple[Stmt, ...] = (Assign("v", Binary(BinaryOp.ADD, Var("v"), _lit(1))),)
    for level in range(MAX_STATEMENT_DEPTH):
        data_loop = Loop(f"k{level}", _lit(0), Binary(BinaryOp.MIN, _DATA, _lit(1)), _lit(1), body)
        uniform_loop = Loop(f"k{level}", _lit(0), _lit(1), _lit(1), body)
        data_branch = If(_less(200 - level), body, (Assign("v", _lit(level)),))
        position_branch = If(Binary(BinaryOp.LT, _GID, _lit(80 - level)), body)
        choices: dict[str, Stmt] = {
            "data branches": data_branch,
            "position branches": position_branch,
            "uniform loops": uniform_loop,
            "data loops": data_loop,
            "mixture": (data_branch, uniform_loop, position_branch, data_loop, Block(body))[level % 5],
        }
        body = (choices[shape],)
    program = Program(_buffers(), (4, 1, 1), (Let("v", _lit(0)), *body, Store("y", _GID, Var("v"))))
    agreed(program, {"x": words(5, 150, 180, 300, 0, 7, 8, 199)})


def test_the_deepest_expression() -> None:
    expr = Binary(BinaryOp.ADD, _DATA, _GID)
    for level in range(MAX_EXPRESSION_DEPTH - 3):
        op = (BinaryOp.ADD, BinaryOp.BIT_XOR, BinaryOp.MUL, BinaryOp.SUB)[level % 4]
        expr = Binary(op, expr, _lit(level | 1)) if level % 2 else Binary(op, _lit(level | 1), expr)
    program = Program(_buffers(), (4, 1, 1), (Store("y", _GID, expr),))
    agreed(program, {"x": ramp(8)})


def test_shared_expressions() -> None:
    """Twelve shared sums have 2^12 paths, all of which the oracle goes."""
    expr = Binary(BinaryOp.ADD, _DATA, _lit(1))
    for _ in range(12):
        expr = Binary(BinaryOp.ADD, expr, expr)
    program = Program(_buffers(), (4, 1, 1), (Store("y", _GID, expr),))
    found = agreed(program, {"x": words(*range(8))}, chunks=(1, None))["y"]
    assert found.tolist() == [(k + 1) << 12 for k in range(8)]


def test_exits_inside_every_kind_of_body() -> None:
    leave: tuple[Stmt, ...] = (If(_less(5), (Break(),)), If(_less(150), (Continue(),)))
    inner = (*leave, Assign("v", Binary(BinaryOp.ADD, Var("v"), Var("k"))))
    loop = Loop("k", _lit(0), _lit(4), _lit(1), (Block(inner), Assign("v", Binary(BinaryOp.MUL, Var("v"), _lit(3)))))
    program = Program(_buffers(), (4, 1, 1), (Let("v", _lit(1)), loop, Store("y", _GID, Var("v"))))
    agreed(program, {"x": words(5, 150, 4, 300, 0, 7, 151, 199)}, chunks=ANY_CHUNK)
