"""Words, operators and literals of ``.vyre`` text, shared by printer and parser."""

from __future__ import annotations

import re
import struct
from fractions import Fraction
from typing import Final

from vyre.domain.float_mode import in_default_mode
from vyre.domain.ir.bits import bits_value, value_bits
from vyre.domain.ir.buffers import Access
from vyre.domain.ir.expr import IdKind
from vyre.domain.ir.operators import ATOMIC_TEXT, BINARY, UNARY, AtomicOp, BinaryOp, UnaryOp
from vyre.domain.ir.types import ScalarType
from vyre.domain.printable import Escapes

RESERVED_WORDS: Final = frozenset(
    (
        *("let", "if", "else", "for", "break", "continue", "return", "block", "region", "barrier", "trap"),
        *("async_load", "async_store", "async_wait", "indirect_dispatch"),
        *("and", "or", "true", "false", "cast", "bitcast"),
    )
)
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

ACCESS_WORD: Final = {
    Access.READ_ONLY: "read",
    Access.READ_WRITE: "read_write",
    Access.UNIFORM: "uniform",
    Access.WORKGROUP: "workgroup",
    Access.WRITE_ONLY: "write",
    Access.PRIVATE: "private",
}
ID_WORD: Final = {IdKind.GLOBAL: "gid", IdKind.GROUP: "wid", IdKind.LOCAL: "lid", IdKind.NUM_GROUPS: "num_groups"}
AXES: Final = "xyz"

LEVELS: Final = (
    ("or",),
    ("and",),
    ("==", "!=", "<", ">", "<=", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Infix operators from the loosest to the tightest; all associate to the left, except comparisons, which do not."""
LEVEL: Final = {text: level for level, texts in enumerate(LEVELS) for text in texts}
COMPARISON: Final = LEVEL["=="]

INFIX: Final[dict[str, BinaryOp]] = {row.text: op for op, row in BINARY.items() if row.infix}
BINARY_FUNCTION: Final[dict[str, BinaryOp]] = {row.text: op for op, row in BINARY.items() if not row.infix}
UNARY_FUNCTION: Final[dict[str, UnaryOp]] = {row.text: op for op, row in UNARY.items()}
ATOMIC_FUNCTION: Final[dict[str, AtomicOp]] = {text: op for op, text in ATOMIC_TEXT.items()}

SUFFIX: Final = {
    ScalarType.U32: "u",
    ScalarType.I32: "i",
    ScalarType.U64: "u64",
    ScalarType.I64: "i64",
    ScalarType.F32: "f",
    ScalarType.F64: "f64",
}
TYPE_OF_SUFFIX: Final = {suffix: dtype for dtype, suffix in SUFFIX.items()}
_HEXADECIMAL_FROM: Final = 0x1_0000


def name_text(name: str) -> str:
    """Returns a name as it is written: bare if it is an identifier and no reserved word, else quoted."""
    return name if IDENTIFIER.match(name) and name not in RESERVED_WORDS else quoted(name)


def operation_text(name: str) -> str:
    """Returns the id of an operation as it is written: bare if it is identifiers joined by dots that read as nothing
    else, else quoted.
    """
    first, *others = name.split(".")
    is_bare = bool(others) and all(IDENTIFIER.match(part) and part not in RESERVED_WORDS for part in (first, *others))
    return name if is_bare and first not in ID_WORD.values() and first not in ATOMIC_FUNCTION else quoted(name)


_ESCAPES: Final = Escapes({ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"})


def quoted(value: str) -> str:
    """Returns a string in double quotes; characters that are not printable are escaped by their code points."""
    return f'"{value.translate(_ESCAPES)}"'


_ESCAPE: Final = re.compile(r'\\(?:(["\\nt])|u\{([0-9a-fA-F]{1,6})\}|(.?))', re.DOTALL)
_PLAIN_ESCAPE: Final = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}


def unquoted(token: str) -> str:
    """Returns the string of a quoted token; raises ``ValueError`` at an unknown escape."""
    if "\\" not in token:
        return token[1:-1]
    return _ESCAPE.sub(_unescape, token[1:-1])


def _unescape(match: re.Match[str]) -> str:
    plain, code, other = match.groups()
    if plain is not None:
        return _PLAIN_ESCAPE[plain]
    if code is None or int(code, 16) > 0x10FFFF:
        raise ValueError(f"unknown escape \\{other or 'u'} in a string")
    return chr(int(code, 16))


def literal_text(dtype: ScalarType, bits: int) -> str:
    """Returns a literal: ``5u -3i 7u64 -7i64 1.5f 1.5f64 true``; non-finite floats by bits, ``f32(0x7fc00000)``."""
    if dtype is ScalarType.BOOL:
        return "true" if bits else "false"
    value = bits_value(dtype, bits)
    if not dtype.is_float:
        digits = f"{value:#x}" if not dtype.is_signed and value >= _HEXADECIMAL_FROM else str(value)
        return digits + SUFFIX[dtype]
    if value - value != 0.0:
        return f"{dtype.text}({bits:#0{dtype.bits // 4 + 2}x})"
    return _shortest(dtype, bits) + SUFFIX[dtype]


@in_default_mode
def _shortest(dtype: ScalarType, bits: int) -> str:
    """Returns the decimal with the fewest digits that reads back as these bits, with a point or an exponent."""
    value = bits_value(dtype, bits)
    if dtype is ScalarType.F64:
        return repr(value)
    digits = next(text for text in (f"{value:.{n}g}" for n in range(1, 10)) if float_bits(dtype, text) == bits)
    return digits if "." in digits or "e" in digits else digits + ".0"


_DOUBLE_TAIL: Final = (1 << 29) - 1
_DOUBLE_TIE: Final = 1 << 28
_SMALLEST_NORMAL_F32: Final = 2.0**-126


@in_default_mode
def float_bits(dtype: ScalarType, text: str) -> int:
    """Returns the bits of a decimal, rounded once.

    Where the nearest double lies halfway between two f32 values, or its precision shrinks, the exact value decides.
    """
    nearest = float(text)
    if dtype is ScalarType.F32 and nearest != 0.0:
        double_bits: int = struct.unpack("<Q", struct.pack("<d", nearest))[0]
        if double_bits & _DOUBLE_TAIL == _DOUBLE_TIE or abs(nearest) < _SMALLEST_NORMAL_F32:
            error = Fraction(text) - Fraction(nearest)
            if error and not double_bits & 1:  # round to odd, so that the second rounding is exact
                double_bits += 1 if (error > 0) is (nearest > 0) else -1
                nearest = struct.unpack("<d", struct.pack("<Q", double_bits))[0]
    return value_bits(dtype, nearest)


def operators_share_line(parent: str, child: str) -> bool:
    """Returns whether ``child`` is printed without parentheses as an operand of the looser ``parent``.

    That is done only in combinations whose precedence is widely known.
    """
    arithmetic = ("+", "-", "*", "/", "%")
    if parent in ("and", "or"):
        return child in LEVELS[COMPARISON] or (parent == "or" and child == "and")
    if parent in LEVELS[COMPARISON]:
        return child in arithmetic
    return parent in ("+", "-") and child in ("*", "/", "%")
