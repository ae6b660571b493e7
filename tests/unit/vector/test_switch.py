"""Switches and chains of ``else if``: one arm for each lane, in order, and many cost no more than few."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.counting import at_most
from support.reference.agreement import CANONICAL, ENGINE, agreed, agreed_failure, ramp, words
from vyre.adapters.reference.engine import RunOptions
from vyre.domain.dispatch import DispatchConfig
from vyre.domain.errors import TrapError
from vyre.domain.geometry import LaunchLimits
from vyre.domain.interface import resolve_launch
from vyre.domain.ir.expr import Binary, IdKind, LaunchId, Literal, Load, Var
from vyre.domain.ir.operators import BinaryOp
from vyre.domain.ir.program import Access, Buffer, Program
from vyre.domain.ir.stmt import Arm, Assign, Body, If, Let, Store, Switch
from vyre.domain.ir.types import ScalarType, u32

LANES = 64
_SUFFIX = {"u32": "u", "i32": "i", "u64": "u64", "i64": "i64"}
_DTYPES = {"u32": np.uint32, "i32": np.int32, "u64": np.uint64, "i64": np.int64}
_EDGES = {"u32": (0, 2**32 - 1), "i32": (-(2**31), 2**31 - 1), "u64": (0, 2**64 - 1), "i64": (-(2**63), 2**63 - 1)}
_LABELS = {
    "u32": [[0, 7], [2**32 - 1], [3, 2, 9]],
    "i32": [[-1, 7], [-(2**31)], [3, 2, 2**31 - 1]],
    "u64": [[2**64 - 1, 7], [2**63], [3, 2, 2**32 + 7]],
    "i64": [[-1, 7], [-(2**63)], [3, 2, 2**63 - 1, 2**32 + 7]],
}
_NEAR = {dtype: [[5, 6], [10], [8, 7, 3]] for dtype in _LABELS} | {"i32 -": [[-5, 6], [-10], [8, -7, 3]]}


def _kernel(dtype: str, labels: list[list[int]], selector: str, buffers: str = "") -> str:
    arms = "\n".join(
        f"case {', '.join(f'{n}{_SUFFIX[dtype]}' for n in arm)} {{ v := v * 10u + {number}u }}"
        for number, arm in enumerate(labels)
    )
    return f"""
        program chosen
        workgroup_size 8, 1, 1
        buffer x @0 read {dtype}[{LANES}]
        buffer y @1 read_write u32[{LANES}] output
        {buffers}
        body {{
          let v = 1u
          switch {selector} {{
            {arms}
            else {{ v := v * 10u + 9u }}
          }}
          y[gid.x] = v
        }}
    """


def arm_of(labels: list[list[int]], value: int) -> int:
    return next((number for number, arm in enumerate(labels) if value in arm), 9)


@pytest.mark.parametrize("dtype", list(_SUFFIX))
@pytest.mark.parametrize("table", ["far", "near"])
def test_selectors_that_differ_between_lanes(dtype: str, table: str) -> None:
    labels = (_LABELS if table == "far" else _NEAR)[dtype]
    every = [n for arm in labels for n in arm]
    near = {n + d for n in every for d in (-1, 0, 1)}
    values = sorted(n for n in near if _EDGES[dtype][0] <= n <= _EDGES[dtype][1])
    x = np.resize(np.array(values, _DTYPES[dtype]), LANES)
    found = agreed(_kernel(dtype, labels, "x[gid.x]"), {"x": x}, grid=(LANES // 8, 1, 1))["y"]
    assert found.tolist() == [10 + arm_of(labels, int(value)) for value in x]
    assert set(found.tolist()) == {10, 11, 12, 19}


def test_labels_around_zero() -> None:
    labels = _NEAR["i32 -"]
    x = np.resize(np.arange(-12, 12, dtype=np.int32), LANES)
    found = agreed(_kernel("i32", labels, "x[gid.x]"), {"x": x}, grid=(LANES // 8, 1, 1))["y"]
    assert found.tolist() == [10 + arm_of(labels, int(value)) for value in x]


@pytest.mark.parametrize(
    ("selector", "model"),
    [
        ("gid.x", lambda g: g),
        ("wid.x", lambda g: g // 8),
        ("gid.x * 2u + 1u", lambda g: 2 * g + 1),
        ("5u - wid.x", lambda g: (5 - g // 8) % 2**32),
        ("3u", lambda g: 3),
        ("len(x)", lambda g: LANES),
    ],
)
@pytest.mark.parametrize("dtype", ["u32", "i64"])
def test_selectors_that_need_no_array(selector: str, model: Callable[[int], int], dtype: str) -> None:
    labels = [[0, 7], [63, 5], [3, 2, 9]]
    chosen = selector if dtype == "u32" else f"cast<i64>({selector})"
    found = agreed(_kernel(dtype, labels, chosen), {"x": np.zeros(LANES, _DTYPES[dtype])}, grid=(LANES // 8, 1, 1))
    assert found["y"].tolist() == [10 + arm_of(labels, model(g)) for g in range(LANES)]


_FLOW = """
    program flow
    workgroup_size 8, 1, 1
    buffer x @0 read u32[64]
    buffer y @1 read_write u32[64] output
    body {{
      let v = 1u
      let x0 = x[gid.x] % 7u
      {body}
      y[gid.x] = v
    }}
