"""Mutants of laws: each changes one word of one side, and most of them are false.

A checker that accepts a false one has a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vyre.domain.dialects.laws.law import CONSTANTS, Law
from vyre.domain.errors import MalformedText
from vyre.domain.ir.text_lexer import NAME, NUMBER, tokenize
from vyre.domain.ir.types import ScalarType

_FAMILIES: Final = (
    ("+", "-", "*"),
    ("/", "%", "*"),
    ("&", "|", "^"),
    ("<<", ">>"),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("and", "or"),
    ("true", "false"),
    ("min", "max"),
    ("sat_add", "sat_sub", "sat_mul"),
    ("rotl", "rotr"),
    ("popcount", "clz", "ctz", "reverse_bits"),
    ("neg", "bitnot", "abs"),
    ("neg", "abs", "sqrt"),
    ("floor", "ceil", "trunc", "round", "round_even", "sign"),
    ("is_nan", "is_inf", "is_finite"),
    ("sin", "cos", "tan", "asin", "atan", "sinh", "cosh", "tanh"),
    ("mulhi", "absdiff"),
    ("MIN", "MAX"),
    ("WIDTH", "MAX"),
    ("INF", "NAN"),
    ("U", "S", "F"),
    ("cast", "wrap_cast"),
    ("narrow", "cast"),
    ("pack", "unpack"),
    ("u8", "u16", "i8", "i16", "f16", "bf16"),
)
"""Words of which one stands for another; what does not fit the types is no mutant."""


def mutants(law: Law, dtype: ScalarType) -> Iterator[Law]:
    """Yields the laws for one type that differ from a law in one word of one side, each once.

    Operators, functions, named constants and types become others of their family, numbers their neighbours, and holes
    other holes; a condition is left out.  Mutants whose texts do not parse or have no type are skipped.
    """
    holes = list(law.hole_types(dtype))
    made: set[tuple[str, str, bool]] = {(law.before, law.after, law.where is not None)}
    for before, after, where in _texts(law, holes):
        key = (before, after, where is not None)
        if key in made:
            continue
        made.add(key)
        mutant = Law(law.name, before, after, frozenset({dtype}), law.holes, where)
        try:
            mutant.validate()
        except MalformedText:
            continue
        sides = mutant.at(dtype)
        is_new = sides != law.at(dtype) or where != law.where
        if sides[0] != sides[1] and is_new:
            yield mutant


def _texts(law: Law, holes: list[str]) -> Iterator[tuple[str, str, str | None]]:
    for changed in _changed(law.before, holes):
        yield changed, law.after, law.where
    for changed in _changed(law.after, holes):
        yield law.before, changed, law.where
    if law.where is not None:
        yield law.before, law.after, None


def _changed(text: str, holes: list[str]) -> Iterator[str]:
    tokens = tokenize(text, "a mutant")
    words = [tokens.text(i) for i in range(len(tokens) - 1)]
    for place, word in enumerate(words):
        for other in _others(word, tokens.kinds[place], holes):
            yield " ".join([*words[:place], *other, *words[place + 1 :]])


def _others(word: str, kind: str, holes: list[str]) -> Iterator[tuple[str, ...]]:
    for family in _FAMILIES:
        if word in family:
            yield from ((other,) for other in family if other != word)
    if kind == NAME and word in holes:
        yield from ((other,) for other in holes if other != word)
    if kind == NAME and word in CONSTANTS and word.startswith("WIDTH"):
        yield "(", word, "-", "1u" if word == "WIDTH_U32" else "1", ")"
    if kind == NUMBER:
        yield from ((other,) for other in _neighbours(word))


def _neighbours(word: str) -> Iterator[str]:
    digits = word.rstrip("ui")
    if digits.isdigit():
        suffix = word[len(digits) :]
        yield f"{int(digits) + 1}{suffix}"
        if int(digits) > 0:
            yield f"{int(digits) - 1}{suffix}"
    elif "." in word:
        yield from (other for other in ("0.0", "1.0", "2.0") if other != word)
