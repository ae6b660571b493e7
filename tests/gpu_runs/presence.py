"""Is there an NVIDIA GPU here at all?  Looks only: loads the driver library, starts nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from vyre.adapters.cuda.drivers import DRIVER_LIBRARY

_NODES: Final = ("nvidia[0-9]*", "nvidiactl", "dxg", "nvhost-gpu")  # dxg: WSL 2; nvhost-gpu: Tegra


class Presence(NamedTuple):
    """Device nodes found, and why the driver library cannot be loaded (None: it can)."""

    nodes: tuple[str, ...]
    driver_error: str | None

    @property
    def absent(self) -> bool:
        """Neither a device nor a driver: there is nothing to test."""
        return not self.nodes and self.driver_error is not None

    @property
    def problem(self) -> str | None:
        """Why a GPU that seems to be there cannot be used, as far as one can see without starting the driver."""
        if self.driver_error is not None:
            return f"there is {', '.join(self.nodes)}, but {self.driver_error}"
        return None


def look(devices: Path = Path("/dev"), load: Callable[[str], object] = ctypes.CDLL) -> Presence:
    nodes = tuple(sorted(str(node) for pattern in _NODES for node in devices.glob(pattern)))
    try:
        load(DRIVER_LIBRARY)
    except OSError as error:
        return Presence(nodes, f"{DRIVER_LIBRARY} cannot be loaded ({error})")
    return Presence(nodes, None)
