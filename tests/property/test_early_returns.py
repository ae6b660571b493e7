"""Functions that return early, from any depth of branches and loops, give what Python gives."""

from __future__ import annotations

import linecache
import random
from typing import Any

import numpy as np
import pytest

import vyre

CHAINED = "    if v == 4:\n        return 1\n    elif v == 5:\n        return 5\n    elif v == 6:\n        return 6\n"
NESTED = "    if v == 4:\n        return 1\n    else:\n        if v == 5:\n            return 5\n        r = r + 3\n"
MIRRORED = "    if v > 4:\n        if v == 5:\n            return 5\n    else:\n        return 9\n"


def body_of(chance: random.Random, depth: int, indent: int, *, is_loop: bool = False) -> str:
    """Random statements, some of which return."""
    pad, found = "    " * indent, ""
    for _ in range(chance.randint(1, 3)):
        pick, test = chance.random(), f"v {chance.choice(['==', '>', '<'])} {chance.randrange(6)}"
        inner = body_of(chance, depth - 1, indent + 1, is_loop=is_loop) if depth else ""
        if pick < 0.45 and depth:
            found += f"{pad}if {test}:\n{inner}"
            while chance.random() < 0.35:
                other = body_of(chance, depth - 1, indent + 1, is_loop=is_loop)
                found += f"{pad}elif v == {chance.randrange(6)}:\n{other}"
            if chance.random() < 0.4:
                found += f"{pad}else:\n{body_of(chance, depth - 1, indent + 1, is_loop=is_loop)}"
        elif pick < 0.6 and depth and not is_loop:
            inner = body_of(chance, depth - 1, indent + 1, is_loop=True)
            found += f"{pad}for j in range(3):\n{pad}    r = r * 3 + j\n{inner}"
        elif pick < 0.8:
            return f"{found}{pad}return r + {chance.randrange(100)}\n"
        elif pick < 0.85 and is_loop:
            return f"{found}{pad}{chance.choice(['break', 'continue'])}\n"
        else:
            found += f"{pad}r = r * 2 + {chance.randrange(10)}\n"
    return found


def assert_agrees(body: str) -> None:
    """Asserts that a function with these statements gives the same in a kernel as in Python."""
    text = (
        "import vyre\nfrom vyre import In, Out, u32, like\n@vyre.function\ndef f(v, r):\n    r = r + 1\n"
        f"{body}    return 7 + r\n@vyre.kernel\ndef k(x: In[u32], y: Out[u32, like('x')]):\n"
        "    i = vyre.global_id()\n    y[i] = f(x[i], x[i] * 0)\n"
    )
    name, x = f"<early {len(linecache.cache)}>", np.arange(8, dtype=np.uint32)
    names: dict[str, Any] = {}
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)
    assert names["k"](x).tolist() == [names["f"](int(v), 0) for v in x], text


@pytest.mark.parametrize("body", [CHAINED, NESTED, MIRRORED], ids=["chained", "nested", "mirrored"])
def test_what_follows_a_branch_is_skipped_where_the_other_branch_returned(body: str) -> None:
    with vyre.open("reference", cache=False):
        assert_agrees(body)


def test_random_early_returns_give_what_python_gives() -> None:
    with vyre.open("reference", cache=False):
        for seed in range(100):
            assert_agrees(body_of(random.Random(seed), 3, 1))
