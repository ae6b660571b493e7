"""Parameters of a program that hold sizes of arrays: those that a kernel in plain Python has for rows and planes.

The module imports no program, so that bundles run without the language of programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vyre.domain.ir.program import Program

_SIZES: Final = "size parameters"


def size_parameters(program: object) -> Mapping[str, tuple[str, int]]:
    """Returns the parameters that hold sizes of arrays of a kernel in plain Python: the array and the axis of each.

    A caller need not pass those whose array is an input.
    """
    facts: Mapping[str, object] = getattr(program, "_cache", {})
    return facts.get(_SIZES, {})  # type: ignore[return-value]


def with_size_parameters(program: Program, sizes: Mapping[str, tuple[str, int]]) -> Program:
    """Returns ``program`` with what ``size_parameters`` returns for it."""
    program._cache[_SIZES] = sizes
    return program
