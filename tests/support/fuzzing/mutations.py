"""Valid inputs of readers, changed in the ways that damage and malice change them: bytes, tokens, or values of JSON."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

Draw: TypeAlias = Callable[[random.Random], bytes]
Text: TypeAlias = Callable[[str], str]
MOST_BYTES: Final = 1 << 16
"""The largest input: a reader that takes long for it takes longer than the input is worth."""

_TOKEN: Final = re.compile(r"\w+|\s+|.", re.DOTALL)
WORDS: Final = (
    *(
        "",
        " ",
        "\n",
        "\0",
        "\u00e9",
        "\u202e",
        "\ud800",
        "\r\n",
        "\t",
        ";",
        ",",
        ".",
        ":",
        "=",
        "#",
        "//",
        "/*",
        "'",
        '"',
    ),
    *(
        "0",
        "-1",
        "1",
        "1.5",
        "1e400",
        "1e-400",
        "1e999999999",
        "0x",
        "0xffffffffffffffffff",
        "nan",
        "inf",
        "-inf",
        "NaN",
    ),
    *("4294967295", "4294967296", "18446744073709551616", "9" * 60, "9" * 5000, "0." + "0" * 2000 + "1", "\u0663"),
    *("(", ")", "[", "]", "{", "}", "<", ">", "(" * 300, "[" * 700, "{" * 700, "-" * 500, "x" * 5000),
)
_VALUES: Final = (
    *(
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "1",
        "3",
        "1.5",
        "-0.0",
        "1e400",
        "-1e400",
        "1e-400",
        "NaN",
        "-Infinity",
    ),
    *("255", "65536", "2147483648", "4294967295", "4294967296", "9223372036854775808", "18446744073709551615"),
    *("18446744073709551616", "1" + "0" * 39, "1" + "0" * 310, "9" * 4299, "9" * 5000, "1e308", "1e-320"),
    *('""', '"a"', '"0"', '"nan"', '"inf"', '"\\ud800"', '"\\u0000"', '"\\u202e\\n"', '"\u00e9"', '"0x10"', '"[]"'),
    *(
        "[]",
        "{}",
        "[[]]",
        "[null]",
        '{"":0}',
        '{"a":{"b":[1,{}]}}',
        "[0,0]",
        '[["a",1],["a",1]]',
        '"' + "x" * 5000 + '"',
    ),
    *("[" * n + "]" * n for n in (62, 66, 300, 640, 700, 30_000)),
    *('{"a":' * n + "0" + "}" * n for n in (62, 66, 300, 640, 700, 8_000)),
)
"""Values as JSON text, some beyond the standard."""
_KEYS: Final = ("", "a", "form", "version", "$type", "blake3", "\ud800", "x" * 300, "name", "kind", "extra")
_MARK: Final = "\u0001"
"""Encloses the number of a value that is written as it stands."""


# ---- bytes and tokens
def _edited(source: random.Random, data: bytes) -> bytes:
    """One edit: a byte changed, dropped or inserted, a span dropped, copied or repeated, or the end cut off."""
    if not data:
        return source.randbytes(source.randrange(1, 40))
    at, other, length = source.randrange(len(data)), source.randrange(len(data)), source.choice((1, 2, 4, 8, 60))
    match source.randrange(9):
        case 0:
            return data[:at] + bytes((data[at] ^ (1 << source.randrange(8)),)) + data[at + 1 :]
        case 1:
            return data[:at] + bytes((source.choice(b'\0\1\x7f\x80\xff"\\[{0'),)) + data[at + 1 :]
        case 2:
            return data[:at] + source.randbytes(length) + data[at:]
        case 3:
            return data[:at] + data[at + length :]
        case 4:
            return data[:at] + data[other : other + length] + data[at + length :]
        case 5:
            return data[:at] + data[other : other + length] + data[at:]
        case 6:
            return data[:at] + data[at : at + length] * source.choice((2, 20, 1000)) + data[at:]
        case 7:
            return data[:at] + source.choice((b"\xff", b"\0", b"\x80")) * length + data[at + length :]
        case _:
            return data[:at]


def of_bytes(corpus: Sequence[bytes], seal: Callable[[bytes], bytes] = lambda data: data) -> Draw:
    """Inputs of which bytes were changed; ``seal`` gives them digests that match."""

    def draw(source: random.Random) -> bytes:
        data = source.choice(corpus)
        for _ in range(source.choice((1, 1, 2, 5))):
            data = _edited(source, data)[:MOST_BYTES]
        return seal(data)

    return draw


def of_tokens(corpus: Sequence[bytes], words: Sequence[str] = (), seal: Callable[[bytes], bytes] = bytes) -> Draw:
    """Inputs of which words, numbers and signs were replaced, removed, swapped or repeated."""
    known = (*WORDS, *words, *words)

    def draw(source: random.Random) -> bytes:
        found = _TOKEN.findall(source.choice(corpus).decode("utf-8", "surrogateescape"))
        for _ in range(source.choice((1, 1, 2, 4))):
            at, other = source.randrange(len(found)), source.randrange(len(found))
            match source.randrange(6):
                case 0:
                    found[at] = source.choice(known)
                case 1:
                    found[at] = found[other]
                case 2:
                    found[at], found[other] = found[other], found[at]
                case 3:
                    found.insert(at, source.choice(known))
                case 4:
                    found[at] = (found[at] * source.choice((2, 3, 500)))[:MOST_BYTES]
                case _:
                    end = at + source.randrange(1, 30)
                    found[at:at] = found[at:end] * source.choice((1, 1, 100))
        return seal("".join(found).encode("utf-8", "surrogatepass")[:MOST_BYTES])

    return draw


# ---- values
class Changing:
    """A JSON document that is being changed; ``raw`` holds the values that are written as they stand."""

    def __init__(self, source: random.Random, document: Any) -> None:
        self.source, self.document, self.raw = source, document, list[str]()
        self.copies = 0

    def hostile(self) -> Any:
        self.raw.append(self.source.choice(_VALUES))
        return f"{_MARK}{len(self.raw) - 1}{_MARK}"

    def places(self) -> list[tuple[Any, Any]]:
        """Returns every list and object with each of its indices and keys."""
        found: list[tuple[Any, Any]] = []
        stack = [self.document]
        while stack and len(found) < 20_000:
            held = stack.pop()
            keys: Any = held.keys() if isinstance(held, dict) else range(len(held)) if isinstance(held, list) else ()
            found += [(held, key) for key in keys]
            stack += [held[key] for key in keys]
        return found

    def change(self) -> None:
        """Changes one place."""
        source, places = self.source, self.places()
        if not places:
            self.document = self.hostile()
            return
        held, key = source.choice(places)
        other, other_key = source.choice(places)
        match source.randrange(8):
            case 0 | 1 | 2:
                held[key] = self.hostile()
            case 3:
                held[key] = json.loads(json.dumps(other[other_key]))
            case 4:
                del held[key]
            case 5 if isinstance(held, dict):
                held[source.choice(_KEYS)] = self.hostile() if source.random() < 0.5 else held[key]
            case 6 if isinstance(held, dict):
                self.copies += 1  # written as the same key once more
                held[f"{key}{_MARK}{self.copies}"] = self.hostile() if source.random() < 0.5 else held[key]
            case 7 if isinstance(held, dict):
                held[source.choice(_KEYS)] = held.pop(key)
            case _ if isinstance(held, list):
                times = source.choice((1, 2, 10, 1000)) if len(json.dumps(held[key])) < 100 else 1
                held[key:key] = [held[key]] * times
            case _:
                held[key] = [held[key]]

    def written(self, **style: Any) -> str:
        text = json.dumps(self.document, **style)
        mark = json.dumps(_MARK)[1:-1]
        text = re.sub(re.escape(f'"{mark}') + r"(\d+)" + re.escape(f'{mark}"'), lambda m: self.raw[int(m[1])], text)
        return re.sub(re.escape(mark) + r"\d+", "", text)


def of_json(corpus: Sequence[Any], seal: Text = str, **style: Any) -> Draw:
    """Documents of which values were changed, dropped, added, given twice or replaced by what JSON does not have."""
    usual = {"sort_keys": True, "separators": (",", ":")} | style

    def draw(source: random.Random) -> bytes:
        changing = Changing(source, json.loads(json.dumps(source.choice(corpus))))
        for _ in range(source.choice((1, 1, 1, 2, 4))):
            changing.change()
        text = changing.written(**(usual if source.random() < 0.9 else {"indent": 1}))
        return seal(text).encode("utf-8", "surrogatepass")[: 4 * MOST_BYTES]

    return draw


def mixed(*draws: Draw) -> Draw:
    """Inputs of several kinds."""
    return lambda source: source.choice(draws)(source)
