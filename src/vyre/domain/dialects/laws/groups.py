"""How groups of the catalogue are written: rows of a name and two sides, for one set of types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vyre.domain.dialects.laws.law import HoleType, Law
from vyre.domain.ir.types import ScalarType

ScalarTypes = frozenset[ScalarType]


def laws(types: ScalarTypes, rows: str, *, holes: Mapping[str, HoleType] | None = None) -> Iterator[Law]:
    """Yields the laws of a table, one a line: ``name: before = after`` or ``name: before <=> after``, and perhaps
    ``if condition``.

    ``=`` stands between sides that are rewritten from left to right only, ``<=>`` between those for which both ways
    may be of use.  ``holes`` are the types of holes that are not of the law's type, where they occur.
    """
    for row in filter(None, map(str.strip, rows.splitlines())):
        name, _, rest = row.partition(": ")
        sides, _, condition = rest.partition(" if ")
        before, sign, after = sides.partition(" <=> ")
        if not sign:
            before, _, after = sides.partition(" = ")
        words = set(_words(before))
        used = {hole: dtype for hole, dtype in (holes or {}).items() if hole in words}
        yield Law(name, before, after, types, used, condition or None, bool(sign))


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
