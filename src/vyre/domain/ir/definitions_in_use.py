"""``DefinitionsInUse``: the definitions that a program under construction carries."""

from __future__ import annotations

from typing import Final

from vyre.domain.errors import UnknownOperation
from vyre.domain.ir.caller import fail
from vyre.domain.ir.definitions import Definition
from vyre.domain.ir.expr import Call
from vyre.domain.ir.stmt import operands, walk_statements
from vyre.domain.ir.walk import unique_nodes
from vyre.domain.lazy_names import FunctionAbove
from vyre.domain.printable import shown
from vyre.domain.source_location import SourceLocation

_found_definitions: Final = FunctionAbove[[str], tuple[Definition, ...]]("found_definitions")
"""Returns the definition of an operation that is registered, behind those that it calls."""

warn_of_deprecated: Final = FunctionAbove[[Definition, SourceLocation], None]("warn_of_deprecated")
"""Warns of the call of a registered operation that is out of use, at the line that calls it."""


class DefinitionsInUse:
    """Definitions by id, each behind those that it calls."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, Definition] = {}

    def all(self) -> tuple[Definition, ...]:
        """Returns the definitions in the order in which a program holds them."""
        return tuple(self._known.values())

    def add(self, definition: Definition) -> Definition:
        """Adds a definition, and from the registry those that it calls and that are unknown; returns it.

        Raises ``BuildError`` for another definition of the same id, and for a call of what is nowhere defined.
        """
        if not isinstance(definition, Definition):
            fail(f"{shown(definition)} is no definition", "pass a vyre.ir.Definition.")
        known = self._known.get(definition.id)
        if known is not None:
            if known != definition:
                fail(
                    f"`{definition.id}` has another definition in this program",
                    "use one definition of an operation in a program, or give one of them another id.",
                )
            return known
        for called in called_operations(definition):
            self.named(called)
        self._known[definition.id] = definition
        return definition

    def named(self, operation: str) -> Definition:
        """Returns the definition of an id: that of the program, else that of the registry, which it adds.

        Raises ``BuildError`` for an id that neither has.
        """
        known = self._known.get(operation)
        if known is not None:
            return known
        try:
            definitions = _found_definitions(operation)
        except UnknownOperation as error:
            fail(error.message, error.fix)
        for definition in definitions:
            self._known.setdefault(definition.id, definition)
        return self._known[operation]


def called_operations(definition: Definition) -> list[str]:
    """Returns the ids of the operations that a definition calls."""
    roots = [root for stmt in walk_statements(definition.body) for root in operands(stmt)]
    return [node.op for node in unique_nodes((*roots, definition.result)) if type(node) is Call]
