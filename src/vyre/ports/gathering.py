"""The facet that reads any number of ranges of device memory as one operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from vyre.ports.resident_buffer import ResidentBuffer

    Column: TypeAlias = npt.NDArray[np.int64]


class Ranges(NamedTuple):
    """Ranges of device memory as columns: range i is the ``nbytes[i]`` bytes from byte ``offsets[i]`` of buffer number
    ``which[i]`` on, and its bytes go to byte ``places[i]`` of the host memory.
    """

    which: Column
    offsets: Column
    nbytes: Column
    places: Column


class BoundGather(Protocol):
    """Ranges that are read as one operation."""

    def __call__(self, into: memoryview, /) -> None:
        """Copies the present content of all ranges to ``into``, which is writable and holds all places.

        Raises ``InvalidResource`` for a buffer that was closed meanwhile and for memory that is too short, before the
        first byte is copied.  Several threads may call it.
        """


class GatheredReads(Protocol):
    """Reads many ranges at the price of about one copy."""

    def bind(self, buffers: Sequence[ResidentBuffer], ranges: Ranges, /) -> BoundGather:
        """Checks ranges of the buffers, of which no two overlap at their places, and prepares to read them.

        Raises ``InvalidResource`` for a buffer that is closed or of another backend, and for a range outside its
        buffer.
        """
