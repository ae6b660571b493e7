"""The submissions of a persistent engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from vyre.adapters.cuda.ptx.mailbox_layout import Row, State
from vyre.adapters.cuda.runtime.mailbox import Rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Entry:
    """The jobs of one submission.

    ``before`` is the number of jobs before them.  ``rows`` is their memory, until they have been settled: then
    ``heads`` holds how they ended, and ``into``, where the caller wants the outputs, what they computed.
    """

    __slots__ = ("before", "count", "heads", "into", "is_wanted", "number", "rows")

    def __init__(self, number: int, before: int, rows: Rows, into: Sequence[memoryview]) -> None:
        self.number: Final = number
        self.before: Final = before
        self.count: Final = len(rows.bytes)
        self.rows: Rows | None = rows
        self.into: Final = into
        self.heads: npt.NDArray[np.uint8] | None = None
        self.is_wanted = True

    def state(self, row: int) -> State:
        """Returns how a job has ended, or that it has not."""
        if self.rows is not None:
            return State(int(self.rows.states[row]))
        assert self.heads is not None
        return State(int(self.heads[row, Row.STATE]))
