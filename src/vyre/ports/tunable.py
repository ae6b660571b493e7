"""The facet of backends that a tuner asks about their device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vyre.domain.dispatch import DispatchConfig
    from vyre.domain.ir.program import Program
    from vyre.domain.launch import Launch
    from vyre.domain.tuning import TimeKind


class Tunable(Protocol):
    """Facts about a device that a tuner needs besides dispatch times; called from one thread at a time."""

    @property
    def kind(self) -> TimeKind:
        """Returns the source of the times.

        ``ESTIMATED`` means that nothing is measured and that candidates are compared by ``work_done``.
        """

    @property
    def device(self) -> str:
        """Returns the name of the device."""

    @property
    def driver(self) -> str:
        """Returns the version of the software that assembles or runs code."""

    @property
    def versions(self) -> str:
        """Returns the versions of the software that generates code."""

    def profiles(self, program: Program, config: DispatchConfig, launch: Launch, /) -> Sequence[str]:
        """Returns the values of ``DispatchConfig.profile`` that give code different from the usual code for this
        launch.
        """

    def occupancy_bps(self, program: Program, config: DispatchConfig, launch: Launch, /) -> int | None:
        """Returns the lanes that a compute unit keeps resident, in parts of 10 000 of its limit; None if unknown."""

    def work_done(self) -> int:
        """Returns the amount of work that the model has counted so far; 0 where times are measured."""
