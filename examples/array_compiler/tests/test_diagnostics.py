"""Programs with one mistake each: the error names the line of the language that has the mark ``# <--``.

Behind the mark stands a part of the message.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from random_expressions import Array

import vyre
from array_compiler import ArrayError, Executable, NotSupported, ParseError, RunError, ShapeError
from vyre.ir import Store, f64, walk_statements
from vyre.ports import BackendCatalog
from vyre.testing import load_catalog, registration_of

TEXT: Final = """
in x: f32[4]
out y = x +                     # <-- an operand is missing
---
in x: f32[4]
out y = (x + 1.0                # <-- `)` is missing
---
in x f32[4]                     # <-- `:` is missing before `f32`
---
in x: [4]                       # <-- stands an element type
---
in x: f32[4.5]                  # <-- `4.5` is no size
---
in x: f32[0]                    # <-- `0` is no size
---
in x: f32[4                     # <-- `]` is missing
---
in x: f32[x]                    # <-- a size is a whole number
---
input x: f32[4]                 # <-- `input` begins no statement
---
in x: f32[4]

out = x                         # <-- `out` needs a name
---
in x: f32[4]
out y x                         # <-- `=` is missing before `x`
---
in x: f32[4]
out y = x $ 2.0                 # <-- `$` is no part of the language
---
in x: f32[4]
out y = x * * 2.0               # <-- `*` is no operand
---
in x: f32[4]
out y = x 2.0                   # <-- `2.0` stands behind the end
---
in x: f32[4]
out y = sum(x,)                 # <-- `)` is no operand
---
3 = x                           # <-- a statement begins with
---
in x: f32[4]
out y = ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((x # <-- more than 60 levels
"""
SHAPES: Final = """
in x: f32[4]
out y = x + z                   # <-- `z` is not defined above
---
in x: f32[4]
let y = x
let x = y                       # <-- `x` is defined twice
---
in x: f32[4]
in k: i32[4]
out y = x * 2.0 + k             # <-- `+` mixes f32[4] and i32[4]
---
in x: f32[4]
in y: f32[3]
let z = x * 2.0
out r = z - y                   # <-- f32[4] and f32[3] do not broadcast
---
in x: f16[4]                    # <-- the types are f32, f64
---
in x: f32[2, 2, 2, 2]           # <-- at most 3 axes
---
let one = 1
let two = 2                     # <-- the program has neither `out` nor `next`
---
in k: i32[4]
out y = k / 2                   # <-- `/` is not for i32: it is for f32, f64
---
in k: i32[4]
out y = k + 1.5                 # <-- `1.5` is no i32: it has a fraction
---
in k: u32[4]
out y = k + -1                  # <-- `-1` is no u32: it is out of range
---
in k: i32[4]
out y = k + 3000000000          # <-- `3000000000` is no i32
---
in x: f32[4]
out y = sqrt(x, x)              # <-- `sqrt` takes 1 operand(s) here, and has 2
---
in x: f32[4]
out y = where(x, x, x)          # <-- `where` is not for f32: it is for bool
---
in x: f32[4]
out y = cosine(x)               # <-- there is no function `cosine`
---
in x: f32[4]
let y = x * 2.0
out r = sum(y, 1)               # <-- 1 is not in 0..0
---
in x: f32[4]
out y = sum(x, x)               # <-- `sum` needs a whole number
---
in x: f32[4]
out y = scan(x)                 # <-- `scan` is not for f32: it is for i32, u32
---
in x: f32[4]
out y = histogram(x, 4)         # <-- `histogram` is not for f32
---
in k: i32[4]
out y = histogram(k, 0)         # <-- 0 is not in 1..
---
in x: f32[4, 3]
out y = x @ x                   # <-- `@` cannot multiply f32[4, 3] and f32[4, 3]
---
in x: f32[4, 3]
out y = shift(x, 1)             # <-- `shift` does not fit f32[4, 3] with 1 numbers
---
in x: f32[4, 3]
out y = shift(x, 1, 9)          # <-- 9 is not in -3..3
---
in x: f32[4]
out y = transpose(x)            # <-- `transpose` does not fit f32[4]
---
state s: f32[4]
next s = s * 2.0
next s = s                      # <-- `s` has a next already
---
in x: f32[4]
next x = x                      # <-- `x` is no state
---
state s: f32[4]
next s = sum(s)                 # <-- the state `s` is f32[4], and its next is f32
---
in x: f32[1, 2000]
in y: f32[2000, 1]
in z: f32[2000, 1, 1]
let a = x * y
out r = sum(a * z)              # <-- has more than 2147483647 elements
---
in b: bool[4]
out y = b < b                   # <-- `<` is not for bool
---
in b: bool[4]
out y = sum(b)                  # <-- `sum` is not for bool
"""
LACKING: Final = """
in x: f32[4]
let y = x * 2.0
out r = f32(f64(y) * 0.1)       # <-- lacks what this needs: the type f64
---
in x: f32[4]
in z: f64                       # <-- lacks what this needs: the type f64
out y = x + f32(z)
"""
BINS: Final = """
in k: i32[4]
let wrapped = k & 7
out a = histogram(wrapped, 8)
out b = histogram(wrapped, 4)   # <-- trap `a value has no bin` at address 5
---
in k: i32[4]
out most = greatest(k)
out b = histogram(k - 14, 4)    # <-- trap `a value has no bin` at address 4294967283
---
in k: i32[4]
out b = histogram(k - 2, 40)    # <-- trap `a value has no bin` at address 4294967295
out c = histogram(k, 40)
---
in k: i32[4]
out all = histogram(k, 40)
let some = where(k > 5, 50, k)
out b = histogram(some, 40)     # <-- trap `a value has no bin` at address 50
out c = histogram(k, 40)
"""


def programs(table: str) -> list[str]:
    return [each.strip() for each in table.split("---")]


def marked(text: str) -> tuple[int, str]:
    """The line that is marked, from 1, and the part of the message behind the mark."""
    ((line, part),) = [(n, each.split("# <-- ")[1]) for n, each in enumerate(text.splitlines(), 1) if "# <-- " in each]
    return line, part


def check(error: ArrayError, text: str) -> None:
    line, part = marked(text)
    assert part in error.message
    assert (error.place.file, error.place.line) == ("prog.arr", line)
    assert error.place.text is not None and error.place.column is not None
    assert text.splitlines()[line - 1].startswith(error.place.text)
    assert str(error).startswith(f"prog.arr:{line}:{error.place.column}: ")
    assert str(error).splitlines()[-1] == " " * (3 + error.place.column) + "^"


@pytest.fixture(scope="module")
def session() -> Iterator[vyre.Session]:
    with vyre.open("reference", cache=False) as opened:
        yield opened


@pytest.mark.parametrize("text", programs(TEXT))
def test_the_parser_names_the_line(session: vyre.Session, text: str) -> None:
    with pytest.raises(ParseError) as caught:
        Executable(session, text)
    check(caught.value, text)


@pytest.mark.parametrize("text", programs(SHAPES))
def test_the_types_and_shapes_name_the_line(session: vyre.Session, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        Executable(session, text)
    check(caught.value, text)


def test_there_are_fifty_of_them() -> None:
    count = sum(len(programs(each)) for each in (TEXT, SHAPES, LACKING, BINS))
    assert count >= 50, count


@pytest.mark.parametrize("text", programs(LACKING))
def test_verdicts_of_vyre_name_the_line(text: str) -> None:
    registration = load_catalog().get("reference")
    assert registration is not None
    backend = registration.make()
    profile = backend.profile
    fewer = frozenset(each for each in profile.operators if each.dtype is not f64)
    lesser = replace(profile, element_types=profile.element_types - {f64}, operators=fewer)
    catalog = BackendCatalog((registration_of(replace(backend, profile=lesser)),))
    with vyre.open("auto", catalog=catalog, cache=False) as session:
        with pytest.raises(NotSupported) as caught:
            Executable(session, text)
        check(caught.value, text)
        with Executable(session, text.replace("f64", "f32")):
            assert session.recent()[-1].name != "vyre.pipeline.prepared"  # nothing is compiled for a verdict


@pytest.mark.parametrize("backend", ["cpu", "reference", "reference-scalar", "cuda-machine"])
@pytest.mark.parametrize("text", programs(BINS))
def test_traps_name_the_line(backend: str, text: str) -> None:
    inputs = {"k": np.array([1, 5, 17, 6], np.int32)}
    with vyre.open(backend) as session, Executable(session, text) as compiled:
        with pytest.raises(RunError, match=re.escape("a value has no bin")) as caught:
            compiled.run(inputs)
        check(caught.value, text)
        cause = caught.value.__cause__
        assert isinstance(cause, vyre.TrapError) and cause.loc == caught.value.place


def test_arrays_that_do_not_fit_name_their_declaration(session: vyre.Session) -> None:
    text = "in k: i32[4]\nin x: f32[2, 2]\nout y = x + f32(sum(k))"
    k, x = np.zeros(4, np.int32), np.zeros((2, 2), np.float32)
    with Executable(session, text) as compiled:
        mistakes: list[tuple[dict[str, Array], int, str]] = [
            ({"x": x}, 1, "`k` is i32[4], and nothing is passed in"),
            ({"k": k.astype(np.int64), "x": x}, 1, "`k` is i32[4], and int64[4] is passed in"),
            ({"k": k, "x": x.ravel()}, 2, "`x` is f32[2, 2], and float32[4] is passed in"),
        ]
        for inputs, line, part in mistakes:
            with pytest.raises(ShapeError, match=re.escape(part)) as caught:
                compiled.run(inputs)
            assert caught.value.place.line == line
        assert compiled.run({"k": k, "x": x})["y"].shape == (2, 2)


def test_every_statement_of_a_kernel_has_a_place_in_the_text(session: vyre.Session) -> None:
    text = "in k: i32[4, 3]\nout a = k + 1\nlet b = k * 2\nout c = b - a\nout s = scan(b)\nout t = sum(c, 0)"
    with Executable(session, text) as compiled:
        for kernel in compiled.kernels:
            places = [statement.loc for statement in walk_statements(kernel.program.body)]
            assert all(place and place.file == "prog.arr" and place.text in text.splitlines() for place in places)
            stored = [each for each in walk_statements(kernel.program.body) if isinstance(each, Store)]
            lines = {each.buffer: each.loc.line for each in stored if each.loc and each.buffer != "tile"}
            assert lines == {name: {"a": 2, "c": 4, "s": 5, "t": 6}[name] for name in kernel.writes}


def test_no_text_gets_another_error(session: vyre.Session) -> None:
    rng, refused = random.Random(4), 0
    whole = [each for each in programs(TEXT + "---" + SHAPES + "---" + BINS) if "(((" not in each]
    words = sorted({word for each in whole for word in re.findall(r"\w+|[^\w\s]|\n", each)})
    for _ in range(600):
        parts = re.findall(r"\w+|[^\w\s]|\n", re.sub("#.*", "", rng.choice(whole)))
        for _ in range(rng.randint(1, 4)):
            index = rng.randrange(len(parts))
            parts[index : index + rng.randint(0, 2)] = rng.choices(words, k=rng.randint(0, 2))
        try:
            Executable(session, " ".join(parts))
        except ArrayError as error:
            assert error.place.line >= 1 and str(error).startswith("prog.arr:")
            refused += 1
    assert 300 < refused < 600
