"""A JSON reader that follows the standard, with a bound on nesting that consumers of the value can rely on."""

from __future__ import annotations

import math
from typing import Any, Final

from vyre.domain.nesting import NestedTooDeep, read_json

MAX_DEPTH: Final = 64
"""The largest number of lists and objects that may enclose a value."""


class NotStrictJson(ValueError):
    """Text is not strict JSON; ``str`` is a predicate such as ``is not JSON``, to follow the name of the text."""


def parse(text: str) -> Any:
    """Returns the value of JSON text.

    Raises ``NotStrictJson`` for text that is not JSON, for what Python's reader accepts beyond the standard (``NaN``
    and ``Infinity``, numbers that are infinite as floats, and a name twice in an object), and beyond ``MAX_DEPTH``.
    """
    try:
        hooks: dict[str, Any] = {"parse_constant": _constant, "parse_float": _finite, "object_pairs_hook": _unique}
        value = read_json(text, limit=MAX_DEPTH + 1, **hooks)  # the innermost may be empty and enclose nothing
    except NotStrictJson:
        raise
    except NestedTooDeep:
        raise _too_deep() from None
    except ValueError:
        raise NotStrictJson("is not JSON") from None
    check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Raises ``NotStrictJson`` if lists and objects are nested beyond ``MAX_DEPTH``; itself it accepts any depth."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for outer in level
            if isinstance(outer, dict | list | tuple)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> NotStrictJson:
    return NotStrictJson(f"is nested more than {MAX_DEPTH} deep")


def _constant(name: str) -> Any:
    raise NotStrictJson(f"holds {name}, which JSON does not have")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NotStrictJson("holds a number beyond the floats")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotStrictJson("gives a member twice")
    return found
