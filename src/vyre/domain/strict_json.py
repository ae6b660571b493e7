"""The one reader and writer of JSON: the standard and no more, with bounds that consumers of a value can rely on.

Nothing that was read nests, counts or repeats without a limit, so that code which walks a value, computes with its
numbers or writes it again needs none of its own.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from vyre.domain.float_mode import in_default_mode
from vyre.domain.nesting import is_json_nested_beyond

MAX_DEPTH: Final = 64
"""The largest number of lists and objects around a place in a text, unless its reader states another one."""
MAX_PROGRAM_DEPTH: Final = 640
"""The same for programs: those within the limits nest less than 500 deep, and the recursion limit is 1000."""
MAX_DIGITS: Final = 40
"""The largest number of digits of an integer, enough for 128 bits; all such integers are finite as floats."""


class NotStrictJson(ValueError):
    """Text is not strict JSON; ``str`` is a predicate such as ``is not JSON``, to follow the name of the text."""


@in_default_mode
def parse(text: str | bytes, *, depth: int = MAX_DEPTH) -> Any:
    """Returns the value of JSON text.

    Raises ``NotStrictJson`` for text that is not JSON, for what Python's reader accepts beyond the standard (``NaN``
    and ``Infinity``, numbers that are infinite as floats, and a name twice in an object), and beyond ``MAX_DIGITS`` and
    ``depth``.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        if is_json_nested_beyond(text, depth):  # Python's reader would recurse
            raise NotStrictJson(f"is nested more than {depth} deep")
        return json.loads(
            text, parse_constant=_constant, parse_float=_finite, parse_int=_integer, object_pairs_hook=_unique
        )
    except NotStrictJson:
        raise
    except json.JSONDecodeError as error:
        raise NotStrictJson(f"is not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except (ValueError, RecursionError):  # no text, or read at the bottom of a deep stack
        raise NotStrictJson("is not JSON") from None


def canonical(document: Any) -> str:
    """Returns JSON text with sorted names and no spaces; equal documents have equal texts."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _constant(name: str) -> Any:
    raise NotStrictJson(f"holds {name}, which JSON does not have")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NotStrictJson("holds a number beyond the floats")
    return value


def _integer(text: str) -> int:
    if len(text) - (text[0] == "-") > MAX_DIGITS:
        raise NotStrictJson(f"holds an integer of more than {MAX_DIGITS} digits")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise NotStrictJson("gives a member twice")
    return members
