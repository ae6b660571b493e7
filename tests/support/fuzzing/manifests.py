"""Mutated manifests.

Whatever a file holds, reading it raises nothing: it gives a manifest that can be registered, or diagnostics.
"""

from __future__ import annotations

import copy
import json
import random
import re
import tomllib
from collections.abc import Callable
from typing import Any, Final

from vyre.app.dialects.registry import DialectRegistry
from vyre.domain.dialects.manifests import ManifestReading, read_manifest

VALID: Final = '''dialect = "acme"
version = "1.2.0"
description = "Operations of a compiler."

[[ops]]
id = "acme.square"
category = "A"
summary = "x times x"
inputs = [["x", "f32"]]
outputs = [["y", "f32"]]
laws = ["acme.square(neg(x)) == acme.square(x)"]
body = """
  result x * x
"""

[[ops]]
id = "acme.steps"
category = "A"
inputs = [["x", "f32"], ["n", "u32"]]
outputs = [["y", "f32"]]
body = """
  let s = x
  for k in 0u .. n {
    if s > 100.5f {
      break
    } else if k == 3u {
      s := acme.square(s)
    }
    switch k & 1u {
      case 0u {
        s := s + 0.5f
      }
      else {
        continue
      }
    }
  }
  result select(s == x, x, s)
"""

[[ops]]
id = "acme.native"
category = "C"
deprecated = "call acme.square."
inputs = []
outputs = [["y", "u32"]]
'''
_LAWS: Final = (
    "acme.square(neg(x)) == acme.square(x)",
    "acme.steps(x, n) == select(n == 0u, x, acme.steps(x, n))",
    "acme.native() == 1u",
    "acme.square(x) * -1 == neg(acme.square(x))",
    "cast<f64>(x) - cast<f64>(y) == cast<f64>(x - y)",
)
_TOKEN: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
_WORDS: Final = (
    *('""', "[]", "{}", '"""', "true", "1", "-1", "1e400", "0x", "nan", "\u00e9", "\0", "ops", "[[ops]]", "id", "body"),
    *("f32", "u8", "bool", "acme", "acme.", "result", "return", "gid.x", "y[0u]", "barrier(seq_cst)", 'trap(0u, "t")'),
    *(
        "1.2.0",
        "9" * 5000,
        "[" * 300,
        "(" * 200,
        "x := x",
        "let x = x",
        "for k in 0u .. 1u {",
        "}",
        "{",
        "acme.steps(x, 1u)",
    ),
)
_Mutation = Callable[[random.Random, bytes], bytes]


def _flip(source: random.Random, data: bytes) -> bytes:
    at = source.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << source.randrange(8)),)) + data[at + 1 :]


def _cut(source: random.Random, data: bytes) -> bytes:
    start = source.randrange(len(data))
    return data[:start] + data[start + source.randrange(1, 40) :]


def _copied(source: random.Random, data: bytes) -> bytes:
    start, at = source.randrange(len(data)), source.randrange(len(data))
    return data[:at] + data[start : start + source.randrange(1, 200)] + data[at:]


def _tokens(source: random.Random, data: bytes) -> bytes:
    """Replaces, removes or swaps tokens."""
    found = _TOKEN.findall(data.decode("utf-8", "replace"))
    at, other = source.randrange(len(found)), source.randrange(len(found))
    match source.randrange(4):
        case 0:
            found[at] = source.choice(_WORDS)
        case 1:
            found[at] = found[other]
        case 2:
            found[at], found[other] = found[other], found[at]
        case _:
            found.insert(at, source.choice(_WORDS))
    return "".join(found).encode("utf-8", "replace")


