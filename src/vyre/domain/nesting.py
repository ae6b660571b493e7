"""Bounds on nesting of JSON and TOML, checked by a linear scan before a reader that recurses sees the text.

Python's readers of both forms recurse once a level, up to the recursion limit of the interpreter.  Code that happens
to run there, such as a finalizer, fails with ``RecursionError`` although the reader itself reports the text politely.
"""

from __future__ import annotations

import re
from typing import Final

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


def is_json_nested_beyond(text: str, limit: int) -> bool:
    """Returns whether more than ``limit`` lists and objects of JSON text enclose a place in it; O(characters)."""
    return _is_nested_beyond(text, _JSON_STRING, limit)


def is_toml_nested_beyond(text: str, limit: int) -> bool:
    """Returns whether more than ``limit`` arrays and inline tables of TOML text enclose a place in it; O(characters).

    The brackets around the name of a table count while the name lasts.
    """
    return _is_nested_beyond(text, _TOML_SKIPPED, limit)


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
