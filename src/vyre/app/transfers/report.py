"""The results of copying many arrays: the arrays, and a report of how they were copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vyre.domain.frozen import frozen

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Block: TypeAlias = npt.NDArray[np.uint8]


@frozen
class TransferReport:
    """How arrays were copied.  ``print`` it.

    ``arrays`` were copied by ``copies`` operations between host and device, which moved ``nbytes`` bytes.  ``packed``
    ranges of memory were packed first, by ``launches`` launches.  ``why`` is the reason in words.
    """

    arrays: int
    copies: int
    nbytes: int
    packed: int
    launches: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.arrays} arrays: {self.copies} copies of {self.nbytes} bytes, {self.packed} ranges packed by "
            f"{self.launches} launches\n  {self.why}"
        )


class Downloaded(list["Array"]):
    """The arrays that a download returns, and ``report``, which tells how they were copied.

    The arrays may be parts of one block of memory, which lives as long as any of them; no two share a byte.
    """

    __slots__ = ("report",)

    def __init__(self, arrays: Iterable[Array], report: TransferReport) -> None:
        super().__init__(arrays)
        self.report: TransferReport = report


def host_block(nbytes: int) -> Block:
    """Returns host memory of undefined content."""
    return np.empty(nbytes, np.uint8)


def bytes_of(block: Block) -> memoryview:
    """Returns the writable bytes of host memory."""
    return memoryview(block)  # type: ignore[arg-type]  # ndarray has __buffer__ in stubs from 3.12 on
