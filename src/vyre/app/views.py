"""Views for notebooks: data says here that it has one, and ``vyre.app`` hands in the function that makes it."""

from __future__ import annotations

from collections.abc import Callable


def as_html(shown: object) -> str:
    """Returns something as a piece of HTML; notebooks ask for it by ``_repr_html_``."""
    return _views[-1](shown)


def view_by(view_of: Callable[[object], str]) -> None:
    """Sets the function that makes all views."""
    _views[:] = [view_of]


_views: list[Callable[[object], str]] = []
