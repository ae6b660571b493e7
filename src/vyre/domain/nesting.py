"""Bounds on the nesting of JSON and TOML, checked by a linear scan before a reader that recurses sees the text.

Python's readers of both forms recurse once a level, up to the recursion limit of the interpreter.  Code that happens
to run there, such as a finalizer, fails with ``RecursionError`` although the reader itself reports the text politely.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

MAX_READ_DEPTH: Final = 640
"""The largest number of lists and objects that may enclose a value where no smaller bound is stated.

Programs within the limits nest less than 500 deep, and the recursion limit is 1000.
"""
_JSON_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_TOML_SKIPPED: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
"""Strings and comments.  Each may lack its end, which costs no second look at the text; readers refuse such a text."""
_NO_BRACKETS: Final = re.compile(r"[^\[\]{}]+")


class NestedTooDeep(ValueError):
    """A text nests lists and objects, or arrays and tables, beyond a bound."""


def is_json_nested_beyond(text: str, limit: int) -> bool:
    """Returns whether more than ``limit`` lists and objects of JSON text enclose a place in it; O(characters)."""
    return _is_nested_beyond(text, _JSON_STRING, limit)


def is_toml_nested_beyond(text: str, limit: int) -> bool:
    """Returns whether more than ``limit`` arrays and inline tables of TOML text enclose a place in it; O(characters).

    The brackets around the name of a table count while the name lasts.
    """
    return _is_nested_beyond(text, _TOML_SKIPPED, limit)


def read_json(text: str | bytes, *, limit: int = MAX_READ_DEPTH, **hooks: Any) -> Any:
    """Returns what ``json.loads`` does with these hooks; raises ``NestedTooDeep``, a ``ValueError``, beyond a limit."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    if is_json_nested_beyond(text, limit):
        raise NestedTooDeep(f"is nested more than {limit} deep")
    return json.loads(text, **hooks)


def _is_nested_beyond(text: str, skipped: re.Pattern[str], limit: int) -> bool:
    if text.count("[") + text.count("{") <= limit:
        return False
    depth = 0
    for bracket in _NO_BRACKETS.sub("", skipped.sub("", text)):
        if bracket in "[{":
            depth += 1
            if depth > limit:
                return True
        elif depth:
            depth -= 1
    return False