def _lines(source: random.Random, data: bytes) -> bytes:
    """Moves, repeats or removes a line."""
    lines = data.split(b"\n")
    line = lines.pop(source.randrange(len(lines))) if source.random() < 0.7 else source.choice(lines)
    if source.random() < 0.7:
        lines.insert(source.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


_MUTATIONS: Final[tuple[_Mutation, ...]] = (_flip, _cut, _copied, _tokens, _tokens, _tokens, _lines, _lines)


_VALUES: Final[tuple[Any, ...]] = (
    *(
        "",
        " ",
        "A",
        "B",
        "D",
        "acme",
        "other.op",
        "acme.square",
        "acme.\u00e9",
        "1.2.0",
        "10.0.0",
        "1.2",
        "\ud7ff",
        "x" * 99,
    ),
    *(0, -1, 1 << 62, 1.5, True, [], [[]], {}, ["x"], [["x", "f32"]], [["x", "u8"]], [["x", "f32"], ["x", "f32"]]),
    *([["x", 1]], [["", "f32"]], [["if", "u32"]], [["x", "bool"]], {"a": {"b": 1}}, ["x == x", "f(x)"]),
)


def _changed_table(source: random.Random) -> bytes:
    """The valid manifest, written out again, with other values, keys, operations, or tokens in a body."""
    table = tomllib.loads(VALID)
    for _ in range(source.randrange(1, 4)):
        operations = table.get("ops")
        row = source.choice(operations) if isinstance(operations, list) and operations else table
        match source.randrange(8):
            case 0:
                table[source.choice((*table, "extra"))] = copy.deepcopy(source.choice(_VALUES))
            case 1 if isinstance(row, dict) and row:
                row.pop(source.choice(list(row)))
            case 2 if isinstance(row, dict) and row:
                row[source.choice((*row, "extra", "body"))] = copy.deepcopy(source.choice(_VALUES))
            case 3 if isinstance(operations, list):
                operations.insert(source.randrange(len(operations) + 1), copy.deepcopy(row))
            case 4 if isinstance(operations, list):
                source.shuffle(operations)
            case 5 if isinstance(row, dict) and isinstance(row.get("laws", []), list):
                law = source.choice(_LAWS)
                made = _tokens(source, law.encode()).decode("utf-8", "replace") if source.random() < 0.7 else law
                row["laws"] = [*row.get("laws", []), made]
            case _ if isinstance(row, dict) and row.get("body") and isinstance(row["body"], str):
                row["body"] = _tokens(source, row["body"].encode()).decode("utf-8", "replace")
            case _:
                pass
    return _written(table).encode("utf-8", "replace")


def _written(table: dict[str, Any]) -> str:
    """A table as TOML, in which all inner tables are written inline."""
    return "".join(f"{json.dumps(key)} = {_value(value)}\n" for key, value in table.items())


def _value(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case _:
            return json.dumps(value)


def mutated(seed: int) -> bytes:
    """The valid manifest after changes that the seed determines: of bytes, or of its structure."""
    source = random.Random(seed)
    if seed % 4:
        return _changed_table(source)
    data = VALID.encode()
    for _ in range(source.randrange(1, 7)):
        data = source.choice(_MUTATIONS)(source, data) or b"\n"
    return data


def check(data: bytes) -> ManifestReading:
    """Reads a file, and registers what it holds.  Raises only if that is wrong."""
    reading = read_manifest(data, "fuzz.toml")
    for diagnostic in reading.diagnostics:
        assert diagnostic.code.startswith(("E-TOML-", "N-TOML-")) and diagnostic.fix, diagnostic
        assert diagnostic.render()
    if reading.manifest is None:
        assert reading.diagnostics, "a file is refused without a reason"
    else:
        registry = DialectRegistry()
        registry.add_manifests([reading.manifest])
        for operation in reading.manifest.dialect.operations:
            assert registry.snapshot.operation(operation.id) is operation
            assert len(registry.snapshot.laws_of(operation.id)) == len(operation.law_texts)
            if operation.definition is not None:
                assert registry.snapshot.definitions_of(operation.id)[-1] is operation.definition
    return reading
