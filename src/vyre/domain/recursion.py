"""The error for programs whose caller has used up the recursion limit of Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from vyre.domain.program_report import InvalidProgram

P = ParamSpec("P")
R = TypeVar("R")


def telling_of_depth(function: Callable[P, R]) -> Callable[P, R]:
    """Makes a function that walks over programs raise ``InvalidProgram`` for ``RecursionError``.

    A valid program nests less deep than the recursion limit allows, unless the caller stands deep in a recursion.
    """

    @wraps(function)
    def told(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return function(*arguments, **named)
        except RecursionError:
            pass
        raise InvalidProgram(
            "the program nests deeper than the recursion limit of Python allows here",
            fix="call this from less deep in a recursion, or raise the limit with sys.setrecursionlimit().",
        )

    return told
