"""Native text: straight-line instructions of a target that compute an operation from its operands.

A line is one instruction over places in braces: ``{out}``, operands ``{0}``, attributes as constants ``{#1}``,
registers of the text's own ``{name:u32}``, and in LLVM and OpenCL types ``{u32}`` and constants ``{u32 255}``.  What is
not listed here cannot be written, so that no text reaches memory, jumps, or names anything of the kernel around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from vyre.domain.errors import InvalidDialect
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.types import EXECUTABLE_TYPES, SCALAR_BY_TEXT, ScalarType
from vyre.domain.printable import shown

MAX_LINES: Final = 64
"""The most lines of a native text, each of at most 160 characters."""


class NativePlace(NamedTuple):
    """A place of a line that an emitter fills in.

    ``kind``: ``v`` for the value ``name`` (``out``, the number of an operand, or a register of the text), ``i`` for an
    operand that is a constant, ``t`` for a type, ``c`` for the constant ``number`` of a type.
    """

    kind: str
    name: str
    dtype: ScalarType
    number: int = 0


_TYPES: Final = "|".join(dtype.text for dtype in EXECUTABLE_TYPES)
_PLACE: Final = re.compile(
    rf"\{{(?:(out)|(#?)(\d{{1,3}})|([a-z][a-z0-9_]*):({_TYPES})|([ui]32|[ui]64|f32|f64|bool)(?: (\d{{1,20}}))?)\}}"
)
_NUMBER: Final = r"-?(?:0x[0-9a-fA-F]{1,16}|\d{1,20})|0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}"
_MARKS: Final = {"v": "\x01", "i": "\x02", "t": "\x03", "c": "\x04"}
"""The character for a place of each kind in the shape of a line; below, X is any operand."""
_X: Final = "[\x01\x02\x04]"
_LLVM: Final = r"""(?:add|sub|mul|and|or|xor|fadd|fsub|fmul) \x03 X, X|fneg \x03 X|(?:shl|lshr|ashr) \x03 X, \x04
|icmp (?:eq|ne|[us][gl][te]) \x03 X, X|fcmp (?:[ou](?:eq|ne|[gl][te])|ord|uno) \x03 X, X|select \x03 X, \x03 X, \x03 X
|(?:zext|sext|trunc|bitcast|fpext|fptrunc|uitofp|sitofp) \x03 X to \x03
|call \x03 @llvm\.(?:bitreverse|bswap|ctpop|fabs|fma|fsh[lr]|[us](?:max|min|add\.sat|sub\.sat))\((?:\x03 X, )*\x03 X\)
|call \x03 @llvm\.(?:abs|ctlz|cttz)\(\x03 X, i1 false\)""".replace("\n", "").replace("X", _X)
_SHAPES: Final = {
    "ptx": re.compile(  # without what ``ptxas`` is known to miscompile: lop3, prmt, not, neg, abs and others
        r"(?:add|and|bf[ei]|brev|clz|cvt|fma|mad|max|min|mov|mul|or|popc|sad|selp|setp|shf|shl|shr|sub|xor)"
        rf"(?:\.(?!(?:cc|ftz|approx|sat|hi\.s32)\b)[a-z0-9]+)* \x01(?:, (?:[\x01\x02]|{_NUMBER}))+;"
    ),
    "llvm": re.compile(rf"\x01 = (?:{_LLVM})"),
    "opencl": re.compile(
        rf"\x01 = (?!.*(?:\+\+|--|[(,?:=+*&|^~<>!-] ?[&*]|\(\x03\) ?[&*]))(?:{_X}|\(\x03\)|\d{{1,20}}[uU]?[lL]?"
        r"|(?:abs_diff|add_sat|bitselect|clz|fabs|fma|hadd|max|min|mul_hi|popcount|rhadd|rotate|sub_sat)\("
        r"|<<|>>|[<>=!]=|[-+*&|^~<>()?:,]| )++;"
    ),
}
"""The lines of each language, as their shapes."""
LANGUAGES: Final = tuple(_SHAPES)


def checked_text(definition: Definition, language: str, text: str) -> str:
    """Returns a native text for a definition with one instruction a line and no empty ones.

    Raises ``InvalidDialect``, with the number of the line, for what the language does not let a native text contain,
    for a place that is not there, and for a value that is read before it is made.
    """
    lines, set_names = [line.strip() for line in text.split("\n")], set[str]()
    types = [definition.result_type, *[each.dtype for each in definition.parameters]]
    number, defect = 0, None
    if language not in _SHAPES or ScalarType.BOOL in types or len(lines) > MAX_LINES:
        fix = f"write at most {MAX_LINES} lines of {', '.join(LANGUAGES)} over operands that are no bool."
        defect = "it has another language, operands or size", fix
    while defect is None and number < len(lines):
        number += 1
        defect = _defect(language, lines[number - 1], definition, set_names) if lines[number - 1] else None
    if defect is None and "out" not in set_names:
        defect = "nothing gives {out} a value", "end with an instruction whose result is {out}."
    if defect is not None:
        problem = f"line {number} of the {shown(language)} text of `{definition.id}`: {defect[0]}"
        raise InvalidDialect(problem, fix=defect[1])
    return "\n".join(filter(None, lines))


@lru_cache(maxsize=256)
def native_lines(text: str) -> tuple[tuple[str | NativePlace, ...], ...]:
    """Returns the lines of a checked text as what is written and what is filled in."""
    return tuple([tuple(_parts(line)) for line in text.split("\n")])


def _parts(line: str) -> Iterator[str | NativePlace]:
    end = 0
    for place in _PLACE.finditer(line):
        if place.start() > end:
            yield line[end : place.start()]
        end = place.end()
        out, constant, number, name, dtype, kind, value = place.groups()
        if kind is not None:
            yield NativePlace("t" if value is None else "c", "", SCALAR_BY_TEXT[kind], int(value or 0))
        else:  # what is an operand or the result has the type of that
            yield NativePlace("i" if constant else "v", out or number or name, SCALAR_BY_TEXT[dtype or "u32"])
    yield line[end:]


def _defect(language: str, line: str, definition: Definition, set_names: set[str]) -> tuple[str, str] | None:
    """Returns what is wrong with a line, and how to mend it; adds what it makes to ``set_names``."""
    parts, count = list(_parts(line)), len(definition.parameters)
    shape = "".join([part if isinstance(part, str) else _MARKS[part.kind] for part in parts])
    if not (line.isascii() and line.isprintable() and len(line) <= 160 and _SHAPES[language].fullmatch(shape)):
        fix = "no directive, label, jump, guard, memory or special register: docs/dialects.md lists what a line may be."
        return f"{shown(line)} is no instruction that native text may have", fix
    target, *read = [part for part in parts if isinstance(part, NativePlace)]
    for place in read:
        name, is_operand = place.name, place.name.isdigit()
        if place.kind == "c" and not (place.dtype.is_integer and place.number < 1 << place.dtype.bits):
            return f"{place.number} is no {place.dtype.text}", "write an integer of an integer type."
        if is_operand and int(name) >= count:
            return f"there is no operand {name}", f"it has {count}, counted from 0."
        if place.kind == "i" and not definition.parameters[int(name)].is_attribute:
            return f"operand {name} is no attribute", f"write {{{name}}}, or make its parameter an attribute."
        if place.kind == "v" and not is_operand and name not in set_names:
            return f"{{{name}}} is read before it has a value", "write the instruction that makes it first."
    if language == "llvm" and re.match("\x01 = (?:[la]?sh[lr]) ", shape) and read[-1].number >= read[0].dtype.bits:
        return "a shift by the width or more has no value", "shift by less."
    if target.name.isdigit():
        return f"operand {target.name} is assigned", "write the result to {out} or to a register {name:u32}."
    set_names.add(target.name)
    return None
