"""Orders of what depends on each other."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def needed_first(root: T, known: Container[T], needs: Callable[[T], Sequence[T]]) -> Iterator[T]:
    """Yields what ``root`` needs and is not ``known``, each after what it needs itself, and the root last.

    ``needs`` returns what an element needs, which comes in that order; nothing may need itself.  The caller adds every
    element to ``known`` before it asks for the next one.  Does not recurse.
    """
    stack = [root]
    while stack:
        top = stack[-1]
        waiting = [] if top in known else [below for below in needs(top) if below not in known]
        if waiting:
            stack += reversed(waiting)
            continue
        stack.pop()
        if top not in known:
            yield top
