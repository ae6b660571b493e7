"""Makes the page about the laws of the operators, from the catalogue and the record of what a prover proves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from vyre.domain.dialects.laws.catalogue import LAWS
from vyre.domain.dialects.laws.law import CONSTANTS, Law
from vyre.domain.dialects.laws.subgroups import SUBGROUP_LAWS, SubgroupLaw
from vyre.domain.ir.types import ScalarType

RECORD: Final = Path(__file__).resolve().parent / "laws-proved.json"
Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], str]

PAGE: Final = """# Laws of the operators

A law is an equation between two expressions. It holds for all values of its free names, the holes, that satisfy its
condition: both sides have the same bits, or both are NaN. Rules of the optimizer are made from laws, and nothing
relies on a law because it looks right: each of the {count} laws below is checked, and most are proved.

*Checked* means, at every type of the law: combinations of boundary values and random values by the rules of one
lane that decide the language ([semantics.md](semantics.md)); all 16-bit values of a law with one hole; and all
values of all holes in a model of the language in which every type has 8 bits (laws that convert between widths have
types of 8 and 16 bits, of which two with 16 bits are sampled; laws with `fma` have floats of 6 bits). Narrow types,
`wrap_cast` between widths and transcendental functions have no model, and are tried at their real width only. The
tests check every law, and every law with one word changed: the checker refutes it, or it is another law that holds.

*Proved* means that an SMT solver found no values on which the sides differ, at the real width. {proved} of
{equations} equations, a law at one type each, are proved by {prover}; the others are listed as unproved, with the
reason, and are checked only.

In the texts a number without suffix is of the law's type T, modulo 2^width (`-1` has all bits set). `cast<T>`,
`cast<U>`, `cast<S>` and `cast<F>` name T and the unsigned, signed and float type of its width. {constants} are
constants of T. Holes in a condition are literals. An arrow says which way the optimizer may rewrite: → from left to
right only, ↔ both ways. Operands that a law drops, copies, merges or reorders must be free of atomics and subgroup
operations; the column *pure* names their holes.

{laws}

## Subgroup operations

An operation of a subgroup is left out, or joined to another, only where one of these {subgroup_count} laws says
so. Each is checked with all lanes: laws of integers and votes in a model of up to three lanes of 8 bits, those
of one hole on all values of two lanes, others on boundary values of all lanes; and all with random values at
the real width, for subgroups of 1 to 32 lanes, since the last one of a workgroup may have fewer. So
`subgroup_ballot(true)` is no constant, and a number is not its own shuffle: a lane that is missing has 0. The
pass `strength` rewrites from left to right. Holes in the column *uniform* have one value in all lanes.

{subgroup_laws}

## Unproved

{unproved}
"""


def render(table: Table, type_names: Callable[[Iterable[ScalarType]], str]) -> str:
    """Returns the page; ``table`` and ``type_names`` write tables and sets of types."""
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    entries: Mapping[str, Any] = record["laws"]
    counts = {way: sum(len(entry[way]) for entry in entries.values()) for way in ("proved", "unproved")}
    head = ("law", "before", "", "after", "types", "pure")
    return PAGE.format(
        count=len(LAWS),
        proved=counts["proved"],
        equations=counts["proved"] + counts["unproved"],
        prover=record["prover"],
        constants=", ".join(f"`{name}`" for name in CONSTANTS),
        laws=table(head, (_row(law, type_names) for law in LAWS)),
        subgroup_count=len(SUBGROUP_LAWS),
        subgroup_laws=table(
            ("law", "before", "after", "types", "uniform"), (_subgroup_row(law, type_names) for law in SUBGROUP_LAWS)
        ),
        unproved=table(("law", "types", "reason"), _unproved(entries)),
    )


def _code(text: str) -> str:
    return f"`{text}`"


def _row(law: Law, type_names: Callable[[Iterable[ScalarType]], str]) -> tuple[str, ...]:
    before = _code(law.before) + (f" where {_code(law.where)}" if law.where else "")
    pure = " ".join(sorted(law.use.pure))
    return law.name, before, "↔" if law.both_ways else "→", _code(law.after), type_names(law.types), pure


def _subgroup_row(law: SubgroupLaw, type_names: Callable[[Iterable[ScalarType]], str]) -> tuple[str, ...]:
    uniform = " ".join(sorted(law.uniform))
    return law.name, _code(law.before), _code(law.after), type_names(law.types), uniform


def _unproved(entries: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    for law in LAWS:
        by_reason: dict[str, list[str]] = {}
        for dtype, reason in entries[law.name]["unproved"].items():
            by_reason.setdefault(reason, []).append(dtype)
        for reason, dtypes in by_reason.items():
            yield law.name, ", ".join(sorted(dtypes)), reason
