"""The laws of dialects by which the optimizer may rewrite: those that were checked on all values of their model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vyre.domain.errors import MalformedText
from vyre.domain.optimize.dialect_laws import keep_stated_laws, trusted

if TYPE_CHECKING:
    from vyre.app.dialects.registry import RegistrySnapshot
    from vyre.domain.dialects.laws.law import Law
    from vyre.domain.ir.program import Program


def trusted_laws(program: Program, snapshot: RegistrySnapshot) -> tuple[Law, ...]:
    """Returns the laws of the operations that a program defines, in their forms without calls, that may be used.

    They are equations of the language's own operators, so that they hold whichever definition the program carries.
    Each is checked once in a process, which takes some tenths of a second.  Raises ``MalformedText`` for a text that is
    no law.
    """
    return trusted(_stated(program, snapshot))


def keep_laws(program: Program, expanded: Program, snapshot: RegistrySnapshot) -> None:
    """Keeps the laws of the operations that a program defines with the program that stands for it without calls.

    Nothing is checked before the laws are used.  Without effect where a text is no law, which is reported where the
    dialect is verified.
    """
    try:
        keep_stated_laws(expanded, _stated(program, snapshot))
    except MalformedText:
        return


def _stated(program: Program, snapshot: RegistrySnapshot) -> tuple[Law, ...]:
    named = dict.fromkeys(each.id for each in program.definitions)
    return tuple([law for name in named for stated in snapshot.laws_of(name) for law in stated.laws])
