"""The programs of a kernel: one for each combination of types, static values and captured constants."""

from __future__ import annotations

from typing import Final, TypeAlias

from vyre.adapters.forks import process_lock
from vyre.domain.frontend.definition import KernelDefinition, Specialized
from vyre.domain.ir.types import ScalarType
from vyre.domain.value_identity import identity
from vyre.ports.interrupts import sealed

Static: TypeAlias = int | float | bool
Key: TypeAlias = tuple[object, ...]
MOST: Final = 1024
"""How many programs of one kernel are kept."""


class Specializations:
    """Makes programs when they are first needed; may be used from any thread."""

    def __init__(self, definition: KernelDefinition, generic: tuple[str, ...], statics: tuple[str, ...]) -> None:
        self._definition: Final = definition
        self._generic: Final = generic
        self._statics: Final = statics
        self._made: dict[Key, tuple[Specialized, ...]] = {}
        self._count = 0
        self._lock = process_lock()

    def get(self, types: tuple[ScalarType, ...], statics: tuple[Static, ...]) -> Specialized:
        """Returns the program for types, static values and the present values of captured constants.

        Raises ``KernelSourceError`` and ``InvalidProgram``.
        """
        key = (types, tuple(map(identity, statics)))
        found = self._current(key)
        if found is None:
            with self._lock, sealed:
                found = self._current(key)
                if found is None:
                    found = self._definition.specialized(
                        dict(zip(self._generic, types, strict=True)), dict(zip(self._statics, statics, strict=True))
                    )
                    if self._count >= MOST:
                        self._made.clear()
                        self._count = 0
                    self._made[key] = (found, *self._made.get(key, ()))
                    self._count += 1
        return found

    def _current(self, key: Key) -> Specialized | None:
        for one in self._made.get(key, ()):
            if one.is_current():
                return one
        return None
