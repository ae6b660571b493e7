"""The language of the runtime's program means what ``words`` says; what it does not have is refused with its line."""

from __future__ import annotations

import importlib.util
from ctypes import CFUNCTYPE, addressof, c_int64
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.cpu.pool import compiled
from support.llvm import NEEDS_LLVM
from vyre.adapters.cpu.pool.translation import translate

HEAD = """\
from __future__ import annotations
from vyre.adapters.cpu.pool.words import *

BIG = False

class Words(Record):
    BYTES = 24
    first: Field[u64] = at(0)
    half: Field[u32] = at(8)
    signed: Field[i64] = at(16)

"""


def module(folder: Path, source: str) -> ModuleType:
    path = folder / "program.py"
    path.write_text(HEAD + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def call(folder: Path, source: str, *arguments: int, **known: object) -> int:
    """Translates, compiles and calls `pool_main`."""
    code = compiled(translate([module(folder, source)], known))
    function: Any = CFUNCTYPE(c_int64, *[c_int64] * len(arguments))(code.addresses["vyre_pool_main"])
    return int(function(*arguments))


@NEEDS_LLVM
@pytest.mark.parametrize(
    ("body", "results"),
    [
        ("return a // 2 if a > b else b % 4", {(-1, 1): 2**63 - 1, (1, 7): 3}),
        ("return 1 if cast(i64, a) < cast(i64, b) else 0", {(-1, 1): 1, (1, -1): 0}),
        ("return min(a, b) * 10 + max(a, 3)", {(7, 2): 27, (1, 2): 13}),
        ("return 1 if a != 0 and 100 // a > b else 0", {(0, 1): 0, (10, 9): 1, (10, 10): 0}),
        ("return 1 if a == 0 or 100 // a > b else 0", {(0, 1): 1, (10, 9): 1, (10, 10): 0}),
        ("return 1 if not a else ~a & b", {(0, 5): 1, (1, 5): 4}),
        ("return cast(u64, cast(i32, a)) + b", {(2**32 + 5, 1): 6, (-1, 0): 2**32 - 1}),
        ("a_, b_ = b, a\n    a_, b_ = b_, a_\n    return a_ - b_", {(9, 4): 5}),
    ],
)
def test_expressions(tmp_path: Path, body: str, results: dict[tuple[int, int], int]) -> None:
    source = f"def pool_main(a: u64, b: u64) -> u64:\n    {body}\n"
    assert {key: call(tmp_path, source, *key) for key in results} == results


@NEEDS_LLVM
def test_loops(tmp_path: Path) -> None:
    """Counted loops go on after `continue`, end at `break`, and one over what is known is written out."""
    source = """
def pool_main(end: u64) -> u64:
    total: u64 = 0
    for number in range(end):
        if number == 2:
            continue
        if number == 5:
            break
        total += number
    for even in range(10, end, 2):
        total += even
    for factor, name in ((100, "a"), (1000, "b")):
        if name == "b":
            total += factor
    for each in (total, end):
        total = total + each
    while True:
        total -= 1
        if total % 10 == 0:
            return total
"""
    counted = sum(number for number in range(14) if number in (0, 1, 3, 4)) + 10 + 12 + 1000
    expected = 2 * counted + 14 - 1
    assert call(tmp_path, source, 14) == expected - expected % 10


@NEEDS_LLVM
def test_words_of_memory(tmp_path: Path) -> None:
    source = """
def tell(word: Shared[u64], value: u64) -> None:
    fetch_add(word, value)

def pool_main(words: Words) -> u64:
    own = Words()
    own.first = 0
    tell(own.first, 3)
    tell(words[1].first, own.first)
    if compare_exchange(words.half, 7, 8) and not compare_exchange(words.half, 7, 9):
        if words.signed < 0:
            words.signed = -1
    store(words.first, exchange(words[1].first, 50) + load(own.first, RELAXED), RELAXED)
    return cast(u64, words[2]) - cast(u64, words)
"""
    memory = (c_int64 * 6)(0, 7, -5, 20, 0, 0)
    assert call(tmp_path, source, addressof(memory)) == 48
    assert list(memory) == [26, 8, -1, 50, 0, 0]


@NEEDS_LLVM
def test_what_is_known_leaves_one_branch(tmp_path: Path) -> None:
    source = """
def other(a: u64) -> u64: ...

def pool_main(a: u64) -> u64:
    if BIG:
        return other(a)
    else:
        return a + 1
"""
    assert call(tmp_path, source, 4) == 5
    assert "@other" in translate([module(tmp_path, source)], {"BIG": True})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return a + cast(i64, a)", "i64 in place of u64"),
        ("return words.half", "u32 in place of u64"),
        ("return cast(i64, a) // 2", "i64 has no such operation"),
        ("a = 3", "no word"),
        ("words.third = 3", "no field"),
        ("return a.first", "no record"),
        ("x = 3 if a else 4", "a number without a type"),
        ("x = 3", "a number without a type"),
        ("del a", "no statement of the language"),
        ("return [a]", "no expression of the language"),
        ("pool_main(a)", "2 parameters"),
        ("for x in (1, 2):\n        break", "no statement of the language"),
    ],
)
def test_what_the_language_does_not_have_is_refused(tmp_path: Path, body: str, problem: str) -> None:
    source = f"def pool_main(a: u64, words: Words) -> u64:\n    {body}\n"
    line = (HEAD + source).splitlines().index(f"    {body.splitlines()[0]}") + 1
    with pytest.raises(SyntaxError, match=rf"program, line {line + body.count(chr(10))}: {problem}"):
        translate([module(tmp_path, source)], {})
