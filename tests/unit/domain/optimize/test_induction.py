"""Products of loop variables that become sums, and products that stay."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from support.pass_texts import after, is_kept, normal, program_of
from vyre.domain.optimize.induction import INDUCTION
from vyre.domain.optimize.pass_list import DEFAULT_ORDER, PASSES

REWRITES = {
    "a product": (
        "for i in 1u .. 5u { out[i] = i * 3u }",
        "let induction = 3u for i in 1u .. 5u { let product = induction induction := induction + 3u out[i] = product }",
    ),
    "a product from the left": (
        "for i in 1u .. 5u { out[i] = n * i }",
        "let induction = 1u * n let change = 1u * n for i in 1u .. 5u { "
        "let product = induction induction := induction + change out[i] = product }",
    ),
    "with what is added to it": (
        "for i in 1u .. 5u { out[i] = i * 3u + n }",
        "let induction = 3u + n for i in 1u .. 5u { "
        "let product = induction induction := induction + 3u out[i] = product }",
    ),
    "subtracted from something": (
        "for i in 1u .. 5u { out[i] = 7u - i * 5u }",
        "let induction = 7u - 5u for i in 1u .. 5u { "
        "let product = induction induction := induction - 5u out[i] = product }",
    ),
    "without what only one of its uses adds": (
        "for i in 1u .. 5u { out[i] = i * 3u + n data[i] = i * 3u }",
        "let induction = 3u for i in 1u .. 5u { let product = induction induction := induction + 3u "
        "out[i] = product + n data[i] = product }",
    ),
    "a variable that counts down": (
        "for i in 4i .. -4i step -2i { out[cast<u32>(i) % 16u] = cast<u32>(i * 1234567890i) }",
        "let induction = 643304264i for i in 4i .. -4i step -2i { let product = induction "
        "induction := induction + 1825831516i out[cast<u32>(i) % 16u] = cast<u32>(product) }",
    ),
    "a start that is computed once": (
        "let s = n % 3u for i in gid.x % 2u .. n % 9u step s { out[i] = i * 5u }",
        "let s = n % 3u let first = gid.x % 2u let induction = first * 5u let change = s * 5u "
        "for i in first .. n % 9u step s { let product = induction induction := induction + change out[i] = product }",
    ),
    "rounds that end early": (
        "for i in 1u .. 9u { out[i] = i * 3u if i > n % 5u { continue } data[i] = i * 3u if i > n % 7u { break } }",
        "let induction = 3u for i in 1u .. 9u { let product = induction induction := induction + 3u out[i] = product "
        "if i > n % 5u { continue } data[i] = product if i > n % 7u { break } }",
    ),
    "of both loops": (
        "for i in 1u .. 3u { for j in 1u .. 3u { data[j] = i * 5u ^ j * 3u } out[i] = i * 5u }",
        "let induction = 5u for i in 1u .. 3u { let product = induction induction := induction + 5u "
        "let induction_1 = 3u for j in 1u .. 3u { let product_1 = induction_1 induction_1 := induction_1 + 3u "
        "data[j] = product ^ product_1 } out[i] = product }",
    ),
}
KEPT = {
    "a power of two": "for i in 0u .. 4u { out[i] = i * 8u }",
    "an index": "for i in 0u .. 4u { out[i * 3u] = n }",
    "the index of a load": "for i in 0u .. 4u { out[i] = input[i * 3u] }",
    "an index through a local": "for i in 0u .. 4u { let at = i * 3u + 1u out[at] = n }",
    "what is written like an index": "for i in 0u .. 4u { out[i * 3u] = i * 3u }",
    "a start of another loop that counts an index": "for i in 0u .. 4u { for j in i * 3u .. 12u { out[j] = n } }",
    "a factor that changes": "let x = n for i in 0u .. 4u { x := x + 1u out[i] = i * x }",
    "a factor of the round": "for i in 0u .. 4u { let x = input[i] out[i] = i * x }",
    "the square of the variable": "for i in 0u .. 4u { out[i] = i * i }",
    "what few rounds compute": "for i in 0u .. 4u { if i > n % 3u { out[i] = i * 3u } }",
    "one round": "for i in 3u .. 4u { out[i] = i * 3u }",
    "no loop": "let i = gid.x out[i] = i * 3u",
}


@pytest.mark.parametrize("name", REWRITES)
def test_is_rewritten(name: str) -> None:
    before, expected = REWRITES[name]
    assert after(before, INDUCTION) == normal(expected)


@pytest.mark.parametrize("name", KEPT)
def test_is_kept(name: str) -> None:
    assert is_kept(KEPT[name], [INDUCTION])


def test_a_loop_gets_four_locals_at_most() -> None:
    body = " ".join(f"data[i + {k}u] = i * {3 + 2 * k}u" for k in range(6))
    counts: Counter[str] = Counter()
    INDUCTION.run(program_of(f"for i in 0u .. 4u {{ {body} }}"), counts)
    assert counts == {"variables": 4, "products": 4}


def _random_loops(seed: int) -> str:
    """Returns a body with one loop in another, whose variables are multiplied by what does and does not change."""
    chance = random.Random(seed)
    suffix = chance.choice(["u", "i", "u64", "i64"])
    dtype = {"u": "u32", "i": "i32"}.get(suffix, suffix)
    is_signed = dtype[0] == "i"

    def number(low: int, high: int) -> str:
        return f"{chance.randint(low, high)}{suffix}"

    def leaf(*names: str) -> str:
        return chance.choice([*names, number(0, 1 << 30), number(1, 7)])

    def value(*names: str) -> str:
        product = [chance.choice(names), leaf("m", "s", "changing")]
        chance.shuffle(product)
        text = " * ".join(product)
        added = leaf("m", *names)
        return chance.choice([text, f"({text} + {added})", f"({added} - {text})", f"({text} - {added})"])

    def bounds() -> str:
        step = chance.choice([number(1, 3), "s", number(-3, -1) if is_signed else number(1, 9)])
        down = step.startswith("-")
        start, stop = (number(3, 9), number(-4, 2)) if down else (number(0, 4), number(3, 12))
        return f"{chance.choice([start, f'm % {number(2, 3)}'])} .. {stop} step {step}"

    end = chance.choice(["", "if a > m {\ncontinue\n}", "if a > m {\nbreak\n}"])
    return "\n".join(
        (
            f"let m = cast<{dtype}>(input[gid.x])\nlet s = m % {number(2, 4)} + {number(1, 1)}\nlet changing = m",
            f"let a = m\nfor i in {bounds()} {{\na := a ^ {value('i')}\nchanging := changing + {value('i')}",
            f"for j in {bounds()} {{\na := a + ({value('i', 'j')} ^ {value('j')})\n{end}",
            f"a := a ^ {value('j', 'i')}\n}}",
            f"a := a ^ {value('i')}\n}}\nout[gid.x] = cast<u32>(a)",
        )
    )


@pytest.mark.parametrize("part", range(4))
def test_random_loops_keep_their_bytes(part: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(50 * part, 50 * (part + 1)):
        body = _random_loops(seed)
        INDUCTION.run(program_of(body), counts)
        after(body, INDUCTION)
        after(body, *[PASSES[name] for name in (*DEFAULT_ORDER, "induction", *DEFAULT_ORDER)])
    assert counts["variables"] > 50 and counts["products"] > 100
