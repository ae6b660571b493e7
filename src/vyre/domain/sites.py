"""Sites: the statements of a program by number, which compiled code has in the place of source locations.

Code is kept for all programs of one digest, wherever their statements stand in the sources.  It therefore says by
number which statement ended a lane, and the location is that of this statement in the program that was run.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from vyre.domain.errors import DeviceLimitExceeded, StepBudgetExceeded, TrapError
from vyre.domain.frozen import frozen
from vyre.domain.ir.node import Node
from vyre.domain.ir.program import Program
from vyre.domain.ir.rebuilding import rebuilt_from
from vyre.domain.ir.stmt import Loop, Stmt, Trap, walk_statements
from vyre.domain.optimize.dialect_laws import keep_stated_laws, stated_laws
from vyre.domain.source_location import SourceLocation
from vyre.domain.validation import CHECKED

_CACHED: Final = "sites"
_KEPT: Final = (CHECKED, "order sensitive", "digest")
"""The names of the facts about a program, kept with it, that do not depend on its locations."""
_DIGITS: Final = 16
ENDED: Final = 1 << 63
"""The bit of the count of a lane that has exceeded its budget; the number of the loop is below it, or ``NOWHERE``."""
NOWHERE: Final = ENDED - 1


@frozen
class Site(SourceLocation):
    """The location of a statement, with its number in program order and the start of the digest of the program."""

    number: int = 0
    program: str = ""


def with_sites(program: Program, written: Program, *, loops: bool = False) -> Program:
    """Returns the program with a ``Site`` as the location of each trap, and of each loop if ``loops`` says so.

    ``written`` is the program as callers know it, which may have another workgroup.  The result is cached on the
    program, which is returned itself if it has no such statement.  O(nodes).
    """
    key = f"{_CACHED} {loops}"
    cached = program._cache.get(key)
    if isinstance(cached, Program):
        return cached
    kinds = (Trap, Loop) if loops else (Trap,)
    numbers = {id(stmt): number for number, stmt in enumerate(walk_statements(program.body)) if isinstance(stmt, kinds)}
    if not numbers:
        return program
    name = written.digest.hex()[:_DIGITS]

    def change(old: Node, new: Any) -> Any:
        number = numbers.get(id(old))
        return new if number is None else replace(new, loc=_site(old.loc, number, name))

    sited = replace(program, body=rebuilt_from(program.body, change))
    sited._cache.update({each: program._cache[each] for each in _KEPT if each in program._cache})
    keep_stated_laws(sited, stated_laws(program))
    program._cache[key] = sited
    return sited


def _site(loc: SourceLocation | None, number: int, program: str) -> Site:
    if loc is None:
        return Site("", 0, number=number, program=program)
    return Site(loc.file, loc.line, loc.column, loc.text, loc.others, number, program)


def stored_site(program: Program, number: int) -> str:
    """Returns the site of a statement of a program as compiled code has it."""
    return f"{program.digest.hex()[:_DIGITS]}:{number}"


def site_number(stmt: Stmt) -> int | None:
    """Returns the number of the statement that this one was made of; None where that is unknown."""
    return stmt.loc.number if isinstance(stmt.loc, Site) else None


def site_of(stmt: Stmt) -> str | None:
    """Returns the site of a statement as compiled code has it; None where it is unknown."""
    return f"{stmt.loc.program}:{stmt.loc.number}" if isinstance(stmt.loc, Site) else None


def trap_label(stmt: Trap) -> str:
    """Returns the tag of a trap with its site, as compiled code has them."""
    site = site_of(stmt)
    return stmt.tag if site is None else f"{stmt.tag}{TrapError.MARK}{site}"


def locate(error: Exception, programs: Collection[Program]) -> None:
    """Sets the ``loc`` of the error of a run to the location of the statement that ended it, or of what is above a
    limit, where it is known.

    ``programs`` are those that were run.
    """
    if isinstance(error, DeviceLimitExceeded) and len(programs) == 1:
        from vyre.domain.limit_places import place_limit

        place_limit(error, *programs)
    if not isinstance(error, TrapError | StepBudgetExceeded) or error.loc is not None:
        return
    name, _, number = (error.site or "").rpartition(":")
    for program in programs:
        if name and len(programs) > 1 and program.digest.hex()[:_DIGITS] != name:
            continue
        kind: type[Stmt] = Trap if isinstance(error, TrapError) else Loop
        statements = list(walk_statements(program.body))
        if number:
            places = {statements[int(number)].loc} if int(number) < len(statements) else set()
        else:
            tag = error.tag if isinstance(error, TrapError) else None
            places = {s.loc for s in statements if type(s) is kind and (tag is None or getattr(s, "tag", tag) == tag)}
        if len(places) == 1 and (loc := places.pop()) is not None:
            error.place(loc)
            return
