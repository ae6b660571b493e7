"""``UniqueNames``: the names of one program under construction, each of which is given once."""

from __future__ import annotations

from collections.abc import Iterable


class UniqueNames:
    """The names that are in use, at first those ``taken``.  ``name in names`` tells whether one is."""

    __slots__ = ("_used",)

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._used: dict[str, int] = dict.fromkeys(taken, 1)

    def __contains__(self, name: str) -> bool:
        return name in self._used

    def unique(self, hint: str) -> str:
        """Returns ``hint``, or ``hint_1``, ``hint_2`` ... if it is in use, and reserves that name."""
        used = self._used.get(hint, 0)
        self._used[hint] = used + 1
        if used == 0:
            return hint
        candidate = f"{hint}_{used}"
        if candidate in self._used:
            return self.unique(hint)
        self._used[candidate] = 1
        return candidate

    def reserve(self, name: str) -> None:
        """Marks a name as in use."""
        self._used[name] = 1
