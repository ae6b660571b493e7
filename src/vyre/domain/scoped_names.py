"""``ScopedNames`` maps each name that is visible at one point of a walk to its meaning there."""

from __future__ import annotations

from typing import Final, TypeVar

_V = TypeVar("_V")
_ABSENT: Final = object()


class ScopedNames(dict[str, _V]):
    """A dictionary from names whose entries end with the scope that declared them.

    A walk takes ``mark`` where a scope begins, adds names by ``declare``, and passes the mark to ``leave`` where the
    scope ends.  Leaving costs as much as was declared since the mark, however many names are visible.
    """

    __slots__ = ("_declared",)

    def __init__(self) -> None:
        super().__init__()
        self._declared: list[tuple[str, object]] = []

    @property
    def mark(self) -> int:
        """Returns the number of declarations in force."""
        return len(self._declared)

    def declare(self, name: str, value: _V) -> None:
        """Lets ``name`` denote ``value`` until the scope ends, and then again what it denoted before."""
        self._declared.append((name, self.get(name, _ABSENT)))
        self[name] = value

    def leave(self, mark: int) -> None:
        """Ends the scope that began at ``mark``."""
        declared = self._declared
        while len(declared) > mark:
            name, before = declared.pop()
            if before is _ABSENT:
                del self[name]
            else:
                self[name] = before  # type: ignore[assignment]