"""
_BODIES = {
    "loops": "for k in 0u .. 5u { switch x0 + k { case 4u { break } case 5u { continue } else { v := v + k } }"
    "\n v := v * 3u }",
    "return": "switch x0 { case 1u { y[gid.x] = 5u\n return } case 2u { v := 8u } }\n v := v + 1u",
    "all return": "switch x0 % 2u { case 1u { return } else { return } }",
    "nested": "switch x0 { case 1u, 2u { switch x0 { case 2u { v := 3u } else { v := 4u } } v := v * 2u }"
    "case 3u { if lid.x < 4u { v := 6u } } else { v := 7u } }",
    "without a default": "switch x0 { case 1u { v := 2u } case 3u { } }",
    "selector changes": "switch v + x0 { case 1u { v := 2u } case 2u { v := 3u } case 3u { v := 1u } }",
    "chain": "if x0 == 1u { v := 2u } else if x0 < 3u { v := x0 } else if lid.x < 4u { v := 9u } else { v := 10u }",
    "chain without else": "if x0 == 1u { v := 2u } else if x0 < 3u { v := x0 } else if lid.x < 4u { v := 9u }",
    "chain of positions": "if gid.x < 3u { v := 2u } else if gid.x < 30u { v := 3u } else if lid.x == 2u { v := 9u } "
    "else if wid.x == 5u { v := gid.x } else if x0 == 2u { v := 12u } else { v := 10u }",
    "chain with exits": "for k in 0u .. 5u { if x0 == k { break } else if x0 == k + 1u { continue } "
    "else if k == 4u { return } else { v := v + 1u }\n v := v * 2u }",
    "uniform chain": "if len(x) == 3u { v := 2u } else if len(x) == 64u { v := 3u } else if x0 == 1u { v := 9u }",
}


@pytest.mark.parametrize("body", _BODIES.values(), ids=_BODIES.keys())
def test_flow(body: str) -> None:
    agreed(_FLOW.format(body=body), {"x": ramp(64)}, grid=(8, 1, 1))


def test_the_arms_run_in_order() -> None:
    """A later arm reads what an earlier one wrote, and an earlier one does not see what a later one writes."""
    text = """
        program phases
        workgroup_size 4, 1, 1
        buffer a @0 read_write u32[4]
        buffer y @1 read_write u32[4] output
        body {
          switch 3u - lid.x {
            case 2u { y[lid.x] = a[0u]  a[0u] = 2u }
            case 0u { y[lid.x] = a[0u]  a[0u] = 3u }
            case 1u { y[lid.x] = a[0u]  a[0u] = 4u }
            else { y[lid.x] = a[0u] }
          }
        }
    """
    assert agreed(text, {"a": words(1, 0, 0, 0)}, chunks=CANONICAL, grid=(1, 1, 1))["y"].tolist() == [4, 1, 3, 2]


def test_the_selector_is_evaluated_once() -> None:
    text = """
        program once
        workgroup_size 4, 1, 1
        buffer a @0 read_write u32[1]
        buffer y @1 read_write u32[4] output
        body {
          switch atomic_add(a, 0u, 1u) {
            case 0u { y[gid.x] = 10u } case 1u { y[gid.x] = 11u } case 2u { y[gid.x] = 12u } else { y[gid.x] = 13u }
          }
        }
    """
    found = agreed(text, {"a": words(0)}, chunks=CANONICAL, grid=(1, 1, 1))
    assert (found["y"].tolist(), found["a"].tolist()) == ([10, 11, 12, 13], [4])


def test_a_trap_in_an_arm() -> None:
    text = _FLOW.format(body='switch x0 { case 3u { trap(gid.x, "three") } case 4u { return } else { v := 2u } }')
    failure = agreed_failure(text, {"x": ramp(64)}, grid=(8, 1, 1))
    first = int(np.flatnonzero(ramp(64) % 7 == 3)[0])
    assert (failure.kind, failure.facts) == (TrapError, ("three", first, (first, 0, 0)))


def _literal(value: int) -> Literal:
    return Literal(ScalarType.U32, value)


def _program(body: Body) -> Program:
    gid = LaunchId(IdKind.GLOBAL, 0)
    x = Buffer.make("x", 0, Access.READ_ONLY, u32, LANES)
    y = Buffer.make("y", 1, Access.READ_WRITE, u32, LANES, is_output=True)
    return Program(
        (x, y), (8, 1, 1), (Let("v", _literal(0)), Let("s", Load("x", gid)), *body, Store("y", gid, Var("v")))
    )


def _weight(number: int) -> int:
    return number * 2654435761 % 2**32


def long_chain(links: int) -> Program:
    body: Body = (Assign("v", _literal(5)),)
    for number in reversed(range(links)):
        body = (If(Binary(BinaryOp.EQ, Var("s"), _literal(number)), (Assign("v", _literal(_weight(number))),), body),)
    return _program(body)


@pytest.mark.parametrize("links", [2, 256, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_chain_of_any_length(links: int) -> None:
    x = (np.arange(LANES) * links // LANES).astype(np.uint32)
    x[3], x[8:16] = links, links - 1
    found = agreed(long_chain(links), {"x": x}, grid=(LANES // 8, 1, 1), chunks=(1, None))["y"]
    assert found.tolist() == [_weight(value) if value < links else 5 for value in x.tolist()]


@pytest.mark.parametrize("arms", [1, 256, 5000])
def test_a_switch_of_any_length(arms: int) -> None:
    x = (np.arange(LANES) * arms // LANES).astype(np.uint32)
    x[3], x[8:16] = arms, arms - 1
    cases = tuple(Arm((_literal(n),), (Assign("v", _literal(_weight(n))),)) for n in range(arms))
    program = _program((Switch(Var("s"), cases, (Assign("v", _literal(5)),)),))
    found = agreed(program, {"x": x}, grid=(LANES // 8, 1, 1), chunks=(1, 3, None))["y"]
    assert found.tolist() == [_weight(value) if value < arms else 5 for value in x.tolist()]


@pytest.mark.parametrize("agree", [True, False])
def test_arms_that_no_lane_takes_cost_nothing(agree: bool) -> None:
    """With 4096 arms, two of which are taken, a run makes no more calls than some dozens for each."""
    cases = tuple(Arm((_literal(n),), (Assign("v", _literal(n + 1)),)) for n in range(4096))
    program = _program((Switch(Var("s"), cases),))
    x = np.full(LANES, 77, np.uint32)
    if not agree:
        x[::2] = 4000
    launch = resolve_launch(program, (x.nbytes,), DispatchConfig(grid=(8, 1, 1)), LaunchLimits("reference"))
    kernel = ENGINE(program, {})
    memory = {"x": x.view(np.uint8), "y": np.zeros(4 * LANES, np.uint8)}
    with at_most(calls=500):
        kernel.run(memory, launch, RunOptions())
    assert np.array_equal(memory["y"].view(np.uint32), x + 1)
