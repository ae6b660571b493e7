"""Chains of branches whose conditions take statements: their length counts as no depth."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vyre
from support.both_ways import as_python
from vyre import DispatchConfig, Kernel
from vyre.domain.ir.program import program_of
from vyre.domain.ir.stmt import nested
from vyre.testing.races import races

LANES = 16
LENGTHS = (63, 64, 65, 300)
ONE_GROUP = DispatchConfig(grid=(1, 1, 1), workgroup=(LANES, 1, 1))
Y = np.arange(3, LANES + 3, dtype=np.uint32)

HEAD = """
import vyre
from vyre import In, InOut, u32

@vyre.kernel
def k(c: In[u32], y: InOut[u32]) -> None:
    i = vyre.global_id()
"""
BRANCHES = """
    if i % 2 == 0:
        r = 0
        if c[i] == 900 and y[i ^ 1] == 0:
            r = 1
{links}
        else:
            t = c[i] + 5
            r = t * 2
        y[i] = r
"""
LOOP = """
    if i % 2 == 0:
        r = 0
        for n in range(8):
            if c[i] + 2 * n == 900 and y[i ^ 1] == 0:
                r += 1
{links}
            else:
                r += 3
            r = r * 5 + n
        y[i] = r
"""
CHOICE = """
    if i % 2 == 0:
        y[i] = ({links}
            c[i] * 7)
"""
TERMS = """
    if i % 2 == 0:
        r = 0
{links}
        y[i] = r
"""
RETURNS = """
    if i % 2 == 0:
        y[i] = first(c, y, i)

@vyre.function
def first(c: In[u32], y: InOut[u32], i: u32) -> u32:
{links}
    return c[i] + 11
"""
CHAINS = {
    # Lanes with odd ids choose nothing; that of id 12 chooses a link that reads what no lane stores.
    "elif": (
        BRANCHES,
        "        elif c[i] == {n} and y[i ^ {near}] != 0:\n            t = c[i] * {n}\n            r = t + {n}",
    ),
    "conditions that are choices": (
        BRANCHES,
        "        elif (y[i ^ {near}] if c[i] == {n} else 0) != 0:\n            r = {n}",
    ),
    "in a loop": (
        LOOP,
        "            elif c[i] + 2 * n == {n} and y[i ^ {near}] != 0:\n                r += {n}\n"
        "                if r > 4000:\n                    break\n                if r % 3 == 0:\n"
        "                    continue",
    ),
    "choices": (CHOICE, "            {n} if c[i] == {n} and y[i ^ {near}] != 0 else"),
    "choices of loads": (CHOICE, "            y[i ^ {near}] + {n} if c[i] == {n} and y[i ^ {near}] != 0 else"),
    "terms": (TERMS, "        r += ({n} if c[i] == {n} and y[i ^ {near}] != 0 else 1)"),
}
"""The chain of each length, and a link; ``near`` is even for links that lanes of even ids choose."""


@pytest.fixture
def kernel_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Kernel[...]]:
    def make(body: str) -> Kernel[...]:
        head = (
            "import vyre\nfrom vyre import In, InOut, u32\n\n@vyre.kernel\ndef k(c: In[u32], y: InOut[u32]) -> None:\n"
        )
        (tmp_path / "long_chain.py").write_text(f"{head}    i = vyre.global_id()\n{body}")
        kernel: Kernel[...] = importlib.import_module("long_chain").k
        del sys.modules["long_chain"]
        return kernel

    monkeypatch.syspath_prepend(tmp_path)
    return make


def links(link: str, count: int) -> str:
    return "\n".join(link.format(n=n, near=1 + n % 2) for n in range(count))


def depth(kernel: Kernel[...]) -> int:
    deepest, pending = 0, [(program_of(kernel).body, 0)]
    while pending:
        body, around = pending.pop()
        deepest = max(deepest, around if body else 0)
        pending += [inner for stmt in body for inner in nested(stmt, around)]
    return deepest


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_any_length_runs(name: str, count: int, kernel_of: Callable[[str], Kernel[...]]) -> None:
    chain, link = CHAINS[name]
    kernel = kernel_of(chain.format(links=links(link, count)))
    c = np.arange(LANES, dtype=np.uint32) * (count // 10)
    expected = as_python(kernel, c, Y, lanes=LANES)[1]
    assert len(set(expected[::2].tolist())) > (1 if name == "terms" else 3)
    assert not races(kernel.program, {"c": c, "y": Y}, ONE_GROUP).races
    for backend in ("reference", "cpu", "cuda-machine") if count == 65 else ("reference",):
        with vyre.open(backend, cache=False) as session:
            y = session.dispatch(kernel.program, {"c": c, "y": Y}, ONE_GROUP)["y"]
        np.testing.assert_array_equal(y, expected, err_msg=backend)


def test_only_what_is_nested_too_deep_is_made_flat(kernel_of: Callable[[str], Kernel[...]]) -> None:
    chain, link = CHAINS["elif"]
    assert [depth(kernel_of(chain.format(links=links(link, count)))) for count in (10, 61, 62, 300)] == [12, 63, 64, 3]


@pytest.mark.parametrize("count", (20, 63, 64, 65))
def test_returns_of_a_function_nest_where_the_next_ones_use_its_locals(
    count: int, kernel_of: Callable[[str], Kernel[...]]
) -> None:
    """Every tenth condition reads the local before it."""
    each = "    t{n} = c[i] + {n}\n    if t{of} == {n} * 2 and y[i ^ {near}] != 0:\n        return t{of} + {n}"
    lines = [each.format(n=n, of=n - (n % 10 == 5), near=1 + n % 2) for n in range(count)]
    kernel = kernel_of(RETURNS.format(links="\n".join(lines)))
    c = np.arange(LANES, dtype=np.uint32) * (count // 10)
    expected = as_python(kernel, c, Y, lanes=LANES)[1]
    assert len(set(expected[::2].tolist())) > 3
    with vyre.open("reference", cache=False) as session:
        np.testing.assert_array_equal(session.dispatch(kernel.program, {"c": c, "y": Y}, ONE_GROUP)["y"], expected)
