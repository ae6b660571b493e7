"""The registers of lanes that execute together.

A register holds one NumPy scalar if all lanes agree, else an array with one element per lane.  Every array belongs to
one register of one frame, so it may be written in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from vyre.adapters.lanes.types import Dense

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

Numbers: TypeAlias = "NDArray[np.int64] | np.int64"
"""A number per lane, or one for all of them."""
FEW_REGISTERS: Final = 512
"""The largest number of registers and constants of which a subset of lanes gets a whole file."""


class FewRegisters(dict[int, Dense]):
    """The registers of a subset that are in use; others have the value that ``template`` gives them.

    In an entry of many registers a whole file for every subset would cost more than its instructions.
    """

    __slots__ = ("_template",)

    def __init__(self, template: list[Dense]) -> None:
        super().__init__()
        self._template = template

    def __missing__(self, register: int) -> Dense:
        return self._template[register]


Registers: TypeAlias = "list[Dense] | FewRegisters"


def gathered(template: list[Dense], registers: Registers, where: NDArray[np.int64], reads: Iterable[int]) -> Registers:
    """Returns the registers of a subset.  ``template`` has the constants."""
    result: Registers = list(template) if len(template) <= FEW_REGISTERS else FewRegisters(template)
    for register in reads:
        value = registers[register]
        result[register] = value[where] if isinstance(value, np.ndarray) and value.ndim else value
    return result


def scatter(
    registers: Registers, source: Registers, where: NDArray[np.int64], writes: Iterable[int], size: int
) -> None:
    """Writes the registers of a subset back."""
    for register in writes:
        target, value = registers[register], source[register]
        if not isinstance(target, np.ndarray) or not target.ndim:
            if value.ndim == 0 and value.tobytes() == target.tobytes():
                continue
            target = registers[register] = np.full(size, target)
        target[where] = value
