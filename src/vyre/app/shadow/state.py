"""The reports to callers: the state of one dispatch, and the counts of a session."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from vyre.domain.dispatch import DispatchTiming
from vyre.domain.evidence.differences import OutputDifference
from vyre.ports.interrupts import wait_at

if TYPE_CHECKING:
    from pathlib import Path


class ShadowStatus(Enum):
    """The fate of a sampled dispatch.

    ``DROPPED``: it was sampled, and not compared for want of budget or room, or because it failed.  ``SKIPPED``: it
    cannot be compared, because its bytes may depend on an order, or the other backend lacks a feature.
    """

    NOT_SAMPLED = "not sampled"
    PENDING = "pending"
    AGREED = "agreed"
    DIFFERS = "differs"
    DROPPED = "dropped"
    SKIPPED = "skipped"


class ShadowState:
    """The state of one dispatch, which changes once the shadow has run it.  Any thread may use it.

    ``difference`` is the first one, and ``evidence`` the bundle that holds it; both are None until the dispatch is
    known to differ.
    """

    __slots__ = ("_gate", "_reason", "difference", "evidence", "status")

    def __init__(self, status: ShadowStatus, reason: object = "") -> None:
        """``reason`` becomes a text when somebody asks for it."""
        self.status: ShadowStatus = status
        self._reason = reason
        self.difference: OutputDifference | None = None
        self.evidence: Path | None = None
        self._gate: Final = Lock()
        """Held until the state is final."""
        if self.is_pending:
            self._gate.acquire()

    @property
    def reason(self) -> str:
        """Why it was dropped or skipped, or the difference; empty for the other states."""
        return str(self._reason)

    @property
    def is_pending(self) -> bool:
        """Whether it will be compared."""
        return self.status is ShadowStatus.PENDING

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the state is final, at most ``timeout`` seconds; returns whether it is."""
        wait_at(self._gate, lambda: not self.is_pending, timeout)
        return not self.is_pending

    def settle(self, status: ShadowStatus, reason: str = "") -> None:
        """Makes the state final.  Only the shadow calls it, once."""
        self._reason, self.status = reason, status
        self._gate.release()

    def __repr__(self) -> str:
        more = f": {self.reason}" if self.reason else ""
        return f"<ShadowState {self.status.value}{more}>"


NOT_SAMPLED: Final = ShadowState(ShadowStatus.NOT_SAMPLED)


class ShadowedTiming(DispatchTiming):
    """The times of a dispatch that was sampled, and the state of its sample."""

    shadow: ShadowState

    @classmethod
    def of(cls, timing: DispatchTiming, state: ShadowState) -> ShadowedTiming:
        """Returns ``timing`` with a state."""
        shadowed = cls._make(timing)
        shadowed.shadow = state
        return shadowed

    def _replace(self, **changes: Any) -> Self:
        replaced = super()._replace(**changes)
        replaced.shadow = self.shadow
        return replaced


def state_of(timing: DispatchTiming) -> ShadowState:
    """Returns the state of the dispatch with these times."""
    return timing.shadow if isinstance(timing, ShadowedTiming) else NOT_SAMPLED


class Quarantined(NamedTuple):
    """A program whose code gave other bytes than the shadow, and what has become of its dispatches."""

    program: str
    difference: OutputDifference
    evidence: Path | None
    fallback: str

    def __str__(self) -> str:
        kept = "" if self.evidence is None else f"; evidence in {self.evidence}"
        return f"`{self.program}`: {self.difference}; {self.fallback}{kept}"


class ShadowReport(NamedTuple):
    """Counts of what the shadow of a session did so far.

    ``sampled`` dispatches became ``agreed``, ``differs``, ``dropped`` by reason, or ``skipped``; ``pending`` are left.
    ``skipped_programs`` names programs that cannot be compared, with the reason.  ``copied_bytes`` were copied for
    samples.  ``spent_ns`` is the time that it took: copies on the threads of callers, and runs on its own.
    ``quarantined``: programs that run without optimizations now.
    """

    checked_on: str
    sampled: int
    pending: int
    agreed: int
    differs: int
    dropped: Mapping[str, int]
    skipped: int
    skipped_programs: Mapping[str, str]
    copied_bytes: int
    spent_ns: int
    quarantined: tuple[Quarantined, ...]

    def __str__(self) -> str:
        dropped = ", ".join(f"{count} for {why}" for why, count in sorted(self.dropped.items())) or "none"
        lines = [
            f"shadow on `{self.checked_on}`: {self.sampled} sampled, {self.agreed} agreed, {self.differs} differ, "
            f"{self.skipped} skipped, {self.pending} pending; dropped: {dropped}",
            f"  {self.copied_bytes} bytes copied, {self.spent_ns / 1e6:.3f} ms spent",
        ]
        lines += [f"  - `{name}` is skipped: {why}" for name, why in self.skipped_programs.items()]
        lines += [f"  ! {each}" for each in self.quarantined]
        return "\n".join(lines)
