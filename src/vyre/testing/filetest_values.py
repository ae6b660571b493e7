"""Element values in directives of filetests: parsing to the bytes of a buffer, and formatting.

A value is one item or a list ``[item, ...]``.  An item is a number of the element type (``7``, ``-3``, ``0x1f``,
``1.5``, ``inf``, ``nan``, ``true``, with or without the suffix of program text), a bit pattern ``f32(0x7fc00001)``, any
of these repeated, ``0*64``, or one of

    ``iota(n[, start[, step]])``    start, start + step, ...
    ``rnd(seed, n)``                n elements of any bits (bool: 0 or 1)
    ``rnd(seed, n, low..high)``     n integers in low..high, both included
    ``hex("00ff")``                 raw bytes

Random bytes are the BLAKE3 stream of a fixed label and the seed, so they are the same on every machine and version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final

from blake3 import blake3

from vyre.domain.ir.bits import bits_value, value_bits
from vyre.domain.ir.text_cursor import Cursor
from vyre.domain.ir.text_format import SUFFIX, float_bits, literal_text
from vyre.domain.ir.text_lexer import NAME, NUMBER
from vyre.domain.ir.types import SCALAR_BY_TEXT, ScalarType
from vyre.domain.numerics import scalar

_MAX_ELEMENTS: Final = 1 << 20
_RANDOM_LABEL: Final = b"vyre.filetest.rnd\0"
_LONG_LIST: Final = 64


class Room:
    """The number of elements that a file may still have by generators and repetition."""

    def __init__(self) -> None:
        self.elements: int = _MAX_ELEMENTS

    def taken(self, cursor: Cursor) -> int:
        """Returns the number of elements at the cursor, which must fit."""
        count = cursor.take_integer("a number of elements", self.elements)
        self.elements -= count
        return count


def take_values(cursor: Cursor, element: ScalarType, room: Room) -> bytes:
    """Returns the bytes of a value at the cursor; raises ``MalformedText``."""
    if not cursor.accept("["):
        return _item(cursor, element, room)
    items: list[bytes] = []
    while not cursor.accept("]"):
        if items:
            cursor.take(",")
        items.append(_item(cursor, element, room))
    return b"".join(items)


def values_text(element: ScalarType, data: bytes) -> str:
    """Returns ``data`` as a value that parses to the same bytes."""
    size = element.size
    if len(data) % size:
        return f'hex("{data.hex()}")'
    texts = [_element_text(element, data[i : i + size]) for i in range(0, len(data), size)]
    return f"[{', '.join(_repeated(texts))}]"


def summary_text(element: ScalarType, data: bytes) -> str:
    """Returns ``values_text`` of short data, and of longer data the digest that an expectation may give instead."""
    if len(data) > _LONG_LIST * element.size:
        return f'blake3("{blake3(data).hexdigest(8)}")'
    return values_text(element, data)


def _item(cursor: Cursor, element: ScalarType, room: Room) -> bytes:
    word = cursor.text
    if cursor.kind == NAME and word in _GENERATORS:
        cursor.position += 1
        cursor.take("(")
        data = _GENERATORS[word](cursor, element, room)
        cursor.take(")")
        return data
    data = _number(cursor, element)
    return data * room.taken(cursor) if cursor.accept("*") else data


def _number(cursor: Cursor, element: ScalarType) -> bytes:
    if cursor.kind in ("true", "false"):
        word = cursor.kind
        cursor.position += 1
        return _whole(cursor, element, int(word == "true"), bool_only=True)
    if cursor.kind == NAME and cursor.text in SCALAR_BY_TEXT:
        return _bits(cursor, element)
    sign = "-" if cursor.accept("-") else ""
    token = cursor.text
    if cursor.kind == NAME and token in ("inf", "nan") and element.is_float:
        cursor.position += 1
        return _float(cursor, element, sign + token)
    if cursor.kind != NUMBER:
        raise cursor.expected(f"a value of type {element.text}")
    cursor.position += 1
    digits = token.removesuffix(SUFFIX.get(element.widened, ""))
    is_hexadecimal = digits[:2] in ("0x", "0X")
    if is_hexadecimal and element.is_float:
        raise cursor.error(f"{token} is no {element.text}", f"write {element.text}({token}).", cursor.position - 1)
    try:
        if element.is_float:
            return _float(cursor, element, sign + digits)
        return _whole(cursor, element, int(sign + digits, 16 if is_hexadecimal else 10))
    except ValueError:
        raise cursor.error(f"{sign}{token[:40]} is no {element.text}", position=cursor.position - 1) from None


def _bits(cursor: Cursor, element: ScalarType) -> bytes:
    name = cursor.text
    if name != element.text:
        raise cursor.error(f"{name} bits for a buffer of {element.text}")
    cursor.position += 1
    cursor.take("(")
    bits = cursor.take_integer("a bit pattern", (1 << element.bits) - 1)
    cursor.take(")")
    return bits.to_bytes(element.size, "little")


def _float(cursor: Cursor, element: ScalarType, text: str) -> bytes:
    dtype = element.widened
    wide = value_bits(dtype, float(text)) if text.endswith(("inf", "nan")) else float_bits(dtype, text)
    data = scalar.store_element(element, wide)
    if element is not dtype and text != "nan" and scalar.load_element(element, data) != wide:
        raise cursor.error(
            f"{text} is not exact in {element.text}", f"write the bits: {element.text}(0x...).", cursor.position - 1
        )
    return data


def _whole(cursor: Cursor, element: ScalarType, value: int, *, bool_only: bool = False) -> bytes:
    """Returns an element that holds an integer."""
    if element.is_float and not bool_only:
        return _float(cursor, element, str(value))
    if element is ScalarType.BOOL or bool_only:
        low, high = 0, 1
    elif element.is_signed:
        low, high = -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    else:
        low, high = 0, (1 << element.bits) - 1
    if not low <= value <= high or (bool_only and element is not ScalarType.BOOL):
        raise cursor.error(f"{value} is no {element.text}", position=cursor.position - 1)
    return (value & ((1 << element.bits) - 1)).to_bytes(element.size, "little")


# ---------------------------------------------------------------- generators
def _signed_integer(cursor: Cursor) -> int:
    negative = cursor.accept("-")
    value = cursor.take_integer("a whole number", (1 << 64) - 1)
    return -value if negative else value


def _iota(cursor: Cursor, element: ScalarType, room: Room) -> bytes:
    count = room.taken(cursor)
    start = _signed_integer(cursor) if cursor.accept(",") else 0
    step = _signed_integer(cursor) if cursor.accept(",") else 1
    return b"".join(_whole(cursor, element, start + k * step) for k in range(count))


def _rnd(cursor: Cursor, element: ScalarType, room: Room) -> bytes:
    seed = cursor.take_integer("a seed", (1 << 64) - 1)
    cursor.take(",")
    count = room.taken(cursor)
    state = blake3(_RANDOM_LABEL + seed.to_bytes(8, "little"))
    if cursor.accept(","):
        low = _signed_integer(cursor)
        cursor.take("..")
        span = _signed_integer(cursor) - low + 1
        if span < 1:
            raise cursor.error("an empty range", "write low..high.", cursor.position - 1)
        words = state.digest(length=8 * count)
        drawn = (int.from_bytes(words[8 * k : 8 * k + 8], "little") for k in range(count))
        return b"".join(_whole(cursor, element, low + word % span) for word in drawn)
    data = state.digest(length=element.size * count)
    if element is ScalarType.BOOL:
        return b"".join(bytes((byte & 1, 0, 0, 0)) for byte in data[::4])
    return data


def _hex(cursor: Cursor, element: ScalarType, room: Room) -> bytes:
    text = cursor.take_string("hexadecimal digits")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise cursor.error("no hexadecimal digits", "write pairs of 0-9 a-f.", cursor.position - 1) from None


_GENERATORS: Final[dict[str, Callable[[Cursor, ScalarType, Room], bytes]]] = {"iota": _iota, "rnd": _rnd, "hex": _hex}


# ---------------------------------------------------------------- writing
def _element_text(element: ScalarType, raw: bytes) -> str:
    bits = int.from_bytes(raw, "little")
    if element is ScalarType.BOOL:
        return ("false", "true")[bits] if bits < 2 else f"bool({bits:#x})"
    if not element.is_float:
        return str(int.from_bytes(raw, "little", signed=element.is_signed))
    wide = scalar.load_element(element, raw)
    value = bits_value(element.widened, wide)
    if value - value == 0.0:
        return literal_text(element.widened, wide).removesuffix(SUFFIX[element.widened])
    if scalar.store_element(element, wide) == raw:
        return "nan" if value != value else ("inf" if value > 0 else "-inf")
    return f"{element.text}({bits:#x})"


def _repeated(texts: list[str]) -> Iterator[str]:
    for text, run in groupby(texts):
        times = len(list(run))
        if times > 3:
            yield f"{text}*{times}"
        else:
            yield from [text] * times
