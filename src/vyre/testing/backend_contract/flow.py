"""Cases of statements: locals, scopes, branches, loops and early ends of lanes; and of traps: which lane is named, and
what state remains.
"""

from __future__ import annotations

from functools import reduce
from operator import xor
from typing import Final

from vyre.domain.errors import TrapError
from vyre.domain.ir.types import ScalarType, i32, i64, u32, u64
from vyre.testing.backend_contract.bench import Bench, equal, mapped, words
from vyre.testing.backend_contract.case import Group
from vyre.testing.backend_contract.elements import stored
from vyre.testing.backend_contract.programs import add_programs

FLOW: Final = Group("flow")
add_programs(FLOW)


_LOOP_TYPES: Final[dict[str, ScalarType]] = {dtype.text: dtype for dtype in (u32, i32, u64, i64)}
_ROUNDS: Final = 6


def _bounds(dtype: ScalarType) -> tuple[tuple[int, int, int], ...]:
    """Start, stop and step of loops: ordinary ones, steps of zero, and those that would leave the type."""
    least, greatest = (
        (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)
    )
    rows = [
        (0, 5, 1),
        (2, 9, 3),
        (9, 2, 3),
        (4, 4, 1),
        (0, 5, 0),
        (greatest - 4, greatest, 3),
        (greatest - 1, greatest, greatest),
        (least, greatest, greatest // 2),
        (least, least + 2, 1),
        (greatest, greatest, 1),
    ]
    if dtype.is_signed:
        rows += [
            (5, 0, -1),
            (9, -4, -5),
            (0, 5, -1),
            (-3, 3, 2),
            (5, 1, 0),
            (least + 4, least, -3),
            (greatest, least, least),
            (greatest, least, -greatest),
            (least, greatest, greatest),
            (-1, least, least // 2),
            (least, least, -1),
        ]
    return tuple(rows)


def _rounds(start: int, stop: int, step: int) -> list[int]:
    values: list[int] = []
    while len(values) < _ROUNDS and ((step > 0 and start < stop) or (step < 0 and start > stop)):
        values.append(start)
        start += step
    return values


@FLOW.table(_LOOP_TYPES)
def loops_of_every_integer_type(bench: Bench, dtype: ScalarType) -> None:
    """The variable has the type of the bounds; a negative step counts down, and no value wraps."""
    kernel = f"""
    workgroup_size 8, 1, 1
    buffer from @0 read {dtype.text}[runtime]
    buffer to @1 read {dtype.text}[runtime]
    buffer by @2 read {dtype.text}[runtime]
    buffer y @3 write {dtype.text}[{_ROUNDS * 32}]
    buffer n @4 write u32[32]
    body {{
      let i = gid.x
      let count = 0u
      for k in from[i]..to[i] step by[i] {{
        if count == {_ROUNDS}u {{ break }}
        y[i * {_ROUNDS}u + count] = k
        count := count + 1u
      }}
      n[i] = count
    }}
    """
    rows = _bounds(dtype)
    taken = [_rounds(*row) for row in rows] + [[]] * (32 - len(rows))
    variables = [v for values in taken for v in (*values, *[0] * (_ROUNDS - len(values)))]
    inputs = [stored(dtype, tuple(row[k] for row in rows)) for k in range(3)]
    outputs = bench.run(kernel, *inputs, grid=(4, 1, 1))
    equal(outputs, (stored(dtype, tuple(variables)), words(*map(len, taken))))


@FLOW.case()
def a_switch_of_256_arms(bench: Bench) -> None:
    """A switch may have many arms."""
    arms = " ".join(f"case {k * 3}u {{ y[i] = {k + 1}u }}" for k in range(256))
    x = (0, 3, 4, 300, 765, 766, 768, 0xFFFF_FFFF)
    wanted = [1, 2, 1000, 101, 256, 1000, 1000, 1000]
    kernel = mapped(f"switch x[i] {{ {arms} else {{ y[i] = 1000u }} }}")
    equal(bench.words(kernel, words(*x)), wanted)


@FLOW.table({"20": 20, "256": 256})
def long_chains(bench: Bench, links: int) -> None:
    """A chain of ``else if`` may be long: its links are not nested."""
    chain = " else ".join(f"if x[i] < {3 * k + 3}u {{ y[i] = {k + 1}u }}" for k in range(links))
    x = (0, 2, 3, 3 * links - 1, 3 * links, 31)
    wanted = [v // 3 + 1 if v < 3 * links else 7 for v in x]
    equal(bench.words(mapped(f"{chain} else {{ y[i] = 7u }}"), words(*x)), wanted)


@FLOW.table({"4": 4, "16": 16, "40": 40, "60": 60})
def deep_nesting(bench: Bench, depth: int) -> None:
    """Bodies may be deeply nested."""
    body = "y[i] = y[i] + 1u"
    for level in range(depth):
        body = f"if x[i] > {level}u {{ {body} }} else {{ y[i] = y[i] + 2u }}"
    x = (0, 1, depth, depth + 1)
    equal(bench.words(mapped(body), words(*x)), [2 if v < depth else 1 for v in x])


@FLOW.table({"16": 16, "100": 100, "120": 120})
def deep_expressions(bench: Bench, depth: int) -> None:
    """Expressions may be deeply nested, to the left and to the right."""
    left = right = "x[i]"
    for level in range(depth):
        left, right = f"({left} + {level}u)", f"({level}u + {right})"
    total = sum(range(depth))
    equal(bench.words(mapped(f"y[i] = {left} * 2u"), words(0, 5)), [2 * total, 2 * total + 10])
    equal(bench.words(mapped(f"y[i] = {right} * 3u"), words(0, 5)), [3 * total, 3 * total + 15])


@FLOW.case()
def many_statements(bench: Bench) -> None:
    """A program may be long, with many live locals at once."""
    count = 150
    body = " ".join(f"let v{k} = x[i] * {k + 1}u" for k in range(count))
    total = " ^ ".join(f"v{k}" for k in range(120))
    wanted = [reduce(xor, [value * (k + 1) for k in range(120)]) for value in (1, 9)]
    equal(bench.words(mapped(f"{body} y[i] = {total}"), words(1, 9)), wanted)


@FLOW.case()
def equal_stores_of_many_lanes_are_one(bench: Bench) -> None:
    """Lanes may store equal bits to one element."""
    kernel = """
    workgroup_size 64, 1, 1
    buffer x @0 read u32[runtime]
    buffer y @1 write u32[2]
    body { if x[gid.x] == 7u { y[1u] = 1u } }
    """
    equal(bench.words(kernel, words(*[7 if k % 50 == 3 else 0 for k in range(1000)]), grid=(16, 1, 1)), [0, 1])


@FLOW.table({"1": 1, "63": 63, "64": 64, "65": 65, "1000": 1000})
def every_lane_runs_once(bench: Bench, count: int) -> None:
    """A grid whose extent is not a multiple of the workgroup covers its elements exactly."""
    kernel = mapped("y[i] = y[i] + x[i] + 1u", lanes=64)
    equal(bench.words(kernel, words(*range(count))), list(range(1, count + 1)))


TRAPS: Final = Group("traps", "supports_trap_propagation")
add_programs(TRAPS)


_CHECKED: Final = """
    workgroup_size 4, 1, 1
    buffer x @0 read_write u32[runtime]
    body {
      if gid.x < len(x) {
        if x[gid.x] == 0u { trap(gid.x, "zero") }
        x[gid.x] = 100u / x[gid.x]
      }
    }
    """


@TRAPS.case()
def a_dispatch_after_a_trap_is_clean(bench: Bench) -> None:
    """A trap leaves no state: the same program runs on other data, and traps again."""
    for _ in range(3):
        error = bench.refuses(TrapError, _CHECKED, words(1, 0, 4, 0))
        equal((error.address, error.global_id), (1, (1, 0, 0)), "what trapped")
        equal(bench.words(_CHECKED, words(2, 4)), [50, 25])
