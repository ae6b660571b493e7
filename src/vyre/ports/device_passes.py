"""The port through which a backend has passes of the optimizer run on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from vyre.domain.optimize.passes import Pass


class DevicePassesOf(Protocol):
    """The passes that run on a device.  Each has the name, the version and the result of one of the host."""

    def __call__(self) -> Mapping[str, Pass]:
        """Returns them by name."""

    def close(self) -> None:
        """Gives back what the passes use; idempotent."""
