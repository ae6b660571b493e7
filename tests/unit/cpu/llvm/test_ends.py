"""Traps, budgets and early ends in divergent flow, long chains and deep nests, as machine code."""

from __future__ import annotations

import pytest

from support.cpu.agreement import case, disagreements
from support.cpu.kernels import Variant
from support.programs import Case
from vyre.adapters.cpu.llvm.emit import emit
from vyre.adapters.cpu.llvm.options import EmitOptions
from vyre.domain.errors import MalformedText
from vyre.domain.ir.limits import MAX_STATEMENT_DEPTH

SIZE = 19
HEAD = f"""
workgroup_size {SIZE}, 1, 1
buffer x @0 read u32[{2 * SIZE}]
buffer y @1 read_write u32[{2 * SIZE}]
buffer c @2 uniform u32[2]
body {{
  let i = gid.x
"""
TRAPS = {
    "in a branch": 'if x[i] > 20u { trap(x[i], "a") }\ny[i] = 1u',
    "two in an order": 'if x[i] == 21u { trap(1u, "late") }\nif x[i] > 17u { trap(2u, "early") }\ny[i] = 1u',
    "in a loop": 'for k in 0u .. x[i] { if k * 5u + i == 60u { trap(k, "loop") }\ny[i] = y[i] + k }',
    "in an inner loop": """
  for k in 0u .. 4u {
    for j in 0u .. x[i] {
      if j + k == 20u { trap(j * 100u + k, "inner") }
      if j > 21u { return }
    }
    y[i] = k
  }""",
    "in every lane": 'trap(i + 7u, "all")',
    "in a uniform branch": 'if c[1u] == 3u { trap(i, "uniform") }\ny[i] = 1u',
    "in a uniform branch of one workgroup": 'if wid.x == c[0u] { trap(i, "second") }\ny[i] = 1u',
    "not reached": 'if x[i] > 20u { return }\nif x[i] > 20u { trap(i, "never") }\ny[i] = 1u',
    "after a return": 'if x[i] == 21u { return }\nif x[i] > 17u { trap(x[i], "other") }\ny[i] = 1u',
    "in a switch": 'switch x[i] { case 21u { trap(1u, "arm") }\ncase 18u, 2u { trap(2u, "two") }\nelse { y[i] = 5u } }',
    "in an else-if": 'if x[i] < 9u { y[i] = 1u } else if x[i] > 18u { trap(i, "link") } else { y[i] = 2u }',
    "after barriers": 'barrier(seq_cst)\ny[i] = 1u\nbarrier(seq_cst)\nif x[i] > 20u { trap(x[i], "a") }',
    "with a budget used": 'for k in 0u .. x[i] { y[i] = k }\nif x[i] == 21u { trap(i, "later") }',
}
NUMBERS = [(7 * n * n + 3 * n) % 23 for n in range(2 * SIZE)]


def _case(body: str, **config: int) -> Case:
    return case(f"{HEAD}{body}\n}}", {"x": NUMBERS, "c": [1, 3]}, grid=2, **config)


def test_traps() -> None:
    assert disagreements({name: _case(body) for name, body in TRAPS.items()}) == []


@pytest.mark.parametrize("budget", [0, 3, 15, 40])
def test_traps_with_budgets(budget: int) -> None:
    cases = {name: _case(body, step_budget=budget) for name, body in TRAPS.items()}
    assert disagreements(cases, [Variant(lanes, counting=True) for lanes in (1, 4, 16)]) == []


def test_chains_of_many_links() -> None:
    links = " else ".join(f"if x[i] == {n}u {{ y[i] = {n * 7 + 1}u }}" for n in range(120))
    uniform = " else ".join(f"if c[1u] == {n}u {{ y[i] = {n * 7 + 1}u }}" for n in range(120))
    last = " else ".join(f"if x[i] == {n}u {{ y[i] = {n}u }}" for n in range(23, 143))
    cases = {"first": f"{links} else {{ y[i] = 5u }}", "uniform": uniform, "none": f"{last} else {{ y[i] = x[i] }}"}
    variants = [Variant(8), Variant(16)]
    assert disagreements({name: _case(body) for name, body in cases.items()}, variants) == []


def _switch(selector: str, arms: int) -> str:
    text = "\n".join(f"case {n}u {{ y[i] = y[i] * 3u + {n * 5 + 2}u }}" for n in range(arms))
    return f"switch {selector} {{ {text}\nelse {{ y[i] = 99u }} }}"


def test_switches_of_many_arms() -> None:
    cases = {
        "lanes": _switch("x[i] * 12u", 256),
        "uniform": _switch("c[1u]", 256),
        "default": _switch("x[i] + 30u", 30),
    }
    cases["in a loop"] = f"for k in 0u .. 4u {{ {_switch('x[i] + k', 24)} }}"
    assert disagreements({name: _case(body) for name, body in cases.items()}, [Variant(8)]) == []


def test_long_chains_and_switches_are_written_in_proportion() -> None:
    def size(body: str) -> int:
        return len(emit(_case(body).program, EmitOptions(lanes=8)).text)

    def chain(count: int) -> str:
        return " else ".join(f"if x[i] == {n}u {{ y[i] = {n * 7 + 1}u }}" for n in range(count))

    assert size(chain(1000)) < 4.2 * size(chain(250))
    assert size(_switch("x[i]", 256)) < 4.2 * size(_switch("x[i]", 64))


def _nest(depth: int, *, divergent: bool) -> str:
    bound = "x[i] % 2u + 1u" if divergent else "1u"
    body = "y[i] = y[i] * 3u + 1u"
    for level in range(depth):
        if level % 2:
            body = f"for k{level} in 0u .. {bound} {{\nif y[i] > 4000000000u {{ break }}\n{body}\n}}"
        else:
            body = f"if x[i] != {level}u {{\n{body}\n}}"
    return body


@pytest.mark.parametrize("divergent", [False, True])
def test_the_deepest_nest(divergent: bool) -> None:
    deepest = _nest(MAX_STATEMENT_DEPTH - 1, divergent=divergent)
    with pytest.raises(MalformedText):
        _case(f"if true {{ if true {{ {deepest} }} }}")
    for counting in (False, True):
        assert emit(_case(deepest).program, EmitOptions(lanes=8, counting=counting)).text
    run = _nest(16, divergent=True) if divergent else deepest
    assert disagreements({"nest": _case(run)}, [Variant(8), Variant(16, counting=True)]) == []
