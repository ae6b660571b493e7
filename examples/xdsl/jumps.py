"""Random functions of blocks that jump to one another, in MLIR's generic form."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

MOST_BLOCKS: Final = 9
BACKWARD: Final = 0.25
"""The share of jumps that may lead anywhere but to the entry; the others lead one or two blocks ahead."""


def random_function(draw: Random) -> str:
    """Returns a module with a function of an i32 and 4 elements of memory, which returns an i32.

    Every block has an argument, computes from it and from a block that dominates it, may store, and returns or jumps to
    one, two or three blocks.  The graph may be irreducible, a loop endless, and a block out of reach.
    """
    count = draw.randrange(3, MOST_BLOCKS + 1)
    jumps = [_jumps(n, count, draw) for n in range(count)]
    dominators = _dominators(jumps)
    lines = ['"builtin.module"() ({', '  "func.func"() ({']
    for n, targets in enumerate(jumps):
        label = "^bb0(%a0: i32, %memory: memref<4xi32>):" if n == 0 else f"^bb{n}(%a{n}: i32):"
        lines.extend((f"  {label}", *("    " + line for line in _block(n, targets, dominators[n], draw))))
    lines.append('  }) {function_type = (i32, memref<4xi32>) -> i32, sym_name = "jumps"} : () -> ()')
    return "\n".join((*lines, "}) : () -> ()", ""))


def _jumps(n: int, count: int, draw: Random) -> list[int]:
    ways = draw.choice((0, 1, 1, 2, 2, 2, 2, 3)) if n else draw.choice((1, 2, 2))
    if n == count - 1:
        ways = min(ways, draw.randrange(2))
    ahead = [min(count - 1, n + 1 + draw.randrange(2)) for _ in range(ways)]
    return [draw.randrange(1, count) if n == count - 1 or draw.random() < BACKWARD else each for each in ahead]


def _dominators(jumps: list[list[int]]) -> list[set[int]]:
    """Returns for each block those through which every way from the entry to it leads, itself included."""
    count = len(jumps)
    found = [{0}, *(set(range(count)) for _ in range(count - 1))]
    while True:
        before = [set(each) for each in found]
        for n in range(1, count):
            above = [found[m] for m in range(count) if n in jumps[m]]
            found[n] = {n} | (set.intersection(*above) if above else set())
        if found == before:
            return found


def _block(n: int, targets: list[int], dominators: set[int], draw: Random) -> list[str]:
    above = sorted(dominators - {n})
    other = f"%v{draw.choice(above)}" if above else "%a0"

    def given() -> str:
        return draw.choice((f"%v{n}", f"%a{n}", f"%w{draw.choice(sorted(dominators))}"))

    lines = [
        f'%k{n} = "arith.constant"() {{value = {draw.randrange(1, 9)} : i32}} : () -> i32',
        f'%z{n} = "arith.constant"() {{value = {draw.randrange(4)} : i32}} : () -> i32',
        f'%q{n} = "arith.constant"() {{value = {draw.choice((1, 3, 7))} : i32}} : () -> i32',
        f'%i{n} = "arith.constant"() {{value = {draw.randrange(4)} : index}} : () -> index',
        f'%w{n} = "arith.{draw.choice(("addi", "subi", "xori"))}"(%a{n}, {other}) : (i32, i32) -> i32',
        f'%v{n} = "arith.{draw.choice(("addi", "muli"))}"(%w{n}, %k{n}) : (i32, i32) -> i32',
        f'%t{n} = "arith.andi"(%v{n}, %q{n}) : (i32, i32) -> i32',
        f'%c{n} = "arith.cmpi"(%t{n}, %z{n}) {{predicate = {draw.choice((0, 1, 2, 4))} : i64}} : (i32, i32) -> i1',
    ]
    if draw.randrange(2):
        lines.append(f'"memref.store"(%v{n}, %memory, %i{n}) : (i32, memref<4xi32>, index) -> ()')
    return [*lines, _end(n, targets, given)]


def _end(n: int, targets: list[int], given: Callable[[], str]) -> str:
    """Returns the operation that ends a block."""
    blocks = ", ".join(f"^bb{target}" for target in targets)
    values = ", ".join(given() for _ in targets)
    match len(targets):
        case 0:
            return f'"func.return"({given()}) : (i32) -> ()'
        case 1:
            return f'"cf.br"({values})[{blocks}] : (i32) -> ()'
        case 2:
            segments = "operandSegmentSizes = array<i32: 1, 1, 1>"
            return f'"cf.cond_br"(%c{n}, {values})[{blocks}] {{{segments}}} : (i1, i32, i32) -> ()'
        case _:
            cases = "case_values = dense<[0, 1]> : tensor<2xi32>, case_operand_segments = array<i32: 1, 1>"
            segments = "operandSegmentSizes = array<i32: 1, 1, 2>"
            return f'"cf.switch"(%t{n}, {values})[{blocks}] {{{cases}, {segments}}} : (i32, i32, i32, i32) -> ()'
