"""Random programs whose lanes each go along a row of elements, for loops that the CPU emitter writes as windows."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import numpy as np

from support.cpu.agreement import case
from support.programs import Case

LANES: Final = 40
"""The lanes of a program: two vectors of 16 and a half."""
WORDS: Final = 3000
"""The elements of the buffers that rows are read from, about."""
Span = tuple[int, int]
"""The values of the counter of one lane: from the first number on, below the second."""
_LENGTHS: Final = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 130, 200)
_ENDS: Final = (0, 1, WORDS - 1, WORDS, WORDS + 9, (1 << 31) - 1, 1 << 31, (1 << 32) - 9, (1 << 32) - 1)


def row_case(body: str, spans: list[Span], *, before: str = "let total = 0f", condition: str = "") -> Case:
    """Returns a program whose lane ``i`` runs ``body`` for each k from the start to the stop of its span.

    ``before`` declares locals; ``total`` is the result of a lane.  Lanes for which ``condition`` does not hold do
    nothing.  The inputs of a name are the same in every case, with infinities, NaNs and indices that are out of range.
    """
    loop = f"{before} for k in first[gid.x] .. stop[gid.x] {{ {body} }} y[gid.x] = total"
    text = f"""
workgroup_size {LANES}, 1, 1
buffer first @0 read u32[{LANES}]
buffer stop @1 read u32[{LANES}]
buffer col @2 read u32[runtime]
buffer v @3 read f32[runtime]
buffer x @4 read f32[runtime]
buffer small @5 read u8[runtime]
buffer flag @6 read bool[runtime]
buffer scale @7 read f32[4]
buffer y @8 write f32[{LANES}]
body {{
  {f"if {condition} {{ {loop} }}" if condition else loop}
}}
"""
    numbers = [number * 2654435761 % (1 << 32) for number in range(1, WORDS + 1)]
    inputs = {
        "first": [start for start, _ in spans],
        "stop": [stop for _, stop in spans],
        "col": [n if n % 97 == 0 else n % (WORDS + 50) for n in numbers],
        "v": _bytes([0x7F800000 if n % 89 == 0 else 0x3F000000 + n % (1 << 25) for n in numbers[:-7]]),
        "x": _bytes([0xFF800001 if n % 83 == 0 else 0xBF000000 - n % (1 << 24) for n in numbers[::-1]]),
        "small": [n % 251 for n in numbers],
        "flag": [n % 2 for n in numbers],
        "scale": _bytes([0x3F800000, 0x40400000, 0, 0x80000000]),
    }
    return case(text, inputs, grid=1)


def _bytes(words: list[int]) -> bytes:
    return np.array(words, np.uint32).tobytes()


def in_order(lengths: list[int], gap: int = 0, start: int = 0) -> list[Span]:
    """Returns rows one behind the other, whose lengths repeat."""
    found = []
    for lane in range(LANES):
        length = lengths[lane % len(lengths)]
        found.append((start, start + length))
        start += length + gap
    return found


def random_case(seed: int) -> Case:
    """Returns the program and the rows of a seed."""
    source = random.Random(seed)
    loops = _Loops(source)
    before = "let total = 0f let w = v[gid.x + 5u] let n = gid.x"
    condition = source.choice(("", "", "gid.x % 3u != 1u", "flag[gid.x]"))
    spans = _spans(source)
    body = loops.body()
    if source.random() < 0.2:
        start = "first[gid.x] - first[gid.x] % (j + 1u)"
        before += f" for j in 0u .. first[gid.x] % 4u {{ for k in {start} .. stop[gid.x] {{ {body} }} }}"
        body = loops.body()
    return row_case(body, spans, before=before, condition=condition)


def _spans(source: random.Random) -> list[Span]:
    lengths = [source.choice(_LENGTHS[: source.randint(2, len(_LENGTHS))]) for _ in range(source.randint(1, LANES))]
    found = in_order(lengths, source.choice((0, 0, 0, 1, 3, 40, 500)), source.choice((0, 0, 0, 7, WORDS - 90)))
    for _ in range(source.choice((0, 0, 1, 5))):
        start = source.choice(_ENDS)
        found[source.randrange(LANES)] = (start, min(start + source.choice(_LENGTHS), (1 << 32) - 1))
    if source.random() < 0.2:
        found = [span[::-1] if source.random() < 0.3 else span for span in found]
    if source.random() < 0.3:
        source.shuffle(found)
    return found


class _Loops:
    """The bodies of loops: the locals of a round, and what a lane computes from them."""

    def __init__(self, source: random.Random) -> None:
        self._source: Final = source

    def body(self) -> str:
        """Returns the statements of a round."""
        source = self._source
        names: dict[str, list[str]] = {"u32": ["k"], "f32": [], "bool": []}
        changed: list[str] = []
        written: list[str] = []
        for number in range(source.choice((0, 0, 1, 2, 3))):
            dtype = source.choice(("u32", "f32", "bool"))
            written.append(f"let r{number} = {self._element(dtype, names, 2)}")
            names[dtype].append(f"r{number}")
            if dtype == "f32" and source.random() < 0.2:
                changed.append(f"r{number}")
        lane = {"u32": [*names["u32"], "n"], "f32": [*names["f32"], "total", "w"], "bool": names["bool"]}
        written += [f"{name} := {self._element('f32', lane, 1)}" for name in changed]
        for _ in range(source.choice((1, 1, 1, 2, 3))):
            name = source.choice(("total", "total", "w", "n"))
            written.append(f"{name} := {self._element('u32' if name == 'n' else 'f32', lane, 2, of_lane=True)}")
        return " ".join(written)

    def _element(self, dtype: str, names: dict[str, list[str]], depth: int, *, of_lane: bool = False) -> str:
        """Returns a random expression; below the root of one ``of_lane``, indices know nothing of the lane."""
        source = self._source
        indices = {**names, "u32": [name for name in names["u32"] if name != "n"]}

        def inner(kind: str) -> str:
            return self._element(kind, names, depth - 1, of_lane=of_lane)

        def index() -> str:
            place = source.choice(indices["u32"])
            return source.choice((place, place, f"{place} + {source.randrange(9)}u", f"col[{place}]"))

        if depth == 0 or source.random() < 0.2:
            leaves = [*names[dtype], _LITERALS[dtype](source), _LOADS[dtype](source, index())]
            return source.choice(leaves[-1:] if not of_lane and source.random() < 0.6 else leaves)
        match dtype, source.randrange(4):
            case "f32", 0 | 1:
                return f"({inner('f32')} {source.choice('+-*/')} {inner('f32')})"
            case "f32", 2:
                wide = f"cast<f32>(cast<f64>({inner('f32')}) * 0.1f64)"
                return source.choice((f"cast<f32>({inner('u32')})", wide))
            case "u32", 0 | 1:
                return f"({inner('u32')} {source.choice('+-*/%&|^')} {inner('u32')})"
            case "u32", 2:
                return f"select({inner('bool')}, {inner('u32')}, {inner('u32')})"
            case "bool", _:
                kind = source.choice(("u32", "f32"))
                return f"({inner(kind)} {source.choice(('<', '==', '!='))} {inner(kind)})"
            case _:
                return f"select({inner('bool')}, {inner(dtype)}, {inner(dtype)})"


_LITERALS: Final[dict[str, Callable[[random.Random], str]]] = {
    "u32": lambda source: f"{source.choice((0, 1, 5, 31, 4294967295))}u",
    "f32": lambda source: source.choice(("0f", "1f", "-2.5f", "3e38f")),
    "bool": lambda source: source.choice(("true", "false")),
}
_LOADS: Final[dict[str, Callable[[random.Random, str], str]]] = {
    "u32": lambda source, index: source.choice((f"col[{index}]", f"small[{index}]")),
    "f32": lambda source, index: source.choice((f"v[{index}]", f"x[{index}]", f"scale[{index}]")),
    "bool": lambda _, index: f"flag[{index}]",
}
