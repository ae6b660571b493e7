"""The interface between the reference executor and an engine: prepare a program once, run it on memory many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from vyre.domain.frozen import frozen
from vyre.domain.ir.expr import Literal
from vyre.domain.ir.program import Program
from vyre.domain.launch import Launch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Memory: TypeAlias = "Mapping[str, npt.NDArray[np.uint8]]"
"""The bytes of every buffer that memory is bound to, by name; buffers that the program writes are writable."""


@frozen
class RunOptions:
    """Options of one run.

    ``step_budget``: loop back-edges a lane may take (None: no limit).  ``chunk_workgroups``: workgroups run at once
    (None: the engine chooses).  ``is_late``: whether the time limit has passed (None: no limit),
    after which the run raises ``DispatchTimeout``.
    ``steps_used``: back-edges of each lane by linear global id, carried over the segments of one dispatch.
    """

    step_budget: int | None = None
    chunk_workgroups: int | None = None
    is_late: Callable[[], bool] | None = None
    steps_used: npt.NDArray[np.uint64] | None = None


NO_OPTIONS = RunOptions()


class Kernel(Protocol):
    """A prepared program."""

    def run(self, memory: Memory, launch: Launch, options: RunOptions, /) -> None:
        """Runs the program; re-entrant.  Changes the writable buffers in place.

        Raises ``TrapError``, ``StepBudgetExceeded`` or ``DispatchTimeout``; memory is then undefined.
        """


Engine: TypeAlias = Callable[[Program, Mapping[str, Literal]], Kernel]
"""Prepares a valid program without grid barriers for runs; the mapping replaces specialization constants."""
