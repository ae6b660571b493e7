"""Views for notebooks, which stand above what they show: data says here that it has one."""

from __future__ import annotations

from typing import Final

from vyre.domain.lazy_names import FunctionAbove

_view_of: Final = FunctionAbove[[object], str]("as_html")


def as_html(shown: object) -> str:
    """Returns something as a piece of HTML; notebooks ask for it by ``_repr_html_``."""
    return _view_of(shown)
