"""Errors of programs of the array language, each with its place in the text."""

from __future__ import annotations

from vyre.ir import SourceLocation


class ArrayError(Exception):
    """The root: ``message`` says what is wrong, ``place`` where; the text shows the line and underlines the column."""

    def __init__(self, message: str, place: SourceLocation) -> None:
        self.message = message
        self.place = place
        line, column = place.text or "", place.column or 1
        super().__init__(f"{place}: {message}\n    {line}\n    {' ' * (column - 1)}^")


class ParseError(ArrayError):
    """The text is no program of the language."""


class ShapeError(ArrayError):
    """Types, shapes or names do not fit, those of arrays that are passed in among them."""


class NotSupported(ArrayError):
    """The device lacks something that the program needs: the verdict of vyre, before anything was compiled."""


class RunError(ArrayError):
    """The device failed while the program ran; the error of vyre is ``__cause__``."""
